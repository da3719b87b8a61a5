//! Markdown as the documents use it: fenced blocks with their marks, links, headings, code spans.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A document, with its code blocks taken out of the prose.
pub(crate) struct Document {
    /// Relative to the repository.
    pub(crate) name: String,
    pub(crate) blocks: Vec<Block>,
    /// Line number and text of each line outside code blocks and comments.
    pub(crate) prose: Vec<(usize, String)>,
}

/// A fenced block.
pub(crate) struct Block {
    /// Line of its opening fence.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) mark: Mark,
    pub(crate) text: String,
}

/// What the HTML comment on the line before a block says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    None,
    /// `<!-- run … -->`
    Run(Run),
    /// `<!-- file: NAME -->`: written to the document's directory before what follows is run.
    File(String),
    /// `<!-- not run: REASON -->`.
    NotRun,
}

/// How a block is run: where, and with what in place of what it shows. `20s => 1s` after a semicolon
/// makes a long run a short one; there may be several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) place: Place,
    pub(crate) replaced: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `run`: in the document's own directory.
    Own,
    /// `run: as root`: there, too, but only if the tests are root's.
    Root,
    /// `run: from the sources`: there, too; the repository's files are found in it.
    Sources,
    /// `run: two machines`: each command on the machine that its prompt names.
    Machines,
}

impl Mark {
    fn parse(comment: &str) -> Option<Self> {
        let said = comment.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim();
        match said.split_once(": ") {
            Some(("file", name)) => return Some(Self::File(name.to_owned())),
            Some(("not run", reason)) => return (reason.len() > 3).then_some(Self::NotRun),
            _ => {}
        }
        let mut parts = said.split("; ");
        let place = match parts.next()? {
            "run" => Place::Own,
            "run: as root" => Place::Root,
            "run: from the sources" => Place::Sources,
            "run: two machines" => Place::Machines,
            _ => return None,
        };
        let replaced = parts.map(|part| {
            let (shown, run) = part.split_once(" => ")?;
            Some((shown.to_owned(), run.to_owned()))
        });
        Some(Self::Run(Run { place, replaced: replaced.collect::<Option<_>>()? }))
    }

    /// Where the block is run, if it is.
    pub(crate) fn place(&self) -> Option<Place> {
        if let Self::Run(run) = self { Some(run.place) } else { None }
    }
}

/// The documents that readers are given.
pub(crate) fn documents() -> Vec<Document> {
    let mut names: Vec<String> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
            .map(str::to_owned)
            .into();
    let mut docs: Vec<_> = fs::read_dir(root().join("docs")).unwrap().map(Result::unwrap).collect();
    docs.sort_by_key(fs::DirEntry::file_name);
    let docs = docs.iter().filter_map(|entry| entry.file_name().into_string().ok());
    names.extend(docs.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")));
    names.into_iter().map(Document::read).collect()
}

impl Document {
    fn read(name: String) -> Self {
        let text = fs::read_to_string(root().join(&name)).unwrap();
        let (mut blocks, mut prose) = (Vec::<Block>::new(), Vec::new());
        let (mut inside, mut mark) = (false, Mark::None);
        for (line, text) in text.lines().enumerate().map(|(index, text)| (index + 1, text)) {
            let fence = text.trim_start().strip_prefix("```");
            match (inside, fence) {
                (true, Some(_)) => inside = false,
                (true, None) => {
                    let block = blocks.last_mut().unwrap();
                    block.text += text;
                    block.text.push('\n');
                }
                (false, Some(language)) => {
                    inside = true;
                    let mark = std::mem::replace(&mut mark, Mark::None);
                    let language = language.trim().to_owned();
                    blocks.push(Block { line, language, mark, text: String::new() });
                }
                (false, None) => {
                    assert_eq!(mark, Mark::None, "{name}:{line}: the mark before is of no block");
                    if text.starts_with("<!--") {
                        let found = Mark::parse(text);
                        mark = found.unwrap_or_else(|| {
                            panic!(
                                "{name}:{line}: unknown comment; there are 'run', 'run: two \
                                 machines', 'run: as root', 'run: from the sources', each with \
                                 '; SHOWN => RUN' after it or without, 'file: NAME' and 'not \
                                 run: REASON'"
                            )
                        });
                    } else {
                        let before = prose.last().map_or("", |(_, text): &(_, String)| text);
                        assert!(
                            !(text.starts_with("    ") && before.is_empty()),
                            "{name}:{line}: indented; fence blocks, so that their kind is known"
                        );
                        prose.push((line, text.to_owned()));
                    }
                }
            }
        }
        assert!(!inside, "{name}: the last block has no end");
        Self { name, blocks, prose }
    }

    /// The targets of its links and pictures, each with its line.
    pub(crate) fn links(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (line, text) in &self.prose {
            let text = without_code(text);
            for part in text.split("](").skip(1) {
                let target = part.split([')', ' ']).next().unwrap_or_default();
                found.push((*line, target.to_owned()));
            }
        }
        found
    }

    /// What its inline code says, each with its line.
    pub(crate) fn code_spans(&self) -> Vec<(usize, String)> {
        let spans = |text: &str| -> Vec<String> {
            text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        self.prose
            .iter()
            .flat_map(|(line, text)| spans(text).into_iter().map(|span| (*line, span)))
            .collect()
    }

    /// The anchors of its headings, as GitHub and mdBook make them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let lines = self.prose.iter().filter(|(_, text)| text.starts_with('#'));
        let headings = lines.map(|(_, text)| text.trim_start_matches('#').trim());
        let mut anchors = Vec::<String>::new();
        for heading in headings {
            let shown = shown(heading).to_lowercase();
            let kept = shown.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
            let same = anchors.iter().filter(|one| one.starts_with(&anchor)).count();
            let taken = anchors.contains(&anchor);
            anchors.push(if taken { format!("{anchor}-{same}") } else { anchor });
        }
        anchors
    }
}

/// A line without what stands in back-quotes.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

/// A heading's words: of a link, its text.
fn shown(heading: &str) -> String {
    let mut words = String::new();
    for part in heading.split("](") {
        let rest = if words.is_empty() { part } else { part.split_once(')').map_or("", |p| p.1) };
        words += &rest.replace('[', "");
    }
    words
}
