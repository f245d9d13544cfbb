//! Level 3: the units' sandboxes are what docs/hardening.md says of them, by systemd's own judgement.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The figures of the page are this version's.
const MEASURED_BY: &str = "systemd 252 ";

/// The page has a sentence for these two, which are the same in every unit.
const SAME_IN_ALL: [&str; 2] = ["RootDirectory", "DeviceAllow"];

fn analyze(arguments: &[&str]) -> Option<String> {
    let output = Command::new("systemd-analyze")
        .args(arguments)
        .output()
        .ok()?;
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn every_exception_of_a_unit_stands_on_the_page_with_its_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(version) = analyze(&["--version"]) else {
        println!("skipped: systemd-analyze is not installed");
        return;
    };
    let page = std::fs::read_to_string(root.join("docs/hardening.md")).unwrap();
    let mut wrong = Vec::new();
    for folder in ["systemd", "systemd/orphans"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let unit = path.file_name().unwrap().to_str().unwrap().to_owned();
            if !unit.ends_with(".service") {
                continue;
            }
            let path = path.to_str().unwrap();
            let section = page
                .split("\n## ")
                .find(|section| section.lines().next() == Some(&unit));
            let section =
                section.unwrap_or_else(|| panic!("{unit} has no section in docs/hardening.md"));
            let security = ["security", "--offline=true", "--no-pager"];
            let rows = analyze(&[&security[..], &["--json=short", path]].concat()).unwrap();
            let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
            let open = rows.iter().filter(|row| {
                row["set"] == false
                    && row["exposure"]
                        .as_str()
                        .is_some_and(|exposure| exposure != "0.0")
            });
            let names = open.filter_map(|row| row["name"].as_str()?.split('=').next());
            // One of two directives does: User= or DynamicUser=.
            let unsaid = names.filter(|name| {
                !SAME_IN_ALL.contains(name) && !section.contains(&format!("`{name}=`"))
            });
            wrong.extend(
                unsaid.map(|name| format!("{unit}: {name}= is open, and the page gives no reason")),
            );

            let table = analyze(&[&security[..], &[path]].concat()).unwrap();
            let figure = table
                .lines()
                .last()
                .and_then(|line| line.split(": ").nth(1)?.split(' ').next())
                .unwrap();
            let row = page
                .lines()
                .find(|line| line.starts_with(&format!("| [`{unit}`]")))
                .unwrap_or_default();
            if version.starts_with(MEASURED_BY)
                && row.split('|').nth(2).map(str::trim) != Some(figure)
            {
                wrong.push(format!("{unit}: {figure}, and the page says: {row}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
