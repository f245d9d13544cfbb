//! The view that the operator chose.

use super::KeyPress;
use super::panes::Pane;

/// What covers the panes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Overlay {
    Help,
    Journal(Vec<String>),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct OperatorView {
    /// The pane, by number; `None` until one is chosen: then the most important one is shown.
    pub(super) pane: Option<usize>,
    pub(super) top: usize,
    pub(super) overlay: Option<Overlay>,
    /// Whether there is a screen to go back to. A console that shows nothing else has none.
    pub(super) may_quit: bool,
}

/// The facts about the drawn screen for the next key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(super) pane: usize,
    /// How many there are.
    pub(super) panes: usize,
    pub(super) top: usize,
    pub(super) lines: usize,
    pub(super) page: usize,
}

impl Extent {
    pub(crate) fn shows_machine(self) -> bool {
        Pane::ALL.get(self.pane) == Some(&Pane::Machine)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyAction {
    Show,
    Journal,
    Redraw,
    Quit,
    Nothing,
}

impl OperatorView {
    /// Begins with the most important pane. `may_quit`: there is a screen to go back to.
    pub(crate) fn new(may_quit: bool) -> Self {
        Self {
            may_quit,
            ..Self::default()
        }
    }

    pub(crate) fn press(&mut self, key: KeyPress, extent: Extent) -> KeyAction {
        let last = extent.lines.saturating_sub(extent.page);
        let page = extent.page.saturating_sub(1).max(1);
        match key {
            KeyPress::Up => self.top = extent.top.saturating_sub(1),
            KeyPress::Down => self.top = (extent.top + 1).min(last),
            KeyPress::PageUp => self.top = extent.top.saturating_sub(page),
            KeyPress::PageDown => self.top = (extent.top + page).min(last),
            KeyPress::Home => self.top = 0,
            KeyPress::End => self.top = last,
            KeyPress::Next => self.go_to((extent.pane + 1) % extent.panes.max(1)),
            KeyPress::Previous => {
                self.go_to((extent.pane + extent.panes.max(1) - 1) % extent.panes.max(1));
            }
            KeyPress::Pane(number) if number <= extent.panes => self.go_to(number - 1),
            KeyPress::Pane(_) => return KeyAction::Nothing,
            KeyPress::Journal if matches!(self.overlay, Some(Overlay::Journal(_))) => self.back(),
            KeyPress::Journal => return KeyAction::Journal,
            KeyPress::Help if self.overlay == Some(Overlay::Help) => self.back(),
            KeyPress::Help => self.over(Overlay::Help),
            KeyPress::Back | KeyPress::Quit if self.overlay.is_some() => self.back(),
            KeyPress::Quit if self.may_quit => return KeyAction::Quit,
            // After a while without keys it shows the most important pane again.
            KeyPress::Back => self.pane = None,
            KeyPress::Quit => return KeyAction::Nothing,
            KeyPress::Redraw => return KeyAction::Redraw,
        }
        KeyAction::Show
    }

    /// Covers the panes, from the beginning (help) or at the end (journal).
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
        let mut view = OperatorView::default();
        let at = |top| Extent { top, ..EXTENT };
        view.press(KeyPress::Up, at(0));
        assert_eq!(view.top, 0);
        view.press(KeyPress::PageDown, at(0));
        assert_eq!(view.top, 9);
        view.press(KeyPress::PageDown, at(9));
        assert_eq!(view.top, 15);
        view.press(KeyPress::Down, at(15));
        assert_eq!(view.top, 15);
        view.press(KeyPress::Home, at(15));
        assert_eq!(view.top, 0);
        view.press(KeyPress::End, Extent { lines: 3, ..EXTENT });
        assert_eq!(view.top, 0);
    }

    #[test]
    fn tab_goes_round_and_leaves_what_lies_over_the_panes() {
        let mut view = OperatorView::default();
        assert_eq!(view.press(KeyPress::Help, EXTENT), KeyAction::Show);
        view.press(KeyPress::Next, EXTENT);
        assert_eq!((view.pane, &view.overlay), (Some(1), &None));
        view.press(KeyPress::Next, Extent { pane: 2, ..EXTENT });
        assert_eq!(view.pane, Some(0));
        view.press(KeyPress::Previous, EXTENT);
        assert_eq!(view.pane, Some(2));
        assert_eq!(view.press(KeyPress::Pane(9), EXTENT), KeyAction::Nothing);
        view.press(KeyPress::Back, EXTENT);
        assert_eq!(view.pane, None);
    }

    #[test]
    fn q_leaves_help_and_then_the_console_where_there_is_anything_else() {
        let mut view = OperatorView::new(true);
        view.press(KeyPress::Help, EXTENT);
        assert_eq!(view.press(KeyPress::Quit, EXTENT), KeyAction::Show);
        assert_eq!(view.press(KeyPress::Quit, EXTENT), KeyAction::Quit);
        view.may_quit = false;
        assert_eq!(view.press(KeyPress::Quit, EXTENT), KeyAction::Nothing);
    }
}
