//! Ten minutes of samples, in columns: what a page draws when it is opened, and what a page that was
//! away has missed.
//!
//! The busiest paths have columns of their own, all others are summed, and are as the worst of them is.
//! Memory is bounded whatever paths there are: [`MAX_BYTES`].

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::rates::{BUSIEST, CWND, ConnectionSample, FIGURES, RECEIVE, SEND, Sample};
use crate::source::PathState;

/// Samples that are kept: ten minutes at two a second.
pub(crate) const ROWS: usize = 1200;
/// Paths with columns of their own.
pub(crate) const PATHS: usize = 16;
/// The most that all columns take, in bytes.
pub(crate) const MAX_BYTES: usize = 600_000;

/// How fast a path that carries nothing any more loses its place to one that does: its weight halves
/// in about a minute.
const DECAY: f32 = 0.994;

/// A row but for its paths.
#[derive(Clone, Copy, Debug)]
struct Row {
    id: u64,
    t: f64,
    open: u32,
    used: u32,
    busiest: [ConnectionSample; BUSIEST],
}

/// The columns of one path.
#[derive(Clone, Debug)]
struct Columns {
    states: VecDeque<PathState>,
    figures: [VecDeque<f32>; FIGURES.len()],
}

// What the columns take is known at compile time, and so is that it is little enough.
const PATH_ROW: usize = size_of::<PathState>() + size_of::<[f32; FIGURES.len()]>();
const _: () = assert!(ROWS * (size_of::<Row>() + (PATHS + 1) * PATH_ROW) <= MAX_BYTES);

impl Columns {
    /// Columns with nothing in the `rows` there have been.
    fn empty(rows: usize) -> Self {
        let mut states = VecDeque::with_capacity(ROWS);
        states.extend(std::iter::repeat_n(PathState::Unused, rows));
        let figures = std::array::from_fn(|_| {
            let mut column = VecDeque::with_capacity(ROWS);
            column.extend(std::iter::repeat_n(f32::NAN, rows));
            column
        });
        Self { states, figures }
    }

    fn forget_oldest(&mut self) {
        self.states.pop_front();
        for column in &mut self.figures {
            column.pop_front();
        }
    }

    fn push(&mut self, state: PathState, figures: [f32; FIGURES.len()]) {
        self.states.push_back(state);
        for (column, figure) in self.figures.iter_mut().zip(figures) {
            column.push_back(figure);
        }
    }

    /// Adds what another path did to these, which are of several.
    fn merge(&mut self, other: &Self) {
        for row in 0..self.states.len() {
            self.states[row] = self.states[row].worse(other.states[row]);
            for figure in [SEND, RECEIVE, CWND] {
                let sum = add(self.figures[figure][row], other.figures[figure][row]);
                self.figures[figure][row] = sum;
            }
        }
    }

    /// What the row at `row` says, after the path's `name`.
    fn row(&self, name: Option<&str>, row: usize) -> Value {
        let mut cells = vec![json!(name), json!(self.states[row].name())];
        cells.extend(self.figures.iter().map(|column| json!(rounded(column[row]))));
        Value::Array(cells)
    }
}

/// A path with columns of its own.
#[derive(Clone, Debug)]
struct Slot {
    name: Arc<str>,
    /// What it carries, Mb/s, an average that forgets.
    weight: f32,
    columns: Columns,
}

/// The samples of the last ten minutes.
#[derive(Debug)]
pub(crate) struct History {
    rows: VecDeque<Row>,
    slots: Vec<Slot>,
    /// Paths that have none, summed; there since there first was one.
    others: Option<Columns>,
    /// What the daemon does, as it was said last.
    state: String,
}

impl History {
    pub(crate) fn new() -> Self {
        let rows = VecDeque::with_capacity(ROWS);
        Self { rows, slots: Vec::new(), others: None, state: String::new() }
    }

    /// Keeps a sample under `id`, in place of the oldest if there are enough.
    pub(crate) fn push(&mut self, id: u64, sample: &Sample) {
        if self.rows.len() == ROWS {
            self.rows.pop_front();
            let own = self.slots.iter_mut().map(|slot| &mut slot.columns);
            own.chain(&mut self.others).for_each(Columns::forget_oldest);
        }
        self.place(sample);
        let mut others = None;
        let mut placed = vec![false; self.slots.len()];
        for path in &sample.paths {
            match self.slots.iter().position(|slot| slot.name == path.name) {
                Some(place) if !placed[place] => {
                    placed[place] = true;
                    let slot = &mut self.slots[place];
                    slot.weight = slot.weight * DECAY + path.busy() * (1.0 - DECAY);
                    slot.columns.push(path.state, path.figures);
                }
                // One that is listed twice is none of ours; it is counted all the same.
                _ => {
                    let (state, figures) = others.get_or_insert((PathState::Unused, UNKNOWN));
                    *state = state.worse(path.state);
                    for figure in [SEND, RECEIVE, CWND] {
                        figures[figure] = add(figures[figure], path.figures[figure]);
                    }
                }
            }
        }
        for (slot, _) in self.slots.iter_mut().zip(&placed).filter(|(_, placed)| !**placed) {
            slot.weight *= DECAY;
            slot.columns.push(PathState::Unused, UNKNOWN);
        }
        if others.is_some() && self.others.is_none() {
            self.others = Some(Columns::empty(self.rows.len()));
        }
        if let Some(columns) = &mut self.others {
            let (state, figures) = others.unwrap_or((PathState::Unused, UNKNOWN));
            columns.push(state, figures);
        }
        let Sample { t, open, used, busiest, .. } = *sample;
        self.rows.push_back(Row { id, t, open, used, busiest });
        self.state.clone_from(&sample.state);
    }

    /// Gives paths that have no columns their own: while there is room, and then in place of one that
    /// carries less.
    fn place(&mut self, sample: &Sample) {
        for path in &sample.paths {
            if self.slots.iter().any(|slot| slot.name == path.name) {
                continue;
            }
            let fresh = |rows| Slot {
                name: Arc::clone(&path.name),
                weight: path.busy(),
                columns: Columns::empty(rows),
            };
            let rows = self.rows.len();
            if self.slots.len() < PATHS {
                self.slots.push(fresh(rows));
                continue;
            }
            let least = self.slots.iter_mut().min_by(|a, b| a.weight.total_cmp(&b.weight));
            if let Some(least) = least.filter(|least| least.weight < path.busy()) {
                let old = std::mem::replace(least, fresh(rows));
                self.others.get_or_insert_with(|| Columns::empty(rows)).merge(&old.columns);
            }
        }
    }

    /// The number of the oldest row.
    pub(crate) fn first_id(&self) -> Option<u64> {
        self.rows.front().map(|row| row.id)
    }

    /// The rows after that of `id`: each row's number, and what is sent of it.
    pub(crate) fn after(&self, id: u64) -> impl Iterator<Item = (u64, String)> {
        let first = self.rows.partition_point(|row| row.id <= id);
        (first..self.rows.len()).map(|place| (self.rows[place].id, self.row(place)))
    }

    /// What is sent of the newest row.
    pub(crate) fn newest(&self) -> Option<String> {
        self.rows.len().checked_sub(1).map(|place| self.row(place))
    }

    fn row(&self, place: usize) -> String {
        let row = &self.rows[place];
        let mut paths: Vec<_> =
            self.slots.iter().map(|slot| slot.columns.row(Some(&slot.name), place)).collect();
        paths.extend(self.others.as_ref().map(|others| others.row(None, place)));
        json!({
            "t": milli(row.t),
            "state": self.state,
            "open": row.open,
            "used": row.used,
            "paths": paths,
            "conns": connections(row),
        })
        .to_string()
    }

    /// All of it as the members of a JSON object, without its braces: `"t":[…],"open":[…],…`.
    pub(crate) fn members(&self) -> String {
        let mut text = String::new();
        column(&mut text, "t", self.rows.iter().map(|row| json!(milli(row.t)).to_string()));
        text.push(',');
        column(&mut text, "open", self.rows.iter().map(|row| row.open.to_string()));
        text.push(',');
        column(&mut text, "used", self.rows.iter().map(|row| row.used.to_string()));
        text.push(',');
        column(&mut text, "conns", self.rows.iter().map(|row| connections(row).to_string()));
        text += ",\"paths\":[";
        let own = self.slots.iter().map(|slot| (Some(&*slot.name), &slot.columns));
        let all = own.chain(self.others.iter().map(|others| (None, others)));
        for (place, (name, columns)) in all.enumerate() {
            let lead = if place == 0 { "" } else { "," };
            let _ = write!(text, "{lead}{{\"name\":{},", json!(name));
            let states = columns.states.iter().map(|state| format!("\"{}\"", state.name()));
            column(&mut text, "state", states);
            for (name, figures) in FIGURES.iter().zip(&columns.figures) {
                text.push(',');
                column(&mut text, name, figures.iter().map(|one| json!(rounded(*one)).to_string()));
            }
            text.push('}');
        }
        text.push(']');
        text
    }
}

/// Figures of a path that is not there.
const UNKNOWN: [f32; FIGURES.len()] = [f32::NAN; FIGURES.len()];

fn column(text: &mut String, name: &str, cells: impl Iterator<Item = String>) {
    let _ = write!(text, "\"{name}\":[");
    for (place, cell) in cells.enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str(&cell);
    }
    text.push(']');
}

fn connections(row: &Row) -> Value {
    let one = |one: &ConnectionSample| json!([one.number, rounded(one.send), rounded(one.receive)]);
    row.busiest.iter().filter(|one| one.busy() > 0.0).map(one).collect()
}

/// To a thousandth, which is more than was measured; what is not known is null.
fn rounded(figure: f32) -> Option<f64> {
    figure.is_finite().then(|| milli(f64::from(figure)))
}

fn milli(figure: f64) -> f64 {
    (figure * 1e3).round() / 1e3
}

/// The sum of what is known.
fn add(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ => a + b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::PathSample;

    fn sample(t: f64, paths: &[(&str, f32)]) -> Sample {
        let path = |(name, send): &(&str, f32)| PathSample {
            name: (*name).into(),
            state: PathState::Up,
            figures: [*send, 0.0, 6.0, f32::NAN, 0.0, 1000.0],
        };
        Sample {
            t,
            state: "running".to_owned(),
            open: 3,
            used: 1,
            paths: paths.iter().map(path).collect(),
            busiest: [ConnectionSample::default(); BUSIEST],
        }
    }

    fn read(history: &History) -> Value {
        serde_json::from_str(&format!("{{{}}}", history.members())).unwrap()
    }

    /// The sum of what all paths sent, row by row.
    fn sums(read: &Value) -> Vec<f64> {
        let rows = read["t"].as_array().unwrap().len();
        let paths = read["paths"].as_array().unwrap();
        let at = |row: usize| paths.iter().filter_map(|path| path["send"][row].as_f64()).sum();
        (0..rows).map(at).collect()
    }

    #[test]
    fn ten_minutes_are_kept_and_every_column_is_as_long() {
        let mut history = History::new();
        for row in 0..2000 {
            // A path that comes late has nothing in the rows before.
            let paths = [("wifi", 351.25), ("lte", 1.0)];
            let paths = if row < 1500 { &paths[..1] } else { &paths[..] };
            history.push(row, &sample(row as f64 / 2.0, paths));
        }
        let read = read(&history);
        assert_eq!(read["t"].as_array().unwrap().len(), ROWS);
        assert_eq!((&read["t"][0], history.first_id()), (&json!(400.0), Some(800)));
        for path in read["paths"].as_array().unwrap() {
            for name in FIGURES.iter().chain(&["state"]) {
                assert_eq!(path[name].as_array().unwrap().len(), ROWS, "{name}");
            }
        }
        assert_eq!(read["paths"][0]["send"][0], 351.25);
        assert_eq!(read["paths"][0]["queueing"][0], Value::Null);
        let lte = &read["paths"][1];
        assert_eq!((&lte["send"][699], &lte["state"][699]), (&Value::Null, &json!("unused")));
        assert_eq!((&lte["send"][700], &lte["state"][700]), (&json!(1.0), &json!("up")));
    }

    #[test]
    fn a_path_that_is_down_is_not_hidden_by_others() {
        let mut history = History::new();
        let names: Vec<String> = (0..PATHS + 4).map(|n| format!("p{n}")).collect();
        let busy = |n: usize| if n < PATHS { 9.0 } else { 1.0 };
        let paths: Vec<_> = names.iter().enumerate().map(|(n, name)| (&**name, busy(n))).collect();
        let down = |place: usize, state| {
            let mut sample = sample(0.0, &paths);
            sample.paths[place].state = state;
            sample
        };
        history.push(0, &down(PATHS, PathState::Up));
        history.push(1, &down(PATHS + 1, PathState::Down));
        history.push(2, &down(PATHS + 2, PathState::Silent));
        // One that nobody uses is not missed.
        history.push(3, &down(PATHS + 3, PathState::Unused));
        let others = &read(&history)["paths"][PATHS];
        assert_eq!(
            (&others["name"], &others["state"]),
            (&Value::Null, &json!(["up", "down", "silent", "up"]))
        );
        // Nor is what it was, when it loses its columns to a busier one.
        history.push(4, &down(3, PathState::Down));
        let mut busier = sample(1.0, &[]);
        busier.paths = (0..PATHS)
            .map(|n| PathSample {
                name: format!("q{n}").into(),
                ..sample(1.0, &[("q", 99.0)]).paths.remove(0)
            })
            .collect();
        history.push(5, &busier);
        assert_eq!(read(&history)["paths"][PATHS]["state"][4], "down");
    }

    #[test]
    fn the_busiest_paths_have_columns_and_the_others_are_summed_and_none_is_lost() {
        let mut history = History::new();
        let names: Vec<String> = (0..40).map(|n| format!("path {n}")).collect();
        let paths: Vec<_> =
            names.iter().enumerate().map(|(n, name)| (name.as_str(), 1.0 + n as f32)).collect();
        let total: f64 = (1..=40).map(f64::from).sum();
        for row in 0..10 {
            history.push(row, &sample(row as f64, &paths));
        }
        let now = read(&history);
        let paths = now["paths"].as_array().unwrap();
        assert_eq!(paths.len(), PATHS + 1);
        assert_eq!(paths[PATHS]["name"], Value::Null);
        assert!(sums(&now).iter().all(|sum| (sum - total).abs() < 1e-6), "{:?}", sums(&now));
        // Those that carry the most came to have columns, though they were not the first.
        let named: Vec<_> = paths.iter().filter_map(|path| path["name"].as_str()).collect();
        assert!((24..40).all(|n| named.contains(&format!("path {n}").as_str())), "{named:?}");

        // One that carries more than any takes the place of the least, whose past is not lost.
        let mut more: Vec<_> = (0..40).map(|n| (names[n].as_str(), 1.0 + n as f32)).collect();
        more.push(("new", 500.0));
        history.push(10, &sample(10.0, &more));
        let now = read(&history);
        let sums = sums(&now);
        assert!(sums[..10].iter().all(|sum| (sum - total).abs() < 1e-6), "{sums:?}");
        assert!((sums[10] - total - 500.0).abs() < 1e-6, "{sums:?}");
    }

    #[test]
    fn a_row_says_what_its_columns_do_and_names_are_quoted() {
        let mut history = History::new();
        history.push(7, &sample(1.2346, &[("a\"</script>", 2.0)]));
        let mut busy = sample(2.0, &[("a\"</script>", 3.0)]);
        busy.busiest[0] = ConnectionSample { number: 55, send: 463.9, receive: 0.0 };
        history.push(9, &busy);
        let rows: Vec<_> = history.after(7).collect();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].0, Some(&rows[0].1)), (9, history.newest().as_ref()));
        let row: Value = serde_json::from_str(&rows[0].1).unwrap();
        let path = json!([["a\"</script>", "up", 3.0, 0.0, 6.0, null, 0.0, 1000.0]]);
        assert_eq!((&row["paths"], &row["conns"]), (&path, &json!([[55, 463.9, 0.0]])));
        assert_eq!((&row["t"], &row["open"], &row["used"]), (&json!(2.0), &json!(3), &json!(1)));
        assert_eq!(history.after(0).count(), 2);
        assert_eq!(history.after(9).count(), 0);
        assert_eq!(read(&history)["t"], json!([1.235, 2.0]));
    }

    #[test]
    fn a_path_that_is_listed_twice_keeps_the_columns_as_long() {
        let mut history = History::new();
        history.push(0, &sample(0.0, &[("a", 1.0), ("a", 2.0)]));
        history.push(1, &sample(1.0, &[]));
        let read = read(&history);
        assert_eq!(sums(&read), [3.0, 0.0]);
        assert_eq!(read["paths"][0]["send"].as_array().unwrap().len(), 2);
    }
}
