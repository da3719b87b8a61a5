//! The loops that all vector kernels share: blocks of outputs in registers, sources going by.

use super::{Product, Spread, portable};

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

/// [`super::Multiply`] with the instructions of `V`: `M` outputs at a time, which share what is
/// done to a source, with `N` registers of each; a single output has `L` registers.
///
/// The sources' part of a block stays in the first level of cache for all outputs.
#[inline(always)]
pub(super) unsafe fn multiply<V: Vector, const M: usize, const N: usize, const L: usize>(
    product: Product<'_>,
) {
    let Product { y, y_stride, len, matrix, sources, rows, stride } = product;
    let outputs = matrix.len() / sources;
    let mut at = 0;
    while at < len {
        let block = match len - at {
            rest if outputs < M && rest >= L * V::BYTES => L * V::BYTES,
            rest if outputs >= M && rest >= N * V::BYTES => N * V::BYTES,
            rest if rest >= V::BYTES => V::BYTES,
            rest => rest,
        };
        let mut first = 0;
        while first < outputs {
            let group = if outputs - first >= M && block == N * V::BYTES { M } else { 1 };
            let y = &mut y[first * y_stride + at..];
            let coefficients = &matrix[first * sources..][..group * sources];
            let rows = &rows[at..];
            // SAFETY: `y` has `block` bytes from here on in each row of the group, and so has each
            // source; the instruction set is the caller's promise.
            unsafe {
                if group == M && block == N * V::BYTES {
                    combine_block::<V, M, N>(y, y_stride, coefficients, rows, stride);
                } else if block == L * V::BYTES {
                    combine_block::<V, 1, L>(y, y_stride, coefficients, rows, stride);
                } else if block == N * V::BYTES {
                    combine_block::<V, 1, N>(y, y_stride, coefficients, rows, stride);
                } else if block == V::BYTES {
                    combine_block::<V, 1, 1>(y, y_stride, coefficients, rows, stride);
                } else {
                    portable::combine(&mut y[..block], coefficients, rows, stride);
                }
            }
            first += group;
        }
        at += block;
    }
}

/// The first `N` registers of `M` rows of `y`.
#[inline(always)]
unsafe fn combine_block<V: Vector, const M: usize, const N: usize>(
    y: &mut [u8],
    y_stride: usize,
    coefficients: &[u8],
    rows: &[u8],
    stride: usize,
) {
    let sources = coefficients.len() / M;
    debug_assert!(y.len() >= (M - 1) * y_stride + N * V::BYTES, "a block is whole");
    debug_assert!(rows.len() >= (sources - 1) * stride + N * V::BYTES, "sources are whole");
    let (y, rows, coefficients) = (y.as_mut_ptr(), rows.as_ptr(), coefficients.as_ptr());
    // SAFETY: the caller says that M rows of `y` and every source have N registers from here on;
    // there are M times as many coefficients as sources. The instruction set is the caller's
    // promise too.
    unsafe {
        let mut sums = [[V::zero(); N]; M];
        for (m, sums) in sums.iter_mut().enumerate() {
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum = V::load(y.add(m * y_stride + j * V::BYTES));
            }
        }
        for i in 0..sources {
            let mut factors = [V::factor(*coefficients.add(i)); M];
            for (m, factor) in factors.iter_mut().enumerate().skip(1) {
                *factor = V::factor(*coefficients.add(m * sources + i));
            }
            let source = rows.add(i * stride);
            for j in 0..N {
                let x = V::load(source.add(j * V::BYTES));
                for (sums, &factor) in sums.iter_mut().zip(&factors) {
                    sums[j] = sums[j].add_scaled(factor, x);
                }
            }
        }
        for (m, sums) in sums.iter().enumerate() {
            for (j, sum) in sums.iter().enumerate() {
                sum.store(y.add(m * y_stride + j * V::BYTES));
            }
        }
    }
}

/// [`super::SpreadOver`] with the instructions of `V`, `N` registers of the source at a time.
#[inline(always)]
pub(super) unsafe fn spread<V: Vector, const N: usize>(spread: Spread<'_>) {
    let Spread { rows, stride, factors, x } = spread;
    let (mut at, len) = (0, x.len());
    while len - at >= N * V::BYTES {
        // SAFETY: the block ends at or before `x` does, and each row is as long as `x`; the
        // instruction set is the caller's promise.
        unsafe { spread_block::<V, N>(&mut rows[at..], stride, factors, &x[at..]) };
        at += N * V::BYTES;
    }
    while len - at >= V::BYTES {
        // SAFETY: as above, for a block of one register.
        unsafe { spread_block::<V, 1>(&mut rows[at..], stride, factors, &x[at..]) };
        at += V::BYTES;
    }
    if at < len {
        portable::spread(Spread { rows: &mut rows[at..], stride, factors, x: &x[at..] });
    }
}

/// The first `N` registers of `x` and of each row.
#[inline(always)]
unsafe fn spread_block<V: Vector, const N: usize>(
    rows: &mut [u8],
    stride: usize,
    factors: &[u8],
    x: &[u8],
) {
    debug_assert!(rows.len() >= (factors.len() - 1) * stride + N * V::BYTES, "rows are whole");
    debug_assert!(x.len() >= N * V::BYTES, "a block is whole");
    let (rows, x) = (rows.as_mut_ptr(), x.as_ptr());
    // SAFETY: the caller says that `x` and every row have N registers from here on, and promises
    // the instruction set.
    unsafe {
        let mut source = [V::zero(); N];
        for (j, source) in source.iter_mut().enumerate() {
            *source = V::load(x.add(j * V::BYTES));
        }
        for (i, &c) in factors.iter().enumerate() {
            let factor = V::factor(c);
            for (j, &source) in source.iter().enumerate() {
                let y = rows.add(i * stride + j * V::BYTES);
                V::load(y).add_scaled(factor, source).store(y);
            }
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
