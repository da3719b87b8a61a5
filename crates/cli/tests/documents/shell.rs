//! Shell blocks as commands, and commands as words.

/// A command of a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// The machine that its prompt names.
    pub(crate) machine: String,
    pub(crate) text: String,
    /// The lines that the block shows after it.
    pub(crate) output: Vec<String>,
}

/// The commands of a `console` block: a prompt (`$`, `#`, `server$`), the command, and what it printed.
///
/// # Errors
/// If the first line has no prompt.
pub(crate) fn console(text: &str) -> Result<Vec<Command>, String> {
    let mut commands = Vec::<Command>::new();
    let mut goes_on = false;
    for line in text.lines() {
        match prompt(line) {
            _ if goes_on => {
                let command = commands.last_mut().expect("a line that goes on");
                command.text = format!("{}\n{line}", command.text);
            }
            Some((machine, text)) => {
                let (machine, text) = (machine.to_owned(), text.to_owned());
                commands.push(Command { machine, text, output: Vec::new() });
            }
            None => {
                let command = commands.last_mut().ok_or("the block begins without a prompt")?;
                command.output.push(line.to_owned());
                continue;
            }
        }
        goes_on = line.ends_with('\\');
    }
    Ok(commands)
}

/// The machine and the command of a line with a prompt.
fn prompt(line: &str) -> Option<(&str, &str)> {
    let at = line.find(['$', '#'])?;
    let (machine, rest) = line.split_at(at);
    let named = machine.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ');
    let command = rest[1..].strip_prefix(' ')?;
    (named && machine.split(' ').count() <= 2).then_some((machine, command.trim_start()))
}

/// The simple commands of a piece of shell, each as its words: without comments, redirections,
/// assignments, and the words before a command that change only how it is run.
pub(crate) fn simple_commands(text: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::<String>::new()];
    let mut word: Option<String> = None;
    let mut skip_word = false;
    let mut chars = text.chars().peekable();
    type Words = Vec<Vec<String>>;
    let end_word = |word: &mut Option<String>, commands: &mut Words, skip: &mut bool| {
        if let Some(word) = word.take()
            && !std::mem::take(skip)
        {
            commands.last_mut().expect("one at least").push(word);
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') | None => end_word(&mut word, &mut commands, &mut skip_word),
                Some(c) => word.get_or_insert_default().push(c),
            },
            '\'' | '"' => {
                let quoted = word.get_or_insert_default();
                quoted.extend(chars.by_ref().take_while(|next| *next != c));
            }
            '#' if word.is_none() => while chars.next_if(|next| *next != '\n').is_some() {},
            '<' | '>' => {
                // The number of a file descriptor belongs to the redirection.
                word = word.filter(|word| word.parse::<u32>().is_err());
                end_word(&mut word, &mut commands, &mut skip_word);
                while chars.next_if(|next| ['<', '>', '&'].contains(next)).is_some() {}
                skip_word = true;
            }
            '\n' | ';' | '&' | '|' | '(' | ')' => {
                end_word(&mut word, &mut commands, &mut skip_word);
                skip_word = false;
                commands.push(Vec::new());
            }
            ' ' | '\t' => end_word(&mut word, &mut commands, &mut skip_word),
            c => word.get_or_insert_default().push(c),
        }
    }
    end_word(&mut word, &mut commands, &mut skip_word);
    let commands = commands.into_iter().map(without_prefix);
    commands.filter(|command| !command.is_empty()).collect()
}

/// A command without `sudo`, `do`, `A=b` and the like before it.
fn without_prefix(mut words: Vec<String>) -> Vec<String> {
    let is_assignment = |word: &str| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let (mut at, mut options) = (0, false);
    while let Some(word) = words.get(at) {
        if ["do", "then", "else", "sudo", "time", "nsenter"].contains(&word.as_str()) {
            options = true;
        } else if !(is_assignment(word) || options && word.starts_with('-')) {
            break;
        }
        at += 1;
    }
    words.split_off(at)
}

/// What stays the same of an output from run to run: its words, with all numbers alike, and all
/// spaces and lines of a table.
pub(crate) fn shape(line: &str) -> String {
    let mut shape = String::new();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_ascii_digit() {
            while chars.next_if(|next| next.is_ascii_digit() || *next == '.').is_some() {}
            shape.push('#');
        } else if c.is_whitespace() || c == '-' || c == '─' {
            if !shape.ends_with(' ') {
                shape.push(' ');
            }
        } else {
            shape.push(c);
        }
    }
    shape.trim().to_owned()
}

/// Whether the lines shown are those printed, number for number alike; a line `…` stands for any
/// number of lines.
pub(crate) fn same_shape(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.iter().all(|line| line.trim().is_empty()),
        Some((first, rest)) if first.trim() == "…" => {
            (0..=printed.len()).any(|at| same_shape(rest, &printed[at..]))
        }
        Some((first, rest)) => {
            let next = printed.split_first();
            next.is_some_and(|(one, more)| shape(one) == shape(first) && same_shape(rest, more))
        }
    }
}

#[test]
fn a_block_is_taken_apart() {
    let text = "server$ a --b \\\n   c\nsays d\nclient# e\n$ f\n\nserver a$ g\n";
    let commands = console(text).unwrap();
    let all: Vec<_> =
        commands.iter().map(|one| (one.machine.as_str(), one.text.as_str())).collect();
    assert_eq!(all, [("server", "a --b \\\n   c"), ("client", "e"), ("", "f"), ("server a", "g")]);
    assert_eq!(commands[0].output, ["says d"]);
    assert!(console("no prompt\n").is_err());
}

#[test]
fn commands_are_found_where_they_stand() {
    let words = |text: &str| -> Vec<String> {
        simple_commands(text).iter().map(|words| words.join(" ")).collect()
    };
    assert_eq!(words("A=1 sudo -E w 'x y' \\\n z # no\nv 2>&1 >out | u &"), ["w x y z", "v", "u"]);
    assert_eq!(
        words("for i in a b; do w $i -o \"$i\"; done"),
        ["for i in a b", "w $i -o $i", "done"]
    );
}

#[test]
fn outputs_are_alike_but_for_numbers() {
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    assert!(same_shape(&lines("a 12.5 ± 3\n…\nend"), &lines("a   7.0 ± 0.1\nx\ny\nend")));
    assert!(!same_shape(&lines("a 12.5"), &lines("b 12.5")));
    assert!(!same_shape(&lines("a"), &lines("a\nb")));
}
