//! The pictures of a package's source, as they were before they were encoded.

use std::ffi::OsString;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use crate::decode::DecodedGop;
use crate::error::VrError;
use crate::ffmpeg::{Ffmpeg, Stdin, as_file};
use crate::package::{Description, Package};
use crate::source::Source;

impl DecodedGop {
    /// The pictures of GoP `gop` of `package` as its source has them, at the package's size.
    ///
    /// # Errors
    /// [`VrError::Invalid`] if there is no such GoP; else what keeps ffmpeg from decoding.
    pub fn original(
        ffmpeg: &Ffmpeg,
        package: &Package,
        source: &Source,
        gop: u32,
    ) -> Result<Self, VrError> {
        let plan = package.description();
        if gop >= plan.gops() {
            let gops = plan.gops();
            return Err(VrError::Invalid(format!("GoP {gop} was asked for; there are {gops}")));
        }
        let (width, height) = (plan.frame().width(), plan.frame().height());
        Ok(Self::new(width, height, luma(ffmpeg, plan, source, gop)?))
    }
}

/// The luma of a GoP's pictures, one after the other.
pub(crate) fn luma(
    ffmpeg: &Ffmpeg,
    plan: &Description,
    source: &Source,
    gop: u32,
) -> Result<Vec<u8>, VrError> {
    let seek_s = source.seek_s(u64::from(gop) * u64::from(plan.gop_frames()));
    let mut args: Vec<OsString> = Vec::new();
    if seek_s > 0.0 {
        args.extend(["-ss".into(), OsString::from(format!("{seek_s:.6}"))]);
    }
    args.extend(["-noautorotate".into(), "-i".into(), as_file(&source.path)]);
    let (width, height) = (plan.frame().width(), plan.frame().height());
    // As for the encoder, so that the luma is the same to the bit.
    let scale = match (source.width, source.height) == (width, height) {
        true => String::new(),
        false => format!("scale={width}:{height}:flags=lanczos,"),
    };
    let frames = plan.gop_frames();
    args.extend(["-map", "0:v:0", "-vf"].map(OsString::from));
    args.push(format!("{scale}format=yuv420p,extractplanes=y").into());
    args.extend(["-frames:v", &frames.to_string(), "-f", "rawvideo"].map(OsString::from));
    args.extend(ffmpeg.passthrough().map(OsString::from));
    args.push("pipe:1".into());
    let doing = format!("to decode the pictures of GoP {gop}");
    let mut running = ffmpeg.start(&args, Path::new("."), Stdin::Null, true)?;
    let mut stdout = running.stdout().ok_or(VrError::NoProgram("ffmpeg"))?;
    let mut luma = vec![0; width as usize * height as usize * frames as usize];
    let read = stdout.read_exact(&mut luma);
    match read {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            // What ffmpeg says of it is better than what we can.
            running.finish(&source.path, &doing)?;
            return Err(VrError::source(
                &source.path,
                format!("GoP {gop} decodes to fewer pictures than {frames}; is it damaged?"),
            ));
        }
        read => read.map_err(VrError::io("read from", Path::new("ffmpeg")))?,
    }
    running.finish(&source.path, &doing)?;
    Ok(luma)
}

impl Package {
    /// The source that the package was made from: `given`, or else a file of its name beside the
    /// package, in it, or in the working directory.
    ///
    /// # Errors
    /// [`VrError::Source`] if it is not found, or is another one.
    pub fn source(&self, ffmpeg: &Ffmpeg, given: Option<&Path>) -> Result<Source, VrError> {
        let name = self.description().source_name();
        let found = match given {
            Some(file) => Some(file.to_owned()),
            None => {
                let places = [self.dir().join("..").join(name), self.dir().join(name), name.into()];
                places.into_iter().find(|place| place.is_file())
            }
        };
        let found = found.ok_or_else(|| {
            VrError::source(
                Path::new(name),
                format!(
                    "the source of {} is not beside it; say where it is (--source FILE)",
                    self.dir().display()
                ),
            )
        })?;
        let source = Source::probe(ffmpeg, &found)?;
        if self.description().is_of(source.fingerprint()?) {
            return Ok(source);
        }
        let package = self.dir().display();
        Err(VrError::source(&found, format!("is not what {package} was made from")))
    }
}
