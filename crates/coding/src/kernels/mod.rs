//! The inner loops of coding, `y += Σ c_i · x_i` and `y = c · y` over GF(2^8), one file for each
//! instruction set, all with the same results.
//!
//! A [`Kernel`] is chosen once, by what the processor has, and passed to whoever computes. Several
//! sources are added in one pass over the output: a block of it stays in registers while the
//! sources go by. Unsafe code of the crate is here and nowhere else.
#![expect(unsafe_code, reason = "vector instructions and aligned memory")]

mod aligned;
mod portable;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod gfni;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod ssse3;

#[cfg(test)]
mod tests;

use std::fmt;

pub(crate) use aligned::AlignedBuffer;

/// Bytes to which rows are aligned and padded in memory: the widest vector, and a cache line.
pub const ROW_ALIGN: usize = 64;

/// A product of matrices, added to what is there: row j of `y` += Σ matrix[j][i] · row i of `rows`.
struct Product<'a> {
    /// The outputs, `y_stride` bytes apart, which is at least `len`.
    y: &'a mut [u8],
    y_stride: usize,
    /// Bytes of an output, and of a source as far as it is used.
    len: usize,
    /// The coefficients, `sources` (at least one) for each output.
    matrix: &'a [u8],
    sources: usize,
    /// The sources, `stride` bytes apart.
    rows: &'a [u8],
    stride: usize,
}

/// One row added to many: row i of `rows` += factors[i] · x.
struct Spread<'a> {
    /// The outputs, `stride` bytes apart, which is at least the length of `x`.
    rows: &'a mut [u8],
    stride: usize,
    /// At least one.
    factors: &'a [u8],
    x: &'a [u8],
}

/// May only be called where its instruction set is, with outputs and sources that are long enough.
type Multiply = unsafe fn(Product<'_>);

/// May only be called where its instruction set is, with rows that are long enough.
type SpreadOver = unsafe fn(Spread<'_>);

/// `y = c · y`. May only be called where its instruction set is.
type Scale = unsafe fn(y: &mut [u8], c: u8);

/// One implementation of the inner loops, which this processor can run.
#[derive(Clone, Copy)]
pub struct Kernel {
    name: &'static str,
    multiply: Multiply,
    spread: SpreadOver,
    scale: Scale,
}

impl Kernel {
    /// The table code, which runs everywhere.
    pub const PORTABLE: Self = Self {
        name: "portable",
        multiply: portable::multiply,
        spread: portable::spread,
        scale: portable::scale,
    };

    /// The fastest kernel that this processor can run.
    pub fn best() -> Self {
        Self::available().next().unwrap_or(Self::PORTABLE)
    }

    /// Every kernel that this processor can run, fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::vectorised().into_iter().flatten().chain([Self::PORTABLE])
    }

    #[cfg(target_arch = "x86_64")]
    fn vectorised() -> [Option<Self>; 5] {
        let bw = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        let avx2 = is_x86_feature_detected!("avx2");
        let gfni = is_x86_feature_detected!("gfni");
        [
            (gfni && bw).then_some(gfni::WIDE),
            (gfni && avx2).then_some(gfni::NARROW),
            bw.then_some(avx512::KERNEL),
            avx2.then_some(avx2::KERNEL),
            is_x86_feature_detected!("ssse3").then_some(ssse3::KERNEL),
        ]
    }

    #[cfg(target_arch = "aarch64")]
    fn vectorised() -> [Option<Self>; 1] {
        [std::arch::is_aarch64_feature_detected!("neon").then_some(neon::KERNEL)]
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn vectorised() -> [Option<Self>; 0] {
        []
    }

    /// The instruction set: `gfni-avx512`, `gfni-avx2`, `avx512bw`, `avx2`, `ssse3`, `neon` or
    /// `portable`.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// `y += Σ c_i · x_i`, where x_i is the `y.len()` bytes of `rows` from i · `stride` on, and
    /// there are as many c_i as `coefficients`. Fastest if `y.len()` is a multiple of [`ROW_ALIGN`]
    /// and the rows are aligned to it.
    ///
    /// # Panics
    ///
    /// If `rows` ends before the last of the x_i does.
    pub fn combine(self, y: &mut [u8], coefficients: &[u8], rows: &[u8], stride: usize) {
        let (len, sources) = (y.len(), coefficients.len());
        self.multiply(y, len, (coefficients, sources), rows, stride);
    }

    /// Several combinations of the same sources: the outputs are the rows of `y`, `y_stride` bytes
    /// apart and the last of `y.len() % y_stride` bytes, or as many if that is zero; each has that
    /// length. The matrix is its coefficients row by row, and how many there are for each output.
    pub(crate) fn multiply(
        self,
        y: &mut [u8],
        y_stride: usize,
        (matrix, sources): (&[u8], usize),
        rows: &[u8],
        stride: usize,
    ) {
        if matrix.is_empty() || y.is_empty() {
            return;
        }
        let outputs = matrix.len() / sources;
        assert_eq!(outputs * sources, matrix.len(), "outputs have the same number of coefficients");
        assert_eq!(outputs, y.len().div_ceil(y_stride), "each output has coefficients");
        let len = y.len() - (outputs - 1) * y_stride;
        assert!(whole(sources, stride, len, rows.len()), "each coefficient has a whole row");
        let product = Product { y, y_stride, len, matrix, sources, rows, stride };
        // SAFETY: only `vectorised` hands out kernels with instructions of their own, after asking
        // the processor for them. There are as many outputs as matrix rows, `y_stride` apart, of
        // `len` bytes, which is at most `y_stride` by its definition; the sources were just seen
        // to lie inside `rows`.
        unsafe { (self.multiply)(product) };
    }

    /// One row added to many: the `x.len()` bytes of `rows` from i · `stride` on += factors[i] · x.
    pub(crate) fn spread(self, rows: &mut [u8], stride: usize, factors: &[u8], x: &[u8]) {
        if factors.is_empty() {
            return;
        }
        assert!(whole(factors.len(), stride, x.len(), rows.len()), "each factor has a whole row");
        // SAFETY: as in `multiply`, the processor has the kernel's instructions, and every row was
        // just seen to lie inside `rows`.
        unsafe { (self.spread)(Spread { rows, stride, factors, x }) };
    }

    /// `y += c · x`.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn add_scaled(self, y: &mut [u8], c: u8, x: &[u8]) {
        assert_eq!(y.len(), x.len(), "rows that are added have one length");
        self.spread(y, 0, &[c], x);
    }

    /// `y = c · y`.
    pub fn scale(self, y: &mut [u8], c: u8) {
        // SAFETY: as in `multiply`, the processor has the kernel's instructions.
        unsafe { (self.scale)(y, c) };
    }
}

/// Whether `count` rows of `len` bytes, `stride` bytes apart, end within `bytes`.
fn whole(count: usize, stride: usize, len: usize, bytes: usize) -> bool {
    let last = count.saturating_sub(1).checked_mul(stride);
    last.and_then(|start| start.checked_add(len)).is_some_and(|end| end <= bytes)
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernel").field(&self.name).finish()
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Default for Kernel {
    fn default() -> Self {
        Self::best()
    }
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
