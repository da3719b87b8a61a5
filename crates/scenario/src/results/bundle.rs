//! What runs were made with: their files, the options that no record tells, and the version of the
//! program. A results directory keeps it, and takes no runs that were made with anything else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::provenance::Provenance;
use super::{RUNS, ResultsError};
use crate::scenario::read_bounded;
use crate::{Scenario, Sweep};

/// The list of what is in the bundle.
const MANIFEST: &str = "bundle.json";

/// The folder of a sweep's scenarios and traces.
const FOLDER: &str = "bundle";

/// The sweep that a directory belongs to.
const SWEEP: &str = "sweep.toml";

/// The version of the manifest's format.
const SCHEMA: u32 = 1;

/// What runs are made with.
#[derive(Clone, Debug)]
pub struct Bundle {
    manifest: Manifest,
    /// The texts of the manifest's files, in its order.
    texts: Vec<String>,
}

/// `bundle.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    schema: u32,
    /// What the directory holds: `"single runs"`, `"a sim sweep"`, `"a lab sweep"`.
    holds: String,
    /// The program's version.
    version: String,
    /// How many runs the sweep makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runs: Option<usize>,
    /// Options of the command that change what is measured or kept and that no record has.
    #[serde(default)]
    options: BTreeMap<String, String>,
    /// The kernel of guests, if runs were made in any. Runs without guests may be beside them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    guests: Option<String>,
    files: Vec<Entry>,
    /// Where and when the runs were made. That is never compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) made: Vec<Provenance>,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    /// Its name: as the sweep or the scenario has it.
    name: String,
    /// The digest of its text.
    sha256: String,
    /// Where the directory has it.
    copy: String,
}

impl Bundle {
    /// That of a sweep on the backend `"lab"` or `"sim"`: its file, the scenarios and the traces.
    /// `version` is the program's.
    pub fn of_sweep(sweep: &Sweep, backend: &str, version: &str) -> Self {
        let mut bundle = Self::new(format!("a {backend} sweep"), version);
        bundle.manifest.runs = Some(sweep.len());
        bundle.add(SWEEP, sweep.text().to_owned(), SWEEP.to_owned());
        for (name, text) in sweep.files() {
            let file = Path::new(&name).file_name().unwrap_or_default().to_string_lossy();
            let copy = format!("{FOLDER}/{}-{file}", &sha256(text)[..16]);
            bundle.add(&name, text.to_owned(), copy);
        }
        bundle
    }

    /// That of single runs over a scenario: the scenario as run, `{name}.toml`, with the trace
    /// files it names, so that the directory can be run again. `version` is the program's.
    pub fn of_runs(scenario: &Scenario, version: &str) -> Self {
        let mut bundle = Self::new("single runs".to_owned(), version);
        let mut scenario = scenario.clone();
        let mut traces = Vec::new();
        for (index, trace) in scenario.trace_files_mut().enumerate() {
            // A name of our own: the scenario's may lead out of this directory.
            let original = Path::new(&trace.file).file_name().unwrap_or_default();
            trace.file = format!("trace{index}-{}", original.to_string_lossy());
            traces.push((trace.file.clone(), trace.text.to_string()));
        }
        let file = format!("{}.toml", scenario.name);
        for (name, text) in std::iter::once((file, scenario.to_string())).chain(traces) {
            bundle.add(&name, text, name.clone());
        }
        bundle
    }

    /// The sweep that a part of one, in `dir`, was made of, and the bundle of the whole. `version` is
    /// this program's.
    pub(super) fn of_part(dir: &Path, version: &str) -> Result<(Sweep, Self), ResultsError> {
        let wrong = |message: String| ResultsError::Parts { folder: dir.to_owned(), message };
        let manifest = read(dir)?
            .ok_or_else(|| wrong(format!("there is no {MANIFEST}; make the part again")))?;
        let mut texts = BTreeMap::new();
        for Entry { name, copy, .. } in &manifest.files {
            let file = dir.join(copy);
            texts.insert(name.clone(), read_bounded(&file).map_err(ResultsError::io(&file))?);
        }
        let text = texts.remove(SWEEP).ok_or_else(|| wrong(format!("there is no {SWEEP}")))?;
        let sweep = Sweep::from_texts(SWEEP, &text, texts);
        let sweep = sweep.map_err(|error| wrong(error.to_string()))?;
        let mut bundle = Self::of_sweep(&sweep, "sim", version);
        bundle.manifest.options = manifest.options;
        Ok((sweep, bundle))
    }

    /// The same, made by those processes.
    pub(super) fn made_by(mut self, made: Vec<Provenance>) -> Self {
        self.manifest.made = made.into_iter().fold(Vec::new(), |there, one| one.after(there));
        self
    }

    fn new(holds: String, version: &str) -> Self {
        let version = version.to_owned();
        let (options, files) = (BTreeMap::new(), Vec::new());
        let made = vec![Provenance::here(&version)];
        let manifest = Manifest {
            schema: SCHEMA,
            holds,
            version,
            runs: None,
            options,
            guests: None,
            files,
            made,
        };
        Self { manifest, texts: Vec::new() }
    }

    /// With an option of the command, such as `--cut`, which all runs of a directory share.
    #[must_use]
    pub fn with_option(mut self, name: &str, value: &str) -> Self {
        self.manifest.options.insert(name.to_owned(), value.to_owned());
        self
    }

    /// With where its runs are made: partly in guests with that kernel, the only one in a directory.
    #[must_use]
    pub fn with_guests(mut self, kernel: &str) -> Self {
        self.manifest.guests = Some(kernel.to_owned());
        for made in &mut self.manifest.made {
            made.kernel = format!("{}, guests Linux {kernel}", made.kernel);
        }
        self
    }

    fn add(&mut self, name: &str, text: String, copy: String) {
        let entry = Entry { name: name.to_owned(), sha256: sha256(&text), copy };
        if !self.manifest.files.contains(&entry) {
            self.manifest.files.push(entry);
            self.texts.push(text);
        }
    }

    /// Keeps the bundle in `dir`. With runs in it, the bundle that is there must agree; single runs
    /// may add scenarios.
    pub(super) fn keep(&self, dir: &Path, has_runs: bool) -> Result<(), ResultsError> {
        let mut manifest = self.manifest.clone();
        if has_runs {
            let mut there = self.compared(dir)?;
            for own in std::mem::take(&mut manifest.made) {
                // Parts that are merged again are known.
                if !there.made.contains(&own) {
                    there.made = own.after(there.made);
                }
            }
            manifest.made = std::mem::take(&mut there.made);
            manifest.guests = manifest.guests.or_else(|| there.guests.take());
            if manifest.runs.is_none() {
                let known = |file: &Entry| manifest.files.contains(file);
                let mut files: Vec<_> =
                    there.files.into_iter().filter(|file| !known(file)).collect();
                files.append(&mut manifest.files);
                manifest.files = files;
            }
        }
        if manifest.runs.is_some() {
            let folder = dir.join(FOLDER);
            fs::create_dir_all(&folder).map_err(ResultsError::io(&folder))?;
        }
        for (file, text) in self.manifest.files.iter().zip(&self.texts) {
            let path = dir.join(&file.copy);
            fs::write(&path, text).map_err(ResultsError::io(&path))?;
        }
        // Last, and at once: where there is a manifest, its files are there.
        let (path, new) = (dir.join(MANIFEST), dir.join(format!("{MANIFEST}.new")));
        let text = serde_json::to_string_pretty(&manifest).map_err(io::Error::from);
        let written = text.and_then(|text| fs::write(&new, text + "\n"));
        written.and_then(|()| fs::rename(&new, &path)).map_err(ResultsError::io(&path))
    }

    /// The manifest that is there, if this bundle agrees with it.
    pub(super) fn compared(&self, dir: &Path) -> Result<Manifest, ResultsError> {
        let ours = &self.manifest;
        if ours.runs.is_some() {
            self.same_sweep(dir)?;
        }
        let refused = |difference: String| {
            Err(ResultsError::OtherBundle { difference, runs: dir.join(RUNS) })
        };
        let Some(there) = read(dir)? else {
            let dir = dir.display();
            return refused(format!("{dir} has runs, but no {MANIFEST} that says what made them"));
        };
        match there.difference(ours, dir) {
            Some(difference) => refused(difference),
            None => Ok(there),
        }
    }

    /// Refuses a directory with another sweep's text.
    fn same_sweep(&self, dir: &Path) -> Result<(), ResultsError> {
        let file = dir.join(SWEEP);
        match fs::read_to_string(&file) {
            Ok(text) if self.texts.first() != Some(&text) => Err(ResultsError::OtherSweep { file }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ResultsError::io(&file)(error))
            }
            _ => Ok(()),
        }
    }
}

impl Manifest {
    /// In what `new` differs from this, which is that of the runs in `dir`.
    fn difference(&self, new: &Self, dir: &Path) -> Option<String> {
        let at = dir.display();
        if self.holds != new.holds {
            return Some(format!("{at} holds {}, not {}", self.holds, new.holds));
        }
        for file in &new.files {
            let mut same_name = self.files.iter().filter(|there| there.name == file.name);
            let Some(there) = same_name.next() else {
                if new.runs.is_none() {
                    continue;
                }
                return Some(format!("{} is new to the runs in {at}", file.name));
            };
            if there.sha256 != file.sha256 && same_name.all(|there| there.sha256 != file.sha256) {
                let copy = dir.join(&there.copy);
                return Some(format!(
                    "{} differs from what the runs in {at} were made with, which is kept in {}",
                    file.name,
                    copy.display()
                ));
            }
        }
        let none = String::new();
        let options = self.options.keys().chain(new.options.keys());
        for option in options {
            let value = |of: &Self| of.options.get(option).unwrap_or(&none).clone();
            let (there, here) = (value(self), value(new));
            if there != here {
                return Some(format!("the runs in {at} have {option} '{there}', not '{here}'"));
            }
        }
        if let (Some(there), Some(here)) = (&self.guests, &new.guests)
            && there != here
        {
            return Some(format!("the guests of {at} had Linux {there}, and these have {here}"));
        }
        (self.version != new.version).then(|| {
            let (there, here) = (&self.version, &new.version);
            format!("the runs in {at} were made by weftline {there}, and this is {here}")
        })
    }
}

/// Where and when the results in a directory were made: every process that wrote runs there, the
/// earliest first. Empty where nobody has kept it.
///
/// # Errors
///
/// If the file that says so cannot be read.
pub fn read_provenance(dir: &Path) -> Result<Vec<Provenance>, ResultsError> {
    let made = read(dir)?.map_or_else(Vec::new, |manifest| manifest.made);
    let mut seen = BTreeSet::new();
    let key = |one: &Provenance| (one.date.clone(), one.command.clone());
    Ok(made.into_iter().filter(|one| seen.insert(key(one))).collect())
}

/// The manifest of a directory, if it has one.
fn read(dir: &Path) -> Result<Option<Manifest>, ResultsError> {
    let file = dir.join(MANIFEST);
    let text = match read_bounded(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ResultsError::io(&file)(error)),
    };
    let manifest = serde_json::from_str(&text);
    manifest.map(Some).map_err(|error| ResultsError::Line {
        file,
        line: error.line().max(1),
        message: format!("is no bundle of results: {error}"),
    })
}

/// The SHA-256 digest in hexadecimal digits.
fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("a String takes all that is written");
        digits
    })
}
