//! Longhorn's pods do not get an address of the storage network.
//!
//! Harvester waits until whereabouts' pool of the network has an allocation for each node, and tries again and again (harvester v1.8.2
//! `pkg/controller/master/storagenetwork/storage_network.go` validateIPAddressesAllocations; alike in v1.5.0 to v1.8.2, except that a
//! witness counts before v1.7.0, harvester#9325). The name of the pool is the range as it is written in the Setting. Whereabouts names it
//! by the network instead. Why a pod has no address is only in its Events, which are not read.

use serde_json::{Map, Value};
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use crate::incidents::finding::IncidentFinding;
use crate::objects::{ObjectKind, Objects, Unlisted, named, text};
use crate::upgrade::label;

/// `MsgIPAssignmentFailure`
pub(super) const NO_ADDRESS: &str = "IP allocation failure for Longhorn Pods";
const WITNESS: &str = "node-role.harvesterhci.io~1witness";
const LONGHORN: &str = "longhorn-system";
/// At most this many objects of a kind are shown.
const MOST: usize = 10;

pub(super) fn find(
    objects: &Objects,
    setting: &Value,
    message: &str,
) -> Result<Option<IncidentFinding>, Unlisted> {
    let kinds = [
        ObjectKind::NODE,
        ObjectKind::IP_POOL,
        ObjectKind::POD,
        ObjectKind::PENDING_POD,
    ];
    objects.want(&kinds)?;
    let nodes = objects.all(ObjectKind::NODE)?;
    let pools = objects.all(ObjectKind::IP_POOL)?;
    let witnesses = nodes.iter().filter(|node| label(node, WITNESS) == "true");
    let needed = nodes.len() - witnesses.count();
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
        None => format!("whereabouts has no pool of addresses {wanted}"),
        Some(_) => format!("whereabouts has given {given} addresses, for {needed} nodes"),
    };
    let mut finding =
        IncidentFinding::new(Code::StorageNetworkWaits, "Setting storage-network", &why).seen([
            Evidence::new("Setting storage-network", "condition configured", message),
        ]);
    let sizes = pools.iter().take(MOST).map(|pool| {
        let size = pool.pointer("/spec/allocations").and_then(Value::as_object);
        let size = size.map_or(0, Map::len);
        Evidence::new(subject(pool), "spec.allocations", size.to_string())
    });
    finding.evidence.extend(sizes);
    if let Some(pool) = pool {
        let stale = stale(objects, allocations)?;
        finding.evidence.extend(stale.iter().take(MOST).map(|pod| {
            Evidence::new(
                subject(pool),
                "spec.allocations",
                format!("{pod}, which does not exist"),
            )
        }));
    }
    let pending = objects.pending_pods()?.into_iter();
    let pending = pending.filter(|pod| text(pod, "/metadata/namespace") == LONGHORN);
    finding.evidence.extend(pending.take(MOST).map(|pod| {
        let on = match text(pod, "/spec/nodeName") {
            "" => "Pending".to_owned(),
            node => format!("Pending on {node}"),
        };
        Evidence::new(format!("Pod {}", named(pod)), "status.phase", on)
    }));
    finding.proof = proof(pool.is_some(), pools, given >= needed);
    "Run `kubectl describe pod -n longhorn-system -l longhorn.io/component=instance-manager`: the Event FailedCreatePodSandBox names the cause. \
     The page of this finding says what to do for each cause."
        .clone_into(&mut finding.advice);
    Ok(Some(finding))
}

fn subject(pool: &Value) -> String {
    format!("IPPool {}", named(pool))
}

/// Pods with an address, of which no object is left. Nobody lists the pods of a pool that has no allocation.
fn stale<'o>(
    objects: &Objects,
    allocations: Option<&'o Map<String, Value>>,
) -> Result<Vec<&'o str>, Unlisted> {
    let pods = objects.all(ObjectKind::POD)?;
    let of_pods = allocations.into_iter().flat_map(Map::values);
    let of_pods = of_pods.map(|allocation| text(allocation, "/podref"));
    let is_gone = |pod: &&str| !pod.is_empty() && !pods.iter().any(|known| named(known) == *pod);
    Ok(of_pods.filter(is_gone).collect())
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
