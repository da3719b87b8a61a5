//! `fix`: the paper's baseline, its rates in the order of the frame.

use super::{Entry, paper_rates, raster};

pub(super) const ENTRY: Entry = Entry {
    name: "fix",
    about: "rates by viewing probability, tiles in raster order (FBDT's FIX)",
    make: |problem, _| Ok(raster(paper_rates(problem))),
};
