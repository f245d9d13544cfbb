//! The daemon's look for known incidents: on servers only, seldom, and read-only.
//!
//! ```text
//!   status (role, readiness) ──> when? ──> look: its results give a reason to ask for more
//!   settings ────────────────────┘  ^        └─> findings ──> status, console, journal (once each)
//!                                   │                └─> a cure, if the settings name it: in parallel
//!                                   └────────────────────────┘ (repairs.rs)
//! ```
//!
//! An agent never asks, and no server asks before kube-apiserver has answered. One of several servers looks at the
//! whole cluster (`look_turn.rs`), and each looks at its own node. If a look could not judge an incident, the last
//! judgement stays.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use windrow_decide::settings::Settings;
use windrow_decide::{Event, NodeRole, Phase, Readiness};
use windrow_harvester::incidents::{DetectorResult, OwnManifest, OwnNode, look_at_own, rules_for};
use windrow_harvester::objects::Objects;
use windrow_model::findings::Finding;
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;
use windrow_plan::Plan;
use windrow_plan::rules::FindingRule;

use super::incident_look::{PATIENCE, look_at_cluster, look_at_own_node, look_by_rules_at_cluster};
use super::look_turn::{LookBasis, LookTurn, LookTurns};
use super::node_findings::read_without_manifests;
use super::repairs::Repairer;
use super::sightings::Sightings;
use crate::act::repair::RestoreEntry;
use crate::apiserver::ApiServer;
use crate::configuration::{Configuration, Published};
use crate::fs;
use crate::layout::Layout;
use crate::observe::objects::reach;
use crate::observe::platform;
use crate::observe::rke2::admin_kubeconfig;
use crate::report::journal;
use crate::report::publish::StatusWatch;

/// How many times as often it looks while the node is not Ready; less and less often if there is nothing new.
const SOONER: u32 = 5;

/// Looks for known incidents while the daemon runs.
pub struct Diagnoser {
    configured: Published,
    api: ApiServer,
    now: fn() -> Timestamp,
    status: StatusWatch,
    plans: watch::Receiver<Arc<Plan>>,
    view: watch::Sender<Vec<Finding>>,
    known: Sightings,
    /// The node's state at the last looks, and how many of them in a row have shown nothing new.
    stands: Option<(Readiness, Phase, Code)>,
    quiet: u32,
    turns: LookTurns,
    repairer: Repairer,
}

impl Diagnoser {
    pub fn new(
        configured: Published,
        api: ApiServer,
        now: fn() -> Timestamp,
        (status, plans): (StatusWatch, watch::Receiver<Arc<Plan>>),
        view: watch::Sender<Vec<Finding>>,
    ) -> Self {
        let repairer = Repairer::new(configured.clone(), now);
        Self {
            configured,
            api,
            now,
            status,
            plans,
            view,
            known: Sightings::default(),
            stands: None,
            quiet: 0,
            turns: LookTurns::new(now),
            repairer,
        }
    }

    /// Looks from time to time until the daemon ends, and then leaves the cluster to another server.
    pub async fn run(mut self) {
        self.look_now_and_then().await;
        self.repairer.stop().await;
        let layout = self.configured.borrow().layout().clone();
        self.give_up_turn(&layout).await;
    }

    async fn look_now_and_then(&mut self) {
        let mut last = None;
        let mut daemon = self.status.clone();
        let ended = async move { while daemon.changed().await.is_ok() {} };
        tokio::pin!(ended);
        loop {
            let configuration = Arc::clone(&self.configured.borrow_and_update());
            let rules = rules_in_force(&configuration);
            self.forget_what_is_off(configuration.settings(), &rules);
            if !configuration.settings().diagnosis.enabled {
                self.give_up_turn(configuration.layout()).await;
            }
            let due = self.due(&configuration, last);
            tokio::select! {
                changed = self.configured.changed() => if changed.is_err() { return },
                // The role and the node's readiness decide when to look.
                changed = self.status.changed() => if changed.is_err() { return },
                // The next look shows the result.
                is_changed = self.repairer.ended() => if is_changed { last = None },
                () = wait(due) => {
                    tokio::select! {
                        () = self.diagnose(&configuration, &rules) => {}
                        () = &mut ended => return,
                    }
                    last = Some(Instant::now());
                }
            }
        }
    }

    /// A removed rule finds nothing any more, and neither does anything while diagnosis is off.
    fn forget_what_is_off(&mut self, settings: &Settings, rules: &[FindingRule]) {
        let is_in_force = |name: &str| rules.iter().any(|rule| rule.name == name);
        let forgotten = self.known.retain(|detector| {
            settings.diagnosis.enabled && detector.rule().is_none_or(is_in_force)
        });
        if forgotten {
            self.publish();
        }
    }

    /// When to look; `None` while it must not look at all.
    fn due(&mut self, configuration: &Configuration, last: Option<Instant>) -> Option<Instant> {
        let settings = configuration.settings();
        let status = self.status.borrow_and_update();
        let status = status.as_ref()?;
        if !may_ask(configuration.layout(), status.role) {
            return None;
        }
        if !settings.diagnosis.enabled {
            // Temporary changes of a repair are restored nevertheless.
            let is_due = self.repairer.has_to_restore(configuration.layout());
            let next = |last| last + settings.diagnosis.interval / SOONER;
            return is_due.then(|| last.map_or_else(Instant::now, next));
        }
        let stands = Some((status.readiness, status.phase, status.reason.code));
        if self.stands != stands {
            (self.stands, self.quiet) = (stands, 0);
        }
        let longest = settings.diagnosis.interval;
        let pause = match status.readiness {
            _ if self.known.is_undecided() => longest / SOONER,
            Readiness::Ready => longest,
            _ => (longest / SOONER)
                .saturating_mul(1 << self.quiet.min(SOONER))
                .min(longest),
        };
        Some(last.map_or_else(Instant::now, |last| last + pause))
    }

    async fn diagnose(&mut self, configuration: &Configuration, rules: &[FindingRule]) {
        let (settings, layout) = (configuration.settings(), configuration.layout());
        if !settings.diagnosis.enabled {
            if let Ok(client) = reach(&self.api, &admin_kubeconfig(layout)).await {
                self.repairer.repair(&client, layout, settings, &[]).await;
            }
            return;
        }
        let own = self.own_node(layout).await;
        let Ok(client) = reach(&self.api, &admin_kubeconfig(layout)).await else {
            // Probes report that kube-apiserver does not answer. The node's own files may say why.
            return self.report(look_at_own(&own, &Objects::default(), (self.now)()));
        };
        let place = self.repairer.look_place.clone();
        let basis = LookBasis::new(rules, &settings.repair.auto);
        let turns = &mut self.turns;
        let turn = turns.take(&client, layout, settings.diagnosis.interval, &basis);
        match turn.await {
            LookTurn::Ours => {}
            LookTurn::Theirs(counted) => {
                self.known.follow(counted);
                let looked =
                    timeout(PATIENCE, look_at_own_node(&client, &place, self.now, &own)).await;
                self.report(looked.unwrap_or_default());
                // This server finishes a cure that it has begun.
                self.repairer.repair(&client, layout, settings, &[]).await;
                return;
            }
        }
        let Ok(mut looked) =
            timeout(PATIENCE, look_at_cluster(&client, &place, self.now, &own)).await
        else {
            return;
        };
        if let Ok(by_rules) =
            timeout(PATIENCE, look_by_rules_at_cluster(&client, &place, rules)).await
        {
            looked.extend(by_rules);
        }
        self.report(looked.clone());
        let repairer = &mut self.repairer;
        repairer.repair(&client, layout, settings, &looked).await;
        let counted = self.known.counted_of_cluster();
        self.turns.leave(&client, &basis, counted).await;
    }

    async fn give_up_turn(&mut self, layout: &Layout) {
        if self.turns.is_ours()
            && let Ok(client) = reach(&self.api, &admin_kubeconfig(layout)).await
        {
            self.turns.give_up(&client).await;
        }
    }

    /// The findings from the node's own files. The plan and the gate controller report two of these themselves.
    async fn own_node(&self, layout: &Layout) -> OwnNode {
        let mut own = OwnNode {
            gate: None,
            manifests: self.manifests(),
            ..read_without_manifests(layout, (self.now)()).await
        };
        let of_others = self.repairer.left_by_others().iter();
        own.unfinished_repairs
            .extend(of_others.map(RestoreEntry::in_short));
        own
    }

    /// The manifests that RKE2 reads, as the daemon has read them: reading each once more would wake its watch.
    fn manifests(&self) -> Vec<OwnManifest> {
        let status = self.status.borrow();
        let held = status.iter().flat_map(|status| &status.staging.held);
        let held: BTreeSet<&ManifestPath> = held.map(|one| &one.file).collect();
        let plan = self.plans.borrow();
        let read = plan.files.iter().filter(|file| {
            let is_ours = file.owner.is_none() && file.skipped.is_none();
            is_ours && !file.sha256.is_empty() && !held.contains(&file.path)
        });
        read.map(|file| OwnManifest {
            addon: file.addon.clone(),
            sha256: file.sha256.to_string(),
            path: file.path.clone(),
        })
        .collect()
    }

    fn report(&mut self, looked: Vec<DetectorResult>) {
        let events = self.take_findings(looked);
        self.quiet = match events.is_empty() {
            true => self.quiet.saturating_add(1),
            false => 0,
        };
        for event in events {
            journal::write_event(&event);
        }
        self.publish();
    }

    fn take_findings(&mut self, looked: Vec<DetectorResult>) -> Vec<Event> {
        let mut events = Vec::new();
        for DetectorResult { id, found } in looked {
            // Not judged this time.
            let Ok(mut found) = found else { continue };
            found.retain(|finding| finding.code != Code::AddonCollision);
            events.extend(self.known.take(id, found));
        }
        events
    }

    fn publish(&self) {
        let findings: Vec<Finding> = self.known.counted().cloned().collect();
        self.view.send_if_modified(|known| {
            let changed = *known != findings;
            *known = findings;
            changed
        });
    }
}

fn rules_in_force(configuration: &Configuration) -> Vec<FindingRule> {
    let platform = configuration.settings().platform;
    let platform = platform.or_else(|| platform::detect(configuration.root()));
    rules_for(&configuration.loaded.rules.findings, platform)
}

/// Only a server has the admin's credential. While the role is unknown, the credential decides.
fn may_ask(root: &Layout, role: NodeRole) -> bool {
    role.serves_api() || (role == NodeRole::Unknown && is_file(&admin_kubeconfig(root)))
}

fn is_file(path: &Path) -> bool {
    fs::is_file(path)
}

async fn wait(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use windrow_harvester::incidents::{DetectorId, IncidentFinding};
    use windrow_harvester::objects::Unlisted;
    use windrow_model::manifest::GroupKind;

    use super::super::clock::Clock;
    use crate::act::repair::Records;
    use crate::act::testing::sample_of_a_temporary_change;
    use windrow_decide::Status;

    use super::super::{Daemon, link};
    use super::*;
    use crate::report::publish::{PublishedStatus, sample};

    fn diagnoser() -> Diagnoser {
        let configuration = Configuration::load(&Layout::new("/nowhere"));
        let configured = watch::channel(Arc::new(configuration)).1;
        let status = watch::channel(None).1;
        let view = watch::channel(Vec::new()).0;
        let plans = watch::channel(Arc::default()).1;
        let ends = (status, plans);
        Diagnoser::new(configured, ApiServer::new(), Timestamp::now, ends, view)
    }

    fn looked(found: Result<Vec<IncidentFinding>, Unlisted>) -> Vec<DetectorResult> {
        vec![DetectorResult {
            id: DetectorId::new("addons"),
            found,
        }]
    }

    fn stuck(name: &str) -> IncidentFinding {
        IncidentFinding::new(Code::AddonStuck, format!("Addon x/{name}"), "it waits")
    }

    #[test]
    fn what_could_not_be_judged_keeps_its_last_judgement() {
        let mut diagnoser = diagnoser();
        let mut codes = |found| -> Vec<&'static str> {
            let events = diagnoser.take_findings(looked(found));
            events.iter().map(|event| event.code.as_str()).collect()
        };
        // A refused credential stays refused.
        let refused = || {
            Err(Unlisted {
                kind: GroupKind::new("", "Pod"),
                why: "403".to_owned(),
                wanted: false,
            })
        };
        assert_eq!(codes(Ok(vec![stuck("a")])), [""; 0]);
        assert_eq!(codes(refused()), [""; 0]);
        assert_eq!(codes(Ok(vec![stuck("a")])), ["addon-stuck"]);
        for _ in 0..3 {
            assert_eq!(codes(refused()), [""; 0]);
        }
        assert_eq!(codes(Ok(vec![])), [""; 0]);
        assert_eq!(codes(Ok(vec![])), ["incident-over"]);
    }

    #[test]
    fn the_status_has_what_was_found_until_it_is_over() {
        let mut diagnoser = diagnoser();
        for _ in 0..2 {
            diagnoser.take_findings(looked(Ok(vec![stuck("a")])));
        }
        diagnoser.publish();
        let found = diagnoser.view.borrow().clone();
        let incident = found[0].incident.as_ref().unwrap();
        assert_eq!(incident.documentation, "incidents/addon.md");
        assert_eq!(incident.cure, None, "a finding without a cure offers none");
        for _ in 0..2 {
            diagnoser.take_findings(looked(Ok(vec![])));
        }
        diagnoser.publish();
        assert_eq!(diagnoser.view.borrow().len(), 0);
    }

    #[tokio::test]
    async fn the_manifests_that_rke2_reads_are_known_without_being_read_again() {
        let place = tempfile::tempdir().unwrap();
        let root = Layout::new(place.path());
        let manifests = root.manifests();
        std::fs::create_dir_all(&manifests).unwrap();
        let free = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        let held = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n";
        for (name, text) in [
            ("free.yaml", free),
            ("held.yaml", held),
            ("rke2-coredns.yaml", free),
        ] {
            std::fs::write(manifests.join(name), text).unwrap();
        }
        let configuration = Arc::new(Configuration::load(&root));
        let mut daemon = Daemon::new(watch::channel(configuration).0, Clock::real(), link().0);
        daemon.start();
        let diagnoser = Diagnoser {
            status: daemon.status(),
            plans: daemon.plans(),
            ..diagnoser()
        };
        let read: Vec<(String, String)> = diagnoser
            .manifests()
            .into_iter()
            .map(|one| (one.path.to_string(), one.sha256))
            .collect();
        let sha256 = windrow_model::manifest::sha256_hex(free.as_bytes());
        assert_eq!(read, [("free.yaml".to_owned(), sha256)]);
    }

    #[test]
    fn a_node_that_hangs_is_looked_at_less_and_less_often_until_something_moves() {
        let (said, status) = watch::channel(None);
        let mut diagnoser = Diagnoser {
            status,
            ..diagnoser()
        };
        let configuration = Configuration::load(&Layout::new("/nowhere"));
        let stands = |readiness, phase| {
            let status = Status {
                role: NodeRole::FirstServer,
                readiness,
                phase,
                ..sample("it hangs")
            };
            said.send_replace(Some(PublishedStatus::new(status)));
        };
        let last = Instant::now();
        let pause = |diagnoser: &mut Diagnoser| {
            let due = diagnoser.due(&configuration, Some(last)).unwrap();
            (due - last).as_secs()
        };
        stands(Readiness::SettingUp, Phase::Rancher);
        let mut pauses = Vec::new();
        for _ in 0..5 {
            pauses.push(pause(&mut diagnoser));
            diagnoser.report(looked(Ok(vec![])));
        }
        assert_eq!(pauses, [60, 120, 240, 300, 300]);
        stands(Readiness::SettingUp, Phase::Settings);
        assert_eq!(pause(&mut diagnoser), 60, "it moved");
        diagnoser.report(looked(Ok(vec![])));
        diagnoser.report(looked(Ok(vec![stuck("a")])));
        assert_eq!(pause(&mut diagnoser), 60, "one look more decides");
        diagnoser.report(looked(Ok(vec![stuck("a")])));
        assert_eq!(pause(&mut diagnoser), 60, "that was news");
        stands(Readiness::Ready, Phase::Ready);
        assert_eq!(pause(&mut diagnoser), 300);
    }

    #[test]
    fn a_repair_that_has_to_give_back_is_gone_on_with_while_diagnosis_is_off() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let [directory, ..] = layout.config_dirs();
        std::fs::create_dir_all(&directory).unwrap();
        let off = "diagnosis: {enabled: false}\n";
        std::fs::write(directory.join("windrow.yaml"), off).unwrap();
        let configuration = Configuration::load(&layout);
        assert_eq!(configuration.loaded.errors, []);
        let status = Status {
            role: NodeRole::FirstServer,
            ..sample("it is ready")
        };
        let status = watch::channel(Some(PublishedStatus::new(status))).1;
        let mut diagnoser = Diagnoser {
            status,
            ..diagnoser()
        };
        assert_eq!(diagnoser.due(&configuration, None), None);
        sample_of_a_temporary_change(&Records::new(&layout.state_dir()));
        assert!(diagnoser.due(&configuration, None).is_some());
    }

    #[test]
    fn an_agent_never_asks_and_who_is_not_known_asks_with_the_admins_credential_only() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        assert!(!may_ask(&layout, NodeRole::Agent));
        assert!(!may_ask(&layout, NodeRole::Witness));
        assert!(may_ask(&layout, NodeRole::JoinedServer));
        assert!(!may_ask(&layout, NodeRole::Unknown));
        let path = layout.default_kubeconfig();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "{}").unwrap();
        assert!(may_ask(&layout, NodeRole::Unknown));
        assert!(!may_ask(&layout, NodeRole::Agent));
    }
}
