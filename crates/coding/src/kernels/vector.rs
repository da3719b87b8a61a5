//! The loops that all vector kernels share: blocks of the output in registers, sources going by.

use super::portable;

/// A vector register of bytes, and how an instruction set multiplies it by a coefficient.
///
/// The functions may only be called where the instruction set is, and are inlined into a function
/// that enables it.
pub(super) trait Vector: Copy {
    /// What is looked up or spread once for a coefficient.
    type Factor: Copy;

    /// Bytes of the register.
    const BYTES: usize;

    /// Prepares the multiplication by `c`.
    unsafe fn factor(c: u8) -> Self::Factor;

    /// Reads [`Self::BYTES`] bytes, which must be readable; no alignment is needed.
    unsafe fn load(from: *const u8) -> Self;

    /// Writes [`Self::BYTES`] bytes, which must be writable; no alignment is needed.
    unsafe fn store(self, to: *mut u8);

    /// All bytes zero.
    unsafe fn zero() -> Self;

    /// `self + factor · x`.
    unsafe fn add_scaled(self, factor: Self::Factor, x: Self) -> Self;
}

/// [`super::Combine`] with the instructions of `V`, `N` registers of output at a time.
#[inline(always)]
pub(super) unsafe fn combine<V: Vector, const N: usize>(
    y: &mut [u8],
    coefficients: &[u8],
    rows: &[u8],
    stride: usize,
) {
    let (mut at, len) = (0, y.len());
    while len - at >= N * V::BYTES {
        // SAFETY: the block ends at or before `y` does, and each row is as long as `y`.
        unsafe { combine_block::<V, N>(&mut y[at..], coefficients, &rows[at..], stride) };
        at += N * V::BYTES;
    }
    while len - at >= V::BYTES {
        // SAFETY: as above, for a block of one register.
        unsafe { combine_block::<V, 1>(&mut y[at..], coefficients, &rows[at..], stride) };
        at += V::BYTES;
    }
    if at < len {
        portable::combine(&mut y[at..], coefficients, &rows[at..], stride);
    }
}

/// The first `N` registers of `y`.
#[inline(always)]
unsafe fn combine_block<V: Vector, const N: usize>(
    y: &mut [u8],
    coefficients: &[u8],
    rows: &[u8],
    stride: usize,
) {
    debug_assert!(y.len() >= N * V::BYTES, "a block is whole");
    let (y, rows) = (y.as_mut_ptr(), rows.as_ptr());
    // SAFETY: the caller says that `y` and every row have N registers from here on; `stride` times
    // the row's number stays inside `rows`. The instruction set is the caller's promise too.
    unsafe {
        let mut sums = [V::zero(); N];
        for (j, sum) in sums.iter_mut().enumerate() {
            *sum = V::load(y.add(j * V::BYTES));
        }
        for (i, &c) in coefficients.iter().enumerate() {
            let factor = V::factor(c);
            let x = rows.add(i * stride);
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum = sum.add_scaled(factor, V::load(x.add(j * V::BYTES)));
            }
        }
        for (j, sum) in sums.iter().enumerate() {
            sum.store(y.add(j * V::BYTES));
        }
    }
}

/// [`super::Scale`] with the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn scale<V: Vector>(y: &mut [u8], c: u8) {
    let whole = y.len() - y.len() % V::BYTES;
    let (body, tail) = y.split_at_mut(whole);
    // SAFETY: each chunk is one register long; the instruction set is the caller's promise.
    unsafe {
        let factor = V::factor(c);
        for chunk in body.chunks_exact_mut(V::BYTES) {
            V::zero().add_scaled(factor, V::load(chunk.as_ptr())).store(chunk.as_mut_ptr());
        }
    }
    portable::scale(tail, c);
}
