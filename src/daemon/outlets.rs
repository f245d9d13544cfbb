//! The outlets that run beside the daemon's loop, each fed from the published status. None of them
//! can keep the loop waiting, and none is needed for it.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use super::byhand::{self, Order, Outcome, Refused, Which};
use crate::decide::Status;
use crate::layout::Layout;
use crate::report::dbus::{self, Desk, Verb};
use crate::report::why;
use crate::settings;

/// Opens the outlets of a node. They close when the status is published no more.
pub fn open(root: Layout, status: watch::Receiver<Option<Arc<Status>>>) {
    tokio::spawn(dbus::serve(None, Arc::new(Hands { root }), status));
}

/// What callers may ask of the daemon.
struct Hands {
    root: Layout,
}

impl Hands {
    /// The data directory may have been configured anew since the start.
    fn layout(&self) -> Layout {
        let settings = settings::load(&self.root).settings;
        self.root.clone().with_data_dir(&settings.data_dir)
    }
}

impl Desk for Hands {
    fn why(&self, status: &Status, what: &str) -> Option<String> {
        let answer = why::answer(status, what, &self.layout().manifests())?;
        serde_json::to_string(&answer).ok()
    }

    fn order(
        &self,
        verb: Verb,
        files: &[String],
        by: &str,
        reason: &str,
    ) -> Result<Vec<String>, String> {
        let layout = self.layout();
        let order = Order {
            layout: &layout,
            by,
            reason,
            at: Timestamp::now(),
        };
        let outcomes = match verb {
            Verb::Hold => byhand::hold(&order, files),
            Verb::Release => byhand::release(&order, Which::Named(files)),
        };
        let outcomes = outcomes.map_err(|refused: Refused| refused.to_string())?;
        let mut done = Vec::new();
        let mut wrong = Vec::new();
        for Outcome { file, result } in outcomes {
            match result {
                Ok(_) => done.push(file),
                Err(why) => wrong.push(format!("{file}: {why}")),
            }
        }
        match wrong[..] {
            [] => Ok(done),
            _ => Err(wrong.join("; ")),
        }
    }
}
