//! What every known Kubernetes minor says about every feature gate.
//!
//! Pure: a text comes in, a table goes out. The text is `catalogue.txt`; its head says how it is
//! written. A minor that is not in it is not covered, and nothing is claimed about it, save what
//! the text says outright about a later minor.

mod parse;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use windrow_plan::version::{Minor, Version};

use self::parse::parse;
use super::Component;

/// The catalogue that is built in.
const TEXT: &str = include_str!("catalogue.txt");

/// How far a gate has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// May change or go at any minor.
    Alpha,
    /// Well tested.
    Beta,
    /// Part of Kubernetes; the gate itself goes some minors later.
    Ga,
    /// On its way out.
    Deprecated,
}

impl Stage {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Alpha => "alpha",
            Stage::Beta => "beta",
            Stage::Ga => "GA",
            Stage::Deprecated => "deprecated",
        }
    }
}

/// A gate as one version knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GateFacts {
    /// How far it has come.
    pub stage: Stage,
    /// Its value when it is not set.
    pub default: bool,
    /// Is any other value refused?
    pub locked: bool,
}

/// What is known about a gate in one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateStanding {
    /// The version knows it.
    Known(GateFacts),
    /// The version knows it from some patch on, and whether it is that far is not known.
    Doubtful {
        /// What it is once it is there.
        state: GateFacts,
        /// The patch that brought it.
        patch: Version,
    },
    /// It comes with a later version.
    NotYet(Version),
    /// It was removed in this minor; any value is refused.
    Gone(Minor),
    /// Nothing is known about the minor.
    Uncovered,
}

/// One gate.
#[derive(Debug, Clone)]
pub struct Gate {
    name: String,
    /// From which minor on it is what; `None`: gone.
    steps: Vec<(Minor, Option<GateFacts>)>,
    /// It came to a minor with this patch.
    added: Vec<Version>,
    /// Until this patch of its minor it was something else.
    before: Vec<(Version, GateFacts)>,
    needs: Vec<Needs>,
    apis: Vec<WatchedApi>,
    /// Components that do not know it, though others of the minor do.
    unknown_to: Vec<(Component, MinorRange)>,
    read_by: Option<Component>,
    /// The minors that are covered, and the last patch that was read, where it is known.
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

/// An API that kube-apiserver watches while a gate is on, and serves only where `runtime-config` asks for it.
#[derive(Debug, Clone)]
pub struct WatchedApi {
    minors: MinorRange,
    /// Its group and version: `resource.k8s.io/v1beta1`.
    pub group_version: String,
    /// The resources that are watched.
    pub resources: Vec<String>,
    /// The admission plugin that watches them, if it is one.
    pub plugin: Option<String>,
}

impl Gate {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The one component that reads it, where that is known.
    pub fn read_by(&self) -> Option<Component> {
        self.read_by
    }

    /// What a version knows about it. For a minor without patch, what its last patch knows.
    pub fn at(&self, version: impl Into<Version>) -> GateStanding {
        let version = version.into();
        let minor = version.minor;
        let last = self.steps.iter().rev().find(|(from, _)| *from <= minor);
        let covered = self.covered.get(&minor);
        let state = match (last, covered) {
            // A removal that is known ahead of the catalogue.
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

    /// Gates that must all be on in a component while this one is.
    pub fn needs(&self, component: Component, minor: Minor) -> impl Iterator<Item = &str> {
        self.needs
            .iter()
            .filter(move |needs| {
                needs.minors.has(minor) && needs.of.is_none_or(|of| of == component)
            })
            .flat_map(|needs| needs.gates.iter().map(String::as_str))
    }

    /// The API that kube-apiserver watches while this gate is on, where a minor does not serve it by itself.
    pub fn watched_api(&self, minor: Minor) -> Option<&WatchedApi> {
        self.apis.iter().find(|api| api.minors.has(minor))
    }

    /// Does this component not know it, though others of the minor do?
    pub fn is_unknown_to(&self, component: Component, minor: Minor) -> bool {
        let mut unknown = self.unknown_to.iter();
        unknown.any(|(one, minors)| *one == component && minors.has(minor))
    }

    /// The covered minors that take this value.
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

/// All gates of all covered minors.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    gates: BTreeMap<String, Gate>,
    minors: BTreeMap<Minor, usize>,
    constants: HashMap<String, String>,
    elsewhere: Vec<(String, HashSet<String>)>,
    /// Names of older minors than those that are covered, and the last one that knew each.
    older: HashMap<String, Minor>,
    /// The group versions that kube-apiserver knows, and in which minors.
    registered: Vec<(String, MinorRange)>,
}

impl Catalogue {
    /// The catalogue that is built in.
    pub fn builtin() -> &'static Catalogue {
        static BUILTIN: OnceLock<Catalogue> = OnceLock::new();
        // A test holds that it can be read. An empty one covers no minor and claims nothing.
        BUILTIN.get_or_init(|| Catalogue::parse(TEXT).unwrap_or_default())
    }

    /// Reads a catalogue. Every line that is wrong is named.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        parse(text)
    }

    /// The gate of exactly this name.
    pub fn gate(&self, name: &str) -> Option<&Gate> {
        self.gates.get(name)
    }

    /// The gate of this name in another case.
    pub fn gate_in_any_case(&self, name: &str) -> Option<&Gate> {
        self.gates()
            .find(|gate| gate.name.eq_ignore_ascii_case(name))
    }

    /// Every gate, by name.
    pub fn gates(&self) -> impl Iterator<Item = &Gate> {
        self.gates.values()
    }

    /// Is the minor known in full?
    pub fn covers(&self, minor: Minor) -> bool {
        self.minors.contains_key(&minor)
    }

    /// The minors that are known in full, in order.
    pub fn minors(&self) -> impl DoubleEndedIterator<Item = Minor> {
        self.minors.keys().copied()
    }

    /// The group versions that kube-apiserver of a minor knows, served or not.
    pub fn registered(&self, minor: Minor) -> impl Iterator<Item = &str> + Clone {
        let known = self.registered.iter();
        let known = known.filter(move |(_, minors)| minors.has(minor));
        known.map(|(group_version, _)| group_version.as_str())
    }

    /// How many gates a minor knows, as counted in its own sources.
    pub fn count(&self, minor: Minor) -> Option<usize> {
        self.minors.get(&minor).copied()
    }

    /// The gate whose constant in the sources has this name.
    pub fn constant(&self, name: &str) -> Option<&str> {
        self.constants.get(name).map(String::as_str)
    }

    /// The last minor that knew a name which no covered minor knows.
    pub fn last_known_to(&self, name: &str) -> Option<Minor> {
        self.older.get(name).copied()
    }

    /// The other program that has a gate of this name.
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
