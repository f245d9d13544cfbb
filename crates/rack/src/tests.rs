//! Tests that the rack shows the right state for any reports in any order.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::*;

mod bounds;
mod forged;
mod order;
mod sources;

/// Start of the tests, by the clock of the receiver.
fn start() -> Timestamp {
    Timestamp::constant(1_795_000_000, 0)
}

fn at(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

/// Sends events of a machine that booted at `boot_at`. Times are by the clock of the receiver, and `ahead` is the offset of the
/// machine's clock.
struct Sender {
    mac: String,
    host: String,
    boot: String,
    boot_at: i64,
    ahead: i64,
}

impl Sender {
    fn new(number: u8) -> Self {
        Self {
            mac: format!("52:54:00:00:00:{number:02x}"),
            host: format!("n{number}"),
            boot: format!("boot-{number}"),
            boot_at: 0,
            ahead: 0,
        }
    }

    fn event(&self, sequence: u64, second: i64, phase: &str, since: i64) -> Value {
        let clock = |second: i64| at(second + self.ahead).to_string();
        json!({
            "specversion": "1.0",
            "id": format!("{}-{sequence}", self.boot),
            "source": "//windrow.dev/nodes/x",
            "type": "dev.windrow.node.phase",
            "data": {
                "hostname": self.host, "macAddress": self.mac, "bootId": self.boot,
                "sequence": sequence, "sentAt": clock(second), "uptimeSeconds": second - self.boot_at,
                "readiness": if phase == "ready" { "Ready" } else { "SettingUp" },
                "phase": phase, "since": clock(since), "phaseSince": clock(since),
                "pace": if phase == "ready" { Value::Null } else { json!("moving") },
                "headline": "Setting up", "reason": {"code": "api-down", "message": "127.0.0.1:6443 refuses connections"},
                "version": "0.1.0",
            },
        })
    }
}

fn read(event: &Value, second: i64) -> NodeReport {
    read_event(event.to_string().as_bytes(), at(second)).unwrap()
}

fn rack(inventory: &str) -> Rack {
    Rack::new(match inventory {
        "" => Inventory::default(),
        text => Inventory::read("rack.yaml", text).unwrap(),
    })
}

fn take(rack: &mut Rack, event: &Value, second: i64) {
    rack.take(&read(event, second)).unwrap();
}

fn rows(view: &RackView) -> Vec<(&str, RackWord)> {
    let rows = view.nodes.iter();
    rows.map(|row| (row.name.as_str(), row.word)).collect()
}

#[test]
fn an_event_of_an_older_node_is_taken_too() {
    let event = json!({
        "specversion": "1.0", "id": "5f0c", "source": "//windrow.dev/nodes/node1", "type": "dev.windrow.node.ready",
        "subject": "node1", "time": "2026-11-21T09:00:00Z", "datacontenttype": "application/json",
        "data": {"hostname": "node1", "nodeName": "node1", "macAddress": "52:54:00:00:00:01", "ipv4": "10.1.2.3", "ipv6": "",
            "readiness": "Ready", "phase": "ready", "since": "2026-11-21T09:00:00Z", "phaseSince": null, "pace": null,
            "paceSince": null, "expected": null, "headline": "Ready", "reason": {"code": "node-ready", "message": "all is well"},
            "summary": "Ready", "role": "first-server", "generation": 41,
            "staging": {"total": 3, "held": 0, "applied": 3, "failed": 0}},
    });
    let mut rack = rack("");
    take(&mut rack, &event, 0);
    let view = rack.view(at(60));
    let row = &view.nodes[0];
    assert_eq!(
        (row.word, row.attention),
        (RackWord::Ready, Attention::Fine)
    );
    assert_eq!(
        (row.id.as_str(), row.addresses.as_slice()),
        ("node1", &["10.1.2.3".to_owned()][..])
    );
    assert_eq!(row.files.map(|files| files.applied), Some(3));
    assert_eq!(row.blocker, "");
}

#[test]
fn everything_that_is_wrong_with_an_event_is_said_at_once() {
    let wrong = |event: &Value| read_event(event.to_string().as_bytes(), start()).unwrap_err();
    assert_eq!(
        read_event(b"{", start()).unwrap_err(),
        ["line 1: the event is not JSON"]
    );
    assert!(read_event(b"[1]", start()).unwrap_err()[0].contains("a map"));
    assert_eq!(
        wrong(&json!({"type": "com.example", "data": {}})),
        [
            "specversion: this is not a CloudEvent of version 1.0",
            "type: Windrow's events begin with dev.windrow.",
            "id: write the event's id",
            "data.hostname: the event names no node: it needs macAddress, serial or hostname",
        ]
    );
    let mut event = Sender::new(1).event(1, 10, "api", 5);
    event["data"]["sequence"] = json!("x");
    event["data"]["sentAt"] = json!("yesterday");
    event["data"]["addresses"] = json!([1]);
    event["data"]["findings"] = json!([{"code": 1}]);
    assert_eq!(wrong(&event).len(), 4);
    let large = vec![b' '; LARGEST_REPORT + 1];
    assert_eq!(
        read_event(&large, start()).unwrap_err(),
        ["the event is larger than 64 KiB"]
    );
}

#[test]
fn who_never_came_is_told_and_who_came_is_found_by_address_serial_or_name() {
    let mut rack = rack(
        "- {name: a, mac: '52:54:00:00:00:01', rack: r1}\n- {name: b, serial: S2}\n- {name: c, host: n3}\n- {name: d, mac: '52:54:00:00:00:04'}\n",
    );
    take(&mut rack, &Sender::new(1).event(1, 10, "ready", 5), 10);
    let mut two = Sender::new(2).event(1, 10, "ready", 5);
    two["data"]["serial"] = json!("s2");
    take(&mut rack, &two, 10);
    take(&mut rack, &Sender::new(3).event(1, 10, "ready", 5), 10);
    take(&mut rack, &Sender::new(9).event(1, 10, "ready", 5), 10);
    assert_eq!(rack.inventory().nodes.len(), 4);
    let view = rack.view(at(20));
    assert_eq!(
        rows(&view),
        [
            ("d", RackWord::NeverCame),
            ("a", RackWord::Ready),
            ("b", RackWord::Ready),
            ("c", RackWord::Ready),
            ("n9", RackWord::Ready),
        ]
    );
    assert_eq!(view.worst(), Some(RackWord::NeverCame));
    assert_eq!((view.counts.expected, view.counts.never_came), (4, 1));
    assert_eq!(view.node("a").unwrap().rack, "r1");
    assert!(!view.node("n9").unwrap().expected);
}

#[test]
fn a_name_is_no_proof_against_an_address_and_contradictions_are_told() {
    let mut rack = rack(
        "- {name: a, mac: '52:54:00:00:00:01', host: n1}\n- {name: b, host: n2, mac: '52:54:00:00:00:02'}\n",
    );
    // It has the name of node a with another address.
    let mut stranger = Sender::new(7);
    stranger.host = "n1".to_owned();
    take(&mut rack, &stranger.event(1, 10, "ready", 5), 10);
    // It has the address of node b with the name of node a.
    let mut swapped = Sender::new(2);
    swapped.host = "n1".to_owned();
    take(&mut rack, &swapped.event(1, 10, "ready", 5), 10);
    let view = rack.view(at(20));
    assert_eq!(
        rows(&view),
        [
            ("b", RackWord::Ready),
            ("n1", RackWord::Ready),
            ("a", RackWord::NeverCame)
        ]
    );
    assert_eq!(
        view.nodes[0].notes,
        ["it is b by its address, and a by its serial or name"]
    );
    assert_eq!(
        view.nodes[1].notes,
        ["a is expected with 52:54:00:00:00:01, and this machine has 52:54:00:00:00:07"]
    );
}

#[test]
fn a_report_without_an_address_joins_the_one_machine_of_its_name() {
    let mut rack = rack("");
    let mut early = Sender::new(1);
    early.mac = String::new();
    take(&mut rack, &early.event(1, 5, "network", 1), 5);
    take(&mut rack, &Sender::new(1).event(2, 30, "api", 25), 30);
    let view = rack.view(at(40));
    assert_eq!(view.nodes.len(), 1);
    let names: Vec<&str> = view.nodes[0]
        .phases
        .iter()
        .map(|phase| phase.name.as_str())
        .collect();
    assert_eq!(names, ["network", "api"]);
    // Every machine is called localhost for a while, so this name must not merge machines.
    let mut nameless = early;
    nameless.host = "localhost".to_owned();
    take(&mut rack, &nameless.event(1, 5, "network", 1), 5);
    let mut other = Sender::new(2);
    other.host = "localhost".to_owned();
    take(&mut rack, &other.event(1, 5, "network", 1), 5);
    assert_eq!(rack.view(at(40)).nodes.len(), 3);
}

#[test]
fn a_clock_that_is_off_is_told_and_moves_no_phase() {
    let mut rack = rack("");
    let mut sender = Sender::new(1);
    sender.ahead = -3 * 3600;
    take(&mut rack, &sender.event(1, 100, "api", 40), 100);
    let view = rack.view(at(160));
    let row = &view.nodes[0];
    assert_eq!(row.notes, ["clock off by 3 h (behind)"]);
    assert_eq!(row.clock_offset, Some(-3 * 3600));
    assert_eq!(row.since, Some(at(40)));
    assert_eq!(row.phases[0].from, at(40));
    assert_eq!(row.began, Some(at(0)));
    // NTP corrects the clock: the earlier phases keep their times.
    sender.ahead = 0;
    take(&mut rack, &sender.event(2, 200, "node", 190), 200);
    let view = rack.view(at(200));
    let row = &view.nodes[0];
    assert!(row.notes.is_empty(), "{:?}", row.notes);
    let spans: Vec<(&str, Timestamp)> = row
        .phases
        .iter()
        .map(|phase| (phase.name.as_str(), phase.from))
        .collect();
    assert_eq!(spans, [("api", at(40)), ("node", at(190))]);
    assert_eq!(row.phases[0].to, Some(at(190)));
    // A phase that began before the clock was set would be before the boot, so the report dates it.
    let mut jumped = Sender::new(2);
    jumped.ahead = 10 * 3600;
    take(&mut rack, &jumped.event(1, 50, "api", 40 - 10 * 3600), 50);
    let view = rack.view(at(60));
    assert_eq!(view.node("n2").unwrap().phases[0].from, at(50));
}

#[test]
fn a_reboot_begins_a_new_row_of_phases_and_an_event_that_comes_late_changes_nothing() {
    let mut rack = rack("");
    let mut sender = Sender::new(1);
    let late = sender.event(1, 60, "api", 50);
    take(&mut rack, &sender.event(2, 100, "node", 90), 100);
    sender.boot = "second".to_owned();
    sender.boot_at = 1000;
    take(&mut rack, &sender.event(3, 1050, "network", 1040), 1050);
    take(&mut rack, &sender.event(4, 1100, "api", 1090), 1110);
    let before = rack.view(at(2000));
    let row = &before.nodes[0];
    assert_eq!(
        (row.boot.as_str(), row.boots, row.phase.as_str()),
        ("second", 2, "api")
    );
    assert_eq!(row.began, Some(at(1000)));
    let names: Vec<&str> = row.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["network", "api"]);
    // A delayed event of the first boot.
    take(&mut rack, &late, 1105);
    let row = rack.view(at(2000)).nodes[0].clone();
    assert_eq!((row.boot.as_str(), row.phase.as_str()), ("second", "api"));
    assert_eq!(row.phases, before.nodes[0].phases);
}

#[test]
fn the_last_eight_boots_of_a_machine_are_remembered() {
    let mut rack = rack("");
    let mut sender = Sender::new(1);
    for boot in 1..=12_u32 {
        sender.boot = format!("boot-{boot}");
        sender.boot_at = i64::from(boot) * 1000;
        let second = sender.boot_at + 60;
        take(
            &mut rack,
            &sender.event(boot.into(), second, "api", second),
            second,
        );
    }
    let row = rack.view(at(13_000)).nodes[0].clone();
    assert_eq!((row.boot.as_str(), row.boots), ("boot-12", 8));
}

#[test]
fn a_lone_event_of_an_earlier_boot_is_known_by_its_number() {
    let mut rack = rack("");
    let mut sender = Sender::new(1);
    let late = sender.event(1, 60, "api", 50);
    sender.boot = "second".to_owned();
    sender.boot_at = 1000;
    take(&mut rack, &sender.event(3, 1050, "network", 1040), 1050);
    // By its uptime, the late event has a later boot than the second one.
    take(&mut rack, &late, 1105);
    take(&mut rack, &sender.event(4, 1110, "node", 1100), 1110);
    assert_eq!(rack.view(at(2000)).nodes[0].phase, "node");
}

#[test]
fn an_event_that_comes_late_says_nothing_of_the_clock() {
    let mut rack = rack("");
    let sender = Sender::new(1);
    take(&mut rack, &sender.event(1, 60, "network", 50), 60);
    take(&mut rack, &sender.event(2, 100, "api", 90), 1000);
    let row = rack.view(at(1010)).nodes[0].clone();
    assert_eq!((row.clock_offset, row.notes.len()), (Some(0), 0));
}

#[test]
fn a_node_that_was_installed_again_counts_from_the_beginning() {
    let mut rack = rack("");
    let mut sender = Sender::new(1);
    take(&mut rack, &sender.event(40, 100, "ready", 90), 100);
    sender.boot = "installed".to_owned();
    sender.boot_at = 5000;
    take(&mut rack, &sender.event(1, 5050, "network", 5040), 5050);
    assert_eq!(rack.view(at(5060)).nodes[0].phase, "network");
}

#[test]
fn a_node_that_lost_its_numbers_within_a_boot_is_not_shown_as_it_was() {
    let mut rack = rack("");
    let sender = Sender::new(1);
    take(&mut rack, &sender.event(5000, 1000, "ready", 900), 1000);
    take(&mut rack, &sender.event(1, 2000, "api", 1990), 2000);
    // An event that arrives late is still the older one.
    take(&mut rack, &sender.event(4999, 950, "network", 900), 2001);
    assert_eq!(rack.view(at(2010)).nodes[0].phase, "api");
}

#[test]
fn two_machines_of_one_address_are_told() {
    let mut rack = rack("");
    let (one, mut two) = (Sender::new(1), Sender::new(1));
    two.boot = "another".to_owned();
    for second in [100, 200] {
        take(
            &mut rack,
            &one.event(second as u64, second, "api", 90),
            second,
        );
        take(
            &mut rack,
            &two.event(second as u64, second + 10, "api", 90),
            second + 10,
        );
    }
    let row = rack.view(at(300)).nodes[0].clone();
    assert_eq!(row.attention, Attention::Conflict);
    assert!(row.notes[0].contains("two boots"), "{:?}", row.notes);
}

#[test]
fn who_should_have_reported_and_has_not_is_silent() {
    let mut rack = rack("");
    let periodic = |number: u8, sequence: u64, second: i64, phase: &str| {
        let mut event = Sender::new(number).event(sequence, second, phase, 5);
        event["type"] = json!("dev.windrow.node.seen");
        event
    };
    for (sequence, second) in [(1, 60), (2, 120), (3, 180)] {
        take(&mut rack, &periodic(1, sequence, second, "ready"), second);
    }
    // These nodes report their presence only once.
    take(&mut rack, &periodic(2, 1, 60, "ready"), 60);
    take(&mut rack, &periodic(3, 1, 60, "api"), 60);
    let mut stalled = periodic(4, 1, 60, "api");
    stalled["data"]["pace"] = json!("stalled");
    take(&mut rack, &stalled, 60);
    let words = |second| {
        let view = rack.view(at(second));
        let mut words: Vec<(String, RackWord)> = view
            .nodes
            .iter()
            .map(|row| (row.name.clone(), row.word))
            .collect();
        words.sort();
        words.into_iter().map(|(_, word)| word).collect::<Vec<_>>()
    };
    use RackWord::{Ready, SettingUp, Silent};
    assert_eq!(words(180 + 209), [Ready, Ready, SettingUp, SettingUp]);
    assert_eq!(words(180 + 211), [Silent, Ready, SettingUp, SettingUp]);
    assert_eq!(words(60 + 1801), [Silent, Ready, Silent, SettingUp]);
}

#[test]
fn of_two_machines_with_one_serial_the_expected_node_is_the_one_heard_of_last() {
    let mut rack = rack("- {name: first, serial: S1}\n");
    let mut send = |number: u8, second: i64| {
        let mut event = Sender::new(number).event(1, second, "ready", 5);
        event["data"]["serial"] = json!("S1");
        take(&mut rack, &event, second);
        let rows = rack.view(at(second)).nodes;
        let expected = rows.iter().find(|row| row.expected).unwrap();
        expected.mac.clone()
    };
    // Its network card was replaced by one with a greater address.
    assert_eq!(send(1, 100), "52:54:00:00:00:01");
    assert_eq!(send(2, 2000), "52:54:00:00:00:02");
}

#[test]
fn who_needs_a_person_first_stands_first() {
    let mut rack = rack("- {name: absent, mac: '52:54:00:00:00:0f'}\n");
    let mut send = |number: u8, readiness: &str, pace: &str| {
        let mut event = Sender::new(number).event(1, 100, "api", 50);
        event["data"]["readiness"] = json!(readiness);
        event["data"]["pace"] = json!(pace);
        take(&mut rack, &event, 100);
    };
    send(1, "Ready", "moving");
    send(2, "SettingUp", "moving");
    send(3, "SettingUp", "slow");
    send(4, "Degraded", "moving");
    send(5, "SettingUp", "stalled");
    send(6, "Failed", "stuck");
    send(7, "Something", "moving");
    send(10, "SettingUp", "moving");
    let view = rack.view(at(110));
    let names: Vec<&str> = view.nodes.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(
        names,
        ["n6", "n5", "absent", "n4", "n7", "n3", "n2", "n10", "n1"]
    );
    assert_eq!(view.worst(), Some(RackWord::Failed));
    assert_eq!((view.counts.hanging, view.counts.setting_up), (1, 4));
    assert_eq!(Rack::default().view(start()).worst(), None);
}

#[test]
fn another_version_than_most_is_told() {
    let mut rack = rack("");
    for number in 1..=3 {
        let mut event = Sender::new(number).event(1, 100, "ready", 50);
        event["data"]["version"] = json!(if number == 3 { "0.2.0" } else { "0.1.0" });
        event["data"]["rke2Version"] = json!("v1.33.1+rke2r1");
        take(&mut rack, &event, 100);
    }
    let view = rack.view(at(110));
    assert_eq!(view.nodes[0].name, "n3");
    assert_eq!(view.nodes[0].notes, ["windrow 0.2.0, most have 0.1.0"]);
    assert!(view.nodes[1].notes.is_empty());
}

#[test]
fn a_machine_that_has_the_name_of_the_list_and_another_address_says_what_contradicts() {
    let mut rack =
        rack("- {name: n1, mac: '52:54:00:00:00:09'}\n- {name: n2, mac: '52:54:00:00:00:02'}\n");
    take(&mut rack, &Sender::new(1).event(1, 100, "ready", 50), 100);
    let mut liar = Sender::new(2);
    liar.host = "n1".to_owned();
    take(&mut rack, &liar.event(1, 100, "ready", 50), 100);
    let view = rack.view(at(110));
    let notes = |mac: &str| {
        let row = view.nodes.iter().find(|row| row.mac == mac).unwrap();
        (row.expected, row.notes.join("; "))
    };
    let (expected, said) = notes("52:54:00:00:00:01");
    assert!(
        !expected && said.contains("n1 is expected with 52:54:00:00:00:09"),
        "{said}"
    );
    assert_eq!(view.node("n1").unwrap().word, RackWord::NeverCame);
    let (expected, said) = notes("52:54:00:00:00:02");
    assert!(
        expected && said.contains("n1 by its serial or name"),
        "{said}"
    );
}

#[test]
fn what_is_kept_is_what_was_known() {
    let mut rack = rack("");
    for number in 1..4 {
        take(
            &mut rack,
            &Sender::new(number).event(1, 100, "api", 50),
            100,
        );
    }
    let mut again = Rack::default();
    for (identity, record) in rack.records() {
        let text = serde_json::to_string(&(identity, record)).unwrap();
        let (identity, record) = serde_json::from_str(&text).unwrap();
        again.restore(identity, record).unwrap();
    }
    assert_eq!(again.view(at(200)), rack.view(at(200)));
}
