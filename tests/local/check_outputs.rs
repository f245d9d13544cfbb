//! What `windrow check` writes for pipelines: SARIF, JUnit, workflow commands of GitHub, a page.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::process::Command;

use serde_json::Value;

/// An error, a warning that is accepted, something that was not looked at; in a file whose name needs escapes.
const USER_DATA: &str = "\
#cloud-config
runcmd:
- cp /root/x.yaml /var/lib/rancher/rke2/server/manifests/
write_files:
- path: /var/lib/rancher/rke2/server/manifests/a_a.yaml
  content: |
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: a, namespace: default}
- path: /var/lib/rancher/rke2/server/manifests/b.yaml
  content: |
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: b, namespace: default}
- path: /var/lib/rancher/rke2/server/manifests/c.yaml
  content: |
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: b, namespace: default}
";
const NAME: &str = "user data, 100%<&>.yaml";
const ACCEPT: &str = "apiVersion: windrow.dev/v1\nkind: AcceptedFindings\naccept:\n- code: duplicate-object\n  reason: \"they are <alike> & \\\"same\\\"\"\n";

fn checked(format: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(NAME), USER_DATA).unwrap();
    fs::write(directory.path().join(".windrow-accept.yaml"), ACCEPT).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["check", "--runs", "1", "-o", format, NAME])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key]
        .as_array()
        .unwrap_or_else(|| panic!("{key} of {value}"))
}

#[test]
fn sarif_has_what_its_schema_requires_and_every_rule_is_of_the_reason_table() {
    let log: Value = serde_json::from_str(&checked("sarif")).unwrap();
    assert_eq!(log["version"], "2.1.0");
    assert!(
        log["$schema"]
            .as_str()
            .unwrap()
            .ends_with("sarif-schema-2.1.0.json")
    );
    let run = &list(&log, "runs")[0];
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "windrow");
    let rules = list(driver, "rules");
    for rule in rules {
        let known = windrow_model::reasons::REASONS;
        assert!(known.iter().any(|reason| rule["id"] == reason.id), "{rule}");
        assert!(rule["shortDescription"]["text"].is_string());
        assert!(rule["help"]["text"].is_string());
    }
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    let results = list(run, "results");
    assert!(results.len() >= 3, "{results:?}");
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let level = result["level"].as_str().unwrap();
        assert!(["none", "note", "warning", "error"].contains(&level));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        for location in list(result, "locations") {
            let place = &location["physicalLocation"];
            let uri = place["artifactLocation"]["uri"].as_str().unwrap();
            if !uri.ends_with(".windrow-accept.yaml") {
                assert_eq!(uri, "user%20data%2C%20100%25%3C%26%3E.yaml");
            }
            assert!(
                place["region"]["startLine"]
                    .as_u64()
                    .is_none_or(|line| line > 0)
            );
        }
    }
    let of = |id: &str| results.iter().find(|one| one["ruleId"] == id).unwrap();
    let name = of("addon-name-invalid");
    assert_eq!(name["level"], "error");
    let place = &list(name, "locations")[0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], 7);
    let twice = &of("duplicate-object")["suppressions"][0];
    assert_eq!(twice["kind"], "external");
    assert_eq!(twice["justification"], "they are <alike> & \"same\"");
}

/// The elements of a document, each with its attributes, and a failure where they do not nest.
fn elements(xml: &str) -> Vec<String> {
    let body = xml
        .strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>")
        .unwrap();
    let (mut open, mut found) = (Vec::new(), Vec::new());
    for piece in body.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap();
        let ends = piece.split('&').skip(1).all(|entity| entity.contains(';'));
        assert!(ends && !text.contains('>'), "{piece}");
        let name = tag.trim_start_matches('/').trim_end_matches('/');
        let name = name.split_whitespace().next().unwrap().to_owned();
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name)),
            (_, true) => found.push(tag.to_owned()),
            (_, false) => {
                found.push(tag.to_owned());
                open.push(name);
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
    found
}

#[test]
fn junit_counts_what_it_lists_and_quotes_what_it_takes_over() {
    let xml = checked("junit");
    let elements = elements(&xml);
    let count = |name: &str| elements.iter().filter(|one| one.starts_with(name)).count();
    let head = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"0\"",
        count("testcase "),
        count("failure ")
    );
    assert!(elements[0].starts_with("testsuites "), "{xml}");
    assert!(elements[0].contains(&head), "{head}\n{xml}");
    assert_eq!(count("testsuite "), 4);
    assert_eq!(count("skipped "), 1, "{xml}");
    assert!(
        xml.contains("accepted: they are &lt;alike&gt; &amp; &quot;same&quot;"),
        "{xml}"
    );
    let case = elements
        .iter()
        .find(|one| one.contains("addon-name-invalid at"))
        .unwrap();
    assert!(case.contains("line=\"7\""), "{case}");
    assert!(
        case.contains("file=\"user data, 100%&lt;&amp;&gt;.yaml\""),
        "{case}"
    );
}

#[test]
fn github_gets_one_command_a_finding_at_its_line() {
    let text = checked("github");
    let lines: Vec<&str> = text.lines().collect();
    let at = |line: u32, title: &str| {
        format!("file=user data%2C 100%25<&>.yaml,line={line},title={title}::")
    };
    let begins = |begin: &str| lines.iter().any(|line| line.starts_with(begin));
    assert!(
        begins(&format!("::error {}", at(7, "addon-name-invalid"))),
        "{text}"
    );
    assert!(
        begins(&format!("::warning {}", at(3, "not-looked-at"))),
        "{text}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("::notice ") && line.contains("accepted (they are")),
        "{text}"
    );
    assert_eq!(lines.last(), Some(&"windrow check: fail"));
}

#[test]
fn the_page_begins_with_the_verdict_and_needs_nothing_else() {
    let page = checked("html");
    let verdict = page.find(">fail<").unwrap();
    assert!(verdict < page.find("Without Windrow").unwrap());
    let advice = windrow_model::reasons::Code::AddonNameInvalid
        .reason()
        .advice;
    let words = advice.split('`').map(str::trim);
    for part in words.filter(|part| !part.is_empty()) {
        let shown = part
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        assert!(page.contains(&shown), "{part}: {page}");
    }
    assert!(page.contains("they are &lt;alike&gt;"));
    for foreign in [
        "<script", "http://", "https://", "src=", "<link", "@import", "url(",
    ] {
        assert!(!page.contains(foreign), "{foreign} is in the page");
    }
}

#[test]
fn every_document_carries_the_version_the_verdict_and_the_advice_and_is_written_as_yaml_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(NAME);
    fs::write(&path, USER_DATA).unwrap();
    let advice = windrow_model::reasons::Code::AddonNameInvalid
        .reason()
        .advice;
    for (verb, verdict, findings) in [
        ("plan", "fail", "/findings"),
        ("check --details", "stuck", "/nodes/0/findings"),
    ] {
        let run = |format: &str| {
            let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
                .args(verb.split(' '))
                .args(["-o", format])
                .arg(&path)
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let json: Value = serde_json::from_str(&run("json")).unwrap();
        assert_eq!(json["windrow"], env!("CARGO_PKG_VERSION"), "{verb}");
        assert_eq!(json["verdict"], verdict, "{verb}");
        let found = json.pointer(findings).unwrap().as_array().unwrap();
        let name = found.iter().find(|one| one["code"] == "addon-name-invalid");
        assert_eq!(name.unwrap()["advice"], advice, "{verb}");
        let yaml = windrow_model::manifest::yaml::parse_configuration(&run("yaml"));
        let yaml = yaml.unwrap().unwrap().to_json();
        assert_eq!(yaml.pointer(findings), json.pointer(findings), "{verb}");
        assert_eq!(yaml["verdict"], verdict, "{verb}");
    }
}
