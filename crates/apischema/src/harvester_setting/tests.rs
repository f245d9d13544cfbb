use windrow_model::manifest::{self, FileContent, ReadLimits};

use windrow_plan::rules::Platform;

use super::*;
use crate::ApiCheck;

const NEWEST: Option<MinorRelease> = Some((1, 8));

/// A setting, values that the webhook accepts, and values that it refuses.
const VALUES: &[(&str, &[&str], &[&str])] = &[
    (
        "overcommit-config",
        &[
            r#"{"cpu":1600,"memory":150,"storage":200}"#,
            r#"{"CPU":100,"memory":100,"storage":100,"disk":1}"#,
        ],
        &[
            "{}",
            "null",
            "[]",
            "not json",
            r#"{"cpu":99,"memory":150,"storage":200}"#,
            r#"{"cpu":"1600","memory":150,"storage":200}"#,
            r#"{"cpu":150.5,"memory":150,"storage":200}"#,
            r#"{"cpu":1600,"memory":150}"#,
        ],
    ),
    (
        "ntp-servers",
        &[
            r#"{"ntpServers":[]}"#,
            r#"{"ntpServers":["0.suse.pool.ntp.org","10.0.0.1","fd00::1","","a_b","-a.b","a."]}"#,
        ],
        &[
            "{}",
            r#"{"ntpServers":null}"#,
            r#"{"ntpServers":"a.b"}"#,
            r#"{"ntpServers":["http://a.b"]}"#,
            r#"{"ntpServers":["10.0.0.1:123"]}"#,
            r#"{"ntpServers":["a b"]}"#,
            r#"{"ntpServers":["a..b"]}"#,
            r#"{"ntpServers":["a.b","a.b"]}"#,
            r#"{"servers":["a.b"]}"#,
        ],
    ),
    (
        "vip-pools",
        &[
            "{}",
            "null",
            r#"{"default":"10.0.0.0/24,fd00::/64","a":"10.0.0.1-10.0.0.9,10.1.0.1-10.1.0.2"}"#,
        ],
        &[
            r#"{"default":"10.0.0.1"}"#,
            r#"{"default":""}"#,
            r#"{"default":["10.0.0.0/24"]}"#,
            r#"{"default":"10.0.0.0/33"}"#,
            r#"{"default":"10.0.0.0/24,10.0.1.1-10.0.1.2"}"#,
            r#"{"default":"10.0.0.1-"}"#,
            r#"{"default":"fd00::1-fd00::2"}"#,
            "10.0.0.0/24",
        ],
    ),
    (
        "default-vm-termination-grace-period-seconds",
        &["0", "120"],
        &[
            "-1",
            "120s",
            "01",
            "+1",
            " 10",
            "1e3",
            "1.5",
            "99999999999999999999",
        ],
    ),
    ("support-bundle-timeout", &["0", "10"], &["10m", "-1", "-0"]),
    ("support-bundle-expiration", &["30"], &["30m", "-5"]),
    ("support-bundle-node-collection-timeout", &["30"], &["x"]),
    (
        "kubeconfig-default-token-ttl-minutes",
        &["0", "52560000"],
        &["-1", "52560001", "60m"],
    ),
    (
        "auto-rotate-rke2-certs",
        &[
            r#"{"enable":true,"expiringInHours":8759}"#,
            r#"{"expiringInHours":1}"#,
        ],
        &[
            "{}",
            r#"{"enable":true}"#,
            r#"{"enable":"true","expiringInHours":240}"#,
            r#"{"enable":false,"expiringInHours":0}"#,
            r#"{"enable":true,"expiringInHours":8760}"#,
            r#"{"enable":true,"expiringInHours":1.5}"#,
        ],
    ),
    (
        "additional-guest-memory-overhead-ratio",
        &["0", "1", "1.5", "10", "1e1", "NaN", "0x1p1"],
        &["0.5", "-1", "10.1", "abc", "1,5", " 1"],
    ),
    (
        "max-hotplug-ratio",
        &["1", "20", "04"],
        &["0", "21", "-1", "+1", "1.5", "{}"],
    ),
    (
        "vm-force-reset-policy",
        &[
            r#"{"enable":true,"period":300}"#,
            r#"{"period":1,"vmMigrationTimeout":0}"#,
        ],
        &[
            "{}",
            r#"{"enable":false,"period":0}"#,
            r#"{"enable":"true","period":300}"#,
            r#"{"period":"300"}"#,
            r#"{"period":300,"vmMigrationTimeout":-1}"#,
        ],
    ),
    (
        "support-bundle-image",
        &[
            r#"{"repository":"a","tag":"b","imagePullPolicy":"Sometimes"}"#,
            r#"{"repository":"a","tag":1,"imagePullPolicy":"Always"}"#,
        ],
        &[
            "{}",
            r#"{"repository":"a","tag":"b"}"#,
            r#"{"repository":"a","tag":"","imagePullPolicy":"Always"}"#,
        ],
    ),
    (
        "support-bundle-file-name",
        &["bundle", "a-1"],
        &["Bundle", "a_b", "a.zip", "-a"],
    ),
    (
        "ssl-parameters",
        &[
            "{}",
            r#"{"protocols":"TLSv1.2  TLSv1.3","ciphers":"x"}"#,
            r#"{"ciphers":"x"}"#,
        ],
        &[
            r#"{"protocols":"TLSv1.2,TLSv1.3"}"#,
            r#"{"protocols":"tlsv1.2"}"#,
            r#"{"protocols":["TLSv1.2"]}"#,
        ],
    ),
    (
        "ssl-certificates",
        &[
            "{}",
            r#"{"ca":"","publicCertificate":"","privateKey":""}"#,
            r#"{"publicCertificate":"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n","privateKey":"-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"}"#,
            r#"{"ca":"x\n-----BEGIN CERTIFICATE-----\r\nMAA=\r\n-----END CERTIFICATE-----","publicCertificate":"-----BEGIN CERTIFICATE-----\nA: b\n\nMAA=\n-----END CERTIFICATE-----","privateKey":"-----BEGIN EC PARAMETERS-----\nMAA=\n-----END EC PARAMETERS-----\n-----BEGIN EC PRIVATE KEY-----\nMAA=\n-----END EC PRIVATE KEY-----\n"}"#,
        ],
        &[
            r#"{"ca":"x"}"#,
            r#"{"publicCertificate":"x","privateKey":"y"}"#,
            r#"{"publicCertificate":"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"}"#,
            r#"{"publicCertificate":"-----BEGIN CERTIFICATE-----\nMAE=\n-----END CERTIFICATE-----\n","privateKey":"-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"}"#,
            r#"{"publicCertificate":"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n","privateKey":"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"}"#,
            r#"{"publicCertificate":"-----BEGIN CERTIFICATE-----\nM*A=\n-----END CERTIFICATE-----\n","privateKey":"-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"}"#,
        ],
    ),
    (
        "containerd-registry",
        &[
            "{}",
            r#"{"Mirrors":{"docker.io":{"Endpoints":["https://a"],"Rewrites":null}},"x":1}"#,
            r#"{"Configs":{"a":{"Auth":{"Username":"u"},"TLS":null}}}"#,
            r#"{"mirrors":{"docker.io":{"endpoint":"https://a"}}}"#,
        ],
        &[
            r#"{"Mirrors":[]}"#,
            r#"{"Mirrors":{"docker.io":{"Endpoints":"https://a"}}}"#,
            r#"{"Configs":{"a":{"TLS":{"InsecureSkipVerify":"true"}}}}"#,
            r#"{"Configs":{"a":{"Auth":"u:p"}}}"#,
        ],
    ),
    (
        "upgrade-config",
        &[
            r#"{"imagePreloadOption":{"strategy":{"type":"skip"}},"logReadyTimeout":"5"}"#,
            r#"{"imagePreloadOption":{"strategy":{"type":"parallel","concurrency":2}},"nodeUpgradeOption":{"strategy":{"mode":"manual","pauseNodes":["a"]}}}"#,
        ],
        &[
            "{}",
            r#"{"imagePreloadOption":{"strategy":{"type":"none"}}}"#,
            r#"{"imagePreloadOption":{"strategy":{"type":"skip","concurrency":-1}}}"#,
            r#"{"imagePreloadOption":{"strategy":{"type":"skip"}},"logReadyTimeout":"5m"}"#,
            r#"{"imagePreloadOption":{"strategy":{"type":"skip"}},"logReadyTimeout":"21"}"#,
            r#"{"imagePreloadOption":{"strategy":{"type":"skip"}},"restoreVM":"true"}"#,
            r#"{"imagePreloadOption":{"strategy":{"type":"skip"}},"nodeUpgradeOption":{"strategy":{"mode":"x"}}}"#,
        ],
    ),
    (
        "instance-manager-resources",
        &[r#"{"cpu":{}}"#, r#"{"cpu":{"v1":"12","v2":"0"}}"#],
        &[
            "{}",
            "null",
            r#"{"cpu":{"v1":12,"v2":"12"}}"#,
            r#"{"cpu":{"v1":"12"}}"#,
            r#"{"cpu":{"v1":"12","v2":"41"}}"#,
            r#"{"CPU":{}}"#,
        ],
    ),
    (
        "http-proxy",
        &[
            "{}",
            r#"{"httpProxy":"","noProxy":"x"}"#,
            r#"{"httpProxy":"http://a:1","noProxy":"a.b, 10.0.0.0/24"}"#,
        ],
        &[
            r#"{"httpProxy":1}"#,
            r#"{"httpsProxy":"http://a:1","noProxy":"a.b"}"#,
            "[]",
        ],
    ),
    (
        "backup-target",
        &[
            "{}",
            r#"{"type":"","endpoint":"","x":"y"}"#,
            r#"{"type":"nfs","endpoint":"nfs://a:/b"}"#,
            r#"{"type":"s3","accessKeyId":"a","secretAccessKey":"b","bucketName":"c","bucketRegion":"d"}"#,
            // Harvester itself writes it so, once it has taken the keys out.
            r#"{"type":"s3","bucketName":"c","bucketRegion":"d"}"#,
        ],
        &[
            "[]",
            r#"{"type":"ftp"}"#,
            r#"{"endpoint":"nfs://a:/b"}"#,
            r#"{"type":"nfs"}"#,
            r#"{"type":"nfs","endpoint":"a","accessKeyId":"a"}"#,
            r#"{"type":"nfs","endpoint":"a","bucketName":"a"}"#,
            r#"{"type":"s3","accessKeyId":"a","bucketName":"c","bucketRegion":"d"}"#,
            r#"{"type":"s3","accessKeyId":"a","secretAccessKey":"b","bucketName":"c"}"#,
            r#"{"type":"nfs","endpoint":"a","refreshIntervalInSeconds":-1}"#,
        ],
    ),
    (
        "kubevirt-migration",
        &[
            "{}",
            r#"{"parallelMigrationsPerCluster":5,"bandwidthPerMigration":"64Mi","completionTimeoutPerGiB":-1}"#,
            r#"{"bandwidthPerMigration":0,"network":""}"#,
        ],
        &[
            r#"{"parallelMigrationsPerCluster":"5"}"#,
            r#"{"parallelMigrationsPerCluster":-5}"#,
            r#"{"network":"a"}"#,
            r#"{"nodeDrainTaintKey":"a"}"#,
            r#"{"bandwidthPerMigration":"64MB"}"#,
        ],
    ),
    (
        "rancher-cluster",
        &[
            "{}",
            r#"{"removeUpstreamClusterWhenNamespaceIsDeleted":false}"#,
        ],
        &[r#"{"removeUpstreamClusterWhenNamespaceIsDeleted":"true"}"#],
    ),
    (
        "storage-network",
        &[r#"{"vlan":100,"clusterNetwork":"mgmt","range":"10.0.0.0/24"}"#],
        &[
            "{}",
            "[]",
            r#"{"vlan":5000,"clusterNetwork":"mgmt","range":"10.0.0.0/24"}"#,
            r#"{"vlan":100,"clusterNetwork":"mgmt","range":"10.0.0.1/24"}"#,
        ],
    ),
    (
        "vm-migration-network",
        &[r#"{"vlan":100,"clusterNetwork":"mgmt","range":"10.0.0.0/24"}"#],
        &["x", r#"{"range":"10.0.0.0/24"}"#],
    ),
    ("volume-snapshot-class", &["longhorn"], &[]),
    ("log-level", &["loud"], &[]),
    ("server-version", &["{"], &[]),
    ("no-such-setting", &["x"], &[]),
];

#[test]
fn a_value_is_judged_as_harvesters_webhook_judges_it() {
    for (setting, taken, refused) in VALUES {
        assert_eq!(setting_fault(setting, "", NEWEST), None, "{setting}");
        for value in *taken {
            assert_eq!(
                setting_fault(setting, value, NEWEST),
                None,
                "{setting} {value}"
            );
            assert_eq!(
                setting_fault(setting, value, None),
                None,
                "{setting} {value}"
            );
        }
        for value in *refused {
            assert!(
                setting_fault(setting, value, NEWEST).is_some(),
                "{setting} {value}"
            );
        }
    }
    let tested = |name: &str| VALUES.iter().any(|(setting, _, _)| *setting == name);
    let rules = table::TABLE
        .iter()
        .filter(|known| !matches!(known.shape, Shape::Unknown));
    for known in rules {
        assert!(tested(known.name), "{}", known.name);
    }
}

#[test]
fn a_rule_counts_from_the_release_on_that_has_it() {
    for (setting, value, old, new) in [
        ("support-bundle-timeout", "010", (1, 5), (1, 6)),
        ("max-hotplug-ratio", "0", (1, 5), (1, 6)),
        ("support-bundle-file-name", "A", (1, 7), (1, 8)),
        ("kubevirt-migration", "[]", (1, 6), (1, 7)),
        (
            "vm-force-reset-policy",
            r#"{"period":1,"vmMigrationTimeout":-1}"#,
            (1, 6),
            (1, 7),
        ),
        (
            "backup-target",
            r#"{"refreshIntervalInSeconds":-1,"type":"nfs","endpoint":"a"}"#,
            (1, 4),
            (1, 5),
        ),
    ] {
        assert_eq!(setting_fault(setting, value, Some(old)), None, "{setting}");
        assert!(
            setting_fault(setting, value, Some(new)).is_some(),
            "{setting}"
        );
        assert!(setting_fault(setting, value, None).is_some(), "{setting}");
    }
}

#[test]
fn the_reason_names_the_field_and_what_to_write_and_never_the_value() {
    for (setting, value, expected) in [
        (
            "overcommit-config",
            r#"{"cpu":7}"#,
            "write `cpu` as a whole number of at least 100",
        ),
        (
            "upgrade-config",
            "{}",
            "write `imagePreloadOption.strategy.type` as one of sequential, parallel, skip",
        ),
        (
            "containerd-registry",
            r#"{"Configs":{"a":{"Auth":{"Password":5}}}}"#,
            "write `Configs.*.Auth.Password` as a text in quotes",
        ),
        (
            "support-bundle-timeout",
            "hunter2",
            "write a whole number of at least 0, only its digits",
        ),
        (
            "ssl-certificates",
            r#"{"privateKey":"hunter2"}"#,
            "write `publicCertificate` as a certificate in PEM",
        ),
    ] {
        assert_eq!(
            setting_fault(setting, value, NEWEST).as_deref(),
            Some(expected)
        );
    }
}

fn setting(name: &str, fields: &str) -> Object {
    let text = format!(
        "apiVersion: harvesterhci.io/v1beta1\nkind: Setting\nmetadata: {{name: {name}}}\n{fields}"
    );
    let content = FileContent::Bytes(text.into_bytes());
    let file = manifest::read("a.yaml", &content, &ReadLimits::default());
    file.objects().next().expect("an object").clone()
}

#[test]
fn the_value_and_the_default_of_a_setting_are_judged_in_their_lines() {
    let object = setting("support-bundle-timeout", "default: 5m\nvalue: 10m\n");
    let problems = judge(&object, Some((1, 8)));
    let at: Vec<(u32, &str)> = problems
        .iter()
        .map(|problem| (problem.line, problem.field.as_str()))
        .collect();
    assert_eq!(at, [(4, "default"), (5, "value")]);
    assert!(problems.iter().all(|problem| problem.refusal.is_none()));
    for (name, fields) in [
        ("support-bundle-image", "default: '{}'\n"),
        ("instance-manager-resources", "default: 'x'\n"),
        ("support-bundle-timeout", "value: ''\n"),
    ] {
        assert_eq!(judge(&setting(name, fields), None), [], "{name}");
    }
    let image = setting("support-bundle-image", "value: '{}'\n");
    assert_eq!(judge(&image, None).len(), 1);
}

#[test]
fn a_setting_that_no_rule_judges_completely_is_listed() {
    let listed = |name: &str, value: &str| {
        let object = setting(name, &format!("value: '{value}'\n"));
        let found = unjudged(
            &object,
            Some((1, 8)),
            &SourceMap::itself("a.yaml".to_owned()),
        );
        found.map(|one| (one.why, one.at[0].line))
    };
    assert_eq!(
        listed("log-level", "x"),
        Some((ANY_TEXT.to_owned(), Some(4)))
    );
    let (why, _) = listed("volume-snapshot-class", "x").expect("it is listed");
    assert!(why.contains("only the cluster"), "{why}");
    assert_eq!(listed("log-level", ""), None);
    assert_eq!(listed("overcommit-config", "{}"), None);
}

#[test]
fn settings_are_judged_only_on_harvester() {
    let text = "apiVersion: harvesterhci.io/v1beta1\nkind: Setting\nmetadata: {name: http-proxy}\nvalue: '[]'\n";
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("a.yaml", &content, &ReadLimits::default());
    let verdict = |platform| {
        let mut check = ApiCheck::new(None, platform).of_release(Some("v1.8.2".to_owned()));
        check.add(&file, &SourceMap::itself("a.yaml".to_owned()));
        check.finish()
    };
    let on_harvester = verdict(Some(Platform::Harvester));
    let messages: Vec<&str> = on_harvester
        .findings
        .iter()
        .map(|finding| finding.message.as_str())
        .collect();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].contains("not a JSON object"), "{messages:?}");
    assert_eq!(on_harvester.unjudged.len(), 1);
    assert_eq!(verdict(None).findings, []);
}
