//! `windrow config check PATH…`: checks an image builder's files, before they are on any node.

use std::path::{Path, PathBuf};

use windrow_decide::settings::{self, ConfigError, ConfigFile, ConfigFileRole, ConfigFiles};
use windrow_harvester as harvester;
use windrow_inputs::extract::{Extraction, FileKind, kind_of};
use windrow_inputs::user_data::{self, OpenedFile, Wrapped};
use windrow_model::findings::Location;
use windrow_model::manifest::{Problem, ReadLimits};
use windrow_model::reasons::{Code, Severity};
use windrow_simulate::rehearse::check::acceptance::Acceptances;

use super::super::inputs::{
    OwnKind, STANDARD_INPUT, carried_configuration, definition_in, extract_file, has_objects,
    is_standard_input, other_configurations, own_kind, say_how_read, say_notes, standard_input,
    unread_configuration,
};
use super::super::{Exit, complain};
use crate::configuration::NodeReads;
use crate::files::read_bytes;
use crate::fs;

/// Only checks the given files, and ignores this host's own configuration.
pub(super) fn run(paths: &[PathBuf]) -> Exit {
    let mut given = NamedConfigurations::default();
    for path in paths {
        if fs::is_dir(path) && !is_standard_input(path) {
            given.directory(path);
            continue;
        }
        let mut node = ConfigFiles::default();
        match is_standard_input(path) {
            true => given.standard_input(&mut node),
            false => given.file(path, None, &mut node),
        }
        given.nodes.push(node);
    }
    let (mut files, mut packs) = (0, 0);
    for node in given.nodes {
        let loaded = settings::merge(node);
        files += loaded.files.len();
        let rules = loaded
            .files
            .iter()
            .filter(|file| file.role != ConfigFileRole::Settings);
        packs += rules.count();
        given.wrong.extend(loaded.errors);
    }
    complain(&given.unusable);
    complain(&given.wrong);
    if !given.unusable.is_empty() {
        return Exit::Usage;
    }
    if !given.wrong.is_empty() {
        return Exit::Configuration;
    }
    if given.not_looked_at {
        return Exit::Unknown;
    }
    println!("{files} files, {packs} of them rule packs: no errors");
    Exit::Ok
}

#[derive(Default)]
struct NamedConfigurations {
    /// The files of each node: files of the same name may be for different nodes, and each is checked.
    nodes: Vec<ConfigFiles>,
    wrong: Vec<ConfigError>,
    /// Paths that cannot be read, or hold no configuration.
    unusable: Vec<String>,
    /// Whether anything was left unchecked.
    not_looked_at: bool,
}

impl NamedConfigurations {
    /// A directory like `/etc/windrow`, or one of drop-ins, rule packs or configurations.
    fn directory(&mut self, path: &Path) {
        match definition_in(path) {
            Ok(None) => {}
            Ok(Some(definition)) => {
                return self.file(&definition, None, &mut ConfigFiles::default());
            }
            Err(error) => return self.unusable.push(error),
        }
        let before = self.nodes.len();
        let main = path.join("windrow.yaml");
        let parts = [
            (path.to_owned(), None),
            (path.join("conf.d"), Some(ConfigFileRole::Settings)),
            (path.join("rules.d"), Some(ConfigFileRole::Rules)),
            (path.join("knowledge.d"), Some(ConfigFileRole::Knowledge)),
        ];
        let whole = fs::exists(&main) || parts[1..].iter().any(|(part, _)| fs::is_dir(part));
        let mut node = ConfigFiles::default();
        for (part, role) in parts {
            match role {
                None if whole && fs::exists(&main) => {
                    self.file(&main, Some(ConfigFileRole::Settings), &mut node);
                }
                None if whole => {}
                _ if fs::is_dir(&part) => self.drop_ins(&part, role, &mut node),
                _ => {}
            }
        }
        let read_above = |name: &str| match whole {
            true => name == "windrow.yaml",
            false => NodeReads::of_name(name) == NodeReads::Yes,
        };
        for (path, bytes) in other_configurations(path, read_above) {
            self.text(&path, bytes, None, &mut node);
        }
        let silent = self.unusable.is_empty() && self.wrong.is_empty();
        if node.files.is_empty() && self.nodes.len() == before && silent {
            self.unusable.push(format!(
                "{}: this directory has no configuration of Windrow (*.yaml)",
                path.display()
            ));
        }
        self.nodes.push(node);
    }

    fn drop_ins(&mut self, directory: &Path, role: Option<ConfigFileRole>, node: &mut ConfigFiles) {
        let listed = fs::read_dir(directory).and_then(|entries| {
            let paths = entries.map(|entry| Ok(entry?.path()));
            paths.collect::<std::io::Result<Vec<PathBuf>>>()
        });
        match listed {
            Ok(mut paths) => {
                paths.sort();
                for path in paths {
                    let name = path.file_name().unwrap_or_default();
                    match NodeReads::of_name(&name.to_string_lossy()) {
                        NodeReads::Yes => self.file(&path, role, node),
                        // In a directory that does not belong to a node it may be anything.
                        NodeReads::No(why) if role.is_some() => self.wrong.push(ConfigError {
                            at: Location::file(path.display().to_string()),
                            message: why.to_owned(),
                        }),
                        NodeReads::No(_) | NodeReads::NotMeant => {}
                    }
                }
            }
            Err(error) => self.unusable(directory, &error),
        }
    }

    /// A file. If its name does not show its kind, its content does.
    fn file(&mut self, path: &Path, role: Option<ConfigFileRole>, node: &mut ConfigFiles) {
        match read_bytes(path) {
            Ok(bytes) => self.text(path, bytes, role, node),
            Err(error) => self.unusable(path, &error),
        }
    }

    fn standard_input(&mut self, node: &mut ConfigFiles) {
        match standard_input(ReadLimits::default().file_bytes) {
            Ok(bytes) => self.text(Path::new(STANDARD_INPUT), bytes, None, node),
            Err(error) => self.unusable.push(error),
        }
    }

    fn text(
        &mut self,
        path: &Path,
        bytes: Vec<u8>,
        role: Option<ConfigFileRole>,
        node: &mut ConfigFiles,
    ) {
        let shown = path.display().to_string();
        let bytes = match user_data::open(&shown, bytes, &ReadLimits::default()) {
            OpenedFile::Wrapped(found) if role.is_none() => return self.wrapped(&found),
            OpenedFile::Wrapped(_) => Vec::from(*b"\xff"),
            OpenedFile::Text(bytes) => bytes,
        };
        let Ok(text) = String::from_utf8(bytes) else {
            return self.unusable(path, &std::io::Error::other("it is not UTF-8 text"));
        };
        if role.is_none() && kind_of(&text) != FileKind::Manifests {
            let mut node = ConfigFiles::default();
            let extraction = extract_file(&shown, &text, &ReadLimits::default());
            self.carrier(&shown, &text, extraction, &mut node);
            return self.nodes.push(node);
        }
        if role.is_none() && own_kind(path, &text) == Some(OwnKind::Accepted) {
            let findings = Acceptances::read(&shown, &text).findings.into_iter();
            let wrong = findings.flat_map(|one| {
                let message = one.message;
                let places = one.at.into_iter();
                places.map(move |at| ConfigError {
                    at,
                    message: message.clone(),
                })
            });
            return self.wrong.extend(wrong);
        }
        let Some(role) = role.or_else(|| role_of(path, &text)) else {
            self.unusable.push(format!(
                "{shown}: it is a manifest; `windrow plan {shown}` checks these"
            ));
            return;
        };
        let name = path.file_name().unwrap_or_default();
        node.files.push(ConfigFile {
            role,
            name: name.to_string_lossy().into_owned(),
            path: path.to_owned(),
            text,
        });
    }

    /// The parts that write Windrow's configuration, together one node.
    fn wrapped(&mut self, found: &Wrapped) {
        say_notes(found);
        self.problems(&found.shown, &found.problems);
        let mut node = ConfigFiles::default();
        let extractions = found.extract(&ReadLimits::default());
        for (part, extraction) in found.parts.iter().zip(extractions) {
            self.carrier(&part.shown, &part.text, extraction, &mut node);
        }
        self.nodes.push(node);
    }

    fn carrier(&mut self, shown: &str, text: &str, extraction: Extraction, node: &mut ConfigFiles) {
        say_how_read(shown, text, &extraction);
        let files = carried_configuration(&extraction.configuration);
        let unread = unread_configuration(&extraction.configuration);
        if extraction.is_harvester() {
            node.preset = harvester::presets_storage_network(text);
            // On the node its webhooks are Windrow's too.
            self.wrong.extend(settings::installer_errors(shown, text));
        }
        let sound = !self.problems(shown, &extraction.problems)
            & !self.problems(shown, &extraction.configuration_problems);
        if files.is_empty() && unread.is_empty() && sound {
            let kind = extraction.kind.name();
            eprintln!("windrow: {shown}: read as {kind}: it writes no configuration of Windrow");
        }
        node.files.extend(files);
        self.wrong.extend(unread);
    }

    /// Sorts problems: if they prevent the reading of a configuration they are errors, otherwise warnings. True if
    /// there are errors.
    fn problems(&mut self, shown: &str, problems: &[Problem]) -> bool {
        let mut broken = false;
        for problem in problems {
            let error = ConfigError {
                at: Location {
                    file: shown.to_owned(),
                    line: problem.line,
                },
                message: problem.message.clone(),
            };
            self.not_looked_at |= problem.code == Code::NotLookedAt;
            if problem.code.severity() == Severity::Error {
                broken = true;
                self.wrong.push(error);
            } else if matches!(problem.code, Code::NotLookedAt | Code::UserDataIgnored) {
                complain(&[error]);
            }
        }
        broken
    }

    fn unusable(&mut self, path: &Path, error: &std::io::Error) {
        let text = format!("{}: cannot be read: {error}", path.display());
        self.unusable.push(text);
    }
}

/// Settings or rules; `None` for an object of Kubernetes. A text that cannot be read is reported as settings, with its
/// line.
fn role_of(path: &Path, text: &str) -> Option<ConfigFileRole> {
    match own_kind(path, text) {
        Some(OwnKind::Configuration(role)) => Some(role),
        _ => (!has_objects(text)).then_some(ConfigFileRole::Settings),
    }
}
