//! Anchors and aliases: the value of an anchor is kept if an alias may refer to it, within the reader's rule against
//! alias bombs and our budget.

use super::anchor::Anchor;
use super::{DocumentRefusal, NodeBuilder, PendingKey, key_is_no_scalar, refuse};
use crate::manifest::scalar::Scalar;
use crate::manifest::yaml::aliases::{self, Aliases};
use crate::manifest::{Node, NodeValue, budget};
use crate::reasons::Code;

impl NodeBuilder<'_> {
    /// Whether an alias refers to the anchor. Other anchors are not kept.
    pub(super) fn is_named(&mut self, anchor: &str) -> bool {
        let text = self.text;
        let aliases = self.aliases.get_or_insert_with(|| Aliases::in_text(text));
        aliases.has(anchor)
    }

    /// Keeps the value of an anchor if an alias may refer to it.
    pub(super) fn keep_anchor(
        &mut self,
        anchor: Option<String>,
        node: &Node,
        (nodes, height): (usize, usize),
    ) -> Result<(), DocumentRefusal> {
        let Some(anchor) = anchor.filter(|anchor| self.is_named(anchor)) else {
            return Ok(());
        };
        let bytes = budget::memory_of_node(node) + size_of::<Anchor>();
        let name = budget::memory_of_text(&anchor) + size_of::<(String, Anchor)>();
        self.take_bytes(bytes + name)?;
        let done = Anchor::Done {
            node: node.clone(),
            nodes,
            height,
            bytes,
        };
        if let Some(before) = self.anchors.insert(anchor, done) {
            let bytes = match before {
                Anchor::Open => 0,
                Anchor::Done { bytes, .. } => bytes,
            };
            self.budget.give(bytes + name);
        }
        Ok(())
    }

    /// Replaces an alias with the value of its anchor.
    pub(super) fn take_alias(&mut self, name: &str, line: u32) -> Result<(), DocumentRefusal> {
        let (nodes, height, bytes) = match self.anchors.get(name) {
            Some(Anchor::Done {
                nodes,
                height,
                bytes,
                ..
            }) => (*nodes, *height, *bytes),
            Some(Anchor::Open) => {
                return Err(refuse(
                    "an alias (`*name`) refers to the anchor (`&name`) that contains it; write the value out"
                        .to_owned(),
                ));
            }
            None => {
                // The message has no name: a password that begins with `*` is written like an alias.
                return Err(refuse(
                    "an alias (`*name`) has no anchor (`&name`) before it in this document; quote the value if it is text that begins with `*`, otherwise write the value out"
                        .to_owned(),
                ));
            }
        };
        self.decoded += nodes + 1;
        self.aliased += nodes;
        if self.aliased > 100
            && self.decoded > 1000
            && self.aliased as f64 / self.decoded as f64 > aliases::allowed_share(self.decoded)
        {
            return Err(refuse(
                "the document consists almost only of aliases, which RKE2 refuses; write the values out"
                    .to_owned(),
            ));
        }
        if self.aliased > self.limits.alias_nodes {
            return Err(DocumentRefusal {
                code: Code::LimitExceeded,
                message: format!(
                    "aliases add more than {} values to the document; write them out, or raise staging.limits.aliasNodes",
                    self.limits.alias_nodes
                ),
            });
        }
        self.check_depth(self.stack.len() + height)?;
        self.take_bytes(bytes)?;
        let Some(Anchor::Done { node, .. }) = self.anchors.get(name) else {
            return Ok(());
        };
        let node = node.clone();
        if !self.awaits_key() {
            return self.value(node, nodes, height, true);
        }
        let resolved = match node.value {
            NodeValue::Null => Scalar::Null,
            NodeValue::Bool(value) => Scalar::Bool(value),
            NodeValue::String(text) => Scalar::Text(text),
            NodeValue::Number(number) => match number.as_i64() {
                Some(value) => Scalar::Int(value),
                None => Scalar::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            NodeValue::Sequence(_) | NodeValue::Mapping(_) => {
                return Err(refuse(key_is_no_scalar()));
            }
        };
        let key = resolved.into_key().unwrap_or_else(|message| {
            self.problem(line, message);
            String::new()
        });
        self.key(PendingKey::Name { key, line })
    }
}
