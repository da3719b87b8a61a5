//! Vectors in reduced row echelon form: what span they have, and whether another one is in it.

use crate::generation::RowStore;
use crate::gf256;
use crate::kernels::Kernel;

/// Rows of which each has a *pivot*: a column in which it has 1 and all others have 0.
///
/// Only the first `width` columns are looked at; further ones take part in every operation, so
/// that rows can carry along what they were made of.
#[derive(Clone, Debug)]
pub(crate) struct Echelon {
    kernel: Kernel,
    width: usize,
    rows: RowStore,
    /// The column of each row's pivot.
    pivots: Vec<usize>,
    factors: Vec<u8>,
}

impl Echelon {
    /// No rows, of `width` columns and `more` that are carried along.
    pub(crate) fn new(width: usize, more: usize, kernel: Kernel) -> Self {
        let rows = RowStore::new(width + more);
        Self { kernel, width, rows, pivots: Vec::new(), factors: Vec::new() }
    }

    /// Forgets the rows; from now on they have `width` columns and `more`.
    pub(crate) fn reset(&mut self, width: usize, more: usize) {
        self.rows.reset(width + more);
        self.pivots.clear();
        self.width = width;
    }

    /// Adds a row given in two parts, if it raises the rank; else nothing changes.
    pub(crate) fn insert(&mut self, parts: [&[u8]; 2]) -> bool {
        let Some(pivot) = self.push_reduced(parts) else {
            self.rows.pop();
            return false;
        };
        let (kernel, stride) = (self.kernel, self.rows.stride());
        let (held, new) = self.rows.bytes_mut().split_at_mut(self.pivots.len() * stride);
        let inverse = gf256::inverse(new[pivot]).expect("a pivot is not zero");
        if inverse != 1 {
            kernel.scale(new, inverse);
        }
        self.factors.clear();
        self.factors.extend(held.chunks_exact(stride).map(|row| row[pivot]));
        kernel.spread(held, stride, &self.factors, new);
        self.pivots.push(pivot);
        true
    }

    /// Whether a row would raise the rank.
    pub(crate) fn adds_rank(&mut self, parts: [&[u8]; 2]) -> bool {
        let adds = self.push_reduced(parts).is_some();
        self.rows.pop();
        adds
    }

    /// Appends a row and takes the others' pivots out of it; its first column that is not zero.
    fn push_reduced(&mut self, parts: [&[u8]; 2]) -> Option<usize> {
        self.rows.push(parts);
        let stride = self.rows.stride();
        let (held, new) = self.rows.bytes_mut().split_at_mut(self.pivots.len() * stride);
        self.factors.clear();
        self.factors.extend(self.pivots.iter().map(|&pivot| new[pivot]));
        // A pivot's column is zero in all other rows, so that one pass suffices.
        if self.factors.iter().any(|&factor| factor != 0) {
            self.kernel.combine(new, &self.factors, held, stride);
        }
        new[..self.width].iter().position(|&c| c != 0)
    }

    /// Rows there are, all independent.
    pub(crate) fn rank(&self) -> usize {
        self.pivots.len()
    }

    /// The rows that are zero in all of the first columns but their pivot's, each with its pivot.
    pub(crate) fn solved(&self) -> impl Iterator<Item = (usize, usize)> {
        self.pivots.iter().copied().enumerate().filter(|&(row, pivot)| {
            let row = &self.rows.row(row)[..self.width];
            row.iter().enumerate().all(|(column, &c)| c == 0 || column == pivot)
        })
    }

    /// The further columns of a row.
    pub(crate) fn carried(&self, row: usize) -> &[u8] {
        &self.rows.row(row)[self.width..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gf256::mul;

    proptest! {
        /// Small coefficients, so that dependent rows are many.
        #[test]
        fn rows_carry_along_what_they_are_made_of(
            rows in proptest::collection::vec(proptest::collection::vec(0_u8..3, 6), 1..9),
        ) {
            let mut echelon = Echelon::new(6, 6, Kernel::best());
            let mut kept: Vec<&[u8]> = Vec::new();
            for row in &rows {
                let mut own = [0; 6];
                if let Some(own) = own.get_mut(kept.len()) {
                    *own = 1;
                }
                let adds = echelon.adds_rank([row, &own]);
                prop_assert_eq!(echelon.insert([row, &own]), adds);
                if adds {
                    kept.push(row);
                }
                prop_assert_eq!(echelon.rank(), kept.len());
                prop_assert!(!echelon.adds_rank([row, &own]), "a row is in its own span");
            }
            for i in 0..echelon.rank() {
                let (row, made_of) = echelon.rows.row(i).split_at(6);
                for (column, &c) in row.iter().enumerate() {
                    let sum = kept.iter().zip(made_of).map(|(kept, &by)| mul(by, kept[column]));
                    prop_assert_eq!(sum.fold(0, |a, b| a ^ b), c);
                    let pivot = echelon.pivots.iter().position(|&pivot| pivot == column);
                    if let Some(pivot) = pivot {
                        prop_assert_eq!(c, u8::from(pivot == i));
                    }
                }
            }
        }
    }
}
