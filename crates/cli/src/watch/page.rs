//! The page, which a thread of its own serves: runs have theirs.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use weftline_core::Instant;
use weftline_web::{
    ConnectionLook, Dashboard, Event, EventLevel, Look, OpenError, PathLook, PathState, Program,
    Settings, Source, WeaveLook, WeaveSource,
};

use super::show::{Happening, Level, Moment, PathNow, PathSums, Show, Wanted, Weave};
use crate::failure::Failure;

/// An open page; it ends when this is dropped.
pub(crate) struct Page {
    url: String,
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Page {
    /// Shows what is in `show` from now on.
    ///
    /// # Errors
    /// When the address cannot be had, or is reached from other machines.
    pub(crate) fn open(address: SocketAddr, show: &Arc<Show>) -> Result<Self, Failure> {
        let settings = Settings { address, names: Vec::new(), program: Program::Runs, tls: None };
        settings.check(false).map_err(|error| failure(&error))?;
        let (told, opened) = mpsc::channel();
        let (end, ended) = oneshot::channel();
        let source = Arc::new(Shown(Arc::clone(show)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serve = move || {
            runtime.block_on(async {
                let dashboard = Dashboard::open(&settings, source).await;
                let (dashboard, said) = match dashboard {
                    Ok(dashboard) => {
                        let url = dashboard.url().to_owned();
                        (Some(dashboard), Ok(url))
                    }
                    Err(error) => (None, Err(failure(&error))),
                };
                // Whoever opens it waits for that.
                let _ = told.send(said);
                if dashboard.is_some() {
                    let _ = ended.await;
                }
            });
        };
        let thread = thread::Builder::new().name("page".to_owned()).spawn(serve)?;
        let url = opened.recv().map_err(|_| Failure::failed("--watch: the page has failed"))??;
        Ok(Self { url, end: Some(end), thread: Some(thread) })
    }

    /// Where it is, with the token: whoever has it sees the page.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // What it says of itself nobody could read any more.
            let _ = thread.join();
        }
    }
}

fn failure(error: &OpenError) -> Failure {
    match error {
        OpenError::NotLoopback(address) => Failure::wrong_use(format!(
            "--watch {address}: other machines can reach that address; give one of this machine's \
             own, such as 127.0.0.1:9480"
        )),
        OpenError::Name(_)
        | OpenError::Bind { .. }
        | OpenError::Random
        | OpenError::Everywhere(_) => Failure::failed(format!("--watch {error}")),
    }
}

/// What is shown, as the dashboard looks at it.
struct Shown(Arc<Show>);

impl Source for Shown {
    fn status(&self, connections: usize) -> String {
        let snapshot = self.0.snapshot(connections);
        serde_json::to_string(&snapshot)
            .unwrap_or_else(|error| serde_json::json!({ "error": error.to_string() }).to_string())
    }

    fn look(&self) -> Look {
        self.looks().pop().unwrap_or_default()
    }

    fn has_own_clock(&self) -> bool {
        true
    }

    fn looks(&self) -> Vec<Look> {
        self.0.moments().into_iter().map(look).collect()
    }

    fn weave(&self, connection: u64) -> Option<Box<dyn WeaveSource>> {
        Some(Box::new(Watched(self.0.want_weave(connection)?)))
    }
}

fn look(moment: Moment) -> Look {
    let connection = |[number, sent_bytes, received_bytes]: [u64; 3]| ConnectionLook {
        number,
        sent_bytes,
        received_bytes,
    };
    let count = u32::try_from(moment.connections.len()).unwrap_or(u32::MAX);
    Look {
        at: Some(moment.at),
        age: Duration::ZERO,
        state: moment.state.to_owned(),
        open: count,
        used: count,
        paths: moment.paths.into_iter().map(|(name, sums)| path(name, &sums)).collect(),
        connections: moment.connections.into_iter().map(connection).collect(),
        events: moment.events.into_iter().map(event).collect(),
    }
}

fn path(name: Arc<str>, sums: &PathSums) -> PathLook {
    let now: Option<&PathNow> = sums.now.as_ref();
    let [sent_bytes, received_bytes, retransmitted_segments] = sums.moved;
    let ms = |time: Option<f64>| time.map(|ms| ms as f32);
    let (srtt, least) = (now.and_then(|now| now.srtt_ms), now.and_then(|now| now.min_rtt_ms));
    PathLook {
        name,
        state: now.map_or(PathState::Unused, |now| match now.state.as_str() {
            "up" => PathState::Up,
            "standby" => PathState::Standby,
            "silent" => PathState::Silent,
            _ => PathState::Down,
        }),
        sent_bytes,
        received_bytes,
        retransmitted_segments: Some(retransmitted_segments),
        srtt_ms: ms(srtt),
        queueing_ms: ms(srtt.zip(least).map(|(srtt, least)| (srtt - least).max(0.0))),
        cwnd_bytes: now.and_then(|now| now.cwnd_bytes),
    }
}

fn event(happening: Happening) -> Event {
    let Happening { name, level, path, text } = happening;
    let level = match level {
        Level::Info => EventLevel::Info,
        Level::Good => EventLevel::Good,
        Level::Warning => EventLevel::Warning,
        Level::Error => EventLevel::Error,
    };
    Event { name, level, path, text }
}

/// A connection whose weave somebody watches.
struct Watched(Wanted);

impl WeaveSource for Watched {
    fn look(&mut self) -> Option<WeaveLook> {
        let Weave { now, sent, received, names } = self.0.look()?;
        // A run is recorded from its beginning.
        Some(WeaveLook { now, since: Instant::ZERO, sent, received, names })
    }
}
