//! The scenarios that come with the program: the files of `scenarios/`, one line each.

/// A built-in scenario; [`Builtin::scenario`] reads it.
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

/// A trace of `scenarios/`, by its path there.
macro_rules! trace {
    ($file:literal) => {
        ($file, include_str!(concat!("../../../scenarios/", $file)))
    };
}

/// All built-in scenarios.
pub const BUILTIN: &[Builtin] = &[
    builtin!("demo"),
    builtin!("fbdt-3b-normal"),
    builtin!("fbdt-3b-loss-wigig"),
    builtin!("fbdt-3b-loss-wifi"),
    builtin!("fbdt-3b-delay-wigig"),
    builtin!("fbdt-3b-delay-wifi"),
    builtin!("fbdt-6c-los"),
    builtin!("fbdt-6c-nlos"),
    builtin!("fbdt-6c-mobility"),
    builtin!("fbdt-blackout"),
    builtin!("trace-csv"),
    builtin!("trace-mahimahi"),
];

/// The trace files that they name.
pub(crate) const TRACES: &[(&str, &str)] =
    &[trace!("traces/stairs.csv"), trace!("traces/sawtooth.mahimahi")];
