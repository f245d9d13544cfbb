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

fn server(name: &str, rke2: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"node-role.kubernetes.io/control-plane": "true"}},
        "status": {"nodeInfo": {"kubeletVersion": rke2}}
    })
}

/// Examined versions of Harvester and RKE2.
fn versions() -> [Value; 2] {
    [version("v1.8.1"), server("n1", "v1.35.6+rke2r1")]
}

/// The finding about the Addon, in a cluster with examined versions.
fn found(objects: impl IntoIterator<Item = Value>) -> IncidentFinding {
    found_with(versions(), objects)
}

/// The finding about the Addon, in a cluster with these versions.
fn found_with(
    versions: impl IntoIterator<Item = Value>,
    objects: impl IntoIterator<Item = Value>,
) -> IncidentFinding {
    let objects = cluster(objects.into_iter().chain(versions));
    let mut findings = diagnose(&objects, now()).findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.remove(0)
}

/// A Helm release. `hash` is the label that klipper-helm writes.
fn release(version: &str, status: &str, hash: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"name": format!("sh.helm.release.v1.pci.v{version}"), "namespace": "harvester-system",
            "creationTimestamp": EARLY,
            "labels": {"owner": "helm", "name": "pci", "version": version, "status": status,
                "helmcharts.helm.cattle.io/configHash": hash}}
    })
}

/// A Job of a helm-controller that compares hashes.
fn job_with_hash(complete: bool) -> Value {
    let mut job = job(EARLY, complete);
    let annotations = json!({"helmcharts.helm.cattle.io/configHash": "SHA256=AB12"});
    job["spec"] = json!({"template": {"metadata": {"annotations": annotations}}});
    job
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
        // The Job of this operation still runs, which may take long.
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
    // Only the diagnosed object is deleted, and only a new one reaches the goal.
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
fn a_fix_relies_on_exact_versions_of_harvester_and_helm_controller_that_were_read() {
    let on = |harvester: &str, rke2: &[&str]| {
        let nodes = rke2.iter().enumerate();
        let nodes = nodes.map(|(at, rke2)| server(&format!("n{at}"), rke2));
        std::iter::once(version(harvester))
            .chain(nodes)
            .collect::<Vec<_>>()
    };
    let stuck = || [addon(LATER), chart(), job(EARLY, true)];
    let read = found_with(on("v1.8.1", &["v1.35.6+rke2r1"; 3]), stuck());
    assert!(!read.proof.is_empty() && read.cure.is_some());
    for (versions, why) in [
        (
            on("v1.9.0-rc6", &["v1.36.3+rke2r1"]),
            "Harvester v1.9.0-rc6 were not read",
        ),
        // All facts are equal in the neighbouring releases, but this version was not examined.
        (
            on("v1.6.2", &["v1.33.5+rke2r1"]),
            "Harvester v1.6.2 were not read",
        ),
        (
            on("v1.8.1-rc2", &["v1.35.6+rke2r1"]),
            "Harvester v1.8.1-rc2 were not read",
        ),
        (
            on("master-head", &["v1.35.6+rke2r1"]),
            "version of Harvester is unknown",
        ),
        (
            vec![server("n0", "v1.35.6+rke2r1")],
            "version of Harvester is unknown",
        ),
        (on("v1.8.1", &[]), "no Node has the role control-plane"),
        (on("v1.8.1", &["v1.35.7+rke2r1"]), "Node n0 runs"),
        (
            on("v1.8.1", &["v1.35.6+rke2r1", "v1.35.7+rke2r1"]),
            "Node n1 runs",
        ),
        (on("v1.8.1", &[""]), "Node n0 runs"),
    ] {
        for objects in [
            stuck().to_vec(),
            vec![locked("AddonEnabling", true, "True", "True"), chart()],
        ] {
            let finding = found_with(versions.clone(), objects);
            assert_eq!(finding.code.as_str(), "addon-stuck");
            assert!(
                finding.message.contains("not proved: "),
                "{}",
                finding.message
            );
            assert!(finding.message.contains(why), "{}", finding.message);
            assert!(finding.proof.is_empty() && finding.cure.is_none(), "{why}");
            let advice = &finding.advice;
            assert!(!advice.contains("windrow repair"), "{advice}");
        }
    }
}

#[test]
fn a_complete_job_that_helm_controller_may_replace_is_not_proved_to_be_stuck() {
    let newer = [
        [version("v1.7.3"), server("n1", "v1.34.10+rke2r1")],
        [version("v1.8.2"), server("n1", "v1.35.7+rke2r1")],
    ];
    let deployed = || release("2", "deployed", "AB12");
    for versions in newer {
        let finding = |job: Value, releases: Vec<Value>| {
            let objects = [addon(LATER), chart(), job].into_iter().chain(releases);
            found_with(versions.clone(), objects)
        };
        for kept in [
            finding(
                job_with_hash(true),
                vec![release("1", "superseded", ""), deployed()],
            ),
            // It is not complete, so only a new configuration replaces it.
            finding(failed_job(), Vec::new()),
        ] {
            assert!(!kept.proof.is_empty() && kept.cure.is_some(), "{kept:?}");
        }
        for replaced in [
            finding(job_with_hash(true), Vec::new()),
            finding(job_with_hash(true), vec![release("2", "deployed", "CD34")]),
            finding(job_with_hash(true), vec![release("2", "failed", "AB12")]),
            finding(
                job_with_hash(true),
                vec![deployed(), release("10", "failed", "AB12")],
            ),
            // It was created by an older helm-controller.
            finding(job(EARLY, true), vec![release("2", "deployed", "")]),
        ] {
            assert_eq!(replaced.code.as_str(), "addon-stuck");
            let message = &replaced.message;
            assert!(
                message.contains("not proved: helm-controller may replace the Job"),
                "{message}"
            );
            assert!(replaced.proof.is_empty() && replaced.cure.is_none());
        }
    }
}

/// A failed Job that is older than the operation.
fn failed_job() -> Value {
    let mut job = job_with_hash(false);
    job["status"] = json!({"failed": 6, "conditions": [{"type": "Failed", "status": "True",
        "reason": "BackoffLimitExceeded", "lastTransitionTime": EARLY}]});
    job
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
    // The newer Job may have disappeared with the HelmChart before it is read.
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

/// An Addon that Harvester no longer acts on.
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

/// The tests and changes of a cure: method, URL, and the operations of a patch without its tests.
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
    let objects = cluster([addon, chart].into_iter().chain(versions()));
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
        // Until then Harvester's webhook rejects the change.
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
    assert!(finding.advice.contains("owner of the HelmChart"));
    assert!(!finding.proof.is_empty() && finding.cure.is_none());
}
