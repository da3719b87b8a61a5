//! What the kernel drops of a node's: datagrams that did not fit in a socket's receive buffer, and
//! packets that did not fit in the TUN device's queue. The kernel tells a node nothing of these; it
//! counts them in its tables, which are read when somebody looks at the node.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// The tables of the namespace that a node's thread is in, and the node's rows in them.
#[derive(Debug)]
pub(crate) struct KernelDrops {
    tables: PathBuf,
    sockets: Vec<Row>,
    /// What was counted of sockets that are closed.
    past: u64,
    device: Option<String>,
    last: Dropped,
}

/// A socket's row.
#[derive(Clone, Copy, Debug)]
struct Row {
    inode: u64,
    /// What the kernel said last, in 32 bits, which wrap; and what it has counted. `None` until it has
    /// said something.
    said: u32,
    counted: Option<u64>,
}

/// What was dropped so far; `None` while the kernel's tables do not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) datagrams: Option<u64>,
    /// Of the TUN device, if there is one: what the kernel hands over at once, a packet or segments of
    /// one flow.
    pub(crate) from_device: Option<u64>,
}

impl KernelDrops {
    /// For the calling thread's sockets and device, if it has one.
    pub(crate) fn new(sockets: &[BorrowedFd<'_>], device: Option<&str>) -> Self {
        // The thread that reads this later may be in another namespace.
        let thread = rustix::thread::gettid();
        Self {
            tables: format!("/proc/self/task/{thread}/net").into(),
            sockets: inodes(sockets).into_iter().map(Row::new).collect(),
            past: 0,
            device: device.map(str::to_owned),
            last: Dropped::default(),
        }
    }

    /// The node has these sockets from now on. What was seen of those that it has no longer still counts.
    pub(crate) fn follow(&mut self, sockets: &[BorrowedFd<'_>]) {
        let inodes = inodes(sockets);
        let closed = self.sockets.extract_if(.., |row| !inodes.contains(&row.inode));
        self.past += closed.filter_map(|row| row.counted).sum::<u64>();
        let known: BTreeSet<_> = self.sockets.iter().map(|row| row.inode).collect();
        self.sockets.extend(inodes.difference(&known).copied().map(Row::new));
    }

    /// Reads the tables; what cannot be read, as after the node's end, is as it was.
    pub(crate) fn look(&mut self) -> Dropped {
        let table = |name: &str| std::fs::read_to_string(self.tables.join(name));
        // A system without IPv6 has not the second.
        let sockets = ["udp", "udp6"].map(table).into_iter().flatten();
        let tables = sockets.collect::<Vec<_>>().concat();
        self.sockets.iter_mut().for_each(|row| row.look(&tables));
        let counted = self.sockets.iter().map(|row| row.counted);
        let counted = counted.sum::<Option<u64>>().filter(|_| !self.sockets.is_empty());
        self.last.datagrams = counted.map(|counted| self.past + counted);
        if let Some(device) = &self.device
            && let Ok(table) = table("dev")
        {
            self.last.from_device = of_device(&table, device).or(self.last.from_device);
        }
        self.last
    }
}

fn inodes(sockets: &[BorrowedFd<'_>]) -> BTreeSet<u64> {
    let inode = |socket: &BorrowedFd<'_>| rustix::fs::fstat(socket).ok().map(|it| it.st_ino);
    sockets.iter().filter_map(inode).collect()
}

impl Row {
    fn new(inode: u64) -> Self {
        Self { inode, said: 0, counted: None }
    }

    /// Looks for it in tables as in proc_net_udp(5); one that is not there is as it was.
    fn look(&mut self, tables: &str) {
        if let Some(said) = drops(tables, self.inode) {
            let new = said.wrapping_sub(self.said);
            (self.said, self.counted) = (said, Some(self.counted.unwrap_or(0) + u64::from(new)));
        }
    }
}

/// The drops of a socket: inode and drops are the tenth and last column.
fn drops(tables: &str, inode: u64) -> Option<u32> {
    tables.lines().find_map(|row| {
        let columns: Vec<_> = row.split_ascii_whitespace().collect();
        if columns.get(9)?.parse() != Ok(inode) {
            return None;
        }
        // Some kernels write it with a sign.
        columns.get(12)?.parse::<i64>().ok().map(|drops| drops as u32)
    })
}

/// What was dropped on its way out of a device, by a table as in proc_net_dev(5): the twelfth number
/// after the name.
fn of_device(table: &str, device: &str) -> Option<u64> {
    let rows = table.lines().filter_map(|row| row.split_once(':'));
    let (_, numbers) = rows.into_iter().find(|(name, _)| name.trim() == device)?;
    numbers.split_ascii_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;

    use weftline_lab::LabError;
    use weftline_lab::netns::Netns;

    use super::*;
    use crate::tun::{Tun, TunConfig};

    #[test]
    fn rows_are_found_by_inode_and_name() {
        let sockets = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  \
            timeout inode ref pointer drops\n  \
            1: 0100007F:1BBC 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 \
            0000000000000000 12\n  \
            2: 0100007F:1BBD 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 \
            0000000000000000 30\n 3: short\n";
        assert_eq!((drops(sockets, 4711), drops(sockets, 4712)), (Some(12), Some(30)));
        assert_eq!((drops(sockets, 12), drops(sockets, 30)), (None, None));
        let twice = format!("{sockets}{sockets}");
        let (mut row, mut other) = (Row::new(4711), Row::new(5));
        row.look(&twice);
        other.look(&twice);
        assert_eq!((row.counted, other.counted), (Some(12), None), "once, and unknown");
        // The kernel's number wraps after 32 bits.
        row.look(&sockets.replace(" 12\n", " 4294967290\n"));
        assert_eq!(row.counted, Some(4_294_967_290));
        row.look(&sockets.replace(" 12\n", " -2\n"));
        assert_eq!(row.counted, Some(4_294_967_294), "with a sign");
        row.look(&sockets.replace(" 12\n", " 6\n"));
        assert_eq!(row.counted, Some(4_294_967_302));
        row.look("");
        assert_eq!(row.counted, Some(4_294_967_302), "it is gone");
        let devices = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes packets errs drop\n    \
            lo:     1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
            cotag0: 1 2 3 4 5 6 7 8 9 10 11 77 13 14 15 16\n";
        assert_eq!(of_device(devices, "cotag0"), Some(77));
        assert_eq!((of_device(devices, "cotag"), of_device("", "lo")), (None, None));
    }

    #[test]
    fn what_does_not_fit_in_a_receive_buffer_is_known() {
        let [to, other] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        // The same socket twice is one.
        let mut drops = KernelDrops::new(&[to.as_fd(), to.as_fd()], None);
        assert_eq!(drops.last.datagrams, None, "nothing is known yet");
        assert_eq!(drops.look().datagrams, Some(0));
        // The kernel's least is some kilobytes.
        socket2::SockRef::from(&to).set_recv_buffer_size(1).unwrap();
        for _ in 0..100 {
            other.send_to(&[0; 1000], to.local_addr().unwrap()).unwrap();
        }
        to.set_nonblocking(true).unwrap();
        // A busy kernel may bring them later.
        let (begun, mut came) = (std::time::Instant::now(), 0);
        loop {
            came += std::iter::from_fn(|| to.recv(&mut [0; 1000]).ok()).count();
            let Dropped { datagrams, from_device } = drops.look();
            assert_eq!(from_device, None);
            let known = came as u64 + datagrams.unwrap();
            if known == 100 {
                break;
            }
            assert!(known < 100 && begun.elapsed().as_secs() < 400, "{came}, {datagrams:?}");
        }
        assert!(came < 100, "{came}");
        // It is closed, and another opened in its place.
        let counted = drops.look().datagrams;
        drop(to);
        drops.follow(&[other.as_fd()]);
        assert_eq!(drops.look().datagrams, counted);
    }

    #[test]
    fn what_does_not_fit_in_the_devices_queue_is_known() {
        const SENT: u64 = 3000;
        let ns = match Netns::create() {
            Ok(ns) => ns,
            Err(LabError::NotPossible { what, remedy }) => {
                assert!(std::env::var_os("CI").is_none(), "{what}; {remedy}");
                eprintln!("skipped: {what}; run 'sudo -E cargo test -p weftline-tunnel'");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let mut drops = None;
        let ours = ns.run(|| {
            let addresses = vec!["10.9.0.1/24".parse().unwrap()];
            let mut tun =
                Tun::create(&TunConfig { name: "t".to_owned(), addresses }, 1400).unwrap();
            let known = drops.insert(KernelDrops::new(&[], Some("t")));
            assert_eq!(known.look().from_device, Some(0));
            let socket = UdpSocket::bind("10.9.0.1:0")?;
            (0..SENT).try_for_each(|_| socket.send_to(b"ours", "10.9.0.2:9").map(drop))?;
            known.look();
            let mut ours = 0;
            while tun.read(|packet| ours += u64::from(packet.ends_with(b"ours"))) {}
            Ok(ours)
        });
        let (ours, dropped) = (ours.unwrap(), drops.unwrap().look().from_device.unwrap());
        assert!(ours < SENT, "{ours}");
        // The kernel itself has packets for it, too: IPv6 looks for neighbours.
        let others = dropped - (SENT - ours);
        assert!(others < 20, "{ours} of {SENT} came, {dropped} dropped");
    }
}
