//! Loads the configuration beside the daemon's loop: rules are compiled, which takes longer than a marker may.
//!
//! ```text
//!   SIGHUP, a request about gates ──> begin ──> loads ──> loaded: in force, and published
//!                                       └─ asked for again meanwhile: loads once more
//! ```

use tokio::task::JoinHandle;

use crate::configuration::Configuration;
use crate::layout::Layout;

/// What is being loaded.
#[derive(Debug, Default)]
pub(super) struct Reloading {
    task: Option<(Layout, JoinHandle<Configuration>)>,
    /// Somebody waits for it (systemd, for READY=1) and is told of it even if nothing has changed.
    asked_for: bool,
    /// It was asked for once more after the files may have been read.
    once_more: Option<bool>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Reloaded {
    /// `None` when loading it broke off: what is in force stays.
    pub(super) configuration: Option<Configuration>,
    /// Somebody waits for it.
    pub(super) was_asked_for: bool,
}

impl Reloading {
    /// Begins to load, or loads once more after what is being loaded.
    pub(super) fn begin(&mut self, root: &Layout, asked_for: bool) {
        if self.task.is_some() {
            let before = self.once_more.unwrap_or_default();
            self.once_more = Some(before || asked_for);
            return;
        }
        let place = root.clone();
        let load = tokio::task::spawn_blocking(move || Configuration::load(&place));
        self.task = Some((root.clone(), load));
        self.asked_for = asked_for;
    }

    /// Does somebody wait for what is still being loaded?
    pub(super) fn is_asked_for(&self) -> bool {
        self.task.is_some() && self.asked_for
    }

    /// Is it still being read? Not once it waits to be taken by [`done`](Self::done).
    #[cfg(test)]
    pub(super) fn is_running(&self) -> bool {
        self.task
            .as_ref()
            .is_some_and(|(_, task)| !task.is_finished())
    }

    /// Waits until it is loaded; without an end when nothing is being loaded.
    pub(super) async fn done(&mut self) -> Reloaded {
        let Some((root, task)) = &mut self.task else {
            return std::future::pending().await;
        };
        let configuration = task.await.ok();
        let root = root.clone();
        let was_asked_for = self.asked_for;
        self.task = None;
        if let Some(asked_for) = self.once_more.take() {
            self.begin(&root, asked_for);
        }
        Reloaded {
            configuration,
            was_asked_for,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn node() -> (tempfile::TempDir, Layout) {
        let place = tempfile::tempdir().unwrap();
        let root = Layout::new(place.path());
        fs::create_dir_all(root.path("/etc/windrow")).unwrap();
        (place, root)
    }

    #[tokio::test]
    async fn what_is_asked_for_while_it_is_loaded_is_loaded_once_more() {
        let (_place, root) = node();
        let mut reloading = Reloading::default();
        reloading.begin(&root, false);
        // Written when the files may have been read already.
        fs::write(root.path("/etc/windrow/windrow.yaml"), "platform: rke2\n").unwrap();
        reloading.begin(&root, true);
        reloading.begin(&root, false);
        let first = reloading.done().await;
        assert!(!first.was_asked_for);
        assert!(reloading.is_asked_for());
        let second = reloading.done().await;
        assert!(second.was_asked_for && !reloading.is_asked_for());
        let platform = second.configuration.unwrap().settings().platform;
        assert_eq!(platform, Some(windrow_plan::rules::Platform::Rke2));
        // There is no third.
        let third = tokio::select! {
            biased;
            third = reloading.done() => Some(third.was_asked_for),
            () = tokio::task::yield_now() => None,
        };
        assert_eq!(third, None);
    }
}
