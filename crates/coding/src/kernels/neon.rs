//! NEON: two look-ups in 16-byte tables with `TBL`, 16 bytes at a time.

use std::arch::aarch64::{
    uint8x16_t, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8,
};

use super::vector::{self, Vector};
use super::{Kernel, Product, Spread};
use crate::gf256::NIBBLES;

/// For 64-bit ARM.
pub(super) const KERNEL: Kernel = Kernel { name: "neon", multiply, spread, scale };

#[target_feature(enable = "neon")]
unsafe fn multiply(product: Product<'_>) {
    // SAFETY: the caller keeps the promise of `Multiply`; NEON is enabled here.
    unsafe { vector::multiply::<Lane, 4, 4, 8>(product) };
}

#[target_feature(enable = "neon")]
unsafe fn spread(spread: Spread<'_>) {
    // SAFETY: the caller keeps the promise of `SpreadOver`; NEON is enabled here.
    unsafe { vector::spread::<Lane, 4>(spread) };
}

#[target_feature(enable = "neon")]
unsafe fn scale(y: &mut [u8], c: u8) {
    // SAFETY: the caller keeps the promise of `Scale`; NEON is enabled here.
    unsafe { vector::scale::<Lane>(y, c) };
}

#[derive(Clone, Copy)]
struct Lane(uint8x16_t);

impl Vector for Lane {
    /// Products with the low and the high half of a byte.
    type Factor = [uint8x16_t; 2];

    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let table = NIBBLES[usize::from(c)].as_ptr();
        // SAFETY: the table has 32 bytes.
        unsafe { [vld1q_u8(table), vld1q_u8(table.add(16))] }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { vst1q_u8(to, self.0) };
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: NEON is the caller's promise.
        Self(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn add_scaled(self, [low, high]: Self::Factor, x: Self) -> Self {
        // SAFETY: only registers are used, and NEON is the caller's promise.
        unsafe {
            let l = vqtbl1q_u8(low, vandq_u8(x.0, vdupq_n_u8(15)));
            let h = vqtbl1q_u8(high, vshrq_n_u8::<4>(x.0));
            Self(veorq_u8(self.0, veorq_u8(l, h)))
        }
    }
}
