use windrow_harvester::HarvesterVersion;
use windrow_harvester::vip_check::AddressClaim;
use windrow_model::manifest::yaml;

use super::*;
use crate::report::PreflightOutcome::{Fails, Fine, Look, NotAsked, Unknown};
use crate::sockets::Protocol;
use crate::{
    BlockDevice, Cpus, DirectoryRole, DirectorySpace, DiskKind, DnsReading, Firmware, FsyncReading,
    HostLink, JoinReading, LinkState, MachineIdentity, Memory, NtpReading, PlannedRole, PortHolder,
    Reading, Temperature, VipReading, harvester_node,
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
        state: Reading::Known(LinkState::Up),
        speed: Reading::Known(speed),
        mtu: 1500,
        addresses: Vec::new(),
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
    }
}

/// A machine that nothing is against, not even in production.
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
        }],
        temperatures: Reading::Known(vec![sensor(60.0)]),
        links: Reading::Known(vec![link("ens3", 10_000)]),
        clock: crate::ClockState {
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
        addresses: vec![vip(Reading::Known(Vec::new()))],
        ports: Reading::Known(Vec::new()),
        default_route: Reading::Known(true),
        name_servers: vec![DnsReading {
            server: "10.0.0.2".to_owned(),
            name: "time.example".to_owned(),
            answer: Reading::Known(vec!["10.0.0.3".parse().unwrap()]),
        }],
        time_servers: vec![NtpReading {
            server: "time.example".to_owned(),
            behind_millis: Reading::Known(-12),
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

/// What comes of one row, and all that it says.
fn row(
    check: &str,
    host: &HostFacts,
    around: &Surroundings,
    wanted: &WantedNode,
) -> (PreflightOutcome, String) {
    let all = judged(host, around, wanted);
    let row = all.checks.iter().find(|row| row.check == check).unwrap();
    let texts = [&row.wrong, &row.look, &row.unknown, &row.found];
    let texts: Vec<&str> = texts.into_iter().flatten().map(String::as_str).collect();
    (row.outcome, texts.join("; "))
}

fn outcome(check: &str, host: &HostFacts, wanted: &WantedNode) -> PreflightOutcome {
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
        let bad: Vec<&PreflightRow> = all
            .checks
            .iter()
            .filter(|row| !matches!(row.outcome, Fine | NotAsked))
            .collect();
        assert_eq!(bad, Vec::<&PreflightRow>::new());
        assert_eq!(all.verdict, PreflightVerdict::Fine);
    }
}

#[test]
fn of_a_machine_that_was_not_read_nothing_is_concluded() {
    let nothing = HostFacts::default();
    let wanted = WantedNode {
        time_servers: Vec::new(),
        ..wanted()
    };
    let all = judged(&nothing, &Surroundings::default(), &wanted);
    assert_eq!(all.verdict, PreflightVerdict::Unknown);
    for row in &all.checks {
        // The configuration names the node.
        let is_named = row.check == "hostname";
        assert!(
            matches!(row.outcome, Unknown | NotAsked) || is_named,
            "{row:?}"
        );
    }
}

#[test]
fn too_few_processors_fail_and_fewer_than_for_production_end_an_automatic_installation() {
    let by_hand = WantedNode {
        automatic: false,
        ..wanted()
    };
    let skipping = WantedNode {
        skip_checks: true,
        ..wanted()
    };
    let production = WantedNode {
        production: true,
        ..by_hand.clone()
    };
    for (cpus, wanted, expected) in [
        (7, &by_hand, Fails),
        (7, &skipping, Look),
        (8, &by_hand, Look),
        (8, &skipping, Look),
        (8, &wanted(), Fails),
        (8, &production, Fails),
        (16, &wanted(), Fine),
        (1, &rke2(), Fails),
        (2, &rke2(), Look),
        (4, &rke2(), Fine),
    ] {
        assert_eq!(
            outcome("cpus", &with_cpus(cpus), wanted),
            expected,
            "{cpus}"
        );
    }
    let (_, said) = row("cpus", &with_cpus(8), &around(), &wanted());
    assert!(said.contains("install.skipchecks"), "{said}");
}

#[test]
fn what_the_kernel_keeps_of_the_memory_is_allowed_for_and_what_the_firmware_says_is_exact() {
    let with = |total: u64, installed: Reading<u64>| {
        let mut host = machine();
        if let Reading::Known(memory) = &mut host.memory {
            (memory.total, memory.installed) = (total, installed);
        }
        host
    };
    let unknown = || Reading::unknown("no right to read it");
    let by_hand = WantedNode {
        automatic: false,
        ..wanted()
    };
    // A host of 32 GiB reports 31.3 (harvester-installer's own figures).
    for (host, expected) in [
        (with(32_856_636 << 10, unknown()), Look),
        (with(28 * GIB, unknown()), Fails),
        (with(65_758_888 << 10, unknown()), Fine),
        (with(62 * GIB, Reading::Known(63 * GIB)), Look),
        (with(62 * GIB, Reading::Known(64 * GIB)), Fine),
    ] {
        assert_eq!(outcome("memory", &host, &by_hand), expected, "{host:?}");
    }
}

#[test]
fn a_legacy_bios_is_judged_by_release() {
    let mut host = machine();
    host.machine.firmware = Reading::Known(Firmware::Bios);
    for (version, expected) in [("v1.6.1", Fine), ("v1.7.1", Fails), ("v1.8.1", Fails)] {
        assert_eq!(
            outcome("firmware", &host, &of(version)),
            expected,
            "{version}"
        );
    }
    let skipping = |version| WantedNode {
        skip_checks: true,
        ..of(version)
    };
    assert_eq!(outcome("firmware", &host, &skipping("v1.7.1")), Look);
    assert_eq!(outcome("firmware", &host, &skipping("v1.8.1")), Fails);
    assert_eq!(outcome("firmware", &host, &rke2()), NotAsked);
}

#[test]
fn without_kvm_a_node_fails_and_a_virtual_one_only_looks_odd() {
    let mut host = machine();
    host.machine.kvm = Reading::Known(false);
    assert_eq!(outcome("virtualisation", &host, &wanted()), Fails);
    assert_eq!(outcome("virtualisation", &host, &rke2()), NotAsked);
    let witness = WantedNode {
        role: PlannedRole::Witness,
        automatic: false,
        ..wanted()
    };
    assert_eq!(outcome("virtualisation", &host, &witness), Look);
    host.machine.hypervisor = known("kvm");
    assert_eq!(outcome("bare-metal", &host, &wanted()), Fails);
    assert_eq!(outcome("bare-metal", &host, &witness), Look);
    assert_eq!(outcome("bare-metal", &host, &rke2()), NotAsked);
}

#[test]
fn a_disk_is_found_by_each_of_its_names_and_measured_by_its_use_role_and_release() {
    let with = |device: &str, data: Option<&str>, version: &str| {
        let value = |text: &str| crate::ConfiguredValue {
            text: text.to_owned(),
            at: windrow_model::findings::Location::line("node.yaml", 5),
        };
        let mut wanted = of(version);
        wanted.disks.device = Some(value(device));
        wanted.disks.data = data.map(value);
        wanted
    };
    let mut host = machine();
    host.disks = Reading::Known(vec![disk("sda", 200), disk("sdb", 60), disk("sdc", 900)]);
    let witness = |version| WantedNode {
        role: PlannedRole::Witness,
        ..with("/dev/sda", None, version)
    };
    let skipping = |version| WantedNode {
        skip_checks: true,
        ..with("/dev/sda", None, version)
    };
    for (wanted, expected) in [
        (with("/dev/sdc", None, "v1.8.1"), Fine),
        (with("/dev/disk/by-id/sdc", None, "v1.8.1"), Fine),
        (with("/dev/sda", None, "v1.8.1"), Fails),
        (with("/dev/sda", Some("/dev/sdc"), "v1.8.1"), Fine),
        (with("/dev/sda", Some("/dev/sdb"), "v1.8.1"), Look),
        (with("/dev/sdd", None, "v1.8.1"), Fails),
        (with("/dev/mapper/mpatha", None, "v1.8.1"), Unknown),
        (witness("v1.5.2"), Fails),
        (witness("v1.6.0"), Fine),
        (skipping("v1.7.1"), Fails),
        (skipping("v1.8.0"), Look),
    ] {
        let seen = row("install-disk", &host, &around(), &wanted);
        assert_eq!(seen.0, expected, "{wanted:?}: {}", seen.1);
    }
    let (_, said) = row(
        "install-disk",
        &host,
        &around(),
        &with("/dev/sdd", None, "v1.8.1"),
    );
    assert!(
        said.contains("/dev/sdd (node.yaml:5): there is no such disk; there are sda 200 GiB"),
        "{said}"
    );
}

#[test]
fn a_disk_is_as_fast_as_its_slowest_writes_and_a_worker_needs_none() {
    let around = |fsync| Surroundings { fsync, ..around() };
    let seen = |fsync, wanted: &WantedNode| row("etcd-disk", &machine(), &around(fsync), wanted);
    assert_eq!(seen(Some(Reading::Known(fsync(9_999))), &wanted()).0, Fine);
    let (outcome, said) = seen(Some(Reading::Known(fsync(10_000))), &wanted());
    assert_eq!(outcome, Fails);
    assert!(said.contains("99% within 10 ms"), "{said}");
    assert_eq!(seen(Some(Reading::unknown("full")), &wanted()).0, Unknown);
    let (outcome, said) = seen(None, &wanted());
    assert_eq!(outcome, Unknown);
    assert!(said.contains("--disk-test"), "{said}");
    let worker = WantedNode {
        role: PlannedRole::Worker,
        ..wanted()
    };
    assert_eq!(seen(None, &worker).0, NotAsked);
}

#[test]
fn links_are_found_by_name_and_by_hardware_address_and_one_that_is_down_is_not_known() {
    let mut host = machine();
    let by_mac = |mac: &str| {
        let text =
            format!("install: {{managementInterface: {{interfaces: [{{hwAddr: '{mac}'}}]}}}}\n");
        harvester_node("n", &yaml::parse_configuration(&text).unwrap().unwrap())
    };
    assert_eq!(outcome("links", &host, &wanted()), Fine);
    assert_eq!(outcome("links", &host, &by_mac("52:54:00:00:00:01")), Fine);
    assert_eq!(outcome("links", &host, &by_mac("52:54:00:00:00:02")), Fails);
    assert_eq!(outcome("links", &host, &by_mac("52:54")), Fails);
    for (state, expected) in [(LinkState::NoCarrier, Fails), (LinkState::Down, Unknown)] {
        let mut down = link("ens3", 10_000);
        down.state = Reading::Known(state);
        host.links = Reading::Known(vec![down]);
        assert_eq!(outcome("links", &host, &wanted()), expected, "{state:?}");
    }
    host.links = Reading::Known(vec![link("ens4", 10_000)]);
    let (_, said) = row("links", &host, &around(), &wanted());
    assert!(
        said.contains("ens3 (node.yaml:8): there is no such link; there are ens4"),
        "{said}"
    );
}

#[test]
fn a_slow_link_fails_and_one_that_tells_no_speed_is_not_known() {
    let with = |speed: Reading<u32>| {
        let mut one = link("ens3", 0);
        one.speed = speed;
        HostFacts {
            links: Reading::Known(vec![one]),
            ..machine()
        }
    };
    let by_hand = WantedNode {
        automatic: false,
        ..wanted()
    };
    for (speed, expected) in [
        (Reading::Known(100), Fails),
        (Reading::Known(1_000), Look),
        (Reading::Known(2_500), Look),
        (Reading::Known(10_000), Fine),
        (Reading::unknown("virtio"), Unknown),
    ] {
        assert_eq!(
            outcome("link-speed", &with(speed.clone()), &by_hand),
            expected,
            "{speed:?}"
        );
    }
    assert_eq!(
        outcome("link-speed", &with(Reading::Known(10)), &rke2()),
        NotAsked
    );
}

#[test]
fn an_mtu_is_one_that_the_installer_takes() {
    let with = |mtu: &str| {
        let text = format!(
            "install: {{managementInterface: {{mtu: {mtu}, interfaces: [{{name: ens3}}]}}}}\n"
        );
        harvester_node("n", &yaml::parse_configuration(&text).unwrap().unwrap())
    };
    for (mtu, expected) in [
        ("0", NotAsked),
        ("500", Fails),
        ("9001", Fails),
        ("1500", Fine),
        ("9000", Look),
    ] {
        assert_eq!(outcome("mtu", &machine(), &with(mtu)), expected, "{mtu}");
    }
}

#[test]
fn an_address_in_use_and_a_port_in_use_are_named_with_who_has_them() {
    let claim = AddressClaim {
        mac: "02:00:00:00:00:07".to_owned(),
        probes: false,
    };
    let taken = Surroundings {
        addresses: vec![vip(Reading::Known(vec![claim]))],
        ports: Reading::Known(vec![PortHolder {
            port: 6443,
            protocol: Protocol::Tcp,
            address: "0.0.0.0".parse().unwrap(),
            process: Some("k3s (pid 7)".to_owned()),
        }]),
        ..around()
    };
    let seen = |check, wanted: &WantedNode| row(check, &machine(), &taken, wanted);
    assert_eq!(
        seen("addresses-free", &wanted()),
        (Fails, "10.0.0.10: 02:00:00:00:00:07 has it".to_owned())
    );
    let (outcome, said) = seen("ports-free", &wanted());
    assert_eq!(outcome, Fails);
    assert!(
        said.contains("TCP 6443 (kube-apiserver) is taken by k3s (pid 7) on 0.0.0.0"),
        "{said}"
    );
    let witness = WantedNode {
        role: PlannedRole::Witness,
        ..wanted()
    };
    assert_eq!(seen("ports-free", &witness).0, Fine);
    let unheard = Surroundings {
        addresses: vec![vip(Reading::unknown("no right"))],
        ..around()
    };
    assert_eq!(
        row("addresses-free", &machine(), &unheard, &wanted()).0,
        Unknown
    );
}

#[test]
fn one_name_server_that_answers_is_enough_and_none_fails() {
    let server = |server: &str, answer: Reading<Vec<std::net::IpAddr>>| DnsReading {
        server: server.to_owned(),
        name: "time.example".to_owned(),
        answer,
    };
    let right = || Reading::Known(vec!["10.0.0.3".parse().unwrap()]);
    let silent = || Reading::unknown("does not answer within 6 s");
    for (servers, expected) in [
        (vec![server("a", right())], Fine),
        (vec![server("a", right()), server("b", silent())], Look),
        (vec![server("a", silent()), server("b", silent())], Fails),
        (vec![server("a", Reading::Known(Vec::new()))], Fails),
        (
            vec![
                server("a", right()),
                server("b", Reading::Known(Vec::new())),
            ],
            Look,
        ),
        (Vec::new(), Fails),
    ] {
        let around = Surroundings {
            name_servers: servers.clone(),
            ..around()
        };
        let seen = row("name-servers", &machine(), &around, &wanted());
        assert_eq!(seen.0, expected, "{servers:?}: {}", seen.1);
    }
}

#[test]
fn a_clock_that_is_off_is_worth_a_look_and_silent_time_servers_fail() {
    let with = |times: Vec<Reading<i64>>| Surroundings {
        time_servers: times
            .into_iter()
            .map(|behind_millis| NtpReading {
                server: "t".to_owned(),
                behind_millis,
            })
            .collect(),
        ..around()
    };
    let seen = |times| row("time-servers", &machine(), &with(times), &wanted());
    assert_eq!(seen(vec![Reading::Known(900)]).0, Fine);
    let (outcome, said) = seen(vec![Reading::Known(-7_200_000)]);
    assert_eq!(outcome, Look);
    assert!(said.contains("2 h ahead"), "{said}");
    assert_eq!(seen(vec![Reading::unknown("silent")]).0, Fails);
    assert_eq!(
        seen(vec![Reading::unknown("silent"), Reading::Known(1)]).0,
        Look
    );
    assert_eq!(seen(Vec::new()).0, NotAsked);
}

#[test]
fn names_that_kubernetes_refuses_are_refused() {
    for (name, expected) in [
        ("node1", Fine),
        ("node-1.rack.example", Fine),
        ("Node1", Fails),
        ("node_1", Fails),
        ("-node", Fails),
        ("node-", Fails),
        ("localhost", Fails),
        ("localhost.localdomain", Fails),
        ("a..b", Fails),
        ("", Fails),
    ] {
        let mut host = machine();
        host.machine.hostname = known(name);
        assert_eq!(outcome("hostname", &host, &rke2()), expected, "{name:?}");
    }
    let long = "a".repeat(64);
    let mut host = machine();
    host.machine.hostname = known(&long);
    assert_eq!(outcome("hostname", &host, &rke2()), Fails);
    // An installation names the node itself.
    assert_eq!(outcome("hostname", &host, &wanted()), Fine);
}

#[test]
fn heat_fails_and_a_placeholder_for_a_serial_number_is_worth_a_look() {
    let mut host = machine();
    host.temperatures = Reading::Known(vec![sensor(60.0), sensor(91.0)]);
    assert_eq!(outcome("temperature", &host, &wanted()), Fails);
    host.temperatures = Reading::unknown("none");
    assert_eq!(outcome("temperature", &host, &wanted()), NotAsked);
    host.machine.serial = known("To be filled by O.E.M.");
    assert_eq!(outcome("identity", &host, &wanted()), Look);
    host.machine.serial = Reading::unknown("no right to read it");
    assert_eq!(outcome("identity", &host, &wanted()), Unknown);
    let verdict = judged(&host, &around(), &wanted()).verdict;
    assert_eq!(
        verdict,
        PreflightVerdict::Fine,
        "a serial number decides nothing"
    );
}

#[test]
fn a_link_that_loses_packets_is_worth_a_look_once_it_has_carried_enough_to_tell() {
    let with = |packets: u64, errors: u64| {
        let mut one = link("ens3", 10_000);
        (one.packets, one.errors) = (packets, errors);
        HostFacts {
            links: Reading::Known(vec![one]),
            ..machine()
        }
    };
    assert_eq!(
        outcome("link-errors", &with(1_000_000, 50), &wanted()),
        Fine
    );
    assert_eq!(
        outcome("link-errors", &with(1_000_000, 500), &wanted()),
        Look
    );
    assert_eq!(outcome("link-errors", &with(10, 5), &wanted()), Fine);
}

#[test]
fn little_room_fails_where_the_file_systems_are_there_already() {
    let mut host = machine();
    host.directories[0].free = 9 * GIB;
    let (outcome_now, said) = row("space", &host, &around(), &rke2());
    assert_eq!(outcome_now, Fails);
    assert!(said.contains("9% of the space free"), "{said}");
    assert_eq!(outcome("space", &host, &wanted()), NotAsked);
    host.directories[0].free = 50 * GIB;
    (host.directories[0].inodes, host.directories[0].free_inodes) = (1000, 40);
    assert_eq!(outcome("space", &host, &rke2()), Fails);
    host.directories.clear();
    assert_eq!(outcome("space", &host, &rke2()), Unknown);
}

#[test]
fn a_cluster_that_does_not_answer_cannot_be_joined() {
    let with = |answers| Surroundings {
        join: Some(JoinReading {
            server: "vip.example port 443".to_owned(),
            answers,
        }),
        ..around()
    };
    let seen = |answers| row("join", &machine(), &with(answers), &wanted()).0;
    assert_eq!(seen(Reading::Known(true)), Fine);
    assert_eq!(seen(Reading::unknown("it refuses the connection")), Fails);
}

#[test]
fn a_preflight_is_read_as_it_was_written() {
    let all = judged(&machine(), &around(), &wanted());
    let text = serde_json::to_string(&all).unwrap();
    let read: Preflight = serde_json::from_str(&text).unwrap();
    assert_eq!(read, all);
}
