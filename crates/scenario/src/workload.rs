//! What is sent over the paths.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use weftline_core::{Bitrate, ByteCount};

use crate::{UnknownName, VideoSpec};

/// The sizes of messages in bytes, each as likely: tiles of a 360° video.
pub const MESSAGE_BYTES: RangeInclusive<u64> = 5_000..=200_000;

/// After how many milliseconds a message is of no use, each as likely.
pub const MESSAGE_DEADLINE_MS: RangeInclusive<u64> = 300..=1_000;

/// The tiles of a GoP of 360° video: six columns and four rows.
pub const TILES: usize = 24;

/// The length of a GoP, after which its tiles are of no use.
pub const GOP: Duration = Duration::from_secs(1);

/// What is sent, from the server to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Workload {
    /// As much as goes, for the scenario's duration.
    Bulk,
    /// So many bytes over a connection that is already warm, timed from the first write to the
    /// last byte.
    Burst(ByteCount),
    /// A constant bit rate, for the scenario's duration.
    Cbr(Bitrate),
    /// A constant bit rate that is so many percent, 1 to 1000, of the sum of the paths' mean rates,
    /// for the scenario's duration.
    CbrShare(u16),
    /// Messages of [`MESSAGE_BYTES`], each of no use after a time of [`MESSAGE_DEADLINE_MS`], at that
    /// mean rate for the scenario's duration (simulator).
    Messages(Bitrate),
    /// The same at so many percent, 1 to 1000, of the sum of the paths' mean rates.
    MessagesShare(u16),
    /// 360° video without its pictures: [`TILES`] in each [`GOP`], which are of no use after it, at that
    /// mean rate for the scenario's duration (simulator).
    Tiles(Bitrate),
    /// The same at so many percent, 1 to 1000, of the sum of the paths' mean rates.
    TilesShare(u16),
    /// `iperf3` in reverse mode, for the scenario's duration (lab only).
    Iperf3,
    /// A video served by a real web server and played by a real player (lab; the simulator has a
    /// model of VLC); the run ends with it, and at the scenario's duration at the latest.
    Player(PlayerProgram, VideoSpec),
    /// So many bytes on a new connection, timed from the application's connect to its last byte.
    Transfer(ByteCount),
    /// A video, downloaded progressively and played; the run ends with it, and at the scenario's
    /// duration at the latest.
    Video(VideoSpec),
}

/// A real player, and the form in which it gets the clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayerProgram {
    /// VLC 3, which downloads one MP4 file.
    Vlc,
    /// mpv, which downloads one MP4 file.
    Mpv,
    /// mpv, which streams segments of two seconds by an HLS playlist (RFC 8216).
    MpvHls,
}

impl PlayerProgram {
    /// All of them with their workloads' names.
    pub const ALL: [(&'static str, Self); 3] =
        [("vlc", Self::Vlc), ("mpv", Self::Mpv), ("mpv-hls", Self::MpvHls)];

    /// Its workload's name.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, program)| *program == self);
        found.map_or("", |(name, _)| name)
    }
}

/// A workload as lists show it.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadInfo {
    /// How it is written; what stands in `<…>` is for the user to fill in.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
}

/// All workloads.
pub const WORKLOADS: &[WorkloadInfo] = &[
    WorkloadInfo { name: "bulk", about: "as much as goes, for the scenario's duration" },
    WorkloadInfo {
        name: "cbr:<rate>",
        about: "a constant bit rate, like cbr:20Mbps, or cbr:80% of the paths' sum",
    },
    WorkloadInfo {
        name: "transfer:<size>",
        about: "so many bytes on a new connection, timed from the connect",
    },
    WorkloadInfo { name: "burst:<size>", about: "so many bytes on a warm connection" },
    WorkloadInfo {
        name: "messages:<rate>",
        about: "messages with deadlines, like messages:50% of the paths' sum (simulator only)",
    },
    WorkloadInfo {
        name: "tiles:<rate>",
        about: "tiles of 360° video, like tiles:80% of the paths' sum (simulator only)",
    },
    WorkloadInfo { name: "video", about: "a video over HTTP and its player" },
    WorkloadInfo { name: "iperf3", about: "the iperf3 program, server to client (lab only)" },
    WorkloadInfo {
        name: "vlc",
        about: "the same video from nginx, played by VLC (simulator: a model)",
    },
    WorkloadInfo { name: "mpv", about: "the same video from nginx, played by mpv (lab only)" },
    WorkloadInfo { name: "mpv-hls", about: "the same in HLS segments, played by mpv (lab only)" },
];

impl Workload {
    /// The clip that is played, and by what rules, if one is.
    pub fn video(&self) -> Option<&VideoSpec> {
        match self {
            Self::Video(video) | Self::Player(_, video) => Some(video),
            _ => None,
        }
    }

    /// Reads a workload that is to take this one's place: another player plays the same clip.
    ///
    /// # Errors
    /// As parsing a workload.
    pub fn replaced(&self, text: &str) -> Result<Self, WorkloadError> {
        let mut workload: Self = text.parse()?;
        if let (Some(new), Some(old)) = (workload.video_mut(), self.video()) {
            *new = *old;
        }
        Ok(workload)
    }

    pub(crate) fn video_mut(&mut self) -> Option<&mut VideoSpec> {
        match self {
            Self::Video(video) | Self::Player(_, video) => Some(video),
            _ => None,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bulk => write!(f, "bulk"),
            Self::Burst(size) => write!(f, "burst:{size}"),
            Self::Cbr(rate) => write!(f, "cbr:{rate}"),
            Self::CbrShare(percent) => write!(f, "cbr:{percent}%"),
            Self::Iperf3 => write!(f, "iperf3"),
            Self::Messages(rate) => write!(f, "messages:{rate}"),
            Self::MessagesShare(percent) => write!(f, "messages:{percent}%"),
            Self::Player(program, _) => f.write_str(program.name()),
            Self::Tiles(rate) => write!(f, "tiles:{rate}"),
            Self::TilesShare(percent) => write!(f, "tiles:{percent}%"),
            Self::Transfer(size) => write!(f, "transfer:{size}"),
            Self::Video(_) => write!(f, "video"),
        }
    }
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let (name, argument) = text.split_once(':').map_or((text, None), |(n, a)| (n, Some(a)));
        let size = |argument: &str| -> Result<ByteCount, WorkloadError> {
            let size = argument.parse().map_err(|error| WorkloadError::argument(text, error))?;
            if size == ByteCount::ZERO {
                return Err(WorkloadError::argument(text, "the size must not be zero"));
            }
            Ok(size)
        };
        match (name, argument) {
            ("bulk", None) => Ok(Self::Bulk),
            ("burst", Some(argument)) => size(argument).map(Self::Burst),
            ("cbr", Some(argument)) => {
                offered(text, argument).map(|load| load.of(Self::Cbr, Self::CbrShare))
            }
            ("messages", Some(argument)) => {
                offered(text, argument).map(|load| load.of(Self::Messages, Self::MessagesShare))
            }
            ("tiles", Some(argument)) => {
                offered(text, argument).map(|load| load.of(Self::Tiles, Self::TilesShare))
            }
            ("iperf3", None) => Ok(Self::Iperf3),
            ("transfer", Some(argument)) => size(argument).map(Self::Transfer),
            ("video", None) => Ok(Self::Video(VideoSpec::default())),
            _ => {
                if let (Some(program), None) = (player(name), argument) {
                    return Ok(Self::Player(program, VideoSpec::default()));
                }
                let known = WORKLOADS.iter().map(|info| info.name).collect::<Vec<_>>().join(", ");
                Err(UnknownName { kind: "workload", text: text.to_owned(), known }.into())
            }
        }
    }
}

/// How much is offered: a rate, or a share of the paths' sum in percent.
enum Offered {
    Rate(Bitrate),
    Share(u16),
}

impl Offered {
    fn of(self, rate: fn(Bitrate) -> Workload, share: fn(u16) -> Workload) -> Workload {
        match self {
            Self::Rate(bitrate) => rate(bitrate),
            Self::Share(percent) => share(percent),
        }
    }
}

fn offered(text: &str, argument: &str) -> Result<Offered, WorkloadError> {
    if let Some(percent) = argument.strip_suffix('%') {
        let percent = percent.trim().parse().ok().filter(|percent| (1..=1000).contains(percent));
        let wrong = || WorkloadError::argument(text, "a share is a whole number, 1% to 1000%");
        return percent.map(Offered::Share).ok_or_else(wrong);
    }
    match argument.parse() {
        Ok(Bitrate::ZERO) => Err(WorkloadError::argument(text, "the rate must not be zero")),
        Ok(rate) => Ok(Offered::Rate(rate)),
        Err(error) => Err(WorkloadError::argument(text, error)),
    }
}

fn player(name: &str) -> Option<PlayerProgram> {
    let found = PlayerProgram::ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, program)| *program)
}

/// Why a text is no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The part after the colon is wrong.
    #[error("workload '{text}': {message}")]
    Argument {
        /// The whole workload.
        text: String,
        /// What is wrong with it.
        message: String,
    },
    /// There is no such workload.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
}

impl WorkloadError {
    fn argument(text: &str, message: impl fmt::Display) -> Self {
        Self::Argument { text: text.to_owned(), message: message.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_read_and_print() {
        for text in [
            "bulk",
            "burst:125MB",
            "cbr:20Mbps",
            "iperf3",
            "messages:20Mbps",
            "mpv-hls",
            "tiles:1500kbps",
            "transfer:100kB",
            "vlc",
            "video",
        ] {
            let workload: Workload = text.parse().unwrap();
            assert_eq!(workload.to_string().parse(), Ok(workload), "{text}");
        }
        assert_eq!("cbr:20Mbps".parse(), Ok(Workload::Cbr(Bitrate::mbps(20))));
        assert_eq!("cbr:80%".parse(), Ok(Workload::CbrShare(80)));
        assert_eq!("messages:50%".parse(), Ok(Workload::MessagesShare(50)));
        assert_eq!("tiles:150%".parse(), Ok(Workload::TilesShare(150)));
        assert!("cbr:0%".parse::<Workload>().is_err() && "cbr:-5%".parse::<Workload>().is_err());
    }

    #[test]
    fn bad_workloads_say_the_remedy() {
        let error = |text: &str| text.parse::<Workload>().unwrap_err().to_string();
        insta::assert_snapshot!(
            ["flash", "video:4", "bulk:3", "cbr", "cbr:20", "cbr:0Mbps", "transfer:0B"]
                .map(error)
                .join("\n")
        );
    }
}
