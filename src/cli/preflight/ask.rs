//! Makes the checks over the network: all at once, each within a time-out.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::join_all;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use windrow_host::{HostFacts, Reading};
use windrow_preflight::address_claims::{AddressClaim, address_claims};
use windrow_preflight::minimums::PublishedMinimums;
use windrow_preflight::who_has::waits;
use windrow_preflight::{
    ConfiguredValue, DeviceReading, DnsReading, FsyncReading, JoinReading, NtpReading, PlannedRole,
    Surroundings, Unanswered, VipReading, WantedNode, dns, host_of, ntp,
};

use super::super::cluster::runtime;
use super::super::document::now;
use super::Args;
use crate::backoff::random;
use crate::causes::plain;
use crate::fs;
use crate::inspect::disk_timing::measure_fsync;
use crate::inspect::servers::{
    ask_for_time, find_name, look_up, resolver_configuration, takes_connections,
};
use crate::inspect::sockets::listeners;
use crate::inspect::who_has::{Claims, ask_who_has};
use crate::layout::Layout;
use crate::observe::host::{device_behind, file_system_of, nearest_directory};
use crate::observe::network::{has_default_route, has_our_links};
use crate::observe::probes::clock_is_synchronised;

/// How long a measurement of 5 s may take: a disk that hangs ends no write.
const LONGEST_WRITE: Duration = Duration::from_secs(20);
/// A cluster of Harvester is joined over HTTPS.
const HTTPS: u16 = 443;
/// Why a node below another root has no network checks.
const ELSEWHERE: &str = "not available with --root";

/// Makes the checks that need the network or the disk, and reads the state of the clock.
pub(super) fn ask_around(
    args: &Args,
    layout: &Layout,
    wanted: &WantedNode,
    host: &HostFacts,
) -> io::Result<(Surroundings, Reading<bool>)> {
    // For every platform and role: the readings may be judged for another one later (`--from`).
    let needed = PublishedMinimums::shipped().ports.list.iter();
    let needed: Vec<_> = needed.map(|port| (port.port, port.protocol)).collect();
    let default_route = has_default_route(layout);
    let default_route = default_route.map_err(|(path, why)| plain(&format!("{path}: {why}")));
    let runtime = runtime()?;
    let (fsync, network, clock) = runtime.block_on(async {
        tokio::join!(
            measured(args, layout, wanted),
            network(args, layout, wanted, host),
            synchronised(layout)
        )
    });
    // A disk or a resolver that does not answer keeps its thread.
    runtime.shutdown_background();
    let surroundings = Surroundings {
        devices: devices(layout, wanted),
        ports: listeners(layout, &needed).into(),
        default_route: default_route.into(),
        fsync,
        ..network
    };
    Ok((surroundings, clock.into()))
}

fn devices(layout: &Layout, wanted: &WantedNode) -> Vec<DeviceReading> {
    let named = wanted.disks.device.iter().chain(&wanted.disks.data);
    let reading = |device: &ConfiguredValue| DeviceReading {
        device: device.text.clone(),
        leads_to: device_behind(layout, &device.text),
    };
    named.map(reading).collect()
}

/// Announces a check that takes seconds.
fn say(what: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("windrow: {what}");
    }
}

async fn synchronised(layout: &Layout) -> Result<bool, String> {
    match layout.is_this_machine() {
        true => clock_is_synchronised().await,
        false => Err(ELSEWHERE.to_owned()),
    }
}

/// The duration of writes in etcd's directory; `None` if it is unknown.
async fn measured(
    args: &Args,
    layout: &Layout,
    wanted: &WantedNode,
) -> Option<Reading<FsyncReading>> {
    if wanted.role == PlannedRole::Worker {
        return None;
    }
    let database = layout.data_dir().join("server/db");
    if args.disk_test.is_none() && !layout.is_this_machine() {
        // This machine's disk says nothing about the disk of that node.
        return Some(Reading::unknown(ELSEWHERE));
    }
    let directory = match &args.disk_test {
        Some(directory) => directory.clone(),
        None => match directory_of_etcd(&database) {
            Ok(directory) => directory,
            Err(why) => return Some(Reading::unknown(why)),
        },
    };
    say(&format!(
        "measuring writes in {} (5 s at most)",
        directory.display()
    ));
    let file_system = file_system_of(layout, &directory);
    let measuring = spawn_blocking(move || measure_fsync(&directory, file_system.as_deref()));
    let measured = match timeout(LONGEST_WRITE, measuring).await {
        Ok(measured) => measured.unwrap_or_else(|error| Err(error.to_string())),
        Err(_) => {
            let seconds = LONGEST_WRITE.as_secs();
            Err(format!(
                "a write has not finished after {seconds} s: is the disk healthy?"
            ))
        }
    };
    Some(measured.into())
}

/// The directory where etcd will have its data.
///
/// # Errors
///
/// Why nothing is to be written there.
fn directory_of_etcd(database: &Path) -> Result<PathBuf, String> {
    let unread = |error: io::Error| format!("{} cannot be read: {error}", database.display());
    if fs::try_exists(database.join("etcd/member")).map_err(unread)? {
        let why = "etcd already has its data here, and a measurement would disturb it: set the directory with --disk-test";
        return Err(why.to_owned());
    }
    nearest_directory(database).map_err(unread)
}

async fn network(
    args: &Args,
    layout: &Layout,
    wanted: &WantedNode,
    host: &HostFacts,
) -> Surroundings {
    if args.offline {
        return Surroundings {
            offline: true,
            ..Surroundings::default()
        };
    }
    // The node's own configuration is about its network, which differs if the root is not this machine's.
    if args.config.is_none() && !has_our_links(layout) {
        let elsewhere = |address: &ConfiguredValue| VipReading {
            address: address.text.clone(),
            own: false,
            claims: Reading::unknown(ELSEWHERE),
        };
        return Surroundings {
            not_asked: Some(ELSEWHERE.to_owned()),
            addresses: wanted.addresses().map(elsewhere).collect(),
            ..Surroundings::default()
        };
    }
    let (addresses, servers) = tokio::join!(
        addresses(args, wanted, host),
        servers(layout, wanted, (dns::PORT, ntp::PORT))
    );
    Surroundings {
        addresses,
        ..servers
    }
}

/// The interface to use; `None` if the address decides.
///
/// # Errors
///
/// The reason why no interface is suitable.
fn link_to_ask(
    named: Option<&str>,
    wanted: &WantedNode,
    host: &HostFacts,
) -> Result<Option<String>, String> {
    if let Some(vlan) = wanted.management.vlan {
        return link_of_vlan(named, vlan, host).map(Some);
    }
    if let Some(named) = named {
        return Ok(Some(named.to_owned()));
    }
    let management = wanted.management.links.iter();
    let mut configured = management.filter_map(|link| match (&link.mac, &link.name) {
        (Some(Ok(mac)), _) => {
            let mut links = host.nics();
            links.find(|it| it.mac == *mac).map(|it| it.name.clone())
        }
        (_, name) => name.clone(),
    });
    Ok(configured.find(|name| host.link(name).is_some()))
}

fn link_of_vlan(named: Option<&str>, vlan: u16, host: &HostFacts) -> Result<String, String> {
    let link = match named {
        Some(name) => host.link(name).filter(|link| link.vlan == Some(vlan)),
        None => host.vlan_link(vlan),
    };
    match (link, named) {
        (Some(link), _) => Ok(link.name.clone()),
        (None, Some(name)) => Err(format!("{name} is not the interface of VLAN {vlan}")),
        (None, None) => Err(format!("this host has no interface for VLAN {vlan} yet")),
    }
}

async fn addresses(args: &Args, wanted: &WantedNode, host: &HostFacts) -> Vec<VipReading> {
    let link = link_to_ask(args.interface.as_deref(), wanted, host);
    let asked = wanted.addresses().map(|address| {
        let (text, link) = (address.text.clone(), link.clone());
        async move {
            let (own, claims) = match link {
                Ok(link) => claims(&text, link).await,
                Err(why) => (false, Err(why)),
            };
            VipReading {
                address: text,
                own,
                claims: claims.into(),
            }
        }
    });
    join_all(asked).await
}

async fn claims(address: &str, link: Option<String>) -> (bool, Result<Vec<AddressClaim>, String>) {
    let Ok(address) = address.parse::<IpAddr>() else {
        return (false, Err("it is not a valid IP address".to_owned()));
    };
    say(&format!("checking whether {address} is in use (7 s)"));
    let waits = waits([random(), random(), random()]);
    let asked = spawn_blocking(move || ask_who_has(address, link.as_deref(), waits)).await;
    match asked.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(Claims { link, others }) => (link.has(address), Ok(address_claims(&others))),
        Err(why) => (false, Err(why)),
    }
}

/// Asks the name servers, and then, at the addresses that they return, the time servers and the cluster. `ports`: those
/// of names and time.
async fn servers(layout: &Layout, wanted: &WantedNode, ports: (u16, u16)) -> Surroundings {
    let configured = wanted.name_servers.iter();
    let mut servers: Vec<String> = configured.map(|one| one.text.clone()).collect();
    let resolver = resolver_configuration(layout);
    let unread = resolver.as_ref().err().filter(|_| servers.is_empty());
    let unread = unread.cloned();
    let resolver = resolver.unwrap_or_default();
    if servers.is_empty() {
        servers = resolver.servers;
    }
    let search = &resolver.search;
    let mut names: Vec<&str> = wanted.names().collect();
    names.dedup();
    if names.is_empty() {
        names.push(dns::ROOT);
    }
    let questions = servers
        .iter()
        .flat_map(|server| names.iter().map(move |name| (server, *name)));
    let readings = questions.map(|(server, name)| async move {
        let answer = match server.parse::<IpAddr>() {
            Ok(address) => {
                let id = random().to_le_bytes();
                let id = u16::from_le_bytes([id[0], id[1]]);
                find_name(SocketAddr::new(address, ports.0), name, search, id).await
            }
            Err(_) => Err(Unanswered::silent("is not a valid IP address")),
        };
        DnsReading::of(server.clone(), name.to_owned(), answer)
    });
    let mut readings = join_all(readings).await;
    if let Some(why) = unread {
        let answer = Err(Unanswered::not_asked(format!("has no name server: {why}")));
        let name = names.first().copied().unwrap_or(dns::ROOT).to_owned();
        readings.push(DnsReading::of("/etc/resolv.conf".to_owned(), name, answer));
    }
    let mut known: BTreeMap<&str, IpAddr> = BTreeMap::new();
    for reading in &readings {
        let address = reading.answer.known().and_then(|all| all.first());
        known.extend(address.map(|address| (reading.name.as_str(), *address)));
    }
    let times = wanted.time_servers.iter().map(|server| {
        let server = &server.text;
        let literal = server.parse::<IpAddr>().ok();
        let address = literal.or_else(|| known.get(server.as_str()).copied());
        async move {
            let told = match address {
                Some(address) => ask_for_time(SocketAddr::new(address, ports.1), now).await,
                None => Err(Unanswered::not_asked(
                    "was not checked: no name server knows its address",
                )),
            };
            NtpReading::of(server.clone(), told)
        }
    });
    let (time_servers, join) = tokio::join!(join_all(times), join(wanted, &known));
    Surroundings {
        name_servers: readings,
        time_servers,
        join,
        ..Surroundings::default()
    }
}

/// The cluster to join, at the address that the name servers return. The URL may hold a password: only its host is
/// shown.
async fn join(wanted: &WantedNode, known: &BTreeMap<&str, IpAddr>) -> Option<JoinReading> {
    let url = &wanted.join.as_ref()?.text;
    let host = host_of(url)?;
    let rest = url.rsplit_once(host).map_or("", |(_, rest)| rest);
    let port = rest.trim_start_matches([']', ':']).split('/').next();
    let port = port.and_then(|port| port.parse().ok()).unwrap_or(HTTPS);
    let literal = host.parse::<IpAddr>().ok();
    let address = match literal.or_else(|| known.get(host).copied()) {
        Some(address) => Ok(SocketAddr::new(address, port)),
        None => look_up(host, port).await,
    };
    let answers = match address {
        Ok(address) => takes_connections(address).await,
        Err(why) => Err(why),
    };
    Some(JoinReading::of(format!("{host} port {port}"), answers))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::thread;

    use windrow_host::HostLink;
    use windrow_model::findings::Location;
    use windrow_plan::rules::Platform;
    use windrow_preflight::ConfiguredValue;

    use super::*;

    /// A server on this machine that answers every packet, and its port.
    fn server(answer: fn(&[u8]) -> Vec<u8>) -> u16 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                let _ = socket.send_to(&answer(&packet[..length]), from);
            }
        });
        port
    }

    #[tokio::test]
    async fn name_and_time_servers_of_the_configuration_are_really_asked() {
        // Answers with the question's own header, and one address.
        let names = server(|packet| {
            let mut answer = packet.to_vec();
            (answer[2], answer[3], answer[7]) = (0x81, 0x80, 1);
            answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
            answer
        });
        let times = server(|packet| {
            let mut answer = packet[..48].to_vec();
            (answer[0], answer[1]) = (0x24, 2);
            answer.copy_within(40..48, 24);
            answer.copy_within(40..48, 32);
            answer
        });
        let value = |text: &str| ConfiguredValue {
            text: text.to_owned(),
            at: Location::line("node.yaml", 1),
        };
        let cluster = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = cluster.local_addr().unwrap().port();
        let wanted = WantedNode {
            name_servers: vec![value("127.0.0.1"), value("nowhere")],
            time_servers: vec![value("time.example")],
            // This machine's own resolver does not know it.
            join: Some(value(&format!("https://vip.invalid:{port}"))),
            ..WantedNode::bare(Platform::Harvester, PlannedRole::Worker)
        };
        let around = servers(&Layout::new("/"), &wanted, (names, times)).await;
        let answers = around.name_servers.iter();
        let answers = answers.map(|reading| reading.answer.known().cloned());
        let here = || Some(vec![IpAddr::from([127, 0, 0, 1])]);
        assert_eq!(answers.collect::<Vec<_>>(), [here(), here(), None, None]);
        let told = &around.time_servers;
        assert!(told[0].behind_millis.known().is_some(), "{told:?}");
        assert_eq!(around.join.unwrap().answers.known(), Some(&true));
    }

    #[test]
    fn an_address_of_a_network_with_a_vlan_is_asked_for_on_its_link_or_not_at_all() {
        let link = |name: &str, vlan: Option<u16>| HostLink {
            name: name.to_owned(),
            mac: "52:54:00:00:00:01".parse().unwrap(),
            physical: vlan.is_none(),
            virtual_function: false,
            vlan,
            state: Reading::default(),
            speed: Reading::default(),
            mtu: 1500,
            addresses: Vec::new(),
            packets: 0,
            errors: 0,
        };
        let host = |links| HostFacts {
            links: Reading::Known(links),
            ..HostFacts::default()
        };
        let mut wanted = WantedNode::bare(Platform::Harvester, PlannedRole::Server);
        let (raw, tagged) = (link("ens3", None), link("ens3.100", Some(100)));
        let both = host(vec![raw.clone(), tagged]);
        let named = Ok(Some("ens3".to_owned()));
        assert_eq!(link_to_ask(None, &wanted, &both), Ok(None));
        assert_eq!(link_to_ask(Some("ens3"), &wanted, &both), named);
        wanted.management.vlan = Some(100);
        let on_vlan = Ok(Some("ens3.100".to_owned()));
        assert_eq!(link_to_ask(None, &wanted, &both), on_vlan);
        assert_eq!(link_to_ask(Some("ens3.100"), &wanted, &both), on_vlan);
        assert!(link_to_ask(Some("ens3"), &wanted, &both).is_err());
        assert!(link_to_ask(None, &wanted, &host(vec![raw])).is_err());
    }
}
