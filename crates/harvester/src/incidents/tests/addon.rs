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
        "metadata": {"name": "pci", "namespace": "harvester-system", "uid": "c1",
            "ownerReferences": [{"kind": "Addon", "name": "pci", "uid": "a1"}]},
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

/// Which Harvester it is.
fn version(version: &str) -> Value {
    json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting",
        "metadata": {"name": "server-version"}, "value": version
    })
}

/// The Addon's finding, in a cluster of a version that was read.
fn found(objects: impl IntoIterator<Item = Value>) -> IncidentFinding {
    let objects = cluster(objects.into_iter().chain([version("v1.8.1")]));
    let mut findings = diagnose(&objects, now()).findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.remove(0)
}

const EARLY: &str = "2026-05-01T11:00:00Z";
const LATER: &str = "2026-05-01T11:30:00Z";

#[test]
fn a_job_older_than_the_operation_that_waits_for_it_is_stuck_for_good() {
    let finding = found([addon(LATER), chart(), job(EARLY, true)]);
    assert_eq!(finding.code.as_str(), "addon-stuck");
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
    let finding = found([addon(LATER), chart(), job(EARLY, true)]);
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
fn what_was_not_read_of_a_version_is_neither_proved_nor_cured() {
    for (said, named) in [
        (vec![version("v1.9.0-rc6")], "(not proved for v1.9.0-rc6)"),
        (
            vec![version("master-head")],
            "(not proved for an unknown version)",
        ),
        (vec![], "(not proved for an unknown version)"),
    ] {
        let objects = [addon(LATER), chart(), job(EARLY, true)]
            .into_iter()
            .chain(said);
        let finding = diagnose(&cluster(objects), now()).findings.remove(0);
        assert_eq!(finding.code.as_str(), "addon-stuck");
        assert!(finding.message.contains(named), "{}", finding.message);
        assert!(finding.proof.is_empty() && finding.cure.is_none());
        assert!(
            !finding.advice.contains("windrow repair"),
            "{}",
            finding.advice
        );
    }
}

#[test]
fn an_addon_that_is_stuck_in_disabling_is_told_from_one_that_is_slow() {
    let off = || {
        let mut off = addon(EARLY);
        off["spec"]["enabled"] = json!(false);
        off["status"]["status"] = json!("AddonDisabling");
        let mut going = chart();
        going["metadata"]["deletionTimestamp"] = json!(EARLY);
        going["metadata"]["finalizers"] = json!(["wrangler.cattle.io/on-helm-chart-remove"]);
        going["status"]["jobName"] = json!("helm-delete-pci");
        (off, going)
    };
    let deletion = |complete: bool, failed: &str| {
        let mut job = job(LATER, complete);
        job["metadata"]["name"] = json!("helm-delete-pci");
        if !failed.is_empty() {
            job["status"] = json!({"failed": 6, "conditions": [{"type": "Failed", "status": "True",
                "reason": failed, "lastTransitionTime": LATER}]});
        }
        job
    };
    let (addon, chart) = off();
    let slow = cluster([addon, chart, deletion(false, "")]);
    assert_eq!(codes(&slow), [""; 0]);
    let (addon, chart) = off();
    let stuck = found([addon, chart, deletion(false, "DeadlineExceeded")]);
    assert_eq!(stuck.code.as_str(), "addon-stuck");
    let cure = stuck.cure.as_ref().unwrap();
    let deleted = ("DELETE jobs/helm-delete-pci".to_owned(), Vec::new());
    assert_eq!(requests(cure), [deleted]);
    // The newer Job can have gone with the HelmChart before it is looked for.
    assert!(cure.steps[0].goal.is_reached(None));
    let disabled = json!({"status": {"status": "AddonDisabled"}});
    assert!(cure.steps[1].goal.is_reached(Some(&disabled)));
    let seen: Vec<String> = stuck.evidence.iter().map(ToString::to_string).collect();
    for expected in [
        "Addon harvester-system/pci: spec.enabled: false",
        "HelmChart harvester-system/pci: metadata.deletionTimestamp: 2026-05-01T11:00:00Z",
        "HelmChart harvester-system/pci: metadata.finalizers: wrangler.cattle.io/on-helm-chart-remove",
        "Job harvester-system/helm-delete-pci: condition Failed: True, DeadlineExceeded (since 2026-05-01T11:30:00Z)",
    ] {
        assert!(seen.contains(&expected.to_owned()), "{seen:?}");
    }
    let (addon, chart) = off();
    let failed = found([addon, chart, deletion(false, "BackoffLimitExceeded")]);
    assert_eq!(failed.code.as_str(), "addon-failed");
    assert!(
        failed.advice.contains("delete the Job"),
        "{}",
        failed.advice
    );
    let (addon, chart) = off();
    let kept = found([addon, chart, deletion(true, "")]);
    assert_eq!(kept.code.as_str(), "addon-controller-down");
}

/// An Addon of which Harvester does nothing any more.
fn locked(status: &str, enabled: bool, in_progress: &str, failed: &str) -> Value {
    let mut addon = addon(EARLY);
    addon["spec"]["enabled"] = json!(enabled);
    addon["metadata"]["creationTimestamp"] = json!(EARLY);
    addon["status"] = json!({"status": status, "conditions": [
        {"type": "Completed", "status": "False"},
        {"type": "InProgress", "status": in_progress, "lastUpdateTime": EARLY},
        {"type": "OperationFailed", "status": failed}]});
    addon
}

/// What a cure tests and writes: the method, the URL, and of a patch its operations but for the tests.
fn requests(cure: &Cure) -> Vec<(String, Vec<String>)> {
    let requests = cure.steps.iter().filter_map(|step| step.request.as_ref());
    let told = requests.map(|request| {
        let operations = request.body.as_array().into_iter().flatten();
        let operations =
            operations.map(|one| format!("{} {} {}", one["op"], one["path"], one["value"]));
        let url = request.url();
        let (_, object) = url.split_once("/harvester-system/").unwrap();
        (
            format!("{} {object}", request.method.verb()),
            operations.collect(),
        )
    });
    told.collect()
}

#[test]
fn an_operation_that_failed_in_progress_is_ended_in_the_status_alone() {
    let finding = found([locked("AddonEnabling", true, "True", "True"), chart()]);
    assert_eq!(
        (finding.code.as_str(), finding.by_person),
        ("addon-stuck", false)
    );
    let cure = finding.cure.unwrap();
    let patch = [
        r#""test" "/metadata/uid" "a1""#,
        r#""test" "/status/status" "AddonEnabling""#,
        r#""test" "/status/conditions/1/type" "InProgress""#,
        r#""test" "/status/conditions/2/type" "OperationFailed""#,
        r#""test" "/status/conditions/2/status" "True""#,
        r#""test" "/status/conditions/1/status" "True""#,
        r#""replace" "/status/conditions/1/status" "False""#,
    ];
    let expected = [(
        "PATCH addons/pci/status".to_owned(),
        patch.map(str::to_owned).to_vec(),
    )];
    assert_eq!(requests(&cure), expected);
    let mut after = locked("AddonEnabling", true, "True", "True");
    assert!(!cure.steps[0].goal.is_reached(Some(&after)));
    after["status"]["conditions"][1]["status"] = json!("False");
    assert!(cure.steps[0].goal.is_reached(Some(&after)));
}

#[test]
fn what_is_deployed_in_progress_is_released_and_nothing_else_is_changed() {
    let asks = json!({"enabled": true, "chart": "pci", "repo": "http://repo", "version": "1.0.0", "valuesContent": "x: 1"});
    let mut addon = locked("AddonDeploySuccessful", true, "True", "False");
    addon["spec"] = asks.clone();
    let mut chart = chart();
    chart["spec"] = asks;
    let finding = found([addon.clone(), chart.clone()]);
    assert_eq!(
        (finding.code.as_str(), finding.by_person),
        ("addon-stuck", false)
    );
    assert_eq!(finding.proof.len(), 3);
    let cure = finding.cure.unwrap();
    let told = requests(&cure);
    assert_eq!(
        (told.len(), told[0].0.as_str()),
        (1, "PATCH addons/pci/status")
    );
    let replaced = r#""replace" "/status/conditions/1/status" "False""#.to_owned();
    assert_eq!(told[0].1.last(), Some(&replaced));
    // Harvester has something to update.
    chart["spec"]["version"] = json!("0.9.0");
    let objects = cluster([addon, chart, version("v1.8.1")]);
    assert_eq!(diagnose(&objects, now()).findings, []);
}

#[test]
fn what_was_switched_off_in_progress_is_released_and_then_disabled() {
    let finding = found([locked("AddonEnabling", false, "True", "False"), chart()]);
    let cure = finding.cure.unwrap();
    let patch = [
        r#""test" "/metadata/uid" "a1""#,
        r#""test" "/status/status" "AddonEnabling""#,
        r#""test" "/status/conditions/1/type" "InProgress""#,
        r#""test" "/spec/enabled" false"#,
        r#""test" "/status/conditions/1/status" "True""#,
        r#""replace" "/status/conditions/1/status" "False""#,
    ];
    let expected = [(
        "PATCH addons/pci/status".to_owned(),
        patch.map(str::to_owned).to_vec(),
    )];
    assert_eq!(requests(&cure), expected);
    let goal = &cure.steps[0].goal;
    let disabled = locked("AddonDisabled", false, "False", "False");
    assert!(goal.is_reached(Some(&disabled)));
    assert!(!goal.is_reached(Some(&locked("AddonDisabling", false, "False", "False"))));
}

#[test]
fn what_was_switched_on_while_disabling_is_switched_off_by_a_person_only() {
    for (in_progress, urls) in [
        ("False", &["PATCH addons/pci"][..]),
        // Harvester's webhook refuses the switch until then.
        ("True", &["PATCH addons/pci/status", "PATCH addons/pci"][..]),
    ] {
        let finding = found([
            locked("AddonDisabling", true, in_progress, "False"),
            chart(),
        ]);
        assert!(finding.by_person);
        let told = requests(&finding.cure.unwrap());
        let asked: Vec<&str> = told.iter().map(|(url, _)| url.as_str()).collect();
        assert_eq!(asked, urls);
        let (_, last) = told.last().unwrap();
        let patch = [
            r#""test" "/metadata/uid" "a1""#,
            r#""test" "/status/status" "AddonDisabling""#,
            r#""test" "/spec/enabled" true"#,
            r#""replace" "/spec/enabled" false"#,
        ];
        assert_eq!(*last, patch, "only of an Addon that is being disabled");
    }
}

#[test]
fn a_chart_of_somebody_else_is_told_and_left_alone() {
    let mut foreign = chart();
    foreign["metadata"]["ownerReferences"] = json!([]);
    foreign["metadata"]["creationTimestamp"] = json!(EARLY);
    let finding = found([locked("AddonDisabled", true, "False", "False"), foreign]);
    assert!(
        finding.message.contains("is not its own"),
        "{}",
        finding.message
    );
    assert!(finding.advice.contains("who owns the HelmChart"));
    assert!(!finding.proof.is_empty() && finding.cure.is_none());
}
