//! Shared by `hold` and `release`: the name of the user, and the printed outcome.

use std::time::{Duration, Instant};

use windrow_decide::why::until_applied;
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

use super::document::{self, FoundStatus, now};
use super::follow::Follow;
use super::{Context, Exit, complain};
use crate::layout::Layout;
use crate::orders::holds::{FileOutcome, ManualChange, Order, OrderRefused};

/// How long a busy daemon may take before the verb ends without its answer.
const DAEMON_ANSWERS: Duration = Duration::from_secs(3);

pub(super) const NO_REASON: &str = "no reason given";

/// The user: the one behind sudo, the login name, or the user id.
pub(super) fn who() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid())
        .ok()
        .flatten()
        .map(|user| user.name);
    ["SUDO_USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .filter(|name| !name.is_empty() && !name.chars().any(char::is_control))
        .or(user)
        .unwrap_or_else(|| format!("uid {}", nix::unistd::getuid()))
}

/// Carries an order out in the name of the user who runs this program, and prints the results.
pub(super) fn carry_out(
    context: &Context,
    reason: &str,
    act: impl FnOnce(&Order<'_>) -> Result<Vec<FileOutcome>, OrderRefused>,
) -> anyhow::Result<Exit> {
    let layout: Layout = context.node();
    let by = who();
    let order = Order {
        layout: &layout,
        by: &by,
        reason,
        at: now(),
    };
    let outcomes = match act(&order) {
        Ok(outcomes) => outcomes,
        Err(OrderRefused::Names(errors)) => {
            complain(&errors);
            return Ok(Exit::Usage);
        }
        Err(OrderRefused::System(error)) => anyhow::bail!(with_right(&format!("{error:#}"))),
    };
    let because = match reason {
        NO_REASON => String::new(),
        reason => format!(": {reason}"),
    };
    wait_for_daemon(context, &outcomes);
    let mut exit = Exit::Ok;
    let recorded = outcomes.iter().any(|outcome| outcome.result.is_ok());
    let mut released = false;
    for FileOutcome { file, result } in outcomes {
        match result {
            Ok(ManualChange::Held) => println!("{file} held by {by}{because}"),
            Ok(ManualChange::HeldTogether) => {
                println!("{file} is also held: both share a name, and one marker hides both");
            }
            Ok(ManualChange::ReleasedTogether) => {
                println!("{file} is also released: both share a name, and one marker hid both");
            }
            Ok(ManualChange::Released) => {
                released = true;
                println!("{file} released by {by}{because}");
            }
            Ok(ManualChange::WasNotHeld) => {
                println!("{file} was not held. Windrow will not hold it as it is now");
            }
            Err(why) => {
                eprintln!("windrow: {file}: {}", with_right(&why));
                exit = Exit::Failure;
            }
        }
    }
    match document::current(context) {
        FoundStatus::Current(status) if released => {
            println!("{}.", until_applied(&status));
        }
        FoundStatus::Stale { .. } if recorded => {
            println!(
                "Windrow's daemon does not run. It will see this when it starts (systemctl start windrow)."
            );
        }
        FoundStatus::Current(_) | FoundStatus::Stale { .. } => {}
    }
    Ok(exit)
}

/// Waits until the daemon's document shows the holds, so that the next command sees them.
fn wait_for_daemon(context: &Context, outcomes: &[FileOutcome]) {
    let Ok(mut follow) = Follow::file(&context.layout.status()) else {
        return;
    };
    let until = Instant::now() + DAEMON_ANSWERS;
    loop {
        let found = document::current(context);
        let FoundStatus::Current(status) = &found else {
            return;
        };
        let is_held = |file: &ManifestPath| {
            let by_hand = status.staging.held.iter();
            let mut by_hand = by_hand.filter(|held| held.code == Code::HeldByHand);
            by_hand.any(|held| held.file == *file)
        };
        let is_shown = |outcome: &FileOutcome| match outcome.result {
            Ok(ManualChange::Held) => is_held(&outcome.file),
            _ => true,
        };
        if outcomes.iter().all(is_shown) {
            return;
        }
        follow.writer_of(&found);
        if !follow.wait(Some(until)) {
            return;
        }
    }
}

/// The error, with the fix if the user is not root.
fn with_right(why: &str) -> String {
    let refused = why.contains("Permission denied") || why.contains("Operation not permitted");
    match refused && !nix::unistd::geteuid().is_root() {
        true => format!("{why}; this needs root: run it with sudo"),
        false => why.to_owned(),
    }
}
