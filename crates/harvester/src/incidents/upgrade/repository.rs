//! A node in Post-draining waits for the repository of the upgrade, which is down (harvester#8649, harvester#9597).
//!
//! Up to Harvester v1.6 the repository is a VM, which the node restarts itself. From v1.7 on it is a Deployment with a volume
//! that several pods share (Harvester `pkg/controller/master/upgrade/upgrade_repo.go`). Both have the same name.
//!
//! ```text
//!   Deployment ──> Pod ──> ShareManager: address of the share ──> Volume: attached ──> Engine ──> Replicas
//! ```
//!
//! The reason is the first object from the left with a known fault that is not just a consequence of another fault. If a volume
//! stays attaching, deleting its replica on the drained node helps (Harvester's documentation of v1.7, known issue 1;
//! longhorn#12226).

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::object::LabelSelector;
use windrow_model::reasons::Code;

use super::super::finding::IncidentFinding;
use super::{failing, seen_condition, seen_of};
use crate::objects::{ObjectKind, Objects, Unlisted, named, text, texts, waiting};
use crate::upgrade::{HarvesterUpgrade, NodeStage};

/// The Job first waits for the repository.
const PATIENCE: i64 = 15;
/// A repository that moves to another node is back by then.
const DOWN: i64 = 10;
const NAMESPACE: &str = "harvester-system";
const LONGHORN: &str = "longhorn-system";
/// The address that Longhorn writes if the configured network has no address for the share (harvester#10532).
const NO_ADDRESS: &str = "nfs://None/";
const ENDPOINT_NETWORK: &str = "endpoint-network-for-rwx-volume";

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let Some(upgrade) = HarvesterUpgrade::under_way(objects)? else {
        return Ok(Vec::new());
    };
    let mut nodes = upgrade.in_stage(NodeStage::PostDraining);
    let Some(node) = nodes.find(|node| node.is_there_for(PATIENCE, now)) else {
        return Ok(Vec::new());
    };
    let found = match down(objects, upgrade.name(), node.name, now)? {
        Some(finding) => vec![finding.seen(seen_of(&upgrade, node))],
        None => Vec::new(),
    };
    Ok(found)
}

fn down(
    objects: &Objects,
    upgrade: &str,
    drained: &str,
    now: Timestamp,
) -> Result<Option<IncidentFinding>, Unlisted> {
    let name = format!("upgrade-repo-{upgrade}");
    if let Some(deployment) = objects.get(ObjectKind::DEPLOYMENT, NAMESPACE, &name)? {
        let Some(available) = failing(deployment, "Available", DOWN, now) else {
            return Ok(None);
        };
        let subject = format!("Deployment {NAMESPACE}/{name}");
        let mut seen = vec![seen_condition(&subject, available)];
        seen.extend(pods(objects, deployment)?);
        let volume = RepositoryVolume::read(objects, upgrade)?;
        let trouble = match &volume {
            Some(volume) => volume.trouble(objects, drained)?,
            None => None,
        };
        let (why, advice) = match trouble {
            Some(VolumeTrouble { why, advice }) => (why, advice),
            None => (
                seen.last().map(ToString::to_string).unwrap_or_default(),
                None,
            ),
        };
        seen.extend(volume.iter().flat_map(|volume| volume.seen(drained)));
        let mut finding = IncidentFinding::new(Code::UpgradeRepoDown, subject, &why).seen(seen);
        if let Some(advice) = advice {
            finding.advice = advice;
        }
        return Ok(Some(finding));
    }
    if let Some(machine) = objects.get(ObjectKind::VM, NAMESPACE, &name)? {
        let Some(ready) = failing(machine, "Ready", DOWN, now) else {
            return Ok(None);
        };
        let subject = format!("VirtualMachine {NAMESPACE}/{name}");
        let status = text(machine, "/status/printableStatus");
        let why = format!("its status is {status:?}");
        let finding = IncidentFinding::new(Code::UpgradeRepoDown, &subject, &why);
        return Ok(Some(finding.seen([
            Evidence::new(&subject, "status.printableStatus", status),
            seen_condition(&subject, ready),
        ])));
    }
    let subject = format!("Deployment {NAMESPACE}/{name}");
    let why = "neither this Deployment nor a VM of its name exists";
    Ok(Some(IncidentFinding::new(
        Code::UpgradeRepoDown,
        subject,
        why,
    )))
}

/// The waiting reasons of the repository's pods.
fn pods(objects: &Objects, deployment: &Value) -> Result<Vec<Evidence>, Unlisted> {
    let Ok(Some(selector)) = LabelSelector::parse(deployment.pointer("/spec/selector")) else {
        return Ok(Vec::new());
    };
    let pods = objects.all(ObjectKind::POD)?.iter().filter(|pod| {
        text(pod, "/metadata/namespace") == NAMESPACE
            && selector.matches(&texts(pod, "/metadata/labels"))
    });
    let waits = |pod: &Value| {
        let subject = format!("Pod {}", named(pod));
        let phase = text(pod, "/status/phase").to_owned();
        let value = waiting(pod).fold(phase, |said, why| format!("{said}, {why}"));
        Evidence::new(subject, "status", value)
    };
    Ok(pods.map(waits).collect())
}

struct RepositoryVolume<'o> {
    name: &'o str,
    volume: Option<&'o Value>,
    share: Option<&'o Value>,
    engines: Vec<&'o Value>,
    replicas: Vec<&'o Value>,
}

struct VolumeTrouble {
    why: String,
    advice: Option<String>,
}

impl<'o> RepositoryVolume<'o> {
    fn read(objects: &'o Objects, claim: &str) -> Result<Option<Self>, Unlisted> {
        let Some(claim) = objects.get(ObjectKind::CLAIM, NAMESPACE, claim)? else {
            return Ok(None);
        };
        let name = text(claim, "/spec/volumeName");
        let own = |kind| -> Result<Vec<&Value>, Unlisted> {
            let all = objects.all(kind)?.iter();
            Ok(all
                .filter(|one| text(one, "/spec/volumeName") == name)
                .collect())
        };
        Ok(Some(Self {
            name,
            volume: objects.get(ObjectKind::LONGHORN_VOLUME, LONGHORN, name)?,
            share: objects.get(ObjectKind::SHARE_MANAGER, LONGHORN, name)?,
            engines: own(ObjectKind::LONGHORN_ENGINE)?,
            replicas: own(ObjectKind::LONGHORN_REPLICA)?,
        }))
    }

    fn state(&self) -> &'o str {
        self.volume
            .map_or("", |volume| text(volume, "/status/state"))
    }

    fn endpoint(&self) -> &'o str {
        self.share
            .map_or("", |share| text(share, "/status/endpoint"))
    }

    /// The first fault that the others depend on.
    fn trouble(&self, objects: &Objects, drained: &str) -> Result<Option<VolumeTrouble>, Unlisted> {
        let name = self.name;
        if self.endpoint().starts_with(NO_ADDRESS) {
            let setting = objects.get(ObjectKind::LONGHORN_SETTING, LONGHORN, ENDPOINT_NETWORK)?;
            let setting = setting.map_or("absent", |setting| match text(setting, "/value") {
                "" => "empty",
                value => value,
            });
            return Ok(Some(VolumeTrouble {
                why: format!(
                    "ShareManager {LONGHORN}/{name} serves its volume at `{}`, which is not a valid address; Longhorn's setting \
                     {ENDPOINT_NETWORK} is {setting}",
                    self.endpoint()
                ),
                advice: Some(endpoint_advice(name)),
            }));
        }
        if self.state() == "attaching" {
            return Ok(Some(VolumeTrouble {
                why: format!("Volume {LONGHORN}/{name} stays attaching"),
                advice: self.replica_advice(drained),
            }));
        }
        let share = self.share.map(|share| text(share, "/status/state"));
        let engine = self.engines.iter();
        let stopped = engine.map(|one| (named(one), text(one, "/status/currentState")));
        let stopped = stopped.into_iter().find(|(_, state)| *state != "running");
        let why = match (self.state(), share, stopped) {
            ("" | "attached", Some("running") | None, None) => return Ok(None),
            ("" | "attached", Some("running") | None, Some((engine, state))) => {
                format!("Engine {engine} is `{state}`")
            }
            ("" | "attached", Some(state), _) => {
                format!("ShareManager {LONGHORN}/{name} is `{state}`")
            }
            (state, _, _) => format!("Volume {LONGHORN}/{name} is `{state}`"),
        };
        Ok(Some(VolumeTrouble { why, advice: None }))
    }

    /// The replica to delete, which is never the last good one.
    fn replica_advice(&self, drained: &str) -> Option<String> {
        let on = |one: &&&Value| text(one, "/spec/nodeID") == drained;
        let is_good = |one: &&Value| {
            !text(one, "/spec/healthyAt").is_empty() && text(one, "/spec/failedAt").is_empty()
        };
        let there = self.replicas.iter().find(on)?;
        let others = self.replicas.iter().filter(|one| !on(one));
        let is_kept = others.copied().filter(|one| is_good(one)).count() > 0;
        let replica = named(there);
        Some(match is_kept {
            true => format!(
                "Delete Longhorn's Replica {replica}, which is on the drained node; the volume has a \
                 good one elsewhere and then attaches. It may happen again on the next node."
            ),
            false => format!(
                "Do not delete Replica {replica} on the drained node: Windrow knows no other good one. Look at the \
                 volume in Longhorn's console."
            ),
        })
    }

    fn seen(&self, drained: &str) -> Vec<Evidence> {
        let state = |kind: &str, object: &Value, field: &str| {
            let pointer = format!("/{}", field.replace('.', "/"));
            Evidence::new(
                format!("{kind} {}", named(object)),
                field,
                text(object, &pointer),
            )
        };
        let mut seen = Vec::new();
        seen.extend(self.volume.map(|one| state("Volume", one, "status.state")));
        if let Some(share) = self.share {
            seen.push(state("ShareManager", share, "status.state"));
            if !self.endpoint().is_empty() {
                seen.push(state("ShareManager", share, "status.endpoint"));
            }
        }
        let engines = self.engines.iter();
        seen.extend(engines.map(|one| state("Engine", one, "status.currentState")));
        let there = self.replicas.iter();
        let there = there.filter(|one| text(one, "/spec/nodeID") == drained);
        seen.extend(there.map(|one| {
            let said = format!("{drained}, {}", text(one, "/status/currentState"));
            Evidence::new(format!("Replica {}", named(one)), "spec.nodeID", said)
        }));
        seen
    }
}

/// Harvester's documentation of the upgrade from v1.7 to v1.8, known issue 2.
fn endpoint_advice(volume: &str) -> String {
    let first = format!(
        "Give Longhorn's setting {ENDPOINT_NETWORK} the storage network's NetworkAttachmentDefinition again, and delete pod \
         {LONGHORN}/share-manager-{volume}."
    );
    let then = "Take the annotation rwx-network.settings.harvesterhci.io/initialized off Harvester's Setting rwx-network, so that \
                it is not emptied again.";
    format!("{first} {then}")
}
