//! What records say of runs that did not go as they should, and of flows and links that change.
#![allow(clippy::unwrap_used, reason = "test code")]

use weftline_core::scheduler::{self, Assignment, Entry, Scheduler, SendView};
use weftline_scenario::{Congestion, RunRecord, Scenario};
use weftline_sim::{Outcome, simulate};

fn scenario(text: &str) -> Scenario {
    Scenario::parse("figures.toml", text, &|_| unreachable!()).unwrap()
}

fn run(text: &str, scheme: &str) -> Outcome {
    let (scenario, scheme) = (scenario(text), scheme.parse().unwrap());
    simulate(&scenario, &scheme, Congestion::CUBIC, 1, true).unwrap()
}

/// Assigns what cannot be sent.
#[derive(Debug)]
struct Faulty;

impl Scheduler for Faulty {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        let unsent = view.next_unsent()?;
        Some(Assignment { subflow: usize::MAX, range: unsent })
    }
}

static FAULTY: Entry = Entry::new("faulty", "breaks its contract", |_| Box::new(Faulty));

#[test]
fn what_was_measured_of_a_faulty_scheduler_is_not_told_as_its_own() {
    scheduler::register(&FAULTY).unwrap();
    let outcome = run(
        "name = \"two\"\nduration = \"2s\"\n\
         [[path]]\nname = \"a\"\nrate = \"20Mbps\"\n[[path]]\nname = \"b\"\nrate = \"10Mbps\"\n",
        "faulty",
    );
    let record = &outcome.record;
    let error = record.error.as_deref().unwrap();
    assert!(error.contains("'faulty'") && error.contains("min-rtt"), "{error}");
    assert!(record.has_failed() && !record.completed, "{record:?}");
    assert_eq!((record.goodput_mbps, record.paths.len(), outcome.samples().count()), (None, 0, 0));
    assert!(record.digest.is_some() && record.duration_s == 2.0, "{record:?}");
}

/// A clip of five seconds at 1 Mb/s over a link of that rate.
fn clip(link: &str) -> RunRecord {
    let text = format!(
        "name = \"clip\"\nduration = \"9s\"\n[[path]]\nname = \"a\"\nrate = \"{link}\"\n\
         [workload]\nkind = \"video\"\nrate = \"1Mbps\"\nduration = \"5s\"\n"
    );
    run(&text, "single:a").record
}

#[test]
fn a_clip_of_which_nothing_is_shown_has_failed_and_one_that_does_not_end_misses_pictures() {
    let stalled = clip("10kbps");
    assert!(stalled.has_failed() && !stalled.completed, "{stalled:?}");
    assert_eq!(stalled.error.as_deref(), Some("stalled: not a picture was shown"));
    let [slow, whole] = ["450kbps", "5Mbps"].map(clip);
    assert!(slow.counts() && slow.completion_s.is_none(), "{slow:?}");
    let video = slow.video.unwrap();
    let missed = video.pictures_missed.unwrap();
    assert_eq!(video.pictures_played.unwrap() + video.picture_discards + missed, 150, "{video:?}");
    assert_eq!(slow.link_discards(), Some((video.picture_discards + missed) as f64));
    assert!(missed > 15, "{video:?}");
    assert!(whole.counts() && whole.completion_s.is_some(), "{whole:?}");
    assert_eq!((whole.video.unwrap().pictures_missed, whole.link_discards()), (None, Some(0.0)));
}

#[test]
fn a_loss_that_comes_after_the_run_changes_nothing() {
    let tiles = |load: u32, schedule: &str| {
        let text = format!(
            "name = \"two\"\nduration = \"6s\"\n\
             [[path]]\nname = \"a\"\nrate = \"4Mbps\"\ndelay = \"10ms\"\nloss = {schedule}\n\
             [[path]]\nname = \"b\"\nrate = \"3Mbps\"\ndelay = \"40ms\"\n\
             [workload]\nkind = \"tiles:{load}%\"\n"
        );
        run(&text, "oracle").record
    };
    let bound = |record: &RunRecord| record.messages.unwrap().bound_weight_share.unwrap();
    for load in [30, 110] {
        let always = tiles(load, "[{ at = \"0s\", rate = 0.01 }]");
        let later = tiles(load, "[{ at = \"0s\", rate = 0.01 }, { at = \"50s\", rate = 0.6 }]");
        assert_eq!(always.digest, later.digest, "the oracle, {load} %");
        assert_eq!(bound(&always), bound(&later), "the bound, {load} %");
    }
}

#[test]
fn a_burst_that_comes_later_is_on_warm_connections_too() {
    let time = |workload: &str, start: &str, scheme: &str| {
        let text = format!(
            "name = \"late\"\nduration = \"9s\"\n\
             [[path]]\nname = \"a\"\nrate = \"50Mbps\"\ndelay = \"100ms\"\n\
             [[path]]\nname = \"b\"\nrate = \"50Mbps\"\ndelay = \"100ms\"\n\
             [[flow]]\nname = \"sized\"\nstart = \"{start}\"\nworkload = \"{workload}:2kB\"\n"
        );
        run(&text, scheme).record.completion_s.unwrap()
    };
    for scheme in ["single:a", "fbdt", "min-rtt"] {
        let [now, later] = ["0s", "3s"].map(|start| time("burst", start, scheme));
        assert!(now < 0.15 && (later - now).abs() < 0.01, "{scheme}: {now} and {later}");
        // A new connection takes a round trip more.
        let [now, later] = ["0s", "3s"].map(|start| time("transfer", start, scheme));
        assert!(now > 0.29 && (later - now).abs() < 0.01, "{scheme}: {now} and {later}");
    }
}
