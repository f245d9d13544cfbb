//! systemd and timedate1, played on a private bus.

use tokio::process::Child;
use windrow_plan::readiness::node::{CustomQuestion, Transition};

use super::*;
use crate::observe::probes::looks::Looks;
use crate::observe::probes::unit::{self, RestartMemory};
use crate::observe::probes::upgrade::SignMemory;
use crate::observe::probes::{custom, host, rancherd};
use crate::observe::systemd::SystemdJob;

fn job(number: u32, unit: &str, state: &str) -> SystemdJob {
    let path = |text: &str| zbus::OwnedObjectPath::try_from(text).unwrap();
    let (unit, state) = (unit.to_owned(), state.to_owned());
    let start = "start".to_owned();
    (number, unit, start, state, path("/job"), path("/unit"))
}

struct ManagerInterface {
    state: &'static str,
}

#[zbus::interface(name = "org.freedesktop.systemd1.Manager")]
impl ManagerInterface {
    fn load_unit(&self, name: &str) -> zbus::fdo::Result<zbus::OwnedObjectPath> {
        let path = match name {
            "rke2-server.service" | "rancherd.service" | "first.service" => "/unit/server",
            _ => "/unit/none",
        };
        path.try_into()
            .map_err(|_| zbus::fdo::Error::Failed("path".to_owned()))
    }

    fn list_jobs(&self) -> Vec<SystemdJob> {
        vec![
            job(1, "rke2-server.service", "waiting"),
            job(9, "other.service", "running"),
            job(1000, "first.service", "waiting"),
        ]
    }

    fn get_job_before(&self, number: u32) -> Vec<SystemdJob> {
        match number {
            1 => vec![job(2, "network-online.target", "waiting")],
            2 => vec![job(3, "wait-online.service", "running")],
            // A chain that no boot has.
            1400 => vec![job(1, "far-away.service", "running")],
            1000..1400 => vec![job(number + 1, "next.service", "waiting")],
            _ => Vec::new(),
        }
    }

    #[zbus(property)]
    fn system_state(&self) -> String {
        self.state.to_owned()
    }
}

struct UnitInterface {
    load: &'static str,
    active: &'static str,
}

#[zbus::interface(name = "org.freedesktop.systemd1.Unit")]
impl UnitInterface {
    #[zbus(property)]
    fn load_state(&self) -> String {
        self.load.to_owned()
    }

    #[zbus(property)]
    fn active_state(&self) -> String {
        self.active.to_owned()
    }

    #[zbus(property)]
    fn sub_state(&self) -> String {
        match self.active {
            "activating" => "auto-restart".to_owned(),
            _ => "stop-sigterm".to_owned(),
        }
    }

    #[zbus(property)]
    fn unit_file_state(&self) -> String {
        "enabled".to_owned()
    }
}

struct ServiceInterface;

#[zbus::interface(name = "org.freedesktop.systemd1.Service")]
impl ServiceInterface {
    #[zbus(property, name = "NRestarts")]
    fn restarts(&self) -> u32 {
        7
    }

    #[zbus(property)]
    fn result(&self) -> String {
        "exit-code".to_owned()
    }
}

struct TimedateInterface;

#[zbus::interface(name = "org.freedesktop.timedate1")]
impl TimedateInterface {
    #[zbus(property, name = "NTPSynchronized")]
    fn synchronised(&self) -> bool {
        false
    }
}

/// A separate bus in this directory, and its address; it ends with its owner. `None` if there is no dbus-daemon.
async fn bus(directory: &std::path::Path) -> Option<(Child, String)> {
    let address = format!("unix:path={}/bus", directory.display());
    let daemon = crate::testing::bus::start(&address).await?;
    Some((daemon, address))
}

async fn played(address: &str, active: &'static str, state: &'static str) -> zbus::Connection {
    zbus::connection::Builder::address(address)
        .serve_at("/org/freedesktop/systemd1", ManagerInterface { state })
        .serve_at(
            "/unit/server",
            UnitInterface {
                load: "loaded",
                active,
            },
        )
        .serve_at("/unit/server", ServiceInterface)
        .serve_at(
            "/unit/none",
            UnitInterface {
                load: "not-found",
                active: "inactive",
            },
        )
        .serve_at("/org/freedesktop/timedate1", TimedateInterface)
        .name("org.freedesktop.systemd1")
        .name("org.freedesktop.timedate1")
        .build()
        .await
        .unwrap()
}

async fn custom_unit(context: &ProbeContext, name: &str, state: &str) -> ProbeOutcome {
    let question = CustomQuestion::Unit {
        name: name.to_owned(),
        states: vec![state.to_owned()],
    };
    let probe = super::custom::probe(question);
    let looks = Looks::default();
    custom::ask(context, &looks, NodeRole::FirstServer, "n1", &probe).await
}

#[tokio::test]
async fn units_and_the_clock_are_read_over_the_bus() {
    let mut place = TestNode::new();
    let Some((_daemon, address)) = bus(place.root.path()).await else {
        eprintln!("skipped: there is no dbus-daemon");
        return;
    };
    place.endpoints.bus = Some(address.clone());
    let connection = played(&address, "activating", "running").await;
    let context = place.context();
    let (restarts, upgrade) = (RestartMemory::default(), SignMemory::default());
    assert_eq!(
        unit::installed(&context, NodeRole::FirstServer).await,
        ProbeOutcome::Passed
    );
    assert!(failed(&unit::installed(&context, NodeRole::Agent).await).contains("no rke2"));
    let asked = unit::service(&context, &restarts, &upgrade, NodeRole::FirstServer, None).await;
    assert!(
        failed(&asked.outcome).contains("rke2-server has ended 5+ times"),
        "{:?}",
        asked.outcome
    );
    for kind in [
        Transition::Restart,
        Transition::Upgrade,
        Transition::Shutdown,
    ] {
        assert!(asked.events.contains(&NodeEvent::Transition(kind, None)));
    }
    assert!(failed(&host::clock(&context).await).contains("NTPSynchronized=no"));
    for (name, state, expected) in [
        ("rke2-server.service", "activating", "passed"),
        (
            "rke2-server.service",
            "active",
            "rke2-server.service is activating (auto-restart)",
        ),
        ("other.service", "inactive", "there is no other.service"),
    ] {
        let outcome = custom_unit(&context, name, state).await;
        match expected {
            "passed" => assert_eq!(outcome, ProbeOutcome::Passed),
            why => assert_eq!(failed(&outcome), why),
        }
    }

    // The peer goes and comes back: the next question connects again.
    drop(connection);
    let again = played(&address, "active", "stopping").await;
    let asked = unit::service(&context, &restarts, &upgrade, NodeRole::FirstServer, None).await;
    assert_eq!(asked.outcome, ProbeOutcome::Passed);
    assert!(matches!(
        asked.events.last(),
        Some(NodeEvent::Transition(Transition::Shutdown, Some(_)))
    ));
    // It ran, and was then stopped or started manually, because systemd counts no restart.
    drop(again);
    let _third = played(&address, "deactivating", "running").await;
    let asked = unit::service(&context, &restarts, &upgrade, NodeRole::FirstServer, None).await;
    assert!(
        asked
            .events
            .iter()
            .any(|event| matches!(event, NodeEvent::Transition(Transition::Restart, Some(_)))),
        "{:?}",
        asked.events
    );
}

#[tokio::test]
async fn a_unit_that_is_queued_waits_for_what_runs_before_it_directly_or_not() {
    let mut place = TestNode::new();
    let Some((_daemon, address)) = bus(place.root.path()).await else {
        eprintln!("skipped: there is no dbus-daemon");
        return;
    };
    place.endpoints.bus = Some(address.clone());
    let _connection = played(&address, "inactive", "starting").await;
    let context = place.context();
    let queued = context.bus.unit("rke2-server.service").await.unwrap();
    assert_eq!(queued.waits_for, ["wait-online.service"]);
    let other = context.bus.unit("rancherd.service").await.unwrap();
    assert!(other.waits_for.is_empty(), "it has no job");
    let endless = context.bus.unit("first.service").await.unwrap();
    assert!(endless.waits_for.is_empty(), "more jobs than are asked for");
}

#[tokio::test]
async fn a_bus_that_ended_is_connected_to_again() {
    let mut place = TestNode::new();
    let Some((mut daemon, address)) = bus(place.root.path()).await else {
        eprintln!("skipped: there is no dbus-daemon");
        return;
    };
    place.endpoints.bus = Some(address.clone());
    let context = place.context();
    assert!(context.bus.unit("rke2-server.service").await.is_err());
    let connection = played(&address, "active", "running").await;
    assert!(context.bus.unit("rke2-server.service").await.is_ok());
    daemon.kill().await.unwrap();
    drop(connection);
    assert!(context.bus.unit("rke2-server.service").await.is_err());
    let (_daemon, address) = bus(place.root.path()).await.unwrap();
    let _connection = played(&address, "active", "running").await;
    assert!(context.bus.unit("rke2-server.service").await.is_ok());
}

#[tokio::test]
async fn without_a_bus_nothing_is_known_of_units() {
    let place = TestNode::new();
    let context = place.context();
    let (restarts, upgrade) = (RestartMemory::default(), SignMemory::default());
    let said = unknown(
        &unit::service(&context, &restarts, &upgrade, NodeRole::Agent, None)
            .await
            .outcome,
    );
    assert!(said.contains("rke2-agent.service"), "{said}");
    assert!(unknown(&host::clock(&context).await).contains("timedate1"));
}

#[tokio::test]
async fn rancherd_is_followed_from_outside_until_it_has_bootstrapped_the_node() {
    let mut place = TestNode::new();
    assert!(unknown(&rancherd::bootstrapped(&place.context()).await).contains("rancherd.service"));
    let Some((_daemon, address)) = bus(place.root.path()).await else {
        eprintln!("skipped: there is no dbus-daemon");
        return;
    };
    place.endpoints.bus = Some(address.clone());
    let connection = played(&address, "activating", "starting").await;
    let asked = rancherd::bootstrapped(&place.context()).await;
    assert_eq!(failed(&asked), "it has begun no instruction yet");
    place.write(
        "/var/lib/rancher/rancherd/plan/work/20261122-100000-applied.plan/_7/x",
        "",
    );
    let script = "#!/bin/sh\necho 'level=info msg=\"will retry failed command [wait-rancher]: exit status 1\"'\n";
    let journalctl = place.write("/journalctl", script);
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&journalctl, executable).unwrap();
    place.endpoints.journalctl = journalctl.display().to_string();
    let asked = rancherd::bootstrapped(&place.context()).await;
    let said = failed(&asked);
    assert!(
        said.starts_with("instruction 7 of its plan has run since 20"),
        "{said}"
    );
    assert!(
        said.ends_with("Z; its journal: will retry failed command [wait-rancher]: exit status 1"),
        "{said}"
    );
    // Its files contain the token: only root may read them, and no probe has to.
    let done = place.write("/var/lib/rancher/rancherd/bootstrapped", "token: s3cret");
    fs::set_permissions(&done, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    assert_eq!(
        rancherd::bootstrapped(&place.context()).await,
        ProbeOutcome::Passed
    );
    fs::remove_file(done).unwrap();
    drop(connection);
    let _ended = played(&address, "active", "running").await;
    let asked = rancherd::bootstrapped(&place.context()).await;
    assert!(
        failed(&asked).starts_with("it ended without a bootstrap"),
        "{asked:?}"
    );
}
