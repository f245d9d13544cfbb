//! No later than RKE2 without Windrow: if the order of the names lets RKE2 apply files in one pass, Windrow also releases them in
//! one pass.

use std::collections::BTreeSet;

use windrow_model::manifest::ObjectRef;
use windrow_simulate::{
    BootstrapVerdict, Chance, DirectoryChange, Faults, HappeningKind, Run, Setup, WebhookGate,
    with_windrow, without_windrow, without_windrow_but_faults,
};

use super::bootstraps::{config_maps, custom, definition, rke2, timeline};
use super::rules::check;
use super::seeds::{for_all_seeds, judge_with, seeds, try_seed};

fn namespace(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

fn secret(name: &str, namespace: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
}

/// The number of passes until everything was applied.
fn passes(run: &Run) -> usize {
    let applied = |what: &HappeningKind| matches!(what, HappeningKind::Applied { .. });
    let last = run.log.iter().rposition(|one| applied(&one.what));
    let until = &run.log[..last.unwrap_or_default()];
    let begins = |what: &HappeningKind| matches!(what, HappeningKind::PassBegan { .. });
    until.iter().filter(|one| begins(&one.what)).count()
}

fn files(texts: &[(&str, &str)]) -> Setup {
    rke2(texts)
}

/// The names and the contents of Rook's and MetalLB's published files, as far as they matter for the order.
fn rook(cluster: &str) -> Setup {
    let more = |prefix: &str, count: usize| {
        let maps = (0..count).map(|number| format!("{prefix}-{number}"));
        let maps = maps.map(|name| {
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: rook-ceph}}\n")
        });
        maps.collect::<Vec<_>>().join("---\n")
    };
    let object =
        |kind: &str| custom(kind, "rook").replace("  name:", "  namespace: rook-ceph\n  name:");
    let common = format!("{}---\n{}", namespace("rook-ceph"), more("role", 30));
    let crds = ["CephCluster", "CephBlockPool", "CephFilesystem"].map(definition);
    let csi = format!("{}---\n{}", definition("Driver"), more("csi", 40));
    let metallb = format!(
        "{}---\n{}---\n{}",
        namespace("metallb-system"),
        definition("IPAddressPool"),
        secret("memberlist", "metallb-system")
    );
    let operator = format!("{}---\n{}", object("Driver"), more("operator", 5));
    files(&[
        (cluster, &object("CephCluster")),
        ("common.yaml", &common),
        ("crds.yaml", &crds.join("---\n")),
        ("csi-operator.yaml", &csi),
        ("metallb-native.yaml", &metallb),
        ("operator.yaml", &operator),
    ])
}

#[test]
fn published_files_take_as_many_passes_as_rke2_alone_and_none_fails_or_repeats() {
    for seed in seeds() {
        for (cluster, most) in [("cluster.yaml", 2), ("zz-cluster.yaml", 1)] {
            let setup = rook(cluster);
            let run = with_windrow(&setup, &Faults::NONE, seed);
            let counts = (run.counts.applies, run.counts.failed, run.counts.repeated);
            assert_eq!(
                counts,
                (6, 0, 0),
                "{cluster}, seed {seed}:\n{}",
                timeline(&run)
            );
            assert_eq!(
                passes(&run),
                most,
                "{cluster}, seed {seed}:\n{}",
                timeline(&run)
            );
            assert!(passes(&run) <= passes(&without_windrow(&setup, seed)));
            let windrow_held = |what: &HappeningKind| matches!(what, HappeningKind::Held { .. });
            let held = run.log.iter().filter(|one| windrow_held(&one.what)).count();
            assert_eq!(held, most - 1, "only cluster.yaml, where it comes first");
        }
    }
}

/// Files that each either create one object or need some, with names that do not show the dependencies.
fn drawn(seed: u64, with_kinds: bool) -> Setup {
    let mut chance = Chance::new(seed ^ 0xBA5E);
    let mut texts = Vec::new();
    for number in 0..3 {
        texts.push(namespace(&format!("space-{number}")));
        if with_kinds {
            texts.push(definition(&format!("Kind{number}")));
        }
        texts.push(config_maps(
            [
                ["red-0", "blue-0", "grey-0"],
                ["red-1", "blue-1", "grey-1"],
                ["red-2", "blue-2", "grey-2"],
            ][number],
        ));
    }
    for number in 0..2 + chance.below(8) {
        let space = format!("space-{}", chance.below(3));
        texts.push(match with_kinds && chance.one_in(2) {
            true => {
                let kind = format!("Kind{}", chance.below(3));
                custom(&kind, &format!("o{number}"))
                    .replace("  name:", &format!("  namespace: {space}\n  name:"))
            }
            false => secret(&format!("o{number}"), &space),
        });
    }
    let named: Vec<(String, String)> = texts
        .into_iter()
        .enumerate()
        .map(|(number, text)| {
            let folder = if chance.one_in(6) { "sub/" } else { "" };
            (
                format!("{folder}{:03}-{number}.yaml", chance.below(1000)),
                text,
            )
        })
        .collect();
    let named: Vec<(&str, &str)> = named
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    files(&named)
}

#[test]
fn with_namespaces_it_is_never_later_than_rke2_alone_and_nothing_fails() {
    let mut in_one = 0;
    for seed in seeds() {
        let setup = drawn(seed, false);
        let (run, alone) = (
            with_windrow(&setup, &Faults::NONE, seed),
            without_windrow(&setup, seed),
        );
        let told = || format!("seed {seed}:\n{}", timeline(&run));
        assert_eq!(
            (run.counts.failed, run.counts.repeated),
            (0, 0),
            "{}",
            told()
        );
        assert!(passes(&run) <= passes(&alone), "{}", told());
        in_one += usize::from(passes(&run) == 1);
    }
    assert!(
        in_one > 0 || seeds().count() < 60,
        "no directory was drawn that one pass can apply"
    );
}

#[test]
fn with_kinds_nothing_fails_and_it_takes_one_poll_more_at_most() {
    for seed in seeds() {
        let setup = drawn(seed, true);
        let run = with_windrow(&setup, &Faults::NONE, seed);
        let told = || format!("seed {seed}:\n{}", timeline(&run));
        assert_eq!(
            (run.counts.failed, run.counts.repeated),
            (0, 0),
            "{}",
            told()
        );
        assert_eq!(
            run.outcome.verdict,
            BootstrapVerdict::Complete,
            "{}",
            told()
        );
        assert!(passes(&run) <= 2, "{}", told());
    }
}

#[test]
fn with_faults_nothing_is_let_through_before_what_it_relies_on() {
    for_all_seeds(|seed| {
        try_seed("drawn for one pass", &drawn(seed, true), &[], seed)?;
        try_seed("rook", &rook("cluster.yaml"), &[], seed)?;
        try_seed("rook in one pass", &rook("zz-cluster.yaml"), &[], seed)
    });
}

/// kube-apiserver takes longer for some definitions than the rule expects.
#[test]
fn with_definitions_that_are_served_late_no_more_fails_than_without_windrow_and_all_is_applied() {
    let faults = Faults {
        slow_definitions: 3,
        ..Faults::NONE
    };
    let mut too_late = 0;
    for seed in seeds() {
        for setup in [
            rook("cluster.yaml"),
            rook("zz-cluster.yaml"),
            drawn(seed, true),
        ] {
            let run = with_windrow(&setup, &faults, seed);
            let alone = without_windrow_but_faults(&setup, &faults, seed);
            let told = || {
                format!(
                    "seed {seed}:\n{}\nalone:\n{}",
                    timeline(&run),
                    timeline(&alone)
                )
            };
            assert_eq!(
                run.outcome.verdict,
                BootstrapVerdict::Complete,
                "{}",
                told()
            );
            assert!(run.counts.failed <= alone.counts.failed, "{}", told());
            assert!(run.counts.repeated <= alone.counts.repeated, "{}", told());
            // A file that sorts before its definition is held for a poll, and RKE2 may begin that pass before the kind is served.
            assert!(passes(&run) <= passes(&alone) + 1, "{}", told());
            too_late += run.counts.failed;
        }
    }
    assert!(
        too_late > 0 || seeds().count() < 60,
        "no kind was later than the rule reckons with"
    );
}

/// The file with the namespace is removed, gets a foreign marker, and changes, all before RKE2 starts and after.
#[test]
fn what_was_relied_on_and_is_gone_is_waited_for() {
    for after in [1, 20, 36, 40, 45, 50, 55, 60] {
        let mut setup = files(&[("a.yaml", &namespace("t")), ("b.yaml", &secret("s", "t"))]);
        let change = |seconds: u64, path: &str, text: Option<&str>| DirectoryChange {
            after: std::time::Duration::from_secs(seconds),
            path: path.to_owned(),
            content: text
                .map(|text| windrow_model::manifest::FileContent::Bytes(text.as_bytes().to_vec())),
            ..Default::default()
        };
        setup.changes = vec![
            change(after, "a.yaml", None),
            change(after + 120, "a.yaml", Some(&namespace("t"))),
        ];
        for seed in 0..10 {
            let run = with_windrow(&setup, &Faults::NONE, seed);
            assert_eq!(
                run.counts.failed,
                0,
                "{after} s, seed {seed}:\n{}",
                timeline(&run)
            );
            check(&setup, &[], &run).unwrap_or_else(|problem| {
                panic!("{after} s, seed {seed}: {problem}\n{}", timeline(&run))
            });
        }
    }
}

/// A directory with files that kube-apiserver rejects for a while, and files that rely on them.
struct Refusals {
    setup: Setup,
    /// Files that require a rejected one. kube-apiserver rejects none of their own objects.
    relying: BTreeSet<String>,
    /// Is the rejection permanent?
    is_permanent: bool,
}

/// A webhook that fails closed and whose Deployment becomes ready later, or a policy whose parameter that Deployment writes, or
/// nothing does. A quota, a bare Pod with its PriorityClass, and a definition that converts with the webhook.
fn drawn_with_refusals(seed: u64) -> Refusals {
    let mut chance = Chance::new(seed ^ 0xADD);
    let hook = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: hook, namespace: space-0}\nspec:\n  selector: {matchLabels: {app: hook}}\n  template:\n    metadata: {labels: {app: hook}}\n    spec: {containers: [{name: hook, image: hook}]}\n";
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: hook, namespace: space-0}\nspec: {selector: {app: hook}, ports: [{port: 443}]}\n";
    let of_namespaces = chance.one_in(2);
    let (group, version, resources) = match of_namespaces {
        true => ("\"\"", "v1", "namespaces"),
        false => ("apps", "v1", "deployments"),
    };
    let is_policy = chance.one_in(3);
    let is_permanent = is_policy && chance.one_in(3);
    let policy = format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {{name: hook}}\nspec:\n  failurePolicy: Fail\n  paramKind: {{apiVersion: v1, kind: ConfigMap}}\n  matchConstraints:\n    namespaceSelector:\n      matchExpressions:\n      - {{key: kubernetes.io/metadata.name, operator: NotIn, values: [space-0]}}\n    resourceRules:\n    - {{apiGroups: [{group}], apiVersions: [{version}], operations: [CREATE], resources: [{resources}]}}\n  validations:\n  - {{expression: \"params.data.open == 'true'\"}}\n---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: hook}}\nspec:\n  policyName: hook\n  validationActions: [Deny]\n  paramRef: {{name: hook, namespace: space-0, parameterNotFoundAction: Deny}}\n"
    );
    let configuration = format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {{name: hook}}\nwebhooks:\n- name: hook.example.com\n  admissionReviewVersions: [v1]\n  sideEffects: None\n  failurePolicy: Fail\n  clientConfig: {{service: {{name: hook, namespace: space-0}}}}\n  namespaceSelector:\n    matchExpressions:\n    - {{key: kubernetes.io/metadata.name, operator: NotIn, values: [space-0]}}\n  rules:\n  - {{apiGroups: [{group}], apiVersions: [{version}], operations: [CREATE], resources: [{resources}]}}\n"
    );
    let web = hook.replace("hook", "web").replace("space-0", "space-1");
    let converted = definition("Turned").replace(
        "  scope:",
        "  conversion:\n    strategy: Webhook\n    webhook:\n      conversionReviewVersions: [v1]\n      clientConfig: {service: {name: hook, namespace: space-0}}\n  scope:",
    );
    // In an existing namespace: in a new one, kube-apiserver rejects a Pod until the account `default` exists, which is not
    // simulated.
    let pod = |name: &str, more: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  containers:\n  - name: main\n    image: main\n{more}"
        )
    };
    let mut texts = vec![
        namespace("space-0"),
        namespace("space-1"),
        format!("{hook}---\n{service}"),
        if is_policy { policy } else { configuration },
        web,
        converted,
        custom("Turned", "turned").replace("  name:", "  namespace: space-1\n  name:"),
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n".to_owned(),
        pod("important", "    resources: {requests: {cpu: 1m}}\n  priorityClassName: high\n"),
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: most, namespace: default}\nspec: {hard: {requests.cpu: 4}}\n".to_owned(),
        "apiVersion: v1\nkind: LimitRange\nmetadata: {name: usual, namespace: default}\nspec: {limits: [{type: Container, defaultRequest: {cpu: 100m}}]}\n".to_owned(),
        pod("small", ""),
    ];
    let others = texts.len();
    for number in 0..1 + chance.below(4) {
        texts.push(secret(&format!("s{number}"), "space-1"));
    }
    let named: Vec<(String, String)> = texts
        .into_iter()
        .enumerate()
        .map(|(number, text)| (format!("{:03}-{number}.yaml", chance.below(1000)), text))
        .collect();
    let relying = named[others..].iter().map(|(path, _)| path.clone());
    let relying = relying.collect();
    let named: Vec<(&str, &str)> = named
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let mut setup = files(&named);
    let backend = ObjectRef::namespaced("apps", "Deployment", "space-0", "hook");
    let gate = |group: &str, kind: &str, name: &str| WebhookGate {
        webhook: ObjectRef::cluster(group, kind, name),
        backend: backend.clone(),
        refusal: "failed calling webhook \"hook.example.com\": connection refused".to_owned(),
    };
    let group = "admissionregistration.k8s.io";
    let mut asks = gate(group, "ValidatingWebhookConfiguration", "hook");
    if is_policy {
        asks = gate(group, "ValidatingAdmissionPolicyBinding", "hook");
        asks.refusal = "ValidatingAdmissionPolicy 'hook' with binding 'hook' denied request: failed to configure binding: no params found".to_owned();
    }
    if is_permanent {
        asks.backend = ObjectRef::namespaced("apps", "Deployment", "space-0", "nobody");
    }
    let asked = match of_namespaces {
        true => ObjectRef::cluster("", "Namespace", "space-1"),
        false => ObjectRef::namespaced("apps", "Deployment", "space-1", "web"),
    };
    let turned = ObjectRef::namespaced("example.com", "Turned", "space-1", "turned");
    let converts = gate(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "turneds.example.com",
    );
    setup.scenario.asked = [(asked, asks), (turned, converts)].into();
    Refusals {
        setup,
        relying,
        is_permanent,
    }
}

/// The files with which RKE2 failed.
fn failing(run: &Run) -> BTreeSet<String> {
    let failed = run.log.iter().filter_map(|one| match &one.what {
        HappeningKind::ApplyFailed { file, .. } => Some(file.to_string()),
        _ => None,
    });
    failed.collect()
}

#[test]
fn if_webhooks_policies_and_quotas_refuse_only_refused_files_fail_and_no_more_than_under_rke2_alone()
 {
    let mut refused = 0;
    for_all_seeds(|seed| {
        let Refusals {
            setup,
            relying,
            is_permanent,
        } = drawn_with_refusals(seed);
        let run = with_windrow(&setup, &Faults::NONE, seed);
        let alone = without_windrow(&setup, seed);
        let failed = failing(&run);
        let failed_alone = failing(&alone);
        let more: Vec<&String> = failed.difference(&failed_alone).collect();
        let early: Vec<&String> = failed.intersection(&relying).collect();
        refused += failed_alone.len();
        let is_complete = run.outcome.verdict == BootstrapVerdict::Complete;
        let may_stay = alone.outcome.verdict != BootstrapVerdict::Complete;
        let problem = match () {
            () if !more.is_empty() => Some(format!("only with Windrow RKE2 fails with {more:?}")),
            // A deadline ends a wait that would never end otherwise.
            () if !early.is_empty() && !is_permanent => Some(format!(
                "{early:?} were let through and rely on a refused file"
            )),
            () if !is_complete && !may_stay => Some(format!("not complete: {:?}", run.outcome)),
            () => None,
        };
        judge_with("refusals", run, problem)
    });
    assert!(refused > 0, "nothing was refused");
}
