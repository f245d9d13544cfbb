//! Reads keys from the bytes that a terminal sends.

/// A key that the console knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyPress {
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
    /// Paint the whole screen again: another program has written on it.
    Redraw,
}

/// The keys in what a terminal sent at once. Unknown bytes are skipped, and an escape with nothing behind it is the
/// Escape key.
pub(crate) fn decode(mut bytes: &[u8]) -> Vec<KeyPress> {
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

/// What follows an escape: `[` or `O`, parameters, a final byte.
fn sequence(rest: &[u8]) -> (Option<KeyPress>, &[u8]) {
    let Some((b'[' | b'O', rest)) = rest.split_first() else {
        return (Some(KeyPress::Back), rest);
    };
    // The kernel's console sends F1 to F5 as `ESC [ [ A` to `E`.
    if let [b'[', _, left @ ..] = rest {
        return (None, left);
    }
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return (None, &[]);
    };
    let key = match (&rest[..end], rest[end]) {
        (_, b'A') => KeyPress::Up,
        (_, b'B') => KeyPress::Down,
        (_, b'C') => KeyPress::Next,
        (_, b'D' | b'Z') => KeyPress::Previous,
        (_, b'H') | (b"1" | b"7", b'~') => KeyPress::Home,
        (_, b'F') | (b"4" | b"8", b'~') => KeyPress::End,
        (b"5", b'~') => KeyPress::PageUp,
        (b"6", b'~') => KeyPress::PageDown,
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
