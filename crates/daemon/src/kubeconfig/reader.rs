//! Reading fields: text, switches, entries of lists by name, PEM. Errors are noted, and an invalid field counts as
//! absent until all fields have been read.

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use windrow_model::findings::Location;
use windrow_model::manifest::{Node, NodeValue, Problem, decode_base64, yaml};
use windrow_model::redact;

use super::file::ReadFor;
use super::files::KubeconfigFiles;
use super::sources::Sources;
use crate::files::read_text;
use crate::fs;

/// Most YAML errors of a file in one message; further ones mostly follow from these.
const MOST: usize = 8;

/// Longest name that a message shows, in bytes: Amazon's of a cluster have a hundred.
const LONGEST_NAME: usize = 253;

/// A name as a message shows it. A token in its place is not shown, nor a whole text.
pub(super) fn shown(name: &str) -> String {
    match may_be_shown(name) {
        true => format!("{name:?}"),
        false => redact::quoted(name),
    }
}

/// The names that the user can choose from, as a message shows them.
pub(super) fn listed(names: &[&str]) -> String {
    let shown = names.iter().map(|name| match may_be_shown(name) {
        true => (*name).to_owned(),
        false => redact::quoted(name),
    });
    shown.collect::<Vec<_>>().join(", ")
}

pub(super) fn may_be_shown(name: &str) -> bool {
    name.len() <= LONGEST_NAME && !redact::tells_a_secret(name)
}

/// A text between backticks comes from the file, where an alias may be a password without quotes.
fn without_quotes(message: &str) -> String {
    let parts = message.split('`').enumerate();
    let parts: Vec<&str> = parts
        .map(|(at, part)| if at % 2 == 0 { part } else { "…" })
        .collect();
    parts.join("`")
}

/// The text of a PEM file and its source.
pub(super) struct Pem {
    pub(super) line: u32,
    /// The field that has it or names its file.
    pub(super) key: String,
    pub(super) bytes: Vec<u8>,
}

pub(super) struct MergedFile {
    path: PathBuf,
    pub(super) root: Node,
}

impl MergedFile {
    pub(super) fn items(&self, list: &str) -> &[Node] {
        self.root.list(list)
    }

    pub(super) fn names_in(&self, list: &str) -> impl Iterator<Item = &str> {
        let items = self.items(list).iter();
        items.filter_map(|item| item.get("name").and_then(Node::as_str))
    }

    pub(super) fn names_context(&self) -> bool {
        self.root
            .get("current-context")
            .is_some_and(|name| !name.is_null() && name.as_str() != Some(""))
    }
}

pub(super) struct KubeconfigReader {
    pub(super) reads_for: ReadFor,
    /// The file whose fields are being read: errors name it, and paths are relative to it.
    path: PathBuf,
    /// The root of the other machine's disk that has it: nothing outside is read.
    disk: Option<PathBuf>,
    pub(super) wrong: Vec<String>,
    pub(super) sources: Sources,
}

impl KubeconfigReader {
    pub(super) fn new(reads_for: ReadFor) -> Self {
        Self {
            reads_for,
            path: PathBuf::new(),
            disk: None,
            wrong: Vec::new(),
            sources: Sources::default(),
        }
    }

    pub(super) fn enter(&mut self, file: &MergedFile) {
        self.path.clone_from(&file.path);
    }

    /// The files that count. If there are several, missing and empty ones are ignored, as for kubectl.
    ///
    /// # Errors
    ///
    /// In a line, the error in one of them, or that all are empty.
    pub(super) fn merged(&mut self, files: &KubeconfigFiles) -> Result<Vec<MergedFile>, String> {
        if let Some(disk) = files.disk() {
            // Another machine's file must not give orders to this one: no command in it is run.
            self.reads_for = ReadFor::Daemon;
            self.disk = Some(disk.to_owned());
        }
        if let [path] = files.paths() {
            let root = self.root(path)?.ok_or_else(|| {
                format!(
                    "{}: it is empty: write a kubeconfig there, or restart RKE2 if it is RKE2's own",
                    path.display()
                )
            })?;
            let path = path.clone();
            return Ok(vec![MergedFile { path, root }]);
        }
        let mut merged = Vec::new();
        for path in files.paths() {
            if matches!(fs::try_exists(path), Ok(false)) {
                continue;
            }
            if let Some(root) = self.root(path)? {
                let path = path.clone();
                merged.push(MergedFile { path, root });
            }
        }
        if merged.is_empty() {
            return Err(format!("{files}: none of these files says anything"));
        }
        Ok(merged)
    }

    /// The whole file, which is a map; `None` if it is empty.
    ///
    /// # Errors
    ///
    /// In a line, why it is not a map.
    fn root(&mut self, path: &Path) -> Result<Option<Node>, String> {
        let shown = path.display().to_string();
        let text = read_text(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("{shown}: it is not there yet"),
            _ => format!("{shown}: {error}"),
        })?;
        self.sources.add(path, text.as_bytes());
        let problem = |problem: &Problem| {
            let at = Location {
                file: shown.clone(),
                line: problem.line,
            };
            format!("{at}: {}", without_quotes(&problem.message))
        };
        match yaml::parse_configuration(&text) {
            Ok(Some(node)) if matches!(node.value, NodeValue::Mapping(_)) => Ok(Some(node)),
            Ok(Some(node)) if !node.is_null() => Err(format!(
                "{}: a kubeconfig is a map, not {}: copy the whole file again",
                Location::line(shown, node.line),
                node.type_name()
            )),
            Ok(_) => Ok(None),
            Err(problems) => {
                let mut said: Vec<String> = problems.iter().take(MOST).map(problem).collect();
                if let more @ 1.. = problems.len().saturating_sub(MOST) {
                    said.push(format!("and {more} more"));
                }
                Err(said.join("; "))
            }
        }
    }

    pub(super) fn at(&self, line: u32) -> Location {
        Location::line(self.path.display().to_string(), line)
    }

    pub(super) fn say(&mut self, line: u32, message: impl std::fmt::Display) {
        let at = self.at(line);
        self.wrong.push(format!("{at}: {message}"));
    }

    fn say_in(&mut self, file: &MergedFile, line: u32, message: impl std::fmt::Display) {
        let at = Location::line(file.path.display().to_string(), line);
        self.wrong.push(format!("{at}: {message}"));
    }

    pub(super) fn text<'n>(&mut self, map: &'n Node, key: &str) -> Option<(u32, &'n str)> {
        let entry = map.entry(key)?;
        match &entry.value.value {
            NodeValue::Null => None,
            NodeValue::String(text) => {
                Some((entry.line, text.as_str())).filter(|_| !text.is_empty())
            }
            _ => {
                let is = entry.value.type_name();
                self.say(
                    entry.line,
                    format!("`{key}` must be text, not {is}: put it in quotation marks"),
                );
                None
            }
        }
    }

    /// As [`Self::text`], for a required field; `instead` is the action to take if it is missing.
    pub(super) fn needed<'n>(
        &mut self,
        map: &'n Node,
        key: &str,
        instead: &str,
    ) -> Option<(u32, &'n str)> {
        let said = self.wrong.len();
        let found = self.text(map, key);
        if found.is_none() && self.wrong.len() == said {
            self.say(map.line, format!("`{key}` is missing: {instead}"));
        }
        found
    }

    pub(super) fn flag(&mut self, map: &Node, key: &str) -> bool {
        let Some(entry) = map.entry(key).filter(|entry| !entry.value.is_null()) else {
            return false;
        };
        entry.value.as_bool().unwrap_or_else(|| {
            let is = entry.value.type_name();
            self.say(
                entry.line,
                format!("`{key}` must be true or false without quotation marks, not {is}"),
            );
            false
        })
    }

    /// A list's entry of this name, and its file: the first file that has the name counts. `line` is the line that uses
    /// the name.
    pub(super) fn named<'n>(
        &mut self,
        files: &'n [MergedFile],
        (list, kind): (&str, &str),
        name: &str,
        line: u32,
    ) -> Option<(&'n MergedFile, &'n Node)> {
        let shown = shown(name);
        let called = |item: &&Node| item.get("name").and_then(Node::as_str) == Some(name);
        let found = files.iter().find_map(|file| {
            let mut items = file.items(list).iter().filter(called);
            Some((file, items.next()?, items.next()))
        });
        let Some((file, item, other)) = found else {
            self.say(
                line,
                format!("no {kind} is called {shown}: add it under `{list}`, or name another"),
            );
            return None;
        };
        if let Some(other) = other {
            self.say_in(
                file,
                other.line,
                format!(
                    "a second {kind} is called {shown}, the first is in line {}: keep one",
                    item.line
                ),
            );
            return None;
        }
        match item.entry(kind) {
            // A user without any fields is valid, for kubectl too.
            None if kind == "user" => None,
            Some(entry) if kind == "user" && entry.value.is_null() => None,
            Some(entry) if matches!(entry.value.value, NodeValue::Mapping(_)) => {
                Some((file, &entry.value))
            }
            _ => {
                self.say_in(
                    file,
                    item.line,
                    format!("the {kind} {shown} has no map `{kind}`: write its fields there"),
                );
                None
            }
        }
    }

    /// Refuses a field that is not empty.
    pub(super) fn refuse(&mut self, map: &Node, key: &str, instead: &str) {
        let Some(entry) = map.entry(key) else {
            return;
        };
        let nothing = match &entry.value.value {
            NodeValue::Null => true,
            NodeValue::String(text) => text.is_empty(),
            NodeValue::Sequence(items) => items.is_empty(),
            NodeValue::Mapping(entries) => entries.is_empty(),
            NodeValue::Bool(_) | NodeValue::Number(_) => false,
        };
        if !nothing {
            self.say(
                entry.line,
                format!("`{key}` is not supported here: {instead}"),
            );
        }
    }

    /// The PEM of a field: in base64 under `KEY-data`, which counts first, or in the file that `KEY` names.
    pub(super) fn pem(&mut self, map: &Node, key: &str) -> Option<Pem> {
        let data = format!("{key}-data");
        if let Some((line, text)) = self.text(map, &data) {
            // The position where it stops reveals nothing; a character of a key would.
            let Ok(bytes) = decode_base64(text.as_bytes()) else {
                self.say(
                    line,
                    format!("`{data}` is not base64: write what `base64 -w0 FILE` prints for the PEM file"),
                );
                return None;
            };
            return Some(Pem {
                line,
                key: data,
                bytes,
            });
        }
        let (line, file) = self.text(map, key)?;
        let file = self.beside(file);
        match read_text(&file) {
            Ok(text) => {
                self.sources.add(&file, text.as_bytes());
                Some(Pem {
                    line,
                    key: key.to_owned(),
                    bytes: text.into_bytes(),
                })
            }
            Err(error) => {
                self.say(line, format!("`{key}`: {}: {error}", file.display()));
                None
            }
        }
    }

    pub(super) fn chain(&mut self, pem: &Pem) -> Vec<CertificateDer<'static>> {
        // The reader's own error would show the line on which it stopped.
        let chain = CertificateDer::pem_slice_iter(&pem.bytes).collect::<Result<Vec<_>, _>>();
        let chain = chain.unwrap_or_default();
        if chain.is_empty() {
            self.say(
                pem.line,
                format!(
                    "`{}` has no certificate in PEM (`BEGIN CERTIFICATE`)",
                    pem.key
                ),
            );
        }
        chain
    }

    /// Paths are relative to the file that names them; on another machine's disk absolute ones to its root.
    pub(super) fn beside(&self, file: &str) -> PathBuf {
        match (&self.disk, file.strip_prefix('/')) {
            (Some(disk), Some(file)) => disk.join(file),
            _ => self.path.parent().unwrap_or(Path::new("")).join(file),
        }
    }
}
