//! What stands in the pages of the documentation: links, headings, commands.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A page, with its path below the repository.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Something that stands in a page.
#[derive(Debug)]
pub(crate) struct Quoted {
    pub(crate) text: String,
    /// The line, from 1 on.
    pub(crate) line: usize,
}

/// Every Markdown file of these folders and files.
pub(crate) fn documents(places: &[&str]) -> Vec<Document> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for place in places {
        let place = root.join(place);
        assert!(place.exists(), "{}", place.display());
        collect(place, &mut paths);
    }
    paths.sort();
    let read = |path: PathBuf| Document {
        text: fs::read_to_string(&path).unwrap(),
        path: path.strip_prefix(root).unwrap().to_owned(),
    };
    paths.into_iter().map(read).collect()
}

fn collect(path: PathBuf, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap();
        entries.for_each(|entry| collect(entry.unwrap().path(), found));
    } else if path.extension().is_some_and(|extension| extension == "md") {
        found.push(path);
    }
}

impl Document {
    fn events(&self) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
        Parser::new_ext(&self.text, Options::ENABLE_TABLES).into_offset_iter()
    }

    fn line(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }

    /// Where its links and pictures lead.
    pub(crate) fn links(&self) -> Vec<Quoted> {
        let leads = |(event, range): (Event<'_>, Range<usize>)| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(Quoted {
                    text: dest_url.into_string(),
                    line: self.line(range.start),
                })
            }
            _ => None,
        };
        self.events().filter_map(leads).collect()
    }

    /// The anchors of its headings, as code hosts and mdBook name them.
    pub(crate) fn anchors(&self) -> HashSet<String> {
        let mut anchors = HashSet::new();
        let mut heading: Option<String> = None;
        for (event, _) in self.events() {
            match (event, &mut heading) {
                (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
                (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(&text),
                (Event::End(TagEnd::Heading(_)), Some(text)) => {
                    let name = anchor(text);
                    let taken = |name: &String| anchors.contains(name);
                    let numbered = (1..).map(|number| format!("{name}-{number}"));
                    let free = std::iter::once(name.clone())
                        .chain(numbered)
                        .find(|name| !taken(name));
                    anchors.extend(free);
                    heading = None;
                }
                _ => {}
            }
        }
        anchors
    }

    /// What is typed: the lines of a block for a console that begin with a prompt, without it.
    pub(crate) fn typed(&self) -> Vec<Quoted> {
        let mut typed = Vec::new();
        let mut in_console = false;
        for (event, range) in self.events() {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(kind))) => {
                    in_console = &*kind == "console"
                }
                Event::End(TagEnd::CodeBlock) => in_console = false,
                Event::Text(text) if in_console => {
                    let first = self.line(range.start);
                    let prompts = |(number, line): (usize, &str)| {
                        let text = line
                            .strip_prefix("$ ")
                            .or_else(|| line.strip_prefix("# "))?
                            .to_owned();
                        Some(Quoted {
                            text,
                            line: first + number,
                        })
                    };
                    typed.extend(text.lines().enumerate().filter_map(prompts));
                }
                _ => {}
            }
        }
        typed
    }

    /// The blocks of code of a language.
    pub(crate) fn blocks(&self, language: &str) -> Vec<Quoted> {
        let mut blocks: Vec<Quoted> = Vec::new();
        let mut inside = false;
        for (event, range) in self.events() {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(kind))) => {
                    inside = &*kind == language;
                    if inside {
                        let (text, line) = (String::new(), self.line(range.start) + 1);
                        blocks.push(Quoted { text, line });
                    }
                }
                Event::End(TagEnd::CodeBlock) => inside = false,
                Event::Text(text) if inside => blocks.last_mut().unwrap().text.push_str(&text),
                _ => {}
            }
        }
        blocks
    }

    /// What is no Markdown: a code host takes it for a tag, and shows nothing of it.
    pub(crate) fn tags(&self) -> Vec<Quoted> {
        let tag = |(event, range): (Event<'_>, Range<usize>)| match event {
            Event::InlineHtml(text) | Event::Html(text)
                if !text.starts_with("<!--") && &*text != "<br>" =>
            {
                Some(Quoted {
                    text: text.into_string(),
                    line: self.line(range.start),
                })
            }
            _ => None,
        };
        self.events().filter_map(tag).collect()
    }

    /// Code within a line.
    pub(crate) fn code(&self) -> Vec<Quoted> {
        let code = |(event, range): (Event<'_>, Range<usize>)| match event {
            Event::Code(text) => Some(Quoted {
                text: text.into_string(),
                line: self.line(range.start),
            }),
            _ => None,
        };
        self.events().filter_map(code).collect()
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() || letter == '-' || letter == '_' => Some(letter),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// The commands of a line, each as its words: what a shell would run, but for redirections. A comment ends the line.
pub(crate) fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let opens = letter == '$' && letters.peek() == Some(&'(');
        match (quote, letter) {
            (Some('"') | None, _) if opens => {
                // What stands in `$(…)` is a command of its own.
                letters.next();
                quote = None;
                commands.last_mut().unwrap().extend(word.take());
                commands.push(Vec::new());
            }
            (Some(mark), letter) if mark == letter => quote = None,
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ';' | '&' | '|' | '(' | ')') => {
                commands.last_mut().unwrap().extend(word.take());
                commands.push(Vec::new());
            }
            (None, '>' | '<') => {
                // A descriptor (2>) is no word, nor is the file.
                word.take_if(|word| word.chars().all(|letter| letter.is_ascii_digit()));
                commands.last_mut().unwrap().extend(word.take());
                while letters
                    .next_if(|letter| matches!(letter, '>' | ' '))
                    .is_some()
                {}
                while letters
                    .next_if(|letter| !matches!(letter, ' ' | ';' | '|' | ')'))
                    .is_some()
                {}
            }
            (None, letter) if letter.is_whitespace() => {
                commands.last_mut().unwrap().extend(word.take())
            }
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    commands.last_mut().unwrap().extend(word);
    commands.retain(|command| command.iter().any(|word| !word.is_empty()));
    commands
}
