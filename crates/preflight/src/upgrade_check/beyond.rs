//! Causes at which upgrades stop and that Harvester's preflight does not check.

use jiff::SignedDuration;
use serde_json::Value;
use windrow_harvester::drain::{PodFate, check_all, stale_engines};
use windrow_harvester::etcd_member::{self, Vote, is_member};
use windrow_harvester::incidents::diagnose;
use windrow_harvester::objects::{ObjectKind, named};
use windrow_model::reasons::{Code, Severity};

use super::machines::is_stopped;
use super::preflight::{NO_TARGET, seen_in};
use super::{CheckFacts, CheckResult, Cluster, NoFacts};

/// How long a member may be without a vote, for any reason. A restarted member is back sooner, and k3s removes a learner
/// that makes no progress for five minutes.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// A single node is not drained.
pub(super) fn drains(cluster: &Cluster<'_>) -> CheckResult {
    if cluster.nodes()?.len() == 1 {
        return Err(NoFacts::NotChecked("a single node is not drained"));
    }
    let all = check_all(cluster.objects, cluster.now);
    let mut facts = CheckFacts::default();
    facts
        .unknown
        .extend(Some(all.why).filter(|why| !why.is_empty()));
    for node in all.nodes {
        let subject = format!("Node {}", node.node);
        if !node.why.is_empty() {
            facts.unknown.push(format!("{subject}: {}", node.why));
        }
        let stay = node.pods.iter().filter(|pod| pod.fate != PodFate::Goes);
        for pod in stay {
            let said = format!("{}: {}", pod.pod, pod.why);
            match (is_stopped(cluster, &pod.pod).unwrap_or(None), pod.fate) {
                (Some(true), _) | (_, PodFate::Goes) => {}
                (Some(false), PodFate::Blocked) => facts.add(&subject, "drain", said),
                (None, _) | (_, PodFate::Unknown) => {
                    facts.unknown.push(format!("{subject}: {said}"));
                }
            }
        }
    }
    Ok(facts)
}

pub(super) fn gates(cluster: &Cluster<'_>) -> CheckResult {
    if cluster.to.is_none() {
        return Err(NO_TARGET);
    }
    match &cluster.readings.gates {
        Some(Ok(refused)) => Ok(refused.iter().cloned().collect()),
        Some(Err(why)) => Err(NoFacts::Unknown(why.clone())),
        None => Err(NoFacts::Unknown("the nodes were not asked".to_owned())),
    }
}

/// A drain and a reboot of another member may cost etcd its majority while one does not vote.
pub(super) fn voters(cluster: &Cluster<'_>) -> CheckResult {
    let members: Vec<&Value> = cluster
        .nodes()?
        .iter()
        .filter(|node| is_member(node))
        .collect();
    if members.is_empty() {
        let why = "no node is labelled as a member of etcd";
        return Err(NoFacts::Unknown(why.to_owned()));
    }
    let mut facts = CheckFacts::default();
    for node in members {
        let subject = format!("Node {}", named(node));
        let (reason, since) = match etcd_member::vote(node) {
            Vote::Votes => continue,
            Vote::Learns { since } => ("MemberIsLearner".to_owned(), since),
            Vote::Without { reason, since } => (reason, since),
            Vote::Unknown(why) => {
                facts.unknown.push(format!("{subject}: EtcdIsVoter: {why}"));
                continue;
            }
        };
        match since {
            Some(since) if cluster.now.duration_since(since) >= PATIENCE => {
                facts.add(subject, "status.conditions[EtcdIsVoter]", reason);
            }
            Some(since) => facts
                .unknown
                .push(format!("{subject}: {reason} since {since}")),
            None => facts.unknown.push(format!("{subject}: {reason}")),
        }
    }
    Ok(facts)
}

pub(super) fn incidents(cluster: &Cluster<'_>) -> CheckResult {
    let found = diagnose(cluster.objects, cluster.now);
    let mut facts = CheckFacts {
        unknown: found.unknown,
        ..CheckFacts::default()
    };
    for finding in found.findings {
        if finding.severity < Severity::Error {
            continue;
        }
        // No step of the upgrade is known to wait for what runs beside the platform.
        if finding.code == Code::WorkloadNotAvailable && finding.subject.contains(" kube-system/") {
            facts
                .unknown
                .push(format!("{}: {}", finding.subject, finding.message));
        } else {
            facts.add(finding.subject, finding.code.as_str(), finding.message);
        }
    }
    Ok(facts)
}

/// An entry may be about to disappear, so finding it once is not a proof.
pub(super) fn engines(cluster: &Cluster<'_>) -> CheckResult {
    let engines = cluster.all(ObjectKind::LONGHORN_ENGINE)?;
    let mut facts = CheckFacts::default();
    for manager in cluster.all(ObjectKind::INSTANCE_MANAGER)? {
        let stale = stale_engines(manager, engines).into_iter();
        let field = "status.instanceEngines";
        let evidence = stale.map(|one| {
            let said = format!("{}: {}", one.name, one.because);
            seen_in("InstanceManager", manager, field, &said)
        });
        facts.problems.extend(evidence);
    }
    Ok(facts)
}
