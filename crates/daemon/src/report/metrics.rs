//! The node's state for Prometheus: `/metrics` of the status server, and a file for node_exporter's textfile collector.
//!
//! ```text
//!   Status ───────┐
//!   ProcessFacts ─┼─> families (pure) ──> OpenMetrics ──> /metrics
//!   counters ─────┘                   └─> Prometheus' older text ──> /metrics, textfile
//! ```
//!
//! All metrics except the counters come from the status document. An unknown value is absent, and never 0. Labels are
//! words of the program's own tables and the names of configured probes: no file, object or message is one.

mod families;
mod page;
#[cfg(test)]
pub(crate) mod tests;
pub mod textfile;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use self::families::Families;
use crate::report::publish::StatusWatch;

/// Upper bounds of the buckets of marker latencies, in seconds: the targets are 5 ms on an idle machine and 20 ms on a
/// busy one.
const MARKER_LATENCIES: [f64; 11] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0,
];

/// The daemon's counters, which are not in its status. A clone counts into the same counters.
#[derive(Debug, Clone)]
pub struct DaemonCounters {
    decisions: Counter,
    wake_ups: Counter,
    waiting_files: Gauge<f64, AtomicU64>,
    waiting_cluster: Gauge<f64, AtomicU64>,
    marker_latency: Histogram,
}

impl Default for DaemonCounters {
    fn default() -> Self {
        Self {
            decisions: Counter::default(),
            wake_ups: Counter::default(),
            waiting_files: Gauge::default(),
            waiting_cluster: Gauge::default(),
            marker_latency: Histogram::new(MARKER_LATENCIES),
        }
    }
}

impl DaemonCounters {
    pub fn decided(&self) {
        self.decisions.inc();
    }

    /// The daemon's loop woke up, and found this many events.
    pub fn woke(&self, files: usize, cluster: usize) {
        self.wake_ups.inc();
        self.waiting_files.set(files as f64);
        self.waiting_cluster.set(cluster as f64);
    }

    /// A new file got its first marker this long after the kernel's event about it was read.
    pub fn marked(&self, after: Duration) {
        self.marker_latency.observe(after.as_secs_f64());
    }
}

/// The facts about the process. Unknown ones are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessFacts {
    /// Resident memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// Processor time since its start.
    pub cpu: Option<Duration>,
    pub open_files: Option<usize>,
    pub started: Option<Timestamp>,
    /// Requests to kube-apiserver, except watches.
    pub requests: u64,
    pub watches: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4: the one that textfile collectors read.
    Prometheus,
}

impl TextFormat {
    pub fn accepted(accept: &str) -> Self {
        let media = accept.split(',').filter_map(|one| one.split(';').next());
        let mut media = media.map(str::trim);
        match media.any(|one| one.eq_ignore_ascii_case("application/openmetrics-text")) {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

#[derive(Clone)]
pub struct MetricsSource {
    pub status: StatusWatch,
    pub counters: DaemonCounters,
    pub process: Arc<dyn Fn() -> ProcessFacts + Send + Sync>,
    pub now: fn() -> Timestamp,
}

impl fmt::Debug for MetricsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsSource").finish_non_exhaustive()
    }
}

impl MetricsSource {
    /// The text as of now.
    ///
    /// # Errors
    ///
    /// None in practice: a text can always grow.
    pub fn text(&self, format: TextFormat) -> Result<String, fmt::Error> {
        let status = self.status.borrow().as_ref().map(|one| one.status.clone());
        let families = Families {
            status,
            process: (self.process)(),
            counters: self.counters.clone(),
            now: (self.now)(),
        };
        write(families, format)
    }
}

fn write(families: Families, format: TextFormat) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(families));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(match format {
        TextFormat::OpenMetrics => text,
        TextFormat::Prometheus => in_older_format(&text),
    })
}

/// The text in Prometheus' text format 0.0.4, which calls a family of counters or infos by the name of its samples, and
/// has no end mark.
fn in_older_format(text: &str) -> String {
    let mut older = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        if line == "# EOF" {
            continue;
        }
        if line.starts_with("# HELP ") {
            // How the family is called depends on its type, which follows.
            help = Some(line);
            continue;
        }
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.rsplit_once(' ').unwrap_or((family, "untyped"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                _ => ("", kind),
            };
            let said = help.take().and_then(|line| {
                let line = line.strip_prefix("# HELP ")?;
                line.strip_prefix(name)
            });
            if let Some(said) = said {
                older.push_str(&format!("# HELP {name}{suffix}{said}\n"));
            }
            older.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
            continue;
        }
        older.push_str(line);
        older.push('\n');
    }
    older
}
