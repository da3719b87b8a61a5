//! Questions to DNS: the server has its own resolver answer them, whomever they were asked.
//!
//! Each question has a socket of its own, and so a port that nobody can guess. A thread waits for all.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TrySendError, channel, sync_channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use weftline_core::Instant;

use super::MTU;
use super::address::{Ends, udp_packet};
use super::wake::Wake;
use crate::{TunnelError, clock};

/// The port of DNS.
pub(super) const PORT: u16 = 53;
/// The most questions that wait for an answer, of all and of one client.
const MOST: usize = 512;
pub(super) const MOST_OF_ONE: usize = 128;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the system's settings are taken to be the same.
const SETTINGS: Duration = Duration::from_secs(5);
/// The longest answer that is read, in bytes.
const LONGEST: usize = 4096;
/// An answer of so many bytes is carried by every lane (RFC 1035 §4.2.1).
const SHORT: usize = 512;
/// The header of a message (RFC 1035 §4.1.1), and the bit that says that it was cut.
const HEADER: usize = 12;
const TRUNCATED: u8 = 2;
/// The bit that says that it is an answer; those of the byte after it, that recursion is to be had, and that
/// signatures are not looked at (RFC 4035 §3.2.2).
const RESPONSE: u8 = 0x80;
const RECURSION: u8 = 0x80;
const UNCHECKED: u8 = 0x10;

/// A packet with a question, of a client's session.
struct Question {
    client: Arc<str>,
    session: u32,
    packet: Vec<u8>,
}

/// An answer to a session; none if there is none.
pub(super) struct Answer {
    pub(super) session: u32,
    pub(super) reply: Option<Reply>,
}

/// The packets with an answer.
pub(super) struct Reply {
    /// All of it, if the device's packets are as long.
    whole: Option<Vec<u8>>,
    /// Of one that is not short, the one that says that it did not fit, and is asked again over TCP (RFC 2181
    /// §9).
    cut: Option<Vec<u8>>,
}

impl Reply {
    /// The packet that has `most` bytes at most. Fragments would do, too, but all have one number in their
    /// headers (RFC 6864 §4.3), and with IPv6 there are none on the way.
    pub(super) fn within(self, most: usize) -> Option<Vec<u8>> {
        let fits = |packet: &Vec<u8>| packet.len() <= most;
        self.whole.filter(fits).or(self.cut).filter(fits)
    }
}

/// The thread that asks. It ends with this.
pub(super) struct Relay {
    questions: std::sync::mpsc::SyncSender<Question>,
    wake: Wake,
    pub(super) answers: Receiver<Answer>,
}

impl Relay {
    /// Starts it. `woken` is woken when there are answers; `resolvers` says whom to ask.
    ///
    /// # Errors
    /// When the system has no descriptor or thread to give.
    pub(super) fn start(
        woken: Wake,
        resolvers: impl Fn() -> Vec<SocketAddr> + Send + 'static,
    ) -> Result<Self, TunnelError> {
        let wake = Wake::new()?;
        let (questions, asked) = sync_channel(MOST);
        let (answered, answers) = channel();
        let mut work = Work {
            asked,
            answered,
            woken,
            wake: wake.clone(),
            waiting: VecDeque::new(),
            resolvers: Box::new(resolvers),
            known: (Vec::new(), None),
            turn: 0,
            heard: clock::now(),
        };
        let thread = std::thread::Builder::new().name("dns".to_owned());
        thread.spawn(move || work.run()).map_err(TunnelError::os("starting a thread"))?;
        Ok(Self { questions, wake, answers })
    }

    /// Asks for a client; whether there is room for another question.
    pub(super) fn ask(&self, client: &Arc<str>, session: u32, packet: &[u8]) -> bool {
        let (client, packet) = (Arc::clone(client), packet.to_vec());
        let sent = self.questions.try_send(Question { client, session, packet });
        self.wake.wake();
        !matches!(sent, Err(TrySendError::Full(_) | TrySendError::Disconnected(_)))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let (closed, _) = sync_channel(0);
        self.questions = closed;
        self.wake.wake();
    }
}

/// A question that was asked.
struct Asked {
    client: Arc<str>,
    session: u32,
    at: Instant,
    socket: UdpSocket,
    /// Who asked, and whom.
    ends: Ends,
    question: Vec<u8>,
}

struct Work {
    asked: Receiver<Question>,
    answered: Sender<Answer>,
    woken: Wake,
    wake: Wake,
    /// The oldest first.
    waiting: VecDeque<Asked>,
    resolvers: Box<dyn Fn() -> Vec<SocketAddr> + Send>,
    known: (Vec<SocketAddr>, Option<Instant>),
    /// Which resolver is asked: another one when nothing has come from it for as long as an answer may
    /// take. That it does not answer one question may be the question's fault.
    turn: usize,
    heard: Instant,
}

impl Work {
    fn run(&mut self) {
        loop {
            self.wake.clear();
            let now = clock::now();
            loop {
                match self.asked.try_recv() {
                    Ok(question) => {
                        let session = question.session;
                        if let Err(error) = self.ask(question, now) {
                            tracing::debug!(%error, "a question to DNS was not asked");
                            self.give(session, None);
                        }
                    }
                    Err(std::sync::mpsc::TryRecvError::Empty) => break,
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
                }
            }
            self.read_answers();
            while self.waiting.front().is_some_and(|asked| now.since(asked.at) >= PATIENCE) {
                let late = self.waiting.pop_front().expect("it was there");
                if self.heard < late.at {
                    (self.turn, self.heard) = (self.turn.wrapping_add(1), now);
                }
                self.give(late.session, None);
            }
            self.wait(now);
        }
    }

    fn give(&self, session: u32, reply: Option<Reply>) {
        // Nobody listens any more when the server ends.
        let _ = self.answered.send(Answer { session, reply });
        self.woken.wake();
    }

    fn ask(&mut self, question: Question, now: Instant) -> io::Result<()> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let ends = Ends::of(&question.packet).ok_or_else(wrong)?;
        let at = ends.transport.ok_or_else(wrong)? + 8;
        let message = question.packet.get(at..).filter(|one| is_question(one));
        let message = message.ok_or_else(wrong)?;
        self.make_room(&question.client)?;
        if self.known.1.is_none_or(|at| now.since(at) >= SETTINGS) {
            self.known = ((self.resolvers)(), Some(now));
        }
        let all = &self.known.0;
        let resolver = all.get(self.turn % all.len().max(1));
        let resolver = resolver.ok_or_else(|| io::Error::other("this machine has no resolver"))?;
        let any: IpAddr = match resolver {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_nonblocking(true)?;
        socket.connect(resolver)?;
        socket.send(message)?;
        let Question { client, session, .. } = question;
        let question = message.to_vec();
        self.waiting.push_back(Asked { client, session, at: now, socket, ends, question });
        Ok(())
    }

    /// Makes room for a client's question, if it must be at the cost of whoever has most of them.
    fn make_room(&mut self, client: &Arc<str>) -> io::Result<()> {
        let full = || io::Error::other("too many questions wait");
        let own = self.waiting.iter().filter(|asked| asked.client == *client).count();
        if own >= MOST_OF_ONE {
            return Err(full());
        }
        if self.waiting.len() < MOST {
            return Ok(());
        }
        let mut counts = BTreeMap::<&Arc<str>, usize>::new();
        for asked in &self.waiting {
            *counts.entry(&asked.client).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let (most, _) = most.filter(|(_, count)| *count > own).ok_or_else(full)?;
        let first = self.waiting.iter().position(|asked| asked.client == *most);
        if let Some(given_up) = first.and_then(|first| self.waiting.remove(first)) {
            self.give(given_up.session, None);
        }
        Ok(())
    }

    fn read_answers(&mut self) {
        let (mut buffer, mut at) = (vec![0; LONGEST], 0);
        while let Some(asked) = self.waiting.get(at) {
            let reply = match asked.socket.recv(&mut buffer) {
                Ok(length) if answers(&asked.question, &buffer[..length]) => {
                    self.heard = clock::now();
                    answer(asked, &buffer[..length])
                }
                // What answers something else leaves the question open (RFC 5452 §9.1).
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    at += 1;
                    continue;
                }
                // Nobody is there: the client asks again, and another one is asked.
                Err(_) => {
                    self.turn = self.turn.wrapping_add(1);
                    None
                }
            };
            let asked = self.waiting.remove(at).expect("it was there");
            self.give(asked.session, reply);
        }
    }

    fn wait(&self, now: Instant) {
        let mut sources = vec![PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN)];
        let sockets = self.waiting.iter().map(|asked| asked.socket.as_fd());
        sources.extend(sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        let due = self.waiting.front().map(|asked| asked.at + PATIENCE);
        let timeout = due.map(|due| clock::timespec(due.since(now) + Duration::from_millis(1)));
        if let Err(error) = poll(&mut sources, timeout.as_ref())
            && error != rustix::io::Errno::INTR
        {
            tracing::debug!(%error, "waiting failed");
        }
    }
}

/// Whether a message is one question, and no notice or update (RFC 1035 §4.1.1): a resolver may do for
/// this machine what it does for nobody else.
fn is_question(message: &[u8]) -> bool {
    message.len() >= HEADER && message[2] & 0xf8 == 0 && message[4..6] == [0, 1]
}

/// Whether a message answers the question: it has its number, and the same question if any.
fn answers(question: &[u8], message: &[u8]) -> bool {
    if message.len() < HEADER || message[..2] != question[..2] || message[2] & RESPONSE == 0 {
        return false;
    }
    let same = |(a, b): (&[u8], &[u8])| a.eq_ignore_ascii_case(b);
    message[4..6] == [0, 0] || question_of(message).zip(question_of(question)).is_some_and(same)
}

/// The packets with an answer.
fn answer(asked: &Asked, message: &[u8]) -> Option<Reply> {
    let Ends { from, to, .. } = asked.ends;
    let headers = if from.is_ipv4() { 28 } else { 48 };
    let whole = (message.len() + headers <= MTU).then(|| udp_packet(to, from, message)).flatten();
    let cut = || udp_packet(to, from, &cut(message, &asked.question)?);
    let cut = (message.len() > SHORT).then(cut).flatten();
    (whole.is_some() || cut.is_some()).then_some(Reply { whole, cut })
}

/// What is left of an answer that does not fit: its header, which says so, and the question.
fn cut(message: &[u8], question: &[u8]) -> Option<Vec<u8>> {
    let mut short = message[..HEADER].to_vec();
    short[2] |= TRUNCATED;
    // One question, and nothing else.
    short[4..HEADER].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    short.extend_from_slice(question_of(question)?);
    Some(short)
}

/// The packet by which whoever sent a packet with a question asks again over TCP (RFC 7766 §5), which needs no
/// lane; `None` if it has none.
pub(super) fn by_tcp(packet: &[u8]) -> Option<Vec<u8>> {
    let ends = Ends::of(packet)?;
    let at = ends.transport.filter(|_| ends.is_udp_to(PORT))? + 8;
    let question = packet.get(at..).filter(|one| is_question(one))?;
    let mut answer = cut(question, question)?;
    answer[2] |= RESPONSE;
    // Without recursion glibc takes an empty answer for that of a wrong server, cut or not.
    answer[3] = RECURSION | (question[3] & UNCHECKED);
    udp_packet(ends.to, ends.from, &answer)
}

/// The first question of a message: a name, its type and class.
fn question_of(message: &[u8]) -> Option<&[u8]> {
    let mut at = HEADER;
    loop {
        match *message.get(at)? {
            0 => return message.get(HEADER..at + 5),
            length if length < 64 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

/// The resolvers in the text of resolv.conf(5), the first three, as its readers take. `index` gives the number
/// of the link of that name.
fn resolvers_in(text: &str, index: impl Fn(&str) -> Option<u32>) -> Vec<SocketAddr> {
    let resolver = |text: &str| {
        // An address that is of one link alone is followed by that (RFC 4007 §11).
        let Some((address, link)) = text.split_once('%') else {
            return Some(SocketAddr::new(text.parse().ok()?, PORT));
        };
        let link = link.parse().ok().or_else(|| index(link))?;
        Some(SocketAddrV6::new(address.parse().ok()?, PORT, 0, link).into())
    };
    let named = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    named.filter_map(|rest| resolver(rest.split_whitespace().next()?)).take(3).collect()
}

/// The resolvers of this system.
pub fn system_resolvers() -> Vec<SocketAddr> {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    resolvers_in(&text, index_of)
}

/// The number of a link.
fn index_of(name: &str) -> Option<u32> {
    // A name that leads elsewhere is none.
    let name = Some(name).filter(|name| !name.contains('/'))?;
    std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const QUERY: &[u8] =
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03far\x07example\x00\x00\x01\x00\x01";

    fn packet() -> Vec<u8> {
        udp_packet("10.87.0.2:4000".parse().unwrap(), "192.0.2.7:53".parse().unwrap(), QUERY)
            .unwrap()
    }

    fn relay() -> (Relay, UdpSocket) {
        let resolver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = resolver.local_addr().unwrap();
        let relay = Relay::start(Wake::new().unwrap(), move || vec![address]).unwrap();
        (relay, resolver)
    }

    /// Only what hangs takes so long.
    const HANGS: Duration = Duration::from_secs(400);

    /// The answer of a resolver that gives so many bytes. A resolver that stands still is too late, as on any
    /// machine: it is asked again.
    fn answer_with(length: usize) -> Answer {
        let (relay, resolver) = relay();
        resolver.set_read_timeout(Some(HANGS)).unwrap();
        let begun = std::time::Instant::now();
        loop {
            let asked_at = std::time::Instant::now();
            assert!(relay.ask(&"client".into(), 7, &packet()));
            let mut buffer = [0; 512];
            let (asked, from) = loop {
                match resolver.recv_from(&mut buffer) {
                    // A thread that was stopped while it waited with a timeout.
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    got => break got.unwrap(),
                }
            };
            assert_eq!(&buffer[..asked], QUERY);
            let mut message = buffer[..asked].to_vec();
            message[2] |= RESPONSE;
            // Somebody who guesses, and one who asks.
            resolver.send_to(&[&[!message[0]], &message[1..]].concat(), from).unwrap();
            resolver.send_to(&buffer[..asked], from).unwrap();
            message.resize(length, 9);
            resolver.send_to(&message, from).unwrap();
            let answer = relay.answers.recv_timeout(HANGS).unwrap();
            if answer.reply.is_some() {
                return answer;
            }
            assert!(asked_at.elapsed() >= PATIENCE, "what was in time is not handed on");
            assert!(begun.elapsed() < HANGS, "no answer is in time");
        }
    }

    #[test]
    fn a_question_that_no_lane_carries_is_asked_again_by_tcp() {
        let told = by_tcp(&packet()).unwrap();
        let ends = Ends::of(&told).unwrap();
        let (asked, of) = (Ends::of(&packet()).unwrap(), &told[28..]);
        assert_eq!((ends.from, ends.to), (asked.to, asked.from));
        assert!(answers(QUERY, of));
        assert_eq!((of[2] & TRUNCATED, of[3], of.len()), (TRUNCATED, RECURSION, QUERY.len()));
        // An answer is none, nor is what goes to another port.
        assert_eq!(by_tcp(&told), None);
        let elsewhere = udp_packet(asked.from, "192.0.2.7:54".parse().unwrap(), QUERY);
        assert_eq!(by_tcp(&elsewhere.unwrap()), None);
        let answer = udp_packet(asked.from, asked.to, of);
        assert_eq!(by_tcp(&answer.unwrap()), None);
    }

    proptest! {
        /// Whatever a program calls a question, what it is told has no more than its question in it.
        #[test]
        fn any_question_is_looked_at(message in prop::collection::vec(any::<u8>(), 0..80)) {
            let from = "10.87.0.2:4000".parse().unwrap();
            let packet = udp_packet(from, "192.0.2.7:53".parse().unwrap(), &message).unwrap();
            if let Some(told) = by_tcp(&packet) {
                prop_assert!(is_question(&message) && told.len() <= packet.len());
            }
        }
    }

    #[test]
    fn an_answer_comes_from_whom_was_asked() {
        let Answer { session, reply } = answer_with(100);
        let packet = reply.unwrap().within(MTU).unwrap();
        let ends = Ends::of(&packet).unwrap();
        assert_eq!(session, 7);
        assert_eq!(
            (ends.from.to_string(), ends.to.to_string()),
            ("192.0.2.7:53".to_owned(), "10.87.0.2:4000".to_owned())
        );
        assert_eq!(packet.len(), 128);
    }

    #[test]
    fn an_answer_that_does_not_fit_says_so() {
        let packet = answer_with(3000).reply.unwrap().within(MTU).unwrap();
        let message = &packet[28..];
        assert_eq!(message.len(), QUERY.len());
        assert_eq!((message[2] & TRUNCATED, &message[HEADER..]), (TRUNCATED, &QUERY[HEADER..]));
    }

    #[test]
    fn an_answer_that_the_lanes_do_not_carry_says_so() {
        for (length, most, is_cut) in [(1300, 1328, false), (1300, 1327, true), (512, 540, false)] {
            let packet = answer_with(length).reply.unwrap().within(most).unwrap();
            assert_eq!(
                (packet[28 + 2] & TRUNCATED != 0, packet.len() == length + 28),
                (is_cut, !is_cut)
            );
        }
    }

    #[test]
    fn questions_that_are_none_and_those_too_many_are_given_back() {
        let (relay, _resolver) = relay();
        let from = "10.87.0.2:4000".parse().unwrap();
        let short = udp_packet(from, "192.0.2.7:53".parse().unwrap(), b"short").unwrap();
        assert!(relay.ask(&"client".into(), 1, &short));
        let answer = relay.answers.recv_timeout(HANGS).unwrap();
        assert!(answer.session == 1 && answer.reply.is_none());
        let (mut asked, begun) = (0, std::time::Instant::now());
        while asked < MOST_OF_ONE + 1 {
            assert!(begun.elapsed() < HANGS, "{asked}");
            asked += usize::from(relay.ask(&"client".into(), 2, &packet()));
        }
        let answer = relay.answers.recv_timeout(HANGS).unwrap();
        assert!(answer.session == 2 && answer.reply.is_none());
    }

    #[test]
    fn whoever_asks_much_makes_room_for_the_others() {
        let (relay, _resolver) = relay();
        let ask = |client: u32| {
            let begun = std::time::Instant::now();
            while !relay.ask(&format!("{client}").into(), client, &packet()) {
                assert!(begun.elapsed() < HANGS, "there is no room");
                std::thread::yield_now();
            }
        };
        let clients = (MOST / MOST_OF_ONE) as u32;
        (0..clients).for_each(|client| (0..MOST_OF_ONE).for_each(|_| ask(client)));
        for _ in 0..3 {
            ask(clients);
            let answer = relay.answers.recv_timeout(HANGS).unwrap();
            assert!(answer.session < clients && answer.reply.is_none());
        }
    }

    #[test]
    fn resolvers_are_read() {
        let text = "# mine\nsearch example\nnameserver 127.0.0.53\n nameserver 2001:db8::53 # far\nnameserver x\n";
        let found = |text| {
            let found = resolvers_in(text, |name| (name == "eth0").then_some(7));
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found(text), ["127.0.0.53:53", "[2001:db8::53]:53"]);
        // As routers announce themselves.
        let text = "nameserver fe80::1%eth0\nnameserver fe80::2%3\nnameserver fe80::3%gone\n";
        assert_eq!(found(text), ["[fe80::1%7]:53", "[fe80::2%3]:53"]);
        assert!(index_of("lo").is_some() && index_of("../lo").is_none());
    }
}
