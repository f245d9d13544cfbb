//! Commands whose effect is known: they create directories, change owners and permissions, or only read. All others may
//! write files.
//!
//! This is no shell: it splits a text into simple commands (words, redirections, the text behind `<<`) and looks at each.
//! A text that it cannot split counts as unclear.

use super::named;

/// Programs that write no file, and change no content. With an output redirected into a directory they do.
const HARMLESS: [&str; 42] = [
    "[",
    "[[",
    "awk",
    "basename",
    "cat",
    "chcon",
    "chgrp",
    "chmod",
    "chown",
    "cmp",
    "cut",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "false",
    "file",
    "getfacl",
    "grep",
    "head",
    "ls",
    "md5sum",
    "mkdir",
    "namei",
    "printf",
    "readlink",
    "realpath",
    "restorecon",
    "semanage",
    "setfacl",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "sync",
    "tail",
    "test",
    "tree",
    "true",
    "uniq",
    "wc",
];
/// Words before a command.
const KEYWORDS: [&str; 13] = [
    "!", "do", "done", "elif", "else", "esac", "fi", "if", "then", "time", "until", "while", "{",
];
const SHELLS: [&str; 6] = ["ash", "bash", "dash", "ksh", "sh", "zsh"];

/// Where a text first does something unclear in a directory that Windrow checks: the line, counted from 1, and the
/// directory.
pub(crate) fn unclear(text: &str) -> Option<(u32, &'static str)> {
    let found = named(text)?;
    if !is_shell(text) {
        return Some(found);
    }
    let Some(commands) = split(text) else {
        return Some(found);
    };
    // A later command may act on what an earlier one prints, or on its last word.
    let passes_on = text.replace("||", "").contains('|') || text.contains("$_");
    let acts = |command: &SimpleCommand| {
        let Some((program, arguments)) = command.arguments().split_first() else {
            return false;
        };
        let names = command.words.iter().any(|word| word.named().is_some());
        // What `tee` gets goes into the files of its own words.
        !names
            && base(&program.text) != "tee"
            && !matches!(is_harmless(base(&program.text), arguments), Effect::None)
    };
    if passes_on && commands.iter().any(acts) {
        return Some(found);
    }
    commands.iter().find_map(SimpleCommand::unclear)
}

/// Like [`unclear`] for the words of one command.
pub(crate) fn unclear_words(words: &[&str]) -> Option<&'static str> {
    let words = words.iter().map(|word| Word {
        line: 1,
        text: (*word).to_owned(),
    });
    let command = SimpleCommand {
        words: words.collect(),
        ..SimpleCommand::default()
    };
    Some(command.unclear()?.1)
}

/// Whether a script is for a shell, as far as its first line says.
fn is_shell(text: &str) -> bool {
    let Some(line) = text.lines().next().and_then(|line| line.strip_prefix("#!")) else {
        return true;
    };
    let mut words = line.split_whitespace().map(base);
    words.any(|word| SHELLS.contains(&word))
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[derive(Debug, Clone, Default)]
struct Word {
    line: u32,
    text: String,
}

impl Word {
    fn named(&self) -> Option<(u32, &'static str)> {
        Some((self.line, named(&self.text)?.1))
    }
}

#[derive(Debug, Default)]
struct SimpleCommand {
    words: Vec<Word>,
    /// Files to which its output goes.
    outputs: Vec<Word>,
    /// Texts behind `<<`.
    inputs: Vec<Word>,
}

impl SimpleCommand {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.outputs.is_empty()
    }

    fn unclear(&self) -> Option<(u32, &'static str)> {
        let written = self.outputs.iter().chain(&self.inputs);
        if let Some(found) = written.filter_map(Word::named).next() {
            return Some(found);
        }
        let arguments = self.arguments();
        let mut all = self.words.iter().filter_map(Word::named);
        let found = all.next()?;
        let Some((program, arguments)) = arguments.split_first() else {
            return Some(found);
        };
        // A value or a command inside another one.
        let before = self.words.len() - arguments.len();
        let set = self.words[..before].iter().filter_map(Word::named).next();
        let nested = |word: &&Word| word.text.contains("$(") || word.text.contains('`');
        let nested = self
            .words
            .iter()
            .filter(nested)
            .filter_map(Word::named)
            .next();
        if let Some(found) = set.or(nested) {
            return Some(found);
        }
        match is_harmless(base(&program.text), arguments) {
            Effect::None => None,
            Effect::Unclear => Some(found),
            Effect::Script(at) => {
                let script = &arguments[at];
                let (line, directory) = unclear(&script.text)?;
                Some((script.line + line - 1, directory))
            }
        }
    }

    /// The program and its arguments, without the words before them.
    fn arguments(&self) -> &[Word] {
        let mut rest = &self.words[..];
        while let Some((word, behind)) = rest.split_first() {
            let text = word.text.as_str();
            rest = match base(text) {
                _ if KEYWORDS.contains(&text) || is_assignment(text) => behind,
                "command" | "exec" | "nohup" => behind,
                "sudo" | "timeout" | "nice" | "env" => without_options(base(text), behind),
                _ => return rest,
            };
        }
        rest
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let mut chars = name.chars();
        chars
            .next()
            .is_some_and(|ch| ch.is_ascii_alphabetic() || ch == '_')
            && chars.all(|ch| ch.is_ascii_alphanumeric() || ch == '_')
    })
}

/// The words behind the options of a program that runs another one.
fn without_options<'w>(program: &str, mut words: &'w [Word]) -> &'w [Word] {
    while let Some((word, behind)) = words.split_first() {
        let has_value = matches!(word.text.as_str(), "-u" | "-g" | "-n" | "-k" | "-s")
            && !(program == "sudo" && word.text == "-n");
        words = match word.text.starts_with('-') {
            true if has_value => behind.get(1..).unwrap_or_default(),
            true => behind,
            false => break,
        };
    }
    match program {
        "timeout" => words.get(1..).unwrap_or_default(),
        _ => words,
    }
}

enum Effect {
    None,
    Unclear,
    /// The argument with this number is a script.
    Script(usize),
}

fn is_harmless(program: &str, arguments: &[Word]) -> Effect {
    let has = |option: &str| arguments.iter().any(|word| word.text == option);
    let begins = |option: &str| arguments.iter().any(|word| word.text.starts_with(option));
    let mut operands = arguments.iter().filter(|word| !word.text.starts_with('-'));
    let is_last_named = operands
        .next_back()
        .is_some_and(|last| last.named().is_some());
    let names_target = arguments.iter().any(|word| {
        let option = word.text.as_str();
        option.starts_with("--target-directory")
            || (option.starts_with('-') && !option.starts_with("--") && option.contains('t'))
    });
    let is_harmless = match program {
        _ if SHELLS.contains(&program) => {
            let is_script = |word: &Word| {
                word.text.starts_with('-')
                    && !word.text.starts_with("--")
                    && word.text.ends_with('c')
            };
            return match arguments.iter().position(is_script) {
                Some(at) if at + 1 < arguments.len() => Effect::Script(at + 1),
                _ => Effect::Unclear,
            };
        }
        // A marker hides a manifest from RKE2. A new file is empty.
        "touch" => !arguments.iter().any(|word| word.text.ends_with(".skip")),
        "install" => has("-d") || has("--directory") || begins("-d") || begins("-vd"),
        // The directory is only read.
        "cp" | "rsync" => !is_last_named && !names_target,
        "find" => {
            let acts = [
                "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprintf", "-fls",
            ];
            !acts.iter().any(|act| has(act))
        }
        "sed" => !arguments.iter().any(|word| {
            word.text.starts_with("--in-place")
                || (word.text.starts_with('-')
                    && !word.text.starts_with("--")
                    && word.text.contains('i'))
        }),
        "sort" | "tree" => !begins("-o") && !begins("--output"),
        "awk" => !arguments
            .iter()
            .any(|word| word.text.contains('>') || word.text.contains("inplace")),
        _ => HARMLESS.contains(&program),
    };
    match is_harmless {
        true => Effect::None,
        false => Effect::Unclear,
    }
}

/// The meaning of the next word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Word,
    Output,
    Input,
    /// The end of the text behind `<<`; with `true` its lines may begin with tabs.
    Delimiter(bool),
}

struct Splitter {
    commands: Vec<SimpleCommand>,
    command: SimpleCommand,
    word: Option<Word>,
    next: Next,
    /// Ends of the texts that begin in the next line.
    delimiters: Vec<(String, bool)>,
}

impl Splitter {
    fn end_word(&mut self) {
        let Some(word) = self.word.take() else {
            return;
        };
        match std::mem::replace(&mut self.next, Next::Word) {
            Next::Word => self.command.words.push(word),
            Next::Output => self.command.outputs.push(word),
            Next::Input => {}
            Next::Delimiter(tabs) => self.delimiters.push((word.text, tabs)),
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        if !self.command.is_empty() {
            self.commands.push(std::mem::take(&mut self.command));
        }
    }

    fn push(&mut self, line: u32, text: &str) {
        let word = self.word.get_or_insert_with(|| Word {
            line,
            text: String::new(),
        });
        word.text.push_str(text);
    }
}

/// The simple commands of a text; `None` if a quotation has no end.
fn split(text: &str) -> Option<Vec<SimpleCommand>> {
    let mut splitter = Splitter {
        commands: Vec::new(),
        command: SimpleCommand::default(),
        word: None,
        next: Next::Word,
        delimiters: Vec::new(),
    };
    let mut line = 1;
    let mut rest = text;
    while let Some(ch) = rest.chars().next() {
        let mut taken = ch.len_utf8();
        match ch {
            '\n' => {
                splitter.end_word();
                let behind = &rest[1..];
                let read = texts(&mut splitter, behind, line + 1);
                splitter.end_command();
                taken += read;
            }
            ' ' | '\t' | '\r' => splitter.end_word(),
            '#' if splitter.word.is_none() => taken = rest.find('\n').unwrap_or(rest.len()),
            '\\' => match rest[1..].chars().next() {
                Some('\n') => taken = 2,
                Some(escaped) => {
                    taken += escaped.len_utf8();
                    splitter.push(line, &rest[1..taken]);
                }
                None => {}
            },
            '\'' => {
                let end = rest[1..].find('\'')?;
                splitter.push(line, &rest[1..=end]);
                taken = end + 2;
            }
            '"' => taken = double_quoted(&mut splitter, rest, line)?,
            '$' if rest.starts_with("$(") => {
                taken = closing(rest)?;
                splitter.push(line, &rest[..taken]);
            }
            '`' => {
                taken = rest[1..].find('`')? + 2;
                splitter.push(line, &rest[..taken]);
            }
            '&' if rest.starts_with("&>") => splitter.end_word(),
            ';' | '&' | '|' | '(' | ')' => splitter.end_command(),
            '>' | '<' => taken = redirection(&mut splitter, rest),
            _ => splitter.push(line, &rest[..taken]),
        }
        let breaks = rest[..taken].matches('\n').count();
        line += u32::try_from(breaks).unwrap_or_default();
        rest = &rest[taken..];
    }
    splitter.end_command();
    Some(splitter.commands)
}

/// A text in double quotation marks: its length.
fn double_quoted(splitter: &mut Splitter, rest: &str, line: u32) -> Option<usize> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    loop {
        match chars.next()? {
            (at, '"') => {
                splitter.push(line, &text);
                return Some(at + 1);
            }
            (_, '\\') => match chars.next()? {
                (_, '\n') => {}
                (_, escaped) => text.push(escaped),
            },
            (_, ch) => text.push(ch),
        }
    }
}

/// The length of `$(…)`.
fn closing(rest: &str) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, ch) in rest.char_indices() {
        match ch {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(at + 1),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A redirection: its length without the word behind it.
fn redirection(splitter: &mut Splitter, rest: &str) -> usize {
    // The number of the file descriptor.
    let is_number = |word: &Word| word.text.bytes().all(|byte| byte.is_ascii_digit());
    match splitter.word.take_if(|word| is_number(word)) {
        Some(_) => {}
        None => splitter.end_word(),
    }
    let (length, next) = if rest.starts_with("<<<") {
        (3, Next::Word)
    } else if rest.starts_with("<<-") {
        (3, Next::Delimiter(true))
    } else if rest.starts_with("<<") {
        (2, Next::Delimiter(false))
    } else if ["<>", ">>", ">|", ">&"]
        .iter()
        .any(|begin| rest.starts_with(begin))
    {
        (2, Next::Output)
    } else if rest.starts_with('>') {
        (1, Next::Output)
    } else {
        (1, Next::Input)
    };
    splitter.next = next;
    length
}

/// The texts behind `<<`, which begin in this line: their length.
fn texts(splitter: &mut Splitter, behind: &str, mut line: u32) -> usize {
    let mut read = 0;
    for (end, tabs) in std::mem::take(&mut splitter.delimiters) {
        let mut body = Word {
            line,
            text: String::new(),
        };
        for part in behind[read..].split_inclusive('\n') {
            read += part.len();
            line += 1;
            let bare = part.trim_end_matches(['\n', '\r']);
            let bare = if tabs {
                bare.trim_start_matches('\t')
            } else {
                bare
            };
            if bare == end {
                break;
            }
            body.text.push_str(part);
        }
        if let Some((number, _)) = named(&body.text) {
            body.line += number - 1;
        }
        splitter.command.inputs.push(body);
    }
    read
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
