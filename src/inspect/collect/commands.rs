//! The output of commands on the node: the journal, unit states, addresses, file systems.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use super::collection::{CollectedPart, Collection, LARGEST};

const PATIENCE: Duration = Duration::from_secs(15);

/// Units whose journal is taken, and how many of its last lines.
const JOURNALS: &[(&str, &str)] = &[
    ("windrow.service", "6000"),
    ("windrow-failsafe.service", "500"),
    ("windrow-orphans.service", "500"),
    ("rke2-server.service", "6000"),
    ("rke2-agent.service", "6000"),
    ("rancherd.service", "3000"),
    ("rancher-system-agent.service", "3000"),
    ("systemd-networkd.service", "500"),
    ("NetworkManager.service", "500"),
];

const UNITS: &[&str] = &[
    "windrow.service",
    "windrow-failsafe.service",
    "windrow-orphans.service",
    "windrow-retry.timer",
    "rke2-server.service",
    "rke2-agent.service",
    "rancherd.service",
    "rancher-system-agent.service",
    "systemd-timesyncd.service",
    "chronyd.service",
    "NetworkManager.service",
    "systemd-networkd.service",
];

/// The properties of a unit that are taken: none that holds its environment or its arguments.
const PROPERTIES: &str = "--property=Id,LoadState,UnitFileState,ActiveState,SubState,Result,NRestarts,\
    MainPID,ExecMainCode,ExecMainStatus,StatusText,ActiveEnterTimestamp,InactiveEnterTimestamp,\
    ConditionResult,FragmentPath,DropInPaths,NeedDaemonReload,MemoryCurrent,CPUUsageNSec";

/// Other commands: the name in the archive, the program, its arguments.
const OTHERS: &[(&str, &[&str])] = &[
    ("host/addresses", &["ip", "-brief", "address"]),
    ("host/links", &["ip", "-brief", "link"]),
    ("host/routes", &["ip", "route", "show", "table", "all"]),
    ("host/file-systems", &["df", "-hT"]),
    ("host/inodes", &["df", "-i"]),
    ("host/clock", &["timedatectl", "show"]),
    (
        "host/failed-units",
        &[
            "systemctl",
            "list-units",
            "--failed",
            "--no-legend",
            "--plain",
            "--no-pager",
        ],
    ),
    (
        "host/jobs",
        &["systemctl", "list-jobs", "--no-legend", "--no-pager"],
    ),
];

pub(super) async fn collect(collection: &mut Collection<'_>) {
    if !collection.wanted.live {
        let why = "these files are not this machine's (--root)";
        return collection.missing("journal, unit states, addresses", why);
    }
    for (unit, lines) in JOURNALS {
        collection.report_progress(&format!("the journal of {unit}"));
        let name = unit.split('.').next().unwrap_or_default();
        let unit = format!("--unit={unit}");
        let lines = format!("--lines={lines}");
        journal(collection, name, &[&unit, &lines]).await;
    }
    collection.report_progress("the kernel's warnings");
    journal(
        collection,
        "kernel",
        &["--dmesg", "--priority=warning", "--lines=1000"],
    )
    .await;
    collection.report_progress("unit states, addresses, file systems");
    units(collection).await;
    for (name, words) in OTHERS {
        match run(collection, words).await {
            Ok(out) => {
                let found = CollectedPart::text(out.text, out.truncated);
                collection.add((*name).to_owned(), "the machine", words.join(" "), found);
            }
            Err(why) => collection.missing(words.join(" "), why),
        }
    }
}

async fn journal(collection: &mut Collection<'_>, name: &str, of: &[&str]) {
    let mut words = vec![
        "journalctl",
        "--no-pager",
        "--quiet",
        "--no-hostname",
        "--output=short-iso-precise",
    ];
    words.extend(of);
    let found = run(collection, &words).await;
    add_journal(collection, name, words.join(" "), found);
}

fn add_journal(
    collection: &mut Collection<'_>,
    name: &str,
    source: String,
    found: Result<CommandOutput, String>,
) {
    match found {
        // A unit that is not installed has no journal.
        Ok(out) if out.text.trim().is_empty() => {}
        Ok(out) => {
            let found = CollectedPart::text(out.text, out.truncated);
            collection.add(format!("journal/{name}.log"), "the journal", source, found);
        }
        Err(why) => collection.missing(source, why),
    }
}

async fn units(collection: &mut Collection<'_>) {
    let mut words = vec!["systemctl", "show", "--no-pager", PROPERTIES];
    words.extend(UNITS);
    match run(collection, &words).await {
        Ok(out) => {
            let units: Vec<Value> = out.text.split("\n\n").map(properties).collect();
            let found = CollectedPart::tree(Value::Array(units), out.text.len());
            collection.add(
                "units.json".to_owned(),
                "unit states",
                "systemctl show".to_owned(),
                found,
            );
        }
        Err(why) => collection.missing("unit states", why),
    }
}

fn properties(text: &str) -> Value {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let unit: Map<String, Value> = pairs
        .map(|(key, value)| (key.to_owned(), Value::String(value.to_owned())))
        .collect();
    Value::Object(unit)
}

struct CommandOutput {
    text: String,
    truncated: bool,
}

async fn run(collection: &Collection<'_>, words: &[&str]) -> Result<CommandOutput, String> {
    let [program, arguments @ ..] = words else {
        return Err("no command".to_owned());
    };
    let patience = collection.time(PATIENCE);
    let mut child = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .env("SYSTEMD_COLORS", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("{program} is not installed"),
            _ => error.to_string(),
        })?;
    let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("it gave no output".to_owned());
    };
    let (mut said, mut complaint) = (Vec::new(), Vec::new());
    let mut out = out.take(LARGEST as u64 + 1);
    let mut err = err.take(4096);
    let whole = async {
        let (said, complaint) =
            tokio::join!(out.read_to_end(&mut said), err.read_to_end(&mut complaint));
        said.and(complaint)
    };
    tokio::time::timeout(patience, whole)
        .await
        .map_err(|_| format!("it took longer than {} s", patience.as_secs()))?
        .map_err(|error| error.to_string())?;
    let truncated = said.len() > LARGEST;
    if truncated {
        said.truncate(LARGEST);
    } else {
        let ended = tokio::time::timeout(collection.time(PATIENCE), child.wait()).await;
        let failed = matches!(&ended, Ok(Ok(status)) if !status.success());
        if failed && said.is_empty() {
            let why = String::from_utf8_lossy(&complaint);
            return Err(why.lines().next().unwrap_or("it failed").to_owned());
        }
    }
    Ok(CommandOutput {
        text: String::from_utf8_lossy(&said).into_owned(),
        truncated,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::time::Instant;
    use windrow_harvester::incidents::OwnNode;

    use super::super::collection::{MOST_MEMORY, Wanted};
    use super::*;
    use crate::archive::Collected;
    use crate::layout::Layout;

    fn wanted() -> Wanted {
        Wanted {
            kubeconfig: None,
            layout: Layout::new("/nowhere"),
            live: true,
            manifests: false,
            secret_files: Vec::new(),
            own: OwnNode::default(),
            plain: BTreeSet::new(),
            patience: PATIENCE,
        }
    }

    fn into<'a>(
        into: &'a mut Collected,
        wanted: &'a Wanted,
        on_progress: &'a mut dyn FnMut(&str),
    ) -> Collection<'a> {
        Collection {
            wanted,
            until: Instant::now() + Duration::from_secs(600),
            bytes: 0,
            room: MOST_MEMORY,
            into,
            on_progress,
        }
    }

    #[tokio::test]
    async fn output_that_is_too_long_is_cut_off_and_says_so() {
        let (wanted, mut found) = (wanted(), Collected::default());
        let mut ignore = |_: &str| {};
        let collection = into(&mut found, &wanted, &mut ignore);
        for (length, truncated) in [(LARGEST, false), (LARGEST + 1, true)] {
            let bytes = format!("--bytes={length}");
            let words = ["head", &bytes, "/dev/zero"];
            let out = run(&collection, &words).await.unwrap();
            assert_eq!((out.text.len(), out.truncated), (LARGEST, truncated));
        }
    }

    #[tokio::test]
    async fn an_empty_journal_is_no_gap_and_one_that_cannot_be_read_is() {
        let (wanted, mut found) = (wanted(), Collected::default());
        let mut ignore = |_: &str| {};
        let mut collection = into(&mut found, &wanted, &mut ignore);
        for (name, text) in [
            ("windrow", Some("a line\n")),
            ("none", Some("\n")),
            ("wrong", None),
        ] {
            let out = text.map(|text| CommandOutput {
                text: text.to_owned(),
                truncated: false,
            });
            let out = out.ok_or_else(|| "it failed".to_owned());
            add_journal(&mut collection, name, format!("journal of {name}"), out);
        }
        let names: Vec<&str> = found.items.iter().map(|item| &*item.path).collect();
        assert_eq!(names, ["journal/windrow.log"]);
        let missing: Vec<&str> = found.missing.iter().map(|one| &*one.what).collect();
        assert_eq!(missing, ["journal of wrong"]);
    }
}
