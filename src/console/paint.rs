//! Converts cells to bytes that every terminal since the VT100 understands.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

use super::text::columns;

/// Prepares the terminal: no cursor, no line feed at the right margin (which would scroll the last row away), ASCII in
/// both character sets in case an earlier program left line graphics there.
pub(crate) fn enter(alternate: bool) -> &'static str {
    if alternate {
        "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b(B\x0f\x1b[0m\x1b[2J"
    } else {
        "\x1b[?25l\x1b[?7l\x1b(B\x0f\x1b[0m\x1b[2J"
    }
}

pub(crate) fn leave(alternate: bool) -> &'static str {
    if alternate {
        "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
    } else {
        "\x1b[0m\x1b[?7h\x1b[?25h\x1b[H\x1b[2J"
    }
}

/// The bytes that turn one screen into another; without a `before`, they paint the whole screen.
pub(crate) fn paint(before: Option<&Buffer>, after: &Buffer) -> String {
    let mut out = String::new();
    match before.filter(|before| before.area == after.area) {
        Some(before) => rows(&mut out, before, after),
        None => {
            out.push_str("\x1b[0m\x1b[H\x1b[2J");
            rows(&mut out, &Buffer::empty(after.area), after);
        }
    }
    out
}

/// In every row that changes, everything between its first and its last change: that takes fewer bytes than to place
/// the cursor before every word.
fn rows(out: &mut String, before: &Buffer, after: &Buffer) {
    let mut spans: BTreeMap<u16, (u16, u16)> = BTreeMap::new();
    for (x, y, _) in before.diff(after) {
        let span = spans.entry(y).or_insert((x, x));
        *span = (span.0.min(x), span.1.max(x));
    }
    let mut pen = None;
    for (y, (first, last)) in spans {
        let mut placed = false;
        let mut x = first;
        while x <= last {
            let cell = &after[(x, y)];
            if !placed {
                let _ = write!(out, "\x1b[{};{}H", y + 1, x + 1);
            }
            let wanted = (cell.fg, cell.modifier);
            if pen != Some(wanted) {
                sgr(out, wanted);
                pen = Some(wanted);
            }
            out.push_str(cell.symbol());
            // The cursor's position after a wide character depends on the terminal.
            let width = columns(cell.symbol()).max(1);
            placed = width == 1;
            x = x.saturating_add(u16::try_from(width).unwrap_or(1));
        }
    }
    if pen.is_some_and(|pen| pen != (Color::Reset, Modifier::empty())) {
        out.push_str("\x1b[0m");
    }
}

fn sgr(out: &mut String, (color, modifier): (Color, Modifier)) {
    out.push_str("\x1b[0");
    for (flag, code) in [
        (Modifier::BOLD, ";1"),
        (Modifier::UNDERLINED, ";4"),
        (Modifier::REVERSED, ";7"),
    ] {
        if modifier.contains(flag) {
            out.push_str(code);
        }
    }
    // The eight colours of a kernel's console; no others are used here.
    out.push_str(match color {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Blue => ";34",
        Color::Cyan => ";36",
        _ => "",
    });
    out.push('m');
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    fn buffer(lines: &[&str]) -> Buffer {
        Buffer::with_lines(lines.iter().copied())
    }

    #[test]
    fn only_what_changes_is_sent() {
        let before = buffer(&["abc", "def"]);
        let after = buffer(&["abc", "dXf"]);
        assert_eq!(paint(Some(&before), &after), "\x1b[2;2H\x1b[0mX");
        assert_eq!(paint(Some(&after), &after), "");
        let both_ends = buffer(&["Xbc", "dXX"]);
        assert_eq!(
            paint(Some(&before), &both_ends),
            "\x1b[1;1H\x1b[0mX\x1b[2;2HXX"
        );
    }

    #[test]
    fn another_size_is_painted_whole() {
        let painted = paint(Some(&buffer(&["abc"])), &buffer(&["ab"]));
        assert_eq!(painted, "\x1b[0m\x1b[H\x1b[2J\x1b[1;1H\x1b[0mab");
    }

    #[test]
    fn styles_are_set_once_and_taken_back() {
        let mut after = Buffer::empty(Rect::new(0, 0, 3, 1));
        let style = Style::new()
            .fg(Color::Red)
            .add_modifier(Modifier::BOLD | Modifier::REVERSED);
        after.set_string(0, 0, "ab", style);
        let painted = paint(None, &after);
        assert!(painted.ends_with("\x1b[1;1H\x1b[0;1;7;31mab\x1b[0m"));
    }

    #[test]
    fn a_wide_character_is_followed_by_a_placed_cursor() {
        let painted = paint(None, &buffer(&["節點a"]));
        assert!(
            painted.ends_with("\x1b[1;1H\x1b[0m節\x1b[1;3H點\x1b[1;5Ha"),
            "{painted:?}"
        );
    }
}
