//! The node's configuration files: finds them, reads them and has them merged.

mod find;
#[cfg(test)]
mod tests;

pub use find::find;

use windrow_decide::settings::{self, Loaded};

use crate::files::read_text;
use crate::layout::Layout;

/// Finds, reads and merges the node's configuration. Never fails: what is wrong is left out and
/// stands in [`Loaded::errors`].
pub fn load(layout: &Layout) -> Loaded {
    let mut found = find(layout);
    // What the installer was told is kept on the node.
    let path = layout.path("/oem/harvester.config");
    let installed = read_text(&path).unwrap_or_default();
    found.preset = windrow_harvester::presets_storage_network(&installed);
    let mut loaded = settings::merge(found);
    settings::add_installer(&mut loaded, &path.display().to_string(), &installed);
    loaded
}
