//! What the operator chose to see.

use super::Key;

/// What lies over the panes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Overlay {
    /// The keys and the words.
    Help,
    /// The last lines of the journal, as far as they are there.
    Journal(Vec<String>),
}

/// What the operator chose to see.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    /// The pane, by number; none until one is chosen: then the one that matters most is shown.
    pub(super) pane: Option<usize>,
    /// The first line that is shown of it.
    pub(super) top: usize,
    /// What lies over it.
    pub(super) overlay: Option<Overlay>,
    /// Is there anywhere to go back to? Not on a console that shows nothing else.
    pub(super) may_quit: bool,
}

/// What was drawn, as far as the next key needs it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The pane that is shown.
    pub(super) pane: usize,
    /// How many there are.
    pub(super) panes: usize,
    /// The first line that is shown.
    pub(super) top: usize,
    /// Lines of the pane or of what lies over it.
    pub(super) lines: usize,
    /// How many of them fit.
    pub(super) page: usize,
}

/// What a key asks of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// To show the view.
    Show,
    /// To fetch the journal.
    Journal,
    /// To paint the whole screen.
    Redraw,
    /// To end.
    Quit,
    /// Nothing.
    Nothing,
}

impl View {
    /// What matters most, and a way out where there is one.
    pub(crate) fn new(may_quit: bool) -> Self {
        Self {
            may_quit,
            ..Self::default()
        }
    }

    /// Takes a key in. `extent` is what is on the screen.
    pub(crate) fn press(&mut self, key: Key, extent: Extent) -> Chosen {
        let last = extent.lines.saturating_sub(extent.page);
        let page = extent.page.saturating_sub(1).max(1);
        match key {
            Key::Up => self.top = extent.top.saturating_sub(1),
            Key::Down => self.top = (extent.top + 1).min(last),
            Key::PageUp => self.top = extent.top.saturating_sub(page),
            Key::PageDown => self.top = (extent.top + page).min(last),
            Key::Home => self.top = 0,
            Key::End => self.top = last,
            Key::Next => self.go_to((extent.pane + 1) % extent.panes.max(1)),
            Key::Previous => {
                self.go_to((extent.pane + extent.panes.max(1) - 1) % extent.panes.max(1));
            }
            Key::Pane(number) if number <= extent.panes => self.go_to(number - 1),
            Key::Pane(_) => return Chosen::Nothing,
            Key::Journal if matches!(self.overlay, Some(Overlay::Journal(_))) => self.back(),
            Key::Journal => return Chosen::Journal,
            Key::Help if self.overlay == Some(Overlay::Help) => self.back(),
            Key::Help => self.over(Overlay::Help),
            Key::Back | Key::Quit if self.overlay.is_some() => self.back(),
            Key::Quit if self.may_quit => return Chosen::Quit,
            // Left alone for a while, it shows what matters most again.
            Key::Back => self.pane = None,
            Key::Quit => return Chosen::Nothing,
            Key::Redraw => return Chosen::Redraw,
        }
        Chosen::Show
    }

    /// Puts something over the panes, from its beginning (help) or at its end (journal).
    pub(crate) fn over(&mut self, overlay: Overlay) {
        self.top = match overlay {
            Overlay::Help => 0,
            // Drawing brings it back to the last page.
            Overlay::Journal(_) => usize::MAX,
        };
        self.overlay = Some(overlay);
    }

    fn back(&mut self) {
        self.overlay = None;
        self.top = 0;
    }

    fn go_to(&mut self, pane: usize) {
        self.overlay = None;
        self.pane = Some(pane);
        self.top = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent {
        pane: 0,
        panes: 3,
        top: 0,
        lines: 25,
        page: 10,
    };

    #[test]
    fn scrolling_stays_within_what_is_there() {
        let mut view = View::default();
        let at = |top| Extent { top, ..EXTENT };
        view.press(Key::Up, at(0));
        assert_eq!(view.top, 0);
        view.press(Key::PageDown, at(0));
        assert_eq!(view.top, 9);
        view.press(Key::PageDown, at(9));
        assert_eq!(view.top, 15);
        view.press(Key::Down, at(15));
        assert_eq!(view.top, 15);
        view.press(Key::Home, at(15));
        assert_eq!(view.top, 0);
        view.press(Key::End, Extent { lines: 3, ..EXTENT });
        assert_eq!(view.top, 0);
    }

    #[test]
    fn tab_goes_round_and_leaves_what_lies_over_the_panes() {
        let mut view = View::default();
        assert_eq!(view.press(Key::Help, EXTENT), Chosen::Show);
        view.press(Key::Next, EXTENT);
        assert_eq!((view.pane, &view.overlay), (Some(1), &None));
        view.press(Key::Next, Extent { pane: 2, ..EXTENT });
        assert_eq!(view.pane, Some(0));
        view.press(Key::Previous, EXTENT);
        assert_eq!(view.pane, Some(2));
        assert_eq!(view.press(Key::Pane(9), EXTENT), Chosen::Nothing);
        view.press(Key::Back, EXTENT);
        assert_eq!(view.pane, None);
    }

    #[test]
    fn q_leaves_help_and_then_the_console_where_there_is_anything_else() {
        let mut view = View::new(true);
        view.press(Key::Help, EXTENT);
        assert_eq!(view.press(Key::Quit, EXTENT), Chosen::Show);
        assert_eq!(view.press(Key::Quit, EXTENT), Chosen::Quit);
        view.may_quit = false;
        assert_eq!(view.press(Key::Quit, EXTENT), Chosen::Nothing);
    }
}
