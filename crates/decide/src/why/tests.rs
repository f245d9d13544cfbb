//! Names and their meaning, and answers that stay small for any graph of waits.

use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_model::reasons::Code;

use super::*;

#[test]
fn a_file_is_meant_by_its_path_its_name_and_its_absolute_path() {
    let manifests = Path::new("/m");
    assert!(names_file("a/b.yaml", &"a/b.yaml".into(), manifests));
    assert!(names_file("b.yaml", &"a/b.yaml".into(), manifests));
    assert!(names_file("/m/a/b.yaml", &"a/b.yaml".into(), manifests));
    assert!(!names_file("a", &"a/b.yaml".into(), manifests));
    assert!(!names_file(".yaml", &"a/b.yaml".into(), manifests));
    assert!(!names_file("/n/b.yaml", &"a/b.yaml".into(), manifests));
}

#[test]
fn an_object_is_meant_in_every_way_that_people_write_it() {
    let object = "VirtualMachine shop/till, line 3";
    for asked in [
        "VirtualMachine/shop/till",
        "virtualmachine shop/till",
        "VirtualMachine shop till",
        "till",
    ] {
        assert!(is_object(asked, object), "{asked}");
    }
    for asked in [
        "shop",
        "VirtualMachine/till",
        "Secret/shop/till",
        "VirtualMachine/x/till",
    ] {
        assert!(!is_object(asked, object), "{asked}");
    }
    assert!(is_object(
        "VirtualMachine.kubevirt.io",
        "the kind VirtualMachine.kubevirt.io"
    ));
}

/// A document with these held files, and the files that each waits for.
fn held(files: &[(String, Vec<String>)]) -> Status {
    let since = Timestamp::UNIX_EPOCH.to_string();
    let held: Vec<Value> = files
        .iter()
        .map(|(file, waits_for)| {
            let blockers: Vec<Value> = waits_for
                .iter()
                .map(|bringer| {
                    json!({
                        "what": format!("the kind of {bringer}"), "condition": "served", "tier": "required",
                        "message": format!("waits for {bringer}"), "requiredBy": "Widget w, line 1",
                        "origin": {"rule": "inferred/kind-served", "file": file, "line": 1}, "broughtBy": bringer,
                    })
                })
                .collect();
            json!({"file": file, "since": since, "code": "waits-for-kind", "why": "waits", "by": "windrow", "blockers": blockers})
        })
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "windrow.dev/v1", "kind": "Status", "generation": 1, "readiness": "SettingUp", "phase": "staging",
        "since": since, "reason": {"code": "waits-for-kind", "message": ""}, "summary": "",
        "staging": {"total": files.len(), "held": held, "released": [], "applied": [], "failed": []},
        "findings": [], "versions": {"windrow": "0.1.0"},
    }))
    .unwrap()
}

/// Files of which each waits for every earlier one.
fn each_waits_for_all_before(count: usize) -> Vec<(String, Vec<String>)> {
    let name = |number: usize| format!("f{number:04}.yaml");
    (0..count)
        .map(|number| (name(number), (0..number).map(name).collect()))
        .collect()
}

fn answer(status: &Status, asked: &str) -> Value {
    serde_json::to_value(explain(status, asked, Path::new("/m")).unwrap()).unwrap()
}

/// The files of an answer in their order, and the number of matches for the question.
fn files(answer: &Value) -> (u64, Vec<&str>) {
    let files = answer["files"].as_array().unwrap().iter();
    let files = files.map(|file| file["file"].as_str().unwrap());
    (answer["asked"].as_u64().unwrap(), files.collect())
}

#[test]
fn a_file_that_many_others_wait_for_is_explained_once() {
    let status = held(&each_waits_for_all_before(14));
    let answer = answer(&status, "f0013.yaml");
    let (asked, files) = files(&answer);
    assert_eq!((asked, files[0], files.len()), (1, "f0013.yaml", 14));
    let each: std::collections::BTreeSet<&str> = files.into_iter().collect();
    assert_eq!(each.len(), 14);
    assert!(answer.get("leftOut").is_none(), "{answer}");
}

#[test]
fn an_answer_has_a_bound_in_entries_and_bytes_and_says_so() {
    let long = "x".repeat(2_000);
    let many: Vec<String> = (0..5_000).map(|number| format!("{number}.yaml")).collect();
    let wide = [("w.yaml".to_owned(), many)];
    let large = [("w.yaml".to_owned(), vec![long; 900])];
    let name = |number: usize| format!("{number}.yaml");
    let deep: Vec<(String, Vec<String>)> = (0..3_000)
        .rev()
        .map(|number| (name(number), vec![name(number + 1)]))
        .collect();
    for files in [&wide[..], &large, &deep, &each_waits_for_all_before(300)] {
        let status = held(files);
        let asked = &files.last().unwrap().0;
        let answer = answer(&status, asked);
        let text = answer.to_string();
        assert!(text.len() < 1 << 20, "{}", text.len());
        assert!(text.matches("\"message\"").count() <= 1_000);
        assert_eq!(answer["leftOut"], LEFT_OUT);
        // A long chain does not nest deeply in the answer.
        serde_json::from_str::<Value>(&text).unwrap();
    }
}

#[test]
fn the_files_behind_are_found_by_who_brings_what_also_in_a_cycle() {
    let two = |one: &str, other: &str| (one.to_owned(), vec![other.to_owned()]);
    let status = held(&[
        two("a.yaml", "b.yaml"),
        two("b.yaml", "a.yaml"),
        two("c.yaml", "none.yaml"),
    ]);
    let cycle = answer(&status, "a.yaml");
    assert_eq!(files(&cycle), (1, vec!["a.yaml", "b.yaml"]));
    let back = &cycle["files"][1]["waitsFor"][0];
    assert_eq!(back["broughtBy"], "a.yaml");
    assert_eq!(back["root"], false);
    let root = answer(&status, "c.yaml");
    assert_eq!(files(&root), (1, vec!["c.yaml"]));
    assert_eq!(root["files"][0]["waitsFor"][0]["root"], true);
}

#[test]
fn a_file_that_is_kept_since_it_was_applied_is_nothing_to_wait_for() {
    let mut status = held(&[
        ("a.yaml".to_owned(), vec!["once.yaml".to_owned()]),
        ("once.yaml".to_owned(), Vec::new()),
    ]);
    status.staging.held[1].code = Code::HeldAppliedOnce;
    let waiting = answer(&status, "a.yaml");
    assert_eq!(files(&waiting), (1, vec!["a.yaml"]));
    assert_eq!(waiting["files"][0]["waitsFor"][0]["root"], true);
    let once = answer(&status, "once.yaml");
    assert_eq!(once["files"][0]["appliedOnce"], true);
    assert!(waiting["files"][0].get("appliedOnce").is_none());
}
