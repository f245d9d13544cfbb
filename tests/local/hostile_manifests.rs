//! Manifests that are hostile, or only unlucky, through the real program on a real file system.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;
use serde_json::Value;
use support::Node;

use crate::support::daemon as support;

fn windrow(args: &[&str], paths: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(args)
        .args(paths)
        .output()
        .unwrap()
}

/// All that a run of the program printed.
fn printed(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Every file below a directory that contains `word`, except the manifests.
fn with_word(dir: &Path, word: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !path.ends_with("server/manifests") {
            found.extend(with_word(&path, word));
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap();
            if bytes.windows(word.len()).any(|piece| piece == word) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_password_that_looks_like_an_alias_stays_in_its_file() {
    const WORD: &str = "Summer2026xyz";
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\nstringData:\n  password: *{WORD}\n"
    );
    let node = Node::with(&[("login.yaml", &text)]);
    let manifests = node.manifests();
    for args in [
        &["plan"][..],
        &["plan", "-o", "json"],
        &["check"],
        &["check", "--details"],
    ] {
        let output = windrow(args, &[&manifests]);
        let printed = printed(&output);
        assert!(!printed.contains(WORD), "{args:?}: {printed}");
        assert!(!output.status.success(), "{args:?}: {printed}");
        if args[0] == "plan" {
            assert!(printed.contains("an alias"), "{args:?}: {printed}");
        }
    }
    let daemon = node.ready();
    daemon.until("the file is in the status document", || {
        printable(&node.status()).contains("an alias")
    });
    assert!(printable(&node.status()).contains("\"line\":6"));
    daemon.end(Signal::SIGTERM);
    assert_eq!(
        with_word(node.root.path(), WORD.as_bytes()),
        Vec::<String>::new()
    );
}

fn printable(status: &Value) -> String {
    serde_json::to_string(status).unwrap()
}

const MIB: usize = 1 << 20;

/// The most memory of the daemon, in KiB. The program without optimisation is larger by itself than the margin here.
const MOST_OF_DAEMON: usize = match cfg!(debug_assertions) {
    true => 112 << 10,
    false => 96 << 10,
};

/// The head of an object whose data follows.
const HEAD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

/// As many of these as make a file of 16 MiB.
fn filled(head: &str, unit: &str, tail: &str) -> String {
    let room = 16 * MIB - head.len() - tail.len();
    [head, &unit.repeat(room / unit.len()), tail].concat()
}

/// What a file is, the code of what is found of it, and what makes it.
type Shape = (&'static str, &'static str, fn() -> String);

/// Files that take far more memory than their size, or once did.
fn shapes() -> Vec<Shape> {
    fn aliases(length: usize) -> String {
        let aliases = vec!["*a"; 9000].join(",");
        format!(
            "{HEAD}data:\n  a: &a \"{}\"\n  b: [{aliases}]\n",
            "x".repeat(length)
        )
    }
    const BEYOND: &str = "limit-exceeded";
    vec![
        ("a long text by aliases", BEYOND, || aliases(1_000_000)),
        ("a shorter one", BEYOND, || aliases(100_000)),
        ("nested anchors with aliases", BEYOND, || {
            let anchors: String = (0..90).map(|level| format!("&a{level} [")).collect();
            let aliases: Vec<String> = (0..90).map(|level| format!("*a{level}")).collect();
            format!(
                "{HEAD}a: {anchors}\"{}\"{}\nb: [{}]\n",
                "x".repeat(1_000_000),
                "]".repeat(90),
                aliases.join(", ")
            )
        }),
        ("lists", BEYOND, || {
            filled(&format!("{HEAD}data: ["), "[],", "[]]\n")
        }),
        ("lists in JSON", BEYOND, || {
            let head = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":["#;
            filled(head, "[],", "[]]}")
        }),
        ("keys", BEYOND, || filled(HEAD, "a: 1\n", "")),
        ("dashes", BEYOND, || {
            filled(&format!("{HEAD}data:\n"), "- \n", "")
        }),
        ("documents", BEYOND, || filled("", "---\nkind: A\n", "")),
        ("values that cannot be read", "file-refused", || {
            filled(&format!("{HEAD}data:\n"), "- !!int x\n", "")
        }),
        ("objects of a List", BEYOND, || {
            let unit = "- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n";
            filled("apiVersion: v1\nkind: List\nitems:\n", unit, "")
        }),
        ("anchors with an alias each", BEYOND, || {
            let anchors = (0..600_000).map(|number| format!("- &a{number} x\n- *a{number}\n"));
            format!("{HEAD}data:\n{}", anchors.collect::<String>())
        }),
        ("one text", BEYOND, || {
            filled(&format!("{HEAD}data: {{a: \""), "x", "\"}\n")
        }),
        ("a name", BEYOND, || {
            filled("apiVersion: v1\nkind: A\nmetadata: {name: ", "x", "}\n")
        }),
        ("objects of 10,000 kinds", BEYOND, || {
            let object = |number: usize| {
                format!(
                    "---\napiVersion: example.com/v1\nkind: Kind{number}\nmetadata: {{name: a, namespace: n{number}}}\n"
                )
            };
            (0..150_000).map(object).collect()
        }),
    ]
}

/// Tells this test program that it is the measuring process, and where the answer goes.
const MEASURE: &str = "WINDROW_TEST_MEASURE";

/// The output of a run, and the most memory that it took, in bytes. A separate process starts it and measures: this one
/// has children of other tests.
fn measured(args: &[&str], paths: &[&Path]) -> (Output, usize) {
    let place = tempfile::tempdir().unwrap();
    let words: Vec<String> = args.iter().map(ToString::to_string).collect();
    let paths = paths.iter().map(|path| path.display().to_string());
    let words: Vec<String> = words.into_iter().chain(paths).collect();
    fs::write(
        place.path().join("words"),
        serde_json::to_string(&words).unwrap(),
    )
    .unwrap();
    let test = "hostile_manifests::the_process_that_measures";
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(MEASURE, place.path())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", printed(&ran));
    let read = |name: &str| fs::read(place.path().join(name)).unwrap();
    let numbers: (i32, usize) = serde_json::from_slice(&read("numbers")).unwrap();
    let output = Output {
        status: ExitStatus::from_raw(numbers.0),
        stdout: read("stdout"),
        stderr: read("stderr"),
    };
    (output, numbers.1)
}

/// In the process that `measured` has started it measures; in every other one it does nothing.
#[test]
fn the_process_that_measures() {
    let Some(place) = std::env::var_os(MEASURE).map(PathBuf::from) else {
        return;
    };
    let words: Vec<String> =
        serde_json::from_slice(&fs::read(place.join("words")).unwrap()).unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(words)
        .stdout(fs::File::create(place.join("stdout")).unwrap())
        .stderr(fs::File::create(place.join("stderr")).unwrap())
        .status()
        .unwrap();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let most = usize::try_from(usage.max_rss()).unwrap() * 1024;
    let numbers = serde_json::to_string(&(status.into_raw(), most)).unwrap();
    fs::write(place.join("numbers"), numbers).unwrap();
}

#[test]
fn a_plan_stays_small_whatever_is_in_the_file() {
    for (what, code, text) in shapes() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("hostile.yaml"), text()).unwrap();
        let (output, most) = measured(&["plan", "-o", "json"], &[dir.path()]);
        let plan: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{what}: {error}: {}", printed(&output)));
        let named = plan["findings"].as_array().unwrap().iter().any(|finding| {
            finding["code"] == code
                && finding["at"][0]["file"]
                    .as_str()
                    .is_some_and(|file| file.ends_with("hostile.yaml"))
        });
        assert!(named, "{what}: {}", plan["findings"]);
        assert_eq!(output.status.code(), Some(4), "{what}");
        assert!(most < 256 * MIB, "{what}: {} MiB", most / MIB);
    }
}

#[test]
fn the_daemon_stays_small_whatever_is_in_the_file() {
    for (what, code, text) in shapes() {
        let node = Node::with(&[("hostile.yaml", &text())]);
        let daemon = node.ready();
        let is_named = || {
            let status = node.status();
            let findings = status["findings"].as_array().cloned().unwrap_or_default();
            findings.iter().any(|finding| {
                finding["code"] == code
                    && finding["at"][0]["file"]
                        .as_str()
                        .is_some_and(|file| file.ends_with("hostile.yaml"))
            })
        };
        daemon.until(what, is_named);
        daemon.ticks(5);
        // Unknown files are not held: only those that RKE2 refuses for certain.
        assert_eq!(
            node.is_marked("hostile.yaml"),
            code == "file-refused",
            "{what}"
        );
        let of_itself = fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).unwrap();
        let most: usize = of_itself
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|rest| rest.trim().strip_suffix(" kB"))
            .and_then(|number| number.trim().parse().ok())
            .unwrap();
        assert!(most < MOST_OF_DAEMON, "{what}: {} MiB", most / 1024);
        daemon.end(Signal::SIGTERM);
    }
}

#[test]
fn a_plan_of_a_directory_and_of_a_configuration_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..40 {
        let text = filled("", "# nothing\n", "");
        fs::write(dir.path().join(format!("{number}.yaml")), text).unwrap();
    }
    let (output, most) = measured(&["plan"], &[dir.path()]);
    assert!(most < 256 * MIB, "{} MiB", most / MIB);
    let said = printed(&output);
    assert!(said.contains("staging.limits.directoryBytes"), "{said}");
    assert!(said.contains("39.yaml"), "{said}");
    assert_eq!(output.status.code(), Some(4), "{said}");
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut packer, &vec![b'#'; 16 * MIB - 1]).unwrap();
    let packed = BASE64_STANDARD.encode(packer.finish().unwrap());
    let files: String = (0..250)
        .map(|number| format!("- path: /var/lib/rancher/rke2/server/manifests/a{number}.yaml\n  encoding: gz+b64\n  content: {packed}\n"))
        .collect();
    let user_data = dir.path().join("user-data");
    fs::write(&user_data, format!("#cloud-config\nwrite_files:\n{files}")).unwrap();
    let (output, most) = measured(&["plan"], &[&user_data]);
    let said = printed(&output);
    assert!(said.contains("staging.limits.directoryBytes"), "{said}");
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(most < 256 * MIB, "{} MiB", most / MIB);
}

#[test]
fn no_verb_that_shows_a_record_sends_its_control_characters_to_a_terminal() {
    let made = tempfile::tempdir().unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flights/first-vm.jsonl");
    let flight = fs::read_to_string(kept).unwrap();
    let hostile = flight.replace("registry-disk.yaml", r"40\u001b[31m\u202e\u009b.yaml");
    assert_ne!(hostile, flight);
    let path = made.path().join("flight.jsonl");
    fs::write(&path, hostile).unwrap();
    let status = made.path().join("run/windrow/status.json");
    fs::create_dir_all(status.parent().unwrap()).unwrap();
    fs::write(&status, r#"{"readiness": "x\u001b[31m\u202e\u009b"}"#).unwrap();
    let root = made.path().to_str().unwrap();
    let name = "40\u{1b}[31m\u{202e}\u{9b}.yaml";
    for output in [
        windrow(&["replay"], &[&path]),
        windrow(&["replay", "--step"], &[&path]),
        windrow(&["replay", "--until", "1h"], &[&path]),
        windrow(&["replay", "--until", "1h", "--why", name], &[&path]),
        windrow(&["status", "--root", root], &[]),
        windrow(&["status", "--root", root, "--verbose"], &[]),
    ] {
        let text = printed(&output);
        assert!(text.contains("\\u{1b}"), "{text}");
        let is_raw = |ch: char| ch != '\n' && ch != '\t' && (ch.is_control() || ch == '\u{202e}');
        assert!(!text.contains(is_raw), "{text:?}");
    }
}
