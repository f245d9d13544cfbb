//! Looks at what may not answer: a file system that hangs, a sensor of a disk that dies, a link whose driver resets.
//!
//! Each is on a thread of its own, because the daemon has one for everything else, and a read cannot be interrupted. A look that
//! hangs blocks one thread, and never a second one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use windrow_plan::readiness::node::ProbeOutcome;

use crate::locked::lock;

/// The looks that are under way, by their names.
#[derive(Debug, Clone, Default)]
pub(super) struct Looks(Arc<Mutex<BTreeSet<String>>>);

/// A look is under way until this goes.
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
    /// Looks. `name` says at what; while the last look of this name has no answer, nobody looks again.
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

    /// Is a look of this name under way?
    #[cfg(test)]
    pub(super) fn is_under_way(&self, name: &str) -> bool {
        lock(&self.0).contains(name)
    }
}
