//! The program that the lab's tests start: one end of a connection, or a whole run.

use std::path::Path;
use std::process::ExitCode;

use weftline_lab::{ENDPOINT_COMMAND, GUEST_COMMAND, LabError, LabOptions};
use weftline_scenario::Scenario;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [ENDPOINT_COMMAND, text] => {
            weftline_lab::parse_endpoint_args(text).and_then(weftline_lab::run_endpoint)
        }
        [GUEST_COMMAND] => weftline_lab::run_guest(),
        ["run", scenario, scheme] => run(scenario, scheme),
        _ => Err(LabError::Usage("run SCENARIO SCHEME".to_owned())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(scenario: &str, scheme: &str) -> Result<(), LabError> {
    let wrong = |error: &dyn std::error::Error| LabError::Usage(error.to_string());
    let scenario = Scenario::load(Path::new(scenario)).map_err(|error| wrong(&error))?;
    let scheme = scheme.parse().map_err(|error| wrong(&error))?;
    let options = LabOptions::new(scenario, vec![scheme])?;
    weftline_lab::run_many(&options).map(|_| ())
}
