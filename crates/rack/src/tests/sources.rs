//! Tests the content of status documents and Nodes of Kubernetes.

use windrow_plan::readiness::node::{Pace, Readiness};

use windrow_harvester::node_condition::{ANNOTATION, CONDITION};

use super::*;

#[test]
fn a_status_document_and_a_node_of_kubernetes_say_the_same_as_an_event() {
    let mut rack = rack("- {name: a, mac: '52:54:00:00:00:01', host: n1}\n");
    let document = json!({
        "apiVersion": "windrow.dev/v1", "kind": "Status", "generation": 7, "host": "n1", "readiness": "SettingUp",
        "phase": "api", "since": at(40).to_string(), "phaseSince": at(40).to_string(), "pace": "slow",
        "reason": {"code": "api-down", "message": "127.0.0.1:6443 refuses connections"},
        "phases": [{"name": "network", "state": "done", "done": 1, "total": 1, "began": at(10).to_string(), "seconds": 30},
            {"name": "api", "state": "current", "done": 0, "total": 1, "began": at(40).to_string()},
            {"name": "node", "state": "pending", "done": 0, "total": 1}],
        "staging": {"total": 2, "held": [{"file": "vm.yaml", "why": "waits for kind VirtualMachine"}], "released": [], "applied": [{}], "failed": []},
        "findings": [{"code": "image-missing", "severity": "warning", "message": "m", "at": [{"file": "x.yaml"}]}],
        "versions": {"windrow": "0.1.0"}, "writer": {"pid": 1, "startTicks": 1, "bootId": "boot-1"},
    });
    let asked = NodeIdentity::new("52:54:00:00:00:01", "", "");
    let list = Inventory::default();
    let read = read_document(&document, at(100), None, Some((&asked, &list))).unwrap();
    let report = read.report;
    rack.take(&report).unwrap();
    let row = rack.view(at(110)).nodes[0].clone();
    assert_eq!(
        (row.name.as_str(), row.word, row.attention),
        ("a", RackWord::SettingUp, Attention::Slow)
    );
    assert_eq!(row.blocker, "vm.yaml: waits for kind VirtualMachine");
    assert_eq!(
        (report.state.reason.as_str(), report.state.message.as_str()),
        ("api-down", "127.0.0.1:6443 refuses connections")
    );
    assert_eq!(row.since, Some(at(40)));
    let names: Vec<&str> = row.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["network", "api"]);
    assert_eq!(row.findings[0].subject, "x.yaml");
    assert_eq!(row.source, "document");
    assert!(read_document(&json!({"kind": "Pod"}), at(1), None, None).is_err());

    let node = |status: &str, message: &str, heartbeat: i64| {
        json!({"metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/control-plane": "true"}}, "status": {
            "nodeInfo": {"bootID": "boot-1", "kubeletVersion": "v1.33.1+rke2r1"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n1"}],
            "conditions": [{"type": "Ready", "status": "True"}, {"type": CONDITION, "status": status, "reason": "NodeReady",
                "message": message, "lastHeartbeatTime": at(heartbeat).to_string(), "lastTransitionTime": at(90).to_string()}]}})
    };
    let ready = read_node(
        &node("False", "Ready: every required probe passes", 1000),
        at(1000),
        Heartbeat::ByItsClock,
    )
    .unwrap();
    rack.take(&ready).unwrap();
    let row = rack.view(at(1010)).nodes[0].clone();
    assert_eq!(
        (row.word, row.source.as_str()),
        (RackWord::Ready, "condition")
    );
    assert_eq!(
        (row.version.as_str(), row.rke2_version.as_str()),
        ("0.1.0", "v1.33.1+rke2r1")
    );
    let hangs = read_node(
        &node(
            "True",
            "Setting up (kube-apiserver, 20+ min, stalled): refused",
            1000,
        ),
        at(1000),
        Heartbeat::ByItsClock,
    )
    .unwrap();
    assert_eq!(
        (hangs.state.readiness, hangs.state.phase.as_str()),
        (Readiness::SettingUp, "api")
    );
    for headline in [
        "Failed (install RKE2, 1 h)",
        "Failed (kube-apiserver, 63 min)",
    ] {
        let lost = node("True", &format!("{headline}: it was Ready"), 1000);
        let lost = read_node(&lost, at(1000), Heartbeat::ByItsClock).unwrap();
        assert_eq!(lost.state.readiness, Readiness::Failed, "{headline}");
    }
    let stale = read_node(
        &node("False", "Ready: fine", 0),
        at(901),
        Heartbeat::ByItsClock,
    )
    .unwrap();
    assert_eq!(stale.state.readiness, Readiness::Unknown);
    // The clock is hours behind, but the receiver saw the change.
    let behind = read_node(&node("False", "Ready: fine", 0), at(901), Heartbeat::Seen).unwrap();
    assert_eq!(behind.state.readiness, Readiness::Ready);
    assert_eq!(
        read_node(
            &json!({"metadata": {"name": "n"}, "status": {"conditions": []}}),
            at(1),
            Heartbeat::Seen
        ),
        None
    );
}

/// A Node with a condition of this time and an annotation.
fn annotated(annotation: &str, heartbeat: i64) -> Value {
    json!({"metadata": {"name": "n1", "annotations": {ANNOTATION: annotation}}, "status": {
        "nodeInfo": {"bootID": "boot-1", "kubeletVersion": "v1.33.1+rke2r1"},
        "conditions": [{"type": CONDITION, "status": "True", "reason": "ApiNotReady",
            "message": "Setting up (kube-apiserver, 20+ min, stalled): 127.0.0.1:6443 refuses connections",
            "lastHeartbeatTime": at(heartbeat).to_string(), "lastTransitionTime": at(10).to_string()}]}})
}

#[test]
fn the_annotation_says_what_the_condition_has_no_room_for() {
    let annotation = json!({
        "phase": "api", "phaseSince": at(40).to_string(), "since": at(40).to_string(), "pace": "stalled",
        "findingCount": 1, "findings": [{"code": "image-missing", "severity": "warning", "subject": "x.yaml"}],
        "version": "0.1.0", "later": {"more": [1]},
    });
    let mut rack = rack("");
    let node = annotated(&annotation.to_string(), 1000);
    let report = read_node(&node, at(1000), Heartbeat::ByItsClock).unwrap();
    rack.take(&report).unwrap();
    let row = rack.view(at(1010)).nodes[0].clone();
    assert_eq!(
        (row.word, row.pace),
        (RackWord::SettingUp, Some(Pace::Stalled))
    );
    assert_eq!(row.attention, Attention::Stalled);
    assert_eq!((row.since, row.version.as_str()), (Some(at(40)), "0.1.0"));
    assert_eq!(row.blocker, "127.0.0.1:6443 refuses connections");
    assert_eq!(row.findings[0].code, "image-missing");
    // The node is unknown once the daemon stops renewing the condition.
    assert_eq!(rack.view(at(1000 + 901)).nodes[0].word, RackWord::Silent);
}

#[test]
fn an_annotation_that_cannot_be_read_takes_nothing_from_the_condition() {
    let long = json!({"phase": "x".repeat(5_000)}).to_string();
    for bad in [
        "",
        "null",
        "[]",
        "{",
        "{\"phase\": 7}",
        "{\"findings\": {}}",
        &long,
    ] {
        let node = annotated(bad, 1000);
        let report = read_node(&node, at(1000), Heartbeat::ByItsClock).unwrap();
        assert_eq!(report.state.readiness, Readiness::SettingUp, "{bad}");
        assert_eq!(report.state.phase, "api", "{bad}");
        assert!(report.state.findings.is_empty());
    }
    // A condition that is no longer maintained says nothing about the present.
    let stalled = json!({"pace": "stalled", "phase": "api"}).to_string();
    let report = read_node(&annotated(&stalled, 0), at(901), Heartbeat::ByItsClock).unwrap();
    assert_eq!(
        (report.state.readiness, report.state.pace),
        (Readiness::Unknown, None)
    );
}

#[test]
fn a_node_that_is_known_by_its_certificate_is_nobody_else_whatever_its_document_says() {
    let list =
        "- {name: a, host: n1}\n- {name: b, host: n2}\n- {name: c, mac: '52:54:00:00:00:03'}\n";
    let list = Inventory::read("rack.yaml", list).unwrap();
    let read = |asked: usize, host: &str, node: &str| {
        let document =
            json!({"kind": "Status", "host": host, "nodeName": node, "readiness": "Ready"});
        let asked = &list.nodes()[asked].identity;
        read_document(&document, at(100), None, Some((asked, &list))).unwrap()
    };
    for (host, node) in [("n2", ""), ("", "n2"), ("n2", "n2"), ("n3", "n1")] {
        let mut rack = Rack::new(list.clone());
        let read = read(0, host, node);
        assert!(read.contradiction.is_some(), "{host} {node}");
        rack.take(&read.report).unwrap();
        let view = rack.view(at(110));
        assert_eq!(view.node("a").unwrap().word, RackWord::Ready);
        assert_eq!(view.node("b").unwrap().word, RackWord::NeverCame);
        assert_eq!(view.counts.total, 3);
    }
    for (host, node) in [("n1", "n1"), ("n1.example", "n1"), ("", "")] {
        assert_eq!(read(0, host, node).contradiction, None, "{host} {node}");
    }
    // A node without a name in the list may have any name that no other node has.
    assert_eq!(read(2, "n3", "n3").report.identity.host, "n3");
    assert_eq!(read(2, "n1", "b").report.identity.host, "");
    assert_eq!(read(2, "n1", "b").report.state.node_name, "");
}

/// The event with which a node reports its presence.
fn seen(sender: &Sender, sequence: u64, second: i64) -> Value {
    let mut event = sender.event(sequence, second, "ready", 5);
    event["type"] = json!("dev.windrow.node.seen");
    event
}

#[test]
fn who_says_twice_that_it_is_there_does_not_say_so_again_and_again() {
    let mut rack = rack("");
    let node = Sender::new(1);
    // At the start of the boot, and when RKE2 has created its certificate.
    take(&mut rack, &seen(&node, 1, 60), 60);
    take(&mut rack, &seen(&node, 2, 240), 240);
    assert_eq!(rack.view(at(90_000)).nodes[0].word, RackWord::Ready);
    // Months later, with another certificate.
    take(&mut rack, &seen(&node, 3, 90_000), 90_000);
    assert_eq!(rack.view(at(990_000)).nodes[0].word, RackWord::Ready);
    // With `every`, and restarted in between.
    let node = Sender::new(2);
    for (sequence, second) in [(1, 90_050), (2, 90_100), (3, 90_195), (4, 90_250)] {
        take(&mut rack, &seen(&node, sequence, second), second);
    }
    let word = |rack: &Rack, second| {
        rack.view(at(second))
            .nodes
            .iter()
            .find(|row| row.name == "n2")
            .unwrap()
            .word
    };
    assert_eq!(word(&rack, 90_250 + 3 * 55 + 30), RackWord::Ready);
    assert_eq!(word(&rack, 90_250 + 3 * 55 + 31), RackWord::Silent);
}

#[test]
fn what_a_rack_did_not_hear_while_it_was_away_makes_nobody_silent() {
    let mut rack = rack("");
    for (sequence, second) in [(1, 60), (2, 120), (3, 180)] {
        take(&mut rack, &seen(&Sender::new(1), sequence, second), second);
    }
    let word = |rack: &Rack, second| {
        let row = rack.view(at(second)).nodes[0].clone();
        (row.word, row.notes)
    };
    assert_eq!(word(&rack, 7200).0, RackWord::Silent);
    rack.listen(at(7200));
    let not_heard = vec!["no report since this rack was started".to_owned()];
    assert_eq!(word(&rack, 7200 + 210), (RackWord::Unknown, not_heard));
    assert_eq!(word(&rack, 7200 + 211).0, RackWord::Silent);
    take(&mut rack, &seen(&Sender::new(1), 4, 7230), 7230);
    assert_eq!(word(&rack, 7240), (RackWord::Ready, vec![]));
}

#[test]
fn a_condition_that_says_unknown_counts_before_an_older_event() {
    let condition = |status: &str, heartbeat: i64| {
        let mut node = annotated("", heartbeat);
        node["metadata"]["labels"] = json!({"kubernetes.io/hostname": "n1"});
        node["status"]["conditions"][0]["status"] = json!(status);
        node["status"]["conditions"][0]["message"] = json!("Unknown: Windrow has stopped");
        node
    };
    let mut rack = rack("");
    take(&mut rack, &Sender::new(1).event(1, 900, "ready", 5), 900);
    let mut word = |node: &Value, second| {
        let report = read_node(node, at(second), Heartbeat::ByItsClock).unwrap();
        rack.take(&report).unwrap();
        rack.view(at(second)).nodes[0].word
    };
    // A condition that is no longer maintained says nothing about the present.
    assert_eq!(word(&condition("Unknown", -10), 910), RackWord::Ready);
    assert_eq!(word(&condition("Unknown", 915), 920), RackWord::Unknown);
    // For the same change it contains less than the event, which arrives within moments.
    assert_eq!(word(&condition("True", 925), 930), RackWord::Ready);
    assert_eq!(word(&condition("True", 961), 961), RackWord::SettingUp);
}
