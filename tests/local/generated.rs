//! Committed files that are made from the program itself: reason table, journal catalogue, JSON schema, manual pages
//! (also those of docs/configuration.md and docs/rules.md), completions, the page of Harvester's versions, the list of messages, the index of
//! the pages, the picture of the first example.
//!
//! `WINDROW_UPDATE=1 cargo test --test local generated::` writes them again.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use manual::{Page, from_markdown, inline};
use schemars::schema_for;
use windrow::cli::help::{EXIT_CODES, GROUPS};
use windrow_model::reasons::REASONS;

use crate::support::manual;
use crate::support::messages_page::messages_page;
use crate::support::pages;
use crate::support::verb_pages::rest_of_page;
use crate::support::versions_page::versions_page;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares a committed file with what it should be, or writes it.
fn current(path: &str, expected: &[u8]) {
    let file = here(path);
    if std::env::var_os("WINDROW_UPDATE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, expected).unwrap();
        return;
    }
    let committed = fs::read(&file).unwrap_or_default();
    assert!(
        committed == expected,
        "{path} is out of date: run WINDROW_UPDATE=1 cargo test --test generated"
    );
}

#[test]
fn the_reason_table_is_current() {
    let mut text = String::from(
        "# Reason codes\n\nEvery hold, finding, action and report of Windrow has one of these codes: in the journal \
         (field `WINDROW_CODE`; `journalctl -x` shows the advice), in the status document and in \
         plans. Codes and their MESSAGE_IDs, which `man windrow-journal` lists, never change after a release.\n",
    );
    let mut section = "";
    for reason in REASONS {
        if reason.section != section {
            section = reason.section;
            let _ = write!(text, "\n## {section}\n");
        }
        let page = reason
            .page
            .map_or(String::new(), |page| format!(" See [{page}]({page})."));
        let _ = write!(
            text,
            "\n### {}\n\n*{}:* {}\n\n{}{page}\n",
            reason.id,
            reason.severity.as_str(),
            reason.template,
            reason.advice,
        );
    }
    current("docs/reasons.md", text.as_bytes());
}

fn catalogue() -> String {
    let mut text = String::from(
        "# Journal catalogue: the advice for each message, as journalctl -x shows it.\n\
         # Generated from crates/model/src/reasons/table.rs in the format of https://systemd.io/CATALOG.\n",
    );
    for reason in REASONS {
        let page = reason.page.map_or(String::new(), |page| {
            format!("\nThe whole story: docs/{page} of Windrow's documentation.\n")
        });
        let _ = write!(
            text,
            "\n-- {}\nSubject: Windrow: {}\nDefined-By: Windrow\nDocumentation: man:windrow(1)\n\n\
             @MESSAGE@\n\n{}\n{page}",
            reason.message_id, reason.id, reason.advice
        );
        if reason.section == "Where the node stands" {
            // These entries are about a change; the reason of the change has the advice.
            text.push_str("\n@WINDROW_CODE@: @WINDROW_ADVICE@\n");
        }
    }
    text
}

#[test]
fn the_journal_catalogue_is_current() {
    current("systemd/windrow.catalog", catalogue().as_bytes());
}

#[test]
fn journald_takes_every_entry_of_the_catalogue() {
    let root = tempfile::tempdir().unwrap();
    let source = root.path().join("usr/lib/systemd/catalog");
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(root.path().join("var/lib/systemd/catalog")).unwrap();
    fs::write(source.join("windrow.catalog"), catalogue()).unwrap();
    let journalctl = |verb: &str| {
        Command::new("journalctl")
            .arg(format!("--root={}", root.path().display()))
            .arg(verb)
            .output()
    };
    let Ok(updated) = journalctl("--update-catalog") else {
        println!("skipped: journalctl is not installed");
        return;
    };
    assert!(updated.status.success(), "{updated:?}");
    let listed = journalctl("--list-catalog").unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for reason in REASONS {
        let line = format!("{} Windrow: Windrow: {}", reason.message_id, reason.id);
        assert!(listed.contains(&line), "{line}\n{listed}");
    }
}

#[test]
fn the_list_of_messages_is_current() {
    current("docs/dev/messages.md", messages_page().as_bytes());
}

#[test]
fn the_index_of_the_pages_and_the_order_of_the_website_are_current() {
    current("docs/README.md", pages::index_page().as_bytes());
    current("docs/site/SUMMARY.md", pages::summary().as_bytes());
}

#[test]
fn the_page_of_harvesters_versions_is_current() {
    current("docs/versions.md", versions_page().as_bytes());
}

#[test]
fn the_schemas_of_what_windrow_prints_and_keeps_are_current() {
    let schemas = [
        ("boot-timeline", schema_for!(windrow_replay::BootTimeline)),
        (
            "check",
            schema_for!(windrow_simulate::rehearse::check::CheckReport),
        ),
        (
            "diagnosis",
            schema_for!(windrow_harvester::incidents::Diagnosis),
        ),
        (
            "drain-check",
            schema_for!(windrow_harvester::drain::DrainCheck),
        ),
        (
            "drain-check-list",
            schema_for!(windrow_harvester::drain::DrainCheckList),
        ),
        ("flight", schema_for!(windrow_decide::flight::FlightLine)),
        ("gates", schema_for!(windrow::render::GatesReport)),
        (
            "knowledge-list",
            schema_for!(windrow_learn::KnowledgeReport),
        ),
        ("plan", schema_for!(windrow::render::PlanReport)),
        ("preflight", schema_for!(windrow_preflight::Preflight)),
        ("rack", schema_for!(windrow_rack::RackView)),
        (
            "rehearsal",
            schema_for!(windrow_simulate::rehearse::Rehearsal),
        ),
        (
            "upgrade-check",
            schema_for!(windrow_preflight::upgrade_check::UpgradeCheck),
        ),
    ];
    for (name, schema) in schemas {
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        current(&format!("docs/{name}.schema.json"), text.as_bytes());
    }
    let event = windrow::report::webhooks::event_schema();
    current("docs/event.schema.json", event.as_bytes());
}

#[test]
fn the_schemas_of_what_people_write_are_current() {
    for (path, schema) in [
        (
            "docs/windrow.schema.json",
            windrow_decide::settings::schema::settings_schema(),
        ),
        (
            "docs/rulepack.schema.json",
            windrow_plan::rules::schema::rule_pack_schema(),
        ),
        (
            "docs/accepted.schema.json",
            windrow_simulate::rehearse::check::input_schema::accepted_findings_schema(),
        ),
    ] {
        current(path, schema.as_bytes());
    }
}

#[test]
fn every_shipped_file_says_by_which_schema_an_editor_checks_it() {
    let packs = fs::read_dir(here("config/rules.d")).unwrap();
    let packs = packs.map(|entry| (entry.unwrap().path(), "rulepack"));
    let shipped = fs::read_to_string(here("packaging/contents")).unwrap();
    let installed = "/usr/share/doc/windrow/docs/";
    let ships = |line: &str| line.contains("docs/*.schema.json") && line.ends_with(installed);
    assert!(shipped.lines().any(ships), "{shipped}");
    for (path, schema) in packs.chain([(here("config/windrow.yaml"), "windrow")]) {
        let text = fs::read_to_string(&path).unwrap();
        let line =
            format!("# yaml-language-server: $schema=file://{installed}{schema}.schema.json");
        assert!(text.lines().any(|one| one == line), "{}", path.display());
    }
}

#[test]
fn the_manual_pages_are_current() {
    // Without the commit: otherwise the pages would change with each one.
    let mut command = windrow::cli::command().version(env!("CARGO_PKG_VERSION"));
    command.build();
    page(&command, "windrow");
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        if verb.get_name() != "help" {
            page(verb, &format!("windrow-{}", verb.get_name()));
        }
    }
}

fn page(command: &clap::Command, name: &str) {
    // clap wants names that live forever.
    let forever: &'static str = name.to_owned().leak();
    // The examples follow the exit status.
    let command = command.clone().after_long_help(None);
    let command = command.name(forever).display_name(forever);
    let man = clap_mangen::Man::new(command)
        .title(name.to_uppercase())
        .source(format!("windrow {}", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    man.render(&mut text).unwrap();
    match name.strip_prefix("windrow-") {
        None => {
            text.extend_from_slice(exit_status().as_bytes());
            text.extend_from_slice(REST_OF_THE_PAGE.as_bytes());
        }
        Some(verb) => text.extend_from_slice(rest_of_page(verb).as_bytes()),
    }
    current(&format!("packaging/man/{name}.1"), &text);
}

fn exit_status() -> String {
    let codes = EXIT_CODES.iter();
    let rows = codes.map(|(code, means)| format!(".TP\n\\fB{code}\\fR\n{}\n", inline(means)));
    format!(".SH EXIT STATUS\n{}", rows.collect::<String>())
}

#[test]
fn the_tables_of_exit_codes_are_current() {
    const HEAD: &str = "| exit code | means |\n|---|---|\n";
    let rows = EXIT_CODES.iter();
    let rows = rows.map(|(code, means)| format!("| {code} | {means} |\n"));
    let table = rows.collect::<String>();
    for path in ["README.md", "docs/guides/make-ci-pass.md"] {
        let text = fs::read_to_string(here(path)).unwrap();
        let (before, rest) = text.split_once(HEAD).expect(path);
        let end = rest.find("\n\n").map_or(rest.len(), |at| at + 1);
        let expected = format!("{before}{HEAD}{table}{}", &rest[end..]);
        current(path, expected.as_bytes());
    }
}

#[test]
fn every_example_of_a_manual_page_is_a_command_line_that_is_taken() {
    for help in GROUPS.iter().flat_map(|group| group.verbs) {
        for (command, _) in help.examples {
            let words: Vec<&str> = command.split(' ').collect();
            assert_eq!(words[..2], ["windrow", help.verb]);
            let taken = windrow::cli::command().try_get_matches_from(words);
            assert!(taken.is_ok(), "{command}: {taken:?}");
        }
    }
}

#[test]
fn the_manual_pages_of_the_files_are_current() {
    let pages = [
        (
            "docs/configuration.md",
            Page {
                name: "windrow.yaml",
                section: 5,
                about: "configuration of Windrow",
                see_also: &[("windrow", 1), ("windrow-config", 1), ("windrow-rules", 5)],
            },
        ),
        (
            "docs/rules.md",
            Page {
                name: "windrow-rules",
                section: 5,
                about: "requirements of manifests, and readiness of kinds",
                see_also: &[("windrow", 1), ("windrow-plan", 1), ("windrow.yaml", 5)],
            },
        ),
    ];
    for (source, page) in pages {
        let text = fs::read_to_string(here(source)).unwrap();
        let path = format!("packaging/man/{}.{}", page.name, page.section);
        current(&path, page.around(&from_markdown(&text)).as_bytes());
    }
}

#[test]
fn the_manual_page_of_the_journal_is_current() {
    let mut body = String::from(JOURNAL);
    let mut section = "";
    for reason in REASONS {
        if reason.section != section {
            section = reason.section;
            let _ = writeln!(body, ".SH {}", inline(&section.to_uppercase()));
        }
        let _ = write!(
            body,
            ".TP\n\\fB{}\\fR ({})\n\\(lq{}\\(rq\n.br\n{}\n.br\n\\fBMESSAGE_ID={}\\fR\n",
            inline(reason.id),
            reason.severity.as_str(),
            inline(reason.template),
            inline(reason.advice),
            reason.message_id
        );
    }
    let page = Page {
        name: "windrow-journal",
        section: 7,
        about: "messages of Windrow in the journal, with advice",
        see_also: &[("windrow", 1), ("journalctl", 1)],
    };
    current(
        "packaging/man/windrow-journal.7",
        page.around(&body).as_bytes(),
    );
}

#[test]
fn the_manual_page_of_the_daemon_is_current() {
    let page = Page {
        name: "windrowd",
        section: 8,
        about: "daemon of Windrow",
        see_also: &[("windrow", 1), ("windrow.yaml", 5), ("windrow-journal", 7)],
    };
    current("packaging/man/windrowd.8", page.around(DAEMON).as_bytes());
}

const DAEMON: &str = r#".SH SYNOPSIS
\fBwindrowd\fR [\fB\-\-root\fR \fIDIR\fR]
.SH DESCRIPTION
Holds each manifest back from RKE2 until its dependencies exist in the cluster, writes feature gates, and reports whether the
node is ready. systemd starts it as \fIwindrow.service\fR, before RKE2. It runs until SIGTERM, and all holds stay when it ends.
SIGHUP makes it read its settings again.
.SH OPTIONS
.TP
\fB\-\-root\fR \fIDIR\fR
Use the node rooted at DIR instead of this host.
.TP
\fB\-h\fR, \fB\-\-help\fR
Print help.
.TP
\fB\-V\fR, \fB\-\-version\fR
Print version.
.SH EXIT STATUS
.TP
\fB0\fR
It was asked to stop.
.TP
\fB1\fR
A task of the daemon ended, or an error of the system. systemd starts it again.
.TP
\fB64\fR
Wrong use of the command line.
.TP
\fB75\fR
Another daemon runs on this node already.
"#;

const JOURNAL: &str = r#".SH DESCRIPTION
Each entry reports one event, with one of the codes below. \fBjournalctl \-u windrow\fR shows the entries,
\fBjournalctl \-x \-u windrow\fR adds the advice, and \fBjournalctl MESSAGE_ID=\fR\fIid\fR shows the entries of one
code, over all boots.
.PP
Codes and MESSAGE_IDs never change after a release.
.SH FIELDS
.TP
\fBMESSAGE_ID\fR
The code in journald's form: 128 bits, hexadecimal.
.TP
\fBWINDROW_CODE\fR
The code itself.
.TP
\fBWINDROW_FILE\fR
The manifest file, below RKE2's manifests directory.
.TP
\fBPRIORITY\fR
\fI3\fR the node cannot come up, \fI4\fR needs your attention, \fI5\fR normal but important, \fI6\fR all other
entries.
"#;

const REST_OF_THE_PAGE: &str = r#".SH FILES
.TP
\fI/etc/windrow/windrow.yaml\fR, \fI/etc/windrow/conf.d/*.yaml\fR
Settings. The same below /usr/lib/windrow, /run/windrow and, read last, /etc/rancher/windrow.
.TP
\fI/etc/windrow/rules.d/*.yaml\fR
Rule packs, in the same directories.
.TP
\fI/run/windrow/status.json\fR
The status document.
.TP
\fI/var/lib/rancher/windrow/ledger.json\fR
The state file: the decisions, kept across restarts.
.TP
\fI/var/lib/rancher/windrow/flight.jsonl\fR
The boot log: observations, decisions and actions. \fBwindrow replay\fR reads it.
.TP
\fI/var/lib/rancher/rke2/server/manifests/FILE.skip\fR
A hold. Windrow's own holds contain the reason, the time, and the command to release them.
.SH ENVIRONMENT
.TP
\fBNO_COLOR\fR
When set and not empty, tables have no colour.
.SH SEE ALSO
\fBwindrow.yaml\fR(5), \fBwindrow\-rules\fR(5), \fBwindrow\-journal\fR(7);
\fBjournalctl\fR(1) with \fB\-x\fR, which explains all messages of Windrow.
"#;

#[test]
fn the_completions_are_current() {
    use clap_complete::{Shell, generate};
    for (shell, file) in [
        (Shell::Bash, "windrow.bash"),
        (Shell::Zsh, "_windrow"),
        (Shell::Fish, "windrow.fish"),
    ] {
        let mut text = Vec::new();
        generate(shell, &mut windrow::cli::command(), "windrow", &mut text);
        let text = with_live_names(shell, String::from_utf8(text).unwrap());
        current(&format!("packaging/completions/{file}"), text.as_bytes());
    }
}

/// The generated completions know the command line; these parts add the names of the node's files, probes and codes.
fn with_live_names(shell: clap_complete::Shell, text: String) -> String {
    let live = |file: &str| {
        fs::read_to_string(here(&format!("tests/support/completions/{file}"))).unwrap()
    };
    match shell {
        clap_complete::Shell::Bash => {
            let text = text.replace("complete -F _windrow ", "complete -F _windrow_live ");
            let at = text.find("\nif [[ \"${BASH_VERSINFO[0]}\"").unwrap() + 1;
            let (functions, registration) = text.split_at(at);
            format!("{functions}{}\n{registration}", live("live.bash"))
        }
        clap_complete::Shell::Zsh => {
            let mut out = String::new();
            let mut verb = "";
            for line in text.lines() {
                if line.starts_with('(') && line.ends_with(')') {
                    verb = line;
                }
                let names = match verb {
                    "(hold)" | "(release)" if line.starts_with("'*::files") => "_windrow_files",
                    "(why)" if line.starts_with("'*::what") => "_windrow_words",
                    "(wait)" if line.starts_with("'--for=") => "_windrow_states",
                    _ => "_default",
                };
                out.push_str(&line.replace(":_default'", &format!(":{names}'")));
                out.push('\n');
            }
            let at = out.find("\nif [ \"$funcstack[1]\"").unwrap() + 1;
            let (functions, registration) = out.split_at(at);
            format!("{functions}{}\n{registration}", live("live.zsh"))
        }
        _ => text + &live("live.fish"),
    }
}

#[test]
fn the_picture_of_the_first_example_is_current() {
    let drawn = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["--root", "/nonexistent", "plan", "-o", "svg"])
        .arg("examples/first-vm/harvester-config.yaml")
        .current_dir(here(""))
        .output()
        .unwrap();
    assert!(drawn.status.success(), "{drawn:?}");
    current("docs/images/first-vm.svg", &drawn.stdout);
}
