//! SSSE3: two look-ups in 16-byte tables with `PSHUFB`, 16 bytes at a time.

use std::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_setzero_si128, _mm_shuffle_epi8,
    _mm_srli_epi16, _mm_storeu_si128, _mm_xor_si128,
};

use super::vector::{self, Vector};
use super::{Kernel, Product, Spread};
use crate::gf256::NIBBLES;

/// For processors with SSSE3.
pub(super) const KERNEL: Kernel = Kernel { name: "ssse3", multiply, spread, scale };

#[target_feature(enable = "ssse3")]
unsafe fn multiply(product: Product<'_>) {
    // SAFETY: the caller keeps the promise of `Multiply`; SSSE3 is enabled here.
    unsafe { vector::multiply::<Lane, 2, 2, 4>(product) };
}

#[target_feature(enable = "ssse3")]
unsafe fn spread(spread: Spread<'_>) {
    // SAFETY: the caller keeps the promise of `SpreadOver`; SSSE3 is enabled here.
    unsafe { vector::spread::<Lane, 4>(spread) };
}

#[target_feature(enable = "ssse3")]
unsafe fn scale(y: &mut [u8], c: u8) {
    // SAFETY: the caller keeps the promise of `Scale`; SSSE3 is enabled here.
    unsafe { vector::scale::<Lane>(y, c) };
}

#[derive(Clone, Copy)]
struct Lane(__m128i);

impl Vector for Lane {
    /// Products with the low and the high half of a byte.
    type Factor = [__m128i; 2];

    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let table = NIBBLES[usize::from(c)].as_ptr();
        // SAFETY: the table has 32 bytes.
        unsafe { [_mm_loadu_si128(table.cast()), _mm_loadu_si128(table.add(16).cast())] }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm_storeu_si128(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: SSE2 is part of x86-64.
        Self(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn add_scaled(self, [low, high]: Self::Factor, x: Self) -> Self {
        // SAFETY: only registers are used, and SSSE3 is the caller's promise.
        unsafe {
            let half = _mm_set1_epi8(15);
            let l = _mm_shuffle_epi8(low, _mm_and_si128(x.0, half));
            let h = _mm_shuffle_epi8(high, _mm_and_si128(_mm_srli_epi16::<4>(x.0), half));
            Self(_mm_xor_si128(self.0, _mm_xor_si128(l, h)))
        }
    }
}
