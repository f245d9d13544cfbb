//! A trial's turn in the cluster: the lease that lets one server at a time try gates.

use std::time::Duration;

use kube::Client;
use windrow_gates::trial::TrialState;
use windrow_gates::{Component, GateChange, Trial};

use super::obstacles::{Obstacle, may_pass};
use super::{TRY_AGAIN, TrialDriver, TrialSite};
use crate::act::{ClusterLease, LeaseHolder};
use crate::observe::effect;
use crate::observe::management::lease_holder;
use crate::observe::rke2::admin_kubeconfig;

impl TrialDriver {
    /// Takes or renews the cluster's lease, as long as nothing was `restarted`, and once kube-apiserver is `ready`
    /// again. A manual rollback goes on without it if kube-apiserver does not answer: a server that is down needs it.
    pub(super) async fn hold_lease(
        &mut self,
        trial: &Trial,
        site: &TrialSite,
        restarted: bool,
        ready: bool,
    ) {
        let before = !restarted
            && matches!(
                trial.state,
                TrialState::Idle
                    | TrialState::Leased
                    | TrialState::Saved
                    | TrialState::Written
                    | TrialState::Restarting
            );
        if !before && !ready {
            return;
        }
        let kubeconfig = admin_kubeconfig(&site.layout);
        match effect::client(&self.api, &kubeconfig, Component::KubeApiserver).await {
            Ok(client) => self.hold_lease_by(&client, trial, site, before).await,
            Err(why) => self.is_without_lease(why, trial, before),
        }
    }

    /// `before`: nothing was restarted so far.
    pub(super) async fn hold_lease_by(
        &mut self,
        client: &Client,
        trial: &Trial,
        site: &TrialSite,
        before: bool,
    ) {
        // A trial that has changed nothing waits without the lease: other servers may need it.
        if matches!(trial.state, TrialState::Idle | TrialState::Leased)
            && let Some(obstacle) = self.obstacle(client, trial, site).await
        {
            self.leased = false;
            self.waits_for = Some(obstacle.why());
            return self.return_lease(client).await;
        }
        let had_lease = self.has_lease();
        match self.take_lease(client, site).await {
            Ok(LeaseHolder::Us) => {
                if !had_lease {
                    // An earlier answer does not contain the notes of the previous holder.
                    self.obstacle = None;
                }
                let obstacle = if before {
                    self.obstacle(client, trial, site).await
                } else {
                    None
                };
                self.leased = obstacle.is_none();
                self.waits_for = obstacle.map(Obstacle::why);
            }
            Ok(LeaseHolder::Other(who)) => {
                self.leased = before && may_pass(client, trial, &who).await;
                self.waits_for = Some(format!("{who} has the lease on changes of feature gates"));
            }
            Err(why) => self.is_without_lease(why, trial, before),
        }
    }

    /// A manual rollback goes on without it: a server that is down needs it.
    fn is_without_lease(&mut self, why: String, trial: &Trial, before: bool) {
        self.leased = before && trial.change == GateChange::Rollback;
        self.waits_for = Some(format!("the lease on changes of feature gates: {why}"));
    }

    fn has_lease(&self) -> bool {
        self.lease.as_ref().is_some_and(ClusterLease::counts_still)
    }

    /// If that fails, the next look tries again.
    async fn return_lease(&mut self, client: &Client) {
        let Some(lease) = &self.lease else { return };
        if !lease.counts_still() || lease.release(client).await.is_ok() {
            self.lease = None;
        }
    }

    /// Whether it is still this server's turn. The check of the clock is the last before the restart. A manual rollback
    /// does not need a turn.
    pub(super) fn may_restart(&self, trial: &Trial) -> bool {
        self.has_lease() || trial.change == GateChange::Rollback
    }

    pub(super) async fn take_lease(
        &mut self,
        client: &Client,
        site: &TrialSite,
    ) -> Result<LeaseHolder, String> {
        let lease = self.lease.get_or_insert_with(|| {
            // As long as a trial with its rollback may take, because the lease cannot be renewed meanwhile.
            let longest = site.patience.saturating_mul(3);
            let holder = lease_holder(&site.layout);
            ClusterLease::new(ClusterLease::GATES, holder, longest)
        });
        lease.take(client, (self.now)()).await
    }

    /// The trial is over, and only the lease has to be released.
    pub(super) async fn give_back(
        &mut self,
        mut trial: Trial,
        site: &TrialSite,
    ) -> Result<Duration, String> {
        let client = effect::client(
            &self.api,
            &admin_kubeconfig(&site.layout),
            Component::KubeApiserver,
        )
        .await;
        let released = match client {
            Ok(client) => self.report_and_release(&client, &trial, site).await,
            Err(why) => Err(why),
        };
        let run_out = self.overdue(&trial, site.patience.saturating_mul(3), site);
        if released.is_err() && !run_out {
            return Ok(TRY_AGAIN);
        }
        self.leased = false;
        self.lease = None;
        trial.state = TrialState::Idle;
        self.remember(&site.layout, &trial)?;
        Ok(Duration::ZERO)
    }

    /// The other servers learn how the trial ended before one of them can have its turn.
    async fn report_and_release(
        &mut self,
        client: &Client,
        trial: &Trial,
        site: &TrialSite,
    ) -> Result<(), String> {
        self.note_ended(client, trial, site).await?;
        let lease = self.lease.get_or_insert_with(|| {
            let holder = lease_holder(&site.layout);
            ClusterLease::new(ClusterLease::GATES, holder, site.patience)
        });
        lease.release(client).await
    }
}
