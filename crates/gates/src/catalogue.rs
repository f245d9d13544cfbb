//! The state of every feature gate in every covered Kubernetes minor.
//!
//! Pure: converts a text to a table. The text is `catalogue.txt`; its header describes the format. This module makes no
//! claims about a minor that the text does not cover, except those that the text makes explicitly about a later minor.

mod parse;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use windrow_plan::version::{Minor, Version};

use self::parse::parse;
use super::Component;

const TEXT: &str = include_str!("catalogue.txt");

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// May change or be removed in any minor.
    Alpha,
    Beta,
    /// A part of Kubernetes; the gate itself is removed some minors later.
    Ga,
    Deprecated,
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Alpha => "alpha",
            Stage::Beta => "beta",
            Stage::Ga => "GA",
            Stage::Deprecated => "deprecated",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GateFacts {
    pub stage: Stage,
    /// Its value if it is not set.
    pub default: bool,
    /// Is any other value refused?
    pub locked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateStanding {
    /// The version has it.
    Known(GateFacts),
    /// The version has it from some patch on, and Windrow cannot tell whether that patch is reached.
    Doubtful {
        /// Its state from that patch on.
        state: GateFacts,
        /// The first patch with it.
        patch: Version,
    },
    /// It is added in a later version.
    NotYet(Version),
    /// It was removed in this minor; any value is refused.
    Gone(Minor),
    /// The catalogue does not cover the minor.
    Uncovered,
}

#[derive(Debug, Clone)]
pub struct Gate {
    name: String,
    /// The state from each minor on; `None`: removed.
    steps: Vec<(Minor, Option<GateFacts>)>,
    /// The patches that added it to a minor.
    added: Vec<Version>,
    /// Another state before this patch of its minor.
    before: Vec<(Version, GateFacts)>,
    needs: Vec<Needs>,
    apis: Vec<WatchedApi>,
    /// Components that do not know it, although other components of the minor do.
    unknown_to: Vec<(Component, MinorRange)>,
    read_by: Option<Component>,
    /// The covered minors, with the last patch that was read, if known.
    covered: Arc<BTreeMap<Minor, Option<u16>>>,
}

#[derive(Debug, Clone)]
struct Needs {
    minors: MinorRange,
    /// Only this component refuses to start.
    of: Option<Component>,
    gates: Vec<String>,
}

/// From a minor on, and up to which one.
#[derive(Debug, Clone, Copy)]
struct MinorRange {
    from: Minor,
    to: Option<Minor>,
}

impl MinorRange {
    fn has(self, minor: Minor) -> bool {
        self.from <= minor && self.to.is_none_or(|to| minor <= to)
    }
}

/// An API that kube-apiserver watches while a gate is on, but serves only if `runtime-config` enables it.
#[derive(Debug, Clone)]
pub struct WatchedApi {
    minors: MinorRange,
    /// Its group and version: `resource.k8s.io/v1beta1`.
    pub group_version: String,
    pub resources: Vec<String>,
    /// The admission plugin that watches them, if a plugin does.
    pub plugin: Option<String>,
}

impl Gate {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The only component that reads it, if known.
    pub fn read_by(&self) -> Option<Component> {
        self.read_by
    }

    /// The knowledge about it in a version. For a minor without a patch, that of its last patch.
    pub fn at(&self, version: impl Into<Version>) -> GateStanding {
        let version = version.into();
        let minor = version.minor;
        let last = self.steps.iter().rev().find(|(from, _)| *from <= minor);
        let covered = self.covered.get(&minor);
        let state = match (last, covered) {
            // A removal that is announced in a minor after the catalogue.
            (Some((gone, None)), _) => return GateStanding::Gone(*gone),
            (_, None) => return GateStanding::Uncovered,
            (None, Some(_)) => {
                return match self.steps.first() {
                    Some((from, _)) => GateStanding::NotYet((*from).into()),
                    None => GateStanding::Uncovered,
                };
            }
            (Some((_, Some(state))), Some(_)) => *state,
        };
        let state = self
            .before
            .iter()
            .find(|(until, _)| {
                until.minor == minor && version.patch.is_some_and(|patch| Some(patch) < until.patch)
            })
            .map_or(state, |(_, earlier)| *earlier);
        let Some(&patch) = self.added.iter().find(|added| added.minor == minor) else {
            return GateStanding::Known(state);
        };
        match version.patch {
            Some(own) if Some(own) >= patch.patch => GateStanding::Known(state),
            Some(_) => GateStanding::NotYet(patch),
            None => GateStanding::Doubtful { state, patch },
        }
    }

    /// Gates that must all be on in a component while this one is on.
    pub fn needs(&self, component: Component, minor: Minor) -> impl Iterator<Item = &str> {
        self.needs
            .iter()
            .filter(move |needs| {
                needs.minors.has(minor) && needs.of.is_none_or(|of| of == component)
            })
            .flat_map(|needs| needs.gates.iter().map(String::as_str))
    }

    /// The API that kube-apiserver watches while this gate is on, if a minor does not serve it by default.
    pub fn watched_api(&self, minor: Minor) -> Option<&WatchedApi> {
        self.apis.iter().find(|api| api.minors.has(minor))
    }

    /// Does this component not know it, although other components of the minor do?
    pub fn is_unknown_to(&self, component: Component, minor: Minor) -> bool {
        let mut unknown = self.unknown_to.iter();
        unknown.any(|(one, minors)| *one == component && minors.has(minor))
    }

    pub fn takes(&self, value: bool) -> Vec<Minor> {
        self.covered
            .keys()
            .copied()
            .filter(|minor| match self.at(*minor) {
                GateStanding::Known(state) | GateStanding::Doubtful { state, .. } => {
                    !state.locked || state.default == value
                }
                _ => false,
            })
            .collect()
    }
}

#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    gates: BTreeMap<String, Gate>,
    minors: BTreeMap<Minor, usize>,
    constants: HashMap<String, String>,
    elsewhere: Vec<(String, HashSet<String>)>,
    /// Names from minors older than the covered ones, and the last minor that had each.
    older: HashMap<String, Minor>,
    /// The group versions that kube-apiserver has, and in which minors.
    registered: Vec<(String, MinorRange)>,
}

impl Catalogue {
    pub fn builtin() -> &'static Catalogue {
        static BUILTIN: OnceLock<Catalogue> = OnceLock::new();
        // A test checks that it can be parsed. An empty one covers no minor and makes no claims.
        BUILTIN.get_or_init(|| Catalogue::parse(TEXT).unwrap_or_default())
    }

    /// Parses a catalogue. Reports every invalid line.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        parse(text)
    }

    /// Case-sensitive.
    pub fn gate(&self, name: &str) -> Option<&Gate> {
        self.gates.get(name)
    }

    pub fn gate_in_any_case(&self, name: &str) -> Option<&Gate> {
        self.gates()
            .find(|gate| gate.name.eq_ignore_ascii_case(name))
    }

    pub fn gates(&self) -> impl Iterator<Item = &Gate> {
        self.gates.values()
    }

    /// Is every gate of the minor in the catalogue?
    pub fn covers(&self, minor: Minor) -> bool {
        self.minors.contains_key(&minor)
    }

    /// The minors of which every gate is in the catalogue, in order.
    pub fn minors(&self) -> impl DoubleEndedIterator<Item = Minor> {
        self.minors.keys().copied()
    }

    /// The group versions that kube-apiserver of a minor has, served or not.
    pub fn registered(&self, minor: Minor) -> impl Iterator<Item = &str> + Clone {
        let known = self.registered.iter();
        let known = known.filter(move |(_, minors)| minors.has(minor));
        known.map(|(group_version, _)| group_version.as_str())
    }

    /// The number of gates in a minor, as counted in its own sources.
    pub fn count(&self, minor: Minor) -> Option<usize> {
        self.minors.get(&minor).copied()
    }

    /// The gate whose constant in the sources has this name.
    pub fn constant(&self, name: &str) -> Option<&str> {
        self.constants.get(name).map(String::as_str)
    }

    /// The last minor that had a name which no covered minor has.
    pub fn last_known_to(&self, name: &str) -> Option<Minor> {
        self.older.get(name).copied()
    }

    /// The other program that has a gate with this name.
    pub fn elsewhere(&self, name: &str) -> Option<&str> {
        self.elsewhere
            .iter()
            .find(|(_, names)| names.contains(name))
            .map(|(program, _)| program.as_str())
    }
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
