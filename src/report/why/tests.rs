//! Who is meant by a name, and answers that stay small whatever waits for what.

use jiff::Timestamp;
use serde_json::{Value, json};

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

/// How often each file is explained, and how deep the answer is.
fn explained(
    file: &Value,
    depth: usize,
    into: &mut std::collections::BTreeMap<String, usize>,
) -> usize {
    *into
        .entry(file["file"].as_str().unwrap().to_owned())
        .or_default() += 1;
    let links = file["waitsFor"].as_array().into_iter().flatten();
    let below = links.filter(|link| link["because"].is_object());
    below
        .map(|link| explained(&link["because"], depth + 1, into))
        .max()
        .unwrap_or(depth)
}

#[test]
fn a_file_that_many_others_wait_for_is_explained_once() {
    for reversed in [false, true] {
        let mut files = each_waits_for_all_before(14);
        if reversed {
            files
                .iter_mut()
                .for_each(|(_, waits_for)| waits_for.reverse());
        }
        let status = held(&files);
        let answer = answer(&status, "f0013.yaml");
        let mut times = std::collections::BTreeMap::new();
        explained(&answer["files"][0], 1, &mut times);
        assert_eq!(times.len(), 14);
        assert!(times.values().all(|times| *times == 1), "{times:?}");
        assert!(answer.get("leftOut").is_none(), "{answer}");
        let text = answer.to_string();
        assert!(text.contains("\"explainedElsewhere\":true"), "{text}");
        assert!(!text.contains("\"cycle\":true"), "{text}");
    }
}

#[test]
fn an_answer_has_a_bound_in_entries_bytes_and_depth_and_says_so() {
    let long = "x".repeat(2_000);
    let many: Vec<String> = (0..5_000).map(|number| format!("{number}.yaml")).collect();
    let wide = [("w.yaml".to_owned(), many)];
    let large = [("w.yaml".to_owned(), vec![long; 900])];
    for files in [&wide[..], &large[..], &each_waits_for_all_before(300)] {
        let status = held(files);
        let asked = &files.last().unwrap().0;
        let answer = answer(&status, asked);
        let text = answer.to_string();
        assert!(text.len() < 1 << 20, "{}", text.len());
        assert!(text.matches("\"message\"").count() <= 1_000);
        assert_eq!(answer["leftOut"], LEFT_OUT);
    }
    let name = |number: usize| format!("{number}.yaml");
    let chain: Vec<(String, Vec<String>)> = (0..3_000)
        .map(|number| (name(number), vec![name(number + 1)]))
        .collect();
    let answer = answer(&held(&chain), "0.yaml");
    let depth = explained(&answer["files"][0], 1, &mut Default::default());
    assert_eq!(depth, MOST_DEPTH);
    // Whoever reads it does so within its own depth.
    let text = answer.to_string();
    assert!(text.contains("\"notExplained\":true"));
    serde_json::from_str::<Value>(&text).unwrap();
}

#[test]
fn a_chain_that_comes_back_to_itself_is_a_cycle() {
    let two = |one: &str, other: &str| (one.to_owned(), vec![other.to_owned()]);
    let status = held(&[two("a.yaml", "b.yaml"), two("b.yaml", "a.yaml")]);
    let answer = answer(&status, "a.yaml");
    let link = &answer["files"][0]["waitsFor"][0];
    assert_eq!(link["because"]["file"], "b.yaml");
    assert_eq!(link["because"]["waitsFor"][0]["cycle"], true);
}
