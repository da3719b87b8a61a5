//! `weftline report`: results as one page.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::failure::Failure;
use crate::output;

/// What shows a page in the browser that the desktop prefers.
const OPENER: &str = "xdg-open";

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Where `--out` of `lab run`, `sim run`, a sweep or `vr evaluate` wrote its results
    dir: PathBuf,
    /// Results to lay beside them, such as the same sweep in the other world
    #[arg(long, value_name = "DIR")]
    beside: Vec<PathBuf>,
    /// Where to write the page [default: DIR/report.html]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Show the page in the browser, too
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let ReportArgs { dir, beside, out, open } = args;
    let file = out.clone().unwrap_or_else(|| dir.join("report.html"));
    let made = weftline_report::make_report(dir, beside, &file);
    let made = made.map_err(|error| {
        let is_empty = |results: &&PathBuf| !results.join("runs.jsonl").exists();
        match std::iter::once(dir).chain(beside).find(is_empty) {
            Some(results) => Failure::failed(format_args!(
                "there are no results (no runs.jsonl) in {}; give the directory that --out of \
                 sim run, lab run, a sweep or vr evaluate wrote to",
                results.display()
            )),
            None => error.into(),
        }
    })?;
    // A script wants the page's name and nothing else.
    made.sentence.iter().for_each(output::remark);
    output::print(&format!("{}\n", made.file.display()))?;
    if *open { show(&made.file) } else { Ok(()) }
}

/// Hands the page to the desktop; the page stays, whatever comes of it.
fn show(page: &Path) -> Result<(), Failure> {
    // A name that begins with a dash is no option.
    let page = std::path::absolute(page)?;
    let status = Command::new(OPENER)
        .arg(&page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let why = match status {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => format!("{OPENER} found no browser ({status})"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("there is no {OPENER} (package xdg-utils)")
        }
        Err(error) => format!("cannot start {OPENER}: {error}"),
    };
    let page = page.display();
    Err(Failure::not_possible(format_args!("{why}; open {page} in a browser yourself")))
}
