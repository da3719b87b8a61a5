//! What the host makes of a guest's lines: data, which are checked and never trusted.

use std::collections::BTreeMap;
use std::time::Duration;

use weftline_measure::STEP;
use weftline_scenario::{RunRecord, Sample};

use super::words::Word;
use crate::record::named;
use crate::run::{Plan, steps};

/// The most bytes that a guest may say besides its series, and in each step for each value of them: a
/// value takes 60, and how far the run is takes 15.
const MOST: usize = 1 << 20;
const MOST_OF_A_VALUE: usize = 128;

/// The metrics of the lab's series.
const METRICS: [&str; 3] = ["goodput_mbps", "capacity_mbps", "cwnd_segments"];

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

/// A value of a series.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    time_s: f64,
    path: String,
    metric: &'static str,
    value: f64,
}

impl Row {
    pub(super) fn sample(&self) -> Sample<'_> {
        let Self { time_s, path, metric, value } = self;
        Sample { time_s: *time_s, path, metric, value: *value }
    }
}

/// A guest that is being listened to. Each error is what is wrong with it, in a few words.
#[derive(Debug)]
pub(super) struct Hearing<'a> {
    plan: &'a Plan<'a>,
    /// How many bytes it may still say.
    left: usize,
    record: Option<Box<RunRecord>>,
    rows: Vec<Row>,
}

/// What a line meant.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// The run has come so far.
    At(Duration),
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
        Self { plan, left: MOST + in_series, record: None, rows: Vec::new() }
    }

    /// Hears a line.
    pub(super) fn hear(&mut self, line: &str) -> Result<Heard, String> {
        let left = self.left.checked_sub(line.len() + 1);
        self.left = left.ok_or("it said more than a run has to say")?;
        let word = serde_json::from_str(line)
            .map_err(|_| format!("it said what cannot be read: '{}'", plain(line, 80)))?;
        match word {
            Word::At(ms) => Ok(Heard::At(Duration::from_millis(ms))),
            Word::Record(record) => self.record(record),
            Word::Sample(time_s, path, metric, value) => self.row(time_s, path, &metric, value),
            Word::Failed(why) => Err(plain(&why, 500)),
            Word::End => match self.record.take() {
                Some(record) => Ok(Heard::End(record, std::mem::take(&mut self.rows))),
                None => Err("it ended without a record".to_owned()),
            },
        }
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
        record.error = record.error.map(|error| plain(&error, 500));
        self.record = Some(record);
        Ok(Heard::Part)
    }

    fn row(
        &mut self,
        time_s: f64,
        path: String,
        metric: &str,
        value: f64,
    ) -> Result<Heard, String> {
        let is_path = path.is_empty() || self.plan.paths().any(|own| own.name == path);
        let metric = METRICS.into_iter().find(|known| *known == metric);
        let times = 0.0..=self.plan.scenario.duration.as_secs_f64() + 0.1;
        let (Some(metric), true) = (metric, is_path && times.contains(&time_s)) else {
            return Err("its series is not of this run".to_owned());
        };
        self.rows.push(Row { time_s, path, metric, value });
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
    use weftline_scenario::{Congestion, PathRecord, Scenario, Scheme};

    use super::*;

    /// Runs `work` with a run of half a minute over `bond`.
    fn with_plan(work: impl FnOnce(&Plan<'_>)) {
        let mut scenario = Scenario::find("bond").unwrap();
        scenario.set_duration(Duration::from_secs(30), Duration::ZERO).unwrap();
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
        });
    }

    /// The record of that run.
    fn record(plan: &Plan<'_>) -> RunRecord {
        let path = |name: &str| PathRecord { name: name.to_owned(), ..PathRecord::default() };
        let record = RunRecord {
            completed: true,
            goodput_mbps: Some(48.5),
            paths: plan.paths().map(|own| path(&own.name)).collect(),
            ..RunRecord::default()
        };
        named(plan, record)
    }

    fn line(word: &Word) -> String {
        serde_json::to_string(word).unwrap()
    }

    /// What a guest says that does its run.
    fn whole(plan: &Plan<'_>) -> Vec<String> {
        let sample =
            |path: &str, metric: &str| Word::Sample(0.1, path.to_owned(), metric.to_owned(), 48.5);
        let words = [
            Word::At(0),
            Word::At(200),
            Word::Record(Box::new(record(plan))),
            sample("", "goodput_mbps"),
            sample("dsl", "capacity_mbps"),
            Word::End,
        ];
        words.iter().map(line).collect()
    }

    /// What a guest is told that says these lines; the error, or what it has given in the end.
    fn heard(plan: &Plan<'_>, lines: &[String]) -> Result<Option<(RunRecord, usize)>, String> {
        let mut hearing = Hearing::new(plan);
        for line in lines {
            if let Heard::End(record, rows) = hearing.hear(line)? {
                return Ok(Some((*record, rows.len())));
            }
        }
        Ok(None)
    }

    #[test]
    fn a_whole_run_is_taken_as_it_is() {
        with_plan(|plan| {
            assert_eq!(heard(plan, &whole(plan)), Ok(Some((record(plan), 2))));
            let mut hearing = Hearing::new(plan);
            assert_eq!(
                hearing.hear(&line(&Word::At(1500))),
                Ok(Heard::At(Duration::from_millis(1500)))
            );
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
                (vec![other(&|record| record.world = "sim".to_owned())], "another run"),
                (vec![other(&|record| record.tls = true)], "another run"),
                (vec![other(&|record| record.paths.clear())], "its record has other paths"),
                (vec![sample(0.1, "nonesuch", METRICS[0])], "its series is not of this run"),
                (vec![sample(0.1, "", "nonesuch")], "its series is not of this run"),
                (vec![sample(31.0, "", METRICS[0])], "its series is not of this run"),
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
            // 30 s of two paths: 300 steps of seven values at most.
            let most = MOST + 300 * 7 * MOST_OF_A_VALUE;
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
        /// Whatever happens to the lines on their way, what is taken is the record of this run.
        #[test]
        fn lines_that_are_changed_do_no_harm(
            places in proptest::collection::vec((0_usize..6, any::<prop::sample::Index>(), any::<u8>()), 0..4),
            order in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle(),
            shuffled in any::<bool>(),
        ) {
            with_plan(|plan| {
                let mut lines = whole(plan);
                for (number, place, byte) in places {
                    let mut bytes = std::mem::take(&mut lines[number]).into_bytes();
                    let at = place.index(bytes.len().max(1)).min(bytes.len());
                    match byte % 3 {
                        0 => bytes.truncate(at),
                        1 => bytes.insert(at, byte),
                        _ => bytes.iter_mut().skip(at).take(1).for_each(|old| *old = byte),
                    }
                    lines[number] = String::from_utf8_lossy(&bytes).into_owned();
                }
                if shuffled {
                    lines = order.iter().map(|&number| lines[number].clone()).collect();
                }
                if let Ok(Some((taken, _))) = heard(plan, &lines) {
                    assert_eq!(taken, of_the_run(plan, taken.clone()));
                }
            });
        }
    }
}
