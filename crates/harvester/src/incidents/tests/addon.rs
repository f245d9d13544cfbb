use super::*;

fn addon(since: &str) -> Value {
    json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Addon",
        "metadata": {"name": "pci", "namespace": "harvester-system", "uid": "a1", "resourceVersion": "7"},
        "spec": {"enabled": true, "chart": "pci", "valuesContent": "x: 1"},
        "status": {"status": "AddonEnabling", "conditions": [
            {"type": "InProgress", "status": "True", "lastUpdateTime": since}
        ]}
    })
}

fn chart() -> Value {
    json!({
        "apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
        "metadata": {"name": "pci", "namespace": "harvester-system", "uid": "c1"},
        "status": {"jobName": "helm-install-pci"}
    })
}

fn job(made: &str, complete: bool) -> Value {
    let status = match complete {
        true => {
            json!({"completionTime": made, "conditions": [{"type": "Complete", "status": "True"}]})
        }
        false => json!({"active": 1}),
    };
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "helm-install-pci", "namespace": "harvester-system", "uid": "j1", "creationTimestamp": made},
        "status": status
    })
}

fn pod(reason: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "helm-install-pci-x", "namespace": "harvester-system",
            "labels": {"batch.kubernetes.io/job-name": "helm-install-pci"}},
        "status": {"phase": "Pending", "containerStatuses": [
            {"image": "klipper-helm:1", "state": {"waiting": {"reason": reason}}}
        ]}
    })
}

const EARLY: &str = "2026-05-01T11:00:00Z";
const LATER: &str = "2026-05-01T11:30:00Z";

#[test]
fn a_job_older_than_the_operation_that_waits_for_it_is_stuck_for_good() {
    let objects = cluster([addon(LATER), chart(), job(EARLY, true)]);
    assert_eq!(codes(&objects), ["addon-stuck"]);
    let finding = diagnose(&objects, now()).findings.remove(0);
    assert_eq!(finding.subject, "Addon harvester-system/pci");
    let seen: Vec<String> = finding.evidence.iter().map(ToString::to_string).collect();
    assert!(
        seen.contains(&"Job harvester-system/helm-install-pci: metadata.creationTimestamp: 2026-05-01T11:00:00Z".to_owned()),
        "{seen:?}"
    );
    assert!(finding.proof[0].contains("was made at 2026-05-01T11:00:00Z"));
    assert_eq!(finding.documentation, "incidents/addon.md");
}

#[test]
fn its_healthy_and_its_merely_slow_neighbours_are_no_incident() {
    let mut settled = addon(LATER);
    settled["status"]["status"] = json!("AddonDeploySuccessful");
    for objects in [
        vec![settled, chart(), job(EARLY, true)],
        // The Job of this operation still runs, however long.
        vec![addon(EARLY), chart(), job(LATER, false)],
        vec![
            addon(EARLY),
            chart(),
            job(LATER, false),
            pod("ContainerCreating"),
        ],
        // Changed a minute ago: helm-controller may still replace the Job.
        vec![addon("2026-05-01T11:59:00Z"), chart(), job(EARLY, true)],
    ] {
        assert_eq!(codes(&cluster(objects)), [""; 0]);
    }
}

#[test]
fn an_image_that_cannot_be_had_and_a_controller_that_is_down_are_named() {
    let objects = cluster([
        addon(EARLY),
        chart(),
        job(LATER, false),
        pod("ImagePullBackOff"),
    ]);
    assert_eq!(codes(&objects), ["addon-image-missing"]);
    let finding = diagnose(&objects, now()).findings.remove(0);
    assert!(
        finding.message.contains("klipper-helm:1"),
        "{}",
        finding.message
    );
    assert!(finding.cure.is_none());
    assert_eq!(codes(&cluster([addon(EARLY)])), ["addon-controller-down"]);
}

#[test]
fn the_cure_has_the_job_made_anew_and_does_not_touch_the_addon() {
    let objects = cluster([addon(LATER), chart(), job(EARLY, true)]);
    let finding = diagnose(&objects, now()).findings.remove(0);
    let cure = finding.cure.unwrap();
    let steps: Vec<(Option<&str>, &str)> = cure
        .steps
        .iter()
        .map(|step| {
            let verb = step.request.as_ref().map(|request| request.method.verb());
            (verb, step.goal.path().rsplit('/').next().unwrap())
        })
        .collect();
    let expected = [(Some("DELETE"), "helm-install-pci"), (None, "pci")];
    assert_eq!(steps, expected);
    // Only the object that was judged is deleted, and only a new one is the goal.
    let delete = cure.steps[0].request.as_ref().unwrap();
    assert_eq!(
        delete.path,
        "/apis/batch/v1/namespaces/harvester-system/jobs/helm-install-pci"
    );
    assert_eq!(delete.body["preconditions"]["uid"], "j1");
    let mut now_there = job(LATER, false);
    assert!(!cure.steps[0].goal.is_reached(Some(&now_there)));
    assert!(!cure.steps[0].goal.is_reached(None));
    now_there["metadata"]["uid"] = json!("j2");
    assert!(cure.steps[0].goal.is_reached(Some(&now_there)));
    assert_eq!(cure.saves[0].object["metadata"]["uid"], "j1");
}

#[test]
fn what_was_switched_off_meanwhile_is_not_waited_for() {
    let mut off = addon(LATER);
    off["spec"]["enabled"] = json!(false);
    let objects = cluster([off, chart(), job(EARLY, true)]);
    let cure = diagnose(&objects, now()).findings.remove(0).cure.unwrap();
    assert_eq!(cure.steps.len(), 1);
}
