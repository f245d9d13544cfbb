//! `windrow console`: the full-screen view for a terminal. A client of the status document: it
//! changes nothing and needs no right but to read that.
//!
//! One thread that sleeps until something tells it to look: the document, its writer's end, a key, a
//! signal, the journal's answer, the terminal that takes bytes again, or an age that reads
//! differently.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::poll::{PollFd, PollFlags, poll};
use ratatui::buffer::Buffer;

use super::document::{self, FoundStatus, exit_of, now};
use super::follow::{Follow, timeout};
use super::{Context, Exit};
use crate::console::journal::JournalQuery;
use crate::console::terminal::{ConsoleSignals, Terminal};
use crate::console::{
    Extent, Host, KeyAction, OperatorView, Overlay, Scene, Theme, decode, paint, render, word,
};
use crate::printable::printable;

/// No two redraws are closer than this, but for what a key asked for.
const BETWEEN_REDRAWS: Duration = Duration::from_millis(500);
/// The whole screen is painted again after this: others (the kernel) write on it.
const REPAINT_AFTER: Duration = Duration::from_secs(10);
/// Whose journal is shown.
const UNIT: &str = "windrow";

/// Show the node's state full-screen, for tty1
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one line of at most 65 characters and end
    #[arg(long)]
    once: bool,
    /// Do not end on q: there is nothing else on this terminal
    #[arg(long, conflicts_with = "once")]
    stay: bool,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if args.once {
        let status = document::current(context).shown();
        println!("{}", super::status::one_line(&status));
        return Ok(exit_of(status.readiness));
    }
    let theme = Theme::from_environment(|name| std::env::var(name).ok());
    if !theme.screen {
        return lines(context);
    }
    let signals = ConsoleSignals::take().context("signals cannot be taken")?;
    let terminal = Terminal::take(theme.alternate).context(
        "the console needs a terminal; `windrow status --watch` and `windrow console --once` do not",
    )?;
    let follow = Follow::file(&context.layout.status())?;
    let view = OperatorView::new(!args.stay);
    let scene = scene(&document::current(context));
    FullScreen {
        context,
        theme,
        signals,
        terminal,
        follow,
        scene,
        view,
        journal: None,
        screen: None,
        extent: Extent::default(),
    }
    .run()
}

fn scene(found: &FoundStatus) -> Scene {
    Scene {
        status: found.shown(),
        last: match found {
            FoundStatus::Current(_) => None,
            FoundStatus::Stale { last, .. } => last.as_deref().cloned(),
        },
        host: Host::now(),
    }
}

/// A terminal that cannot place its cursor gets a line for every change.
fn lines(context: &Context) -> anyhow::Result<Exit> {
    let mut follow = Follow::file(&context.layout.status())?;
    let mut shown = String::new();
    loop {
        let found = document::current(context);
        follow.writer_of(&found);
        let status = found.shown();
        let line = format!("{}: {}", word(&status).0, printable(&status.reason.message));
        if line != shown {
            println!("{line}");
            shown = line;
        }
        follow.wait(None);
    }
}

struct FullScreen<'a> {
    context: &'a Context,
    theme: Theme,
    signals: ConsoleSignals,
    terminal: Terminal,
    follow: Follow,
    scene: Scene,
    view: OperatorView,
    /// `journalctl`, while its answer is awaited.
    journal: Option<JournalQuery>,
    /// What is on the terminal.
    screen: Option<Buffer>,
    extent: Extent,
}

/// Why the screen is to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Draw {
    /// It is not.
    No,
    /// Something is known, or reads, differently: when its turn comes.
    InTurn,
    /// A person waits for it.
    Now,
}

impl FullScreen<'_> {
    fn run(mut self) -> anyhow::Result<Exit> {
        self.look_again();
        let mut draw = Draw::Now;
        let mut drawn: Option<Instant> = None;
        let mut painted: Option<Instant> = None;
        let mut next_age: Option<Instant> = None;
        loop {
            let instant = Instant::now();
            if next_age.is_some_and(|at| at <= instant) {
                next_age = None;
                draw = draw.max(Draw::InTurn);
            }
            let turn = drawn.map(|at| at + BETWEEN_REDRAWS);
            let due = match draw {
                Draw::No => false,
                Draw::InTurn => turn.is_none_or(|turn| turn <= instant),
                Draw::Now => true,
            };
            self.terminal.flush().context("the terminal is gone")?;
            if due && self.terminal.idle() {
                if painted.is_none_or(|at| instant.duration_since(at) >= REPAINT_AFTER) {
                    self.screen = None;
                }
                if self.screen.is_none() {
                    painted = Some(instant);
                }
                next_age = self.draw();
                draw = Draw::No;
                drawn = Some(instant);
                self.terminal.flush().context("the terminal is gone")?;
            }
            let until = [
                next_age,
                self.journal.as_ref().map(JournalQuery::until),
                self.follow.patience().map(|patience| instant + patience),
                // `poll` says when a busy terminal takes bytes again.
                turn.filter(|_| draw == Draw::InTurn && self.terminal.idle()),
            ];
            self.sleep(until.into_iter().flatten().min());

            let asked = self.signals.received();
            if asked.end {
                return Ok(Exit::Ok);
            }
            if asked.resize {
                self.screen = None;
                draw = Draw::Now;
            }
            if self.follow.noticed() || self.follow.patience().is_some() {
                self.look_again();
                draw = draw.max(Draw::InTurn);
                // Whatever has changed may have been written over it, too.
                self.screen = None;
            }
            if let Some(lines) = self
                .journal
                .as_mut()
                .and_then(|asked| asked.answer(Instant::now()))
            {
                self.journal = None;
                self.view.over(Overlay::Journal(lines));
                draw = Draw::Now;
            }
            for key in decode(&self.terminal.typed().context("the terminal is gone")?) {
                match self.view.press(key, self.extent) {
                    KeyAction::Show => draw = Draw::Now,
                    KeyAction::Journal => {
                        self.ask_journal();
                        draw = Draw::Now;
                    }
                    KeyAction::Redraw => {
                        self.screen = None;
                        draw = Draw::Now;
                    }
                    KeyAction::Quit => return Ok(Exit::Ok),
                    KeyAction::Nothing => {}
                }
            }
        }
    }

    fn look_again(&mut self) {
        let found = document::current(self.context);
        self.follow.writer_of(&found);
        self.scene = scene(&found);
    }

    /// Draws. Returns when the screen will read differently by itself.
    fn draw(&mut self) -> Option<Instant> {
        let now = now();
        let size = self.terminal.size();
        let drawn = render(&self.scene, &self.view, now, size, self.theme);
        self.terminal
            .queue(&paint(self.screen.as_ref(), &drawn.buffer));
        self.screen = Some(drawn.buffer);
        self.extent = drawn.extent;
        let wait = drawn.next?.duration_since(now);
        Some(Instant::now() + Duration::try_from(wait).unwrap_or_default())
    }

    fn ask_journal(&mut self) {
        match JournalQuery::unit(UNIT, Instant::now()) {
            Ok(asked) => self.journal = Some(asked),
            Err(why) => self.view.over(Overlay::Journal(vec![why])),
        }
    }

    /// Until something happens, or the time has come.
    fn sleep(&self, until: Option<Instant>) {
        let terminal = match self.terminal.idle() {
            true => PollFlags::POLLIN,
            false => PollFlags::POLLIN | PollFlags::POLLOUT,
        };
        let mut fds = vec![
            PollFd::new(self.terminal.fd(), terminal),
            PollFd::new(self.signals.fd(), PollFlags::POLLIN),
        ];
        let follow = self.follow.fds().into_iter();
        let journal = self.journal.as_ref().map(JournalQuery::fd);
        fds.extend(
            follow
                .chain(journal)
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN)),
        );
        let patience = until.map(|until| until.saturating_duration_since(Instant::now()));
        // Interrupted or not: everything is looked at afterwards.
        let _ = poll(&mut fds, timeout(patience));
    }
}
