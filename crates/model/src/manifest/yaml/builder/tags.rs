//! Tags that are not YAML's own.

use super::NodeBuilder;
use crate::manifest::scalar;
use crate::manifest::yaml::ForeignTag;

/// Most tags of a document that are kept, and most characters of each.
const MOST_TAGS: usize = 100;
const LONGEST_TAG: usize = 60;

impl NodeBuilder<'_> {
    /// The first of the tags that are not YAML's own. They are kept only if `!!binary` is.
    pub(in crate::manifest::yaml) fn foreign_tags(&mut self) -> Vec<ForeignTag> {
        std::mem::take(&mut self.tags)
    }

    pub(super) fn keep_tag(&mut self, tag: Option<&str>, line: u32) {
        let foreign = tag.filter(|tag| scalar::is_foreign(tag) && self.written_binary);
        if let Some(tag) = foreign
            && self.tags.len() < MOST_TAGS
        {
            let tag = tag.chars().take(LONGEST_TAG).collect();
            self.tags.push(ForeignTag { tag, line });
        }
    }
}
