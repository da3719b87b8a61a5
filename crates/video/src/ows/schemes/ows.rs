//! `ows`: the expected loss minimised over rates and order together, never worse than `fix`.

use super::super::search;
use super::{Entry, paper_rates, raster};

pub(super) const ENTRY: Entry = Entry {
    name: "ows",
    about: "least expected loss over rates and order, for the transport's way of delivering",
    make: |problem, search_budget| {
        Ok(search::run(problem, raster(paper_rates(problem)), search_budget))
    },
};
