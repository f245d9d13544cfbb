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
mod rancher;
mod storage;
mod storm;

pub use cure::{Cure, Goal, Method, Request, Saved, Step};
pub use finding::{Diagnosis, Evidence, Finding, diagnosis_schema};

use jiff::Timestamp;

use super::objects::{Kind, Objects, Unlisted};
use crate::reasons::Code;

/// One kind of incident.
struct Incident {
    /// What it is called where it cannot be judged.
    name: &'static str,
    /// The kinds without which it cannot be judged.
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
        _ => return None,
    })
}

/// Everything that a diagnosis looks at.
pub fn kinds() -> Vec<Kind> {
    let mut kinds: Vec<Kind> = super::drain::KINDS.to_vec();
    for kind in INCIDENTS.iter().flat_map(|incident| incident.looks_at) {
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    kinds
}

/// Looks for every known incident.
pub fn diagnose(objects: &Objects, now: Timestamp) -> Diagnosis {
    let mut findings = Vec::new();
    let mut unknown = Vec::new();
    for incident in INCIDENTS {
        let unlisted = incident
            .looks_at
            .iter()
            .find_map(|kind| objects.all(*kind).err());
        let found = match unlisted {
            Some(unlisted) => Err(unlisted),
            None => (incident.find)(objects, now),
        };
        match found {
            Ok(found) => findings.extend(found),
            Err(unlisted) => unknown.push(format!("{}: {unlisted}", incident.name)),
        }
    }
    Diagnosis::of(now, findings, unknown)
}

#[cfg(test)]
mod tests;
