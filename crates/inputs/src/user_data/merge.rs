//! Several cloud-configs are one: each is merged into those before it, and by default a key replaces the same key of an
//! earlier part (`cloudinit/handlers/cloud_config.py`, `_extract_mergers`: `dict(replace)+list()+str()`). The replaced
//! text becomes blank here, so that every other line keeps its number.

use std::ops::Range;

use windrow_model::manifest::{MapEntry, Node, NodeValue, ReadLimits, yaml};
use windrow_model::reasons::Code;

use super::{ConfigPart, Wrapped};

/// The lists that Windrow checks.
const LISTS: [&str; 3] = ["write_files", "runcmd", "bootcmd"];

/// The treatment of a list that an earlier part has too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListMerge {
    /// It takes the earlier one's place.
    Replace,
    /// The earlier one stays.
    Keep,
    /// It follows the earlier one.
    Append,
    /// It comes before the earlier one.
    Prepend,
    /// Entries are merged one by one, or in an unknown way.
    Other,
    /// Its mergers do not accept a map, or one does not exist: the whole part is ignored.
    Nothing,
}

/// Merges the parts as cloud-init does.
pub(super) fn merge(wrapped: &mut Wrapped) {
    let mut merged: Vec<(ConfigPart, Lists)> = Vec::new();
    for mut part in std::mem::take(&mut wrapped.parts) {
        // A part that is not valid YAML is reported when its files are extracted.
        let root = yaml::input(&part.text, &ReadLimits::default())
            .ok()
            .and_then(|file| file.root);
        let how = root.as_ref().map_or(ListMerge::Replace, |root| {
            list_merge(root, part.merge.as_deref())
        });
        let mut lists = root.as_ref().map_or_else(Lists::default, |root| {
            LISTS.map(|list| lines_of(root, list))
        });
        if how == ListMerge::Nothing {
            // If its own keys cause that, it is reported when its files are extracted.
            if root.as_ref().and_then(takes_nothing).is_none() {
                let fields = [("key", "Merge-Type"), ("why", NOTHING)];
                wrapped.problem(Code::KeyNotRead, part.first, &fields);
            }
            blank(&mut part, &(0..usize::MAX));
            lists = Lists::default();
        }
        for (number, list) in LISTS.into_iter().enumerate() {
            for (earlier, earlier_lists) in &mut merged {
                let (Some(own), Some(before)) = (&lists[number], &earlier_lists[number]) else {
                    continue;
                };
                if !(is_block(earlier, before, list) && is_block(&part, own, list)) {
                    let what = format!(
                        "how `{list}` is merged with that of an earlier part; write it on its own line"
                    );
                    wrapped.not_looked_at(part.first, &what);
                    continue;
                }
                match how {
                    ListMerge::Append | ListMerge::Prepend | ListMerge::Nothing => {}
                    ListMerge::Replace => {
                        let at = line_of(earlier, before);
                        let why = format!(
                            "the part that begins in line {} has the key too and replaces it; write `merge_how: \
                             dict(recurse_list)+list(append)` there to have both",
                            part.first
                        );
                        blank(earlier, before);
                        earlier_lists[number] = None;
                        wrapped.problem(Code::KeyNotRead, at, &[("key", list), ("why", &why)]);
                    }
                    ListMerge::Keep => {
                        let at = line_of(&part, own);
                        let why = format!(
                            "the part that begins in line {} has the key already, and `merge_how` keeps that",
                            earlier.first
                        );
                        blank(&mut part, own);
                        lists[number] = None;
                        wrapped.problem(Code::KeyNotRead, at, &[("key", list), ("why", &why)]);
                    }
                    ListMerge::Other => {
                        let what = format!(
                            "how `{list}` is merged with that of an earlier part (`merge_how`)"
                        );
                        wrapped.not_looked_at(part.first, &what);
                    }
                }
            }
        }
        match how {
            ListMerge::Prepend => merged.insert(0, (part, lists)),
            _ => merged.push((part, lists)),
        }
    }
    wrapped.parts = merged.into_iter().map(|(part, _)| part).collect();
}

/// The lines of each of [`LISTS`], counted from 0.
type Lists = [Option<Range<usize>>; LISTS.len()];

/// The line of the file in which a list begins, if it can be determined.
fn line_of(part: &ConfigPart, lines: &Range<usize>) -> u32 {
    match part.mapped {
        true => u32::try_from(lines.start)
            .unwrap_or(u32::MAX)
            .saturating_add(1),
        false => part.first,
    }
}

/// The lines of a key and of its value.
fn lines_of(root: &Node, key: &str) -> Option<Range<usize>> {
    let mut entries = root.entries().iter().skip_while(|entry| entry.key != key);
    let start = index(entries.next()?.line);
    let end = entries.next().map_or(usize::MAX, |entry| index(entry.line));
    Some(start..end.max(start + 1))
}

/// Whether the key begins a line, so that its lines can be separated from the rest.
fn is_block(part: &ConfigPart, lines: &Range<usize>, key: &str) -> bool {
    let line = part.text.lines().nth(lines.start).unwrap_or_default();
    line.trim_start_matches(['"', '\'']).starts_with(key)
}

fn index(line: u32) -> usize {
    usize::try_from(line)
        .unwrap_or(usize::MAX)
        .saturating_sub(1)
}

fn blank(part: &mut ConfigPart, lines: &Range<usize>) {
    let kept = part
        .text
        .split_inclusive('\n')
        .enumerate()
        .map(|(number, line)| match lines.contains(&number) {
            true if line.ends_with('\n') => "\n",
            true => "",
            false => line,
        });
    part.text = kept.collect();
}

/// Why a part is ignored, after the key that requests its merging.
pub(crate) const NOTHING: &str = "cloud-init ignores a part without a merger for maps, or with one \
     that it does not know; write `dict(recurse_list)+list(append)`";

/// The key with which a cloud-config requests mergers that ignore it, and its line.
pub(crate) fn takes_nothing(root: &Node) -> Option<(&str, u32)> {
    let asked = asked(root)?;
    let nothing = how_of(&mergers(&asked.value)) == ListMerge::Nothing;
    nothing.then_some((&asked.key, asked.line))
}

fn asked(root: &Node) -> Option<&MapEntry> {
    let mut keys = ["merge_how", "merge_type"].into_iter();
    keys.find_map(|key| root.entry(key).filter(|entry| !entry.value.is_null()))
}

/// The merging that a part requests: in its keys, then in its headers. The first merger of a type counts.
fn list_merge(root: &Node, header: Option<&str>) -> ListMerge {
    let mut all = asked(root).map_or_else(Vec::new, |asked| mergers(&asked.value));
    all.extend(header.map_or_else(Vec::new, parsed));
    how_of(&all)
}

/// `cloudinit/mergers/__init__.py`, 26.2: a value that no merger accepts stays unchanged, and at first it is empty.
fn how_of(mergers: &[Merger]) -> ListMerge {
    if mergers.is_empty() {
        return ListMerge::Replace;
    }
    let is_known = |(name, _): &Merger| ["dict", "list", "str"].contains(&name.as_str());
    let options = |name: &str| {
        let mut known = mergers.iter();
        known
            .find(|(known, _)| known == name)
            .map(|(_, options)| options)
    };
    let has = |options: &[String], wanted: &[&str]| {
        options.iter().any(|one| wanted.contains(&one.as_str()))
    };
    match (options("dict"), options("list")) {
        _ if !mergers.iter().all(is_known) => ListMerge::Nothing,
        (None, _) => ListMerge::Nothing,
        (Some(dict), _) if has(dict, &["replace"]) => ListMerge::Replace,
        (Some(dict), _) if !has(dict, &["recurse_list", "recurse_array"]) => ListMerge::Keep,
        (Some(_), Some(list)) if has(list, &["append"]) => ListMerge::Append,
        (Some(_), Some(list)) if has(list, &["prepend"]) => ListMerge::Prepend,
        (Some(_), _) => ListMerge::Other,
    }
}

/// A merger's name and options; one that is written in another way has no name.
type Merger = (String, Vec<String>);

/// `merge_how` as text, as a list of names with settings, or as a list of lists.
fn mergers(asked: &Node) -> Vec<Merger> {
    if let NodeValue::String(text) = &asked.value {
        return parsed(text);
    }
    let texts = |nodes: &[Node]| -> Vec<String> {
        let texts = nodes.iter().filter_map(Node::as_str);
        texts.map(str::to_owned).collect()
    };
    let one = |item: &Node| match item.str_at(&["name"]) {
        Some(name) => (name.trim().to_owned(), texts(item.list("settings"))),
        None => {
            let mut words = texts(item.items()).into_iter();
            (words.next().unwrap_or_default(), words.collect())
        }
    };
    asked.items().iter().map(one).collect()
}

/// `dict(recurse_list)+list(append)`
fn parsed(text: &str) -> Vec<Merger> {
    let mergers = text.split('+').filter(|merger| !merger.trim().is_empty());
    let mergers = mergers.map(|merger| {
        let merger = merger.trim().to_lowercase();
        let parts = merger
            .strip_suffix(')')
            .and_then(|merger| merger.split_once('('));
        let (name, options) = parts.unwrap_or_default();
        let options = options.split(',').map(|option| option.trim().to_owned());
        (name.to_owned(), options.collect())
    });
    mergers.collect()
}
