//! Ignition (JSON), and Butane (YAML), from which Ignition is made.
//!
//! Sources: Ignition v2.26.0 (`docs/configuration-v3_6.md`, `config/v3_6/types`) and Butane v0.29.0
//! (`base/v0_7/translate.go`). Ignition runs once, before the system's units start, so all its files exist before any
//! of them.

use std::collections::BTreeMap;

use windrow_model::manifest::encoding;

use super::put::{ContentError, FoundContent, WrittenTo};
use super::taker::Extractor;
use super::unread::resource_keys;
use super::{
    FileKind, InnerLines, Node, NodeValue, inner_lines, key_not_read, not_looked_at, unclear,
};
use crate::data_url;

/// The keys that refer to content. Ignition has only the first.
const SOURCES: [&str; 3] = ["source", "inline", "local"];

type Found = Result<Option<FoundContent>, ContentError>;

impl Extractor<'_> {
    pub(super) fn ignition(&mut self, root: &Node) {
        if self.kind == FileKind::Ignition && !self.is_read_here(root) {
            return;
        }
        self.merged(root);
        let mut written = BTreeMap::new();
        for file in self.listed(root, &["storage", "files"]) {
            self.storage_file(file, &mut written);
        }
        for tree in self.listed(root, &["storage", "trees"]) {
            self.tree(tree, &written);
        }
        for link in self.listed(root, &["storage", "links"]) {
            self.target(link.get("path"), "storage.links");
        }
        for unit in self.listed(root, &["systemd", "units"]) {
            self.unit(unit);
            for drop_in in unit.list("dropins") {
                self.unit(drop_in);
            }
        }
    }

    /// Versions before 3 have other keys.
    fn is_read_here(&mut self, root: &Node) -> bool {
        let version = root.at(&["ignition", "version"]);
        match version.map(|node| (node.line, node.as_str().unwrap_or_default())) {
            Some((_, version)) if version.starts_with("3.") => return true,
            Some((line, _)) => {
                let what = "an Ignition configuration of a version other than 3.x";
                self.not_looked_at(line, what);
            }
            None => {
                let message = "`ignition.version` is missing, and Ignition ignores the whole file; write \"3.4.0\"";
                self.problem(root.line, message.to_owned());
            }
        }
        false
    }

    /// Other configurations that are merged into this one, or replace it.
    fn merged(&mut self, root: &Node) {
        let config = root.at(&["ignition", "config"]);
        let merged = config.and_then(|config| config.get("merge"));
        let replaces = config.and_then(|config| config.get("replace"));
        let is_given = |node: &&Node| SOURCES.iter().any(|key| node.str_at(&[key]).is_some());
        for one in merged.map_or(&[][..], Node::items).iter().filter(is_given) {
            let what = "a configuration that is merged into this one (`ignition.config.merge`)";
            self.not_looked_at(one.line, what);
        }
        if let Some(one) = replaces.filter(is_given) {
            let what = "the configuration that replaces this one (`ignition.config.replace`)";
            self.not_looked_at(one.line, what);
        }
    }

    /// The items of a list; any other type is an error.
    fn listed<'n>(&mut self, root: &'n Node, path: &[&str]) -> &'n [Node] {
        let Some(list) = root.at(path).filter(|list| !list.is_null()) else {
            return &[];
        };
        if !matches!(list.value, NodeValue::Sequence(_)) {
            let message = format!("`{}` is {}, not a list", path.join("."), list.type_name());
            self.problem(list.line, message);
        }
        list.items()
    }

    /// `written` has the paths of the files with content, and their lines.
    fn storage_file<'n>(&mut self, file: &'n Node, written: &mut BTreeMap<&'n str, u32>) {
        let Some(path) = file.get("path") else {
            let message = "a file without `path`; write where it goes".to_owned();
            return self.problem(file.line, message);
        };
        let Some(text) = path.as_str() else {
            let message = format!("`path` is {}, not a string; quote it", path.type_name());
            return self.problem(path.line, message);
        };
        if let Some(earlier) = written.get(text) {
            let message = format!(
                "{text} is written twice, first in line {earlier}, and Ignition ignores the whole file; keep one"
            );
            return self.problem(path.line, message);
        }
        let contents = file.get("contents").filter(|contents| !contents.is_null());
        let appended = file.list("append");
        if contents.is_some() {
            written.insert(text, path.line);
        }
        // Nothing else gives the content of the file: it exists already, or it is empty.
        let appends = contents.is_none().then(|| appended.first()).flatten();
        let to = WrittenTo {
            path: text,
            path_line: path.line,
            line: file.line,
            appends: appends.map(|first| first.line),
        };
        self.put(&to, |taker| {
            taker.slips(file, contents.into_iter().chain(appended));
            taker.joined(file.line, contents, appended)
        });
    }

    /// Probably misspelt keys, which the reader ignores.
    fn slips<'n>(&mut self, file: &Node, resources: impl Iterator<Item = &'n Node>) {
        let mut slips = resource_keys(file, &["path", "contents", "append", "overwrite"]);
        for resource in resources {
            slips.extend(resource_keys(
                resource,
                &["source", "compression", "inline", "local"],
            ));
            let butanes = resource.entries().iter().filter(|entry| {
                self.kind == FileKind::Ignition && SOURCES[1..].contains(&entry.key.as_str())
            });
            slips.extend(butanes.map(|entry| {
                let why = "only Butane knows it; write `source` with a `data:` address, or convert it to Ignition with butane";
                key_not_read(&entry.key, entry.line, why)
            }));
        }
        self.extraction.problems.extend(slips);
    }

    /// The content, and the contents that are appended to it.
    fn joined(
        &mut self,
        line: u32,
        contents: Option<&Node>,
        appended: &[Node],
    ) -> Result<FoundContent, ContentError> {
        let mut all: Option<FoundContent> = None;
        for resource in contents.into_iter().chain(appended) {
            let Some(found) = self.resource(resource)? else {
                continue;
            };
            all = Some(match all {
                None => found,
                Some(mut before) => {
                    before.bytes.extend(found.bytes);
                    // Its lines no longer follow one another.
                    before.lines = InnerLines::Begin {
                        line: before.lines.outer(1),
                    };
                    before
                }
            });
        }
        Ok(all.unwrap_or(FoundContent {
            bytes: Vec::new(),
            lines: InnerLines::Begin { line },
            source: None,
        }))
    }

    /// The content that a resource gives; `None` if it gives none.
    fn resource(&mut self, resource: &Node) -> Found {
        let given = |key: &&str| {
            let value = resource.get(key)?;
            let is_empty = value.as_str() == Some("") && *key != "inline";
            (!value.is_null() && !is_empty).then_some(value)
        };
        let sources = match self.kind {
            FileKind::Ignition => &SOURCES[..1],
            _ => &SOURCES[..],
        };
        let mut all = sources.iter().filter_map(|key| Some((*key, given(key)?)));
        let Some((key, value)) = all.next() else {
            return Ok(None);
        };
        if let Some((other, second)) = all.next() {
            let message = format!("`{key}` and `{other}` both set the content; keep one");
            return Err(wrong(second, message));
        }
        let Some(text) = value.as_str() else {
            let message = format!("`{key}` is {}, not a string", value.type_name());
            return Err(wrong(value, message));
        };
        let mut found = match key {
            "source" => from_source(value, text)?,
            "inline" => FoundContent {
                bytes: text.as_bytes().to_vec(),
                lines: inner_lines(&self.lines, value, text),
                source: None,
            },
            _ => self.local(value, text)?,
        };
        match resource
            .get("compression")
            .map(|node| (node, node.as_str()))
        {
            None | Some((_, Some(""))) => {}
            Some((node, _)) if node.is_null() => {}
            Some((node, Some("gzip"))) => {
                found.bytes = encoding::gunzip(&found.bytes, self.limits.file_bytes).map_err(
                    |why| wrong(node, format!("the content cannot be unpacked: {why}; pack it again with gzip, or leave `compression` out")),
                )?;
                found.lines = InnerLines::Begin {
                    line: found.lines.outer(1),
                };
            }
            Some((node, _)) => {
                let message = "`compression` must be `gzip` or left out";
                return Err(wrong(node, message.to_owned()));
            }
        }
        Ok(Some(found))
    }

    /// A file that Butane includes.
    fn local(&mut self, node: &Node, path: &str) -> Result<FoundContent, ContentError> {
        match self.beside.read(path) {
            Ok(Some(file)) => Ok(FoundContent {
                bytes: file.bytes,
                lines: InnerLines::Follow { first: 1 },
                source: Some(file.shown),
            }),
            Ok(None) => {
                let message = format!(
                    "`{path}` is not next to this file; put it there: butane is called with this directory as its --files-dir"
                );
                Err(wrong(node, message))
            }
            Err(why) => {
                let problem = not_looked_at(node.line, &format!("{path}: {why}"));
                Err(ContentError::Unknown(problem))
            }
        }
    }

    /// A directory that Butane copies.
    fn tree(&mut self, tree: &Node, written: &BTreeMap<&str, u32>) {
        let Some(local) = tree.get("local") else {
            let message = "a tree without `local`; write which directory is copied".to_owned();
            return self.problem(tree.line, message);
        };
        let directory = local.as_str().unwrap_or_default();
        let paths = match self.beside.below(directory) {
            Ok(Some(paths)) => paths,
            Ok(None) => {
                let message =
                    format!("there is no directory `{directory}` next to this file; put it there");
                return self.problem(local.line, message);
            }
            Err(why) => return self.not_looked_at(local.line, &format!("{directory}: {why}")),
        };
        let to = tree.str_at(&["path"]).unwrap_or("/").trim_end_matches('/');
        for below in paths {
            let path = format!("{to}/{below}");
            if let Some(line) = written.get(path.as_str()) {
                let message = format!("{path} is written in line {line} too; keep one");
                self.problem(local.line, message);
                continue;
            }
            let to = WrittenTo {
                path: &path,
                path_line: local.line,
                line: tree.line,
                appends: None,
            };
            let from = format!("{}/{below}", directory.trim_end_matches('/'));
            self.put(&to, |taker| taker.local(local, &from));
        }
    }

    fn unit(&mut self, unit: &Node) {
        let text = match (unit.get("contents"), unit.get("contents_local")) {
            (Some(contents), _) => contents.as_str().map(|text| (contents, text.to_owned())),
            (None, Some(local)) if self.kind == FileKind::Butane => {
                let path = local.as_str().unwrap_or_default();
                match self.local(local, path) {
                    Ok(found) => {
                        let text = String::from_utf8_lossy(&found.bytes).into_owned();
                        Some((local, text))
                    }
                    Err(ContentError::Wrong { line, message }) => {
                        return self.problem(line, message);
                    }
                    Err(ContentError::Unknown(problem)) => {
                        return self.extraction.problems.push(problem);
                    }
                }
            }
            _ => None,
        };
        let Some((node, text)) = text else { return };
        let text: String = commands(&text).map(|line| format!("{line}\n")).collect();
        if let Some((line, directory)) = unclear(&text) {
            let line = match unit.get("contents") {
                Some(contents) => inner_lines(&self.lines, contents, &text).outer(line),
                None => node.line,
            };
            let name = unit.str_at(&["name"]).unwrap_or("a unit");
            let what =
                format!("{name} names {directory}, and Windrow cannot tell its effect there");
            self.not_looked_at(line, &what);
        }
    }
}

/// The commands of a unit, with empty lines for the other lines: a condition on a path writes nothing there.
fn commands(unit: &str) -> impl Iterator<Item = &str> {
    let mut goes_on = false;
    unit.lines().map(move |line| {
        let begins = line
            .strip_prefix("Exec")
            .and_then(|line| line.split_once('='));
        // Characters in front of the path that only change how it runs.
        let command = begins
            .map(|(_, command)| command.trim_start_matches(['-', '@', '+', '!', ':', '|', ' ']));
        let command = command.or_else(|| goes_on.then_some(line));
        goes_on = command.is_some() && line.ends_with('\\');
        command.unwrap_or_default()
    })
}

fn from_source(node: &Node, address: &str) -> Result<FoundContent, ContentError> {
    match data_url::decode(address) {
        Some(Ok(bytes)) => Ok(FoundContent {
            bytes,
            lines: InnerLines::Begin { line: node.line },
            source: None,
        }),
        Some(Err(why)) => Err(wrong(
            node,
            format!("the `data:` address cannot be read: {why}"),
        )),
        None => {
            let what = "the file's content is fetched from `source`; write it as a `data:` address, or in Butane as `inline`";
            Err(ContentError::Unknown(not_looked_at(node.line, what)))
        }
    }
}

fn wrong(node: &Node, message: String) -> ContentError {
    ContentError::Wrong {
        line: node.line,
        message,
    }
}
