//! Schedulers that break their contract, and those that have a session wait.

use super::*;

/// A scheduler that gives the first kilobyte, and then what cannot be sent.
#[derive(Debug)]
struct Broken(Assignment);

impl Scheduler for Broken {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        let begun = !view.unassigned.contains(&(0..1000));
        Some(if begun { self.0.clone() } else { Assignment { subflow: 0, range: 0..1000 } })
    }
}

/// A scheduler with an ordinary bug.
#[derive(Debug)]
struct Panicking;

impl Scheduler for Panicking {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        let subflow = view.subflows.len();
        Some(Assignment {
            subflow,
            range: view.stalled_range(subflow).unwrap_or(0..view.chunk(subflow)),
        })
    }

    fn window(&self) -> Option<u64> {
        panic!("it has none")
    }
}

/// A scheduler that says more than it can.
#[derive(Debug)]
struct Talking;

impl Scheduler for Talking {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        Some(Assignment { subflow: 0, range: view.next_chunk(0)? })
    }

    fn weighs_round_trips(&self) -> bool {
        panic!("it has no opinion")
    }
}

pub(super) const fn broken(
    name: &'static str,
    make: fn(&SchedulerConfig) -> Box<dyn Scheduler>,
) -> Entry {
    Entry::new(name, "", make)
}

fn second(subflow: usize, range: Range<u64>) -> Box<dyn Scheduler> {
    Box::new(Broken(Assignment { subflow, range }))
}

#[test]
fn a_scheduler_that_breaks_its_contract_is_named_and_replaced() {
    static FAULTS: [(Entry, &str); 8] = [
        (broken("empty", |_| second(0, 1000..1000)), "is empty"),
        (broken("far", |_| second(0, 9000..9001)), "outside the window"),
        (broken("long", |_| second(0, 1000..5000)), "longer than"),
        (broken("twice", |_| second(0, 0..1000)), "same subflow"),
        (broken("full", |_| second(1, 1000..2000)), "without room"),
        (broken("nobody", |_| second(7, 1000..2000)), "without room"),
        (broken("panics", |_| Box::new(Panicking)), "panicked"),
        (broken("talks", |_| Box::new(Talking)), "panicked"),
    ];
    for (entry, reason) in &FAULTS {
        let config = SessionConfig { scheduler: entry, ..SessionConfig::default() };
        let mut session = Session::new(&config, Instant::ZERO);
        session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
        session.subflow_up(SubflowId(1), PathId(1), Instant::ZERO).unwrap();
        session.write(&[7; 6000], Instant::ZERO).unwrap();
        let mut offset = 0;
        while offset < 6000 {
            let mut out = VecDeque::new();
            session.handle_room(PEER, 3000);
            let _ = session.poll_transmit(PEER, &mut out, Instant::ZERO);
            let mut bytes: BytesMut = out.iter().flatten().copied().collect();
            while let Some(record) = Record::decode(&mut bytes).expect("our own records") {
                if let Record::Data(data) = record {
                    assert_eq!(data.offset, offset, "{}", entry.name);
                    offset += data.payload.len() as u64;
                }
            }
        }
        let faults = std::iter::from_fn(|| session.poll_event());
        let faults = faults.filter_map(|event| match event {
            Event::SchedulerReplaced(fault) => Some(fault.to_string()),
            _ => None,
        });
        let faults: Vec<_> = faults.collect();
        assert!(
            matches!(&faults[..], [one] if one.contains(entry.name) && one.contains(reason)),
            "{faults:?}"
        );
    }
}

/// A scheduler that lets a kilobyte go every 20 ms.
#[derive(Debug)]
struct Paced(Instant);

impl Scheduler for Paced {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        let range = view.next_unsent().filter(|_| self.0 <= view.now)?;
        self.0 = view.now + ms(20);
        Some(Assignment { subflow: 0, range: range.start..range.end.min(range.start + 1000) })
    }

    fn window(&self) -> Option<u64> {
        Some(u64::MAX)
    }

    fn next_timeout(&self, _: &SendView<'_>) -> Option<Instant> {
        Some(self.0)
    }
}

#[test]
fn a_scheduler_is_asked_again_when_it_said_though_nothing_is_on_its_way() {
    static PACED: Entry = Entry::new("paced", "", |_| Box::new(Paced(Instant::ZERO)));
    let config = SessionConfig { scheduler: &PACED, ..SessionConfig::default() };
    let mut session = Session::new(&config, Instant::ZERO);
    session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
    session.write(&[1; 3000], Instant::ZERO).unwrap();
    let mut now = Instant::ZERO;
    for sent_before in [0, 1000, 2000] {
        session.handle_room(PEER, 50_000);
        let data = sent(&mut session, now);
        let data: Vec<_> = data.iter().filter(|r| matches!(r, Record::Data(_))).collect();
        assert!(matches!(data[..], [Record::Data(data)] if data.offset == sent_before), "{data:?}");
        // It has all arrived.
        let ack = Ack {
            in_order: sent_before + 1000,
            credit: 1 << 20,
            subflow_acks: vec![SubflowAck { subflow: PEER.0, received: sent_before + 1000 }],
            ..Ack::default()
        };
        let mut input = BytesMut::new();
        Record::Ack(ack).encode(&mut input);
        session.handle_input(PEER, &mut input, now + ms(5)).expect("an acknowledgement");
        let _ = std::iter::from_fn(|| session.poll_wake()).count();
        let more = sent(&mut session, now + ms(5));
        assert!(!more.iter().any(|r| matches!(r, Record::Data(_))), "{more:?}");
        if sent_before < 2000 {
            let due = session.poll_timeout(now + ms(5)).expect("it wants to be asked");
            assert!(due <= now + ms(20), "{due}");
            now += ms(20);
            session.handle_timeout(now);
            assert!(std::iter::from_fn(|| session.poll_wake()).any(|id| id == PEER));
        }
    }
}
