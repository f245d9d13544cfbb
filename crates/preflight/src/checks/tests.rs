//! Tests of the verdict of each check.

mod machine;
mod network;
mod reach;

use crate::address_claims::AddressClaim;
use windrow_harvester::HarvesterVersion;
use windrow_host::{
    BlockDevice, Cpus, DirectoryRole, DirectorySpace, DiskKind, Firmware, HostLink, LinkState,
    MachineIdentity, Memory, Reading, Temperature,
};
use windrow_model::checks::CheckOutcome::{Fail, NotChecked, Pass, Unknown, Warn};
use windrow_model::manifest::yaml;

use super::*;
use crate::sockets::Protocol;
use crate::{
    DeviceReading, DnsReading, FsyncReading, JoinReading, NtpReading, PlannedRole, PortHolder,
    VipReading, harvester_node,
};

const GIB: u64 = 1 << 30;

fn known(text: &str) -> Reading<String> {
    Reading::Known(text.to_owned())
}

fn link(name: &str, speed: u32) -> HostLink {
    HostLink {
        name: name.to_owned(),
        mac: "52:54:00:00:00:01".parse().unwrap(),
        physical: true,
        virtual_function: false,
        vlan: None,
        state: Reading::Known(LinkState::Up),
        speed: Reading::Known(speed),
        mtu: 1500,
        addresses: vec![("10.0.0.5".parse().unwrap(), 24)],
        packets: 1_000_000,
        errors: 0,
    }
}

fn disk(name: &str, gib: u64) -> BlockDevice {
    BlockDevice {
        name: name.to_owned(),
        size: gib * GIB,
        kind: Reading::Known(DiskKind::Nvme),
        model: String::new(),
        serial: String::new(),
        links: vec![format!("/dev/disk/by-id/{name}")],
        removable: false,
        fibre_channel: false,
    }
}

/// A machine that passes every check, including those for production.
fn machine() -> HostFacts {
    HostFacts {
        machine: MachineIdentity {
            hostname: known("node1"),
            vendor: known("Dell Inc."),
            product: known("PowerEdge R650"),
            serial: known("7XK2J3A"),
            uuid: known("4c4c4544-0058-4b10-8032-b7c04f4a3341"),
            architecture: known("x86_64"),
            firmware: Reading::Known(Firmware::Uefi),
            hypervisor: known("none"),
            kvm: Reading::Known(true),
        },
        cpus: Reading::Known(Cpus {
            model: "EPYC".to_owned(),
            logical: 32,
            cores: Reading::Known(16),
            virtualisation: known("svm"),
        }),
        memory: Reading::Known(Memory {
            total: 62 * GIB,
            available: 60 * GIB,
            installed: Reading::Known(64 * GIB),
            modules: Reading::unknown("not read"),
        }),
        disks: Reading::Known(vec![disk("sda", 900), disk("sdb", 1800)]),
        directories: vec![DirectorySpace {
            path: "/var/lib".to_owned(),
            role: DirectoryRole::State,
            file_system: "ext4".to_owned(),
            disks: Vec::new(),
            total: 100 * GIB,
            free: 50 * GIB,
            inodes: 0,
            free_inodes: 0,
            unknown: None,
        }],
        temperatures: Reading::Known(vec![sensor(60.0)]),
        links: Reading::Known(vec![link("ens3", 10_000)]),
        clock: windrow_host::ClockState {
            synchronised: Reading::Known(true),
            ..Default::default()
        },
        ..HostFacts::default()
    }
}

fn sensor(celsius: f32) -> Temperature {
    Temperature {
        sensor: "Package id 0".to_owned(),
        celsius,
        critical: Reading::Known(95.0),
    }
}

fn around() -> Surroundings {
    Surroundings {
        offline: false,
        not_asked: None,
        devices: Vec::new(),
        addresses: vec![vip(Reading::Known(Vec::new()))],
        ports: Reading::Known(Vec::new()),
        default_route: Reading::Known(true),
        name_servers: vec![DnsReading {
            server: "10.0.0.2".to_owned(),
            name: "time.example".to_owned(),
            answer: Reading::Known(vec!["10.0.0.3".parse().unwrap()]),
            no_answer: None,
        }],
        time_servers: vec![NtpReading {
            server: "time.example".to_owned(),
            behind_millis: Reading::Known(-12),
            no_answer: None,
        }],
        join: None,
        fsync: Some(Reading::Known(fsync(2_000))),
    }
}

fn vip(claims: Reading<Vec<AddressClaim>>) -> VipReading {
    VipReading {
        address: "10.0.0.10".to_owned(),
        own: false,
        claims,
    }
}

fn fsync(p99_micros: u64) -> FsyncReading {
    FsyncReading {
        directory: "/d".to_owned(),
        writes: 1000,
        p50_micros: 500,
        p99_micros,
        max_micros: 20_000,
    }
}

const CONFIGURATION: &str = "\
os: {hostname: node1, ntpServers: [time.example], dnsNameservers: [10.0.0.2]}
install:
  mode: create
  automatic: true
  device: /dev/sda
  vip: 10.0.0.10
  vipMode: static
  managementInterface: {interfaces: [{name: ens3}], method: dhcp}
";

fn wanted() -> WantedNode {
    let root = yaml::parse_configuration(CONFIGURATION).unwrap().unwrap();
    harvester_node("node.yaml", &root)
}

fn of(version: &str) -> WantedNode {
    WantedNode {
        harvester: Some(version.parse::<HarvesterVersion>().unwrap()),
        ..wanted()
    }
}

fn rke2() -> WantedNode {
    WantedNode::bare(Platform::Rke2, PlannedRole::Server)
}

fn judged(host: &HostFacts, around: &Surroundings, wanted: &WantedNode) -> Preflight {
    preflight(
        host,
        around,
        wanted,
        "2026-11-23T10:00:00Z".parse().unwrap(),
    )
}

/// The outcome of one row, and all of its texts.
fn row(
    check: &str,
    host: &HostFacts,
    around: &Surroundings,
    wanted: &WantedNode,
) -> (CheckOutcome, String) {
    let all = judged(host, around, wanted);
    let row = all
        .list
        .checks
        .iter()
        .find(|row| row.check == check)
        .unwrap();
    let texts = [&row.problems, &row.warnings, &row.unknown, &row.found];
    let texts: Vec<&str> = texts.into_iter().flatten().map(String::as_str).collect();
    (row.outcome, texts.join("; "))
}

fn outcome(check: &str, host: &HostFacts, wanted: &WantedNode) -> CheckOutcome {
    row(check, host, &around(), wanted).0
}

fn with_cpus(logical: u32) -> HostFacts {
    let mut host = machine();
    if let Reading::Known(cpus) = &mut host.cpus {
        cpus.logical = logical;
    }
    host
}

#[test]
fn nothing_is_against_a_machine_that_has_what_is_asked_for() {
    for production in [false, true] {
        let wanted = WantedNode {
            production,
            ..wanted()
        };
        let all = judged(&machine(), &around(), &wanted);
        let bad: Vec<&CheckRow> = all
            .list
            .checks
            .iter()
            .filter(|row| !matches!(row.outcome, Pass | NotChecked))
            .collect();
        assert_eq!(bad, Vec::<&CheckRow>::new());
        assert_eq!(all.list.verdict, Pass);
    }
}

#[test]
fn of_a_machine_that_was_not_read_nothing_is_concluded() {
    let nothing = HostFacts::default();
    let not_asked = Surroundings {
        not_asked: Some("it is another machine's".to_owned()),
        addresses: vec![vip(Reading::unknown("it is another machine's"))],
        ..Surroundings::default()
    };
    let all = judged(&nothing, &not_asked, &wanted());
    assert_eq!(all.list.verdict, Unknown);
    for name in ["addresses-free", "name-servers", "time-servers"] {
        let row = all
            .list
            .checks
            .iter()
            .find(|row| row.check == name)
            .unwrap();
        assert_eq!(
            row.outcome, Unknown,
            "the configuration names some: {row:?}"
        );
    }
    for row in &all.list.checks {
        // The host name comes from the configuration.
        let is_named = row.check == "hostname";
        assert!(
            matches!(row.outcome, Unknown | NotChecked) || is_named,
            "{row:?}"
        );
    }
}

#[test]
fn a_failure_decides_before_what_is_unknown_and_that_before_a_warning_and_both_say_what_to_do() {
    let wanted = WantedNode {
        automatic: false,
        ..wanted()
    };
    let unheard = Surroundings {
        addresses: vec![vip(Reading::unknown("no right"))],
        ..around()
    };
    for (host, around, expected) in [
        (with_cpus(8), around(), Warn),
        (with_cpus(8), unheard.clone(), Unknown),
        (with_cpus(7), around(), Fail),
        (with_cpus(7), unheard, Fail),
    ] {
        let all = judged(&host, &around, &wanted);
        assert_eq!(all.list.verdict, expected);
        for row in &all.list.checks {
            let asks_for_something = matches!(row.outcome, Fail | Warn);
            assert_eq!(row.advice.is_some(), asks_for_something, "{row:?}");
        }
    }
}

#[test]
fn a_preflight_is_read_as_it_was_written() {
    let all = judged(&machine(), &around(), &wanted());
    let text = serde_json::to_string(&all).unwrap();
    let read: Preflight = serde_json::from_str(&text).unwrap();
    assert_eq!(read, all);
}
