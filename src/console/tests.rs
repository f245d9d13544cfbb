//! Whole screens, as a terminal of each kind shows them.

use jiff::{SignedDuration, Timestamp};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier};
use serde_json::{Value, json};

use super::view::Extent;
use super::*;

mod limits;
mod pictures;

const VT: Size = Size::new(80, 25);
const TINY: Size = Size::new(40, 12);
const LARGE: Size = Size::new(132, 43);

const FULL: Theme = Theme {
    color: true,
    unicode: true,
    screen: true,
    alternate: true,
};
const PLAIN: Theme = Theme {
    color: false,
    unicode: false,
    screen: true,
    alternate: false,
};

fn now() -> Timestamp {
    "2026-03-01T12:10:00Z".parse().unwrap()
}

fn document(changes: Value) -> Status {
    let mut document = json!({
        "apiVersion": "windrow.dev/v1", "kind": "Status", "generation": 7,
        "readiness": "SettingUp", "phase": "staging", "since": "2026-03-01T12:05:47Z",
        "reason": {"code": "waits-for-object", "message": "vms/registry.yaml: Harvester has not \
            made the setting storage-network yet (Setting storage-network does not exist yet) (and 3 more held)"},
        "summary": "vms/registry.yaml: Harvester has not made the setting storag…",
        "platform": "harvester",
        "staging": {"total": 20, "held": [], "released": [], "applied": [], "failed": []},
        "findings": [], "versions": {"windrow": "0.1.0"},
        "writer": {"pid": 1, "startTicks": 1, "bootId": "b"}
    });
    for (key, value) in changes.as_object().unwrap() {
        document[key] = value.clone();
    }
    serde_json::from_value(document).unwrap()
}

fn held(
    file: &str,
    code: &str,
    why: &str,
    brought_by: Option<&str>,
    deadline: Option<&str>,
) -> Value {
    json!({"file": file, "since": "2026-03-01T12:02:00Z", "code": code, "why": why, "by": "windrow",
        "deadline": deadline, "blockers": [
            {"what": "x", "condition": "exists", "tier": "required", "message": why,
             "requiredBy": "ConfigMap a", "origin": {"rule": "r", "file": "f", "line": 1},
             "broughtBy": brought_by}]})
}

fn applied(count: usize) -> Vec<Value> {
    (0..count)
        .map(|n| json!({"file": format!("base-{n:02}.yaml"), "since": "2026-03-01T12:01:00Z", "cause": "met"}))
        .collect()
}

fn setting_up() -> Status {
    let network = "Harvester has not made the setting storage-network yet (Setting storage-network does not exist yet)";
    document(json!({"staging": {"total": 20, "applied": applied(12),
        "released": [
            {"file": "cluster-network.yaml", "since": "2026-03-01T12:09:50Z", "cause": "met"}],
        "failed": [
            {"file": "addons/monitoring.yaml", "since": "2026-03-01T12:04:00Z", "reason": "ApplyManifestFailed",
             "message": "failed to create typed object: .spec.replicas: expected numeric (int or float), got string"}],
        "held": [
            held("vms/disk.yaml", "waits-for-object", "PersistentVolumeClaim orchard/registry does not exist yet",
                 Some("vms/registry.yaml"), None),
            held("vms/registry.yaml", "waits-for-object", network, None, None),
            held("vms/proxy.yaml", "waits-for-object", network, None, None),
            held("images.yaml", "waits-for-kind", "the kind VirtualMachineImage.harvesterhci.io is not served by the API yet",
                 None, Some("2026-03-01T12:22:00Z")),
            {"file": "rke2-canal.yaml", "since": "2026-03-01T11:02:00Z", "code": "held-by-other",
             "why": "held by a .skip marker that Windrow did not make", "by": "other", "blockers": []}]},
        "findings": [
            {"code": "labels-dropped", "severity": "warning", "at": [],
             "message": "RKE2 drops the labels of the object, all of them: 1.0 is a number"},
            {"code": "object-refused", "severity": "error", "at": [],
             "message": "RKE2 will refuse the object: it has no name"}]}))
}

fn probed() -> Status {
    let phase = |name: &str, state: &str, done: usize, total: usize| json!({"name": name, "state": state, "done": done, "total": total});
    let probe = |id: &str, state: &str, severity: &str, message: &str, code: Option<&str>| {
        json!({"id": id, "state": state, "severity": severity, "since": "2026-03-01T12:07:00Z",
            "message": message, "code": code})
    };
    let staging = serde_json::to_value(setting_up().staging).unwrap();
    document(
        json!({"role": "first-server", "phase": "storage-network", "pace": "slow",
        "transition": {"kind": "promotion", "since": "2026-03-01T12:06:00Z",
            "message": "the rke2 promotion job runs"},
        "phases": [
            phase("network", "done", 2, 2), phase("rke2-installed", "done", 1, 1),
            phase("api", "done", 3, 3), phase("node", "done", 2, 2), phase("rancher", "done", 1, 1),
            phase("harvester-chart", "unknown", 4, 5), phase("settings", "done", 1, 1),
            phase("storage-network", "current", 0, 1), phase("manifests", "pending", 12, 20),
            phase("ready", "pending", 0, 1)],
        "staging": staging,
        "vip": {"address": "10.10.0.100", "mode": "static"},
        "probes": [
            probe("apiserver-readyz", "passing", "required", "", None),
            probe("clock", "failing", "wanted", "the clock is not synchronised", Some("clock-not-synchronised")),
            probe("vip", "failing", "required", "10.10.0.100:443 refused the connection", Some("vip-unreachable")),
            probe("harvester-readyz", "unknown", "required",
                  "GET https://10.10.0.100/v1/harvester/readyz: 401 Unauthorized", Some("state-unknown"))]}),
    )
}

fn ready() -> Status {
    document(
        json!({"readiness": "Ready", "phase": "staged", "since": "2026-02-27T10:00:00Z",
        "reason": {"code": "not-probed", "message": "every probe passes"}, "summary": "Ready",
        "staging": {"total": 12, "applied": applied(12), "held": [], "released": [], "failed": []}}),
    )
}

fn gone() -> Status {
    let mut status = document(json!({"readiness": "Unknown",
        "reason": {"code": "state-unknown", "message": "the state is not known: /run/windrow/status.json is \
            not current: the daemon that wrote it (pid 812) is gone"},
        "summary": "Unknown: Windrow's daemon does not run"}));
    status.writer = None;
    status
}

fn scene_of(status: Status) -> Scene {
    Scene {
        status,
        last: None,
        host: Host {
            name: "node-17".to_owned(),
            addresses: Some(vec![
                ("10.10.0.17".parse().unwrap(), "mgmt-br".to_owned()),
                ("2001:db8::17".parse().unwrap(), "mgmt-br".to_owned()),
            ]),
        },
        machine: machine(),
    }
}

fn machine() -> HostFacts {
    serde_json::from_value(json!({
        "machine": {"vendor": "Dell Inc.", "product": "PowerEdge R650", "serial": "7XK2J3A", "hypervisor": "none"},
        "cpus": {"model": "AMD EPYC 7313 16-Core Processor", "logical": 32, "cores": 16, "virtualisation": "svm"},
        "load": {"one": 4.1, "five": 3.0, "fifteen": 2.0},
        "memory": {"total": 66_571_993_088_u64, "available": 40_000_000_000_u64,
            "installed": 68_719_476_736_u64,
            "modules": [{"slot": "A1", "size": 34_359_738_368_u64}, {"slot": "B1", "size": 34_359_738_368_u64}]},
        "temperatures": [{"sensor": "k10temp Tctl", "celsius": 61.2, "critical": 95.0},
            {"sensor": "nvme Composite", "celsius": 40.0, "critical": {"unknown": "the sensor does not tell"}}],
        "directories": [{"path": "/var/lib", "role": "state", "fileSystem": "ext4",
            "total": 160_000_000_000_u64, "free": 12_000_000_000_u64, "inodes": 0, "freeInodes": 0}],
        "disks": [
            {"name": "nvme0n1", "size": 1_920_383_410_176_u64, "kind": "nvme", "model": "SAMSUNG PM9A3",
             "serial": "S64FNE0R", "removable": false},
            {"name": "sda", "size": 32_000_000_000_u64, "kind": {"unknown": "it does not tell"}, "removable": true}],
        "links": [
            {"name": "ens3", "mac": "52:54:00:00:00:01", "physical": true, "state": "up", "speed": 25000,
             "mtu": 9000, "addresses": [["10.10.0.17", 24]], "packets": 1, "errors": 7},
            {"name": "ens4", "mac": "52:54:00:00:00:02", "physical": true, "state": "no-carrier",
             "speed": {"unknown": "the link tells no speed"}, "mtu": 1500, "packets": 0, "errors": 0}]
    }))
    .unwrap()
}

#[test]
fn the_machine_is_a_picture_on_a_plain_terminal() {
    let mut view = OperatorView::new(true);
    view.press(KeyPress::Pane(1), extent(&view));
    insta::assert_snapshot!(screen(&scene_of(ready()), &view, VT, PLAIN));
}

#[test]
fn the_machine_is_a_picture_on_a_large_terminal() {
    let mut view = OperatorView::new(true);
    view.press(KeyPress::Pane(1), extent(&view));
    insta::assert_snapshot!(screen(&scene_of(ready()), &view, Size::new(120, 40), FULL));
}

#[test]
fn what_is_not_known_of_the_machine_says_why() {
    let mut scene = scene_of(ready());
    scene.machine = HostFacts::default();
    let mut view = OperatorView::new(true);
    view.press(KeyPress::Pane(1), extent(&view));
    insta::assert_snapshot!(screen(&scene, &view, VT, PLAIN));
}

fn cells(scene: &Scene, view: &OperatorView, size: Size, theme: Theme) -> Buffer {
    render(scene, view, now(), size, theme).buffer
}

fn extent(view: &OperatorView) -> Extent {
    render(&scene_of(setting_up()), view, now(), VT, PLAIN).extent
}

fn screen(scene: &Scene, view: &OperatorView, size: Size, theme: Theme) -> String {
    let buffer = cells(scene, view, size, theme);
    let mut terminal = Terminal::new(TestBackend::new(size.width, size.height)).unwrap();
    terminal.draw(|frame| *frame.buffer_mut() = buffer).unwrap();
    terminal.backend().to_string()
}

fn shown(status: Status, size: Size, theme: Theme) -> String {
    screen(&scene_of(status), &OperatorView::new(true), size, theme)
}

#[test]
fn a_node_that_is_set_up_on_a_plain_terminal() {
    insta::assert_snapshot!(shown(setting_up(), VT, PLAIN));
}

#[test]
fn a_certificate_that_no_authority_has_signed_can_be_compared_whole() {
    let mut status = setting_up();
    let pin = "27234cb37ba17b165125e6982384636032ec514cef55a5cbf42ad91cbdc9ac54";
    let mut served = |certificate: &str, size| {
        let server =
            json!({"listen": "0.0.0.0:9346", "certificate": certificate, "fingerprint": pin});
        status.server = serde_json::from_value(server).unwrap();
        shown(status.clone(), size, PLAIN)
    };
    let line = format!(" HTTPS pin  {pin}");
    assert!(served("self-signed", VT).contains(&line));
    assert!(!served("self-signed", Size::new(60, 25)).contains("HTTPS pin"));
    assert!(!served("rke2", VT).contains("HTTPS pin"));
}

#[test]
fn a_node_that_is_set_up_on_a_terminal_with_unicode() {
    insta::assert_snapshot!(shown(setting_up(), VT, FULL));
}

#[test]
fn a_node_that_is_set_up_on_a_tiny_terminal() {
    insta::assert_snapshot!(shown(setting_up(), TINY, PLAIN));
}

#[test]
fn a_node_that_is_set_up_on_a_large_terminal() {
    insta::assert_snapshot!(shown(setting_up(), LARGE, FULL));
}

#[test]
fn a_probed_node_and_its_steps() {
    let mut view = OperatorView::new(true);
    view.press(KeyPress::Pane(4), extent(&view));
    insta::assert_snapshot!(screen(&scene_of(probed()), &view, VT, PLAIN));
}

#[test]
fn a_step_says_how_long_it_took_and_what_is_usual() {
    let mut status = probed();
    let phase = |status: &mut Status, name: &str, more: Value| {
        let mut phases = serde_json::to_value(&status.phases).unwrap();
        let mut named = phases.as_array_mut().unwrap().iter_mut();
        let one = named.find(|phase| phase["name"] == name).unwrap();
        for (key, value) in more.as_object().unwrap() {
            one[key] = value.clone();
        }
        status.phases = serde_json::from_value(phases).unwrap();
    };
    let usual = json!({"boots": 3, "median": 300, "p90": 400});
    let expected = json!({"seconds": 400, "from": "earlierBoots", "usual": usual});
    let took = json!({"began": "2026-03-01T11:40:00Z", "seconds": 252, "expected": expected});
    phase(&mut status, "rancher", took);
    let began = json!({"began": now() - SignedDuration::from_mins(5)});
    phase(&mut status, "storage-network", began);
    let mut view = OperatorView::new(true);
    view.press(KeyPress::Pane(3), extent(&view));
    let text = screen(&scene_of(status), &view, LARGE, PLAIN);
    let line = |words: &str| {
        let mut lines = text.lines().filter(|line| line.contains(words));
        lines.next_back().unwrap_or_default().to_owned()
    };
    assert!(line("[x] Rancher").contains("4m12s, usual 5m00s"), "{text}");
    assert!(line("[>] storage network").contains("5m00s"), "{text}");
}

#[test]
fn a_probed_node_on_a_large_terminal() {
    insta::assert_snapshot!(shown(probed(), LARGE, FULL));
}

#[test]
fn a_probed_node_on_a_tiny_terminal() {
    insta::assert_snapshot!(shown(probed(), TINY, PLAIN));
}

fn without_network() -> Status {
    let probe = |id: &str, severity: &str, phase: &str, message: &str, code: &str| {
        json!({"id": id, "state": "failing", "severity": severity, "phase": phase,
            "since": "2026-03-01T11:47:00Z", "message": message, "code": code})
    };
    let phase =
        |name: &str, state: &str| json!({"name": name, "state": state, "done": 0, "total": 0});
    let mut phases = vec![
        phase("network", "done"),
        phase("rke2-installed", "done"),
        phase("api", "current"),
        phase("node", "pending"),
        phase("manifests", "pending"),
        phase("ready", "pending"),
    ];
    phases[2]["expected"] = json!({"seconds": 900, "from": "default"});
    document(
        json!({"platform": "rke2", "role": "first-server", "phase": "api", "pace": "stalled",
        "phaseSince": "2026-03-01T11:47:00Z", "headline": "Setting up (kube-apiserver, 20+ min, stalled)",
        "reason": {"code": "supervisor-down",
            "message": "RKE2's supervisor does not answer: 127.0.0.1:9345 refuses connections"},
        "phases": phases,
        "probes": [
            probe("apiserver", "required", "api", "127.0.0.1:6443 refuses connections", "apiserver-not-ready"),
            probe("clock", "wanted", "network", "the clock is not synchronised", "clock-not-synchronised"),
            probe("default-route", "wanted", "network", "neither for IPv4 nor for IPv6", "no-default-route"),
            probe("supervisor", "required", "api", "127.0.0.1:9345 refuses connections", "supervisor-down")],
        "staging": {"total": 2, "held": [], "released": [], "applied": [], "failed": []}}),
    )
}

#[test]
fn a_node_without_a_network_shows_no_tick_at_it_and_says_what_it_lacks() {
    let mut scene = scene_of(without_network());
    scene.host.addresses = Some(Vec::new());
    let text = screen(&scene, &OperatorView::new(true), VT, PLAIN);
    assert!(text.contains("[!] network"), "{text}");
    assert!(text.contains("none yet  no default route"), "{text}");
    assert!(text.contains("stalled, 15 min by default"), "{text}");
    assert!(text.contains("for 23m"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_node_that_is_ready() {
    insta::assert_snapshot!(shown(ready(), VT, PLAIN));
}

#[test]
fn a_node_whose_daemon_is_gone() {
    let mut scene = scene_of(gone());
    scene.last = Some(setting_up());
    insta::assert_snapshot!(screen(&scene, &OperatorView::new(true), VT, PLAIN));
}

#[test]
fn a_node_whose_daemon_never_ran_and_that_has_no_name() {
    let mut scene = scene_of(gone());
    scene.host = Host {
        addresses: Some(Vec::new()),
        ..Host::default()
    };
    scene.status.staging = windrow_decide::StagingStatus::default();
    scene.status.reason.message =
        "the state is not known: there is no /run/windrow/status.json: the \
        daemon has not run since the last boot (systemctl status windrow)"
            .to_owned();
    insta::assert_snapshot!(screen(&scene, &OperatorView::new(false), VT, PLAIN));
}

#[test]
fn findings_with_what_to_do() {
    let mut view = OperatorView::new(true);
    view.press(KeyPress::Pane(3), extent(&view));
    insta::assert_snapshot!(screen(&scene_of(setting_up()), &view, VT, PLAIN));
}

#[test]
fn help_on_a_plain_terminal() {
    let mut view = OperatorView::new(false);
    view.press(KeyPress::Help, extent(&view));
    insta::assert_snapshot!(screen(&scene_of(ready()), &view, VT, PLAIN));
}

#[test]
fn the_journal_is_shown_from_its_end() {
    let mut view = OperatorView::new(true);
    let lines =
        (1..=100).map(|n| format!("Mar 01 12:00:00 node-17 windrow[812]: line {n}\u{1b}[31m"));
    view.over(Overlay::Journal(lines.collect()));
    insta::assert_snapshot!(screen(&scene_of(setting_up()), &view, VT, PLAIN));
}

#[test]
fn a_state_whose_keeper_is_gone_has_no_age() {
    let mut scene = scene_of(gone());
    let view = OperatorView::new(true);
    assert!(!screen(&scene, &view, VT, PLAIN).contains("for "));
    scene.last = Some(ready());
    let text = screen(&scene, &view, VT, PLAIN);
    assert!(text.contains("Last known: Ready"), "{text}");
}

#[test]
fn nothing_wakes_a_screen_without_ages() {
    let mut scene = scene_of(gone());
    scene.status.staging = Default::default();
    let drawn = render(&scene, &OperatorView::new(true), now(), VT, PLAIN);
    assert_eq!(drawn.next, None);
    let drawn = render(
        &scene_of(setting_up()),
        &OperatorView::new(true),
        now(),
        VT,
        PLAIN,
    );
    assert!(drawn.next.unwrap() > now());
}
