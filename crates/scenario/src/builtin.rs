//! The scenarios and sweeps that come with the program: the files of `scenarios/`, one line each.

use std::io;
use std::path::Path;

/// A built-in scenario, or a sweep: [`Builtin::scenario`] and [`Sweep::find`](crate::Sweep::find)
/// read it.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// Its TOML text.
    pub text: &'static str,
}

/// A scenario of `scenarios/`, by its name.
macro_rules! builtin {
    ($name:literal) => {
        Builtin { name: $name, text: include_str!(concat!("../../../scenarios/", $name, ".toml")) }
    };
}

/// A sweep of `scenarios/sweeps/`, by its name.
macro_rules! sweep {
    ($name:literal) => {
        Builtin {
            name: $name,
            text: include_str!(concat!("../../../scenarios/sweeps/", $name, ".toml")),
        }
    };
}

/// A trace of `scenarios/`, by its path there.
macro_rules! trace {
    ($file:literal) => {
        ($file, include_str!(concat!("../../../scenarios/", $file)))
    };
}

/// All built-in scenarios.
pub const BUILTIN: &[Builtin] = &[
    builtin!("demo"),
    builtin!("bond"),
    builtin!("fbdt-3b-normal"),
    builtin!("fbdt-3b-loss-wigig"),
    builtin!("fbdt-3b-loss-wifi"),
    builtin!("fbdt-3b-delay-wigig"),
    builtin!("fbdt-3b-delay-wifi"),
    builtin!("fbdt-6c-los"),
    builtin!("fbdt-6c-nlos"),
    builtin!("fbdt-6c-mobility"),
    builtin!("fbdt-blackout"),
    builtin!("mptcp-a1"),
    builtin!("mptcp-a2"),
    builtin!("mptcp-b1"),
    builtin!("mptcp-b2"),
    builtin!("tcp-reference"),
    builtin!("tcp-shared"),
    builtin!("fbdt-eq1"),
    builtin!("two-path"),
    builtin!("four-path"),
    builtin!("four-path-20mib"),
    builtin!("cotag-fig5-d0"),
    builtin!("cotag-fig5-d0-per"),
    builtin!("cotag-fig5-d5"),
    builtin!("cotag-fig5-d5-per"),
    builtin!("cotag-fig5-d10"),
    builtin!("cotag-fig5-d10-per"),
    builtin!("cotag-fig5-d20"),
    builtin!("cotag-fig5-d20-per"),
    builtin!("cotag-fig5-d40"),
    builtin!("cotag-fig5-d40-per"),
    builtin!("cotag-fig6-d0"),
    builtin!("cotag-fig6-d0-per"),
    builtin!("cotag-fig6-d5"),
    builtin!("cotag-fig6-d5-per"),
    builtin!("cotag-fig6-d10"),
    builtin!("cotag-fig6-d10-per"),
    builtin!("cotag-fig6-d20"),
    builtin!("cotag-fig6-d20-per"),
    builtin!("cotag-fig6-d40"),
    builtin!("cotag-fig6-d40-per"),
    builtin!("trace-csv"),
    builtin!("trace-mahimahi"),
];

/// All built-in sweeps.
pub const SWEEPS: &[Builtin] = &[
    sweep!("mptcp-video"),
    sweep!("mptcp-players"),
    sweep!("mptcp-claims"),
    sweep!("mptcp-grid"),
    sweep!("mptcp-rates"),
    sweep!("tcp-reference"),
    sweep!("fbdt-eq1"),
    sweep!("random-two-path"),
    sweep!("random-paths"),
    sweep!("random-any"),
    sweep!("random-any-20mib"),
    sweep!("random-wan"),
    sweep!("random-wan-far"),
    sweep!("cotag-fig5"),
    sweep!("cotag-fig5-warm"),
    sweep!("cotag-fig6"),
    sweep!("cotag-fig6-warm"),
    sweep!("cotag-others"),
    sweep!("cotag-small"),
    sweep!("cotag-generation"),
    sweep!("cotag-bbr"),
    sweep!("cotag-paced"),
    sweep!("cotag-interval"),
];

/// The trace files that they name.
const TRACES: &[(&str, &str)] = &[trace!("traces/stairs.csv"), trace!("traces/sawtooth.mahimahi")];

/// The text of a trace that a built-in scenario names.
pub(crate) fn trace(file: &Path) -> io::Result<String> {
    let trace = TRACES.iter().find(|(name, _)| Path::new(name) == file);
    let text = trace.map(|(_, text)| (*text).to_owned());
    text.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is not built in"))
}
