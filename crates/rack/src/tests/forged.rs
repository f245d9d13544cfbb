//! Tests forged events in the name of a node: the next event of the node counts, and the row shows the contradiction.

use proptest::prelude::*;

use super::*;

/// An event of this sender with this word.
fn says(sender: &Sender, sequence: u64, second: i64, readiness: &str) -> Value {
    let mut event = sender.event(sequence, second, "node", second);
    event["data"]["readiness"] = json!(readiness);
    event
}

/// The word of the only row, and whether its reports contradict each other.
fn shown(rack: &Rack, second: i64) -> (RackWord, bool) {
    let row = rack.view(at(second)).nodes.remove(0);
    let contradicts = row
        .notes
        .iter()
        .any(|note| note.contains("another sender may use its name"));
    (row.word, contradicts)
}

#[test]
fn a_forged_number_does_not_outlast_the_next_event_of_the_same_second() {
    let mut rack = rack("");
    let sender = Sender::new(1);
    take(&mut rack, &says(&sender, 5, 60, "SettingUp"), 60);
    take(&mut rack, &says(&sender, u64::MAX, 60, "Ready"), 61);
    assert_eq!(shown(&rack, 70), (RackWord::Ready, true));
    assert!(!rack.view(at(70)).nodes[0].is_surely_ready());
    assert_eq!(rack.view(at(70)).worst(), Some(RackWord::Unknown));
    take(&mut rack, &says(&sender, 6, 60, "Failed"), 62);
    assert_eq!(shown(&rack, 70), (RackWord::Failed, true));
    take(&mut rack, &says(&sender, 7, 120, "Ready"), 120);
    assert!(!rack.view(at(130)).nodes[0].is_surely_ready());
}

#[test]
fn a_forged_uptime_does_not_outlast_the_next_event() {
    let mut rack = rack("");
    let sender = Sender::new(1);
    take(&mut rack, &says(&sender, 5, 60, "SettingUp"), 60);
    let mut forged = says(&sender, 6, 61, "Ready");
    forged["data"]["uptimeSeconds"] = json!(300_000_000);
    take(&mut rack, &forged, 61);
    take(&mut rack, &says(&sender, 6, 120, "SettingUp"), 120);
    assert_eq!(shown(&rack, 130), (RackWord::SettingUp, true));
    let row = rack.view(at(130)).nodes.remove(0);
    assert_eq!(
        (row.attention, row.began),
        (Attention::Conflict, Some(at(0)))
    );
}

#[test]
fn a_lower_number_that_was_sent_later_is_shown_as_a_contradiction() {
    let mut rack = rack("");
    let sender = Sender::new(1);
    take(&mut rack, &says(&sender, 5, 60, "SettingUp"), 60);
    take(&mut rack, &says(&sender, 1000, 61, "Ready"), 61);
    assert_eq!(shown(&rack, 70), (RackWord::Ready, false));
    take(&mut rack, &says(&sender, 6, 120, "SettingUp"), 120);
    assert_eq!(shown(&rack, 130), (RackWord::SettingUp, true));
    // Within one second of uptime, the clock of the sender decides.
    let mut rack = Rack::default();
    let mut later = says(&sender, 6, 60, "SettingUp");
    later["data"]["sentAt"] = json!("2026-11-29T00:00:00Z");
    take(&mut rack, &says(&sender, 1000, 60, "Ready"), 61);
    take(&mut rack, &later, 62);
    assert_eq!(shown(&rack, 70), (RackWord::SettingUp, true));
}

#[test]
fn a_forged_event_of_this_boot_does_not_bring_back_the_boot_before() {
    let mut rack = rack("");
    let mut sender = Sender::new(1);
    take(&mut rack, &says(&sender, 40, 100, "Ready"), 100);
    sender.boot = "second".to_owned();
    sender.boot_at = 5000;
    take(&mut rack, &says(&sender, 41, 5060, "SettingUp"), 5060);
    let mut forged = says(&sender, 0, 5061, "Ready");
    forged["data"]["uptimeSeconds"] = json!(300_000_000);
    take(&mut rack, &forged, 5061);
    take(&mut rack, &says(&sender, 42, 5120, "SettingUp"), 5120);
    assert_eq!(rack.view(at(5130)).nodes[0].boot, "second");
    assert_eq!(shown(&rack, 5130), (RackWord::SettingUp, true));
}

#[test]
fn forged_boots_do_not_outlast_the_next_event_of_the_node() {
    for sequence in [0, 6, 1 << 53, u64::MAX] {
        for boots in [1, 20] {
            let mut rack = rack("");
            let sender = Sender::new(1);
            take(&mut rack, &says(&sender, 5, 60, "SettingUp"), 60);
            for number in 0..boots {
                let mut forger = Sender::new(1);
                forger.boot = format!("forged-{number}");
                forger.boot_at = 61;
                take(&mut rack, &says(&forger, sequence, 62, "Ready"), 62);
            }
            take(&mut rack, &says(&sender, 6, 120, "Failed"), 120);
            let row = rack.view(at(130)).nodes.remove(0);
            assert_eq!(
                (row.word, row.boot.as_str()),
                (RackWord::Failed, "boot-1"),
                "{sequence}, {boots}"
            );
            // More boots than the rack stores look like reboots.
            let is_shown = row.notes.iter().any(|note| note.contains("two boots"));
            assert_eq!(is_shown, boots == 1, "{sequence}");
        }
    }
}

#[test]
fn a_forged_event_that_comes_before_those_of_the_node_does_not_outlast_them() {
    let mut rack = rack("");
    let sender = Sender::new(1);
    let mut forged = says(&sender, 9, 60, "Ready");
    forged["data"]["uptimeSeconds"] = json!(300_000_000);
    take(&mut rack, &forged, 60);
    take(&mut rack, &says(&sender, 6, 61, "SettingUp"), 61);
    assert_eq!(shown(&rack, 70), (RackWord::SettingUp, true));
    assert_eq!(rack.view(at(70)).nodes[0].began, Some(at(0)));
}

#[test]
fn an_event_that_comes_after_a_reboot_is_no_second_boot_at_the_same_time() {
    let mut rack = rack("");
    let mut sender = Sender::new(1);
    let late = says(&sender, 1, 60, "SettingUp");
    take(&mut rack, &says(&sender, 2, 100, "Ready"), 100);
    sender.boot = "second".to_owned();
    sender.boot_at = 1000;
    take(&mut rack, &says(&sender, 3, 1050, "SettingUp"), 1050);
    take(&mut rack, &late, 1060);
    take(&mut rack, &says(&sender, 4, 1110, "Ready"), 1110);
    let row = rack.view(at(1120)).nodes.remove(0);
    assert_eq!((row.boot.as_str(), row.notes.len()), ("second", 0));
    assert!(row.is_surely_ready());
}

#[test]
fn events_of_a_node_that_names_no_boot_contradict_nothing() {
    let mut rack = rack("");
    let mut sender = Sender::new(1);
    sender.boot.clear();
    for (sequence, second) in [(1, 60), (900_000, 90), (2, 120)] {
        take(&mut rack, &says(&sender, sequence, second, "Ready"), second);
    }
    assert!(!shown(&rack, 130).1);
}

/// The time between two events of a node.
#[derive(Debug, Clone)]
struct Step {
    /// Seconds since the previous event.
    pause: i64,
    /// Skipped sequence numbers, from failed attempts and from restarts.
    skipped: u64,
    /// Seconds from sending to arrival.
    delay: i64,
    comes_twice: bool,
}

fn any_step() -> impl Strategy<Value = Step> {
    (
        prop_oneof![Just(0), 1..600_i64],
        prop_oneof![Just(0), Just(256), 0..2000_u64],
        0..90_i64,
        any::<bool>(),
    )
        .prop_map(|(pause, skipped, delay, comes_twice)| Step {
            pause,
            skipped,
            delay,
            comes_twice,
        })
}

/// The events of a node: number, time of sending and time of arrival.
fn events(steps: &[Step]) -> Vec<(u64, i64, i64)> {
    let (mut sequence, mut second) = (0, 10);
    let mut events = Vec::new();
    for step in steps {
        sequence += 1 + step.skipped;
        second += step.pause;
        events.push((sequence, second, second + step.delay));
        if step.comes_twice {
            events.push((sequence, second, second + step.delay + 20));
        }
    }
    events
}

proptest! {
    #[test]
    fn a_node_whose_events_come_late_twice_and_with_gaps_contradicts_nothing(
        events in prop::collection::vec(any_step(), 1..12)
            .prop_flat_map(|steps| Just(events(&steps)).prop_shuffle()),
    ) {
        let mut rack = rack("");
        for (sequence, second, came) in &events {
            take(&mut rack, &says(&Sender::new(1), *sequence, *second, "SettingUp"), *came);
        }
        let end = events.iter().map(|(_, _, came)| *came).max().unwrap();
        prop_assert_eq!(shown(&rack, end), (RackWord::SettingUp, false));
    }

    #[test]
    fn no_forged_event_outlasts_the_next_event_of_the_node(
        steps in prop::collection::vec(any_step(), 2..12),
        after in any::<prop::sample::Index>(),
        number in prop_oneof![Just(u64::MAX), 1_000_000..u64::MAX],
        ahead in prop_oneof![Just(0), 240..300_000_000_i64],
        forges_number in any::<bool>(),
    ) {
        let sender = Sender::new(1);
        let after = after.index(steps.len() - 1);
        let mut rack = rack("");
        let mut send = |event: &Value, second: i64, moment: usize| {
            let came = at(second) + SignedDuration::from_millis(i64::try_from(moment).unwrap());
            rack.take(&read_event(event.to_string().as_bytes(), came).unwrap()).unwrap();
        };
        let (mut sequence, mut uptime, mut claimed) = (0, 10, 0);
        for (moment, step) in steps.iter().enumerate() {
            sequence += 1 + step.skipped;
            uptime += step.pause;
            send(&says(&sender, sequence, uptime, "SettingUp"), uptime, 2 * moment);
            if moment == after {
                claimed = uptime + ahead;
                let number = if forges_number || ahead == 0 { number } else { sequence + 1 };
                let mut forged = says(&sender, number, uptime, "Ready");
                forged["data"]["uptimeSeconds"] = json!(claimed);
                send(&forged, uptime, 2 * moment + 1);
            }
        }
        let (word, contradicts) = shown(&rack, uptime);
        prop_assert_eq!(word, RackWord::SettingUp);
        // A forged uptime that the node has reached since then has no effect any more.
        prop_assert!(contradicts || (!forges_number && ahead > 0 && claimed <= uptime));
    }
}
