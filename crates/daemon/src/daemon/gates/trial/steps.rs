//! Takes the next step of a trial.

use std::io;
use std::sync::Arc;

use windrow_gates::trial::{TrialState, TrialStep};
use windrow_gates::{DropInSnapshot, Trial};

use super::{DropInInputs, TrialDriver, TrialSite};
use crate::act::{TakenOut, put_drop_in, take_out_of_drop_in, units};
use crate::observe::systemd::RKE2_SERVER;

impl TrialDriver {
    /// `content` is the drop-in that the step saves or restores.
    pub(super) async fn take_step(
        &mut self,
        step: TrialStep,
        trial: &mut Trial,
        content: DropInSnapshot,
        site: &TrialSite,
    ) -> Result<(), String> {
        match step {
            TrialStep::Save => {
                trial.saved = Some(content);
                self.remember(&site.layout, trial)
            }
            TrialStep::Write => {
                trial.written = Some((self.now)());
                let content = trial.asked.content.clone();
                self.write(trial, content, site)
            }
            TrialStep::Restore => {
                trial.saved = Some(content);
                self.restore(trial, site)
            }
            TrialStep::Restart => {
                if trial.state == TrialState::Restarting {
                    self.note_begun(trial, site).await?;
                }
                // The look at the clock is the last before the restart.
                if trial.state == TrialState::Restarting && !self.may_restart(trial) {
                    trial.state = TrialState::Written;
                    self.remember(&site.layout, trial)?;
                    return Err("its turn in the cluster ran out before the restart".to_owned());
                }
                units::restart(RKE2_SERVER).await
            }
            // The lease is renewed before every step, and released after the last one.
            TrialStep::TakeLease | TrialStep::ReleaseLease => Ok(()),
        }
    }

    fn write(
        &mut self,
        trial: &mut Trial,
        content: Option<String>,
        site: &TrialSite,
    ) -> Result<(), String> {
        // The start that has read it can only be identified later.
        trial.baseline = None;
        self.remember(&site.layout, trial)?;
        put_drop_in(&site.layout, content.as_deref())
            .map(|_| ())
            .map_err(|error| format!("{}: {error}", site.own))
    }

    /// RKE2 may have been upgraded meanwhile: of the saved drop-in, only the gates that the starting version accepts
    /// are restored. Otherwise the hook would remove the others before each start, and Windrow would restore them and
    /// restart rke2-server again and again.
    pub(super) async fn fit_to_version(&self, trial: &Trial) -> Option<DropInSnapshot> {
        let configuration = Arc::clone(&self.configured.borrow());
        let saved = trial.saved.clone().unwrap_or_default();
        let fit = tokio::task::spawn_blocking(move || {
            let inputs = DropInInputs::read_for(&configuration, false);
            inputs.fit(saved.content.as_deref())
        });
        fit.await.ok().map(|content| DropInSnapshot { content })
    }

    pub(super) fn restore(&mut self, trial: &mut Trial, site: &TrialSite) -> Result<(), String> {
        trial.baseline = None;
        self.remember(&site.layout, trial)?;
        let saved = trial.saved.clone().unwrap_or_default();
        let done = take_out_of_drop_in(&site.layout, saved.content.as_deref());
        self.restored(done, trial, site)
    }

    /// If the drop-in cannot be written, as on a full disk, it is removed: RKE2 restarts without any of its gates,
    /// instead of keeping the failed ones until there is room.
    pub(super) fn restored(
        &mut self,
        done: io::Result<TakenOut>,
        trial: &mut Trial,
        site: &TrialSite,
    ) -> Result<(), String> {
        match done {
            Ok(TakenOut::Put(_)) => Ok(()),
            Ok(TakenOut::Removed(error)) if trial.asked.content.is_some() => {
                self.tell(format!(
                    "{}: {error}; all of it was removed, and the next boot writes what the configuration asks for",
                    site.own
                ));
                trial.saved = Some(DropInSnapshot { content: None });
                self.remember(&site.layout, trial)
            }
            // Without a drop-in is how it was tried.
            Ok(TakenOut::Removed(error)) | Err(error) => Err(format!("{}: {error}", site.own)),
        }
    }
}
