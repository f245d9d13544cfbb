//! The settings with rules.

use serde_json::{Map, Value};

use super::MinorRelease;
use super::form::Form::{
    Boolean, Forbidden, List, Map as MapOf, NeededList, NotBlank, Object, Optional, Quantity, Text,
    Whole,
};
use super::form::TextForm::{Any, Digits, Grammar, NotEmpty, OneOf, WordsOf};
use super::form::{Form, TextForm, between, from, needs, since};
use super::relations::{backup_target, certificates, instance_manager, proxy, time_servers};
use super::texts::{is_address_pool, is_minutes, is_name, is_ratio, is_small, is_time_server};

pub(super) struct KnownSetting {
    pub(super) name: &'static str,
    /// The first minor release whose webhook judges it.
    pub(super) since: MinorRelease,
    pub(super) shape: Shape,
    /// Why a part of it is not checked.
    pub(super) cluster: Option<&'static str>,
}

pub(super) type Relation = fn(&Map<String, Value>) -> Option<String>;

pub(super) enum Shape {
    Text(TextForm),
    /// A JSON object, and how its fields fit each other.
    Json(Form, Option<Relation>),
    /// A network of Harvester.
    Network,
    /// Only the cluster shows whether it is right.
    Unknown,
}

impl KnownSetting {
    pub(super) fn find(name: &str, release: Option<MinorRelease>) -> Option<&'static Self> {
        TABLE
            .iter()
            .find(|known| known.name == name)
            .filter(|known| release.is_none_or(|release| release >= known.since))
    }
}

const OLDEST: MinorRelease = (1, 4);

const fn of(name: &'static str, shape: Shape) -> KnownSetting {
    KnownSetting {
        name,
        since: OLDEST,
        shape,
        cluster: None,
    }
}

const fn partly(name: &'static str, shape: Shape, cluster: &'static str) -> KnownSetting {
    KnownSetting {
        name,
        since: OLDEST,
        shape,
        cluster: Some(cluster),
    }
}

const fn from_release(since: MinorRelease, setting: KnownSetting) -> KnownSetting {
    KnownSetting { since, ..setting }
}

const NETWORK: &str =
    "whether its cluster network, its addresses and all workloads allow it, only the cluster shows";

const TEXT: Form = Text(Any);

/// `util.NTPSettings`
const TIME_SERVER: Form = Text(Grammar(
    "an IP address or a host name, without http:// and without a port",
    is_time_server,
));

const POOL: Form = Text(Grammar(
    "networks like 10.0.0.0/24 or IPv4 ranges like 10.0.0.10-10.0.0.20, with commas between them",
    is_address_pool,
));

/// `containerd.AuthConfig`
const LOGIN: Form = Object(&[
    needs("Username", TEXT),
    needs("Password", TEXT),
    needs("Auth", TEXT),
    needs("IdentityToken", TEXT),
]);

/// `containerd.TLSConfig`
const TLS: Form = Object(&[
    needs("CAFile", TEXT),
    needs("CertFile", TEXT),
    needs("KeyFile", TEXT),
    needs("InsecureSkipVerify", Boolean),
]);

/// `containerd.Registry` (wharfie)
const REGISTRY: Form = Object(&[
    needs(
        "Mirrors",
        MapOf(&Object(&[
            needs("Endpoints", List(&TEXT)),
            needs("Rewrites", MapOf(&TEXT)),
        ])),
    ),
    needs(
        "Configs",
        MapOf(&Object(&[
            needs("Auth", Optional(&LOGIN)),
            needs("TLS", Optional(&TLS)),
        ])),
    ),
    needs("Auths", MapOf(&LOGIN)),
]);

/// `settings.BackupTarget`
const BACKUP: Form = Object(&[
    needs("type", TEXT),
    needs("endpoint", TEXT),
    needs("accessKeyId", TEXT),
    needs("secretAccessKey", TEXT),
    needs("bucketName", TEXT),
    needs("bucketRegion", TEXT),
    needs("cert", TEXT),
    needs("virtualHostedStyle", Boolean),
    since((1, 5), "refreshIntervalInSeconds", Whole(from(0))),
]);

/// `settings.UpgradeConfig`
const UPGRADE: Form = Object(&[
    needs(
        "imagePreloadOption",
        Object(&[needs(
            "strategy",
            Object(&[
                needs("type", Text(OneOf(&["sequential", "parallel", "skip"]))),
                needs("concurrency", Whole(from(0))),
            ]),
        )]),
    ),
    needs("restoreVM", Boolean),
    since(
        (1, 7),
        "logReadyTimeout",
        Text(Grammar(
            "a text with minutes from 1 to 20, without a unit",
            is_minutes,
        )),
    ),
    since(
        (1, 7),
        "nodeUpgradeOption",
        Optional(&Object(&[needs(
            "strategy",
            Optional(&Object(&[
                needs("mode", Optional(&Text(OneOf(&["auto", "manual"])))),
                needs("pauseNodes", List(&TEXT)),
            ])),
        )])),
    ),
]);

/// `MigrationConfiguration` of KubeVirt. A negative number of migrations is not one of Go's uint32.
const MIGRATION: Form = Object(&[
    needs("nodeDrainTaintKey", Forbidden("Harvester reserves it")),
    needs(
        "network",
        Forbidden("the setting `vm-migration-network` sets it"),
    ),
    needs(
        "parallelOutboundMigrationsPerNode",
        Whole(between(0, UNSIGNED)),
    ),
    needs("parallelMigrationsPerCluster", Whole(between(0, UNSIGNED))),
    needs("allowAutoConverge", Boolean),
    needs("bandwidthPerMigration", Quantity),
    needs("completionTimeoutPerGiB", Whole(from(i64::MIN))),
    needs("progressTimeout", Whole(from(i64::MIN))),
    needs("unsafeMigrationOverride", Boolean),
    needs("allowPostCopy", Boolean),
    needs("allowWorkloadDisruption", Boolean),
    needs("disableTLS", Boolean),
    needs("matchSELinuxLevelOnMigration", Boolean),
]);

const UNSIGNED: i64 = 4_294_967_295;

/// The webhook's largest `expiringInHours`, an hour less than a year.
const MOST_HOURS: i64 = 24 * 365 - 1;
/// 100 years.
const MOST_MINUTES: i64 = 52_560_000;

const SECONDS: Shape = Shape::Text(Digits(from(0)));

pub(super) static TABLE: &[KnownSetting] = &[
    of(
        "overcommit-config",
        Shape::Json(
            Object(&[
                needs("cpu", Whole(from(100))),
                needs("memory", Whole(from(100))),
                needs("storage", Whole(from(100))),
            ]),
            None,
        ),
    ),
    of(
        "ntp-servers",
        Shape::Json(
            Object(&[needs("ntpServers", NeededList(&TIME_SERVER))]),
            Some(time_servers),
        ),
    ),
    of("vip-pools", Shape::Json(MapOf(&POOL), None)),
    of("default-vm-termination-grace-period-seconds", SECONDS),
    of("support-bundle-timeout", SECONDS),
    of("support-bundle-expiration", SECONDS),
    of("support-bundle-node-collection-timeout", SECONDS),
    of(
        "kubeconfig-default-token-ttl-minutes",
        Shape::Text(Digits(between(0, MOST_MINUTES))),
    ),
    of(
        "auto-rotate-rke2-certs",
        Shape::Json(
            Object(&[
                needs("enable", Boolean),
                needs("expiringInHours", Whole(between(1, MOST_HOURS))),
            ]),
            None,
        ),
    ),
    of(
        "additional-guest-memory-overhead-ratio",
        Shape::Text(Grammar("0 or a number from 1 to 10", is_ratio)),
    ),
    from_release(
        (1, 6),
        of(
            "max-hotplug-ratio",
            Shape::Text(Grammar(
                "a whole number from 1 to 20, only its digits",
                is_small,
            )),
        ),
    ),
    of(
        "vm-force-reset-policy",
        Shape::Json(
            Object(&[
                needs("enable", Boolean),
                needs("period", Whole(from(1))),
                since((1, 7), "vmMigrationTimeout", Whole(from(0))),
            ]),
            None,
        ),
    ),
    of(
        "support-bundle-image",
        Shape::Json(
            Object(&[
                needs("repository", Text(NotEmpty)),
                needs("tag", NotBlank),
                needs("imagePullPolicy", Text(NotEmpty)),
            ]),
            None,
        ),
    ),
    from_release(
        (1, 8),
        of(
            "support-bundle-file-name",
            Shape::Text(Grammar(
                "a name of lower-case letters, digits and `-`, at most 63 characters",
                is_name,
            )),
        ),
    ),
    of(
        "ssl-parameters",
        Shape::Json(
            Object(&[
                needs(
                    "protocols",
                    Text(WordsOf(&[
                        "SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3",
                    ])),
                ),
                needs("ciphers", TEXT),
            ]),
            None,
        ),
    ),
    of(
        "ssl-certificates",
        Shape::Json(
            Object(&[
                needs("ca", TEXT),
                needs("publicCertificate", TEXT),
                needs("privateKey", TEXT),
            ]),
            Some(certificates),
        ),
    ),
    of("containerd-registry", Shape::Json(REGISTRY, None)),
    partly(
        "upgrade-config",
        Shape::Json(UPGRADE, None),
        "whether the nodes of `pauseNodes` exist, only the cluster shows",
    ),
    from_release(
        (1, 8),
        partly(
            "instance-manager-resources",
            Shape::Json(Object(&[]), Some(instance_manager)),
            "whether all volumes are detached, only the cluster shows",
        ),
    ),
    partly(
        "http-proxy",
        Shape::Json(
            Object(&[
                needs("httpProxy", TEXT),
                needs("httpsProxy", TEXT),
                needs("noProxy", TEXT),
            ]),
            Some(proxy),
        ),
        "whether `noProxy` covers the addresses of all nodes, only the cluster shows",
    ),
    partly(
        "backup-target",
        Shape::Json(BACKUP, Some(backup_target)),
        "whether the target answers, only the cluster shows",
    ),
    from_release(
        (1, 7),
        partly(
            "kubevirt-migration",
            Shape::Json(MIGRATION, None),
            "whether a VM migrates meanwhile, only the cluster shows",
        ),
    ),
    from_release(
        (1, 6),
        partly(
            "rancher-cluster",
            Shape::Json(
                Object(&[needs(
                    "removeUpstreamClusterWhenNamespaceIsDeleted",
                    Boolean,
                )]),
                None,
            ),
            "whether the Secret with Rancher's kubeconfig is usable, only the cluster shows",
        ),
    ),
    partly("storage-network", Shape::Network, NETWORK),
    from_release(
        (1, 6),
        partly("vm-migration-network", Shape::Network, NETWORK),
    ),
    partly(
        "volume-snapshot-class",
        Shape::Unknown,
        "whether this VolumeSnapshotClass exists, only the cluster shows",
    ),
    partly(
        "rwx-network",
        Shape::Unknown,
        "whether the network is free and its volumes are detached, only the cluster shows",
    ),
];
