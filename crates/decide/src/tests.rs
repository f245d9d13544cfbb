//! The behaviour of the core with small directories, and its invariants with any directory.

mod by_hand;
mod changes;
mod clusters;
mod deadlines;
mod installers;
mod late;
mod learned;
mod markers;
mod moved;
mod needs;
mod node;
mod once;
mod properties;
mod same_pass;
mod shown;
mod unread;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use windrow_model::manifest::{
    AddonName, FileContent, GroupKind, ManifestPath, MarkerPath, ObjectRef,
};
use windrow_model::reasons::Code;
use windrow_plan::readiness::{KindSeen, ObjectSeen};
use windrow_plan::rules::{Platform, RuleSet};

use super::*;
use crate::settings::Settings;

/// A manifests directory and its disk state in memory, with the core on top of it.
#[derive(Clone)]
struct Node {
    state: StagingState,
    files: BTreeMap<String, String>,
    /// Paths that cannot be read: files, markers, or directories with everything below them.
    unreadable: Vec<&'static str>,
    markers: BTreeMap<MarkerPath, Option<Mark>>,
    ledger_on_disk: Ledger,
    now: Timestamp,
    events: Vec<Event>,
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn marker_of(file: &str) -> MarkerPath {
    ManifestPath::from(file).marker()
}

fn rules() -> RuleSet {
    static RULES: LazyLock<RuleSet> = LazyLock::new(RuleSet::shipped);
    RULES.clone()
}

fn new_state(ledger: Ledger, platform: Option<Platform>, now: Timestamp) -> StagingState {
    StagingState::new(Settings::default(), rules(), platform, ledger, now)
}

impl Node {
    fn new(files: &[(&str, &str)]) -> Self {
        Self::on(Some(Platform::Rke2), files)
    }

    fn on(platform: Option<Platform>, files: &[(&str, &str)]) -> Self {
        Self::with(rules(), platform, files)
    }

    fn with(rules: RuleSet, platform: Option<Platform>, files: &[(&str, &str)]) -> Self {
        let settings = Settings::default();
        let mut node = Self {
            state: StagingState::new(settings, rules, platform, Ledger::default(), start()),
            files: files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
                .collect(),
            unreadable: Vec::new(),
            markers: BTreeMap::new(),
            ledger_on_disk: Ledger::default(),
            now: start(),
            events: Vec::new(),
        };
        node.scan();
        node
    }

    fn scan(&mut self) {
        let cannot_be_read = |path: &str| {
            let is_at = |unreadable: &&str| {
                let rest = path.strip_prefix(*unreadable);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            self.unreadable.iter().any(is_at)
        };
        let files = self.files.iter().filter(|(path, _)| !cannot_be_read(path));
        let files = files.map(|(path, text)| FileChange {
            path: path.as_str().into(),
            content: Some(Arc::new(FileContent::Bytes(text.clone().into_bytes()))),
        });
        let unreadable = self.unreadable.iter().map(|path| FileChange {
            path: (*path).into(),
            content: Some(Arc::new(FileContent::Unreadable {
                error: "Input/output error".to_owned(),
            })),
        });
        let markers = self
            .markers
            .iter()
            .filter(|(path, _)| !cannot_be_read(path));
        let directory = Directory {
            files: files.chain(unreadable).collect(),
            markers: markers
                .map(|(path, mark)| Marker {
                    path: path.clone(),
                    mark: mark.clone().map(Arc::new),
                })
                .collect(),
        };
        self.state.take_directory(directory);
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Hold { path, mark } => {
                let there = self.markers.get(path);
                assert!(
                    !matches!(there, Some(None)),
                    "a foreign marker would be replaced"
                );
                self.markers.insert(path.clone(), Some(Mark::clone(mark)));
            }
            Action::SaveLedger(ledger) => self.ledger_on_disk = Ledger::clone(ledger),
            Action::Lift { path } => {
                let gone = self.markers.remove(path);
                assert!(!matches!(gone, Some(None)), "a foreign marker would go");
            }
        }
        self.state.record_done(action);
    }

    fn tick(&mut self) -> Decision {
        let decision = self.state.decide(self.now);
        for action in &decision.actions {
            self.act(action);
        }
        self.events.extend(decision.events.iter().cloned());
        decision
    }

    fn restart(&mut self) {
        let platform = self.state.plan().platform;
        self.state = new_state(self.ledger_on_disk.clone(), platform, self.now);
        self.scan();
    }

    fn observe(&mut self, event: ClusterEvent) {
        self.state.take_event(event, self.now);
    }

    fn api(&mut self) {
        self.observe(ClusterEvent::ApiReachable);
        self.observe(ClusterEvent::Addons(foldhash::HashMap::default()));
    }

    fn exists(&mut self, object: ObjectRef) {
        let value = json!({"metadata": {"name": object.name}});
        self.observe(ClusterEvent::Object(
            object,
            ObjectSeen::Present(Arc::new(value)),
        ));
    }

    fn applied(&mut self, path: &str) {
        let (name, addon) = self.addon_of_applied(path);
        self.observe(ClusterEvent::Addon(name, Some(addon)));
    }

    /// The Addon of a file whose present content RKE2 has applied.
    fn addon_of_applied(&self, path: &str) -> (AddonName, Addon) {
        let file = self
            .state
            .plan()
            .files
            .iter()
            .find(|file| file.path == path)
            .unwrap();
        let (addon, checksum) = (file.addon.clone(), file.sha256.to_string());
        let source = format!("/var/lib/rancher/rke2/server/manifests/{path}");
        (addon, Addon { checksum, source })
    }

    fn fails(&mut self, path: &str, why: &str) {
        self.fails_at(path, why, self.now);
    }

    fn fails_at(&mut self, path: &str, why: &str, at: Timestamp) {
        let plan = self.state.plan();
        let file = plan.files.iter().find(|file| file.path == path).unwrap();
        let event = ClusterEvent::ApplyFailed {
            addon: file.addon.clone(),
            failure: ApplyFailure {
                reason: "ApplyManifestFailed".to_owned(),
                message: why.to_owned(),
                at,
            },
        };
        self.observe(event);
    }

    fn later(&mut self, minutes: i64) {
        self.now += SignedDuration::from_mins(minutes);
    }

    fn held(&self) -> Vec<&str> {
        self.markers
            .iter()
            .filter(|(_, mark)| mark.is_some())
            .map(|(path, _)| path.strip_suffix(".skip").unwrap())
            .collect()
    }

    fn reported_codes(&self) -> Vec<Code> {
        self.events.iter().map(|event| event.code).collect()
    }
}

fn waits_for(name: &str, on: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations:\n    windrow.dev/depends-on: '{on}'\n"
    )
}

fn free(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
}

fn annotated(name: &str, annotation: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations: {{{annotation}}}\n"
    )
}

fn config_map(name: &str) -> ObjectRef {
    ObjectRef::namespaced("", "ConfigMap", "default", name)
}

const WIDGET: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n";
const VM: &str = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: default}\nspec: {runStrategy: Always}\n";

fn order(node: &mut Node, path: &str, hold: bool) -> Result<(), OrderError> {
    let manual = Manual {
        hold,
        by: "root".to_owned(),
        at: node.now,
        reason: "testing".to_owned(),
    };
    let nothing = BTreeMap::new();
    node.state
        .hold_or_release(&path.into(), &nothing, manual, node.now)
}

fn release(node: &mut Node, path: &str) {
    order(node, path, false).unwrap();
}

#[test]
fn what_becomes_known_of_the_node_is_in_the_next_plan() {
    use windrow_plan::knowledge::NodeFacts;
    use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile};
    const NETWORK: &str = "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: net, namespace: default}\n";
    let mut node = Node::new(&[("a.yaml", NETWORK)]);
    let codes = |node: &Node| {
        let findings = node.state.plan().findings.iter();
        let codes = findings.map(|finding| finding.code);
        let of_providers = [Code::BroughtOnCondition, Code::KindWithoutProvider];
        codes
            .filter(|code| of_providers.contains(code))
            .collect::<Vec<_>>()
    };
    let all = &node.state.plan().findings;
    assert_eq!(codes(&node), [Code::BroughtOnCondition], "{all:?}");
    for (cni, expected) in [
        ("multus, canal", &[][..]),
        ("canal", &[Code::KindWithoutProvider]),
    ] {
        let text = format!("cni: [{cni}]\n");
        let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text);
        let facts = NodeFacts::default().with_rke2_files(&[file]);
        assert!(node.state.set_node(facts.clone()));
        assert!(!node.state.set_node(facts), "no news");
        node.scan();
        assert_eq!(codes(&node), expected, "{cni}");
    }
}

#[test]
fn a_file_is_held_until_what_it_waits_for_is_observed_and_then_released_and_applied() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    let first = node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    assert!(
        matches!(
            first.actions[..],
            [Action::Hold { .. }, Action::SaveLedger(_)]
        ),
        "the marker comes before the ledger"
    );
    node.api();
    let kind = GroupKind::new("example.com", "Widget");
    assert!(node.state.interests().kinds.contains(&kind));
    node.observe(ClusterEvent::Kind(kind.clone(), KindSeen::NotServed));
    assert!(
        node.tick()
            .actions
            .iter()
            .all(|action| !matches!(action, Action::Lift { .. }))
    );
    node.observe(ClusterEvent::Kind(kind, KindSeen::SERVED));
    let release = node.tick();
    assert!(
        matches!(
            release.actions[..],
            [Action::SaveLedger(_), Action::Lift { .. }]
        ),
        "the ledger comes before the removal: {:?}",
        release.actions
    );
    node.applied("a.yaml");
    let done = node.tick();
    assert_eq!(done.status.staging.applied.len(), 1);
    assert_eq!(
        node.reported_codes(),
        [
            Code::Held,
            Code::KindWithoutProvider,
            Code::Released,
            Code::Applied
        ]
    );
    assert!(
        node.state.interests().kinds.is_empty(),
        "nothing waits any more"
    );
}

#[test]
fn acting_twice_is_acting_once() {
    let mut node = Node::new(&[("a.yaml", WIDGET), ("b.yaml", &free("b"))]);
    node.tick();
    let again = node.tick();
    assert_eq!(again.actions, []);
    assert_eq!(again.events, []);
}

#[test]
fn released_stays_released_for_that_content_over_a_restart_and_a_regression_is_told_once() {
    let mut node = Node::new(&[(
        "a.yaml",
        &waits_for("a", "/namespaces/default/ConfigMap/x (exists)"),
    )]);
    node.api();
    node.tick();
    node.exists(config_map("x"));
    node.tick();
    assert!(node.held().is_empty());
    node.observe(ClusterEvent::Object(config_map("x"), ObjectSeen::Absent));
    node.tick();
    node.tick();
    assert!(node.held().is_empty());
    let regressions = node
        .reported_codes()
        .iter()
        .filter(|&&code| code == Code::Regressed)
        .count();
    assert_eq!(regressions, 1);
    node.restart();
    node.tick();
    assert!(node.held().is_empty());
}

#[test]
fn new_content_is_decided_again_and_the_same_objects_in_other_bytes_are_not_new() {
    let text = waits_for("a", "/namespaces/default/ConfigMap/x (exists)");
    let mut node = Node::new(&[("a.yaml", &text)]);
    node.api();
    node.tick();
    node.exists(config_map("x"));
    node.tick();
    node.observe(ClusterEvent::Object(config_map("x"), ObjectSeen::Absent));
    node.files
        .insert("a.yaml".to_owned(), format!("# a comment\n{text}"));
    node.scan();
    node.tick();
    assert!(
        node.held().is_empty(),
        "yip writes files again at every boot"
    );
    node.files
        .insert("a.yaml".to_owned(), text.replace("name: a", "name: other"));
    node.scan();
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
}

#[test]
fn a_cluster_scoped_object_that_names_a_namespace_does_not_wait_for_it() {
    let text = WIDGET.replace("{name: w}", "{name: w, namespace: nowhere}");
    let served = |namespaced| {
        let mut node = Node::new(&[("a.yaml", &text)]);
        node.api();
        let kind = GroupKind::new("example.com", "Widget");
        node.observe(ClusterEvent::Kind(kind, KindSeen::Served { namespaced }));
        let namespace = ObjectRef::cluster("", "Namespace", "nowhere");
        node.observe(ClusterEvent::Object(namespace, ObjectSeen::Absent));
        node.tick();
        node.held().len()
    };
    assert_eq!((served(true), served(false)), (1, 0));
}

#[test]
fn a_file_of_which_something_could_be_applied_is_released_at_its_deadline_and_a_hopeless_one_is_kept()
 {
    let mixed = format!("{}---\n{WIDGET}", free("part"));
    let mut node = Node::new(&[("hopeless.yaml", WIDGET), ("mixed.yaml", &mixed)]);
    node.api();
    let kind = GroupKind::new("example.com", "Widget");
    node.observe(ClusterEvent::Kind(kind, KindSeen::NotServed));
    node.tick();
    assert_eq!(node.held(), ["hopeless.yaml", "mixed.yaml"]);
    node.later(10);
    node.tick();
    assert_eq!(node.held(), ["hopeless.yaml"]);
    node.later(20);
    let decision = node.tick();
    assert_eq!(node.held(), ["hopeless.yaml"]);
    assert!(decision.status.staging.held[0].overdue);
    node.tick();
    assert_eq!(
        node.reported_codes()
            .iter()
            .filter(|&&code| code == Code::Overdue)
            .count(),
        1
    );
}

#[test]
fn switched_off_it_lifts_its_own_holds_and_holds_nothing() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.tick();
    let mut settings = Settings::default();
    settings.staging.enabled = false;
    node.state
        .configure(settings, rules(), Some(Platform::Rke2));
    node.scan();
    node.tick();
    assert!(node.held().is_empty());
}

#[test]
fn a_refused_credential_is_told_instead_of_a_silence_that_will_end() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    let mut said = |event: ClusterEvent| {
        node.observe(event);
        let status = node.tick().status;
        (status.staging.held[0].why.to_string(), status.reason.code)
    };
    let why = "it refuses the credential of rke2.yaml (401)".to_owned();
    let (held, code) = said(ClusterEvent::CredentialRefused { why });
    assert_eq!(code, Code::CredentialRefused);
    assert!(
        held.ends_with("cannot be asked: it refuses the credential of rke2.yaml (401)"),
        "{held}"
    );
    let why = "127.0.0.1:6443 refuses connections".to_owned();
    let (held, code) = said(ClusterEvent::ApiUnreachable { why });
    assert_eq!(code, Code::ApiUnreachable);
    assert!(
        held.ends_with("kube-apiserver does not answer yet"),
        "{held}"
    );
}

#[test]
fn unknown_is_said_as_unknown_and_ready_is_never_claimed() {
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    assert_eq!(node.tick().status.readiness, Readiness::Unknown);
    node.api();
    assert_eq!(node.tick().status.readiness, Readiness::SettingUp);
    node.applied("a.yaml");
    let status = node.tick().status;
    assert_eq!(
        (status.readiness, status.reason.code),
        (Readiness::Unknown, Code::NotProbed)
    );
    node.observe(ClusterEvent::ApiUnreachable {
        why: "connection refused".to_owned(),
    });
    let status = node.tick().status;
    assert_eq!(
        (status.readiness, status.reason.code),
        (Readiness::Unknown, Code::ApiUnreachable)
    );
    assert!(status.summary.chars().count() <= 65);
}
