//! The cluster's leases: one for changes of feature gates, which are tried on one server at a time; one for repairs and
//! one for the diagnosis of known incidents, which one server does for all.
//!
//! They are Leases of Kubernetes (`coordination.k8s.io`), so that the cluster's own storage decides who has it: every
//! write names the version it was read at, and the later of two is refused.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use nix::time::{ClockId, clock_gettime};
use windrow_decide::settings::LONGEST_PATIENCE;
use windrow_model::text::cut;

use crate::apiserver::{RequestFailure, within};

const NOTE: &str = "windrow.dev/note";

/// A lease is taken over only after it was unchanged for as long as it counts, and for at least this long. Only our own
/// monotonic clock measures that: the clocks of nodes differ, and a holder that restarts kube-apiserver cannot renew.
const UNMOVED: Duration = Duration::from_secs(60);
const LONGEST_HOLDER: usize = 128;
/// It is renewed once this much of a second-by-second trial has passed.
const RENEW: SignedDuration = SignedDuration::from_secs(15);

#[derive(Debug)]
pub struct ClusterLease {
    name: &'static str,
    /// This machine's name in leases, which is unique.
    holder: String,
    /// For how long it counts without being renewed, in seconds.
    seconds: i32,
    /// Another holder's lease: its version, and since when this process has known it.
    seen: Option<(String, Instant)>,
    /// When the write began by which it is ours, since the machine's start.
    renewed: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseHolder {
    Us,
    Other(String),
}

impl ClusterLease {
    pub const NAMES: [&'static str; 3] = [Self::GATES, Self::REPAIRS, Self::DIAGNOSIS];
    pub const NAMESPACE: &'static str = "kube-system";
    pub const ANSWER: Duration = Duration::from_secs(10);
    pub const GATES: &'static str = "windrow-gates";
    pub const REPAIRS: &'static str = "windrow-repairs";
    /// The lease on looking at the whole cluster for known incidents.
    pub const DIAGNOSIS: &'static str = "windrow-diagnosis";

    /// `duration` is longer than kube-apiserver is away in a trial, because the lease cannot be renewed meanwhile.
    pub fn new(name: &'static str, holder: String, duration: Duration) -> Self {
        Self {
            name,
            holder,
            seconds: seconds_of(name, duration),
            seen: None,
            renewed: None,
        }
    }

    pub fn count_for(&mut self, duration: Duration) {
        self.seconds = seconds_of(self.name, duration);
    }

    /// Whether the lease is ours for certain, even if this process was suspended since the last renewal.
    pub fn counts_still(&self) -> bool {
        let counts = Duration::from_secs(self.seconds.unsigned_abs().into());
        self.renewed
            .is_some_and(|renewed| since_boot() < renewed.saturating_add(counts))
    }

    pub(super) fn holder(&self) -> &str {
        &self.holder
    }

    /// When the write began by which it is ours, on the clock of [`since_boot`]; `None` while that is uncertain.
    pub(super) fn renewed(&self) -> Option<Duration> {
        self.renewed
    }

    /// Takes it, or renews it.
    ///
    /// # Errors
    ///
    /// In a line, when kube-apiserver does not answer or refuses.
    pub async fn take(&mut self, client: &Client, now: Timestamp) -> Result<LeaseHolder, String> {
        let api: Api<Lease> = Api::namespaced(client.clone(), Self::NAMESPACE);
        let began = since_boot();
        let Some(mut found) = read(&api, self.name).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.name.to_owned()),
                    namespace: Some(Self::NAMESPACE.to_owned()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.spec(None, now)),
            };
            let made = within(Self::ANSWER, api.create(&PostParams::default(), &lease)).await;
            return self.won(began, made);
        };
        let version = found.metadata.resource_version.clone().unwrap_or_default();
        let spec = found.spec.take().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let ours = holder == self.holder;
        // Since when the lease of an earlier process counts is unknown, so it is renewed.
        if ours && self.renewed.is_some() && !due(&spec, now) {
            return Ok(LeaseHolder::Us);
        }
        if !ours && !holder.is_empty() && !self.may_take_over(&version, &spec) {
            self.renewed = None;
            return Ok(LeaseHolder::Other(name_of(&holder)));
        }
        found.spec = Some(self.spec(Some(&spec), now));
        let written = within(
            Self::ANSWER,
            api.replace(self.name, &PostParams::default(), &found),
        )
        .await;
        self.won(began, written)
    }

    /// Does nothing unless this node holds the lease.
    ///
    /// # Errors
    ///
    /// In a line, when kube-apiserver does not answer or refuses.
    pub async fn release(&self, client: &Client) -> Result<(), String> {
        let api: Api<Lease> = Api::namespaced(client.clone(), Self::NAMESPACE);
        let Some(mut found) = read(&api, self.name).await? else {
            return Ok(());
        };
        match found.spec.as_mut() {
            Some(spec) if spec.holder_identity.as_deref() == Some(&self.holder) => {
                spec.holder_identity = None;
                spec.renew_time = None;
            }
            _ => return Ok(()),
        }
        match within(
            Self::ANSWER,
            api.replace(self.name, &PostParams::default(), &found),
        )
        .await
        {
            Ok(_) => Ok(()),
            // Another server took it over meanwhile.
            Err(failure) if failure.is_conflict() => Ok(()),
            Err(failure) => Err(failure.to_string()),
        }
    }

    /// Reads the notes that the holders left for each other.
    ///
    /// # Errors
    ///
    /// In a line, when kube-apiserver does not answer or refuses.
    pub async fn note(&self, client: &Client) -> Result<Option<String>, String> {
        Self::annotation(client, self.name, NOTE).await
    }

    /// Reads the holder, and the notes that the holders left for each other.
    ///
    /// # Errors
    ///
    /// In a line, when kube-apiserver does not answer or refuses.
    pub async fn holder_and_note(
        &self,
        client: &Client,
    ) -> Result<(Option<String>, Option<String>), String> {
        let api: Api<Lease> = Api::namespaced(client.clone(), Self::NAMESPACE);
        let Some(found) = read(&api, self.name).await? else {
            return Ok((None, None));
        };
        let holder = found.spec.and_then(|spec| spec.holder_identity);
        let annotations = found.metadata.annotations;
        let note = annotations.and_then(|mut all| all.remove(NOTE));
        Ok((holder, note))
    }

    /// Replaces the note, if it is still `before` and this node holds the lease. No note is lost, even if two machines
    /// share an identity and so a lease.
    ///
    /// # Errors
    ///
    /// In a line, when kube-apiserver does not answer or refuses, another node has taken the lease over, or the note is
    /// another one by now.
    pub async fn write_note(
        &self,
        client: &Client,
        before: Option<&str>,
        note: String,
    ) -> Result<(), String> {
        let replace = |found: Option<&str>| {
            if found != before {
                return Err("another client has written a note".to_owned());
            }
            Ok(Some(note))
        };
        Self::annotate(client, self.name, &self.holder, NOTE, replace).await
    }

    /// Reads an annotation of a lease.
    ///
    /// # Errors
    ///
    /// In a line, if kube-apiserver does not answer or refuses.
    pub(super) async fn annotation(
        client: &Client,
        name: &str,
        key: &str,
    ) -> Result<Option<String>, String> {
        let api: Api<Lease> = Api::namespaced(client.clone(), Self::NAMESPACE);
        let found = read(&api, name).await?;
        let annotations = found.and_then(|found| found.metadata.annotations);
        Ok(annotations.and_then(|mut all| all.remove(key)))
    }

    /// Whether a server has this lease, as far as the clock of this one can tell. A lease that was not renewed for
    /// three times as long as it counts is free.
    ///
    /// # Errors
    ///
    /// In a line, if kube-apiserver does not answer or refuses.
    pub(super) async fn is_held(
        client: &Client,
        name: &str,
        now: Timestamp,
    ) -> Result<bool, String> {
        let api: Api<Lease> = Api::namespaced(client.clone(), Self::NAMESPACE);
        let spec = read(&api, name).await?.and_then(|found| found.spec);
        let Some(spec) = spec.filter(|spec| {
            let holder = spec.holder_identity.as_deref();
            holder.is_some_and(|holder| !holder.is_empty())
        }) else {
            return Ok(false);
        };
        let counts = counts(name, &spec).max(UNMOVED) * 3;
        Ok(spec.renew_time.is_some_and(|MicroTime(renewed)| {
            let age = now.duration_since(renewed).abs();
            age < SignedDuration::try_from(counts).unwrap_or(SignedDuration::MAX)
        }))
    }

    /// Changes an annotation of a lease while `holder` has it. `change` gets the value and returns the new one, or `None` if it
    /// stays.
    ///
    /// # Errors
    ///
    /// In a line, if kube-apiserver does not answer or refuses, another node has taken the lease over, or `change` failed.
    pub(super) async fn annotate(
        client: &Client,
        name: &str,
        holder: &str,
        key: &str,
        change: impl FnOnce(Option<&str>) -> Result<Option<String>, String>,
    ) -> Result<(), String> {
        let api: Api<Lease> = Api::namespaced(client.clone(), Self::NAMESPACE);
        let Some(mut found) = read(&api, name).await? else {
            return Err("the lease is gone".to_owned());
        };
        let spec = found.spec.as_ref();
        if spec.and_then(|spec| spec.holder_identity.as_deref()) != Some(holder) {
            return Err("another server has the lease now".to_owned());
        }
        let annotations = found.metadata.annotations.get_or_insert_default();
        let Some(value) = change(annotations.get(key).map(String::as_str))? else {
            return Ok(());
        };
        annotations.insert(key.to_owned(), value);
        let parameters = PostParams::default();
        let written = within(Self::ANSWER, api.replace(name, &parameters, &found)).await;
        written.map_err(|failure| failure.to_string()).map(drop)
    }

    /// A caller that loses a race asks again.
    fn won<T>(
        &mut self,
        began: Duration,
        written: Result<T, RequestFailure>,
    ) -> Result<LeaseHolder, String> {
        self.seen = None;
        match written {
            Ok(_) => {
                self.renewed = Some(began);
                Ok(LeaseHolder::Us)
            }
            Err(failure) if failure.is_conflict() => {
                self.renewed = None;
                Ok(LeaseHolder::Other(
                    "another server, which was quicker".to_owned(),
                ))
            }
            Err(failure) => Err(failure.to_string()),
        }
    }

    fn spec(&self, before: Option<&LeaseSpec>, now: Timestamp) -> LeaseSpec {
        let ours = |spec: &&LeaseSpec| spec.holder_identity.as_deref() == Some(&self.holder);
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        let kept = before.filter(ours);
        LeaseSpec {
            holder_identity: Some(self.holder.clone()),
            lease_duration_seconds: Some(self.seconds),
            acquire_time: kept
                .and_then(|spec| spec.acquire_time.clone())
                .or(Some(MicroTime(now))),
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(match before {
                Some(_) if kept.is_none() => transitions.saturating_add(1),
                _ => transitions,
            }),
            ..LeaseSpec::default()
        }
    }

    fn may_take_over(&mut self, version: &str, spec: &LeaseSpec) -> bool {
        let since = match &self.seen {
            Some((known, since)) if known == version => *since,
            _ => Instant::now(),
        };
        self.seen = Some((version.to_owned(), since));
        since.elapsed() >= counts(self.name, spec).max(UNMOVED)
    }
}

async fn read(api: &Api<Lease>, name: &str) -> Result<Option<Lease>, String> {
    let found = within(ClusterLease::ANSWER, api.get_opt(name)).await;
    found.map_err(|failure| failure.to_string())
}

/// The machine's uptime. It goes on while the machine or the process is suspended.
pub(crate) fn since_boot() -> Duration {
    // Without a clock nothing is certain to last.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX, Duration::from)
}

/// The longest that a lease of this name counts without being renewed. A client that may update it may write any
/// duration, and one write must not keep all servers away forever.
fn longest(name: &str) -> Duration {
    if name == ClusterLease::REPAIRS {
        // Every server takes it for as long as this.
        crate::act::turn::LEASE
    } else {
        // The others are configured: three times `gates.patience` or `diagnosis.interval`.
        LONGEST_PATIENCE.saturating_mul(3)
    }
}

fn seconds_of(name: &str, duration: Duration) -> i32 {
    i32::try_from(duration.min(longest(name)).as_secs()).unwrap_or(i32::MAX)
}

/// For how long a lease of this name counts without being renewed. One that does not say so never counted.
fn counts(name: &str, spec: &LeaseSpec) -> Duration {
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    Duration::from_secs(seconds.unsigned_abs().into()).min(longest(name))
}

/// A holder's name for messages. Any client with `update` on the Lease may write one.
fn name_of(holder: &str) -> String {
    cut(holder.replace(char::is_control, " "), LONGEST_HOLDER)
}

fn due(spec: &LeaseSpec, now: Timestamp) -> bool {
    match &spec.renew_time {
        Some(MicroTime(renewed)) => now.duration_since(*renewed).abs() > RENEW,
        None => true,
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
