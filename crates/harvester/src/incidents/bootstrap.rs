//! Finds two reasons in the logs of a server that cannot be set up: a panic of rancher-webhook during the bootstrap of rancherd,
//! and starts of RKE2 that always end at the same line. Pure: the caller reads the logs.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::finding::IncidentFinding;
use super::own::{OwnNode, node};
use crate::objects::{ObjectKind, Objects, Unlisted};

/// rancherd retries every few seconds. After this time the webhook is not merely starting.
const AGAIN: SignedDuration = SignedDuration::from_mins(10);
/// An older panic no longer counts.
const RECENT: SignedDuration = SignedDuration::from_mins(30);
/// This many failed starts within half an hour are not a temporary problem.
const MANY: u32 = 5;

/// How often rancher-webhook failed on rancherd's Cluster, on a node on which rancherd has not finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookBreaks {
    /// Number of failures.
    pub count: u32,
    /// Time of the first failure in the part of the journal that was read.
    pub first: Timestamp,
    /// Time of the last failure.
    pub last: Timestamp,
    /// Message of rancherd.
    pub said: String,
    /// Message of the webhook in its own log. Not every release logs its panics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub panic: Option<String>,
}

impl WebhookBreaks {
    /// Reads rancherd's journal, whose lines begin with seconds since 1970. If the webhook panics, its client sees a closed
    /// connection. If the webhook has not started, the client sees a refused connection.
    pub fn read(journal: &str) -> Option<Self> {
        const CALLED: &str = "failed calling webhook ";
        let mut breaks: Option<Self> = None;
        for line in journal.lines() {
            let said = line.find(CALLED).map(|at| &line[at..]);
            let broke = |said: &&str| {
                said.contains("clusters.provisioning.cattle.io") && said.contains(": EOF")
            };
            let (Some(said), Some(at)) = (said.filter(broke), seconds(line)) else {
                continue;
            };
            let end = said
                .find(": EOF")
                .map_or(said.len(), |at| at + ": EOF".len());
            let breaks = breaks.get_or_insert_with(|| Self {
                count: 0,
                first: at,
                last: at,
                said: said[..end].replace('\\', ""),
                panic: None,
            });
            breaks.count += 1;
            breaks.last = at;
        }
        breaks
    }
}

fn seconds(line: &str) -> Option<Timestamp> {
    let seconds = line.split(['.', ' ']).next()?.parse().ok()?;
    Timestamp::from_second(seconds).ok()
}

/// The last panic about a provisioning Cluster in the log of rancher-webhook. Go's HTTP server logs the reason, and then the
/// stack.
pub fn webhook_panic(log: &str) -> Option<String> {
    const PANIC: &str = "panic serving ";
    const OF_CLUSTER: &str = "resources/provisioning.cattle.io/v1/cluster.";
    let (mut open, mut last) = (None, None);
    for line in log.lines() {
        if let Some(at) = line.find(PANIC) {
            // The address of the client follows.
            open = line[at + PANIC.len()..]
                .split_once(": ")
                .map(|(_, why)| why);
        } else if line.contains(OF_CLUSTER) {
            last = open.take().or(last);
        }
    }
    last.map(|why| why.trim_end_matches('"').to_owned())
}

/// The starts of rke2-server within half an hour, while systemd restarts it repeatedly.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerStarts {
    /// How many of the last consecutive starts ended while RKE2 reconciled the bootstrap data.
    pub at_reconcile: u32,
    /// Number of restarts by systemd.
    pub restarts: u32,
    /// Whether RKE2 ended because it lost a leader election.
    pub lost_election: bool,
    /// Whether etcd answers on this node.
    pub etcd_answers: bool,
}

impl ServerStarts {
    /// Reads the journal of rke2-server, whose lines contain the process (`rke2[8569]: `); each process is a start. The newest
    /// start does not count, because it may still run. A start that got further, such as one that lost the election, resets the
    /// count.
    pub fn read(journal: &str) -> Self {
        const RECONCILING: &str = "msg=\"Reconciling bootstrap data between datastore and disk\"";
        const OPENING: &str = "msg=\"Opening etcd client connection";
        let mut starts = Self::default();
        // The process, whether it has begun to reconcile, and whether it got further.
        let mut start = ("", false, false);
        for line in journal.lines() {
            let Some((process, said)) = line
                .split_once("]: ")
                .and_then(|(head, said)| Some((head.rsplit_once(" rke2[")?.1, said)))
            else {
                continue;
            };
            if start.0 != process {
                starts.at_reconcile = match start {
                    (_, true, false) => starts.at_reconcile + 1,
                    (_, _, true) => 0,
                    // The process ended before the reconciliation, or began before the part that was read.
                    (_, false, false) => starts.at_reconcile,
                };
                start = (process, false, false);
            }
            starts.lost_election |= said.contains("leaderelection lost");
            let is_step = said.contains("level=info") && !said.contains(OPENING);
            start.2 |= start.1 && is_step;
            start.1 |= said.contains(RECONCILING);
        }
        starts
    }
}

/// rancherd adds `rkeConfig` to Cluster fleet-local/local, and rancher-webhook panics if the Cluster had none before
/// (rancher#51979, #52096).
pub(super) fn webhook(
    own: &OwnNode,
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let lasts = |breaks: &&WebhookBreaks| {
        breaks.last.duration_since(breaks.first) > AGAIN && now.duration_since(breaks.last) < RECENT
    };
    let Some(breaks) = own.webhook_breaks.as_ref().filter(lasts) else {
        return Ok(Vec::new());
    };
    let cluster = objects.get(ObjectKind::PROVISIONING_CLUSTER, "fleet-local", "local")?;
    if cluster.is_none_or(|cluster| cluster.pointer("/spec/rkeConfig").is_some()) {
        return Ok(Vec::new());
    }
    let why = format!("{} times since {}", breaks.count, breaks.first);
    let mut finding = IncidentFinding::new(Code::RancherWebhookPanics, node(own), &why).seen([
        Evidence::new("rancherd", "its journal", &breaks.said),
        Evidence::new(
            "Cluster fleet-local/local",
            "spec.rkeConfig",
            "it does not exist",
        ),
        Evidence::new(
            "/var/lib/rancher/rancherd/bootstrapped",
            "file",
            "it does not exist",
        ),
    ]);
    finding.proof.push(match &breaks.panic {
        Some(panic) => format!("rancher-webhook's log has the panic: {panic}"),
        None => "rancher-webhook ended the connection without an answer, as it does after a panic; its log has \
                 none, or is not kept here"
            .to_owned(),
    });
    let again = "rancherd asks for the same until it is let through";
    finding.proof.push(again.to_owned());
    Ok(vec![finding])
}

/// rke2-server ended while its etcd kept running, and can no longer read its bootstrap data from it (rke2#11056).
pub(super) fn restart_loop(own: &OwnNode) -> Vec<IncidentFinding> {
    let is_looping = |starts: &&ServerStarts| starts.at_reconcile >= MANY && starts.etcd_answers;
    let Some(starts) = own.server_starts.as_ref().filter(is_looping) else {
        return Vec::new();
    };
    let many = starts.at_reconcile;
    let why = format!("{many} starts in half an hour end at the same line");
    let mut finding = IncidentFinding::new(Code::Rke2BootstrapLoop, node(own), &why).seen([
        Evidence::new(
            "rke2-server.service",
            "NRestarts",
            starts.restarts.to_string(),
        ),
        Evidence::new(
            "rke2-server's journal",
            "last step of each start",
            "Reconciling bootstrap data between datastore and disk",
        ),
        Evidence::new("etcd", "GET http://127.0.0.1:2381/health", "true"),
    ]);
    if starts.lost_election {
        let lost = Evidence::new("rke2-server's journal", "before", "leaderelection lost");
        finding.evidence.push(lost);
    }
    vec![finding]
}
