//! VMs with the label `harvesterhci.io/maintain-mode-strategy`, which Harvester treats differently in maintenance mode. Plain drains and
//! upgrades ignore the label.
//!
//! ```text
//!   label of                        the instance: Harvester stops it first   its pod: Harvester's drain leaves it out
//!   Shutdown, ShutdownAndRestart…   yes, without force                       yes
//!   Migrate                         no                                       no
//!   anything else                   no                                       before v1.8.0 only
//! ```
//!
//! Read in harvester v1.4.0, v1.6.1, v1.7.1, v1.8.2 and v1.9.0-rc6 `pkg/controller/master/nodedrain/nodedrain_controller.go`
//! (OnNodeChange), `pkg/util/drainhelper/helper.go` (maintainModeStrategyFilter), `pkg/controller/master/node/maintain_controller.go`,
//! `pkg/api/node/formatter.go` (disableMaintenanceMode); nothing in `package/upgrade` reads the label.

use serde_json::Value;

use crate::objects::{ObjectKind, Objects, Unlisted, named, text};
use crate::upgrade::label;

const LABEL: &str = "harvesterhci.io~1maintain-mode-strategy";
const VM_OF_POD: &str = "harvesterhci.io~1vmName";
const NODE: &str = "kubevirt.io~1nodeName";

/// The rest of the sentence `Harvester stops it and …`; `None` for a value with which Harvester does not stop the VM.
fn afterwards(strategy: &str) -> Option<&'static str> {
    Some(match strategy {
        "Shutdown" => "does not start it again",
        "ShutdownAndRestartAfterEnable" => "starts it again when the node is in maintenance mode",
        "ShutdownAndRestartAfterDisable" => {
            "starts it again when you disable maintenance mode of the node"
        }
        _ => return None,
    })
}

/// One line for each labelled VM of a node: how Harvester treats it. `refused` has the reasons for which Harvester rejects
/// maintenance mode without force.
pub(super) fn treated(
    objects: &Objects,
    node: &str,
    refused: &[String],
) -> Result<Vec<String>, Unlisted> {
    let vms = objects.all(ObjectKind::VMI)?.iter();
    let pods = objects.all(ObjectKind::POD)?;
    let here = vms.filter(|vm| label(vm, NODE) == node);
    let line = |vm: &Value| {
        let pod = pods.iter().find(|pod| {
            let same = |field| text(pod, field) == text(vm, field);
            // KubeVirt keeps the pods of earlier migrations.
            let has_ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
            !has_ended
                && same("/metadata/namespace")
                && text(pod, "/spec/nodeName") == node
                && label(pod, VM_OF_POD) == text(vm, "/metadata/name")
        });
        let of_pod = pod.map(|pod| label(pod, LABEL));
        says(&named(vm), label(vm, LABEL), of_pod, refused)
    };
    Ok(here.filter_map(line).collect())
}

fn says(vm: &str, own: &str, of_pod: Option<&str>, refused: &[String]) -> Option<String> {
    let never = "maintenance mode then does not complete until you stop or migrate it";
    if let Some(afterwards) = afterwards(own) {
        let mut says =
            format!("VM {vm}: Harvester stops it before the drain and {afterwards} (label: {own})");
        let stops_by_force = |why: &String| why.starts_with(&format!("VM {vm}: "));
        let is_left = !refused.is_empty() && !refused.iter().any(stops_by_force);
        if is_left && of_pod.is_none_or(is_shutdown) {
            says += &format!(". With force it neither stops nor migrates it: {never}");
        }
        return Some(says);
    }
    let of_pod = of_pod.unwrap_or(own);
    if is_shutdown(of_pod) {
        return Some(format!(
            "VM {vm}: its pod still has the label {of_pod}, and the VM does not: Harvester neither stops nor migrates it, and {never}"
        ));
    }
    (!matches!(of_pod, "" | "Migrate")).then(|| {
        format!(
            "VM {vm}: the label {of_pod} has no known value. From v1.8.0 on Harvester migrates the VM. Before, it neither stops nor migrates \
             it, and {never}"
        )
    })
}

fn is_shutdown(strategy: &str) -> bool {
    afterwards(strategy).is_some()
}
