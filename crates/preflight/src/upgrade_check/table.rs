//! The checks before an upgrade, who makes them, and in which releases. Harvester's rows are in the order of its webhook
//! (`pkg/webhook/resources/upgrade/validator.go`, v1.4.0 to v1.8.2).

use windrow_harvester::objects::ObjectKind;
use windrow_harvester::versions::Fact;
use windrow_model::checks::CheckOutcome::{self, Fail, Warn};
use windrow_model::findings::Evidence;

use super::report::{PREFLIGHT, UPGRADE};
use super::{CheckResult, Cluster, beyond, config, leftovers, machines, preflight, space, storage};

pub(super) struct Row {
    /// A stable name, which users may rely on.
    pub(super) name: &'static str,
    pub(super) section: &'static str,
    /// False if only Windrow makes the check.
    pub(super) by_harvester: bool,
    /// The releases that make it, if not all do.
    pub(super) asked: Option<Fact>,
    pub(super) rule: &'static str,
    /// A part of Harvester's message if the rule does not hold.
    pub(super) says: Option<&'static str>,
    /// A part of its message in place of that one, for problems whose text has these words.
    says_of: &'static [(&'static str, &'static str)],
    /// The outcome if the rule does not hold.
    pub(super) broken: CheckOutcome,
    pub(super) look: fn(&Cluster<'_>) -> CheckResult,
}

const fn webhook(
    name: &'static str,
    asked: Option<Fact>,
    rule: &'static str,
    says: &'static str,
    look: fn(&Cluster<'_>) -> CheckResult,
) -> Row {
    Row {
        name,
        section: PREFLIGHT,
        by_harvester: true,
        asked,
        rule,
        says: Some(says),
        says_of: &[],
        broken: Fail,
        look,
    }
}

const fn beyond(
    name: &'static str,
    broken: CheckOutcome,
    rule: &'static str,
    look: fn(&Cluster<'_>) -> CheckResult,
) -> Row {
    Row {
        name,
        section: UPGRADE,
        by_harvester: false,
        asked: None,
        rule,
        says: None,
        says_of: &[],
        broken,
        look,
    }
}

impl Row {
    const fn but(self, says_of: &'static [(&'static str, &'static str)]) -> Self {
        Self { says_of, ..self }
    }

    /// A part of Harvester's message about this problem, the first that Harvester finds.
    pub(super) fn message(&self, problem: Option<&Evidence>) -> Option<&'static str> {
        let text = problem.map_or(String::new(), ToString::to_string);
        let mut says_of = self.says_of.iter();
        let own = says_of.find(|(words, _)| text.contains(words));
        own.map_or(self.says, |(_, says)| Some(says))
    }
}

/// The kinds for the rows, in addition to those of a diagnosis and a drain check.
pub(super) const KINDS: &[ObjectKind] = &[
    ObjectKind::UPGRADE,
    ObjectKind::VERSION,
    ObjectKind::SETTING,
    ObjectKind::ADDON,
    ObjectKind::VM,
    ObjectKind::VM_BACKUP,
    ObjectKind::SCHEDULE_VM_BACKUP,
    ObjectKind::LONGHORN_VOLUME,
    ObjectKind::LONGHORN_SETTING,
    ObjectKind::MACHINE_PLAN,
    ObjectKind::MANAGED_CHART,
    ObjectKind::CAPI_CLUSTER,
    ObjectKind::CAPI_MACHINE,
];

#[rustfmt::skip]
pub(super) const CHECKS: &[Row] = &[
    webhook("version-exists", None, "the Version to upgrade to exists", "is not found", preflight::version),
    webhook("no-upgrade-under-way", None, "no other Upgrade is under way", "cannot proceed until previous upgrade", preflight::upgrades),
    webhook("cleaned-up", Some(Fact::UpgradeCleanup), "earlier upgrades have been cleaned up after", "completed their cleanup process", preflight::cleanup),
    webhook("volumes-whole", None, "with three nodes or more, no volume is degraded", "there are degraded volumes", storage::degraded),
    webhook("cluster-provisioned", None, "the Cluster fleet-local/local is Provisioned", "please wait for it to be provisioned", preflight::cluster)
        .but(&[("it does not exist", "can't find fleet-local/local cluster")]),
    webhook("no-backup-under-way", None, "no backup of a machine is under way", "until all vmbackups are stopped", preflight::backups),
    webhook("schedules-suspended", None, "every schedule of backups is suspended", "please suspend all backup/snapshot schedule", preflight::schedules),
    webhook("charts-ready", None, "every ManagedChart in fleet-local is ready", "is not ready, please wait for it", preflight::charts),
    webhook("addons-settled", Some(Fact::PreflightAddons), "every Addon is settled", "but still on status", preflight::addons),
    webhook("nodes-ready", None, "every node is Ready and takes pods", "please wait for it to be", preflight::nodes),
    webhook("space-for-images", None, "13 GiB of new images fill no node above 85 %", "storage space after loading new images", space::images)
        .but(&[("annotations[rke2.io", "doesn't have rke2.io/internal-ip annotation")]),
    webhook("space-on-system", Some(Fact::PreflightFreeSpace), "every node has 30 GiB free", "insufficient free system partition space", space::free),
    webhook("machines-running", None, "every Machine in fleet-local is Running", "is not running", machines::running),
    webhook("machines-match", Some(Fact::PreflightMachinesMatch), "each node has its Machine, and each Machine its node", "do not match, check the cluster provision", machines::matching)
        .but(&[
            ("nodeRef", "has empty NodeRef"),
            ("labels", "has no expected label"),
            ("which does not exist", "but the machine does not exist"),
            ("whose node is", "but the machine refers to another node"),
            ("annotations", "has no expected annotation"),
        ]),
    webhook("no-single-replica", None, "no volume has a single replica", "single-replica volume", storage::single_replicas),
    webhook("upgrade-config-read", Some(Fact::PreflightRestoredMachines), "the Setting upgrade-config exists and is a JSON object", "\"upgrade-config\" not found", config::configuration)
        .but(&[("value: ", "unmarshal failed"), ("default: ", "unmarshal failed")]),
    webhook("machines-migrate", None, "every machine that runs can migrate", "non-live migratable VMs", machines::migratable),
    webhook("no-stale-hotplug", Some(Fact::PreflightStaleHotplug), "no hot-plugged volume was left behind", "DeclarativeHotplugVolumes", machines::hotplug),
    webhook("certificates", Some(Fact::PreflightCertificates), "kube-apiserver's certificates are good for seven days", "earliest expiring cert", space::certificates),
    Row {
        name: "version-in-reach",
        section: UPGRADE,
        by_harvester: true,
        asked: None,
        rule: "the release to come takes an upgrade from this one",
        says: None,
        says_of: &[],
        broken: Fail,
        look: preflight::path,
    },
    beyond("drains-finish", Fail, "a drain of each node would finish", beyond::drains),
    beyond("gates", Fail, "the new Kubernetes takes the feature gates that are set", beyond::gates),
    beyond("etcd-votes", Fail, "every server's etcd votes", beyond::voters),
    beyond("no-known-incident", Fail, "`windrow diagnose` finds no error", beyond::incidents),
    beyond("drain-hooks-open", Fail, "no drain of an earlier upgrade answers for that of the next one", leftovers::hooks),
    beyond("system-partition-size", Fail, "the partition COS_STATE has 15 GiB on every node (harvester#10687)", space::system_partitions),
    beyond("room-for-system", Warn, "the partition COS_STATE has room for the image of the new system: 4.5 GiB for v1.8.0 or later, else 3 GiB", space::system_images),
    beyond("no-stale-engine", Warn, "every engine in the list of an instance manager exists", beyond::engines),
    beyond("nothing-left-over", Warn, "nothing is left over from an earlier upgrade", leftovers::leftovers),
];
