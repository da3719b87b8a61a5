//! The controls in the running kernel: each passes the verifier, is there while somebody holds it,
//! and leaves nothing behind.

#![cfg(feature = "bpf")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::time::Duration;

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, Socket};
use support::{alone, possible, since};
use weftline_bpf::{BpfError, CONTROLS, Control, Groups, Loaded, unload};

/// Far more than anything here takes: a test that waits this long hangs.
const PATIENCE: Duration = Duration::from_secs(400);

fn control(name: &str) -> Control {
    Control::find(name).unwrap()
}

/// This process, where the kernel can say who holds a control: by its links, of Linux 6.4.
fn this_process() -> Option<u32> {
    since(6, 4).then(std::process::id)
}

#[test]
fn every_program_passes_the_verifier() {
    let _alone = alone();
    let Some(loaded) = possible(Loaded::load(CONTROLS)) else { return };
    assert!(loaded.controls().eq(CONTROLS.iter().copied()));
    for control in CONTROLS {
        assert!(control.is_loaded());
        assert_eq!(control.holder(), this_process());
        // Any socket may ask for it.
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        SockRef::from(&socket).set_tcp_congestion(control.kernel_name.as_bytes()).unwrap();
    }
    drop(loaded);
    assert!(CONTROLS.iter().all(|control| !control.is_loaded()));
}

#[test]
fn a_control_is_loaded_once() {
    let _alone = alone();
    let Some(loaded) = possible(Loaded::load(&[control("lia")])) else { return };
    let again = Loaded::load(&[control("olia"), control("lia")]).unwrap_err();
    let BpfError::AlreadyLoaded { name: "weft_lia", pid } = again else { panic!("{again}") };
    assert_eq!(pid, this_process());
    assert!(!control("olia").is_loaded(), "all or none");
    assert!(control("lia").is_loaded(), "the first one's stays");
    // Who wants to use it uses it.
    let (name, held) = Control::provide("lia").unwrap();
    assert_eq!((name.as_str(), held.is_some()), ("weft_lia", false));
    drop(loaded);
    let (_, held) = Control::provide("lia").unwrap();
    assert!(held.is_some() && control("lia").is_loaded());
    drop(held);
    assert_eq!(Control::provide("cubic").unwrap().0, "cubic");
}

#[test]
fn others_can_take_it_out_and_the_holder_learns() {
    let _alone = alone();
    let Some(loaded) = possible(Loaded::load(&[control("balia")])) else { return };
    let taken_out = unload(control("balia"));
    if since(6, 4) && !since(6, 11) {
        let Err(BpfError::Held { name: "weft_balia", pid }) = taken_out else {
            panic!("{taken_out:?}")
        };
        assert_eq!(pid, this_process());
        return;
    }
    taken_out.unwrap();
    assert!(!control("balia").is_loaded());
    if !since(6, 4) {
        return;
    }
    let link = loaded.links().next().unwrap();
    let mut polled = [PollFd::new(&link, PollFlags::empty())];
    let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    assert_eq!(poll(&mut polled, Some(&patience)).unwrap(), 1);
    assert!(polled[0].revents().contains(PollFlags::HUP));
    drop(loaded);
    assert!(matches!(unload(control("balia")), Err(BpfError::NotLoaded { name: "weft_balia" })));
    // The name is free again.
    assert!(Loaded::load(&[control("balia")]).is_ok());
}

/// As on kernels before 6.4.
#[test]
fn without_links_it_is_taken_out_by_its_map() {
    let _alone = alone();
    let Some(loaded) = possible(Loaded::load_as(&[control("olia")], false)) else { return };
    assert!(control("olia").is_loaded());
    drop(loaded);
    assert!(!control("olia").is_loaded());
    // A process that was killed has left it behind.
    std::mem::forget(Loaded::load_as(&[control("olia")], false).unwrap());
    unload(control("olia")).unwrap();
    assert!(!control("olia").is_loaded());
}

/// A connection over loopback whose sender runs the control.
fn connection(control: Control) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_tcp_congestion(control.kernel_name.as_bytes()).unwrap();
    socket.connect(&address.into()).unwrap();
    SockRef::from(&listener).set_read_timeout(Some(PATIENCE)).unwrap();
    let (sender, receiver): (TcpStream, _) = (socket.into(), listener.accept().unwrap().0);
    sender.set_write_timeout(Some(PATIENCE)).unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    (sender, receiver)
}

/// Sends `bytes` through a connection and receives them.
fn carry(sender: &TcpStream, receiver: &TcpStream, bytes: usize) {
    let (mut sender, mut receiver) = (sender, receiver);
    std::thread::scope(|scope| {
        scope.spawn(move || sender.write_all(&vec![7; bytes]).unwrap());
        receiver.read_exact(&mut vec![0; bytes]).unwrap();
    });
}

#[test]
fn connections_outlive_the_registration() {
    let _alone = alone();
    let Some(loaded) = possible(Loaded::load(CONTROLS)) else { return };
    let connections: Vec<_> = CONTROLS.iter().map(|control| connection(*control)).collect();
    drop(loaded);
    for (control, (sender, receiver)) in CONTROLS.iter().zip(&connections) {
        carry(sender, receiver, 1 << 20);
        let name = SockRef::from(sender).tcp_congestion().unwrap();
        assert!(name.starts_with(control.kernel_name.as_bytes()), "{name:?}");
    }
}

/// How many places are taken in each connection that the newest control knows.
fn members() -> Vec<usize> {
    let maps = MapInfoIter::default().filter(|map| map.name.to_string_lossy() == "connections");
    let map = MapHandle::from_map_id(maps.map(|map| map.id).max().unwrap()).unwrap();
    let taken = |value: Vec<u8>| value.chunks(24).filter(|one| one[..8] != [0; 8]).count();
    map.keys().filter_map(|key| map.lookup(&key, MapFlags::ANY).unwrap()).map(taken).collect()
}

#[test]
fn sockets_of_a_group_know_each_other_until_they_close() {
    let _alone = alone();
    let Some(_loaded) = possible(Loaded::load(&[control("lia")])) else { return };
    Groups::check(control("lia")).unwrap();
    let groups = Groups::default();
    let connections: Vec<_> = (0..5).map(|_| connection(control("lia"))).collect();
    // Three of one connection, one of another, and one that nobody has named.
    for ((sender, receiver), group) in connections.iter().zip([1, 1, 1, 2]) {
        groups.join(sender.as_fd(), group).unwrap();
        carry(sender, receiver, 100_000);
    }
    carry(&connections[4].0, &connections[4].1, 100_000);
    let mut taken = members();
    taken.sort_unstable();
    assert_eq!(taken, [1, 3]);
    // A socket of another control is nobody's business.
    groups.join(TcpListener::bind("127.0.0.1:0").unwrap().as_fd(), 1).unwrap();
    for (sender, receiver) in connections {
        // A reset ends the socket at once.
        SockRef::from(&sender).set_linger(Some(Duration::ZERO)).unwrap();
        drop((sender, receiver));
    }
    assert_eq!(members(), [], "the last one to leave removes the entry");
}
