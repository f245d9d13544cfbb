//! Operators that shipped knowledge does not name.

use serde_json::{Value, json};
use windrow_decide::flight::{Appeared, Flights};
use windrow_model::manifest::GroupKind;

use super::flight_lines::BootScript;
use super::loaded;
use crate::{ObservedBoot, Provider, Summary, observe};

/// A boot in which a program of this name makes the kind, while the directory has this object beside the HelmChart.
fn boot(number: i64, by: Value, object: &Value) -> ObservedBoot {
    row(number, by, object, |line| line)
}

fn row(number: i64, by: Value, object: &Value, change: fn(Value) -> Value) -> ObservedBoot {
    let mut script = BootScript::new(number);
    script.by = by;
    let text = script.lines();
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["is"] == "files" {
            let objects = line["files"][0]["documents"][0]["objects"].as_array_mut();
            objects.unwrap().push(object.clone());
        }
        format!("{}\n", change(line))
    });
    let mut observed = observe(&Flights::read(&lines.collect::<String>()).unwrap());
    assert_eq!(observed.refused, [""; 0]);
    observed.boots.remove(0)
}

fn workload(kind: &str, name: &str) -> Value {
    json!({"id": {"group": "apps", "kind": kind, "namespace": "default", "name": name}, "version": "v1", "line": 9, "lines": [],
        "object": {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}}})
}

fn manager(name: &str) -> Value {
    json!({"is": "manager", "name": name})
}

fn summary(boots: &[ObservedBoot]) -> Summary {
    Summary::of_boots(&boots.iter().cloned().collect())
}

#[test]
fn what_the_program_of_a_deployment_of_the_directory_makes_is_learned_of_that_operator() {
    let boots: Vec<ObservedBoot> = (0..5)
        .map(|number| {
            boot(
                number,
                manager("widget-operator"),
                &workload("Deployment", "widget-operator"),
            )
        })
        .collect();
    let summary = summary(&boots);
    let [entry] = &summary.entries[..] else {
        panic!("{:?}", summary.entries);
    };
    let operator = Provider::Operator {
        deployment: "widget-operator".to_owned(),
        acts_on: None,
    };
    assert_eq!((&entry.by, entry.timed), (&operator, 5));
    assert_eq!((entry.seen.boots, entry.seen.of), (5, 5));
    assert!(entry.versions.is_all());
    assert_eq!(entry.times.unwrap().half.as_secs(), 20);
    // A plan reads it.
    let text = summary.text();
    assert!(text.contains("by: {operator: widget-operator}\n"), "{text}");
    let rules = loaded(&text);
    let mut entries = rules.knowledge.entries().iter();
    let read = entries
        .find(|one| one.name == "learned/operator-widget-operator")
        .unwrap();
    assert!(
        read.brings
            .brings_kind(&GroupKind::new("widgets.example.com", "Widget"))
    );
}

#[test]
fn the_time_of_a_known_operator_counts_from_when_what_it_acts_on_was_applied() {
    let installation = json!({"id": {"group": "operator.tigera.io", "kind": "Installation", "name": "default"}, "version": "v1",
        "line": 9, "lines": [], "object": {"apiVersion": "operator.tigera.io/v1", "kind": "Installation", "metadata": {"name": "default"}}});
    let time = |object: &Value| {
        let boot = boot(0, manager("tigera-operator"), object);
        let mut brought = boot.brought.iter().flat_map(|one| &one.things);
        brought.next().unwrap().after
    };
    assert_eq!(time(&installation), Some(20_000));
    assert_eq!(time(&workload("Deployment", "another")), None);
}

#[test]
fn an_operator_is_known_by_more_than_a_deployment() {
    let owner = json!({"is": "owner", "kind": {"group": "apps", "kind": "Deployment"}, "name": "widget-operator"});
    for (by, object) in [
        (
            manager("widget-operator"),
            workload("StatefulSet", "widget-operator"),
        ),
        (owner, workload("Deployment", "widget-operator")),
        // As Helm's templates usually call the Deployment of the HelmChart `widgets`.
        (manager("widgets"), workload("Deployment", "another")),
    ] {
        let found = summary(&[boot(0, by.clone(), &object)]).entries;
        assert!(
            matches!(&found[..], [one] if matches!(one.by, Provider::Operator { .. })),
            "{by} {found:?}"
        );
    }
}

#[test]
fn who_it_was_stays_unknown_where_the_program_is_not_the_directorys() {
    let deployment = |name: &str| workload("Deployment", name);
    for (by, object) in [
        (manager("widget-operator"), deployment("another")),
        // Many programs call themselves so.
        (manager("manager"), deployment("manager")),
        (manager("kubectl"), deployment("kubectl")),
        (
            json!({"is": "owner", "kind": {"group": "apps", "kind": "ReplicaSet"}, "name": "a"}),
            deployment("a"),
        ),
        // The name of an object that runs nothing.
        (manager("a"), workload("ControllerRevision", "a")),
        (json!({"is": "notKnown"}), deployment("a")),
    ] {
        let found = summary(&[boot(0, by.clone(), &object)]);
        assert_eq!(found.entries, [], "{by}");
        assert_eq!(
            found.boots[0]
                .brought
                .iter()
                .flat_map(|one| &one.things)
                .count(),
            1
        );
    }
    // It came before the Deployment was applied, or was there before anybody looked: another program of that name made it.
    let early: fn(Value) -> Value = |mut line| {
        if line["is"] == "appeared" {
            line["at"] = json!(BootScript::new(0).at(61));
        }
        line
    };
    let there: fn(Value) -> Value = |mut line| {
        if line["is"] == "appeared" {
            line["wasThere"] = json!(true);
        }
        line
    };
    for change in [early, there] {
        let row = row(0, manager("a"), &deployment("a"), change);
        assert_eq!(summary(&[row]).entries, []);
    }
}

#[test]
fn a_kind_that_came_from_somebody_else_contradicts_the_operator() {
    let object = workload("Deployment", "widget-operator");
    let mut boots: Vec<ObservedBoot> = (0..3)
        .map(|number| boot(number, manager("widget-operator"), &object))
        .collect();
    // The operator was at work there too: it brought another kind.
    let mut odd = boot(3, json!({"is": "fleet", "bundle": "other"}), &object);
    let mut own = boots[0]
        .brought
        .iter()
        .find(|one| !one.things.is_empty())
        .unwrap()
        .clone();
    own.things[0].what = Appeared::Kind {
        kind: GroupKind::new("widgets.example.com", "Gadget"),
        namespaced: true,
    };
    odd.brought.push(own);
    boots.push(odd);
    let summary = summary(&boots);
    assert_eq!(
        (summary.entries[0].seen.boots, summary.entries[0].seen.of),
        (3, 4)
    );
}
