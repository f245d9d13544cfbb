//! Tests of unusual wrappings: text before headers, parts of another kind, nested parts.

use super::*;

const CLOUD_CONFIG: &str = "Content-Type: text/cloud-config";

#[test]
fn a_message_behind_something_else_is_none_to_cloud_init() {
    let text = message(&[(CLOUD_CONFIG, &cloud_config(&["a.yaml"]))]);
    for (front, what) in [
        ("\u{feff}", "a byte-order mark"),
        ("\n", "a blank line"),
        (" \n\n", "a blank line"),
        ("# mine\n", "a comment"),
        ("#cloud-config\n", "a comment"),
    ] {
        let found = opened(format!("{front}{text}"));
        assert_eq!(
            problem_codes(&found),
            [(Code::InputRefused, 1)],
            "{front:?}"
        );
        assert!(found.problems[0].message.contains(what), "{found:?}");
        assert_eq!(found.parts, []);
    }
}

#[test]
fn a_part_that_is_another_kind_of_file_by_its_keys_is_not_passed() {
    for body in [
        "#cloud-config\nstages: {boot: []}",
        "#cloud-config\nstages: {boot: []}\nwrite_files: []",
        "#cloud-config\napiVersion: v1\nkind: Namespace",
        "#cloud-config\ninstall: {mode: create}\nos: {}",
    ] {
        let found = opened(message(&[(CLOUD_CONFIG, body)]));
        assert_eq!(problem_codes(&found), [(Code::NotLookedAt, 7)], "{body}");
        let entry = body.replace('\n', "\n    ");
        let archive = format!(
            "#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    {entry}\n"
        );
        let found = opened(archive);
        assert_eq!(problem_codes(&found), [(Code::NotLookedAt, 4)], "{body}");
    }
}

#[test]
fn a_part_without_keys_is_passed_over() {
    // As in cloud-init's own example of an archive.
    let users = "- |\n  #cloud-config\n  users: []\n";
    let text = format!("#cloud-config-archive\n- this is also payload\n- |\n  - 1\n{users}");
    let found = opened(text);
    assert_eq!(
        problem_codes(&found),
        [(Code::UserDataIgnored, 2), (Code::UserDataIgnored, 4)]
    );
    assert_eq!(found.parts.len(), 1);
}

#[test]
fn a_file_of_which_cloud_init_takes_nothing_is_refused_and_one_with_a_script_is_not_looked_at() {
    for text in [
        "## template: jinja\nusers: []\n".to_owned(),
        "#cloud-config-archive\na: 1\n".to_owned(),
        "#cloud-config-archive\n[]\n".to_owned(),
        message(&[("Content-Type: application/octet-stream", "x")]),
        BASE64_STANDARD.encode("#cloud-config\nusers: []\n"),
    ] {
        let codes = problem_codes(&opened(text.clone()));
        assert_eq!(codes.last(), Some(&(Code::InputRefused, 1)), "{text}");
    }
    let script = message(&[("Content-Type: text/x-shellscript", "#!/bin/sh")]);
    assert_eq!(problem_codes(&opened(script)), [(Code::NotLookedAt, 1)]);
}

#[test]
fn an_archive_in_a_part_in_base64_has_the_line_of_the_part() {
    let archive = format!(
        "#cloud-config-archive\n- 12\n- |\n  #include\n  http://x\n- |\n  #cloud-config\n  write_files:\n  - path: {FILE}/a.yaml\n"
    );
    let headers = "Content-Type: text/cloud-config-archive\nContent-Transfer-Encoding: base64";
    let found = opened(message(&[(headers, &BASE64_STANDARD.encode(&archive))]));
    assert_eq!(
        problem_codes(&found),
        [(Code::UserDataIgnored, 8), (Code::NotLookedAt, 8)]
    );
    assert_eq!(
        written(&found),
        [("a.yaml".to_owned(), "u:8: part".to_owned(), 3)]
    );
}

#[test]
fn problems_of_a_packed_message_have_its_own_lines() {
    let text = message(&[
        (CLOUD_CONFIG, "#cloud-config\nusers: []"),
        ("Content-Type: text/x-include-url", "http://x"),
    ]);
    let found = opened(gzip(&text));
    assert_eq!(found.shown, "u (unpacked)");
    assert_eq!(problem_codes(&found), [(Code::NotLookedAt, 12)]);
}

#[test]
fn an_entry_of_an_archive_says_how_it_is_merged() {
    let archive = |key: &str| {
        let entry = |name: &str, key: &str| {
            let content = cloud_config(&[name]).replace('\n', "\n    ");
            format!("- type: text/cloud-config\n{key}  content: |\n    {content}\n")
        };
        let text = format!(
            "#cloud-config-archive\n{}{}",
            entry("a.yaml", ""),
            entry("b.yaml", key)
        );
        let found = opened(text);
        let names: Vec<String> = written(&found).into_iter().map(|(path, ..)| path).collect();
        (names.join(" "), problem_codes(&found))
    };
    for header in ["Merge-Type", "X-Merge-Type"] {
        let (names, problems) = archive(&format!("  {header}: dict(recurse_list)+list(append)\n"));
        assert_eq!((names.as_str(), problems), ("a.yaml b.yaml", vec![]));
    }
    // cloud-init reads no header of this name.
    let (names, problems) = archive("  merge_how: dict(recurse_list)+list(append)\n");
    assert_eq!(names, "b.yaml");
    assert_eq!(problems, [(Code::KeyNotRead, 11), (Code::KeyNotRead, 5)]);
    let lower = format!("{CLOUD_CONFIG}\nmerge-type: dict(recurse_list)+list(append)");
    let (one, two) = (cloud_config(&["a.yaml"]), cloud_config(&["b.yaml"]));
    let found = opened(message(&[(CLOUD_CONFIG, &one), (&lower, &two)]));
    assert_eq!(written(&found).len(), 1);
}

#[test]
fn a_part_without_a_merger_for_maps_is_not_taken() {
    let (one, two) = (cloud_config(&["a.yaml"]), cloud_config(&["b.yaml"]));
    for how in ["list(append)", "dict(recurse_list)+lists(append)", "append"] {
        let header = format!("{CLOUD_CONFIG}\nMerge-Type: {how}");
        let found = opened(message(&[(CLOUD_CONFIG, &one), (&header, &two)]));
        assert_eq!(problem_codes(&found), [(Code::KeyNotRead, 17)], "{how}");
        assert_eq!(written(&found).len(), 1, "{how}");
        // A file of one cloud-config is merged as well, into nothing.
        let text = format!("{one}merge_how: {how}\n");
        let codes: Vec<Code> = extract("u", &text, &ReadLimits::default())
            .problems
            .iter()
            .map(|problem| problem.code)
            .collect();
        assert_eq!(codes, [Code::KeyNotRead], "{how}");
    }
}

#[test]
fn a_part_for_one_machine_of_several_is_not_looked_at() {
    let one = cloud_config(&["a.yaml"]);
    let header = format!("{CLOUD_CONFIG}\nLaunch-Index: 1");
    assert_eq!(
        problem_codes(&opened(message(&[(&header, &one)]))),
        [(Code::NotLookedAt, 8)]
    );
    let text = one.replace('\n', "\n    ");
    let archive = format!("#cloud-config-archive\n- launch-index: 1\n  content: |\n    {text}\n");
    assert_eq!(problem_codes(&opened(archive)), [(Code::NotLookedAt, 2)]);
    let text = format!("{one}launch-index: 1\n");
    let problems = extract("u", &text, &ReadLimits::default()).problems;
    assert_eq!(
        (problems[0].code, problems[0].line),
        (Code::NotLookedAt, Some(6))
    );
}

#[test]
fn a_packed_part_has_no_header_that_says_how_it_is_merged() {
    let (one, two) = (cloud_config(&["a.yaml"]), cloud_config(&["b.yaml"]));
    let headers = "Content-Type: application/x-gzip\nContent-Transfer-Encoding: base64\n\
                   Merge-Type: dict(recurse_list)+list(append)";
    let packed = BASE64_STANDARD.encode(gzip(&two));
    let found = opened(message(&[(CLOUD_CONFIG, &one), (headers, &packed)]));
    assert_eq!(problem_codes(&found), [(Code::KeyNotRead, 8)]);
    let names: Vec<String> = written(&found).into_iter().map(|(path, ..)| path).collect();
    assert_eq!(names, ["b.yaml"]);
}
