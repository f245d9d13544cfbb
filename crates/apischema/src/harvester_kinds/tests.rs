use windrow_model::manifest::{self, FileContent, ReadLimits};

use super::*;

fn fields_on(text: &str, platform: Option<Platform>, release: Option<&str>) -> Vec<String> {
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("a.yaml", &content, &ReadLimits::default());
    let objects: Vec<&Object> = file.objects().collect();
    let [object] = objects[..] else {
        panic!("{text}: {:?}", file.problems);
    };
    let problems = judge(object, platform, release);
    problems.into_iter().map(|one| one.field).collect()
}

fn fields(text: &str, release: Option<&str>) -> Vec<String> {
    fields_on(text, Some(Platform::Harvester), release)
}

/// Checks each replacement of a text in a right object: the release (the newest if empty), and the field that it then has a problem
/// with; none if empty.
fn cases(right: &str, cases: &[(&str, &str, &str, &str)]) {
    for (from, to, release, field) in cases {
        let text = right.replace(from, to);
        assert!(from.is_empty() || text != right, "{from}");
        let release = Some(*release).filter(|release| !release.is_empty());
        let expected = Vec::from_iter((!field.is_empty()).then_some((*field).to_owned()));
        assert_eq!(fields(&text, release), expected, "{to} {release:?}");
    }
}

const CLASS: &str = "apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: a
  annotations: {a: b}
provisioner: driver.longhorn.io
parameters:
  numberOfReplicas: '1'
  dataLocality: best-effort
";

#[test]
fn a_class_has_no_strict_locality_on_harvester() {
    let strict = CLASS.replace("best-effort", "strict-local");
    assert_eq!(fields_on(&strict, None, None), [""; 0]);
    assert_eq!(fields_on(&strict, Some(Platform::Rke2), None), [""; 0]);
    let at = "parameters.dataLocality";
    cases(
        CLASS,
        &[
            ("", "", "", ""),
            ("best-effort", "disabled", "v1.4.0", ""),
            ("best-effort", "strict-local", "v1.4.0", at),
            ("best-effort", "strict-local", "", at),
            ("best-effort", "best_effort", "", at),
        ],
    );
}

#[test]
fn an_encrypted_class_names_one_secret_three_times() {
    let names: Vec<String> = storage_class::SECRETS
        .iter()
        .map(|[name, namespace]| format!("  {name}: keys\n  {namespace}: default\n"))
        .collect();
    let whole = format!("{CLASS}  encrypted: 'true'\n{}", names.concat());
    cases(
        &whole,
        &[
            ("", "", "", ""),
            (
                "encrypted: 'true'",
                "encrypted: 'yes'",
                "v1.4.0",
                "parameters.encrypted",
            ),
            (&names[1], "", "v1.4.0", "parameters"),
            (
                &names[1],
                &names[1].replace("keys", "others"),
                "",
                "parameters",
            ),
            ("keys", "''", "", "parameters"),
            ("keys", "${pvc.name}", "v1.4.0", "parameters"),
        ],
    );
    let plain = whole.replace("encrypted: 'true'", "encrypted: 'f'");
    assert_eq!(fields(&plain.replace(&names[1], ""), None), [""; 0]);
}

#[test]
fn a_class_of_an_unknown_provisioner_needs_access_modes_from_v1_6_on() {
    let modes = |json: &str| {
        format!("{{cdi.harvesterhci.io/storageProfileVolumeModeAccessModes: '{json}'}}")
    };
    let local = CLASS.replace("driver.longhorn.io", "rancher.io/local-path");
    let at = "metadata.annotations[cdi.harvesterhci.io/storageProfileVolumeModeAccessModes]";
    cases(
        &local,
        &[
            ("", "", "v1.6.0", "provisioner"),
            ("", "", "", "provisioner"),
            ("", "", "v1.5.2", ""),
            (
                "{a: b}",
                &modes(r#"{"Filesystem":["ReadWriteOnce"]}"#),
                "",
                "",
            ),
            (
                "{a: b}",
                &modes(r#"{"filesystem":["ReadWriteOnce"]}"#),
                "",
                at,
            ),
            ("{a: b}", &modes(r#"{"Block":["RWO"]}"#), "v1.6.1", at),
            ("{a: b}", &modes("Block"), "", at),
            ("rancher.io/local-path", "nfs.csi.k8s.io", "", ""),
            (
                "rancher.io/local-path",
                "lvm.driver.harvesterhci.io",
                "",
                "",
            ),
            (
                "rancher.io/local-path",
                "rook-ceph.cephfs.csi.ceph.com",
                "v1.7.1",
                "provisioner",
            ),
            (
                "rancher.io/local-path",
                "rook-ceph.cephfs.csi.ceph.com",
                "v1.8.0",
                "",
            ),
        ],
    );
}

#[test]
fn annotations_of_cdi_on_a_class_have_values_that_harvester_reads() {
    let at = |name: &str| format!("metadata.annotations[cdi.harvesterhci.io/{name}]");
    let with = |name: &str, value: &str| format!("{{cdi.harvesterhci.io/{name}: '{value}'}}");
    let (overhead, clone) = ("filesystemOverhead", "storageProfileCloneStrategy");
    let snapshot = "storageProfileVolumeSnapshotClass";
    let cases_of = |name: &str, value: &str, right: bool| {
        let field = if right { String::new() } else { at(name) };
        cases(CLASS, &[("{a: b}", &with(name, value), "", &field)]);
    };
    for value in ["0", "1", "0.05", "0.055"] {
        cases_of(overhead, value, true);
    }
    for value in ["", "2", "1.0", "0.", "0.0555", "5%"] {
        cases_of(overhead, value, false);
    }
    cases_of(clone, "csi-clone", true);
    cases_of(clone, "clone", false);
    cases_of(clone, "snapshot", false);
    cases_of(snapshot, "", false);
    cases_of(snapshot, "longhorn-snapshot", true);
    let engine = |version: &str| {
        let with = CLASS.replace("{a: b}", &with(clone, "snapshot"));
        fields(
            &with.replace("numberOfReplicas: '1'", &format!("dataEngine: {version}")),
            None,
        )
    };
    assert_eq!(engine("v2"), [""; 0]);
    assert_eq!(engine("v1")[0], "metadata.annotations");
}

const IMAGE: &str = "apiVersion: harvesterhci.io/v1beta1
kind: VirtualMachineImage
metadata: {name: a, namespace: default, annotations: {harvesterhci.io/storageClassName: fast}}
spec:
  displayName: a
  sourceType: download
  url: https://example.com/a.img
";

#[test]
fn an_image_has_an_address_exactly_if_it_is_downloaded() {
    let clone = "sourceType: clone\n  securityParameters: {cryptoOperation: encrypt, sourceImageName: b, sourceImageNamespace: default}\n  other:";
    let (download, url) = ("sourceType: download", "  url: https://example.com/a.img\n");
    cases(
        IMAGE,
        &[
            ("", "", "", ""),
            (download, "sourceType: restore", "", ""),
            (url, "", "v1.4.0", "spec.url"),
            ("https://example.com/a.img", "''", "", "spec.url"),
            (download, "sourceType: upload", "v1.4.0", "spec.url"),
            (
                download,
                "sourceType: clone\n  backend: cdi",
                "v1.7.1",
                "spec.url",
            ),
            ("displayName: a", "displayName: ''", "", "spec.displayName"),
            (
                "displayName: a",
                "displayName: Leap 15.6",
                "v1.8.2",
                "spec.displayName",
            ),
            (
                "displayName: a",
                "displayName: Leap 15.6",
                "v1.9.0",
                "spec.displayName",
            ),
            ("displayName: a", "displayName: Leap 15.6", "v1.8.1", ""),
            ("displayName: a", "displayName: Leap-15.6", "v1.8.2", ""),
            (
                "displayName: a",
                "displayName: a\n  targetStorageClassName: fast",
                "",
                "",
            ),
            (
                "displayName: a",
                "displayName: a\n  targetStorageClassName: slow",
                "v1.5.0",
                "metadata.annotations[harvesterhci.io/storageClassName]",
            ),
            (
                "displayName: a",
                "displayName: a\n  targetStorageClassName: slow",
                "v1.4.3",
                "",
            ),
            (&format!("{download}\n  url:"), clone, "", ""),
        ],
    );
    let uploaded = IMAGE.replace(url, "").replace("download", "upload");
    assert_eq!(fields(&uploaded, None), [""; 0]);
    let exported = uploaded.replace("upload", "export-from-volume");
    assert_eq!(
        fields(&exported, None),
        ["spec.pvcName", "spec.pvcNamespace"]
    );
    let plain = uploaded.replace("upload", "clone");
    assert_eq!(fields(&plain, None), ["spec.securityParameters"]);
    let cloned = IMAGE.replace(&format!("{download}\n  url:"), clone);
    let at = |field: &str| [format!("spec.securityParameters{field}")];
    assert_eq!(
        fields(&cloned.replace("sourceImageName: b, ", ""), None),
        at(".sourceImageName")
    );
    let no_class = cloned.replace(
        ", annotations: {harvesterhci.io/storageClassName: fast}",
        "",
    );
    assert_eq!(fields(&no_class, None), at(""));
}

#[test]
fn a_key_pair_has_a_key_of_openssh() {
    let key = |text: &str| {
        let text = format!(
            "apiVersion: harvesterhci.io/v1beta1\nkind: KeyPair\nmetadata: {{name: a, namespace: default}}\nspec:\n  publicKey: {text:?}\n"
        );
        fields(&text, None).is_empty()
    };
    let ed25519 = "AAAAC3NzaC1lZDI1NTE5AAAAIKx0mZ6bQw8pXbJm8C3yqkC2u6w4lYc7r0J7d1v8Zg3B";
    let ecdsa = "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBI4/a+R3TlVNVvKoVQwMTLNKVJfCMXyzSJLx0pcFtiTkjn2NlmTuHxDm6j36FbWV+mWLkSVZR3J4yC0iDxp5Xkw=";
    let rsa = "AAAAB3NzaC1yc2EAAAADAQABAAAAAwDAAQ==";
    for right in [
        format!("ssh-ed25519 {ed25519} ops@example"),
        format!("ssh-ed25519 {ed25519}"),
        // The type is in the key.
        format!("key\t{ed25519}"),
        format!("# ops\n\nssh-ed25519 {ed25519}\n"),
        format!("command=\"echo a b\",no-pty ssh-ed25519 {ed25519} ops"),
        format!("ecdsa-sha2-nistp256 {ecdsa}"),
        format!("ssh-rsa {rsa}"),
    ] {
        assert!(key(&right), "{right}");
    }
    for wrong in [
        String::new(),
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----\n".to_owned(),
        ed25519.to_owned(),
        format!("# ssh-ed25519 {ed25519}"),
        format!("ssh-ed25519 {}", &ed25519[..60]),
        format!("ssh-ed25519 {}", &ed25519[..64]),
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5".to_owned(),
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAAmFi".to_owned(),
        "ssh-ed25519 AAAABGFiY2QAAAAA".to_owned(),
        "ssh-ed25519 ${KEY}".to_owned(),
    ] {
        assert!(!key(&wrong), "{wrong}");
    }
}

const SCHEDULE: &str = "apiVersion: harvesterhci.io/v1beta1
kind: ScheduleVMBackup
metadata: {name: a, namespace: default, annotations: {a: b}}
spec:
  cron: 0 3 * * *
  retain: 4
  maxFailure: 2
  vmbackup: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}, type: snapshot}
";

#[test]
fn a_vm_is_saved_at_most_once_an_hour_and_fails_less_often_than_backups_are_kept() {
    cases(
        SCHEDULE,
        &[
            ("", "", "v1.4.0", ""),
            ("0 3 * * *", "17 * * * *", "", ""),
            ("0 3 * * *", "'@every 1h30m'", "", ""),
            ("0 3 * * *", "'@hourly'", "", ""),
            ("0 3 * * *", "'*/15 * * * *'", "v1.4.0", "spec.cron"),
            ("0 3 * * *", "0,30 3 * * *", "", "spec.cron"),
            ("0 3 * * *", "0-5 3 * * *", "", "spec.cron"),
            ("0 3 * * *", "'@every 59m59s'", "", "spec.cron"),
            ("0 3 * * *", "0 3 * *", "", "spec.cron"),
            ("0 3 * * *", "CRON_TZ=UTC 0 3 * * *", "", "spec.cron"),
            (
                "maxFailure: 2",
                "maxFailure: 4",
                "v1.4.0",
                "spec.maxFailure",
            ),
            ("  maxFailure: 2\n", "", "", "spec.maxFailure"),
            ("  retain: 4\n", "", "", ""),
        ],
    );
    let often = SCHEDULE.replace("0 3 * * *", "'*/15 * * * *'");
    let exempt = often.replace("{a: b}", "{harvesterhci.io/svmbackupSkipCronCheck: 'yes'}");
    assert_eq!(fields(&exempt, None), [""; 0]);
}

const VOLUME: &str = "apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata: {name: a, namespace: default}
spec:
  source: {http: {url: https://example.com/a.img}}
  pvc: {accessModes: [ReadWriteMany], resources: {requests: {storage: 10Gi}}}
";

#[test]
fn a_data_volume_has_one_form_one_source_and_a_size() {
    let (source, of_pvc) = ("{http: {url: https://example.com/a.img}}", "  pvc:");
    let (storage, size) = (
        "spec.storage.resources.requests.storage",
        "spec.pvc.resources.requests.storage",
    );
    cases(
        VOLUME,
        &[
            ("", "", "v1.5.0", ""),
            (of_pvc, "  storage: {}\n  pvc:", "v1.5.0", "spec"),
            (of_pvc, "  other:", "", "spec"),
            (source, "{}", "", "spec.source"),
            (source, "{blank: {}, upload: {}}", "", "spec.source"),
            (
                "  source: {http: {url: https://example.com/a.img}}\n",
                "",
                "",
                "spec.source",
            ),
            (
                source,
                "{blank: {}}\n  sourceRef: {kind: DataSource, name: a}",
                "",
                "spec.source",
            ),
            (
                "accessModes",
                "dataSourceRef: {apiGroup: a.io, kind: A, name: a}, accessModes",
                "",
                "spec.source",
            ),
            (
                "https://example.com/a.img",
                "ftp://example.com/a.img",
                "",
                "spec.source.http.url",
            ),
            (
                "https://example.com/a.img",
                "''",
                "",
                "spec.source.http.url",
            ),
            (source, "{s3: {url: 's3://a/b'}}", "", "spec.source.s3.url"),
            (
                source,
                "{registry: {url: 'docker://example.com/a'}}",
                "",
                "",
            ),
            (
                source,
                "{registry: {url: example.com/a}}",
                "",
                "spec.source.registry",
            ),
            (
                source,
                "{registry: {imageStream: a}}",
                "",
                "spec.source.registry",
            ),
            (
                source,
                "{registry: {imageStream: a, pullMethod: node}}",
                "",
                "",
            ),
            (
                source,
                "{registry: {url: 'docker://a', pullMethod: pods}}",
                "",
                "spec.source.registry",
            ),
            (
                source,
                "{blank: {}}\n  contentType: archive",
                "",
                "spec.contentType",
            ),
            (
                source,
                "{upload: {}}\n  contentType: iso",
                "",
                "spec.contentType",
            ),
            (source, "{pvc: {name: a}}", "", "spec.source.pvc.namespace"),
            ("[ReadWriteMany]", "[]", "", "spec.pvc.accessModes"),
            (
                "[ReadWriteMany]",
                "[ReadWriteOnce, ReadWriteMany]",
                "",
                "spec.pvc.accessModes",
            ),
            ("[ReadWriteMany]", "[RWX]", "", "spec.pvc.accessModes"),
            ("{storage: 10Gi}", "{}", "", size),
            ("{storage: 10Gi}", "{storage: 10}", "", size),
            ("{storage: 10Gi}", "{storage: -1Gi}", "", size),
        ],
    );
    let stored = VOLUME.replace(
        "pvc: {accessModes: [ReadWriteMany], resources: {requests: {storage: 10Gi}}}",
        "storage: {}",
    );
    cases(
        &stored,
        &[
            ("", "", "", storage),
            (source, "{pvc: {name: a, namespace: b}}", "", ""),
            (
                &format!("source: {source}"),
                "sourceRef: {kind: DataSource, name: a}",
                "",
                "",
            ),
            (
                &format!("source: {source}"),
                "sourceRef: {kind: Image, name: a}",
                "",
                "spec.sourceRef.kind",
            ),
            (
                &format!("source: {source}"),
                "sourceRef: {kind: DataSource}",
                "",
                "spec.sourceRef.name",
            ),
        ],
    );
    let external = VOLUME.replace(&format!("  source: {source}\n"), "");
    let at = |field: &str| format!("spec.pvc.dataSourceRef.{field}");
    for (source, field) in [
        ("{apiGroup: a.io, kind: A, name: a}", String::new()),
        ("{kind: PersistentVolumeClaim, name: a}", String::new()),
        ("{kind: A, name: a}", at("apiGroup")),
        ("{apiGroup: a.io, kind: A}", at("name")),
        (
            "{apiGroup: a.io, kind: A, name: a, namespace: b}",
            at("namespace"),
        ),
    ] {
        let to = format!("dataSourceRef: {source}, accessModes");
        cases(&external, &[("accessModes", &to, "", &field)]);
    }
    // Any cluster with CDI.
    let wrong = VOLUME.replace("pvc:", "other:");
    assert_eq!(fields_on(&wrong, Some(Platform::Rke2), None), ["spec"]);
}

const JOB: &str = "apiVersion: longhorn.io/v1beta2
kind: RecurringJob
metadata: {name: nightly, namespace: longhorn-system}
spec:
  name: nightly
  task: backup
  cron: 0 1 * * *
  groups: [default]
  retain: 7
  labels: {a: b}
  parameters: {full-backup-interval: '3'}
";

#[test]
fn a_recurring_job_is_judged_as_longhorn_judges_it() {
    let long = format!("name: {}", "a".repeat(41));
    cases(
        JOB,
        &[
            ("", "", "v1.4.0", ""),
            ("  name: nightly\n", "", "", ""),
            (
                "  name: nightly",
                &format!("  {long}"),
                "v1.4.0",
                "spec.name",
            ),
            ("name: nightly, ", "name: a, ", "", "metadata.name"),
            ("0 1 * * *", "0 0 25 * * *", "v1.4.0", "spec.cron"),
            ("  cron: 0 1 * * *\n", "", "", "spec.cron"),
            ("  task: backup\n", "", "", "spec.task"),
            ("[default]", "[a]", "", "spec.groups[]"),
            ("[default]", "[a b]", "", "spec.groups[]"),
            ("retain: 7", "retain: 251", "", "spec.retain"),
            ("{a: b}", "{KubernetesStatus: b}", "", "spec.labels"),
            ("{a: b}", "{a: ''}", "", "spec.labels"),
            ("{a: b}", "{-a: b}", "", "spec.labels"),
            ("'3'", "often", "v1.4.0", "spec.parameters"),
            (
                "full-backup-interval: '3'",
                "volume-backup-policy: always",
                "v1.5.2",
                "spec.parameters",
            ),
            (
                "full-backup-interval: '3'",
                "volume-backup-policy: always",
                "v1.6.0",
                "",
            ),
            (
                "full-backup-interval: '3'",
                "volume-backup-policy: never",
                "",
                "spec.parameters",
            ),
            (
                "full-backup-interval: '3'",
                "interval: '3'",
                "",
                "spec.parameters",
            ),
        ],
    );
    let other = JOB
        .replace("backup\n", "snapshot\n")
        .replace("full-backup-interval", "interval");
    assert_eq!(fields(&other, None), [""; 0]);
    let without = JOB.replace("  name: nightly\n", "");
    assert_eq!(
        fields(&without.replace("name: nightly", &long), None),
        ["spec.name"]
    );
}

const TEMPLATE: &str = "apiVersion: harvesterhci.io/v1beta1
kind: VirtualMachineTemplateVersion
metadata: {name: small-1, namespace: lab}
spec:
  templateId: lab/small
  vm:
    metadata: {annotations: {harvesterhci.io/volumeClaimTemplates: '[{}]'}}
    spec: {template: {spec: {domain: {resources: {limits: {cpu: 2, memory: 2Gi}}}}}}
";

#[test]
fn a_version_of_a_template_is_beside_it_and_has_limits() {
    let limits = "spec.vm.spec.template.spec.domain.resources.limits";
    let claims = "spec.vm.metadata.annotations[harvesterhci.io/volumeClaimTemplates]";
    cases(
        TEMPLATE,
        &[
            ("", "", "v1.4.0", ""),
            ("lab/small", "default/small", "v1.4.0", "spec.templateId"),
            ("lab/small", "small", "", "spec.templateId"),
            ("lab/small", "''", "", "spec.templateId"),
            ("cpu: 2, ", "", "v1.4.0", limits),
            ("resources: {limits: {cpu: 2, memory: 2Gi}}", "", "", limits),
            (
                "template: {spec: {domain: {resources: {limits: {cpu: 2, memory: 2Gi}}}}}",
                "",
                "",
                "",
            ),
            ("'[{}]'", "'[{'", "v1.5.0", claims),
            ("'[{}]'", "'[{'", "v1.4.3", ""),
        ],
    );
}

#[test]
fn kinds_with_one_rule_are_judged_by_it() {
    let object = |kind: &str, name: &str, spec: &str| {
        let text = format!(
            "apiVersion: harvesterhci.io/v1beta1\nkind: {kind}\nmetadata: {{name: {name}, namespace: lab}}\nspec: {spec}\n"
        );
        fields(&text, None)
    };
    let quota = "{snapshotLimit: {vmTotalSnapshotSizeQuota: {web: -1}}}";
    assert_eq!(
        object("ResourceQuota", "default-resource-quota", "{}"),
        [""; 0]
    );
    assert_eq!(object("ResourceQuota", "lab", "{}"), ["metadata.name"]);
    assert_eq!(
        object("ResourceQuota", "default-resource-quota", quota).len(),
        1
    );
    let sum = |length| format!("{{isoChecksum: {}}}", "a".repeat(length));
    assert_eq!(object("Version", "v1.8.2", &sum(128)), [""; 0]);
    assert_eq!(object("Version", "v1.8.2", &sum(64)), ["spec.isoChecksum"]);
    assert_eq!(
        object("VirtualMachineBackup", "a", "{source: {name: ''}}"),
        ["spec.source.name"]
    );
    assert_eq!(
        object("VirtualMachineRestore", "a", "{target: {name: Web}}"),
        ["spec.target.name"]
    );
}

#[test]
fn what_a_webhook_checks_beyond_these_rules_is_listed() {
    let why = |group: &str, kind: &str, spec: &str, platform| {
        let text =
            format!("apiVersion: {group}/v1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n");
        let content = FileContent::Bytes(text.into_bytes());
        let file = manifest::read("a.yaml", &content, &ReadLimits::default());
        why_unjudged(file.objects().next().unwrap(), platform)
    };
    let harvester = Some(Platform::Harvester);
    for (group, kind, spec) in [
        (GROUP, "Upgrade", "{}"),
        (GROUP, "VirtualMachineRestore", "{}"),
        (GROUP, "ScheduleVMBackup", "{vmbackup: {type: backup}}"),
        (GROUP, "VirtualMachineImage", "{sourceType: clone}"),
        ("devices.harvesterhci.io", "PCIDeviceClaim", "{}"),
        ("network.harvesterhci.io", "HostNetworkConfig", "{}"),
    ] {
        assert!(why(group, kind, spec, harvester).is_some(), "{kind}");
        assert!(why(group, kind, spec, None).is_none(), "{kind}");
    }
    for (group, kind, spec) in [
        (GROUP, "KeyPair", "{}"),
        (GROUP, "ScheduleVMBackup", "{vmbackup: {type: snapshot}}"),
        (GROUP, "VirtualMachineImage", "{sourceType: download}"),
        ("longhorn.io", "RecurringJob", "{}"),
        ("cdi.kubevirt.io", "DataVolume", "{}"),
    ] {
        assert_eq!(why(group, kind, spec, harvester), None, "{kind}");
    }
    assert!(why("longhorn.io", "Volume", "{}", None).is_some());
    assert!(why("cdi.kubevirt.io", "DataImportCron", "{}", None).is_some());
}

#[test]
fn files_for_harvester_are_held_to_these_rules_and_others_are_not() {
    let second = IMAGE
        .replace("name: a", "name: b")
        .replace("displayName: b", "displayName: a");
    let upgrade = "apiVersion: harvesterhci.io/v1beta1\nkind: Upgrade\nmetadata: {name: a, namespace: default}\nspec: {version: v1}\n";
    let files = [
        CLASS.replace("best-effort", "strict-local"),
        IMAGE.to_owned(),
        second,
        upgrade.to_owned(),
    ]
    .join("---\n");
    let verdict = |platform| {
        let mut check =
            crate::ApiCheck::new(None, Some(platform)).of_release(Some("v1.8.2".to_owned()));
        let content = FileContent::Bytes(files.clone().into_bytes());
        let file = manifest::read("a.yaml", &content, &ReadLimits::default());
        check.add(&file, &windrow_plan::SourceMap::itself("a.yaml"));
        let verdict = check.finish();
        let codes = verdict
            .findings
            .iter()
            .map(|one| (one.code.as_str(), one.at[0].line));
        let listed = verdict
            .unjudged
            .iter()
            .filter(|one| one.why == HARVESTER_CHECKS_MORE);
        (codes.collect::<Vec<_>>(), listed.count())
    };
    let expected = vec![("api-invalid", Some(9)), ("taken-twice", Some(23))];
    assert_eq!(verdict(Platform::Harvester), (expected, 1));
    assert_eq!(verdict(Platform::Rke2), (Vec::new(), 0));
}
