//! The data of `data/kubernetes.txt`, which are parsed on first use.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use windrow_plan::kubernetes::Minors;

use crate::shape::Shape;

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) shape: Shape,
    pub(crate) minors: Minors,
}

#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    definitions: BTreeMap<&'static str, Vec<Field>>,
}

const DATA: &str = include_str!("../data/kubernetes.txt");

/// The default is never used: the data are built in, and a test reads every line of them.
pub(crate) static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| Catalogue::read(DATA).unwrap_or_default());

impl Catalogue {
    /// Reads the definitions. Fails with the first unreadable line.
    fn read(text: &'static str) -> Result<Self, &'static str> {
        let mut catalogue = Self::default();
        let mut definition = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
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
        minors: Minors::read(words.next())?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use windrow_plan::kubernetes::FACTS;

    use super::*;

    #[test]
    fn every_line_of_the_data_is_read_and_every_reference_leads_somewhere() {
        let catalogue = Catalogue::read(DATA).unwrap();
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
        for kind in &FACTS.kinds {
            assert!(
                kind.definition.is_none_or(|name| known.contains(name)),
                "{kind:?}"
            );
        }
    }
}
