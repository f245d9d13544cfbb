//! The built-in probes. The scheduler, the judgement and `docs/readiness.md` use this one table for their checks, periods, roles
//! and consequences.

use std::time::Duration;

use windrow_model::reasons::Code;

use super::{NodeRole, Phase, ProbeId, ProbeLimit, ProbeSeverity, ProbeSpec};
use crate::rules::Platform;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    pub name: &'static str,
    /// Seconds between two checks.
    pub period: u64,
    /// Time limit for an answer, in seconds.
    pub timeout: u64,
    /// Consecutive passes after which it is passing.
    pub rise: u32,
    /// Consecutive failures after which it is failing.
    pub fall: u32,
    /// Consequence of a failure.
    pub severity: ProbeSeverity,
    /// The bootstrap phase that waits for it.
    pub phase: Phase,
    pub code: Code,
    pub roles: &'static [NodeRole],
    /// The platform that it applies to; `None` for all.
    pub platform: Option<Platform>,
    /// Whether it counts only on day 0.
    pub day_zero: bool,
    pub limit: Option<ProbeLimit>,
    /// Whether an upgrade rolls out its target, so that it fails during the upgrade.
    pub rolled_out: bool,
    /// The check in words, for the documentation.
    pub asks: &'static str,
}

/// Servers with kube-apiserver.
const SERVERS: &[NodeRole] = &[NodeRole::FirstServer, NodeRole::JoinedServer];
const FIRST: &[NodeRole] = &[NodeRole::FirstServer];
/// Nodes with `rke2-server`.
const SUPERVISORS: &[NodeRole] = &[
    NodeRole::FirstServer,
    NodeRole::JoinedServer,
    NodeRole::Witness,
];
/// Nodes that join through another node.
const JOINED: &[NodeRole] = &[NodeRole::JoinedServer, NodeRole::Agent, NodeRole::Witness];
const KNOWN: &[NodeRole] = &[
    NodeRole::FirstServer,
    NodeRole::JoinedServer,
    NodeRole::Agent,
    NodeRole::Witness,
];
const ANY: &[NodeRole] = &[
    NodeRole::FirstServer,
    NodeRole::JoinedServer,
    NodeRole::Agent,
    NodeRole::Witness,
    NodeRole::Unknown,
];
const HARVESTER: Option<Platform> = Some(Platform::Harvester);

/// Nodes that run VMs: all except a witness.
const HOSTS: &[NodeRole] = &[
    NodeRole::FirstServer,
    NodeRole::JoinedServer,
    NodeRole::Agent,
];

const REQUIRED: Builtin = Builtin {
    name: "",
    period: 10,
    timeout: 5,
    rise: 1,
    fall: 3,
    severity: ProbeSeverity::Required,
    phase: Phase::Network,
    code: Code::ProbeFailed,
    roles: KNOWN,
    platform: None,
    day_zero: false,
    limit: None,
    rolled_out: false,
    asks: "",
};

/// Probes of parts that may be missing for a while: they run less often and need more failures.
const WANTED: Builtin = Builtin {
    period: 60,
    rise: 1,
    fall: 3,
    severity: ProbeSeverity::Wanted,
    ..REQUIRED
};

/// Probes of parts that are rolled out from time to time, which takes minutes.
const ROLLED_OUT: Builtin = Builtin {
    period: 30,
    timeout: 10,
    fall: 5,
    phase: Phase::HarvesterChart,
    roles: SERVERS,
    platform: HARVESTER,
    rolled_out: true,
    ..WANTED
};

/// All probes. A name appears twice if the role makes a difference; a node has only one of them.
pub const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "default-route",
        period: 30,
        code: Code::NoDefaultRoute,
        roles: ANY,
        asks: "`/proc/net/route` and `/proc/net/ipv6_route`: is there a default route?",
        ..WANTED
    },
    Builtin {
        name: "nic-carrier",
        period: 30,
        code: Code::NoCarrier,
        roles: ANY,
        asks: "`/sys/class/net/*/carrier`: has a physical NIC a link?",
        ..WANTED
    },
    Builtin {
        name: "vip",
        period: 15,
        phase: Phase::Network,
        code: Code::VipUnreachable,
        roles: JOINED,
        platform: HARVESTER,
        asks: "TCP port 443 of the VIP",
        ..REQUIRED
    },
    Builtin {
        name: "vip",
        period: 15,
        phase: Phase::HarvesterChart,
        code: Code::VipUnreachable,
        roles: FIRST,
        platform: HARVESTER,
        asks: "TCP port 443 of the VIP",
        ..REQUIRED
    },
    Builtin {
        name: "vip-join",
        period: 30,
        code: Code::JoinUnreachable,
        roles: JOINED,
        platform: HARVESTER,
        asks: "TCP port 9345 of the VIP, over which nodes join",
        ..WANTED
    },
    Builtin {
        name: "dhcp-client-clash",
        code: Code::DhcpClash,
        roles: SERVERS,
        platform: HARVESTER,
        asks: "kube-vip's own log, where the VIP's address comes from DHCP: could it bind UDP port 68?",
        ..WANTED
    },
    Builtin {
        name: "rke2-installed",
        fall: 1,
        phase: Phase::Rke2Installed,
        code: Code::RkeNotInstalled,
        roles: ANY,
        asks: "systemd over D-Bus: the load state of the role's rke2 unit",
        ..REQUIRED
    },
    Builtin {
        name: "rke2-service",
        phase: Phase::Api,
        code: Code::RkeServiceDown,
        asks: "systemd over D-Bus: `ActiveState`, `SubState`, `NRestarts` and `Result` of the role's rke2 unit; where its start is queued, the units that systemd starts first",
        ..REQUIRED
    },
    Builtin {
        name: "supervisor",
        phase: Phase::Api,
        code: Code::SupervisorDown,
        roles: SUPERVISORS,
        asks: "`https://127.0.0.1:9345/ping`",
        ..REQUIRED
    },
    Builtin {
        name: "etcd",
        phase: Phase::Api,
        code: Code::EtcdUnhealthy,
        roles: SUPERVISORS,
        asks: "`http://127.0.0.1:2381/health?serializable=true`, where the node has etcd's static pod",
        ..WANTED
    },
    Builtin {
        name: "etcd-member",
        period: 30,
        phase: Phase::Api,
        code: Code::EtcdNotVoting,
        roles: SUPERVISORS,
        asks: "the own Node: its condition `EtcdIsVoter`. A learner has ten minutes; a Node without the condition tells nothing",
        ..WANTED
    },
    Builtin {
        name: "apiserver",
        phase: Phase::Api,
        code: Code::ApiNotReady,
        asks: "kube-apiserver's `/readyz` with the node's own credential",
        ..REQUIRED
    },
    Builtin {
        name: "controller-manager",
        period: 10,
        phase: Phase::Api,
        code: Code::ControllerManagerDown,
        roles: SERVERS,
        asks: "`https://127.0.0.1:10257/healthz`, if the node has kube-controller-manager's static pod; if it fails, its Lease: does another server lead?",
        ..WANTED
    },
    Builtin {
        name: "scheduler",
        period: 10,
        phase: Phase::Api,
        code: Code::SchedulerDown,
        roles: SERVERS,
        asks: "`https://127.0.0.1:10259/healthz`, if the node has kube-scheduler's static pod; if it fails, its Lease: does another server lead?",
        ..WANTED
    },
    Builtin {
        name: "kubelet",
        phase: Phase::Node,
        code: Code::KubeletUnhealthy,
        asks: "`http://127.0.0.1:10248/healthz`",
        ..REQUIRED
    },
    Builtin {
        name: "node",
        phase: Phase::Node,
        code: Code::NodeNotReady,
        asks: "the own Node: its condition `Ready`",
        ..REQUIRED
    },
    Builtin {
        name: "node-conditions",
        period: 30,
        phase: Phase::Node,
        code: Code::NodeCondition,
        asks: "the own Node: are its conditions `NetworkUnavailable`, `DiskPressure`, `MemoryPressure` and `PIDPressure` False?",
        ..WANTED
    },
    Builtin {
        name: "rancherd",
        period: 30,
        timeout: 10,
        phase: Phase::Rancher,
        code: Code::RancherdAtWork,
        platform: HARVESTER,
        day_zero: true,
        asks: "`/var/lib/rancher/rancherd`, from outside: is it bootstrapped? If not, the unit's state over D-Bus, the instruction that runs and the journal's last line of a known form",
        ..WANTED
    },
    Builtin {
        name: "rancher",
        period: 30,
        timeout: 10,
        phase: Phase::Rancher,
        code: Code::RancherNotReady,
        roles: SERVERS,
        platform: HARVESTER,
        asks: "Deployment `cattle-system/rancher`: is it available?",
        ..REQUIRED
    },
    Builtin {
        name: "managed-chart",
        period: 30,
        timeout: 10,
        phase: Phase::HarvesterChart,
        code: Code::ChartNotReady,
        roles: FIRST,
        platform: HARVESTER,
        day_zero: true,
        asks: "ManagedChart `fleet-local/harvester`: its condition `Ready`",
        ..REQUIRED
    },
    Builtin {
        name: "harvester",
        period: 30,
        timeout: 10,
        phase: Phase::HarvesterChart,
        code: Code::HarvesterNotReady,
        platform: HARVESTER,
        asks: "`https://VIP/v1/harvester/cluster/local`, as its own console does",
        ..REQUIRED
    },
    Builtin {
        name: "webhook",
        period: 30,
        timeout: 28,
        phase: Phase::Settings,
        code: Code::WebhookDown,
        roles: SERVERS,
        platform: HARVESTER,
        asks: "an update that changes nothing and is not kept (`dryRun=All`), through the webhooks of Harvester, Rancher and KubeVirt without which nothing can be changed: do they answer?",
        ..REQUIRED
    },
    Builtin {
        name: "settings",
        period: 30,
        timeout: 10,
        phase: Phase::Settings,
        code: Code::SettingMissing,
        roles: SERVERS,
        platform: HARVESTER,
        asks: "Setting `server-version`: does Harvester's server keep it?",
        ..REQUIRED
    },
    Builtin {
        name: "storage-network",
        period: 30,
        timeout: 10,
        phase: Phase::StorageNetwork,
        code: Code::StorageNetworkPending,
        roles: SERVERS,
        platform: HARVESTER,
        asks: "Setting `storage-network`: exists, and is `configured` if it has a value",
        ..REQUIRED
    },
    Builtin {
        name: "system-upgrade-controller",
        phase: Phase::Rancher,
        code: Code::UpgradeControllerNotReady,
        day_zero: true,
        asks: "Deployment `cattle-system/system-upgrade-controller`: is it available? Plan `system-agent-upgrader`: is its version resolved?",
        ..ROLLED_OUT
    },
    Builtin {
        name: "cluster-provisioned",
        code: Code::ClusterNotProvisioned,
        asks: "Cluster `fleet-local/local` of Rancher's provisioning: is it `Provisioned` and ready?",
        ..ROLLED_OUT
    },
    Builtin {
        name: "charts",
        code: Code::ChartsNotReady,
        asks: "the ManagedCharts of `fleet-local`, and its Bundles that belong to none: is each `Ready`, or only modified?",
        ..ROLLED_OUT
    },
    Builtin {
        name: "kubevirt",
        code: Code::KubevirtNotReady,
        asks: "KubeVirt in `harvester-system`: is it `Deployed`, `Available`, neither `Degraded` nor `Progressing`, and of the required version?",
        ..ROLLED_OUT
    },
    Builtin {
        name: "virt-handler",
        code: Code::VirtHandlerSilent,
        roles: HOSTS,
        asks: "the own Node: its label `kubevirt.io/schedulable`, which virt-handler keeps true",
        ..ROLLED_OUT
    },
    Builtin {
        name: "longhorn-node",
        code: Code::LonghornNodeNotReady,
        asks: "Longhorn's object of the node: its condition `Ready`",
        ..ROLLED_OUT
    },
    Builtin {
        name: "longhorn-disks",
        code: Code::LonghornDiskUnusable,
        rolled_out: false,
        asks: "the same object: is a disk not `Ready`, or short of space (`DiskPressure`)?",
        ..ROLLED_OUT
    },
    Builtin {
        name: "addons",
        timeout: 30,
        phase: Phase::Settings,
        code: Code::AddonInTrouble,
        roles: SERVERS,
        platform: HARVESTER,
        asks: "Harvester's Addons: is each deployed as asked for, or on its way?",
        ..WANTED
    },
    Builtin {
        name: "certificates",
        period: 3600,
        phase: Phase::Node,
        code: Code::CertificateExpiring,
        limit: Some(ProbeLimit::Left(Duration::from_secs(14 * 24 * 60 * 60))),
        asks: "`server/tls/*.crt` and `agent/*.crt` below RKE2's data directory, and those in `server/tls/etcd`, `server/tls/kube-controller-manager` and `server/tls/kube-scheduler`: days until they expire",
        fall: 1,
        ..WANTED
    },
    Builtin {
        name: "clock",
        phase: Phase::Network,
        code: Code::ClockNotSynchronised,
        roles: ANY,
        asks: "timedate1 over D-Bus: `NTPSynchronized`",
        ..WANTED
    },
    Builtin {
        name: "disk-space",
        period: 30,
        phase: Phase::Node,
        code: Code::DiskLow,
        // RKE2's kubelet evicts pods at 5.
        limit: Some(ProbeLimit::FreePercent(10)),
        roles: ANY,
        asks: "free space where RKE2, etcd and images live",
        ..WANTED
    },
    Builtin {
        name: "disk-inodes",
        period: 30,
        phase: Phase::Node,
        code: Code::InodesLow,
        limit: Some(ProbeLimit::InodesPercent(5)),
        roles: ANY,
        asks: "free inodes in the same places",
        ..WANTED
    },
    Builtin {
        name: "memory",
        phase: Phase::Node,
        code: Code::MemoryLow,
        limit: Some(ProbeLimit::FreePercent(5)),
        roles: ANY,
        asks: "available memory",
        ..WANTED
    },
    Builtin {
        name: "load",
        phase: Phase::Node,
        code: Code::LoadHigh,
        limit: Some(ProbeLimit::LoadPerCore(400)),
        roles: ANY,
        asks: "the load of the last 15 minutes, by core",
        ..WANTED
    },
    Builtin {
        name: "temperature",
        phase: Phase::Node,
        code: Code::TemperatureHigh,
        limit: Some(ProbeLimit::Degrees(5)),
        roles: ANY,
        asks: "the sensors: how far is each from what it calls critical?",
        ..WANTED
    },
    Builtin {
        name: "link-errors",
        phase: Phase::Network,
        code: Code::LinkErrors,
        limit: Some(ProbeLimit::ErrorsPerMillion(100)),
        roles: ANY,
        asks: "`/sys/class/net/*/statistics`: how many packets are lost to errors since the last look?",
        ..WANTED
    },
    Builtin {
        name: "hardware",
        period: 300,
        phase: Phase::Node,
        code: Code::HardwareChanged,
        roles: ANY,
        asks: "processors, memory modules, disks and links: are all of them still present, and as fast as before?",
        fall: 1,
        ..WANTED
    },
];

/// The probe whose check also answers this one.
pub fn question_of(probe: &str) -> &str {
    match probe {
        "etcd-member" | "node-conditions" | "virt-handler" => "node",
        "longhorn-disks" => "longhorn-node",
        own => own,
    }
}

/// The built-in probe for a node with this role and platform.
pub fn builtin(name: &str, role: NodeRole, platform: Option<Platform>) -> Option<&'static Builtin> {
    BUILTIN
        .iter()
        .find(|row| row.name == name && ProbeSpec::applies(row.roles, row.platform, role, platform))
}

pub fn specs(role: NodeRole, platform: Option<Platform>) -> Vec<ProbeSpec> {
    BUILTIN
        .iter()
        .filter(|row| ProbeSpec::applies(row.roles, row.platform, role, platform))
        .map(|row| ProbeSpec {
            id: ProbeId::builtin(row.name),
            period: Duration::from_secs(row.period),
            timeout: Duration::from_secs(row.timeout),
            rise: row.rise,
            fall: row.fall,
            severity: row.severity,
            phase: row.phase,
            code: row.code,
            day_zero: row.day_zero,
            off: None,
            limit: row.limit.map(|limit| limit.to_string()),
        })
        .collect()
}
