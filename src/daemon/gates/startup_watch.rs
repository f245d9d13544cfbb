//! Between trials: a component that does not come up because of a feature gate, whoever set it.
//!
//! The component's own log names the gate; RKE2's configuration shows who set it. A gate that others set is a finding
//! and is never edited. One of ours is taken out: the catalogue was wrong about it.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windrow_decide::Event;
use windrow_gates::{
    Component, ComponentRefusal, GateRequest, RefusedGates, read_gates, set_last_at, version_text,
};
use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Code;
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile};

use super::inputs::DropInInputs;
use crate::act::{StateFile, read_drop_in, remember_refused};
use crate::apiserver::ApiServer;
use crate::configuration::{Configuration, Published};
use crate::observe::effect;
use crate::observe::rke2::{admin_kubeconfig, candidates_on_disk, resolved};
use crate::observe::systemd::{RKE2_AGENT, RKE2_SERVER, Systemd};
use crate::report::journal;

/// How often to look at RKE2 while it is not ready.
const WHILE_STARTING: Duration = Duration::from_secs(10);
/// How often otherwise.
const AT_REST: Duration = Duration::from_secs(30);
/// An older refusal proves nothing: RKE2 starts kube-apiserver again every few minutes.
const RECENT: SignedDuration = SignedDuration::from_mins(30);

/// Watches over RKE2's starts.
pub(super) struct StartupWatch {
    configured: Published,
    api: ApiServer,
    now: fn() -> Timestamp,
    /// The start that was last seen ready.
    ready: String,
    findings: Vec<Finding>,
    changed: bool,
}

impl StartupWatch {
    pub(super) fn new(configured: Published, api: ApiServer, now: fn() -> Timestamp) -> Self {
        Self {
            configured,
            api,
            now,
            ready: String::new(),
            findings: Vec::new(),
            changed: false,
        }
    }

    /// What keeps RKE2 from coming up.
    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Was RKE2 up at the last look?
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty() && self.findings.is_empty()
    }

    /// Did the last look change anything about the drop-in?
    pub(super) fn changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Looks. Returns the pause until the next look.
    pub(super) async fn check(&mut self) -> Duration {
        let Ok(systemd) = Systemd::connect().await else {
            return AT_REST;
        };
        let Ok(unit) = systemd.unit(RKE2_SERVER).await else {
            return AT_REST;
        };
        // One that has failed may have failed because of a gate.
        if unit.active == "inactive" {
            match systemd.unit(RKE2_AGENT).await {
                // kube-apiserver says nothing of it, and systemd calls it active while its kubelet is started again and again.
                Ok(agent) if agent.active != "inactive" => self.look_at_logs().await,
                _ => self.findings.clear(),
            }
            return AT_REST;
        }
        if unit.is_active() && unit.invocation == self.ready {
            return AT_REST;
        }
        let configuration = Arc::clone(&self.configured.borrow());
        let layout = configuration.layout();
        let component = Component::KubeApiserver;
        let ready = match effect::client(&self.api, &admin_kubeconfig(layout), component).await {
            Ok(client) => effect::ready(&client).await.is_ok(),
            Err(_) => false,
        };
        if ready {
            self.ready = unit.invocation;
            self.findings.clear();
            return AT_REST;
        }
        self.look_at_logs().await;
        WHILE_STARTING
    }

    /// Which gates do the components refuse, by their logs?
    async fn look_at_logs(&mut self) {
        let configuration = Arc::clone(&self.configured.borrow());
        let since = self.now_or_older();
        let fatal = tokio::task::spawn_blocking(move || fatal(&configuration, since)).await;
        let (findings, ours) = fatal.unwrap_or_default();
        for finding in &findings {
            if !self.findings.contains(finding) {
                journal::write_event(&Event::new(finding.code, finding.message.clone()));
            }
        }
        self.findings = findings;
        self.changed = ours;
    }

    fn now_or_older(&self) -> Option<Timestamp> {
        (self.now)().checked_sub(RECENT).ok()
    }
}

/// What components have said since then of gates that are set, and whether one of ours was among them. Ours are
/// remembered as refused.
fn fatal(configuration: &Configuration, since: Option<Timestamp>) -> (Vec<Finding>, bool) {
    let layout = configuration.layout();
    let mut findings = Vec::new();
    let mut ours = false;
    for component in [Component::KubeApiserver, Component::Kubelet] {
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
        let mine = own_gates(&node.own, node.current.as_deref(), component, &said);
        let set: Vec<(&String, Location)> = said
            .gates
            .iter()
            .filter_map(|gate| Some((gate, set_last_at(&files, component, gate)?)))
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

/// Those of Windrow's gates that a component refuses.
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

/// Before a start: gates of ours that kube-apiserver or the kubelet has refused since they were written are remembered, so that
/// settling takes them out.
pub(super) fn own_refusals(configuration: &Configuration) {
    let layout = configuration.layout();
    let Ok(Some(text)) = read_drop_in(layout) else {
        return;
    };
    let own = layout.gates_drop_in().display().to_string();
    let written = std::fs::metadata(layout.gates_drop_in())
        .and_then(|found| found.modified())
        .ok()
        .and_then(|at| Timestamp::try_from(at).ok());
    for component in [Component::KubeApiserver, Component::Kubelet] {
        let Some((said, _)) = effect::refusal(layout, component, written) else {
            continue;
        };
        let mine = own_gates(&own, Some(&text), component, &said);
        if mine.is_empty() {
            continue;
        }
        let data_dir = &configuration.settings().data_dir;
        let resolved = resolved(&candidates_on_disk(layout, data_dir));
        let version = version_text(&resolved.target);
        let known: Option<RefusedGates> = StateFile::Refused.recall(layout).unwrap_or_default();
        let told = known.is_some_and(|known| {
            let known_gates = known.gates(&own);
            known.version == version
                && mine
                    .iter()
                    .all(|mine| known_gates.iter().any(|gate| gate.sets_as(mine)))
        });
        if !told {
            let why = format!("{component} says: {}", said.line);
            // What cannot be remembered is found again at the next start.
            let _ = remember_refused(layout, &version, &mine, &why, &own);
        }
    }
}
