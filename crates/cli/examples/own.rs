//! `weftline` with a scheduler and a congestion control of one's own:
//! `cargo run -p weftline-cli --example own -- sim run demo --scheme widest --congestion fixed`

use std::process::ExitCode;
use std::time::Duration;

use weftline_congestion::{AckSample, CongestionControl, Coupling, LossEvent};
use weftline_core::scheduler::{Assignment, Scheduler, SendView};

/// The next bytes go to the path with most room.
#[derive(Debug)]
struct Widest;

impl Scheduler for Widest {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        let subflow = view.with_room().max_by_key(|&subflow| view.room(subflow))?;
        // What a stalled path holds comes first.
        let range = view.stalled_range(subflow).or_else(|| view.next_unsent())?;
        let end = range.end.min(range.start + view.chunk(subflow));
        Some(Assignment { subflow, range: range.start..end })
    }
}

/// Four segments in flight for each millisecond of the path's least round-trip time, at least ten.
#[derive(Debug)]
struct Fixed(f64);

impl CongestionControl for Fixed {
    fn on_ack(&mut self, ack: &AckSample, _: &Coupling<'_>) {
        self.0 = (4.0 * ack.min_rtt.as_secs_f64() * 1e3).max(10.0);
    }
    fn on_congestion(&mut self, _: &LossEvent, _: &Coupling<'_>) {}
    fn on_timeout(&mut self, _: &LossEvent, _: bool, _: &Coupling<'_>) {}
    fn on_spurious(&mut self) {}
    fn on_penalty(&mut self) {}
    fn on_unused_window(&mut self, _: f64) {}
    fn on_established(&mut self, srtt: Duration) {
        self.0 = (4.0 * srtt.as_secs_f64() * 1e3).max(10.0);
    }
    fn cwnd(&self) -> f64 {
        self.0
    }
    fn ssthresh(&self) -> f64 {
        self.0
    }
}

static WIDEST: weftline_core::scheduler::Entry =
    weftline_core::scheduler::Entry::new("widest", "most room first", |_| Box::new(Widest));
static FIXED: weftline_congestion::Entry =
    weftline_congestion::Entry::new("fixed", "a fixed window", |_| Box::new(Fixed(10.0)));

fn main() -> ExitCode {
    weftline_core::scheduler::register(&WIDEST).expect("a new name");
    weftline_congestion::register(&FIXED).expect("a new name");
    weftline_cli::run()
}
