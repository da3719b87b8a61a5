//! The `weftline` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    weftline_cli::run()
}
