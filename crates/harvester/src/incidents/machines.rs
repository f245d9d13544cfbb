//! The counterpart of A: because VMs run, Harvester before v1.5.1 cannot create its settings and never starts (harvester#8407).
//! From v1.5.1 on the new Setting is exempt, because it is empty. There, the same VMs can only delay a preset storage network
//! (`storage.rs`).

use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::cure::{Cure, CureGoal, CureStep, SavedObject, TemporaryKind};
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
    let why = format!("these VMs are not stopped: {}", names.join(", "));
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
    // The pod names the Setting, but this release accepts it, so the cause is another one.
    if crashing.iter().any(|pod| refuses_empty(pod, Holds::No)) {
        "Windrow offers no fix: this release of Harvester accepts the empty Setting storage-network. See the log of the pod."
            .clone_into(&mut finding.advice);
        finding.unconfirmed = true;
        return Ok(vec![finding]);
    }
    finding.proof = vec![
        format!(
            "Harvester's server makes its settings when it starts, and before v1.5.1 its own webhook refuses \
             the Setting {SETTING}, empty as it is, while any VM's status is not Stopped; the server \
             ends at the refusal"
        ),
        "nothing stops the VMs: only the server would, and it does not start".to_owned(),
    ];
    if let Some(vm) = running.iter().find(|vm| !starts_again(vm)) {
        let strategy = text(vm, "/spec/runStrategy");
        finding.advice = format!(
            "Windrow offers no fix: VirtualMachine {} has runStrategy {strategy}, so it would not come back as it was. Stop it \
             yourself, and start it when Harvester is ready. Then run `windrow diagnose` again.",
            named(vm)
        );
    } else {
        finding.cure = Some(cure(&running));
    }
    Ok(vec![finding])
}

/// Whether the pod crashes because of the Setting. Its message names it, or its image is of a release with this bug. For other
/// images only the message counts.
fn is_refused(pod: &Value) -> bool {
    let said = items(pod, "/status/containerStatuses")
        .iter()
        .any(|container| text(container, "/lastState/terminated/message").contains(SETTING));
    said || refuses_empty(pod, Holds::Yes)
}

/// Whether the release in the image of the pod is known to reject the empty Setting, or known to accept it.
fn refuses_empty(pod: &Value, holds: Holds) -> bool {
    items(pod, "/spec/containers")
        .iter()
        .filter_map(|container| image_version(text(container, "/image")))
        .any(|version| Fact::StorageNetworkEmptyRefused.holds(version) == holds)
}

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

/// Follows Harvester's webhook, for which every status except Stopped counts as running, even an empty one.
fn is_stopped(vm: &Value) -> bool {
    text(vm, "/status/printableStatus") == "Stopped"
}

/// Whether virt-controller starts the VM as soon as its run strategy is restored. With Manual it waits for a request to the
/// subresource `start`, with WaitAsReceiver for a migration, and with Once a VM that has already run would run a second time
/// (KubeVirt v1.2.2 to v1.7.4, `syncRunStrategy`).
fn starts_again(vm: &Value) -> bool {
    matches!(
        (vm.pointer("/spec/running"), text(vm, "/spec/runStrategy")),
        (Some(Value::Bool(_)), "") | (None, "" | "Halted" | "Always" | "RerunOnFailure")
    )
}

/// Whether the VM is to be off and has not stopped yet.
fn is_halted(vm: &Value) -> bool {
    let running = vm.pointer("/spec/running") == Some(&json!(true));
    !running && matches!(text(vm, "/spec/runStrategy"), "" | "Halted")
}

fn cure(machines: &[&Value]) -> Cure {
    let (mut steps, mut back, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    let runs_again = |vm: &Value| CureGoal::Field {
        path: ObjectKind::VM.path_of(vm),
        before: None,
        field: "/status/printableStatus".to_owned(),
        value: json!("Running"),
    };
    for vm in machines {
        let name = named(vm);
        if is_halted(vm) {
            let wait = format!("wait until VirtualMachine {name} is stopped");
            let path = ObjectKind::VM.path_of(vm);
            let is_stopped = CureGoal::MachineStopped { path };
            steps.push(CureStep::wait(wait, is_stopped, 600));
            continue;
        }
        let (stop, start) = TemporaryKind::STOPPED_MACHINE.steps(vm);
        steps.push(stop);
        back.push(start);
        // A VM that did not run before need not run afterwards.
        if text(vm, "/status/printableStatus") == "Running" {
            let wait = format!("wait until VirtualMachine {name} runs again");
            runs.push(CureStep::wait(wait, runs_again(vm), 600));
        }
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
    steps.extend(runs);
    let names: Vec<String> = machines.iter().map(|vm| named(vm)).collect();
    Cure {
        summary: "stop the VMs until Harvester has created its settings".to_owned(),
        changes: vec![
            format!(
                "these VMs are stopped and started again: {}",
                names.join(", ")
            ),
            "a manifest that RKE2 applies again meanwhile would start its VM again".to_owned(),
        ],
        saves: machines
            .iter()
            .map(|vm| SavedObject::of(ObjectKind::VM, vm))
            .collect(),
        purpose: None,
        steps,
    }
}
