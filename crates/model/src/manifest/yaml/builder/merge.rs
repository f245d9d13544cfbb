//! Combines entries of a map: those of `<<`, and those with the same key.

use super::{DocumentRefusal, MOST_KEYS, NodeBuilder, RepeatedKey, refuse};
use crate::manifest::{MapEntry, Node, NodeValue, node};

impl NodeBuilder<'_> {
    /// Keeps the last of the entries that share a key; in configuration a repeated key is an error.
    pub(super) fn unique(&mut self, entries: Vec<MapEntry>, merged: bool) -> Vec<MapEntry> {
        let (entries, repeated) = node::keep_last(entries);
        if merged {
            return entries;
        }
        for (key, line, earlier) in repeated {
            if self.unique {
                self.problem(
                    line,
                    format!(
                        "the key `{key}` appears twice in this map, first in line {earlier}; keep one"
                    ),
                );
            } else if self.repeated.len() < MOST_KEYS {
                self.repeated.push(RepeatedKey { key, line, earlier });
            }
        }
        entries
    }
}

/// `<<`: the merged entries are placed among the written ones, and the last of several equal keys wins; of a list of
/// maps the first wins.
pub(super) fn merge(
    entries: &mut Vec<MapEntry>,
    node: Node,
    by_alias: bool,
) -> Result<(), DocumentRefusal> {
    let no_map = || {
        refuse(
            "`<<` takes a map, an alias of a map, or a list of them; write the keys out".to_owned(),
        )
    };
    match node.value {
        NodeValue::Mapping(merged) => entries.extend(merged),
        NodeValue::Sequence(maps) if !by_alias => {
            for map in maps.into_iter().rev() {
                let NodeValue::Mapping(merged) = map.value else {
                    return Err(no_map());
                };
                entries.extend(merged);
            }
        }
        _ => return Err(no_map()),
    }
    Ok(())
}
