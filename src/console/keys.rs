//! Reads keys from the bytes that a terminal sends.

use std::time::{Duration, Instant};

/// The first byte of a key with several bytes; a single one is the Escape key.
const ESCAPE: u8 = 0x1b;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyPress {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Next,
    Previous,
    /// The pane with this number, from 1.
    Pane(usize),
    Journal,
    Help,
    Back,
    Quit,
    /// Paint the whole screen again: another program has written on it.
    Redraw,
}

/// How long to wait for the rest of a key. On a slow serial line its bytes come one by one.
const PATIENCE: Duration = Duration::from_millis(100);
/// Maximum number of kept bytes of a key; no key has this many.
const LONGEST: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct KeyReader {
    /// The bytes of a key whose rest has not arrived.
    begun: Vec<u8>,
    /// Until when the rest may arrive.
    until: Option<Instant>,
}

impl KeyReader {
    /// The keys in the typed bytes. Unknown bytes are skipped.
    pub(crate) fn read(&mut self, typed: &[u8], now: Instant) -> Vec<KeyPress> {
        if typed.is_empty() {
            let is_over = self.until.is_some_and(|until| until <= now);
            return Vec::from_iter(is_over.then(|| self.give_up()).flatten());
        }
        self.begun.extend_from_slice(typed);
        let (keys, rest) = decode(&self.begun);
        let used = self.begun.len() - rest.len();
        self.begun.drain(..used);
        self.begun.truncate(LONGEST);
        self.until = (!self.begun.is_empty()).then(|| now + PATIENCE);
        keys
    }

    /// When to read again, even if nothing is typed.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// The rest does not arrive: a single escape is the Escape key, and anything else is ignored.
    pub(crate) fn give_up(&mut self) -> Option<KeyPress> {
        self.until = None;
        let begun = std::mem::take(&mut self.begun);
        (begun == [ESCAPE]).then_some(KeyPress::Back)
    }
}

/// The keys in these bytes, and the beginning of one at their end.
fn decode(mut bytes: &[u8]) -> (Vec<KeyPress>, &[u8]) {
    let mut keys = Vec::new();
    while let Some((&first, rest)) = bytes.split_first() {
        let (key, left) = match first {
            ESCAPE => match sequence(rest) {
                Some(read) => read,
                None => break,
            },
            _ => (plain(first), rest),
        };
        keys.extend(key);
        bytes = left;
    }
    (keys, bytes)
}

fn plain(byte: u8) -> Option<KeyPress> {
    Some(match byte {
        b'\t' => KeyPress::Next,
        b' ' | b'f' => KeyPress::PageDown,
        b'b' => KeyPress::PageUp,
        b'k' => KeyPress::Up,
        b'g' => KeyPress::Home,
        b'G' => KeyPress::End,
        b'j' | b'J' => KeyPress::Journal,
        b'?' | b'h' | b'H' => KeyPress::Help,
        b'q' | b'Q' | 0x03 => KeyPress::Quit,
        0x0c => KeyPress::Redraw,
        b'1'..=b'9' => KeyPress::Pane(usize::from(byte - b'0')),
        _ => return None,
    })
}

/// The bytes after an escape: `[` or `O`, parameters, a final byte. `None` if they have not arrived yet.
fn sequence(rest: &[u8]) -> Option<(Option<KeyPress>, &[u8])> {
    let (&first, parameters) = rest.split_first()?;
    if !matches!(first, b'[' | b'O') {
        return Some((Some(KeyPress::Back), rest));
    }
    let rest = parameters;
    // The kernel's console sends F1 to F5 as `ESC [ [ A` to `E`.
    if let [b'[', rest @ ..] = rest {
        return rest.split_first().map(|(_, left)| (None, left));
    }
    let end = rest.iter().position(|byte| !(0x20..=0x3f).contains(byte))?;
    if !(0x40..=0x7e).contains(&rest[end]) {
        // It was broken off.
        return Some((None, &rest[end..]));
    }
    let key = match (&rest[..end], rest[end]) {
        (_, b'A') => KeyPress::Up,
        (_, b'B') => KeyPress::Down,
        (_, b'C') => KeyPress::Next,
        (_, b'D' | b'Z') => KeyPress::Previous,
        (_, b'H') | (b"1" | b"7", b'~') => KeyPress::Home,
        (_, b'F') | (b"4" | b"8", b'~') => KeyPress::End,
        (b"5", b'~') => KeyPress::PageUp,
        (b"6", b'~') => KeyPress::PageDown,
        _ => return Some((None, &rest[end + 1..])),
    };
    Some((Some(key), &rest[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys in bytes that come in these pieces, each just before the reader stops waiting for the rest.
    fn keys(pieces: &[&[u8]]) -> Vec<KeyPress> {
        let mut reader = KeyReader::default();
        let mut now = Instant::now();
        let mut keys = Vec::new();
        for piece in pieces {
            keys.extend(reader.read(piece, now));
            now += PATIENCE - Duration::from_millis(1);
            keys.extend(reader.read(&[], now));
        }
        now += PATIENCE;
        keys.extend(reader.read(&[], now));
        assert_eq!(reader.until(), None);
        keys
    }

    fn one_by_one(bytes: &[u8]) -> Vec<KeyPress> {
        keys(&bytes.chunks(1).collect::<Vec<_>>())
    }

    #[test]
    fn keys_are_read_as_different_terminals_send_them() {
        let expected = [
            (&b"\x1b[A\x1bOB"[..], vec![KeyPress::Up, KeyPress::Down]),
            (
                b"\x1b[5~\x1b[6~",
                vec![KeyPress::PageUp, KeyPress::PageDown],
            ),
            (
                b"\x1b[1~\x1b[4~\x1b[H\x1bOF",
                vec![KeyPress::Home, KeyPress::End, KeyPress::Home, KeyPress::End],
            ),
            (b"\t\x1b[Z", vec![KeyPress::Next, KeyPress::Previous]),
            (b"\x1b", vec![KeyPress::Back]),
            (
                b"j?q2",
                vec![
                    KeyPress::Journal,
                    KeyPress::Help,
                    KeyPress::Quit,
                    KeyPress::Pane(2),
                ],
            ),
        ];
        for (bytes, expected) in expected {
            assert_eq!(keys(&[bytes]), expected, "{bytes:?}");
            assert_eq!(one_by_one(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_key_here_does_nothing() {
        for bytes in [
            &b"\x1b[[A"[..],
            b"\x1b[15~",
            b"\x1b[",
            b"\x1b[[",
            b"\x1bO",
            b"\x1b[1;5",
            b"\xff\x80xyz",
            b"\x1b[?1;2c",
        ] {
            assert_eq!(keys(&[bytes]), [], "{bytes:?}");
            assert_eq!(one_by_one(bytes), [], "{bytes:?}");
        }
    }

    #[test]
    fn a_key_whose_bytes_come_in_pieces_is_one_key() {
        let mut reader = KeyReader::default();
        let now = Instant::now();
        assert_eq!(reader.read(b"\x1b", now), []);
        assert_eq!(reader.until(), Some(now + PATIENCE));
        assert_eq!(reader.read(b"[", now), []);
        assert_eq!(reader.read(b"B", now), [KeyPress::Down]);
        assert_eq!(reader.until(), None);
        assert_eq!(keys(&[b"?\x1b[5", b"~q\x1b"]).len(), 4);
    }

    #[test]
    fn an_escape_behind_which_nothing_comes_in_time_is_the_escape_key() {
        let mut reader = KeyReader::default();
        let now = Instant::now();
        assert_eq!(reader.read(b"\x1b", now), []);
        assert_eq!(reader.read(&[], now), []);
        assert_eq!(reader.read(&[], now + PATIENCE), [KeyPress::Back]);
        assert_eq!(reader.read(b"[", now + PATIENCE), []);
        // The reader woke late, but the rest was there in time.
        assert_eq!(reader.read(b"\x1b", now), []);
        assert_eq!(reader.read(b"[A", now + 2 * PATIENCE), [KeyPress::Up]);
    }

    #[test]
    fn a_key_that_is_broken_off_hides_none_behind_it() {
        for (bytes, expected) in [
            (&b"\x1b[1\x1b[B"[..], vec![KeyPress::Down]),
            (b"\x1b[5\x03", vec![KeyPress::Quit]),
            (b"\x1b\x1b[A", vec![KeyPress::Back, KeyPress::Up]),
        ] {
            assert_eq!(keys(&[bytes]), expected, "{bytes:?}");
            assert_eq!(one_by_one(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_key_without_end_is_kept_only_in_part() {
        let endless = [&b"\x1b["[..], &[b'1'; 1000]].concat();
        for pieces in [1, 1002] {
            let mut reader = KeyReader::default();
            let now = Instant::now();
            for piece in endless.chunks(pieces) {
                assert_eq!(reader.read(piece, now), []);
                assert!(reader.begun.len() <= LONGEST);
            }
            assert_eq!(reader.read(b"~j", now), [KeyPress::Journal]);
        }
    }
}
