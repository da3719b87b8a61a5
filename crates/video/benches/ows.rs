//! What a plan costs: the rates alone, and the whole of `ows` for each transport.

#[path = "../tests/tables/mod.rs"]
mod tables;

use std::cell::Cell;
use std::hint::black_box;

use divan::Bencher;
use tables::Case;
use weftline_core::ByteCount;
use weftline_video::ows::{
    Delivery, Entry, FbdtMessages, FbdtStream, InOrder, Inputs, OperatingPoints, Problem,
    SearchBudget, TwoEnded, allocate,
};

fn main() {
    divan::main();
}

const GRIDS: [(usize, usize); 3] = [(6, 4), (8, 8), (12, 8)];
const ENDS: TwoEnded = TwoEnded { forward: 0, window: ByteCount::kib(256) };
const WHOLE: TwoEnded = TwoEnded { forward: 0, window: ByteCount::mib(1 << 20) };

/// Calls `plan` with one of many GoPs after another: some are harder than others.
fn over_cases(bencher: Bencher<'_, '_>, grid: (usize, usize), plan: impl Fn(&Case)) {
    let cases: Vec<Case> = (0..100).map(|seed| tables::case(seed, grid.0, grid.1)).collect();
    let next = Cell::new(0);
    bencher.bench_local(|| {
        plan(&cases[next.get() % cases.len()]);
        next.set(next.get() + 1);
    });
}

#[divan::bench(args = GRIDS, sample_count = 300, sample_size = 1)]
fn rates(bencher: Bencher<'_, '_>, grid: (usize, usize)) {
    over_cases(bencher, grid, |case| {
        let tiles = case.gop.tiles().iter().zip(&case.last);
        let point_sets: Vec<OperatingPoints> = tiles
            .map(|(tile, &concealment)| OperatingPoints::new(tile, Some(concealment)))
            .collect();
        let budget = case.throughput.mean().as_u64();
        black_box(allocate(&point_sets, &case.visibility, budget));
    });
}

#[divan::bench(args = GRIDS, sample_count = 300, sample_size = 1)]
fn ows_in_order(bencher: Bencher<'_, '_>, grid: (usize, usize)) {
    over_cases(bencher, grid, |case| plan(case, &InOrder));
}

#[divan::bench(args = GRIDS, sample_count = 300, sample_size = 1)]
fn ows_fbdt_stream(bencher: Bencher<'_, '_>, grid: (usize, usize)) {
    over_cases(bencher, grid, |case| plan(case, &FbdtStream(ENDS)));
}

#[divan::bench(args = GRIDS, sample_count = 300, sample_size = 1)]
fn ows_fbdt_messages(bencher: Bencher<'_, '_>, grid: (usize, usize)) {
    over_cases(bencher, grid, |case| plan(case, &FbdtMessages(ENDS)));
}

#[divan::bench(args = GRIDS, sample_count = 300, sample_size = 1)]
fn ows_messages_one_window(bencher: Bencher<'_, '_>, grid: (usize, usize)) {
    over_cases(bencher, grid, |case| plan(case, &FbdtMessages(WHOLE)));
}

fn plan(case: &Case, delivery: &dyn Delivery) {
    let problem = Problem::new(Inputs {
        gop: &case.gop,
        visibility: &case.visibility,
        concealment: &case.grey,
        throughput: &case.throughput,
        delivery,
        budget: None,
        truth: None,
    });
    let ows = Entry::find("ows").expect("registered");
    let problem = problem.expect("the case is whole");
    black_box(ows.plan(&problem, &mut SearchBudget::default()).expect("ows needs no truth"));
}
