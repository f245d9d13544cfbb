//! What comes with a platform, and when: its namespaces and kinds, step by step.

use std::time::Duration;

/// One step of a platform's bootstrap, on a good day at `after` from kube-apiserver's first answer.
pub(super) struct BootstrapStep {
    pub(super) after: Duration,
    pub(super) says: &'static str,
    pub(super) namespaces: &'static [&'static str],
    pub(super) kinds: &'static [PlatformKinds],
    pub(super) then: StepEffect,
}

/// Kinds of one group; true for namespaced ones. Without the packaged component that is named first,
/// if one is, they do not come.
pub(super) type PlatformKinds = (&'static str, &'static str, &'static [(&'static str, bool)]);

/// What else a step does.
#[derive(Clone, Copy)]
pub(super) enum StepEffect {
    Nothing,
    Rancher,
    Objects,
    KubeVirt,
    Webhook,
    Pod,
}

/// RKE2 by itself.
pub(super) const RKE2: &[BootstrapStep] = &[BootstrapStep {
    after: Duration::from_secs(60),
    says: "RKE2's packaged charts are installed",
    namespaces: &[],
    kinds: &[
        (
            "rke2-snapshot-controller-crd",
            "snapshot.storage.k8s.io",
            &[
                ("VolumeSnapshot", true),
                ("VolumeSnapshotClass", false),
                ("VolumeSnapshotContent", false),
            ],
        ),
        (
            "rke2-traefik-crd",
            "traefik.io",
            &[
                ("IngressRoute", true),
                ("Middleware", true),
                ("TLSOption", true),
            ],
        ),
    ],
    then: StepEffect::Nothing,
}];

/// Harvester on RKE2.
pub(super) const HARVESTER: &[BootstrapStep] = &[
    BootstrapStep {
        after: Duration::from_secs(60),
        says: "RKE2's packaged charts are installed, Multus among them",
        namespaces: &[],
        kinds: &[
            (
                "rke2-multus",
                "k8s.cni.cncf.io",
                &[("NetworkAttachmentDefinition", true)],
            ),
            (
                "rke2-snapshot-controller-crd",
                "snapshot.storage.k8s.io",
                &[
                    ("VolumeSnapshot", true),
                    ("VolumeSnapshotClass", false),
                    ("VolumeSnapshotContent", false),
                ],
            ),
        ],
        then: StepEffect::Nothing,
    },
    BootstrapStep {
        after: Duration::from_secs(240),
        says: "Rancher runs",
        namespaces: &[
            "cattle-system",
            "cattle-fleet-system",
            "fleet-local",
            "fleet-default",
        ],
        kinds: &[
            (
                "",
                "management.cattle.io",
                &[
                    ("Cluster", false),
                    ("Feature", false),
                    ("ManagedChart", true),
                    ("NodeDriver", false),
                    ("Setting", false),
                ],
            ),
            (
                "",
                "catalog.cattle.io",
                &[("App", true), ("ClusterRepo", false)],
            ),
            ("", "provisioning.cattle.io", &[("Cluster", true)]),
            (
                "",
                "fleet.cattle.io",
                &[("Bundle", true), ("Cluster", true), ("GitRepo", true)],
            ),
            ("", "upgrade.cattle.io", &[("Plan", true)]),
        ],
        then: StepEffect::Rancher,
    },
    BootstrapStep {
        after: Duration::from_secs(360),
        says: "Harvester's CustomResourceDefinitions are installed",
        namespaces: &["harvester-system", "harvester-public", "longhorn-system"],
        kinds: &[
            (
                "",
                "harvesterhci.io",
                &[
                    ("Addon", true),
                    ("KeyPair", true),
                    ("Setting", false),
                    ("Upgrade", true),
                    ("VirtualMachineBackup", true),
                    ("VirtualMachineImage", true),
                    ("VirtualMachineTemplate", true),
                    ("VirtualMachineTemplateVersion", true),
                ],
            ),
            (
                "",
                "network.harvesterhci.io",
                &[
                    ("ClusterNetwork", false),
                    ("LinkMonitor", false),
                    ("VlanConfig", false),
                    ("VlanStatus", false),
                ],
            ),
            ("", "kubevirt.io", &[("KubeVirt", true)]),
            (
                "",
                "cdi.kubevirt.io",
                &[("CDI", false), ("DataVolume", true)],
            ),
            (
                "",
                "longhorn.io",
                &[("BackingImage", true), ("Setting", true), ("Volume", true)],
            ),
            ("", "node.harvesterhci.io", &[("CloudInit", false)]),
            (
                "",
                "loadbalancer.harvesterhci.io",
                &[("IPPool", false), ("LoadBalancer", true)],
            ),
        ],
        then: StepEffect::Objects,
    },
    // Harvester's charts bring the kind KubeVirt alone; virt-operator makes the others.
    BootstrapStep {
        after: Duration::from_secs(390),
        says: "virt-operator has made KubeVirt's kinds",
        namespaces: &[],
        kinds: &[(
            "",
            "kubevirt.io",
            &[
                ("VirtualMachine", true),
                ("VirtualMachineInstance", true),
                ("VirtualMachineInstanceMigration", true),
            ],
        )],
        then: StepEffect::Nothing,
    },
    BootstrapStep {
        after: Duration::from_secs(420),
        says: "KubeVirt is deployed",
        namespaces: &[],
        kinds: &[],
        then: StepEffect::KubeVirt,
    },
    BootstrapStep {
        after: Duration::from_secs(470),
        says: "Harvester's webhook answers",
        namespaces: &[],
        kinds: &[],
        then: StepEffect::Webhook,
    },
    BootstrapStep {
        after: Duration::from_secs(480),
        says: "Harvester's pod starts",
        namespaces: &[],
        kinds: &[],
        then: StepEffect::Pod,
    },
];
