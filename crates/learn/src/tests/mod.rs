//! Flights to rows, rows to knowledge, and back.

mod flight_lines;
mod kept;
mod phases;
mod properties;
mod providers;

use serde_json::json;
use windrow_model::manifest::{GroupKind, sha256_hex};
use windrow_plan::rules::RuleSet;
use windrow_replay::{BootState, Flights};

use self::flight_lines::BootScript;
use crate::row::thing_words;
use crate::{
    BootSet, KnowledgeFile, ObservedBoot, ObservedRefusal, Provider, Summary, Who, observe,
};

fn rows(scripts: &[BootScript]) -> Vec<ObservedBoot> {
    let rows = scripts.iter().flat_map(|script| {
        let flights = Flights::read(&script.lines()).unwrap();
        let observed = observe(&flights);
        assert_eq!(observed.refused, [""; 0]);
        observed.boots
    });
    rows.collect()
}

fn summary(scripts: &[BootScript]) -> Summary {
    Summary::of_boots(&rows(scripts).into_iter().collect())
}

/// The rules that a knowledge file results in, without the shipped entries; the file must not have errors.
fn loaded(text: &str) -> RuleSet {
    let (rules, wrong) = RuleSet::load(&[("learned.yaml".to_owned(), text.to_owned())]);
    let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    assert_eq!(wrong, [""; 0], "{text}");
    rules
}

#[test]
fn a_boot_says_who_brought_what_and_how_long_after_the_helmchart_was_applied() {
    let rows = rows(&[BootScript::new(0)]);
    let row = &rows[0];
    assert_eq!(
        (row.end, row.watched, row.cut, row.installed),
        (BootState::Ready, true, false, false)
    );
    assert_eq!(row.kubernetes.as_deref(), Some("v1.35.3+rke2r1"));
    let phases: Vec<(&str, u64)> = row
        .phases
        .iter()
        .map(|one| (one.phase.0.as_str(), one.ms))
        .collect();
    assert_eq!(phases, [("api", 60_000), ("manifests", 45_000)]);
    assert!(row.phases.iter().all(|one| !one.open));
    // Released before kube-apiserver answered, and applied 15 seconds after that.
    assert_eq!(row.polls, [15_000]);
    let [one] = &row.brought[..] else {
        panic!("{row:?}");
    };
    let chart = Who::Chart {
        name: "widgets".to_owned(),
        version: Some("1.4.2".to_owned()),
        repository: Some("charts.example.com/stable".to_owned()),
        manifest: true,
    };
    assert_eq!((&one.by, one.done), (&chart, true));
    assert_eq!(
        thing_words(&one.things[0].what),
        "Widget.widgets.example.com"
    );
    assert_eq!(
        (one.things[0].after, one.things[0].api),
        (Some(20_000), Some(35_000))
    );
}

#[test]
fn of_many_polls_the_least_the_greatest_and_even_ones_between_stay() {
    use crate::observe::even_choice;
    assert_eq!(even_choice(vec![], 3), [0_u64; 0]);
    assert_eq!(even_choice(vec![7], 3), [7]);
    assert_eq!(even_choice(vec![9, 7, 8], 3), [7, 8, 9]);
    assert_eq!(
        even_choice((0..=100).rev().collect(), 5),
        [0, 25, 50, 75, 100]
    );
    assert_eq!(even_choice((0..1000).collect(), 32).len(), 32);
}

#[test]
fn a_row_of_more_polls_than_files_are_kept_or_of_a_week_is_refused() {
    use crate::bounds::{LONGEST_MS, MOST_POLLS, complaint};
    let mut row = rows(&[BootScript::new(0)]).remove(0);
    row.polls = vec![LONGEST_MS; MOST_POLLS];
    assert_eq!(complaint(&row), None);
    row.polls.push(0);
    assert!(complaint(&row).is_some());
    row.polls = vec![LONGEST_MS + 1];
    assert!(complaint(&row).unwrap().contains("poll"));
}

#[test]
fn a_row_of_another_age_or_with_more_refusals_than_a_boot_has_is_refused() {
    use crate::bounds::{MOST_REFUSALS, complaint};
    let mut row = rows(&[BootScript::new(0)]).remove(0);
    row.refusals = vec![refusal(None); MOST_REFUSALS];
    assert_eq!(complaint(&row), None);
    row.refusals.push(refusal(None));
    assert!(complaint(&row).unwrap().contains("more than a boot"));
    row.refusals.clear();
    for (began, expected) in [
        ("2020-01-01T00:00:00Z", true),
        ("2019-12-31T00:00:00Z", false),
        ("1970-01-01T00:00:00Z", false),
        ("2100-01-01T00:00:00Z", false),
    ] {
        row.at = began.parse().unwrap();
        assert_eq!(complaint(&row).is_none(), expected, "{began}");
    }
}

fn refusal(cause: Option<&str>) -> ObservedRefusal {
    ObservedRefusal {
        kind: GroupKind::new("widgets.example.com", "Widget"),
        said: "no endpoints available".to_owned(),
        cause: cause.map(str::to_owned),
    }
}

#[test]
fn a_refusal_is_counted_by_boots_and_has_a_cause_where_all_have_the_same() {
    let mut boots = rows(&[BootScript::new(0), BootScript::new(1), BootScript::new(2)]);
    let found = |boots: &[ObservedBoot]| {
        let refusals = Summary::of_boots(&boots.iter().cloned().collect()).refusals;
        let [one] = &refusals[..] else {
            panic!("{refusals:?}");
        };
        (one.seen.boots, one.seen.of, one.cause.clone())
    };
    boots[0].refusals = vec![refusal(Some("the webhook")); 2];
    boots[1].refusals = vec![refusal(None)];
    let cause = Some("the webhook".to_owned());
    assert_eq!(found(&boots), (2, 3, cause));
    boots[1].refusals = vec![refusal(Some("another"))];
    assert_eq!(found(&boots), (2, 3, None));
}

#[test]
fn the_last_phase_of_a_boot_that_did_not_come_to_its_end_is_open() {
    let mut script = BootScript::new(0);
    script.ready = false;
    let row = rows(&[script]).remove(0);
    let open: Vec<bool> = row.phases.iter().map(|one| one.open).collect();
    assert_eq!(open, [false, true]);
}

#[test]
fn a_chart_that_is_not_in_the_directory_is_known_by_its_label() {
    let mut script = BootScript::new(0);
    script.by = json!({"is": "helm", "release": "gadgets", "namespace": "default", "chart": "gadgets", "version": "2.0.0_rke2r1"});
    let row = rows(&[script]).remove(0);
    let chart = Who::Chart {
        name: "gadgets".to_owned(),
        version: Some("2.0.0+rke2r1".to_owned()),
        repository: None,
        manifest: false,
    };
    let brought = row.brought.iter().find(|one| !one.things.is_empty());
    assert_eq!(brought.map(|one| &one.by), Some(&chart));
}

#[test]
fn what_was_learned_is_known_to_a_plan() {
    let scripts: Vec<BootScript> = (0..5).map(BootScript::new).collect();
    let summary = summary(&scripts);
    let text = summary.text();
    let rules = loaded(&text);
    let mut entries = rules.knowledge.entries().iter();
    let entry = entries
        .find(|entry| entry.name == "learned/chart-widgets")
        .unwrap();
    assert!(
        entry
            .brings
            .brings_kind(&GroupKind::new("widgets.example.com", "Widget"))
    );
    let (seen, times) = (entry.seen.unwrap(), entry.times.unwrap());
    assert_eq!((seen.boots, seen.of), (5, 5));
    assert!(times.p5.as_secs() <= 20 && times.p95.as_secs() >= 20);
    assert_eq!(rules.knowledge.phases().len(), 2, "{text}");
}

#[test]
fn a_boot_that_contradicts_lowers_the_count_and_does_not_turn_it_round() {
    let mut scripts: Vec<BootScript> = (0..5).map(BootScript::new).collect();
    scripts[3].kinds.clear();
    scripts[4].by = json!({"is": "fleet", "bundle": "other"});
    let summary = summary(&scripts);
    let entry = &summary.entries[0];
    assert_eq!((entry.seen.boots, entry.seen.of), (3, 5));
    assert!(matches!(&entry.by, Provider::Chart { name, .. } if name == "widgets"));
    // A thing that most boots contradict gets no entry, and its boots stay.
    scripts[1].kinds.clear();
    scripts[2].kinds.clear();
    let weak = self::summary(&scripts);
    assert!(weak.entries.is_empty() && weak.boots.len() == 5);
}

#[test]
fn a_boot_that_did_not_come_to_its_end_contradicts_nothing() {
    let mut scripts: Vec<BootScript> = (0..3).map(BootScript::new).collect();
    scripts[1].kinds.clear();
    scripts[1].ready = false;
    scripts[2].kinds.clear();
    scripts[2].deployed = false;
    let entry = &summary(&scripts).entries[0];
    assert_eq!((entry.seen.boots, entry.seen.of), (1, 1));
}

#[test]
fn versions_that_bring_the_same_are_one_range_and_others_are_another() {
    let with = |number, version: &str, kinds: &[&str]| {
        let mut script = BootScript::new(number);
        script.version = Some(version.to_owned());
        script.kinds = kinds.iter().map(|kind| ((*kind).to_owned(), 20)).collect();
        script
    };
    let scripts = [
        with(0, "1.4.2", &["Widget"]),
        with(1, "1.5.0", &["Widget"]),
        with(2, "2.0.0", &["Widget", "Gadget"]),
    ];
    let summary = summary(&scripts);
    let found: Vec<(&str, String, usize)> = summary
        .entries
        .iter()
        .map(|entry| {
            (
                entry.name.as_str(),
                entry.versions.to_string(),
                entry.things.len(),
            )
        })
        .collect();
    let expected = [
        ("chart-widgets-1.4.2", ">=1.4.2 <1.5.1".to_owned(), 1),
        ("chart-widgets-2.0.0", ">=2.0.0 <2.0.1".to_owned(), 2),
    ];
    assert_eq!(found, expected);
}

#[test]
fn rows_go_through_a_knowledge_file_unchanged() {
    let set: BootSet = rows(&[BootScript::new(0), BootScript::new(1)])
        .into_iter()
        .collect();
    let text = Summary::of_boots(&set).text();
    let file = KnowledgeFile::read(&text).unwrap();
    assert_eq!(file.refused, [""; 0]);
    let again: BootSet = file.boots.unwrap().into_iter().collect();
    assert_eq!(Summary::of_boots(&again).text(), text);
}

#[test]
fn a_file_that_a_person_wrote_has_no_boots_and_another_file_is_none() {
    let head = "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {name: site}\n";
    assert_eq!(KnowledgeFile::read(head).unwrap().boots, None);
    assert_eq!(KnowledgeFile::read("kind: RulePack\n"), None);
    assert_eq!(KnowledgeFile::read("a: [\n"), None);
    let torn = format!("{head}boots: |\n  {{\"format\":1\n");
    let file = KnowledgeFile::read(&torn).unwrap();
    assert_eq!(file.boots.unwrap().len(), 0);
    assert!(
        file.refused[0].starts_with("line 5: "),
        "{:?}",
        file.refused
    );
}

#[test]
fn what_comes_in_other_boots_is_an_entry_of_its_own_so_that_each_count_is_true() {
    let mut scripts: Vec<BootScript> = (0..4).map(BootScript::new).collect();
    for script in &mut scripts[..3] {
        script.kinds.push(("Gadget".to_owned(), 25));
    }
    for script in &mut scripts[1..] {
        script.kinds.push(("Gear".to_owned(), 25));
    }
    let summary = summary(&scripts);
    let found: Vec<(&str, u32, u32)> = summary
        .entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry.seen.boots, entry.seen.of))
        .collect();
    let expected = [
        ("chart-widgets", 4, 4),
        ("chart-widgets-2", 3, 4),
        ("chart-widgets-3", 3, 4),
    ];
    assert_eq!(found, expected);
}

#[test]
fn names_that_a_site_keeps_to_itself_are_not_learned_and_its_charts_are() {
    let script = BootScript::new(0);
    let plain = script.lines();
    // `flight.names` writes the lines for learning in this form.
    let with = |release: &str, namespace: &str| {
        let lines = plain
            .lines()
            .map(|line| match line.contains("\"is\":\"files\"") {
                true => format!("{line}\n"),
                false => {
                    let line = line.replace(
                        "\"release\":\"widgets\"",
                        &format!("\"release\":\"{release}\""),
                    );
                    line.replace(
                        "\"namespace\":\"default\"",
                        &format!("\"namespace\":\"{namespace}\""),
                    ) + "\n"
                }
            });
        observe(&Flights::read(&lines.collect::<String>()).unwrap()).boots
    };
    let digest = |name: &str| sha256_hex(name.as_bytes())[..12].to_owned();
    assert_eq!(
        with(&digest("widgets"), &digest("default")),
        rows(&[script])
    );
    let dropped = &with("", "")[0];
    assert!(dropped.brought.iter().all(|one| !one.done), "{dropped:?}");
    let unknown = dropped.brought.iter().find(|one| one.by == Who::Unknown);
    assert_eq!(unknown.unwrap().things.len(), 1);
}

#[test]
fn of_two_rows_of_one_boot_the_one_that_says_more_stays_whichever_comes_first() {
    let whole = rows(&[BootScript::new(0)]).remove(0);
    // The same boot, from a flight that began again in the middle.
    let mut cut = whole.clone();
    cut.cut = true;
    cut.at = "2026-01-01T00:10:00Z".parse().unwrap();
    for order in [[&whole, &cut], [&cut, &whole]] {
        let set: BootSet = order.into_iter().cloned().collect();
        assert_eq!(set.boots(), [&whole]);
    }
}

#[test]
fn a_file_takes_the_newest_boots_however_they_are_grouped() {
    let first = rows(&[BootScript::new(0)]).remove(0);
    let many: Vec<ObservedBoot> = (0..700)
        .map(|number| {
            let mut boot = first.clone();
            boot.id = format!("{number:016x}");
            boot.at = first.at + jiff::SignedDuration::from_secs(number);
            boot
        })
        .collect();
    let text = |boots: &[ObservedBoot]| Summary::of_boots(&boots.iter().cloned().collect()).text();
    let whole = text(&many);
    let kept = KnowledgeFile::read(&whole).unwrap().boots.unwrap();
    assert_eq!(kept, many[200..]);
    let mut halves = KnowledgeFile::read(&text(&many[..650]))
        .unwrap()
        .boots
        .unwrap();
    halves.extend(
        KnowledgeFile::read(&text(&many[300..]))
            .unwrap()
            .boots
            .unwrap(),
    );
    assert_eq!(text(&halves), whole);
}

#[test]
fn a_set_lacks_what_was_never_added_and_not_what_went_because_it_is_full() {
    let first = rows(&[BootScript::new(0)]).remove(0);
    let boot = |number: i64| {
        let mut boot = first.clone();
        boot.id = format!("{number:016x}");
        boot.at = first.at + jiff::SignedDuration::from_secs(number);
        boot
    };
    let set: BootSet = (10..20).map(boot).collect();
    assert!(!set.lacks(&boot(10)));
    assert!(set.lacks(&boot(9)) && set.lacks(&boot(20)));
    let full: BootSet = (0..2_100).map(boot).collect();
    assert!(!full.lacks(&boot(0)) && full.lacks(&boot(2_100)));
}

#[test]
fn a_file_takes_no_more_boots_than_have_room_and_no_row_that_is_too_large() {
    use crate::bounds::{LARGEST_ROW, MOST_REFUSALS};
    let first = rows(&[BootScript::new(0)]).remove(0);
    let large = (0..250).map(|number| {
        let mut boot = first.clone();
        boot.id = format!("{number:016x}");
        boot.at = first.at + jiff::SignedDuration::from_secs(number);
        boot.refusals = vec![refusal(Some(&"x".repeat(200))); MOST_REFUSALS];
        boot
    });
    let large: Vec<ObservedBoot> = large.collect();
    let set: BootSet = large.iter().cloned().collect();
    let kept = set.boots();
    let bytes: usize = kept.iter().map(|boot| boot.line().len()).sum();
    assert!(bytes < 5 << 19, "{bytes}");
    assert!(kept.len() > 100, "{}", kept.len());
    assert_eq!(kept.last(), large.last().as_ref());

    let head = "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {name: site}\nboots: |\n";
    let room = " ".repeat(LARGEST_ROW);
    let file = KnowledgeFile::read(&format!("{head}  {}{room}\n", first.line())).unwrap();
    assert_eq!(file.boots, Some(Vec::new()));
    assert!(
        file.refused[0].contains("larger than a row can be"),
        "{:?}",
        file.refused
    );
}

#[test]
fn a_chart_takes_other_times_on_other_hardware_where_enough_boots_show_it() {
    let script = |number, after| {
        let mut script = BootScript::new(number);
        script.kinds[0].1 = after;
        script
    };
    let slow = |number| {
        let text = script(number, 200).lines();
        let text = text.replace("16cpu-64g-nvme", "4cpu-8g-hdd");
        observe(&Flights::read(&text).unwrap()).boots.remove(0)
    };
    let mut boots = rows(&(0..4).map(|number| script(number, 20)).collect::<Vec<_>>());
    let classes = |boots: &[ObservedBoot]| {
        let summary = Summary::of_boots(&boots.iter().cloned().collect());
        let entry = summary.entries[0].clone();
        let classes = entry.times_on.iter();
        let told: Vec<_> = classes
            .map(|(one, boots)| (one.hardware.to_string(), one.times.half.as_secs(), *boots))
            .collect();
        (told, summary)
    };
    assert_eq!(classes(&boots).0, []);
    boots.extend([slow(4), slow(5)]);
    let fast = ("16cpu-64g-nvme".to_owned(), 20, 4);
    // Two boots of a class are not enough.
    assert_eq!(classes(&boots).0, std::slice::from_ref(&fast));
    boots.push(slow(6));
    let (told, summary) = classes(&boots);
    assert_eq!(told, [fast, ("4cpu-8g-hdd".to_owned(), 200, 3)]);
    // A slow node does not widen the times of the others.
    let on_fast = &summary.entries[0].times_on[0].0.times;
    assert!(on_fast.p95.as_secs() < 60 && summary.entries[0].times.unwrap().p95.as_secs() >= 200);
    assert_eq!(summary.entries[0].timed, 7);
    let rules = loaded(&summary.text());
    let mut read = rules.knowledge.entries().iter();
    let read = read
        .find(|one| one.name == "learned/chart-widgets")
        .unwrap();
    let made: Vec<_> = summary.entries[0]
        .times_on
        .iter()
        .map(|(one, _)| one.clone())
        .collect();
    assert_eq!(read.times_on, made);
}
