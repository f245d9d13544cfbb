//! The obstacles to a restart of rke2-server for a trial, other than the lease: an upgrade, another server that is not
//! ready, a drop-in that has failed on another server. `--force` overrides all of it, and a rollback does not need it.

use std::time::{Duration, Instant};

use kube::Client;
use windrow_decide::Event;
use windrow_gates::{
    Component, GateChange, Trial, TrialEnd, TrialNote, TrialOutcome, TriedDropIn,
    UnreadableTrialNote,
};
use windrow_model::reasons::Code;

use super::{TrialDriver, TrialSite};
use crate::act::ClusterLease;
use crate::kubeconfig;
use crate::layout::Layout;
use crate::observe::effect;
use crate::observe::management::{host_name_of, lease_holder};
use crate::observe::probes::disabled_components;
use crate::observe::rke2::admin_kubeconfig;
use crate::observe::servers::servers_not_ready;
use crate::observe::upgrade::upgrade_in_progress;
use crate::report::journal;

/// For how long an answer holds. The steps before a restart take less than a second.
const FRESH: Duration = Duration::from_secs(10);
/// How often to check whether a waiting automatic trial may begin.
const POSTPONED: Duration = Duration::from_secs(60);
const AUTOMATIC: &str = "changed-";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It may go away.
    Passing(String),
    /// It stays.
    Lasting(String),
}

impl Obstacle {
    pub(super) fn why(self) -> String {
        match self {
            Obstacle::Passing(why) | Obstacle::Lasting(why) => why,
        }
    }
}

pub(super) type KnownObstacle = (Instant, Option<Obstacle>);

pub(super) struct PostponedTrial {
    /// When the last check was whether it may begin.
    at: Instant,
    tried: Option<TriedDropIn>,
}

impl PostponedTrial {
    pub(super) fn new(tried: Option<TriedDropIn>) -> Self {
        Self {
            at: Instant::now(),
            tried,
        }
    }
}

/// The name of a request that the configuration makes, at a time in nanoseconds.
pub(super) fn automatic_request(at: i128) -> String {
    format!("{AUTOMATIC}{at}")
}

fn is_automatic(request: &str) -> bool {
    request.starts_with(AUTOMATIC)
}

impl TrialDriver {
    pub(super) async fn obstacle(
        &mut self,
        client: &Client,
        trial: &Trial,
        site: &TrialSite,
    ) -> Option<Obstacle> {
        if trial.forced || trial.change == GateChange::Rollback {
            return None;
        }
        if let Some((at, obstacle)) = &self.obstacle
            && at.elapsed() < FRESH
        {
            return obstacle.clone();
        }
        let found = look_for_obstacle(client, trial, &site.layout).await;
        self.obstacle = Some((Instant::now(), found.clone()));
        found
    }

    /// Checks before a trial begins: an upgrade, or a trial on another server, may be an obstacle.
    pub(super) async fn nothing_against(
        &mut self,
        request: &str,
        version: &str,
        content: Option<&str>,
        layout: &Layout,
    ) -> Result<(), (TrialOutcome, String)> {
        let tried = TriedDropIn {
            by: lease_holder(layout),
            request: request.to_owned(),
            version: version.to_owned(),
            content: content.map(str::to_owned),
            at: (self.now)(),
            why: None,
        };
        let client = effect::client(
            &self.api,
            &admin_kubeconfig(layout),
            Component::KubeApiserver,
        )
        .await;
        let found = match &client {
            Ok(client) => upgrade_in_progress(client).await,
            Err(why) => Err(why.clone()),
        };
        match found {
            Ok(None) => {}
            Ok(Some(upgrade)) => {
                return Err(self.refuse_for_now(tried, in_progress(&upgrade)));
            }
            Err(why) => {
                let why = not_checked(&why);
                if is_automatic(request) {
                    return Err(self.refuse_for_now(tried, why));
                }
                journal::write_event(&Event::new(
                    Code::GateTrial,
                    Code::GateTrial.say(&[("gates", "as requested"), ("step", &why)]),
                ));
            }
        }
        // A note that cannot be read now is read once the lease is held.
        if let Ok(client) = &client
            && let Ok(Some(why)) = failed_elsewhere(client, &tried, layout).await
        {
            return Err(self.refuse_for_now(tried, why));
        }
        self.postponed = None;
        self.untried = None;
        Ok(())
    }

    /// An automatic trial comes again when the obstacle is gone.
    fn refuse_for_now(&mut self, tried: TriedDropIn, why: String) -> (TrialOutcome, String) {
        if is_automatic(&tried.request) {
            self.postponed = Some(PostponedTrial::new(Some(tried)));
            self.report_untried(&why);
        }
        (TrialOutcome::NotTried, why)
    }

    /// No caller waits for the answer to an automatic request: its reason is reported once.
    fn report_untried(&mut self, why: &str) {
        if self.untried.as_deref() != Some(why) {
            journal::write_event(&Event::new(
                Code::GateTrialRefused,
                Code::GateTrialRefused.say(&[("gates", "from the configuration"), ("why", why)]),
            ));
            self.untried = Some(why.to_owned());
        }
    }

    /// Whether a waiting automatic trial may begin now.
    pub(in crate::daemon::gates) async fn may_begin_postponed(&mut self) -> bool {
        let layout = self.site().layout;
        let Some(postponed) = &mut self.postponed else {
            return false;
        };
        if postponed.at.elapsed() < POSTPONED {
            return false;
        }
        postponed.at = Instant::now();
        let tried = postponed.tried.clone();
        let kubeconfig = admin_kubeconfig(&layout);
        let client = effect::client(&self.api, &kubeconfig, Component::KubeApiserver).await;
        let Ok(client) = client else { return false };
        if upgrade_in_progress(&client).await != Ok(None) {
            return false;
        }
        if let Some(tried) = tried
            && failed_elsewhere(&client, &tried, &layout).await != Ok(None)
        {
            return false;
        }
        self.postponed = None;
        true
    }

    /// Records for the other servers that rke2-server is about to be restarted for this trial. A rollback goes on if
    /// that fails.
    pub(super) async fn note_begun(&self, trial: &Trial, site: &TrialSite) -> Result<(), String> {
        let disabled = disabled_components(&site.layout);
        // Without a kube-apiserver, trials on this server say nothing about the others.
        if disabled.contains(&Component::KubeApiserver) {
            return Ok(());
        }
        let kubeconfig = admin_kubeconfig(&site.layout);
        let client = effect::client(&self.api, &kubeconfig, Component::KubeApiserver).await;
        let noted = match client {
            Ok(client) => {
                let tried = tried(trial, &site.layout);
                let ends = &trial.ends;
                let begin = |note| ends.iter().fold(note, TrialNote::ended).begun(tried);
                self.write_note(&client, begin).await
            }
            Err(why) => Err(NoteNotWritten::Failed(why)),
        };
        match noted {
            Ok(()) => Ok(()),
            Err(_) if trial.change == GateChange::Rollback => Ok(()),
            // While the other servers cannot read it either, none of them tries the same automatically.
            Err(NoteNotWritten::Unreadable(_)) if trial.forced => Ok(()),
            Err(not_written) => Err(not_written.to_string()),
        }
    }

    /// Records how the trial ended, and those before it, as far as their begin is recorded. Leaves an unreadable note
    /// unchanged.
    pub(super) async fn note_ended(
        &mut self,
        client: &Client,
        trial: &Trial,
        site: &TrialSite,
    ) -> Result<(), String> {
        let ends = ends_of(trial, &site.layout);
        let end = |note| ends.iter().fold(note, TrialNote::ended);
        let before = lease_for_note(&site.layout).note(client).await?;
        match TrialNote::parse(before.as_deref()) {
            Ok(known) if end(known.clone()) != known => {}
            _ => return Ok(()),
        }
        self.take_lease(client, site).await?;
        let written = self.write_note(client, |note| Ok(end(note))).await;
        written.map_err(|not_written| not_written.to_string())
    }

    async fn write_note(
        &self,
        client: &Client,
        change: impl FnOnce(TrialNote) -> Result<TrialNote, UnreadableTrialNote>,
    ) -> Result<(), NoteNotWritten> {
        let Some(lease) = &self.lease else {
            let why = "the lease on changes of feature gates is not held";
            return Err(NoteNotWritten::Failed(why.to_owned()));
        };
        let before = lease.note(client).await;
        let before = before.map_err(NoteNotWritten::Failed)?;
        let known = TrialNote::parse(before.as_deref()).map_err(NoteNotWritten::Unreadable)?;
        let changed = change(known.clone());
        let changed = changed.map_err(|why| NoteNotWritten::Failed(why.to_string()))?;
        if changed == known {
            return Ok(());
        }
        let written = lease.write_note(client, before.as_deref(), changed.text());
        let written = written.await;
        written
            .map_err(|why| NoteNotWritten::Failed(format!("the note for the other servers: {why}")))
    }
}

#[derive(Debug, thiserror::Error)]
enum NoteNotWritten {
    /// kube-apiserver does not answer or refuses, or another client was quicker; why, in a line.
    #[error("{0}")]
    Failed(String),
    /// The note of another client would be lost.
    #[error("{0}")]
    Unreadable(UnreadableTrialNote),
}

/// The ends that the other servers should know once this trial is over. A rollback that fails says nothing about another server.
pub(super) fn ends_of(trial: &Trial, layout: &Layout) -> Vec<TrialEnd> {
    let is_failure = trial.outcome == Some(TrialOutcome::RolledBack)
        && trial.change == GateChange::Apply
        && !trial.unjudged;
    let mut ends = trial.ends.clone();
    ends.push(TrialEnd {
        tried: tried(trial, layout),
        why: is_failure.then(|| trial.why.clone().unwrap_or_default()),
    });
    ends
}

/// Whether a manual rollback may go on although another server has the lease. That server has restarted nothing so far.
pub(super) async fn may_pass(client: &Client, trial: &Trial, holder: &str) -> bool {
    if trial.change != GateChange::Rollback {
        return false;
    }
    let lease = ClusterLease::new(ClusterLease::GATES, String::new(), Duration::ZERO);
    let note = lease.note(client).await;
    note.is_ok_and(|note| {
        let note = TrialNote::parse(note.as_deref());
        note.is_ok_and(|note| !note.has_begun(holder))
    })
}

fn lease_for_note(layout: &Layout) -> ClusterLease {
    ClusterLease::new(ClusterLease::GATES, lease_holder(layout), Duration::ZERO)
}

/// Why a trial of another server is an obstacle to this one. A trial of the server that has the lease is still in
/// progress. An unreadable note is an obstacle too.
async fn failed_elsewhere(
    client: &Client,
    tried: &TriedDropIn,
    layout: &Layout,
) -> Result<Option<String>, String> {
    let (holder, note) = lease_for_note(layout).holder_and_note(client).await?;
    let holder = holder.filter(|holder| *holder != tried.by);
    Ok(match TrialNote::parse(note.as_deref()) {
        Ok(note) => note.against(tried, is_automatic(&tried.request), holder.as_deref()),
        Err(unreadable) => Some(format!(
            "{unreadable}; so Windrow does not know what other servers have tried"
        )),
    })
}

/// The obstacles to a trial, whether or not this server has the lease.
async fn look_for_obstacle(client: &Client, trial: &Trial, layout: &Layout) -> Option<Obstacle> {
    let tried = tried(trial, layout);
    match failed_elsewhere(client, &tried, layout).await {
        Ok(None) => {}
        Ok(Some(why)) => return Some(Obstacle::Lasting(why)),
        Err(why) => return Some(Obstacle::Passing(format!("the note of the lease: {why}"))),
    }
    match upgrade_in_progress(client).await {
        Ok(None) => {}
        Ok(Some(upgrade)) => return Some(Obstacle::Passing(in_progress(&upgrade))),
        Err(why) if is_automatic(&trial.request) => {
            return Some(Obstacle::Passing(not_checked(&why)));
        }
        Err(_) => {}
    }
    let own = kubeconfig::node_name(&layout.kubelet_kubeconfig());
    let own = own.or_else(|| host_name_of(layout)).unwrap_or_default();
    match servers_not_ready(client, &own).await {
        Ok(lacks) if lacks.is_empty() => None,
        Ok(lacks) => Some(Obstacle::Passing(lacks.join("; "))),
        Err(why) => Some(Obstacle::Passing(format!(
            "whether the other servers are ready was not checked: {why}"
        ))),
    }
}

fn in_progress(upgrade: &str) -> String {
    format!("an upgrade is in progress: {upgrade}")
}

fn not_checked(why: &str) -> String {
    format!("whether an upgrade is in progress was not checked: {why}")
}

fn tried(trial: &Trial, layout: &Layout) -> TriedDropIn {
    TriedDropIn {
        by: lease_holder(layout),
        request: trial.request.clone(),
        version: trial.version.clone(),
        content: trial.asked.content.clone(),
        at: trial.since,
        why: None,
    }
}
