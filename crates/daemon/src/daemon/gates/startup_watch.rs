//! Between trials: finds a component that does not start because of a feature gate, no matter who set it.
//!
//! The component's own log names the gate; RKE2's configuration shows who set it. A gate that others set is a finding
//! and is never edited. A gate of ours is removed: the catalogue was wrong about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use windrow_decide::Event;
use windrow_gates::{
    Component, ComponentRefusal, GateRequest, is_newer, read_gates, set_last_at, version_text,
};
use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Code;
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile};

use super::inputs::DropInInputs;
use crate::act::{WrittenAt, drop_in_written_at, remember_refused};
use crate::apiserver::ApiServer;
use crate::configuration::{Configuration, Published};
use crate::observe::effect;
use crate::observe::probes::disabled_components;
use crate::observe::rke2::admin_kubeconfig;
use crate::observe::systemd::{RKE2_AGENT, RKE2_SERVER, Systemd, Unit};
use crate::report::journal;

/// How often to look at RKE2 while it is not ready.
const WHILE_STARTING: Duration = Duration::from_secs(10);
/// How often when RKE2 is ready.
const AT_REST: Duration = Duration::from_secs(30);
/// An older refusal proves nothing: RKE2 starts kube-apiserver again every few minutes.
pub(super) const RECENT: SignedDuration = SignedDuration::from_mins(30);
/// Within this time after RKE2 has written its manifest, kube-apiserver is replaced, or not at all: the kubelet does
/// not touch a static pod whose manifest does not change. The other components start within the same time after
/// kube-apiserver.
const REPLACES: Duration = Duration::from_secs(5 * 60);

/// The components without which RKE2 does not come up.
const STOP_A_START: [Component; 2] = [Component::KubeApiserver, Component::Kubelet];
/// The components that may be missing although kube-apiserver is ready.
const AFTER_APISERVER: [Component; 3] = [
    Component::Kubelet,
    Component::KubeControllerManager,
    Component::KubeScheduler,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartStage {
    /// kube-apiserver is not ready, or the previous one still runs.
    Starting,
    /// kube-apiserver of this start is ready. The other components start after it.
    Up,
    /// It has been up for long enough: all components have read their arguments.
    Settled,
}

/// Judges a start. `is_new`: the process that answers was started after the unit was. `unchanged`: for how long this start has left
/// kube-apiserver's manifest as it is; `None` without a manifest. `up`: since when kube-apiserver of this start was ready.
fn stage(
    is_ready: bool,
    is_new: bool,
    unchanged: Option<Duration>,
    up: Option<Duration>,
) -> StartStage {
    let is_replaced = is_new || unchanged.is_some_and(|unchanged| unchanged >= REPLACES);
    if !is_ready || !is_replaced {
        StartStage::Starting
    } else if up.is_some_and(|up| up >= REPLACES) {
        StartStage::Settled
    } else {
        StartStage::Up
    }
}

pub(super) struct StartupWatch {
    configured: Published,
    api: ApiServer,
    now: fn() -> Timestamp,
    settled: String,
    /// Whether kube-apiserver of the current start was ready.
    is_up: bool,
    up: Option<(String, Instant)>,
    findings: Vec<Finding>,
    changed: bool,
}

impl StartupWatch {
    pub(super) fn new(configured: Published, api: ApiServer, now: fn() -> Timestamp) -> Self {
        Self {
            configured,
            api,
            now,
            settled: String::new(),
            is_up: false,
            up: None,
            findings: Vec::new(),
            changed: false,
        }
    }

    /// The gates that keep RKE2 from coming up.
    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_up && self.findings.is_empty()
    }

    pub(super) fn changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    pub(super) async fn check(&mut self) -> Duration {
        let Ok(systemd) = Systemd::connect().await else {
            return AT_REST;
        };
        let Ok(unit) = systemd.unit(RKE2_SERVER).await else {
            return AT_REST;
        };
        // A failed unit may have failed because of a gate.
        if unit.active == "inactive" {
            self.is_up = false;
            match systemd.unit(RKE2_AGENT).await {
                // kube-apiserver knows nothing of the agent, and systemd calls it active while its kubelet is started
                // again and again.
                Ok(agent) if agent.active != "inactive" => {
                    self.look_at_logs(&STOP_A_START, self.recently()).await;
                }
                _ => self.findings.clear(),
            }
            return AT_REST;
        }
        self.look_at_server(unit).await
    }

    async fn look_at_server(&mut self, unit: Unit) -> Duration {
        let layout = self.configured.borrow().layout().clone();
        if disabled_components(&layout).contains(&Component::KubeApiserver) {
            // The agent's kubeconfig leads to another server. The kubelet's log shows the refused gates.
            self.is_up = unit.is_active();
            self.look_at_logs(&[Component::Kubelet], self.recently())
                .await;
            return AT_REST;
        }
        if unit.is_active() && unit.invocation == self.settled {
            return AT_REST;
        }
        let age = unit.age().unwrap_or_default();
        let (is_ready, is_new) = self.apiserver(&unit).await;
        let unchanged = effect::manifest_age(&layout, Component::KubeApiserver);
        let unchanged = unchanged.map(|unchanged| unchanged.min(age));
        let up = self
            .up
            .as_ref()
            .filter(|(start, _)| *start == unit.invocation);
        let up_for = up.map(|(_, since)| since.elapsed());
        let stage = stage(is_ready && unit.is_active(), is_new, unchanged, up_for);
        self.is_up = stage != StartStage::Starting;
        if self.is_up && up.is_none() {
            self.up = Some((unit.invocation.clone(), Instant::now()));
        }
        if !self.is_up {
            self.look_at_logs(&STOP_A_START, self.recently()).await;
            return WHILE_STARTING;
        }
        // The previous kubelet's refusals are over, and those of kube-apiserver too: it is ready.
        let started = SignedDuration::try_from(age).ok();
        let started = started.and_then(|age| (self.now)().checked_sub(age).ok());
        self.look_at_logs(&AFTER_APISERVER, started).await;
        if stage == StartStage::Settled && self.findings.is_empty() {
            self.settled = unit.invocation;
        }
        AT_REST
    }

    /// Whether kube-apiserver is ready, and whether it was started after this unit.
    async fn apiserver(&self, unit: &Unit) -> (bool, bool) {
        let configuration = Arc::clone(&self.configured.borrow());
        let kubeconfig = admin_kubeconfig(configuration.layout());
        let component = Component::KubeApiserver;
        let Ok(client) = effect::client(&self.api, &kubeconfig, component).await else {
            return (false, false);
        };
        if effect::ready(&client).await.is_err() {
            return (false, false);
        }
        let process = effect::observed_process(&client).await;
        let is_new = process.is_ok_and(|process| is_newer(process.age, unit.age()));
        (true, is_new)
    }

    async fn look_at_logs(&mut self, components: &'static [Component], since: Option<Timestamp>) {
        let configuration = Arc::clone(&self.configured.borrow());
        let now = (self.now)();
        let look = move || fatal(&configuration, components, since, now);
        let fatal = tokio::task::spawn_blocking(look).await;
        let (findings, ours) = fatal.unwrap_or_default();
        for finding in &findings {
            if !self.findings.contains(finding) {
                journal::write_event(&Event::new(finding.code, finding.message.clone()));
            }
        }
        self.findings = findings;
        self.changed = ours;
    }

    fn recently(&self) -> Option<Timestamp> {
        (self.now)().checked_sub(RECENT).ok()
    }
}

/// The log lines of components since then about gates that are set, and whether one of ours was among them. Ours are
/// recorded as refused.
fn fatal(
    configuration: &Configuration,
    components: &[Component],
    since: Option<Timestamp>,
    now: Timestamp,
) -> (Vec<Finding>, bool) {
    let layout = configuration.layout();
    let mut findings = Vec::new();
    let mut ours = false;
    for component in components.iter().copied() {
        let Some((said, _)) = effect::refusal(layout, component, since) else {
            continue;
        };
        let node = DropInInputs::read(configuration);
        let mut files = node.files.clone();
        if let Some(current) = &node.current {
            files.push(Rke2ConfigFile::new(
                ConfigLayer::DropIn,
                &node.own,
                current.clone(),
            ));
        }
        // Lines from before Windrow's drop-in was written do not concern it.
        let written = drop_in_written_at(layout, now).and_then(WrittenAt::past);
        let said_since = effect::refusal(layout, component, since.max(written));
        let mine = said_since
            .map(|(said, _)| own_gates(&node.own, node.current.as_deref(), component, &said));
        let mine = mine.unwrap_or_default();
        let is_over = |gate: &String, at: &Location| {
            at.file == node.own && !mine.iter().any(|mine| mine.gate == *gate)
        };
        let set: Vec<(&String, Location)> = said
            .gates
            .iter()
            .filter_map(|gate| Some((gate, set_last_at(&files, component, gate)?)))
            .filter(|(gate, at)| !is_over(gate, at))
            .collect();
        // If the gate has been removed since, there is nothing left to do.
        if set.is_empty() {
            continue;
        }
        if !mine.is_empty() {
            let version = version_text(&node.resolved.target);
            let why = format!("{component} says: {}", said.line);
            ours |= remember_refused(layout, &version, &mine, &why, &node.own).is_ok();
        }
        let code = Code::GateFatal;
        findings.extend(set.into_iter().map(|(gate, at)| Finding {
            incident: None,
            code,
            severity: code.severity(),
            message: code.say(&[
                ("component", component.as_str()),
                ("gate", gate),
                ("error", &said.line),
            ]),
            at: vec![at],
        }));
    }
    (findings, ours)
}

fn own_gates(
    own: &str,
    current: Option<&str>,
    component: Component,
    said: &ComponentRefusal,
) -> Vec<GateRequest> {
    let mut gates = read_gates(own, current.unwrap_or_default(), &[]);
    gates.retain(|gate| gate.component == component && said.gates.contains(&gate.gate));
    gates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_kube_apiserver_of_before_does_not_end_the_look_at_a_start() {
        let soon = Some(Duration::from_secs(30));
        let long = Some(REPLACES);
        assert_eq!(stage(true, false, soon, None), StartStage::Starting);
        assert_eq!(stage(false, true, soon, None), StartStage::Starting);
        assert_eq!(stage(false, false, long, long), StartStage::Starting);
        // RKE2 still imports images: it has removed the manifest, or writes it later.
        assert_eq!(stage(true, false, None, None), StartStage::Starting);
        // This start does not replace it: its manifest did not change.
        assert_eq!(stage(true, false, long, None), StartStage::Up);
        assert_eq!(stage(true, true, soon, None), StartStage::Up);
    }

    #[test]
    fn the_other_components_have_their_time_from_the_first_ready_kube_apiserver_of_a_slow_start() {
        let (soon, long) = (Some(Duration::from_secs(30)), Some(REPLACES * 9));
        assert_eq!(stage(true, true, long, None), StartStage::Up);
        assert_eq!(stage(true, true, long, soon), StartStage::Up);
        assert_eq!(stage(true, true, long, Some(REPLACES)), StartStage::Settled);
    }

    #[test]
    fn what_was_refused_before_the_drop_in_was_written_says_nothing_about_its_gates() {
        for (minutes, refuses) in [(-5, false), (5, true)] {
            let place = tempfile::tempdir().unwrap();
            let root = crate::layout::Layout::new(place.path());
            let log = "/var/log/pods/kube-system_kube-apiserver-n1_1/kube-apiserver/0.log";
            let log = root.path(log);
            std::fs::create_dir_all(log.parent().unwrap()).unwrap();
            // The trial before had the other value.
            let said = "stderr F Error: cannot set feature gate ImageVolume to true, feature is locked to false";
            let text = "kube-apiserver-arg+:\n- feature-gates+=ImageVolume=false\n";
            crate::act::put_drop_in(&root, Some(text)).unwrap();
            let written = Timestamp::now() - SignedDuration::from_mins(10);
            let drop_in = std::fs::File::open(root.gates_drop_in()).unwrap();
            drop_in.set_modified(written.into()).unwrap();
            let at = written + SignedDuration::from_mins(minutes);
            std::fs::write(log, format!("{at} {said}\n")).unwrap();
            let since = Timestamp::now().checked_sub(RECENT).ok();
            let (findings, ours) = fatal(
                &Configuration::load(&root),
                &STOP_A_START,
                since,
                Timestamp::now(),
            );
            assert_eq!(
                (ours, findings.len()),
                (refuses, usize::from(refuses)),
                "{findings:?}"
            );
        }
    }

    #[test]
    fn a_refusal_counts_although_the_clock_was_ahead_when_the_drop_in_was_written() {
        let place = tempfile::tempdir().unwrap();
        let root = crate::layout::Layout::new(place.path());
        let text = "kube-apiserver-arg+:\n- feature-gates+=ImageVolume=false\n";
        crate::act::put_drop_in(&root, Some(text)).unwrap();
        let log = "/var/log/pods/kube-system_kube-apiserver-n1_1/kube-apiserver/0.log";
        let log = root.path(log);
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        // The hardware clock had another time zone, and the clock was set once the network was up.
        let now = Timestamp::now() - SignedDuration::from_hours(8);
        let said = "stderr F Error: unrecognized feature gate: ImageVolume";
        std::fs::write(log, format!("{now} {said}\n")).unwrap();
        let since = now.checked_sub(RECENT).ok();
        let configuration = Configuration::load(&root);
        let (findings, ours) = fatal(&configuration, &STOP_A_START, since, now);
        assert_eq!((ours, findings.len()), (true, 1), "{findings:?}");
    }

    #[test]
    fn what_was_refused_while_the_clock_was_ahead_does_not_count_once_it_is_set() {
        let place = tempfile::tempdir().unwrap();
        let root = crate::layout::Layout::new(place.path());
        let text = "kube-apiserver-arg+:\n- feature-gates+=ImageVolume=false\n";
        crate::act::put_drop_in(&root, Some(text)).unwrap();
        let log = "/var/log/pods/kube-system_kube-apiserver-n1_1/kube-apiserver/0.log";
        let log = root.path(log);
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        let ahead = Timestamp::now() + SignedDuration::from_hours(8);
        let said = "stderr F Error: unrecognized feature gate: ImageVolume";
        std::fs::write(log, format!("{ahead} {said}\n")).unwrap();
        let configuration = Configuration::load(&root);
        let (findings, ours) = fatal(&configuration, &STOP_A_START, None, Timestamp::now());
        assert_eq!((ours, findings.len()), (false, 0), "{findings:?}");
    }

    #[test]
    fn a_component_that_starts_after_kube_apiserver_is_reported_with_the_file_of_its_gate() {
        let place = tempfile::tempdir().unwrap();
        let root = crate::layout::Layout::new(place.path());
        let write = |path: &str, text: &str| {
            let path = root.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let site = "kube-scheduler-arg:\n- feature-gates=NotAGate=true\n";
        write("/etc/rancher/rke2/config.yaml.d/50-site.yaml", site);
        let log = "/var/log/pods/kube-system_kube-scheduler-n1_1/kube-scheduler/0.log";
        let refusal = "2026-11-21T20:00:00Z stderr F Error: unrecognized feature gate: NotAGate\n";
        write(log, refusal);
        let configuration = Configuration::load(&root);
        let (findings, _) = fatal(&configuration, &AFTER_APISERVER, None, Timestamp::now());
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].message.contains("kube-scheduler"));
        assert_eq!(findings[0].at[0].line, Some(2));
        let (findings, _) = fatal(&configuration, &STOP_A_START, None, Timestamp::now());
        assert!(findings.is_empty());
    }

    #[tokio::test]
    async fn a_start_without_kube_apiserver_is_not_called_good_by_another_server() {
        let place = tempfile::tempdir().unwrap();
        let root = crate::layout::Layout::new(place.path());
        let config = root.path("/etc/rancher/rke2/config.yaml");
        std::fs::create_dir_all(config.parent().unwrap()).unwrap();
        std::fs::write(config, "disable-apiserver: true\n").unwrap();
        let configured = tokio::sync::watch::channel(Arc::new(Configuration::load(&root))).1;
        let mut watch = StartupWatch::new(configured, ApiServer::new(), Timestamp::now);
        for (active, is_up) in [("activating", false), ("active", true), ("failed", false)] {
            let unit = Unit {
                active: active.to_owned(),
                ..Unit::default()
            };
            watch.look_at_server(unit).await;
            assert_eq!(watch.is_ready(), is_up, "{active}");
            assert!(watch.settled.is_empty());
        }
    }
}
