//! The value of an anchor.

use crate::manifest::Node;

/// The value of an anchor.
pub(super) enum Anchor {
    /// The value is still being read: an alias to it would contain itself.
    Open,
    Done {
        node: Node,
        nodes: usize,
        height: usize,
        bytes: usize,
    },
}
