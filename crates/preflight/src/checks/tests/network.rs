//! Tests of links, addresses, ports, names and the servers that a node uses.

use super::*;

#[test]
fn links_are_found_by_name_and_by_hardware_address_and_one_that_is_down_is_not_known() {
    let mut host = machine();
    let by_mac = |mac: &str| {
        let text =
            format!("install: {{managementInterface: {{interfaces: [{{hwAddr: '{mac}'}}]}}}}\n");
        harvester_node("n", &yaml::parse_configuration(&text).unwrap().unwrap())
    };
    assert_eq!(outcome("links", &host, &wanted()), Pass);
    assert_eq!(outcome("links", &host, &by_mac("52:54:00:00:00:01")), Pass);
    assert_eq!(outcome("links", &host, &by_mac("52:54:00:00:00:02")), Fail);
    assert_eq!(outcome("links", &host, &by_mac("52:54")), Fail);
    for (state, expected) in [(LinkState::NoCarrier, Fail), (LinkState::Down, Unknown)] {
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
        (Reading::Known(100), Fail),
        (Reading::Known(1_000), Warn),
        (Reading::Known(2_500), Warn),
        (Reading::Known(10_000), Pass),
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
        NotChecked
    );
}

#[test]
fn an_mtu_is_one_that_the_installer_takes() {
    let with_method = |method: &str, mtu: &str| {
        let text = format!(
            "install: {{managementInterface: {{method: {method}, mtu: {mtu}, interfaces: [{{name: ens3}}]}}}}\n"
        );
        harvester_node("n", &yaml::parse_configuration(&text).unwrap().unwrap())
    };
    let with = |mtu| with_method("static", mtu);
    // With DHCP, `checkNetworks` returns before this check.
    for (mtu, expected) in [
        ("9216", Warn),
        ("500", Warn),
        ("1500", Pass),
        ("much", Fail),
    ] {
        let node = with_method("dhcp", mtu);
        assert_eq!(outcome("mtu", &machine(), &node), expected, "{mtu}");
    }
    for (mtu, expected) in [
        ("0", NotChecked),
        ("500", Fail),
        ("9001", Fail),
        ("1500", Pass),
        ("9000", Warn),
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
        (Fail, "10.0.0.10: 02:00:00:00:00:07 has it".to_owned())
    );
    let (outcome, said) = seen("ports-free", &wanted());
    assert_eq!(outcome, Fail);
    assert!(
        said.contains("TCP 6443 (kube-apiserver) is taken by k3s (pid 7) on 0.0.0.0"),
        "{said}"
    );
    let witness = WantedNode {
        role: PlannedRole::Witness,
        ..wanted()
    };
    assert_eq!(seen("ports-free", &witness).0, Pass);
    let (_, said) = row("ports-free", &machine(), &around(), &wanted());
    let needed = PublishedMinimums::shipped().ports(Platform::Harvester, PlannedRole::Server);
    assert_eq!(said, format!("{} ports are free", needed.count()));
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
fn what_rke2_can_do_without_may_find_its_port_taken() {
    let with = |port| Surroundings {
        ports: Reading::Known(vec![PortHolder {
            port,
            protocol: Protocol::Tcp,
            address: "0.0.0.0".parse().unwrap(),
            process: Some("haproxy (pid 7)".to_owned()),
        }]),
        ..around()
    };
    for port in [80, 443, 9099] {
        let (outcome, said) = row("ports-free", &machine(), &with(port), &rke2());
        assert_eq!(outcome, Warn, "{said}");
        assert!(said.contains("haproxy (pid 7)"), "{said}");
        assert_eq!(
            row("ports-free", &machine(), &with(port), &wanted()).0,
            Fail
        );
    }
    assert_eq!(row("ports-free", &machine(), &with(10250), &rke2()).0, Fail);
}

#[test]
fn one_name_server_that_answers_is_enough_and_none_fails() {
    let server = |server: &str, answer: Reading<Vec<std::net::IpAddr>>| DnsReading {
        server: server.to_owned(),
        name: "time.example".to_owned(),
        answer,
        no_answer: None,
    };
    let right = || Reading::Known(vec!["10.0.0.3".parse().unwrap()]);
    let silent = || Reading::unknown("does not answer within 6 s");
    for (servers, expected) in [
        (vec![server("a", right())], Pass),
        (vec![server("a", right()), server("b", silent())], Warn),
        (vec![server("a", silent()), server("b", silent())], Fail),
        (vec![server("a", Reading::Known(Vec::new()))], Fail),
        (
            vec![
                server("a", right()),
                server("b", Reading::Known(Vec::new())),
            ],
            Warn,
        ),
        (Vec::new(), Fail),
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
                no_answer: None,
            })
            .collect(),
        ..around()
    };
    let seen = |times| row("time-servers", &machine(), &with(times), &wanted());
    assert_eq!(seen(vec![Reading::Known(900)]).0, Pass);
    let (outcome, said) = seen(vec![Reading::Known(-7_200_000)]);
    assert_eq!(outcome, Warn);
    assert!(said.contains("2 h ahead"), "{said}");
    let (_, said) = seen(vec![Reading::Known(600_000)]);
    assert!(said.contains("10 min behind"), "{said}");
    assert_eq!(seen(vec![Reading::unknown("silent")]).0, Fail);
    assert_eq!(
        seen(vec![Reading::unknown("silent"), Reading::Known(1)]).0,
        Warn
    );
    assert_eq!(seen(Vec::new()).0, NotChecked);
}

#[test]
fn names_that_kubernetes_refuses_are_refused() {
    for (name, expected) in [
        ("node1", Pass),
        ("node-1.rack.example", Pass),
        ("RACK1-Node3", Pass),
        ("node_1", Fail),
        ("-node", Fail),
        ("node-", Fail),
        ("localhost", Warn),
        ("localhost.localdomain", Warn),
        ("a..b", Fail),
        ("", Fail),
    ] {
        let mut host = machine();
        host.machine.hostname = known(name);
        assert_eq!(outcome("hostname", &host, &rke2()), expected, "{name:?}");
    }
    for name in ["Node1", "localhost"] {
        let mut named = wanted();
        if let Some(hostname) = &mut named.hostname {
            hostname.text = name.to_owned();
        }
        assert_eq!(outcome("hostname", &machine(), &named), Fail, "{name}");
    }
    let mut nameless = wanted();
    nameless.hostname = None;
    assert_eq!(outcome("hostname", &machine(), &nameless), Warn);
    let long = "a".repeat(64);
    let mut host = machine();
    host.machine.hostname = known(&long);
    assert_eq!(outcome("hostname", &host, &rke2()), Fail);
    // The installation sets the name of the node.
    assert_eq!(outcome("hostname", &host, &wanted()), Pass);
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
        Pass
    );
    assert_eq!(
        outcome("link-errors", &with(1_000_000, 500), &wanted()),
        Warn
    );
    assert_eq!(outcome("link-errors", &with(10, 5), &wanted()), Pass);
}

#[test]
fn a_cluster_that_does_not_answer_cannot_be_joined() {
    let with = |answers| Surroundings {
        join: Some(JoinReading {
            server: "vip.example port 443".to_owned(),
            answers,
            no_answer: None,
        }),
        ..around()
    };
    let seen = |answers| row("join", &machine(), &with(answers), &wanted()).0;
    assert_eq!(seen(Reading::Known(true)), Pass);
    assert_eq!(seen(Reading::unknown("it refuses the connection")), Fail);
}

#[test]
fn what_the_configuration_names_and_offline_does_not_ask_is_said_to_be_not_asked() {
    let text = "\
os: {dnsNameservers: [10.0.0.2], ntpServers: [time.example]}
serverUrl: https://10.0.0.9:443
install:
  mode: join
  managementInterface: {method: static, ip: 10.0.0.5}
";
    let node = harvester_node("n", &yaml::parse_configuration(text).unwrap().unwrap());
    let offline = Surroundings {
        offline: true,
        ..Surroundings::default()
    };
    for name in ["addresses-free", "name-servers", "time-servers", "join"] {
        let (outcome, said) = row(name, &machine(), &offline, &node);
        assert_eq!(outcome, NotChecked, "{name}");
        assert!(
            said.contains("--offline sends no network requests"),
            "{said}"
        );
    }
    let nothing = harvester_node(
        "n",
        &yaml::parse_configuration("os: {}\n").unwrap().unwrap(),
    );
    let (_, said) = row("time-servers", &machine(), &offline, &nothing);
    assert!(said.contains("no time server is given"), "{said}");
}
