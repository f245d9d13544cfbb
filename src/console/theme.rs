//! A terminal's abilities.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theme {
    /// Whether it has colours. Every meaning is also visible without colour.
    pub(crate) color: bool,
    pub(crate) unicode: bool,
    /// Whether the cursor can be placed. Otherwise only lines can be printed.
    pub(crate) screen: bool,
    /// Whether there is a second screen, so that the first one comes back at the end.
    pub(crate) alternate: bool,
}

impl Theme {
    pub(crate) fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_else(|| "dumb".to_owned());
        let family = |names: &[&str]| {
            names.iter().any(|name| {
                term.strip_prefix(name)
                    .is_some_and(|rest| rest.is_empty() || !rest.starts_with(char::is_alphanumeric))
            })
        };
        // The locale's order of precedence.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| set(name))
            .unwrap_or_default()
            .to_ascii_lowercase();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        // The kernel's console has 512 glyphs at most; which ones depends on its font.
        let linux = family(&["linux"]);
        let old = family(&["vt52", "vt100", "vt102", "vt220", "vt320"]);
        let screen = !family(&["dumb", "unknown", "network", "dialup"]);
        Self {
            color: screen && !old && !term.ends_with("-m") && set("NO_COLOR").is_none(),
            unicode: screen && utf8 && !linux && !old,
            screen,
            alternate: screen && !linux && !old,
        }
    }

    fn either(self, color: Style, mono: Style) -> Style {
        if self.color { color } else { mono }
    }

    pub(crate) fn good(self) -> Style {
        self.either(Style::new().fg(Color::Green), Style::new())
    }

    pub(crate) fn waiting(self) -> Style {
        self.either(
            Style::new().fg(Color::Yellow),
            Style::new().add_modifier(Modifier::BOLD),
        )
    }

    pub(crate) fn bad(self) -> Style {
        self.either(
            Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            Style::new().add_modifier(Modifier::REVERSED),
        )
    }

    /// The most important text.
    pub(crate) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The least important text. Not the terminal's faint: a kernel's console shows it as grey on grey, and others
    /// ignore it.
    pub(crate) fn quiet(self) -> Style {
        self.either(Style::new().fg(Color::Cyan), Style::new())
    }

    /// The word for the state, as striking as possible.
    pub(super) fn badge(self, color: Color) -> Style {
        self.either(Style::new().fg(color), Style::new())
            .add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }

    pub(super) fn border(self) -> border::Set<'static> {
        if self.unicode {
            border::PLAIN
        } else {
            border::Set {
                top_left: "+",
                top_right: "+",
                bottom_left: "+",
                bottom_right: "+",
                vertical_left: "|",
                vertical_right: "|",
                horizontal_top: "-",
                horizontal_bottom: "-",
            }
        }
    }

    /// The parts of a bar: done, not done.
    pub(super) fn bar(self) -> (&'static str, &'static str) {
        if self.unicode {
            ("█", "░")
        } else {
            ("#", ".")
        }
    }

    /// The sign before a step or a check.
    pub(super) fn mark(self, mark: StepMark) -> (&'static str, Style) {
        let (unicode, ascii, style) = match mark {
            StepMark::Done => ("✓", "[x]", self.good()),
            StepMark::Current => ("▶", "[>]", self.waiting()),
            StepMark::Later => ("·", "[ ]", Style::new()),
            StepMark::Unknown => ("?", "[?]", self.waiting()),
            StepMark::Wrong => ("✗", "[!]", self.bad()),
        };
        (if self.unicode { unicode } else { ascii }, style)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepMark {
    Done,
    Current,
    Later,
    Unknown,
    Wrong,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theme(variables: &[(&str, &str)]) -> Theme {
        Theme::from_environment(|name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn only_a_terminal_that_can_show_it_gets_more_than_ascii() {
        let utf8 = ("LANG", "en_US.UTF-8");
        assert!(theme(&[("TERM", "xterm-256color"), utf8]).unicode);
        assert!(theme(&[("TERM", "tmux"), ("LC_CTYPE", "C.utf8")]).unicode);
        assert!(!theme(&[("TERM", "xterm")]).unicode);
        assert!(!theme(&[("TERM", "xterm"), utf8, ("LC_ALL", "C")]).unicode);
        assert!(!theme(&[("TERM", "linux"), utf8]).unicode);
        assert!(!theme(&[("TERM", "vt100"), utf8]).unicode);
        assert!(theme(&[("TERM", "xterm"), utf8, ("LC_ALL", "")]).unicode);
    }

    #[test]
    fn colours_are_left_out_where_they_are_not_wanted_or_not_there() {
        assert!(theme(&[("TERM", "linux")]).color);
        assert!(!theme(&[("TERM", "linux"), ("NO_COLOR", "1")]).color);
        assert!(theme(&[("TERM", "linux"), ("NO_COLOR", "")]).color);
        assert!(!theme(&[("TERM", "vt100")]).color);
        assert!(!theme(&[("TERM", "vt220-8bit")]).color);
        assert!(!theme(&[("TERM", "xterm-m")]).color);
    }

    #[test]
    fn a_terminal_without_a_cursor_to_place_gets_lines() {
        assert!(!theme(&[("TERM", "dumb")]).screen);
        assert!(!theme(&[]).screen);
        assert!(theme(&[("TERM", "vt100")]).screen);
        assert!(!theme(&[("TERM", "linux")]).alternate);
        assert!(theme(&[("TERM", "screen")]).alternate);
    }
}
