//! One viewer's poses over one video.

use std::time::Duration;

use super::HeadError;
use crate::geometry::Orientation;

/// The longest time between two poses. In a second a head turns by 22° half of the time and by
/// more than 57° every tenth (AVTrack360): over longer gaps a trace says little.
pub const MAX_GAP: Duration = Duration::from_secs(1);

/// The longest trace: a day.
const MAX_LENGTH: Duration = Duration::from_secs(86_400);

/// Where a head looks at a time of the video.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    /// Time from the start of the video.
    pub at: Duration,
    /// How the head is turned.
    pub orientation: Orientation,
}

/// The poses of one viewer over one video: at least two, in order of time, without gaps longer
/// than [`MAX_GAP`].
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    viewer: String,
    video: String,
    poses: Vec<Pose>,
}

impl Trace {
    /// A trace of these poses. Of poses of the same time the last counts.
    ///
    /// # Errors
    /// [`HeadError::Trace`] if there are fewer than two poses, if their times fall, if there is a
    /// gap (before the first pose, too), or if they are beyond a day.
    pub fn new(viewer: &str, video: &str, poses: Vec<Pose>) -> Result<Self, HeadError> {
        let mut kept: Vec<Pose> = Vec::with_capacity(poses.len());
        let wrong = |reason| {
            let (viewer, video) = (viewer.to_owned(), video.to_owned());
            Err(HeadError::Trace { viewer, video, reason })
        };
        for pose in poses {
            let before = kept.last().map_or(Duration::ZERO, |last| last.at);
            if pose.at < before {
                let (at, before) = (pose.at.as_secs_f64(), before.as_secs_f64());
                return wrong(format!(
                    "time falls from {before} s to {at} s; sort its rows, or split its sessions"
                ));
            }
            if pose.at > MAX_LENGTH || pose.at - before > MAX_GAP {
                let is_first = kept.is_empty();
                return wrong(describe_gap(before, pose.at, is_first));
            }
            match kept.last_mut() {
                Some(last) if last.at == pose.at => *last = pose,
                _ => kept.push(pose),
            }
        }
        if kept.len() < 2 {
            let count = kept.len();
            return wrong(format!("it has {count} pose(s), and a trace wants two at least"));
        }
        Ok(Self { viewer: viewer.to_owned(), video: video.to_owned(), poses: kept })
    }

    /// The viewer's name.
    pub fn viewer(&self) -> &str {
        &self.viewer
    }

    /// The video's name.
    pub fn video(&self) -> &str {
        &self.video
    }

    /// Its poses, in order of time.
    pub fn poses(&self) -> &[Pose] {
        &self.poses
    }

    /// The time of the last pose.
    pub fn end(&self) -> Duration {
        self.poses.last().map_or(Duration::ZERO, |pose| pose.at)
    }

    /// The orientation at `time`, on the shortest turn between the poses before and after it; the
    /// first pose holds before it, the last one after it.
    pub fn at(&self, time: Duration) -> Orientation {
        let after = self.poses.partition_point(|pose| pose.at <= time);
        let (Some(before), Some(next)) =
            (after.checked_sub(1).map(|index| self.poses[index]), self.poses.get(after))
        else {
            return self.poses[after.min(self.poses.len() - 1)].orientation;
        };
        let share = (time - before.at).as_secs_f64() / (next.at - before.at).as_secs_f64();
        before.orientation.toward(next.orientation, share)
    }
}

/// What to say of the time between two poses, or before the first one, which is too long.
fn describe_gap(before: Duration, at: Duration, is_first: bool) -> String {
    let (gap, from) = ((at - before).as_secs_f64(), before.as_secs_f64());
    let most = MAX_GAP.as_secs_f64();
    if is_first {
        return format!(
            "its first pose is at {gap:.3} s, and {most} s is the latest; take what is before the video's \
             beginning off its times, or give them in seconds if these are milliseconds or frames"
        );
    }
    format!(
        "no pose for {gap:.3} s after {from:.3} s, and {most} s is the most; cut the trace there, \
         or give times in seconds if these are milliseconds or frames"
    )
}
