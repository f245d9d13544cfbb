//! Asks around: all at once, each within a time-out.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::net::{IpAddr, SocketAddr};

use futures::future::join_all;
use tokio::task::spawn_blocking;
use windrow_harvester::vip_check::{AddressClaim, VipCheck};
use windrow_harvester::who_has::waits;
use windrow_host::minimums::PublishedMinimums;
use windrow_host::{
    ConfiguredValue, DnsReading, FsyncReading, HostFacts, JoinReading, NtpReading, PlannedRole,
    Reading, Surroundings, VipReading, WantedNode, dns, host_of, ntp,
};

use super::super::cluster::runtime;
use super::super::document::now;
use super::Args;
use crate::act::measure_fsync;
use crate::backoff::random;
use crate::causes::plain;
use crate::layout::Layout;
use crate::observe::host::{
    ask_for_time, ask_name_server, configured_name_servers, file_system_of, listeners,
    nearest_directory, takes_connections,
};
use crate::observe::network::{has_default_route, has_our_links};
use crate::observe::probes::clock_is_synchronised;
use crate::observe::who_has::{Claims, ask_who_has};

/// A cluster of Harvester is joined over HTTPS.
const HTTPS: u16 = 443;
/// Why nothing is asked for a node below another root.
const ELSEWHERE: &str = "it is asked of the machine itself, not below another root";

/// Asks what only asking tells, and the state of the clock.
pub(super) fn ask_around(
    args: &Args,
    layout: &Layout,
    wanted: &WantedNode,
    host: &HostFacts,
) -> std::io::Result<(Surroundings, Reading<bool>)> {
    let needed: Vec<_> = PublishedMinimums::shipped()
        .ports(wanted.platform, wanted.role)
        .map(|port| (port.port, port.protocol))
        .collect();
    let default_route = has_default_route(layout);
    let default_route = default_route.map_err(|(path, why)| plain(&format!("{path}: {why}")));
    let (fsync, network, clock) = runtime()?.block_on(async {
        tokio::join!(
            measured(args, layout, wanted),
            network(args, layout, wanted, host),
            synchronised(layout)
        )
    });
    let surroundings = Surroundings {
        ports: listeners(layout, &needed).into(),
        default_route: default_route.into(),
        fsync,
        ..network
    };
    Ok((surroundings, clock.into()))
}

/// Says what takes seconds, to a person who waits.
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

/// How long writes take where etcd is to live; `None` where that is not known.
async fn measured(
    args: &Args,
    layout: &Layout,
    wanted: &WantedNode,
) -> Option<Reading<FsyncReading>> {
    if wanted.role == PlannedRole::Worker {
        return None;
    }
    let database = layout.data_dir().join("server/db");
    let directory = match &args.disk_test {
        Some(directory) => directory.clone(),
        None if database.join("etcd/member").exists() => {
            let why = "etcd has its data here already, and measuring would disturb it: name the directory with --disk-test";
            return Some(Reading::unknown(why));
        }
        None => nearest_directory(&database)?,
    };
    say(&format!(
        "measuring writes in {} (5 s at most)",
        directory.display()
    ));
    let file_system = file_system_of(layout, &directory);
    let measured = spawn_blocking(move || measure_fsync(&directory, file_system.as_deref())).await;
    let measured = measured.unwrap_or_else(|error| Err(error.to_string()));
    Some(measured.into())
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
    // The node's own configuration is about its network, which is another where the root is not this machine's.
    if args.config.is_none() && !has_our_links(layout) {
        let elsewhere = |address: &ConfiguredValue| VipReading {
            address: address.text.clone(),
            own: false,
            claims: Reading::unknown(ELSEWHERE),
        };
        return Surroundings {
            addresses: wanted.addresses().map(elsewhere).collect(),
            ..Surroundings::default()
        };
    }
    let (addresses, (name_servers, time_servers), join) = tokio::join!(
        addresses(args, wanted, host),
        servers(layout, wanted, (dns::PORT, ntp::PORT)),
        join(wanted)
    );
    Surroundings {
        addresses,
        name_servers,
        time_servers,
        join,
        ..Surroundings::default()
    }
}

/// The addresses that have to be free, each asked for on its own.
async fn addresses(args: &Args, wanted: &WantedNode, host: &HostFacts) -> Vec<VipReading> {
    let management = wanted.management.links.iter();
    let mut configured = management.filter_map(|link| match (&link.mac, &link.name) {
        (Some(Ok(mac)), _) => {
            let mut links = host.nics();
            links.find(|it| it.mac == *mac).map(|it| it.name.clone())
        }
        (_, name) => name.clone(),
    });
    let configured = configured.find(|name| host.link(name).is_some());
    let link = args.interface.clone().or(configured);
    let asked = wanted.addresses().map(|address| {
        let (text, link) = (address.text.clone(), link.clone());
        async move {
            let (own, claims) = claims(&text, link).await;
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
        return (false, Err("it is no address".to_owned()));
    };
    say(&format!("asking who has {address} (7 s)"));
    let waits = waits([random(), random(), random()]);
    let asked = spawn_blocking(move || ask_who_has(address, link.as_deref(), waits)).await;
    match asked.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(Claims { link, others }) => {
            let own = link.has(address);
            let heard = VipCheck::heard(address, &link.name, own, &others);
            (own, Ok(heard.claims))
        }
        Err(why) => (false, Err(why)),
    }
}

/// The name servers, and then the time servers by the addresses that these know. `ports`: those of both.
async fn servers(
    layout: &Layout,
    wanted: &WantedNode,
    ports: (u16, u16),
) -> (Vec<DnsReading>, Vec<NtpReading>) {
    let configured = wanted.name_servers.iter();
    let mut servers: Vec<String> = configured.map(|one| one.text.clone()).collect();
    if servers.is_empty() {
        servers = configured_name_servers(layout);
    }
    let mut names: Vec<&str> = wanted.names().collect();
    names.dedup();
    if names.is_empty() {
        names.push(".");
    }
    let questions = servers
        .iter()
        .flat_map(|server| names.iter().map(move |name| (server, *name)));
    let readings = questions.map(|(server, name)| async move {
        let answer = match server.parse::<IpAddr>() {
            Ok(address) => {
                let id = random().to_le_bytes();
                let id = u16::from_le_bytes([id[0], id[1]]);
                ask_name_server(SocketAddr::new(address, ports.0), name, id).await
            }
            Err(_) => Err("is no address".to_owned()),
        };
        DnsReading {
            server: server.clone(),
            name: name.to_owned(),
            answer: answer.into(),
        }
    });
    let readings = join_all(readings).await;
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
                None => Err("was not asked: no name server knows its address".to_owned()),
            };
            NtpReading {
                server: server.clone(),
                behind_millis: told.into(),
            }
        }
    });
    let times = join_all(times).await;
    (readings, times)
}

/// The cluster that is to be joined. The URL may hold a password: only its host is shown.
async fn join(wanted: &WantedNode) -> Option<JoinReading> {
    let url = &wanted.join.as_ref()?.text;
    let host = host_of(url)?;
    let rest = url.rsplit_once(host).map_or("", |(_, rest)| rest);
    let port = rest.trim_start_matches([']', ':']).split('/').next();
    let port = port.and_then(|port| port.parse().ok()).unwrap_or(HTTPS);
    let answers = takes_connections(host, port).await;
    Some(JoinReading {
        server: format!("{host} port {port}"),
        answers: answers.map(|()| true).into(),
    })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::thread;

    use windrow_host::ConfiguredValue;
    use windrow_model::findings::Location;
    use windrow_plan::rules::Platform;

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
        let wanted = WantedNode {
            name_servers: vec![value("127.0.0.1"), value("nowhere")],
            time_servers: vec![value("time.example")],
            ..WantedNode::bare(Platform::Harvester, PlannedRole::Worker)
        };
        let (known, told) = servers(&Layout::new("/"), &wanted, (names, times)).await;
        let answers = known.iter().map(|reading| reading.answer.known().cloned());
        let here = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(answers.collect::<Vec<_>>(), [Some(vec![here]), None]);
        assert!(told[0].behind_millis.known().is_some(), "{told:?}");
    }
}
