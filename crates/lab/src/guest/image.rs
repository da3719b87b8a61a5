//! The kernel of the guests: where `kernel/build` has put it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::LabError;

/// Names an image.
const IMAGE: &str = "WEFTLINE_KERNEL";

/// Names the directory of what `kernel/build` has built, if it is not the usual one.
const CACHE: &str = "WEFTLINE_KERNEL_CACHE";

/// The usual one, in the home directory.
const USUAL_CACHE: &str = ".cache/weftline-kernel";

/// How sudo is told of the invoking user's.
const UNDER_SUDO: &str = "; one that was built without sudo is found with \
    'sudo WEFTLINE_KERNEL_CACHE=\"$HOME/.cache/weftline-kernel\" weftline lab …'";

/// What makes an image.
const BUILD: &str = "kernel/build";

/// The options of a kernel without which the lab cannot run in it.
const OPTIONS: [&str; 4] = ["CONFIG_IPV6=y", "CONFIG_MPTCP=y", "CONFIG_TIMERFD=y", "CONFIG_TUN=y"];

/// Beside an image: the configuration that it was built with, and whether without the patches.
const NAME: &str = "name";

/// That of the lab's guests: the others look for their own faults, or have what only their tests need.
const OURS: &str = "min";

/// The same of a kernel without the patches, in which nothing but the kernel's own scheduler runs.
const UNPATCHED: &str = "min unpatched";

/// The scheduler that every kernel has.
const PLAIN: &str = "default";

/// How much of an image its header and version are in.
const HEAD: u64 = 64 << 10;

/// A kernel that can be booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) file: PathBuf,
    release: String,
    /// Whether it is known to have none of the patches.
    pub(super) is_unpatched: bool,
    /// What of its sources and configuration its directory is named after.
    key: String,
}

/// As records have it: `6.12.117 (19174e282073685d)`, or `6.12.117 (19174e282073685d, unpatched)`.
impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unpatched = if self.is_unpatched { ", unpatched" } else { "" };
        write!(f, "{} ({}{unpatched})", self.release, self.key)
    }
}

/// The image that the environment names, or the newest that `kernel/build` has made for the lab, with the
/// patches.
///
/// # Errors
/// [`LabError::NotPossible`] if there is none, with how to build one.
pub(super) fn find() -> Result<Image, LabError> {
    if let Some(file) = std::env::var_os(IMAGE).filter(|file| !file.is_empty()) {
        return named(Path::new(&file));
    }
    let set = std::env::var_os(CACHE).filter(|cache| !cache.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").unwrap_or_default();
    let is_sudo = set.is_none() && std::env::var_os("SUDO_USER").is_some();
    newest(&set.unwrap_or_else(|| Path::new(&home()).join(USUAL_CACHE)), is_sudo)
}

impl Image {
    /// Refuses a scheme whose scheduler the patches bring, if it is known that the kernel has none of them.
    ///
    /// # Errors
    /// [`LabError::NotPossible`], with what to do.
    pub(super) fn check(&self, scheme: &str, scheduler: &str) -> Result<(), LabError> {
        if !self.is_unpatched || scheduler == PLAIN {
            return Ok(());
        }
        Err(LabError::not_possible(
            format!(
                "{IMAGE}: {} was built without the patches, which bring the scheduler of {scheme}",
                self.file.display()
            ),
            format!("unset it, name an image with them, or run linux-{PLAIN} alone"),
        ))
    }
}

/// The image in that file.
fn named(file: &Path) -> Result<Image, LabError> {
    let refused = |why: String| {
        let remedy = format!("name an image that '{BUILD}' has printed, or unset it");
        Err(LabError::not_possible(format!("{IMAGE}: {} {why}", file.display()), remedy))
    };
    // An image from elsewhere has no name.
    let name = fs::read_to_string(file.with_file_name(NAME)).ok();
    let name = name.as_deref().map(str::trim);
    if let Some(name) = name.filter(|name| ![OURS, UNPATCHED].contains(name)) {
        let name = name.chars().take(40).collect::<String>().escape_debug().to_string();
        return refused(format!("was built as '{name}', not as '{OURS}'"));
    }
    match fs::read_to_string(file.with_file_name(".config")) {
        Ok(config) if missing(&config).next().is_some() => {
            let missing: Vec<_> = missing(&config).collect();
            return refused(format!("was built without {}", missing.join(", ")));
        }
        // An image from elsewhere may have everything.
        _ => {}
    }
    match open(file) {
        Ok(Some(image)) => Ok(Image { is_unpatched: name == Some(UNPATCHED), ..image }),
        Ok(None) => refused("is no kernel for x86".to_owned()),
        Err(error) => refused(format!("cannot be read ({error})")),
    }
}

/// The newest such image in a directory of `kernel/build`. With `is_sudo` this is the superuser's own, and
/// that of the user is elsewhere.
fn newest(cache: &Path, is_sudo: bool) -> Result<Image, LabError> {
    let (mut best, mut others) = (None, 0);
    // A directory that is not there has none.
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let file = entry.path().join("bzImage");
        let Ok(about) = fs::metadata(&file) else { continue };
        let config = fs::read_to_string(entry.path().join(".config")).unwrap_or_default();
        let name = fs::read_to_string(entry.path().join(NAME)).unwrap_or_default();
        let image = match missing(&config).next().is_none() && name.trim() == OURS {
            true => open(&file).ok().flatten(),
            false => None,
        };
        let Some(image) = image else {
            others += 1;
            continue;
        };
        // Of two at the same time the choice must not be the directory's.
        let age = (about.mtime(), about.mtime_nsec(), file);
        if best.as_ref().is_none_or(|(best, _)| *best < age) {
            best = Some((age, image));
        }
    }
    best.map(|(_, image)| image).ok_or_else(|| {
        let others = match others {
            0 => String::new(),
            _ => format!(" (of {others} there, none was built as '{OURS}', with the patches)"),
        };
        LabError::not_possible(
            format!("there is no patched kernel for guests in {}{others}", cache.display()),
            format!(
                "build it once with '{BUILD}' in Weftline's sources (a quarter of an hour; \
                 kernel/README.md), or name one with {IMAGE}=FILE{}",
                if is_sudo { UNDER_SUDO } else { "" }
            ),
        )
    })
}

/// Which options that the lab needs a configuration does not have.
fn missing(config: &str) -> impl Iterator<Item = &'static str> {
    OPTIONS.into_iter().filter(|&option| !config.lines().any(|line| line == option))
}

/// An image; `None` if the file is none.
fn open(file: &Path) -> io::Result<Option<Image>> {
    let mut head = Vec::new();
    File::open(file)?.take(HEAD).read_to_end(&mut head)?;
    let Some(release) = release(&head) else { return Ok(None) };
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let is_key = folder.len() == 16 && folder.bytes().all(|byte| byte.is_ascii_hexdigit());
    let key = if is_key { folder.into_owned() } else { "of unknown origin".to_owned() };
    let (file, release) = (file.to_owned(), release.to_owned());
    Ok(Some(Image { file, release, is_unpatched: false, key }))
}

/// The release in the header of a kernel for x86 (its Documentation/arch/x86/boot.rst).
fn release(head: &[u8]) -> Option<&str> {
    if head.get(0x1fe..0x200)? != b"\x55\xaa" || head.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let at = u16::from_le_bytes(head.get(0x20e..0x210)?.try_into().ok()?);
    let version = head.get(usize::from(at) + 0x200..)?;
    let end = version.iter().position(|byte| matches!(byte, 0 | b' '))?;
    let release = std::str::from_utf8(&version[..end]).ok()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-~".contains(c);
    (!release.is_empty() && end <= 64 && release.chars().all(plain)).then_some(release)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The head of a kernel of that version.
    fn head(version: &str) -> Vec<u8> {
        let mut head = vec![0; 0x300];
        head[0x1fe..0x200].copy_from_slice(b"\x55\xaa");
        head[0x202..0x206].copy_from_slice(b"HdrS");
        head[0x20e..0x210].copy_from_slice(&0x80_u16.to_le_bytes());
        head[0x280..0x280 + version.len()].copy_from_slice(version.as_bytes());
        head
    }

    fn put(cache: &Path, key: &str, release: &str, config: &[&str]) {
        let folder = cache.join(key);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("bzImage"), head(&format!("{release} (a@b) #1 SMP"))).unwrap();
        fs::write(folder.join(".config"), config.join("\n")).unwrap();
        fs::write(folder.join("name"), "min\n").unwrap();
    }

    fn said(result: Result<Image, LabError>) -> String {
        result.map_or_else(|error| error.to_string(), |image| image.to_string())
    }

    #[test]
    fn the_newest_image_for_the_lab_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let none = said(newest(&dir.path().join("none"), false));
        assert!(none.contains("there is no patched kernel for guests in /"), "{none}");
        assert!(none.contains("build it once with 'kernel/build' in"), "{none}");
        assert!(!none.contains("sudo"), "{none}");
        let none = said(newest(&dir.path().join("none"), true));
        assert!(
            none.contains("'sudo WEFTLINE_KERNEL_CACHE=\"$HOME/.cache/weftline-kernel\" w"),
            "{none}"
        );
        put(dir.path(), "0123456789abcdef", "6.12.1", &OPTIONS[1..]);
        put(dir.path(), "1123456789abcdef", "6.12.2", &OPTIONS);
        fs::write(dir.path().join("1123456789abcdef/name"), "min unpatched\n").unwrap();
        put(dir.path(), "4123456789abcdef", "6.12.2", &OPTIONS);
        fs::write(dir.path().join("4123456789abcdef/name"), "selftests\n").unwrap();
        let other = named(&dir.path().join("1123456789abcdef/bzImage")).unwrap();
        assert_eq!(other.to_string(), "6.12.2 (1123456789abcdef, unpatched)");
        assert!(other.check("linux-default", "default").is_ok());
        let refused = other.check("linux-fbdt", "fbdt").unwrap_err().to_string();
        assert!(refused.contains("bzImage was built without the patches"), "{refused}");
        assert!(refused.contains("the scheduler of linux-fbdt; unset it"), "{refused}");
        let other = said(named(&dir.path().join("4123456789abcdef/bzImage")));
        assert!(other.contains("was built as 'selftests', not as 'min'"), "{other}");
        let none = said(newest(dir.path(), false));
        assert!(none.contains("(of 3 there, none was built as 'min', with the patches)"), "{none}");
        put(dir.path(), "2123456789abcdef", "6.12.3", &OPTIONS);
        assert_eq!(said(newest(dir.path(), false)), "6.12.3 (2123456789abcdef)");
        assert!(newest(dir.path(), false).unwrap().check("linux-fbdt", "fbdt").is_ok());
        put(dir.path(), "1000000000000000", "6.12.4", &OPTIONS);
        let file =
            File::options().append(true).open(dir.path().join("2123456789abcdef/bzImage")).unwrap();
        let times = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
        file.set_times(times).unwrap();
        assert_eq!(said(newest(dir.path(), false)), "6.12.4 (1000000000000000)");
    }

    #[test]
    fn what_is_no_image_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("image");
        let gone = said(named(&file));
        assert!(
            gone.starts_with("WEFTLINE_KERNEL: /") && gone.contains("cannot be read"),
            "{gone}"
        );
        fs::write(&file, "no kernel").unwrap();
        assert!(said(named(&file)).contains("is no kernel for x86"));
        fs::write(&file, head("6.12.117-weft (x@y) #1")).unwrap();
        assert_eq!(said(named(&file)), "6.12.117-weft (of unknown origin)");
        fs::write(dir.path().join(".config"), "CONFIG_TUN=y\nCONFIG_MPTCP=y\n").unwrap();
        let poor = said(named(&file));
        assert!(poor.contains("was built without CONFIG_IPV6=y, CONFIG_TIMERFD=y"), "{poor}");
    }

    #[test]
    fn releases_are_words() {
        assert_eq!(release(&head("6.12.117 (a@b) #1")), Some("6.12.117"));
        for bad in ["", " 6.12", "6.12\n.1 (x)", "a/b c", &"6".repeat(65)] {
            assert_eq!(release(&head(bad)), None, "{bad:?}");
        }
        let mut far = head("6.12.117 ");
        far[0x20e..0x210].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(release(&far), None);
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..0x400)) {
            let mut head = head("6.12.117 ");
            let length = bytes.len().min(head.len());
            head[..length].copy_from_slice(&bytes[..length]);
            head[0x1fe..0x200].copy_from_slice(b"\x55\xaa");
            head[0x202..0x206].copy_from_slice(b"HdrS");
            let _ = release(&head);
            let _ = release(&bytes);
        }
    }
}
