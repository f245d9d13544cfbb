//! The data of `data/kubernetes.txt`, which are parsed on first use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::minors::Minors;
use crate::shape::Shape;

#[derive(Debug)]
pub(crate) struct KnownKind {
    /// For example `apps/v1`.
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
    /// `None` if kube-apiserver serves the kind only when configured to.
    pub(crate) definition: Option<&'static str>,
    pub(crate) minors: Minors,
}

#[derive(Debug)]
pub(crate) struct RemovedKind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    /// The first minor that did not serve it.
    pub(crate) minor: u16,
    pub(crate) replacement: Option<&'static str>,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) shape: Shape,
    pub(crate) minors: Minors,
}

/// The facts at the start of the data. A daemon needs only these, and not the definitions after them.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) kinds: Vec<KnownKind>,
    pub(crate) removed: Vec<RemovedKind>,
    pub(crate) cluster_roles: BTreeSet<&'static str>,
}

#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    definitions: BTreeMap<&'static str, Vec<Field>>,
}

const DATA: &str = include_str!("../data/kubernetes.txt");

/// The default is never used: the data are built in, and a test reads every line of them.
pub(crate) static FACTS: LazyLock<Facts> = LazyLock::new(|| Facts::read(DATA).unwrap_or_default());
pub(crate) static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| Catalogue::read(DATA).unwrap_or_default());

/// Splits the data into the facts and the definitions.
fn parts(
    text: &'static str,
) -> (
    impl Iterator<Item = &'static str>,
    impl Iterator<Item = &'static str>,
) {
    let is_definition = |line: &&str| line.starts_with("= ");
    let lines = || text.lines().filter(|line| !line.starts_with('#'));
    (
        lines().take_while(move |line| !is_definition(line)),
        lines().skip_while(move |line| !is_definition(line)),
    )
}

impl Facts {
    /// Reads the facts. Fails with the first unreadable line.
    fn read(text: &'static str) -> Result<Self, &'static str> {
        let mut facts = Self::default();
        for line in parts(text).0 {
            facts.read_fact(line).ok_or(line)?;
        }
        Ok(facts)
    }

    fn read_fact(&mut self, line: &'static str) -> Option<()> {
        let words: Vec<&'static str> = line.split(' ').collect();
        match words.as_slice() {
            ["kind", api_version, kind, scope, definition, minors @ ..] => {
                self.kinds.push(KnownKind {
                    api_version,
                    kind,
                    namespaced: match *scope {
                        "namespaced" => true,
                        "cluster" => false,
                        _ => return None,
                    },
                    definition: (*definition != "-").then_some(definition),
                    minors: read_minors(minors.first())?,
                });
            }
            ["removed", api_version, kind, minor, replacement, ..] => {
                self.removed.push(RemovedKind {
                    api_version,
                    kind,
                    minor: minor.parse().ok()?,
                    replacement: (*replacement != "-").then_some(replacement),
                });
            }
            ["role", name, ..] => {
                self.cluster_roles.insert(name);
            }
            _ => return None,
        }
        Some(())
    }
}

impl Catalogue {
    /// Reads the definitions. Fails with the first unreadable line.
    fn read(text: &'static str) -> Result<Self, &'static str> {
        let mut catalogue = Self::default();
        let mut definition = "";
        for line in parts(text).1 {
            match line.strip_prefix("= ") {
                Some(name) => {
                    definition = name;
                    catalogue.definitions.entry(name).or_default();
                }
                None => {
                    let field = read_field(line).ok_or(line)?;
                    let fields = catalogue.definitions.entry(definition).or_default();
                    fields.push(field);
                }
            }
        }
        Ok(catalogue)
    }

    /// Empty for an unknown definition.
    pub(crate) fn fields(&self, definition: &str) -> &[Field] {
        self.definitions.get(definition).map_or(&[], Vec::as_slice)
    }

    #[cfg(test)]
    pub(crate) fn definitions(&self) -> impl Iterator<Item = (&'static str, &[Field])> {
        self.definitions
            .iter()
            .map(|(name, fields)| (*name, fields.as_slice()))
    }
}

fn read_field(line: &'static str) -> Option<Field> {
    let mut words = line.split(' ');
    let name = words.next()?;
    Some(Field {
        name: name.trim_end_matches('!'),
        required: name.ends_with('!'),
        shape: Shape::parse(words.next()?)?,
        minors: read_minors(words.next().as_ref())?,
    })
}

fn read_minors(text: Option<&&'static str>) -> Option<Minors> {
    match text {
        None => Some(Minors::ALL),
        Some(text) => Minors::parse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_data_is_read_and_every_reference_leads_somewhere() {
        let catalogue = Catalogue::read(DATA).unwrap();
        let facts = Facts::read(DATA).unwrap();
        assert!(facts.kinds.len() > 80);
        assert!(facts.removed.len() > 50);
        assert!(facts.cluster_roles.contains("cluster-admin"));
        let known: BTreeSet<&str> = catalogue.definitions().map(|(name, _)| name).collect();
        let lead = |shape: &Shape| {
            let mut inner = shape;
            while let Shape::List(next) | Shape::Map(next) = inner {
                inner = next;
            }
            !matches!(inner, Shape::Fields(name) if !known.contains(name))
        };
        for (name, fields) in catalogue.definitions() {
            for field in fields {
                assert!(lead(&field.shape), "{name} {}", field.name);
            }
        }
        for kind in &facts.kinds {
            assert!(
                kind.definition.is_none_or(|name| known.contains(name)),
                "{kind:?}"
            );
        }
    }
}
