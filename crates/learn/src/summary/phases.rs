//! The durations of phases: by platform and its version, role, hardware class, and whether the node was installed
//! before. A first server creates the cluster that others join, so their durations of `api` are not compared.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use windrow_plan::knowledge::Seen;
use windrow_plan::readiness::node::NodeRole;
use windrow_plan::rules::Platform;

use super::versions::{Numbers, VersionSpan, numbers};
use super::{PhaseEntry, count, day};
use crate::interval::predict;
use crate::row::{ObservedBoot, ObservedPhase, PhaseName};

/// Nodes of one sort.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Sort {
    phase: PhaseName,
    platform: Platform,
    version: Option<Numbers>,
    /// `None`: for boots without a role.
    role: Option<NodeRole>,
    hardware: Option<String>,
    installed: bool,
}

/// The values of a sort, and the day of the last one.
#[derive(Default)]
struct Values {
    ended: Vec<u64>,
    open: usize,
    last: Option<Date>,
    /// The classes of hardware of these values.
    classes: BTreeSet<Option<String>>,
}

impl Values {
    fn add(&mut self, phase: &ObservedPhase, boot: &ObservedBoot) {
        match phase.open {
            // Its duration is unknown; the beginning counts.
            true => self.open += 1,
            false => {
                self.ended.push(phase.ms);
                self.last = self.last.max(Some(day(boot)));
            }
        }
    }

    /// The values of one known class are no evidence for others.
    fn is_one_known_class(&self) -> bool {
        self.classes.len() == 1 && !self.classes.contains(&None)
    }
}

pub(super) fn phases(boots: &[&ObservedBoot]) -> Vec<PhaseEntry> {
    let mut sorts: BTreeMap<Sort, Values> = BTreeMap::new();
    for boot in boots.iter().filter(|boot| !boot.cut) {
        let Some(platform) = boot.platform else {
            continue;
        };
        for phase in &boot.phases {
            let version = numbers(boot.platform_version());
            // For its class, and for all: a node of another class has no other values.
            let classes = BTreeSet::from([None, boot.hardware.clone()]);
            for class in classes {
                let sort = Sort {
                    phase: phase.phase,
                    platform,
                    version,
                    role: boot.known_role(),
                    hardware: class,
                    installed: boot.installed,
                };
                let values = sorts.entry(sort).or_default();
                values.classes.insert(boot.hardware.clone());
                values.add(phase, boot);
            }
        }
    }
    let sorts = sorts.into_iter();
    sorts
        .filter(|(sort, values)| sort.hardware.is_some() || !values.is_one_known_class())
        .filter_map(|(sort, values)| {
            Some(PhaseEntry {
                phase: sort.phase.0,
                platform: sort.platform,
                versions: VersionSpan::only(sort.version),
                role: sort.role,
                hardware: sort.hardware,
                installed: sort.installed,
                times: predict(&values.ended)?,
                seen: Seen {
                    boots: count(values.ended.len()),
                    of: count(values.ended.len() + values.open),
                    last: values.last?,
                },
            })
        })
        .collect()
}
