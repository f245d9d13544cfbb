//! The journal: one entry per [`Event`] and per change of the node, with fields to search by.
//!
//! Under systemd entries go to journald's own socket with `MESSAGE_ID`, `WINDROW_CODE`, `WINDROW_FILE` and `PRIORITY`;
//! elsewhere they are plain lines on standard error. Entries about the node's state also have `WINDROW_READINESS`,
//! `WINDROW_PHASE` and `WINDROW_GENERATION`; those about a probe have `WINDROW_PROBE` and `WINDROW_STATE`.
//!
//! tracing has no level between INFO and WARN, and syslog has one: `notice`, for normal events that are worth seeing.
//! So INFO is written as *notice*, DEBUG as *info* and TRACE as *debug*.

mod queue;

use std::fmt;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use nix::sys::stat::fstat;
use tracing::Level;
use tracing::field::{Field, Visit};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use windrow_decide::transitions::{ProbeChange, ReadinessChange};
use windrow_decide::{Event, Phase};
use windrow_model::reasons::Severity;

pub use self::queue::JournalEnd;
use self::queue::JournalQueue;
use crate::causes::plain;
use crate::fs;
use crate::printable::printable;

/// Variable with a filter by target and level, as tracing has it (`windrow=trace,warn`).
const FILTER: &str = "WINDROW_LOG";
/// The daemon's filter: our own entries, and warnings of libraries. The cluster's client is left out: it writes a line
/// for each broken watch and for each 5xx, and Windrow itself reports the effect on the node.
pub const EVERYTHING: &str = "warn,kube_client=off,windrow=debug";
/// The filter if the output shows the events in another way.
pub const WARNINGS: &str = "warn";

/// Starts the journal with the filter `default`, unless the environment sets another. The program calls it once.
pub fn start(default: &str) {
    // An entry is written when the call returns.
    let _ = start_with(default, false);
}

/// As [`start`], for a program that must not wait for journald. Dropping the result at the end writes the last entries.
pub fn start_queued(default: &str) -> JournalEnd {
    start_with(default, true)
}

fn start_with(default: &str, queued: bool) -> JournalEnd {
    let asked = std::env::var(FILTER).ok();
    let read: Option<Result<Targets, _>> = asked.as_ref().map(|text| text.parse());
    let wrong = matches!(read, Some(Err(_)));
    let filter: Targets = read
        .and_then(Result::ok)
        .or_else(|| default.parse().ok())
        .unwrap_or_default();
    let journal = goes_to_journal().then(tracing_journald::layer);
    let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut end = JournalEnd::none();
    let layer = match journal {
        Some(Ok(layer)) => {
            let layer = layer
                .with_field_prefix(None)
                .with_syslog_identifier("windrow".to_owned())
                // journald looks a sender's unit up in /proc, too late for a process that has ended by then (a hook
                // before RKE2's start). This field has the unit too; `journalctl -u` accepts it from root.
                .with_custom_fields(unit_of(&cgroup).map(|unit| ("OBJECT_SYSTEMD_UNIT", unit)))
                .with_priority_mappings(PriorityMappings {
                    error: Priority::Error,
                    warn: Priority::Warning,
                    info: Priority::Notice,
                    debug: Priority::Informational,
                    trace: Priority::Debug,
                });
            if queued {
                let (queue, ends) = JournalQueue::begin(layer);
                end = ends;
                queue.boxed()
            } else {
                layer.boxed()
            }
        }
        // Standard error is not the journal, or its socket does not answer: write plain lines there.
        Some(Err(_)) | None => tracing_subscriber::fmt::layer()
            .event_format(PlainFormat {
                colour: std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            })
            .with_writer(std::io::stderr)
            .boxed(),
    };
    // A second start (tests) keeps the first one's outlet.
    let _ = tracing_subscriber::registry()
        .with(layer.with_filter(filter.and(filter_fn(|entry| {
            is_written(entry.target(), *entry.level())
        }))))
        .try_init();
    if wrong {
        tracing::warn!(
            "WINDROW_LOG is not a valid filter and is ignored: write warn,windrow=trace, for example"
        );
    }
    end
}

/// Whether an entry that passes the filter is written. In their lines below INFO, libraries quote network traffic:
/// objects, answers and heads of requests, secrets among them.
fn is_written(target: &str, level: Level) -> bool {
    let ours =
        target == "windrow" || target.starts_with("windrow::") || target.starts_with("windrow_");
    ours || level <= Level::INFO
}

pub fn write_event(event: &Event) {
    let reason = event.code.reason();
    let message = printable(&plain(&event.message));
    let (code, id) = (reason.id, reason.message_id);
    // tracing's macros need the level and the set of fields at compile time.
    macro_rules! entry {
        ($level:expr) => {
            match &event.file {
                Some(file) => tracing::event!(
                    $level,
                    MESSAGE_ID = id,
                    WINDROW_CODE = code,
                    WINDROW_FILE = printable(file).as_str(),
                    "{message}"
                ),
                None => tracing::event!($level, MESSAGE_ID = id, WINDROW_CODE = code, "{message}"),
            }
        };
    }
    match reason.severity {
        Severity::Error => entry!(Level::ERROR),
        Severity::Warning => entry!(Level::WARN),
        Severity::Notice => entry!(Level::INFO),
        Severity::Info => entry!(Level::DEBUG),
    }
}

/// Writes an event of a verb to the journal if its output goes elsewhere: to a terminal, or to a package manager.
pub fn write_event_of_verb(event: &Event) {
    if goes_to_journal() {
        return;
    }
    let Ok(layer) = tracing_journald::layer() else {
        return;
    };
    let layer = layer
        .with_field_prefix(None)
        .with_syslog_identifier("windrow".to_owned())
        .with_custom_fields([("OBJECT_SYSTEMD_UNIT", "windrow.service")]);
    let journal = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(journal, || write_event(event));
}

/// Writes a change of readiness or phase. `WINDROW_ADVICE` has the advice for the reason; the catalogue's entry, which
/// is about the change, shows it too.
pub fn write_readiness_change(change: &ReadinessChange) {
    let reason = change.code.reason();
    let (readiness, phase) = (change.readiness.as_str(), name_of(change.phase));
    macro_rules! entry {
        ($level:expr) => {
            tracing::event!(
                $level,
                MESSAGE_ID = reason.message_id,
                WINDROW_CODE = change.reason.as_str(),
                WINDROW_READINESS = readiness,
                WINDROW_PHASE = phase,
                WINDROW_GENERATION = change.generation,
                WINDROW_ADVICE = change.reason.reason().advice,
                "{}",
                printable(&plain(&change.message))
            )
        };
    }
    match reason.severity {
        Severity::Error => entry!(Level::ERROR),
        Severity::Warning => entry!(Level::WARN),
        Severity::Notice => entry!(Level::INFO),
        Severity::Info => entry!(Level::DEBUG),
    }
}

pub fn write_probe_change(change: &ProbeChange) {
    let code = change.code();
    let reason = change.reason.unwrap_or(code);
    tracing::event!(
        Level::DEBUG,
        MESSAGE_ID = code.reason().message_id,
        WINDROW_CODE = reason.as_str(),
        WINDROW_PROBE = change.probe.as_str(),
        WINDROW_STATE = change.state.as_str(),
        WINDROW_ADVICE = reason.reason().advice,
        "{}",
        printable(&plain(&change.message))
    );
}

fn name_of(phase: Phase) -> String {
    let value = serde_json::to_value(phase).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Whether standard error is the journal. systemd names the stream's device and inode.
fn goes_to_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    fstat(std::io::stderr().as_fd())
        .is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// The unit that a process runs in, from its `/proc/PID/cgroup`: the last name of the path in systemd's
/// own hierarchy (`0::` or `name=systemd`).
fn unit_of(cgroup: &str) -> Option<&str> {
    let paths = cgroup.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (hierarchy, path) = rest.split_once(':')?;
        matches!(hierarchy, "" | "name=systemd").then_some(path)
    });
    paths
        .flat_map(|path| path.rsplit('/'))
        .find(|name| name.ends_with(".service"))
}

/// One plain line: the severity and the message.
struct PlainFormat {
    colour: bool,
}

impl<S, N> FormatEvent<S, N> for PlainFormat
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> fmt::Result {
        let (word, colour) = match *event.metadata().level() {
            Level::ERROR => ("error", "31"),
            Level::WARN => ("warning", "33"),
            Level::INFO => ("notice", "1"),
            Level::DEBUG => ("info", "0"),
            Level::TRACE => ("debug", "2"),
        };
        let mut message = MessageOnly(String::new());
        event.record(&mut message);
        if self.colour {
            writeln!(writer, "\x1b[{colour}m{word:8}\x1b[0m {}", message.0)
        } else {
            writeln!(writer, "{word:8} {}", message.0)
        }
    }
}

/// Only the message: the fields are for the journal.
struct MessageOnly(String);

impl Visit for MessageOnly {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = printable(&plain(&format!("{value:?}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_logged_from_info_up_whatever_the_filter_asks_for() {
        for ours in ["windrow", "windrow::daemon", "windrow_decide"] {
            assert!(is_written(ours, Level::TRACE), "{ours}");
        }
        for library in ["kube_client::client", "hyper", "rustls", "windrowing"] {
            assert!(is_written(library, Level::WARN) && is_written(library, Level::INFO));
            assert!(!is_written(library, Level::DEBUG), "{library}");
        }
    }

    #[test]
    fn the_unit_is_found_on_both_generations_of_cgroups() {
        let unified = "0::/system.slice/rke2-server.service\n";
        assert_eq!(unit_of(unified), Some("rke2-server.service"));
        let instance = "0::/system.slice/system-x.slice/x@tty1.service/sub\n";
        assert_eq!(unit_of(instance), Some("x@tty1.service"));
        let legacy = "4:memory:/a.service\n1:name=systemd:/system.slice/rke2-agent.service\n";
        assert_eq!(unit_of(legacy), Some("rke2-agent.service"));
        assert_eq!(
            unit_of("0::/user.slice/user-0.slice/session-1.scope\n"),
            None
        );
    }
}
