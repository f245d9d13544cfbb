//! `windrow console`: the full-screen view for a terminal. It reads the status document, changes nothing, and needs no
//! other permission.
//!
//! One thread that sleeps until it has to look: at the document, its writer's end, a key, a signal, the journal's
//! answer, the terminal that accepts bytes again, or an age whose text changes.

use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::poll::{PollFd, PollFlags, poll};
use ratatui::buffer::Buffer;
use windrow_decide::sentence;

use super::document::{self, FoundStatus, exit_of, now};
use super::follow::{Follow, timeout};
use super::out::stdout;
use super::{Context, Exit};
use crate::addresses::AddressWatch;
use crate::causes::plain;
use crate::console::journal::JournalQuery;
use crate::console::terminal::{ConsoleSignals, Terminal};
use crate::console::{
    Extent, Host, KeyAction, KeyPress, KeyReader, OperatorView, Overlay, Scene, Theme, paint,
    render,
};
use crate::inspect::harvester_console::console_units;
use crate::layout::Layout;
use crate::observe::host::read_host;
use crate::observe::network::has_our_links;
use crate::printable::printable;

/// No two redraws are closer than this, unless a key asks for one.
const BETWEEN_REDRAWS: Duration = Duration::from_millis(500);
/// The whole screen is painted again after this time: the kernel may write on it.
const REPAINT_AFTER: Duration = Duration::from_secs(10);
/// The figures of the machine are read again after this time, while they are on the screen.
const REREAD_AFTER: Duration = Duration::from_secs(10);
const UNIT: &str = "windrow";

/// Show the node's state full-screen, for tty1
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one line of at most 65 characters and exit
    #[arg(long)]
    once: bool,
    /// Ignore the key q, because this terminal shows nothing else
    #[arg(long, conflicts_with = "once")]
    stay: bool,
    /// Print the unit of the terminal with Harvester's own console, and exit
    #[arg(long, conflicts_with_all = ["once", "stay"])]
    unit: bool,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if args.once {
        let found = document::current(context);
        let (status, now) = (found.shown(), found.now(&context.layout));
        println!("{}", super::status::one_line(&status, now));
        return Ok(exit_of(status.readiness));
    }
    if args.unit {
        return harvesters_unit(context);
    }
    let theme = Theme::from_environment(|name| std::env::var(name).ok());
    if !theme.screen {
        return lines(context);
    }
    let signals = ConsoleSignals::take().context("signals cannot be handled")?;
    let terminal = Terminal::take(theme.alternate).context(
        "the console needs a terminal; `windrow status --watch` and `windrow console --once` do not",
    )?;
    let follow = Follow::file(&context.layout.status())?;
    let view = OperatorView::new(!args.stay);
    let scene = scene(&document::current(context), &context.layout);
    FullScreen {
        context,
        theme,
        signals,
        terminal,
        follow,
        scene,
        view,
        keys: KeyReader::default(),
        journal: None,
        addresses: AddressWatch::begin().ok(),
        machine_read: Instant::now(),
        screen: None,
        extent: Extent::default(),
        redraws: Redraws::default(),
    }
    .run()
}

/// Prints where Harvester's own console is, and where else it would be started.
fn harvesters_unit(context: &Context) -> anyhow::Result<Exit> {
    let units = match console_units(&context.layout) {
        Ok(units) => units,
        Err(error) => {
            eprintln!("windrow: the kernel's consoles cannot be read: {error}");
            return Ok(Exit::Unknown);
        }
    };
    for left in &units.left {
        eprintln!(
            "windrow: Harvester's console is started by {left} too, for an earlier command line; if you do not want this: \
             rm -r /etc/systemd/system/{left}.d"
        );
    }
    let Some(unit) = units.chosen else {
        eprintln!("windrow: Harvester's console uses none of the kernel's consoles");
        return Ok(Exit::Failed);
    };
    println!("{unit}");
    Ok(Exit::Ok)
}

fn scene(found: &FoundStatus, layout: &Layout) -> Scene {
    Scene {
        status: found.shown(),
        last: match found {
            FoundStatus::Current(_) => None,
            FoundStatus::Stale { last, .. } => last.as_deref().cloned(),
        },
        host: Host::now(has_our_links(layout)),
        machine: read_host(layout, now()),
    }
}

/// A terminal that cannot place its cursor gets a line for every change.
fn lines(context: &Context) -> anyhow::Result<Exit> {
    let mut follow = Follow::file(&context.layout.status())?;
    let mut out = stdout();
    let mut shown = String::new();
    loop {
        let found = document::current(context);
        follow.writer_of(&found);
        let status = found.shown();
        let head = match status.headline.as_str() {
            "" => sentence::word(&status),
            head => head,
        };
        let line = printable(&plain(&format!("{head}: {}", status.reason.message))) + "\n";
        let is_written = line == shown || out.write_all(line.as_bytes()).is_ok();
        // If the output has no reader any more (`| head`), it ends without a message.
        if !is_written || !wait_while_read(&mut follow, out.as_fd()) {
            return Ok(exit_of(status.readiness));
        }
        shown = line;
    }
}

/// Waits until there may be a change. False if the output has no reader any more.
fn wait_while_read(follow: &mut Follow, out: BorrowedFd<'_>) -> bool {
    let mut fds = vec![PollFd::new(out, PollFlags::empty())];
    let followed = follow.fds().into_iter();
    fds.extend(followed.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    // Interrupted or not, everything is checked afterwards.
    let _ = poll(&mut fds, timeout(follow.patience()));
    let is_gone = fds[0].any().unwrap_or_default();
    drop(fds);
    follow.noticed();
    !is_gone
}

struct FullScreen<'a> {
    context: &'a Context,
    theme: Theme,
    signals: ConsoleSignals,
    terminal: Terminal,
    follow: Follow,
    scene: Scene,
    view: OperatorView,
    keys: KeyReader,
    journal: Option<JournalQuery>,
    /// `None` if the kernel does not report changes: then the addresses are as old as the screen.
    addresses: Option<AddressWatch>,
    machine_read: Instant,
    screen: Option<Buffer>,
    extent: Extent,
    redraws: Redraws,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Draw {
    No,
    /// The state or an age has changed: when its turn comes.
    InTurn,
    /// A user waits for it: at once.
    #[default]
    Now,
}

#[derive(Default)]
struct Redraws {
    wanted: Draw,
    drawn: Option<Instant>,
    painted: Option<Instant>,
    /// When an age on it changes.
    next_age: Option<Instant>,
}

impl Redraws {
    fn want(&mut self, draw: Draw) {
        self.wanted = self.wanted.max(draw);
    }

    /// When the next redraw may come that no user waits for.
    fn turn(&self) -> Option<Instant> {
        self.drawn.map(|at| at + BETWEEN_REDRAWS)
    }

    fn is_due(&mut self, now: Instant) -> bool {
        if self.next_age.is_some_and(|at| at <= now) {
            self.next_age = None;
            self.want(Draw::InTurn);
        }
        match self.wanted {
            Draw::No => false,
            Draw::InTurn => self.turn().is_none_or(|turn| turn <= now),
            Draw::Now => true,
        }
    }

    /// Other programs may have written on the screen by now.
    fn is_old(&self, now: Instant) -> bool {
        let age = |at: Instant| now.duration_since(at);
        self.painted.is_none_or(|at| age(at) >= REPAINT_AFTER)
    }
}

impl FullScreen<'_> {
    fn run(mut self) -> anyhow::Result<Exit> {
        self.look_again();
        loop {
            let now = Instant::now();
            if self.machine_due().is_some_and(|due| due <= now) {
                self.scene.machine = read_host(&self.context.layout, document::now());
                self.machine_read = now;
                self.redraws.want(Draw::InTurn);
            }
            self.draw_if_due(now)?;
            self.sleep(self.next_wake(now));

            let asked = self.signals.received();
            if asked.end {
                return Ok(Exit::Ok);
            }
            if asked.resize {
                self.screen = None;
                self.redraws.want(Draw::Now);
            }
            if self.follow.noticed() || self.follow.patience().is_some() {
                self.look_again();
                self.redraws.want(Draw::InTurn);
                // A change may have been written over it, too.
                self.screen = None;
            }
            if self.addresses.as_ref().is_some_and(AddressWatch::noticed) && self.look_at_host() {
                self.redraws.want(Draw::InTurn);
            }
            self.take_journal();
            let typed = self.terminal.typed().context("the terminal is gone")?;
            for key in self.keys.read(&typed, Instant::now()) {
                if self.press(key) {
                    return Ok(Exit::Ok);
                }
            }
        }
    }

    fn draw_if_due(&mut self, now: Instant) -> anyhow::Result<()> {
        let due = self.redraws.is_due(now);
        self.terminal.flush().context("the terminal is gone")?;
        if !due || !self.terminal.idle() {
            return Ok(());
        }
        if self.redraws.is_old(now) {
            self.screen = None;
        }
        if self.screen.is_none() {
            self.redraws.painted = Some(now);
        }
        self.redraws.next_age = self.draw();
        self.redraws.wanted = Draw::No;
        self.redraws.drawn = Some(now);
        self.terminal.flush().context("the terminal is gone")
    }

    fn next_wake(&self, now: Instant) -> Option<Instant> {
        let waits_for_turn = self.redraws.wanted == Draw::InTurn && self.terminal.idle();
        [
            self.redraws.next_age,
            self.machine_due(),
            self.journal.as_ref().map(JournalQuery::until),
            self.follow.patience().map(|patience| now + patience),
            self.keys.until(),
            // `poll` reports when a terminal accepts bytes again.
            self.redraws.turn().filter(|_| waits_for_turn),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn take_journal(&mut self) {
        let journal = self.journal.as_mut();
        if let Some(lines) = journal.and_then(|asked| asked.answer(Instant::now())) {
            self.journal = None;
            self.view.over(Overlay::Journal(lines));
            self.redraws.want(Draw::Now);
        }
    }

    fn press(&mut self, key: KeyPress) -> bool {
        match self.view.press(key, self.extent) {
            KeyAction::Quit => return true,
            KeyAction::Nothing => return false,
            KeyAction::Show => {}
            KeyAction::Journal => self.ask_journal(),
            KeyAction::Redraw => self.screen = None,
        }
        self.redraws.want(Draw::Now);
        false
    }

    fn look_again(&mut self) {
        let found = document::current(self.context);
        self.follow.writer_of(&found);
        self.scene = scene(&found, &self.context.layout);
        self.machine_read = Instant::now();
    }

    /// Reads the name and the addresses again. True if they have changed.
    fn look_at_host(&mut self) -> bool {
        let host = Host::now(has_our_links(&self.context.layout));
        let changed = host != self.scene.host;
        self.scene.host = host;
        changed
    }

    /// When the machine's figures are read again, if they are on the screen.
    fn machine_due(&self) -> Option<Instant> {
        let shown = self.screen.is_some() && self.extent.shows_machine();
        shown.then(|| self.machine_read + REREAD_AFTER)
    }

    /// Draws. Returns the time at which the screen will change without an event.
    fn draw(&mut self) -> Option<Instant> {
        // No address watch reports a new name.
        self.look_at_host();
        let now = document::now_on(&self.context.layout, self.scene.last.is_none());
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

    /// Waits until something happens or the time has come.
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
        let addresses = self.addresses.as_ref().map(AddressWatch::fd);
        fds.extend(
            follow
                .chain(journal)
                .chain(addresses)
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN)),
        );
        let patience = until.map(|until| until.saturating_duration_since(Instant::now()));
        // Interrupted or not, everything is checked afterwards.
        let _ = poll(&mut fds, timeout(patience));
    }
}
