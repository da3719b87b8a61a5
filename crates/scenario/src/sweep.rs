//! Sweeps: many runs from one file. A grid over schemes, congestion controls, seeds and any keys of
//! a scenario, and random draws of such keys.
//!
//! A sweep edits the scenario's TOML before it is read, so every key a scenario can have can be
//! swept, and what it sets is checked as if it stood in the scenario file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Table as Toml;
use weftline_core::rng::Rng;

use crate::builtin::{self, BUILTIN, Builtin, SWEEPS};
use crate::document::{Source, Table, Value};
use crate::edit;
use crate::scenario::read_bounded;
use crate::{Congestion, RunRecord, Scenario, ScenarioError, Scheme, Workload};

mod values;

use values::Drawn;

/// The most cases of a sweep.
const MAX_CASES: usize = 1_000_000;

/// The most values of one key, and the most schemes, seeds and so on.
const MAX_VALUES: u64 = 10_000;

/// The key that says how many of a scenario's paths there are, from the first on.
const PATHS: &str = "paths";

/// A sweep, read and checked as far as that goes without building every case.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// What errors call the file.
    file: String,
    name: String,
    about: String,
    text: String,
    scenarios: Vec<Base>,
    schemes: Vec<Scheme>,
    scheme_line: usize,
    congestions: Vec<Congestion>,
    seeds: Vec<u64>,
    /// Keys that all cases get, with the lines they stand in.
    fixed: Vec<Setting<toml::Value>>,
    /// Keys of the grid and their values.
    grid: Vec<Setting<Vec<toml::Value>>>,
    random: Option<Random>,
    series: bool,
    len: usize,
}

/// A scenario to be edited.
#[derive(Clone, Debug)]
struct Base {
    /// Its file, as the sweep names it.
    file: String,
    text: String,
    table: Toml,
    traces: Traces,
    /// The paths of the sweep's schemes that other scenarios have, and this one has not.
    elsewhere: Vec<String>,
}

impl Base {
    fn has_path(&self, name: &str) -> bool {
        let paths = self.table.get("path").and_then(|paths| paths.as_array());
        paths
            .into_iter()
            .flatten()
            .any(|path| path.get("name").and_then(|n| n.as_str()) == Some(name))
    }
}

/// The trace files of a scenario and of the sweep's keys for it.
#[derive(Clone, Debug)]
struct Traces {
    folder: Folder,
    /// The texts by the names that the scenario has for them. Every run gets these, even if a file
    /// changes while the sweep runs.
    kept: BTreeMap<PathBuf, String>,
}

/// Where the trace files of a scenario lie.
#[derive(Clone, Debug)]
enum Folder {
    BuiltIn,
    Disk(PathBuf),
    /// Among those texts, below that name.
    Texts(Texts, PathBuf),
}

/// Texts of files by the names that a sweep has for them: [`Sweep::files`].
type Texts = Arc<BTreeMap<String, String>>;

/// Where the files that a sweep names are looked for.
#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Nowhere,
    Disk(&'a Path),
    Texts(&'a Texts),
}

/// What a sweep says of a key.
#[derive(Clone, Debug)]
struct Setting<T> {
    key: String,
    value: T,
    line: usize,
}

/// Random draws.
#[derive(Clone, Debug)]
struct Random {
    runs: u64,
    seed: u64,
    keys: Vec<Setting<Drawn>>,
}

/// A scenario as edited for some runs, and what was set.
#[derive(Clone, Debug)]
struct Variant {
    scenario: Scenario,
    case: BTreeMap<String, String>,
    /// The number of the random draw, added to the seed.
    draw: u64,
    /// The paths of the scenario that are left out, by name.
    without: Vec<String>,
}

/// Which of everything a variant has.
#[derive(Clone, Debug)]
struct Choice<'a> {
    base: &'a Base,
    draw: u64,
    /// Keys of the grid and of the draw, with their values and lines.
    settings: Vec<(&'a str, toml::Value, usize)>,
}

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its place in the sweep, from 0.
    pub index: usize,
    /// The scenario, edited.
    pub scenario: Scenario,
    /// The scheme under test.
    pub scheme: Scheme,
    /// Its congestion control.
    pub congestion: Congestion,
    /// The seed of the run.
    pub seed: u64,
    /// The keys that the sweep varies, and their values in this run.
    pub case: BTreeMap<String, String>,
}

impl Case {
    /// What tells this run from the others of its sweep, such as
    /// `mptcp-a1/lpc/cubic/1/path.wifi.rate=20Mbps`. The same file gives the same, and so does the
    /// record of the run: [`RunRecord::case_id`].
    pub fn id(&self) -> String {
        let [scheme, congestion] = [self.scheme.to_string(), self.congestion.to_string()];
        case_id(&self.scenario.name, &scheme, &congestion, self.seed, &self.case)
    }
}

impl RunRecord {
    /// The [`Case::id`] of the run's case.
    pub fn case_id(&self) -> String {
        case_id(&self.scenario, &self.scheme, &self.congestion, self.seed, &self.case)
    }
}

fn case_id(
    scenario: &str,
    scheme: &str,
    congestion: &str,
    seed: u64,
    case: &BTreeMap<String, String>,
) -> String {
    let mut id = format!("{scenario}/{scheme}/{congestion}/{seed}");
    for (key, value) in case {
        write!(id, "/{key}={value}").expect("a String takes all that is written");
    }
    id
}

impl Sweep {
    /// The built-in sweep of that name, or the one in that file.
    ///
    /// # Errors
    ///
    /// If there is neither, or the file is wrong.
    pub fn find(name_or_path: &str) -> Result<Self, ScenarioError> {
        if let Some(sweep) = SWEEPS.iter().find(|sweep| sweep.name == name_or_path) {
            return Self::parse(&format!("{}.toml", sweep.name), sweep.text, None);
        }
        let path = Path::new(name_or_path);
        if path.is_file() || name_or_path.ends_with(".toml") {
            return Self::load(path);
        }
        let known = SWEEPS.iter().map(|sweep| sweep.name).collect::<Vec<_>>().join(", ");
        Err(ScenarioError::Unknown { kind: "sweep", name: name_or_path.to_owned(), known })
    }

    /// Reads a sweep file, the scenarios it names, and their trace files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is wrong, or the first case cannot be built.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let text = read_bounded(path)
            .map_err(|source| ScenarioError::Read { file: file.clone(), source })?;
        Self::parse(&file, &text, Some(path.parent().unwrap_or(Path::new(""))))
    }

    /// Reads a sweep from `text`. `file` names it in errors; scenarios that are not built in are
    /// looked for in `folder`, if there is one.
    ///
    /// # Errors
    ///
    /// If the text or a scenario is wrong, or the first case cannot be built.
    pub fn parse(file: &str, text: &str, folder: Option<&Path>) -> Result<Self, ScenarioError> {
        Self::read_from(file, text, folder.map_or(Place::Nowhere, Place::Disk))
    }

    /// Reads a sweep whose [`files`](Self::files) are given as texts by their names, as another process
    /// or a directory of results has them. No file is opened.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn from_texts(
        file: &str,
        text: &str,
        files: BTreeMap<String, String>,
    ) -> Result<Self, ScenarioError> {
        Self::read_from(file, text, Place::Texts(&Arc::new(files)))
    }

    fn read_from(file: &str, text: &str, place: Place<'_>) -> Result<Self, ScenarioError> {
        let mut table = Source { file, text }.parse()?;
        let about = table.take("about").map(|about| about.text().map(str::to_owned));
        let about = about.transpose()?.unwrap_or_default();
        if table.has("path") && !table.has("scenario") {
            return Err(table.error("this is a scenario: 'weftline sim run' and 'lab run' run it"));
        }
        let scenarios = table.need("scenario", "scenario = \"demo\"")?.one_or_more()?;
        let scenarios = bases(&scenarios, place)?;
        let schemes = table.need("scheme", "scheme = [\"fbdt\", \"min-rtt\"]")?;
        let (scheme_line, schemes) = (schemes.line(), names(schemes)?);
        let congestions = match table.take("congestion") {
            Some(value) => names(value)?,
            None => vec![Congestion::CUBIC],
        };
        let seeds = table.take("seed").map_or(Ok(vec![1]), read_seeds)?;
        let series = table.take("series").map_or(Ok(false), |series| series.boolean())?;
        let mut fixed = Vec::new();
        for (key, target) in
            [("duration", "duration"), ("warmup", "warmup"), ("workload", "workload.kind")]
        {
            if let Some(value) = table.take(key) {
                let line = value.line();
                if key == "workload" {
                    value.parse::<Workload>()?;
                }
                let value = toml::Value::String(value.text()?.to_owned());
                fixed.push(Setting { key: target.to_owned(), value, line });
            }
        }
        let mut grid = Vec::new();
        if let Some(set) = table.take("set") {
            for (key, value) in settings(set)? {
                grid.push(Setting { key, line: value.line(), value: values::grid(value)? });
            }
        }
        let random = table.take("random").map(|value| Random::read(value.table()?)).transpose()?;
        let scenarios = with_elsewhere(scenarios, &schemes);
        let mut sweep = Self {
            file: file.to_owned(),
            name: Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            about,
            text: text.to_owned(),
            scenarios,
            schemes,
            scheme_line,
            congestions,
            seeds,
            fixed,
            grid,
            random,
            series,
            len: 0,
        };
        sweep.keep_traces();
        sweep.check(&table)?;
        sweep.len = sweep.exact_len();
        table.finish()?;
        Ok(sweep)
    }

    /// Refuses what no single key shows, and builds the first case.
    fn check(&self, table: &Table<'_>) -> Result<(), ScenarioError> {
        let keys = self.grid.iter().map(|setting| &setting.key);
        let mut keys: Vec<_> = keys.chain(self.random.iter().flat_map(Random::keys)).collect();
        keys.sort_unstable();
        if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(table.error(format!("both [set] and [random.set] set '{}'", pair[0])));
        }
        if self.count().is_none_or(|count| count > MAX_CASES) {
            return Err(table.error(format!("makes more than {MAX_CASES} runs; split it")));
        }
        let none =
            || table.error("makes no run: no scenario has the path of a scheme, or it is left out");
        self.cases_in(0..1).next().ok_or_else(none)?.map(drop)
    }

    /// The file's name, without folder and extension.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is, in one line; empty if the file does not say.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Whether the time series of every run are to be kept.
    pub const fn series(&self) -> bool {
        self.series
    }

    /// The file's text: a directory of results keeps it, to see that it is resumed with the same.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The scenario files that the sweep names and the trace files that these and its keys name,
    /// with their texts. A trace is named by its path from the folder of the sweep.
    pub fn files(&self) -> impl Iterator<Item = (String, &str)> {
        self.scenarios.iter().flat_map(|base| {
            let folder = Path::new(&base.file).parent().unwrap_or(Path::new(""));
            let traces = base.traces.kept.iter();
            let traces = traces
                .map(move |(file, text)| (folder.join(file).display().to_string(), text.as_str()));
            std::iter::once((base.file.clone(), base.text.as_str())).chain(traces)
        })
    }

    /// Keeps the trace files that the keys of the sweep name. What cannot be read fails with the
    /// case that wants it.
    fn keep_traces(&mut self) {
        let mut names = Vec::new();
        for Setting { key, value, .. } in &self.grid {
            value.iter().for_each(|value| values::files(key, value, &mut names));
        }
        for Setting { key, value, .. } in self.random.iter().flat_map(|random| &random.keys) {
            value.constants(key, &mut |key, value| values::files(key, value, &mut names));
        }
        for base in &mut self.scenarios {
            base.traces.keep(&names);
        }
    }

    /// How many runs it makes; never zero.
    #[expect(clippy::len_without_is_empty, reason = "a sweep is never empty")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// How many runs there are without those of schemes whose path is left out.
    fn exact_len(&self) -> usize {
        match self.is_uneven() {
            true => (0..self.variants()).map(|number| self.runs_of(number)).sum(),
            false => self.count().unwrap_or(0),
        }
    }

    /// Whether some scenarios have fewer schemes than others: where the number of paths is swept, or where
    /// a scheme takes one path that not all have.
    fn is_uneven(&self) -> bool {
        self.leaves_paths_out() || self.scenarios.iter().any(|base| !base.elsewhere.is_empty())
    }

    /// Whether the number of paths is swept.
    fn leaves_paths_out(&self) -> bool {
        let swept = self.grid.iter().map(|setting| &setting.key);
        swept.chain(self.random.iter().flat_map(Random::keys)).any(|key| key == PATHS)
    }

    /// How many runs the scenario of that number has.
    fn runs_of(&self, number: usize) -> usize {
        let schemes = if self.leaves_paths_out() {
            let choice = self.choice(number);
            let mut without = choice.base.elsewhere.clone();
            if let Some((value, _)) = choice.paths() {
                without
                    .extend(edit::keep(&mut choice.base.table.clone(), value).unwrap_or_default());
            }
            self.schemes_without(&without).count()
        } else {
            // Scenarios change slowest.
            let base = &self.scenarios[number / (self.variants() / self.scenarios.len())];
            self.schemes_without(&base.elsewhere).count()
        };
        schemes * self.congestions.len() * self.seeds.len()
    }

    /// How many scenarios it makes.
    fn variants(&self) -> usize {
        let per_scenario = self.schemes.len() * self.congestions.len() * self.seeds.len();
        self.count().unwrap_or(0) / per_scenario
    }

    /// The schemes that need none of those paths.
    fn schemes_without(&self, paths: &[String]) -> impl Iterator<Item = &Scheme> {
        let lacks =
            |scheme: &&Scheme| scheme.path().is_none_or(|path| !paths.iter().any(|p| p == path));
        self.schemes.iter().filter(lacks)
    }

    /// The most there can be.
    fn count(&self) -> Option<usize> {
        let lists = [self.scenarios.len(), self.schemes.len(), self.congestions.len()];
        let grid = self.grid.iter().map(|setting| setting.value.len());
        let runs = self.random.as_ref().map_or(1, |random| random.runs as usize);
        let counts = lists.into_iter().chain(grid).chain([self.seeds.len(), runs]);
        counts.into_iter().try_fold(1_usize, usize::checked_mul)
    }

    /// The runs, in an order that depends on the file alone: scenario, random draw, grid, seed,
    /// congestion control, scheme, the last fastest. A case that its scenario does not allow is an
    /// error, and the others go on.
    pub fn cases(&self) -> impl Iterator<Item = Result<Case, ScenarioError>> + '_ {
        self.cases_in(0..self.len)
    }

    /// Those of the [`cases`](Self::cases) whose places are in `range`; only these are built.
    pub fn cases_in(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = Result<Case, ScenarioError>> + '_ {
        let mut next = 0;
        let numbers = (0..self.variants()).map(move |number| {
            let first = next;
            next += self.runs_of(number);
            (number, first..next)
        });
        let wanted = range.clone();
        // One that no scheme runs over is nothing to build, and cannot be wrong.
        let numbers = numbers.filter(|(_, places)| !places.is_empty());
        let numbers = numbers.skip_while(move |(_, places)| places.end <= wanted.start);
        let numbers = numbers.take_while(move |(_, places)| places.start < range.end);
        numbers.flat_map(move |(number, places)| match self.variant(number) {
            Ok(variant) => {
                let within = range.start.max(places.start)..range.end.min(places.end);
                let runs = self.runs(places.start, &variant);
                let runs = runs.into_iter().skip(within.start - places.start).take(within.len());
                runs.collect()
            }
            // One error stands for all runs of a variant that cannot be built.
            Err(error) => vec![Err(error)],
        })
    }

    /// What the scenario of that number is made of.
    fn choice(&self, number: usize) -> Choice<'_> {
        let mut rest = number;
        let mut digit = |base: usize| {
            let digit = rest % base;
            rest /= base;
            digit
        };
        let grid = self.grid.iter().rev().map(|Setting { key, value, line }| {
            (key.as_str(), value[digit(value.len())].clone(), *line)
        });
        let mut settings: Vec<_> = grid.collect();
        settings.reverse();
        let draw = self.random.as_ref().map_or(0, |random| digit(random.runs as usize) as u64);
        let base = &self.scenarios[digit(self.scenarios.len())];
        if let Some(random) = &self.random {
            settings.extend(random.keys.iter().map(|Setting { key, value, line }| {
                let stream = format!("sweep/{draw}/{key}");
                (key.as_str(), value.draw(&mut Rng::stream(random.seed, &stream)), *line)
            }));
        }
        Choice { base, draw, settings }
    }

    /// The scenario of that number, with what is set for it.
    fn variant(&self, number: usize) -> Result<Variant, ScenarioError> {
        let choice = self.choice(number);
        let mut table = choice.base.table.clone();
        let mut case = BTreeMap::new();
        if self.random.is_some() {
            case.insert("draw".to_owned(), choice.draw.to_string());
        }
        let fixed = self.fixed.iter().map(|s| (s.key.as_str(), &s.value, s.line));
        let chosen = choice.settings.iter().map(|(key, value, line)| (*key, value, *line));
        for (key, value, _) in chosen.clone() {
            values::describe(key, value, &mut case);
        }
        for (key, value, line) in fixed.chain(chosen).filter(|(key, ..)| *key != PATHS) {
            let set = edit::set(&mut table, key, value.clone());
            set.map_err(|error| self.wrong(line, &error))?;
        }
        let mut without = Vec::new();
        if let Some((value, line)) = choice.paths() {
            without = edit::keep(&mut table, value).map_err(|error| self.wrong(line, &error))?;
            case.retain(|key, _| !without.iter().any(|path| edit::is_of_path(key, path)));
        }
        without.extend_from_slice(&choice.base.elsewhere);
        let scenario = self.read(&table, &choice.base.traces)?;
        Ok(Variant { scenario, case, draw: choice.draw, without })
    }

    /// Reads the edited scenario. An error is put where the sweep set the key that it names.
    fn read(&self, table: &Toml, traces: &Traces) -> Result<Scenario, ScenarioError> {
        let text = table.to_string();
        let read = Scenario::parse("", &text, &|trace| traces.load(trace));
        read.map_err(|error| match error {
            ScenarioError::Invalid { file, message, .. } if file.is_empty() => {
                let settings = self.grid.iter().map(|setting| (&setting.key, setting.line));
                let drawn = self.random.iter().flat_map(|random| &random.keys);
                let settings = settings.chain(drawn.map(|drawn| (&drawn.key, drawn.line)));
                let settings = settings.chain(self.fixed.iter().map(|s| (&s.key, s.line)));
                let mut named = settings.filter(|(key, _)| edit::names(table, key, &message));
                let line = named.next().map_or(1, |(_, line)| line);
                self.wrong(line, &message)
            }
            other => other,
        })
    }

    fn wrong(&self, line: usize, message: &str) -> ScenarioError {
        let file = self.file.clone();
        ScenarioError::Invalid { file, line, message: message.to_owned() }
    }

    /// The runs of a scenario; the first has that place in the sweep.
    fn runs(&self, first: usize, variant: &Variant) -> Vec<Result<Case, ScenarioError>> {
        let schemes = || self.schemes_without(&variant.without);
        let of_seed = |&seed: &u64| {
            let controls = self.congestions.iter();
            let runs = controls.flat_map(move |&control| schemes().map(move |s| (control, s)));
            runs.map(move |(congestion, scheme)| (seed, congestion, scheme))
        };
        let runs = self.seeds.iter().flat_map(of_seed).enumerate();
        runs.map(|(run, (seed, congestion, scheme))| {
            let Variant { scenario, case, draw, .. } = variant;
            scenario.connections(scheme, congestion).map_err(|error| {
                let message = format!("key 'scheme': {scheme} over {}: {error}", scenario.name);
                self.wrong(self.scheme_line, &message)
            })?;
            Ok(Case {
                index: first + run,
                scenario: scenario.clone(),
                scheme: scheme.clone(),
                congestion,
                seed: seed.wrapping_add(*draw),
                case: case.clone(),
            })
        })
        .collect()
    }
}

impl Choice<'_> {
    /// How many paths there are, if that is set, and in which line.
    fn paths(&self) -> Option<(&toml::Value, usize)> {
        let mut settings = self.settings.iter();
        settings.find(|(key, ..)| *key == PATHS).map(|(_, value, line)| (value, *line))
    }
}

impl Random {
    fn read(mut table: Table<'_>) -> Result<Self, ScenarioError> {
        let runs = table.need("runs", "runs = 100")?.whole(1, MAX_CASES as u64)?;
        let seed = table.take("seed").map_or(Ok(1), |value| value.whole(0, i64::MAX as u64))?;
        let mut keys = Vec::new();
        let example = "a table [random.set] with \"path.wifi.rate\" = [\"5Mbps\", \"50Mbps\"]";
        for (key, value) in settings(table.need("set", example)?)? {
            keys.push(Setting { key, line: value.line(), value: Drawn::read(value)? });
        }
        table.finish()?;
        Ok(Self { runs, seed, keys })
    }

    fn keys(&self) -> impl Iterator<Item = &String> {
        self.keys.iter().map(|setting| &setting.key)
    }
}

impl Base {
    fn find(value: &Value<'_>, place: Place<'_>) -> Result<Self, ScenarioError> {
        let name = value.text()?;
        if let Some(Builtin { name, text }) = BUILTIN.iter().find(|builtin| builtin.name == name) {
            let file = format!("{name}.toml");
            return Self::parse(&file, &file, (*text).to_owned(), Folder::BuiltIn);
        }
        let path = match place {
            Place::Disk(folder) if name.ends_with(".toml") => folder.join(name),
            Place::Texts(texts) if texts.contains_key(name) => {
                let folder = Path::new(name).parent().unwrap_or(Path::new("")).to_owned();
                let folder = Folder::Texts(Arc::clone(texts), folder);
                return Self::parse(name, name, texts[name].clone(), folder);
            }
            _ => {
                let known = BUILTIN.iter().map(|builtin| builtin.name).collect::<Vec<_>>();
                return Err(value.error(format!(
                    "there is no scenario '{name}'; known: {}; or name a .toml file",
                    known.join(", ")
                )));
            }
        };
        let text = read_bounded(&path)
            .map_err(|error| value.error(format!("cannot read {}: {error}", path.display())))?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Self::parse(&path.display().to_string(), name, text, Folder::Disk(folder))
    }

    /// Reads the scenario as it stands, for its own errors with their lines. `path` is what these
    /// call the file, `file` what the sweep calls it.
    fn parse(path: &str, file: &str, text: String, folder: Folder) -> Result<Self, ScenarioError> {
        let mut traces = Traces { folder, kept: BTreeMap::new() };
        let mut scenario = Scenario::parse(path, &text, &|trace| traces.load(trace))?;
        let files = scenario.trace_files_mut();
        traces.kept =
            files.map(|trace| (trace.file.clone().into(), trace.text.to_string())).collect();
        let table = text.parse::<Toml>().expect("it has just been read as TOML");
        Ok(Self { file: file.to_owned(), text, table, traces, elsewhere: Vec::new() })
    }

    /// The name that the records of its runs have.
    fn name(&self) -> Option<&str> {
        self.table.get("name")?.as_str()
    }
}

/// With the paths of schemes that others of them have.
fn with_elsewhere(mut scenarios: Vec<Base>, schemes: &[Scheme]) -> Vec<Base> {
    let paths: Vec<&str> = schemes.iter().filter_map(Scheme::path).collect();
    let is_anywhere = |path: &&&str| scenarios.iter().any(|base| base.has_path(path));
    let there: Vec<&str> = paths.iter().filter(is_anywhere).copied().collect();
    for base in &mut scenarios {
        let lacked = there.iter().filter(|path| !base.has_path(path));
        base.elsewhere = lacked.map(|&path| path.to_owned()).collect();
    }
    scenarios
}

/// The scenarios of a sweep. A name that two of them have would make one run of two.
fn bases(values: &[Value<'_>], place: Place<'_>) -> Result<Vec<Base>, ScenarioError> {
    let mut bases: Vec<Base> = Vec::new();
    for value in values {
        let base = Base::find(value, place)?;
        if let Some(other) = bases.iter().find(|other| other.name() == base.name()) {
            let name = base.name().unwrap_or_default();
            return Err(value.error(match other.file == base.file {
                true => "is listed twice".to_owned(),
                false => format!(
                    "has the name '{name}' in it, as '{}' has; give it one of its own",
                    other.file
                ),
            }));
        }
        bases.push(base);
    }
    Ok(bases)
}

impl Traces {
    fn keep(&mut self, names: &[PathBuf]) {
        for name in names {
            if let Ok(text) = self.load(name) {
                self.kept.insert(name.clone(), text);
            }
        }
    }

    fn load(&self, trace: &Path) -> io::Result<String> {
        match (self.kept.get(trace), &self.folder) {
            (Some(text), _) => Ok(text.clone()),
            (None, Folder::BuiltIn) => builtin::trace(trace),
            (None, Folder::Disk(folder)) => read_bounded(&folder.join(trace)),
            (None, Folder::Texts(texts, folder)) => {
                let text = texts.get(&folder.join(trace).display().to_string());
                text.cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
            }
        }
    }
}

/// The names of a list, or a single one, each once.
fn names<T: std::str::FromStr<Err: std::fmt::Display> + PartialEq>(
    value: Value<'_>,
) -> Result<Vec<T>, ScenarioError> {
    let mut names = Vec::new();
    for value in value.one_or_more()? {
        let name = value.parse()?;
        if names.contains(&name) {
            return Err(value.error("is listed twice"));
        }
        names.push(name);
    }
    Ok(names)
}

/// `3`, `[1, 2, 3]` or `{ from = 1, to = 3 }`.
fn read_seeds(value: Value<'_>) -> Result<Vec<u64>, ScenarioError> {
    let largest = i64::MAX as u64;
    if !value.is_table() {
        let twice = value.error("has a seed twice");
        let mut seeds: Vec<u64> = Vec::new();
        for seed in value.one_or_more()? {
            let seed = seed.whole(0, largest)?;
            if seeds.contains(&seed) {
                return Err(twice);
            }
            seeds.push(seed);
        }
        return Ok(seeds);
    }
    let mut table = value.table()?;
    let from = table.need("from", "from = 1")?.whole(0, largest)?;
    let to = table.need("to", "to = 5")?;
    let to = to.whole(from, from.saturating_add(MAX_VALUES - 1).min(largest))?;
    table.finish()?;
    Ok((from..=to).collect())
}

/// The keys and values of a `set` table.
fn settings(value: Value<'_>) -> Result<Vec<(String, Value<'_>)>, ScenarioError> {
    let entries = value.table()?.entries();
    for (key, value) in &entries {
        if key == "name" {
            return Err(value.error("a sweep does not rename scenarios"));
        }
        if !key.contains('.') && matches!(key.as_str(), "path" | "flow" | "workload") {
            let like = match key.as_str() {
                "workload" => "workload.kind",
                _ => "path.wifi.rate",
            };
            let message = format!("wants a key of it in quotation marks, like \"{like}\"");
            return Err(value.error(message));
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
