//! What tells one file from another without reading all of it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use ring::digest::{Context, SHA256};

use crate::error::VrError;

/// How much of the beginning and the end is digested.
const END_BYTES: u64 = 1 << 20;
/// How many blocks between them are, and how long each is.
const BLOCKS: u64 = 64;
const BLOCK_BYTES: u64 = 64 << 10;

/// Length and digests of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) bytes: u64,
    /// Of both ends.
    pub(crate) ends: String,
    /// Of blocks that are evenly spaced: raw files of the same size have the same length, and may
    /// have the same first and last pictures.
    pub(crate) blocks: String,
}

impl Fingerprint {
    /// That of a file.
    pub(crate) fn of(path: &Path) -> Result<Self, VrError> {
        let mut file = File::open(path).map_err(VrError::io("read", path))?;
        let bytes = file.metadata().map_err(VrError::io("read", path))?.len();
        let last = |length| bytes.saturating_sub(length);
        let block =
            |at| (u128::from(last(BLOCK_BYTES)) * u128::from(at) / u128::from(BLOCKS - 1)) as u64;
        let ends = [0, last(END_BYTES)].into_iter();
        let ends = digest(&mut file, ends, END_BYTES).map_err(VrError::io("read", path))?;
        let blocks = digest(&mut file, (0..BLOCKS).map(block), BLOCK_BYTES);
        Ok(Self { bytes, ends, blocks: blocks.map_err(VrError::io("read", path))? })
    }
}

/// Of the `length` bytes, or what there is, at each of these places.
fn digest(file: &mut File, places: impl Iterator<Item = u64>, length: u64) -> io::Result<String> {
    let mut context = Context::new(&SHA256);
    let mut bytes = Vec::new();
    for start in places {
        bytes.clear();
        file.seek(SeekFrom::Start(start))?;
        file.by_ref().take(length).read_to_end(&mut bytes)?;
        context.update(&bytes);
    }
    let digest = context.finish();
    Ok(digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_in_the_middle_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let of = |bytes: &[u8]| {
            let file = dir.path().join("file");
            std::fs::write(&file, bytes).unwrap();
            Fingerprint::of(&file).unwrap()
        };
        let mut bytes = vec![7; 8 << 20];
        let first = of(&bytes);
        assert_eq!(of(&bytes), first);
        // A picture of 192x96.
        bytes[4 << 20..][..27_648 * 4].fill(8);
        let second = of(&bytes);
        assert_eq!((second.bytes, &second.ends), (first.bytes, &first.ends));
        assert_ne!(second.blocks, first.blocks);
        assert_ne!(of(b"a"), of(b"b"));
        assert_eq!(of(b"").bytes, 0);
    }
}
