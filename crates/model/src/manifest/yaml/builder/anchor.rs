//! What an anchor stands for.

use crate::manifest::Node;

/// What an anchor stands for.
pub(super) enum Anchor {
    /// The value is still being read: an alias to it would contain itself.
    Open,
    Done {
        node: Node,
        nodes: usize,
        height: usize,
        /// The memory behind it.
        bytes: usize,
    },
}
