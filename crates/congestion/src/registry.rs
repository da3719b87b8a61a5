//! Every congestion control, by name: those of this crate, and those that a program has registered.

use weftline_core::registry::Registered;

use crate::{
    Config, CongestionControl, balia, bbr, bbr3, compound, coupled, cubic, lia, olia, reno,
};

/// A control's entry in the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Whether it looks at the connection's other subflows.
    pub coupled: bool,
    make: fn(&Config) -> Box<dyn CongestionControl>,
}

impl Entry {
    /// A control called `name` that does what `about` says and does not look at the connection's other
    /// subflows.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        make: fn(&Config) -> Box<dyn CongestionControl>,
    ) -> Self {
        Self { name, about, coupled: false, make }
    }

    /// The entry called `name`.
    pub fn find(name: &str) -> Option<&'static Self> {
        all().find(|entry| entry.name == name)
    }

    /// A control of this kind.
    pub fn make(&self, config: &Config) -> Box<dyn CongestionControl> {
        (self.make)(config)
    }
}

/// Every congestion control of this crate.
pub const REGISTRY: &[Entry] = &[
    Entry {
        name: "reno",
        about: "NewReno: one segment per round trip, half on loss (RFC 5681)",
        coupled: false,
        make: reno::Reno::make,
    },
    Entry {
        name: "cubic",
        about: "CUBIC: a cubic curve around the last loss, 0.7 on loss (RFC 9438, Linux)",
        coupled: false,
        make: cubic::Cubic::make,
    },
    Entry {
        name: "bbr",
        about: "BBR v1: paces by the measured rate and least round-trip time (Linux)",
        coupled: false,
        make: bbr::Bbr::make,
    },
    Entry {
        name: "compound",
        about: "Compound TCP: Reno and a delay-based window beside it (draft-sridharan-tcpm-ctcp)",
        coupled: false,
        make: compound::Compound::make,
    },
    Entry {
        name: "lia",
        about: "LIA: increases linked across the subflows (RFC 6356)",
        coupled: true,
        make: coupled::Coupled::<lia::Lia>::make,
    },
    Entry {
        name: "olia",
        about: "OLIA: linked increases that move to the best paths (draft-khalili)",
        coupled: true,
        make: coupled::Coupled::<olia::Olia>::make,
    },
    Entry {
        name: "balia",
        about: "BALIA: balances friendliness and responsiveness (draft-walid)",
        coupled: true,
        make: coupled::Coupled::<balia::Balia>::make,
    },
    Entry {
        name: "bbr3",
        about: "BBR v3, experimental: bounds what is in flight by loss (draft-ietf-ccwg-bbr)",
        coupled: false,
        make: bbr3::Bbr3::make,
    },
];

/// The congestion controls of other crates.
static REGISTERED: Registered<Entry> = Registered::new();

/// A name that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is a congestion control '{name}' already; choose another name")]
pub struct NameTaken {
    name: &'static str,
}

/// Makes a congestion control of another crate known by its name, in this process: to scenarios and
/// the simulator. Call it before anything else.
///
/// # Errors
///
/// The name is taken.
pub fn register(entry: &'static Entry) -> Result<(), NameTaken> {
    match REGISTERED.add(entry, REGISTRY, |known| known.name == entry.name) {
        true => Ok(()),
        false => Err(NameTaken { name: entry.name }),
    }
}

/// Every congestion control there is: [`REGISTRY`], and what was registered.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    REGISTRY.iter().chain(REGISTERED.all())
}
