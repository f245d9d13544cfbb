//! Detects known incidents from the objects of a cluster. Pure.
//!
//! ```text
//!   Objects (live, or saved) ──> one detector per incident ──> Finding { evidence, proof, cure }
//!                                     └─ a required kind could not be listed ──> Unknown, with the reason
//! ```
//!
//! A finding rests only on observations: its evidence gives the object, the field and its value, and its proof explains why the
//! state persists. A slow operation is not a finding. A cure is a value ([`Cure`]), which other code prints, saves and runs.

mod addon;
mod bootstrap;
mod cure;
mod drain;
mod finding;
mod helm;
mod machines;
mod own;
mod platform;
mod rancher;
mod release;
mod relied_on;
mod site;
mod storage;
mod storm;
mod symptoms;
mod upgrade;
mod vip;

pub use bootstrap::{ServerStarts, WebhookBreaks, webhook_panic};
pub use cure::{
    Cure, CureGoal, CureMethod, CureRequest, CureStep, FieldValue, ObjectChange, RequestState,
    SavedObject, TemporaryField, TemporaryKind, WayBack,
};
pub use finding::{DetectorId, DetectorResult, Diagnosis, IncidentFinding};
pub use own::{GateRefused, OwnManifest, OwnNode, UnfinishedRepair, add_own};
pub use site::{kinds_of, look_by_rules, rules_for};
pub use symptoms::unread_kinds;

use std::collections::BTreeMap;

use jiff::Timestamp;
use windrow_model::manifest::GroupKind;
use windrow_model::reasons::Code;

use self::relied_on::{ReliedOn, withdraw_unconfirmed};
use super::objects::{ObjectKind, Objects, Unlisted};
use super::upgrade::{HarvesterUpgrade, plan_in_a_line, plans_under_way};

/// A detector of incidents: where it looks, and what it can offer.
struct Detector {
    /// Identifies it on all servers of a cluster. Never changes.
    id: &'static str,
    /// What it looks for.
    name: &'static str,
    find: Find,
    /// The code of its findings, if there is a cure for them.
    cures: Option<Code>,
    relies_on: &'static [ReliedOn],
}

enum Find {
    /// In the objects of a cluster.
    Cluster(fn(&Objects, Timestamp) -> Found),
    /// On this node.
    Node(fn(&OwnNode, &Objects, Timestamp) -> Found),
    /// In the links and neighbours of this node.
    Network(fn(&OwnNode, &Objects, Timestamp) -> Found),
}

type Found = Result<Vec<IncidentFinding>, Unlisted>;

impl Detector {
    const fn new(
        id: &'static str,
        name: &'static str,
        find: fn(&Objects, Timestamp) -> Found,
    ) -> Self {
        Self::by(id, name, Find::Cluster(find))
    }

    const fn by(id: &'static str, name: &'static str, find: Find) -> Self {
        Self {
            id,
            name,
            find,
            cures: None,
            relies_on: &[],
        }
    }

    /// Adds a cure, and the components whose versions must be confirmed for it.
    const fn that_cures(self, code: Code, relies_on: &'static [ReliedOn]) -> Self {
        Self {
            cures: Some(code),
            relies_on,
            ..self
        }
    }

    /// Every cure in the result relies only on confirmed versions. No result if it does not look at what was observed.
    fn look(
        &self,
        own: Option<&OwnNode>,
        objects: &Objects,
        now: Timestamp,
    ) -> Option<DetectorResult> {
        let found = match (&self.find, own) {
            (Find::Cluster(find), None) => find(objects, now)
                .and_then(|found| withdraw_unconfirmed(found, objects, self.relies_on)),
            (Find::Node(find), Some(own)) => find(own, objects, now),
            (Find::Network(find), Some(own)) if !own.network.is_empty() => find(own, objects, now),
            _ => return None,
        };
        Some(DetectorResult {
            id: DetectorId::new(self.id),
            found,
        })
    }
}

const OF_CLUSTER: &[Detector] = &[
    Detector::new("addons", "Harvester's add-ons", addon::find)
        .that_cures(Code::AddonStuck, addon::RELIES_ON),
    Detector::new("addon-leftovers", "leftovers of an Addon", release::find),
    Detector::new(
        "upgrade-plan",
        "an upgrade by an UpgradePlan",
        unknown_upgrades,
    ),
    Detector::new("drain", "an upgrade stuck in Pre-drained", drain::find).that_cures(
        Code::DrainBlocked,
        &[
            ReliedOn::Harvester,
            ReliedOn::Rancher,
            ReliedOn::Fleet,
            ReliedOn::KubeVirt,
        ],
    ),
    Detector::new(
        "vms-block-settings",
        "VMs that keep Harvester from its settings",
        machines::find,
    )
    .that_cures(
        Code::MachinesBlockSettings,
        &[ReliedOn::Harvester, ReliedOn::KubeVirt],
    ),
    Detector::new("node-driver", "Rancher's node driver", rancher::find)
        .that_cures(Code::DriverWithoutFeature, &[ReliedOn::Rancher]),
    Detector::new(
        "storage-network",
        "a storage network that waits",
        storage::find,
    ),
    Detector::new("chart-retries", "charts that keep failing", helm::find),
    Detector::new(
        "apply-storm",
        "RKE2 applying everything again and again",
        storm::find,
    ),
    Detector::new(
        "node-driver-in-use",
        "a node driver that is off and in use",
        rancher::find_users,
    ),
    Detector::new(
        "managed-charts",
        "charts of Harvester that are not Ready",
        platform::charts::find,
    ),
    Detector::new(
        "platform-images",
        "missing images of platform pods",
        platform::images::find,
    ),
    Detector::new(
        "kubevirt",
        "KubeVirt that is not available",
        platform::kubevirt::find,
    ),
    Detector::new(
        "helm-half-way",
        "Helm releases left in the middle of a change",
        platform::half_way::find,
    ),
    Detector::new(
        "platform-pods-terminating",
        "platform pods that do not end",
        platform::terminating::find,
    ),
    Detector::new(
        "platform-pods-pending",
        "platform pods that no node takes",
        platform::pending::find,
    ),
    Detector::new(
        "node-versions",
        "nodes of different versions",
        platform::versions::find,
    ),
    Detector::new(
        "promotion",
        "agents that Harvester does not promote",
        platform::promotion::find,
    ),
];

/// Incidents that only a command looks for, because it reads all pods and their Events.
const OF_COMMANDS: &[Detector] = &[Detector::new(
    "pod-addresses",
    "nodes without an address for pods",
    platform::pod_addresses::find,
)];

fn detectors() -> impl Iterator<Item = &'static Detector> {
    OF_CLUSTER
        .iter()
        .chain(upgrade::DETECTORS)
        .chain(own::DETECTORS)
}

/// The detectors for a command only.
fn detectors_of_commands() -> impl Iterator<Item = &'static Detector> {
    OF_COMMANDS.iter().chain(symptoms::DETECTORS)
}

/// The symptoms in kinds that Windrow never requests, and that saved lists may contain.
pub fn look_at_saved(objects: &Objects, now: Timestamp) -> Vec<DetectorResult> {
    let detectors = symptoms::OF_SAVED.iter();
    detectors
        .filter_map(|one| one.look(None, objects, now))
        .collect()
}

/// Kinds whose absence from saved lists makes no verdict unknown: the lists of the documentation did not have them before. It is said.
const OPTIONAL_KINDS: [ObjectKind; 3] = [
    ObjectKind::DAEMON_SET,
    ObjectKind::STATEFUL_SET,
    ObjectKind::SERVICE,
];

/// Runs every detector of the cluster separately. A detector reads a kind only if earlier observations give it a reason, so a
/// healthy cluster causes few requests.
pub fn look(objects: &Objects, now: Timestamp) -> Vec<DetectorResult> {
    detectors()
        .filter_map(|one| one.look(None, objects, now))
        .collect()
}

/// As [`look`], with the detectors for a command: the symptoms, and the incidents that are only found among all pods.
pub fn look_for_symptoms(objects: &Objects, now: Timestamp) -> Vec<DetectorResult> {
    let more = detectors_of_commands().filter_map(|one| one.look(None, objects, now));
    look(objects, now).into_iter().chain(more).collect()
}

/// Runs the detectors for this node. Detectors of the network are left out if it was not observed.
pub fn look_at_own(own: &OwnNode, objects: &Objects, now: Timestamp) -> Vec<DetectorResult> {
    detectors()
        .filter_map(|one| one.look(Some(own), objects, now))
        .collect()
}

/// The findings with a code that has a cure.
///
/// # Errors
///
/// The missing observations, if there is no result.
pub fn found_of(looked: &[DetectorResult], code: Code) -> Result<Vec<&IncidentFinding>, String> {
    let detector = detectors().find(|one| one.cures == Some(code));
    let result = looked
        .iter()
        .find(|result| detector.is_some_and(|one| result.id == DetectorId::new(one.id)));
    match result.map(|result| &result.found) {
        Some(Ok(found)) => Ok(found.iter().filter(|one| one.code == code).collect()),
        Some(Err(unlisted)) => Err(unlisted.to_string()),
        None => Err("nobody looked".to_owned()),
    }
}

/// How often one reason for a request may lead to another one. A drain check alone reads twelve kinds.
pub const MOST_ROUNDS: usize = 16;

/// The kinds that detectors still require.
pub fn wanted(looked: &[DetectorResult]) -> Vec<ObjectKind> {
    let unlisted = looked.iter().filter_map(|one| one.found.as_ref().err());
    let names: Vec<_> = unlisted
        .filter(|unlisted| unlisted.wanted)
        .map(|unlisted| &unlisted.kind)
        .collect();
    ObjectKind::ALL
        .iter()
        .filter(|kind| names.contains(&&kind.group_kind()))
        .copied()
        .collect()
}

pub fn diagnose(objects: &Objects, now: Timestamp) -> Diagnosis {
    Diagnosis {
        upgrade: upgrade_in_words(objects, now),
        ..summed_up(look_for_symptoms(objects, now), now)
    }
}

/// The running upgrade in words. Empty if there is none, or if that is unknown, which the results of the detectors show.
pub fn upgrade_in_words(objects: &Objects, now: Timestamp) -> Vec<String> {
    let upgrade = HarvesterUpgrade::under_way(objects).ok().flatten();
    let mut lines = upgrade
        .as_ref()
        .map_or(Vec::new(), |upgrade| upgrade.in_lines(now));
    if upgrade.is_some_and(|upgrade| upgrade.waits_for_rancher()) {
        let said = upgrade::rancher_waits(objects).unwrap_or_default();
        lines.extend(said.iter().map(|said| format!("  Rancher says: {said}")));
    }
    let plans = objects.all(ObjectKind::UPGRADE_PLAN).unwrap_or_default();
    lines.extend(plans_under_way(plans).map(plan_in_a_line));
    lines
}

/// No detector judges what an UpgradePlan waits for: the detectors follow the sources of the earlier kind Upgrade.
fn unknown_upgrades(objects: &Objects, _: Timestamp) -> Found {
    let plans = objects.all(ObjectKind::UPGRADE_PLAN)?;
    match plans_under_way(plans).next() {
        None => Ok(Vec::new()),
        Some(plan) => Err(Unlisted {
            kind: ObjectKind::UPGRADE_PLAN.group_kind(),
            why: plan_in_a_line(plan),
            wanted: false,
        }),
    }
}

pub fn summed_up(looked: Vec<DetectorResult>, now: Timestamp) -> Diagnosis {
    let (mut causes, mut symptoms) = (Vec::new(), Vec::new());
    let (mut judged, mut unknown) = (Vec::new(), Vec::new());
    // The number of checks, and whether no verdict needs them.
    let mut absent: BTreeMap<GroupKind, (usize, bool)> = BTreeMap::new();
    for DetectorResult { id, found } in looked {
        match found {
            Ok(found) => {
                let kind = if id.is_of_symptoms() {
                    &mut symptoms
                } else {
                    &mut causes
                };
                kind.extend(found);
                judged.push(id.title().to_owned());
            }
            Err(unlisted) if unlisted.is_not_in_input() => {
                let is_optional = symptoms::is_optional(&id.0)
                    || OPTIONAL_KINDS
                        .iter()
                        .any(|kind| kind.group_kind() == unlisted.kind);
                let (checks, are_optional) = absent.entry(unlisted.kind).or_insert((0, true));
                *checks += 1;
                *are_optional &= is_optional;
            }
            Err(unlisted) => unknown.push(format!("{}: {unlisted}", id.title())),
        }
    }
    let mut skipped = Vec::new();
    for (kind, (checks, is_optional)) in absent {
        let counted = if checks == 1 {
            "1 check".to_owned()
        } else {
            format!("{checks} checks")
        };
        let line = format!("{counted} skipped: {kind} is not in the input");
        if is_optional {
            &mut skipped
        } else {
            &mut unknown
        }
        .push(line);
    }
    let findings = symptoms::explain(causes, symptoms);
    Diagnosis {
        skipped,
        ..Diagnosis::new(now, findings, judged, unknown)
    }
}

#[cfg(test)]
mod tests;
