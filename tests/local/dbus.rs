//! Level 3: the real program on a real message bus, with the installed policy file, read and called by `dbus-send` as
//! root and as the user nobody.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use bus::{Bus, Who};
use futures::StreamExt as _;
use serde_json::Value;
use support::{Daemon, Node};

use crate::support::bus;
use crate::support::daemon as support;
use crate::support::flood;

/// Where the object is.
const PATH: &str = "/dev/windrow/Agent1";

/// Waits for a kind that nothing brings.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";

fn start(node: &Node, bus: &Bus) -> Daemon {
    let mut program = Command::new(env!("CARGO_BIN_EXE_windrowd"));
    program.env("DBUS_SYSTEM_BUS_ADDRESS", bus.address());
    let daemon = node.start_with(program, false);
    daemon.hear("READY=1");
    daemon
}

/// A node with held files whose daemon has its name on the bus.
fn served(bus: &Bus) -> (Node, Daemon) {
    let node = Node::with(&[("a.yaml", WIDGET), ("b.yaml", WIDGET)]);
    let daemon = start(&node, bus);
    daemon.eventually("the name on the bus", || bus.is_owned());
    daemon.eventually("both files held", || {
        bus.property(Who::Nobody, "Held").as_deref() == Ok("2")
    });
    (node, daemon)
}

#[test]
fn everybody_reads_what_the_status_document_says() {
    let Some(bus) = Bus::start() else { return };
    let (node, daemon) = served(&bus);
    let property = |name| bus.property(Who::Nobody, name).unwrap();
    daemon.eventually("the properties to be those of the document", || {
        let status = node.status();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        property("Generation").parse().ok() == status["generation"].as_u64()
            && property("Readiness") == text(&status["readiness"])
            && property("Phase") == text(&status["phase"])
            && property("Summary") == text(&status["summary"])
            && property("Host") == text(&status["host"])
            && property("Pace") == text(&status["pace"])
            && property("ReasonCode") == text(&status["reason"]["code"])
            && property("ReasonMessage") == text(&status["reason"]["message"])
    });
    assert_eq!(property("Total"), "2");
    assert_eq!(property("Version"), env!("CARGO_PKG_VERSION"));
    for since in ["Since", "PhaseSince"] {
        assert!(property(since).parse::<u64>().unwrap() > 1_600_000_000_000_000);
    }

    let said = bus.method(Who::Nobody, "Status", &[]).unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["kind"], "Status");
    assert_eq!(said["staging"]["held"].as_array().unwrap().len(), 2);

    let said = bus.method(Who::Nobody, "Why", &["string:a.yaml"]).unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["files"][0]["file"], "a.yaml");
    assert_eq!(said["files"][0]["state"], "held");
    let refused = bus
        .method(Who::Nobody, "Why", &["string:z.yaml"])
        .unwrap_err();
    assert!(refused.contains("is called z.yaml"), "{refused}");
}

#[test]
fn the_owner_of_the_machine_holds_and_releases_and_is_recorded() {
    let Some(bus) = Bus::start() else { return };
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can call as root");
        return;
    }
    let (node, daemon) = served(&bus);
    let order = |verb, files, reason| bus.method(Who::Root, verb, &[files, reason]);
    let released = order("Release", "array:string:a.yaml", "string:ticket 4711");
    assert_eq!(released.unwrap(), "a.yaml");
    assert!(!node.is_marked("a.yaml"), "the marker is gone at once");
    daemon.eventually("the property to follow", || {
        bus.property(Who::Nobody, "Held").as_deref() == Ok("1")
    });
    let said = order("Hold", "array:string:a.yaml", "string:not\nbefore noon");
    assert_eq!(said.unwrap(), "a.yaml");
    daemon.eventually("it is held by hand", || {
        node.mark("a.yaml")
            .is_some_and(|mark| mark["code"] == "held-by-hand")
    });
    let why = node.mark("a.yaml").unwrap()["why"].clone();
    assert_eq!(why, "held by hand: not before noon (root over D-Bus)");

    let refused = order("Release", "array:string:a.yaml,z.yaml", "string:").unwrap_err();
    assert!(
        refused.contains("z.yaml: no such manifest file"),
        "{refused}"
    );
    assert!(node.is_marked("a.yaml"), "half an order was carried out");
    let refused = order("Hold", "array:string:", "string:").unwrap_err();
    assert!(refused.contains("no file is named"), "{refused}");
}

#[test]
fn nobody_may_release_without_policy_kit_nor_change_a_property() {
    let Some(bus) = Bus::start() else { return };
    let (node, _daemon) = served(&bus);
    for verb in ["Release", "Hold"] {
        let arguments = ["array:string:a.yaml", "string:why not"];
        let refused = bus.method(Who::Nobody, verb, &arguments).unwrap_err();
        assert!(refused.contains("AccessDenied"), "{refused}");
        assert!(refused.contains("root alone"), "{refused}");
    }
    assert!(node.is_marked("a.yaml"));
    let set = [
        "string:dev.windrow.Agent1",
        "string:Readiness",
        "variant:string:Ready",
    ];
    let refused = bus.call(Who::Nobody, "org.freedesktop.DBus.Properties.Set", &set);
    assert!(refused.is_err(), "{refused:?}");
}

#[tokio::test]
async fn policy_kit_decides_for_everybody_but_root() {
    let Some(bus) = Bus::start() else { return };
    let (node, daemon) = served(&bus);
    let kit = bus.policy_kit().await;
    // The kit answers on this thread's runtime.
    let call = |verb: &'static str| {
        let bus = bus.clone();
        tokio::task::spawn_blocking(move || {
            bus.method(Who::Nobody, verb, &["array:string:a.yaml", "string:test"])
        })
    };
    let refused = call("Release").await.unwrap().unwrap_err();
    assert!(
        refused.contains("dev.windrow.release is not allowed"),
        "{refused}"
    );
    assert!(node.is_marked("a.yaml"));

    kit.allow("dev.windrow.release");
    assert_eq!(call("Release").await.unwrap().unwrap(), "a.yaml");
    assert!(!node.is_marked("a.yaml"));
    assert!(call("Hold").await.unwrap().is_err(), "another action");
    let asked = kit.asked();
    assert!(asked.iter().all(|(kind, ..)| kind == "system-bus-name"));
    assert_eq!(asked.last().unwrap().2, "dev.windrow.hold");
    drop(daemon);
}

#[tokio::test]
async fn a_change_of_the_status_is_one_signal_with_all_that_changed() {
    type Changed = HashMap<String, zbus::OwnedVariant>;
    let Some(bus) = Bus::start() else { return };
    let (node, _daemon) = served(&bus);
    let before = node.status()["generation"].as_u64().unwrap();
    let client = zbus::connection::Builder::address(bus.address().as_str())
        .build()
        .await
        .unwrap();
    let rule = zbus::MatchRule::builder()
        .msg_type(zbus::message::Type::Signal)
        .interface("org.freedesktop.DBus.Properties")
        .path("/dev/windrow/Agent1")
        .build()
        .unwrap();
    let mut signals = zbus::MessageStream::for_match_rule(rule, &client, None)
        .await
        .unwrap();
    fs::remove_file(node.manifest("a.yaml")).unwrap();
    // Other changes may come before. The one that reports the file has everything of that moment.
    let changed = loop {
        let message = tokio::time::timeout(Duration::from_secs(180), signals.next())
            .await
            .expect("no signal")
            .unwrap()
            .unwrap();
        let (interface, changed, gone): (String, Changed, Vec<String>) =
            message.body().deserialize().unwrap();
        assert_eq!(interface, "dev.windrow.Agent1");
        assert!(gone.is_empty());
        assert!(!changed.contains_key("Version"));
        if changed.contains_key("Held") {
            break changed;
        }
    };
    assert_eq!(u32::try_from(&changed["Held"]), Ok(1));
    assert_eq!(u32::try_from(&changed["Total"]), Ok(1));
    assert!(u64::try_from(&changed["Generation"]).unwrap() > before);
}

#[test]
fn the_bus_may_come_late_and_go_away() {
    let Some(bus) = Bus::prepare() else { return };
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let mut daemon = start(&node, &bus);
    daemon.eventually("the bus is missed", || {
        daemon.said().contains("D-Bus is not served")
    });
    for times in 1..=2 {
        bus.run();
        daemon.eventually("the name on the bus", || bus.is_owned());
        assert_eq!(bus.property(Who::Nobody, "Total").as_deref(), Ok("1"));
        bus.end();
        daemon.eventually("the loss is reported", || {
            daemon.said().matches("the bus has gone away").count() == times
        });
    }
    assert!(daemon.child.try_wait().unwrap().is_none(), "it has ended");
}

/// Most memory that the daemon may take while it is flooded, in kB.
const MOST_MEMORY: u64 = 160 << 10;

#[test]
fn a_user_who_floods_the_bus_is_refused_and_nobody_else_notices() {
    let Some(bus) = Bus::start() else { return };
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can call as two other users");
        return;
    }
    // Enough files to make the document large: a user who keeps asking for it asks for gigabytes.
    let names: Vec<String> = (0..500).map(|number| format!("f{number}.yaml")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), WIDGET)).collect();
    let node = Node::with(&files);
    let daemon = start(&node, &bus);
    daemon.eventually("the name on the bus", || bus.is_owned());
    daemon.eventually("all files held", || {
        // Root may ask as often as this loop does.
        bus.property(Who::Root, "Held").as_deref() == Ok("500")
    });
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let test = "dbus::the_user_who_floods_the_bus";
    let mut flood = flood::Flood::start(test, &bus.socket(), bus::NOBODY, place.path());
    flood.is_refused();

    // Other users get answers, and manifests are held.
    for number in 0..5 {
        let said = bus.method(Who::Another, "Status", &[]).unwrap();
        assert!(said.starts_with('{'), "{said}");
        let said = bus.method(Who::Root, "Why", &["string:f1.yaml"]).unwrap();
        assert!(said.contains("f1.yaml"), "{said}");
        bus.property(Who::Another, "Readiness").unwrap();
        let name = format!("new{number}.yaml");
        fs::write(node.manifest(&name), WIDGET).unwrap();
        daemon.eventually("a new file is held", || node.is_marked(&name));
    }
    let refused = bus.method(Who::Nobody, "Status", &[]).unwrap_err();
    assert!(refused.contains("LimitsExceeded"), "{refused}");
    assert!(refused.contains("PropertiesChanged"), "{refused}");
    let long = format!("string:{}", "x".repeat(100_000));
    let refused = bus.method(Who::Another, "Why", &[&long]).unwrap_err();
    assert!(refused.contains("longer than 16384 bytes"), "{refused}");
    let memory = daemon.most_memory();
    assert!(memory < MOST_MEMORY, "{memory} kB");
    drop(flood);
    daemon.eventually("it is answered again", || {
        bus.method(Who::Nobody, "Status", &[]).is_ok()
    });
}

#[tokio::test]
async fn a_call_of_many_megabytes_is_refused_and_never_in_memory() {
    let Some(bus) = Bus::start() else { return };
    let (_node, daemon) = served(&bus);
    let client = zbus::connection::Builder::address(bus.address().as_str())
        .build()
        .await
        .unwrap();
    let why = async |what: &str| {
        let name = Some("dev.windrow.Agent1");
        client.call_method(name, PATH, name, "Why", &what).await
    };
    why("a.yaml").await.unwrap();
    let before = daemon.most_memory();
    for _ in 0..3 {
        let refused = why(&"x".repeat(64 << 20)).await.unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("longer than 16384 bytes"), "{refused}");
    }
    let memory = daemon.most_memory();
    assert!(
        memory < before + (16 << 10),
        "{before} kB, then {memory} kB"
    );
    assert!(!daemon.said().contains("D-Bus is not served"));
    why("a.yaml").await.unwrap();
}

/// The process that a test above starts.
#[test]
fn the_user_who_floods_the_bus() {
    flood::play(20, "dev.windrow.Agent1", PATH, "Status");
}

#[test]
fn introspection_says_what_is_installed_and_everything_in_it_is_answered() {
    let Some(bus) = Bus::start() else { return };
    let (_node, _daemon) = served(&bus);
    let introspect = "org.freedesktop.DBus.Introspectable.Introspect";
    let said = bus.call(Who::Nobody, introspect, &[]).unwrap();
    let installed = include_str!("../../config/dbus/dev.windrow.Agent1.xml");
    let begin = installed.find("  <interface").unwrap();
    let end = installed.find("</node>").unwrap();
    assert!(said.contains(&installed[begin..end]), "{said}");
    for property in installed.split("<property name=\"").skip(1) {
        let name = property.split('"').next().unwrap();
        bus.property(Who::Nobody, name).unwrap();
    }
    let above = bus.at("/dev", introspect).unwrap();
    assert!(above.contains("<node name=\"windrow\"/>"), "{above}");
    bus.at("/anywhere", "org.freedesktop.DBus.Peer.Ping")
        .unwrap();
    for (path, method, expected) in [
        ("/elsewhere", introspect, "UnknownObject"),
        (PATH, "dev.windrow.Agent1.Stop", "UnknownMethod"),
        (PATH, "dev.windrow.Agent2.Status", "UnknownInterface"),
        (PATH, "dev.windrow.Agent1.Why", "InvalidArgs"),
    ] {
        let refused = bus.at(path, method).unwrap_err();
        assert!(refused.contains(expected), "{method}: {refused}");
    }
}

#[test]
fn every_action_of_the_policy_is_asked_for_and_needs_an_administrator() {
    let policy = include_str!("../../config/polkit/dev.windrow.policy");
    let asked = include_str!("../../crates/daemon/src/report/dbus/authority.rs");
    let actions: Vec<&str> = policy
        .split("<action id=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(actions, ["dev.windrow.hold", "dev.windrow.release"]);
    for action in actions {
        assert!(asked.contains(&format!("\"{action}\"")), "{action}");
    }
    assert_eq!(policy.matches("<allow_").count(), 6);
    assert_eq!(policy.matches(">auth_admin").count(), 6);
}
