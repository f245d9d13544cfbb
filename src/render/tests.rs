//! Tests of the renderers with artificial plans.

use serde_json::json;
use windrow_replay::BootTimeline;

use super::samples::{broken, first_vm, wide};
use super::{PlanReport, Style, boot_picture, dot, mermaid, svg, table, timeline_table};
use crate::printable::json_pretty;

#[test]
fn a_table_never_goes_beyond_100_columns() {
    for plan in [first_vm(), broken(), wide()] {
        for line in table(&plan, Style::default()).lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn a_table_has_colour_only_when_asked() {
    let colored = Style {
        color: true,
        ..Style::default()
    };
    assert!(table(&first_vm(), colored).contains('\u{1b}'));
    assert!(!table(&first_vm(), Style::default()).contains('\u{1b}'));
}

#[test]
fn the_table_of_a_first_vm() {
    insta::assert_snapshot!(table(&first_vm(), Style::default()));
}

#[test]
fn the_table_of_a_plan_that_cannot_work() {
    insta::assert_snapshot!(table(&broken(), Style::default()));
}

#[test]
fn the_json_of_a_plan_that_cannot_work() {
    insta::assert_snapshot!(json_pretty(&PlanReport::from_plan(&broken())).unwrap() + "\n");
}

#[test]
fn the_dot_graph_of_a_plan_that_cannot_work() {
    insta::assert_snapshot!(dot(&broken()));
}

#[test]
fn the_mermaid_graph_of_a_first_vm() {
    insta::assert_snapshot!(mermaid(&first_vm()));
}

#[test]
fn a_picture_is_self_contained_and_escapes_what_it_is_given() {
    for plan in [first_vm(), broken(), wide()] {
        let picture = svg(&plan);
        for forbidden in ["<script", "href", "@import", "url("] {
            assert!(!picture.contains(forbidden), "{forbidden}");
        }
        assert!(!picture.contains("<&\""));
    }
    assert!(svg(&broken()).contains("&lt;&amp;&quot;&gt;"));
}

#[test]
fn the_picture_marks_cycles_and_what_nothing_brings() {
    let picture = svg(&broken());
    assert!(picture.contains(r#"class="edge cycle""#));
    assert!(picture.contains("nothing known"));
    assert!(!svg(&first_vm()).contains(r#"class="edge cycle""#));
}

#[test]
fn an_empty_plan_can_be_drawn_in_every_way() {
    let plan = windrow_plan::Plan::default();
    assert!(table(&plan, Style::default()).contains("nothing to stage"));
    assert!(svg(&plan).starts_with("<svg"));
    assert!(dot(&plan).starts_with("digraph"));
    assert!(mermaid(&plan).starts_with("flowchart"));
}

#[test]
#[ignore = "writes pictures for a person to look at: WINDROW_PICTURES=DIR"]
fn pictures() {
    let directory = std::path::PathBuf::from(std::env::var_os("WINDROW_PICTURES").unwrap());
    for (name, plan) in [
        ("first-vm", first_vm()),
        ("broken", broken()),
        ("wide", wide()),
    ] {
        std::fs::write(directory.join(format!("{name}.svg")), svg(&plan)).unwrap();
    }
}

fn boot() -> BootTimeline {
    let evil = "<script>&\"\u{202e}\u{1b}[31m.yaml";
    let long =
        "waits for what no reader has ever seen or will see, as far as can be told from here"
            .repeat(3);
    let timeline = json!({
        "apiVersion": "windrow.dev/v1", "kind": "BootTimeline", "windrow": "0.1.0", "boot": evil,
        "began": "2026-01-01T00:00:00Z",
        "end": {"state": "degraded", "at": 5400.0, "code": "probe-failed", "message": evil},
        "phases": [
            {"name": "api", "from": 0.0, "to": 46.0, "ended": true},
            {"name": "manifests", "from": 46.0, "to": 5400.0, "ended": false,
                "usual": {"boots": 3, "medianSeconds": 300.0}},
        ],
        "chain": [
            {"from": 0.0, "to": 46.0, "on": "node", "text": evil},
            {"from": 46.0, "to": 5000.0, "on": "requirement", "file": evil, "text": long},
            {"from": 5000.0, "to": 5390.0, "on": "otherFile", "file": evil, "text": evil},
            {"from": 5390.0, "to": 5400.0, "on": "rke2", "file": evil, "text": evil, "open": true},
        ],
        "files": [
            {"file": evil, "held": 0.0, "released": 5390.0, "cause": "yielded", "applied": 5400.0, "pollSeconds": 10.0,
                "waits": [{"from": 0.0, "to": 5390.0, "code": "waits-for-kind", "why": evil}], "failure": evil},
            {"file": "still.yaml", "held": 10.0, "waits": [{"from": 10.0, "to": 5400.0, "code": "held", "why": long}]},
            {"file": "free.yaml", "released": 5300.0},
        ],
        "usual": {"boots": 1, "medianSeconds": 300.0},
        "cautions": [evil],
    });
    serde_json::from_value(timeline).unwrap()
}

#[test]
fn a_picture_of_a_boot_is_self_contained_and_escapes_what_it_is_given() {
    let picture = boot_picture(&boot());
    assert!(picture.starts_with("<svg xmlns="), "{picture}");
    for forbidden in ["<script", "href", "@import", "url(", "\u{1b}", "\u{202e}"] {
        assert!(!picture.contains(forbidden), "{forbidden:?}");
    }
    assert!(picture.contains("&lt;script&gt;&amp;&quot;"));
    // In a page it needs no name that looks like an address.
    assert!(!super::svg::boot_figure(&boot()).contains("http"));
}

#[test]
fn a_boot_as_a_text_stays_in_its_columns_and_moves_no_cursor() {
    let text = timeline_table(&boot(), Style::default());
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert!(!line.contains(['\u{1b}', '\u{202e}']), "{line:?}");
    }
    for words in [
        "Degraded after 1h30m; usually 5m00s (median of 1 earlier boot)",
        "(still)",
        "(not ended)",
        "released at its deadline, without it",
        "RKE2's last error",
        "Note: ",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
}
