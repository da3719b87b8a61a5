//! `weftline generate`: manual pages and shell completions, made from the command line's own
//! description.

use std::path::PathBuf;

use clap::{Command, Subcommand};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::{help, output};

/// What can be made.
#[derive(Debug, Subcommand)]
pub(crate) enum GenerateCommand {
    /// Write a manual page for each command into a directory
    Man {
        /// The directory, made if it is not there
        dir: PathBuf,
    },
    /// Print what --help says of every command, as one page of Markdown
    Commands,
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Makes it, for the program described by `program`.
pub(crate) fn run(what: GenerateCommand, mut program: Command) -> Result<(), Failure> {
    match what {
        GenerateCommand::Man { dir } => {
            let wrong = |error| Failure::failed(format!("{}: {error}", dir.display()));
            std::fs::create_dir_all(&dir).map_err(wrong)?;
            clap_mangen::generate_to(program, &dir).map_err(wrong)
        }
        GenerateCommand::Commands => output::print(&help::page()),
        GenerateCommand::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut program, "weftline", &mut text);
            output::print(&String::from_utf8_lossy(&text))
        }
    }
}
