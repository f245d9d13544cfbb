//! Conditions that must hold at the end of every run.

use std::time::Duration;

use jiff::Timestamp;
use windrow_decide::{Cause, FileStage, Mark, StagingStatus};
use windrow_model::manifest::FileContent;
use windrow_simulate::{BootstrapVerdict, Faults, Happening, HappeningKind, Run, Setup};

use crate::bootstraps::position;
use crate::oddities;

/// Conditions that must hold at the end of every run, regardless of its faults. `kept` are files that stay held on purpose.
pub(crate) fn check(setup: &Setup, kept: &[String], run: &Run) -> Result<(), String> {
    let is_done = match &run.outcome.verdict {
        BootstrapVerdict::Complete => true,
        // The file that RKE2 rejects, and one of two that take each other's objects away.
        BootstrapVerdict::Stuck { missing } => missing.iter().all(|what| is_lost(what)),
        _ => false,
    };
    if !is_done {
        return Err(format!("not complete: {:?}", run.outcome));
    }
    check_delay(setup, run)?;
    check_failures(setup, run)?;
    if run.restless != 0 {
        return Err("goes on acting though nothing happens".to_owned());
    }
    check_oracle(run)?;
    check_last_word(setup, kept, run)?;
    for (path, file) in setup
        .files
        .iter()
        .filter(|(path, _)| path.ends_with(".skip"))
    {
        if run.files.get(path).map(|kept| kept.content()) != Some(file.content()) {
            return Err(format!("touched {path}, which is not Windrow's"));
        }
    }
    let is_kept = |path: &str| is_of(kept, path) || name_of(path) == oddities::AFTER_PAIR;
    for (path, file) in run.files.iter() {
        let Some(held) = path.strip_suffix(".skip") else {
            continue;
        };
        let FileContent::Bytes(bytes) = &**file.content() else {
            continue;
        };
        // A file that a user holds stays held when it is removed.
        let is_asked = name_of(held) == oddities::AWAY && was_held_by_hand(run, held);
        if Mark::parse(bytes).is_some() && !is_kept(held) && !is_asked {
            return Err(format!("{path} is left"));
        }
    }
    // A file that a user released is held again if the ledger was lost since.
    let may_go = |path: &str| {
        is_released_by_hand(run, path)
            || was_let_go_blindly(run, path)
            || was_shown_to_rke2(run, path)
    };
    for path in kept.iter().filter(|path| !may_go(path)) {
        if !run.files.is_hidden(path) {
            return Err(format!("{path} is no longer held"));
        }
        if run
            .releases
            .iter()
            .any(|release| name_of(&release.file) == path.as_str())
            && path != "once.yaml"
        {
            return Err(format!("{path} was released"));
        }
    }
    for (path, entry) in &run.ledger.files {
        let is_asked = name_of(path) == oddities::AWAY && was_held_by_hand(run, path);
        if matches!(entry.state, FileStage::Held { .. }) && !is_kept(path) && !is_asked {
            return Err(format!("the ledger still holds {path}"));
        }
    }
    Ok(())
}

/// Windrow made no wrong statement, and released nothing too early.
pub(crate) fn check_oracle(run: &Run) -> Result<(), String> {
    let joined = run.joined.iter();
    let untrue = joined.clone().flat_map(|node| &node.untrue);
    let untrue: Vec<&String> = run.untrue.iter().chain(untrue).collect();
    if !untrue.is_empty() {
        return Err(format!("said what is not so: {untrue:?}"));
    }
    let releases = joined.flat_map(|node| &node.releases);
    for release in run.releases.iter().chain(releases) {
        if !release.unmet.is_empty() {
            return Err(format!("released too early: {release:?}"));
        }
    }
    Ok(())
}

/// The name of a file in any directory: files may be moved.
fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn names_of<'a>(files: &[&'a str]) -> Vec<&'a str> {
    let mut names: Vec<&str> = files.iter().map(|file| name_of(file)).collect();
    names.sort_unstable();
    names
}

fn is_of(files: &[String], path: &str) -> bool {
    files.iter().any(|file| file == name_of(path))
}

/// Is this fault about a file of this name?
fn is_about(fault: &str, begins: &str, path: &str, ends: &str) -> bool {
    let of = fault.strip_prefix(begins);
    of.is_some_and(|of| {
        of.strip_suffix(ends)
            .is_some_and(|of| name_of(of) == name_of(path))
    })
}

fn was_held_by_hand(run: &Run, path: &str) -> bool {
    let is_said = |what: &HappeningKind| matches!(what, HappeningKind::Fault { fault } if is_about(fault, "somebody holds ", path, ""));
    position(run, is_said).is_some()
}

/// Was it released by the blind deadline, which ends a hold whose end does no harm? The oracle has judged that.
fn was_let_go_blindly(run: &Run, path: &str) -> bool {
    let mut releases = run.releases.iter();
    path == oddities::HOPELESS
        && releases
            .any(|release| name_of(&release.file) == path && release.cause == Some(Cause::Yielded))
}

/// Did a user remove its marker, and RKE2 apply it before Windrow could restore the marker?
fn was_shown_to_rke2(run: &Run, path: &str) -> bool {
    let is_removed = |what: &HappeningKind| matches!(what, HappeningKind::Fault { fault } if is_about(fault, "somebody removes ", path, ".skip"));
    let is_applied = |what: &HappeningKind| matches!(what, HappeningKind::Applied { file } if name_of(file) == path);
    position(run, is_removed).is_some() && position(run, is_applied).is_some()
}

/// Did a user or the fail-safe release a file that should have stayed held?
fn is_released_by_hand(run: &Run, path: &str) -> bool {
    let is_released = |fault: &str| {
        is_about(fault, "somebody releases ", path, "")
            || is_about(fault, "the fail-safe removes ", path, ".skip")
    };
    let is_said =
        |what: &HappeningKind| matches!(what, HappeningKind::Fault { fault } if is_released(fault));
    position(run, is_said).is_some()
}

/// Does this path, or a sentence that begins with one, refer to a file that RKE2 cannot have applied in the end?
fn is_lost(path: &str) -> bool {
    let lost = [
        oddities::REFUSED,
        oddities::PARTLY,
        oddities::HOPELESS,
        oddities::PAIR,
        oddities::AFTER_PAIR,
        oddities::AFTER_GONE,
    ];
    let file = path.split_whitespace().next().unwrap_or_default();
    lost.iter().any(|lost| name_of(file).starts_with(lost))
}

/// RKE2 itself shows whether a file was released too early: it fails with none for which Windrow reports no missing requirement.
/// During other faults it may.
fn check_failures(setup: &Setup, run: &Run) -> Result<(), String> {
    let start = setup.scenario.start;
    let is_fault = |one: &Happening| matches!(one.what, HappeningKind::Fault { .. });
    let from = match run.log.iter().any(is_fault) {
        true => (start + Faults::ALL.until).max(reads_fail_until(run).unwrap_or(start)),
        false => start,
    };
    let joined = run.joined.iter().map(|node| &node.releases);
    let releases: Vec<_> = std::iter::once(&run.releases).chain(joined).collect();
    for one in run.log.iter().filter(|one| one.at >= from) {
        let HappeningKind::ApplyFailed { file, message, .. } = &one.what else {
            continue;
        };
        let of_server = releases.get(one.server).into_iter().copied().flatten();
        let mut before = of_server.filter(|release| release.file == *file && release.at <= one.at);
        let lacks_nothing =
            |cause| matches!(cause, Some(Cause::Free | Cause::Met | Cause::SamePass));
        if let Some(release) = before.next_back()
            && release.at >= from
            && lacks_nothing(release.cause)
            && !release.fails_first
            && !is_lost(file)
        {
            let cause = release.cause;
            return Err(format!(
                "{file} was let through at {} ({cause:?}), and RKE2 failed with it at {}: {message}",
                release.at, one.at
            ));
        }
    }
    Ok(())
}

/// When the last failed read of a run ends: faults that began before last a few minutes longer than all others.
fn reads_fail_until(run: &Run) -> Option<Timestamp> {
    let until = run.log.iter().filter_map(|one| match &one.what {
        HappeningKind::Fault { fault } => {
            let (why, until) = fault.split_once(" until ")?;
            let is_read = why.starts_with('E') && why.contains(" for ");
            is_read.then(|| until.parse().expect("a time"))
        }
        _ => None,
    });
    until.max()
}

/// The longest of Windrow's deadlines, a poll of RKE2, and RKE2's own time.
const LONGEST_WAIT: Duration = Duration::from_secs(35 * 60);

/// After everything has come and all faults have ended, is nothing held longer than the longest deadline?
fn check_delay(setup: &Setup, run: &Run) -> Result<(), String> {
    let start = setup.scenario.start;
    let calm = start + Faults::ALL.until;
    let changes = setup.changes.iter().map(|one| start + one.after);
    // A file that waits for the platform is applied after that has come up, and a stopped daemon does nothing.
    let counts = |one: &Happening| match &one.what {
        HappeningKind::Platform { .. } | HappeningKind::ApiReady | HappeningKind::Served { .. } => {
            Some(one.at)
        }
        HappeningKind::Fault { fault } => {
            let until = fault.strip_prefix("Windrow is stopped until ")?;
            Some(until.parse().expect("a time"))
        }
        _ => None,
    };
    let happened = run.log.iter().filter_map(counts);
    let come = changes.chain(happened).chain(run.cluster.last_moved());
    let come = come.chain([calm]).max().unwrap_or(calm);
    let lifts = |what: &HappeningKind| matches!(what, HappeningKind::Lifted { .. });
    match run.log.iter().rfind(|one| lifts(&one.what)) {
        Some(one) if one.at > come + LONGEST_WAIT => Err(format!(
            "{} at {}, and everything was there at {come}",
            one.what, one.at
        )),
        _ => Ok(()),
    }
}

/// Was one of two files of an Addon deleted after RKE2 had applied it? RKE2 applies the other one only when that is written
/// again.
fn is_left_by_deleted(run: &Run, staging: &StagingStatus) -> bool {
    let is_deleted = |what: &HappeningKind| matches!(what, HappeningKind::Fault { fault } if fault.starts_with("somebody deletes "));
    !staging.released.is_empty() && position(run, is_deleted).is_some()
}

/// If everything is done, does the last status of every server say so?
fn check_last_word(setup: &Setup, kept: &[String], run: &Run) -> Result<(), String> {
    for server in 0..=setup.joins.len() {
        let Some((_, _, Some(status))) = run.results_of(server) else {
            return Err(format!("server {server} says nothing"));
        };
        let staging = &status.staging;
        let is_kept = |file: &str| is_of(kept, file);
        // The directory should have no pipe, and no file that RKE2 rejects or can never apply.
        let fails = [oddities::PARTLY, oddities::REFUSED];
        let fails = fails.into_iter().filter(|name| {
            run.files
                .manifests()
                .any(|(path, _)| name_of(path) == *name)
        });
        let fails: Vec<&str> = fails.collect();
        let held = staging.held.iter().map(|one| &one.file);
        let failed = staging.failed.iter().map(|one| &one.file);
        let released = staging.released.iter().map(|one| &one.file);
        let mut left = held.chain(failed).chain(released).map(|file| file.as_str());
        // The fail-safe may have released them.
        let waits = is_kept("pipe.yaml")
            || run.files.is_hidden(oddities::HOPELESS)
            || run.files.is_hidden(oddities::WAITS_MOVED)
            || is_left_by_deleted(run, staging)
            || left.any(|file| [oddities::AFTER_PAIR, oddities::HOPELESS].contains(&name_of(file)));
        let fails_still = !fails.is_empty() || !staging.failed.is_empty();
        let is_settled = staging.settled != (waits || fails_still);
        let may_stay = |file: &str| is_kept(file) || name_of(file) == oddities::AFTER_PAIR;
        // A file that a user released although it was to stay held fails in the same way.
        let failed = staging.failed.iter().map(|one| one.file.as_str());
        let failed: Vec<&str> = failed.filter(|file| !may_stay(file)).collect();
        let released: Vec<&str> = staging
            .released
            .iter()
            .map(|one| one.file.as_str())
            .collect();
        let foreign = |file: &str| {
            let marker = format!("{}.skip", name_of(file));
            setup.files.iter().any(|(path, _)| name_of(path) == marker)
        };
        let held = staging.held.iter();
        let held = held.filter(|held| !may_stay(&held.file) && !foreign(&held.file));
        let held: Vec<_> = held.map(|held| (held.file.as_str(), held.code)).collect();
        // Failures have the cluster's time. If Windrow's clock was set, they may appear too old, or in the future.
        let set = |what: &HappeningKind| matches!(what, HappeningKind::Fault { fault } if fault.starts_with("the wall clock"));
        let is_said = match position(run, set) {
            None => names_of(&failed) == fails && is_settled,
            Some(_) => {
                failed.iter().all(|file| is_lost(file)) && (is_settled || !failed.is_empty())
            }
        };
        if !held.is_empty() || !released.iter().all(|file| is_lost(file)) || !is_said {
            let settled = staging.settled;
            return Err(format!(
                "server {server} says in the end: settled {settled}, held {held:?}, released {released:?}, failed {failed:?}"
            ));
        }
    }
    Ok(())
}
