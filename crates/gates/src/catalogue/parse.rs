//! Parses the text of a catalogue.

use std::collections::BTreeMap;
use std::sync::Arc;

use windrow_plan::version::{Minor, Version};

use super::{Catalogue, Gate, GateFacts, MinorRange, Needs, Stage, WatchedApi};
use crate::Component;

pub(super) fn parse(text: &str) -> Result<Catalogue, Vec<String>> {
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

/// Facts about gates may be in any order.
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
            ("registered", [range, group_versions @ ..]) if !group_versions.is_empty() => {
                let range = range_of(range)?;
                let known = group_versions
                    .iter()
                    .map(|known| ((*known).to_owned(), range));
                self.catalogue.registered.extend(known);
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
