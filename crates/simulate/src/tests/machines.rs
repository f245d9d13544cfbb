//! The requirements of a virtual machine, and their sources.

use serde_json::json;
use windrow_harvester::HarvesterVersion;

use super::*;

/// The verdict on a Harvester of this version with a VM whose disk is a claim without a manifest.
fn without_a_claim(
    version: (u32, u32, u32),
    change: impl Fn(&mut serde_json::Value),
) -> BootstrapVerdict {
    let [mut machine, _] = machine_with_a_disk("RerunOnFailure");
    change(&mut machine);
    let mut files = SimulatedDirectory::new();
    file(&mut files, "vm.yaml", &[machine]);
    let (major, minor, patch) = version;
    let version = HarvesterVersion::new(major, minor, patch);
    // With a preset Harvester comes up before v1.5.1, too.
    let preset = BEFORE.contains(&(major, minor, patch)).then_some("{}");
    let mut scenario = Scenario::harvester(version, preset, start());
    let facts = std::mem::take(&mut scenario.node);
    scenario.node = facts.with_harvester(Some(&version.to_string()));
    let mut node = SimulatedNode::new(scenario, 3);
    run(&mut node, &files).verdict
}

fn claim_templates(image: Option<&str>) -> String {
    let mut metadata = json!({"name": "disk"});
    if let Some(image) = image {
        metadata["annotations"] = json!({"harvesterhci.io/imageId": image});
    }
    json!([{"metadata": metadata, "spec": {"storageClassName": "harvester-longhorn"}}]).to_string()
}

/// `createPVCsFromAnnotation` of Harvester, `handleDataVolumes` of KubeVirt.
#[test]
fn harvester_makes_the_claims_of_a_machines_annotation_and_cdi_those_of_its_data_volumes() {
    let annotated = |machine: &mut serde_json::Value| {
        machine["metadata"]["annotations"] =
            json!({"harvesterhci.io/volumeClaimTemplates": claim_templates(None)});
    };
    let with_volumes = |machine: &mut serde_json::Value| {
        machine["spec"]["dataVolumeTemplates"] =
            json!([{"metadata": {"name": "disk"}, "spec": {"storage": {}}}]);
    };
    for version in [(1, 5, 1), (1, 7, 1), (1, 8, 2)] {
        let ends = without_a_claim(version, annotated);
        assert_eq!(ends, BootstrapVerdict::Complete, "{version:?}");
    }
    // Its disk keeps the preset storage network from being configured.
    let BootstrapVerdict::Unconfigured { because } = without_a_claim((1, 4, 3), annotated) else {
        panic!("the machine of v1.4.3 has no disk");
    };
    let attached = "VirtualMachine default/first keeps pvc-default-disk attached";
    assert_eq!(because.last().map(String::as_str), Some(attached));
    let complete = BootstrapVerdict::Complete;
    assert_eq!(without_a_claim((1, 7, 1), with_volumes), complete);
    let named = |machine: &mut serde_json::Value| {
        with_volumes(machine);
        machine["spec"]["template"]["spec"]["volumes"][0] =
            json!({"name": "disk", "dataVolume": {"name": "disk"}});
    };
    assert_eq!(without_a_claim((1, 7, 1), named), complete);
    // Harvester has CDI since v1.5.0.
    let stuck = |ends| matches!(ends, BootstrapVerdict::Stuck { .. });
    assert!(stuck(without_a_claim((1, 4, 3), with_volumes)));
    assert!(stuck(without_a_claim((1, 7, 1), |_| ())));
}

#[test]
fn harvester_makes_no_claim_before_the_image_that_its_template_names_is_there() {
    let with_image = |machine: &mut serde_json::Value| {
        machine["metadata"]["annotations"] =
            json!({"harvesterhci.io/volumeClaimTemplates": claim_templates(Some("default/image"))});
    };
    let ends = without_a_claim((1, 7, 1), with_image);
    assert!(matches!(ends, BootstrapVerdict::Stuck { .. }), "{ends:?}");
}

/// The verdict on a Harvester with a VM that refers to a network, and the assumptions.
fn of_a_network(more: &[serde_json::Value]) -> (BootstrapVerdict, Vec<String>) {
    let [mut machine, claim] = machine_with_a_disk("Always");
    machine["spec"]["template"]["spec"]["networks"] =
        json!([{"name": "n", "multus": {"networkName": "default/vlan12"}}]);
    let mut files = SimulatedDirectory::new();
    file(&mut files, "vm.yaml", &[machine, claim]);
    file(&mut files, "z.yaml", more);
    let version = HarvesterVersion::new(1, 7, 1);
    let mut node = SimulatedNode::new(Scenario::harvester(version, None, start()), 3);
    let verdict = run(&mut node, &files).verdict;
    (verdict, node.cluster().guesses().collect())
}

#[test]
fn what_keeps_a_machine_from_running_is_named_and_sure_only_where_nothing_can_bring_it() {
    let lacks = "VirtualMachine default/first does not run: NetworkAttachmentDefinition default/vlan12 does not exist";
    let network = json!({"apiVersion": "network.harvesterhci.io/v1beta1", "kind": "ClusterNetwork",
        "metadata": {"name": "extra"}});
    for nothing in [config_map("a"), network] {
        let (verdict, guesses) = of_a_network(&[nothing]);
        let missing = vec![lacks.to_owned()];
        assert_eq!(verdict, BootstrapVerdict::Stuck { missing });
        assert!(guesses.is_empty(), "{guesses:?}");
    }
    let chart = json!({"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
        "metadata": {"name": "site", "namespace": "kube-system"}, "spec": {"chart": "site"}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "site"},
        "spec": {"template": {"spec": {"serviceAccountName": "site", "containers": []}}}});
    for (installer, name) in [
        (chart, "HelmChart kube-system/site"),
        (job, "Job default/site"),
    ] {
        let (verdict, guesses) = of_a_network(&[installer]);
        assert_eq!(verdict, BootstrapVerdict::Complete);
        assert_eq!(guesses, [format!("{lacks}, unless {name} brings it")]);
    }
}

/// harvester v1.7.1 `pkg/util/image.go`, v1.8.0 `pkg/image/common/operator.go` and `pkg/image/cdi/cdi.go`.
#[test]
fn a_disk_of_an_image_names_its_class_before_v1_8_and_clones_the_claim_of_the_image_from_then_on() {
    let verdict = |version: (u32, u32, u32), by_cdi: bool| {
        let [machine, mut claim] = machine_with_a_disk("RerunOnFailure");
        let mut image = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "VirtualMachineImage",
            "metadata": {"name": "noble"}, "spec": {"displayName": "noble"}});
        if by_cdi {
            image["spec"]["backend"] = json!("cdi");
            image["spec"]["targetStorageClassName"] = json!("harvester-longhorn");
            claim["spec"]["dataSource"] = json!({"kind": "PersistentVolumeClaim", "name": "noble"});
        } else {
            claim["spec"]["storageClassName"] = json!("longhorn-noble");
        }
        let mut files = SimulatedDirectory::new();
        file(&mut files, "vm.yaml", &[machine, claim]);
        file(&mut files, "image.yaml", &[image]);
        let (major, minor, patch) = version;
        let version = HarvesterVersion::new(major, minor, patch);
        let mut node = SimulatedNode::new(Scenario::harvester(version, None, start()), 3);
        run(&mut node, &files).verdict
    };
    let complete = BootstrapVerdict::Complete;
    for version in [(1, 6, 0), (1, 7, 1), (1, 8, 2)] {
        assert_eq!(verdict(version, true), complete, "{version:?}");
    }
    assert_eq!(verdict((1, 7, 1), false), complete);
    for version in [(1, 8, 0), (1, 8, 2)] {
        assert_ne!(verdict(version, false), complete, "{version:?}");
    }
}
