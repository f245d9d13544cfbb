//! The pictures of the documentation: the console's own screens, as SVG. `WINDROW_UPDATE=1` draws them.

use std::fmt::Write as _;

use ratatui::buffer::Cell;

use super::*;

const CELL: (f32, f32) = (9.6, 19.0);
const MARGIN: f32 = 10.0;
const FOREGROUND: &str = "#d8d8d8";
const BACKGROUND: &str = "#101014";

/// A text terminal of the kernel's: colours, and ASCII.
const KERNEL: Theme = Theme {
    color: true,
    unicode: false,
    screen: true,
    alternate: false,
};

/// A node whose VMs wait for the storage network.
fn node() -> Scene {
    let phase = |name: &str, state: &str, done: usize, total: usize, took: Option<u64>| {
        let usual = took.map(|took| json!({"boots": 3, "median": took + 20, "p90": took + 90}));
        json!({"name": name, "state": state, "done": done, "total": total, "seconds": took,
            "expected": {"seconds": took.unwrap_or(600) + 150, "usual": usual,
                "from": if took.is_some() { "earlierBoots" } else { "default" }}})
    };
    let probe = |id: &str, severity: &str, message: &str, code: Option<&str>| {
        let state = if message.is_empty() {
            "passing"
        } else {
            "failing"
        };
        json!({"id": id, "state": state, "severity": severity, "since": "2026-03-01T12:07:00Z",
            "message": message, "code": code})
    };
    let network = "Setting storage-network is not configured yet (In Progress: waiting for all volumes detached)";
    let kind = "the kind VirtualMachineImage.harvesterhci.io is not served yet";
    let claim = "PersistentVolumeClaim orchard/registry does not exist yet";
    let mut waiting = phase("storage-network", "current", 0, 1, None);
    waiting["began"] = json!("2026-03-01T12:05:50Z");
    scene_of(document(json!({
        "role": "first-server", "phase": "storage-network", "pace": "moving",
        "phaseSince": "2026-03-01T12:05:50Z",
        "headline": "Setting up (storage network, 2+ min)",
        "reason": {"code": "storage-network-pending",
            "message": "the storage network is not configured: In Progress: waiting for all volumes detached"},
        "vip": {"address": "10.10.0.100", "mode": "static"},
        "phases": [
            phase("network", "done", 2, 2, Some(4)), phase("rke2-installed", "done", 1, 1, Some(31)),
            phase("api", "done", 3, 3, Some(74)), phase("node", "done", 2, 2, Some(19)),
            phase("rancher", "done", 1, 1, Some(310)), phase("harvester-chart", "done", 3, 3, Some(252)),
            phase("settings", "done", 2, 2, Some(12)), waiting,
            phase("manifests", "pending", 11, 16, None), phase("ready", "pending", 0, 1, None)],
        "probes": [
            probe("storage-network", "required", "In Progress: waiting for all volumes detached", Some("storage-network-pending")),
            probe("clock", "wanted", "NTPSynchronized=no (timedate1)", Some("clock-not-synchronised")),
            probe("vip", "required", "", None)],
        "staging": {"total": 16, "applied": applied(11), "failed": [],
            "released": [{"file": "cluster-network.yaml", "since": "2026-03-01T12:09:37Z", "cause": "met"}],
            "held": [
                held("vms/disk.yaml", "waits-for-object", claim, Some("vms/registry.yaml"), None),
                held("vms/registry.yaml", "waits-for-condition", network, None, None),
                held("vms/proxy.yaml", "waits-for-condition", network, None, None),
                held("images.yaml", "waits-for-kind", kind, None, Some("2026-03-01T12:22:00Z"))]},
    })))
}

#[test]
fn the_pictures_of_the_documentation_are_current() {
    let mut machine = OperatorView::new(true);
    machine.press(KeyPress::Pane(1), extent(&machine));
    for (name, view, size, theme) in [
        ("console-setting-up", OperatorView::new(true), VT, KERNEL),
        ("console-large", machine, Size::new(120, 40), FULL),
    ] {
        let path = format!("{}/docs/images/{name}.svg", env!("CARGO_MANIFEST_DIR"));
        let picture = svg(&cells(&node(), &view, size, theme));
        if std::env::var_os("WINDROW_UPDATE").is_some() {
            std::fs::write(&path, &picture).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == picture,
            "{path} is not current: WINDROW_UPDATE=1 draws it"
        );
    }
}

#[test]
fn a_step_is_named_whole_where_there_is_no_room_for_what_is_usual() {
    let text = screen(&node(), &OperatorView::new(true), Size::new(120, 40), FULL);
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    for line in ["kube-apiserver 3/3 1m14s", "RKE2 31s, usual 51s"] {
        assert!(words.contains(line), "{text}");
    }
}

fn svg(buffer: &Buffer) -> String {
    let (columns, rows) = (buffer.area.width, buffer.area.height);
    let width = f32::from(columns) * CELL.0 + 2.0 * MARGIN;
    let height = f32::from(rows) * CELL.1 + 2.0 * MARGIN;
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"16\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{BACKGROUND}\"/>\n"
    );
    for row in 0..rows {
        let mut column = 0;
        while column < columns {
            let first = &buffer[(column, row)];
            let same = |at: u16| look(&buffer[(at, row)]) == look(first);
            let end = (column..columns).find(|at| !same(*at)).unwrap_or(columns);
            let text: String = (column..end).map(|at| buffer[(at, row)].symbol()).collect();
            write_run(&mut picture, (column, row), &text, look(first));
            column = end;
        }
    }
    picture + "</svg>\n"
}

type Look = (&'static str, &'static str, bool);

fn look(cell: &Cell) -> Look {
    let color = |color: Color, none: &'static str| match color {
        Color::Red => "#ff6b68",
        Color::Green => "#3ddc5a",
        Color::Yellow => "#f2d64b",
        Color::Cyan => "#35d7e0",
        _ => none,
    };
    let (text, behind) = (color(cell.fg, FOREGROUND), color(cell.bg, BACKGROUND));
    let bold = cell.modifier.contains(Modifier::BOLD);
    match cell.modifier.contains(Modifier::REVERSED) {
        true => (behind, text, bold),
        false => (text, behind, bold),
    }
}

fn write_run(
    picture: &mut String,
    (column, row): (u16, u16),
    text: &str,
    (color, behind, bold): Look,
) {
    let (x, y) = (
        MARGIN + f32::from(column) * CELL.0,
        MARGIN + f32::from(row) * CELL.1,
    );
    let cells = u16::try_from(text.chars().count()).unwrap();
    let width = f32::from(cells) * CELL.0;
    if behind != BACKGROUND {
        let _ = writeln!(
            picture,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{behind}\"/>",
            CELL.1
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let weight = if bold { " font-weight=\"bold\"" } else { "" };
    let escaped = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    // The text length keeps the columns in place with any font.
    let _ = writeln!(
        picture,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" fill=\"{color}\"{weight} xml:space=\"preserve\">{escaped}</text>",
        y + 14.5
    );
}
