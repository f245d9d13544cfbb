//! The node's configuration files: found, read and merged, once per change.
//!
//! The daemon loads them, off its loop's thread, and publishes one shared [`Configuration`]; all settings are taken
//! from there. A verb of the command line loads them once.

mod find;
#[cfg(test)]
mod tests;

pub use find::{MAIN_NAME, NodeReads, find};

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;
use windrow_decide::settings::{self, ConfigError, Loaded, Settings};
use windrow_model::findings::Location;

use crate::files::{is_missing, read_text};
use crate::layout::Layout;

/// The configuration in force, as the daemon publishes it.
pub type Published = watch::Receiver<Arc<Configuration>>;

#[derive(Debug, Clone)]
pub struct Configuration {
    pub loaded: Loaded,
    root: Layout,
    layout: Layout,
}

impl Configuration {
    /// Loads the configuration of the node below `root`. Takes some milliseconds: rules are compiled.
    pub fn load(root: &Layout) -> Self {
        let loaded = load(root);
        Self {
            layout: root.clone().with_data_dir(&loaded.settings.data_dir),
            root: root.clone(),
            loaded,
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.loaded.settings
    }

    /// The node's paths, with RKE2's default data directory.
    pub fn root(&self) -> &Layout {
        &self.root
    }

    /// The node's paths, with the data directory from the configuration.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether both come from the same files with the same content.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let (one, other) = (&self.loaded, &other.loaded);
        one.settings == other.settings
            && one.files == other.files
            && one.preset == other.preset
            && one.errors == other.errors
    }
}

impl Configuration {
    /// The error because of which a file is missing here that `known` has. The file is not gone: it could not be read.
    pub fn failure_to_read(&self, known: &Self) -> Option<&ConfigError> {
        let is_read = |path: &Path| self.loaded.files.iter().any(|file| file.path == path);
        let known = known.loaded.files.iter().map(|file| file.path.as_path());
        let missing: Vec<&Path> = known.filter(|path| !is_read(path)).collect();
        let mut errors = self.loaded.errors.iter();
        errors.find(|error| missing.iter().any(|path| path.starts_with(&error.at.file)))
    }
}

/// Finds, reads and merges the node's configuration. Never fails: a part with errors is left out, and the errors are in
/// [`Loaded::errors`].
pub fn load(layout: &Layout) -> Loaded {
    let mut found = find(layout);
    // The node keeps the answers that the installer was given.
    let path = layout.harvester_config();
    let read = read_text(&path);
    let unread = read.as_ref().err().filter(|error| !is_missing(error));
    if let Some(error) = unread {
        found.errors.push(ConfigError {
            at: Location::file(path.display().to_string()),
            message: format!("cannot be read, so a storage network may be preset: {error}"),
        });
    }
    // Without a preset, a VM would start before the storage network is configured.
    let may_preset = unread.is_some();
    let installed = read.unwrap_or_default();
    found.preset = may_preset || windrow_harvester::presets_storage_network(&installed);
    let mut loaded = settings::merge(found);
    settings::add_installer(&mut loaded, &path.display().to_string(), &installed);
    loaded
}
