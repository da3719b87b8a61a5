//! The nf_tables table that redirects what is captured (linux/netfilter/nf_tables.h).
//!
//! It has an owner, our socket: nobody else changes it, `nft flush ruleset` leaves it alone, and the
//! kernel removes it when the socket is closed, however the process ends.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use rustix::net::netlink;

use crate::message::{ACK, APPEND, Builder, CREATE, EXCL};
use crate::socket::Netlink;

/// The table's name.
const NAME: &str = "weftline";
/// The chain that drops what comes to the device's addresses by another link.
const GUARD: &str = "prerouting";
/// Messages of nf_tables, and those around a batch.
pub(crate) const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = 0;
pub(crate) const GET_TABLE: u16 = 1;
pub(crate) const GET_CHAIN: u16 = 4;
pub(crate) const GET_RULE: u16 = 7;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const DELETE_RULE: u16 = 8;
const NEW_SET: u16 = 9;
const NEW_ELEMENT: u16 = 12;
const DELETE_ELEMENT: u16 = 14;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
/// Families: none in particular, IPv4 and IPv6 together, each alone.
pub(crate) const UNSPECIFIED: u8 = 0;
pub(crate) const INET: u8 = 1;
pub(crate) const IPV4: u8 = 2;
pub(crate) const IPV6: u8 = 10;
/// The flag of a table that belongs to a socket (Linux 5.12).
const OWNER: u32 = 2;
/// That of one that does nothing.
pub(crate) const DORMANT: u32 = 1;
/// Hooks and the usual priorities there.
pub(crate) const PREROUTING: u32 = 0;
pub(crate) const INPUT: u32 = 1;
pub(crate) const FORWARD: u32 = 2;
pub(crate) const OUTPUT: u32 = 3;
pub(crate) const POSTROUTING: u32 = 4;
const RAW: i32 = -300;
pub(crate) const DNAT: i32 = -100;
const FILTER: i32 = 0;
pub(crate) const SOURCE_NAT: i32 = 100;
/// Keys of the expression `meta`.
const MARK: u32 = 3;
const IN_INDEX: u32 = 4;
const OUT_INDEX: u32 = 5;
const USER: u32 = 10;
pub(crate) const IN_NAME: u32 = 6;
pub(crate) const OUT_NAME: u32 = 7;
const FAMILY: u32 = 15;
const PROTOCOL: u32 = 16;
/// Protocol numbers.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
/// The register that expressions pass their value in, and that of verdicts.
const REGISTER: u32 = 1;
const SECOND_REGISTER: u32 = 2;
const VERDICT: u32 = 0;
/// The first of the registers of four bytes, which a key of several parts fills one after another.
const SHORT_REGISTERS: u32 = 8;
/// What a port takes there.
const PORT_SPACE: usize = 4;
/// Headers that an offset is counted from.
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
/// The flag of a set whose entries go after a while, how long that is, and how many there are at most.
const SET_TIMEOUT: u32 = 0x10;
const REFUSED_MILLISECONDS: u64 = 10_000;
const MOST_REFUSED: u32 = 4096;
/// How tools show parts of a key: the name of an interface, and a user.
const TYPE_NAME: u32 = 41;
const TYPE_USER: u32 = 30;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const RETURN: u32 = -5_i32 as u32;
const JUMP: u32 = -3_i32 as u32;
/// The key of the expression `ct` for a connection's state, and the states of what belongs to one that
/// is there, established and related, and of what begins one. What the kernel makes no sense of, such as
/// an error about a connection that it does not know, has another.
const STATE: u32 = 0;
/// That for the direction, and the number of what answers.
const DIRECTION: u32 = 1;
const REPLY: u8 = 1;
/// That for its mark. Ours is in the first eight bits; others have the rest.
const CONNECTION_MARK: u32 = 3;
const BEGUN_OUTSIDE: u32 = 0x5800_0000;
const OUR_BITS: u32 = 0xff00_0000;
/// Where TCP has its flags, and those of the second packet of a connection: SYN and ACK.
const TCP_FLAGS: u32 = 13;
const SYN_ACK: u8 = 0x12;
const OF_A_CONNECTION: u32 = 2 | 4;
const NEW: u32 = 8;
/// The flag of a translation to given ports (linux/netfilter/nf_nat.h).
const PORTS_GIVEN: u32 = 2;
/// The key of `ct` for what has been done to a connection, and the bit of it for a target that was translated
/// (linux/netfilter/nf_conntrack_common.h).
const STATUS: u32 = 2;
const REDIRECTED: u32 = 1 << 5;
/// What the expression `fib` tells, the name of the way out, and what it goes by: target and mark.
const FIB_OUT_NAME: u32 = 2;
const FIB_TARGET: u32 = 2;
const FIB_MARK: u32 = 4;
/// How values are compared.
const EQUAL: u32 = 0;
const UNEQUAL: u32 = 1;
/// Length of an interface's name.
const NAME_LENGTH: usize = 16;

/// Ports of this machine to which connections are redirected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    /// The usual one.
    pub(crate) to: u16,
    /// One that refuses, for targets that have refused a while ago.
    pub(crate) refused: Option<u16>,
}

/// What is redirected.
#[derive(Clone, Debug)]
pub(crate) struct Redirect<'a> {
    /// TCP that leaves by this device.
    pub(crate) device: &'a str,
    /// Where IPv4 goes.
    pub(crate) v4: Option<Ports>,
    /// Where IPv6 goes.
    pub(crate) v6: Option<Ports>,
    /// The device's addresses: packets to them from any other link are dropped.
    pub(crate) addresses: &'a [IpAddr],
    /// Ports to which connections of machines behind shared links are left alone.
    pub(crate) excepted: &'a [u16],
}

/// The table; it is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) socket: Netlink,
    pub(crate) device: String,
}

impl Table {
    /// Makes it with what `more` adds, in one transaction.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn create(
        redirect: &Redirect<'_>,
        more: impl FnOnce(&mut Builder),
    ) -> io::Result<Self> {
        let socket = Netlink::open(Some(netlink::NETFILTER))?;
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        TABLE.make(&mut batch);
        TABLE.chain(&mut batch, "output", "nat", OUTPUT, DNAT);
        let place = ("output", Some(redirect.device));
        for (family, ports) in [(&V4, redirect.v4), (&V6, redirect.v6)] {
            let Some(ports) = ports else { continue };
            set(&mut batch, family);
            if let Some(refused) = ports.refused {
                redirect_rule(&mut batch, place, family, Some(family.set), refused);
            }
            redirect_rule(&mut batch, place, family, None, ports.to);
        }
        TABLE.chain(&mut batch, GUARD, "filter", PREROUTING, RAW);
        for &address in redirect.addresses {
            drop_rule(&mut batch, redirect.device, address);
        }
        // Of what comes out of the device, this machine takes answers only.
        TABLE.chain(&mut batch, "input", "filter", INPUT, FILTER);
        TABLE.rule(&mut batch, "input", |list| {
            list.name_is(IN_NAME, redirect.device);
            list.is_of_no_connection();
            list.drop();
        });
        more(&mut batch);
        batch_end(&mut batch);
        socket.request(batch)?;
        Ok(Self { socket, device: redirect.device.to_owned() })
    }

    /// Drops packets to these addresses, and to no others any more, that come by another link.
    ///
    /// # Errors
    /// The kernel's refusal; all is as before then.
    pub(crate) fn guard(&self, addresses: &[IpAddr]) -> io::Result<()> {
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        // Without a number it is all rules of the chain.
        message(&mut batch, DELETE_RULE, 0).text(1, NAME).text(2, GUARD);
        for &address in addresses {
            drop_rule(&mut batch, &self.device, address);
        }
        batch_end(&mut batch);
        self.socket.request(batch)
    }

    /// Has new connections to `target` go to the port that refuses them, for a while.
    ///
    /// # Errors
    /// The kernel's refusal, as when there are very many of them.
    pub(crate) fn refuse(&self, target: SocketAddr) -> io::Result<()> {
        let (family, mut key) = family_of(target.ip());
        // Each part fills whole registers.
        key.extend(target.port().to_be_bytes());
        key.resize(family.key_length(), 0);
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        TABLE.element(&mut batch, (NEW_ELEMENT, CREATE), family.set, &key);
        batch_end(&mut batch);
        self.socket.request(batch)
    }
}

/// What tells the families apart.
pub(crate) struct Family {
    /// Its number.
    number: u8,
    /// Where a packet's target address stands, and its length.
    target: (u32, usize),
    /// The set of targets that are refused.
    pub(crate) set: &'static str,
    /// That set's number in the transaction that makes it.
    set_number: u32,
}

pub(crate) static V4: Family =
    Family { number: IPV4, target: (16, 4), set: "refused4", set_number: 1 };
pub(crate) static V6: Family =
    Family { number: IPV6, target: (24, 16), set: "refused6", set_number: 2 };

impl Family {
    /// The length of an address and a port in registers.
    const fn key_length(&self) -> usize {
        self.target.1 + PORT_SPACE
    }
}

/// `set NAME { type ADDRESS . inet_service; timeout 10s; size 4096; }`
fn set(batch: &mut Builder, family: &Family) {
    // How tools show it: an address and a port.
    let kind: u32 = if family.number == IPV4 { 7 } else { 8 };
    let length = u32::try_from(family.key_length()).expect("8 or 20");
    let message = message(batch, NEW_SET, CREATE | EXCL).text(1, NAME).text(2, family.set);
    message.attribute(3, &be(SET_TIMEOUT)).attribute(4, &be(kind << 6 | 13));
    message.attribute(5, &be(length));
    message.nest(9, |size| {
        size.attribute(1, &be(MOST_REFUSED));
    });
    message.attribute(10, &be(family.set_number));
    message.attribute(11, &REFUSED_MILLISECONDS.to_be_bytes());
}

/// Numbers in attributes have the network's order of bytes.
fn be(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Family, version and resource.
pub(crate) fn header(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

fn message(batch: &mut Builder, kind: u16, flags: u16) -> &mut Builder {
    batch.message(SUBSYSTEM << 8 | kind, ACK | flags, &header(INET, 0))
}

pub(crate) fn batch_begin(batch: &mut Builder) {
    batch.message(BATCH_BEGIN, 0, &header(UNSPECIFIED, SUBSYSTEM));
}

pub(crate) fn batch_end(batch: &mut Builder) {
    batch.message(BATCH_END, 0, &header(UNSPECIFIED, SUBSYSTEM));
}

/// Writes what a table of our own has in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    name: &'static str,
}

pub(crate) const TABLE: Writer = Writer::new(NAME);

impl Writer {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name }
    }

    /// The table, which belongs to the socket.
    pub(crate) fn make(self, batch: &mut Builder) {
        message(batch, NEW_TABLE, CREATE | EXCL).text(1, self.name).attribute(2, &be(OWNER));
    }

    /// A table that stays when the socket is closed; one that is there is no fault.
    pub(crate) fn make_lasting(self, batch: &mut Builder) {
        message(batch, NEW_TABLE, CREATE).text(1, self.name);
    }

    /// Deletes the table with all that is in it.
    pub(crate) fn delete(self, batch: &mut Builder) {
        message(batch, DELETE_TABLE, 0).text(1, self.name);
    }

    /// A chain that others lead to.
    pub(crate) fn inner_chain(self, batch: &mut Builder, name: &str) {
        message(batch, NEW_CHAIN, CREATE | EXCL).text(1, self.name).text(3, name);
    }

    /// Removes all rules of a chain.
    pub(crate) fn empty(self, batch: &mut Builder, chain: &str) {
        message(batch, DELETE_RULE, 0).text(1, self.name).text(2, chain);
    }

    /// `set NAME { type ifname [. uid]; flags timeout; timeout N ms; }`
    pub(crate) fn set_of_links(self, batch: &mut Builder, set: &str, users: bool, timeout: u64) {
        let kind = if users { TYPE_NAME << 6 | TYPE_USER } else { TYPE_NAME };
        let length = link_key("", users.then_some(0)).len();
        let message = message(batch, NEW_SET, CREATE | EXCL).text(1, self.name).text(2, set);
        message.attribute(3, &be(SET_TIMEOUT)).attribute(4, &be(kind));
        message.attribute(5, &be(u32::try_from(length).expect("16 or 20")));
        message.nest(9, |size| {
            size.attribute(1, &be(MOST_REFUSED));
        });
        message.attribute(10, &be(if users { 1 } else { 2 }));
        message.attribute(11, &timeout.to_be_bytes());
    }

    /// Adds a link to such a set.
    pub(crate) fn add_link(self, batch: &mut Builder, set: &str, link: &str, user: Option<u32>) {
        self.element(batch, (NEW_ELEMENT, CREATE), set, &link_key(link, user));
    }

    /// Takes it from there.
    pub(crate) fn remove_link(self, batch: &mut Builder, set: &str, link: &str, user: Option<u32>) {
        self.element(batch, (DELETE_ELEMENT, 0), set, &link_key(link, user));
    }

    /// Takes all elements of a set away.
    pub(crate) fn empty_set(self, batch: &mut Builder, set: &str) {
        message(batch, DELETE_ELEMENT, 0).text(1, self.name).text(2, set);
    }

    fn element(self, batch: &mut Builder, (kind, flags): (u16, u16), set: &str, key: &[u8]) {
        let message = message(batch, kind, flags).text(1, self.name).text(2, set);
        message.nest(3, |list| {
            list.nest(1, |element| {
                element.nest(1, |data| {
                    data.attribute(1, key);
                });
            });
        });
    }

    pub(crate) fn chain(
        self,
        batch: &mut Builder,
        name: &str,
        kind: &str,
        hook: u32,
        priority: i32,
    ) {
        let message = message(batch, NEW_CHAIN, CREATE | EXCL).text(1, self.name).text(3, name);
        message.nest(4, |inner| {
            inner.attribute(1, &be(hook)).attribute(2, &priority.to_be_bytes());
        });
        message.text(7, kind);
    }

    pub(crate) fn rule(
        self,
        batch: &mut Builder,
        chain: &str,
        fill: impl FnOnce(&mut Expressions<'_>),
    ) {
        let message = message(batch, NEW_RULE, CREATE | APPEND).text(1, self.name).text(2, chain);
        message.nest(4, |list| fill(&mut Expressions(list)));
    }
}

/// The expressions of a rule, one after another: each must hold for the next to be asked.
pub(crate) struct Expressions<'a>(&'a mut Builder);

impl Expressions<'_> {
    /// It came in, or goes out, by this device.
    pub(crate) fn name_is(&mut self, key: u32, device: &str) {
        meta(self.0, key, EQUAL, &padded(device));
    }

    /// It came in, or goes out, by another device than this one.
    pub(crate) fn name_is_not(&mut self, key: u32, device: &str) {
        meta(self.0, key, UNEQUAL, &padded(device));
    }

    /// It came in by the device of this number.
    pub(crate) fn came_by(&mut self, index: u32) {
        meta(self.0, IN_INDEX, EQUAL, &index.to_ne_bytes());
    }

    /// It goes out by the device of this number.
    pub(crate) fn index_is(&mut self, index: u32) {
        // It is in this machine's order of bytes.
        meta(self.0, OUT_INDEX, EQUAL, &index.to_ne_bytes());
    }

    /// Its socket has this mark.
    pub(crate) fn mark_is(&mut self, mark: u32) {
        // It is in this machine's order of bytes.
        meta(self.0, MARK, EQUAL, &mark.to_ne_bytes());
    }

    pub(crate) fn source_port_is(&mut self, port: u16) {
        self.transport_is(0, &port.to_be_bytes());
    }

    pub(crate) fn target_port_is(&mut self, port: u16) {
        self.transport_is(2, &port.to_be_bytes());
    }

    pub(crate) fn icmp_type_is(&mut self, kind: u8) {
        self.transport_is(0, &[kind]);
    }

    fn transport_is(&mut self, offset: u32, value: &[u8]) {
        payload(self.0, REGISTER, TRANSPORT_HEADER, (offset, value.len()));
        compare(self.0, EQUAL, value);
    }

    /// The device by which it goes out is in this set, together with its user if `users`.
    pub(crate) fn link_is_in(&mut self, set: &str, users: bool) {
        let names = u32::try_from(NAME_LENGTH / 4).expect("4");
        load_meta(self.0, OUT_NAME, SHORT_REGISTERS);
        if users {
            load_meta(self.0, USER, SHORT_REGISTERS + names);
        }
        expression(self.0, "lookup", |data| {
            data.text(1, set).attribute(2, &be(SHORT_REGISTERS));
        });
    }

    pub(crate) fn protocol_is(&mut self, number: u8) {
        meta(self.0, PROTOCOL, EQUAL, &[number]);
    }

    pub(crate) fn is_ipv6(&mut self, whether: bool) {
        meta(self.0, FAMILY, EQUAL, &[if whether { IPV6 } else { IPV4 }]);
    }

    /// It belongs to a connection that is there, or tells of one.
    pub(crate) fn is_of_a_connection(&mut self) {
        self.state(OF_A_CONNECTION, UNEQUAL);
    }

    /// It goes to whom has begun its connection.
    pub(crate) fn is_reply(&mut self) {
        expression(self.0, "ct", |data| {
            data.attribute(1, &be(REGISTER)).attribute(2, &be(DIRECTION));
        });
        compare(self.0, EQUAL, &[REPLY]);
    }

    /// It is the second packet of a connection of TCP, by which a program takes it.
    pub(crate) fn takes_a_connection(&mut self) {
        payload(self.0, REGISTER, TRANSPORT_HEADER, (TCP_FLAGS, 1));
        self.mask(&[SYN_ACK]);
        compare(self.0, EQUAL, &[SYN_ACK]);
    }

    /// Notes that its connection was begun by another machine.
    pub(crate) fn note_begun_outside(&mut self) {
        self.load_connection_mark();
        self.change(&(!OUR_BITS).to_ne_bytes(), &BEGUN_OUTSIDE.to_ne_bytes());
        expression(self.0, "ct", |data| {
            data.attribute(2, &be(CONNECTION_MARK)).attribute(4, &be(REGISTER));
        });
    }

    /// That is noted of its connection.
    pub(crate) fn is_begun_outside(&mut self) {
        self.load_connection_mark();
        self.mask(&OUR_BITS.to_ne_bytes());
        compare(self.0, EQUAL, &BEGUN_OUTSIDE.to_ne_bytes());
    }

    fn load_connection_mark(&mut self) {
        expression(self.0, "ct", |data| {
            data.attribute(1, &be(REGISTER)).attribute(2, &be(CONNECTION_MARK));
        });
    }

    /// It neither belongs to a connection that is there nor tells of one.
    pub(crate) fn is_of_no_connection(&mut self) {
        self.state(OF_A_CONNECTION, EQUAL);
    }

    /// It begins a connection.
    pub(crate) fn is_new(&mut self) {
        self.state(NEW, UNEQUAL);
    }

    /// It neither belongs to a connection nor begins one, and no address of it is translated.
    pub(crate) fn is_not_followed(&mut self) {
        self.state(OF_A_CONNECTION | NEW, EQUAL);
    }

    /// What of its state is in `states` is nothing, or is something.
    fn state(&mut self, states: u32, how_to_nothing: u32) {
        expression(self.0, "ct", |data| {
            data.attribute(1, &be(REGISTER)).attribute(2, &be(STATE));
        });
        // The state is in this machine's order of bytes.
        self.mask(&states.to_ne_bytes());
        compare(self.0, how_to_nothing, &[0; 4]);
    }

    /// It goes to a network.
    pub(crate) fn target_is_in(&mut self, address: IpAddr, length: u8) {
        let (family, bytes) = family_of(address);
        let mask: Vec<u8> = (0..bytes.len())
            .map(|place| {
                let bits = u32::from(length).saturating_sub(8 * place as u32).min(8);
                !u8::MAX.checked_shr(bits).unwrap_or(0)
            })
            .collect();
        let network: Vec<u8> = bytes.iter().zip(&mask).map(|(byte, mask)| byte & mask).collect();
        meta(self.0, FAMILY, EQUAL, &[family.number]);
        payload(self.0, REGISTER, NETWORK_HEADER, family.target);
        self.mask(&mask);
        compare(self.0, EQUAL, &network);
    }

    /// Leaves of the register what is in `mask`.
    fn mask(&mut self, mask: &[u8]) {
        self.change(mask, &vec![0; mask.len()]);
    }

    /// The same, and turns over what is in `turned`.
    fn change(&mut self, mask: &[u8], turned: &[u8]) {
        expression(self.0, "bitwise", |data| {
            let length = u32::try_from(mask.len()).expect("an address or less");
            data.attribute(1, &be(REGISTER)).attribute(2, &be(REGISTER)).attribute(3, &be(length));
            for (kind, value) in [(4, mask), (5, turned)] {
                data.nest(kind, |inner| {
                    inner.attribute(1, value);
                });
            }
        });
    }

    /// Counts it, for `nft list ruleset`.
    pub(crate) fn count(&mut self) {
        expression(self.0, "counter", |_| {});
    }

    /// Goes on with another chain.
    pub(crate) fn jump(&mut self, chain: &str) {
        verdict_of(self.0, |verdict| {
            verdict.attribute(1, &be(JUMP)).text(2, chain);
        });
    }

    pub(crate) fn drop(&mut self) {
        verdict(self.0, DROP);
    }

    /// Goes on behind the rule that led to this chain.
    pub(crate) fn go_back(&mut self) {
        verdict(self.0, RETURN);
    }

    pub(crate) fn accept(&mut self) {
        verdict(self.0, ACCEPT);
    }

    /// Sets those bits of the packet's mark that are in `bits`, and leaves the others as they are.
    pub(crate) fn set_mark_bits(&mut self, bits: u32, mark: u32) {
        load_meta(self.0, MARK, REGISTER);
        self.change(&(!bits).to_ne_bytes(), &mark.to_ne_bytes());
        expression(self.0, "meta", |data| {
            data.attribute(2, &be(MARK)).attribute(3, &be(REGISTER));
        });
    }

    /// A packet of this machine with this target and mark would go out by this device.
    pub(crate) fn way_is(&mut self, device: &str) {
        expression(self.0, "fib", |data| {
            data.attribute(1, &be(REGISTER)).attribute(2, &be(FIB_OUT_NAME));
            data.attribute(3, &be(FIB_TARGET | FIB_MARK));
        });
        compare(self.0, EQUAL, &padded(device));
    }

    /// Its target is what it was when it came.
    pub(crate) fn is_not_redirected(&mut self) {
        expression(self.0, "ct", |data| {
            data.attribute(1, &be(REGISTER)).attribute(2, &be(STATUS));
        });
        self.mask(&REDIRECTED.to_ne_bytes());
        compare(self.0, EQUAL, &[0; 4]);
    }

    /// It leaves with the address of the interface by which it does.
    pub(crate) fn masquerade(&mut self) {
        expression(self.0, "masq", |_| {});
    }

    /// The same, and from one of these ports, if it has one.
    pub(crate) fn masquerade_to(&mut self, ports: RangeInclusive<u16>) {
        load(self.0, REGISTER, &ports.start().to_be_bytes());
        load(self.0, SECOND_REGISTER, &ports.end().to_be_bytes());
        expression(self.0, "masq", |data| {
            data.attribute(1, &be(PORTS_GIVEN));
            data.attribute(2, &be(REGISTER)).attribute(3, &be(SECOND_REGISTER));
        });
    }
}

/// Puts a value into a register.
fn load(list: &mut Builder, register: u32, bytes: &[u8]) {
    expression(list, "immediate", |data| {
        data.attribute(1, &be(register));
        data.nest(2, |value| {
            value.attribute(1, bytes);
        });
    });
}

fn verdict(list: &mut Builder, code: u32) {
    verdict_of(list, |verdict| {
        verdict.attribute(1, &be(code));
    });
}

fn verdict_of(list: &mut Builder, fill: impl FnOnce(&mut Builder)) {
    expression(list, "immediate", |data| {
        data.attribute(1, &be(VERDICT));
        data.nest(2, |value| {
            value.nest(2, fill);
        });
    });
}

/// A device's name, and a user, as a key has them.
fn link_key(link: &str, user: Option<u32>) -> Vec<u8> {
    let mut key = padded(link);
    key.extend(user.into_iter().flat_map(u32::to_ne_bytes));
    key
}

fn family_of(address: IpAddr) -> (&'static Family, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (&V4, address.octets().to_vec()),
        IpAddr::V6(address) => (&V6, address.octets().to_vec()),
    }
}

/// `meta nfproto F [meta oifname D] meta l4proto tcp [ip daddr . tcp dport @SET] redirect to :PORT`, in a chain
pub(crate) fn redirect_rule(
    batch: &mut Builder,
    (chain, device): (&str, Option<&str>),
    family: &Family,
    set: Option<&str>,
    port: u16,
) {
    TABLE.rule(batch, chain, |Expressions(list)| {
        meta(list, FAMILY, EQUAL, &[family.number]);
        if let Some(device) = device {
            meta(list, OUT_NAME, EQUAL, &padded(device));
        }
        meta(list, PROTOCOL, EQUAL, &[TCP]);
        if let Some(set) = set {
            let (offset, length) = family.target;
            let after = SHORT_REGISTERS + u32::try_from(length / 4).expect("1 or 4");
            payload(list, SHORT_REGISTERS, NETWORK_HEADER, (offset, length));
            payload(list, after, TRANSPORT_HEADER, (2, 2));
            expression(list, "lookup", |data| {
                data.text(1, set).attribute(2, &be(SHORT_REGISTERS));
            });
        }
        load(list, REGISTER, &port.to_be_bytes());
        expression(list, "redir", |data| {
            data.attribute(1, &be(REGISTER));
        });
    });
}

/// `meta nfproto F meta iifname != lo meta iifname != D ip daddr A drop`: whoever shares a link with this machine could
/// find out by such packets what connections it has (CVE-2019-14899).
fn drop_rule(batch: &mut Builder, device: &str, address: IpAddr) {
    let (family, bytes) = family_of(address);
    let (offset, _) = family.target;
    TABLE.rule(batch, GUARD, |Expressions(list)| {
        meta(list, FAMILY, EQUAL, &[family.number]);
        for own in ["lo", device] {
            meta(list, IN_NAME, UNEQUAL, &padded(own));
        }
        payload(list, REGISTER, NETWORK_HEADER, (offset, bytes.len()));
        compare(list, EQUAL, &bytes);
        verdict(list, DROP);
    });
}

/// Loads a part of the packet, counted from the beginning of a header, into a register.
fn payload(list: &mut Builder, register: u32, header: u32, (offset, length): (u32, usize)) {
    expression(list, "payload", |data| {
        let length = u32::try_from(length).expect("an address or a port");
        data.attribute(1, &be(register)).attribute(2, &be(header));
        data.attribute(3, &be(offset)).attribute(4, &be(length));
    });
}

fn padded(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(NAME_LENGTH, 0);
    bytes
}

fn meta(list: &mut Builder, key: u32, how: u32, value: &[u8]) {
    load_meta(list, key, REGISTER);
    compare(list, how, value);
}

fn load_meta(list: &mut Builder, key: u32, register: u32) {
    expression(list, "meta", |data| {
        data.attribute(1, &be(register)).attribute(2, &be(key));
    });
}

fn compare(list: &mut Builder, how: u32, value: &[u8]) {
    expression(list, "cmp", |data| {
        data.attribute(1, &be(REGISTER)).attribute(2, &be(how));
        data.nest(3, |inner| {
            inner.attribute(1, value);
        });
    });
}

fn expression(list: &mut Builder, name: &str, fill: impl FnOnce(&mut Builder)) {
    list.nest(1, |one| {
        one.text(1, name).nest(2, fill);
    });
}

/// Whether a kernel that has refused a table has none, or none that a process can own: it lacks a module, or is older
/// than Linux 5.12, which does not know the flag (`EINVAL`).
pub(crate) fn cannot_own(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let lacks = [Errno::PROTONOSUPPORT, Errno::AFNOSUPPORT, Errno::NOENT, Errno::OPNOTSUPP];
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    code.is_some_and(|code| code == Errno::INVAL || lacks.contains(&code))
}
