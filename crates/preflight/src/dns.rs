//! Builds requests to a name server and reads the answers. Pure: the caller sends and receives the packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

pub const PORT: u16 = 53;

/// The name to ask for if no name is configured. Without internet access many servers refuse it or do not find it: see
/// [`any_answer`].
pub const ROOT: &str = ".";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFamily {
    Ipv4,
    Ipv6,
}

/// The packet that requests the addresses of a name. With [`ROOT`] it requests the root servers, which only shows whether a
/// server answers.
///
/// # Errors
///
/// The name is not valid in DNS.
pub fn request(id: u16, name: &str, family: AddressFamily) -> Result<Vec<u8>, String> {
    let (name, kind) = match (name, family) {
        (ROOT, _) => ("", TYPE::NS),
        (name, AddressFamily::Ipv4) => (name.trim_end_matches('.'), TYPE::A),
        (name, AddressFamily::Ipv6) => (name.trim_end_matches('.'), TYPE::AAAA),
    };
    let name =
        Name::new(name).map_err(|error| format!("{name} is not a valid DNS name: {error}"))?;
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let question = Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false);
    packet.questions.push(question);
    packet
        .build_bytes_vec()
        .map_err(|error| format!("cannot build the DNS request: {error}"))
}

/// The addresses in an answer. Empty if the server does not know the name, or has no address of this family.
///
/// # Errors
///
/// The problem with the answer, as the end of a sentence that starts with the server.
pub fn addresses(answer: &[u8], id: u16) -> Result<Vec<IpAddr>, String> {
    let packet = reply(answer, id)?;
    match packet.rcode() {
        RCODE::NoError | RCODE::NameError => {}
        RCODE::Refused => return Err("refuses to answer (REFUSED)".to_owned()),
        RCODE::ServerFailure => {
            return Err(
                "cannot find an answer (SERVFAIL): does it reach other servers?".to_owned(),
            );
        }
        other => return Err(format!("answers with an error ({other:?})")),
    }
    let address = |data: &RData<'_>| match data {
        RData::A(one) => Some(IpAddr::V4(Ipv4Addr::from(one.address))),
        RData::AAAA(one) => Some(IpAddr::V6(Ipv6Addr::from(one.address))),
        _ => None,
    };
    let answers = packet.answers.iter();
    Ok(answers.filter_map(|one| address(&one.rdata)).collect())
}

/// Succeeds for any answer, regardless of its code: a working server without internet access refuses to name the root servers, or
/// does not find them.
///
/// # Errors
///
/// See [`addresses`].
pub fn any_answer(answer: &[u8], id: u16) -> Result<(), String> {
    reply(answer, id).map(drop)
}

/// True for an answer that was truncated to fit into a packet. The caller then repeats the request over TCP (RFC 7766). A
/// truncated answer may end anywhere, so this reads only its header.
pub fn is_truncated(answer: &[u8], id: u16) -> bool {
    const RESPONSE: u8 = 0x80;
    const TRUNCATED: u8 = 0x02;
    let [first, second] = id.to_be_bytes();
    answer.first_chunk().is_some_and(|[a, b, flags]| {
        (*a, *b) == (first, second) && flags & RESPONSE != 0 && flags & TRUNCATED != 0
    })
}

fn reply(answer: &[u8], id: u16) -> Result<Packet<'_>, String> {
    let packet = Packet::parse(answer)
        .map_err(|error| format!("does not answer like a name server: {error}"))?;
    match packet.id() == id && packet.has_flags(PacketFlag::RESPONSE) {
        true => Ok(packet),
        false => Err(
            "does not answer like a name server: the answer belongs to another question".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::{A, AAAA};

    use super::AddressFamily::{Ipv4, Ipv6};
    use super::*;

    fn answer(question: &[u8], rcode: RCODE, address: Option<IpAddr>) -> Vec<u8> {
        let asked = Packet::parse(question).unwrap();
        let mut packet = Packet::new_reply(asked.id());
        *packet.rcode_mut() = rcode;
        if let Some(address) = address {
            let data = match address {
                IpAddr::V4(one) => RData::A(A::from(one)),
                IpAddr::V6(one) => RData::AAAA(AAAA::from(one)),
            };
            let name = Name::new("time.example").unwrap();
            packet
                .answers
                .push(ResourceRecord::new(name, CLASS::IN, 60, data));
        }
        packet.build_bytes_vec().unwrap()
    }

    #[test]
    fn the_addresses_of_an_answer_are_read_and_an_unknown_name_has_none() {
        let question = request(7, "time.example", Ipv4).unwrap();
        for address in ["192.0.2.7", "2001:db8::7"] {
            let address: IpAddr = address.parse().unwrap();
            let known = answer(&question, RCODE::NoError, Some(address));
            assert_eq!(addresses(&known, 7), Ok(vec![address]));
        }
        let unknown = answer(&question, RCODE::NameError, None);
        assert_eq!(addresses(&unknown, 7), Ok(Vec::new()));
    }

    #[test]
    fn a_server_that_refuses_the_root_or_does_not_find_it_answers_all_the_same() {
        let root = request(8, ROOT, Ipv4).unwrap();
        for code in [RCODE::NoError, RCODE::Refused, RCODE::ServerFailure] {
            assert_eq!(any_answer(&answer(&root, code, None), 8), Ok(()));
        }
        assert!(any_answer(&root, 8).is_err(), "an echo is not an answer");
        assert!(any_answer(&answer(&root, RCODE::NoError, None), 9).is_err());
    }

    #[test]
    fn a_truncated_answer_is_known_by_its_header() {
        let question = request(7, "time.example", Ipv4).unwrap();
        let mut cut = answer(&question, RCODE::NoError, None);
        assert!(!is_truncated(&cut, 7));
        cut[2] |= 0x02;
        assert!(is_truncated(&cut, 7) && is_truncated(&cut[..3], 7));
        assert!(!is_truncated(&cut, 8) && !is_truncated(&cut[..2], 7));
    }

    #[test]
    fn each_family_has_a_question_of_its_own() {
        for (family, kind) in [(Ipv4, TYPE::A), (Ipv6, TYPE::AAAA)] {
            let question = request(7, "time.example.", family).unwrap();
            let packet = Packet::parse(&question).unwrap();
            assert_eq!(packet.questions[0].qtype, QTYPE::TYPE(kind));
            assert_eq!(packet.questions[0].qname.to_string(), "time.example");
        }
    }

    #[test]
    fn what_is_no_answer_says_why() {
        let question = request(7, "time.example", Ipv4).unwrap();
        let why = |packet: &[u8], id| addresses(packet, id).unwrap_err();
        assert!(why(&answer(&question, RCODE::Refused, None), 7).contains("REFUSED"));
        assert!(why(&answer(&question, RCODE::ServerFailure, None), 7).contains("SERVFAIL"));
        assert!(why(&answer(&question, RCODE::NoError, None), 8).contains("another question"));
        assert!(
            why(&question, 7).contains("another question"),
            "an echo is not an answer"
        );
        assert!(why(b"HTTP/1.1 400 Bad Request", 7).contains("name server"));
    }
}
