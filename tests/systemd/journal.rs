//! Level 5: the journal's entries about a file that is held and released on a booted machine, written through
//! journald's own socket.

use machine::{Builder, Machine, skipped};
use serde_json::Value;

use crate::support::machine;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
/// Its kind is not served.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget, namespace: default}\n";

/// The MESSAGE_ID of a code, as the documentation promises it.
fn message_id(code: &str) -> String {
    let reason = windrow_model::reasons::REASONS
        .iter()
        .find(|reason| reason.id == code)
        .expect("a code of the table");
    reason.message_id.to_owned()
}

/// Waits for the entry with this code about the file.
fn entry(machine: &Machine, code: &str) -> Value {
    let id = format!("MESSAGE_ID={}", message_id(code));
    machine.wait_for(format!("{code} in the journal"), |machine| {
        machine
            .journal(&[&id])
            .into_iter()
            .find(|entry| entry["WINDROW_FILE"] == "widget.yaml")
    })
}

#[test]
fn where_the_node_stands_is_in_the_journal_with_what_to_do_about_the_reason() {
    if skipped() {
        return;
    }
    let machine = Builder::node()
        .copy(
            "systemd/windrow.catalog",
            "/usr/lib/systemd/catalog/windrow.catalog",
        )
        .boot();
    // This rke2-server is a stand-in without a supervisor.
    let entry = machine.wait_for("the node stands somewhere", |machine| {
        let id = format!("MESSAGE_ID={}", message_id("became-setting-up"));
        machine.journal(&[&id]).into_iter().next()
    });
    let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    assert_eq!(text("WINDROW_READINESS"), "SettingUp");
    assert_eq!(text("PRIORITY"), "5", "{entry}");
    assert!(!text("WINDROW_PHASE").is_empty(), "{entry}");
    assert!(text("WINDROW_GENERATION").parse::<u64>().is_ok(), "{entry}");
    let code = text("WINDROW_CODE");
    let reason = windrow_model::reasons::REASONS
        .iter()
        .find(|reason| reason.id == code);
    assert_eq!(
        text("WINDROW_ADVICE"),
        reason.expect("a code of the table").advice
    );

    machine.ok(&["journalctl", "--update-catalog"]);
    let id = format!("MESSAGE_ID={}", message_id("became-setting-up"));
    let shown = machine.ok(&["journalctl", "--no-pager", "--catalog", &id]);
    let advice = format!("{code}: {}", text("WINDROW_ADVICE"));
    assert!(
        shown.contains(&advice),
        "the entry's own fields are filled in: {shown}"
    );
}

#[test]
fn a_held_and_a_released_file_are_in_the_journal_with_fields_to_search_by_and_an_explanation() {
    if skipped() {
        return;
    }
    let catalogue = "/usr/lib/systemd/catalog/windrow.catalog";
    let machine = Builder::node()
        .copy("systemd/windrow.catalog", catalogue)
        .file(&format!("{MANIFESTS}/widget.yaml"), WIDGET)
        .boot();
    let held = entry(&machine, "held");
    machine.ok(&["windrow", "release", "widget.yaml"]);
    let released = entry(&machine, "released");
    for (entry, code) in [(held, "held"), (released, "released")] {
        assert_eq!(entry["WINDROW_CODE"], code);
        assert_eq!(entry["MESSAGE_ID"], message_id(code).as_str());
        // Notice: normal, and worth seeing.
        assert_eq!(entry["PRIORITY"], "5", "{entry}");
        assert_eq!(entry["SYSLOG_IDENTIFIER"], "windrow");
        assert_eq!(entry["_SYSTEMD_UNIT"], "windrow.service");
        assert_eq!(entry["_TRANSPORT"], "journal", "not by standard error");
        let message = entry["MESSAGE"].as_str().expect("a message");
        assert!(message.contains("widget.yaml"), "{message}");
    }

    machine.ok(&["journalctl", "--update-catalog"]);
    let id = format!("MESSAGE_ID={}", message_id("held"));
    let shown = machine.ok(&["journalctl", "--no-pager", "--catalog", &id]);
    assert!(shown.contains("Subject: Windrow: held"), "{shown}");
    let advice = windrow_model::reasons::REASONS
        .iter()
        .find(|reason| reason.id == "held")
        .map(|reason| reason.advice)
        .expect("a code of the table");
    // journalctl breaks no lines of a catalogue's text, but begins each with a mark.
    assert!(shown.contains(advice), "{shown}");
}
