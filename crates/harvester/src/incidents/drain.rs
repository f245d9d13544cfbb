//! C: an upgrade whose node stays `Pre-drained` because Rancher's drain can never finish
//! (harvester#7647).

use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::cure::{Cure, CureGoal, CureStep, ObjectChange, SavedObject};
use super::finding::IncidentFinding;
use crate::drain::{Drain, DrainCheck, KINDS, check};
use crate::objects::{ObjectKind, Objects, Unlisted, named, text, texts};

/// KubeVirt's own deployments, whose budgets get stuck.
const KUBEVIRT_BUDGETS: [&str; 2] = [
    "harvester-system/virt-api-pdb",
    "harvester-system/virt-controller-pdb",
];

pub(super) fn find(objects: &Objects, _: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    let latest = |upgrade: &&Value| {
        let labels = texts(upgrade, "/metadata/labels");
        labels
            .get("harvesterhci.io/latestUpgrade")
            .map(String::as_str)
            == Some("true")
    };
    for upgrade in objects.all(ObjectKind::UPGRADE)?.iter().filter(latest) {
        let states = upgrade.pointer("/status/nodeStatuses");
        let states = states.and_then(Value::as_object);
        for (node, state) in states.into_iter().flatten() {
            if text(state, "/state") != "Pre-drained" {
                continue;
            }
            objects.want(KINDS)?;
            let checked = check(objects, node);
            if checked.drain == Drain::Blocked {
                findings.push(blocked_drain(objects, upgrade, &checked)?);
            }
        }
    }
    Ok(findings)
}

fn blocked_drain(
    objects: &Objects,
    upgrade: &Value,
    checked: &DrainCheck,
) -> Result<IncidentFinding, Unlisted> {
    let node = &checked.node;
    let subject = format!("Upgrade {}", named(upgrade));
    let first = checked.blocked().next();
    let why = first.map_or(String::new(), |pod| format!("{}: {}", pod.pod, pod.why));
    let mut finding =
        IncidentFinding::new(Code::DrainBlocked, format!("Node {node}"), &why).seen([
            Evidence::new(
                subject,
                format!("status.nodeStatuses[{node}].state"),
                "Pre-drained",
            ),
        ]);
    if let Some(done) = pre_drained_at(objects, node)? {
        finding.evidence.push(Evidence::new(
            format!("Job {}", done.0),
            "status.completionTime",
            done.1,
        ));
    }
    for pod in checked.blocked() {
        finding
            .proof
            .push(format!("Pod {} never goes: {}", pod.pod, pod.why));
        let lines = pod.because.iter().map(|line| format!("  {line}"));
        finding.proof.extend(lines);
    }
    let stuck: Vec<&str> = KUBEVIRT_BUDGETS
        .into_iter()
        .filter(|budget| {
            checked
                .blocked()
                .any(|pod| pod.budget.as_deref() == Some(*budget))
        })
        .collect();
    if !stuck.is_empty() {
        finding.cure = kubevirt(objects, &stuck)?;
    }
    Ok(finding)
}

/// The Job after which the node was called Pre-drained. Harvester labels the Jobs of its hooks itself (`applyNodeJob`);
/// system-upgrade-controller's label is on a Plan's Jobs only.
fn pre_drained_at(objects: &Objects, node: &str) -> Result<Option<(String, String)>, Unlisted> {
    let jobs = objects.all(ObjectKind::JOB)?.iter();
    let done = jobs.filter(|job| {
        let labels = texts(job, "/metadata/labels");
        let is = |key: &str, value: &str| labels.get(key).map(String::as_str) == Some(value);
        is("harvesterhci.io/upgradeJobType", "pre-drain") && is("harvesterhci.io/node", node)
    });
    let times = done.map(|job| (named(job), text(job, "/status/completionTime").to_owned()));
    Ok(times
        .filter(|(_, time)| !time.is_empty())
        .max_by(|a, b| a.1.cmp(&b.1)))
}

/// The cure of KubeVirt: its own pods may run on any node (harvester#7725). Where they may already,
/// there is none.
fn kubevirt(objects: &Objects, stuck: &[&str]) -> Result<Option<Cure>, Unlisted> {
    let Some(kubevirt) = objects.get(ObjectKind::KUBEVIRT, "harvester-system", "kubevirt")? else {
        return Ok(None);
    };
    if kubevirt.pointer("/spec/infra/nodePlacement") == Some(&json!({})) {
        return Ok(None);
    }
    let change = ObjectChange::of(ObjectKind::KUBEVIRT, kubevirt);
    let change = match kubevirt.pointer("/spec/infra") {
        Some(Value::Object(_)) => change.set("/spec/infra/nodePlacement", json!({})),
        _ => change.set("/spec/infra", json!({"nodePlacement": {}})),
    };
    let goal = CureGoal::Field {
        path: ObjectKind::KUBEVIRT.path_of(kubevirt),
        before: None,
        field: "/spec/infra/nodePlacement".to_owned(),
        value: json!({}),
    };
    let say = "let KubeVirt's own pods run on any node (spec.infra.nodePlacement: {})";
    let mut steps = vec![change.step(say, goal, 120)];
    for budget in stuck {
        let (namespace, name) = budget.split_once('/').unwrap_or_default();
        steps.push(CureStep::wait(
            format!("wait until PodDisruptionBudget {budget} allows a disruption"),
            CureGoal::AtLeast {
                path: ObjectKind::BUDGET.object_path(namespace, name),
                field: "/status/disruptionsAllowed".to_owned(),
                value: 1,
            },
            900,
        ));
    }
    Ok(Some(Cure {
        summary: "let KubeVirt's own pods run on any node".to_owned(),
        changes: vec![
            "KubeVirt harvester-system/kubevirt: spec.infra.nodePlacement becomes {}".to_owned(),
            "virt-operator rolls virt-api and virt-controller out again; machines go on running"
                .to_owned(),
        ],
        saves: vec![SavedObject::of(ObjectKind::KUBEVIRT, kubevirt)],
        steps,
    }))
}
