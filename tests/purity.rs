//! The pure modules stay pure: they import no runtime, no client, no file system, no clock, no
//! environment and no randomness. What they need of these is passed in.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules that decide. `gates` and `simulate` too: what they read and write is handed to them.
const PURE: &[&str] = &[
    "manifest",
    "rules",
    "plan",
    "readiness",
    "gates",
    "rke2",
    "harvester",
    "decide",
    "flight",
    "rehearse",
    "simulate",
    "redact",
    "reasons.rs",
    "layout.rs",
    "memo.rs",
    "printable.rs",
    "suggest.rs",
];

/// What they must not name, and why.
const FORBIDDEN: &[(&str, &str)] = &[
    ("std::fs", "reads or writes files"),
    ("std::net", "uses the network"),
    ("std::process", "starts or ends processes"),
    ("std::thread", "starts threads"),
    ("std::env::", "reads the environment"),
    ("std::io::stdout", "prints"),
    ("println!", "prints"),
    ("tokio", "needs a runtime"),
    ("kube::", "is a cluster client"),
    ("notify::", "watches files"),
    ("zbus", "uses the bus"),
    ("tracing", "logs"),
    ("Timestamp::now", "reads the clock"),
    ("Instant::now", "reads the clock"),
    ("SystemTime", "reads the clock"),
    ("Zoned::now", "reads the clock"),
    ("rand::", "draws at random"),
    ("getrandom", "draws at random"),
    ("crate::observe", "is an adapter"),
    ("crate::act", "is an adapter"),
    ("crate::report", "is an adapter"),
];

/// What is pure all the same, with the reason.
const EXCUSED: &[(&str, &str, &str)] = &[(
    "rules/expression.rs",
    "std::thread",
    "the CEL parser recurses deeper than a test's or a worker's stack: it is called on a stack of \
     its own, and waited for",
)];

#[test]
fn pure_modules_name_nothing_that_touches_the_world() {
    let mut offences = Vec::new();
    let mut files = 0;
    for module in PURE {
        for path in rust_files(
            &Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("src")
                .join(module),
        ) {
            files += 1;
            offences.extend(offences_in(&path));
        }
    }
    assert!(files > 20, "only {files} files were looked at");
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn the_check_itself_sees_an_offence() {
    let text = "use std::fs;\n// std::net in a comment is fine\nlet now = Timestamp::now();\n";
    let found = offences_of("x.rs", text);
    assert_eq!(found.len(), 2, "{found:?}");
}

fn offences_in(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("a source file can be read");
    offences_of(&path.display().to_string(), &text)
}

fn offences_of(name: &str, text: &str) -> Vec<String> {
    let mut offences = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for (word, why) in FORBIDDEN {
            let excused = EXCUSED
                .iter()
                .any(|(file, excuse, _)| name.ends_with(file) && excuse == word);
            if code.contains(word) && !excused {
                offences.push(format!("{name}:{}: {word} {why}", number + 1));
            }
        }
    }
    offences
}

/// Every `.rs` file at or below a path, but for unit tests in files of their own: they may touch
/// the world to test. A module that does not exist (yet) has none.
fn rust_files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .flat_map(|path| {
            if path.is_dir() {
                rust_files(&path)
            } else {
                vec![path]
            }
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter(|path| path.file_name().is_some_and(|name| name != "tests.rs"))
        .collect();
    files.sort();
    files
}
