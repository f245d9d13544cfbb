use windrow_model::manifest::{self, FileContent, ReadLimits};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;

const WHOLE: &str = "apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: lab}
spec:
  runStrategy: RerunOnFailure
  dataVolumeTemplates:
  - metadata: {name: data}
    spec: {pvc: {accessModes: [ReadWriteMany]}, source: {blank: {}}}
  template:
    metadata: {labels: {app: web}}
    spec:
      hostname: web
      evictionStrategy: LiveMigrateIfPossible
      livenessProbe: {tcpSocket: {port: 22}}
      domain:
        cpu: {cores: 2, sockets: 1, maxSockets: 4, features: [{name: vmx, policy: require}]}
        features: {smm: {enabled: true}}
        firmware: {bootloader: {efi: {secureBoot: true}}}
        machine: {type: q35}
        resources: {limits: {cpu: 2, memory: 4Gi}, requests: {cpu: 125m, memory: 2730Mi}}
        devices:
          disks:
          - {name: root, bootOrder: 1, serial: a-1, cache: none, disk: {bus: virtio, pciAddress: '0000:81:01.0'}}
          - {name: data, lun: {}}
          - {name: init, disk: {bus: sata}}
          interfaces:
          - {name: pods, masquerade: {}, model: virtio, macAddress: '52:54:00:01:fe:ab'}
          - {name: lan, bridge: {}, bootOrder: 2}
      networks:
      - {name: pods, pod: {}}
      - {name: lan, multus: {networkName: lab/vlan10}}
      volumes:
      - {name: root, containerDisk: {image: a}}
      - {name: data, dataVolume: {name: data}}
      - {name: init, cloudInitNoCloud: {userData: '#cloud-config'}}
";

fn fields(text: &str, platform: Platform, release: Option<&str>) -> Vec<String> {
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("a.yaml", &content, &ReadLimits::default());
    let objects: Vec<&Object> = file.objects().collect();
    let [object] = objects[..] else {
        panic!("{text}: {:?}", file.problems);
    };
    let problems = judge(
        object,
        Some(platform),
        release.and_then(crate::release::minor),
    )
    .into_iter();
    problems
        .map(|one| format!("{}: {}", one.field, one.message))
        .collect()
}

/// What is replaced, by what, and the field of the problem.
const REFUSED: [(&str, &str, &str); 50] = [
    (
        "{limits: {cpu: 2, memory: 4Gi}, requests: {cpu: 125m, memory: 2730Mi}}",
        "{requests: {memory: 1Gi}}",
        "resources",
    ),
    (
        "runStrategy: RerunOnFailure",
        "runStrategy: Halted\n  instancetype: {name: small}",
        "spec.instancetype",
    ),
    (
        "labels: {app: web}",
        "labels: {app: {a: b}}",
        "metadata.labels",
    ),
    ("hostname: web", "hostname: Web", "hostname"),
    ("hostname: web", "subdomain: a_b", "subdomain"),
    ("LiveMigrateIfPossible", "LiveMigrated", "evictionStrategy"),
    ("hostname: web", "dnsPolicy: Cluster", "dnsPolicy"),
    (
        "{tcpSocket: {port: 22}}",
        "{periodSeconds: 3}",
        "livenessProbe",
    ),
    (
        "{tcpSocket: {port: 22}}",
        "{tcpSocket: {port: 22}, exec: {command: [a]}}",
        "livenessProbe",
    ),
    ("cores: 2", "cores: -2", "cpu.cores"),
    ("cores: 2", "cores: 99999999999", "cpu.cores"),
    ("sockets: 1", "sockets: 5", "cpu.sockets"),
    ("policy: require", "policy: requires", "policy"),
    ("enabled: true", "enabled: false", "secureBoot"),
    ("smm: {enabled: true}", "acpi: {}", "secureBoot"),
    (
        "{efi: {secureBoot: true}}",
        "{efi: {secureBoot: true}, bios: {}}",
        "bootloader",
    ),
    ("type: q35", "type: pc", "machine.type"),
    ("limits: {cpu: 2", "limits: {cpu: -2", "limits.cpu"),
    ("limits: {cpu: 2", "limits: {cpu: 99999999999", "limits.cpu"),
    (
        "{limits: {cpu: 2, memory: 4Gi}, requests: {cpu: 125m, memory: 2730Mi}}",
        "{limits: {cpu: 2}}",
        "resources",
    ),
    (
        "name: root, bootOrder",
        "name: Root, bootOrder",
        "disks[].name",
    ),
    ("bootOrder: 1", "bootOrder: 0", "disks[].bootOrder"),
    (
        "bootOrder: 1",
        "bootOrder: 99999999999",
        "disks[].bootOrder",
    ),
    ("bootOrder: 2", "bootOrder: 1", "interfaces[].bootOrder"),
    ("serial: a-1", "serial: 'a 1'", "serial"),
    ("cache: none", "cache: writeahead", "cache"),
    ("0000:81:01.0", "81:01.0", "pciAddress"),
    (
        "{name: data, lun: {}}",
        "{name: data, lun: {}, cdrom: {}}",
        "disks[]",
    ),
    (
        "dataVolume: {name: data}}",
        "containerDisk: {image: a}}",
        "lun",
    ),
    ("{bus: sata}", "{bus: sata, readonly: true}", "readonly"),
    (
        "{name: pods, masquerade",
        "{name: pot, masquerade",
        "interfaces[].name",
    ),
    (
        "{name: lan, multus",
        "{name: lam, multus",
        "networks[].name",
    ),
    ("masquerade: {}", "bridge: {}, masquerade: null", "none"),
    (
        "{name: lan, bridge: {}",
        "{name: lan, masquerade: {}",
        "masquerade",
    ),
    ("model: virtio", "model: vir", "model"),
    ("52:54:00:01:fe:ab", "52:54:00:01:fe", "macAddress"),
    (
        "{name: lan, multus: {networkName: lab/vlan10}}",
        "{name: lan, pod: {}}",
        "networks[]",
    ),
    (
        "{name: lan, multus: {networkName: lab/vlan10}}",
        "{name: lan}",
        "networks[]",
    ),
    ("networkName: lab/vlan10", "default: true", "networkName"),
    ("{image: a}}", "{image: a}, emptyDisk: {}}", "volumes[]"),
    ("containerDisk: {image: a}", "nfs: {}", "volumes[]"),
    (
        "dataVolume: {name: data}}",
        "hostDisk: {path: /a}}",
        "hostDisk",
    ),
    (
        "dataVolume: {name: data}}",
        "secret: {name: data}}",
        "secretName",
    ),
    ("{userData: '#cloud-config'}", "{}", "cloudInitNoCloud"),
    (
        "{userData: '#cloud-config'}",
        "{userData: a, secretRef: {name: b}}",
        "cloudInitNoCloud",
    ),
    (
        "{userData: '#cloud-config'}",
        "{userDataBase64: 'a b'}",
        "userDataBase64",
    ),
    (
        "metadata: {name: data}",
        "metadata: {name: date}",
        "dataVolumeTemplates[]",
    ),
    ("source: {blank: {}}", "sources: {}", "spec.source"),
    (
        "pvc: {accessModes: [ReadWriteMany]}, ",
        "",
        "dataVolumeTemplates[].spec",
    ),
    ("RerunOnFailure", "WaitAsReceiver", "runStrategy"),
];

#[test]
fn a_whole_machine_is_accepted_and_each_fault_is_found_in_its_field() {
    assert_eq!(fields(WHOLE, Platform::Harvester, Some("v1.8.2")), [""; 0]);
    for (from, to, field) in REFUSED {
        let text = WHOLE.replacen(from, to, 1);
        assert_ne!(text, WHOLE, "{from}");
        let found = fields(&text, Platform::Harvester, Some("v1.8.2"));
        match field {
            "none" => assert_eq!(found, [""; 0], "{to}"),
            field => assert!(
                found.iter().any(|one| one
                    .split(':')
                    .next()
                    .is_some_and(|place| place.ends_with(field))),
                "{to}: {found:?}"
            ),
        }
    }
}

#[test]
fn user_data_is_counted_in_bytes_before_and_after_base64() {
    let with = |source: &str| {
        let text = WHOLE.replace("{userData: '#cloud-config'}", source);
        fields(&text, Platform::Harvester, None).len()
    };
    let umlauts = "\u{fc}".repeat(1024);
    assert_eq!(with(&format!("{{userData: {umlauts}}}")), 0);
    assert_eq!(with(&format!("{{userData: {umlauts}x}}")), 1);
    assert_eq!(
        with(&format!(
            "{{userDataBase64: {}}}",
            STANDARD.encode("x".repeat(2048))
        )),
        0
    );
    assert_eq!(
        with(&format!(
            "{{networkDataBase64: {}}}",
            STANDARD.encode("x".repeat(2049))
        )),
        1
    );
}

#[test]
fn what_harvester_or_a_release_changes_is_judged_by_it() {
    let pc = WHOLE.replace("type: q35", "type: pc");
    assert_eq!(fields(&pc, Platform::Harvester, Some("v1.4.3")), [""; 0]);
    assert_eq!(fields(&pc, Platform::Rke2, None), [""; 0]);
    // Harvester replaces the requests.
    let above = WHOLE.replace("requests: {cpu: 125m", "requests: {cpu: 3");
    assert_eq!(fields(&above, Platform::Harvester, None), [""; 0]);
    assert_eq!(fields(&above, Platform::Rke2, None).len(), 1);
    let small = WHOLE.replace("memory: 2730Mi", "memory: 512m");
    assert_eq!(fields(&small, Platform::Harvester, None), [""; 0]);
    assert_eq!(fields(&small, Platform::Rke2, None).len(), 1);
    let sockets = WHOLE.replace("sockets: 1", "sockets: 2");
    assert_eq!(
        fields(&sockets, Platform::Harvester, Some("v1.8.2")).len(),
        1
    );
    assert_eq!(fields(&sockets, Platform::Rke2, None), [""; 0]);
    let preferred = WHOLE.replace(
        "  dataVolumeTemplates:",
        "  preference: {name: windows}\n  dataVolumeTemplates:",
    );
    let preferred = preferred.replace("features: {smm: {enabled: true}}", "features: {}");
    assert_eq!(fields(&preferred, Platform::Rke2, None), [""; 0]);
    let requested = WHOLE.replace("limits: {cpu: 2, memory: 4Gi}, ", "");
    assert_eq!(
        fields(&requested, Platform::Harvester, Some("v1.6.1")),
        [""; 0]
    );
    assert_eq!(
        fields(&requested, Platform::Harvester, Some("v1.7.0")).len(),
        1
    );
    let empty = WHOLE.replace(
        "{name: init, disk: {bus: sata}}",
        "{name: drive, cdrom: {bus: sata}}",
    );
    assert_eq!(fields(&empty, Platform::Harvester, Some("v1.8.1")), [""; 0]);
    assert_eq!(fields(&empty, Platform::Harvester, Some("v1.7.1")).len(), 1);
    let without = WHOLE.replace("source: {blank: {}}", "sources: {}");
    assert_eq!(
        fields(&without, Platform::Harvester, Some("v1.4.0")),
        [""; 0]
    );
}

#[test]
fn harvester_s_own_labels_annotations_and_times_have_its_values() {
    let on = |metadata: &str, release| {
        let named = "metadata: {name: web, namespace: lab";
        let text = WHOLE.replacen(named, &format!("{named}, {metadata}"), 1);
        assert_ne!(text, WHOLE);
        fields(&text, Platform::Harvester, Some(release)).concat()
    };
    let reserved =
        |amount: &str| format!("annotations: {{harvesterhci.io/reservedMemory: '{amount}'}}");
    for right in ["", "256Mi", "3Gi"] {
        assert_eq!(on(&reserved(right), "v1.8.2"), "", "{right}");
    }
    for wrong in ["4Gi", "5Gi", "-1Mi", "256MB"] {
        let found = on(&reserved(wrong), "v1.4.0");
        let field = "metadata.annotations[harvesterhci.io/reservedMemory]: ";
        assert!(found.starts_with(field), "{wrong}: {found}");
    }
    let guest = "memory: {guest: 3Gi}\n        cpu: {cores: 2";
    let with_guest = WHOLE.replacen("cpu: {cores: 2", guest, 1);
    let with_guest = |amount: &str, release| {
        let named = "metadata: {name: web, namespace: lab";
        let text = with_guest.replacen(named, &format!("{named}, {}", reserved(amount)), 1);
        fields(&text, Platform::Harvester, Some(release)).len()
    };
    assert_eq!(with_guest("1Gi", "v1.6.0"), 0);
    assert_eq!(with_guest("1025Mi", "v1.6.0"), 1);
    assert_eq!(with_guest("1025Mi", "v1.5.2"), 0);
    let strategy =
        |word: &str| format!("labels: {{harvesterhci.io/maintain-mode-strategy: {word}}}");
    assert_eq!(on(&strategy("Shutdown"), "v1.8.0"), "");
    assert_eq!(on(&strategy("Reboot"), "v1.7.1"), "");
    assert!(on(&strategy("Reboot"), "v1.8.0").contains("ShutdownAndRestartAfterEnable"));
    let grace = |seconds: &str| {
        let text = WHOLE.replacen(
            "hostname: web",
            &format!("terminationGracePeriodSeconds: {seconds}"),
            1,
        );
        fields(&text, Platform::Harvester, Some("v1.4.0")).len()
    };
    assert_eq!((grace("0"), grace("-1")), (0, 1));
}

#[test]
fn a_probe_over_the_network_needs_the_network_of_pods() {
    let lan = WHOLE
        .replace("      - {name: pods, pod: {}}\n", "")
        .replace("          - {name: pods, masquerade: {}, model: virtio, macAddress: '52:54:00:01:fe:ab'}\n", "");
    let found = fields(&lan, Platform::Harvester, None);
    assert!(
        matches!(&found[..], [one] if one.contains("livenessProbe")),
        "{found:?}"
    );
}
