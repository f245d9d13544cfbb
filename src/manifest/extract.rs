//! Manifests out of the files that bring them to a node: a Harvester configuration, cloud-init user
//! data, a yip file.
//!
//! What is wrong inside is told with the line of the *outer* file, as far as it is known.

use std::cell::OnceCell;

pub(crate) use super::file_kind::field;
use super::file_kind::unread;
pub use super::file_kind::{FileKind, kind_of, recognise};
use super::manifest_path::{ManifestPlace, configuration, manifest_place};
use super::{Content, Limits, ManifestFile, Node, Problem, Value, encoding, read};
use super::{split, yaml};
use crate::reasons::Code;

/// What such a file writes below a `server/manifests` directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Extraction {
    /// What kind of file it is.
    pub kind: FileKind,
    /// The files, in the order in which they are written; of two with one path only the last. All
    /// names, not only manifests: a `.skip` marker counts too.
    pub files: Vec<Extracted>,
    /// What is wrong with the outer file.
    pub problems: Vec<Problem>,
    /// What it writes of RKE2's and Windrow's own configuration; each path as on the node.
    pub configuration: Vec<Extracted>,
    /// What is wrong with those. It keeps no manifest from being staged.
    pub configuration_problems: Vec<Problem>,
    /// How many files it writes at all.
    pub written: usize,
}

impl Extraction {
    /// Is it a Harvester configuration, so that the platform is known?
    pub fn is_harvester(&self) -> bool {
        self.kind == FileKind::HarvesterConfig
    }
}

/// One file taken out of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// Path below the manifests directory, with `/`; of configuration the whole path on the node.
    pub path: String,
    /// The data directory above the manifests directory that it is written to; empty for configuration.
    pub data_dir: String,
    /// The line of the outer file that says so.
    pub written_at: u32,
    /// Its bytes, decoded.
    pub content: Vec<u8>,
    /// The outer file, as it was named.
    pub source: String,
    /// Where its lines stand in the outer file.
    pub lines: InnerLines,
    /// Who writes it once the system's units start, in words; `None` where it is there before any of
    /// them.
    pub late: Option<String>,
}

/// How lines of an extracted file map to lines of the outer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InnerLines {
    /// A literal block (`content: |`): its first line is this one, and the others follow.
    Follow {
        /// Line of the outer file, counted from 1.
        first: u32,
    },
    /// Quoted, plain, folded or encoded text: only where it begins is known, and every line inside
    /// is told as that one.
    Begin {
        /// Line of the outer file, counted from 1.
        line: u32,
    },
}

impl InnerLines {
    /// The outer line of an inner one.
    pub fn outer(self, inner: u32) -> u32 {
        match self {
            InnerLines::Follow { first } => first.saturating_add(inner.saturating_sub(1)),
            InnerLines::Begin { line } => line,
        }
    }
}

impl Extracted {
    /// Reads it as RKE2 will read the file, all lines being those of the outer file.
    pub fn read(&self, limits: &Limits) -> ManifestFile {
        let content = Content::Bytes(self.content.clone());
        let mut file = read(&self.path, &content, limits);
        for problem in &mut file.problems {
            problem.line = problem.line.map(|line| self.lines.outer(line));
        }
        for document in &mut file.documents {
            document.line = self.lines.outer(document.line);
            for object in &mut document.objects {
                object.line = self.lines.outer(object.line);
                relocate(&mut object.node, self.lines);
            }
        }
        file
    }
}

fn relocate(node: &mut Node, lines: InnerLines) {
    node.line = lines.outer(node.line);
    match &mut node.value {
        Value::Sequence(items) => items.iter_mut().for_each(|item| relocate(item, lines)),
        Value::Mapping(entries) => {
            for entry in entries {
                entry.line = lines.outer(entry.line);
                relocate(&mut entry.value, lines);
            }
        }
        _ => {}
    }
}

/// Takes the manifests out of a file. `source` is the file's name, for messages. A file of plain
/// manifests brings none: it is one.
pub fn extract(source: &str, text: &str, limits: &Limits) -> Extraction {
    let kind = kind_of(text);
    let mut extraction = Extraction {
        kind,
        files: Vec::new(),
        problems: Vec::new(),
        configuration: Vec::new(),
        configuration_problems: Vec::new(),
        written: 0,
    };
    if kind == FileKind::Manifests {
        return extraction;
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = match yaml::parse(text, 1, limits) {
        Ok(Some(root)) => root,
        Ok(None) => return extraction,
        Err(problems) => {
            extraction.problems = problems;
            return extraction;
        }
    };
    extraction.problems = unread(kind, text, &root);
    // cloud-init takes nothing of two documents, and the installer and yip the first alone.
    if let Some(second) = split::split(text, 2).0.get(1) {
        extraction.problems.push(not_looked_at(
            second.line,
            "a second document begins here, and such a file has one; take the `---` out",
        ));
    }
    extraction.problems.extend(misshaped(kind, &root));
    let mut taker = Taker {
        source,
        lines: OuterLines::new(text),
        limits,
        taken: 0,
        kind,
        late: None,
        extraction: &mut extraction,
    };
    match kind {
        FileKind::Manifests => {}
        FileKind::HarvesterConfig => {
            let files = field(&root, "os").and_then(|os| field(os, "writeFiles"));
            taker.list(files, "os.writeFiles");
        }
        FileKind::CloudInit => taker.list(root.get("write_files"), "write_files"),
        FileKind::Yip => {
            for stage in root.get("stages").map_or(&[][..], Node::entries) {
                taker.late = (!is_early(&stage.key)).then(|| format!("yip, stage {}", stage.key));
                for step in stage.value.items() {
                    taker.list(step.get("files"), &format!("stages.{}[].files", stage.key));
                }
            }
        }
    }
    extraction
}

struct Taker<'t> {
    source: &'t str,
    lines: OuterLines<'t>,
    limits: &'t Limits,
    /// Bytes taken out of it so far.
    taken: u64,
    kind: FileKind,
    late: Option<String>,
    extraction: &'t mut Extraction,
}

impl Taker<'_> {
    fn problem(&mut self, line: u32, message: String) {
        self.extraction.problems.push(Problem {
            code: Code::FileRefused,
            line: Some(line),
            message,
        });
    }

    /// The value of a key of a file. cloud-init and yip take a key only as it is called.
    fn field<'n>(&self, file: &'n Node, name: &str) -> Option<&'n Node> {
        match self.kind {
            FileKind::HarvesterConfig => field(file, name),
            _ => file.get(name),
        }
    }

    /// Why what stands here is not what will be in the file, or not all of it.
    fn is_from_elsewhere(&self, file: &Node) -> Option<(u32, &'static str)> {
        if self.kind != FileKind::CloudInit {
            return None;
        }
        // cloud-init fetches it, and takes `content` only where that fails.
        if let Some(source) = file.get("source").filter(|from| from.get("uri").is_some()) {
            let why = "the file's content is fetched from `source`; write it as `content`";
            return Some((source.line, why));
        }
        let append = file.get("append")?;
        let appends = match &append.value {
            Value::Bool(append) => *append,
            Value::String(text) => {
                let text = text.to_lowercase();
                ["true", "1", "on", "yes"].contains(&text.as_str())
            }
            _ => false,
        };
        let why = "`append` puts this behind what the file has by then; write the whole file as one `content`";
        appends.then_some((append.line, why))
    }

    fn list(&mut self, files: Option<&Node>, name: &str) {
        let Some(files) = files else { return };
        if !files.is_null() && !matches!(files.value, Value::Sequence(_)) {
            self.problem(
                files.line,
                format!(
                    "`{name}` is {}, not a list; begin each file with `- path:`",
                    files.type_name()
                ),
            );
        }
        for file in files.items() {
            self.extraction.written += 1;
            if let Err((line, message)) = self.file(file) {
                self.problem(line, message);
            }
        }
    }

    fn file(&mut self, file: &Node) -> Result<(), (u32, String)> {
        let Some(path) = self.field(file, "path") else {
            return Err((
                file.line,
                "a file without `path`; write where it goes".to_owned(),
            ));
        };
        let Some(written) = path.as_str() else {
            let message = format!("`path` is {}, not a string; quote it", path.type_name());
            return Err((path.line, message));
        };
        let (data_dir, below) = match manifest_place(written).map_err(|why| (path.line, why))? {
            ManifestPlace::Below { data_dir, path } => (data_dir, path),
            ManifestPlace::NextTo(why) => {
                self.extraction.problems.push(Problem {
                    code: Code::PathNotRead,
                    line: Some(path.line),
                    message: Code::PathNotRead.say(&[("path", written), ("why", &why)]),
                });
                return Ok(());
            }
            ManifestPlace::Elsewhere => {
                if let Some(path) = configuration(written) {
                    self.configuration(file, path);
                }
                return Ok(());
            }
        };
        if let Some((line, why)) = self.is_from_elsewhere(file) {
            self.extraction.problems.push(not_looked_at(line, why));
            return Ok(());
        }
        let (content, lines) = self.content(file)?;
        let too_much = if content.len() as u64 > self.limits.file_bytes {
            Some(format!(
                "the file has {} bytes, the limit is {}; split it, or raise staging.limits.fileBytes",
                content.len(),
                self.limits.file_bytes
            ))
        } else {
            self.keep(&content).err()
        };
        if let Some(message) = too_much {
            self.extraction.problems.push(Problem {
                code: Code::FileTooLarge,
                line: Some(file.line),
                message,
            });
            return Ok(());
        }
        // Written later, it replaces what was written before.
        let late = self.late(file);
        let same = |known: &Extracted| known.path == below && known.data_dir == data_dir;
        self.extraction.files.retain(|known| !same(known));
        self.extraction.files.push(Extracted {
            path: below,
            data_dir,
            written_at: path.line,
            content,
            source: self.source.to_owned(),
            lines,
            late,
        });
        Ok(())
    }

    /// cloud-init writes what is deferred in its final stage, which comes after multi-user.target.
    fn late(&self, file: &Node) -> Option<String> {
        let deferred = self.kind == FileKind::CloudInit
            && matches!(
                file.get("defer").map(|defer| &defer.value),
                Some(Value::Bool(true))
            );
        match deferred {
            true => Some("cloud-init, final stage".to_owned()),
            false => self.late.clone(),
        }
    }

    fn configuration(&mut self, file: &Node, path: String) {
        if let Some((line, why)) = self.is_from_elsewhere(file) {
            let problem = not_looked_at(line, why);
            self.extraction.configuration_problems.push(problem);
            return;
        }
        let content = self.content(file).and_then(|(content, lines)| {
            let kept = self.keep(&content).map_err(|message| (file.line, message));
            kept.map(|()| (content, lines))
        });
        match content {
            Ok((content, lines)) => {
                let late = self.late(file);
                let files = &mut self.extraction.configuration;
                files.retain(|known| known.path != path);
                files.push(Extracted {
                    path,
                    data_dir: String::new(),
                    written_at: file.line,
                    content,
                    source: self.source.to_owned(),
                    lines,
                    late,
                });
            }
            Err((line, message)) => self.extraction.configuration_problems.push(Problem {
                code: Code::ConfigurationInvalid,
                line: Some(line),
                message,
            }),
        }
    }

    /// Counts what is taken out: a hundred small archives may hold a gigabyte.
    fn keep(&mut self, content: &[u8]) -> Result<(), String> {
        let taken = self.taken + content.len() as u64;
        if taken > self.limits.directory_bytes {
            return Err(format!(
                "with this file more than {} bytes would be taken out of the configuration, so it is not known what RKE2 does with it; split the configuration, or raise staging.limits.directoryBytes",
                self.limits.directory_bytes
            ));
        }
        self.taken = taken;
        Ok(())
    }

    fn content(&self, file: &Node) -> Result<(Vec<u8>, InnerLines), (u32, String)> {
        let Some(content) = self.field(file, "content") else {
            if let Some(from) = self
                .field(file, "source")
                .or_else(|| self.field(file, "url"))
            {
                let message = "the content comes from somewhere else and is not known here; write it as `content`";
                return Err((from.line, message.to_owned()));
            }
            return Ok((Vec::new(), InnerLines::Begin { line: file.line }));
        };
        let text = match &content.value {
            Value::String(text) => text.as_str(),
            Value::Null => "",
            _ => {
                let message = format!(
                    "`content` is {}, not text; begin it with `|`",
                    content.type_name()
                );
                return Err((content.line, message));
            }
        };
        let begin = InnerLines::Begin { line: content.line };
        let encoding = self.field(file, "encoding");
        let name = encoding.and_then(Node::as_str).unwrap_or_default();
        let decode = || {
            let bare: Vec<u8>;
            let bytes = if self.kind == FileKind::CloudInit {
                bare = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
                &bare
            } else {
                text.as_bytes()
            };
            encoding::base64(bytes).map_err(|why| {
                let message = format!("`content` is not valid base64: {why}; encode it anew");
                (content.line, message)
            })
        };
        match name {
            "" | "text/plain" => Ok((
                text.as_bytes().to_vec(),
                inner_lines(&self.lines, content, text),
            )),
            "b64" | "base64" => Ok((decode()?, begin)),
            "gz+b64" | "gzip+b64" | "gz+base64" | "gzip+base64" => {
                let packed = decode()?;
                let bytes = encoding::gunzip(&packed, self.limits.file_bytes).map_err(|why| {
                    let message =
                        format!("`content` cannot be unpacked: {why}; pack it anew with gzip");
                    (content.line, message)
                })?;
                Ok((bytes, begin))
            }
            other => {
                let line = encoding.map_or(file.line, |encoding| encoding.line);
                let message = format!(
                    "the encoding `{other}` cannot be read here; use plain text, b64 or gz+b64"
                );
                Err((line, message))
            }
        }
    }
}

fn not_looked_at(line: u32, what: &str) -> Problem {
    Problem {
        code: Code::NotLookedAt,
        line: Some(line),
        message: Code::NotLookedAt.say(&[("what", what)]),
    }
}

/// What is of another type than whoever reads it takes: nothing of it is read.
fn misshaped(kind: FileKind, root: &Node) -> Vec<Problem> {
    let is_map = |node: &Node| node.is_null() || matches!(node.value, Value::Mapping(_));
    let is_list = |node: &Node| node.is_null() || matches!(node.value, Value::Sequence(_));
    let mut problems = Vec::new();
    let mut expect = |node: &Node, name: &str, fits: bool, what: &str| {
        if !fits {
            problems.push(Problem {
                code: Code::FileRefused,
                line: Some(node.line),
                message: format!("{name} is {}, not a {what}", node.type_name()),
            });
        }
    };
    expect(root, "the configuration", is_map(root), "map");
    match kind {
        FileKind::HarvesterConfig => {
            if let Some(os) = field(root, "os") {
                expect(os, "`os`", is_map(os), "map");
            }
        }
        FileKind::Yip => {
            if let Some(stages) = root.get("stages") {
                expect(stages, "`stages`", is_map(stages), "map");
                for stage in stages.entries() {
                    let name = format!("`stages.{}`", stage.key);
                    expect(&stage.value, &name, is_list(&stage.value), "list");
                }
            }
        }
        FileKind::CloudInit | FileKind::Manifests => {}
    }
    problems
}

/// The lines of a configuration.
pub(super) struct OuterLines<'t> {
    text: &'t str,
    /// Where they begin; looked for when the first is asked for.
    starts: OnceCell<Vec<u32>>,
}

impl<'t> OuterLines<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let starts = OnceCell::new();
        Self { text, starts }
    }

    /// A line, counted from 1.
    fn get(&self, line: u32) -> Option<&'t str> {
        let starts = self.starts.get_or_init(|| {
            let breaks = self.text.match_indices('\n');
            let starts = breaks.map(|(at, _)| u32::try_from(at + 1).unwrap_or(u32::MAX));
            std::iter::once(0).chain(starts).collect()
        });
        let at = usize::try_from(line).ok()?.checked_sub(1)?;
        let start = usize::try_from(*starts.get(at)?).ok()?;
        self.text.get(start..)?.lines().next()
    }
}

/// A literal block begins in the line after its `|`. Whether it is one is seen from the outer text, and
/// believed only if the first line of the content stands there.
pub(super) fn inner_lines(outer: &OuterLines<'_>, content: &Node, text: &str) -> InnerLines {
    let first = content.line.saturating_add(1);
    let opens_block = outer.get(content.line).is_some_and(|line| {
        let code = line.split(" #").next().unwrap_or(line).trim_end();
        let indicators = code.trim_end_matches(|ch: char| matches!(ch, '+' | '-' | '0'..='9'));
        indicators.ends_with('|')
    });
    let follows = text
        .lines()
        .zip(first..)
        .find(|(line, _)| !line.trim().is_empty())
        .is_some_and(|(line, number)| {
            outer
                .get(number)
                .is_some_and(|outer| outer.trim() == line.trim())
        });
    if opens_block && follows {
        InnerLines::Follow { first }
    } else {
        InnerLines::Begin { line: content.line }
    }
}

/// Is this stage of yip over before the system's units start? What is written at the installation is
/// there as well.
fn is_early(stage: &str) -> bool {
    let bare = stage.trim_end_matches(".before").trim_end_matches(".after");
    matches!(bare, "rootfs" | "initramfs") || bare.contains("install")
}

#[cfg(test)]
#[path = "extract_tests.rs"]
mod tests;
