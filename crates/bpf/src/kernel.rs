//! The kernel's side, through libbpf.

mod query;

use std::io::ErrorKind;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::sync::{Mutex, Once};

use libbpf_rs::{
    Link, MapCore as _, MapFlags, MapHandle, MapType, Object, ObjectBuilder, PrintLevel, set_print,
};

use crate::{BpfError, Control, host, process};

/// The compiled controls, by name.
const OBJECTS: [(&str, &[u8]); 4] = [
    ("compound", include_bytes!(concat!(env!("OUT_DIR"), "/compound.bpf.o"))),
    ("lia", include_bytes!(concat!(env!("OUT_DIR"), "/lia.bpf.o"))),
    ("olia", include_bytes!(concat!(env!("OUT_DIR"), "/olia.bpf.o"))),
    ("balia", include_bytes!(concat!(env!("OUT_DIR"), "/balia.bpf.o"))),
];

/// Lines of libbpf kept to tell why something failed.
const LOG_LINES: usize = 200;

/// What libbpf has said since the last try.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Controls that this process holds. Dropping it takes them out, as does the end of the process.
#[derive(Debug)]
pub struct Loaded(Vec<Held>);

/// A control and what keeps it in the kernel.
#[derive(Debug)]
struct Held {
    control: Control,
    // Before the object: on kernels without links it refers to it.
    link: Link,
    _object: Object,
}

impl Loaded {
    /// Loads controls and registers them, all or none.
    ///
    /// # Errors
    /// When one is loaded already, or this kernel or user cannot.
    pub fn load(controls: &[Control]) -> Result<Self, BpfError> {
        host::check()?;
        Self::load_as(controls, query::has_links())
    }

    /// The same, registering without a link as before Linux 6.4 unless `linked`: then a process
    /// that is killed leaves the control behind, for [`unload`] to take out.
    ///
    /// # Errors
    /// When the kernel refuses a control.
    #[doc(hidden)]
    pub fn load_as(controls: &[Control], linked: bool) -> Result<Self, BpfError> {
        let mut held: Vec<Held> = Vec::new();
        for &control in controls {
            if control.is_loaded() {
                return Err(already(control));
            }
            held.push(load(control, linked)?);
        }
        Ok(Self(held))
    }

    /// The controls.
    pub fn controls(&self) -> impl Iterator<Item = Control> {
        self.0.iter().map(|held| held.control)
    }

    /// The kernel's links to them. From Linux 6.11 on they can be polled: one hangs up when
    /// somebody has taken its control out.
    pub fn links(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|held| held.link.as_fd())
    }
}

fn already(control: Control) -> BpfError {
    BpfError::AlreadyLoaded { name: control.kernel_name, pid: holder(control) }
}

/// The process that holds a control, as far as we may see.
pub(crate) fn holder(control: Control) -> Option<u32> {
    process::loader(query::link(control)?)
}

fn load(control: Control, linked: bool) -> Result<Held, BpfError> {
    let what = || format!("loading {}", control.kernel_name);
    let object = OBJECTS.iter().find(|(name, _)| *name == control.name);
    let (_, object) = object.ok_or_else(|| BpfError::Unknown { name: control.name.to_owned() })?;
    listen();
    let opened = ObjectBuilder::default().open_memory(object);
    let mut open = opened.map_err(|error| failure(what(), &error))?;
    if !linked {
        for mut map in open.maps_mut() {
            if map.map_type() == MapType::StructOps {
                map.set_map_flags(0).map_err(|error| failure(what(), &error))?;
            }
        }
    }
    let mut object = open.load().map_err(|error| failure(what(), &error))?;
    let mut maps = object.maps_mut();
    let ops = maps.find(|map| map.map_type() == MapType::StructOps);
    let mut ops = ops.expect("each object has its struct_ops");
    let link = ops.attach_struct_ops().map_err(|error| match error.kind() {
        // Somebody was faster.
        libbpf_rs::ErrorKind::AlreadyExists => already(control),
        _ => failure(what(), &error),
    })?;
    drop(maps);
    Ok(Held { control, link, _object: object })
}

/// Takes a control out, whoever holds it. Connections that use it keep it to their end.
///
/// # Errors
/// When it is not loaded, or this kernel or user cannot.
pub fn unload(control: Control) -> Result<(), BpfError> {
    listen();
    let name = control.kernel_name;
    if !control.is_loaded() {
        return Err(BpfError::NotLoaded { name });
    }
    let what = || format!("taking {name} out");
    if let Some(link) = query::link(control) {
        return query::detach(link).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => BpfError::NotPermitted { what: what() },
            // Before Linux 6.11.
            ErrorKind::Unsupported | ErrorKind::InvalidInput => {
                BpfError::Held { name, pid: process::loader(link) }
            }
            _ => BpfError::Refused { what: what(), reason: error.to_string() },
        });
    }
    // Before Linux 6.4 the control stands in its map alone.
    let Some(id) = query::ops_map(control) else {
        return Err(BpfError::NotPermitted { what: what() });
    };
    let map = MapHandle::from_map_id(id).map_err(|error| failure(what(), &error))?;
    map.delete(&0u32.to_ne_bytes()).map_err(|error| failure(what(), &error))
}

/// The map from sockets to groups of a coupled control that is loaded.
#[derive(Debug)]
pub(crate) struct GroupMap(MapHandle, Control);

impl GroupMap {
    pub(crate) fn open(control: Control) -> Result<Self, BpfError> {
        let name = control.kernel_name;
        if !control.is_loaded() {
            return Err(BpfError::NotLoaded { name });
        }
        listen();
        let what = || format!("coupling sockets under {name}");
        let maps = query::maps_of(control);
        for id in maps {
            let map = MapHandle::from_map_id(id).map_err(|error| failure(what(), &error))?;
            if map.map_type() == MapType::SkStorage {
                return Ok(Self(map, control));
            }
        }
        // What is loaded can be listed by those who may reach it.
        Err(BpfError::NotPermitted { what: what() })
    }

    pub(crate) fn put(&self, socket: BorrowedFd<'_>, group: u64) -> Result<(), BpfError> {
        let key = socket.as_raw_fd().to_ne_bytes();
        let put = self.0.update(&key, &group.to_ne_bytes(), MapFlags::ANY);
        let what = || format!("coupling a socket under {}", self.1.kernel_name);
        put.map_err(|error| failure(what(), &error))
    }
}

/// Keeps what libbpf says from here on for the error, instead of its going to standard error.
fn listen() {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        set_print(Some((PrintLevel::Warn, |_, text| {
            let mut log = LOG.lock().expect("nobody panics with it");
            if log.len() < LOG_LINES {
                log.push(text.trim().to_owned());
            }
        })));
    });
    LOG.lock().expect("nobody panics with it").clear();
}

/// The error of libbpf with the line of its log that says most: the verifier's last.
fn failure(what: String, error: &libbpf_rs::Error) -> BpfError {
    let log = LOG.lock().expect("nobody panics with it");
    for line in log.iter() {
        tracing::debug!("{line}");
    }
    // The verifier refuses with the same number as the kernel refuses a user, and gives reasons.
    let verified = log.iter().any(|text| text.contains("PROG LOAD LOG"));
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied && !verified {
        return BpfError::NotPermitted { what };
    }
    let verdict = log.iter().flat_map(|text| text.lines()).rfind(|line| {
        let is_frame = line.starts_with("--") || line.starts_with("libbpf:");
        !line.is_empty() && !is_frame && !line.starts_with("processed ")
    });
    let verdict = verdict.map(|line| format!(": {line}")).unwrap_or_default();
    BpfError::Refused { what, reason: format!("{error}{verdict}") }
}
