//! What each outlet of a booted machine says, and the page that has it.
//!
//! tests/systemd/situations/outlets.md is written with `WINDROW_UPDATE=1` and otherwise held to: what changes from run to run (times,
//! ages, process ids) is left out of both, and so is how long a phase has lasted, which a line has from a minute on. An outlet may lag behind the status document, so a row that differs is read
//! again for a while.

use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::Value;

use crate::support::machine::{Machine, repository};
use crate::support::{receiver, terminal};

/// How often the outlets are read until they agree with the page; a new line in the journal is a reason to look.
const LOOKS: usize = 200;

/// One row of a situation's table: who says it, and what.
type Row = (&'static str, String);

/// What the machine's outlets say now.
fn read(machine: &Machine) -> Vec<Row> {
    let command = |arguments: &[&str]| {
        let output = machine.run(arguments);
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.trim().is_empty() {
            text = String::from_utf8_lossy(&output.stderr).into_owned();
        }
        (text, output.status.code().unwrap_or_default())
    };
    let (status, code) = command(&["windrow", "status"]);
    let (line, _) = command(&["windrow", "console", "--once"]);
    let unit = machine.unit("windrow.service", "StatusText");
    let login = machine.read("/run/motd.d/windrow").unwrap_or_default();
    vec![
        ("tty1", above_the_panes(&terminal::screen(machine))),
        ("`windrow status`", first_paragraph(&status)),
        ("its exit code", code.to_string()),
        ("one line", line),
        ("`systemctl status windrow`", unit),
        ("journal", journal(machine)),
        ("login", login.lines().next().unwrap_or_default().to_owned()),
        ("webhook", webhook(machine)),
    ]
    .into_iter()
    .map(|(outlet, text)| (outlet, steady(&text)))
    .collect()
}

/// The word and what stands beneath it, which is all that many a person reads.
fn above_the_panes(screen: &[String]) -> String {
    let inside = |row: &String| {
        row.trim_matches(|one: char| "+-| ".contains(one))
            .to_owned()
    };
    // The word and its age are at the two ends of a row.
    let words = |row: String| row.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows = screen.iter().skip(1).map(inside);
    let above = rows.take_while(|row| !row.starts_with("Address"));
    let lines: Vec<String> = above.map(words).filter(|row| !row.is_empty()).collect();
    lines.join("\n")
}

fn first_paragraph(text: &str) -> String {
    let lines = text.trim().lines().map(str::trim_end);
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    lines.join("\n")
}

/// What this boot's journal says last of the node; or, where the daemon says nothing of it, what its units warn of.
fn journal(machine: &Machine) -> String {
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let entries = machine.journal(&["--boot", "--unit=windrow*"]);
    let last = entries
        .iter()
        .rfind(|entry| !text(entry, "WINDROW_READINESS").is_empty());
    if let Some(last) = last {
        // On a busy machine, a daemon that has just started reports Unknown first.
        return text(last, "MESSAGE").replace(" (was Unknown)", "");
    }
    let warning = |entry: &&Value| {
        text(entry, "PRIORITY")
            .parse::<u8>()
            .is_ok_and(|level| level <= 4)
    };
    let mut warnings: Vec<String> = entries
        .iter()
        .filter(warning)
        .map(|entry| text(entry, "MESSAGE"))
        .collect();
    warnings.dedup();
    warnings.join("\n")
}

/// The newest event that the console received.
fn webhook(machine: &Machine) -> String {
    let events = receiver::events(machine);
    let Some(event) = events.last() else {
        return String::new();
    };
    let kind = event["type"].as_str().unwrap_or_default();
    let summary = event["data"]["summary"].as_str().unwrap_or_default();
    format!("{kind}: {summary}")
}

/// The text without what differs from run to run.
fn steady(text: &str) -> String {
    const CHANGES: [(&str, &str); 16] = [
        (r"\b\d+(m\d+s|h\d+m|d\d+h)\b", "AGE"),
        (
            r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?( UTC|Z)?",
            "TIME",
        ),
        (r"\b\d{2}:\d{2}(:\d{2})?\s+UTC", "TIME"),
        (r"\b\d+\+ times", "N times"),
        (
            r"\b(\d+\+? ?(d|h|min|ms|m|s)\b ?)+(\d+ ?(h|min|ms|m|s)\b)*",
            "AGE ",
        ),
        (r"\bwindrow-\d+-\d+\b", "NODE"),
        (r"pid \d+", "pid N"),
        (r"\b\d+(\.\d+)? ?(%|MB|GB|MiB|GiB|B)", "N"),
        (r"restarted \d+ times|\d+ restarts", "restarted N times"),
        // How long a phase has lasted, in the brackets behind the word.
        (r" \(AGE *\)", ""),
        (r", AGE *([,)])", "$1"),
        (r"AGE *([ ,)])", "AGE$1"),
        // With a time there is no room for both, and a slow machine is seen while it is still set up.
        (
            r"every manifest is applied$",
            "every manifest is applied; every required probe passes",
        ),
        (
            r"^Setting up \(kube-apiserver\): no default route;",
            "Setting up: no default route;",
        ),
        (r" \(was (setting up|Ready)\)", ""),
        (
            r#"step "manifests are being applied""#,
            r#"step "manifests""#,
        ),
    ];
    let mut text = text.trim().to_owned();
    for (pattern, instead) in CHANGES {
        let pattern = regex::Regex::new(pattern).expect("a pattern");
        text = pattern.replace_all(&text, instead).into_owned();
    }
    let lines = text.lines().map(str::trim_end);
    lines.collect::<Vec<_>>().join("\n")
}

fn table(rows: &[Row]) -> String {
    let mut table = "| outlet | says |\n|---|---|\n".to_owned();
    for (outlet, says) in rows {
        let says = says.replace('|', "\\|").replace('\n', "<br>");
        let says = if says.is_empty() { "nothing" } else { &says };
        table.push_str(&format!("| {outlet} | {says} |\n"));
    }
    table
}

fn page() -> PathBuf {
    repository("tests/systemd/situations/outlets.md")
}

/// The part of the page that belongs to this title: from its heading to the next one.
fn section(page: &str, title: &str) -> Option<(usize, usize)> {
    let heading = format!("\n## {title}\n");
    let start = page.find(&heading)? + 1;
    let rest = page.get(start + 3..)?;
    let end = rest
        .find("\n## ")
        .map_or(page.len(), |end| start + 3 + end + 1);
    Some((start, end))
}

/// Holds the page to what the machine says, or writes it.
pub(crate) fn compare(machine: &Machine, title: &str, story: &str) {
    static WRITING: Mutex<()> = Mutex::new(());
    let wanted = |rows: &[Row]| format!("## {title}\n\n{story}\n\n{}\n", table(rows));
    if std::env::var_os("WINDROW_UPDATE").is_some() {
        settle(machine);
        let wanted = wanted(&read(machine));
        let _only_one = WRITING.lock();
        let mut text = std::fs::read_to_string(page()).expect("outlets.md");
        match section(&text, title) {
            Some((start, end)) => text.replace_range(start..end, &wanted),
            None => text.push_str(&format!("\n{}", wanted.trim_end())),
        }
        let text = format!("{}\n", text.trim_end());
        std::fs::write(page(), text).expect("outlets.md");
        return;
    }
    let text = std::fs::read_to_string(page()).expect("outlets.md");
    let documented = section(&text, title).and_then(|(start, end)| text.get(start..end));
    let documented = documented.unwrap_or_default().trim().to_owned();
    let mut seen = String::new();
    let mut looks = 0;
    machine.wait_until("the outlets were read", |machine| {
        seen = wanted(&read(machine)).trim().to_owned();
        looks += 1;
        seen == documented || looks == LOOKS
    });
    assert_eq!(
        seen, documented,
        "outlets.md is not what the machine says: WINDROW_UPDATE=1 writes it"
    );
}

/// Waits until the outlets say the same in several looks.
fn settle(machine: &Machine) {
    let mut before = Vec::new();
    let mut same = 0;
    machine.wait_until("the outlets no longer change", |machine| {
        let now = read(machine);
        same = if now == before { same + 1 } else { 0 };
        before = now;
        same == 15
    });
}
