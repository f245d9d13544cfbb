//! The kinds that Harvester and its parts define, by release of Harvester (`data/platform.txt`).
//!
//! Schemas in the data refer to each other by number, so a subtree that many kinds and releases share is there once.

use std::sync::LazyLock;

use serde_json::Value;
use windrow_model::manifest::{GroupKind, MapEntry, Node, NodeValue};

use super::{CustomKind, CustomVersion};

static PLATFORM: LazyLock<Platform> =
    LazyLock::new(|| Platform::read(include_str!("../../data/platform.txt")));

struct Platform {
    schemas: Vec<Value>,
    definitions: Vec<Definition>,
}

/// A definition, and the releases that have it.
struct Definition {
    releases: &'static str,
    kind: GroupKind,
    /// `NAME=SCHEMA`, with `!` or `-` after the name.
    versions: Vec<&'static str>,
    preserves_unknown: bool,
}

impl CustomKind {
    /// A kind as this release of Harvester defines it. `None` for a release or a kind without data.
    pub fn of_release(kind: &GroupKind, release: &str) -> Option<Self> {
        let mut definitions = PLATFORM.definitions.iter();
        let definition = definitions.find(|one| {
            one.kind == *kind && one.releases.split(',').any(|version| version == release)
        })?;
        Self::defined(definition)
    }

    /// A kind as the releases of Harvester define it, each definition once.
    pub fn of_all_releases(kind: &GroupKind) -> Vec<Self> {
        let definitions = PLATFORM.definitions.iter();
        let of_kind = definitions.filter(|one| one.kind == *kind);
        of_kind.filter_map(Self::defined).collect()
    }

    fn defined(definition: &Definition) -> Option<Self> {
        let versions = definition.versions.iter().map(|version| {
            let (name, schema) = version.split_once('=')?;
            Some(CustomVersion {
                name: name.trim_end_matches(['!', '-']).to_owned(),
                served: !name.contains('-'),
                schema: schema
                    .parse()
                    .ok()
                    .and_then(|number| PLATFORM.schema(number)),
                drops_status: name.contains('!'),
            })
        });
        Some(Self {
            kind: definition.kind.clone(),
            versions: versions.collect::<Option<_>>()?,
            preserves_unknown: definition.preserves_unknown,
        })
    }
}

impl Platform {
    fn read(text: &'static str) -> Self {
        let mut schemas = Vec::new();
        let mut definitions = Vec::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            match words.next() {
                Some("schema") => {
                    let schema = line.splitn(3, ' ').last();
                    schemas.extend(schema.and_then(|text| serde_json::from_str(text).ok()));
                }
                Some("kind") => definitions.extend(Definition::read(words)),
                _ => {}
            }
        }
        Self {
            schemas,
            definitions,
        }
    }

    /// A schema with all its parts.
    fn schema(&self, number: u64) -> Option<Node> {
        let schema = self.schemas.get(usize::try_from(number).ok()?)?;
        let entries = schema.as_object()?.iter().map(|(key, value)| {
            let value = match key.as_str() {
                "properties" => self.each(value),
                "items" | "additionalProperties" | "not" => self.part(value),
                "allOf" | "anyOf" | "oneOf" => self.each(value),
                _ => Node::from_json(value.clone(), 0),
            };
            entry(key, value)
        });
        Some(Node {
            line: 0,
            value: NodeValue::Mapping(entries.collect()),
        })
    }

    fn part(&self, value: &Value) -> Node {
        let schema = value.as_u64().and_then(|number| self.schema(number));
        schema.unwrap_or_else(|| Node::from_json(value.clone(), 0))
    }

    fn each(&self, value: &Value) -> Node {
        let value = match value {
            Value::Object(parts) => {
                let parts = parts.iter().map(|(key, part)| entry(key, self.part(part)));
                NodeValue::Mapping(parts.collect())
            }
            Value::Array(parts) => {
                NodeValue::Sequence(parts.iter().map(|part| self.part(part)).collect())
            }
            other => return Node::from_json(other.clone(), 0),
        };
        Node { line: 0, value }
    }
}

impl Definition {
    fn read(mut words: std::str::Split<'static, char>) -> Option<Self> {
        let releases = words.next()?;
        let kind = GroupKind::new(words.next()?, words.next()?);
        // Whether its objects are in namespaces.
        words.next()?;
        let (versions, marks): (Vec<_>, Vec<_>) = words.partition(|word| word.contains('='));
        Some(Self {
            releases,
            kind,
            versions,
            preserves_unknown: marks.contains(&"preserves-unknown"),
        })
    }
}

fn entry(key: &str, value: Node) -> MapEntry {
    MapEntry {
        key: key.to_owned(),
        line: 0,
        value,
    }
}

#[cfg(test)]
mod tests {
    use windrow_model::manifest::{self, FileContent, ReadLimits};

    use super::*;
    use crate::Minors;
    use crate::tests::MACHINE;

    fn problems(release: &str, text: &str) -> Vec<String> {
        let content = FileContent::Bytes(text.as_bytes().to_vec());
        let file = manifest::read("a.yaml", &content, &ReadLimits::default());
        let object = file.objects().next().expect("an object");
        let kind = CustomKind::of_release(&object.id.group_kind(), release).expect("a definition");
        let found = kind.check(object, Minors::ALL, &mut |_, _| Some(true));
        found
            .iter()
            .map(|one| format!("{}: {}", one.field, one.message))
            .collect()
    }

    #[test]
    fn a_machine_that_every_release_takes_has_no_problem() {
        for definition in &PLATFORM.definitions {
            if definition.kind == GroupKind::new("kubevirt.io", "VirtualMachine") {
                for release in definition.releases.split(',') {
                    assert_eq!(problems(release, MACHINE), [""; 0], "{release}");
                }
            }
        }
    }

    #[test]
    fn a_machine_without_a_template_or_with_a_misspelt_field_has_one() {
        let lacks = MACHINE.split("  template:").next().unwrap();
        let found = problems("v1.8.1", lacks);
        assert!(found[0].starts_with("spec.template: "), "{found:?}");
        let found = problems("v1.8.1", &MACHINE.replace("bus: virtio", "buss: virtio"));
        assert!(found[0].contains("did you mean `bus`?"), "{found:?}");
        let found = problems("v1.8.1", &MACHINE.replace("name: root, disk", "disk"));
        assert!(
            found[0].starts_with("spec.template.spec.domain.devices.disks[0].name"),
            "{found:?}"
        );
    }

    #[test]
    fn a_field_counts_from_the_release_on_that_defines_it() {
        let image = "apiVersion: harvesterhci.io/v1beta1\nkind: VirtualMachineImage\nmetadata: {name: a}\n\
                     spec: {displayName: a, sourceType: download, url: 'https://a/b', backend: cdi, \
                     targetStorageClassName: fast}\n";
        assert_eq!(problems("v1.6.0", image), [""; 0]);
        let found = problems("v1.4.0", image);
        assert!(found[0].starts_with("spec.backend: "), "{found:?}");
        assert!(
            CustomKind::of_release(
                &GroupKind::new("harvesterhci.io", "VirtualMachineImage"),
                "v1.99.0"
            )
            .is_none()
        );
    }

    #[test]
    fn every_line_of_the_data_is_read_and_every_number_has_its_schema() {
        let text = include_str!("../../data/platform.txt");
        let lines = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
        assert_eq!(PLATFORM.schemas.len(), lines("schema "));
        assert_eq!(PLATFORM.definitions.len(), lines("kind "));
        for definition in &PLATFORM.definitions {
            for release in definition.releases.split(',') {
                let kind = CustomKind::of_release(&definition.kind, release).expect("a definition");
                let all = kind.versions.iter().all(|version| version.schema.is_some());
                assert!(all, "{release} {:?}", definition.kind);
            }
        }
    }
}
