//! A player's session: the state machine, its connection, its head, its log.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use bytes::Bytes;
use weftline::Control;
use weftline_core::Instant;
use weftline_video::geometry::Orientation;
use weftline_video::head::Trace;
use weftline_video::live::{Client, GopReport, Handled, LiveError};

use super::link::{Link, Received};
use super::log::{Around, GopLog, Summary};
use super::save::Store;
use super::web::Web;
use super::{Clock, path_event, ticks};

/// What a player plays with.
pub(super) struct Playing {
    /// How its head moves, given the length of the stream.
    pub(super) head: Box<dyn Fn(Duration) -> Result<Trace, String>>,
    pub(super) log: Option<GopLog>,
    pub(super) store: Option<Store>,
    /// The names of its paths.
    pub(super) names: Vec<String>,
    /// How long the server may be silent, besides the length of its GoPs.
    pub(super) patience: Duration,
    /// The browsers that show it, too.
    pub(super) web: Option<Web>,
}

/// How long a head is made to move where nobody knows how long the stream is; then it keeps still.
const UNKNOWN_LENGTH: Duration = Duration::from_secs(3_600);
/// So many looks at the paths' counters are one sample for browsers.
const SAMPLE: u32 = 10;

/// Plays a stream to its end. Whatever happens, the summary says how far it came.
pub(super) async fn play(
    client: Client,
    clock: Clock,
    link: Link,
    playing: Playing,
    stop: impl Future<Output = ()>,
    summary: &mut Summary,
) -> Result<(), String> {
    let mut player = Player {
        client,
        clock,
        trace: None,
        control: link.control.clone(),
        counted: vec![0; playing.names.len()],
        heard: clock.now(),
        received: 0,
        looks: 0,
        sampled: Vec::new(),
        playing,
        summary,
    };
    let played = player.run(link, stop).await;
    player.count_paths();
    if let Some(web) = &mut player.playing.web {
        let written = web.finish(played.as_ref().err().map(String::as_str)).await;
        return played.and(written);
    }
    played
}

struct Player<'a> {
    client: Client,
    clock: Clock,
    trace: Option<Trace>,
    control: Option<Control>,
    playing: Playing,
    /// The bytes that each path had brought at the line before.
    counted: Vec<u64>,
    /// When the server was last heard of.
    heard: Instant,
    /// Bytes of messages.
    received: u64,
    /// How often the counters were looked at, and what they were at the sample before, and when.
    looks: u32,
    sampled: Vec<(u64, Instant)>,
    summary: &'a mut Summary,
}

impl Player<'_> {
    async fn run(&mut self, link: Link, stop: impl Future<Output = ()>) -> Result<(), String> {
        let Link { mut sender, mut receiver, control } = link;
        let mut events = control.as_ref().map(Control::events);
        let mut ticks = ticks();
        let mut stop = std::pin::pin!(stop);
        let mut queue: VecDeque<Bytes> = VecDeque::new();
        let (mut closed, mut broken) = (false, false);
        loop {
            // The rest stays where it is made, and there are bounds to it.
            if queue.is_empty()
                && let Some(message) = self.client.poll_transmit()
            {
                queue.push_back(message.into());
            }
            while let Some(report) = self.client.poll_event() {
                self.log(&report)?;
            }
            if self.client.is_done() {
                sender.shutdown().await;
                return Ok(());
            }
            tokio::select! {
                sent = async { match queue.front() {
                    Some(message) => sender.send(message, None, 0).await,
                    None => std::future::pending().await,
                } }, if !broken => match sent {
                    Ok(_) => drop(queue.pop_front()),
                    // What the server says of it comes by the other direction.
                    Err(_) => broken = true,
                },
                received = receiver.recv(), if !closed => {
                    closed = self.received(received)?;
                }
                () = self.clock.until(self.client.poll_timeout()) => {
                    self.look();
                    self.client.handle_timeout(self.clock.now());
                    self.follow();
                }
                () = self.clock.until(self.silence(closed)) => {
                    let silent = self.patience();
                    return Err(self.lost(&format!("nothing came for {silent:?}")));
                }
                _ = ticks.tick() => {
                    self.look();
                    self.show()?;
                }
                event = path_event(&mut events) => tracing::info!("{event}"),
                () = &mut stop => return Err(self.lost("it was told to stop")),
            }
        }
    }

    /// How long the server may be silent: of a stream of long GoPs at least two of them, as it says nothing
    /// between one and the next.
    fn patience(&self) -> Duration {
        let gop = self.client.manifest().map_or(Duration::ZERO, |manifest| manifest.gop);
        self.playing.patience.max(gop * 2)
    }

    /// When the server has been silent for too long.
    fn silence(&self, closed: bool) -> Option<Instant> {
        // Before the first GoP of a live source there is nothing to be said.
        let has_begun = self.client.position(self.clock.now()).is_some();
        let is_live = self.client.manifest().is_some_and(|manifest| manifest.gops == 0);
        // What was announced before the end is there, or it is missed once all has been shown.
        let has_all = self.client.has_end() && !self.client.has_shown_all();
        let waits = !closed && !has_all && (has_begun || !is_live);
        waits.then(|| self.heard + self.patience())
    }

    /// Takes what the connection brought; whether it was the last.
    fn received(&mut self, received: io::Result<Option<Received>>) -> Result<bool, String> {
        self.heard = self.clock.now();
        match received {
            Ok(Some(Received::Message(message))) => {
                self.received += message.len() as u64;
                self.message(&message)?;
                return Ok(false);
            }
            Ok(Some(Received::CalledBack(tag))) => {
                self.client.handle_dropped(tag);
                return Ok(false);
            }
            // What was announced is there: the rest is only to be shown.
            _ if self.client.has_end() => {}
            Ok(None) => return Err(self.lost("the server closed the connection")),
            Err(error) => return Err(self.lost(&error.to_string())),
        }
        self.client.handle_closed();
        Ok(true)
    }

    fn message(&mut self, message: &[u8]) -> Result<(), String> {
        let now = self.clock.now();
        let had_manifest = self.client.manifest().is_some();
        match self.client.handle_message(message, now) {
            Ok(Handled::Control) => {
                if let Some(web) = &mut self.playing.web {
                    web.message(message);
                }
            }
            Ok(Handled::Tile { tile, is_genuine: false, .. }) => {
                let id = tile.id;
                if id.is_sound() {
                    tracing::warn!(
                        "the sound of GoP {} has other bytes than were packaged, and is not played",
                        id.gop
                    );
                    return Ok(());
                }
                tracing::warn!(
                    "tile {} of GoP {} at QP {} has other bytes than were packaged, and is not shown",
                    id.tile,
                    id.gop,
                    id.qp
                );
            }
            Ok(Handled::Tile { tile, on_time, .. }) => {
                if let Some(web) = &mut self.playing.web {
                    web.tile(&tile, on_time);
                }
                if let Some(store) = &mut self.playing.store
                    && let Some(stream) = self.client.manifest()
                {
                    tokio::task::block_in_place(|| store.keep(&tile, stream))?;
                }
            }
            Err(error @ LiveError::Refused(_)) if !had_manifest => return Err(error.to_string()),
            Err(error) => return Err(self.lost(&error.to_string())),
        }
        self.follow();
        self.count_gops();
        if had_manifest { Ok(()) } else { self.begin() }
    }

    /// Notes what the stream is, and makes a head that moves for as long.
    fn begin(&mut self) -> Result<(), String> {
        let Some(manifest) = self.client.manifest() else { return Ok(()) };
        let (length, gops) = match manifest.gops {
            0 => (UNKNOWN_LENGTH, "live".to_owned()),
            gops => (manifest.gop * gops, gops.to_string()),
        };
        self.summary.inputs.begin(manifest);
        self.summary.about[1].clone_from(&manifest.scheme);
        self.summary.about[2] = manifest.concealment.name().to_owned();
        tracing::info!(
            "{} in {} tiles, {gops} GoPs of {:?}, {}, {}",
            manifest.frame,
            manifest.grid,
            manifest.gop,
            manifest.scheme,
            manifest.concealment.name()
        );
        let trace = (self.playing.head)(length)?;
        if manifest.gops > 0 && trace.end() + Duration::from_secs(1) < length {
            let (end, length) = (trace.end().as_secs_f64(), length.as_secs_f64());
            tracing::warn!(
                "the head's motion ends after {end} s of {length} s; it keeps still then"
            );
        }
        self.trace = Some(trace);
        Ok(())
    }

    /// Turns the head to where it is now: where a viewer looks, else as the trace says.
    fn look(&mut self) {
        let now = self.clock.now();
        let pose = self.playing.web.as_ref().and_then(Web::pose);
        let judged = if let Some(pose) = pose {
            let [yaw, pitch, roll] = pose.degrees.map(f64::from);
            let orientation = Orientation::from_degrees(yaw, pitch, roll);
            self.client.handle_pose_at(orientation, pose.at, now)
        } else if self.playing.web.as_ref().is_some_and(Web::is_watched) {
            // One that has just come will say where it looks.
            self.client.handle_still(now)
        } else if let Some(trace) = &self.trace {
            let at = self.client.position(now).unwrap_or(Duration::ZERO);
            self.client.handle_pose(trace.at(at), now)
        } else {
            None
        };
        if let (Some(web), Some(gop)) = (&mut self.playing.web, judged) {
            web.looked(gop, self.client.orientation());
        }
    }

    /// Tells browsers what is shown now.
    fn follow(&mut self) {
        let now = self.clock.now();
        if let Some(web) = &mut self.playing.web {
            web.follow(&self.client, now);
        }
    }

    /// Tells browsers what the paths bring, and hears what they have shown.
    fn show(&mut self) -> Result<(), String> {
        self.follow();
        self.looks += 1;
        if self.playing.web.is_some() && self.looks.is_multiple_of(SAMPLE) {
            let (paths, now) = (self.paths(), self.clock.now());
            self.sampled.resize(paths.len(), (0, now));
            let rate = |((name, bytes, up), before): ((String, u64, bool), &mut (u64, Instant))| {
                let (then, since) = std::mem::replace(before, (bytes, now));
                let seconds = now.since(since).as_secs_f64().max(1e-3);
                (name, (bytes - then.min(bytes)) as f64 * 8e-6 / seconds, up)
            };
            let rates: Vec<_> = paths.into_iter().zip(&mut self.sampled).map(rate).collect();
            if let Some(web) = &self.playing.web {
                web.sample(&rates);
            }
        }
        self.playing.web.as_mut().map_or(Ok(()), Web::note_shown)
    }

    /// How it ended, with how far it came.
    fn lost(&self, why: &str) -> String {
        match self.summary.gops {
            [0, 0] => format!("the stream did not begin: {why}"),
            [0, shown] => {
                format!("the stream broke off after {shown} GoPs of a live source: {why}")
            }
            [gops, shown] => format!("the stream broke off after {shown} of {gops} GoPs: {why}"),
        }
    }

    /// Notes how many GoPs there are, as far as that is known.
    fn count_gops(&mut self) {
        self.summary.gops[0] = self.client.manifest().map_or(0, |manifest| manifest.gops);
    }

    fn log(&mut self, report: &GopReport) -> Result<(), String> {
        self.summary.add(report);
        self.count_gops();
        self.summary.first_shown = self.client.first_shown();
        if let Some(web) = &mut self.playing.web {
            web.report(report, self.client.orientation());
        }
        let around = self.around();
        match &mut self.playing.log {
            Some(log) => log.gop(report, &around),
            None => Ok(()),
        }
    }

    /// What the paths have brought since the line before.
    fn around(&mut self) -> Around {
        let time_s = self.clock.now().as_secs_f64();
        let now = self.paths();
        let counted = now.iter().map(|(_, bytes, _)| *bytes).collect();
        let before = std::mem::replace(&mut self.counted, counted);
        let since = now.into_iter().zip(before);
        let since = since.map(|((name, bytes, up), before)| (name, bytes - before.min(bytes), up));
        Around { time_s, paths: since.collect() }
    }

    /// Each path: its name, the bytes that it has brought, and whether it is up.
    fn paths(&self) -> Vec<(String, u64, bool)> {
        let names = self.playing.names.iter();
        let Some(control) = &self.control else {
            return names.map(|name| (name.clone(), self.received, true)).collect();
        };
        let stats = control.stats();
        let by_name: BTreeMap<&str, _> =
            stats.names.iter().map(|(id, name)| (&**name, stats.session.paths.get(id))).collect();
        let path = |name: &String| {
            let path = by_name.get(name.as_str()).copied().flatten();
            let up = path.and_then(|path| path.subflow.as_ref()).is_some_and(|flow| !flow.stalled);
            (name.clone(), path.map_or(0, |path| path.received), up)
        };
        names.map(path).collect()
    }

    fn count_paths(&mut self) {
        self.summary.paths =
            self.paths().into_iter().map(|(name, bytes, _)| (name, bytes)).collect();
    }
}
