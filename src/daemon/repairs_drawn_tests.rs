//! Repairs that are drawn: refused and lost requests, processes that die, other clients, and who comes afterwards.
//!
//! The oracle knows nothing of records or of the Lease. It sees which requests changed which objects, and what others did:
//!
//! * nothing that was changed for a while stays changed once anyone has come afterwards while kube-apiserver answers;
//! * nothing that another client wrote is overwritten;
//! * no object is changed for a while twice, or restored twice;
//! * in the end every record is closed, and the cluster has nothing left to restore;
//! * nothing is sent to another cluster.
//!
//! Shown to object to a broken restoration, to a missing entry in the Lease, and to requests to another cluster. Not shown for overwritten
//! and repeated changes: after a fault the oracle cannot tell who wrote a value, and then does not judge it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use http::Method;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use windrow_harvester::incidents::{Cure, CureGoal, CureStep, IncidentFinding, ObjectChange};
use windrow_harvester::objects::ObjectKind;
use windrow_model::reasons::Code;

use super::tests::Server;
use crate::act::repair::{
    BegunCure, Record, Records, RestoreNote, Worker, carry_out, give_back, has_come, judge_begun,
    undo,
};
use crate::act::testing::{ADDONS, Fate, LEASE, MadeChange, ObjectStore, list_of};
use crate::act::{Turn, lease_on_repairs};

const KUBE_SYSTEM: &str = "/api/v1/namespaces/kube-system";
/// The object for which a cure waits.
const SIGN: &str = "/apis/harvesterhci.io/v1beta1/settings/sign";
/// The most objects that a cure changes.
const OBJECTS: usize = 3;

fn path(object: usize) -> String {
    format!("/apis/harvesterhci.io/v1beta1/namespaces/default/addons/a{object}")
}

fn object(number: usize, uid: &str, spec: Value) -> Value {
    json!({"kind": "Addon", "metadata": {"name": format!("a{number}"), "namespace": "default", "uid": uid}, "spec": spec})
}

fn uid(number: usize) -> String {
    format!("u{number}")
}

/// A part of a cure, before what it changed for a while is restored.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// The object is switched off for a while.
    Off(usize),
    /// Another field of the object is changed for good.
    Keep(usize),
    /// It waits for what may never come.
    Wait,
}

/// What another client does with an object.
#[derive(Debug, Clone, Copy)]
enum Deed {
    /// It sets the field to something that Windrow never writes.
    Else,
    /// It switches it off, as Windrow does.
    Off,
    /// It switches it on.
    On,
    /// It changes another field.
    Label,
    Delete,
    /// Another object gets the name.
    MakeAnew,
}

/// Who comes after the process that began.
#[derive(Debug, Clone, Copy)]
enum Successor {
    /// The daemon; does its configuration name the code?
    Daemon { named: bool },
    /// `windrow repair CODE`
    Repair,
    /// `windrow repair --undo`
    Undo,
}

#[derive(Debug, Clone)]
struct Drawn {
    parts: Vec<Part>,
    by: Worker,
    sign_comes: bool,
    /// What becomes of each request that is about the repair, while there are faults.
    fates: Vec<Fate>,
    /// What others do right before which of these requests.
    deeds: Vec<(usize, usize, Deed)>,
    /// Who comes, and on which of two servers.
    successors: Vec<(usize, Successor)>,
    /// Who comes first after the faults.
    last: (usize, Successor),
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        4 => (0..OBJECTS).prop_map(Part::Off),
        1 => (0..OBJECTS).prop_map(Part::Keep),
        2 => Just(Part::Wait),
    ];
    prop::collection::vec(part, 1..6).prop_map(|parts| {
        // Each object is changed once in each way.
        let (mut off, mut kept) = (BTreeSet::new(), BTreeSet::new());
        let is_first = |part: &Part| match part {
            Part::Off(object) => off.insert(*object),
            Part::Keep(object) => kept.insert(*object),
            Part::Wait => true,
        };
        parts.into_iter().filter(is_first).collect()
    })
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        24 => Just(Fate::Served),
        1 => Just(Fate::Denied),
        1 => Just(Fate::Conflict),
        1 => Just(Fate::AnswerLost),
        1 => Just(Fate::Lost),
        1 => Just(Fate::DiesBefore),
        1 => Just(Fate::DiesAfter),
    ]
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => Just(Deed::Else),
        3 => Just(Deed::Off),
        2 => Just(Deed::On),
        2 => Just(Deed::Label),
        1 => Just(Deed::Delete),
        1 => Just(Deed::MakeAnew),
    ]
}

fn successor() -> impl Strategy<Value = (usize, Successor)> {
    let who = prop_oneof![
        any::<bool>().prop_map(|named| Successor::Daemon { named }),
        Just(Successor::Repair),
        Just(Successor::Undo),
    ];
    (0..2_usize, who)
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (
        parts(),
        prop_oneof![Just(Worker::Person), Just(Worker::Daemon)],
        any::<bool>(),
        prop::collection::vec(fate(), 0..120),
        prop::collection::vec((0..60_usize, 0..OBJECTS, deed()), 0..4),
        prop::collection::vec(successor(), 0..4),
        successor(),
    )
        .prop_map(
            |(parts, by, sign_comes, fates, deeds, successors, last)| Drawn {
                parts,
                by,
                sign_comes,
                fates,
                deeds,
                successors,
                last,
            },
        )
}

/// A cure of these parts, which at last restores what it changed for a while. No step waits.
fn cure(parts: &[Part]) -> Cure {
    let (mut steps, mut back) = (Vec::new(), Vec::new());
    let goal = |number: usize, field: &str| CureGoal::Field {
        path: path(number),
        before: None,
        field: format!("/spec/{field}"),
        value: json!(true),
    };
    for part in parts {
        match *part {
            Part::Off(number) => {
                let addon = object(number, &uid(number), json!({}));
                let off = ObjectChange::of(ObjectKind::ADDON, &addon).set("/spec/off", json!(true));
                steps.push(off.step(format!("off {number}"), goal(number, "off"), 0));
                back.push(off.step_back(format!("on {number}"), 0));
            }
            Part::Keep(number) => {
                let addon = object(number, &uid(number), json!({}));
                let keep =
                    ObjectChange::of(ObjectKind::ADDON, &addon).set("/spec/kept", json!(true));
                steps.push(keep.step(format!("keep {number}"), goal(number, "kept"), 0));
            }
            Part::Wait => {
                let sign = CureGoal::Anew {
                    path: SIGN.to_owned(),
                    before: "none".to_owned(),
                };
                steps.push(CureStep::wait("wait", sign, 0));
            }
        }
    }
    steps.extend(back);
    Cure {
        summary: "s".to_owned(),
        changes: Vec::new(),
        saves: Vec::new(),
        purpose: None,
        steps,
    }
}

/// Who wrote a field last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Nobody,
    Windrow,
    Other,
}

/// What the oracle has seen.
#[derive(Debug, Default)]
struct Seen {
    requests: usize,
    /// Of each object's field `off` and `kept`.
    writers: BTreeMap<(String, &'static str), Option<Writer>>,
    /// Objects with a request of which the sender could not learn what came of it: what another client wrote then cannot be
    /// told from what Windrow wrote, if it is the same.
    unclear: BTreeSet<String>,
    /// Objects to which a request to switch them off was sent.
    written: BTreeSet<String>,
    taken: BTreeMap<String, usize>,
    restored: BTreeMap<String, usize>,
    /// Values of other clients that a request overwrote. A task of the daemon would not fail the test.
    overwritten: Vec<String>,
}

const FIELDS: [&str; 2] = ["off", "kept"];

impl Seen {
    fn writer(&self, path: &str, field: &'static str) -> Writer {
        let known = self.writers.get(&(path.to_owned(), field));
        known.copied().flatten().unwrap_or(Writer::Nobody)
    }

    fn has_written(&self, path: &str) -> bool {
        self.written.contains(path)
    }

    /// Takes in what a request has changed.
    fn take_in(&mut self, change: &MadeChange) {
        let (before, after) = (&change.before, &change.after);
        for field in FIELDS {
            // What another client switched on is as it was diagnosed.
            let is_as_before = before["spec"][field].is_null();
            if before["spec"][field] != after["spec"][field]
                && self.writer(&change.path, field) == Writer::Other
                && !is_as_before
                && !self.unclear.contains(&change.path)
            {
                self.overwritten.push(format!("{field} of {}", change.path));
            }
        }
        if before["spec"]["off"] != after["spec"]["off"] {
            let count = if after["spec"]["off"].is_null() {
                &mut self.restored
            } else {
                &mut self.taken
            };
            *count.entry(change.path.clone()).or_default() += 1;
        }
        self.write(&change.path, (before, after), Writer::Windrow);
    }

    fn write(&mut self, path: &str, (before, after): (&Value, &Value), writer: Writer) {
        for field in FIELDS {
            let is_same = before["metadata"]["uid"] == after["metadata"]["uid"]
                && before["spec"][field] == after["spec"][field];
            if !is_same {
                let key = (path.to_owned(), field);
                self.writers.insert(key, Some(writer));
            }
        }
    }
}

/// Two servers, their cluster, and the oracle.
struct World {
    servers: [Server; 2],
    store: ObjectStore,
    seen: Arc<Mutex<Seen>>,
    drawn: Drawn,
}

impl World {
    fn new(drawn: Drawn) -> Self {
        let store = ObjectStore::default();
        let servers = ["first", "second"].map(|name| {
            let mut server = Server::new();
            server.store = store.clone();
            let etc = server.layout().path("/etc");
            std::fs::create_dir_all(&etc).unwrap();
            std::fs::write(etc.join("machine-id"), name).unwrap();
            server
        });
        for number in 0..OBJECTS {
            store.put(&path(number), object(number, &uid(number), json!({})));
        }
        if drawn.sign_comes {
            store.put(SIGN, json!({"metadata": {"name": "sign", "uid": "s1"}}));
        }
        let kube_system = json!({"metadata": {"name": "kube-system", "uid": "east"}});
        store.put(KUBE_SYSTEM, kube_system);
        store.put(ADDONS, list_of(&[]));
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let judge = Arc::clone(&seen);
        store.judge_changes(Box::new(move |change| {
            judge.lock().unwrap().take_in(change)
        }));
        Self {
            servers,
            store,
            seen,
            drawn,
        }
    }

    /// From now on there are faults, and others meddle.
    fn begin_faults(&self) {
        let (fates, deeds) = (self.drawn.fates.clone(), self.drawn.deeds.clone());
        let seen = Arc::clone(&self.seen);
        self.store
            .meddle(Some(Box::new(move |method, asked, objects| {
                let number = (0..OBJECTS).find(|number| path(*number) == asked);
                if number.is_none() && asked != SIGN && asked != LEASE {
                    return (Vec::new(), Fate::Served);
                }
                let mut seen = seen.lock().unwrap();
                let request = seen.requests;
                seen.requests += 1;
                let mut puts = Vec::new();
                for (_, number, deed) in deeds.iter().filter(|(at, ..)| *at == request) {
                    let at = path(*number);
                    let before = objects.get(&at).cloned().unwrap_or_default();
                    let after = done_by_other(*number, *deed, &before);
                    // Whoever sets the very value that Windrow wrote before cannot be told from it.
                    if matches!(deed, Deed::Off) && seen.has_written(&at) {
                        seen.unclear.insert(at.clone());
                    }
                    seen.write(
                        &at,
                        (&before, after.as_ref().unwrap_or(&Value::Null)),
                        Writer::Other,
                    );
                    puts.push((at, after));
                }
                let fate = fates.get(request).copied().unwrap_or(Fate::Served);
                if let Some(number) = number.filter(|_| *method != Method::GET) {
                    seen.written.insert(path(number));
                }
                let is_sure = matches!(fate, Fate::Served | Fate::Denied | Fate::Conflict);
                // Whoever dies after an answer may not have written it down yet, so its last object is unclear too.
                if let Some(number) = number.filter(|_| *method != Method::GET && !is_sure) {
                    seen.unclear.insert(path(number));
                }
                if matches!(fate, Fate::DiesBefore | Fate::DiesAfter) {
                    seen.unclear.extend((0..OBJECTS).map(path));
                }
                (puts, fate)
            })));
    }

    /// No request has overwritten what another client wrote.
    fn judge_changes(&self) {
        let seen = self.seen.lock().unwrap();
        assert!(
            seen.overwritten.is_empty(),
            "{:?} of another client: {:?}",
            seen.overwritten,
            self.drawn
        );
    }

    /// Nothing stays changed for a while, unless another client wrote it.
    fn judge_restored(&self) {
        self.judge_changes();
        let seen = self.seen.lock().unwrap();
        for number in 0..OBJECTS {
            let at = path(number);
            let spec = self.store.object(&at)["spec"].clone();
            let is_off = seen.writer(&at, "off") == Writer::Windrow && !spec["off"].is_null();
            assert!(!is_off, "{at} stays changed: {:?}", self.drawn);
            if !seen.unclear.contains(&at) {
                let [taken, restored] =
                    [&seen.taken, &seen.restored].map(|all| all.get(&at).copied().unwrap_or(0));
                assert!(
                    taken <= 1 && restored <= 1,
                    "{at} was changed again: {:?}",
                    self.drawn
                );
            }
        }
    }

    /// One of them comes, and ends or dies.
    async fn come(&mut self, (server, who): (usize, Successor)) {
        let store = self.store.clone();
        let coming = async {
            match who {
                Successor::Daemon { named } => self.run_daemon(server, named).await,
                Successor::Repair => self.repair(server).await,
                Successor::Undo => self.undo(server).await,
            }
        };
        tokio::select! {
            () = coming => {}
            () = store.hung() => {}
        }
        // A process that died had work under way; its lease runs out.
        self.servers[server].repairer.stop().await;
        if !self.store.object(LEASE).is_null() {
            self.store.hand_lease_to("");
        }
        self.judge_changes();
    }

    /// A daemon starts, and looks until it has nothing more to do.
    async fn run_daemon(&mut self, server: usize, named: bool) {
        let server = &mut self.servers[server];
        server.configure(if named { "[addon-stuck]" } else { "[]" });
        server.start_again();
        for _ in 0..6 {
            server.look().await;
            // The next look comes after any pause.
            server.repairer.end_pauses();
        }
    }

    fn records(&self, server: usize) -> Records {
        let records = self.servers[server].records();
        records.of_cluster(Some("east".to_owned()))
    }

    async fn turn<'c>(&self, server: usize, client: &'c kube::Client) -> Option<Turn<'c>> {
        let layout = self.servers[server].layout();
        let lease = lease_on_repairs(crate::observe::management::lease_holder(&layout));
        let turn = Turn::take(lease, &layout.state_dir(), client, || Timestamp::UNIX_EPOCH).await;
        turn.ok()
    }

    /// As `windrow repair CODE` does it.
    async fn repair(&self, server: usize) {
        let (client, records) = (self.store.client(), self.records(server));
        let Some(turn) = self.turn(server, &client).await else {
            return;
        };
        let context = turn.repair_context(&records);
        let now = || Timestamp::UNIX_EPOCH;
        for mut record in records.unfinished(Code::AddonStuck).unwrap() {
            if record.undoing.is_some() {
                let _ = undo(&context, &mut record, now, |_, _| {}).await;
                continue;
            }
            let gives_back = has_come(&client, &record).await;
            let _ = match judge_begun(&record, &[]) {
                BegunCure::GivesBack if gives_back => {
                    give_back(&context, &mut record, "over", now, |_, _| {}).await
                }
                BegunCure::GoesOn | BegunCure::GivesBack => {
                    carry_out(&context, &mut record, now, || true, |_, _| {}).await
                }
                judged => context.close(&mut record, judged.outcome(), now()).await,
            };
        }
        for entry in RestoreNote::entries(&client).await.unwrap_or_default() {
            if records.may_adopt(&entry) {
                let mut record = records.adopt(&entry).unwrap();
                let _ = give_back(&context, &mut record, "", now, |_, _| {}).await;
            }
        }
        turn.end().await;
    }

    /// As `windrow repair --undo` does it.
    async fn undo(&self, server: usize) {
        let (client, records) = (self.store.client(), self.records(server));
        let Some(turn) = self.turn(server, &client).await else {
            return;
        };
        let context = turn.repair_context(&records);
        let now = || Timestamp::UNIX_EPOCH;
        match records.newest().unwrap() {
            Some(mut record) if record.undone.is_none() => {
                let _ = undo(&context, &mut record, now, |_, _| {}).await;
            }
            Some(_) => {}
            None => {
                for entry in RestoreNote::entries(&client).await.unwrap_or_default() {
                    if records.may_adopt(&entry) {
                        let mut record = records.adopt(&entry).unwrap();
                        let _ = give_back(&context, &mut record, "", now, |_, _| {}).await;
                    }
                }
            }
        }
        turn.end().await;
    }

    /// Begins the cure, as a person or the daemon does.
    async fn begin(&self) -> Record {
        let finding = IncidentFinding::new(Code::AddonStuck, "Addon default/a0", "why");
        let (cure, by) = (cure(&self.drawn.parts), self.drawn.by);
        let records = self.records(0);
        let begun = records.begin(&finding, &cure, by, Timestamp::UNIX_EPOCH);
        let mut record = begun.unwrap();
        let client = self.store.client();
        self.begin_faults();
        let work = async {
            let Some(turn) = self.turn(0, &client).await else {
                return;
            };
            let context = turn.repair_context(&records);
            let now = || Timestamp::UNIX_EPOCH;
            let _ = carry_out(&context, &mut record, now, || true, |_, _| {}).await;
            turn.end().await;
        };
        tokio::select! {
            () = work => {}
            () = self.store.hung() => {}
        }
        if !self.store.object(LEASE).is_null() {
            self.store.hand_lease_to("");
        }
        self.judge_changes();
        record
    }

    fn open_records(&self) -> Vec<Record> {
        let all = [0, 1].map(|server| self.records(server));
        let open = all.iter().flat_map(|records| {
            let newest = records.newest().unwrap();
            let unfinished = records.unfinished(Code::AddonStuck).unwrap();
            newest.into_iter().chain(unfinished).collect::<Vec<_>>()
        });
        open.filter(Record::is_open).collect()
    }
}

/// The object as another client leaves it; `None` if it is gone.
fn done_by_other(number: usize, deed: Deed, before: &Value) -> Option<Value> {
    let mut object = match deed {
        Deed::Delete => return None,
        Deed::MakeAnew => return Some(object(number, &format!("new{number}"), json!({}))),
        _ if before.is_null() => return None,
        _ => before.clone(),
    };
    match deed {
        Deed::Else => object["spec"]["off"] = json!("else"),
        Deed::Off => object["spec"]["off"] = json!(true),
        Deed::On => drop(object["spec"].as_object_mut().unwrap().remove("off")),
        _ => object["metadata"]["labels"] = json!({"by": "another"}),
    }
    Some(object)
}

async fn play(drawn: Drawn) {
    let (successors, last) = (drawn.successors.clone(), drawn.last);
    let mut world = World::new(drawn);
    world.begin().await;
    for successor in successors {
        world.come(successor).await;
    }
    world.store.meddle(None);
    // Another cluster under the same address first: nothing of it is changed.
    let west = ObjectStore::default();
    for number in 0..OBJECTS {
        west.put(
            &path(number),
            object(number, &uid(number), json!({"off": true})),
        );
    }
    west.put(
        KUBE_SYSTEM,
        json!({"metadata": {"name": "kube-system", "uid": "west"}}),
    );
    let east = std::mem::replace(&mut world.servers[0].store, west.clone());
    world.run_daemon(0, true).await;
    world.servers[0].repairer.stop().await;
    world.servers[0].store = east;
    let changed = west.changes();
    assert!(changed.is_empty(), "{changed:?} {:?}", world.drawn);

    world.come(last).await;
    world.judge_restored();
    // Whoever began, or took over, comes back.
    for server in [0, 1] {
        world
            .come((server, Successor::Daemon { named: true }))
            .await;
    }
    for server in [0, 1] {
        world.come((server, Successor::Undo)).await;
    }
    world.judge_restored();
    let open = world.open_records();
    assert!(open.is_empty(), "{open:?} {:?}", world.drawn);
    let note = world.store.restore_note();
    let left = note.as_array().unwrap().iter();
    let left = left.filter(|entry| entry["steps"] != json!([])).count();
    assert_eq!(left, 0, "{note} {:?}", world.drawn);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_and_whoever_comes_next_a_repair_gives_back_what_it_took(drawn in drawn()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(play(drawn));
    }
}
