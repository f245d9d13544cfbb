//! What is known of a kind or an object that somebody asks for.

use windrow_decide::flight::Appeared;
use windrow_model::manifest::ObjectRef;

use super::flight_lines::BootScript;
use super::{loaded, rows};
use crate::{BootSet, Explanation, ObservedBoot, Summary, Who, explain};

fn asked(name: &str, boots: &[ObservedBoot]) -> Explanation {
    let set: BootSet = boots.iter().cloned().collect();
    let rules = loaded(&Summary::of_boots(&set).text());
    explain(name, &rules.knowledge, &set)
}

/// A thing: its name, the entries that bring it, and who was seen to and in how many boots.
type Found = (String, Vec<String>, Vec<(String, usize)>);

fn found(name: &str, boots: &[ObservedBoot]) -> Vec<Found> {
    let things = asked(name, boots).things.into_iter();
    let things = things.map(|thing| {
        let known = thing.known_by.into_iter().filter_map(|one| one.entry);
        let seen = thing.observed.into_iter().map(|one| (one.by, one.boots));
        (thing.name, known.collect(), seen.collect())
    });
    things.collect()
}

fn four() -> Vec<ObservedBoot> {
    rows(&(0..4).map(BootScript::new).collect::<Vec<_>>())
}

#[test]
fn a_kind_is_found_with_and_without_its_group_and_says_who_was_seen_to_bring_it() {
    let expected = [(
        "Widget.widgets.example.com".to_owned(),
        vec!["learned/chart-widgets".to_owned()],
        vec![("the chart widgets".to_owned(), 4)],
    )];
    for name in ["Widget", "widget", "Widget.widgets.example.com"] {
        assert_eq!(found(name, &four()), expected, "{name}");
    }
    assert_eq!(found("Widgetry", &four()), []);
}

#[test]
fn an_object_is_found_by_its_name_alone_and_with_its_kind() {
    let mut boots = four();
    for boot in &mut boots {
        let object = ObjectRef::cluster("", "Namespace", "widgets-system");
        boot.brought[0].things[0].what = Appeared::Object(object);
    }
    for name in ["widgets-system", "namespace widgets-system"] {
        let found = found(name, &boots);
        let names: Vec<&str> = found.iter().map(|one| one.0.as_str()).collect();
        assert_eq!(names, ["Namespace widgets-system"], "{name}");
    }
    assert_eq!(found("another-system", &boots), []);
}

#[test]
fn who_may_have_brought_it_is_said_where_nobody_knows() {
    let mut boot = four().remove(0);
    let first = &mut boot.brought[0];
    first.perhaps = std::mem::take(&mut first.things);
    let mut second = first.clone();
    second.by = Who::Release {
        name: "other".to_owned(),
        namespace: "default".to_owned(),
    };
    boot.brought.push(second);
    let found = found("Widget", &[boot]);
    let [(_, known, seen)] = &found[..] else {
        panic!("{found:?}");
    };
    assert!(known.is_empty());
    assert_eq!(
        seen,
        &[(
            "the chart widgets or the Helm release default/other".to_owned(),
            1
        )]
    );
}
