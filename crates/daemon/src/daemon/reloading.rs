//! Loads the configuration outside the daemon's loop: rules are compiled, which takes longer than a marker may.
//!
//! ```text
//!   SIGHUP, a request about gates ──> begin ──> loads ──> loaded: in force, and published
//!                                       └─ requested again meanwhile: loads once more
//! ```

use tokio::task::JoinHandle;

use crate::configuration::Configuration;
use crate::layout::Layout;

#[derive(Debug, Default)]
pub(super) struct Reloading {
    task: Option<(Layout, JoinHandle<Configuration>)>,
    /// A caller waits for it (systemd, for READY=1) and is notified even if nothing has changed.
    asked_for: bool,
    /// It was requested once more after the files may have been read.
    once_more: Option<bool>,
}

#[derive(Debug)]
pub(super) struct Reloaded {
    /// `None` when loading was interrupted: the configuration in force stays.
    pub(super) configuration: Option<Configuration>,
    pub(super) was_asked_for: bool,
}

impl Reloading {
    /// Begins to load, or loads once more after the current load.
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

    pub(super) fn is_asked_for(&self) -> bool {
        self.task.is_some() && self.asked_for
    }

    /// Whether it is still being read. False once the result waits for [`done`](Self::done).
    #[cfg(test)]
    pub(super) fn is_running(&self) -> bool {
        self.task
            .as_ref()
            .is_some_and(|(_, task)| !task.is_finished())
    }

    /// Waits until it is loaded; forever if nothing is being loaded.
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
