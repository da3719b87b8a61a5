//! Finds out which sources the program is built from, for the records of its runs: the version of
//! the package, and where git knows the sources the commit, as `0.1.0+c0e2a5d1b2f3`. Sources that
//! differ from the commit add a digest of the difference: `0.1.0+c0e2a5d1b2f3.d-5f1c93ab`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the program is made of beside the crates' folders `src`, from the root of the repository.
const SOURCES: [&str; 5] = ["Cargo.toml", "Cargo.lock", "scenarios", "bpf", "crates/web/dist"];

fn main() {
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let root = Path::new("../..");
    let version = match commit(root) {
        Some(commit) => format!("{version}+{commit}"),
        None => version,
    };
    println!("cargo:rustc-env=WEFTLINE_VERSION={version}");
    let made = git(root, &["show", "--no-patch", "--format=%ct", "HEAD"]);
    println!("cargo:rustc-env=WEFTLINE_MADE={}", made.unwrap_or_else(|| "0".to_owned()));
    watch(root);
}

/// The commit, and by what the sources differ from it. `None` without git, and for a copy of the
/// sources that lies in the repository of something else.
fn commit(root: &Path) -> Option<String> {
    if !git(root, &["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let plain = ["diff", "--no-ext-diff", "--no-color", "HEAD", "--", ":(glob)crates/*/src/**"];
    let mut arguments = plain.to_vec();
    arguments.extend(SOURCES);
    let difference = git(root, &arguments)?;
    if difference.is_empty() {
        return Some(commit);
    }
    Some(format!("{commit}.d-{:08x}", fnv(difference.as_bytes())))
}

/// What git says, if it runs and succeeds.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // A build only looks: it takes no lock that somebody's commit may want.
    command.env("GIT_OPTIONAL_LOCKS", "0").current_dir(root).args(arguments);
    let output = command.stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.trim().to_owned())
}

/// The FNV-1a digest, folded to 32 bits: it tells one state of somebody's sources from the next.
fn fnv(bytes: &[u8]) -> u32 {
    let digest = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (digest >> 32) as u32 ^ digest as u32
}

/// Runs this again when the sources or the commit change. A file that is not there would have it
/// run each time.
fn watch(root: &Path) {
    let sources = SOURCES.map(|file| root.join(file));
    let crates = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let crates = crates.map(|folder| folder.path().join("src"));
    let heads = ["HEAD", "logs/HEAD"];
    let heads = heads.iter().filter_map(|file| git(root, &["rev-parse", "--git-path", file]));
    let heads = heads.map(|file| root.join(PathBuf::from(file)));
    for path in sources.into_iter().chain(crates).chain(heads).filter(|path| path.exists()) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    println!("cargo:rerun-if-changed=build.rs");
}
