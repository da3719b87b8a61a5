//! The thread that writes event files, within bounds: of a file, of their number, and of what waits
//! to be written.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

/// The longest file in bytes, but for the record that says so.
const MAX_FILE: u64 = 16 << 20;
/// The most files of this program in the directory; the oldest makes room for a new one.
const MAX_FILES: usize = 1000;
/// Records that wait to be written; further ones are lost.
const MAX_WAITING: usize = 4096;
/// What each record begins with (RFC 7464 §2.2).
const RECORD_SEPARATOR: u8 = 0x1e;
const EXTENSION: &str = "sqlog";

/// The time of day, for the names and the heads of files.
#[expect(clippy::disallowed_types, reason = "files say when they began; nothing is timed by it")]
pub(super) fn time_of_day() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

enum Message {
    Record(u64, Vec<u8>),
    /// Nothing more comes for the file.
    Close(u64),
    /// Nothing more comes.
    Stop,
}

/// The thread; it ends with this.
pub(super) struct Writer {
    sender: SyncSender<Message>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, which writes files into `dir` whose names have `kind` in them.
    ///
    /// # Errors
    /// When the directory is not there and cannot be made, or there is no thread to be had.
    pub(super) fn start(dir: &Path, kind: &'static str) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let files = Files::new(dir, kind)?;
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let thread = std::thread::Builder::new().name("qlog".to_owned());
        let thread = thread.spawn(move || files.run(&receiver))?;
        Ok(Self { sender, thread: Some(thread) })
    }

    pub(super) fn sink(&self) -> Sinks {
        Sinks(self.sender.clone())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // What waits is written before that.
        let _ = self.sender.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Begins files.
pub(super) struct Sinks(SyncSender<Message>);

impl Sinks {
    pub(super) fn file(&self, number: u64) -> Sink {
        Sink { sender: self.0.clone(), number, lost: 0, length: 0, is_full: false }
    }
}

/// Takes the records of one file.
pub(super) struct Sink {
    sender: SyncSender<Message>,
    number: u64,
    lost: u64,
    /// Bytes handed on.
    length: u64,
    is_full: bool,
}

impl Sink {
    /// Hands a record on, as long as the file is not full; it is lost if too many wait.
    pub(super) fn put(&mut self, record: &Value) {
        if self.is_full {
            return;
        }
        let mut bytes = encode(record);
        self.length += bytes.len() as u64;
        if self.length > MAX_FILE {
            self.is_full = true;
            let data = json!({ "max_bytes": MAX_FILE });
            let (time, name) = (&record["time"], "weftline:file_full");
            bytes = encode(&json!({ "time": time, "name": name, "data": data }));
        }
        let sent = self.sender.try_send(Message::Record(self.number, bytes));
        if let Err(TrySendError::Full(_)) = sent {
            self.lost += 1;
        }
    }

    /// Records lost since the last time this was asked.
    pub(super) fn lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

/// A record as it stands in a file.
fn encode(record: &Value) -> Vec<u8> {
    let mut bytes = vec![RECORD_SEPARATOR];
    bytes.extend_from_slice(record.to_string().as_bytes());
    bytes.push(b'\n');
    bytes
}

impl Drop for Sink {
    fn drop(&mut self) {
        // Where too many wait, the file stays open until the program ends.
        let _ = self.sender.try_send(Message::Close(self.number));
    }
}

struct Files {
    dir: PathBuf,
    kind: &'static str,
    /// Those that are written; `None` for one that has ended early.
    open: BTreeMap<u64, Option<File>>,
    /// All there are, oldest first: their names begin with the time.
    names: std::collections::VecDeque<PathBuf>,
    /// Whether the last attempt to write failed, which is said once.
    failing: bool,
}

/// Whether a file has a name that a program of that kind gives: `<time>-<kind>-<process>-<number>`.
/// What others keep there is theirs.
fn is_of(path: &Path, kind: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.strip_suffix(EXTENSION).and_then(|stem| stem.strip_suffix('.'));
    let parts: Vec<&str> = stem.unwrap_or_default().split('-').collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    matches!(parts[..], [time, of, process, number]
        if of == kind && [time, process, number].into_iter().all(is_number))
}

impl Files {
    fn new(dir: &Path, kind: &'static str) -> io::Result<Self> {
        let mut names: Vec<PathBuf> = fs::read_dir(dir)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| is_of(path, kind))
            .collect();
        names.sort();
        let (dir, open) = (dir.to_owned(), BTreeMap::new());
        Ok(Self { dir, kind, open, names: names.into(), failing: false })
    }

    fn run(mut self, messages: &Receiver<Message>) {
        while let Ok(message) = messages.recv() {
            match message {
                Message::Record(number, bytes) => self.write(number, &bytes),
                Message::Close(number) => drop(self.open.remove(&number)),
                Message::Stop => return,
            }
        }
    }

    fn write(&mut self, number: u64, bytes: &[u8]) {
        let result = self.try_write(number, bytes);
        match result {
            Ok(()) => self.failing = false,
            Err(error) => {
                self.open.insert(number, None);
                if !self.failing {
                    let dir = self.dir.display();
                    tracing::warn!("event files in {dir}: {error}; the file ends there");
                }
                self.failing = true;
            }
        }
    }

    fn try_write(&mut self, number: u64, bytes: &[u8]) -> io::Result<()> {
        if !self.open.contains_key(&number) {
            let file = self.create(number)?;
            self.open.insert(number, Some(file));
        }
        match self.open.get_mut(&number) {
            Some(Some(file)) => file.write_all(bytes),
            _ => Ok(()),
        }
    }

    /// A new file, in place of the oldest if there are too many.
    fn create(&mut self, number: u64) -> io::Result<File> {
        while self.names.len() >= MAX_FILES {
            if let Some(oldest) = self.names.pop_front() {
                // Somebody may have removed it before.
                let _ = fs::remove_file(oldest);
            }
        }
        let now = time_of_day().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let name = format!("{now:013}-{}-{}-{number}.{EXTENSION}", self.kind, std::process::id());
        let path = self.dir.join(name);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        self.names.push_back(path);
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_bounded_in_number_and_length() {
        let dir = tempfile::tempdir().unwrap();
        for old in 0..MAX_FILES + 5 {
            fs::write(dir.path().join(format!("{old:013}-serve-1-{old}.sqlog")), "").unwrap();
        }
        // What others keep there counts for nothing, and stays.
        let others = ["notes.txt", "0-curl.sqlog", "0000000000000-connect-1-1.sqlog"];
        for name in others {
            fs::write(dir.path().join(name), "mine").unwrap();
        }
        let writer = Writer::start(dir.path(), "serve").unwrap();
        let mut sink = writer.sink().file(7);
        for time in 0..20 {
            sink.put(&json!({ "time": time, "data": "x".repeat(1 << 20) }));
        }
        drop(writer);
        assert_eq!(sink.lost(), 0);
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(names.len(), MAX_FILES + others.len());
        assert!(others.iter().all(|name| dir.path().join(name).exists()));
        let newest = names.iter().filter(|path| path.extension().is_some_and(|e| e == EXTENSION));
        let text = fs::read(newest.max().unwrap()).unwrap();
        assert!(text.len() as u64 <= MAX_FILE + 200, "{}", text.len());
        let last = text.rsplit(|&byte| byte == RECORD_SEPARATOR).next().unwrap();
        let last: Value = serde_json::from_slice(last).unwrap();
        assert_eq!((&last["name"], &last["time"]), (&json!("weftline:file_full"), &json!(15)));
    }
}
