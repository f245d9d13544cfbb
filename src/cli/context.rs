//! The context of every verb.

use std::cell::OnceCell;
use std::io;
use std::path::PathBuf;

use windrow_decide::settings;

use super::cluster::ClusterAsker;
use crate::configuration;
use crate::layout::Layout;

pub(super) struct Context {
    /// The node's paths, with RKE2's default data directory; the settings may name another.
    pub(super) layout: Layout,
    cluster_asker: OnceCell<ClusterAsker>,
}

impl Context {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            cluster_asker: OnceCell::new(),
        }
    }

    pub(super) fn cluster_asker(&self) -> io::Result<&ClusterAsker> {
        if let Some(asker) = self.cluster_asker.get() {
            return Ok(asker);
        }
        let asker = ClusterAsker::new(&self.layout)?;
        Ok(self.cluster_asker.get_or_init(|| asker))
    }

    pub(super) fn settings(&self) -> settings::Loaded {
        configuration::load(&self.layout)
    }

    /// The node's paths, with RKE2's data directory from the settings.
    pub(super) fn node(&self) -> Layout {
        let settings = self.settings().settings;
        self.layout.clone().with_data_dir(&settings.data_dir)
    }

    pub(super) fn manifests(&self) -> PathBuf {
        self.node().manifests()
    }
}
