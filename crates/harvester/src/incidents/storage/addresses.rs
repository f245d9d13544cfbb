//! Longhorn's pods do not get an address of the storage network.
//!
//! Harvester waits until whereabouts' pool of the network has an allocation for each node, and tries again and again (harvester v1.8.2
//! `pkg/controller/master/storagenetwork/storage_network.go` validateIPAddressesAllocations; alike in v1.5.0 to v1.8.2, except that a
//! witness counts before v1.7.0, harvester#9325). The name of the pool is the range as it is written in the Setting. Whereabouts names it
//! by the network instead. Why a pod has no address is only in its Events.

use serde_json::{Map, Value};
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};

use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::quoted;
use crate::objects::{ObjectKind, Objects, Unlisted, is_true, named, newest_warning, text};
use crate::upgrade::label;

/// `MsgIPAssignmentFailure`
pub(super) const NO_ADDRESS: &str = "IP allocation failure for Longhorn Pods";
const WITNESS: &str = "node-role.harvesterhci.io~1witness";
/// Whereabouts' message (`pkg/allocate/allocate.go`, `AssignmentError`).
pub(in crate::incidents) const NO_FREE: &str = "Could not allocate IP in range";
const LONGHORN: &str = "longhorn-system";
/// At most this many objects of a kind are shown.
const MOST: usize = 10;

pub(super) fn find(
    objects: &Objects,
    setting: &Value,
    message: &str,
) -> Result<Option<IncidentFinding>, Unlisted> {
    let kinds = [ObjectKind::NODE, ObjectKind::IP_POOL, ObjectKind::POD];
    objects.want(&kinds)?;
    let nodes = objects.all(ObjectKind::NODE)?;
    let witnesses = nodes.iter().filter(|node| label(node, WITNESS) == "true");
    let needed = nodes.len() - witnesses.count();
    let pods = objects.all(ObjectKind::POD)?;
    let waiting: Vec<&Value> = pods.iter().filter(|pod| waits(pod)).collect();
    let pools = match objects.all(ObjectKind::IP_POOL) {
        Ok(pools) => pools,
        // Longhorn's pods tell enough.
        Err(_) if !waiting.is_empty() => &[],
        Err(_) if needed < nodes.len() && managers(pods) >= needed => {
            return Ok(Some(of_witness(message)));
        }
        Err(unlisted) => return Err(unlisted),
    };
    let is_listed = objects.all(ObjectKind::IP_POOL).is_ok();
    let value: Value = serde_json::from_str(text(setting, "/value")).unwrap_or_default();
    let wanted = text(&value, "/range").replace('/', "-");
    let pool = pools
        .iter()
        .find(|pool| text(pool, "/metadata/name") == wanted);
    let allocations = pool.and_then(|pool| pool.pointer("/spec/allocations")?.as_object());
    let given = allocations.map_or(0, Map::len);
    // Harvester's next look ends this.
    if pool.is_some() && given >= nodes.len() {
        return Ok(None);
    }
    let why = match pool {
        None if !is_listed => format!("{} of Longhorn's pods wait", waiting.len()),
        None => format!("whereabouts has no pool of addresses {wanted}"),
        Some(_) => format!("whereabouts has given {given} addresses, for {needed} nodes"),
    };
    let mut finding = found(&why, message);
    let sizes = pools.iter().take(MOST).map(|pool| {
        let size = pool.pointer("/spec/allocations").and_then(Value::as_object);
        let size = size.map_or(0, Map::len);
        Evidence::new(subject(pool), "spec.allocations", size.to_string())
    });
    finding.evidence.extend(sizes);
    if let Some(pool) = pool {
        let stale = stale(pods, allocations);
        finding.evidence.extend(stale.iter().take(MOST).map(|pod| {
            Evidence::new(
                subject(pool),
                "spec.allocations",
                format!("{pod}, which does not exist"),
            )
        }));
    }
    finding.proof = proof(pool.is_some(), pools, given >= needed);
    "Run `kubectl describe pod -n longhorn-system -l longhorn.io/component=instance-manager`: the Event FailedCreatePodSandBox names the cause. \
     The page of this finding says what to do for each cause."
        .clone_into(&mut finding.advice);
    if !waiting.is_empty() {
        objects.want(&[ObjectKind::POD_WARNING])?;
        add_waiting(
            &mut finding,
            &waiting,
            &objects.pod_warnings().unwrap_or_default(),
        );
    } else if pool.is_some() && given >= needed {
        finding.severity = Severity::Info;
    }
    Ok(Some(finding))
}

fn found(why: &str, message: &str) -> IncidentFinding {
    let about = "Setting storage-network";
    IncidentFinding::new(Code::StorageNetworkWaits, about, why).seen([Evidence::new(
        about,
        "condition configured",
        message,
    )])
}

/// Is it a pod of Longhorn that waits for its network?
fn waits(pod: &Value) -> bool {
    text(pod, "/metadata/namespace") == LONGHORN && text(pod, "/status/phase") == "Pending"
}

/// The number of instance managers that run.
fn managers(pods: &[Value]) -> usize {
    let runs = |pod: &&Value| {
        text(pod, "/metadata/namespace") == LONGHORN
            && label(pod, "longhorn.io~1component") == "instance-manager"
            && is_true(pod, "Ready")
    };
    pods.iter().filter(runs).count()
}

fn of_witness(message: &str) -> IncidentFinding {
    let mut finding = found("the witness has no address and needs none", message);
    finding.proof = proof(true, &[], true);
    finding.severity = Severity::Info;
    "The network works, and volumes can be attached. Upgrade Harvester to v1.7.0 or later, which does not count the witness."
        .clone_into(&mut finding.advice);
    finding
}

/// No volume can be attached on the nodes of these pods.
fn add_waiting(finding: &mut IncidentFinding, waiting: &[&Value], warnings: &[&Value]) {
    finding.severity = Severity::Error;
    for pod in waiting.iter().take(MOST) {
        let about = format!("Pod {}", named(pod));
        let on = match text(pod, "/spec/nodeName") {
            "" => "Pending".to_owned(),
            node => format!("Pending on {node}"),
        };
        finding
            .evidence
            .push(Evidence::new(&about, "status.phase", on));
        if let Some(warning) = newest_warning(pod, warnings) {
            let words = text(warning, "/message");
            // The ranges are at the end of a long message.
            let at = words.find(NO_FREE);
            if at.is_some() {
                "Change `range` or `exclude` of the Setting storage-network: the Events of the pods name the range and the excluded ranges, \
                 which leave no address. First stop all VMs."
                    .clone_into(&mut finding.advice);
            }
            let words = &words[at.unwrap_or_default()..];
            let words = quoted(&format!("{}: {words}", text(warning, "/reason")));
            finding
                .evidence
                .push(Evidence::new(about, "newest warning", words));
        }
    }
}

fn subject(pool: &Value) -> String {
    format!("IPPool {}", named(pool))
}

/// Pods with an address, of which no object is left. Nobody lists the pods of a pool that has no allocation.
fn stale<'o>(pods: &[Value], allocations: Option<&'o Map<String, Value>>) -> Vec<&'o str> {
    let of_pods = allocations.into_iter().flat_map(Map::values);
    let of_pods = of_pods.map(|allocation| text(allocation, "/podref"));
    let is_gone = |pod: &&str| !pod.is_empty() && !pods.iter().any(|known| named(known) == *pod);
    of_pods.filter(is_gone).collect()
}

fn proof(has_pool: bool, pools: &[Value], has_enough: bool) -> Vec<String> {
    let mut proof = vec![
        "Longhorn's instance manager of a node does not run without an address of the storage network, and no volume can be attached there"
            .to_owned(),
    ];
    if !has_pool && !pools.is_empty() {
        proof.push(
            "Harvester looks for the pool by the range in the Setting, and whereabouts names it by the network: they differ if the range has host bits"
                .to_owned(),
        );
    }
    if has_pool && has_enough {
        proof.push(
            "each node except the witness has an address; Harvester before v1.7.0 waits for one of the witness, too (harvester#9325)"
                .to_owned(),
        );
    }
    proof
}
