//! Tests of templates, which jinja reads with cloud-init's settings.

use super::*;

const HEADER: &str = "## template: jinja\n#cloud-config\n";

/// The text of the only part, without its first line.
fn rendered(text: &str) -> String {
    let found = opened(HEADER.to_owned() + text);
    let part = &found.parts[0];
    part.text
        .strip_prefix("\n#cloud-config\n")
        .unwrap()
        .to_owned()
}

#[test]
fn expressions_and_comments_may_go_over_lines_and_every_line_stays_where_it_is() {
    for (text, expected) in [
        ("a: {{ x\n  | upper }} b\nc: 1\n", "a: x-upper b\n\nc: 1\n"),
        ("{# one #}\na: 1\n", "\na: 1\n"),
        ("{# one\ntwo #}\na: 1\n", "\n\na: 1\n"),
        ("a: {# one\ntwo #}1\nb: 2\n", "a: 1\n\nb: 2\n"),
        // jinja also removes the line break after a comment.
        ("a: 1 {# one #}\nb: 2\n", "a: 1 b: 2\n\n"),
        ("a: \"{{ '}}' }}\"\n", "a: \"x\"\n"),
        ("a: \"{{ '\\'}}' }}\"\n", "a: \"x\"\n"),
        ("a: ${x} {b: {c: 1}}\n", "a: ${x} {b: {c: 1}}\n"),
    ] {
        assert_eq!(rendered(text), expected, "{text:?}");
    }
}

#[test]
fn what_jinja_drops_or_shifts_is_not_looked_at() {
    for (text, line) in [
        ("a: 1\n{% if x %}\n", 4),
        ("a: {{ x\n", 3),
        ("# {# x\n", 3),
        ("a: 1\nb: {{- x }}\n", 4),
        ("a: 1\n{#- x #}\n", 4),
        ("a: {{ x {# y #} }}\n", 3),
        ("a: {{ x\n  # {{ y }} }}\n", 3),
    ] {
        let found = opened(HEADER.to_owned() + text);
        assert_eq!(
            problem_codes(&found),
            [(Code::NotLookedAt, line)],
            "{text:?}"
        );
        assert_eq!(found.parts, [], "{text:?}");
    }
}

#[test]
fn a_path_whose_directory_an_expression_decides_is_not_looked_at() {
    let file = |path: &str| format!("write_files:\n- path: \"{path}\"\n  content: x\n");
    for path in [
        "{{ x }}",
        "{{ x }}/a.yaml",
        "/etc/{{ x }}/a.yaml",
        "/etc/rancher/{{ x }}/config.yaml",
        "/var/lib/rancher/rke2/{{ x }}/a.yaml",
    ] {
        let found = opened(HEADER.to_owned() + &file(path));
        assert_eq!(problem_codes(&found), [(Code::NotLookedAt, 4)], "{path}");
    }
    for path in [
        "/home/{{ x }}/.profile",
        "/etc/hosts.{{ x }}",
        "/var/lib/rancher/rke2/server/manifests/{{ x }}.yaml",
        "/etc/rancher/rke2/config.yaml.d/{{ x }}.yaml",
    ] {
        let found = opened(HEADER.to_owned() + &file(path));
        assert_eq!(problem_codes(&found), [], "{path}");
    }
}

#[test]
fn a_line_that_is_nothing_but_an_expression_is_not_looked_at() {
    let text =
        format!("write_files:\n- path: {FILE}/a.yaml\n  content: |\n    {{{{ ds.manifest }}}}\n");
    let found = opened(HEADER.to_owned() + &text);
    assert_eq!(problem_codes(&found), [(Code::NotLookedAt, 6)]);
    let extraction = found.extract(&ReadLimits::default()).remove(0);
    assert_eq!(extraction.files[0].content, b"# ds-manifest\n");
}
