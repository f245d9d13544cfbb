//! Servers that a node requires: for names, for the time, and those of the cluster that it joins. Each question has a
//! time-out.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket, lookup_host};
use tokio::time::timeout;
use windrow_preflight::dns::{self, AddressFamily, ROOT};
use windrow_preflight::{NoAnswer, Unanswered, ntp};

use crate::layout::Layout;
use crate::observe::host::text_if_present;

/// How often a question over UDP is sent, since packets get lost.
const TRIES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(2);
const CONNECTING: Duration = Duration::from_secs(5);
/// Longer answers are cut off.
const LONGEST: usize = 4096;

/// A resolver asks no more name servers (`MAXNS` in resolv.conf(5)).
const NAME_SERVERS: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ResolverConfiguration {
    pub(crate) servers: Vec<String>,
    /// The domains in which it looks for a name without a dot first.
    pub(crate) search: Vec<String>,
}

/// The configuration of this machine's resolver.
///
/// # Errors
///
/// It cannot be read.
pub(crate) fn resolver_configuration(layout: &Layout) -> Result<ResolverConfiguration, String> {
    let text = text_if_present(layout, "/etc/resolv.conf")?.unwrap_or_default();
    let mut found = ResolverConfiguration::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => found.servers.extend(words.next().map(str::to_owned)),
            // The last of these lines counts.
            Some("search" | "domain") => found.search = words.map(str::to_owned).collect(),
            _ => {}
        }
    }
    found.servers.truncate(NAME_SERVERS);
    Ok(found)
}

/// Asks a name server for a name's addresses as a resolver does: a name without a dot is looked for in the domains first.
///
/// # Errors
///
/// Why there is no answer.
pub(crate) async fn find_name(
    server: SocketAddr,
    name: &str,
    search: &[String],
    id: u16,
) -> Result<Vec<IpAddr>, Unanswered> {
    let is_short = !name.contains('.');
    for domain in search.iter().filter(|_| is_short) {
        match ask_name_server(server, &format!("{name}.{domain}"), id).await {
            Ok(addresses) if addresses.is_empty() => {}
            Err(error) if error.kind == NoAnswer::Refused => {}
            found => return found,
        }
    }
    ask_name_server(server, name, id).await
}

/// Asks a name server for a name's addresses; none if it does not know the name. The root is not a name: there, any
/// answer is enough.
///
/// # Errors
///
/// Why there is no answer.
async fn ask_name_server(
    server: SocketAddr,
    name: &str,
    id: u16,
) -> Result<Vec<IpAddr>, Unanswered> {
    let read = |answer: &[u8]| {
        dns::any_answer(answer, id).map_err(Unanswered::silent)?;
        match name {
            ROOT => Ok(Vec::new()),
            _ => dns::addresses(answer, id).map_err(Unanswered::refused),
        }
    };
    let read_packet = |answer: &[u8]| {
        if dns::is_truncated(answer, id) && name != ROOT {
            return Ok(None);
        }
        read(answer).map(Some)
    };
    let addresses = async |family| {
        let question = dns::request(id, name, family).map_err(Unanswered::not_asked)?;
        match ask(server, || question.clone(), read_packet).await? {
            Some(addresses) => Ok(addresses),
            None => read(&ask_over_tcp(server, &question).await?),
        }
    };
    let found = addresses(AddressFamily::Ipv4).await?;
    match found.is_empty() && name != ROOT {
        // It may have only IPv6 addresses.
        true => addresses(AddressFamily::Ipv6).await,
        false => Ok(found),
    }
}

/// Asks a name server for an answer that is too long for a packet.
async fn ask_over_tcp(server: SocketAddr, question: &[u8]) -> Result<Vec<u8>, Unanswered> {
    let asked = async {
        let mut stream = TcpStream::connect(server).await?;
        let length = u16::try_from(question.len()).map_err(io::Error::other)?;
        let message = [&length.to_be_bytes(), question].concat();
        stream.write_all(&message).await?;
        let length = stream.read_u16().await?;
        let mut answer = vec![0; length.into()];
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    };
    let asked = timeout(CONNECTING, asked).await;
    let answer = asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    // It answers, so this does not show that it is silent.
    answer.map_err(|error: io::Error| {
        Unanswered::not_asked(format!(
            "cut its answer for UDP, and cannot be asked over TCP: {error}"
        ))
    })
}

/// Asks a time server how far the clock is behind it, in milliseconds.
///
/// # Errors
///
/// Why there is no usable answer.
pub(crate) async fn ask_for_time(
    server: SocketAddr,
    now: fn() -> Timestamp,
) -> Result<i64, Unanswered> {
    let sent = std::cell::Cell::new(now());
    let question = || {
        sent.set(now());
        ntp::request(sent.get()).to_vec()
    };
    ask(server, question, |answer| {
        let offset = ntp::offset(answer, sent.get(), now()).map_err(Unanswered::refused)?;
        Ok(i64::try_from(offset.as_millis()).unwrap_or(i64::MAX))
    })
    .await
}

/// Sends a question until it is answered. If no valid answer arrives, the error in the invalid one is reported.
async fn ask<T>(
    server: SocketAddr,
    question: impl Fn() -> Vec<u8>,
    read: impl Fn(&[u8]) -> Result<T, Unanswered>,
) -> Result<T, Unanswered> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let not_asked = |error: io::Error| Unanswered::not_asked(format!("cannot be asked: {error}"));
    let socket = UdpSocket::bind((any, 0)).await.map_err(not_asked)?;
    // Then answers of others are not received, and a refusal is.
    socket.connect(server).await.map_err(not_asked)?;
    let seconds = PATIENCE.as_secs() * TRIES as u64;
    let mut why = Unanswered::silent(format!("does not answer within {seconds} s"));
    let mut was_sent = false;
    for _ in 0..TRIES {
        match socket.send(&question()).await {
            Ok(_) => was_sent = true,
            // An error of an earlier packet is reported at the next one.
            Err(error) if was_sent => {
                why = refused(error);
                continue;
            }
            Err(error) => {
                why = not_asked(error);
                continue;
            }
        }
        let mut answer = vec![0; LONGEST];
        match timeout(PATIENCE, socket.recv(&mut answer)).await {
            Err(_) => {}
            Ok(Err(error)) => why = refused(error),
            Ok(Ok(length)) => match read(answer.get(..length).unwrap_or_default()) {
                Ok(value) => return Ok(value),
                Err(wrong) => why = wrong,
            },
        }
    }
    Err(why)
}

/// The error for a packet that was sent: the machine or its network refuses it.
fn refused(error: io::Error) -> Unanswered {
    Unanswered::silent(match error.kind() {
        io::ErrorKind::ConnectionRefused => "refuses: nothing listens there".to_owned(),
        _ => format!("cannot be reached: {error}"),
    })
}

/// Whether a server accepts connections.
///
/// # Errors
///
/// Why not.
pub(crate) async fn takes_connections(server: SocketAddr) -> Result<(), Unanswered> {
    match timeout(CONNECTING, TcpStream::connect(server)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(match error.kind() {
            io::ErrorKind::ConnectionRefused => Unanswered::silent("it refuses the connection"),
            // There is no host at its address, or it resets or drops the connection.
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::TimedOut
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted => Unanswered::silent(error.to_string()),
            _ => Unanswered::not_asked(format!("it cannot be asked: {error}")),
        }),
        Err(_) => {
            let seconds = CONNECTING.as_secs();
            Err(Unanswered::silent(format!("no answer within {seconds} s")))
        }
    }
}

/// Looks a name up as this machine does.
///
/// # Errors
///
/// Why it has no address here, which is not the server's fault.
pub(crate) async fn look_up(name: &str, port: u16) -> Result<SocketAddr, Unanswered> {
    let found = match timeout(CONNECTING, lookup_host((name, port))).await {
        Ok(found) => found.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", CONNECTING.as_secs())),
    };
    let found = found.and_then(|mut all| all.next().ok_or_else(|| "it has none".to_owned()));
    found.map_err(|why| Unanswered::not_asked(format!("its address is unknown here: {why}")))
}

#[cfg(test)]
mod tests;
