//! `windrow wait`: for scripts.

use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use windrow_decide::{Readiness, Status};
use windrow_plan::rules::parse_duration;

use super::document::{self, exit_of};
use super::follow::Follow;
use super::{Context, Exit};
use crate::report::why::names_file;

/// Wait until the node or a file has reached a state
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to wait for: ready, staged, released=FILE or applied=FILE
    #[arg(long = "for", value_name = "WHAT", default_value = "ready")]
    what: What,
    /// Give up after this long (90s, 15m, 2h); without it, never
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

#[derive(Debug, Clone)]
enum What {
    Ready,
    Staged,
    Released(String),
    Applied(String),
}

impl FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "ready" => Ok(Self::Ready),
            None if text == "staged" => Ok(Self::Staged),
            Some(("released", file)) if !file.is_empty() => Ok(Self::Released(file.to_owned())),
            Some(("applied", file)) if !file.is_empty() => Ok(Self::Applied(file.to_owned())),
            _ => Err("write ready, staged, released=FILE or applied=FILE".to_owned()),
        }
    }
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let until = args
        .timeout
        .and_then(|timeout| Instant::now().checked_add(timeout));
    let mut follow = Follow::file(&context.layout.status())?;
    loop {
        let found = document::current(context);
        let status = found.shown();
        let exit = judge(&args.what, &status, &context.manifests());
        // A node that failed will not recover by itself: waiting is pointless.
        let hopeless = status.readiness == Readiness::Failed;
        if exit == Exit::Ok || hopeless {
            println!("{}", status.summary);
            return Ok(exit);
        }
        follow.writer_of(&found);
        if !follow.wait(until) {
            println!("gave up waiting: {}", status.reason.message);
            return Ok(exit);
        }
    }
}

/// Its state.
fn judge(what: &What, status: &Status, manifests: &Path) -> Exit {
    let otherwise = match exit_of(status.readiness) {
        // What was asked for is not so, though the node is fine.
        Exit::Ok => Exit::NotYet,
        exit => exit,
    };
    let staging = &status.staging;
    let applied = |file: &str| {
        staging
            .applied
            .iter()
            .any(|one| names_file(file, &one.file, manifests))
    };
    let failed = |file: &str| {
        staging
            .failed
            .iter()
            .any(|one| names_file(file, &one.file, manifests))
    };
    let released = |file: &str| {
        staging
            .released
            .iter()
            .any(|one| names_file(file, &one.file, manifests))
    };
    match what {
        What::Ready => exit_of(status.readiness),
        What::Staged if status.staging.settled && status.writer.is_some() => Exit::Ok,
        What::Released(file) if applied(file) || released(file) || failed(file) => Exit::Ok,
        What::Applied(file) if applied(file) => Exit::Ok,
        What::Applied(file) if failed(file) => Exit::Failed,
        What::Staged | What::Released(_) | What::Applied(_) => otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_wait_for_is_read_or_refused_with_the_choices() {
        for good in ["ready", "staged", "released=a.yaml", "applied=a.yaml"] {
            assert!(good.parse::<What>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "Ready",
            "released",
            "released=",
            "applied",
            "held=a.yaml",
        ] {
            assert!(
                bad.parse::<What>().unwrap_err().contains("released=FILE"),
                "{bad}"
            );
        }
    }
}
