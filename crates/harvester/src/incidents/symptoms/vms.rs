//! VMs that should run and do not, or that stay in a state that should pass. They are yours: one finding for all.
//!
//! ```text
//!   an error in the status                           ──> at once
//!   Starting, WaitingForVolumeBinding                ──> for an hour, with what its pod waits for
//!   Stopping, Terminating                            ──> for an hour, if no pod of it is left
//!   Paused by its disk (never by you)                ──> a disk returned an error
//! ```

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::pods::waiting;
use super::{CONDITION_FALSE, Clock, Patience, VM_CHANGES, condition_seen, subject};
use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::{MOST, quoted};
use crate::objects::{
    Condition, ObjectKind, Objects, Unlisted, is_true, items, named, newest_warnings, text,
};
use crate::upgrade::{label, time};

/// The status of a VM that does not start without a change (kubevirt d923fdb `staging/src/kubevirt.io/api/core/v1/types.go`,
/// `VirtualMachinePrintableStatus`).
const PROBLEMS: [&str; 6] = [
    "CrashLoopBackOff",
    "ErrorUnschedulable",
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrorPvcNotFound",
    "DataVolumeError",
];
/// The statuses of the same list that should pass.
const STARTS: [&str; 2] = ["Starting", "WaitingForVolumeBinding"];
const ENDS: [&str; 2] = ["Stopping", "Terminating"];
/// virt-handler writes this reason when QEMU pauses a VM because of its disk (kubevirt d923fdb `pkg/virt-handler/vm.go`); that of a pause by a
/// user is `PausedByUser`.
const IO_ERROR: &str = "PausedIOError";

/// A VM with a problem, and what there is to see of it.
struct VmFault<'o> {
    vm: &'o Value,
    why: String,
    evidence: Vec<Evidence>,
}

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let vms = objects.all(ObjectKind::VM)?;
    if !vms.iter().any(is_suspect) {
        return Ok(Vec::new());
    }
    objects.want(&[ObjectKind::VMI, ObjectKind::POD, ObjectKind::POD_WARNING])?;
    let clock = Clock::read(objects, now)?;
    let vmis = objects.all(ObjectKind::VMI).unwrap_or_default().iter();
    let pods = objects.all(ObjectKind::POD).ok();
    let launchers = Launchers {
        vmis: vmis.map(|vmi| (named(vmi), vmi)).collect(),
        pods: pods.map(by_vm),
        warnings: newest_warnings(&objects.pod_warnings().unwrap_or_default()),
    };
    let faults: Vec<VmFault<'_>> = vms
        .iter()
        .filter(|vm| is_suspect(vm))
        .filter_map(|vm| fault(vm, &launchers, clock))
        .collect();
    let Some(first) = faults.first() else {
        return Ok(Vec::new());
    };
    let why = match faults.len() {
        1 => first.why.clone(),
        many => format!("{}; {} more VMs do not run", first.why, many - 1),
    };
    let about = subject(first.vm, "VirtualMachine");
    let evidence = faults.iter().take(MOST);
    let evidence = evidence.flat_map(|fault| fault.evidence.iter().cloned());
    let mut finding = IncidentFinding::new(Code::ProblemStays, about, &why).seen(evidence);
    "`kubectl describe vm` and `kubectl describe vmi` show why the VM does not run."
        .clone_into(&mut finding.advice);
    Ok(vec![finding])
}

fn status(vm: &Value) -> &str {
    text(vm, "/status/printableStatus")
}

fn is_suspect(vm: &Value) -> bool {
    let status = status(vm);
    PROBLEMS.contains(&status)
        || STARTS.contains(&status)
        || ENDS.contains(&status)
        || status == "Paused"
}

/// The instances of VMs, and their pods, by namespace and name of the VM.
struct Launchers<'o> {
    vmis: BTreeMap<String, &'o Value>,
    /// `None` if they cannot be listed.
    pods: Option<BTreeMap<String, Vec<&'o Value>>>,
    /// The newest of each pod.
    warnings: BTreeMap<(&'o str, &'o str), &'o Value>,
}

/// The pods that have not ended, by VM.
fn by_vm(pods: &[Value]) -> BTreeMap<String, Vec<&Value>> {
    let mut found: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for pod in pods {
        let mut owners = items(pod, "/metadata/ownerReferences").iter();
        let name = owners.find(|owner| text(owner, "/kind") == "VirtualMachineInstance");
        let name = name.map_or(label(pod, "vm.kubevirt.io~1name"), |owner| {
            text(owner, "/name")
        });
        let has_ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        if !has_ended && !name.is_empty() {
            let namespace = text(pod, "/metadata/namespace");
            found
                .entry(format!("{namespace}/{name}"))
                .or_default()
                .push(pod);
        }
    }
    found
}

impl<'o> Launchers<'o> {
    fn vmi(&self, vm: &Value) -> Option<&'o Value> {
        self.vmis.get(&named(vm)).copied()
    }

    fn pods(&self, vm: &Value) -> impl Iterator<Item = &'o Value> {
        let pods = self.pods.as_ref().and_then(|pods| pods.get(&named(vm)));
        pods.into_iter().flatten().copied()
    }
}

fn fault<'o>(vm: &'o Value, launchers: &Launchers<'o>, clock: Clock) -> Option<VmFault<'o>> {
    let status = status(vm);
    // KubeVirt's condition Ready has no transition time of its own in some versions: the newest of all conditions counts.
    let conditions = Condition::all(vm).filter_map(|condition| condition.since());
    let newest = conditions.max();
    let vmi = launchers.vmi(vm);
    let late = |since: Option<Timestamp>, patience: &Patience| clock.is_late(since, patience);
    let (why, more) = match status {
        "Paused" => {
            let paused = vmi.and_then(|vmi| Condition::of(vmi, "Paused"));
            let paused = paused.or_else(|| Condition::of(vm, "Paused"))?;
            let is_bad = paused.is_true()
                && paused.reason == IO_ERROR
                && late(paused.since(), &CONDITION_FALSE);
            if !is_bad {
                return None;
            }
            let seen = condition_seen(
                &subject(vm, "VirtualMachineInstance"),
                &paused,
                paused.since(),
            );
            (
                "its disk returned an error, so it was paused".to_owned(),
                vec![seen],
            )
        }
        _ if STARTS.contains(&status) => {
            let began = vmi.and_then(|vmi| time(vmi, "/metadata/creationTimestamp"));
            let is_started = |pod: &Value| is_true(pod, "Ready");
            let phase = vmi.map_or("", |vmi| text(vmi, "/status/phase"));
            // With a pod that is Ready, virt-handler has its turn.
            let works = launchers.pods(vm).any(is_started) && phase != "Scheduled";
            if works || !late(began.or(newest), &VM_CHANGES) {
                return None;
            }
            let pods = launchers.pods(vm).collect::<Vec<_>>();
            let more = pods.iter().flat_map(|pod| launcher_seen(pod, launchers));
            let claims = claims_of(vm).filter(|_| status == "WaitingForVolumeBinding");
            let claims = claims.map(|claim| {
                let namespace = text(vm, "/metadata/namespace");
                let claim = format!("PersistentVolumeClaim {namespace}/{claim}");
                Evidence::new(claim, "of", subject(vm, "VirtualMachine"))
            });
            let more = more.chain(claims).collect();
            (passing(status, began.or(newest)), more)
        }
        _ if ENDS.contains(&status) => {
            let deleted = vmi.and_then(|vmi| time(vmi, "/metadata/deletionTimestamp"));
            let is_gone = launchers.pods.is_some() && launchers.pods(vm).next().is_none();
            if !is_gone || !late(deleted.or(newest), &VM_CHANGES) {
                return None;
            }
            let more = vmi.map(|vmi| {
                let finalizers = items(vmi, "/metadata/finalizers").iter();
                let finalizers: Vec<&str> = finalizers.filter_map(Value::as_str).collect();
                let about = subject(vmi, "VirtualMachineInstance");
                Evidence::new(about, "metadata.finalizers", finalizers.join(", "))
            });
            let why = format!(
                "{}, and no pod of it is left",
                passing(status, deleted.or(newest))
            );
            (why, more.into_iter().collect())
        }
        _ if late(newest, &CONDITION_FALSE) => (format!("its status is {status}"), Vec::new()),
        _ => return None,
    };
    let words = Condition::all(vm).find(|condition| !condition.message.is_empty());
    let words = words.map_or(String::new(), |words| format!(": {}", words.words()));
    let own = Evidence::new(
        subject(vm, "VirtualMachine"),
        "status.printableStatus",
        quoted(&format!("{status}{words}")),
    );
    Some(VmFault {
        vm,
        why,
        evidence: std::iter::once(own).chain(more).collect(),
    })
}

fn passing(status: &str, since: Option<Timestamp>) -> String {
    let since = since.map_or(String::new(), |since| format!(" since {since}"));
    format!("its status is {status}{since}")
}

/// The claims of a VM's volumes.
fn claims_of(vm: &Value) -> impl Iterator<Item = &str> {
    let volumes = items(vm, "/spec/template/spec/volumes").iter();
    volumes.filter_map(|volume| {
        let fields = ["/persistentVolumeClaim/claimName", "/dataVolume/name"];
        let mut names = fields.iter().map(|field| text(volume, field));
        names.find(|name| !name.is_empty())
    })
}

/// What a pod of a VM waits for.
fn launcher_seen(pod: &Value, launchers: &Launchers<'_>) -> Vec<Evidence> {
    let about = subject(pod, "Pod");
    let unscheduled = Condition::of(pod, "PodScheduled").filter(Condition::is_false);
    let state = unscheduled
        .map(|condition| quoted(&condition.words()))
        .or_else(|| waiting(pod))
        .unwrap_or_else(|| text(pod, "/status/phase").to_owned());
    let mut seen = vec![Evidence::new(&about, "status", state)];
    let name = |field| text(pod, field);
    let of_pod = (name("/metadata/namespace"), name("/metadata/name"));
    if let Some(newest) = launchers.warnings.get(&of_pod) {
        let words = format!("{}: {}", text(newest, "/reason"), text(newest, "/message"));
        seen.push(Evidence::new(&about, "newest warning", quoted(&words)));
    }
    seen
}
