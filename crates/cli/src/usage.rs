//! What the tests ask of the command line: they hold the documents to it. Not for use otherwise.

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::lab::LabCommand;
use crate::sim::SimCommand;
use crate::{Cli, Command, help};

/// The program's commands and options.
#[must_use]
pub fn command() -> clap::Command {
    let mut command = help::program();
    command.build();
    command
}

/// An example for each command: its name after `weftline`, and the example.
#[must_use]
pub fn examples() -> &'static [(&'static str, &'static str)] {
    &help::EXAMPLES
}

/// How the parser calls what is missing.
const MISSING: [ErrorKind; 3] = [
    ErrorKind::MissingRequiredArgument,
    ErrorKind::MissingSubcommand,
    ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
];

/// Whether these words after `weftline` are a use of it: the command and its options exist, and
/// their values can be read. Of words that are `cut` short, required ones may be missing.
///
/// # Errors
/// The program's own message.
pub fn check(words: &[String], cut: bool) -> Result<(), String> {
    let program = std::iter::once("weftline".to_owned());
    let parsed = Cli::try_parse_from(program.chain(words.iter().cloned()));
    let run = match parsed {
        Ok(Cli { command: Command::Sim(SimCommand::Run(args)), .. }) => args.common().check(),
        Ok(Cli { command: Command::Lab(LabCommand::Run(args)), .. }) => args.common().check(),
        Err(error) if cut && MISSING.contains(&error.kind()) => Ok(()),
        Err(error) if cut && error.to_string().contains("none was supplied") => Ok(()),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Ok(()),
        Err(error) => return Err(error.to_string()),
        Ok(_) => Ok(()),
    };
    run.map_err(|error| error.to_string())
}
