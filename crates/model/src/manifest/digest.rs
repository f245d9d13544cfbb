//! The digest that identifies content. It covers the objects, not the bytes.

use sha2::{Digest, Sha256};

use super::{MapEntry, Node, NodeValue, Object};

const FULL: usize = 8192;

/// SHA-256 over the canonical form of all objects: with sorted keys, without formatting, and without the parts that
/// RKE2 itself writes into the file of a HelmChart.
pub(super) struct ContentDigest {
    hasher: Sha256,
    buffer: Vec<u8>,
}

impl ContentDigest {
    pub(super) fn new() -> Self {
        Self {
            hasher: Sha256::new(),
            buffer: Vec::with_capacity(FULL + 1024),
        }
    }

    pub(super) fn object(&mut self, object: &Object) {
        if object.id.group == "helm.cattle.io" && object.id.kind == "HelmChart" {
            self.node(&without_rke2(&object.node));
        } else {
            self.node(&object.node);
        }
        self.byte(b'\n');
    }

    pub(super) fn finish(mut self) -> String {
        self.hasher.update(&self.buffer);
        hex(&self.hasher.finalize())
    }

    fn byte(&mut self, byte: u8) {
        self.buffer.push(byte);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > FULL {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
        }
        if bytes.len() > FULL {
            self.hasher.update(bytes);
        } else {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Writes the length first, so that two different sequences of texts never give the same bytes.
    fn text(&mut self, mark: u8, text: &str) {
        self.byte(mark);
        self.bytes(&(text.len() as u64).to_le_bytes());
        self.bytes(text.as_bytes());
    }

    fn node(&mut self, node: &Node) {
        match &node.value {
            NodeValue::Null => self.byte(b'n'),
            NodeValue::Bool(true) => self.byte(b't'),
            NodeValue::Bool(false) => self.byte(b'f'),
            NodeValue::Number(number) => self.text(b'0', &number.to_string()),
            NodeValue::String(text) => self.text(b'"', text),
            NodeValue::Sequence(items) => {
                self.byte(b'[');
                for item in items {
                    self.node(item);
                }
                self.byte(b']');
            }
            NodeValue::Mapping(entries) => {
                self.byte(b'{');
                if entries.windows(2).all(|pair| pair[0].key < pair[1].key) {
                    entries.iter().for_each(|entry| self.entry(entry));
                } else {
                    let mut sorted: Vec<&MapEntry> = entries.iter().collect();
                    sorted.sort_unstable_by_key(|entry| entry.key.as_str());
                    sorted.into_iter().for_each(|entry| self.entry(entry));
                }
                self.byte(b'}');
            }
        }
    }

    fn entry(&mut self, entry: &MapEntry) {
        self.text(b':', &entry.key);
        self.node(&entry.value);
    }
}

/// Up to 1.35, RKE2 rewrites HelmChart files when it starts: it sets `spec.set.global.*` and writes the whole object
/// again, with an empty status and an empty creation time.
fn without_rke2(node: &Node) -> Node {
    let mut node = node.clone();
    remove(&mut node, |entry| entry.key == "status");
    if let Some(metadata) = child(&mut node, "metadata") {
        remove(metadata, |entry| {
            entry.key == "creationTimestamp" && entry.value.is_null()
        });
    }
    if let Some(spec) = child(&mut node, "spec") {
        if let Some(set) = child(spec, "set") {
            remove(set, |entry| entry.key.starts_with("global."));
        }
        remove(spec, |entry| {
            entry.key == "set"
                && (entry.value.is_null() || entry.value.value == NodeValue::Mapping(Vec::new()))
        });
    }
    node
}

fn child<'n>(node: &'n mut Node, key: &str) -> Option<&'n mut Node> {
    match &mut node.value {
        NodeValue::Mapping(entries) => entries
            .iter_mut()
            .find(|entry| entry.key == key)
            .map(|entry| &mut entry.value),
        _ => None,
    }
}

fn remove(node: &mut Node, unwanted: impl Fn(&MapEntry) -> bool) {
    if let NodeValue::Mapping(entries) = &mut node.value {
        entries.retain(|entry| !unwanted(entry));
    }
}

/// Hex SHA-256 of bytes, in the form of `Addon.spec.checksum`.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&sha256(bytes))
}

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let room = String::with_capacity(2 * bytes.len());
    bytes.iter().fold(room, |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
