//! Objects that an earlier version of a chart left in the cluster.

use serde_json::{Value, json};
use windrow_replay::Flights;

use super::flight_lines::BootScript;
use crate::row::thing_words;
use crate::{BootSet, ObservedBoot, Summary, Who, observe};

/// A reboot of a node whose chart has version 2.0.0: everything existed before. The times are seconds of the boot;
/// `None` is not recorded.
fn reboot(number: i64, created: Option<i64>, revisions: &[Option<i64>]) -> ObservedBoot {
    let mut script = BootScript::new(number);
    script.version = Some("2.0.0".to_owned());
    let at = |seconds: Option<i64>| seconds.map(|seconds| json!(script.at(seconds)));
    let mut text = String::new();
    for line in script.lines().lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let times = match line["is"].as_str() {
            Some("appeared") => vec![("created", created)],
            Some("release") => revisions.iter().map(|began| ("began", *began)).collect(),
            _ => {
                text += &format!("{line}\n");
                continue;
            }
        };
        line["wasThere"] = json!(true);
        for (field, seconds) in times {
            line[field] = at(seconds).unwrap_or_default();
            text += &format!("{line}\n");
        }
    }
    observe(&Flights::read(&text).unwrap()).boots.remove(0)
}

fn summary(created: Option<i64>, revisions: &[Option<i64>]) -> Summary {
    let boots = (0..3).map(|number| reboot(number, created, revisions));
    Summary::of_boots(&boots.collect::<BootSet>())
}

const DAY: i64 = 86_400;

#[test]
fn what_was_there_before_the_present_revision_is_not_learned_of_its_version() {
    let weeks_ago = Some(-35 * DAY);
    for (created, revisions) in [
        (weeks_ago, vec![Some(-7 * DAY)]),
        // The version changed while the flight was written.
        (weeks_ago, vec![weeks_ago, Some(80)]),
        (weeks_ago, vec![None]),
        (weeks_ago, vec![]),
        (None, vec![weeks_ago]),
    ] {
        let summary = summary(created, &revisions);
        assert_eq!(summary.entries, [], "{created:?} {revisions:?}");
        let row = &summary.boots[0];
        let unknown = row.brought.iter().find(|one| one.by == Who::Unknown);
        let things = &unknown.unwrap().things;
        assert_eq!(thing_words(&things[0].what), "Widget.widgets.example.com");
    }
}

#[test]
fn a_reboot_of_the_revision_that_made_a_thing_still_says_who_brings_it() {
    // Helm creates kinds, and waits for them for up to a minute, before the release begins according to its Secret.
    for created in [-7 * DAY + 20, -7 * DAY, -7 * DAY - 27, -7 * DAY - 60] {
        let summary = summary(Some(created), &[Some(-7 * DAY)]);
        let [entry] = &summary.entries[..] else {
            panic!("{summary:?}");
        };
        assert_eq!((entry.seen.boots, entry.seen.of), (3, 3));
        assert_eq!(entry.times, None);
    }
}
