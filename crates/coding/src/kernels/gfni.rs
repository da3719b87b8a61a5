//! GFNI: `GF2P8MULB` multiplies in this very field, 64 bytes at a time with AVX-512, else 32.

use std::arch::x86_64::{
    __m256i, __m512i, _mm256_gf2p8mul_epi8, _mm256_loadu_si256, _mm256_set1_epi8,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm256_xor_si256, _mm512_gf2p8mul_epi8,
    _mm512_loadu_si512, _mm512_set1_epi8, _mm512_setzero_si512, _mm512_storeu_si512,
    _mm512_xor_si512,
};

use super::vector::{self, Vector};
use super::{Kernel, Product, Spread};

/// For processors with GFNI, AVX-512F and AVX-512BW.
pub(super) const WIDE: Kernel =
    Kernel { name: "gfni-avx512", multiply: multiply_wide, spread: spread_wide, scale: scale_wide };

/// For processors with GFNI and AVX2.
pub(super) const NARROW: Kernel = Kernel {
    name: "gfni-avx2",
    multiply: multiply_narrow,
    spread: spread_narrow,
    scale: scale_narrow,
};

#[target_feature(enable = "gfni,avx512f,avx512bw")]
unsafe fn multiply_wide(product: Product<'_>) {
    // SAFETY: the caller keeps the promise of `Multiply`; the instructions are enabled here.
    unsafe { vector::multiply::<Wide, 4, 4, 8>(product) };
}

#[target_feature(enable = "gfni,avx512f,avx512bw")]
unsafe fn spread_wide(spread: Spread<'_>) {
    // SAFETY: the caller keeps the promise of `SpreadOver`; the instructions are enabled here.
    unsafe { vector::spread::<Wide, 4>(spread) };
}

#[target_feature(enable = "gfni,avx512f,avx512bw")]
unsafe fn scale_wide(y: &mut [u8], c: u8) {
    // SAFETY: the caller keeps the promise of `Scale`; the instructions are enabled here.
    unsafe { vector::scale::<Wide>(y, c) };
}

#[target_feature(enable = "gfni,avx2")]
unsafe fn multiply_narrow(product: Product<'_>) {
    // SAFETY: the caller keeps the promise of `Multiply`; the instructions are enabled here.
    unsafe { vector::multiply::<Narrow, 2, 4, 8>(product) };
}

#[target_feature(enable = "gfni,avx2")]
unsafe fn spread_narrow(spread: Spread<'_>) {
    // SAFETY: the caller keeps the promise of `SpreadOver`; the instructions are enabled here.
    unsafe { vector::spread::<Narrow, 4>(spread) };
}

#[target_feature(enable = "gfni,avx2")]
unsafe fn scale_narrow(y: &mut [u8], c: u8) {
    // SAFETY: the caller keeps the promise of `Scale`; the instructions are enabled here.
    unsafe { vector::scale::<Narrow>(y, c) };
}

#[derive(Clone, Copy)]
struct Wide(__m512i);

impl Vector for Wide {
    /// The coefficient in every byte.
    type Factor = __m512i;

    const BYTES: usize = 64;

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        // SAFETY: AVX-512 is the caller's promise.
        unsafe { _mm512_set1_epi8(c as i8) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: AVX-512 is the caller's promise.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn add_scaled(self, factor: Self::Factor, x: Self) -> Self {
        // SAFETY: only registers are used; GFNI and AVX-512 are the caller's promise.
        Self(unsafe { _mm512_xor_si512(self.0, _mm512_gf2p8mul_epi8(x.0, factor)) })
    }
}

#[derive(Clone, Copy)]
struct Narrow(__m256i);

impl Vector for Narrow {
    /// The coefficient in every byte.
    type Factor = __m256i;

    const BYTES: usize = 32;

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        // SAFETY: AVX2 is the caller's promise.
        unsafe { _mm256_set1_epi8(c as i8) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: AVX2 is the caller's promise.
        Self(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn add_scaled(self, factor: Self::Factor, x: Self) -> Self {
        // SAFETY: only registers are used; GFNI and AVX2 are the caller's promise.
        Self(unsafe { _mm256_xor_si256(self.0, _mm256_gf2p8mul_epi8(x.0, factor)) })
    }
}
