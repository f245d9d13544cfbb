//! Tests every shipped reference with a typical object.

use std::collections::BTreeSet;

use windrow_model::manifest::{self, FileContent, ReadLimits};

use crate::rules::RuleSet;

const OBJECTS: &str = include_str!("references.yaml");

/// `line rule -> target`, for every reference of the objects.
fn found(rules: &RuleSet) -> Vec<String> {
    let file = manifest::read(
        "references.yaml",
        &FileContent::Bytes(OBJECTS.as_bytes().to_vec()),
        &ReadLimits::default(),
    );
    assert!(file.problems.is_empty(), "{:#?}", file.problems);
    file.objects()
        .flat_map(|object| rules.references_of(object))
        .map(|reference| {
            let rule = reference.rule.trim_start_matches("references/");
            format!("{} {rule} -> {}", reference.line, reference.target)
        })
        .collect()
}

#[test]
fn every_shipped_reference_finds_its_field_in_a_real_looking_object() {
    let rules = RuleSet::shipped();
    let found = found(&rules);
    let rules_hit: BTreeSet<&str> = found
        .iter()
        .filter_map(|line| line.split(' ').nth(1))
        .collect();
    for reference in &rules.references {
        let name = reference.name.trim_start_matches("references/");
        assert!(rules_hit.contains(name), "{name} finds nothing");
    }
}

#[test]
fn the_references_of_the_objects_are_exactly_these() {
    insta::assert_snapshot!(found(&RuleSet::shipped()).join("\n"));
}
