//! `uniform`: one QP for the whole frame, as a stream without tiles has it.

use super::super::problem::{Draft, Problem};
use super::{Entry, raster};

pub(super) const ENTRY: Entry = Entry {
    name: "uniform",
    about: "the finest single QP that fits, tiles in raster order",
    make: |problem, _| {
        let all: Vec<usize> = (0..problem.tiles()).collect();
        Ok(one_qp(problem, &all))
    },
};

/// The finest single QP at which all of `tiles`, the most important first, fit the budget. If none
/// does, each gets its coarsest until the budget is used up; the rest is left out.
pub(super) fn one_qp(problem: &Problem<'_>, tiles: &[usize]) -> Draft {
    let table = problem.inputs().gop.tiles();
    let budget = problem.budget().as_u64();
    let qps = tiles.iter().flat_map(|&tile| table[tile].rungs()).map(|rung| rung.qp);
    let mut qps: Vec<u8> = qps.collect();
    qps.sort_unstable();
    qps.dedup();
    // A tile without that QP gets its next coarser rung, or its coarsest.
    let at = |tile: usize, qp: u8| {
        let rungs = table[tile].rungs();
        rungs.partition_point(|rung| rung.qp < qp).min(rungs.len() - 1)
    };
    let cost =
        |qp: u8| -> u64 { tiles.iter().map(|&tile| problem.bytes(tile, Some(at(tile, qp)))).sum() };
    let fitting = qps.iter().copied().find(|&qp| cost(qp) <= budget);
    let mut rungs = vec![None; problem.tiles()];
    let mut left = budget;
    for &tile in tiles {
        let rung = fitting.map_or(table[tile].rungs().len() - 1, |qp| at(tile, qp));
        let bytes = problem.bytes(tile, Some(rung));
        if bytes > left {
            break;
        }
        left -= bytes;
        rungs[tile] = Some(rung);
    }
    raster(rungs)
}
