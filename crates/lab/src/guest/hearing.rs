//! What the host makes of a guest's lines: data, which are checked and never trusted.

use std::collections::BTreeMap;
use std::time::Duration;

use weftline_measure::STEP;
use weftline_scenario::RunRecord;

use super::figures::{self, METRICS, Row, Rows};
use super::words::Word;
use crate::record::named;
use crate::run::{Plan, steps};

/// The most bytes that a guest may say besides its series, and in each step for each value of them: a
/// value takes 60, and how far the run is takes 15.
const MOST: usize = 1 << 20;
const MOST_OF_A_VALUE: usize = 128;

/// How much further a run must have come to be a sign of life: half of what lies between two lines of a
/// guest that does its run.
const FURTHER: Duration = Duration::from_millis(100);

/// What a guest's kernel says on its console when something is wrong with it.
const COMPLAINTS: [&str; 7] = [
    "Kernel panic",
    "BUG:",
    "Oops:",
    "WARNING:",
    "Call Trace",
    "blocked for more than",
    "Out of memory",
];

/// A guest that is being listened to. Each error is what is wrong with it, in a few words.
#[derive(Debug)]
pub(super) struct Hearing<'a> {
    plan: &'a Plan<'a>,
    /// How many bytes it may still say.
    left: usize,
    /// How far the run had come by the last sign of life.
    last: Option<Duration>,
    record: Option<Box<RunRecord>>,
    rows: Rows,
}

/// What a line meant.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// The run has come so far, which is further than before.
    At(Duration),
    /// It has come no further.
    Nothing,
    /// A part of the results.
    Part,
    /// All is there.
    End(Box<RunRecord>, Vec<Row>),
}

impl<'a> Hearing<'a> {
    /// Of a guest that is to run this plan.
    pub(super) fn new(plan: &'a Plan<'a>) -> Self {
        let values = plan.paths().count() * METRICS.len() + 1;
        let in_series = steps(plan.scenario.duration, STEP) * values * MOST_OF_A_VALUE;
        Self { plan, left: MOST + in_series, last: None, record: None, rows: Rows::default() }
    }

    /// Whether it has said anything.
    pub(super) fn has_heard(&self) -> bool {
        self.last.is_some() || self.record.is_some()
    }

    /// Hears a line.
    pub(super) fn hear(&mut self, line: &str) -> Result<Heard, String> {
        let left = self.left.checked_sub(line.len() + 1);
        self.left = left.ok_or("it said more than a run has to say")?;
        let word = serde_json::from_str(line)
            .map_err(|_| format!("it said what cannot be read: '{}'", plain(line, 80)))?;
        match word {
            Word::At(ms) => self.at(Duration::from_millis(ms)),
            Word::Record(record) => self.record(record),
            Word::Sample(time_s, path, metric, value) => {
                self.rows.add(self.plan, time_s, path, &metric, value)?;
                Ok(Heard::Part)
            }
            Word::Failed(why) => Err(plain(&why, 500)),
            Word::End => match self.record.take() {
                Some(record) => {
                    let rows = std::mem::take(&mut self.rows).finish(self.plan, &record)?;
                    Ok(Heard::End(record, rows))
                }
                None => Err("it ended without a record".to_owned()),
            },
        }
    }

    fn at(&mut self, elapsed: Duration) -> Result<Heard, String> {
        if elapsed > self.plan.longest() {
            return Err(format!("it went on for {} s", elapsed.as_secs()));
        }
        if self.last.is_some_and(|last| elapsed < last + FURTHER) {
            return Ok(Heard::Nothing);
        }
        self.last = Some(elapsed);
        Ok(Heard::At(elapsed))
    }

    fn record(&mut self, mut record: Box<RunRecord>) -> Result<Heard, String> {
        if self.record.is_some() {
            return Err("it gave two records".to_owned());
        }
        if of_the_run(self.plan, (*record).clone()) != *record {
            let RunRecord { scenario, scheme, seed, .. } = *record;
            let whose = plain(&format!("{scenario} {scheme}"), 80);
            return Err(format!("it gave the record of another run: {whose}, seed {seed}"));
        }
        let ours = self.plan.paths().map(|path| path.name.as_str());
        if record.completed && !record.paths.iter().map(|path| path.name.as_str()).eq(ours) {
            return Err("its record has other paths than the scenario".to_owned());
        }
        figures::check(self.plan, &record)?;
        record.error = record.error.map(|error| plain(&error, 500));
        self.record = Some(record);
        Ok(Heard::Part)
    }
}

/// A record as it must be if it is of the plan's run: whose it is, and nothing that the lab's own sender
/// and receiver have no figure for.
fn of_the_run(plan: &Plan<'_>, record: RunRecord) -> RunRecord {
    let figures = RunRecord {
        tls: false,
        messages: None,
        packet_delay_ms: None,
        cotag: None,
        video: None,
        flows: Vec::new(),
        case: BTreeMap::new(),
        events: None,
        guest_kernel: None,
        digest: None,
        ..record
    };
    named(plan, figures)
}

/// The beginning of what a guest says, as a terminal may show it: no more than so many characters, and no
/// control characters.
pub(super) fn plain(text: &str, most: usize) -> String {
    let start = text.chars().take(most);
    start
        .map(|c| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() })
        .collect()
}

/// The first line of a console on which a kernel complains.
pub(super) fn complaint(console: &str) -> Option<&str> {
    let mut lines = console.lines().map(str::trim);
    lines.find(|line| COMPLAINTS.iter().any(|complaint| line.contains(complaint)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use weftline_scenario::{Congestion, EmulatorRecord, PathRecord, Scenario, Scheme};

    use super::*;

    /// Runs `work` with a run of a second over `bond`: 50 and 30 Mb/s.
    fn with_plan(work: impl FnOnce(&Plan<'_>)) {
        let mut scenario = Scenario::find("bond").unwrap();
        scenario.set_duration(Duration::from_secs(1), Duration::ZERO).unwrap();
        let scheme: Scheme = "linux-fbdt".parse().unwrap();
        work(&Plan {
            scenario: &scenario,
            scheme: &scheme,
            congestion: Congestion::CUBIC,
            in_kernel: "cubic",
            seed: 3,
            tls: false,
            cuts: &[],
            version: "0.1.0",
            program: Path::new(""),
            observer: None,
        });
    }

    /// The record of that run.
    fn record(plan: &Plan<'_>) -> RunRecord {
        let path = |name: &str| PathRecord { name: name.to_owned(), ..PathRecord::default() };
        let record = RunRecord {
            completed: true,
            goodput_mbps: Some(40.0),
            goodput_total_mbps: Some(40.0),
            bytes_delivered: Some(5_000_000),
            cpu_seconds: Some(0.5),
            emulator: Some(EmulatorRecord { late_over_1ms_share: 0.0, valid: true }),
            paths: plan.paths().map(|own| path(&own.name)).collect(),
            ..RunRecord::default()
        };
        named(plan, record)
    }

    fn line(word: &Word) -> String {
        serde_json::to_string(word).unwrap()
    }

    fn row(step: usize, path: &str, metric: &str, value: f64) -> Word {
        Word::Sample(step as f64 / 10.0, path.to_owned(), metric.to_owned(), value)
    }

    /// What a guest says that does its run.
    fn whole(plan: &Plan<'_>) -> Vec<String> {
        let mut words = vec![Word::At(0), Word::At(200), Word::Record(Box::new(record(plan)))];
        for step in 1..=10 {
            words.push(row(step, "", METRICS[0], 40.0));
            // After its last packet a link has no rows.
            words.extend((step < 10).then(|| row(step, "dsl", METRICS[0], 18.0)));
            words.push(row(step, "dsl", METRICS[1], 50.0));
            words.push(row(step, "lte", METRICS[1], 30.0));
            words.extend((step > 1).then(|| row(step, "dsl", METRICS[2], 12.0)));
        }
        words.push(Word::End);
        words.iter().map(line).collect()
    }

    /// What a guest is told that says these lines; the error, or what it has given in the end.
    fn heard(plan: &Plan<'_>, lines: &[String]) -> Result<Option<(RunRecord, Vec<Row>)>, String> {
        let mut hearing = Hearing::new(plan);
        for line in lines {
            if let Heard::End(record, rows) = hearing.hear(line)? {
                return Ok(Some((*record, rows)));
            }
        }
        Ok(None)
    }

    #[test]
    fn a_whole_run_is_taken_as_it_is() {
        with_plan(|plan| {
            let (taken, rows) = heard(plan, &whole(plan)).unwrap().unwrap();
            assert_eq!((taken, rows.len()), (record(plan), 10 + 9 + 20 + 9));
            let mut hearing = Hearing::new(plan);
            assert_eq!(
                hearing.hear(&line(&Word::At(1500))),
                Ok(Heard::At(Duration::from_millis(1500)))
            );
        });
    }

    #[test]
    fn only_what_comes_further_is_a_sign_of_life() {
        with_plan(|plan| {
            let mut hearing = Hearing::new(plan);
            let mut at = |ms| hearing.hear(&line(&Word::At(ms)));
            let further = |ms| Ok(Heard::At(Duration::from_millis(ms)));
            assert_eq!(at(0), further(0));
            assert_eq!(at(0), Ok(Heard::Nothing));
            assert_eq!(at(99), Ok(Heard::Nothing));
            assert_eq!(at(100), further(100));
            assert_eq!(at(50), Ok(Heard::Nothing));
            // A second, and what a report may take.
            assert_eq!(at(11_000), further(11_000));
            assert_eq!(at(12_000), Err("it went on for 12 s".to_owned()));
            assert!(at(u64::MAX).is_err());
        });
    }

    /// What a guest says whose record was changed.
    fn whole_with(plan: &Plan<'_>, change: Change<'_>) -> Vec<String> {
        let mut record = record(plan);
        change(&mut record);
        let mut lines = whole(plan);
        lines[2] = line(&Word::Record(Box::new(record)));
        lines
    }

    /// Makes a record another one.
    type Change<'a> = &'a dyn Fn(&mut RunRecord);

    #[test]
    fn figures_that_cannot_be_are_refused() {
        let changes: [(Change<'_>, &str); 16] = [
            (&|record| record.error = Some("x".to_owned()), "that it completed and that it failed"),
            (&|record| record.completed = false, "that it completed and that it failed"),
            (&|record| record.emulator = None, "no such emulator"),
            (&|record| record.goodput_mbps = None, "no such goodput_mbps"),
            (&|record| record.goodput_total_mbps = None, "no such goodput_total_mbps"),
            (&|record| record.bytes_delivered = None, "no such bytes_delivered"),
            (&|record| record.bytes_delivered = Some(0), "no such bytes_delivered"),
            (&|record| record.cpu_seconds = None, "no such cpu_seconds"),
            (&|record| record.completion_s = Some(0.9), "no such completion_s"),
            (&|record| record.completion_s = Some(1e300), "completion_s cannot be: 1e300"),
            (&|record| record.goodput_mbps = Some(-1e300), "goodput_mbps cannot be: -1e300"),
            // 80 Mb/s for a second, and another of slack.
            (&|record| record.goodput_mbps = Some(162.0), "goodput_mbps cannot be: 1.62e2"),
            (&|record| record.bytes_delivered = Some(20_300_000), "bytes_delivered cannot be"),
            (&|record| record.cpu_seconds = Some(-0.1), "cpu_seconds cannot be: -1e-1"),
            (&|record| record.paths[1].goodput_mbps = Some(1e9), "goodput_mbps of a path cannot"),
            (
                &|record| record.emulator.as_mut().unwrap().late_over_1ms_share = 1.5,
                "share of late packets cannot be: 1.5e0",
            ),
        ];
        with_plan(|plan| {
            for (change, words) in changes {
                let error = heard(plan, &whole_with(plan, change)).map(|_| ()).unwrap_err();
                assert!(error.contains(words), "{words}: {error}");
            }
            let most = |record: &mut RunRecord| {
                record.goodput_mbps = Some(161.5);
                record.bytes_delivered = Some(20_100_000);
            };
            assert!(heard(plan, &whole_with(plan, &most)).is_ok());
            // A run that failed has no figures but those that it has.
            let failed = |record: &mut RunRecord| {
                let error = Some("stalled".to_owned());
                let paths = std::mem::take(&mut record.paths);
                *record = named(plan, RunRecord { error, paths, ..RunRecord::default() });
            };
            let mut lines = whole_with(plan, &failed);
            lines.drain(3..lines.len() - 1);
            assert_eq!(heard(plan, &lines).unwrap().unwrap().1, []);
        });
    }

    #[test]
    fn a_series_with_missing_or_doubled_rows_is_refused() {
        with_plan(|plan| {
            let good = whole(plan);
            let at = |word: Word| {
                good.iter().position(|own| *own == line(&word)).expect("it is among the lines")
            };
            let first = at(row(1, "dsl", METRICS[0], 18.0));
            for (removed, words) in [
                (at(row(10, "", METRICS[0], 40.0)), "goodput_mbps of '' are missing"),
                (at(row(4, "", METRICS[0], 40.0)), "goodput_mbps of '' are missing"),
                (at(row(7, "lte", METRICS[1], 30.0)), "capacity_mbps of 'lte' are missing"),
                (first, "goodput_mbps of 'dsl' are missing"),
            ] {
                let mut lines = good.clone();
                lines.remove(removed);
                let error = heard(plan, &lines).map(|_| ()).unwrap_err();
                assert!(error.contains(words), "{error}");
            }
            for (replaced, by, words) in [
                (first, row(2, "dsl", METRICS[0], 18.0), "goodput_mbps of 0.2 s twice"),
                (first, row(1, "dsl", METRICS[0], -1.0), "series cannot be: -1e0"),
                (first, row(1, "dsl", METRICS[0], 1e3), "of goodput_mbps of 'dsl' cannot be"),
            ] {
                let mut lines = good.clone();
                lines[replaced] = line(&by);
                let error = heard(plan, &lines).map(|_| ()).unwrap_err();
                assert!(error.contains(words), "{error}");
            }
        });
    }

    #[test]
    fn what_is_not_this_run_is_refused() {
        with_plan(|plan| {
            let good = record(plan);
            let other = |change: &dyn Fn(&mut RunRecord)| {
                let mut record = good.clone();
                change(&mut record);
                line(&Word::Record(Box::new(record)))
            };
            let sample = |time_s, path: &str, metric: &str| {
                line(&Word::Sample(time_s, path.to_owned(), metric.to_owned(), 1.0))
            };
            let twice = other(&|_| {});
            let cut = &twice[..twice.len() / 2];
            for (lines, words) in [
                (vec!["garbage".to_owned()], "it said what cannot be read: 'garbage'"),
                (vec![String::new()], "it said what cannot be read: ''"),
                (vec![cut.to_owned()], "it said what cannot be read: '{\"record\":"),
                (vec![twice.clone(), twice.clone()], "it gave two records"),
                (vec![line(&Word::End)], "it ended without a record"),
                (vec![other(&|record| record.seed = 4)], "another run: bond linux-fbdt, seed 4"),
                (vec![other(&|record| record.backend = "sim".to_owned())], "another run"),
                (vec![other(&|record| record.tls = true)], "another run"),
                (vec![other(&|record| record.paths.clear())], "its record has other paths"),
                (vec![sample(0.1, "nonesuch", METRICS[0])], "its series is not of this run"),
                (vec![sample(0.1, "", "nonesuch")], "its series is not of this run"),
                (vec![sample(1.1, "", METRICS[0])], "its series is not of this run"),
                (vec![sample(0.0, "", METRICS[0])], "its series is not of this run"),
                (vec![sample(0.15, "", METRICS[0])], "its series is not of this run"),
                (vec![sample(0.1, "", METRICS[1])], "its series is not of this run"),
                (vec![line(&Word::Failed("no TUN".to_owned()))], "no TUN"),
                (vec![line(&Word::Failed("x".repeat(9999)))], &"x".repeat(500)),
            ] {
                let error = heard(plan, &lines).unwrap_err();
                assert!(error.contains(words) && error.len() < 600, "{error}");
            }
        });
    }

    #[test]
    fn a_guest_that_says_too_much_is_not_listened_to() {
        with_plan(|plan| {
            // A second of two paths: ten steps of seven values at most.
            let most = MOST + 10 * 7 * MOST_OF_A_VALUE;
            let mut hearing = Hearing::new(plan);
            let at = line(&Word::At(1));
            let lines = (0..).take_while(|_| hearing.hear(&at).is_ok()).count();
            assert_eq!(lines, most / (at.len() + 1));
            let long = "x".repeat(most);
            let error = Hearing::new(plan).hear(&long).unwrap_err();
            assert_eq!(error, "it said more than a run has to say");
        });
    }

    #[test]
    fn a_kernels_complaint_is_found() {
        let console = "[ 0.1] amd_pstate: absent\r\n[ 1.0] ------------[ cut here ]----\r\n\
                       [ 1.0] WARNING: CPU: 0 PID: 1 at net/mptcp/fbdt.c:9 x+0x1/0x2\r\n\
                       [ 1.0] Call Trace:\r\n";
        let found = "[ 1.0] WARNING: CPU: 0 PID: 1 at net/mptcp/fbdt.c:9 x+0x1/0x2";
        assert_eq!(complaint(console), Some(found));
        assert_eq!(complaint("[ 0.1] amd_pstate: absent\n"), None);
        assert_eq!(complaint(""), None);
    }

    proptest! {
        /// Lines that are lost, doubled, cut or in another order: what is taken is what was sent.
        #[test]
        fn lines_that_are_lost_or_moved_change_no_figure(
            changes in proptest::collection::vec(
                (0_u8..4, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..4
            ),
        ) {
            with_plan(|plan| {
                let mut lines = whole(plan);
                let sent = heard(plan, &lines).unwrap().unwrap();
                for (kind, place, other) in changes {
                    let (place, other) = (place.index(lines.len()), other.index(lines.len()));
                    match kind {
                        0 => drop(lines.remove(place)),
                        1 => lines.insert(other, lines[place].clone()),
                        2 => lines.swap(place, other),
                        _ => lines[place].truncate(other),
                    }
                }
                if let Ok(Some((record, rows))) = heard(plan, &lines) {
                    assert_eq!(record, sent.0);
                    assert!(rows.iter().all(|row| sent.1.contains(row)));
                    // The last packet of a link, and a window of a connection, need not be there.
                    let needed = |row: &&Row| {
                        let sample = row.sample();
                        sample.path.is_empty() || sample.metric == METRICS[1]
                    };
                    assert_eq!(rows.iter().filter(needed).count(), 30);
                }
            });
        }

        /// Whatever bytes become others: what is taken can be so, and nothing panics.
        #[test]
        fn bytes_that_are_changed_make_no_figure_that_cannot_be(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3),
        ) {
            with_plan(|plan| {
                let mut lines = whole(plan);
                for (place, byte) in changes {
                    // The record's line is the longest, and the one that matters.
                    let mut bytes = std::mem::take(&mut lines[2]).into_bytes();
                    let place = place.index(bytes.len());
                    bytes[place] = byte;
                    lines[2] = String::from_utf8_lossy(&bytes).into_owned();
                }
                if let Ok(Some((record, _))) = heard(plan, &lines) {
                    assert_eq!((record.scheme.as_str(), record.seed), ("linux-fbdt", 3));
                    assert!((0.0..=161.6).contains(&record.goodput_mbps.unwrap()));
                    assert!(record.bytes_delivered.unwrap() <= 20_200_000);
                    assert!(record.completed && record.emulator.is_some());
                }
            });
        }
    }
}
