//! The daemon's part in feature gates: before READY=1 the drop-in is made fit for the version that
//! will start; after it the status tells what is asked for, written and in effect.
//!
//! [`settle`] is also what runs before every start of RKE2 (`windrow gates settle`), so that it never
//! meets a gate of ours that the version which starts would refuse, whoever started it. It reads files
//! only and waits for nothing.

use std::fs;

use tokio::sync::watch;

use crate::act::{Memory, put_drop_in, read_drop_in};
use crate::decide::Event;
use crate::gates::{
    GateSet, GatesStatus, KnownGood, LeftOut, Moment, Past, Request, Resolved, Settled, assess,
    check, resolve,
};
use crate::layout::Layout;
use crate::observe::rke2::{candidates_on_disk, config_files};
use crate::observe::systemd::{RKE2_UNITS, Systemd};
use crate::plan::Finding;
use crate::reasons::{Code, Severity};
use crate::report::journal;
use crate::rke2::config::{ConfigFile, Place, merge};
use crate::settings::{self, Settings};

/// What the status document says of feature gates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// Its `gates` section.
    pub section: GatesStatus,
    /// What is wrong or worth knowing.
    pub findings: Vec<Finding>,
}

/// What became of the drop-in, and what is to be told of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// For the status; `None` when gates are nobody's concern on this node.
    pub view: Option<View>,
    /// For the journal.
    pub events: Vec<Event>,
}

/// Everything that the drop-in depends on, as it lies on the disk.
pub(super) struct Node {
    pub(super) layout: Layout,
    pub(super) settings: Settings,
    pub(super) own: String,
    /// RKE2's configuration without our drop-in.
    pub(super) files: Vec<ConfigFile>,
    pub(super) current: Option<String>,
    pub(super) resolved: Resolved,
    pub(super) past: Past,
}

impl Node {
    pub(super) fn read(root: &Layout) -> Self {
        let settings = settings::load(root).settings;
        let layout = root.clone().with_data_dir(&settings.data_dir);
        let own = layout.gates_drop_in().display().to_string();
        let mut files = config_files(&layout).files;
        files.retain(|file| file.path != own);
        let resolved = resolve(&candidates_on_disk(&layout, &settings.data_dir));
        let known = Memory::KnownGood.recall::<KnownGood>(&layout);
        Self {
            past: Past {
                // One that cannot be read shows nothing; the next trial writes it anew.
                proven: known.ok().flatten().map(|known| known.proven(&own)),
                rejected: None,
            },
            // What cannot be read is overwritten.
            current: read_drop_in(&layout).unwrap_or_default(),
            files,
            resolved,
            settings,
            own,
            layout,
        }
    }

    pub(super) fn settled(&self, moment: Moment) -> Settled {
        crate::gates::settle(
            &self.settings.feature_gates,
            &self.resolved.target,
            &merge(&self.files),
            self.current
                .as_deref()
                .map(|text| (self.own.as_str(), text)),
            moment,
            &self.past,
        )
    }

    /// What the status says once the drop-in is `settled`.
    fn view(&self, settled: &Settled) -> View {
        let mut section = GatesStatus::of(
            &self.resolved,
            &self.settings.feature_gates,
            &settled.asked.left_out,
        );
        section.pending = settled.pending;
        let mut files = self.files.clone();
        if let Some(content) = &settled.content {
            files.push(ConfigFile::new(Place::DropIn, &self.own, content.clone()));
        }
        let assessment = assess(&merge(&files), Some(&self.own), &self.resolved.target);
        for view in &assessment.components {
            section
                .effective
                .extend(view.gates.iter().map(|gate| GateSet {
                    component: view.component.to_string(),
                    gate: gate.gate.clone(),
                    value: gate.value,
                    at: gate.at.clone(),
                }));
        }
        let mut findings: Vec<Finding> = assessment.findings;
        // What is wrong with ours is said of the place where a person asked for it.
        findings.retain(|finding| {
            finding.at.is_empty() || finding.at.iter().any(|at| at.file != self.own)
        });
        let mut add = |finding: Finding| {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        };
        for finding in check(&settled.kept, &self.resolved.target) {
            // A person who forced a gate has heard it, and a trial has shown otherwise.
            if finding.severity != Severity::Error {
                add(finding);
            }
        }
        for left in settled.asked.left_out.iter().filter(|left| !left.not_meant) {
            add(left_out(Code::GateLeftOut, left));
        }
        if settled.pending {
            add(Finding {
                code: Code::GatePending,
                severity: Code::GatePending.severity(),
                message: pending(settled),
                at: self
                    .settings
                    .feature_gates
                    .first()
                    .map(|request| request.at.clone())
                    .into_iter()
                    .collect(),
            });
        }
        View { section, findings }
    }
}

/// Watches over the feature gates while the daemon runs.
pub struct Keeper {
    root: Layout,
    view: watch::Sender<Option<View>>,
    reloads: watch::Receiver<()>,
}

impl Keeper {
    /// Does what has to be done before RKE2 starts. Where nobody asks for a gate that is nothing.
    pub async fn begin(
        root: Layout,
        view: watch::Sender<Option<View>>,
        reloads: watch::Receiver<()>,
    ) -> Self {
        let keeper = Self {
            root,
            view,
            reloads,
        };
        if concerns(&keeper.root) {
            keeper.look().await;
        }
        keeper
    }

    /// Looks again whenever the configuration is read anew, until the daemon ends.
    pub async fn run(mut self) {
        // What others set is worth a finding too, but nothing waits for it.
        if self.view.borrow().is_none() {
            self.look().await;
        }
        // A start of RKE2 looks for itself.
        while self.reloads.changed().await.is_ok() {
            self.look().await;
        }
    }

    async fn look(&self) {
        let moment = moment().await;
        // It reads RKE2's binary: a hundred megabytes, for which the loop does not wait.
        let root = self.root.clone();
        let settled = tokio::task::spawn_blocking(move || settle(&root, moment)).await;
        let Ok(outcome) = settled else { return };
        for event in &outcome.events {
            journal::tell(event);
        }
        self.view.send_if_modified(|known| {
            let changed = *known != outcome.view;
            *known = outcome.view;
            changed
        });
    }
}

/// Does RKE2 run? As long as it is not known to be down it is taken to run.
async fn moment() -> Moment {
    let Ok(systemd) = Systemd::connect().await else {
        return Moment::Running;
    };
    for unit in RKE2_UNITS {
        match systemd.unit(unit).await {
            Ok(unit) if unit.is_down() => {}
            _ => return Moment::Running,
        }
    }
    Moment::Stopped
}

/// Makes the drop-in what it should be at this moment.
pub fn settle(root: &Layout, moment: Moment) -> Outcome {
    let node = Node::read(root);
    let settled = node.settled(moment);
    let mut events = Vec::new();
    for left in &settled.dropped {
        events.push(event(
            Code::GateDropped,
            left_out(Code::GateDropped, left).message,
        ));
    }
    match put_drop_in(&node.layout, settled.content.as_deref()) {
        Ok(true) => events.push(event(
            Code::GatesWritten,
            Code::GatesWritten.say(&[("path", &node.own), ("gates", &list(&settled.kept))]),
        )),
        Ok(false) => {}
        // Its directory comes with RKE2; what runs before RKE2's start may make it, the daemon in its
        // sandbox may not.
        Err(error) if !node.layout.rke2_config_dir().exists() => {
            tracing::debug!("{}: {error}", node.own);
        }
        Err(error) => {
            let what = format!("write {}", node.own);
            events.push(event(
                Code::ActionFailed,
                Code::ActionFailed.say(&[("what", &what), ("error", &error.to_string())]),
            ));
        }
    }
    let concerns = !node.settings.feature_gates.is_empty() || node.current.is_some();
    let view = node.view(&settled);
    Outcome {
        view: (concerns || !view.section.effective.is_empty() || !view.findings.is_empty())
            .then_some(view),
        events,
    }
}

/// Is there anything that has to be done before RKE2 starts? Where nobody asks for a gate, nothing is
/// read and nothing is delayed.
pub fn concerns(root: &Layout) -> bool {
    let settings = settings::load(root).settings;
    !settings.feature_gates.is_empty() || fs::symlink_metadata(root.gates_drop_in()).is_ok()
}

/// `Name=value` of a list of gates, in a line.
pub(super) fn list(gates: &[Request]) -> String {
    if gates.is_empty() {
        return "no feature gate".to_owned();
    }
    let texts: Vec<String> = gates
        .iter()
        .map(|gate| format!("{}={} ({})", gate.gate, gate.value, gate.component))
        .collect();
    texts.join(", ")
}

fn pending(settled: &Settled) -> String {
    Code::GatePending.say(&[("gates", &list(&settled.asked.written))])
}

fn left_out(code: Code, left: &LeftOut) -> Finding {
    let gate = &left.request;
    let message = match code {
        Code::GateDropped => code.say(&[
            ("gate", &gate.gate),
            ("value", &gate.value.to_string()),
            ("component", gate.component.as_str()),
            ("why", &left.why),
        ]),
        _ => code.say(&[
            ("gate", &format!("{}={}", gate.gate, gate.value)),
            ("why", &left.why),
        ]),
    };
    Finding {
        code,
        severity: code.severity(),
        message,
        at: vec![gate.at.clone()],
    }
}

pub(super) fn event(code: Code, message: String) -> Event {
    Event {
        code,
        file: None,
        message,
    }
}
