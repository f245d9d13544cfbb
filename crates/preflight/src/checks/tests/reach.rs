//! Tests of requests that failed, and of answers from another network than the configured one.

use super::*;
use crate::Unanswered;

/// A node with a fixed address, a VIP and several servers.
fn node(management: &str) -> WantedNode {
    let text = format!(
        "os: {{dnsNameservers: [10.0.0.2], ntpServers: [time.example]}}\n\
         serverUrl: https://10.0.0.9:443\n\
         install: {{mode: join, managementInterface: {{interfaces: [{{name: ens3}}], {management}}}}}\n"
    );
    harvester_node("n", &yaml::parse_configuration(&text).unwrap().unwrap())
}

/// Surroundings in which no server answers, all for one reason.
fn unanswered(why: fn(&'static str) -> Unanswered) -> Surroundings {
    let name = || "10.0.0.2".to_owned();
    Surroundings {
        name_servers: vec![DnsReading::of(
            name(),
            "time.example".to_owned(),
            Err(why("is away")),
        )],
        time_servers: vec![NtpReading::of(
            "time.example".to_owned(),
            Err(why("is away")),
        )],
        join: Some(JoinReading::of(
            "10.0.0.9 port 443".to_owned(),
            Err(why("is away")),
        )),
        default_route: Reading::Known(false),
        ..around()
    }
}

const SERVERS: [&str; 3] = ["name-servers", "time-servers", "join"];

#[test]
fn what_could_not_be_asked_is_unknown_and_what_stays_silent_fails() {
    let there = node("method: dhcp");
    for (around, expected) in [
        (unanswered(Unanswered::not_asked), Unknown),
        (unanswered(Unanswered::silent), Fail),
        (unanswered(Unanswered::refused), Fail),
    ] {
        for check in SERVERS {
            let (outcome, said) = row(check, &machine(), &around, &there);
            assert_eq!(outcome, expected, "{check}: {said}");
        }
    }
}

#[test]
fn a_server_that_could_not_be_asked_is_worth_a_look_beside_one_that_answers() {
    let mut around = around();
    let unreachable = Err(Unanswered::not_asked("cannot be asked"));
    around.name_servers.push(DnsReading::of(
        "2001:db8::2".to_owned(),
        "time.example".to_owned(),
        unreachable,
    ));
    assert_eq!(row("name-servers", &machine(), &around, &wanted()).0, Warn);
    // The other server may know it.
    around.name_servers[0].answer = Reading::Known(Vec::new());
    assert_eq!(
        row("name-servers", &machine(), &around, &wanted()).0,
        Unknown
    );
}

#[test]
fn a_name_that_a_server_refuses_is_not_the_silence_of_the_server() {
    let mut around = around();
    let refused = || Err(Unanswered::refused("refuses to answer (REFUSED)"));
    let name = || "time.example".to_owned();
    around
        .name_servers
        .push(DnsReading::of("10.0.0.4".to_owned(), name(), refused()));
    let (outcome, said) = row("name-servers", &machine(), &around, &wanted());
    assert_eq!(outcome, Warn, "{said}");
    assert!(said.contains("10.0.0.2, 10.0.0.4 answers"), "{said}");
    around.name_servers.remove(0);
    let (outcome, said) = row("name-servers", &machine(), &around, &wanted());
    assert_eq!(outcome, Fail);
    assert!(
        said.contains("10.0.0.4, asked for time.example, refuses"),
        "{said}"
    );
}

#[test]
fn until_the_installer_has_made_the_network_silence_and_a_missing_route_are_unknown() {
    let silent = unanswered(Unanswered::silent);
    let mut without_address = link("ens3", 10_000);
    without_address.addresses = vec![("fe80::1".parse().unwrap(), 64)];
    let mut booted_by = link("ens4", 10_000);
    booted_by.addresses = vec![("172.16.0.9".parse().unwrap(), 24)];
    let host = HostFacts {
        links: Reading::Known(vec![without_address, booted_by]),
        ..machine()
    };
    for management in [
        "method: dhcp",
        "method: dhcp, vlanId: 100",
        "method: static, ip: 10.0.0.5",
    ] {
        let node = node(management);
        for check in SERVERS {
            let (outcome, said) = row(check, &host, &silent, &node);
            assert_eq!(outcome, Unknown, "{management}, {check}: {said}");
        }
        let (outcome, said) = row("default-route", &host, &silent, &node);
        let expected = match management.contains("static") {
            true => Warn,
            false => Unknown,
        };
        assert_eq!(outcome, expected, "{management}: {said}");
    }
    let unconfigured = WantedNode::bare(Platform::Harvester, PlannedRole::Server);
    let (outcome, said) = row("name-servers", &machine(), &silent, &unconfigured);
    assert_eq!(outcome, Unknown, "{said}");
    let (outcome, said) = row("default-route", &machine(), &silent, &unconfigured);
    assert_eq!(outcome, Warn);
    assert!(!said.contains("fixed address"), "{said}");
    assert_eq!(row("name-servers", &machine(), &silent, &rke2()).0, Fail);
}

#[test]
fn on_the_network_of_the_configuration_silence_and_a_missing_route_fail() {
    let silent = unanswered(Unanswered::silent);
    let mut tagged = link("mgmt-br.100", 10_000);
    (tagged.physical, tagged.vlan) = (false, Some(100));
    let on_vlan = HostFacts {
        links: Reading::Known(vec![link("ens3", 10_000), tagged]),
        ..machine()
    };
    for (host, management) in [
        (&machine(), "method: dhcp"),
        (&machine(), "method: static, ip: 10.0.0.77"),
        (&on_vlan, "method: dhcp, vlanId: 100"),
        (&on_vlan, "method: static, ip: 10.0.0.77, vlanId: 100"),
        // VLAN 1 means untagged.
        (&machine(), "method: dhcp, vlanId: 1"),
    ] {
        let node = node(management);
        for check in SERVERS {
            assert_eq!(
                row(check, host, &silent, &node).0,
                Fail,
                "{management}, {check}"
            );
        }
        if node.management.dhcp {
            assert_eq!(
                row("default-route", host, &silent, &node).0,
                Fail,
                "{management}"
            );
        }
    }
}

#[test]
fn an_address_is_free_only_where_its_vlan_was_asked() {
    let mut tagged = wanted();
    tagged.management.vlan = Some(100);
    let (outcome, said) = row("addresses-free", &machine(), &around(), &tagged);
    assert_eq!(outcome, Unknown);
    assert!(
        said.contains("10.0.0.10: the management network will be on VLAN 100"),
        "{said}"
    );
    let mut host = machine();
    let mut link = link("ens3.100", 10_000);
    link.vlan = Some(100);
    host.links = Reading::Known(vec![link]);
    assert_eq!(row("addresses-free", &host, &around(), &tagged).0, Pass);
}

#[test]
fn links_that_are_switched_off_are_not_known_to_be_without_a_cable() {
    let bare = WantedNode::bare(Platform::Harvester, PlannedRole::Server);
    let with = |states: [LinkState; 2]| {
        let links = states.map(|state| {
            let mut one = link("p1p1", 10_000);
            one.state = Reading::Known(state);
            one
        });
        HostFacts {
            links: Reading::Known(links.to_vec()),
            ..machine()
        }
    };
    for (states, expected) in [
        ([LinkState::Down, LinkState::Down], Unknown),
        ([LinkState::Down, LinkState::NoCarrier], Unknown),
        ([LinkState::NoCarrier, LinkState::NoCarrier], Fail),
        ([LinkState::Down, LinkState::Up], Pass),
    ] {
        let (outcome, said) = row("links", &with(states), &around(), &bare);
        assert_eq!(outcome, expected, "{states:?}: {said}");
    }
    let (_, said) = row("links", &with([LinkState::Down; 2]), &around(), &bare);
    assert!(said.contains("ip link set p1p1 up"), "{said}");
}
