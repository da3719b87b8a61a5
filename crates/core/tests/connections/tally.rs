//! What became of many seeds, as it is printed, noted in a file, and read again.

use std::fmt;
use std::fs;

use super::world::Outcome;

const OUTCOMES: [(Outcome, &str); 6] = [
    (Outcome::Closed, "closed at both ends"),
    (Outcome::Half, "closed at one end"),
    (Outcome::Failed, "failed at both ends"),
    (Outcome::Unopened, "never opened"),
    (Outcome::Garbled, "garbled, ended"),
    (Outcome::Endless, "garbled, without end"),
];

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Tally {
    /// Seeds below this are done.
    pub seeds: u64,
    counts: [u64; OUTCOMES.len()],
    /// Seeds that went wrong, and how.
    pub wrong: Vec<(u64, String)>,
}

impl Tally {
    pub fn add(&mut self, seed: u64, outcome: Result<Outcome, String>) {
        match outcome {
            Ok(outcome) => self.counts[place(outcome)] += 1,
            Err(wrong) => self.wrong.push((seed, wrong.replace('\n', " "))),
        }
    }

    pub fn count(&self, outcome: Outcome) -> u64 {
        self.counts[place(outcome)]
    }

    /// What a file notes; nothing if there is none.
    ///
    /// # Panics
    /// When it is not a note of ours.
    pub fn read(file: &str) -> Self {
        let Ok(text) = fs::read_to_string(file) else { return Self::default() };
        let mut tally = Self::default();
        for line in text.lines() {
            let (number, what) = line.split_once(' ').expect("a number and what it is of");
            if let Some(wrong) = what.strip_prefix("went wrong: ") {
                let seed = number.trim_start_matches('#').parse().expect("a seed");
                tally.wrong.push((seed, wrong.to_owned()));
                continue;
            }
            let number = number.parse().expect("a number");
            match OUTCOMES.iter().position(|(_, name)| *name == what) {
                Some(place) => tally.counts[place] = number,
                None => tally.seeds = number,
            }
        }
        tally
    }

    pub fn write(&self, file: &str) {
        // In one step: a run that is broken off leaves the last note or this one.
        let new = format!("{file}.new");
        fs::write(&new, self.to_string()).expect("the note can be written");
        fs::rename(&new, file).expect("the note can be written");
    }
}

fn place(outcome: Outcome) -> usize {
    OUTCOMES.iter().position(|(one, _)| *one == outcome).expect("all are listed")
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} seeds", self.seeds)?;
        for ((_, name), count) in OUTCOMES.iter().zip(self.counts) {
            writeln!(f, "{count} {name}")?;
        }
        self.wrong.iter().try_for_each(|(seed, wrong)| writeln!(f, "#{seed} went wrong: {wrong}"))
    }
}

#[test]
fn a_note_is_read_as_it_was_written() {
    let directory = std::env::temp_dir().join(format!("weftline-tally-{}", std::process::id()));
    let file = directory.to_str().expect("a name");
    let mut tally = Tally { seeds: 30, ..Tally::default() };
    tally.add(1, Ok(Outcome::Closed));
    tally.add(2, Ok(Outcome::Half));
    tally.add(3, Err("stuck: two\nlines".to_owned()));
    tally.write(file);
    let read = Tally::read(file);
    fs::remove_file(file).expect("just written");
    assert_eq!(read.to_string(), tally.to_string());
    assert_eq!((read.seeds, read.count(Outcome::Half), read.wrong.len()), (30, 1, 1));
}
