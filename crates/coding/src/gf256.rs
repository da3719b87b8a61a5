//! The field GF(2^8): its tables, multiplication and inverses.
//!
//! Elements are polynomials over GF(2) modulo x^8 + x^4 + x^3 + x + 1 (`0x11b`), the field of AES
//! (FIPS 197 §4.2) and of the instruction `GF2P8MULB`, so that a processor with GFNI multiplies
//! without tables. Addition and subtraction are exclusive or.

/// The field's polynomial, bit i the coefficient of x^i.
pub const POLYNOMIAL: u16 = 0x11b;

/// `PRODUCTS[a][b]` = a · b, 64 KiB. A row is what the table code needs for one coefficient.
pub(crate) static PRODUCTS: [[u8; 256]; 256] = products();

/// For each coefficient its products with 0x00..0x0f, then with 0x00, 0x10..0xf0: the two tables
/// of a byte shuffle. 8 KiB.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", test))]
pub(crate) static NIBBLES: [[u8; 32]; 256] = nibbles();

static INVERSES: [u8; 256] = inverses();

/// The product of two elements.
#[inline]
pub fn mul(a: u8, b: u8) -> u8 {
    PRODUCTS[usize::from(a)][usize::from(b)]
}

/// The element whose product with `a` is 1; zero has none.
pub fn inverse(a: u8) -> Option<u8> {
    (a != 0).then(|| INVERSES[usize::from(a)])
}

/// `a` times x, reduced.
const fn double(a: u8) -> u8 {
    let carry = if a & 0x80 == 0 { 0 } else { (POLYNOMIAL & 0xff) as u8 };
    (a << 1) ^ carry
}

const fn products() -> [[u8; 256]; 256] {
    let mut table = [[0; 256]; 256];
    let mut a = 0;
    while a < 256 {
        let mut power = a as u8;
        let mut b = 1;
        while b < 256 {
            // The product with the highest bit of b, then with what is left of b.
            table[a][b] = power;
            let mut rest = 1;
            while rest < b {
                table[a][b + rest] = power ^ table[a][rest];
                rest += 1;
            }
            power = double(power);
            b <<= 1;
        }
        a += 1;
    }
    table
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", test))]
const fn nibbles() -> [[u8; 32]; 256] {
    let table = products();
    let mut nibbles = [[0; 32]; 256];
    let mut c = 0;
    while c < 256 {
        let mut i = 0;
        while i < 16 {
            nibbles[c][i] = table[c][i];
            nibbles[c][16 + i] = table[c][i << 4];
            i += 1;
        }
        c += 1;
    }
    nibbles
}

const fn inverses() -> [u8; 256] {
    let table = products();
    let mut inverses = [0; 256];
    let mut a = 1;
    while a < 256 {
        // a^254 = a^2 · a^4 · … · a^128, the inverse in a group of 255 elements.
        let mut square = table[a][a];
        let mut inverse = square;
        let mut i = 0;
        while i < 6 {
            square = table[square as usize][square as usize];
            inverse = table[inverse as usize][square as usize];
            i += 1;
        }
        inverses[a] = inverse;
        a += 1;
    }
    inverses
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Multiplication as the definition has it: shift, add, reduce.
    fn long_multiplication(a: u8, b: u8) -> u8 {
        let mut product = 0_u16;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                product ^= u16::from(a) << bit;
            }
        }
        for bit in (8..15).rev() {
            if product >> bit & 1 == 1 {
                product ^= POLYNOMIAL << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    #[cfg_attr(miri, ignore = "too slow under an interpreter")]
    fn every_product_is_that_of_the_definition() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), long_multiplication(a, b), "{a} · {b}");
            }
        }
        // FIPS 197 §4.2: {57} · {83} = {c1}.
        assert_eq!(mul(0x57, 0x83), 0xc1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too slow under an interpreter")]
    fn every_element_but_zero_has_one_inverse() {
        assert_eq!(inverse(0), None);
        for a in 1..=255 {
            let inverse = inverse(a).expect("only zero has none");
            assert_eq!(mul(a, inverse), 1);
            assert_eq!((1..=255).filter(|&b| mul(a, b) == 1).count(), 1);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too slow under an interpreter")]
    fn nibbles_add_up_to_products() {
        for c in 0..=255_u8 {
            let table = &NIBBLES[usize::from(c)];
            for x in 0..=255_u8 {
                let product = table[usize::from(x & 15)] ^ table[16 + usize::from(x >> 4)];
                assert_eq!(product, mul(c, x));
            }
        }
    }

    proptest! {
        #[test]
        fn the_axioms_of_a_field(a: u8, b: u8, c: u8) {
            prop_assert_eq!(mul(a, b), mul(b, a));
            prop_assert_eq!(mul(a, mul(b, c)), mul(mul(a, b), c));
            prop_assert_eq!(mul(a, b ^ c), mul(a, b) ^ mul(a, c));
            prop_assert_eq!(mul(a, 1), a);
            prop_assert_eq!(mul(a, b) == 0, a == 0 || b == 0);
        }
    }
}
