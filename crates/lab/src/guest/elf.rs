//! What of a program a kernel loads: enough of the format ELF to take programs along.

/// Bytes of the header, and of each entry of the table of segments.
const HEADER: usize = 64;
const SEGMENT: usize = 56;

/// Kinds of segments: what is loaded, and the name of the program that loads libraries.
const LOAD: u32 = 1;
const INTERPRETER: u32 = 3;

/// A program for 64-bit x86.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Elf<'a> {
    /// What loads it with its libraries; none if it has none.
    pub(super) interpreter: Option<&'a str>,
    /// The file up to the end of what is loaded. Information for debuggers is behind it, and may be
    /// ten times as much.
    pub(super) loaded: &'a [u8],
}

/// Reads a file; `None` if it is no such program.
pub(super) fn parse(file: &[u8]) -> Option<Elf<'_>> {
    let header = file.get(..HEADER)?;
    // ELF, 64 bits, the least significant byte first, for x86-64.
    let is_ours = header.starts_with(b"\x7fELF\x02\x01") && header[18..20] == 62_u16.to_le_bytes();
    if !is_ours {
        return None;
    }
    let table = number(header, 32)?;
    let (size, count) = (short(header, 54)?, short(header, 56)?);
    if usize::from(size) != SEGMENT {
        return None;
    }
    let (mut interpreter, mut end) = (None, table + SEGMENT * usize::from(count));
    for index in 0..usize::from(count) {
        let at = table.checked_add(SEGMENT * index)?;
        let segment = file.get(at..at.checked_add(SEGMENT)?)?;
        let kind = u32::from_le_bytes(segment[..4].try_into().ok()?);
        let (offset, length) = (number(segment, 8)?, number(segment, 32)?);
        let bytes = file.get(offset..offset.checked_add(length)?)?;
        match kind {
            LOAD => end = end.max(offset + length),
            INTERPRETER => {
                let text = std::str::from_utf8(bytes).ok()?;
                interpreter = Some(text.trim_end_matches('\0'));
            }
            _ => {}
        }
    }
    Some(Elf { interpreter, loaded: file.get(..end)? })
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
    // Bounded so that no sum of two of them overflows.
    usize::try_from(u64::from_le_bytes(bytes)).ok().filter(|&number| number < 1 << 40)
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn this_program_is_read() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = parse(&file).unwrap();
        assert!(elf.loaded.len() > 4096 && elf.loaded.len() < file.len(), "symbols are left out");
        assert!(elf.interpreter.is_none_or(|path| path.starts_with('/')), "{:?}", elf.interpreter);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(
            table in any::<u64>(),
            count in 0_u16..5,
            rest in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            let mut file = b"\x7fELF\x02\x01".to_vec();
            file.resize(HEADER, 0);
            file[18] = 62;
            let table = if table % 2 == 0 { table % 200 } else { table };
            file[32..40].copy_from_slice(&table.to_le_bytes());
            file[54] = SEGMENT as u8;
            file[56..58].copy_from_slice(&count.to_le_bytes());
            file.extend(rest);
            if let Some(elf) = parse(&file) {
                prop_assert!(elf.loaded.len() <= file.len());
            }
        }
    }
}
