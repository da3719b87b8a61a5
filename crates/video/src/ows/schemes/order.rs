//! `ows-order`: the paper's rates in the order of `ows`. What it gains over `fix` is the order's part
//! of what `ows` gains, and what `ows` gains over it is that of the rates.

use super::super::search;
use super::{Entry, paper_rates, raster};

pub(super) const ENTRY: Entry = Entry {
    name: "ows-order",
    about: "the rates of fix, in the order of least expected loss",
    make: |problem, search_budget| {
        Ok(search::order(problem, raster(paper_rates(problem)), search_budget))
    },
};
