//! The known incidents, recognised from a cluster's objects. Pure.
//!
//! ```text
//!   Objects (live, or saved) ──> one detector an incident ──> Finding { evidence, proof, cure }
//!                                     └─ a kind it needs could not be listed ──> Unknown, with the reason
//! ```
//!
//! A finding is made only of what was seen: its evidence names the object, the field and what stands
//! there, its proof says why nothing will change by itself. What is merely slow is no finding. A cure is
//! a value ([`Cure`]): it is printed, saved and carried out elsewhere.

mod addon;
mod cure;
mod drain;
mod finding;
mod helm;
mod machines;
mod own;
mod rancher;
mod site;
mod storage;
mod storm;

pub use cure::{Cure, Goal, Method, Request, Saved, Step};
pub use finding::{Diagnosis, Evidence, Finding, diagnosis_schema};
pub use own::{GateRefused, OwnManifest, OwnNode, look_at_own};
pub use site::{kinds_of, look_by_rules, rules_for};

use jiff::Timestamp;
use windrow_model::reasons::Code;

use super::objects::{Kind, Objects, Unlisted};

/// One kind of incident.
struct Incident {
    /// What it is called where it cannot be judged.
    name: &'static str,
    /// The kinds that it is judged by.
    looks_at: &'static [Kind],
    find: fn(&Objects, Timestamp) -> Result<Vec<Finding>, Unlisted>,
}

const INCIDENTS: &[Incident] = &[
    Incident {
        name: "Harvester's add-ons",
        looks_at: &[Kind::ADDON, Kind::HELM_CHART, Kind::JOB, Kind::POD],
        find: addon::find,
    },
    Incident {
        name: "an upgrade stuck in Pre-drained",
        looks_at: &[
            Kind::UPGRADE,
            Kind::NODE,
            Kind::POD,
            Kind::BUDGET,
            Kind::JOB,
        ],
        find: drain::find,
    },
    Incident {
        name: "machines that keep Harvester from its settings",
        looks_at: &[Kind::SETTING, Kind::POD, Kind::VM],
        find: machines::find,
    },
    Incident {
        name: "Rancher's node driver",
        looks_at: &[Kind::FEATURE, Kind::NODE_DRIVER],
        find: rancher::find,
    },
    Incident {
        name: "a storage network that waits",
        looks_at: &[Kind::SETTING, Kind::LONGHORN_VOLUME],
        find: storage::find,
    },
    Incident {
        name: "charts that fail again and again",
        looks_at: &[Kind::HELM_CHART, Kind::JOB, Kind::POD],
        find: helm::find,
    },
    Incident {
        name: "RKE2 applying everything anew",
        looks_at: &[Kind::EVENT],
        find: storm::find,
    },
];

/// The codes of incidents that Windrow has a cure for, each in its circumstances.
pub const CURABLE: &[Code] = &[
    Code::AddonStuck,
    Code::DrainBlocked,
    Code::MachinesBlockSettings,
];

/// The page below `docs/` that an incident's finding points to.
pub fn page(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::AddonStuck
        | Code::AddonFailed
        | Code::AddonImageMissing
        | Code::AddonControllerDown => "incidents/addon.md",
        Code::DrainBlocked => "incidents/drain.md",
        Code::MachinesBlockSettings => "incidents/machines.md",
        Code::DriverWithoutFeature => "incidents/rancher-driver.md",
        Code::StorageNetworkWaits => "incidents/storage-network.md",
        Code::ChartRetries => "incidents/chart.md",
        Code::ApplyStorm => "incidents/apply-storm.md",
        Code::RuleFinding => "incidents/README.md",
        Code::DhcpClash
        | Code::KubeletCredentialExpired
        | Code::GateFatal
        | Code::WriteFilesMissing => "incidents/node.md",
        Code::AddonCollision | Code::ManifestDiffers => "incidents/manifest-names.md",
        _ => return None,
    })
}

/// Everything that a diagnosis looks at.
pub fn kinds() -> Vec<Kind> {
    let mut kinds: Vec<Kind> = super::drain::KINDS.to_vec();
    let looked_at = INCIDENTS.iter().flat_map(|incident| incident.looks_at);
    for kind in looked_at.chain(own::OWN_KINDS) {
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    kinds
}

/// What came of looking for one incident.
#[derive(Debug, Clone, PartialEq)]
pub struct Looked {
    /// What it is called.
    pub name: String,
    /// What was recognised, or which kind it could not be judged without.
    pub found: Result<Vec<Finding>, Unlisted>,
}

/// Looks for every known incident, each by itself. A detector reads a kind only when what it has seen
/// so far gives it a reason to: of a healthy cluster that is little.
pub fn look(objects: &Objects, now: Timestamp) -> Vec<Looked> {
    INCIDENTS
        .iter()
        .map(|incident| Looked {
            name: incident.name.to_owned(),
            found: (incident.find)(objects, now),
        })
        .collect()
}

/// The kinds that a look still wants.
pub fn wanted(looked: &[Looked]) -> Vec<Kind> {
    let unlisted = looked.iter().filter_map(|one| one.found.as_ref().err());
    let names: Vec<_> = unlisted
        .filter(|unlisted| unlisted.wanted)
        .map(|unlisted| &unlisted.kind)
        .collect();
    Kind::ALL
        .iter()
        .filter(|kind| names.contains(&&kind.group_kind()))
        .copied()
        .collect()
}

/// Looks for every known incident.
pub fn diagnose(objects: &Objects, now: Timestamp) -> Diagnosis {
    summed_up(look(objects, now), now)
}

/// What several looks have found.
pub fn summed_up(looked: Vec<Looked>, now: Timestamp) -> Diagnosis {
    let mut findings = Vec::new();
    let mut unknown = Vec::new();
    for Looked { name, found } in looked {
        match found {
            Ok(found) => findings.extend(found),
            Err(unlisted) => unknown.push(format!("{name}: {unlisted}")),
        }
    }
    Diagnosis::of(now, findings, unknown)
}

#[cfg(test)]
mod tests;
