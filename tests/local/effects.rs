//! Level 3: the effects in the source code. Each call that can change something outside the process belongs to a row of docs/effects.md;
//! `tests/support/effects.txt` says to which. The calls in a file are counted, so a further call in a listed file is noticed too.
//!
//! The search is textual: it misses a call under another name (`use std::fs::write as …`) and calls inside libraries. The crates have no
//! I/O (`crates/clippy.toml`), so only their requests are searched. The scripts of packages are on docs/packages.md, not here.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::support::markdown::documents;

const PAGE: &str = "docs/effects.md";
const LIST: &str = "tests/support/effects.txt";

/// The kinds of effects that Rust code has, with the calls that make them.
const CALLS: &[(&str, &[&str])] = &[
    (
        "file",
        &[
            "fs::write(",
            "fs::copy(",
            "fs::rename(",
            "fs::remove_file(",
            "fs::remove_dir(",
            "fs::remove_dir_all(",
            "fs::create_dir(",
            "fs::create_dir_all(",
            "fs::set_permissions(",
            "fs::hard_link(",
            "symlink(",
            "File::create(",
            "File::create_new(",
            "File::options(",
            "OpenOptions::new(",
            "DirBuilder::new(",
            "NamedTempFile::new",
            "tempfile::Builder::new(",
            "tempfile_in(",
            "temporary_in(",
            "make_private(",
            "replace(",
            "overwrite(",
            ".persist(",
            ".persist_noclobber(",
            ".set_len(",
            "openat(",
            "linkat(",
            "unlinkat(",
            "renameat(",
            "renameat2(",
            "mkdirat(",
            "symlinkat(",
            "chroot(",
        ],
    ),
    (
        "request",
        &[
            "Method::POST",
            "Method::PUT",
            "Method::PATCH",
            "Method::DELETE",
            "PostParams::",
            "PatchParams::",
            "DeleteParams::",
            "PostParams {",
            "PatchParams {",
            "DeleteParams {",
            "Request::builder(",
            "Request::post(",
            "Request::put(",
            "Request::patch(",
            "Request::delete(",
            "ObjectChange::of(",
            "ObjectChange::of_status(",
            "CureStep::delete(",
        ],
    ),
    (
        "network",
        &[
            "TcpStream::connect(",
            "TcpListener::bind(",
            "UdpSocket::bind(",
            "UnixStream::connect(",
            "UnixDatagram::",
            "socket(",
            "socket_with(",
            "sendto(",
            "sendmsg(",
            "Client::builder(",
            "reqwest::Client::new(",
        ],
    ),
    (
        "bus",
        &[
            ".call_method(",
            "sd_notify::notify(",
            "tracing_journald::layer",
        ],
    ),
    ("process", &["Command::new(", "posix_spawn(", "execv"]),
];

/// What docs/effects.md calls not written.
const NEVER: &[&str] = &[
    "mount(",
    "umount(",
    "umount2(",
    "pivot_root(",
    "sethostname(",
    "clock_settime(",
    "settimeofday(",
    "adjtimex(",
    "init_module(",
    "finit_module(",
    "setns(",
    "unshare(",
];

/// The commands of a script that change something or start a program.
const COMMANDS: &[&str] = &[
    "rm -",
    "mv -",
    "ln -",
    "install -",
    "mkdir ",
    ">/run/",
    ">\"",
    "systemctl ",
    "systemd-cat ",
    "timeout ",
];

/// How the lines of a unit begin that start a program, order or pull in another unit, or make a directory.
const SETTINGS: &[&str] = &[
    "Exec",
    "Before=",
    "Conflicts=",
    "OnFailure=",
    "PartOf=",
    "Requires=",
    "Wants=",
    "WantedBy=",
    "RequiredBy=",
    "Unit=",
    "RuntimeDirectory=",
    "StateDirectory=",
    "ConfigurationDirectory=",
    "ReadWritePaths=",
];

/// A file and a kind of effects.
type Site = (String, String);

#[test]
fn every_effect_in_the_code_has_a_row() {
    let (found, listed) = (effects_in_sources(), listed_effects());
    let sites: BTreeSet<&Site> = found.keys().chain(listed.keys()).collect();
    assert!(sites.len() > 60, "{}", sites.len());
    let mut wrong = String::new();
    for site in sites {
        let in_code = found.get(site).copied().unwrap_or_default();
        let in_list = listed.get(site).map_or(0, |(count, _)| *count);
        if in_code != in_list {
            let (file, kind) = site;
            writeln!(
                wrong,
                "{file} {kind}: {in_code} in the code, {in_list} in the list"
            )
            .unwrap();
        }
    }
    assert!(
        wrong.is_empty(),
        "update {LIST}, and {PAGE} if an effect is new or gone:\n{wrong}"
    );
}

#[test]
fn every_row_belongs_to_code_and_every_listed_row_is_on_the_page() {
    let page = documents(&[PAGE]).remove(0);
    let rows: BTreeSet<String> = page.text.lines().filter_map(row).collect();
    assert!(rows.len() > 40, "{}", rows.len());
    let listed = listed_effects().into_values();
    let used: BTreeSet<String> = listed.flat_map(|(_, rows)| rows).collect();
    let without_code: Vec<&String> = rows.difference(&used).collect();
    let without_row: Vec<&String> = used.difference(&rows).collect();
    assert!(
        without_code.is_empty() && without_row.is_empty(),
        "no code in {LIST}: {without_code:?}; no row in {PAGE}: {without_row:?}"
    );
}

#[test]
fn no_code_calls_what_the_page_says_is_never_written() {
    let mut wrong = Vec::new();
    for file in sources() {
        let text = read(&file);
        for line in code(&file, &text) {
            let called = NEVER.iter().filter(|call| count_calls(line, call) > 0);
            wrong.extend(called.map(|call| format!("{file}: {call}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_call_differs_from_a_longer_name_a_method_and_a_definition() {
    for (line, call, expected) in [
        ("std::fs::write(&path, text)?;", "fs::write(", 1),
        (
            "fs::write(a, \"\").and(fs::write(b, \"\"))",
            "fs::write(",
            2,
        ),
        ("replace(&path, bytes, 0o600, how)", "replace(", 1),
        ("files::replace(&path, bytes, 0o600, how)", "replace(", 1),
        ("text.replace('a', \"b\")", "replace(", 0),
        ("mem::replace(&mut state, next)", "replace(", 0),
        ("pub fn replace(path: &Path) {", "replace(", 0),
        ("is_symlink()", "symlink(", 0),
        ("connection.call_method(None)", ".call_method(", 1),
    ] {
        assert_eq!(count_calls(line, call), expected, "{line}");
    }
}

/// The name of the row, from a line of the page.
fn row(line: &str) -> Option<String> {
    let (name, _) = line.strip_prefix("| `")?.split_once('`')?;
    Some(name.to_owned())
}

/// The lines `FILE KIND COUNT ROW…` of the list. `-` in place of the rows: no effect that needs one; the rest of the line says why.
fn listed_effects() -> BTreeMap<Site, (usize, Vec<String>)> {
    let text = read(LIST);
    let lines = text.lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let effect = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let site = (words.next().unwrap(), words.next().expect(line));
        let count: usize = words.next().expect(line).parse().expect(line);
        let rows: Vec<String> = words.collect();
        assert!(!rows.is_empty(), "{LIST}: no row: {line}");
        let needs_no_row = rows[0] == "-";
        (site, (count, if needs_no_row { Vec::new() } else { rows }))
    };
    lines.map(effect).collect()
}

fn effects_in_sources() -> BTreeMap<Site, usize> {
    let mut found = BTreeMap::new();
    for file in sources() {
        for (kind, count) in effects_in(&file) {
            if count > 0 {
                found.insert((file.clone(), kind.to_owned()), count);
            }
        }
    }
    found
}

/// How many effects of each kind a file has.
fn effects_in(file: &str) -> Vec<(&'static str, usize)> {
    let text = read(file);
    let lines = code(file, &text);
    if file.ends_with(".rs") {
        let is_pure = file.starts_with("crates/") && !file.starts_with("crates/daemon/");
        let searched = CALLS
            .iter()
            .filter(|(kind, _)| !is_pure || *kind == "request");
        let count = searched.map(|(kind, calls)| (*kind, count_all(&lines, calls)));
        return count.collect();
    }
    if file.ends_with(".tmpfiles") || file.ends_with(".preset") {
        return vec![("setting", lines.len())];
    }
    // Scripts have no ending.
    if file.contains('.') {
        let is_effect = |line: &&&str| SETTINGS.iter().any(|key| line.starts_with(key));
        return vec![("setting", lines.iter().filter(is_effect).count())];
    }
    let is_effect = |line: &&&str| COMMANDS.iter().any(|command| line.contains(command));
    vec![("command", lines.iter().filter(is_effect).count())]
}

fn count_all(lines: &[&str], calls: &[&str]) -> usize {
    let in_line = |line: &&str| -> usize { calls.iter().map(|call| count_calls(line, call)).sum() };
    lines.iter().map(in_line).sum()
}

/// The lines of a file without comments, imports, empty lines and tests.
fn code<'t>(file: &str, text: &'t str) -> Vec<&'t str> {
    let is_rust = file.ends_with(".rs");
    let without_tests = match text.split_once("#[cfg(test)]\nmod tests {") {
        Some((before, _)) if is_rust => before,
        _ => text,
    };
    let skipped: &[&str] = if is_rust {
        &["//", "use ", "pub use "]
    } else {
        &["#"]
    };
    let lines = without_tests.lines().map(str::trim);
    let is_code = |line: &&str| {
        !line.is_empty() && !skipped.iter().any(|beginning| line.starts_with(beginning))
    };
    lines.filter(is_code).collect()
}

/// How often a line makes a call. A longer name, a definition, a method and `mem::replace` do not count.
fn count_calls(line: &str, call: &str) -> usize {
    let is_call = |at: usize| {
        let before = &line[..at];
        let ends_a_name = before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        let is_other = [".", "mem::", "fn "]
            .iter()
            .any(|other| before.ends_with(other));
        call.starts_with('.') || !(ends_a_name || is_other)
    };
    line.match_indices(call)
        .filter(|(at, _)| is_call(*at))
        .count()
}

/// Every file that makes the program, and its units and scripts; not the tests.
pub(crate) fn sources() -> Vec<String> {
    let mut found = Vec::new();
    for directory in ["src", "crates", "systemd"] {
        collect(directory, &mut found);
    }
    found.retain(|file| is_source(file));
    found.sort();
    assert!(found.len() > 400, "{}", found.len());
    found
}

fn is_source(file: &str) -> bool {
    if file.starts_with("systemd/") {
        return !file.ends_with(".catalog");
    }
    let parts: Vec<&str> = file.split('/').collect();
    let is_of_crate = !file.starts_with("crates/") || parts.contains(&"src");
    let is_test = file.ends_with("_tests.rs")
        || parts
            .iter()
            .any(|part| ["tests", "tests.rs", "testing", "testing.rs"].contains(part));
    file.ends_with(".rs") && is_of_crate && !is_test
}

fn collect(directory: &str, found: &mut Vec<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in fs::read_dir(root.join(directory)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{directory}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(&path, found);
        } else {
            found.push(path);
        }
    }
}

pub(crate) fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
