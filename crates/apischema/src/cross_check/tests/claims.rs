//! Tests of claims and their classes.

use windrow_plan::knowledge::KnownStorageClass;

use super::*;

#[test]
fn a_claim_whose_class_nothing_brings_is_missed_if_the_platform_is_known() {
    let claim = |class: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: a}}\nspec: {{accessModes: [ReadWriteOnce]{class}}}\n"
        )
    };
    let rke2 = Some(Platform::Rke2);
    for class in ["", ", storageClassName: nowhere"] {
        assert_eq!(found(&claim(class), rke2).len(), 1, "{class}");
        assert_eq!(found(&claim(class), None), [""; 0], "{class}");
        let with_chart = found(&(claim(class) + CHART), rke2);
        assert!(
            with_chart.len() == 1 && with_chart[0].starts_with("unknown: a.yaml:4: "),
            "{with_chart:?}"
        );
    }
    for class in [", storageClassName: \"\"", ", volumeName: a"] {
        assert_eq!(found(&claim(class), rke2), [""; 0], "{class}");
    }
    let mut check = CrossCheck::default();
    let content = FileContent::Bytes((claim("") + CHART).into_bytes());
    let file = manifest::read("a.yaml", &content, &ReadLimits::default());
    for object in file.objects() {
        check.add(object, &SourceMap::itself("a.yaml"));
    }
    // The known results of the chart.
    check.add_brought(&Brings {
        classes: vec![KnownStorageClass {
            name: "a".into(),
            provisioner: "a".into(),
            is_default: true,
        }],
        ..Brings::default()
    });
    assert_eq!(check.finish(rke2).0, []);
    let default = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nprovisioner: a\n\
                   metadata: {name: nowhere, annotations: {storageclass.kubernetes.io/is-default-class: \"true\"}}\n";
    for class in ["", ", storageClassName: nowhere"] {
        assert_eq!(found(&(claim(class) + default), rke2), [""; 0], "{class}");
    }
}

/// The codes and lines of the findings, on this minor of Harvester.
fn on_harvester(text: &str, release: Option<(u32, u32)>) -> Vec<(Code, Option<u32>)> {
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("a.yaml", &content, &ReadLimits::default());
    assert_eq!(file.problems, [], "{text}");
    let mut check = CrossCheck::default();
    check.of_release(release);
    for object in file.objects() {
        check.add(object, &SourceMap::itself("a.yaml"));
    }
    let (found, _) = check.finish(Some(Platform::Harvester));
    found.iter().map(|one| (one.code, one.at[0].line)).collect()
}

#[test]
fn the_class_of_a_new_image_cannot_be_named_from_v1_8_on() {
    const IMAGE: &str = "apiVersion: harvesterhci.io/v1beta1
kind: VirtualMachineImage
metadata: {name: noble, namespace: default}
spec: {displayName: noble}
---
";
    const CLAIM: &str = "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {storageClassName: longhorn-noble}
";
    const MACHINE: &str = "apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: a
  annotations: {harvesterhci.io/volumeClaimTemplates: '[{\"spec\":{\"storageClassName\":\"longhorn-noble\"}}]'}
";
    const VOLUME: &str = "apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata: {name: disk}
spec:
  storage: {storageClassName: longhorn-noble}
";
    for (claim, line) in [(CLAIM, 9), (MACHINE, 10), (VOLUME, 10)] {
        let text = format!("{IMAGE}{claim}");
        let expected = [(Code::ImageClassUnknown, Some(line))];
        assert_eq!(on_harvester(&text, Some((1, 8))), expected, "{claim}");
        for release in [Some((1, 7)), None] {
            assert_eq!(on_harvester(&text, release), [], "{claim}");
        }
        let class = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: longhorn-noble}\nprovisioner: a\n";
        assert_eq!(on_harvester(&(text.clone() + class), Some((1, 8))), []);
        let other = text.replace("{displayName: noble}", "{displayName: noble, backend: cdi}");
        assert_eq!(on_harvester(&other, Some((1, 8))), []);
        // An image of an upgraded cluster keeps its class.
        let status = "spec: {displayName: noble}\nstatus: {storageClassName: longhorn-noble}";
        let saved = text.replace("spec: {displayName: noble}", status);
        assert_eq!(on_harvester(&saved, Some((1, 8))), []);
        let elsewhere = text.replace("name: noble,", "name: jammy,");
        assert_eq!(on_harvester(&elsewhere, Some((1, 8))), []);
    }
}

#[test]
fn the_claims_of_harvesters_annotation_exist_on_harvester_only() {
    let machine = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata:\n  name: a\n  annotations: {harvesterhci.io/volumeClaimTemplates: '[{\"spec\":{\"storageClassName\":\"fast\"}}]'}\n";
    assert_eq!(found(machine, Some(Platform::Rke2)), [""; 0]);
    let missed = [(Code::ClaimWithoutClass, Some(5))];
    assert_eq!(on_harvester(machine, None), missed);
}

#[test]
fn a_class_that_neither_harvester_nor_the_files_have_is_missed_on_harvester() {
    let claim = |class: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: a}}\nspec: {{accessModes: [ReadWriteOnce]{class}}}\n"
        )
    };
    for class in [
        "",
        ", storageClassName: harvester-longhorn",
        ", storageClassName: longhorn-x",
    ] {
        assert_eq!(on_harvester(&claim(class), None), [], "{class}");
    }
    let found = on_harvester(&claim(", storageClassName: ceph-block"), None);
    assert_eq!(found, [(Code::ClaimWithoutClass, Some(4))]);
}

#[test]
fn a_shared_block_device_of_a_class_that_is_not_migratable_is_an_error() {
    let text = "apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: single}
provisioner: driver.longhorn.io
parameters: {numberOfReplicas: '1'}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: a}
spec: {accessModes: [ReadWriteMany], volumeMode: Block, storageClassName: single}
";
    let expected = [(Code::VolumeNotMigratable, Some(10))];
    assert_eq!(on_harvester(text, None), expected);
    for (from, to) in [
        ("'1'", "'1', migratable: 'true'"),
        ("ReadWriteMany", "ReadWriteOnce"),
        ("Block", "Filesystem"),
        ("driver.longhorn.io", "csi.example.org"),
    ] {
        assert_eq!(on_harvester(&text.replace(from, to), None), [], "{to}");
    }
}
