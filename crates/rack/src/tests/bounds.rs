//! Tests that data from unknown or lying nodes are limited and do not displace expected nodes.

use windrow_model::hidden::is_hidden;

use super::*;

#[test]
fn hostile_text_is_bounded_and_shows_nothing_hidden() {
    let mut rack = rack("- {name: a, mac: '52:54:00:00:00:01'}\n");
    let evil = format!(
        "\u{1b}[2J\u{202e}<script>alert(1)</script>\n{}",
        "x".repeat(1_000)
    );
    let mut event = Sender::new(1).event(1, 100, "api", 50);
    let data = event["data"].as_object_mut().unwrap();
    for key in [
        "hostname",
        "nodeName",
        "headline",
        "phase",
        "role",
        "version",
        "rke2Version",
        "serial",
        "bootId",
        "pace",
        "readiness",
    ] {
        data.insert(key.to_owned(), json!(evil));
    }
    data.insert("reason".to_owned(), json!({"code": evil, "message": evil}));
    data.insert(
        "firstBlocker".to_owned(),
        json!({"file": evil, "why": evil}),
    );
    data.insert(
        "statusServer".to_owned(),
        json!({"url": evil, "fingerprint": evil}),
    );
    data.insert(
        "findings".to_owned(),
        json!(vec![
            json!({"code": evil, "severity": evil, "subject": evil});
            5
        ]),
    );
    data.insert(
        "phases".to_owned(),
        json!(vec![json!({"name": evil, "took": u64::MAX}); 5]),
    );
    data.insert("uptimeSeconds".to_owned(), json!(u64::MAX));
    data.insert("sequence".to_owned(), json!(u64::MAX));
    data.insert("sentAt".to_owned(), json!("9999-12-30T00:00:00Z"));
    data.insert("since".to_owned(), json!("-009998-01-02T00:00:00Z"));
    take(&mut rack, &event, 100);
    let view = rack.view(at(110));
    let text = serde_json::to_string(&view).unwrap();
    assert!(!text.chars().any(is_hidden), "{text}");
    assert!(text.len() < 20_000, "{}", text.len());
    assert_eq!(view.nodes[0].id, "a");
    // Its clock shows an impossible time.
    assert!(
        view.nodes[0]
            .notes
            .iter()
            .any(|note| note.starts_with("clock off by"))
    );
    // An unknown machine that uses the name of an expected node does not get its URL.
    let mut stranger = Sender::new(2);
    stranger.host = "a".to_owned();
    take(&mut rack, &stranger.event(1, 100, "ready", 50), 100);
    let view = rack.view(at(110));
    let ids: Vec<&str> = view.nodes.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids.iter().filter(|id| **id == "a").count(), 1, "{ids:?}");
    assert!(view.node("a").unwrap().expected);
}

#[test]
fn strangers_are_bounded_and_those_who_are_expected_are_taken_all_the_same() {
    let mut rack = rack("- {name: a, mac: '52:54:00:00:00:01'}\n");
    let mut event = Sender::new(2).event(1, 100, "api", 50);
    event["data"]["macAddress"] = json!("");
    for number in 0..MOST_UNKNOWN {
        event["data"]["hostname"] = json!(format!("stranger{number}"));
        take(&mut rack, &event, 100);
    }
    // A newer identity replaces the one with the oldest report. An identity older than all others is rejected.
    event["data"]["hostname"] = json!("stranger0");
    take(&mut rack, &event, 101);
    event["data"]["hostname"] = json!("one-more");
    take(&mut rack, &event, 102);
    event["data"]["hostname"] = json!("one-before");
    assert!(rack.take(&read(&event, 99)).is_err());
    take(&mut rack, &Sender::new(1).event(1, 100, "ready", 50), 100);
    let view = rack.view(at(110));
    assert_eq!(view.notices.len(), 1);
    assert_eq!(view.counts.total, MOST_UNKNOWN + 1);
    assert_eq!(view.node("a").unwrap().word, RackWord::Ready);
    assert!(view.node("one-more").is_some() && view.node("stranger0").is_some());
    // The names of an expected node are limited in the same way.
    let mut names = Sender::new(1);
    for number in 0..100 {
        names.host = format!("name{number}");
        take(&mut rack, &names.event(2, 120, "ready", 50), 120 + number);
    }
    assert_eq!(rack.records().count(), MOST_UNKNOWN + 32);
}

#[test]
fn a_node_that_claims_anothers_name_often_does_not_shut_that_one_out() {
    let list = "- {name: a, host: n1}\n- {name: b, mac: '52:54:00:00:00:02', host: n2}\n";
    let mut rack = rack(list);
    take(&mut rack, &Sender::new(2).event(1, 90, "ready", 50), 90);
    for number in 10..60 {
        for host in ["n1", "n2"] {
            let mut liar = Sender::new(number);
            liar.host = host.to_owned();
            take(&mut rack, &liar.event(1, 100, "api", 50), 100);
        }
    }
    // An identity with only the name competes with others. The address in the list keeps its place, even if it is silent.
    take(&mut rack, &Sender::new(1).event(1, 110, "ready", 50), 110);
    let kept = |mac: &str| rack.records().any(|(one, _)| one.mac == mac);
    assert!(kept("52:54:00:00:00:01"));
    assert!(kept("52:54:00:00:00:02"));
    assert_eq!(rack.view(at(120)).node("b").unwrap().word, RackWord::Ready);
}

/// An event of the maximum size.
fn large(sender: &Sender, boot: u64, second: i64) -> NodeReport {
    let text = |letters: usize| "\u{7bc0}".repeat(letters);
    let findings =
        vec![json!({"code": text(127), "severity": text(127), "subject": text(252)}); 32];
    let mut event = sender.event(boot, second, "api", 50);
    event["data"]["bootId"] = json!(format!("b{boot}"));
    event["data"]["findings"] = json!(findings);
    read(&event, second)
}

#[test]
fn what_nodes_send_has_a_bound_in_bytes_and_strangers_go_first() {
    let list = Inventory::read("rack.yaml", "- {name: a, mac: '52:54:00:00:00:01'}\n").unwrap();
    let most = 2 << 20;
    let mut rack = Rack::with_room_for(list, most);
    rack.take(&large(&Sender::new(1), 1, 0)).unwrap();
    for number in 2..200 {
        for boot in 0..8 {
            let second = i64::from(number);
            // The last bytes belong to the previous boot.
            rack.take(&large(&Sender::new(number), boot, second))
                .unwrap();
        }
    }
    let text = |one: (&NodeIdentity, &NodeRecord)| serde_json::to_string(&one).unwrap().len();
    let bytes: usize = rack.records().map(text).sum();
    assert!(bytes < most, "{bytes}");
    assert!(rack.records().map(text).max().unwrap() < 512 << 10);
    let kept: Vec<&str> = rack.records().map(|(one, _)| one.mac.as_str()).collect();
    assert!(kept.contains(&"52:54:00:00:00:01"), "{kept:?}");
    assert!(kept.contains(&"52:54:00:00:00:c7"), "{kept:?}");
    assert!(!kept.contains(&"52:54:00:00:00:02"), "{kept:?}");
    let notices = rack.view(at(300)).notices;
    assert!(notices[0].text.contains("2 MiB"), "{notices:?}");
}
