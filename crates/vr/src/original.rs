//! The pictures of a package's source, as they were before they were encoded.

use std::path::Path;

use crate::decode::DecodedGop;
use crate::error::VrError;
use crate::ffmpeg::Ffmpeg;
use crate::package::{Package, luma};
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
        if self.description().is_of(&source.fingerprint()?) {
            return Ok(source);
        }
        let package = self.dir().display();
        Err(VrError::source(&found, format!("is not what {package} was made from")))
    }
}
