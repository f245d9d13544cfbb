//! The journal: one entry per [`Event`], with fields to search by.
//!
//! Under systemd entries go to journald's own socket with `MESSAGE_ID`, `WINDROW_CODE`,
//! `WINDROW_FILE` and `PRIORITY`; elsewhere they are plain lines on standard error.
//!
//! tracing has no level between INFO and WARN, and syslog has one: `notice`, for what is normal and
//! worth seeing. So INFO is written as *notice*, DEBUG as *info* and TRACE as *debug*.

use std::fmt;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use nix::sys::stat::fstat;
use tracing::Level;
use tracing::field::{Field, Visit};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::decide::Event;
use crate::reasons::Severity;

/// Variable with a filter, as tracing has it (`windrow=trace`).
const FILTER: &str = "WINDROW_LOG";
/// What a daemon writes: ours, and warnings of libraries. Nothing of the cluster's client: each watch
/// that is cut and each 5xx is a line of its own there, and what it means for the node is told by us.
pub const EVERYTHING: &str = "warn,kube_client=off,windrow=debug";
/// What is written where something else tells the story.
pub const WARNINGS: &str = "warn";

/// Starts writing what `default` lets through, if the environment does not say otherwise. To be
/// called once, by the program.
pub fn start(default: &str) {
    let filter = EnvFilter::try_from_env(FILTER).unwrap_or_else(|_| EnvFilter::new(default));
    let journal = goes_to_journal().then(tracing_journald::layer);
    let layer = match journal {
        Some(Ok(layer)) => layer
            .with_field_prefix(None)
            .with_syslog_identifier("windrow".to_owned())
            .with_priority_mappings(PriorityMappings {
                error: Priority::Error,
                warn: Priority::Warning,
                info: Priority::Notice,
                debug: Priority::Informational,
                trace: Priority::Debug,
            })
            .boxed(),
        // Not the journal, or its socket does not answer: standard error is there.
        Some(Err(_)) | None => tracing_subscriber::fmt::layer()
            .event_format(Line {
                colour: std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            })
            .with_writer(std::io::stderr)
            .boxed(),
    };
    // A second start (tests) keeps the first one's outlet.
    let _ = tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init();
}

/// Writes one event.
pub fn tell(event: &Event) {
    let reason = event.code.reason();
    let (code, id, message) = (reason.id, reason.message_id, event.message.as_str());
    // tracing's macros take the level and the set of fields at compile time only.
    macro_rules! entry {
        ($level:expr) => {
            match &event.file {
                Some(file) => tracing::event!(
                    $level,
                    MESSAGE_ID = id,
                    WINDROW_CODE = code,
                    WINDROW_FILE = file.as_str(),
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

/// Is standard error the journal? systemd names the stream's device and inode.
fn goes_to_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    fstat(std::io::stderr().as_fd())
        .is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// One plain line: the severity and the message.
struct Line {
    colour: bool,
}

impl<S, N> FormatEvent<S, N> for Line
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
        let mut message = Message(String::new());
        event.record(&mut message);
        if self.colour {
            writeln!(writer, "\x1b[{colour}m{word:8}\x1b[0m {}", message.0)
        } else {
            writeln!(writer, "{word:8} {}", message.0)
        }
    }
}

/// The message alone: the fields are for the journal.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
