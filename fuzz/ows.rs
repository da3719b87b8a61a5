//! What the fuzz target of the tile optimiser does with its input. `cargo test` replays the corpus
//! through the same function (crates/video/tests/fuzz_replay.rs).

use weftline_core::ByteCount;
use weftline_video::ows::{
    Delivery, Entry, FbdtMessages, FbdtStream, InOrder, Inputs, Plan, Problem, REGISTRY,
    SearchBudget, Throughput, TwoEnded,
};
use weftline_video::rd::{GopTable, RdTable};

/// GoPs of a table that are planned for, and the most tiles of one: more would only be slow.
const GOPS: usize = 2;
const TILES: usize = 32;

/// Any text is a rate-distortion table, which reads back from what it writes, or an error of one
/// line. What follows the input's first NUL is the rest of a problem; whatever it is, every scheme
/// makes a plan that is whole, within the budget, and for `ows` no worse than `fix`.
pub fn ows(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |&byte| byte == 0);
    let Ok(text) = std::str::from_utf8(parts.next().unwrap_or_default()) else { return };
    let table = match RdTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let error = error.to_string();
            assert!(!error.contains('\n') && error.len() < 300, "one line: {error:?}");
            return;
        }
    };
    assert_eq!(RdTable::parse(&table.to_csv()).as_ref(), Ok(&table));
    let mut numbers = Numbers(parts.next().unwrap_or_default());
    for gop in table.gops().iter().take(GOPS).filter(|gop| gop.tiles().len() <= TILES) {
        plan(gop, &mut numbers);
    }
}

/// The bytes of the input as numbers; zeros once they are used up.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// From zero to enormous, about evenly by magnitude.
    fn bytes(&mut self) -> ByteCount {
        let (mantissa, shift) = (u64::from(self.byte()), u32::from(self.byte()) % 56);
        ByteCount::new(mantissa << shift)
    }

    /// Any number, and those that are none.
    fn value(&mut self) -> f64 {
        match self.byte() {
            255 => f64::NAN,
            254 => f64::INFINITY,
            253 => -1.0,
            252 => f64::MIN_POSITIVE,
            small => f64::from(small) * f64::from(self.byte()) / 255.0,
        }
    }
}

fn plan(gop: &GopTable, numbers: &mut Numbers<'_>) {
    let tiles = gop.tiles().len();
    let count = 1 + usize::from(numbers.byte() % 4);
    let samples = (0..count).map(|_| (numbers.value(), vec![numbers.bytes(), numbers.bytes()]));
    let Ok(throughput) = Throughput::from_samples(samples.collect()) else { return };
    let ends = TwoEnded { forward: usize::from(numbers.byte() % 3), window: numbers.bytes() };
    let transports: [&dyn Delivery; 3] = [&InOrder, &FbdtStream(ends), &FbdtMessages(ends)];
    let delivery = transports[usize::from(numbers.byte() % 3)];
    let budget = numbers.byte().is_multiple_of(2).then(|| numbers.bytes());
    let search_budget = u64::from(numbers.byte()) * 64;
    let visibility: Vec<f64> = (0..tiles).map(|_| numbers.value()).collect();
    let concealment: Vec<f64> = (0..tiles).map(|_| numbers.value()).collect();
    let truth = Some(&throughput);
    let inputs = Inputs {
        gop,
        visibility: &visibility,
        concealment: &concealment,
        throughput: &throughput,
        delivery,
        budget,
        truth,
    };
    let Ok(problem) = Problem::new(inputs) else { return };
    let make = |entry: &Entry| {
        entry.plan(&problem, &mut SearchBudget::units(search_budget)).expect("the truth was given")
    };
    for entry in REGISTRY {
        let plan = make(entry);
        // The oracle's budget is the truth's, which here is what is expected.
        let most = problem.budget().max(throughput.mean());
        assert!(plan.bytes <= if entry.name == "oracle" { most } else { problem.budget() });
        whole(&plan, tiles);
    }
    let loss = |name| make(Entry::find(name).expect("registered")).expected_loss;
    let (ows, fix) = (loss("ows"), loss("fix"));
    assert!(ows <= fix + 1e-9 * fix.abs().max(1.0), "{ows} > {fix}");
}

fn whole(plan: &Plan, tiles: usize) {
    let sent = plan.sent.iter().map(|piece| piece.tile);
    let mut all: Vec<usize> = sent.chain(plan.dropped.iter().copied()).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..tiles), "each tile is sent or dropped once");
    let bytes: ByteCount = plan.sent.iter().map(|piece| piece.rung.bytes).sum();
    assert_eq!(bytes, plan.bytes);
    assert!(plan.expected_loss.is_finite() && plan.expected_loss >= 0.0);
    assert!(plan.sent.iter().all(|piece| (-1e-9..=1.0).contains(&piece.late_chance)));
}
