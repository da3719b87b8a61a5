//! AVX2: as SSSE3, 32 bytes at a time.

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
    _mm256_storeu_si256, _mm256_xor_si256,
};

use super::vector::{self, Vector};
use super::{Kernel, Product, Spread};
use crate::gf256::NIBBLES;

/// For processors with AVX2.
pub(super) const KERNEL: Kernel = Kernel { name: "avx2", multiply, spread, scale };

#[target_feature(enable = "avx2")]
unsafe fn multiply(product: Product<'_>) {
    // SAFETY: the caller keeps the promise of `Multiply`; AVX2 is enabled here.
    unsafe { vector::multiply::<Lane, 2, 2, 8>(product) };
}

#[target_feature(enable = "avx2")]
unsafe fn spread(spread: Spread<'_>) {
    // SAFETY: the caller keeps the promise of `SpreadOver`; AVX2 is enabled here.
    unsafe { vector::spread::<Lane, 4>(spread) };
}

#[target_feature(enable = "avx2")]
unsafe fn scale(y: &mut [u8], c: u8) {
    // SAFETY: the caller keeps the promise of `Scale`; AVX2 is enabled here.
    unsafe { vector::scale::<Lane>(y, c) };
}

#[derive(Clone, Copy)]
struct Lane(__m256i);

impl Vector for Lane {
    /// Products with the low and the high half of a byte, in both halves of the register.
    type Factor = [__m256i; 2];

    const BYTES: usize = 32;

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let table = NIBBLES[usize::from(c)].as_ptr();
        // No closure: one would not have the instruction set, and might stay a call.
        // SAFETY: the table has 32 bytes; AVX2 is the caller's promise.
        unsafe {
            let (low, high) = (table.cast(), table.add(16).cast());
            [
                _mm256_broadcastsi128_si256(_mm_loadu_si128(low)),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(high)),
            ]
        }
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
    unsafe fn add_scaled(self, [low, high]: Self::Factor, x: Self) -> Self {
        // SAFETY: only registers are used, and AVX2 is the caller's promise.
        unsafe {
            let half = _mm256_set1_epi8(15);
            let l = _mm256_shuffle_epi8(low, _mm256_and_si256(x.0, half));
            let h = _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16::<4>(x.0), half));
            Self(_mm256_xor_si256(self.0, _mm256_xor_si256(l, h)))
        }
    }
}
