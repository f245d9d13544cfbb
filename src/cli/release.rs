//! `windrow release`: the operator lets RKE2 apply files; `--failsafe` does this for a dead daemon.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;

use windrow_decide::{Event, Manual, Mark, OnFailure};
use windrow_model::reasons::Code;

use super::document::now;
use super::manual::{NO_REASON, carry_out};
use super::{Context, Exit};
use crate::act::{MarkerOutcome, Markers};
use crate::fs;
use crate::observe::requests::RequestAction;
use crate::observe::scan::MarkerEntry;
use crate::orders::holds::{self, Order, Which, list_manifests};
use crate::printable::shell_word;
use crate::render::lasted;
use crate::report::journal;

/// Release held manifests, so that RKE2 applies them
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Manifest files: paths below the manifests directory, or base names
    #[arg(required_unless_present_any = ["all", "failsafe"], value_name = "FILE")]
    files: Vec<String>,
    /// Release everything that Windrow holds
    #[arg(long, conflicts_with_all = ["files", "failsafe"])]
    all: bool,
    /// Lift all holds that may be lifted without the daemon; works without the daemon and without a configuration
    #[arg(long, conflicts_with = "files")]
    failsafe: bool,
    /// The reason; Windrow records it with your name and the time
    #[arg(long, default_value = NO_REASON)]
    reason: String,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if args.failsafe {
        return Ok(failsafe(context));
    }
    let which = match args.all {
        true => Which::All,
        false => Which::Named(&args.files),
    };
    let limits = context.settings().settings.staging.limits.clone();
    carry_out(context, &args.reason, |order| {
        let released = holds::release(order, which, &limits)?;
        if released.is_empty() {
            println!("Windrow holds no file.");
        }
        Ok(released)
    })
}

/// Lifts the holds that may be lifted. It runs when everything else has failed, so it never stops early: a marker that
/// cannot be handled is reported, and the next one follows.
fn failsafe(context: &Context) -> Exit {
    let lift = Lift {
        all: false,
        by: Manual::FAILSAFE,
        reason: "Windrow could not run",
    };
    lift.everywhere(context)
}

pub(super) struct Lift {
    /// Also holds that the fail-safe has to keep, except manual holds.
    pub(super) all: bool,
    pub(super) by: &'static str,
    pub(super) reason: &'static str,
}

impl Lift {
    /// In RKE2's default data directory and in the configured one.
    pub(super) fn everywhere(&self, context: &Context) -> Exit {
        let default = context.layout.manifests();
        let mut fine = self.below(context, &default);
        // Only now: a configuration that cannot be loaded, or takes too long, must not keep the holds in the default
        // directory.
        let configured = std::panic::catch_unwind(AssertUnwindSafe(|| context.manifests()));
        if let Some(other) = configured.ok().filter(|one| *one != default) {
            fine &= self.below(context, &other);
        }
        match fine {
            true => Exit::Ok,
            false => Exit::Failure,
        }
    }

    fn below(&self, context: &Context, directory: &Path) -> bool {
        if !fs::exists(directory) {
            println!("{} does not exist: nothing to lift", directory.display());
            return true;
        }
        let found = match list_manifests(directory, now()) {
            Ok(found) => found,
            Err(error) => {
                eprintln!("windrow: {error:#}");
                return false;
            }
        };
        let mut fine = true;
        let (mut lifted, mut kept) = (0, 0);
        for marker in &found.markers {
            match self.lift(context, directory, marker) {
                Lifted::Yes => lifted += 1,
                Lifted::Kept(why) => {
                    println!("kept   {}: {why}", marker.path);
                    kept += 1;
                }
                Lifted::Failed(why) => {
                    eprintln!("windrow: {why}");
                    fine = false;
                }
            }
        }
        println!("{lifted} lifted, {kept} kept in {}", directory.display());
        fine
    }

    fn lift(&self, context: &Context, directory: &Path, marker: &MarkerEntry) -> Lifted {
        if let Some(error) = &marker.unreadable {
            return Lifted::Failed(format!("{} cannot be read: {error}", marker.path));
        }
        let foreign = || Lifted::Kept("Windrow did not make it".to_owned());
        let Some(mark) = &marker.mark else {
            return foreign();
        };
        let path = directory.join(marker.path.as_str()).display().to_string();
        let path = shell_word(&path);
        if let Some(why) = self.why_kept(mark, &path) {
            return Lifted::Kept(why);
        }
        match Markers::new(directory).remove(&marker.path) {
            Ok(MarkerOutcome::Changed | MarkerOutcome::Unchanged | MarkerOutcome::NoDirectory) => {}
            Ok(MarkerOutcome::Foreign) => return foreign(),
            Err(error) => return Lifted::Failed(format!("{}: {error}", marker.path)),
        }
        println!("lifted {}: {}", marker.path, mark.why);
        self.report(context, mark);
        if mark.on_failure == OnFailure::Keep {
            println!(
                "       {} is now unprotected: RKE2 applies it at its next pass, which may do harm. To block \
                 it: echo >{path}",
                mark.file
            );
        }
        self.record(context, mark);
        Lifted::Yes
    }

    /// Without a daemon nothing else in the journal says that the file was released.
    fn report(&self, context: &Context, mark: &Mark) {
        if !context.layout.is_this_machine() {
            return;
        }
        let age = lasted(now().duration_since(mark.since).as_secs().max(0));
        let message =
            Code::Released.say(&[("file", &mark.file), ("age", &age), ("why", self.reason)]);
        journal::write_event_of_verb(&Event {
            code: Code::Released,
            file: Some(mark.file.to_string()),
            message,
        });
    }

    /// Why this hold stays; `None` if it may be lifted.
    fn why_kept(&self, mark: &Mark, path: &str) -> Option<String> {
        if !self.all {
            let keeps = mark.on_failure == OnFailure::Keep;
            return keeps.then(|| format!("{} (onFailure: keep)", mark.why));
        }
        (mark.code == Code::HeldByHand).then(|| {
            format!(
                "{}; RKE2 does not apply {} until the marker is removed: rm {path}",
                mark.why, mark.file
            )
        })
    }

    /// A released file stays released, even when the daemon comes back. An unwritable spool does not stop the release. A
    /// marker without a digest was for unread content: its release counts for no content.
    fn record(&self, context: &Context, mark: &Mark) {
        if mark.digest.is_empty() {
            return;
        }
        let order = Order {
            layout: &context.layout,
            by: self.by,
            reason: self.reason,
            at: now(),
        };
        let digests = BTreeMap::from([(mark.file.clone(), mark.digest.to_string())]);
        let action = RequestAction::Release;
        if let Err(error) = holds::publish_file_request(&order, action, &mark.file, digests) {
            println!("       not recorded: {error:#}");
        }
    }
}

enum Lifted {
    Yes,
    Kept(String),
    Failed(String),
}
