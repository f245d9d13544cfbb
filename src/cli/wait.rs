//! `windrow wait`: for scripts.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use windrow_decide::why::{APPLIED_UNREAD, files_named, names_file, nearest_file, staged};
use windrow_decide::{Pace, Readiness, Status};
use windrow_model::manifest::ManifestPath;
use windrow_plan::rke2;
use windrow_plan::rules::parse_duration;

use super::document::{self, FoundStatus, exit_of, now};
use super::follow::Follow;
use super::{Context, Exit};
use crate::orders::holds::list_manifests;

/// Wait until the node or a file reaches a state
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The state: ready (or degraded), staged, released=FILE or applied=FILE. FILE must exist when the command starts
    #[arg(long = "for", value_name = "WHAT", default_value = "ready")]
    what: What,
    /// Maximum time to wait, for example 90s, 15m or 2h [default: no limit]
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

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("the node is ready"),
            Self::Staged => f.write_str("every manifest is applied, or held on purpose"),
            Self::Released(file) => write!(f, "{file} is released"),
            Self::Applied(file) => write!(f, "{file} is applied"),
        }
    }
}

impl What {
    /// `is_known`: whether the document says so.
    fn not_so(&self, is_known: bool) -> String {
        match self {
            what if !is_known => format!("Windrow cannot tell whether {what}"),
            Self::Ready => "the node is not ready".to_owned(),
            Self::Staged => "not every manifest is applied".to_owned(),
            Self::Released(file) => format!("{file} is not released"),
            Self::Applied(file) => format!("{file} is not applied"),
        }
    }
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let until = args
        .timeout
        .and_then(|timeout| Instant::now().checked_add(timeout));
    let mut follow = Follow::file(&context.layout.status())?;
    let manifests = context.manifests();
    loop {
        let found = document::current(context);
        let status = found.shown();
        if let FoundStatus::Current(status) = &found
            && let Err(why) = is_there(&args.what, status, &manifests)
        {
            eprintln!("windrow: {why}");
            return Ok(Exit::Usage);
        }
        let exit = judge(&args.what, &status, &manifests);
        if exit == Exit::Ok {
            println!("{}", reached(&args.what, &status, &manifests));
            return Ok(exit);
        }
        // There is proof that the node does not recover automatically: waiting is pointless.
        if status.pace == Some(Pace::Stuck) {
            let why = &status.reason.message;
            println!("gave up, the node is stuck: {why}");
            return Ok(exit);
        }
        follow.writer_of(&found);
        if !follow.wait(until) {
            let why = why_not(&args.what, &status, &manifests);
            let is_known = match (&found, &args.what) {
                (FoundStatus::Stale { .. }, _) => false,
                (FoundStatus::Current(_), What::Ready) => exit != Exit::Unknown,
                // The document has the files, even if other facts are unknown.
                (FoundStatus::Current(_), _) => true,
            };
            println!("gave up, {}: {why}", args.what.not_so(is_known));
            return Ok(exit);
        }
    }
}

fn reached(what: &What, status: &Status, manifests: &Path) -> String {
    let unread = |name: &str| {
        let named = files_named(status, name, manifests);
        let mut applied = status.staging.applied.iter();
        applied.any(|one| one.unread && named.contains(&one.file))
    };
    match (what, status.readiness) {
        (What::Applied(name), _) if unread(name) => {
            [&what.to_string(), "; ", APPLIED_UNREAD].concat()
        }
        (What::Ready, Readiness::Degraded) => {
            format!("{what}, but degraded: {}", status.reason.message)
        }
        _ => what.to_string(),
    }
}

/// The reason why it is not so: the file's own reason, else the node's.
fn why_not(what: &What, status: &Status, manifests: &Path) -> String {
    let (What::Released(name) | What::Applied(name)) = what else {
        return status.reason.message.clone();
    };
    let named = |file: &&ManifestPath| files_named(status, name, manifests).contains(file);
    let staging = &status.staging;
    let held = staging.held.iter().find(|one| named(&&one.file));
    let failed = staging.failed.iter().find(|one| named(&&one.file));
    match (held, failed) {
        (Some(held), _) => held.why.to_string(),
        (None, Some(failed)) => failed.message.clone(),
        (None, None) => status.reason.message.clone(),
    }
}

/// Whether the file exists. A wait for a missing file would never end.
fn is_there(what: &What, status: &Status, manifests: &Path) -> Result<(), String> {
    let (What::Released(name) | What::Applied(name)) = what else {
        return Ok(());
    };
    if !files_named(status, name, manifests).is_empty() {
        return Ok(());
    }
    // New files on the disk are in the document soon. If the user may not read the directory, only the document counts.
    let listed = list_manifests(manifests, now()).map(|found| found.files);
    let there: Vec<ManifestPath> = listed
        .unwrap_or_default()
        .into_iter()
        .map(|file| file.path)
        .collect();
    let named = there
        .iter()
        .filter(|file| names_file(name, file, manifests));
    let (own, other): (Vec<_>, Vec<_>) = named.partition(|file| rke2::owner(file).is_some());
    match (own.first(), other.first()) {
        (_, Some(_)) => Ok(()),
        (Some(file), None) => Err(format!(
            "{file} belongs to RKE2: Windrow does not stage it, and cannot tell when it is applied"
        )),
        (None, None) => {
            let known = staged(status).chain(&there);
            let meant = nearest_file(name, known);
            let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
            Err(format!(
                "no manifest file {name} below {}{meant}",
                manifests.display()
            ))
        }
    }
}

fn judge(what: &What, status: &Status, manifests: &Path) -> Exit {
    let otherwise = match exit_of(status.readiness) {
        // The requested state is not reached, though the node is fine.
        Exit::Ok => Exit::NotYet,
        exit => exit,
    };
    let staging = &status.staging;
    let named = |name: &str| files_named(status, name, manifests);
    // Files of one name are meant together.
    let all = |files: &[ManifestPath], so: &dyn Fn(&ManifestPath) -> bool| {
        !files.is_empty() && files.iter().all(so)
    };
    let applied = |file: &ManifestPath| {
        let mut kept_since = staging.held.iter().filter(|held| held.is_applied());
        staging.applied.iter().any(|one| one.file == *file)
            || kept_since.any(|held| held.file == *file)
    };
    let failed = |file: &ManifestPath| staging.failed.iter().any(|one| one.file == *file);
    let released = |file: &ManifestPath| staging.released.iter().any(|one| one.file == *file);
    match what {
        What::Ready => exit_of(status.readiness),
        What::Staged if status.staging.settled && status.writer.is_some() => Exit::Ok,
        What::Released(name)
            if all(&named(name), &|file| {
                applied(file) || released(file) || failed(file)
            }) =>
        {
            Exit::Ok
        }
        What::Applied(name) if all(&named(name), &applied) => Exit::Ok,
        What::Applied(name) if named(name).iter().any(failed) => Exit::Failed,
        What::Staged | What::Released(_) | What::Applied(_) => otherwise,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windrow_decide::{HeldFile, Holder, Phase, StatusReason};
    use windrow_model::reasons::Code;

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

    #[test]
    fn a_file_that_is_kept_since_it_was_applied_is_released_and_applied() {
        let reason = StatusReason {
            code: Code::NotProbed,
            message: String::new(),
        };
        let at = Timestamp::UNIX_EPOCH;
        let mut status = Status::new(Readiness::Ready, Phase::Staged, reason, at);
        status.staging.held.push(HeldFile {
            file: "once.yaml".into(),
            since: at,
            code: Code::HeldAppliedOnce,
            why: "applied once".into(),
            by: Holder::Windrow,
            overdue: false,
            harmful: false,
            deadline: None,
            blockers: Vec::new(),
            name_spares_hold: None,
            no_name_spares_hold: None,
        });
        for (code, exit) in [
            (Code::HeldAppliedOnce, Exit::Ok),
            (Code::HeldByHand, Exit::NotYet),
        ] {
            status.staging.held[0].code = code;
            for what in ["applied=once.yaml", "released=once.yaml"] {
                let what = what.parse().unwrap();
                assert_eq!(judge(&what, &status, Path::new("/m")), exit, "{what}");
            }
        }
    }
}
