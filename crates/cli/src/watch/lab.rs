//! Runs of the lab that are watched.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weftline_core::Role;
use weftline_lab::{Observer, Seen, SeenPath, SeenSocket};

use super::show::Show;
use crate::ops::snapshot::{Connection, Path};

/// Shows what the lab tells.
pub(crate) struct LabRuns {
    show: Arc<Show>,
    run: Mutex<Run>,
}

/// The present run.
#[derive(Default)]
struct Run {
    number: u64,
    scheme: String,
    /// Whether it tells how it is.
    tells: bool,
}

impl LabRuns {
    /// Shows runs from now on.
    pub(crate) fn new(show: &Arc<Show>) -> Self {
        Self { show: Arc::clone(show), run: Mutex::default() }
    }
}

impl fmt::Debug for LabRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LabRuns").finish_non_exhaustive()
    }
}

impl Observer for LabRuns {
    fn begins(&self, scheme: &str, what: &str) {
        let number = self.show.begin(what, 1, false);
        let mut run = self.run.lock().expect("nobody panics with it");
        *run = Run { number, scheme: scheme.to_owned(), tells: false };
    }

    fn goes(&self, seen: Seen) {
        let mut run = self.run.lock().expect("nobody panics with it");
        run.tells = true;
        self.show.see(seen.time, vec![run.connection(seen)], None);
    }

    fn passes(&self, time: Duration) {
        let run = self.run.lock().expect("nobody panics with it");
        // What tells how it is does so by a clock that this one may be ahead of.
        if !run.tells {
            self.show.passes(time);
        }
    }

    fn fails_to_count(&self, why: &str) {
        let run = self.run.lock().expect("nobody panics with it");
        self.show.void(run.number, why);
    }

    fn ends(&self, error: Option<&str>) {
        let run = self.run.lock().expect("nobody panics with it");
        self.show.over(run.number, error);
    }
}

impl Run {
    fn connection(&self, seen: Seen) -> Connection {
        Connection {
            number: self.number,
            peer: "in the lab".to_owned(),
            label: Some(self.scheme.clone()),
            scheduler: self.scheme.clone(),
            age_s: seen.time.as_secs_f64(),
            sent_bytes: seen.delivered,
            send_held_bytes: seen.written.saturating_sub(seen.delivered),
            paths: seen.paths.into_iter().map(path).collect(),
            ..Connection::default()
        }
    }
}

fn path(seen: SeenPath) -> Path {
    let ms = |time: Duration| (!time.is_zero()).then_some(time.as_secs_f64() * 1e3);
    let socket = seen.socket;
    Path {
        name: seen.name,
        role: Role::Active.name().to_owned(),
        state: match socket {
            None => "down",
            Some(SeenSocket { silent: true, .. }) => "silent",
            Some(_) => "up",
        }
        .to_owned(),
        srtt_ms: socket.and_then(|socket| ms(socket.srtt)),
        min_rtt_ms: socket.and_then(|socket| ms(socket.min_rtt)),
        cwnd_bytes: socket.map(|socket| socket.cwnd),
        outstanding_bytes: socket.map(|socket| socket.outstanding),
        retransmitted_segments: Some(seen.retransmitted),
        sent_bytes: seen.delivered,
        delivered_bytes: seen.delivered,
        ..Path::default()
    }
}
