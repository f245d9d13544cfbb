//! Boots that are left out.

use super::flight_lines::BootScript;
use super::rows;
use crate::Backtest;

fn backtest(scripts: &[BootScript]) -> Backtest {
    Backtest::run(&rows(scripts).into_iter().collect(), |_, _| {})
}

/// Boots whose times vary, always in the same way.
fn varied(count: i64) -> Vec<BootScript> {
    let boots = (0..count).map(|number| {
        let mut script = BootScript::new(number);
        script.api = 60 + (number * 37) % 41;
        script.kinds[0].1 = 15 + (number * 29) % 23;
        script
    });
    boots.collect()
}

#[test]
fn a_boot_that_is_left_out_falls_into_the_intervals_of_the_others() {
    let found = backtest(&varied(30));
    assert_eq!(found.boots, 30);
    let round = &found.leave_one_out;
    let all = &round.coverage[0];
    // Two phases and a chart.
    assert_eq!(
        (all.of.as_str(), all.cases, round.cases.len()),
        ("all", 90, 90)
    );
    assert!(
        all.in_most * 100 >= all.cases * 85 && all.in_half < all.in_most,
        "{all:?}"
    );
    let in_half = round.cases.iter().filter(|case| {
        let [_, p25, _, p75, _] = case.predicted;
        (p25..=p75).contains(&case.seconds)
    });
    assert_eq!(all.in_half, in_half.count());
    let sorts: Vec<&str> = round.coverage[1..]
        .iter()
        .map(|one| one.of.as_str())
        .collect();
    assert_eq!(sorts, ["phase api", "phase manifests", "the chart widgets"]);
    assert_eq!((round.came, round.not_predicted), (30, 0));
    assert!(round.wrong_verdicts.is_empty() && round.wrong_providers.is_empty());
    // The first one has no older one.
    assert_eq!(found.by_older.coverage[0].cases, 87);
    assert_eq!((found.by_older.came, found.by_older.not_predicted), (29, 1));
}

#[test]
fn who_waits_for_a_backtest_hears_of_each_prediction() {
    let mut heard = Vec::new();
    Backtest::run(&rows(&varied(3)).into_iter().collect(), |number, of| {
        heard.push((number, of));
    });
    assert_eq!(heard, [(0, 6), (1, 6), (2, 6), (3, 6), (4, 6), (5, 6)]);
}

#[test]
fn what_was_said_to_come_and_did_not_is_a_wrong_verdict_only_where_enough_boots_say_it() {
    let mut scripts = varied(12);
    scripts[5].kinds.clear();
    scripts[7].by = serde_json::json!({"is": "fleet", "bundle": "other"});
    let found = backtest(&scripts);
    let round = &found.leave_one_out;
    assert_eq!(round.did_not_come.len(), 1);
    assert_eq!(round.did_not_come[0].what, "Widget.widgets.example.com");
    assert_eq!(
        (round.did_not_come[0].boots, round.did_not_come[0].of),
        (10, 11)
    );
    assert_eq!(round.wrong_verdicts.len(), 1);
    let [other] = &round.wrong_providers[..] else {
        panic!("{:?}", round.wrong_providers);
    };
    assert_eq!(other.came_from.as_deref(), Some("Fleet's bundle other"));
    // After two boots a plan does not count on it.
    let few = backtest(&{
        let mut scripts = varied(3);
        scripts[2].kinds.clear();
        scripts
    });
    assert_eq!(few.leave_one_out.did_not_come.len(), 1);
    assert!(few.leave_one_out.wrong_verdicts.is_empty());
}
