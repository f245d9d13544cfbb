//! Manifests apart that one file must not hold together: namespaces go first, and definitions into a
//! file of their own, because what they define is served only some time after they were applied. What
//! needs what an installer of the same file brings goes into a second file.

use std::collections::BTreeSet;
use std::ops::Range;

use windrow_model::findings::Location;
use windrow_model::manifest::extract::{InnerLines, extract};
use windrow_model::manifest::{self, AddonName, FileContent, ManifestPath, ObjectRef, ReadLimits};

use super::super::layout::LayoutMove;
use super::source::GivenFile;

/// A manifest that is to be split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToSplit {
    pub(super) path: ManifestPath,
    /// What needs what an installer of the file brings: it goes into the second file. Empty where
    /// definitions and what they define are to be parted.
    pub(super) second: BTreeSet<ObjectRef>,
    /// What the second file is called where that was played; the documents then keep their order.
    pub(super) to: Option<ManifestPath>,
}

impl ToSplit {
    /// A manifest whose objects of these lines move to a file of this name.
    fn by_lines(
        path: &ManifestPath,
        content: &[u8],
        lines: &BTreeSet<u32>,
        to: &ManifestPath,
        limits: &ReadLimits,
    ) -> Self {
        let file = manifest::read(path, &FileContent::Bytes(content.to_vec()), limits);
        let moving = file.objects().filter(|object| lines.contains(&object.line));
        Self {
            path: path.clone(),
            second: moving.map(|object| object.id.clone()).collect(),
            to: Some(to.clone()),
        }
    }
}

/// The lines of a source that findings name.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedLines {
    /// Of what brings something that its own file needs.
    pub(super) brings: Vec<u32>,
    /// Of what needs what an installer of its own file brings.
    pub(super) needs: Vec<u32>,
}

/// Documents in the order in which they have to be applied, by their lines.
struct SplitParts {
    first: Vec<Range<usize>>,
    /// What needs a file of its own; empty where order is enough.
    rest: Vec<Range<usize>>,
}

fn parts(split: &ToSplit, text: &str, limits: &ReadLimits) -> SplitParts {
    let path = &split.path;
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read(path, &content, limits);
    let lines: Vec<&str> = text.lines().collect();
    let begins = |number: usize| match (number, file.documents.get(number)) {
        // What stands above the first document goes with it.
        (0, _) => 0,
        (_, Some(document)) => {
            let mut line = usize::try_from(document.line)
                .unwrap_or(1)
                .saturating_sub(1);
            // So do comments, up to what parts it from the one before.
            let belongs = |line: &&str| {
                let bare = line.trim_start();
                bare.is_empty() || bare.starts_with('#')
            };
            while line > 0 && lines.get(line - 1).is_some_and(belongs) {
                line -= 1;
            }
            line
        }
        (_, None) => lines.len(),
    };
    let (mut first, mut definitions) = (Vec::new(), Vec::new());
    let (mut others, mut rest) = (Vec::new(), Vec::new());
    for (number, document) in file.documents.iter().enumerate() {
        let is = |kind: &str| {
            let mut objects = document.objects.iter();
            !document.objects.is_empty() && objects.all(|object| object.id.kind == kind)
        };
        let lines = begins(number)..begins(number + 1);
        let is_second = || {
            let mut objects = document.objects.iter();
            !document.objects.is_empty() && objects.all(|object| split.second.contains(&object.id))
        };
        match () {
            () if is_second() => rest.push(lines),
            () if split.to.is_some() => others.push(lines),
            () if is("Namespace") => first.push(lines),
            () if is("CustomResourceDefinition") => definitions.push(lines),
            () if !split.second.is_empty() => others.push(lines),
            () => rest.push(lines),
        }
    }
    let apart = !definitions.is_empty() || !split.second.is_empty();
    first.append(&mut definitions);
    first.append(&mut others);
    if !apart {
        first.append(&mut rest);
    }
    SplitParts { first, rest }
}

/// The documents one below the other, with this line between them.
fn join(lines: &[&str], documents: &[Range<usize>], separator: &str) -> String {
    let texts: Vec<String> = documents
        .iter()
        .map(|document| {
            let lines = lines.get(document.clone()).unwrap_or_default().iter();
            let text: String = lines
                .filter(|line| line.trim_end() != separator.trim_end())
                .copied()
                .collect();
            match text.ends_with('\n') {
                true => text,
                false => text + "\n",
            }
        })
        .collect();
    texts.join(separator)
}

/// A manifest in two: what stays, and the objects of these lines. Each document keeps its bytes and its comments. `None` where a document
/// has some of them and others, or nothing would stay.
pub(in crate::rehearse) fn cut(
    path: &ManifestPath,
    content: &[u8],
    lines: &BTreeSet<u32>,
    limits: &ReadLimits,
) -> Option<(String, String)> {
    let text = std::str::from_utf8(content).ok()?;
    let split = ToSplit::by_lines(path, content, lines, path, limits);
    let SplitParts { first, rest } = parts(&split, text, limits);
    if first.is_empty() || rest.is_empty() {
        return None;
    }
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let (stays, moves) = (join(&all, &first, "---\n"), join(&all, &rest, "---\n"));
    let ids = |text: &str| {
        let content = FileContent::Bytes(text.as_bytes().to_vec());
        let file = manifest::read(path, &content, limits);
        let ids = file
            .objects()
            .map(|one| (one.id.clone(), one.node.to_json()));
        ids.collect::<Vec<_>>()
    };
    let is_second = |one: &&(ObjectRef, _)| split.second.contains(&one.0);
    let (second, others): (Vec<_>, Vec<_>) = ids(text).into_iter().partition(|one| is_second(&one));
    (ids(&stays) == others && ids(&moves) == second).then_some((stays, moves))
}

/// The path of the second file. Its Addon's name is one that no other file has.
fn beside(split: &ToSplit, addons: &mut BTreeSet<AddonName>) -> ManifestPath {
    let other = match &split.to {
        Some(to) => to.clone(),
        None => split.path.objects_path(|addon| addons.contains(addon)),
    };
    addons.insert(other.addon());
    other
}

/// Manifests of this source that one of these lines is in.
pub(super) fn manifests(
    source: &GivenFile,
    named: &NamedLines,
    layout: &[LayoutMove],
    limits: &ReadLimits,
) -> Vec<ToSplit> {
    let parted = |path: &ManifestPath| {
        let mut moves = layout.iter();
        moves.find(|one| one.from == *path && !one.lines.is_empty())
    };
    if named.brings.is_empty()
        && named.needs.is_empty()
        && !source.manifests().iter().any(|path| parted(path).is_some())
    {
        return Vec::new();
    }
    let to_split = |path: ManifestPath, content: &[u8], lines: InnerLines| {
        let file = manifest::read(&path, &FileContent::Bytes(content.to_vec()), limits);
        let second: BTreeSet<ObjectRef> = file
            .objects()
            .filter(|object| named.needs.contains(&lines.outer(object.line)))
            .map(|object| object.id.clone())
            .collect();
        if second.is_empty()
            && let Some(LayoutMove { lines, to, .. }) = parted(&path)
        {
            return Some(ToSplit::by_lines(&path, content, lines, to, limits));
        }
        let count = u32::try_from(String::from_utf8_lossy(content).lines().count());
        let mut own = 1..=count.unwrap_or(u32::MAX);
        let brings = own.any(|line| named.brings.contains(&lines.outer(line)));
        let to = None;
        (brings || !second.is_empty()).then_some(ToSplit { path, second, to })
    };
    if source.carries.is_none() {
        let lines = InnerLines::Follow { first: 1 };
        let to_split = to_split(source.name.as_str().into(), source.text.as_bytes(), lines);
        return to_split.into_iter().collect();
    }
    extract(&source.shown, &source.text, limits)
        .files
        .into_iter()
        .filter_map(|file| to_split(file.path.into(), &file.content, file.lines))
        .collect()
}

/// Why nothing is gained: all of it would be in one file.
const ONE_DOCUMENT: &str =
    "what brings something and what needs it stand in one document; split it by hand";

/// A manifest as one file or two.
pub(super) fn file(
    copy: GivenFile,
    split: &ToSplit,
    addons: &mut BTreeSet<AddonName>,
    limits: &ReadLimits,
    left: &mut Vec<String>,
) -> Vec<GivenFile> {
    let parts = parts(split, &copy.text, limits);
    if !split.second.is_empty() && (parts.first.is_empty() || parts.rest.is_empty()) {
        left.push(format!("{}: it is not split: {ONE_DOCUMENT}", copy.shown));
        return vec![copy];
    }
    let lines: Vec<&str> = copy.text.split_inclusive('\n').collect();
    let text = join(&lines, &parts.first, "---\n");
    let rest = join(&lines, &parts.rest, "---\n");
    let mut written = vec![GivenFile {
        text,
        ..copy.clone()
    }];
    if !parts.rest.is_empty() {
        let name = beside(split, addons).to_string();
        written.push(GivenFile {
            shown: name.clone(),
            name,
            text: rest,
            carries: None,
        });
    }
    written
}

/// A configuration with these of its manifests as one entry or two each. What cannot be done line by
/// line is left as it is, and said.
pub(super) fn carrier(
    mut copy: GivenFile,
    manifests: &[ToSplit],
    addons: &mut BTreeSet<AddonName>,
    limits: &ReadLimits,
    left: &mut Vec<String>,
) -> GivenFile {
    for split in manifests {
        match two_entries(&copy, split, addons, limits) {
            Ok((text, more)) => {
                copy.text = text;
                copy.carries.get_or_insert_default().extend(more);
            }
            Err((line, why)) => left.push(format!(
                "{}: {} is not split: {why}",
                Location::line(&copy.shown, line),
                split.path
            )),
        }
    }
    copy
}

/// The text with the entry that writes this manifest split, and the path of the new one.
fn two_entries(
    copy: &GivenFile,
    split: &ToSplit,
    addons: &mut BTreeSet<AddonName>,
    limits: &ReadLimits,
) -> Result<(String, Option<ManifestPath>), (u32, &'static str)> {
    let path = &split.path;
    let extraction = extract(&copy.shown, &copy.text, limits);
    let Some(file) = extraction
        .files
        .into_iter()
        .find(|file| *path == file.path.as_str())
    else {
        return Err((1, "it is written in no entry any more; split it by hand"));
    };
    let first = match file.lines {
        InnerLines::Follow { first } => first,
        InnerLines::Begin { line } => {
            return Err((
                line,
                "its content is encoded, quoted or folded; write it as plain text in a block that begins with `|`",
            ));
        }
    };
    let by_hand = (
        first.saturating_sub(1),
        "its entry is not written line by line; split it by hand",
    );
    let lines: Vec<&str> = copy.text.split_inclusive('\n').collect();
    let entry = ListEntry::around(&lines, first).ok_or(by_hand)?;
    let inner = String::from_utf8_lossy(&file.content);
    let parts = parts(split, &inner, limits);
    if !split.second.is_empty() && (parts.first.is_empty() || parts.rest.is_empty()) {
        return Err((first, ONE_DOCUMENT));
    }
    let content = lines.get(entry.content.clone()).unwrap_or_default();
    let separator = format!("{}---\n", " ".repeat(entry.indentation));
    let written = |documents: &[Range<usize>]| -> String {
        let head = lines[entry.all.start..entry.content.start].concat();
        let tail = lines[entry.content.end..entry.all.end].concat();
        format!("{head}{}{tail}", join(content, documents, &separator))
    };
    let mut text = lines[..entry.all.start].concat();
    text.push_str(&written(&parts.first));
    let mut more = None;
    if !parts.rest.is_empty() {
        let other = beside(split, addons);
        let (from, to) = (
            format!("/server/manifests/{path}"),
            format!("/server/manifests/{other}"),
        );
        let second = written(&parts.rest);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        if !second.contains(&from) {
            return Err(by_hand);
        }
        text.push_str(&second.replacen(&from, &to, 1));
        more = Some(other);
    }
    text.push_str(&lines[entry.all.end..].concat());
    Ok((text, more))
}

/// An entry of a list of files, by its lines.
struct ListEntry {
    all: Range<usize>,
    /// The lines of its content, a literal block.
    content: Range<usize>,
    /// How far these are moved to the right.
    indentation: usize,
}

impl ListEntry {
    /// The one whose content begins in this line, counted from 1.
    fn around(lines: &[&str], first: u32) -> Option<Self> {
        let begins = usize::try_from(first).ok()?.checked_sub(1)?;
        let header = begins.checked_sub(1)?;
        // With an indentation indicator (`|2`) the first line does not tell how far it is.
        if lines
            .get(header)?
            .trim_end()
            .ends_with(|ch: char| ch.is_ascii_digit())
        {
            return None;
        }
        let bare = |line: &&str| !line.trim().is_empty();
        let indentation = indent(lines.get(begins..)?.iter().find(|line| bare(line))?);
        let key = column(lines[header]);
        let start = (0..=header).rev().find(|number| {
            let line = lines[*number];
            bare(&line) && line.trim_start().starts_with("- ") && column(line) == key
        })?;
        let dash = indent(lines[start]);
        let until = |from: usize, least: usize| {
            let rest = lines.iter().enumerate().skip(from);
            let mut out = rest.filter(|(_, line)| bare(line) && indent(line) < least);
            out.next().map_or(lines.len(), |(number, _)| number)
        };
        // Whatever stands between belongs to the entry.
        if (start + 1..=header).any(|number| bare(&lines[number]) && indent(lines[number]) <= dash)
        {
            return None;
        }
        Some(Self {
            all: start..until(begins, dash + 1),
            content: begins..until(begins, indentation),
            indentation,
        })
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Where a line's key stands, behind the dash if there is one.
fn column(line: &str) -> usize {
    let bare = line.trim_start_matches(' ');
    let behind = bare.strip_prefix("- ").map_or(bare, str::trim_start);
    line.len() - behind.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = "      apiVersion: apiextensions.k8s.io/v1\n      kind: CustomResourceDefinition\n      metadata: {name: widgets.example.com}\n";
    const WIDGET: &str = "      # one of them\n      apiVersion: example.com/v1\n      kind: Widget\n      metadata: {name: w}\n";

    fn config(content: &str, more: &str) -> GivenFile {
        GivenFile {
            name: "user-data".to_owned(),
            shown: "user-data".to_owned(),
            text: format!(
                "#cloud-config\nwrite_files:\n  - path: /var/lib/rancher/rke2/server/manifests/a.yaml\n    permissions: '0600'\n    content: |\n{content}    owner: root\n{more}"
            ),
            carries: Some(vec!["a.yaml".into()]),
        }
    }

    fn split(source: GivenFile) -> (GivenFile, Vec<String>) {
        let mut left = Vec::new();
        let manifests = [ToSplit {
            path: "a.yaml".into(),
            second: BTreeSet::new(),
            to: None,
        }];
        let mut addons = BTreeSet::from(["a".into()]);
        let limits = ReadLimits::default();
        let copy = carrier(source, &manifests, &mut addons, &limits, &mut left);
        (copy, left)
    }

    #[test]
    fn an_entry_becomes_two_and_what_stands_around_it_stays() {
        let after =
            "  # the next one\n  - path: /etc/motd\n    content: |\n      hello\n\nruncmd: [x]\n";
        let (copy, left) = split(config(&format!("{WIDGET}      ---\n{DEFINITION}"), after));
        assert_eq!(left, [""; 0]);
        assert_eq!(copy.carries.unwrap(), ["a.yaml", "a-objects.yaml"]);
        let entry = |name: &str, content: &str| {
            format!(
                "  - path: /var/lib/rancher/rke2/server/manifests/{name}\n    permissions: '0600'\n    content: |\n{content}    owner: root\n"
            )
        };
        assert_eq!(
            copy.text,
            format!(
                "#cloud-config\nwrite_files:\n{}{}{after}",
                entry("a.yaml", DEFINITION),
                entry("a-objects.yaml", WIDGET)
            )
        );
    }

    #[test]
    fn a_namespace_only_changes_places() {
        let namespace =
            "      apiVersion: v1\n      kind: Namespace\n      metadata: {name: late}\n";
        let (copy, left) = split(config(&format!("{WIDGET}      ---\n{namespace}"), ""));
        assert_eq!(left, [""; 0]);
        assert_eq!(copy.carries.unwrap(), ["a.yaml"]);
        assert!(
            copy.text
                .contains(&format!("{namespace}      ---\n{WIDGET}")),
            "{}",
            copy.text
        );
    }

    #[test]
    fn what_is_encoded_or_not_written_line_by_line_stays_and_is_told_with_its_line() {
        let mut encoded = config("", "");
        encoded.text = "#cloud-config\nwrite_files:\n- path: /var/lib/rancher/rke2/server/manifests/a.yaml\n  encoding: b64\n  content: YTogYgo=\n".to_owned();
        let (copy, left) = split(encoded.clone());
        assert_eq!(copy, encoded);
        assert!(
            left[0].starts_with("user-data:5: a.yaml is not split: its content is encoded"),
            "{left:?}"
        );
        let mut moved = config(&format!("{WIDGET}      ---\n{DEFINITION}"), "");
        moved.text = moved.text.replace("content: |\n", "content: |2\n");
        let (copy, left) = split(moved.clone());
        assert_eq!(copy, moved);
        assert!(left[0].contains("split it by hand"), "{left:?}");
    }
}
