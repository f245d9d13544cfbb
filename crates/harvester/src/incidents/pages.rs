//! The pages and cures of incidents.

use windrow_model::reasons::Code;

/// The incident codes for which Windrow has a cure, at least in some circumstances.
pub const CURABLE: &[Code] = &[
    Code::AddonStuck,
    Code::DrainBlocked,
    Code::DriverWithoutFeature,
    Code::EngineStale,
    Code::PlanStuck,
    Code::MachinesBlockSettings,
];

/// The page below `docs/` for a finding.
pub fn page(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::AddonStuck
        | Code::AddonFailed
        | Code::AddonImageMissing
        | Code::ReleaseLeft
        | Code::AddonControllerDown => "incidents/addon.md",
        Code::DrainBlocked => "incidents/drain.md",
        Code::MachinesBlockSettings => "incidents/machines.md",
        Code::DriverWithoutFeature | Code::DriverInUse => "incidents/rancher-driver.md",
        Code::ChartModified
        | Code::ChartPaused
        | Code::ManagedChartNotReady
        | Code::PlatformImageMissing
        | Code::PlatformPodPending
        | Code::PlatformPodTerminating
        | Code::KubevirtNotReady
        | Code::ReleaseHalfWay
        | Code::MixedVersions
        | Code::NotPromoted => "incidents/platform.md",
        Code::RancherWebhookPanics | Code::Rke2BootstrapLoop => "incidents/bootstrap.md",
        Code::StorageNetworkWaits => "incidents/storage-network.md",
        Code::ChartRetries => "incidents/chart.md",
        Code::ApplyStorm => "incidents/apply-storm.md",
        Code::RuleFinding | Code::RepairUnfinished => "incidents/README.md",
        Code::DhcpClash
        | Code::KubeletCredentialExpired
        | Code::NodeNameChanges
        | Code::GateFatal
        | Code::WriteFilesMissing => "incidents/node.md",
        Code::VipConflict | Code::VipStaleLink => "incidents/vip.md",
        Code::AddonCollision | Code::ManifestDiffers => "incidents/manifest-names.md",
        Code::PlanStuck
        | Code::MachineMissing
        | Code::NodeNotUpgraded
        | Code::PreDrainWaits
        | Code::EngineStale
        | Code::EtcdLearner
        | Code::UpgradeRepoDown
        | Code::RebootWaits
        | Code::UpgradeStalled
        | Code::UpgradeFailed => "incidents/upgrade.md",
        _ => return None,
    })
}
