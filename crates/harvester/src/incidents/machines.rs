//! A from the other side: machines run, so a Harvester before v1.5.1 cannot make its settings, so it never
//! comes up (harvester#8407). From v1.5.1 on the Setting that it makes is exempt, as it is empty: there the
//! same machines keep at most a preset storage network from being configured (`storage.rs`).

use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::cure::{Cure, CureGoal, CureStep, ObjectChange, SavedObject};
use super::finding::IncidentFinding;
use crate::objects::{ObjectKind, Objects, Unlisted, items, named, text};
use crate::versions::{Fact, Holds, image_version, is_api_server};

const SETTING: &str = "storage-network";

pub(super) fn find(objects: &Objects, _: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    if objects.get(ObjectKind::SETTING, "", SETTING)?.is_some() {
        return Ok(Vec::new());
    }
    let machines = objects.all(ObjectKind::VM)?;
    let running: Vec<&Value> = machines.iter().filter(|vm| !is_stopped(vm)).collect();
    if running.is_empty() {
        return Ok(Vec::new());
    }
    let crashing: Vec<&Value> = objects
        .all(ObjectKind::POD)?
        .iter()
        .filter(|pod| is_api_server(pod) && crash(pod).is_some() && is_refused(pod))
        .collect();
    if crashing.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> = running.iter().map(|vm| named(vm)).collect();
    let why = format!("these machines are not stopped: {}", names.join(", "));
    let mut finding = IncidentFinding::new(Code::MachinesBlockSettings, "Harvester", &why);
    for pod in &crashing {
        let subject = format!("Pod {}", named(pod));
        let said = crash(pod).unwrap_or_default();
        finding
            .evidence
            .push(Evidence::new(subject, "containerStatuses", said));
    }
    finding.evidence.push(Evidence::new(
        format!("Setting {SETTING}"),
        "metadata",
        "it does not exist",
    ));
    for vm in &running {
        let status = match text(vm, "/status/printableStatus") {
            "" => "(none)",
            status => status,
        };
        let subject = format!("VirtualMachine {}", named(vm));
        let evidence = Evidence::new(subject, "status.printableStatus", status);
        finding.evidence.push(evidence);
    }
    // The pod's own words name the Setting, and this release accepts it: the cause is another.
    if crashing.iter().any(|pod| refuses_empty(pod, Holds::No)) {
        "Windrow offers no fix: this release of Harvester accepts the empty Setting storage-network. See the log of the pod."
            .clone_into(&mut finding.advice);
        finding.unconfirmed = true;
        return Ok(vec![finding]);
    }
    finding.proof = vec![
        format!(
            "Harvester's server makes its settings when it starts, and before v1.5.1 its own webhook refuses \
             the Setting {SETTING}, empty as it is, while any machine's status is not Stopped; the server \
             ends at the refusal"
        ),
        "nothing stops the machines: what would is the server that does not start".to_owned(),
    ];
    finding.cure = Some(cure(&running));
    Ok(vec![finding])
}

/// Is it the Setting that this pod ends at? Its own words say so, or its image is of a release that does so. Of an
/// image of which that is not known only its words tell.
fn is_refused(pod: &Value) -> bool {
    let said = items(pod, "/status/containerStatuses")
        .iter()
        .any(|container| text(container, "/lastState/terminated/message").contains(SETTING));
    said || refuses_empty(pod, Holds::Yes)
}

/// Is this known of the release in the pod's image: that it refuses the empty Setting, or that it does not?
fn refuses_empty(pod: &Value, holds: Holds) -> bool {
    items(pod, "/spec/containers")
        .iter()
        .filter_map(|container| image_version(text(container, "/image")))
        .any(|version| Fact::StorageNetworkEmptyRefused.holds(version) == holds)
}

/// How a pod crash-loops, in a line.
fn crash(pod: &Value) -> Option<String> {
    items(pod, "/status/containerStatuses")
        .iter()
        .find_map(|container| {
            let waits = text(container, "/state/waiting/reason") == "CrashLoopBackOff";
            waits.then(|| {
                let restarts = container.pointer("/restartCount").and_then(Value::as_i64);
                let last = text(container, "/lastState/terminated/message").trim();
                let last = last.lines().last().unwrap_or_default();
                let separator = if last.is_empty() { "" } else { ": " };
                format!(
                    "CrashLoopBackOff after {} restarts{separator}{last}",
                    restarts.unwrap_or_default()
                )
            })
        })
}

/// As Harvester's webhook sees it: every status but Stopped counts as running, an empty one too.
fn is_stopped(vm: &Value) -> bool {
    text(vm, "/status/printableStatus") == "Stopped"
}

fn cure(machines: &[&Value]) -> Cure {
    let mut steps = Vec::new();
    let mut back = Vec::new();
    for vm in machines {
        let stopped = ObjectChange::of(ObjectKind::VM, vm)
            .set("/spec/running", Value::Null)
            .set("/spec/runStrategy", json!("Halted"));
        let goal = CureGoal::Field {
            path: ObjectKind::VM.path_of(vm),
            before: None,
            field: "/status/printableStatus".to_owned(),
            value: json!("Stopped"),
        };
        let stop = format!("stop VirtualMachine {}", named(vm));
        steps.push(
            stopped
                .step(stop, goal, 600)
                .afterwards("virt-controller shuts it down; the last step starts it again"),
        );
        let start = format!("start VirtualMachine {} again, as it was", named(vm));
        back.push(stopped.step_back(start, 120));
    }
    let setting = ObjectKind::SETTING.object_path("", SETTING);
    steps.push(CureStep::wait(
        format!("wait until Harvester has made its Setting {SETTING}"),
        CureGoal::Field {
            path: setting,
            before: None,
            field: "/metadata/name".to_owned(),
            value: json!(SETTING),
        },
        1800,
    ));
    steps.extend(back);
    let names: Vec<String> = machines.iter().map(|vm| named(vm)).collect();
    Cure {
        summary: "stop the machines until Harvester has made its settings".to_owned(),
        changes: vec![
            format!(
                "these machines are stopped and started again: {}",
                names.join(", ")
            ),
            "a manifest that RKE2 applies again meanwhile would start its machine again".to_owned(),
        ],
        saves: machines
            .iter()
            .map(|vm| SavedObject::of(ObjectKind::VM, vm))
            .collect(),
        purpose: None,
        steps,
    }
}
