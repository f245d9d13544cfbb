//! Tests of processors, memory, firmware, disks and heat.

use super::*;

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
        (7, &by_hand, Fail),
        (7, &skipping, Warn),
        (8, &by_hand, Warn),
        (8, &skipping, Warn),
        (8, &wanted(), Fail),
        (8, &production, Fail),
        (16, &wanted(), Pass),
        (1, &rke2(), Fail),
        (2, &rke2(), Warn),
        (4, &rke2(), Pass),
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
        (with(32_856_636 << 10, unknown()), Warn),
        (with(28 * GIB, unknown()), Fail),
        (with(65_758_888 << 10, unknown()), Pass),
        (with(62 * GIB, Reading::Known(63 * GIB)), Warn),
        (with(62 * GIB, Reading::Known(64 * GIB)), Pass),
    ] {
        assert_eq!(outcome("memory", &host, &by_hand), expected, "{host:?}");
    }
}

#[test]
fn a_legacy_bios_is_judged_by_release() {
    let mut host = machine();
    host.machine.firmware = Reading::Known(Firmware::Bios);
    for (version, expected) in [("v1.6.1", Pass), ("v1.7.1", Fail), ("v1.8.1", Fail)] {
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
    assert_eq!(outcome("firmware", &host, &skipping("v1.7.1")), Warn);
    assert_eq!(outcome("firmware", &host, &skipping("v1.8.1")), Fail);
    assert_eq!(outcome("firmware", &host, &rke2()), NotChecked);
}

#[test]
fn without_kvm_a_node_fails_and_a_virtual_one_only_looks_odd() {
    let mut host = machine();
    host.machine.kvm = Reading::Known(false);
    assert_eq!(outcome("virtualisation", &host, &wanted()), Fail);
    assert_eq!(outcome("virtualisation", &host, &rke2()), NotChecked);
    let witness = WantedNode {
        role: PlannedRole::Witness,
        automatic: false,
        ..wanted()
    };
    assert_eq!(outcome("virtualisation", &host, &witness), Warn);
    host.machine.hypervisor = known("kvm");
    assert_eq!(outcome("bare-metal", &host, &wanted()), Fail);
    assert_eq!(outcome("bare-metal", &host, &witness), Warn);
    assert_eq!(outcome("bare-metal", &host, &rke2()), NotChecked);
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
        (with("/dev/sdc", None, "v1.8.1"), Pass),
        (with("/dev/disk/by-id/sdc", None, "v1.8.1"), Pass),
        (with("/dev/sda", None, "v1.8.1"), Fail),
        (with("/dev/sda", Some("/dev/sdc"), "v1.8.1"), Pass),
        (with("/dev/sda", Some("/dev/sdb"), "v1.8.1"), Warn),
        (with("/dev/sdd", None, "v1.8.1"), Fail),
        (with("/dev/mapper/mpatha", None, "v1.8.1"), Unknown),
        (witness("v1.5.2"), Fail),
        (witness("v1.6.0"), Pass),
        (skipping("v1.7.1"), Fail),
        (skipping("v1.8.0"), Warn),
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
fn a_disk_is_found_by_every_link_that_leads_to_it() {
    let mut wanted = wanted();
    let mut with = |device: &str, leads_to: Option<Reading<String>>| {
        if let Some(choice) = &mut wanted.disks.device {
            choice.text = device.to_owned();
        }
        let reading = leads_to.map(|leads_to| DeviceReading {
            device: device.to_owned(),
            leads_to,
        });
        let around = Surroundings {
            devices: reading.into_iter().collect(),
            ..around()
        };
        row("install-disk", &machine(), &around, &wanted)
    };
    let label = "/dev/disk/by-label/OS";
    assert_eq!(with("/dev/rootdisk", Some(known("sda"))).0, Pass);
    assert_eq!(with(label, Some(known("sda"))).0, Pass);
    let (outcome, said) = with("/dev/disk/by-id/wwn-1", Some(known("dm-0")));
    assert_eq!(outcome, Unknown);
    assert!(said.contains("leads to dm-0"), "{said}");
    let gone = || Some(Reading::unknown("there is no such device"));
    assert_eq!(with(label, gone()).0, Fail);
    // The machine was read for another configuration.
    assert_eq!(with(label, None).0, Unknown);
    assert_eq!(with("/dev/disk/by-id/wwn-1", None).0, Fail);
    assert_eq!(with("/dev/rootdisk", None).0, Fail);
}

#[test]
fn where_no_disk_is_named_the_largest_that_stays_in_the_machine_counts() {
    let mut wanted = wanted();
    wanted.disks.device = None;
    let mut host = machine();
    let mut stick = disk("sdz", 2000);
    stick.removable = true;
    for (disks, expected) in [
        (vec![disk("sda", 900), stick.clone()], Pass),
        (vec![disk("sda", 100), stick.clone()], Fail),
        (vec![stick], Fail),
    ] {
        host.disks = Reading::Known(disks);
        let seen = row("install-disk", &host, &around(), &wanted);
        assert_eq!(seen.0, expected, "{}", seen.1);
    }
}

#[test]
fn a_disk_is_as_fast_as_its_slowest_writes_and_a_worker_needs_none() {
    let around = |fsync| Surroundings { fsync, ..around() };
    let seen = |fsync, wanted: &WantedNode| row("etcd-disk", &machine(), &around(fsync), wanted);
    let (outcome, said) = seen(Some(Reading::Known(fsync(9_999))), &wanted());
    assert_eq!(outcome, Pass);
    assert!(
        said.contains("half within 0.50 ms, 99% within 9.99 ms"),
        "{said}"
    );
    let (outcome, said) = seen(Some(Reading::Known(fsync(10_000))), &wanted());
    assert_eq!(outcome, Fail);
    assert!(said.contains("99% within 10 ms"), "{said}");
    assert_eq!(seen(Some(Reading::unknown("full")), &wanted()).0, Unknown);
    let (outcome, said) = seen(None, &wanted());
    assert_eq!(outcome, Unknown);
    assert!(said.contains("--disk-test"), "{said}");
    let worker = WantedNode {
        role: PlannedRole::Worker,
        ..wanted()
    };
    assert_eq!(seen(None, &worker).0, NotChecked);
}

#[test]
fn where_no_sensor_tells_its_critical_temperature_nothing_is_judged() {
    let mut host = machine();
    let mut untold = sensor(99.0);
    untold.critical = Reading::unknown("it tells none");
    host.temperatures = Reading::Known(vec![untold.clone()]);
    let (outcome, said) = row("temperature", &host, &around(), &wanted());
    assert_eq!(outcome, NotChecked);
    assert!(said.contains("no sensor reports"), "{said}");
    host.temperatures = Reading::Known(vec![untold, sensor(60.0)]);
    assert_eq!(row("temperature", &host, &around(), &wanted()).0, Pass);
}

#[test]
fn heat_fails_and_a_placeholder_for_a_serial_number_is_worth_a_look() {
    let mut host = machine();
    host.temperatures = Reading::Known(vec![sensor(60.0), sensor(91.0)]);
    let (outcome_now, said) = row("temperature", &host, &around(), &wanted());
    assert_eq!(outcome_now, Fail);
    assert!(
        said.contains("2 sensors, the hottest Package id 0 with 91 °C"),
        "{said}"
    );
    let mut without_limit = sensor(60.0);
    without_limit.critical = Reading::Known(0.0);
    host.temperatures = Reading::Known(vec![without_limit]);
    assert_eq!(outcome("temperature", &host, &wanted()), Pass);
    host.temperatures = Reading::unknown("none");
    assert_eq!(outcome("temperature", &host, &wanted()), NotChecked);
    host.machine.serial = known("To be filled by O.E.M.");
    let (outcome_now, said) = row("identity", &host, &around(), &wanted());
    assert_eq!(outcome_now, Warn);
    assert!(said.contains("Dell Inc. PowerEdge R650"), "{said}");
    host.machine.serial = Reading::unknown("no right to read it");
    assert_eq!(outcome("identity", &host, &wanted()), Unknown);
    let verdict = judged(&host, &around(), &wanted()).list.verdict;
    assert_eq!(verdict, Pass, "a serial number decides nothing");
}

#[test]
fn little_room_fails_where_the_file_systems_are_there_already() {
    let mut host = machine();
    host.directories[0].free = 9 * GIB;
    let (outcome_now, said) = row("space", &host, &around(), &rke2());
    assert_eq!(outcome_now, Fail);
    assert!(said.contains("9% of the space free"), "{said}");
    assert_eq!(outcome("space", &host, &wanted()), NotChecked);
    host.directories[0].free = 50 * GIB;
    (host.directories[0].inodes, host.directories[0].free_inodes) = (1000, 40);
    assert_eq!(outcome("space", &host, &rke2()), Fail);
    host.directories[0].unknown = Some("no right to read it".to_owned());
    assert_eq!(outcome("space", &host, &rke2()), Unknown);
    host.directories.clear();
    assert_eq!(outcome("space", &host, &rke2()), Unknown);
}
