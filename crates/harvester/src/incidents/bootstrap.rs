//! What keeps a server from being set up, by what its logs say: rancher-webhook's panic in rancherd's bootstrap, and RKE2's starts
//! that all end at the same line. Pure: the caller has read the logs.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::finding::IncidentFinding;
use super::own::{OwnNode, node};
use crate::objects::{ObjectKind, Objects, Unlisted};

/// rancherd tries every few seconds. For so long it is more than a webhook that is just coming up.
const AGAIN: SignedDuration = SignedDuration::from_mins(10);
/// A panic that was longer ago is over.
const RECENT: SignedDuration = SignedDuration::from_mins(30);
/// This many starts in half an hour that come to nothing are no hiccup.
const MANY: u32 = 5;

/// How often rancher-webhook broke off over rancherd's Cluster, on a node on which rancherd has not finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookBreaks {
    /// How often.
    pub count: u32,
    /// When it first did, as far as the journal was read.
    pub first: Timestamp,
    /// When it last did.
    pub last: Timestamp,
    /// What rancherd says of it.
    pub said: String,
    /// What the webhook's own log says; not every release logs its panics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub panic: Option<String>,
}

impl WebhookBreaks {
    /// Reads rancherd's journal, whose lines begin with seconds since 1970: who asks a server that panics is told that the
    /// connection ended. A webhook that is not up yet refuses the connection.
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

/// The last panic over a provisioning Cluster in rancher-webhook's log: Go's HTTP server says why, and then from which
/// functions it came.
pub fn webhook_panic(log: &str) -> Option<String> {
    const PANIC: &str = "panic serving ";
    const OF_CLUSTER: &str = "resources/provisioning.cattle.io/v1/cluster.";
    let (mut open, mut last) = (None, None);
    for line in log.lines() {
        if let Some(at) = line.find(PANIC) {
            // After it comes the client's address.
            open = line[at + PANIC.len()..]
                .split_once(": ")
                .map(|(_, why)| why);
        } else if line.contains(OF_CLUSTER) {
            last = open.take().or(last);
        }
    }
    last.map(|why| why.trim_end_matches('"').to_owned())
}

/// The starts of rke2-server within half an hour, while systemd starts it again and again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerStarts {
    /// How many of the last, one after the other, ended while the bootstrap data was reconciled.
    pub at_reconcile: u32,
    /// How often systemd has restarted it.
    pub restarts: u32,
    /// Did it end because it lost an election?
    pub lost_election: bool,
    /// Does etcd answer on this node?
    pub etcd_answers: bool,
}

impl ServerStarts {
    /// Reads rke2-server's journal, whose lines name the process (`rke2[8569]: `): each is a start. The newest is not counted: it
    /// may be under way. One that came further, such as the one that lost the election, starts the count again.
    pub fn read(journal: &str) -> Self {
        const RECONCILING: &str = "msg=\"Reconciling bootstrap data between datastore and disk\"";
        const OPENING: &str = "msg=\"Opening etcd client connection";
        let mut starts = Self::default();
        // The process, whether it has begun to reconcile, and whether it came further.
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
                    // It ended before, or began before what was read.
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

/// rancherd adds `rkeConfig` to Cluster fleet-local/local, and rancher-webhook cannot bear a Cluster that had none
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

/// rke2-server was ended while its etcd stayed, and cannot read its bootstrap data from there any more (rke2#11056).
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
