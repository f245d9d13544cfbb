//! Probes the node: each probe on its own clock, none waiting for another, all answers as events.
//!
//! ```text
//!   Interests (on? platform? day 0 over?) ─┐
//!   role, node name (read anew) ───────────┴─> one task per probe ──> ClusterEvent::Node
//! ```
//!
//! A probe that hangs is given up after its timeout and is Unknown; the next question is asked when
//! its period is over, and never two of one probe at a time. What goes on passing is asked ever less
//! often, down to its rest; when one stops passing, all of them are asked anew at once and as often as
//! in the beginning, so that what has happened is seen as soon and as whole as without any rest. What
//! is asked of kube-apiserver stands in `kubernetes`, and nothing else is.

mod addons;
mod bus;
mod certificates;
mod cluster;
mod custom;
mod harvester;
mod host;
mod http;
mod kubernetes;
mod role;
#[cfg(test)]
mod tests;
mod unit;
mod upgrade;
mod webhooks;
mod world;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

pub use certificates::not_after;
pub use world::{Endpoints, Shared, World};

use windrow_decide::{ClusterEvent, Interests, ProbeInterest};
use windrow_plan::readiness::node::{
    NodeEvent, ProbeOutcome, ProbeSpec, Role, custom_specs, specs,
};

use crate::backoff::spread;

/// How often the role is read anew.
const ROLE_EVERY: Duration = Duration::from_secs(20);

/// An answer, and what else was seen on the way.
struct Asked {
    outcome: ProbeOutcome,
    events: Vec<NodeEvent>,
}

impl From<ProbeOutcome> for Asked {
    fn from(outcome: ProbeOutcome) -> Self {
        Self {
            outcome,
            events: Vec::new(),
        }
    }
}

/// What decides which probes run.
#[derive(Clone, PartialEq)]
struct Subject {
    interest: ProbeInterest,
    role: Role,
    node: String,
}

/// Probes until the receiver of the events is gone, or until a probe panics: its last answer would stay
/// for ever.
pub async fn probe(
    world: Shared,
    mut interests: watch::Receiver<Interests>,
    events: mpsc::Sender<ClusterEvent>,
) {
    let mut probed: Option<Subject> = None;
    let mut tasks = JoinSet::new();
    let unrest = Unrest::default();
    loop {
        let interest = interests.borrow_and_update().probes.clone();
        let subject = match interest {
            Some(interest) => {
                if !interest.data_dir.is_empty() {
                    world.has_data_dir(&interest.data_dir);
                }
                let (role, node) = role::read(&world).await;
                Some(Subject {
                    interest,
                    role,
                    node,
                })
            }
            None => None,
        };
        if subject != probed {
            // What was asked of the node that it was is of no use any more.
            tasks.shutdown().await;
            let wanted = subject.as_ref().map(wanted).unwrap_or_default();
            let event = match &subject {
                Some(subject) => NodeEvent::Probing {
                    role: subject.role,
                    boot: world.boot(),
                    specs: wanted.clone(),
                },
                None => NodeEvent::NotProbing,
            };
            if events.send(ClusterEvent::Node(event)).await.is_err() {
                return;
            }
            if let Some(subject) = &subject {
                for spec in wanted {
                    let (world, subject) = (world.clone(), subject.clone());
                    let paced = (spec.clone(), Pace::of(&spec));
                    tasks.spawn(one(world, subject, paced, unrest.clone(), events.clone()));
                }
            }
            probed = subject;
        }
        tokio::select! {
            () = tokio::time::sleep(ROLE_EVERY) => {}
            changed = interests.changed() => if changed.is_err() { return },
            () = events.closed() => return,
            Some(Err(ended)) = tasks.join_next() => if ended.is_panic() { return },
        }
    }
}

fn wanted(subject: &Subject) -> Vec<ProbeSpec> {
    let Subject { interest, role, .. } = subject;
    specs(*role, interest.platform)
        .into_iter()
        .filter(|spec| !(spec.day_zero && interest.installed))
        .chain(custom_specs(&interest.custom, *role, interest.platform))
        .collect()
}

/// What the node is in its cluster, and its own Node's name, as they are now.
pub async fn whoami(world: &World) -> (Role, String) {
    role::read(world).await
}

/// Tells every probe that one has stopped passing.
type Unrest = Arc<watch::Sender<()>>;

/// How long to wait before a probe is asked again.
struct Pace {
    period: Duration,
    /// The longest pause.
    rest: Duration,
    /// The pause after the next pass.
    next: Duration,
}

impl Pace {
    fn of(spec: &ProbeSpec) -> Self {
        Self {
            period: spec.period,
            rest: spec.rest(),
            next: spec.period,
        }
    }

    /// It passed: how much longer than its period it may be left alone.
    fn more(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.rest);
        pause.saturating_sub(self.period)
    }

    /// Something is not as it was.
    fn hurry(&mut self) {
        self.next = self.period;
    }
}

/// One probe, for ever.
async fn one(
    world: Shared,
    subject: Subject,
    (spec, mut pace): (ProbeSpec, Pace),
    unrest: Unrest,
    events: mpsc::Sender<ClusterEvent>,
) {
    let mut disturbed = unrest.subscribe();
    let mut passed = false;
    loop {
        // From here on: what happens while it is asked may not be in its answer.
        disturbed.mark_unchanged();
        let asked = ask(&world, &subject, spec.id.as_str());
        let asked = tokio::time::timeout(spec.timeout, asked)
            .await
            .unwrap_or_else(|_| {
                let why = format!("no answer within {} s", spec.timeout.as_secs());
                ProbeOutcome::unknown("the probe", why).into()
            });
        let before = std::mem::replace(&mut passed, asked.outcome == ProbeOutcome::Passed);
        if before && !passed {
            unrest.send_replace(());
        }
        let answer = NodeEvent::Probed(spec.id.clone(), asked.outcome);
        for event in asked.events.into_iter().chain([answer]) {
            if events.send(ClusterEvent::Node(event)).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(spread(pace.period)).await;
        if !passed {
            pace.hurry();
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(spread(pace.more())) => {}
            // Its sender lives as long as this.
            _ = disturbed.changed() => pace.hurry(),
        }
    }
}

/// Asks a probe of the table or of the configuration.
async fn ask(world: &World, subject: &Subject, probe: &str) -> Asked {
    let Subject {
        interest,
        role,
        node,
    } = subject;
    let (role, node) = (*role, node.as_str());
    let mut custom = interest.custom.iter();
    if let Some(custom) = custom.find(|custom| custom.id().as_str() == probe) {
        return custom::ask(world, role, node, custom).await.into();
    }
    match probe {
        "default-route" => host::default_route(world).into(),
        "nic-carrier" => host::carrier(world).into(),
        "vip" => harvester::vip_answers(world, role, node).await,
        "vip-join" => harvester::vip_port(world, role, node, world.endpoints.vip_join)
            .await
            .into(),
        "dhcp-client-clash" => harvester::dhcp_clash(world).into(),
        "rke2-installed" => unit::installed(world, role).await.into(),
        "rke2-service" => unit::service(world, role, interest.platform).await,
        "supervisor" => http::supervisor(world).await.into(),
        "etcd" => http::etcd(world).await.into(),
        "apiserver" => cluster::apiserver(world, role, node).await.into(),
        "kubelet" => http::kubelet(world).await.into(),
        "node" => cluster::own_node(world, role, node, interest.platform).await,
        "rancher" => cluster::rancher(world, node).await.into(),
        "managed-chart" => cluster::managed_chart(world, node).await.into(),
        "harvester" => harvester::ready(world, role, node).await.into(),
        "webhook" => webhooks::answer(world, node).await.into(),
        "settings" => cluster::settings(world, node).await,
        "storage-network" => cluster::storage_network(world, node).await.into(),
        "addons" => addons::settled(world, node).await.into(),
        "certificates" => certificates::expiry(world).into(),
        "clock" => host::clock(world).await.into(),
        "disk-space" => host::disk(world, host::Scarce::Space).into(),
        "disk-inodes" => host::disk(world, host::Scarce::Inodes).into(),
        "memory" => host::memory(world).into(),
        "load" => host::load(world).into(),
        other => ProbeOutcome::unknown(other, "nothing knows how to ask it").into(),
    }
}
