//! Every family of metrics, with its rows. Pure. docs/metrics.md has them in a table, held to this by a test.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use serde::Serialize;
use windrow_decide::{
    Cause, DeliveryState, Holder, Pace, Phase, PhaseState, PhaseStatus, ProbeStatus, Readiness,
    Status, Transition,
};
use windrow_gates::trial::TrialState;
use windrow_gates::{GatesStatus, TrialOutcome};
use windrow_plan::readiness::node::{ProbeSeverity, ProbeState};

use super::page::{Page, Row};
use super::{DaemonCounters, ProcessFacts};

/// Maximum number of configured probes in the metrics: the built-in probes come first, then these by name.
const MOST_USER_PROBES: usize = 64;

pub(super) const READINESS: [Readiness; 5] = [
    Readiness::Ready,
    Readiness::SettingUp,
    Readiness::Degraded,
    Readiness::Failed,
    Readiness::Unknown,
];
pub(super) const PACES: [Pace; 4] = [Pace::Moving, Pace::Slow, Pace::Stalled, Pace::Stuck];
pub(super) const TRANSITIONS: [Transition; 5] = [
    Transition::Shutdown,
    Transition::Upgrade,
    Transition::Drain,
    Transition::Promotion,
    Transition::Restart,
];
pub(super) const DELIVERIES: [DeliveryState; 5] = [
    DeliveryState::Waiting,
    DeliveryState::Pending,
    DeliveryState::Delivered,
    DeliveryState::Failing,
    DeliveryState::GivenUp,
];
pub(super) const TRIALS: [TrialState; 9] = [
    TrialState::Idle,
    TrialState::Leased,
    TrialState::Saved,
    TrialState::Written,
    TrialState::Restarting,
    TrialState::Verifying,
    TrialState::Kept,
    TrialState::RollingBack,
    TrialState::RolledBack,
];
pub(super) const OUTCOMES: [TrialOutcome; 4] = [
    TrialOutcome::Kept,
    TrialOutcome::RolledBack,
    TrialOutcome::NotTried,
    TrialOutcome::Unchanged,
];

#[derive(Debug)]
pub(super) struct Families {
    pub(super) status: Option<Arc<Status>>,
    pub(super) process: ProcessFacts,
    pub(super) counters: DaemonCounters,
    pub(super) now: Timestamp,
}

impl Collector for Families {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page::new(encoder);
        program(&mut page, self)?;
        match &self.status {
            Some(status) => node(&mut page, status),
            None => Ok(()),
        }
    }
}

pub(super) fn seconds(at: Timestamp) -> f64 {
    at.as_millisecond() as f64 / 1000.0
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// The word of the status document for it.
pub(super) fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// One row for each state, 1 for the current one and 0 for all others.
fn states<T: Serialize + PartialEq>(
    label: &'static str,
    all: &[T],
    current: Option<&T>,
) -> Vec<Row> {
    let rows = all.iter().map(|state| {
        let is = flag(current == Some(state));
        (vec![(label, word(state))], is)
    });
    rows.collect()
}

fn program(page: &mut Page<'_>, families: &Families) -> fmt::Result {
    let (counters, process) = (&families.counters, &families.process);
    page.info(
        "windrow_build",
        "The running program",
        vec![("version", env!("CARGO_PKG_VERSION").to_owned())],
    )?;
    page.time(
        "windrow_time_seconds",
        "The node's clock",
        Some(families.now),
    )?;
    page.metric(
        "windrow_decisions",
        "Decisions about all manifests",
        &counters.decisions,
    )?;
    page.metric(
        "windrow_wakeups",
        "How often the daemon's loop woke up",
        &counters.wake_ups,
    )?;
    page.gauges(
        "windrow_waiting_events",
        "Events that waited for the daemon when its loop last woke up",
        [
            ("files", counters.waiting_files.get()),
            ("cluster", counters.waiting_cluster.get()),
        ]
        .map(|(queue, waiting)| (vec![("queue", queue.to_owned())], waiting)),
    )?;
    page.metric(
        "windrow_marker_latency_seconds",
        "From the event about a new manifest file to its first marker on disk",
        &counters.marker_latency,
    )?;
    page.counter(
        "windrow_apiserver_requests",
        "Requests to kube-apiserver, except watches",
        process.requests as f64,
    )?;
    page.counter(
        "windrow_apiserver_watches",
        "Opened watches on kube-apiserver",
        process.watches as f64,
    )?;
    page.gauge(
        "windrow_process_resident_memory_bytes",
        "Resident memory of the daemon",
        process.resident_bytes.map(|bytes| bytes as f64),
    )?;
    if let Some(cpu) = process.cpu {
        page.counter(
            "windrow_process_cpu_seconds",
            "CPU time of the daemon",
            cpu.as_secs_f64(),
        )?;
    }
    page.gauge(
        "windrow_process_open_fds",
        "Open files of the daemon",
        process.open_files.map(|files| files as f64),
    )?;
    page.time(
        "windrow_process_start_time_seconds",
        "When the daemon started",
        process.started,
    )
}

fn node(page: &mut Page<'_>, status: &Status) -> fmt::Result {
    let name = status.node_name.as_ref().unwrap_or(&status.host);
    let platform = status.platform.map(|platform| platform.to_string());
    page.info(
        "windrow_node",
        "The node, its role in the cluster and its platform",
        vec![
            ("node", name.clone()),
            ("host", status.host.clone()),
            ("role", word(&status.role)),
            ("platform", platform.unwrap_or_default()),
        ],
    )?;
    page.gauge(
        "windrow_status_generation",
        "Changes of the status document",
        Some(status.generation as f64),
    )?;
    page.gauges(
        "windrow_readiness",
        "State of the node: 1 for the current state",
        states("state", &READINESS, Some(&status.readiness)),
    )?;
    page.info(
        "windrow_reason",
        "The code of the first blocker, or the reason why there is none",
        vec![("code", status.reason.code.as_str().to_owned())],
    )?;
    page.time(
        "windrow_first_ready_timestamp_seconds",
        "When the node was Ready for the first time in this boot",
        status.first_ready,
    )?;
    let transition = status.transition.as_ref();
    page.gauges(
        "windrow_transition",
        "Deliberate operation on the node: 1 while it is under way",
        states(
            "kind",
            &TRANSITIONS,
            transition.map(|transition| &transition.kind),
        ),
    )?;
    phases(page, status)?;
    staging(page, status)?;
    probes(page, status)?;
    findings(page, status)?;
    webhooks(page, status)?;
    match &status.gates {
        Some(found) => gates(page, found),
        None => Ok(()),
    }
}

fn phases(page: &mut Page<'_>, status: &Status) -> fmt::Result {
    page.gauges(
        "windrow_phase",
        "Phase of the bootstrap: 1 for the current one",
        states("phase", Phase::ALL, Some(&status.phase)),
    )?;
    page.time(
        "windrow_current_phase_start_timestamp_seconds",
        "When the node entered its current phase",
        status.phase_since,
    )?;
    let each = |value: fn(&PhaseStatus) -> Option<f64>| {
        let rows = status.phases.iter();
        let rows = rows.filter_map(move |phase| Some((phase, value(phase)?)));
        rows.map(|(phase, value)| (vec![("phase", word(&phase.name))], value))
            .collect::<Vec<Row>>()
    };
    page.gauges(
        "windrow_phase_start_timestamp_seconds",
        "When the node first reached a phase in this boot",
        each(|phase| phase.began.map(seconds)),
    )?;
    page.gauges(
        "windrow_phase_duration_seconds",
        "Duration of a phase in this boot, once it is over",
        each(|phase| match phase.state {
            // Only its earlier stays.
            PhaseState::Current => None,
            _ => phase.seconds.map(|seconds| seconds as f64),
        }),
    )?;
    page.gauges(
        "windrow_phase_expected_seconds",
        "Duration after which a phase is slow",
        each(|phase| Some(phase.expected.as_ref()?.seconds as f64)),
    )?;
    if let Some(pace) = &status.pace {
        page.gauges(
            "windrow_pace",
            "Progress of the bootstrap: 1 for the current pace; absent once it is over",
            states("state", &PACES, Some(pace)),
        )?;
    }
    // Without phases the node is not probed, and its state is unknown.
    if status.phases.is_empty() {
        return Ok(());
    }
    page.gauges(
        "windrow_boot_hangs",
        "1 while the boot hangs: no progress for some time (stalled), or it cannot continue without help (stuck)",
        states("pace", &[Pace::Stalled, Pace::Stuck], status.hangs().as_ref()),
    )
}

fn staging(page: &mut Page<'_>, status: &Status) -> fmt::Result {
    let staging = &status.staging;
    let held = || staging.held.iter().filter(|held| held.waits());
    let others = staging.held.iter().filter(|held| held.by == Holder::Other);
    let (waiting, others) = (held().count(), others.count());
    page.gauges(
        "windrow_manifests",
        "Manifest files by state",
        [
            ("held", waiting),
            ("kept", staging.held.len() - waiting - others),
            ("held-by-other", others),
            ("not-held", staging.not_held.len()),
            ("released", staging.released.len()),
            ("applied", staging.applied.len()),
            ("failed", staging.failed.len()),
        ]
        .map(|(state, count)| (vec![("state", state.to_owned())], count as f64)),
    )?;
    let done = staging.released.iter().chain(&staging.applied);
    let escaped = done.filter(|file| file.cause == Cause::Escaped);
    page.gauge(
        "windrow_manifests_escaped",
        "Manifest files that RKE2 applied before their marker was there",
        Some(escaped.count() as f64),
    )?;
    page.gauge(
        "windrow_manifests_overdue",
        "Held manifest files that are past their deadline",
        Some(held().filter(|held| held.overdue).count() as f64),
    )?;
    page.gauge(
        "windrow_staging_settled",
        "1 once every manifest file is applied or deliberately held",
        Some(flag(staging.settled)),
    )?;
    page.time(
        "windrow_oldest_hold_start_timestamp_seconds",
        "Start of the hold of the file that has waited longest",
        held().map(|held| held.since).min(),
    )
}

fn probes(page: &mut Page<'_>, status: &Status) -> fmt::Result {
    let (own, mut user): (Vec<&ProbeStatus>, Vec<&ProbeStatus>) =
        status.probes.iter().partition(|probe| !probe.id.is_user());
    user.sort_by(|one, other| one.id.cmp(&other.id));
    user.truncate(MOST_USER_PROBES);
    let asked = own.iter().chain(&user).filter(|probe| probe.off.is_none());
    let rows = asked.filter_map(|probe| {
        let passing = match probe.state {
            ProbeState::Passing => true,
            ProbeState::Failing => false,
            ProbeState::Unknown => return None,
        };
        let severity = match probe.severity {
            ProbeSeverity::Required => "required",
            ProbeSeverity::Wanted => "wanted",
        };
        let labels = vec![
            ("probe", probe.id.to_string()),
            ("severity", severity.to_owned()),
        ];
        Some((labels, flag(passing)))
    });
    page.gauges(
        "windrow_probe_passing",
        "1: the probe passes, 0: it fails; absent while the result is unknown or the probe is off",
        rows,
    )?;
    if status.probes.is_empty() {
        return Ok(());
    }
    let state = |probe: &ProbeStatus| match probe.off {
        Some(_) => "off",
        None => probe.state.as_str(),
    };
    let rows = ["passing", "failing", "unknown", "off"].map(|one| {
        let count = status.probes.iter().filter(|probe| state(probe) == one);
        (vec![("state", one.to_owned())], count.count() as f64)
    });
    page.gauges("windrow_probes", "Probes by state", rows)
}

fn findings(page: &mut Page<'_>, status: &Status) -> fmt::Result {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for finding in &status.findings {
        let of = (finding.code.as_str(), finding.severity.as_str());
        *counts.entry(of).or_default() += 1;
    }
    let rows = counts.into_iter().map(|((code, severity), count)| {
        let labels = vec![("code", code.to_owned()), ("severity", severity.to_owned())];
        (labels, count as f64)
    });
    page.gauges(
        "windrow_findings",
        "Known problems by code and severity",
        rows,
    )
}

fn webhooks(page: &mut Page<'_>, status: &Status) -> fmt::Result {
    let mut events: BTreeMap<&str, [usize; DELIVERIES.len()]> = BTreeMap::new();
    for hook in &status.webhooks {
        let counts = events.entry(&hook.event).or_default();
        for (state, count) in DELIVERIES.iter().zip(counts) {
            *count += usize::from(hook.state == *state);
        }
    }
    let rows = events.into_iter().flat_map(|(event, counts)| {
        let rows = DELIVERIES.iter().zip(counts);
        rows.map(move |(state, count)| {
            let labels = vec![("event", event.to_owned()), ("state", word(state))];
            (labels, count as f64)
        })
    });
    page.gauges(
        "windrow_webhooks",
        "Webhooks by event and state of delivery",
        rows,
    )
}

fn gates(page: &mut Page<'_>, gates: &GatesStatus) -> fmt::Result {
    // If several versions may start next, none of them is certain.
    if let [version] = &gates.versions[..] {
        let labels = vec![("version", version.clone())];
        page.info("windrow_rke2", "The RKE2 that starts next", labels)?;
    }
    let counts = [
        ("asked", gates.asked.len()),
        ("left-out", gates.left_out.len()),
    ];
    page.gauges(
        "windrow_feature_gates",
        "Configured feature gates, and the configured gates that are not written",
        counts.map(|(state, count)| (vec![("state", state.to_owned())], count as f64)),
    )?;
    page.gauge(
        "windrow_feature_gates_pending",
        "1 while a change of feature gates waits for a boot",
        Some(flag(gates.pending)),
    )?;
    let Some(trial) = &gates.trial else {
        return Ok(());
    };
    page.gauges(
        "windrow_gate_trial",
        "State of the last trial of feature gates: 1 for the current state",
        states("state", &TRIALS, Some(&trial.state)),
    )?;
    match &trial.outcome {
        Some(outcome) => page.gauges(
            "windrow_gate_trial_outcome",
            "Outcome of the last trial of feature gates: 1 for this outcome",
            states("outcome", &OUTCOMES, Some(outcome)),
        ),
        None => Ok(()),
    }
}
