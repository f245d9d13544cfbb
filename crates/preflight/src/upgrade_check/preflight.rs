//! The checks of Harvester's webhook, except those for machines, volumes and space.

use serde_json::Value;
use windrow_harvester::addons::is_settled;
use windrow_harvester::objects::{Condition, ObjectKind, named, text, texts};
use windrow_harvester::versions::HarvesterVersions;
use windrow_harvester::{HarvesterVersion, ReleaseStage};
use windrow_model::findings::Evidence;

use super::{CheckFacts, CheckResult, Cluster, NoFacts};

const NAMESPACE: &str = "harvester-system";
const FLEET: &str = "fleet-local";
const STATE: &str = "harvesterhci.io/upgradeState";
const CLEANUP: &str = "harvesterhci.io/upgradeCleanup";

pub(super) fn version(cluster: &Cluster<'_>) -> CheckResult {
    let Some(to) = cluster.to else {
        return Err(NO_TARGET);
    };
    let name = format!("v{to}");
    let found = cluster.objects.get(ObjectKind::VERSION, NAMESPACE, &name)?;
    let mut facts = CheckFacts::default();
    if found.is_none() {
        facts.add(
            format!("Version {NAMESPACE}/{name}"),
            "metadata",
            "it does not exist",
        );
    }
    Ok(facts)
}

pub(super) const NO_TARGET: NoFacts =
    NoFacts::NotChecked("no release to upgrade to was named: --harvester");

pub(super) fn upgrades(cluster: &Cluster<'_>) -> CheckResult {
    let all = own(cluster, ObjectKind::UPGRADE, NAMESPACE)?;
    // One without the label counts as under way.
    let under_way = all.filter_map(|upgrade| {
        let state = label(upgrade, STATE).unwrap_or_default();
        let state = match state.as_str() {
            "Succeeded" | "Failed" => return None,
            "" => "absent",
            state => state,
        };
        Some(seen_in(
            "Upgrade",
            upgrade,
            &format!("metadata.labels[{STATE}]"),
            state,
        ))
    });
    Ok(under_way.collect())
}

pub(super) fn cleanup(cluster: &Cluster<'_>) -> CheckResult {
    let all = own(cluster, ObjectKind::UPGRADE, NAMESPACE)?;
    let pending = all.filter(|upgrade| label(upgrade, CLEANUP).as_deref() == Some("Pending"));
    let field = format!("metadata.labels[{CLEANUP}]");
    Ok(pending
        .map(|upgrade| seen_in("Upgrade", upgrade, &field, "Pending"))
        .collect())
}

pub(super) fn cluster(cluster: &Cluster<'_>) -> CheckResult {
    let found = cluster
        .objects
        .get(ObjectKind::CAPI_CLUSTER, FLEET, "local")?;
    let mut facts = CheckFacts::default();
    match found.map(|found| text(found, "/status/phase")) {
        Some("Provisioned") => {}
        Some(phase) => facts.add(
            "Cluster fleet-local/local",
            "status.phase",
            or_absent(phase),
        ),
        None => facts.add("Cluster fleet-local/local", "metadata", "it does not exist"),
    }
    Ok(facts)
}

/// A backup is under way if it has neither failed nor become ready (`pkg/controller/master/backup/util.go` IsBackupProgressing).
pub(super) fn backups(cluster: &Cluster<'_>) -> CheckResult {
    let all = cluster.all(ObjectKind::VM_BACKUP)?.iter();
    let under_way = all.filter(|backup| {
        let failed = backup
            .pointer("/status/error")
            .is_some_and(|error| !error.is_null());
        !failed && !is(backup, "/status/readyToUse")
    });
    Ok(under_way
        .map(|backup| {
            seen_in(
                "VirtualMachineBackup",
                backup,
                "status.readyToUse",
                "not true",
            )
        })
        .collect())
}

pub(super) fn schedules(cluster: &Cluster<'_>) -> CheckResult {
    let all = cluster.all(ObjectKind::SCHEDULE_VM_BACKUP)?.iter();
    let active = all.filter(|schedule| !is(schedule, "/status/suspended"));
    Ok(active
        .map(|schedule| seen_in("ScheduleVMBackup", schedule, "status.suspended", "not true"))
        .collect())
}

pub(super) fn charts(cluster: &Cluster<'_>) -> CheckResult {
    let all = own(cluster, ObjectKind::MANAGED_CHART, FLEET)?;
    Ok(all
        .filter_map(|chart| {
            // A chart without the condition passes.
            let ready = Condition::of(chart, "Ready")?;
            let said = match ready.message {
                "" => ready.status,
                message => message,
            };
            (!ready.is_true())
                .then(|| seen_in("ManagedChart", chart, "status.conditions[Ready]", said))
        })
        .collect())
}

pub(super) fn addons(cluster: &Cluster<'_>) -> CheckResult {
    let all = cluster.all(ObjectKind::ADDON)?.iter();
    let unsettled = all.filter(|addon| !is_settled(addon));
    Ok(unsettled
        .map(|addon| {
            let enabled = if is(addon, "/spec/enabled") {
                "enabled"
            } else {
                "disabled"
            };
            let status = or_absent(text(addon, "/status/status"));
            seen_in(
                "Addon",
                addon,
                "status.status",
                &format!("{status}, and it is {enabled}"),
            )
        })
        .collect())
}

pub(super) fn nodes(cluster: &Cluster<'_>) -> CheckResult {
    let mut facts = CheckFacts::default();
    for node in cluster.nodes()? {
        let subject = format!("Node {}", named(node));
        // A node without the condition passes.
        if let Some(ready) = Condition::of(node, "Ready")
            && !ready.is_true()
        {
            facts.add(&subject, "status.conditions[Ready]", ready.status);
        }
        if is(node, "/spec/unschedulable") {
            facts.add(&subject, "spec.unschedulable", "true");
        }
    }
    Ok(facts)
}

/// Harvester itself checks this when the new release's repository is there, and fails the upgrade
/// (`pkg/upgradehelper/versionguard`; harvester/go-common `version/upgrade.go` CheckUpgradeEligibility).
pub(super) fn path(cluster: &Cluster<'_>) -> CheckResult {
    let to = cluster.to.ok_or(NO_TARGET)?;
    let unknown = |why: String| Err(NoFacts::Unknown(why));
    let Some(from) = cluster.from else {
        return unknown("which release runs is not known".to_owned());
    };
    let mut facts = CheckFacts::default();
    let minors = |one: HarvesterVersion| (one.major, one.minor);
    let subject = format!("Harvester v{from}");
    if to < from {
        facts.add(subject, "upgrade", format!("v{to} is older"));
    } else if from.stage != ReleaseStage::Release && from.release() != to.release() {
        let own = from.release();
        let said = format!("a candidate is upgraded to v{own} or a later candidate of it only");
        facts.add(subject, "upgrade", said);
    } else if minors(to) > (from.major, from.minor + 1) {
        facts.add(
            subject,
            "upgrade",
            format!("v{to} is more than one minor release away"),
        );
    } else {
        let release = HarvesterVersions::shipped().release(to);
        match release.and_then(|release| release.upgradable_from) {
            Some(oldest) if from < oldest => {
                facts.add(
                    subject,
                    "upgrade",
                    format!("v{to} asks for v{oldest} or newer"),
                );
            }
            Some(_) => {}
            None => return unknown(format!("what v{to} can be upgraded from was not read")),
        }
    }
    Ok(facts)
}

fn own<'o>(
    cluster: &Cluster<'o>,
    kind: ObjectKind,
    namespace: &'static str,
) -> Result<impl Iterator<Item = &'o Value>, NoFacts> {
    let all = cluster.all(kind)?.iter();
    Ok(all.filter(move |object| text(object, "/metadata/namespace") == namespace))
}

fn label(object: &Value, key: &str) -> Option<String> {
    texts(object, "/metadata/labels").remove(key)
}

pub(super) fn is(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool) == Some(true)
}

pub(super) fn seen_in(kind: &str, object: &Value, field: &str, value: &str) -> Evidence {
    Evidence::new(format!("{kind} {}", named(object)), field, value)
}

pub(super) fn or_absent(text: &str) -> &str {
    match text {
        "" => "absent",
        text => text,
    }
}
