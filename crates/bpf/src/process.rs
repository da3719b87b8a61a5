//! Which process holds a control: the kernel knows what is loaded, `/proc` who holds it.

use std::fs;
use std::path::Path;

/// The process that holds the BPF link of number `link_id`, as far as we may see it.
pub(crate) fn loader(link_id: u32) -> Option<u32> {
    let pids = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| holds(&Path::new("/proc").join(pid.to_string()), link_id))
}

fn holds(process: &Path, link_id: u32) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else { return false };
    files.flatten().any(|file| {
        let is_link = fs::read_link(file.path())
            .is_ok_and(|target| target.to_string_lossy().starts_with("anon_inode:bpf"));
        is_link && {
            let info = process.join("fdinfo").join(file.file_name());
            fs::read_to_string(info).is_ok_and(|text| link_of(&text) == Some(link_id))
        }
    })
}

/// The number in what `/proc` says of a file descriptor, if that is a link.
fn link_of(fdinfo: &str) -> Option<u32> {
    let lines = fdinfo.lines().filter_map(|line| line.split_once(':'));
    let (_, number) = lines.into_iter().find(|(key, _)| *key == "link_id")?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_told_from_other_descriptors() {
        let link = "pos:\t0\nflags:\t02000000\nmnt_id:\t15\nlink_type:\tstruct_ops\nlink_id:\t7\n";
        assert_eq!(link_of(link), Some(7));
        assert_eq!(link_of("pos:\t0\nflags:\t02\nmap_id:\t7\n"), None);
        assert_eq!(loader(u32::MAX), None);
    }
}
