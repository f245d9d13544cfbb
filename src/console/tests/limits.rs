//! Tests for every screen: long and hostile documents, on terminals of each kind.

use super::*;

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
    let mut views: Vec<OperatorView> = (1..=4)
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
        ("Degraded", "staged", "harvester", "Degraded"),
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
        ("Failed", "staging", "harvester", "Failed"),
        ("Unknown", "staged", "harvester", "Unknown"),
    ] {
        let status =
            document(json!({"readiness": readiness, "phase": phase, "platform": platform}));
        assert_eq!(super::words::word(&status).0, expected);
    }
}
