//! How an object's own metadata proves its provider, and its limits.

use serde_json::{Value, json};
use windrow_replay::Flights;

use super::flight_lines::BootScript;
use super::loaded;
use crate::row::thing_words;
use crate::{KnowledgeFile, ObservedBoot, Provider, Summary, Who, observe};

const WIDGET: &str = "Widget.widgets.example.com";

/// A boot in which this provider creates the kind, while the directory has this object in addition to the HelmChart.
fn boot(number: i64, by: Value, object: &Value) -> ObservedBoot {
    let mut script = BootScript::new(number);
    script.by = by;
    let text = script.lines();
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["is"] == "files" {
            let objects = line["files"][0]["documents"][0]["objects"].as_array_mut();
            objects.unwrap().push(object.clone());
        }
        format!("{line}\n")
    });
    let mut observed = observe(&Flights::read(&lines.collect::<String>()).unwrap());
    assert_eq!(observed.refused, [""; 0]);
    observed.boots.remove(0)
}

fn object(group: &str, kind: &str, name: &str) -> Value {
    json!({"id": {"group": group, "kind": kind, "name": name}, "version": "v1", "line": 9, "lines": [],
        "object": {"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": name}}})
}

fn summary(boots: &[ObservedBoot]) -> Summary {
    Summary::of_boots(&boots.iter().cloned().collect())
}

fn unknown(boot: &ObservedBoot) -> Vec<String> {
    let unknown = boot.brought.iter().filter(|one| one.by == Who::Unknown);
    let things = unknown.flat_map(|one| &one.things);
    things.map(|thing| thing_words(&thing.what)).collect()
}

#[test]
fn what_an_object_of_a_known_operator_owns_comes_from_it_and_its_time_counts_from_that_object() {
    let owner = json!({"is": "owner", "kind": {"group": "operator.tigera.io", "kind": "Installation"}, "name": "default"});
    let installation = object("operator.tigera.io", "Installation", "default");
    let boots: Vec<ObservedBoot> = (0..5)
        .map(|number| boot(number, owner.clone(), &installation))
        .collect();
    let summary = summary(&boots);
    let [entry] = &summary.entries[..] else {
        panic!("{:?}", summary.entries);
    };
    assert!(
        matches!(&entry.by, Provider::Operator { deployment, .. } if deployment == "tigera-operator")
    );
    assert_eq!((entry.seen.boots, entry.seen.of), (5, 5));
    assert_eq!(entry.times.unwrap().half.as_secs(), 20);
    let text = summary.text();
    let by =
        "by: {operator: tigera-operator, kind: {group: operator.tigera.io, kind: Installation}}\n";
    assert!(text.contains(by), "{text}");
    loaded(&text);
    // Without this object in the directory, nothing shows when the operator could begin.
    let elsewhere = boot(0, owner, &object("apps", "Deployment", "another"));
    let mut things = elsewhere.brought.iter().flat_map(|one| &one.things);
    assert_eq!(things.next().unwrap().after, None);
}

#[test]
fn neither_a_field_manager_nor_helm_without_a_release_proves_a_provider_or_contradicts_one() {
    let operator = object("apps", "Deployment", "widget-operator");
    for by in [
        json!({"is": "manager", "name": "widget-operator"}),
        // The usual name in Helm's templates for the Deployment of the HelmChart `widgets`.
        json!({"is": "manager", "name": "widgets"}),
        json!({"is": "helmUnnamed"}),
        json!({"is": "notKnown"}),
    ] {
        let odd = boot(3, by.clone(), &operator);
        assert_eq!(unknown(&odd), [WIDGET], "{by}");
        assert_eq!(summary(std::slice::from_ref(&odd)).entries, [], "{by}");
        let mut boots: Vec<ObservedBoot> = (0..3)
            .map(|number| boot(number, Value::Null, &operator))
            .collect();
        boots.push(odd);
        let entries = summary(&boots).entries;
        let [entry] = &entries[..] else {
            panic!("{entries:?}");
        };
        assert_eq!((entry.seen.boots, entry.seen.of), (3, 3), "{by}");
    }
}

#[test]
fn a_file_of_an_earlier_build_is_read_and_its_guesses_count_neither_for_nor_against_a_chart() {
    let honest: Vec<ObservedBoot> = (0..3)
        .map(|number| boot(number, Value::Null, &object("apps", "Deployment", "a")))
        .collect();
    // Boots of the earlier build, which wrote every chart that might have provided the kind, or the program that wrote
    // it.
    let thing = json!({"what": WIDGET, "after": 20_000, "api": 35_000});
    let chart = |name: &str, perhaps: &[Value]| {
        json!({"by": {"is": "chart", "name": name, "version": "1.4.2", "repository": "charts.example.com/stable", "manifest": true},
            "done": true, "perhaps": perhaps})
    };
    let mut other = thing.clone();
    other["after"] = json!(5_000);
    let guessed = json!([
        chart("other", &[other]),
        chart("widgets", std::slice::from_ref(&thing))
    ]);
    let manager = |manifest: bool| {
        json!([chart("widgets", &[]),
            {"by": {"is": "manager", "name": "widget-operator", "manifest": manifest}, "things": [thing]}])
    };
    let mut lines: Vec<String> = honest.iter().map(ObservedBoot::line).collect();
    for (number, brought) in [(3, guessed), (4, manager(true)), (5, manager(false))] {
        let row = boot(number, Value::Null, &object("apps", "Deployment", "a"));
        let mut row: Value = serde_json::from_str(&row.line()).unwrap();
        row["brought"] = brought;
        lines.push(row.to_string());
    }
    let text = format!(
        "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {{name: learned}}\nentries:\n  - name: operator-widget-operator\n    \
         by: {{operator: widget-operator}}\n    kinds:\n      - {{group: widgets.example.com, namespaced: [Widget]}}\n    \
         seen: {{boots: 2, of: 2, last: 2026-01-06}}\n    source: learned from 6 boots; no time is known\nboots: |\n  {}\n",
        lines.join("\n  ")
    );
    let entry = "learned/operator-widget-operator";
    let has_entry = |text: &str| {
        let rules = loaded(text);
        let mut entries = rules.knowledge.entries().iter();
        entries.any(|one| one.name == entry)
    };
    assert!(has_entry(&text));
    let file = KnowledgeFile::read(&text).unwrap();
    assert_eq!(file.refused, [""; 0]);
    let boots = file.boots.unwrap();
    assert_eq!(boots.len(), 6);
    for boot in &boots[3..] {
        assert_eq!(unknown(boot), [WIDGET], "{boot:?}");
    }
    let summary = summary(&boots);
    let [chart] = &summary.entries[..] else {
        panic!("{:?}", summary.entries);
    };
    assert!(matches!(&chart.by, Provider::Chart { name, .. } if name == "widgets"));
    assert_eq!((chart.seen.boots, chart.seen.of, chart.timed), (3, 3, 3));
    // After learning again, the entry is gone, and its boots stay.
    let again = summary.text();
    assert!(!has_entry(&again) && !again.contains("perhaps"), "{again}");
    assert_eq!(KnowledgeFile::read(&again).unwrap().boots.unwrap(), boots);
}
