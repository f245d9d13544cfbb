//! Reads of objects that may not answer: a file system that hangs, a sensor of a failing disk, a link whose driver
//! resets.
//!
//! Each read runs on a separate thread, because the daemon has one for everything else, and a read cannot be
//! interrupted. A read that hangs blocks one thread, and never a second one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use windrow_plan::readiness::node::ProbeOutcome;

use crate::locked::lock;

#[derive(Debug, Clone, Default)]
pub(super) struct Looks(Arc<Mutex<BTreeSet<String>>>);

/// A read is under way until this is dropped.
struct UnderWay {
    looks: Looks,
    name: String,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        lock(&self.looks.0).remove(&self.name);
    }
}

impl Looks {
    /// Runs a read. `name` identifies it; while the last read of this name has no answer, no other one starts.
    pub(super) async fn look(
        &self,
        name: &str,
        look: impl FnOnce() -> ProbeOutcome + Send + 'static,
    ) -> ProbeOutcome {
        if !lock(&self.0).insert(name.to_owned()) {
            return ProbeOutcome::unknown(name, "the look before this one has no answer yet");
        }
        let under_way = UnderWay {
            looks: self.clone(),
            name: name.to_owned(),
        };
        let (send, answer) = tokio::sync::oneshot::channel();
        let started = std::thread::Builder::new()
            .name("look".to_owned())
            .spawn(move || {
                let outcome = look();
                drop(under_way);
                // It fails when the probe was given up.
                let _ = send.send(outcome);
            });
        match started {
            Ok(_) => answer
                .await
                .unwrap_or_else(|_| ProbeOutcome::unknown(name, "it could not be looked at")),
            Err(error) => ProbeOutcome::unknown(name, error.to_string()),
        }
    }

    #[cfg(test)]
    pub(super) fn is_under_way(&self, name: &str) -> bool {
        lock(&self.0).contains(name)
    }
}
