//! Tests of objects that Harvester's webhooks refuse because of others.

use super::*;
use crate::release::minor;

/// Lines and message of each finding, and what is looked up elsewhere.
fn found_on(text: &str, release: Option<&str>) -> (Vec<String>, Vec<String>) {
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("a.yaml", &content, &ReadLimits::default());
    assert_eq!(file.problems, [], "{text}");
    let mut check = CrossCheck::default();
    for object in file.objects() {
        check.add(object, &SourceMap::itself("a.yaml"));
    }
    let (findings, looked_up) = check.of_harvester(release.and_then(minor), &|_: &_| true);
    let findings = findings.into_iter().map(|one| {
        let lines: Vec<String> = one
            .at
            .iter()
            .filter_map(|at| at.line)
            .map(|line| line.to_string())
            .collect();
        format!("{}: {}", lines.join(","), one.message)
    });
    (
        findings.collect(),
        looked_up.into_iter().map(|one| one.what).collect(),
    )
}

/// The only finding; empty if there is none.
fn found_one(text: &str, release: Option<&str>) -> String {
    let (found, _) = found_on(text, release);
    assert!(found.len() < 2, "{found:?}");
    found.into_iter().next().unwrap_or_default()
}

fn image(name: &str, namespace: &str, shown: &str) -> String {
    format!(
        "---\napiVersion: harvesterhci.io/v1beta1\nkind: VirtualMachineImage\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{displayName: {shown}, sourceType: upload}}\n"
    )
}

#[test]
fn two_images_of_a_namespace_have_different_display_names() {
    let first = image("a", "default", "noble");
    let with = |second: &str| found_one(&(first.clone() + second), Some("v1.4.0"));
    let twice = with(&image("b", "default", "noble"));
    assert!(
        twice.starts_with("10,5: VirtualMachineImage default/b and "),
        "{twice}"
    );
    assert!(twice.contains("the display name noble"), "{twice}");
    for other in [
        image("b", "lab", "noble"),
        image("b", "default", "jammy"),
        // The same one twice.
        image("a", "default", "noble"),
    ] {
        assert_eq!(with(&other), "", "{other}");
    }
}

fn schedule(name: &str, machine: &str, cron: &str, annotations: &str) -> String {
    format!(
        "---\napiVersion: harvesterhci.io/v1beta1\nkind: ScheduleVMBackup\nmetadata: {{name: {name}, namespace: default, annotations: {{{annotations}}}}}\n\
         spec: {{cron: {cron:?}, vmbackup: {{source: {{kind: VirtualMachine, name: {machine}}}}}}}\n"
    )
}

#[test]
fn a_vm_has_one_schedule_and_schedules_are_ten_minutes_apart() {
    let first = schedule("a", "web", "0 3 * * *", "");
    let with = |second: &str| found_one(&(first.clone() + second), None);
    let same = with(&schedule("b", "web", "0 12 * * *", ""));
    assert!(same.contains("a schedule of the VM default/web"), "{same}");
    for cron in ["0 3 * * *", "9 3 * * *", "55 2 ? * *"] {
        let close = with(&schedule("b", "db", cron, ""));
        assert!(
            close.starts_with("10,5: ScheduleVMBackup default/b"),
            "{close}"
        );
        assert!(close.contains("10 minutes apart"), "{close}");
    }
    for cron in [
        "10 3 * * *",
        "0 4 * * *",
        "5 3 * * 1",
        "5 3,15 * * *",
        "@every 24h",
        "*/5 3 * * *",
    ] {
        assert_eq!(with(&schedule("b", "db", cron, "")), "", "{cron}");
    }
    let exempt = "harvesterhci.io/svmbackupSkipCronCheck: 'true'";
    assert_eq!(with(&schedule("b", "db", "0 3 * * *", exempt)), "");
    let at_midnight = schedule("a", "web", "@daily", "") + &schedule("b", "db", "55 23 * * *", "");
    assert!(found_one(&at_midnight, None).contains("10 minutes apart"));
    let of_sundays = at_midnight
        .replace("@daily", "@weekly")
        .replace("55 23 * * *", "55 23 * * 0");
    assert_eq!(found_one(&of_sundays, None), "");
}

fn machine(name: &str, address: &str, network: &str) -> String {
    format!(
        "---\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  template:\n    spec:\n      \
         networks: [{{name: nic, {network}}}]\n      domain: {{devices: {{interfaces: [{{name: nic, macAddress: '{address}'}}]}}}}\n"
    )
}

#[test]
fn a_mac_address_is_of_one_vm_in_each_cluster_network_from_v1_5_on() {
    let (address, other) = ("52:54:00:aa:10:01", "52:54:00:aa:10:02");
    let network = |name: &str, bridge: &str, label: &str| {
        format!(
            "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: {name}, namespace: default, labels: {{{label}}}}}\n\
             spec: {{config: '{{\"bridge\": \"{bridge}-br\"}}'}}\n"
        )
    };
    let multus = |name: &str| format!("multus: {{networkName: {name}}}");
    let first = machine("web", address, &multus("default/vlan10"));
    let networks = network("vlan10", "prod", "")
        + &network(
            "vlan20",
            "x",
            "network.harvesterhci.io/clusternetwork: prod",
        )
        + &network("vlan30", "other", "");
    let with = |second: &str, release| found_one(&(first.clone() + second + &networks), release);
    for same in ["default/vlan10", "vlan10", "default/vlan20"] {
        let twice = with(&machine("db", address, &multus(same)), Some("v1.5.0"));
        assert!(
            twice.starts_with("18,9: VirtualMachine default/db and "),
            "{twice}"
        );
        assert!(
            twice.contains("52:54:00:aa:10:01 in the cluster network prod"),
            "{twice}"
        );
    }
    let same = machine("db", address, &multus("default/vlan10"));
    assert_eq!(with(&same, Some("v1.4.3")), "");
    for apart in [
        machine("db", other, &multus("default/vlan10")),
        machine("db", address, &multus("default/vlan30")),
        machine("db", address, "pod: {}"),
        machine("web", address, &multus("default/vlan10")),
    ] {
        assert_eq!(with(&apart, None), "", "{apart}");
    }
    // A network that other files have.
    let unknown = |name: &str| machine(name, address, &multus("lab/vlan40"));
    let twice = found_one(&(unknown("a") + &unknown("b")), None);
    assert!(twice.contains("in the network lab/vlan40"), "{twice}");
    let pods = found_one(
        &(machine("a", address, "pod: {}") + &machine("b", address, "pod: {}")),
        None,
    );
    assert!(pods.contains("in the network of pods"), "{pods}");
}

#[test]
fn the_chart_of_an_addon_is_of_no_other_one_and_not_of_harvester_s_own() {
    let addon = |namespace: &str, name: &str, chart: &str| {
        format!(
            "---\napiVersion: harvesterhci.io/v1beta1\nkind: Addon\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {{chart: {chart}}}\n"
        )
    };
    let own = "cattle-monitoring-system/rancher-monitoring";
    let second = found_one(
        &addon(
            "cattle-monitoring-system",
            "monitoring",
            "rancher-monitoring",
        ),
        Some("v1.4.0"),
    );
    assert!(
        second.contains(own) && second.contains("the chart rancher-monitoring"),
        "{second}"
    );
    assert_eq!(
        found_one(
            &addon(
                "cattle-monitoring-system",
                "rancher-monitoring",
                "rancher-monitoring"
            ),
            None
        ),
        ""
    );
    let changed = found_one(
        &addon(
            "cattle-monitoring-system",
            "rancher-monitoring",
            "prometheus",
        ),
        None,
    );
    assert!(changed.contains("spec.chart is not valid"), "{changed}");
    let descheduler = addon("default", "mine", "descheduler");
    assert!(found_one(&descheduler, Some("v1.7.0")).contains("kube-system/descheduler"));
    assert_eq!(found_one(&descheduler, Some("v1.6.1")), "");
    assert_eq!(found_one(&descheduler, None), "");
    let twice = addon("a", "a", "vcluster") + &addon("b", "b", "vcluster");
    assert!(found_one(&twice, None).starts_with("10,5: Addon b/b and Addon a/a"));
    assert_eq!(
        found_one(
            &(addon("a", "a", "vcluster") + &addon("b", "b", "harvester-csi")),
            None
        ),
        ""
    );
}

#[test]
fn a_secret_of_an_encrypted_class_has_longhorn_s_fields() {
    let class = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: a}\nprovisioner: driver.longhorn.io\nparameters:\n  \
                 encrypted: 'true'\n  csi.storage.k8s.io/provisioner-secret-name: keys\n  csi.storage.k8s.io/provisioner-secret-namespace: default\n";
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: keys, namespace: default}\nstringData:\n  CRYPTO_KEY_CIPHER: aes-xts-plain64\n  \
                  CRYPTO_KEY_HASH: sha256\n  CRYPTO_KEY_PROVIDER: secret\n  CRYPTO_KEY_SIZE: '256'\n  CRYPTO_PBKDF: argon2i\ndata:\n  CRYPTO_KEY_VALUE: c2VjcmV0\n";
    let with = |from: &str, to: &str| {
        let changed = secret.replace(from, to);
        assert!(from.is_empty() || changed != secret, "{from}");
        found_one(&(class.to_owned() + &changed), None)
    };
    assert_eq!(with("", ""), "");
    for (from, to, field) in [
        ("'256'", "'128'", "CRYPTO_KEY_SIZE"),
        ("  CRYPTO_PBKDF: argon2i\n", "", "CRYPTO_PBKDF"),
        ("c2VjcmV0", "''", "CRYPTO_KEY_VALUE"),
        ("PROVIDER: secret", "PROVIDER: vault", "CRYPTO_KEY_PROVIDER"),
    ] {
        let found = with(from, to);
        assert!(found.starts_with("8: ") && found.contains(field), "{found}");
    }
    let (found, looked_up) = found_on(class, None);
    assert_eq!(
        (found, looked_up),
        (Vec::new(), vec!["Secret default/keys".to_owned()])
    );
    let of_volume = class.replace("name: keys", "name: ${pvc.name}");
    assert_eq!(found_on(&of_volume, None), (Vec::new(), Vec::new()));
    let plain = class.replace("'true'", "'false'");
    assert_eq!(found_on(&plain, None), (Vec::new(), Vec::new()));
}

#[test]
fn one_class_of_the_files_is_the_default() {
    let class = |name: &str, value: &str| {
        format!(
            "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{name: {name}, annotations: {{storageclass.kubernetes.io/is-default-class: '{value}'}}}}\n\
             provisioner: driver.longhorn.io\n"
        )
    };
    let twice = found_one(&(class("a", "true") + &class("b", "true")), None);
    assert!(
        twice.starts_with("9,4: StorageClass b and StorageClass a both have"),
        "{twice}"
    );
    assert_eq!(
        found_one(&(class("a", "true") + &class("b", "false")), None),
        ""
    );
}

#[test]
fn what_a_version_of_a_template_names_is_in_the_files_or_listed() {
    let version = "---\napiVersion: harvesterhci.io/v1beta1\nkind: VirtualMachineTemplateVersion\nmetadata: {name: small-1, namespace: lab}\n\
                   spec: {templateId: lab/small, keyPairIds: [lab/ops]}\n";
    let object = |kind: &str, name: &str| {
        format!(
            "---\napiVersion: harvesterhci.io/v1beta1\nkind: {kind}\nmetadata: {{name: {name}, namespace: lab}}\n"
        )
    };
    let (found, looked_up) = found_on(version, None);
    assert_eq!(found, [""; 0]);
    assert_eq!(
        looked_up,
        ["KeyPair lab/ops", "VirtualMachineTemplate lab/small"]
    );
    let whole =
        version.to_owned() + &object("KeyPair", "ops") + &object("VirtualMachineTemplate", "small");
    assert_eq!(found_on(&whole, None).1, [""; 0]);
}

#[test]
fn a_volume_is_of_one_vm_unless_it_can_be_shared() {
    let machine = |name: &str, shared: &str| {
        format!(
            "---\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  template:\n    spec:\n      \
             volumes: [{{name: data, persistentVolumeClaim: {{claimName: data}}}}]\n      domain: {{devices: {{disks: [{{name: data, disk: {{}}{shared}}}]}}}}\n"
        )
    };
    let claim = |mode: &str| {
        format!(
            "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data, namespace: default}}\nspec: {{accessModes: [{mode}]}}\n"
        )
    };
    let both = machine("web", "") + &machine("db", "");
    let of_one = claim("ReadWriteOnce") + &both;
    for (text, release) in [(&both, "v1.6.1"), (&of_one, "v1.7.0"), (&of_one, "v1.8.2")] {
        let twice = found_one(text, Some(release));
        assert!(
            twice.contains("VirtualMachine default/db and VirtualMachine default/web"),
            "{twice}"
        );
        assert!(twice.contains("the claim data"), "{twice}");
    }
    let shared = machine("web", ", shareable: true") + &machine("db", ", shareable: true");
    for text in [
        both.clone(),
        claim("ReadWriteMany") + &both,
        claim("ReadWriteOnce") + &shared,
        claim("ReadWriteOnce") + &machine("web", ""),
        // The claim comes later.
        both + &claim("ReadWriteOnce"),
    ] {
        assert_eq!(found_one(&text, Some("v1.7.0")), "", "{text}");
        assert_eq!(found_one(&text, None), "", "{text}");
    }
}
