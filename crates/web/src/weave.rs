//! The weave of a connection, as a page is sent it: rows of the cloth, each when it is first seen and again
//! when more is known of it, within a rate.
//!
//! The first message says since when each direction is known, in µs, and so does one before which something
//! has gone unseen: what was before was not recorded, or is not kept any more.
//!
//! A row is `[start, length, at, parts, missing, wait, left]`: stream offsets in bytes, `at` in µs; a part
//! is `[offset, length, first, last, path, flags]` and a missing range `[offset, length]` with offsets from
//! the row's start and times from `at`; `wait` is `[offset, length, ms]` or `null`; `left` is how many parts
//! fewer there are than there were. Flags: 1 went downwards, 2 a copy, 4 sent again.

mod torn;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use weftline_core::Instant;
use weftline_core::session::WeaveRecord;
use weftline_core::session::cloth::{Cut, Part, Row, choose, rows};
use weftline_core::subflow::Kind;

use self::torn::told;
use crate::source::WeaveLook;

/// Rows that a message has of each direction: such as are new, and such as have changed. With four
/// messages a second these are 60 new ones.
const ROWS: usize = 15;
/// Bytes of rows that a message has of each direction. Two of them four times in a second are 40 kB.
const ROOM: usize = 4_800;
/// Of these bytes, such as the rows that come first may fill: new ones and changed ones in turn.
const SHARE: usize = ROOM * 2 / 3;

const BACKWARD: u8 = 1;
const COPY: u8 = 2;
const AGAIN: u8 = 4;

/// What one page has been sent of one connection.
pub(crate) struct Loom {
    connection: u64,
    /// The names that it has.
    names: Option<BTreeMap<u64, Arc<str>>>,
    directions: [Direction; 2],
}

/// What the page has been sent of one direction.
#[derive(Default)]
struct Direction {
    /// The rows that the record has, by where they begin.
    known: BTreeMap<u64, Known>,
    /// Stretches that had been recorded when it was last looked at, and how many have gone unseen since
    /// the first look: others may have had it recorded before.
    recorded: Option<u64>,
    unseen: u64,
    /// How the rows were cut that are known.
    cut: Option<Cut>,
    /// Whether rows that have changed come first, the next time.
    is_changed_first: bool,
}

/// What is known of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Known {
    /// Bytes given to paths, bytes that have not arrived, tenths of a second that the reader stood still.
    figures: (u64, u64, u128),
    is_sent: bool,
}

impl Loom {
    pub(crate) fn new(connection: u64) -> Self {
        Self { connection, names: None, directions: Default::default() }
    }

    /// What the page is to be told now, as JSON. The names of paths are, when they are others.
    pub(crate) fn message(&mut self, look: &WeaveLook) -> String {
        let mut text = format!("{{\"connection\":{},\"now\":{}", self.connection, micros(look.now));
        if self.names.as_ref() != Some(&look.names) {
            let _ = write!(text, ",\"names\":{}", names_of(look));
            self.names = Some(look.names.clone());
        }
        for (name, record, direction) in [("sent", &look.sent, 0), ("received", &look.received, 1)]
        {
            self.directions[direction].put(name, record, look.since, &mut text);
        }
        text.push('}');
        text
    }

    /// What it is told when the connection is over, or never was.
    pub(crate) fn over(&self) -> String {
        format!("{{\"connection\":{},\"over\":true}}", self.connection)
    }
}

impl Direction {
    /// Appends the rows of a record that the page should have.
    fn put(&mut self, name: &str, record: &WeaveRecord, since: Instant, text: &mut String) {
        let recorded = record.left_out + record.stretches.len() as u64;
        let known_since = match self.recorded.replace(recorded) {
            Some(before) if record.left_out <= before => None,
            Some(before) => {
                self.unseen += record.left_out - before;
                Some(known_since(record, since))
            }
            None => Some(known_since(record, since)),
        };
        let known_since = known_since.map(|since| format!("\"since\":{},", micros(since)));
        let known_since = known_since.unwrap_or_default();
        let (cut, rows) = rows(record, Instant::ZERO);
        // Rows that are cut in another way are others, to the page as well.
        if self.cut.replace(cut) != Some(cut) {
            self.known.clear();
        }
        let starts = rows.first().map(|row| row.bytes.start).unwrap_or(0);
        self.known = self.known.split_off(&starts);
        let (fresh, changed) = self.due(&rows);
        let every = fresh.len().div_ceil(ROWS).max(1);
        let shows = |row: &&&Row| (row.waited(), row.repeated());
        let chosen = fresh.chunks(every).filter_map(|some| some.iter().max_by_key(shows));
        let chosen: Vec<&Row> = chosen.copied().collect();
        let changed: Vec<&Row> = changed.into_iter().take(ROWS).collect();
        let mut list = String::new();
        let sent = if std::mem::replace(&mut self.is_changed_first, false) {
            self.put_rows(&changed, SHARE, &mut list);
            self.put_rows(&chosen, ROOM, &mut list)
        } else {
            let sent = self.put_rows(&chosen, SHARE, &mut list);
            // Where there was no room for it, it is its turn.
            self.is_changed_first = self.put_rows(&changed, ROOM, &mut list) < changed.len();
            sent
        };
        let _ = write!(
            text,
            ",\"{name}\":{{{known_since}\"cut\":\"{}\",\"every\":{every},\"left_out\":{},\"known_to\":{},\"rows\":[{list}]}}",
            cut_name(cut),
            self.unseen,
            json!(record.known_to())
        );
        // Rows between those that were sent are left out; what there was no room for is new again.
        let last = sent.checked_sub(1).map(|last| chosen[last].bytes.start);
        for row in fresh.iter().filter(|row| last.is_some_and(|last| row.bytes.start <= last)) {
            let known = Known { figures: figures(row), is_sent: false };
            self.known.entry(row.bytes.start).or_insert(known);
        }
    }

    /// Appends such rows as there is room for; how many.
    fn put_rows(&mut self, rows: &[&Row], room: usize, list: &mut String) -> usize {
        let mut one = String::new();
        for (count, row) in rows.iter().enumerate() {
            one.clear();
            put_row(row, &mut one);
            // One that is longer than all the room would never be sent.
            if !list.is_empty() && list.len() + one.len() >= room {
                return count;
            }
            list.push_str(if list.is_empty() { "" } else { "," });
            list.push_str(&one);
            let known = Known { figures: figures(row), is_sent: true };
            self.known.insert(row.bytes.start, known);
        }
        rows.len()
    }

    /// The rows that are new, and those of which more is known than the page was sent. Of those that
    /// were left out such come to be sent as show something.
    fn due<'a>(&self, rows: &'a [Row]) -> (Vec<&'a Row>, Vec<&'a Row>) {
        let (mut fresh, mut changed) = (Vec::new(), Vec::new());
        for row in rows {
            match self.known.get(&row.bytes.start) {
                None => fresh.push(row),
                Some(known) => {
                    let now = figures(row);
                    // What was dropped from the record is not forgotten here.
                    let is_more = now != known.figures && now.0 >= known.figures.0;
                    if is_more && (known.is_sent || row.is_notable()) {
                        changed.push(row);
                    }
                }
            }
        }
        changed.sort_by_key(|row| std::cmp::Reverse((row.is_notable(), row.bytes.start)));
        (fresh, changed)
    }
}

/// Since when a record has all that there was, if it was begun at `since`.
fn known_since(record: &WeaveRecord, since: Instant) -> Instant {
    let oldest = record.stretches.iter().map(|stretch| stretch.first).min();
    oldest.filter(|_| record.left_out > 0).map_or(since, |oldest| oldest.max(since))
}

fn figures(row: &Row) -> (u64, u64, u128) {
    let given = row.parts.iter().map(|part| part.range.end - part.range.start).sum();
    let missing = row.missing.iter().map(|range| range.end - range.start).sum();
    (given, missing, row.waited().as_millis() / 100)
}

fn names_of(look: &WeaveLook) -> Value {
    look.names.iter().map(|(path, name)| (path.to_string(), json!(&**name))).collect()
}

fn cut_name(cut: Cut) -> &'static str {
    match cut {
        Cut::Windows => "windows",
        Cut::Inferred => "inferred",
        Cut::Fixed => "fixed",
    }
}

fn micros(at: Instant) -> u64 {
    u64::try_from(at.since(Instant::ZERO).as_micros()).unwrap_or(u64::MAX)
}

fn put_row(row: &Row, text: &mut String) {
    let (start, began) = (row.bytes.start, micros(row.began()));
    let _ = write!(text, "[{start},{},{began},[", row.bytes.end - start);
    let (parts, left) = told(row);
    for (place, part) in parts.iter().enumerate() {
        let lead = if place == 0 { "" } else { "," };
        let Part { range, first, last, path, kind, is_backward } = part;
        let _ = write!(
            text,
            "{lead}[{},{},{},{},{},{}]",
            range.start - start,
            range.end - range.start,
            micros(*first).saturating_sub(began),
            micros(*last).saturating_sub(began),
            path.0,
            flags(*kind, *is_backward)
        );
    }
    text.push_str("],[");
    for (place, range) in row.missing.iter().enumerate() {
        let lead = if place == 0 { "" } else { "," };
        let _ = write!(text, "{lead}[{},{}]", range.start - start, range.end - range.start);
    }
    let _ = match &row.wait {
        None => write!(text, "],null,{left}]"),
        Some(wait) => {
            let end = wait.missing.end.min(row.bytes.end);
            let offset = wait.missing.start - start;
            let length = end.saturating_sub(wait.missing.start);
            write!(text, "],[{offset},{length},{}],{left}]", row.waited().as_millis())
        }
    };
}

const fn flags(kind: Kind, is_backward: bool) -> u8 {
    let why = match kind {
        Kind::New => 0,
        Kind::Copy => COPY,
        Kind::Reinjection => AGAIN,
    };
    why | if is_backward { BACKWARD } else { 0 }
}

/// A page that needs nothing else and shows what was recorded of both directions, as the dashboard
/// does: of `most` parts of the time each the row that shows the most.
pub fn weave_page(title: &str, look: &WeaveLook, most: usize) -> String {
    let mut text = format!(
        "{{\"title\":{},\"now\":{},\"names\":{}",
        json!(title),
        micros(look.now),
        names_of(look)
    );
    let span = look.now.since(Instant::ZERO);
    let slot =
        (span / u32::try_from(most.max(1)).unwrap_or(u32::MAX)).max(Duration::from_micros(1));
    for (name, record) in [("sent", &look.sent), ("received", &look.received)] {
        let (cut, all) = rows(record, Instant::ZERO);
        let since = micros(known_since(record, look.since));
        let _ = write!(text, ",\"{name}\":{{\"since\":{since},\"cut\":\"{}\",", cut_name(cut));
        let of = all.len();
        let chosen = choose(all, Instant::ZERO, slot);
        let every = (of / chosen.len().max(1)).max(1);
        let _ = write!(text, "\"every\":{every},\"left_out\":{},", record.left_out);
        let _ = write!(text, "\"known_to\":{},\"rows\":[", json!(record.known_to()));
        for (place, row) in chosen.values().enumerate() {
            text.push_str(if place == 0 { "" } else { "," });
            put_row(row, &mut text);
        }
        text.push_str("]}");
    }
    text.push('}');
    // Nothing in it ends the script.
    crate::assets::weave_page(&text.replace('<', "\\u003c"))
}

#[cfg(test)]
mod tests {
    use weftline_core::PathId;
    use weftline_core::session::{Stretch, Wait};

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// `windows` windows of 1000 bytes and 5 ms, filled from both ends.
    fn look(windows: u64) -> WeaveLook {
        let mut sent = WeaveRecord { in_order: u64::MAX, ..WeaveRecord::default() };
        for n in 0..windows {
            let (start, first, last) = (1000 * n, at(5 * n), at(5 * n + 4));
            let one = |range, path, is_backward| {
                let kind = Kind::New;
                Stretch { range, first, last, path: PathId(path), kind, is_backward, ranges: 2 }
            };
            sent.windows.push(start..start + 1000);
            sent.stretches.push(one(start..start + 600, 0, false));
            sent.stretches.push(one(start + 600..start + 1000, 1, true));
        }
        let names = [(0, "a\"b".into()), (1, "lte".into())].into();
        WeaveLook { now: at(5 * windows), sent, names, ..WeaveLook::default() }
    }

    fn read(text: &str) -> Value {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn a_row_is_sent_once_and_again_when_more_is_known_of_it() {
        let mut loom = Loom::new(7);
        let mut look = look(2);
        look.sent.in_order = 1000;
        let said = read(&loom.message(&look));
        assert_eq!((&said["connection"], &said["now"]), (&json!(7), &json!(10_000)));
        assert_eq!(said["names"], json!({"0": "a\"b", "1": "lte"}));
        let rows = json!([
            [0, 1000, 0, [[0, 600, 0, 4000, 0, 0], [600, 400, 0, 4000, 1, 1]], [], null, 0],
            [
                1000,
                1000,
                5000,
                [[0, 600, 0, 4000, 0, 0], [600, 400, 0, 4000, 1, 1]],
                [[0, 1000]],
                null,
                0
            ],
        ]);
        let all = json!({"since": 0, "cut": "windows", "every": 1, "left_out": 0, "known_to": null, "rows": rows});
        assert_eq!(said["sent"], all);
        assert_eq!(said["received"]["rows"], json!([]));
        assert_eq!(read(&loom.message(&look))["sent"]["rows"], json!([]));
        // It is sent again, as the reader waits for it, and then arrives.
        let again = Stretch { kind: Kind::Reinjection, ..look.sent.stretches[3].clone() };
        look.sent.stretches.push(Stretch { range: 1000..1600, ..again });
        look.sent.waits.push(Wait { missing: 1000..1600, since: at(10), until: at(250) });
        let said = read(&loom.message(&look));
        assert_eq!(said["sent"]["rows"][0][3][2], json!([0, 600, 0, 4000, 1, 5]));
        assert_eq!(said["sent"]["rows"][0][5], json!([0, 600, 240]));
        look.sent.in_order = 2000;
        assert_eq!(read(&loom.message(&look))["sent"]["rows"][0][4], json!([]));
        assert_eq!(read(&loom.message(&look))["sent"]["rows"], json!([]));
        assert_eq!(loom.over(), r#"{"connection":7,"over":true}"#);
    }

    #[test]
    fn of_many_rows_every_kth_is_sent_and_one_that_shows_something_in_its_place() {
        let mut loom = Loom::new(7);
        let mut look = look(1500);
        look.sent.waits.push(Wait { missing: 333_000..333_500, since: at(0), until: at(60) });
        let text = loom.message(&look);
        let said = read(&text);
        let rows = said["sent"]["rows"].as_array().unwrap();
        assert_eq!((rows.len(), &said["sent"]["every"]), (ROWS, &json!(100)));
        assert!(rows.iter().any(|row| row[0] == 333_000), "{text}");
        // Those left out are not sent later, unless something comes of them.
        assert_eq!(read(&loom.message(&look))["sent"]["rows"], json!([]));
        look.sent.waits.push(Wait { missing: 444_000..444_500, since: at(0), until: at(160) });
        let said = read(&loom.message(&look));
        assert_eq!(said["sent"]["rows"][0][0], 444_000);
        // And what the record has dropped is forgotten, of which nothing went unseen.
        look.sent.stretches.drain(..2000);
        look.sent.windows.drain(..1000);
        look.sent.left_out = 2000;
        assert_eq!(read(&loom.message(&look))["sent"]["left_out"], 0);
        assert_eq!(loom.directions[0].known.len(), 500);
        look.sent.left_out = 3007;
        assert_eq!(read(&loom.message(&look))["sent"]["left_out"], 7);
    }

    #[test]
    fn what_went_before_a_page_came_is_not_missing_and_not_known() {
        let mut look = look(2);
        look.since = at(3);
        look.sent.left_out = 9000;
        look.sent.stretches.drain(..2);
        let mut loom = Loom::new(7);
        let said = read(&loom.message(&look));
        // The recorder has dropped what it had of the time before.
        assert_eq!(
            (&said["sent"]["since"], &said["received"]["since"]),
            (&json!(5000), &json!(3000))
        );
        assert_eq!(said["sent"]["left_out"], 0);
        look.sent.left_out = 9009;
        let said = read(&loom.message(&look));
        assert_eq!(said["sent"]["left_out"], 7, "of nine, two had been there");
        assert_eq!(said["sent"]["since"], 5000, "that is known, and more was not seen");
        assert!(read(&loom.message(&look))["sent"]["since"].is_null());
    }

    /// Stretches of 5 bytes in all of a record, and such as were sent again.
    fn tear(record: &mut WeaveRecord, windows: u64) {
        for n in 0..windows * 100 {
            let start = n * 10;
            let one = record.stretches[0].clone();
            let path = PathId(n % 2);
            record.stretches.push(Stretch { range: start..start + 5, ranges: 1, path, ..one });
        }
    }

    #[test]
    fn a_message_has_a_bound_however_torn_rows_are_and_each_direction_its_share() {
        let mut loom = Loom::new(7);
        let mut look = look(40);
        tear(&mut look.sent, 40);
        look.sent.in_order = 0;
        look.received = look.sent.clone();
        look.names = (0..64).map(|n| (n, "long".repeat(16).into())).collect();
        let (mut rows, mut starts) = ([0, 0], [Vec::new(), Vec::new()]);
        for round in 0..40 {
            let text = loom.message(&look);
            let said = read(&text);
            // Names are told once.
            assert_eq!(said["names"].is_null(), round > 0);
            assert!(text.len() < 10_000 || round == 0 && text.len() < 16_000, "{}", text.len());
            for (direction, name) in ["sent", "received"].into_iter().enumerate() {
                let told = said[name]["rows"].as_array().unwrap();
                rows[direction] += told.len();
                starts[direction].extend(told.iter().map(|row| row[0].as_u64().unwrap()));
            }
        }
        // Nothing that is chosen is lost, in either.
        assert!(rows.iter().all(|rows| *rows >= ROWS), "{rows:?}");
        assert_eq!(starts[0], starts[1]);
    }

    #[test]
    fn what_has_changed_is_told_also_where_much_is_new() {
        let mut loom = Loom::new(7);
        let mut look = look(10);
        let mut is_told =
            || read(&loom.message(&look))["sent"]["rows"].as_array().unwrap().is_empty();
        assert!((0..10_000).any(|_| is_told()), "there is always more");
        let again = Stretch { kind: Kind::Reinjection, ..look.sent.stretches[1].clone() };
        for round in 0..3 {
            // Torn rows are new each time, and one is known to be told again.
            let (first, last) = (at(1000), at(1001));
            for n in 0..4000 {
                let start = 100_000 * (round + 1) + 20 * n;
                let one = Stretch { range: start..start + 20, first, last, ..again.clone() };
                look.sent.stretches.push(Stretch { kind: Kind::New, path: PathId(n % 2), ..one });
                look.sent.windows.push(start - start % 1000..start - start % 1000 + 1000);
            }
            look.sent.stretches.push(Stretch { range: 700..800 + round, ..again.clone() });
            let told: Vec<_> = (0..2).map(|_| read(&loom.message(&look))).collect();
            let rows = told.iter().flat_map(|said| said["sent"]["rows"].as_array().unwrap());
            let starts: Vec<_> = rows.map(|row| row[0].as_u64().unwrap()).collect();
            assert!(starts.contains(&0), "{starts:?}");
            assert!(starts.iter().any(|start| *start >= 100_000), "{starts:?}");
        }
    }

    #[test]
    fn rows_that_are_filled_and_arrive_bit_by_bit_are_told_whole() {
        let mut loom = Loom::new(7);
        let mut look = look(0);
        // Rows that are filled bit by bit by two paths in turn, and arrive much later, bit by bit as well.
        let mut told: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let sum = |list: &Value| {
            let all = list.as_array().unwrap().iter();
            all.map(|one| one[1].as_u64().unwrap()).sum::<u64>()
        };
        for step in 0..400 {
            for n in 0..100 {
                let start = step * 100_000 + n * 1000;
                let (first, last) = (at(step * 100), at(step * 100 + 50));
                let (path, kind, is_backward) = (PathId(n % 2), Kind::New, false);
                let (range, ranges) = (start..start + 1000, 1);
                let one = Stretch { range, first, last, path, kind, is_backward, ranges };
                look.sent.stretches.push(one);
            }
            if step % 10 == 0 {
                let start = step * 100_000;
                look.sent.windows.push(start..start + 1_000_000);
            }
            look.sent.in_order = (step * 100_000).saturating_sub(2_500_000);
            let said = read(&loom.message(&look));
            for row in said["sent"]["rows"].as_array().unwrap() {
                told.insert(row[0].as_u64().unwrap(), (sum(&row[3]), sum(&row[4])));
            }
        }
        let whole = told.values().filter(|told| **told == (1_000_000, 0)).count();
        assert!(told.len() == 40 && whole >= 36, "{told:?}");
    }

    #[test]
    fn rows_that_are_cut_in_another_way_are_told_anew() {
        let mut loom = Loom::new(7);
        let mut look = look(2);
        assert_eq!(read(&loom.message(&look))["sent"]["rows"].as_array().unwrap().len(), 2);
        look.sent.windows.clear();
        let said = read(&loom.message(&look));
        assert_eq!(said["sent"]["cut"], "fixed");
        assert_eq!(said["sent"]["rows"][0][0], 0);
    }

    #[test]
    fn a_page_shows_all_of_a_run_and_nothing_in_it_is_markup() {
        let page = weave_page("</script><b>", &look(400), 100);
        assert_eq!(page.matches("</script>").count(), 2, "{page}");
        let (_, data) = page.split_once("id=\"data\">").unwrap();
        let said = read(data.split_once("</script>").unwrap().0);
        assert_eq!(said["title"], "</script><b>");
        assert_eq!(said["sent"]["rows"].as_array().unwrap().len(), 100);
        assert_eq!(said["sent"]["every"], 4);
    }
}
