//! Keys out of the bytes that a terminal sends.

/// A key that means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// A line up.
    Up,
    /// A line down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the beginning.
    Home,
    /// To the end.
    End,
    /// The next pane.
    Next,
    /// The pane before.
    Previous,
    /// The pane with this number, from 1.
    Pane(usize),
    /// The journal.
    Journal,
    /// Help.
    Help,
    /// Back.
    Back,
    /// Quit.
    Quit,
    /// Paint the screen anew: something else has written on it.
    Redraw,
}

/// The keys in what a terminal sent at once. Bytes that mean nothing are left out, and an escape
/// that nothing follows is the key of that name.
pub(crate) fn decode(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((&first, rest)) = bytes.split_first() {
        let (key, left) = match first {
            0x1b => sequence(rest),
            _ => (plain(first), rest),
        };
        keys.extend(key);
        bytes = left;
    }
    keys
}

fn plain(byte: u8) -> Option<Key> {
    Some(match byte {
        b'\t' => Key::Next,
        b' ' | b'f' => Key::PageDown,
        b'b' => Key::PageUp,
        b'k' => Key::Up,
        b'g' => Key::Home,
        b'G' => Key::End,
        b'j' | b'J' => Key::Journal,
        b'?' | b'h' | b'H' => Key::Help,
        b'q' | b'Q' | 0x03 => Key::Quit,
        0x0c => Key::Redraw,
        b'1'..=b'9' => Key::Pane(usize::from(byte - b'0')),
        _ => return None,
    })
}

/// What follows an escape: `[` or `O`, parameters, a final byte.
fn sequence(rest: &[u8]) -> (Option<Key>, &[u8]) {
    let Some((b'[' | b'O', rest)) = rest.split_first() else {
        return (Some(Key::Back), rest);
    };
    // The kernel's console sends F1 to F5 as `ESC [ [ A` to `E`.
    if let [b'[', _, left @ ..] = rest {
        return (None, left);
    }
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return (None, &[]);
    };
    let key = match (&rest[..end], rest[end]) {
        (_, b'A') => Key::Up,
        (_, b'B') => Key::Down,
        (_, b'C') => Key::Next,
        (_, b'D' | b'Z') => Key::Previous,
        (_, b'H') | (b"1" | b"7", b'~') => Key::Home,
        (_, b'F') | (b"4" | b"8", b'~') => Key::End,
        (b"5", b'~') => Key::PageUp,
        (b"6", b'~') => Key::PageDown,
        _ => return (None, &rest[end + 1..]),
    };
    (Some(key), &rest[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_different_terminals_send_them() {
        let expected = [
            (&b"\x1b[A\x1bOB"[..], vec![Key::Up, Key::Down]),
            (b"\x1b[5~\x1b[6~", vec![Key::PageUp, Key::PageDown]),
            (
                b"\x1b[1~\x1b[4~\x1b[H\x1bOF",
                vec![Key::Home, Key::End, Key::Home, Key::End],
            ),
            (b"\t\x1b[Z", vec![Key::Next, Key::Previous]),
            (b"\x1b", vec![Key::Back]),
            (
                b"j?q2",
                vec![Key::Journal, Key::Help, Key::Quit, Key::Pane(2)],
            ),
        ];
        for (bytes, keys) in expected {
            assert_eq!(decode(bytes), keys, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_key_here_does_nothing() {
        for bytes in [
            &b"\x1b[[A"[..],
            b"\x1b[15~",
            b"\x1b[",
            b"\x1b[1;5",
            b"\xff\x80xyz",
            b"\x1b[?1;2c",
        ] {
            assert_eq!(decode(bytes), [], "{bytes:?}");
        }
    }
}
