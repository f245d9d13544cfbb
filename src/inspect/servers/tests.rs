//! Servers on this machine that answer, refuse or stay silent.

use std::fs;
use std::net::UdpSocket;
use std::sync::mpsc;
use std::thread;

use windrow_preflight::NoAnswer;
use windrow_preflight::dns::ROOT;

use super::*;
use crate::inspect::testing::machine;

/// A server on the loopback interface that computes its answer from a question, or stays silent.
fn server(answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let (ready, is_ready) = mpsc::channel();
    // It ends with the tests' process.
    thread::spawn(move || {
        ready.send(()).unwrap();
        let mut question = [0; 1024];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            if let Some(answer) = answer(&question[..length]) {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    is_ready.recv().unwrap();
    address
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn a_time_server_tells_how_far_the_clock_is_off_and_a_wrong_one_does_not() {
    fn answer(question: &[u8], stratum: u8) -> Vec<u8> {
        let mut packet = vec![0; 48];
        (packet[0], packet[1]) = (0x24, stratum);
        packet[24..32].copy_from_slice(&question[40..48]);
        // An hour later than the question was sent.
        let seconds = u32::from_be_bytes(question[40..44].try_into().unwrap()) + 3600;
        for at in [32, 40] {
            packet[at..at + 4].copy_from_slice(&seconds.to_be_bytes());
            packet[at + 4..at + 8].copy_from_slice(&question[44..48]);
        }
        packet
    }
    let right = server(|question| Some(answer(question, 2)));
    let behind = wait(ask_for_time(right, Timestamp::now)).unwrap();
    // Less the time that the answer took.
    assert!(
        (0..=3_600_000).contains(&behind) && behind > 1_800_000,
        "{behind}"
    );
    let unset = server(|question| Some(answer(question, 16)));
    let no_answer = wait(ask_for_time(unset, Timestamp::now)).unwrap_err();
    assert_eq!(no_answer.kind, NoAnswer::Refused);
    assert!(no_answer.why.contains("not synchronised"), "{no_answer:?}");
    let silent = server(|_| None);
    let no_answer = wait(ask_for_time(silent, Timestamp::now)).unwrap_err();
    assert!(
        no_answer.why.contains("does not answer within 6 s"),
        "{no_answer:?}"
    );
}

#[test]
fn a_name_server_answers_refuses_or_stays_silent() {
    // The header of the question: an answer, recursion available, with a code.
    fn answer(question: &[u8], code: u8) -> Vec<u8> {
        let mut packet = question.to_vec();
        (packet[2], packet[3]) = (0x81, 0x80 | code);
        packet
    }
    let right = server(|question| Some(answer(question, 0)));
    assert_eq!(
        wait(ask_name_server(right, "time.example", 7)),
        Ok(Vec::new())
    );
    // A name that has only an IPv6 address.
    let of_ipv6 = server(|question| {
        let mut packet = answer(question, 0);
        let is_aaaa = question.ends_with(&[0, 28, 0, 1]);
        if is_aaaa {
            packet[7] = 1;
            // The name of the question, AAAA, IN, a minute, 16 bytes.
            packet.extend([0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16]);
            packet.extend(Ipv6Addr::LOCALHOST.octets());
        }
        Some(packet)
    });
    assert_eq!(
        wait(ask_name_server(of_ipv6, "time.example", 7)),
        Ok(vec![Ipv6Addr::LOCALHOST.into()])
    );
    // Without the internet it does not find the root; it refuses the root if it answers only for its own names.
    for code in [2, 5] {
        let closed = server(move |question| Some(answer(question, code)));
        assert_eq!(wait(ask_name_server(closed, ROOT, 7)), Ok(Vec::new()));
        let no_answer = wait(ask_name_server(closed, "time.example", 7)).unwrap_err();
        assert_eq!(no_answer.kind, NoAnswer::Refused, "{no_answer:?}");
    }
    let broken = server(|question| Some(question.to_vec()));
    let no_answer = wait(ask_name_server(broken, ROOT, 7)).unwrap_err();
    assert_eq!(no_answer.kind, NoAnswer::Silent, "{no_answer:?}");
    let silent = server(|_| None);
    let no_answer = wait(ask_name_server(silent, ROOT, 7)).unwrap_err();
    assert_eq!(no_answer.kind, NoAnswer::Silent);
    assert!(
        no_answer.why.contains("does not answer within"),
        "{no_answer:?}"
    );
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let no_answer = wait(ask_name_server(address, ROOT, 7)).unwrap_err();
    assert_eq!(no_answer.kind, NoAnswer::Silent);
    assert!(
        no_answer.why.contains("nothing listens there"),
        "{no_answer:?}"
    );
}

#[test]
fn an_answer_that_is_too_long_for_a_packet_is_asked_for_over_tcp() {
    use std::io::{Read as _, Write as _};

    // Another test may have the same port of the other protocol.
    let (over_tcp, over_udp) = std::iter::repeat_with(|| {
        let over_tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let over_udp = UdpSocket::bind(over_tcp.local_addr().unwrap()).ok()?;
        Some((over_tcp, over_udp))
    })
    .find_map(|pair| pair)
    .unwrap();
    let address = over_tcp.local_addr().unwrap();
    let cut = thread::spawn(move || {
        let mut question = [0; 512];
        let (length, from) = over_udp.recv_from(&mut question).unwrap();
        (question[2], question[3]) = (0x83, 0x80);
        over_udp.send_to(&question[..length], from).unwrap();
        let (mut stream, _) = over_tcp.accept().unwrap();
        let mut asked = vec![0; length + 2];
        stream.read_exact(&mut asked).unwrap();
        let mut answer = asked.split_off(2);
        (answer[2], answer[3], answer[7]) = (0x81, 0x80, 1);
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
        let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
        stream
            .write_all(&[&length, answer.as_slice()].concat())
            .unwrap();
    });
    let found = wait(ask_name_server(address, "time.example", 7));
    assert_eq!(found, Ok(vec![std::net::Ipv4Addr::LOCALHOST.into()]));
    cut.join().unwrap();
}

#[test]
fn what_cannot_be_sent_from_here_is_not_the_silence_of_a_server() {
    // The kernel lets no socket broadcast that did not ask to.
    let nowhere = "255.255.255.255:9".parse().unwrap();
    let no_answer = wait(ask_name_server(nowhere, ROOT, 7)).unwrap_err();
    assert_eq!(no_answer.kind, NoAnswer::NotAsked, "{no_answer:?}");
    let no_answer = wait(takes_connections(nowhere)).unwrap_err();
    assert_eq!(no_answer.kind, NoAnswer::NotAsked, "{no_answer:?}");
    let no_answer = wait(look_up("name.invalid", 443)).unwrap_err();
    assert_eq!(no_answer.kind, NoAnswer::NotAsked, "{no_answer:?}");
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let no_answer = wait(takes_connections(address)).unwrap_err();
    assert_eq!(no_answer.kind, NoAnswer::Silent, "{no_answer:?}");
}

#[test]
fn name_servers_are_those_of_the_resolvers_configuration() {
    let (_root, layout) = machine(&[(
        "/etc/resolv.conf",
        "# by hand\nsearch example\nnameserver 10.0.0.2\n nameserver 2001:db8::2 \noptions x\n",
    )]);
    let found = resolver_configuration(&layout).unwrap();
    assert_eq!(found.servers, ["10.0.0.2", "2001:db8::2"]);
    assert_eq!(found.search, ["example"]);
}

#[test]
fn a_name_without_a_dot_is_looked_for_in_the_domains_of_the_resolver() {
    let server = server(|question| {
        let is_known = question.windows(8).any(|part| part == b"\x04ntp1\x04co");
        let mut packet = question.to_vec();
        (packet[2], packet[3]) = (0x81, if is_known { 0x80 } else { 0x83 });
        if is_known {
            packet[7] = 1;
            packet.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
        }
        Some(packet)
    });
    let search = ["lab.example", "corp.example"].map(str::to_owned);
    let find = |name: &str| wait(find_name(server, name, &search, 7));
    let here = Ok(vec![std::net::Ipv4Addr::LOCALHOST.into()]);
    assert_eq!(find("ntp1"), here);
    assert_eq!(find("ntp1.corp"), here);
    assert_eq!(find("ntp2"), Ok(Vec::new()));
    assert_eq!(find("ntp1.other"), Ok(Vec::new()));
}

#[test]
fn a_resolver_asks_the_first_three_name_servers_only() {
    let text = "nameserver 10.0.0.1\n".repeat(3) + "nameserver 10.0.0.4\n";
    let (_root, layout) = machine(&[("/etc/resolv.conf", &text)]);
    let found = resolver_configuration(&layout).unwrap();
    assert_eq!(found.servers, ["10.0.0.1"; 3]);
}

#[test]
fn a_resolvers_configuration_that_is_not_utf8_is_read() {
    let (_root, layout) = machine(&[("/etc/resolv.conf", "")]);
    let latin1 = b"# f\xfcr das Netz\nnameserver 10.0.0.2\n";
    fs::write(layout.path("/etc/resolv.conf"), latin1).unwrap();
    let found = resolver_configuration(&layout).unwrap();
    assert_eq!(found.servers, ["10.0.0.2"]);
}
