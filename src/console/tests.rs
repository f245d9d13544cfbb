//! Whole screens, as a terminal of each kind shows them.

use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier};
use serde_json::{Value, json};

use super::view::Extent;
use super::*;

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
            addresses: vec![
                ("10.10.0.17".parse().unwrap(), "mgmt-br".to_owned()),
                ("2001:db8::17".parse().unwrap(), "mgmt-br".to_owned()),
            ],
        },
    }
}

fn cells(scene: &Scene, view: &OperatorView, size: Size, theme: Theme) -> Buffer {
    render(scene, view, now(), size, theme).buffer
}

/// The screen as a terminal has it after the buffer was drawn.
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
    view.press(KeyPress::Pane(3), extent(&view));
    insta::assert_snapshot!(screen(&scene_of(probed()), &view, VT, PLAIN));
}

#[test]
fn a_probed_node_on_a_large_terminal() {
    insta::assert_snapshot!(shown(probed(), LARGE, FULL));
}

#[test]
fn a_probed_node_on_a_tiny_terminal() {
    insta::assert_snapshot!(shown(probed(), TINY, PLAIN));
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
    scene.host = Host::default();
    scene.status.reason.message =
        "the state is not known: there is no /run/windrow/status.json: the \
        daemon has not run since the last boot (systemctl status windrow)"
            .to_owned();
    insta::assert_snapshot!(screen(&scene, &OperatorView::new(false), VT, PLAIN));
}

#[test]
fn findings_with_what_to_do() {
    let mut view = OperatorView::new(true);
    view.press(KeyPress::Pane(2), extent(&view));
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

fn extent(view: &OperatorView) -> Extent {
    render(&scene_of(setting_up()), view, now(), VT, PLAIN).extent
}

fn many() -> Status {
    let why = "Namespace orchard does not exist yet";
    let files: Vec<Value> = (0..500)
        .map(|n| {
            held(
                &format!("{}/{n:03}.yaml", "very-long-name".repeat(20)),
                "waits-for-namespace",
                why,
                None,
                None,
            )
        })
        .collect();
    document(
        json!({"staging": {"total": 500, "held": files, "released": [], "applied": [], "failed": []}}),
    )
}

#[test]
fn five_hundred_held_files_can_be_scrolled_through() {
    let scene = scene_of(many());
    let mut view = OperatorView::new(true);
    let first = render(&scene, &view, now(), VT, PLAIN).extent;
    assert!(first.lines > 500 && first.page < 25);
    view.press(KeyPress::End, first);
    let text = screen(&scene, &view, VT, PLAIN);
    assert!(text.contains(&format!(" of {} ", first.lines)), "{text}");
    let last = render(&scene, &view, now(), VT, PLAIN).extent;
    assert_eq!(last.top + last.page, last.lines);
    view.press(KeyPress::PageUp, last);
    view.press(
        KeyPress::Down,
        render(&scene, &view, now(), VT, PLAIN).extent,
    );
    assert_eq!(
        render(&scene, &view, now(), VT, PLAIN).extent.top,
        last.top + 2 - last.page
    );
}

fn hostile() -> Status {
    let text =
        "a\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\r\n\u{202e}txt\u{200b} 節點節點 \u{0}".repeat(30);
    let mut status = setting_up();
    status.reason.message.clone_from(&text);
    status.summary.clone_from(&text);
    status.versions.windrow.clone_from(&text);
    for held in &mut status.staging.held {
        held.file = text.as_str().into();
        held.why = text.as_str().into();
    }
    for failed in &mut status.staging.failed {
        failed.file = text.as_str().into();
        failed.reason.clone_from(&text);
        failed.message.clone_from(&text);
    }
    for finding in &mut status.findings {
        finding.message.clone_from(&text);
    }
    status
}

fn views() -> Vec<OperatorView> {
    let mut views: Vec<OperatorView> = (1..=3)
        .map(|pane| {
            let mut view = OperatorView::new(true);
            view.press(KeyPress::Pane(pane), extent(&view));
            view
        })
        .collect();
    let mut help = OperatorView::new(true);
    help.over(Overlay::Help);
    let mut journal = OperatorView::new(true);
    journal.over(Overlay::Journal(vec![
        "\u{1b}[2J節\u{202e}\t\r".repeat(50);
        30
    ]));
    views.extend([help, journal]);
    views
}

#[test]
fn every_screen_keeps_to_its_size_and_to_what_its_terminal_can_show() {
    let mut last = scene_of(gone());
    last.last = Some(hostile());
    let mut host = scene_of(hostile());
    host.host.name = hostile().summary;
    let scenes = [
        scene_of(probed()),
        scene_of(hostile()),
        scene_of(many()),
        last,
        host,
        scene_of(ready()),
    ];
    let heights = [0, 1, 3, 4, 12, 18, 31];
    for (scene, height) in scenes
        .iter()
        .flat_map(|scene| heights.map(|height| (scene, height)))
    {
        for width in [0, 1, 2, 11, 40, 60, 110] {
            for (view, theme) in views()
                .iter()
                .flat_map(|view| [(view, PLAIN), (view, FULL)])
            {
                let buffer = cells(scene, view, Size::new(width, height), theme);
                for cell in buffer.content() {
                    assert!(!cell.symbol().contains(char::is_control), "{cell:?}");
                    assert!(
                        !cell.symbol().contains(['\u{202e}', '\u{200b}']),
                        "{cell:?}"
                    );
                    assert!(theme.unicode || cell.symbol().is_ascii(), "{cell:?}");
                    assert!(theme.color || cell.fg == Color::Reset, "{cell:?}");
                    assert_eq!(cell.bg, Color::Reset);
                    let known = Modifier::BOLD | Modifier::REVERSED;
                    assert!(known.contains(cell.modifier), "{cell:?}");
                }
                let painted = paint(None, &buffer);
                assert!(!painted.replace("\u{1b}[", "").contains(char::is_control));
            }
        }
    }
}

#[test]
fn the_word_and_the_reason_are_on_the_smallest_of_screens() {
    for (width, height) in [
        (20, 4),
        (30, 6),
        (40, 12),
        (59, 17),
        (60, 18),
        (80, 24),
        (200, 60),
    ] {
        for view in views() {
            let text = screen(
                &scene_of(setting_up()),
                &view,
                Size::new(width, height),
                PLAIN,
            );
            assert!(text.contains("Setting up"), "{width}x{height}\n{text}");
            assert!(text.contains("vms/registry"), "{width}x{height}\n{text}");
        }
    }
}

#[test]
fn the_word_is_never_better_than_what_is_known() {
    for (readiness, phase, platform, expected) in [
        ("Ready", "staged", "harvester", "Ready"),
        ("Degraded", "staged", "harvester", "Ready, degraded"),
        (
            "SettingUp",
            "waiting-for-api",
            "harvester",
            "Setting up node",
        ),
        ("SettingUp", "staging", "harvester", "Setting up Harvester"),
        ("SettingUp", "staging", "rke2", "Setting up node"),
        ("SettingUp", "api", "harvester", "Setting up node"),
        (
            "SettingUp",
            "storage-network",
            "harvester",
            "Setting up Harvester",
        ),
        ("SettingUp", "manifests", "rke2", "Setting up node"),
        ("Failed", "staging", "harvester", "NotReady"),
        ("Unknown", "staged", "harvester", "Unknown"),
    ] {
        let status =
            document(json!({"readiness": readiness, "phase": phase, "platform": platform}));
        assert_eq!(word(&status).0, expected);
    }
}

#[test]
fn a_state_whose_keeper_is_gone_has_no_age() {
    let mut scene = scene_of(gone());
    let view = OperatorView::new(true);
    assert!(!screen(&scene, &view, VT, PLAIN).contains("for "));
    scene.last = Some(ready());
    let text = screen(&scene, &view, VT, PLAIN);
    assert!(text.contains("Last known, 2d2h ago: Ready"), "{text}");
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
