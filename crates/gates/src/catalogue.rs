//! What every known Kubernetes minor says about every feature gate.
//!
//! Pure: a text comes in, a table goes out. The text is `catalogue.txt`; its head says how it is
//! written. A minor that is not in it is not covered, and nothing is claimed about it, save what
//! the text says outright about a later minor.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use windrow_plan::version::{Minor, Version};

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
        let mut read = CatalogueParser::default();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            let Some(fact) = words.next().filter(|word| !word.starts_with('#')) else {
                continue;
            };
            let words: Vec<&str> = words.collect();
            if let Err(problem) = read.fact(fact, &words) {
                read.problems
                    .push(format!("line {}: {problem}", number + 1));
            }
        }
        read.finish()
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

/// Reads a catalogue. Facts about gates may stand in any order.
#[derive(Default)]
struct CatalogueParser {
    catalogue: Catalogue,
    covered: BTreeMap<Minor, Option<u16>>,
    problems: Vec<String>,
}

impl CatalogueParser {
    fn fact(&mut self, fact: &str, words: &[&str]) -> Result<(), String> {
        match (fact, words) {
            ("minor", [minor, count, rest @ ..]) if rest.len() < 2 => {
                let minor = minor_of(minor)?;
                let patch = rest.first().map(|patch| number(patch)).transpose()?;
                self.catalogue.minors.insert(minor, number(count)?);
                self.covered.insert(minor, patch);
            }
            ("gate", [name, steps @ ..]) if !steps.is_empty() => self.gate(name, steps)?,
            ("needs", [name, range, gates @ ..]) if !gates.is_empty() => {
                self.needs(name, None, range, gates)?;
            }
            ("needs-of", [component, name, range, gates @ ..]) if !gates.is_empty() => {
                self.needs(name, Some(component_of(component)?), range, gates)?;
            }
            ("api", [name, range, group_version, resources @ ..]) if !resources.is_empty() => {
                let api = WatchedApi {
                    minors: range_of(range)?,
                    group_version: (*group_version).to_owned(),
                    resources: resources.iter().map(|one| (*one).to_owned()).collect(),
                    plugin: None,
                };
                self.known(name)?.apis.push(api);
            }
            ("api-of-plugin", [name, plugin]) => {
                for api in &mut self.known(name)?.apis {
                    api.plugin = Some((*plugin).to_owned());
                }
            }
            ("added", [name, version]) => {
                let version = patch_of(version)?;
                self.known(name)?.added.push(version);
            }
            ("before", [name, version, state]) => {
                let (version, state) = (patch_of(version)?, state_of(state)?);
                self.known(name)?.before.push((version, state));
            }
            ("unknown-to", [component, range, gates @ ..]) if !gates.is_empty() => {
                let (component, minors) = (component_of(component)?, range_of(range)?);
                for gate in gates {
                    self.known(gate)?.unknown_to.push((component, minors));
                }
            }
            ("last-in", [minor, names @ ..]) if !names.is_empty() => {
                let minor = minor_of(minor)?;
                let names = names.iter().map(|name| ((*name).to_owned(), minor));
                self.catalogue.older.extend(names);
            }
            ("read-by", [component, gates @ ..]) => {
                let component = component_of(component)?;
                for gate in gates {
                    self.known(gate)?.read_by = Some(component);
                }
            }
            ("constant", [wrong, gate]) => {
                self.known(gate)?;
                self.catalogue
                    .constants
                    .insert((*wrong).to_owned(), (*gate).to_owned());
            }
            ("elsewhere", [program, names @ ..]) => {
                let names = names.iter().map(|name| (*name).to_owned());
                match self
                    .catalogue
                    .elsewhere
                    .iter_mut()
                    .find(|(known, _)| known == program)
                {
                    Some((_, known)) => known.extend(names),
                    None => self
                        .catalogue
                        .elsewhere
                        .push(((*program).to_owned(), names.collect())),
                }
            }
            _ => return Err(format!("{fact:?} is not a fact, or lacks a word")),
        }
        Ok(())
    }

    fn gate(&mut self, name: &str, steps: &[&str]) -> Result<(), String> {
        let steps: Vec<(Minor, Option<GateFacts>)> = steps
            .iter()
            .map(|step| {
                let (minor, state) = step
                    .split_once('=')
                    .ok_or_else(|| format!("{step:?} is not a step"))?;
                let state = (state != "gone").then(|| state_of(state)).transpose()?;
                Ok((minor_of(minor)?, state))
            })
            .collect::<Result<_, String>>()?;
        if !steps.is_sorted_by(|(one, _), (next, _)| one < next) {
            return Err(format!("the steps of {name} are not in order"));
        }
        let gate = Gate {
            name: name.to_owned(),
            steps,
            added: Vec::new(),
            before: Vec::new(),
            needs: Vec::new(),
            apis: Vec::new(),
            unknown_to: Vec::new(),
            read_by: None,
            covered: Arc::default(),
        };
        match self.catalogue.gates.insert(name.to_owned(), gate) {
            None => Ok(()),
            Some(_) => Err(format!("{name} appears twice")),
        }
    }

    fn needs(
        &mut self,
        name: &str,
        of: Option<Component>,
        range: &str,
        gates: &[&str],
    ) -> Result<(), String> {
        let minors = range_of(range)?;
        for gate in gates {
            self.known(gate)?;
        }
        let gates = gates.iter().map(|gate| (*gate).to_owned()).collect();
        self.known(name)?.needs.push(Needs { minors, of, gates });
        Ok(())
    }

    fn known(&mut self, name: &str) -> Result<&mut Gate, String> {
        self.catalogue
            .gates
            .get_mut(name)
            .ok_or_else(|| format!("{name} is not a gate"))
    }

    fn finish(mut self) -> Result<Catalogue, Vec<String>> {
        let covered = Arc::new(self.covered);
        for gate in self.catalogue.gates.values_mut() {
            gate.covered = Arc::clone(&covered);
        }
        match self.problems.is_empty() {
            true => Ok(self.catalogue),
            false => Err(self.problems),
        }
    }
}

fn minor_of(text: &str) -> Result<Minor, String> {
    text.parse::<Minor>().map_err(|error| error.to_string())
}

fn range_of(text: &str) -> Result<MinorRange, String> {
    let (from, to) = text
        .split_once("..")
        .ok_or_else(|| format!("{text:?} is not a range"))?;
    Ok(MinorRange {
        from: minor_of(from)?,
        to: (!to.is_empty()).then(|| minor_of(to)).transpose()?,
    })
}

fn component_of(text: &str) -> Result<Component, String> {
    Component::ALL
        .into_iter()
        .find(|known| known.as_str() == text)
        .ok_or_else(|| format!("{text:?} is not a component"))
}

fn patch_of(text: &str) -> Result<Version, String> {
    let version: Version = text.parse().map_err(|error| format!("{error}"))?;
    match version.patch {
        Some(_) => Ok(version),
        None => Err(format!("{text} lacks a patch")),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a number"))
}

fn state_of(text: &str) -> Result<GateFacts, String> {
    let refuse = || format!("{text:?} is not a state");
    let (rest, locked) = match text.strip_suffix('!') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (stage, default) = rest.split_once(':').ok_or_else(refuse)?;
    let stage = match stage {
        "alpha" => Stage::Alpha,
        "beta" => Stage::Beta,
        "ga" => Stage::Ga,
        "deprecated" => Stage::Deprecated,
        _ => return Err(refuse()),
    };
    let default = match default {
        "on" => true,
        "off" => false,
        _ => return Err(refuse()),
    };
    Ok(GateFacts {
        stage,
        default,
        locked,
    })
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
