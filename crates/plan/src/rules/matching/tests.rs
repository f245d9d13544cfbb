use windrow_model::manifest::yaml;

use super::*;

/// An object as the manifest reader returns it.
fn object(text: &str) -> Object {
    let node = yaml::parse_configuration(text).unwrap().unwrap();
    let api_version = node.str_at(&["apiVersion"]).unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Object {
        id: ObjectRef {
            group: group.into(),
            kind: node.str_at(&["kind"]).unwrap().into(),
            namespace: node.str_at(&["metadata", "namespace"]).map(Into::into),
            name: node.str_at(&["metadata", "name"]).unwrap().into(),
        },
        version: version.to_owned(),
        line: node.line,
        node,
    }
}

fn set(rules: &str) -> RuleSet {
    let text =
        format!("apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {{name: p}}\n{rules}");
    let (set, errors) = RuleSet::load(&[("p.yaml".to_owned(), text)]);
    assert!(errors.is_empty(), "{errors:#?}");
    set
}

fn vm(spec: &str) -> Object {
    object(&format!(
        "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {{name: vm1, namespace: apps}}\nspec:\n{spec}"
    ))
}

fn rules_for(set: &RuleSet, object: &Object, platform: Option<Platform>) -> Vec<String> {
    let matches = set.requirements_for(object, platform);
    assert!(matches.problems.is_empty(), "{:#?}", matches.problems);
    let mut rules: Vec<String> = matches
        .requirements
        .iter()
        .map(|matched| matched.rule.name.clone())
        .collect();
    rules.dedup();
    rules
}

#[test]
fn a_machine_that_would_start_waits_for_harvester_and_one_that_would_not_for_kubevirt_alone() {
    let shipped = RuleSet::shipped();
    let waits = vec!["harvester-vm/vm-waits-for-harvester".to_owned()];
    let is_ordered = vec!["harvester-vm/stopped-vm-waits-for-kubevirt".to_owned()];
    for (spec, expected) in [
        ("  running: true", &waits),
        ("  runStrategy: Always", &waits),
        ("  runStrategy: RerunOnFailure", &waits),
        ("  runStrategy: Once", &waits),
        ("  running: false", &is_ordered),
        ("  runStrategy: Halted", &is_ordered),
        ("  runStrategy: Manual", &is_ordered),
        ("  template: {}", &is_ordered),
    ] {
        let found = rules_for(&shipped, &vm(spec), Some(Platform::Harvester));
        assert_eq!(&found, expected, "{spec}");
    }
}

#[test]
fn the_five_requirements_of_a_machine_on_harvester_keep_it_at_the_deadline() {
    let shipped = RuleSet::shipped();
    let machine = vm("  runStrategy: Always");
    let matches = shipped.requirements_for(&machine, Some(Platform::Harvester));
    let targets: Vec<String> = matches
        .requirements
        .iter()
        .map(|matched| matched.requirement.target.to_string())
        .collect();
    assert_eq!(
        targets,
        [
            "Setting storage-network",
            "Setting storage-network",
            "ValidatingWebhookConfiguration harvester-validator",
            "Endpoints harvester-system/harvester-webhook",
            "KubeVirt harvester-system/kubevirt",
        ]
    );
    for matched in &matches.requirements {
        let requirement = matched.requirement;
        assert_eq!(requirement.on_deadline, crate::rules::OnDeadline::Keep);
        assert_eq!(requirement.tier, crate::rules::Tier::Required);
        assert_eq!(
            requirement.deadline,
            Some(std::time::Duration::from_secs(30 * 60))
        );
        assert_eq!(requirement.at.file, "40-harvester-vm.yaml");
    }
}

#[test]
fn pools_replica_sets_and_instances_wait_for_harvester_too() {
    let shipped = RuleSet::shipped();
    for (text, expected) in [
        (
            "apiVersion: pool.kubevirt.io/v1alpha1\nkind: VirtualMachinePool\nmetadata: {name: a}\nspec: {virtualMachineTemplate: {spec: {runStrategy: Always}}}",
            vec!["harvester-vm/pool-waits-for-harvester"],
        ),
        (
            "apiVersion: pool.kubevirt.io/v1alpha1\nkind: VirtualMachinePool\nmetadata: {name: a}\nspec: {replicas: 0, virtualMachineTemplate: {spec: {runStrategy: Always}}}",
            vec!["harvester-vm/stopped-pool-waits-for-kubevirt"],
        ),
        (
            "apiVersion: pool.kubevirt.io/v1alpha1\nkind: VirtualMachinePool\nmetadata: {name: a}\nspec: {virtualMachineTemplate: {spec: {runStrategy: Manual}}}",
            vec!["harvester-vm/stopped-pool-waits-for-kubevirt"],
        ),
        (
            "apiVersion: pool.kubevirt.io/v1alpha1\nkind: VirtualMachinePool\nmetadata: {name: a}\nspec: {}",
            vec!["harvester-vm/stopped-pool-waits-for-kubevirt"],
        ),
        (
            "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: a}\nspec: {}",
            vec!["harvester-vm/instance-waits-for-harvester"],
        ),
        (
            "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstanceReplicaSet\nmetadata: {name: a}\nspec: {replicas: 2}",
            vec!["harvester-vm/replicaset-waits-for-harvester"],
        ),
        (
            "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstanceReplicaSet\nmetadata: {name: a}\nspec: {replicas: 0}",
            vec!["harvester-vm/stopped-replicaset-waits-for-kubevirt"],
        ),
    ] {
        let found = rules_for(&shipped, &object(text), Some(Platform::Harvester));
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn what_kubevirts_webhooks_refuse_waits_for_it_on_each_platform() {
    let shipped = RuleSet::shipped();
    for (group, kind, rule) in [
        (
            "instancetype.kubevirt.io",
            "VirtualMachineClusterInstancetype",
            "instancetype",
        ),
        (
            "instancetype.kubevirt.io",
            "VirtualMachinePreference",
            "instancetype",
        ),
        (
            "migrations.kubevirt.io",
            "MigrationPolicy",
            "migration-policy",
        ),
        ("kubevirt.io", "VirtualMachineInstancePreset", "preset"),
        (
            "kubevirt.io",
            "VirtualMachineInstanceMigration",
            "migration",
        ),
        ("clone.kubevirt.io", "VirtualMachineClone", "clone"),
        ("export.kubevirt.io", "VirtualMachineExport", "export"),
        ("snapshot.kubevirt.io", "VirtualMachineSnapshot", "snapshot"),
        ("snapshot.kubevirt.io", "VirtualMachineRestore", "snapshot"),
        ("snapshot.kubevirt.io", "VirtualMachineSnapshotContent", ""),
    ] {
        let text = format!("apiVersion: {group}/v1beta1\nkind: {kind}\nmetadata: {{name: a}}");
        for (platform, pack) in [
            (Platform::Harvester, "harvester-vm"),
            (Platform::Rke2, "kubevirt-vm"),
        ] {
            let found = rules_for(&shipped, &object(&text), Some(platform));
            let expected = (!rule.is_empty()).then(|| format!("{pack}/{rule}-waits-for-kubevirt"));
            assert_eq!(found, Vec::from_iter(expected), "{kind}");
        }
    }
}

#[test]
fn the_example_that_lets_machines_start_without_harvester_still_lets_them_wait_for_kubevirt() {
    let page = include_str!("../../../../../docs/rules.md");
    let example = page
        .split("To let VMs start without waiting for Harvester")
        .nth(1)
        .unwrap();
    let example = example.split("```").nth(1).unwrap();
    let example = example.strip_prefix("yaml\n").unwrap();
    let mut sources = RuleSet::shipped_sources();
    sources.push(("90-site.yaml".to_owned(), example.to_owned()));
    let (set, errors) = RuleSet::load(&sources);
    assert!(errors.is_empty(), "{errors:?}");
    for spec in ["  runStrategy: Always", "  runStrategy: Halted"] {
        let machine = vm(spec);
        let matches = set.requirements_for(&machine, Some(Platform::Harvester));
        let [matched] = &matches.requirements[..] else {
            panic!("{spec}: {:?}", matches.requirements.len());
        };
        let target = matched.requirement.target.to_string();
        assert_eq!(target, "KubeVirt harvester-system/kubevirt");
    }
}

#[test]
fn a_rule_for_a_platform_applies_on_that_platform_only() {
    let shipped = RuleSet::shipped();
    let machine = vm("  runStrategy: Always");
    assert_eq!(
        rules_for(&shipped, &machine, Some(Platform::Rke2)),
        ["kubevirt-vm/vm-waits-for-kubevirt"]
    );
    assert_eq!(rules_for(&shipped, &machine, None), [""; 0]);
    assert!(shipped.depends_on_platform(&machine));
    let other = object("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}");
    assert!(!shipped.depends_on_platform(&other));
}

#[test]
fn a_rule_of_the_same_pack_and_name_changes_the_deadline() {
    let mut sources = RuleSet::shipped_sources();
    sources.push((
        "90-site.yaml".to_owned(),
        "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: kubevirt-vm}\nplatform: rke2\nrules:\n  - name: vm-waits-for-kubevirt\n    match: {group: kubevirt.io, kind: VirtualMachine}\n    reason: our KubeVirt is called otherwise\n    requires: [{object: {group: kubevirt.io, kind: KubeVirt, namespace: virt, name: ours}, condition: ready}]\n".to_owned(),
    ));
    let (set, errors) = RuleSet::load(&sources);
    assert!(errors.is_empty(), "{errors:?}");
    let machine = vm("  running: true");
    let matches = set.requirements_for(&machine, Some(Platform::Rke2));
    assert_eq!(matches.requirements.len(), 1);
    assert_eq!(
        matches.requirements[0].requirement.target.to_string(),
        "KubeVirt virt/ours"
    );
}

#[test]
fn everything_that_a_match_names_must_fit() {
    let rules = set(
        "rules:
  - name: r
    match: {group: apps, kind: Deployment, namespace: default, name: d, labels: {a.b/c: x}, when: object.spec.replicas > 1}
    reason: x
    requires: [{kind: {kind: K}}]
",
    );
    let deployment = |group: &str, kind: &str, name: &str, label: &str, replicas: &str| {
        let object = object(&format!(
            "apiVersion: {group}/v1\nkind: {kind}\nmetadata: {{name: {name}, labels: {{a.b/c: {label}}}}}\nspec: {{replicas: {replicas}}}"
        ));
        rules_for(&rules, &object, None).len()
    };
    assert_eq!(deployment("apps", "Deployment", "d", "x", "2"), 1);
    assert_eq!(deployment("batch", "Deployment", "d", "x", "2"), 0);
    assert_eq!(deployment("apps", "StatefulSet", "d", "x", "2"), 0);
    assert_eq!(deployment("apps", "Deployment", "e", "x", "2"), 0);
    assert_eq!(deployment("apps", "Deployment", "d", "y", "2"), 0);
    assert_eq!(deployment("apps", "Deployment", "d", "x", "1"), 0);
}

#[test]
fn a_field_that_a_condition_misses_is_no_match_and_a_wrong_type_is_a_problem() {
    let rules = set(
        "rules:\n  - {name: r, match: {kind: K, when: object.spec.size > 1}, reason: x, requires: [{kind: {kind: K}}]}\n",
    );
    let missing = object("apiVersion: g/v1\nkind: K\nmetadata: {name: a}\nspec: {}");
    let matches = rules.requirements_for(&missing, None);
    assert!(matches.requirements.is_empty() && matches.problems.is_empty());

    let wrong = object("apiVersion: g/v1\nkind: K\nmetadata: {name: a}\nspec: {size: big}");
    let matches = rules.requirements_for(&wrong, None);
    assert!(matches.requirements.is_empty());
    assert_eq!(matches.problems[0].rule.name, "p/r");
    assert!(!matches.problems[0].message.contains("big"));
}

#[test]
fn a_platform_brings_kinds_groups_and_objects() {
    let shipped = RuleSet::shipped();
    let harvester = Some(Platform::Harvester);
    let by_kind = |group: &str, kind: &str, platform: Option<Platform>| {
        let provider = shipped.provider_of_kind(&GroupKind::new(group, kind), &platform.into());
        provider.map(|provider| provider.by).unwrap_or_default()
    };
    assert_eq!(by_kind("apps", "Deployment", None), "kube-apiserver");
    assert_eq!(by_kind("apps", "Deploymnt", None), "");
    assert_eq!(by_kind("", "ConfigMap", None), "kube-apiserver");
    assert_eq!(by_kind("helm.cattle.io", "HelmChart", None), "RKE2 itself");
    let machine = |platform| by_kind("kubevirt.io", "VirtualMachine", platform);
    assert_eq!(machine(harvester), "Harvester's KubeVirt");
    assert_eq!(machine(None), "Harvester's KubeVirt", "perhaps");
    assert_eq!(machine(Some(Platform::Rke2)), "");
    let by_object = |object: &ObjectRef, platform: Option<Platform>| {
        let provider = shipped.provider_of_object(object, &platform.into());
        provider.map(|provider| provider.by).unwrap_or_default()
    };
    let namespace = ObjectRef::cluster("", "Namespace", "harvester-system");
    assert_eq!(by_object(&namespace, harvester), "Harvester");
    assert_eq!(by_object(&namespace, Some(Platform::Rke2)), "");
    assert_eq!(
        by_object(&ObjectRef::cluster("", "Namespace", "kube-system"), None),
        "kube-apiserver"
    );
}

#[test]
fn everything_that_the_machine_rules_wait_for_is_known_to_come_from_harvester() {
    let shipped = RuleSet::shipped();
    let platform = Some(Platform::Harvester);
    for rule in &shipped.rules {
        if rule.platform != platform {
            continue;
        }
        for requirement in &rule.requires {
            if let crate::rules::NeedTarget::Object(object) = &requirement.target {
                assert!(
                    shipped
                        .provider_of_object(object, &platform.into())
                        .is_some(),
                    "{object}"
                );
                assert!(
                    shipped
                        .provider_of_kind(&object.group_kind(), &platform.into())
                        .is_some(),
                    "{object}"
                );
            }
        }
    }
}
