//! The table code: one look-up a byte. What the other kernels are checked against, what they leave
//! of a row that is no multiple of their vectors, and all there is on other processors.

use super::{Product, Spread};
use crate::gf256::PRODUCTS;

/// [`super::Multiply`] everywhere.
pub(super) fn multiply(product: Product<'_>) {
    let Product { y, y_stride, len, matrix, sources, rows, stride } = product;
    for (i, coefficients) in matrix.chunks_exact(sources).enumerate() {
        combine(&mut y[i * y_stride..][..len], coefficients, rows, stride);
    }
}

/// One row of a product.
pub(super) fn combine(y: &mut [u8], coefficients: &[u8], rows: &[u8], stride: usize) {
    for (i, &c) in coefficients.iter().enumerate() {
        add_scaled(y, c, &rows[i * stride..]);
    }
}

/// [`super::SpreadOver`] everywhere.
pub(super) fn spread(spread: Spread<'_>) {
    let Spread { rows, stride, factors, x } = spread;
    for (i, &c) in factors.iter().enumerate() {
        add_scaled(&mut rows[i * stride..][..x.len()], c, x);
    }
}

/// [`super::Scale`] everywhere.
pub(super) fn scale(y: &mut [u8], c: u8) {
    let products = &PRODUCTS[usize::from(c)];
    for y in y {
        *y = products[usize::from(*y)];
    }
}

/// `y += c · x`, of which the first `y.len()` bytes count.
fn add_scaled(y: &mut [u8], c: u8, x: &[u8]) {
    let products = &PRODUCTS[usize::from(c)];
    let x = &x[..y.len()];
    for (y, &x) in y.iter_mut().zip(x) {
        *y ^= products[usize::from(x)];
    }
}
