//! Measures the difference between the clock and a time server (SNTP, RFC 5905 section 14). Pure: the caller sends and receives
//! the packets.

use jiff::{SignedDuration, Timestamp};

pub const PORT: u16 = 123;
/// Bytes of a packet without extensions.
const LENGTH: usize = 48;
/// Seconds from NTP's first year, 1900, to Unix's, 1970.
const UNIX: i64 = 2_208_988_800;
/// No indicator of leap seconds, version 4, mode 3 (client).
const CLIENT: u8 = (4 << 3) | 3;
const SERVER_MODE: u8 = 4;
/// The leap indicator of a server whose own clock is not set.
const NOT_SYNCHRONISED: u8 = 3;

/// The request packet. The server returns `sent` in its answer, which identifies the answer.
pub fn request(sent: Timestamp) -> [u8; LENGTH] {
    let mut packet = [0; LENGTH];
    packet[0] = CLIENT;
    packet[40..48].copy_from_slice(&to_wire(sent));
    packet
}

/// How far the clock is behind the server's clock; negative if it is ahead.
///
/// # Errors
///
/// The problem with the answer, as the end of a sentence that starts with the server.
pub fn offset(answer: &[u8], sent: Timestamp, came: Timestamp) -> Result<SignedDuration, String> {
    let packet: &[u8; LENGTH] = answer
        .get(..LENGTH)
        .and_then(|packet| packet.try_into().ok())
        .ok_or("does not answer like a time server: the answer is too short")?;
    let (leap, mode, stratum) = (packet[0] >> 6, packet[0] & 7, packet[1]);
    if mode != SERVER_MODE || packet[24..32] != to_wire(sent) {
        return Err(
            "does not answer like a time server: the answer belongs to another question".to_owned(),
        );
    }
    match stratum {
        0 => {
            let code: String = packet[12..16]
                .iter()
                .map(|byte| char::from(*byte))
                .filter(char::is_ascii_alphanumeric)
                .collect();
            return Err(format!("refuses to report the time ({code})"));
        }
        16.. => return Err("reports that its own clock is not synchronised".to_owned()),
        _ if leap == NOT_SYNCHRONISED => {
            return Err("reports that its own clock is not synchronised".to_owned());
        }
        _ => {}
    }
    let (received, transmitted) = (from_wire(&packet[32..40]), from_wire(&packet[40..48]));
    let (Some(received), Some(transmitted)) = (received, transmitted) else {
        return Err("does not report the time".to_owned());
    };
    let there = received.duration_since(sent);
    let back = transmitted.duration_since(came);
    Ok((there + back) / 2)
}

/// Seconds since 1900 and their fraction, 32 bits each. The counter starts again in 2036.
fn to_wire(time: Timestamp) -> [u8; 8] {
    let seconds = (time.as_second() + UNIX) as u32;
    // Rounded, so that the reverse conversion returns the same nanosecond.
    let fraction = ((i64::from(time.subsec_nanosecond()) << 32) + 500_000_000) / 1_000_000_000;
    let mut wire = [0; 8];
    wire[..4].copy_from_slice(&seconds.to_be_bytes());
    wire[4..].copy_from_slice(&(fraction as u32).to_be_bytes());
    wire
}

fn from_wire(wire: &[u8]) -> Option<Timestamp> {
    const ERA: i64 = 1 << 32;
    let (seconds, fraction) = wire.split_at_checked(4)?;
    let seconds = u32::from_be_bytes(seconds.try_into().ok()?);
    let fraction = u32::from_be_bytes(fraction.try_into().ok()?);
    if seconds == 0 && fraction == 0 {
        return None;
    }
    // RFC 5905: a counter whose first bit is set is before 2036, and one without it is later.
    let era = if seconds >> 31 == 1 { 0 } else { ERA };
    let nanoseconds = (u64::from(fraction) * 1_000_000_000 + (1 << 31)) >> 32;
    let nanoseconds = i32::try_from(nanoseconds.min(999_999_999)).ok()?;
    Timestamp::new(i64::from(seconds) + era - UNIX, nanoseconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn answer(question: &[u8], first: u8, stratum: u8, time: Timestamp) -> Vec<u8> {
        let mut packet = vec![0; LENGTH];
        (packet[0], packet[1]) = (first, stratum);
        packet[12..16].copy_from_slice(b"RATE");
        packet[24..32].copy_from_slice(&question[40..48]);
        packet[32..40].copy_from_slice(&to_wire(time));
        packet[40..48].copy_from_slice(&to_wire(time));
        packet
    }

    const FINE: u8 = (4 << 3) | SERVER_MODE;

    #[test]
    fn the_offset_is_half_of_what_both_ways_differ_by() {
        let (sent, came) = (at("2026-11-23T10:00:00Z"), at("2026-11-23T10:00:00.2Z"));
        let question = request(sent);
        let told = answer(&question, FINE, 2, at("2026-11-23T10:00:05.1Z"));
        let offset = offset(&told, sent, came).unwrap();
        assert_eq!(offset.as_millis(), 5_000);
        let whole_second = answer(&question, FINE, 2, at("2026-11-23T10:00:05Z"));
        let offset = super::offset(&whole_second, sent, came).unwrap();
        assert_eq!(offset.as_millis(), 4_900);
        let after_2036 = at("2040-01-01T00:00:00.5Z");
        assert_eq!(
            from_wire(&to_wire(after_2036)).map(|time| time.as_millisecond()),
            Some(after_2036.as_millisecond())
        );
    }

    #[test]
    fn an_answer_that_tells_no_time_says_why() {
        let sent = at("2026-11-23T10:00:00Z");
        let question = request(sent);
        let why = |packet: &[u8]| offset(packet, sent, sent).unwrap_err();
        assert!(why(&[0; 20]).contains("too short"));
        assert!(why(&answer(&question, FINE, 0, sent)).contains("(RATE)"));
        assert!(why(&answer(&question, FINE, 16, sent)).contains("not synchronised"));
        assert!(why(&answer(&question, FINE | 0xc0, 2, sent)).contains("not synchronised"));
        assert!(why(&answer(&question, CLIENT, 2, sent)).contains("another question"));
        let mut untold = answer(&question, FINE, 2, sent);
        untold[32..48].fill(0);
        assert!(why(&untold).contains("does not report the time"));
        let other = request(at("2026-11-23T10:00:01Z"));
        assert!(why(&answer(&other, FINE, 2, sent)).contains("another question"));
    }
}
