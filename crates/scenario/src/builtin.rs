//! The scenarios and sweeps that come with the program: the files of `scenarios/`, one line each.

use std::io;
use std::path::Path;
use std::sync::LazyLock;

use toml::{Table, Value};

use crate::edit::set as set_key;

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

/// The files of `scenarios/`.
const FILES: &[Builtin] = &[
    builtin!("demo"),
    builtin!("bond"),
    builtin!("bond-satellite"),
    builtin!("fbdt-3b-normal"),
    builtin!("fbdt-3b-loss-wigig"),
    builtin!("fbdt-3b-loss-wifi"),
    builtin!("fbdt-3b-delay-wigig"),
    builtin!("fbdt-3b-delay-wifi"),
    builtin!("fbdt-6c-los"),
    builtin!("fbdt-6c-nlos"),
    builtin!("fbdt-6c-mobility"),
    builtin!("fbdt-blackout"),
    builtin!("fbdt-hotplug"),
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
    builtin!("cotag-fig5"),
    builtin!("cotag-fig6"),
    builtin!("cotag-dead"),
    builtin!("trace-csv"),
    builtin!("trace-mahimahi"),
];

/// All built-in scenarios: the files of `scenarios/`, and points of the curves that two of them are.
pub static BUILTIN: LazyLock<Vec<Builtin>> = LazyLock::new(|| {
    let curves = FILES.iter().filter(|file| ["cotag-fig5", "cotag-fig6"].contains(&file.name));
    let points = curves.flat_map(|curve| {
        let cases = BACKEND_DELAYS_MS.iter().flat_map(|&delay| [(delay, false), (delay, true)]);
        cases.map(move |(delay_ms, errors)| point(curve, delay_ms, errors))
    });
    FILES.iter().copied().chain(points).collect()
});

/// Delays of the back end in COTAG's Fig. 5 and 6, in milliseconds.
const BACKEND_DELAYS_MS: [u32; 5] = [0, 5, 10, 20, 40];

/// Their packet error rate, where there is one.
const PACKET_ERRORS: f64 = 0.00001;

/// A point of COTAG's Fig. 5 or 6 under a name of its own, such as `cotag-fig5-d10-per`: the
/// scenario of the figure with `backend.delay` and `loss` set.
fn point(curve: &Builtin, delay_ms: u32, errors: bool) -> Builtin {
    let mut table: Table = curve.text.parse().expect("a built-in scenario is TOML");
    let (suffix, errors_told, part, loss) = match errors {
        true => ("-per", ", 0.001 % packet errors", "b", PACKET_ERRORS),
        false => ("", "", "a", 0.0),
    };
    let text = |key: &str| table.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = format!("{}-d{delay_ms}{suffix}", curve.name);
    let about = format!("{}; back end {delay_ms} ms away{errors_told}", text("about"));
    let source = format!("{}{part}", text("source"));
    let settings = [
        ("name", Value::String(name.clone())),
        ("about", Value::String(about)),
        ("source", Value::String(source)),
        ("backend.delay", Value::String(format!("{delay_ms}ms"))),
        ("loss", Value::Float(loss)),
    ];
    for (key, value) in settings {
        set_key(&mut table, key, value).expect("these keys can be set in every scenario");
    }
    Builtin { name: name.leak(), text: table.to_string().leak() }
}

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
    sweep!("random-radios"),
    sweep!("random-tiles"),
    sweep!("random-wan-far"),
    sweep!("random-hotplug"),
    sweep!("random-kernel"),
    sweep!("cotag-fig5"),
    sweep!("cotag-fig6"),
    sweep!("cotag-warm"),
    sweep!("cotag-bare"),
    sweep!("cotag-ablation"),
    sweep!("cotag-others"),
    sweep!("cotag-small"),
    sweep!("cotag-small-warm"),
    sweep!("cotag-bbr"),
    sweep!("cotag-bbr-warm"),
    sweep!("cotag-delays"),
    sweep!("cotag-losses"),
    sweep!("cotag-dead"),
    sweep!("cotag-dead-parts"),
];

/// The trace files that they name.
const TRACES: &[(&str, &str)] = &[trace!("traces/stairs.csv"), trace!("traces/sawtooth.mahimahi")];

/// The text of a trace that a built-in scenario names.
pub(crate) fn trace(file: &Path) -> io::Result<String> {
    let trace = TRACES.iter().find(|(name, _)| Path::new(name) == file);
    let text = trace.map(|(_, text)| (*text).to_owned());
    text.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is not built in"))
}
