//! No silent pass: inputs that pass, with one value replaced by a wrong one. `check` fails, warns, says that it does not know, or lists
//! the value under what it has not checked.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

const ALTERED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/altered");

const RKE2: [&str; 2] = ["--rke2", "v1.33.5+rke2r1"];
const HARVESTER: [&str; 2] = ["--harvester", "v1.8.2"];

/// The beginning of a line at which a wrong value is harmless, and why.
type Harmless = (&'static str, &'static str);

/// Each input with its target, and its harmless lines.
const INPUTS: [(&str, [&str; 2], &[Harmless]); 4] = [
    (
        "server.yaml",
        RKE2,
        &[
            ("permissions:", "cloud-init warns, and goes on with 0644"),
            (
                "etcd-snapshot-retention:",
                "below 1 RKE2 keeps all snapshots (k3s `pkg/etcd/snapshot.go`), and it takes any whole number",
            ),
        ],
    ),
    ("agent.yaml", RKE2, &[]),
    (
        "yip.yaml",
        RKE2,
        &[
            ("owner:", "Go's `os.Chown` takes any number"),
            ("group:", "Go's `os.Chown` takes any number"),
            ("requests.cpu:", "a quota can be as large as any number"),
            ("pods:", "a quota can be as large as any number"),
        ],
    ),
    ("vm.yaml", HARVESTER, &[]),
];

/// The text before a value, and the value.
fn value_of(line: &str) -> Option<(&str, &str)> {
    let content = line.trim_start();
    if content.starts_with('#') {
        return None;
    }
    let items = content.trim_start_matches("- ");
    let is_key = |key: &str| {
        let mut letters = key.chars();
        letters.all(|letter| letter.is_ascii_alphanumeric() || "-_./~".contains(letter))
    };
    let value = match items.split_once(": ") {
        Some((key, value)) if is_key(key) => value,
        _ if items.len() < content.len() && !items.ends_with(':') => items,
        _ => return None,
    };
    let value = value.trim();
    let is_block = ["", "|", "|-", "{}", "[]"].contains(&value);
    (!is_block).then(|| (&line[..line.len() - value.len()], value))
}

/// Wrong values: another type, far out of range, no boolean, no address.
fn wrong(value: &str) -> Vec<String> {
    let plain = value.trim_matches(['"', '\'']);
    let mut all = vec!["{windrow: wrong}".to_owned()];
    if plain.parse::<i64>().is_ok() {
        all.extend(["-7", "99999999999"].map(str::to_owned));
    }
    if ["true", "false"].contains(&plain) {
        all.push("maybe".to_owned());
    }
    let parts: Vec<&str> = plain.split(['/', ':']).collect();
    let address = parts.iter().find(|part| {
        let numbers: Vec<_> = part.split('.').map(str::parse::<u8>).collect();
        numbers.len() == 4 && numbers.iter().all(Result::is_ok)
    });
    if let Some(address) = address {
        let (network, _) = address.rsplit_once('.').unwrap();
        all.push(value.replace(address, &format!("{network}.300")));
    }
    all
}

struct Answer {
    exit: Option<i32>,
    document: Value,
}

fn check(path: &Path, target: [&str; 2]) -> Answer {
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["check", "--runs", "1", "-o", "json"])
        .args(target)
        .arg(path.file_name().unwrap())
        .current_dir(path.parent().unwrap())
        .output()
        .unwrap();
    Answer {
        exit: output.status.code(),
        document: serde_json::from_slice(&output.stdout).unwrap_or_default(),
    }
}

fn list<'v>(document: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    document[key].as_array().into_iter().flatten()
}

/// What was found, apart from how long the boot takes.
fn findings(document: &Value) -> BTreeSet<String> {
    let findings = list(document, "findings").filter(|one| one["code"] != "boot-slower");
    findings
        .map(|one| format!("{} {}", one["code"], one["message"]))
        .collect()
}

/// Whether an entry of what was not checked names this line, or the beginning of the block that has it.
fn lists(document: &Value, lines: &[&str], number: usize) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let places = list(document, "notChecked").flat_map(|entry| list(entry, "at"));
    let named = places.filter_map(|at| usize::try_from(at["line"].as_u64()?).ok());
    let mut named = named.filter(|line| (1..=number).contains(line));
    named.any(|line| {
        let outer = lines[line - 1];
        let mut below = lines[line..number]
            .iter()
            .filter(|line| !line.trim().is_empty());
        below.all(|line| {
            let is_item =
                line.trim_start().starts_with('-') && !outer.trim_start().starts_with('-');
            indent(line) > indent(outer) || (indent(line) == indent(outer) && is_item)
        })
    })
}

#[test]
fn no_wrong_value_passes_in_silence() {
    let directory = tempfile::tempdir().unwrap();
    let mut tries = Vec::new();
    for (name, target, harmless) in INPUTS {
        let text = fs::read_to_string(Path::new(ALTERED).join(name)).unwrap();
        let whole = directory.path().join(name);
        fs::write(&whole, &text).unwrap();
        let unaltered = check(&whole, target);
        assert_eq!(
            unaltered.exit,
            Some(0),
            "{name} itself: {}",
            unaltered.document
        );
        let found = findings(&unaltered.document);
        for (index, line) in text.lines().enumerate() {
            let Some((before, value)) = value_of(line) else {
                continue;
            };
            let is_harmless = |(beginning, _): &Harmless| line.trim_start().starts_with(beginning);
            let left = harmless.iter().any(is_harmless);
            for new in wrong(value).into_iter().filter(|_| !left) {
                let altered: Vec<String> = text
                    .lines()
                    .enumerate()
                    .map(|(at, line)| match at == index {
                        true => format!("{before}{new}"),
                        false => line.to_owned(),
                    })
                    .collect();
                tries.push((name, target, index + 1, altered, found.clone()));
            }
        }
    }
    assert!(tries.len() > 200, "{} values", tries.len());
    let next = Mutex::new(tries.iter().enumerate());
    let silent = Mutex::new(Vec::new());
    let take = || next.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((index, (name, target, number, altered, found))) = take() {
                    let place = directory.path().join(index.to_string());
                    fs::create_dir(&place).unwrap();
                    fs::write(place.join(name), altered.join("\n") + "\n").unwrap();
                    let answer = check(&place.join(name), *target);
                    let lines: Vec<&str> = altered.iter().map(String::as_str).collect();
                    let is_said = answer.exit != Some(0)
                        || findings(&answer.document) != *found
                        || lists(&answer.document, &lines, *number);
                    if !is_said {
                        let line = format!("{name}:{number}: {}", altered[number - 1].trim());
                        silent.lock().unwrap().push(line);
                    }
                }
            });
        }
    });
    let mut silent = silent.into_inner().unwrap();
    silent.sort();
    assert!(
        silent.is_empty(),
        "{} of {}:\n{}",
        silent.len(),
        tries.len(),
        silent.join("\n")
    );
}
