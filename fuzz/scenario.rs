//! What the fuzz target of the scenario crate does with its input. `cargo test` replays the corpus
//! through the same function (crates/scenario/tests/fuzz_replay.rs).

use std::time::Duration;

use weftline_scenario::{Scenario, ScenarioError, Sweep};

/// Any text is a scenario, a sweep or a one-line error that names the file. What is a scenario has
/// links. Trace files hold what follows the input's first NUL.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (text, trace) = text.split_once('\0').unwrap_or((text, ""));
    if text.contains("scheme") {
        match Sweep::parse("fuzz.toml", text, None) {
            Ok(sweep) => sweep.cases().take(2).filter_map(Result::err).for_each(|e| check(&e)),
            Err(error) => check(&error),
        }
        return;
    }
    match Scenario::parse("fuzz.toml", text, &|_| Ok(trace.to_owned())) {
        Ok(scenario) => {
            let duration = scenario.duration.min(Duration::from_secs(2));
            for path in &scenario.paths {
                let _ = (path.down_link(1, duration), path.up_link(1, duration));
            }
        }
        Err(error) => check(&error),
    }
}

fn check(error: &ScenarioError) {
    let error = error.to_string();
    assert!(!error.contains('\n'), "one line: {error:?}");
}
