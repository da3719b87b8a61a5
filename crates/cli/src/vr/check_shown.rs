//! `weftline vr check --shown`: what pages of the player have shown against what the player counts as shown.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output;

/// The longest line: the most tiles a frame may have, four numbers each.
const MAX_LINE: u64 = 256 << 10;

/// A line of the log: a GoP on a page.
#[derive(Debug, Deserialize)]
struct Line {
    schema: u32,
    page: u64,
    pictures_shown: u16,
    pictures_dropped: u16,
    late_network: u16,
    model_psnr_db: Option<f64>,
    shown_psnr_db: Option<f64>,
    /// Of each tile, the QP that the player counts as shown; the one that the page had when the GoP began; the
    /// one that it has shown; and in how many of the pictures that it has shown that was not there.
    model: Vec<Option<u8>>,
    had: Vec<Option<u8>>,
    shown: Vec<Option<u8>>,
    missed: Vec<u16>,
    /// Tiles that the page was not sent, as it was too slow.
    unsent: u64,
    /// Tiles that were concealed by something else than at the player, for what was late before.
    held_other: u32,
}

/// What became of all GoPs on a page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    gops: u32,
    /// GoPs of which it has shown no picture: of these only what was there is compared.
    unseen: u32,
    pictures: [u64; 2],
    tiles: u64,
    /// Tiles that were there in all pictures as the player says, and those that it says are not there.
    as_said: u64,
    late_network: u64,
    late_decoding: u64,
    /// Tiles that the page was not sent, as it was too slow to take them or there was no room.
    unsent: u64,
    /// Tiles that were not there on the page when their GoP began, and nothing says why.
    lost: u64,
    /// Tiles that were shown, or were to be, at another QP.
    other: u64,
    /// GoPs of which the PSNR is known, and its sums by the player and by the page, dB.
    judged: [f64; 3],
    /// The same of those where all was there on the page and none was late by decoding.
    exact: [f64; 3],
}

impl Seen {
    fn add(&mut self, line: &Line) {
        self.gops += 1;
        self.pictures[0] += u64::from(line.pictures_shown);
        self.pictures[1] += u64::from(line.pictures_dropped);
        self.late_network += u64::from(line.late_network);
        let is_seen = line.pictures_shown > 0;
        self.unseen += u32::from(!is_seen);
        let (mut late, mut unsent) = (0, line.unsent);
        let tiles = line.model.iter().zip(&line.had).zip(line.shown.iter().zip(&line.missed));
        for ((model, had), (shown, missed)) in tiles {
            self.tiles += u64::from(is_seen);
            match (model, had, shown) {
                // Of a tile that was not sent its base layer may have been, and nothing finer.
                (Some(model), had, _) if unsent > 0 && had.is_none_or(|had| had > *model) => {
                    unsent -= 1;
                }
                (Some(_), None, None) => self.lost += 1,
                _ if had != model || shown.is_some_and(|shown| Some(shown) != *model) => {
                    self.other += 1;
                }
                _ if !is_seen => {}
                (Some(_), _, None) => late += 1,
                _ if *missed > 0 => late += 1,
                _ => self.as_said += 1,
            }
        }
        let unsent = line.unsent - unsent;
        self.unsent += unsent;
        self.late_decoding += late;
        if !is_seen {
            return;
        }
        if let (Some(model), Some(shown)) = (line.model_psnr_db, line.shown_psnr_db) {
            let add = |sums: &mut [f64; 3]| {
                sums[0] += 1.0;
                sums[1] += model;
                sums[2] += shown;
            };
            add(&mut self.judged);
            if late == 0 && unsent == 0 && line.held_other == 0 {
                add(&mut self.exact);
            }
        }
    }

    /// The mean PSNR by the player, and how far that by the page is below it.
    fn psnr(sums: [f64; 3]) -> Option<[f64; 2]> {
        let [count, model, shown] = sums;
        (count > 0.0).then(|| [model / count, (model - shown) / count])
    }
}

/// Compares a log. Where nothing was late by decoding the PSNR may be off by `limit_db` on average.
///
/// # Errors
/// If it is none, or pages have shown something else than the player says.
pub(super) fn run(path: &Path, json: bool, limit_db: f64) -> Result<(), Failure> {
    let pages = read(path)?;
    let text = if json { lines(&pages) } else { table(&pages) };
    output::print(&text)?;
    for (page, seen) in &pages {
        if seen.other > 0 {
            return Err(Failure::failed(format!(
                "page {page} has shown {} tiles at another QP than the player says arrived",
                seen.other
            )));
        }
        if seen.lost > 0 {
            return Err(Failure::failed(format!(
                "page {page} did not have {} tiles when their GoP began that the player says arrived, \
                 and they are not counted as dropped on the way to it",
                seen.lost
            )));
        }
        if let Some([_, gap]) = Seen::psnr(seen.exact).filter(|[_, gap]| gap.abs() > limit_db) {
            return Err(Failure::failed(format!(
                "where nothing was late by decoding, page {page} has shown {gap:.2} dB less than the \
                 player says, more than {limit_db}"
            )));
        }
    }
    Ok(())
}

/// What each page has shown.
fn read(path: &Path) -> Result<BTreeMap<u64, Seen>, Failure> {
    let wrong = |why: String| Failure::wrong_use(format!("--shown {}: {why}", path.display()));
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut file = BufReader::new(file);
    let mut pages = BTreeMap::<u64, Seen>::new();
    let mut text = String::new();
    for number in 1.. {
        let at = |why: String| wrong(format!("line {number}: {why}"));
        text.clear();
        let read = file.by_ref().take(MAX_LINE).read_line(&mut text);
        if read.map_err(|error| at(error.to_string()))? == 0 {
            break;
        }
        let line: Line = serde_json::from_str(&text).map_err(|error| {
            at(format!("{error}; it is what weftline vr play --shown writes that is compared"))
        })?;
        let fits = [line.had.len(), line.shown.len(), line.missed.len()] == [line.model.len(); 3];
        if line.schema != 1 || !fits {
            return Err(at("it is of another release, or its lists are not of one length".into()));
        }
        pages.entry(line.page).or_default().add(&line);
    }
    if pages.is_empty() {
        return Err(wrong("it has no line: no page has shown anything".to_owned()));
    }
    Ok(pages)
}

fn table(pages: &BTreeMap<u64, Seen>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "page",
        "GoPs",
        "pictures shown",
        "of",
        "tiles",
        "shown as said",
        "late by network",
        "late by decoding",
        "not sent",
        "lost",
        "other",
        "PSNR dB",
        "less by decoding dB",
    ]);
    for (page, seen) in pages {
        let [shown, dropped] = seen.pictures;
        let db = |value: Option<f64>| value.map_or("–".to_owned(), |db| format!("{db:.3}"));
        let psnr = Seen::psnr(seen.judged);
        table.add_row([
            page.to_string(),
            seen.gops.to_string(),
            shown.to_string(),
            (shown + dropped).to_string(),
            seen.tiles.to_string(),
            seen.as_said.to_string(),
            seen.late_network.to_string(),
            seen.late_decoding.to_string(),
            seen.unsent.to_string(),
            seen.lost.to_string(),
            seen.other.to_string(),
            db(psnr.map(|[psnr, _]| psnr)),
            db(psnr.map(|[_, gap]| gap)),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("What pages have shown against what the player says arrived\n{table}\n");
    for (page, _) in pages.iter().filter(|(_, seen)| seen.exact[0] == 0.0) {
        text += &format!(
            "page {page}: its PSNR is not checked, as it has shown no GoP of which all was there and in time\n"
        );
    }
    text
}

fn lines(pages: &BTreeMap<u64, Seen>) -> String {
    let line = |(page, seen): (&u64, &Seen)| -> Value {
        let psnr = Seen::psnr(seen.judged);
        json!({
            "page": page,
            "gops": seen.gops,
            "gops_unseen": seen.unseen,
            "pictures_shown": seen.pictures[0],
            "pictures_dropped": seen.pictures[1],
            "tiles": seen.tiles,
            "as_said": seen.as_said,
            "late_network": seen.late_network,
            "late_decoding": seen.late_decoding,
            "unsent": seen.unsent,
            "lost": seen.lost,
            "other": seen.other,
            "gops_checked_by_psnr": seen.exact[0] as u32,
            "model_psnr_db": psnr.map(|[psnr, _]| psnr),
            "less_by_decoding_db": psnr.map(|[_, gap]| gap),
        })
    };
    pages.iter().map(|page| format!("{}\n", line(page))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[Value]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    /// A line of a page that had all that it shows, and all that it was to.
    fn line(model: [Option<u8>; 3], shown: [Option<u8>; 3], missed: [u16; 3]) -> Value {
        let had: Vec<_> = shown.iter().zip(model).map(|(shown, model)| shown.or(model)).collect();
        json!({
            "schema": 1, "gop": 0, "page": 4, "pictures_shown": 5, "pictures_dropped": 1,
            "late_network": 1, "late_decoding": 0, "lead_ms": 3.0, "model_psnr_db": 40.0,
            "shown_psnr_db": 39.0, "model": model, "shown": shown, "missed": missed,
            "held_other": 0, "had": had, "unsent": 0,
        })
    }

    #[test]
    fn what_did_not_reach_the_page_is_an_error_unless_it_was_dropped() {
        let model = [Some(22), None, Some(37)];
        let mut gone = line(model, [Some(22), None, None], [0; 3]);
        gone["had"] = json!([22, null, null]);
        let error = run(log(&[gone.clone()]).path(), false, 0.3).unwrap_err().to_string();
        assert!(error.contains("page 4 did not have 1 tiles"), "{error}");
        gone["unsent"] = json!(1);
        let file = log(&[gone]);
        assert!(run(file.path(), true, 0.3).is_ok());
        let seen = read(file.path()).unwrap()[&4];
        assert_eq!((seen.as_said, seen.unsent, seen.lost, seen.late_decoding), (2, 1, 0, 0));
        // Of what was not sent the base layer may be there, and is shown.
        let mut base = line(model, [Some(42), None, Some(37)], [0; 3]);
        assert!(run(log(&[base.clone()]).path(), true, 0.3).is_err());
        base["unsent"] = json!(1);
        assert!(run(log(&[base]).path(), true, 0.3).is_ok());
        // Something finer than what arrived was not sent either.
        let mut finer = line(model, [Some(20), None, Some(37)], [0; 3]);
        finer["unsent"] = json!(1);
        assert!(run(log(&[finer]).path(), true, 0.3).is_err());
    }

    #[test]
    fn what_a_page_had_is_compared_also_where_it_has_shown_no_picture() {
        let model = [Some(22), None, Some(37)];
        let mut unseen = line(model, [None; 3], [0; 3]);
        unseen["pictures_shown"] = json!(0);
        let file = log(&[unseen.clone()]);
        assert!(run(file.path(), true, 0.3).is_ok());
        let seen = read(file.path()).unwrap()[&4];
        assert_eq!((seen.unseen, seen.tiles, seen.as_said, seen.late_decoding), (1, 0, 0, 0));
        assert_eq!((seen.judged, seen.exact), ([0.0; 3], [0.0; 3]));
        unseen["had"] = json!([22, null, null]);
        let error = run(log(&[unseen.clone()]).path(), false, 0.3).unwrap_err().to_string();
        assert!(error.contains("page 4 did not have 1 tiles"), "{error}");
        unseen["had"] = json!([22, null, 42]);
        let error = run(log(&[unseen]).path(), false, 0.3).unwrap_err().to_string();
        assert!(error.contains("page 4 has shown 1 tiles at another QP"), "{error}");
    }

    #[test]
    fn it_says_that_no_psnr_was_checked() {
        let some = [Some(22), None, Some(37)];
        let late = line(some, [Some(22), None, None], [2, 0, 0]);
        let pages = read(log(std::slice::from_ref(&late)).path()).unwrap();
        assert!(table(&pages).contains("page 4: its PSNR is not checked"), "{}", table(&pages));
        assert!(lines(&pages).contains("\"gops_checked_by_psnr\":0"), "{}", lines(&pages));
        let pages = read(log(&[late, line(some, some, [0; 3])]).path()).unwrap();
        assert!(!table(&pages).contains("not checked"), "{}", table(&pages));
        assert!(lines(&pages).contains("\"gops_checked_by_psnr\":1"), "{}", lines(&pages));
    }

    #[test]
    fn what_is_late_by_decoding_is_told_apart_and_what_is_other_is_an_error() {
        let some = [Some(22), None, Some(37)];
        let fine = line(some, some, [0; 3]);
        let late = line(some, [Some(22), None, None], [2, 0, 0]);
        let file = log(&[fine.clone(), late.clone()]);
        let seen = read(file.path()).unwrap()[&4];
        assert_eq!((seen.gops, seen.tiles, seen.as_said), (2, 6, 4));
        assert_eq!((seen.late_network, seen.late_decoding, seen.other), (2, 2, 0));
        assert_eq!((seen.pictures, Seen::psnr(seen.judged)), ([10, 2], Some([40.0, 1.0])));
        // Of the dB only what decoding does not explain is wrong.
        assert!(run(file.path(), true, 0.3).is_err());
        assert!(run(log(&[late]).path(), true, 0.3).is_ok());
        let other = line(some, [Some(37), None, Some(37)], [0; 3]);
        let error = run(log(&[other]).path(), false, 0.3).unwrap_err().to_string();
        assert!(error.contains("page 4 has shown 1 tiles at another QP"), "{error}");
        assert!(run(log(&[line([None; 3], some, [0; 3])]).path(), true, 0.3).is_err());
    }

    #[test]
    fn what_is_no_log_is_said_with_its_line() {
        for (text, why) in [("", "no line"), ("{}", "line 1"), ("\n", "line 1"), ("[]", "line 1")] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            let error = read(file.path()).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
        let short = line([None; 3], [None; 3], [0; 3]).to_string().replace("[0,0,0]", "[0]");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), short).unwrap();
        assert!(read(file.path()).unwrap_err().to_string().contains("one length"));
    }
}
