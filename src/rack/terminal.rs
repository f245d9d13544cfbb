//! The rack on a terminal: the table, drawn again whenever something changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use windrow_rack::RackView;

use super::tasks::RackTasks;
use crate::console::terminal::{ConsoleSignals, Terminal};
use crate::console::{KeyPress, KeyReader, Theme, paint};
use crate::render::{RackSegment, rack_lines};

/// How often to check whether something has changed.
const LOOK: Duration = Duration::from_millis(500);
/// The whole screen is painted again after this many looks: other programs write on it.
const REPAINT: u32 = 20;

/// Shows `view` until the user quits or a task ends.
///
/// # Errors
///
/// When there is no terminal, or it is gone.
pub(crate) fn show(
    signals: &ConsoleSignals,
    tasks: &RackTasks,
    theme: Theme,
    address: &str,
    view: impl Fn() -> Arc<RackView>,
) -> std::io::Result<()> {
    let mut terminal = Terminal::take(theme.alternate)?;
    let mut keys = KeyReader::default();
    let mut screen: Option<Buffer> = None;
    let mut top = 0;
    let mut looks = 0;
    loop {
        if terminal.idle() {
            let size = terminal.size();
            let area = Rect::new(0, 0, size.width, size.height);
            let drawn = draw(&view(), area, &mut top, theme, address);
            looks += 1;
            let before = screen.as_ref().filter(|_| looks % REPAINT != 0);
            terminal.queue(&paint(before, &drawn));
            screen = Some(drawn);
        }
        terminal.flush()?;
        let wanted = match terminal.idle() {
            true => PollFlags::POLLIN,
            false => PollFlags::POLLIN | PollFlags::POLLOUT,
        };
        let mut fds = [
            PollFd::new(terminal.fd(), wanted),
            PollFd::new(signals.fd(), PollFlags::POLLIN),
            PollFd::new(tasks.fd(), PollFlags::POLLIN),
        ];
        // Interrupted or not, everything is checked afterwards.
        let _ = poll(&mut fds, patience(&keys));
        let asked = signals.received();
        if asked.end || tasks.ended().is_some() {
            return Ok(());
        }
        if asked.resize {
            screen = None;
        }
        let page = usize::from(terminal.size().height.saturating_sub(3));
        for key in keys.read(&terminal.typed()?, Instant::now()) {
            top = match key {
                KeyPress::Quit => return Ok(()),
                KeyPress::Up => top.saturating_sub(1),
                KeyPress::Down => top + 1,
                KeyPress::PageUp => top.saturating_sub(page),
                KeyPress::PageDown => top + page,
                KeyPress::Home => 0,
                KeyPress::End => usize::MAX,
                KeyPress::Redraw => {
                    screen = None;
                    top
                }
                _ => top,
            };
        }
    }
}

/// Until the next look, or until the rest of a key is no longer expected.
fn patience(keys: &KeyReader) -> PollTimeout {
    /// `poll` counts whole milliseconds, and would wake too early.
    const ROUNDING: Duration = Duration::from_millis(1);
    let left = |until: Instant| until.saturating_duration_since(Instant::now()) + ROUNDING;
    let wait = keys.until().map_or(LOOK, |until| left(until).min(LOOK));
    PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO)
}

/// The screen: the table from line `top` on, and below it the address and the keys.
pub(crate) fn draw(
    view: &RackView,
    area: Rect,
    top: &mut usize,
    theme: Theme,
    address: &str,
) -> Buffer {
    let mut buffer = Buffer::empty(area);
    let lines = rack_lines(view, usize::from(area.width));
    let room = usize::from(area.height.saturating_sub(1));
    // The first line concerns all nodes, and stays.
    *top = (*top).min(lines.len().saturating_sub(room));
    let (head, rest) = lines.split_at(lines.len().min(1));
    let shown = head.iter().chain(rest.iter().skip(*top)).take(room);
    for (y, line) in (0..area.height).zip(shown) {
        let spans: Vec<Span<'_>> = line
            .iter()
            .map(|segment| Span::styled(segment.text.clone(), style(segment, theme)))
            .collect();
        buffer.set_line(0, y, &Line::from(spans), area.width);
    }
    if area.height > 0 {
        let left = lines.len().saturating_sub(*top + room);
        let more = match left {
            0 => String::new(),
            number => format!("{number} more lines  "),
        };
        let foot = format!("{more}{address}  Up/Dn scroll  q quit");
        buffer.set_string(0, area.height - 1, foot, theme.quiet());
    }
    buffer
}

fn style(segment: &RackSegment, theme: Theme) -> Style {
    match segment.tone {
        "bad" => theme.bad(),
        "wait" => theme.waiting(),
        "good" => theme.good(),
        "dim" => theme.quiet(),
        "strong" => theme.strong(),
        _ => Style::new(),
    }
}
