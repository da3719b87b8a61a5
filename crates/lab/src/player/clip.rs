//! The clip that real players play: H.264 and AAC at a given rate, made by ffmpeg once and kept.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use weftline_core::Bitrate;
use weftline_scenario::{ClipConfig, PlayerProgram};

use crate::LabError;

/// The rate of the sound, as the slides' clip has it within its rate.
const AUDIO: Bitrate = Bitrate::kbps(128);

/// How far the whole file's rate may be from the wanted one.
const RATE_TOLERANCE: f64 = 0.01;

/// How often the picture's rate is corrected.
const TRIES: usize = 8;

/// How long a segment of HLS is.
const SEGMENT_S: u64 = 2;

/// A clip on disk.
#[derive(Clone, Debug)]
pub(super) struct Clip {
    /// The directory a server serves.
    pub(super) dir: PathBuf,
    /// What a player opens there.
    pub(super) file: String,
}

impl Clip {
    /// The clip, made now if it has not been yet.
    pub(super) fn prepare(
        config: &ClipConfig,
        program: PlayerProgram,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, LabError> {
        let root = cache()?;
        fs::create_dir_all(&root).map_err(LabError::os(format!("making {}", root.display())))?;
        let name = name(config);
        let file = format!("{name}.mp4");
        if !root.join(&file).exists() {
            tell(&format!("making the clip {file} (once) in {}", root.display()));
            encode(config, &root, &file)?;
        }
        if program != PlayerProgram::MpvHls {
            return Ok(Self { dir: root, file });
        }
        let dir = root.join(format!("{name}-hls"));
        if !dir.exists() {
            segment(config, &root.join(&file), &root, &dir)?;
        }
        Ok(Self { dir, file: "index.m3u8".to_owned() })
    }
}

/// Names all that the clip depends on.
fn name(config: &ClipConfig) -> String {
    let ClipConfig { duration, rate, fps, gop, seed } = config;
    let (s, gop_ms, kbps) = (duration.as_secs_f64(), gop.as_millis(), rate.as_bps() / 1000);
    format!("clip2-{s}s-{kbps}kbps-{fps}fps-{gop_ms}ms-{seed}")
}

/// Where clips are kept.
fn cache() -> Result<PathBuf, LabError> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    // Not where others can write: the lab is root.
    let base = base.filter(|base| base.is_absolute()).unwrap_or_else(|| "/var/cache".into());
    Ok(base.join("weftline").join("clips"))
}

/// Encodes until the whole file has the wanted rate: what containers and encoders add is only
/// known afterwards.
fn encode(config: &ClipConfig, root: &Path, file: &str) -> Result<(), LabError> {
    let work = tempfile::Builder::new().prefix(".making-").tempdir_in(root);
    let work = work.map_err(LabError::os(format!("making a directory in {}", root.display())))?;
    let made = work.path().join("clip.mp4");
    let wanted = config.rate.as_bps() as f64;
    let mut picture = wanted * 0.99 - AUDIO.as_bps() as f64;
    let mut got = 0.0;
    for _ in 0..TRIES {
        ffmpeg(encode_args(config, picture.max(1e4) as u64, &made))?;
        let length = fs::metadata(&made).map_err(LabError::os("reading the clip"))?.len();
        got = length as f64 * 8.0 / config.duration.as_secs_f64();
        if (got / wanted - 1.0).abs() <= RATE_TOLERANCE {
            let place = root.join(file);
            return fs::rename(&made, &place)
                .map_err(LabError::os(format!("writing {}", place.display())));
        }
        // Sound and containers do not grow with the picture's rate.
        picture += wanted - got;
    }
    Err(LabError::Failed(format!(
        "no clip of {:.2} Mb/s could be made, it came to {:.2}; choose another rate",
        wanted / 1e6,
        got / 1e6
    )))
}

/// A moving test picture with noise, small so that decoding costs little, in closed groups of
/// `IBBP`; the header first, as files for download have it. One thread encodes: how several share the
/// work, and with it the rate, is another each time.
fn encode_args(config: &ClipConfig, picture_bps: u64, to: &Path) -> Vec<OsString> {
    let ClipConfig { duration, fps, gop, seed, .. } = config;
    let seconds = duration.as_secs_f64();
    let group = (gop.as_secs_f64() * f64::from(*fps)).round().max(1.0);
    let seed = seed % 1_000_000;
    let source = format!("testsrc2=size=640x360:rate={fps}:duration={seconds}");
    let text = format!(
        "-f lavfi -i {source},noise=all_seed={seed}:alls=40:allf=t -f lavfi -i \
         sine=frequency=440:sample_rate=48000:duration={seconds} -c:v libx264 -threads 1 -preset superfast \
         -pix_fmt yuv420p -b:v {picture_bps} -maxrate {} -bufsize {} -g {group} -bf 2 \
         -x264-params scenecut=0:open-gop=0:b-adapt=0 -c:a aac -b:a {} -movflags +faststart",
        picture_bps * 5 / 4,
        picture_bps * 2,
        AUDIO.as_bps()
    );
    text.split(' ').map(OsString::from).chain([to.into()]).collect()
}

/// Cuts the clip into segments and writes their playlist.
fn segment(config: &ClipConfig, clip: &Path, root: &Path, dir: &Path) -> Result<(), LabError> {
    let failed = || LabError::os(format!("making {}", dir.display()));
    let work = tempfile::Builder::new().prefix(".making-").tempdir_in(root).map_err(failed())?;
    let length = SEGMENT_S.max(config.gop.as_secs()).to_string();
    let mut args: Vec<OsString> = vec!["-i".into(), clip.into()];
    args.extend(["-c", "copy", "-f", "hls", "-hls_time", &length].map(OsString::from));
    args.extend(["-hls_playlist_type", "vod", "-hls_list_size", "0"].map(OsString::from));
    args.push("-hls_segment_filename".into());
    args.push(work.path().join("%05d.ts").into());
    args.push(work.path().join("index.m3u8").into());
    ffmpeg(args)?;
    match fs::rename(work.path(), dir) {
        Ok(()) => {
            // It has moved: there is nothing left to remove.
            let _ = work.keep();
            Ok(())
        }
        // Another run was faster, with the same clip.
        Err(_) if dir.exists() => Ok(()),
        Err(error) => Err(failed()(error)),
    }
}

fn ffmpeg(args: Vec<OsString>) -> Result<(), LabError> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-y"]).args(args);
    let output = command.output().map_err(LabError::os("running ffmpeg"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let cause = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    Err(LabError::Failed(format!("ffmpeg could not make the clip ({}): {cause}", output.status)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Rates at which the sound is a third of all, and a fiftieth.
    #[test]
    fn a_clip_has_its_rate_and_is_the_same_when_it_is_made_again() {
        if Command::new("ffmpeg").arg("-version").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "ffmpeg is missing");
            eprintln!("skipped: ffmpeg is missing");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        for (kbps, seconds) in [(400, 2), (500, 3), (6_000, 2)] {
            let config = ClipConfig {
                duration: Duration::from_secs(seconds),
                rate: Bitrate::kbps(kbps),
                fps: 30,
                gop: Duration::from_secs(2),
                seed: kbps,
            };
            let made = ["one.mp4", "two.mp4"].map(|name| {
                encode(&config, dir.path(), name).unwrap();
                fs::read(dir.path().join(name)).unwrap()
            });
            assert!(made[0] == made[1], "{kbps} kb/s: two clips of one configuration differ");
        }
    }
}
