//! What every verb gets.

use std::path::PathBuf;

use windrow_decide::settings;

use crate::configuration;
use crate::layout::Layout;

/// What every verb gets.
#[derive(Debug)]
pub(super) struct Context {
    /// The node's paths, with RKE2's default data directory; the settings may name another.
    pub(super) layout: Layout,
}

impl Context {
    /// The configuration in force.
    pub(super) fn settings(&self) -> settings::Loaded {
        configuration::load(&self.layout)
    }

    /// The node's paths, with RKE2's data directory from the settings.
    pub(super) fn node(&self) -> Layout {
        let settings = self.settings().settings;
        self.layout.clone().with_data_dir(&settings.data_dir)
    }

    /// The manifests directory, below RKE2's data directory from the settings.
    pub(super) fn manifests(&self) -> PathBuf {
        self.node().manifests()
    }
}
