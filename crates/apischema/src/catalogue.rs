//! The data of `data/kubernetes.txt`, read at the first question.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::minors::Minors;
use crate::shape::Shape;

/// A kind of a group and version.
#[derive(Debug)]
pub(crate) struct KnownKind {
    /// `apps/v1`
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    /// Its definition; `None` where it is not served unless kube-apiserver is told to.
    pub(crate) definition: Option<&'static str>,
    pub(crate) minors: Minors,
}

/// A kind of a version that is no longer served.
#[derive(Debug)]
pub(crate) struct RemovedKind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    /// The minor that no longer served it.
    pub(crate) minor: u16,
    pub(crate) replacement: Option<&'static str>,
}

/// A field of a definition.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) shape: Shape,
    pub(crate) minors: Minors,
}

#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) kinds: Vec<KnownKind>,
    pub(crate) removed: Vec<RemovedKind>,
    pub(crate) cluster_roles: BTreeSet<&'static str>,
    definitions: BTreeMap<&'static str, Vec<Field>>,
}

/// What is known. The data is part of the program and is whole: a test reads every line of it.
pub(crate) static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| Catalogue::read(include_str!("../data/kubernetes.txt")).unwrap_or_default());

impl Catalogue {
    /// Reads the data; the line that cannot be read, where there is one.
    pub(crate) fn read(text: &'static str) -> Result<Self, &'static str> {
        let mut catalogue = Self::default();
        let mut definition = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let read = match line.strip_prefix("= ") {
                Some(name) => {
                    definition = Some(name);
                    catalogue.definitions.entry(name).or_default();
                    Some(())
                }
                None => match definition {
                    Some(name) => read_field(line).map(|field| {
                        catalogue.definitions.entry(name).or_default().push(field);
                    }),
                    None => catalogue.read_fact(line),
                },
            };
            read.ok_or(line)?;
        }
        Ok(catalogue)
    }

    fn read_fact(&mut self, line: &'static str) -> Option<()> {
        let words: Vec<&'static str> = line.split(' ').collect();
        match words.as_slice() {
            ["kind", api_version, kind, scope, definition, minors @ ..] => {
                self.kinds.push(KnownKind {
                    api_version,
                    kind,
                    definition: (*scope != "off").then_some(definition),
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

    /// The fields of a definition; none of one that is not known.
    pub(crate) fn fields(&self, definition: &str) -> &[Field] {
        self.definitions.get(definition).map_or(&[], Vec::as_slice)
    }

    /// Every definition, for tests.
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
        let catalogue = Catalogue::read(include_str!("../data/kubernetes.txt")).unwrap();
        assert!(catalogue.kinds.len() > 80);
        assert!(catalogue.removed.len() > 50);
        assert!(catalogue.cluster_roles.contains("cluster-admin"));
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
        for kind in &catalogue.kinds {
            assert!(
                kind.definition.is_none_or(|name| known.contains(name)),
                "{kind:?}"
            );
        }
    }
}
