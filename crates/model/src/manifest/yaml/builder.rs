//! Builds a [`Node`] from parser events. It keeps its own stack, so nesting needs no recursion.

mod anchor;
mod anchors;
mod escapes;
mod merge;
mod tags;

use std::collections::HashMap;

use libyaml_safer::{EventData, MappingStyle, ScalarStyle, SequenceStyle};

use self::anchor::Anchor;
use self::merge::merge;
use super::aliases::Aliases;
use super::{ForeignTag, ReadKey, RepeatedKey};
use crate::manifest::budget::{self, BudgetSpent, MOST_PROBLEMS, MemoryBudget};
use crate::manifest::scalar::{self, Scalar};
use crate::manifest::{MapEntry, Node, NodeValue, Problem, ReadLimits};
use crate::reasons::Code;

/// Most keys of a document that are kept because RKE2 reads them as another text than the written one.
const MOST_KEYS: usize = 100;

/// Why the rest of the document cannot be read.
pub(super) struct DocumentRefusal {
    pub(super) code: Code,
    pub(super) message: String,
}

/// A key that was read; its value comes next.
enum PendingKey {
    Name {
        key: String,
        line: u32,
    },
    /// `<<`
    Merge,
}

enum Items {
    Sequence(Vec<Node>),
    Mapping {
        entries: Vec<MapEntry>,
        key: Option<PendingKey>,
        /// Whether it already has a `<<`.
        merged: bool,
    },
}

/// A list or map whose end has not been read yet.
struct OpenCollection {
    line: u32,
    anchor: Option<String>,
    /// Whether it is written in brackets or braces.
    flow: bool,
    items: Items,
    /// Values in it, itself included, aliases expanded.
    nodes: usize,
    /// Levels below it.
    height: usize,
}

pub(super) struct NodeBuilder<'l> {
    limits: &'l ReadLimits,
    /// The memory of the documents before it.
    taken: usize,
    text: &'l str,
    /// The possible references to an anchor; collected at the first anchor.
    aliases: Option<Aliases<'l>>,
    budget: MemoryBudget,
    unique: bool,
    /// Keep every pair of the outermost map.
    pairs: bool,
    /// Keep the written form of a `!!binary`.
    written_binary: bool,
    /// Read `yes`, `on` and similar words as text.
    plain_words: bool,
    stack: Vec<OpenCollection>,
    root: Option<Node>,
    anchors: HashMap<String, Anchor>,
    problems: Vec<Problem>,
    keys: Vec<ReadKey>,
    repeated: Vec<RepeatedKey>,
    tags: Vec<ForeignTag>,
    /// Values read, aliases expanded, and how many of them came from aliases.
    decoded: usize,
    aliased: usize,
}

impl<'l> NodeBuilder<'l> {
    pub(super) fn new(
        text: &'l str,
        (limits, taken): (&'l ReadLimits, usize),
        unique: bool,
        pairs: bool,
    ) -> Self {
        Self {
            limits,
            taken,
            text,
            aliases: None,
            budget: MemoryBudget::new(limits, taken),
            unique,
            pairs,
            written_binary: false,
            plain_words: false,
            stack: Vec::with_capacity(16),
            root: None,
            anchors: HashMap::new(),
            problems: Vec::new(),
            keys: Vec::new(),
            repeated: Vec::new(),
            tags: Vec::new(),
            decoded: 0,
            aliased: 0,
        }
    }

    /// Keeps the written form of a `!!binary`: its value depends on the program that reads the file.
    pub(super) fn with_written_binary(mut self, written_binary: bool) -> Self {
        self.written_binary = written_binary;
        self
    }

    /// Reads the words for yes and no of YAML 1.1 as text, but not those of YAML 1.2.
    pub(super) fn with_plain_words(mut self, plain_words: bool) -> Self {
        self.plain_words = plain_words;
        self
    }

    /// All problems, when reading ends early.
    pub(super) fn stop(mut self, last: Problem) -> Vec<Problem> {
        self.problems.push(last);
        self.problems
    }

    /// The keys that RKE2 reads as another text than the written one, and the repeated ones.
    pub(super) fn odd_keys(&mut self) -> (Vec<ReadKey>, Vec<RepeatedKey>) {
        (
            std::mem::take(&mut self.keys),
            std::mem::take(&mut self.repeated),
        )
    }

    pub(super) fn finish(self) -> Result<Option<Node>, Vec<Problem>> {
        if self.problems.is_empty() {
            Ok(self.root)
        } else {
            Err(self.problems)
        }
    }

    pub(super) fn take(&mut self, event: EventData, line: u32) -> Result<(), DocumentRefusal> {
        match event {
            EventData::Scalar {
                anchor,
                tag,
                value,
                plain_implicit,
                style,
                ..
            } => {
                self.decoded += 1;
                let is_rke2s = !self.unique && !self.written_binary;
                if is_rke2s
                    && style == ScalarStyle::Plain
                    && value.contains('?')
                    && self.is_in_flow()
                {
                    self.problem(line, QUESTION_MARK.to_owned());
                }
                let tag = tag.as_deref().filter(|tag| !tag.is_empty());
                self.weigh(&value, tag)?;
                self.keep_tag(tag, line);
                self.scalar(anchor, tag, value, plain_implicit, line)
            }
            EventData::Alias { anchor } => self.take_alias(&anchor, line),
            EventData::SequenceStart {
                anchor, tag, style, ..
            } => {
                self.keep_tag(tag.as_deref(), line);
                self.open(
                    anchor,
                    line,
                    style == SequenceStyle::Flow,
                    Items::Sequence(Vec::new()),
                )
            }
            EventData::MappingStart {
                anchor, tag, style, ..
            } => {
                self.keep_tag(tag.as_deref(), line);
                self.open(
                    anchor,
                    line,
                    style == MappingStyle::Flow,
                    Items::Mapping {
                        entries: Vec::new(),
                        key: None,
                        merged: false,
                    },
                )
            }
            EventData::SequenceEnd | EventData::MappingEnd => self.close(),
            _ => Ok(()),
        }
    }

    fn awaits_key(&self) -> bool {
        matches!(
            self.stack.last(),
            Some(OpenCollection {
                items: Items::Mapping { key: None, .. },
                ..
            })
        )
    }

    fn is_in_flow(&self) -> bool {
        self.stack.last().is_some_and(|frame| frame.flow)
    }

    /// Counts the memory of a text. Invalid UTF-8 from base64 becomes larger than it was.
    fn weigh(&mut self, text: &str, tag: Option<&str>) -> Result<(), DocumentRefusal> {
        let times = match tag {
            Some(tag) if tag.ends_with("binary") => 4,
            _ => 1,
        };
        self.take_bytes(budget::memory_of_text(text) * times)
    }

    fn take_bytes(&mut self, bytes: usize) -> Result<(), DocumentRefusal> {
        self.budget.take(bytes).map_err(|BudgetSpent| self.spent())
    }

    fn spent(&self) -> DocumentRefusal {
        DocumentRefusal {
            code: Code::LimitExceeded,
            message: budget::exceeded(self.limits, self.taken),
        }
    }

    fn problem(&mut self, line: u32, message: String) {
        if self.problems.len() > MOST_PROBLEMS {
            return;
        }
        self.problems.push(Problem {
            code: Code::FileRefused,
            line: Some(line),
            message,
        });
    }

    fn scalar(
        &mut self,
        anchor: Option<String>,
        tag: Option<&str>,
        text: String,
        plain: bool,
        line: u32,
    ) -> Result<(), DocumentRefusal> {
        let awaits_key = self.awaits_key();
        if awaits_key && scalar::is_merge(&text, tag, plain) {
            let node = Node {
                line,
                value: NodeValue::String(text),
            };
            self.keep_anchor(anchor, &node, (1, 0))?;
            return self.key(PendingKey::Merge);
        }
        let written = (awaits_key && self.keys.len() < MOST_KEYS && may_be_no_text(&text))
            .then(|| text.clone());
        let is_word = self.plain_words && tag.is_none() && scalar::is_word_of_yaml_1_1(&text);
        let is_written = (self.written_binary && scalar::is_binary(tag)) || is_word;
        let resolved =
            match scalar::resolve(text, tag.filter(|_| !is_written), plain && !is_written) {
                Ok(resolved) => resolved,
                Err(message) => {
                    self.problem(line, message);
                    Scalar::Text(String::new())
                }
            };
        if awaits_key {
            if anchor.is_some() {
                let value = resolved.clone().into_value().unwrap_or(NodeValue::Null);
                self.keep_anchor(anchor, &Node { line, value }, (1, 0))?;
            }
            let key = match self.pairs {
                true => Ok(resolved.printed()),
                false => resolved.into_key(),
            };
            let key = match key {
                Ok(key) => key,
                Err(message) => {
                    self.problem(line, message);
                    String::new()
                }
            };
            if let Some(written) = written.filter(|written| *written != key) {
                let read = key.clone();
                self.keys.push(ReadKey {
                    line,
                    written,
                    read,
                });
            }
            return self.key(PendingKey::Name { key, line });
        }
        let value = match resolved {
            // They never become JSON there.
            Scalar::Uint(_) | Scalar::Float(_) if self.pairs => {
                Ok(NodeValue::String(resolved.printed()))
            }
            _ => resolved.into_value(),
        };
        let value = match value {
            Ok(value) => value,
            Err(message) => {
                self.problem(line, message);
                NodeValue::Null
            }
        };
        let node = Node { line, value };
        self.keep_anchor(anchor, &node, (1, 0))?;
        self.value(node, 1, 0, false)
    }

    fn key(&mut self, read: PendingKey) -> Result<(), DocumentRefusal> {
        if let Some(OpenCollection {
            items: Items::Mapping { key, .. },
            nodes,
            ..
        }) = self.stack.last_mut()
        {
            *key = Some(read);
            *nodes += 1;
        }
        Ok(())
    }

    fn check_depth(&self, depth: usize) -> Result<(), DocumentRefusal> {
        if depth <= self.limits.depth {
            return Ok(());
        }
        Err(DocumentRefusal {
            code: Code::LimitExceeded,
            message: format!(
                "lists and maps are nested more than {} deep; write them flatter, or raise staging.limits.depth",
                self.limits.depth
            ),
        })
    }

    fn open(
        &mut self,
        anchor: Option<String>,
        line: u32,
        flow: bool,
        items: Items,
    ) -> Result<(), DocumentRefusal> {
        self.decoded += 1;
        if self.awaits_key() {
            return Err(refuse(key_is_no_scalar()));
        }
        self.check_depth(self.stack.len() + 1)?;
        let anchor = anchor.filter(|anchor| self.is_named(anchor));
        if let Some(anchor) = &anchor {
            self.take_bytes(budget::memory_of_text(anchor) + size_of::<(String, Anchor)>())?;
            if let Some(Anchor::Done { bytes, .. }) =
                self.anchors.insert(anchor.clone(), Anchor::Open)
            {
                self.budget.give(bytes);
            }
        }
        self.stack.push(OpenCollection {
            line,
            anchor,
            flow,
            items,
            nodes: 1,
            height: 1,
        });
        Ok(())
    }

    fn close(&mut self) -> Result<(), DocumentRefusal> {
        let Some(frame) = self.stack.pop() else {
            return Ok(());
        };
        let value = match frame.items {
            Items::Sequence(mut items) => {
                self.budget.trim(&mut items);
                NodeValue::Sequence(items)
            }
            Items::Mapping { entries, .. } if self.pairs && self.stack.is_empty() => {
                NodeValue::Mapping(entries)
            }
            Items::Mapping {
                mut entries,
                merged,
                ..
            } => {
                self.budget.trim(&mut entries);
                NodeValue::Mapping(self.unique(entries, merged))
            }
        };
        let node = Node {
            line: frame.line,
            value,
        };
        // An anchor of the same name inside it was defined later.
        let anchor = frame
            .anchor
            .filter(|name| matches!(self.anchors.get(name), Some(Anchor::Open)));
        self.keep_anchor(anchor, &node, (frame.nodes, frame.height))?;
        self.value(node, frame.nodes, frame.height, false)
    }

    fn value(
        &mut self,
        node: Node,
        nodes: usize,
        height: usize,
        by_alias: bool,
    ) -> Result<(), DocumentRefusal> {
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        frame.nodes += nodes;
        frame.height = frame.height.max(height + 1);
        let grown = match &frame.items {
            Items::Sequence(items) => self.budget.grow(items),
            Items::Mapping { entries, key, .. } => match (&node.value, key) {
                (NodeValue::Mapping(merged), Some(PendingKey::Merge)) => {
                    let copied = if by_alias { 2 * merged.len() } else { 0 };
                    self.budget
                        .take(copied * size_of::<MapEntry>())
                        .and_then(|()| self.budget.grow_by(entries, merged.len()))
                }
                (NodeValue::Sequence(maps), Some(PendingKey::Merge)) => {
                    let merged = maps.iter().map(|map| match &map.value {
                        NodeValue::Mapping(entries) => entries.len(),
                        _ => 0,
                    });
                    self.budget.grow_by(entries, merged.sum())
                }
                _ => self.budget.grow(entries),
            },
        };
        if grown.is_err() {
            return Err(self.spent());
        }
        let is_outermost = self.stack.len() == 1;
        let Some(frame) = self.stack.last_mut() else {
            return Ok(());
        };
        match &mut frame.items {
            Items::Sequence(items) => items.push(node),
            Items::Mapping {
                entries,
                key,
                merged,
            } => match key.take() {
                Some(PendingKey::Name { key, line }) => entries.push(MapEntry {
                    key,
                    line,
                    value: node,
                }),
                _ => {
                    *merged = true;
                    match self.pairs && is_outermost {
                        // RKE2 reads pairs, and drops those that are merged into them.
                        true => merge(&mut Vec::new(), node, by_alias)?,
                        false => merge(entries, node, by_alias)?,
                    }
                }
            },
        }
        Ok(())
    }
}

/// Whether a plain scalar may be a boolean or a number. Fast, and false for most keys.
fn may_be_no_text(text: &str) -> bool {
    let first = text.bytes().next().unwrap_or_default();
    let truths = text.len() <= "false".len() && b"yYnNoOtTfF".contains(&first);
    truths || first.is_ascii_digit() || b"+-.".contains(&first)
}

/// RKE2's reader treats a question mark as the beginning of a key there, even inside a text.
const QUESTION_MARK: &str =
    "not valid YAML: between brackets or braces a text with a question mark must be quoted";

fn key_is_no_scalar() -> String {
    "a list or map cannot be a key; quote the key if it is text like `{{ name }}`".to_owned()
}

fn refuse(message: String) -> DocumentRefusal {
    DocumentRefusal {
        code: Code::FileRefused,
        message,
    }
}
