//! The renderers against plans made by hand.

use super::samples::{broken, first_vm, wide};
use super::{PlanReport, Style, dot, mermaid, svg, table};
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
