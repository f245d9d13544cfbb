//! Servers that a node needs: for names, for the time, and those of the cluster that it joins. Each is asked within a time-out.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use jiff::Timestamp;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use windrow_host::dns::{self, AddressFamily};
use windrow_host::ntp;

use super::text;
use crate::layout::Layout;

/// How often a question over UDP is sent, since packets get lost.
const TRIES: usize = 3;
/// How long an answer to each is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// Longer answers are cut off.
const LONGEST: usize = 4096;

/// The name servers of this machine, as the resolver's configuration names them.
pub fn configured_name_servers(layout: &Layout) -> Vec<String> {
    let text = text(layout, "/etc/resolv.conf").unwrap_or_default();
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver"))
            .then(|| words.next())?
            .map(str::to_owned)
    };
    text.lines().filter_map(server).collect()
}

/// Asks a name server for a name's addresses; none where it does not know the name.
///
/// # Errors
///
/// What is wrong, as the end of a sentence that begins with the server.
pub async fn ask_name_server(
    server: SocketAddr,
    name: &str,
    id: u16,
) -> Result<Vec<IpAddr>, String> {
    let addresses = async |family| {
        let question = dns::request(id, name, family)?;
        ask(
            server,
            || question.clone(),
            |answer, _| dns::addresses(answer, id),
        )
        .await
    };
    let found = addresses(AddressFamily::Ipv4).await?;
    match found.is_empty() && name != "." {
        // It may have addresses of IPv6 alone.
        true => addresses(AddressFamily::Ipv6).await,
        false => Ok(found),
    }
}

/// Asks a time server how far the clock is behind it, in milliseconds.
///
/// # Errors
///
/// What is wrong, as the end of a sentence that begins with the server.
pub async fn ask_for_time(server: SocketAddr, now: fn() -> Timestamp) -> Result<i64, String> {
    let sent = std::cell::Cell::new(now());
    let question = || {
        sent.set(now());
        ntp::request(sent.get()).to_vec()
    };
    ask(server, question, |answer, _| {
        let offset = ntp::offset(answer, sent.get(), now())?;
        Ok(i64::try_from(offset.as_millis()).unwrap_or(i64::MAX))
    })
    .await
}

/// Sends a question until it is answered. What is wrong with an answer is said when no right one comes.
async fn ask<T>(
    server: SocketAddr,
    question: impl Fn() -> Vec<u8>,
    read: impl Fn(&[u8], SocketAddr) -> Result<T, String>,
) -> Result<T, String> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => "refuses: nothing listens there".to_owned(),
        _ => format!("cannot be asked: {error}"),
    };
    let socket = UdpSocket::bind((any, 0)).await.map_err(failed)?;
    // Answers of others are not heard then, and a refusal is.
    socket.connect(server).await.map_err(failed)?;
    let seconds = PATIENCE.as_secs() * TRIES as u64;
    let mut why = format!("does not answer within {seconds} s");
    for _ in 0..TRIES {
        if let Err(error) = socket.send(&question()).await {
            why = failed(error);
            continue;
        }
        let mut answer = vec![0; LONGEST];
        match timeout(PATIENCE, socket.recv(&mut answer)).await {
            Err(_) => {}
            Ok(Err(error)) => why = failed(error),
            Ok(Ok(length)) => match read(answer.get(..length).unwrap_or_default(), server) {
                Ok(value) => return Ok(value),
                Err(wrong) => why = wrong,
            },
        }
    }
    Err(why)
}

/// Does a server take connections?
///
/// # Errors
///
/// Why not.
pub async fn takes_connections(host: &str, port: u16) -> Result<(), String> {
    match timeout(CONNECTING, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(match error.kind() {
            io::ErrorKind::ConnectionRefused => "it refuses the connection".to_owned(),
            _ => error.to_string(),
        }),
        Err(_) => Err(format!("no answer within {} s", CONNECTING.as_secs())),
    }
}
