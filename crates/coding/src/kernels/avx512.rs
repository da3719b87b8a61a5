//! AVX-512BW without GFNI: as SSSE3, 64 bytes at a time, and one instruction adds both products.

use std::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_loadu_si512,
    _mm512_set1_epi8, _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_srli_epi16,
    _mm512_storeu_si512, _mm512_ternarylogic_epi32,
};

use super::vector::{self, Vector};
use super::{Kernel, Product, Spread};
use crate::gf256::NIBBLES;

/// For processors with AVX-512F and AVX-512BW.
pub(super) const KERNEL: Kernel = Kernel { name: "avx512bw", multiply, spread, scale };

/// The truth table of a ⊕ b ⊕ c.
const XOR3: i32 = 0x96;

#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn multiply(product: Product<'_>) {
    // SAFETY: the caller keeps the promise of `Multiply`; AVX-512BW is enabled here.
    unsafe { vector::multiply::<Lane, 4, 4, 8>(product) };
}

#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn spread(spread: Spread<'_>) {
    // SAFETY: the caller keeps the promise of `SpreadOver`; AVX-512BW is enabled here.
    unsafe { vector::spread::<Lane, 4>(spread) };
}

#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn scale(y: &mut [u8], c: u8) {
    // SAFETY: the caller keeps the promise of `Scale`; AVX-512BW is enabled here.
    unsafe { vector::scale::<Lane>(y, c) };
}

#[derive(Clone, Copy)]
struct Lane(__m512i);

impl Vector for Lane {
    /// Products with the low and the high half of a byte, in each quarter of the register.
    type Factor = [__m512i; 2];

    const BYTES: usize = 64;

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let table = NIBBLES[usize::from(c)].as_ptr();
        // No closure: one would not have the instruction set, and might stay a call.
        // SAFETY: the table has 32 bytes; AVX-512 is the caller's promise.
        unsafe {
            let (low, high) = (table.cast(), table.add(16).cast());
            [
                _mm512_broadcast_i32x4(_mm_loadu_si128(low)),
                _mm512_broadcast_i32x4(_mm_loadu_si128(high)),
            ]
        }
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
    unsafe fn add_scaled(self, [low, high]: Self::Factor, x: Self) -> Self {
        // SAFETY: only registers are used, and AVX-512BW is the caller's promise.
        unsafe {
            let half = _mm512_set1_epi8(15);
            let l = _mm512_shuffle_epi8(low, _mm512_and_si512(x.0, half));
            let h = _mm512_shuffle_epi8(high, _mm512_and_si512(_mm512_srli_epi16::<4>(x.0), half));
            Self(_mm512_ternarylogic_epi32::<XOR3>(self.0, l, h))
        }
    }
}
