//! The table code: one look-up a byte. What the other kernels are checked against, what they leave
//! of a row that is no multiple of their vectors, and all there is on other processors.

use crate::gf256::PRODUCTS;

/// [`super::Combine`] everywhere.
pub(super) fn combine(y: &mut [u8], coefficients: &[u8], rows: &[u8], stride: usize) {
    for (i, &c) in coefficients.iter().enumerate() {
        let products = &PRODUCTS[usize::from(c)];
        let x = &rows[i * stride..][..y.len()];
        for (y, &x) in y.iter_mut().zip(x) {
            *y ^= products[usize::from(x)];
        }
    }
}

/// [`super::Scale`] everywhere.
pub(super) fn scale(y: &mut [u8], c: u8) {
    let products = &PRODUCTS[usize::from(c)];
    for y in y {
        *y = products[usize::from(*y)];
    }
}
