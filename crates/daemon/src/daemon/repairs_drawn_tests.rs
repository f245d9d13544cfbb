//! Drawn repairs: webhooks refuse, requests are lost, processes die, other clients change objects, and successors
//! follow.
//!
//! The oracle sees each request, its fate, and each change. For each object it knows whether Windrow can regard the
//! change as its own: a request to switch the object off was sent and not refused, and the object was not restored
//! since.
//!
//! * No temporary change stays once a successor has followed while kube-apiserver answers.
//! * The value of another client is not overwritten, unless Windrow can regard it as its own. A new object of the same
//!   name is not changed.
//! * A change that was answered is not made again.
//! * If the cluster has nothing left to restore, because another server restored it, nothing is restored.
//! * After a server has restored something, it makes no more temporary changes. After an undo began, it changes
//!   nothing.
//! * In the end each record is closed, and the cluster has no entry left.
//! * No request changes another cluster.

#[path = "repairs_drawing_tests.rs"]
mod drawing;
#[path = "repairs_oracle_tests.rs"]
mod oracle;

use std::sync::{Arc, Mutex};

use http::Method;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;
use windrow_harvester::incidents::IncidentFinding;
use windrow_model::reasons::Code;

use self::drawing::{Comer, Death, Deed, Drawn, DrawnDeed, Moment, Part, Successor, cure, drawn};
use self::oracle::{KUBE_SYSTEM, OBJECTS, SIGN, Seen, Writer, object, path, uid};
use super::tests::Server;
use crate::act::repair::{
    BegunCure, Record, Records, RestoreNote, Worker, carry_out, give_back, has_come, judge_begun,
    undo,
};
use crate::act::testing::{ADDONS, Fate, LEASE, ObjectStore, list_of};
use crate::act::{Turn, lease_on_repairs};

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

    /// From now on there are faults, and other clients make changes.
    fn begin_faults(&self) {
        let drawn = self.drawn.clone();
        let seen = Arc::clone(&self.seen);
        seen.lock().unwrap().has_faults = true;
        self.store
            .meddle(Box::new(move |(method, asked, body), objects| {
                let number = (0..OBJECTS).find(|number| path(*number) == asked);
                if number.is_none() && asked != SIGN && asked != LEASE {
                    return (Vec::new(), Fate::Served);
                }
                let mut seen = seen.lock().unwrap();
                seen.settle_last_change(method, asked);
                let is_change = number.is_some() && *method != Method::GET;
                let mut puts = Vec::new();
                let mut fate = Fate::Served;
                if seen.has_faults {
                    let request = seen.requests;
                    seen.requests += 1;
                    let reply = seen.reply.take().map(|deed| (None, deed));
                    let deeds = drawn.deeds.iter().filter(|(at, _)| *at == request);
                    for deed in reply.into_iter().chain(deeds.map(|(_, deed)| *deed)) {
                        puts.push(seen.do_as_other(deed, objects));
                    }
                    fate = drawn.fates.get(request).copied().unwrap_or(Fate::Served);
                    if is_change && drawn.denied == Some(seen.changes) {
                        fate = Fate::Denied;
                    }
                    fate = seen.fate(number, is_change, fate);
                }
                if is_change {
                    let change = seen.changes;
                    seen.changes += 1;
                    seen.reply = drawn.replies.get(change).copied().flatten();
                    seen.note_change(asked, body, fate);
                } else if fate != Fate::Served && *method == Method::GET {
                    // This look gave no answer.
                    seen.sent = None;
                }
                (puts, fate)
            }));
    }

    /// Checks that nothing was done that should not be.
    fn judge_changes(&self) {
        let seen = self.seen.lock().unwrap();
        assert!(
            seen.faults.is_empty(),
            "{:?}: {:?}",
            seen.faults,
            self.drawn
        );
    }

    /// Checks that no temporary change stays, unless another client wrote it.
    fn judge_restored(&self) {
        self.judge_changes();
        let seen = self.seen.lock().unwrap();
        for number in 0..OBJECTS {
            let at = path(number);
            let spec = self.store.object(&at)["spec"].clone();
            let is_off = seen.writer(&at, "off") == Writer::Windrow && !spec["off"].is_null();
            assert!(!is_off, "{at} stays changed: {:?}", self.drawn);
        }
    }

    /// Another client does this, between two processes.
    fn meddle(&self, deed: Option<DrawnDeed>) {
        let Some(deed) = deed else { return };
        let mut seen = self.seen.lock().unwrap();
        let objects = (0..OBJECTS).map(|number| (path(number), self.store.object(&path(number))));
        match seen.do_as_other(deed, &objects.collect()) {
            (at, Some(object)) => self.store.put(&at, object),
            (at, None) => self.store.remove(&at),
        }
    }

    /// One of the processes starts, and ends or dies.
    async fn come(&mut self, (server, who): (usize, Successor), death: Option<Death>) {
        self.seen.lock().unwrap().begin_process(server, death);
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
        // The changes that another server left are taken over at the second look that finds them.
        let mut idle = 0;
        for _ in 0..6 {
            let requests = server.store.changes().len();
            server.look().await;
            // The next look comes after any pause.
            server.repairer.end_pauses();
            let is_idle = server.store.changes().len() == requests;
            idle = if is_idle { idle + 1 } else { 0 };
            if idle == 4 {
                break;
            }
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

    /// Acts as `windrow repair CODE`.
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

    /// Acts as `windrow repair --undo`.
    async fn undo(&self, server: usize) {
        let (client, records) = (self.store.client(), self.records(server));
        let Some(turn) = self.turn(server, &client).await else {
            return;
        };
        let context = turn.repair_context(&records);
        let now = || Timestamp::UNIX_EPOCH;
        match records.newest().unwrap() {
            Some(mut record) if record.undone.is_none() => {
                // The record of another server goes on.
                self.seen.lock().unwrap().is_undone |= server == 0;
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

    /// Begins the cure, as an operator or the daemon does.
    async fn begin(&self) {
        let finding = IncidentFinding::new(Code::AddonStuck, "Addon default/a0", "why");
        let (cure, by) = (cure(&self.drawn.parts), self.drawn.by);
        let records = self.records(0);
        let begun = records.begin(&finding, &cure, by, Timestamp::UNIX_EPOCH);
        let mut record = begun.unwrap();
        let client = self.store.client();
        self.begin_faults();
        let death = self.drawn.death;
        self.seen.lock().unwrap().begin_process(0, death);
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

async fn play(drawn: Drawn) {
    let (deed, comers, last) = (drawn.deed, drawn.comers.clone(), drawn.last);
    let mut world = World::new(drawn);
    world.begin().await;
    world.meddle(deed);
    for comer in comers {
        world.come((comer.server, comer.who), comer.death).await;
        world.meddle(comer.deed);
    }
    world.seen.lock().unwrap().has_faults = false;
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

    world.come(last, None).await;
    world.judge_restored();
    // The server that began or took over comes back.
    for server in [0, 1] {
        world
            .come((server, Successor::Daemon { named: true }), None)
            .await;
    }
    for server in [0, 1] {
        world.come((server, Successor::Undo), None).await;
    }
    world.judge_restored();
    let open = world.open_records();
    assert!(open.is_empty(), "{open:?} {:?}", world.drawn);
    let note = world.store.restore_note();
    assert_eq!(note, json!([]), "{:?}", world.drawn);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_and_whoever_comes_next_a_repair_gives_back_what_it_took(drawn in drawn()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(play(drawn));
    }
}

/// A repair of these parts that an operator begins, without faults.
fn plain(parts: Vec<Part>) -> Drawn {
    Drawn {
        parts,
        by: Worker::Person,
        sign_comes: false,
        death: None,
        deed: None,
        fates: Vec::new(),
        denied: None,
        deeds: Vec::new(),
        replies: Vec::new(),
        comers: Vec::new(),
        last: (0, Successor::Repair),
    }
}

/// It comes, and dies there; afterwards another client does this.
fn comes(server: usize, who: Successor, death: Option<Death>, deed: Option<DrawnDeed>) -> Comer {
    Comer {
        server,
        who,
        death,
        deed,
    }
}

#[tokio::test]
async fn a_change_that_was_refused_is_not_restored_when_another_client_makes_it() {
    let refused = Drawn {
        denied: Some(1),
        replies: vec![None, Some(Deed::Off)],
        ..plain(vec![Part::Off(0), Part::Off(1)])
    };
    play(refused.clone()).await;
    // The process dies right after the refusal.
    let dies = Drawn {
        death: Some(Death::AtChange(1, Moment::Next)),
        replies: Vec::new(),
        deed: Some((Some(1), Deed::Off)),
        ..refused
    };
    play(dies).await;
}

#[tokio::test]
async fn a_change_that_was_taken_is_not_made_again_when_another_client_reverses_it() {
    let reversed = Drawn {
        death: Some(Death::AtChange(0, Moment::Next)),
        deed: Some((Some(0), Deed::On)),
        ..plain(vec![Part::Off(0)])
    };
    play(reversed).await;
}

#[tokio::test]
async fn a_repair_whose_undo_was_interrupted_changes_nothing_more() {
    let undone = Drawn {
        death: Some(Death::AtChange(0, Moment::Next)),
        comers: vec![
            comes(
                0,
                Successor::Undo,
                Some(Death::AtChange(0, Moment::Before)),
                None,
            ),
            comes(0, Successor::Repair, None, None),
        ],
        ..plain(vec![Part::Keep(0), Part::Off(1)])
    };
    play(undone).await;
}

#[tokio::test]
async fn what_another_server_has_restored_is_not_restored_when_another_client_makes_the_change() {
    let switched_off = Some((Some(0), Deed::Off));
    let returns = Drawn {
        death: Some(Death::AtChange(0, Moment::Next)),
        comers: vec![comes(1, Successor::Repair, None, switched_off)],
        ..plain(vec![Part::Off(0)])
    };
    play(returns).await;
    // The other server dies before it can record it, and starts again.
    let dies = Some(Death::AtChange(0, Moment::Next));
    let comes_again = Drawn {
        death: Some(Death::AtChange(1, Moment::Next)),
        comers: vec![
            comes(1, Successor::Repair, dies, switched_off),
            comes(1, Successor::Repair, None, None),
        ],
        ..plain(vec![Part::Off(0), Part::Off(1)])
    };
    play(comes_again).await;
}

#[tokio::test]
async fn a_repair_without_faults_leaves_no_entry_in_the_cluster() {
    play(plain(vec![Part::Off(0), Part::Keep(1)])).await;
}
