//! How a GoP is planned from what the paths may bring: one way for the live server and the
//! evaluation.
//!
//! A tile costs more than its segment: heads go with it, and what its decoder is set up from until
//! the player has it. Plans are made with these costs, and told in segments.

use std::collections::BTreeSet;

use weftline_core::ByteCount;

use crate::ows::{
    Delivery, Entry, Inputs, Piece, Plan, Problem, SearchBudget, Throughput, ThroughputError,
};
use crate::rd::{GopTable, MAX_TILE_BYTES, Rung, TileTable};
use crate::shown::{Concealment, Encoding, Wanted};

/// What goes with a segment: the message's head with its digests, the tile's part of the GoP's notice, and the heads
/// of the records that carry it, a record of at least 4 KiB each (docs/protocol.md).
pub(crate) const BESIDE: ByteCount = ByteCount::new(128);

/// How a stream is planned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planner<'a> {
    /// The tile scheme.
    pub(crate) scheme: &'a Entry,
    /// What is shown in place of late tiles.
    pub(crate) concealment: Concealment,
    /// The work a scheme may do for a GoP.
    pub(crate) search_units: u64,
}

/// What one GoP is planned from.
pub(crate) struct Chances<'a> {
    /// How likely each tile is seen.
    pub(crate) visibility: &'a [f64],
    /// What each tile loses if nothing of it is there.
    pub(crate) concealed: &'a [f64],
    /// What the paths may bring that is not on its way yet.
    pub(crate) expected: &'a Throughput,
    /// What the paths carry in the GoP's time, what is on its way already included.
    pub(crate) carried: ByteCount,
    /// The transport.
    pub(crate) delivery: &'a dyn Delivery,
    /// What the paths will bring, if somebody knows.
    pub(crate) truth: Option<&'a Throughput>,
}

/// A plan, the first pieces of which are a base layer: of the tiles that are most likely seen, as
/// far as the paths carry it.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    pub(crate) plan: Plan,
    pub(crate) base: usize,
}

/// What each encoding of a GoP takes of the paths. `init` says what the decoder of a tile at a QP is
/// still to be set up from.
pub(crate) fn on_the_way(gop: &GopTable, init: impl Fn(usize, u8) -> ByteCount) -> GopTable {
    let tiles = gop.tiles().iter().enumerate().map(|(tile, table)| {
        let cost = |rung: &Rung| {
            let bytes = rung.bytes + BESIDE + init(tile, rung.qp);
            Rung { bytes: bytes.min(MAX_TILE_BYTES), ..*rung }
        };
        TileTable::new(table.rungs().iter().map(cost).collect())
            .expect("the package's rungs, none of them longer than a tile may be")
    });
    GopTable::new(tiles.collect()).expect("as many tiles as the package has")
}

impl Planner<'_> {
    /// What is sent of a GoP whose encodings take of the paths what `tiles` says.
    ///
    /// # Errors
    /// In words, if the scheme makes no plan of it.
    pub(crate) fn plan(&self, tiles: &GopTable, chances: &Chances<'_>) -> Result<Sending, String> {
        let base = match self.concealment {
            Concealment::BaseLayer => coarsest(tiles, chances),
            Concealment::Grey | Concealment::LastReceived => Vec::new(),
        };
        let base_bytes: ByteCount = base.iter().map(|piece| piece.rung.bytes).sum();
        let mut concealment = chances.concealed.to_vec();
        for piece in &base {
            if let Some(concealment) = concealment.get_mut(piece.tile) {
                *concealment = piece.rung.ws_mse;
            }
        }
        let wrong = |error: ThroughputError| error.to_string();
        let expected = without(chances.expected, base_bytes).map_err(wrong)?;
        let truth = chances.truth.map(|truth| without(truth, base_bytes));
        let truth = truth.transpose().map_err(wrong)?;
        let beside_base = without_cost(tiles, &base);
        let problem = Problem::new(Inputs {
            gop: &beside_base,
            visibility: chances.visibility,
            concealment: &concealment,
            throughput: &expected,
            delivery: chances.delivery,
            budget: None,
            truth: truth.as_ref(),
        });
        let problem = problem.map_err(|error| error.to_string())?;
        let mut search_budget = SearchBudget::units(self.search_units);
        let mut plan =
            self.scheme.plan(&problem, &mut search_budget).map_err(|error| error.to_string())?;
        // Who knows the future knows that nothing comes.
        if plan.sent.is_empty() && base.is_empty() && self.scheme.name != "oracle" {
            plan = background(plan, tiles, chances);
        }
        let count = base.len();
        Ok(Sending { plan: with_base(plan, base, base_bytes), base: count })
    }
}

impl Sending {
    /// Nothing is sent of so many tiles.
    pub(crate) fn nothing(tiles: usize) -> Self {
        let (sent, bytes, expected_loss) = (Vec::new(), ByteCount::ZERO, 0.0);
        let plan = Plan { sent, dropped: (0..tiles).collect(), bytes, expected_loss };
        Self { plan, base: 0 }
    }

    /// The same with the lengths of the package's segments, in place of what they take of the paths.
    pub(crate) fn with_package_sizes(mut self, gop: &GopTable) -> Self {
        for piece in &mut self.plan.sent {
            let rung = gop.tiles()[piece.tile].at_qp(piece.rung.qp);
            piece.rung = *rung.expect("it was planned with the package's rungs");
        }
        self.plan.bytes = self.plan.sent.iter().map(|piece| piece.rung.bytes).sum();
        self
    }

    /// Of each tile, what the plan sends and what is sent before it; `None` where it sends nothing.
    pub(crate) fn rungs(&self, tiles: usize) -> Vec<[Option<Rung>; 2]> {
        let mut rungs = vec![[None; 2]; tiles];
        for (index, piece) in self.plan.sent.iter().enumerate() {
            rungs[piece.tile][usize::from(index < self.base)] = Some(piece.rung);
        }
        for (tile, [planned, base]) in rungs.iter_mut().enumerate() {
            // What the plan wants at the base layer's rung is sent once.
            if planned.is_none() && self.plan.dropped.binary_search(&tile).is_err() {
                *planned = *base;
            }
        }
        rungs
    }
}

/// The same, as what is shown goes by.
pub(crate) fn wanted([planned, base]: [Option<Rung>; 2]) -> Wanted {
    let encoding = |rung: Rung| Encoding { qp: rung.qp, loss: rung.ws_mse };
    Wanted { planned: planned.map(encoding), base: base.map(encoding) }
}

/// What is tried where nothing is expected to arrive: the coarsest rungs, those most likely seen first, as
/// far as the paths carry them once what is on their way is through or called back. That is a guess, most
/// of all when a path has just died and all that it had goes over another one. A GoP of which nothing is
/// sent is surely lost.
fn background(plan: Plan, tiles: &GopTable, chances: &Chances<'_>) -> Plan {
    let sent = coarsest(tiles, chances).into_iter();
    let sent = sent.filter(|piece| seen(piece, chances) > 0.0);
    let sent: Vec<Piece> = sent.map(|piece| Piece { late_chance: 1.0, ..piece }).collect();
    let is_sent = |tile: &usize| sent.iter().any(|piece: &Piece| piece.tile == *tile);
    let dropped = (0..tiles.tiles().len()).filter(|tile| !is_sent(tile)).collect();
    Plan { bytes: sent.iter().map(|piece| piece.rung.bytes).sum(), sent, dropped, ..plan }
}

/// The coarsest rung of every tile, those most likely seen first, as far as the paths carry them.
fn coarsest(tiles: &GopTable, chances: &Chances<'_>) -> Vec<Piece> {
    let rung =
        |tile: &TileTable| -> Rung { *tile.rungs().last().expect("a tile has a rung at least") };
    let tiles = tiles.tiles().iter().enumerate();
    let pieces = tiles.map(|(tile, table)| Piece { tile, rung: rung(table), late_chance: 0.0 });
    let mut pieces: Vec<Piece> = pieces.collect();
    pieces.sort_by(|one, other| seen(other, chances).total_cmp(&seen(one, chances)));
    let mut left = chances.carried;
    let fits = |piece: &Piece| {
        let fits = piece.rung.bytes <= left;
        left = left.saturating_sub(piece.rung.bytes);
        fits
    };
    pieces.into_iter().take_while(fits).collect()
}

/// The same encodings, those of the base layer for next to nothing: they are sent already, and what a
/// scheme chooses of them is not sent twice.
fn without_cost(tiles: &GopTable, base: &[Piece]) -> GopTable {
    let mut tables = tiles.tiles().to_vec();
    for piece in base {
        let free = |rung: &Rung| match rung.qp == piece.rung.qp {
            true => Rung { bytes: ByteCount::new(1), ..*rung },
            false => *rung,
        };
        let rungs = tables[piece.tile].rungs().iter().map(free).collect();
        tables[piece.tile] = TileTable::new(rungs).expect("the rungs that there were");
    }
    GopTable::new(tables).expect("as many tiles as there were")
}

/// How likely a piece's tile is seen.
fn seen(piece: &Piece, chances: &Chances<'_>) -> f64 {
    chances.visibility.get(piece.tile).copied().unwrap_or(0.0)
}

/// What is left of a throughput after `base` bytes, taken from all paths alike.
pub(crate) fn without(
    throughput: &Throughput,
    base: ByteCount,
) -> Result<Throughput, ThroughputError> {
    let rest = |paths: &[ByteCount]| {
        let all: ByteCount = paths.iter().copied().sum();
        let left = all.saturating_sub(base).as_u64();
        let part = |bytes: &ByteCount| {
            let share = u128::from(bytes.as_u64()) * u128::from(left);
            // At most `bytes`, because `left` is at most the sum.
            ByteCount::new((share / u128::from(all.as_u64().max(1))) as u64)
        };
        paths.iter().map(part).collect()
    };
    let samples = throughput.samples().iter();
    Throughput::from_samples(samples.map(|(weight, paths)| (*weight, rest(paths))).collect())
}

/// The plan behind its base layer, less the pieces that are the base layer's own.
fn with_base(plan: Plan, base: Vec<Piece>, base_bytes: ByteCount) -> Plan {
    if base.is_empty() {
        return plan;
    }
    let own: BTreeSet<(usize, u8)> = base.iter().map(|piece| (piece.tile, piece.rung.qp)).collect();
    let finer: Vec<Piece> = plan
        .sent
        .iter()
        .filter(|piece| !own.contains(&(piece.tile, piece.rung.qp)))
        .copied()
        .collect();
    let bytes = finer.iter().map(|piece| piece.rung.bytes).sum::<ByteCount>() + base_bytes;
    let sent = base.into_iter().chain(finer).collect();
    Plan { sent, bytes, ..plan }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::ows::InOrder;

    /// Of a base layer there is what the paths carry, of the tiles most likely seen. What is not in
    /// it loses what its concealment loses, and may be in the plan like any other tile.
    #[test]
    fn a_base_layer_is_as_large_as_what_is_carried_and_begins_with_what_is_seen() {
        let bytes = ByteCount::new;
        let rung = |qp, length, ws_mse| Rung { qp, bytes: bytes(length), ws_mse, mixed_mse: None };
        let tile = || TileTable::new(vec![rung(22, 4_000, 1.0), rung(42, 250, 9.0)]).unwrap();
        let tiles = GopTable::new((0..4).map(|_| tile()).collect()).unwrap();
        let plan = |expected, carried, visibility: [f64; 4]| {
            let concealment = Concealment::BaseLayer;
            let scheme = Entry::find("ows").unwrap();
            let planner =
                Planner { scheme, concealment, search_units: SearchBudget::DEFAULT_UNITS };
            let chances = Chances {
                visibility: &visibility,
                concealed: &[90.0; 4],
                expected: &Throughput::certain(&[bytes(expected)]).unwrap(),
                carried: bytes(carried),
                delivery: &InOrder,
                truth: None,
            };
            planner.plan(&tiles, &chances).unwrap()
        };
        let sent = |sending: &Sending| {
            sending.plan.sent.iter().map(|p| (p.tile, p.rung.qp)).collect::<Vec<_>>()
        };
        // All of it fits, and nothing else.
        let all = plan(1_000, 1_000, [0.1, 0.4, 0.2, 0.3]);
        assert_eq!(sent(&all), [(1, 42), (3, 42), (2, 42), (0, 42)]);
        assert_eq!((all.base, all.plan.bytes), (4, bytes(1_000)));
        // Two of four, and no room for more.
        let two = plan(500, 749, [0.1, 0.4, 0.2, 0.3]);
        assert_eq!((sent(&two), two.base), (vec![(1, 42), (3, 42)], 2));
        let told =
            two.rungs(4).into_iter().map(|[planned, base]| [planned, base].map(|r| r.is_some()));
        let [nothing, base] = [[false, false], [false, true]];
        assert_eq!(told.collect::<Vec<_>>(), [nothing, base, nothing, base]);
        // A longer buffer brings more: what the base layer has not is in the plan, and worth more
        // there.
        let most = plan(1_250, 500, [0.1, 0.4, 0.2, 0.3]);
        assert_eq!(most.base, 2);
        let mut rest = sent(&most).split_off(2);
        rest.sort_unstable();
        assert_eq!(rest, [(0, 42), (2, 42)]);
        assert_eq!(most.plan.bytes, bytes(1_000));
    }

    /// What the paths carry beyond the base layer is for finer encodings, in every scheme: the base layer
    /// is not paid for twice.
    #[test]
    fn every_scheme_has_what_the_base_layer_leaves() {
        let bytes = ByteCount::new;
        let rung = |qp, length, ws_mse| Rung { qp, bytes: bytes(length), ws_mse, mixed_mse: None };
        let tile = || TileTable::new(vec![rung(22, 1_000, 1.0), rung(42, 250, 9.0)]).unwrap();
        let tiles = GopTable::new((0..4).map(|_| tile()).collect()).unwrap();
        for scheme in ["fix", "ows-order", "ows-paper", "ows"] {
            let planner = Planner {
                scheme: Entry::find(scheme).unwrap(),
                concealment: Concealment::BaseLayer,
                search_units: SearchBudget::DEFAULT_UNITS,
            };
            // The base layer's 1,000, and three of four tiles at their finest.
            let chances = Chances {
                visibility: &[0.25; 4],
                concealed: &[90.0; 4],
                expected: &Throughput::certain(&[bytes(4_010)]).unwrap(),
                carried: bytes(4_010),
                delivery: &InOrder,
                truth: None,
            };
            let sending = planner.plan(&tiles, &chances).unwrap();
            assert_eq!((sending.base, sending.plan.bytes), (4, bytes(4_000)), "{scheme}");
        }
    }
}
