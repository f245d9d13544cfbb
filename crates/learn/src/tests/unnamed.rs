//! Kinds of a chart's `crds/`: they do not say whose they are.

use serde_json::json;
use windrow_decide::flight::Flights;

use super::flight_lines::BootScript;
use crate::{BootSet, ObservedBoot, Provider, Summary, Who, observe};

/// When the kind comes, after the HelmChart was applied.
const AFTER: i64 = 20;

/// The lines of a boot whose kind says Helm and nothing else.
fn lines(number: i64) -> (BootScript, String) {
    let mut script = BootScript::new(number);
    script.by = json!({"is": "helmUnnamed"});
    let created = format!(
        "\"created\":\"{}\",\"is\":\"appeared\"",
        script.at(applied(&script) + AFTER)
    );
    let lines = script.lines().replace("\"is\":\"appeared\"", &created);
    (script, lines)
}

fn applied(script: &BootScript) -> i64 {
    script.api + 15
}

fn row(text: &str) -> ObservedBoot {
    let mut observed = observe(&Flights::read(text).unwrap());
    assert_eq!(observed.refused, [""; 0]);
    observed.boots.remove(0)
}

/// A boot in which a release of this name, whose chart is not in the directory, was begun and done so long after the HelmChart of the
/// other was applied.
fn beside(number: i64, release: &str, began: i64, done: i64) -> ObservedBoot {
    let (script, lines) = lines(number);
    let at = |after: i64| script.at(applied(&script) + after);
    let other = json!({"is": "release", "at": at(AFTER), "release": release, "namespace": "default", "status": "deployed",
        "began": at(began), "modified": at(done)});
    // Before the last decision, which ends the boot.
    let (before, last) = lines.trim_end().rsplit_once('\n').unwrap();
    row(&format!("{before}\n{other}\n{last}\n"))
}

fn alone(number: i64) -> ObservedBoot {
    row(&lines(number).1)
}

fn may_have_brought(boot: &ObservedBoot) -> Vec<String> {
    assert!(boot.brought.iter().all(|one| one.things.is_empty()));
    let may = boot.brought.iter().filter(|one| !one.perhaps.is_empty());
    may.map(|one| match &one.by {
        Who::Chart { name, .. } | Who::Release { name, .. } => name.clone(),
        other => format!("{other:?}"),
    })
    .collect()
}

fn set(boots: &[ObservedBoot]) -> BootSet {
    boots.iter().cloned().collect()
}

#[test]
fn everyone_who_was_at_work_may_have_brought_a_kind_that_says_helm_alone() {
    assert_eq!(may_have_brought(&alone(0)), ["widgets"]);
    for (began, done, may) in [
        (0, AFTER, true),
        (0, AFTER + 30, true),
        // Done before the kind came.
        (0, AFTER - 5, false),
        // Helm writes down that it begins when the kinds of `crds/` are there, for which it waits a minute.
        (AFTER + 50, AFTER + 60, true),
        (AFTER + 70, AFTER + 80, false),
    ] {
        let found = may_have_brought(&beside(0, "other", began, done));
        let expected = if may {
            vec!["widgets", "other"]
        } else {
            vec!["widgets"]
        };
        assert_eq!(found, expected, "{began} to {done}");
    }
}

#[test]
fn a_chart_of_which_helm_has_written_nothing_yet_may_have_brought_it() {
    let (_, text) = lines(0);
    // A second HelmChart in the same file, so that it is applied at the same time.
    let other = |name: &str| {
        json!({"id": {"group": "helm.cattle.io", "kind": "HelmChart", "namespace": "default", "name": name}, "version": "v1", "line": 9,
            "lines": [], "object": {"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"chart": name, "repo": "https://charts.example.com/stable"}}})
    };
    let lines = text.lines().map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        if line["is"] == "files" {
            let objects = line["files"][0]["documents"][0]["objects"].as_array_mut();
            objects.unwrap().push(other("broken"));
        }
        format!("{line}\n")
    });
    let boot = row(&lines.collect::<String>());
    assert_eq!(may_have_brought(&boot), ["broken", "widgets"]);
}

#[test]
fn boots_tell_together_whose_a_kind_is_and_its_times_are_of_all_of_them() {
    let both = |number| beside(number, "other", 0, AFTER);
    let mut boots: Vec<ObservedBoot> = (0..4).map(both).collect();
    assert_eq!(Summary::of_boots(&set(&boots)).entries, []);
    // Fewer than three boots speak for themselves alone.
    boots.extend([alone(4), alone(5)]);
    let seen = |boots: &[ObservedBoot]| {
        let summary = Summary::of_boots(&set(boots));
        assert_eq!(summary.boots, boots);
        let [entry] = &summary.entries[..] else {
            panic!("{:?}", summary.entries);
        };
        assert!(matches!(&entry.by, Provider::Chart { name, .. } if name == "widgets"));
        (entry.seen.boots, entry.seen.of, entry.timed)
    };
    assert_eq!(seen(&boots), (2, 2, 2));
    boots.push(alone(6));
    assert_eq!(seen(&boots), (7, 7, 7));
}

#[test]
fn a_boot_in_which_the_chart_was_done_before_the_kind_came_contradicts() {
    let mut boots: Vec<ObservedBoot> = (0..9).map(alone).collect();
    let (script, mut text) = lines(9);
    let at = |after: i64| script.at(applied(&script) + after);
    // The chart was there long before, and another release was at work.
    for (from, to) in [(1, -50), (AFTER + 2, -40)] {
        text = text.replace(&format!("\"{}\"", at(from)), &format!("\"{}\"", at(to)));
    }
    let other = json!({"is": "release", "at": at(AFTER), "release": "other", "namespace": "default", "status": "deployed",
        "began": at(0), "modified": at(AFTER)});
    let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
    let odd = row(&format!("{before}\n{other}\n{last}\n"));
    assert_eq!(may_have_brought(&odd), ["other"]);
    boots.push(odd);
    let summary = Summary::of_boots(&set(&boots));
    assert_eq!(
        (summary.entries[0].seen.boots, summary.entries[0].seen.of),
        (9, 10)
    );
}
