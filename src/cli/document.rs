//! The status document for readers: the current one, or the reason why it is missing.
//!
//! A document outlives the daemon that wrote it. A document that may be outdated is shown as Unknown, with the reason.

use std::io;
use std::path::Path;

use jiff::Timestamp;
use windrow_decide::{NodeRole, Phase, Readiness, Status, StatusReason};
use windrow_model::reasons::Code;

use super::inputs::{STANDARD_INPUT, is_standard_input, standard_input};
use super::{Context, Exit};
use crate::fs;
use crate::layout::Layout;
use crate::observe::process;
use crate::observe::systemd::UNIT_DIRECTORIES;
use crate::printable::printable;
use crate::sandbox::NodeTime;

const UNIT: &str = "windrow.service";
/// Maximum size of a document from standard input, in bytes.
const LARGEST: u64 = 64 << 20;

pub(super) enum FoundStatus {
    Current(Box<Status>),
    Stale {
        why: String,
        last: Option<Box<Status>>,
        /// The time of writing. The state is certain up to then.
        written: Timestamp,
    },
}

impl FoundStatus {
    pub(super) fn now(&self, layout: &Layout) -> Timestamp {
        now_on(layout, matches!(self, FoundStatus::Current(_)))
    }

    /// The document to show: the current one, or one that says Unknown and why.
    pub(super) fn shown(&self) -> Status {
        match self {
            FoundStatus::Current(status) => status.as_ref().clone(),
            FoundStatus::Stale { why, last, written } => unknown(why, last.as_deref(), *written),
        }
    }
}

pub(super) fn current(context: &Context) -> FoundStatus {
    let path = context.layout.status();
    let written = fs::metadata(&path).and_then(|found| found.modified());
    let written = written.ok().and_then(|at| Timestamp::try_from(at).ok());
    let written = written.unwrap_or_else(now);
    if !fs::exists(&path)
        && let Some(why) = never_started(&context.layout)
    {
        let last = None;
        return FoundStatus::Stale { why, last, written };
    }
    match read(&path) {
        Ok(status) => match alive(&status) {
            Ok(()) => FoundStatus::Current(Box::new(status)),
            Err(why) => FoundStatus::Stale {
                why: format!("{} is not current: {why}", path.display()),
                last: Some(Box::new(status)),
                written,
            },
        },
        Err(why) => FoundStatus::Stale {
            why,
            last: None,
            written,
        },
    }
}

/// Why systemd does not start the daemon on this node, if its unit's file says so.
fn never_started(layout: &Layout) -> Option<String> {
    let mut files = UNIT_DIRECTORIES
        .map(|directory| layout.path(directory).join(UNIT))
        .into_iter();
    // The first of them counts.
    let Some(file) = files.find(|file| fs::symlink_metadata(file).is_ok()) else {
        return Some(format!("Windrow is not installed here: there is no {UNIT}"));
    };
    let leads_to = fs::read_link(&file).unwrap_or_default();
    (leads_to == Path::new("/dev/null"))
        .then(|| format!("{UNIT} is masked (systemctl unmask windrow)"))
}

pub(super) fn read(path: &Path) -> Result<Status, String> {
    let text = fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!(
            "there is no {}, as the daemon has not run since the last boot (systemctl status windrow)",
            path.display()
        ),
        _ => format!("{} cannot be read: {error}", path.display()),
    })?;
    parse(&path.display().to_string(), &text)
}

pub(super) fn read_named(path: &Path) -> Result<Status, String> {
    match is_standard_input(path) {
        true => parse(STANDARD_INPUT, &standard_input(LARGEST)?),
        false => read(path),
    }
}

fn parse(shown: &str, text: &[u8]) -> Result<Status, String> {
    serde_json::from_slice(text).map_err(|error| {
        format!(
            "{shown}:{}: not a status document that this version of windrow can read: {error}",
            error.line()
        )
    })
}

/// Whether the daemon is running, for the verbs that leave work to it.
pub(super) fn daemon_runs(context: &Context) -> Result<(), String> {
    match current(context) {
        FoundStatus::Current(_) => Ok(()),
        FoundStatus::Stale { why, .. } => Err(why),
    }
}

fn alive(status: &Status) -> Result<(), String> {
    match &status.writer {
        Some(writer) => process::alive(writer),
        None => Err("it does not name the process that updates it".to_owned()),
    }
}

fn unknown(why: &str, last: Option<&Status>, since: Timestamp) -> Status {
    let reason = StatusReason {
        code: Code::StateUnknown,
        // It may quote the document that could not be read.
        message: Code::StateUnknown.say(&[("why", &printable(why))]),
    };
    let phase = last.map_or(Phase::WaitingForApi, |last| last.phase);
    Status {
        generation: last.map_or(0, |last| last.generation),
        host: last.map(|last| last.host.clone()).unwrap_or_default(),
        node_name: last.and_then(|last| last.node_name.clone()),
        summary: "Unknown: Windrow's daemon does not run".to_owned(),
        platform: last.and_then(|last| last.platform),
        role: last.map_or(NodeRole::Unknown, |last| last.role),
        ..Status::new(Readiness::Unknown, phase, reason, since)
    }
}

pub(super) fn exit_of(readiness: Readiness) -> Exit {
    match readiness {
        // The node works; the text describes the remaining problems.
        Readiness::Ready | Readiness::Degraded => Exit::Ok,
        Readiness::SettingUp => Exit::NotYet,
        Readiness::Failed => Exit::Failed,
        Readiness::Unknown => Exit::Unknown,
    }
}

/// The clock. Verbs that show ages or write times read it only here.
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

/// The time on the node whose document this is. A sandbox's node has its own.
pub(super) fn now_on(layout: &Layout, is_current: bool) -> Timestamp {
    let may_differ = is_current && !layout.is_this_machine();
    let sandbox = may_differ.then(|| NodeTime::read(layout)).flatten();
    sandbox.map_or_else(now, |time| time.at(now()))
}

/// How long something has lasted: `12s`, `4m12s`, `2h05m`, `3d4h`.
pub(super) fn age(since: Timestamp, now: Timestamp) -> String {
    crate::render::lasted(now.duration_since(since).as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_systemd_does_not_start_is_told_with_the_reason() {
        let root = tempfile::tempdir().unwrap();
        let context = Context::new(Layout::new(root.path()));
        let why = || match current(&context) {
            FoundStatus::Stale { why, .. } => why,
            FoundStatus::Current(_) => panic!("nothing runs there"),
        };
        assert!(
            why().starts_with("Windrow is not installed here"),
            "{}",
            why()
        );
        let shipped = root.path().join("usr/lib/systemd/system");
        fs::create_dir_all(&shipped).unwrap();
        fs::write(shipped.join(UNIT), "[Unit]\n").unwrap();
        assert!(
            why().contains("has not run since the last boot"),
            "{}",
            why()
        );
        let masks = root.path().join("etc/systemd/system");
        fs::create_dir_all(&masks).unwrap();
        std::os::unix::fs::symlink("/dev/null", masks.join(UNIT)).unwrap();
        assert_eq!(
            why(),
            "windrow.service is masked (systemctl unmask windrow)"
        );
    }

    #[test]
    fn ages_are_short_and_never_negative() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        for (from, to, expected) in [
            (0, 12, "12s"),
            (0, 252, "4m12s"),
            (0, 7_500, "2h05m"),
            (0, 273_600, "3d4h"),
            (10, 0, "0s"),
        ] {
            assert_eq!(age(at(from), at(to)), expected);
        }
    }
}
