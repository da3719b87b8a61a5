//! Every kernel that this processor has against the table code.

use proptest::prelude::*;

use super::*;
use crate::gf256::mul;

/// `y += Σ c_i · x_i` as it is written.
fn expected(y: &[u8], coefficients: &[u8], rows: &[u8], stride: usize) -> Vec<u8> {
    let sum = |at: usize| {
        let terms = coefficients.iter().enumerate().map(|(i, &c)| mul(c, rows[i * stride + at]));
        terms.fold(y[at], |sum, term| sum ^ term)
    };
    (0..y.len()).map(sum).collect()
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = weftline_core::rng::Rng::stream(seed, "kernels");
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

#[test]
fn every_length_at_every_alignment() {
    // An interpreter is thousands of times slower.
    let (lengths, starts) = if cfg!(miri) { (55..70, 0..2) } else { (0..700, 0..65) };
    for kernel in Kernel::available() {
        let rows = bytes(1, 4 * 800);
        let coefficients = [0, 1, 0xa7];
        for len in lengths.clone() {
            for start in starts.clone().step_by(if len % 7 == 0 { 1 } else { 13 }) {
                let mut buffer = bytes(2, start + len + 64);
                let before = buffer.clone();
                let y = &mut buffer[start..start + len];
                let wanted = expected(y, &coefficients, &rows[start..], 777);
                kernel.combine(y, &coefficients, &rows[start..], 777);
                assert_eq!(y, wanted, "{kernel:?}, {len} bytes from {start}");
                let wanted: Vec<_> = y.iter().map(|&y| mul(0x5e, y)).collect();
                kernel.scale(y, 0x5e);
                assert_eq!(y, wanted, "{kernel:?}, {len} bytes from {start}");
                assert_eq!(buffer[..start], before[..start]);
                assert_eq!(buffer[start + len..], before[start + len..]);
            }
        }
    }
}

#[test]
fn every_product() {
    let all: Vec<u8> = (0..=255).collect();
    let step = if cfg!(miri) { 37 } else { 1 };
    for kernel in Kernel::available() {
        for c in (0..=255).step_by(step) {
            let mut y = vec![0; 256];
            kernel.add_scaled(&mut y, c, &all);
            assert!(y.iter().zip(&all).all(|(&y, &x)| y == mul(c, x)), "{kernel:?}, {c}");
        }
    }
}

#[test]
#[should_panic(expected = "each coefficient has a whole row")]
fn rows_that_are_too_short() {
    Kernel::best().combine(&mut [0; 10], &[1, 2], &[0; 25], 16);
}

#[test]
#[should_panic(expected = "each coefficient has a whole row")]
fn strides_beyond_the_address_space() {
    Kernel::best().combine(&mut [0; 10], &[1, 2, 3], &[0; 25], usize::MAX);
}

#[test]
fn the_best_kernel_is_listed() {
    assert!(Kernel::available().any(|kernel| kernel == Kernel::best()));
    assert_eq!(Kernel::available().last(), Some(Kernel::PORTABLE));
    // Where the compiler was told of GFNI, as for an interpreter that has no processor to ask.
    if cfg!(all(target_feature = "gfni", target_feature = "avx512bw")) {
        let names = ["gfni-avx512", "gfni-avx2", "avx512bw", "avx2", "ssse3", "portable"];
        assert!(Kernel::available().map(Kernel::name).eq(names));
    }
}

#[test]
fn aligned_buffers_are_aligned_and_grow_zeroed() {
    let mut buffer = AlignedBuffer::default();
    buffer.resize(2);
    buffer.bytes_mut().fill(7);
    buffer.resize(1);
    buffer.resize(40);
    assert_eq!(buffer.bytes().len(), 40 * ROW_ALIGN);
    assert_eq!(buffer.bytes().as_ptr().align_offset(ROW_ALIGN), 0);
    assert!(buffer.bytes()[..64].iter().all(|&b| b == 7));
    assert!(buffer.bytes()[64..].iter().all(|&b| b == 0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_combination(
        seed: u64,
        coefficients in proptest::collection::vec(any::<u8>(), 0..40),
        len in 0usize..1700,
        gap in 0usize..70,
        start in 0usize..64,
    ) {
        let (stride, len) = if cfg!(miri) { (len % 99 + gap, len % 99) } else { (len + gap, len) };
        let rows = bytes(seed, start + stride * coefficients.len() + len);
        let y = bytes(seed ^ 1, len);
        let wanted = expected(&y, &coefficients, &rows[start..], stride);
        for kernel in Kernel::available() {
            let mut y = y.clone();
            kernel.combine(&mut y, &coefficients, &rows[start..], stride);
            prop_assert_eq!(&y, &wanted, "{:?}", kernel);
        }
    }

    /// Several outputs at a time, in groups of every size and with what remains of a group.
    #[test]
    fn any_product(
        seed: u64,
        outputs in 1_usize..10,
        sources in 1_usize..12,
        len in 1_usize..1100,
        gaps in (0_usize..70, 0_usize..70),
    ) {
        let len = if cfg!(miri) { len % 99 + 1 } else { len };
        let (y_stride, stride) = (len + gaps.0, len + gaps.1);
        let rows = bytes(seed, stride * (sources - 1) + len);
        let matrix = bytes(seed ^ 1, outputs * sources);
        let before = bytes(seed ^ 2, y_stride * (outputs - 1) + len);
        let mut wanted = before.clone();
        for (j, coefficients) in matrix.chunks(sources).enumerate() {
            let y = &mut wanted[j * y_stride..][..len];
            let sums = expected(y, coefficients, &rows, stride);
            y.copy_from_slice(&sums);
        }
        for kernel in Kernel::available() {
            let mut y = before.clone();
            kernel.multiply(&mut y, y_stride, (&matrix, sources), &rows, stride);
            prop_assert_eq!(&y, &wanted, "{:?}", kernel);
        }
    }

    #[test]
    fn any_spread(
        seed: u64,
        factors in proptest::collection::vec(any::<u8>(), 0..12),
        len in 0_usize..700,
        gap in 0_usize..70,
    ) {
        let len = if cfg!(miri) { len % 99 } else { len };
        let stride = len + gap;
        let (x, before) = (bytes(seed, len), bytes(seed ^ 1, stride * factors.len() + len));
        let mut wanted = before.clone();
        for (i, &factor) in factors.iter().enumerate() {
            let row = &mut wanted[i * stride..][..len];
            row.iter_mut().zip(&x).for_each(|(y, &x)| *y ^= mul(factor, x));
        }
        for kernel in Kernel::available() {
            let mut rows = before.clone();
            kernel.spread(&mut rows, stride, &factors, &x);
            prop_assert_eq!(&rows, &wanted, "{:?}", kernel);
        }
    }
}
