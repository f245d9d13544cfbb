//! Tests of cloud-init's treatment of user-data, part by part, with the lines of the file.

mod templates;
mod wrappings;

use std::io::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::*;
use crate::extract::extract;

const FILE: &str = "/var/lib/rancher/rke2/server/manifests";

fn cloud_config(names: &[&str]) -> String {
    let mut text = "#cloud-config\nwrite_files:\n".to_owned();
    for name in names {
        text += &format!("- path: {FILE}/{name}\n  content: |\n    kind: A\n");
    }
    text
}

fn message(parts: &[(&str, &str)]) -> String {
    let mut text =
        "Content-Type: multipart/mixed; boundary=\"==X==\"\nMIME-Version: 1.0\n\n".to_owned();
    for (headers, body) in parts {
        text += &format!("--==X==\n{headers}\n\n{body}\n");
    }
    text + "--==X==--\n"
}

fn opened(bytes: impl Into<Vec<u8>>) -> Wrapped {
    match open("u", bytes.into(), &ReadLimits::default()) {
        OpenedFile::Wrapped(found) => found,
        OpenedFile::Text(bytes) => panic!("{}", String::from_utf8_lossy(&bytes)),
    }
}

/// The files that would be written, each with its source and line.
fn written(found: &Wrapped) -> Vec<(String, String, u32)> {
    let parts = found.parts.iter();
    parts
        .flat_map(|part| extract(&part.shown, &part.text, &ReadLimits::default()).files)
        .map(|file| (file.path, file.source, file.written_at))
        .collect()
}

fn problem_codes(found: &Wrapped) -> Vec<(Code, u32)> {
    let problems = found.problems.iter();
    problems
        .map(|problem| (problem.code, problem.line.unwrap()))
        .collect()
}

#[test]
fn a_file_whose_name_says_nothing_is_a_configuration_by_what_is_in_it() {
    let install = "scheme_version: 1\ninstall: {mode: create}\n";
    for text in ["#cloud-config\n", "#cloud-config-archive\n[]\n", install] {
        assert!(is_configuration(text.as_bytes()), "{text}");
        assert!(is_configuration(&gzip(text)), "{text}");
    }
    for text in [
        "apiVersion: v1\nkind: A\n",
        "#!/bin/sh\ntrue\n",
        "install: {mode: [\n",
    ] {
        assert!(!is_configuration(text.as_bytes()), "{text}");
        assert!(!is_configuration(&gzip(text)), "{text}");
    }
    assert!(!is_configuration(b"\xff\xfe"));
}

fn gzip(text: &str) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

#[test]
fn a_plain_text_is_handed_back_as_it_is() {
    for text in [
        "apiVersion: v1\nkind: A\n",
        "#cloud-config\nwrite_files: []\n",
        "#!cloud-config\nos: {}\n",
        "#!/usr/bin/env -S kubectl apply -f\napiVersion: v1\nkind: A\n",
        "## template: jinja\nos: {}\n",
        "",
    ] {
        let opened = open("u", text.into(), &ReadLimits::default());
        assert_eq!(opened, OpenedFile::Text(text.into()), "{text:?}");
    }
}

#[test]
fn the_cloud_configs_of_a_multipart_message_are_read_with_their_lines() {
    let text = message(&[
        ("Content-Type: text/x-shellscript", "#!/bin/sh\ntrue"),
        (
            "Content-Type: text/cloud-config; charset=\"utf-8\"",
            &cloud_config(&["a.yaml"]),
        ),
    ]);
    let found = opened(text.clone());
    let line = text
        .lines()
        .position(|line| line.contains("a.yaml"))
        .unwrap()
        + 1;
    assert_eq!(
        written(&found),
        [(
            "a.yaml".to_owned(),
            "u".to_owned(),
            u32::try_from(line).unwrap()
        )]
    );
    assert_eq!(problem_codes(&found), []);
    assert_eq!(found.notes[0].0, 7, "{:?}", found.notes);
}

#[test]
fn parts_are_decoded_unpacked_and_told_by_how_they_begin() {
    let one = cloud_config(&["a.yaml"]);
    for (headers, body) in [
        (
            "Content-Type: text/cloud-config\nContent-Transfer-Encoding: base64",
            BASE64_STANDARD.encode(&one),
        ),
        (
            "Content-Type: application/x-gzip\nContent-Transfer-Encoding: base64",
            BASE64_STANDARD.encode(gzip(&one)),
        ),
    ] {
        let found = opened(message(&[(headers, &body)]));
        let (path, source, line) = written(&found).remove(0);
        assert_eq!(
            (path.as_str(), source.as_str(), line),
            ("a.yaml", "u:8: part", 3),
            "{headers}"
        );
    }
    for headers in [
        "Content-Type: text/plain",
        "X-Any: x",
        "Content-Type: text/x-shellscript",
    ] {
        assert_eq!(
            written(&opened(message(&[(headers, &one)]))).len(),
            1,
            "{headers}"
        );
    }
    // Its type makes it one, with any first line; and every line keeps its number.
    let bare = one.replacen("#cloud-config\n", "", 1);
    let found = opened(message(&[("Content-Type: text/cloud-config", &bare)]));
    assert_eq!(written(&found)[0].2, 8);
    let extraction = extract("u", &found.parts[0].text, &ReadLimits::default());
    assert_eq!(extraction.problems, []);
}

#[test]
fn messages_in_messages_and_messages_of_one_part_are_read() {
    let inner = "--Y\nContent-Type: text/cloud-config\n\n".to_owned()
        + &cloud_config(&["a.yaml"])
        + "\n--Y--\n";
    let nested = message(&[("Content-Type: multipart/mixed; boundary=Y", &inner)]);
    assert_eq!(written(&opened(nested)).len(), 1);
    let one = "MIME-Version: 1.0\nContent-Type: text/cloud-config\n\n".to_owned()
        + &cloud_config(&["a.yaml"]);
    assert_eq!(written(&opened(one.clone()))[0].2, 6);
    assert_eq!(written(&opened(one.replace('\n', "\r\n"))).len(), 1);
}

#[test]
fn a_later_part_takes_the_place_of_an_earlier_ones_files_unless_it_asks_to_append() {
    let (one, two) = (cloud_config(&["a.yaml"]), cloud_config(&["b.yaml"]));
    let kind = "Content-Type: text/cloud-config";
    let names = |text: String| {
        let found = opened(text);
        let names: Vec<String> = written(&found).into_iter().map(|(path, ..)| path).collect();
        (names.join(" "), problem_codes(&found))
    };
    let (files, problems) = names(message(&[(kind, &one), (kind, &two)]));
    assert_eq!(
        (files.as_str(), problems),
        ("b.yaml", vec![(Code::KeyNotRead, 8)])
    );
    for how in [
        "merge_how: dict(recurse_list)+list(append)\n",
        "merge_type: 'list(append)+dict(no_replace,recurse_list)+str()'\n",
        "merge_how:\n- {name: list, settings: [append]}\n- {name: dict, settings: [recurse_array]}\n",
        "merge_how: [[list, append], [dict, recurse_list]]\n",
    ] {
        let (files, problems) = names(message(&[(kind, &one), (kind, &(two.clone() + how))]));
        assert_eq!(
            (files.as_str(), problems),
            ("a.yaml b.yaml", vec![]),
            "{how}"
        );
    }
    let header = format!("{kind}\nMerge-Type: list(prepend)+dict(recurse_list)");
    assert_eq!(
        names(message(&[(kind, &one), (&header, &two)])).0,
        "b.yaml a.yaml"
    );
    let (files, problems) = names(message(&[
        (kind, &one),
        (kind, &(two.clone() + "merge_how: dict()+list()\n")),
    ]));
    assert_eq!((files.as_str(), problems.len()), ("a.yaml", 1));
    let (_, problems) = names(message(&[
        (kind, &one),
        (kind, &(two + "merge_how: dict(recurse_list)+list()\n")),
    ]));
    assert_eq!(problems[0].0, Code::NotLookedAt);
}

#[test]
fn what_is_not_read_is_named_with_its_line() {
    for (text, code) in [
        ("#!/bin/sh\ntrue\n", Code::NotLookedAt),
        ("#include\nhttps://example.com/x\n", Code::NotLookedAt),
        ("#cloud-boothook\ntrue\n", Code::NotLookedAt),
        ("#cloud-config-jsonp\n[]\n", Code::NotLookedAt),
        ("#part-handler\n", Code::NotLookedAt),
        ("#cloud-config-archive\na: 1\n", Code::UserDataIgnored),
        (
            "## template: jinja\n#cloud-config\n{% if x %}\n",
            Code::NotLookedAt,
        ),
        ("## template: jinja\nusers: []\n", Code::UserDataIgnored),
        (
            "Content-Type: multipart/mixed; boundary=X\n\n--X\n",
            Code::InputRefused,
        ),
        (
            "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nx\n",
            Code::UserDataIgnored,
        ),
    ] {
        let found = opened(text);
        assert_eq!(found.parts, [], "{text:?}");
        assert!(
            found.problems.iter().any(|problem| problem.code == code),
            "{text:?}: {found:?}"
        );
    }
    for (headers, body, code) in [
        (
            "Content-Type: text/x-include-url",
            "https://x",
            Some(Code::NotLookedAt),
        ),
        (
            "Content-Type: application/octet-stream",
            "x",
            Some(Code::UserDataIgnored),
        ),
        (
            "Content-Type: text/x-shellscript",
            "#!/bin/sh\ncp x /etc/rancher/rke2/",
            Some(Code::NotLookedAt),
        ),
        ("Content-Type: text/x-shellscript", "#!/bin/sh\ntrue", None),
        (
            "Content-Type: application/gzip",
            "no gzip",
            Some(Code::NotLookedAt),
        ),
        (
            "Content-Type: text/cloud-config",
            "os: {}",
            Some(Code::NotLookedAt),
        ),
    ] {
        // A second entry, so that at least one is read.
        let beside = (
            "Content-Type: text/cloud-config",
            "#cloud-config\nusers: []",
        );
        let found = opened(message(&[(headers, body), beside]));
        let codes: Vec<Code> = found.problems.iter().map(|problem| problem.code).collect();
        assert_eq!(codes, Vec::from_iter(code), "{headers}: {found:?}");
    }
    assert_eq!(
        problem_codes(&opened(gzip("apiVersion: v1\nkind: A\n"))),
        [(Code::NotLookedAt, 1)]
    );
    assert_eq!(
        problem_codes(&opened(b"\x1f\x8bno gzip".as_slice())),
        [(Code::NotLookedAt, 1)]
    );
}

#[test]
fn an_archive_is_read_part_by_part() {
    let text = format!(
        "#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    write_files:\n    - path: {FILE}/a.yaml\n- \"#!/bin/sh\\ntrue\"\n"
    );
    let found = opened(text);
    assert_eq!(written(&found)[0], ("a.yaml".to_owned(), "u".to_owned(), 5));
    assert_eq!(found.notes.len(), 1, "{found:?}");
}

#[test]
fn a_template_is_read_with_a_word_for_what_the_node_fills_in() {
    let text = "## template: jinja\n".to_owned() + &cloud_config(&["{{ v1.local_hostname }}.yaml"]);
    let found = opened(text);
    assert_eq!(written(&found)[0].0, "v1-local-hostname.yaml");
    assert_eq!(written(&found)[0].2, 4);
    assert!(
        found.notes[0].1.contains("`{{ v1.local_hostname }}`"),
        "{found:?}"
    );
}

#[test]
fn packed_user_data_is_unpacked() {
    let found = opened(gzip(&cloud_config(&["a.yaml"])));
    assert_eq!(
        written(&found)[0],
        ("a.yaml".to_owned(), "u (unpacked)".to_owned(), 3)
    );
}

#[test]
fn a_message_made_to_cost_is_not_read() {
    let many = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n".to_owned()
        + &"--X\n\n".repeat(20_000);
    assert_eq!(problem_codes(&opened(many)), [(Code::NotLookedAt, 1)]);
    let long = cloud_config(&["a.yaml"]) + &"# and so on\n".repeat(400_000);
    let found = opened(message(&[("Content-Type: text/cloud-config", &long)]));
    assert_eq!(
        (problem_codes(&found), found.parts.len()),
        (vec![(Code::NotLookedAt, 1)], 0)
    );
}

#[test]
fn many_parts_cost_no_more_than_a_few() {
    // Each would have a blank line for each line before it.
    let kind = "Content-Type: text/cloud-config";
    let high = "\n".repeat(1 << 20);
    let mut parts = vec![(kind, high.as_str())];
    parts.extend([(kind, "runcmd: []"); 900]);
    let archive = "#cloud-config-archive\n".to_owned() + &"- 'runcmd: []'\n".repeat(20_000);
    for text in [message(&parts), archive] {
        let found = opened(text);
        let bytes: usize = found.parts.iter().map(|part| part.text.len()).sum();
        assert!(bytes <= MOST_BYTES && found.parts.len() <= MOST_PARTS);
        let codes: Vec<Code> = found.problems.iter().map(|one| one.code).collect();
        assert!(codes.contains(&Code::NotLookedAt), "{}", codes.len());
    }
}

#[test]
fn texts_inside_an_expression_are_not_repeated() {
    let text =
        "## template: jinja\n#cloud-config\nfinal_message: \"{{ ds.x | default('hunter2') }}\"\n";
    let found = opened(text);
    assert!(!format!("{:?} {}", found.notes, found.parts[0].text).contains("hunter2"));
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        text in "(MIME-Version: 1.0\n|Content-Type: |multipart/mixed; boundary=X|text/cloud-config|\n\n|\n|--X\n|--X--\n|#cloud-config\n|#cloud-config-archive\n|- |write_files:\n|merge_how: |list\\(append\\)|\\{\\{ x|\\}\\}|## template: jinja\n|é| ){0,30}"
    ) {
        let _ = open("u", text.into_bytes(), &ReadLimits::default());
    }
}
