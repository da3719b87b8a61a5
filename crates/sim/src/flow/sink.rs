//! What the client's application reads.

use weftline_core::Instant;
use weftline_measure::{FlowMeasurement, Window};
use weftline_video::{Player, PlayerEvent};

use super::source::Source;

/// An application that receives.
#[derive(Debug)]
pub(crate) struct Sink {
    player: Option<Box<Player>>,
    read: u64,
    /// Where the stream ends, if it does.
    size: Option<u64>,
    measurement: FlowMeasurement,
}

impl Sink {
    /// A sink; `size` is where the stream ends, if it does.
    pub(crate) fn new(size: Option<u64>) -> Self {
        let never = Window::whole(Instant::FAR, Instant::FAR, Instant::FAR);
        Self { player: None, read: 0, size, measurement: FlowMeasurement::new(never) }
    }

    /// Begins to measure what comes in `window`.
    pub(crate) fn begin(&mut self, window: Window, player: Option<Player>) {
        self.measurement = FlowMeasurement::new(window);
        self.player = player.map(Box::new);
    }

    /// Up to where the application reads what has arrived.
    pub(crate) fn wanted(&self) -> u64 {
        self.player.as_ref().map_or(u64::MAX, |player| player.wanted())
    }

    /// The application's offset.
    pub(crate) const fn read(&self) -> u64 {
        self.read
    }

    /// The application has read up to `offset`.
    pub(crate) fn take(&mut self, offset: u64, source: &mut Source, now_ns: u64) {
        let now = Instant::from_nanos(now_ns);
        let measurement = &mut self.measurement;
        source.released(self.read, offset, now_ns, |bytes, written_ns| {
            measurement.delayed(now, Instant::from_nanos(written_ns), bytes);
        });
        measurement.released(now, offset - self.read);
        self.read = offset;
        if self.size == Some(offset) {
            match self.player {
                Some(_) => measurement.over(),
                None => measurement.completed(now),
            }
        }
        if let Some(player) = &mut self.player {
            player.handle_bytes(offset, now);
        }
        self.look_at_player();
    }

    /// The application has been handed a message of so many bytes, made at `made_ns`.
    pub(crate) fn take_message(&mut self, bytes: u64, made_ns: u64, now_ns: u64) {
        let now = Instant::from_nanos(now_ns);
        self.measurement.delayed(now, Instant::from_nanos(made_ns), bytes);
        self.measurement.released(now, bytes);
        self.read += bytes;
    }

    /// When the player has something to do.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        Some(self.player.as_ref()?.poll_timeout()?.as_nanos())
    }

    /// Does what the player has to do. Returns whether it may want more bytes now.
    pub(crate) fn handle_timeout(&mut self, now_ns: u64) -> bool {
        let Some(player) = &mut self.player else { return false };
        let now = Instant::from_nanos(now_ns);
        let due = player.poll_timeout().is_some_and(|at| at <= now);
        if due {
            player.handle_timeout(now);
            self.look_at_player();
        }
        due
    }

    /// Notes the end of the clip.
    fn look_at_player(&mut self) {
        let Some(player) = &mut self.player else { return };
        while let Some(event) = player.poll_event() {
            if let PlayerEvent::Finished { at } = event {
                self.measurement.completed(at);
            }
        }
    }

    /// Whether nothing more will happen here.
    pub(crate) fn is_done(&self) -> bool {
        match &self.player {
            Some(player) => player.is_finished(),
            None => self.size == Some(self.read),
        }
    }

    /// What is measured.
    pub(crate) const fn measurement(&self) -> &FlowMeasurement {
        &self.measurement
    }

    /// What shows a clip to its viewer.
    pub(crate) fn player(&self) -> Option<&Player> {
        self.player.as_deref()
    }
}
