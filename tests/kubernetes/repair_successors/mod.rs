//! Level 4: a repair ends at one of its requests to kube-apiserver, and a successor finishes it or takes it back.
//!
//! ```text
//!   everything is as before it  ──> `windrow repair` or a daemon through a gateway, which ends it at request n:
//!        before kube-apiserver gets the request, or after that without an answer
//!   an operator changes something else ──> a successor: daemon, `repair`, `repair --undo`, on this server or on another
//!   then: everything is as before the repair or cured, no record is open, no lease is held, the operator's change is there
//!   another server was the successor ──> the daemon of the first server is started again, and changes nothing more
//! ```
//!
//! `WINDROW_STOPS=all` plays every request with every successor, and lists all failures at the end; `WINDROW_STOPS=0/4` plays
//! each fourth of these cases. `WINDROW_FIRST=daemon` or `WINDROW_FIRST=verb` leaves out the repairs that the other one begins.
//! Without `WINDROW_STOPS` each test plays one case of a few kinds, chosen by `WINDROW_SEED`.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod machines;
mod others;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::cluster::{Asked, Cluster, DEADLINE, End, Gateway, Who, eventually};
use support::objects::{Gvk, LEASE, api, field, patch};
use tempfile::TempDir;

use crate::diagnosis_in_cluster::Server;
use crate::support;

/// An incident with a cure. It can be rebuilt for each case.
trait Incident {
    /// Its code.
    const CODE: &'static str;

    /// Builds it as before the first repair.
    async fn rebuild(&self);

    /// Lets the played controllers act once.
    async fn play(&self);

    /// The object to which an operator adds a label while no repair runs.
    fn labelled(&self) -> (Gvk, &str, &str);

    /// A further decision of the operator.
    async fn decide_by_operator(&self) {}

    /// The first object that is neither restored nor cured, in a line.
    async fn fault(&self) -> Option<String>;

    /// Is it cured?
    async fn is_cured(&self) -> bool;
}

/// Who goes on with a repair that was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// A daemon whose settings name the code.
    DaemonThatRepairs,
    /// A daemon whose settings do not name it.
    Daemon,
    /// `windrow repair CODE`
    Repair,
    /// `windrow repair --undo`
    Undo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Successor {
    work: Work,
    /// On another server of the cluster, whose disk has no record.
    is_elsewhere: bool,
}

impl Successor {
    fn all() -> impl Iterator<Item = Self> {
        let works = [
            Work::DaemonThatRepairs,
            Work::Daemon,
            Work::Repair,
            Work::Undo,
        ];
        let places = [false, true].into_iter();
        places.flat_map(move |is_elsewhere| works.map(|work| Self { work, is_elsewhere }))
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    /// What begins the repair, and is ended.
    first: Work,
    end: End,
    successor: Successor,
    /// An operator changes something meanwhile.
    has_operator: bool,
}

/// The number of looks after which a case has failed, if all failures are listed. It takes a daemon a minute to tell that a request
/// in doubt was not taken.
const LOOKS: usize = 2000;
/// After this number of looks of a daemon at the cluster it has nothing left to do.
const QUIET_LOOKS: usize = 4;

const LEASES: [&str; 2] = ["windrow-repairs", "windrow-diagnosis"];

/// Which of all cases are played, as `first/of`: each `of`th. `None` if only some are played.
fn part() -> Option<(usize, usize)> {
    let which = std::env::var("WINDROW_STOPS").ok()?;
    if which == "all" {
        return Some((0, 1));
    }
    let (first, of) = which.split_once('/').unwrap();
    Some((first.parse().unwrap(), of.parse().unwrap()))
}

/// A server of the cluster, by its disk and host name.
struct Place {
    name: &'static str,
    root: TempDir,
}

impl Place {
    fn new(name: &'static str) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/machine-id"), name).unwrap();
        Self { name, root }
    }

    /// A program with the host name of this server.
    fn program(&self, program: &str) -> Command {
        let mut command = Command::new("unshare");
        let script = r#"hostname "$1"; shift; exec "$@""#;
        command.args(["--uts", "sh", "-c", script, "sh", self.name]);
        command.arg(program);
        command
    }

    fn repair(&self, gateway: &Gateway, arguments: &[&str]) -> Child {
        let mut program = self.program(env!("CARGO_BIN_EXE_windrow"));
        let child = program
            .arg("--root")
            .arg(self.root.path())
            .args(arguments)
            .args(["--yes", "--kubeconfig"])
            .arg(gateway.kubeconfig())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        gateway.is_for(child.id());
        child
    }

    fn daemon(&self, gateway: &Gateway, settings: &str) -> Server {
        let root = self.root.path();
        let server = Server::start_program(
            self.program(env!("CARGO_BIN_EXE_windrowd")),
            gateway.kubeconfig(),
            root,
            settings,
        );
        // Servers are told apart by it.
        gateway.is_for(server.pid());
        server
    }

    fn records(&self) -> impl Iterator<Item = PathBuf> {
        let directory = self.root.path().join("var/lib/rancher/windrow/repairs");
        let files = fs::read_dir(directory).into_iter().flatten();
        let paths = files.map(|file| file.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "json"))
    }

    fn has_records(&self) -> bool {
        self.records().next().is_some()
    }

    /// The records that are not closed, by the names of their files.
    fn open_records(&self) -> Vec<String> {
        let open = self.records().filter(|path| is_open(path));
        open.map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect()
    }
}

fn is_open(record: &Path) -> bool {
    let record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    record["finished"].is_null()
}

/// The cluster with the incident.
struct Site<'c, I> {
    cluster: &'c Cluster,
    client: Client,
    incident: I,
    /// An operator has added the label.
    is_labelled: Cell<bool>,
    /// The lease of a process that was killed. Nothing renews it, so that it ends after a minute.
    left_behind: RefCell<Value>,
}

impl<'c, I: Incident> Site<'c, I> {
    async fn new(cluster: &'c Cluster, incident: I) -> Self {
        Self {
            cluster,
            client: cluster.client(Who::Admin).await,
            incident,
            is_labelled: Cell::new(false),
            left_behind: RefCell::default(),
        }
    }

    fn leases(&self) -> Api<DynamicObject> {
        api(&self.client, LEASE, "kube-system")
    }

    /// What the lease on repairs says of its holder.
    async fn lease(&self) -> Value {
        let lease = self.leases().get_opt("windrow-repairs").await.unwrap();
        lease.map_or(Value::Null, |lease| lease.data["spec"].clone())
    }

    /// Runs a process while the controllers are played; its exit code and its words.
    async fn run(&self, mut child: Child) -> (Option<i32>, String) {
        eventually("the repair ends", DEADLINE, async || {
            self.incident.play().await;
            child.try_wait().unwrap().map(drop)
        })
        .await;
        let output = child.wait_with_output().unwrap();
        let words = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&words).into_owned(),
        )
    }

    /// The requests of a repair that nothing ends. Of a daemon only the changes.
    async fn requests(&self, first: Work) -> Vec<Asked> {
        self.rebuild().await;
        let place = Place::new("first");
        let gateway = self.cluster.gateway(None).await;
        if first == Work::DaemonThatRepairs {
            self.run_daemon(&place, &gateway).await;
            let mut asked = gateway.asked();
            asked.retain(Asked::is_of_repair);
            return asked;
        }
        let repair = place.repair(&gateway, &["repair", I::CODE]);
        let (code, words) = self.run(repair).await;
        assert_eq!(code, Some(0), "{words}");
        self.settle(&place, None).await.unwrap();
        gateway.asked()
    }

    /// Runs a daemon until it is ended, or has repaired.
    async fn run_daemon(&self, place: &Place, gateway: &Gateway) {
        let _daemon = place.daemon(gateway, &settings::<I>(Work::DaemonThatRepairs));
        eventually("the daemon has repaired", DEADLINE, async || {
            self.incident.play().await;
            let is_over = gateway.has_ended_it()
                || (place.has_records()
                    && self.incident.is_cured().await
                    && self.fault(place).await.is_none());
            is_over.then_some(())
        })
        .await;
    }

    async fn rebuild(&self) {
        for lease in LEASES {
            let _ = self.leases().delete(lease, &DeleteParams::default()).await;
        }
        self.is_labelled.set(false);
        self.left_behind.replace(Value::Null);
        self.incident.rebuild().await;
    }

    async fn change_by_operator(&self) {
        let (kind, namespace, name) = self.incident.labelled();
        let label = json!({"metadata": {"labels": {"team": "shop"}}});
        patch(&self.client, kind, namespace, name, label).await;
        self.is_labelled.set(true);
        self.incident.decide_by_operator().await;
    }

    /// The leases of a dead server are over: they last a minute.
    async fn end_leases(&self) {
        let free = Patch::Merge(json!({"spec": {"holderIdentity": null, "renewTime": null}}));
        for lease in LEASES {
            // It may have died before it had this one.
            let _ = self
                .leases()
                .patch(lease, &PatchParams::default(), &free)
                .await;
        }
    }

    /// Plays one case. `Ok(false)` if the repair was over before that request.
    async fn play(&self, case: Case) -> Result<bool, String> {
        self.rebuild().await;
        let (first, second) = (Place::new("first"), Place::new("second"));
        let gateway = self.cluster.gateway(Some(case.end)).await;
        let words = if case.first == Work::DaemonThatRepairs {
            self.run_daemon(&first, &gateway).await;
            String::new()
        } else {
            let repair = first.repair(&gateway, &["repair", I::CODE]);
            self.run(repair).await.1
        };
        if !gateway.has_ended_it() {
            return Ok(false);
        }
        if case.end.signal == Signal::SIGKILL {
            self.left_behind.replace(self.lease().await);
        }
        if case.has_operator {
            self.change_by_operator().await;
        }
        let place = if case.successor.is_elsewhere {
            self.end_leases().await;
            &second
        } else {
            &first
        };
        let followed = self.follow(place, case.successor.work).await;
        followed.map_err(|why| format!("{why}\n--- the repair that was ended:\n{words}"))?;
        if case.successor.is_elsewhere {
            // The first server is there again, with its record.
            self.end_leases().await;
            let gateway = self.cluster.gateway(None).await;
            let daemon = first.daemon(&gateway, &settings::<I>(Work::DaemonThatRepairs));
            let settled = self.settle(&first, Some(&gateway)).await;
            drop(daemon);
            settled.map_err(|why| format!("the first server is there again: {why}"))?;
        }
        Ok(true)
    }

    /// The successor does its work, and all is in order.
    async fn follow(&self, place: &Place, work: Work) -> Result<(), String> {
        let gateway = self.cluster.gateway(None).await;
        let arguments = match work {
            Work::DaemonThatRepairs | Work::Daemon => {
                let _daemon = place.daemon(&gateway, &settings::<I>(work));
                return self.settle(place, Some(&gateway)).await;
            }
            Work::Repair => vec!["repair", I::CODE],
            Work::Undo => vec!["repair", "--undo"],
        };
        let (code, words) = self.run(place.repair(&gateway, &arguments)).await;
        let settled = self.settle(place, None).await;
        settled.map_err(|why| format!("{why}\n--- exit code {code:?}:\n{words}"))?;
        if work == Work::Repair && code == Some(0) && !self.incident.is_cured().await {
            return Err(format!("exit code 0, but it is not cured\n{words}"));
        }
        Ok(())
    }

    /// Waits until all is in order, and a daemon has nothing left to do.
    async fn settle(&self, place: &Place, daemon: Option<&Gateway>) -> Result<(), String> {
        let looks = || daemon.map_or(QUIET_LOOKS, looks_of);
        let (mut quiet_since, mut tries) = (None, 0);
        let why = eventually("all is in order", DEADLINE, async || {
            self.incident.play().await;
            tries += 1;
            let fault = self.fault(place).await;
            let Some(why) = fault else {
                let since = *quiet_since.get_or_insert_with(looks);
                let is_quiet = daemon.is_none() || looks() >= since + QUIET_LOOKS;
                return is_quiet.then_some(None);
            };
            quiet_since = None;
            let is_enough = part().is_some() && tries > LOOKS;
            is_enough.then_some(Some(why))
        })
        .await;
        why.map_or(Ok(()), Err)
    }

    /// The first thing that is not in order, in a line.
    async fn fault(&self, place: &Place) -> Option<String> {
        let open = place.open_records();
        if !open.is_empty() {
            return Some(format!("open: {open:?}"));
        }
        let lease = self.lease().await;
        if lease["holderIdentity"].is_string() && lease != *self.left_behind.borrow() {
            return Some(format!("{} has the lease", lease["holderIdentity"]));
        }
        let left = self.left_to_restore().await;
        if !left.is_empty() {
            return Some(format!("left to restore in the lease: {left:?}"));
        }
        let (kind, namespace, name) = self.incident.labelled();
        let label = field(
            &api(&self.client, kind, namespace),
            name,
            "/metadata/labels/team",
        )
        .await;
        if self.is_labelled.get() && label != "shop" {
            return Some(format!("the label of an operator on {name} is gone"));
        }
        self.incident.fault().await
    }

    /// The records that are not restored completely, as the servers note them for each other.
    async fn left_to_restore(&self) -> Vec<String> {
        let lease = self.leases().get_opt("windrow-repairs").await.unwrap();
        let annotations = lease.and_then(|lease| lease.metadata.annotations);
        let note = annotations.and_then(|mut all| all.remove("windrow.dev/restore"));
        let entries: Vec<Value> =
            note.map_or_else(Vec::new, |note| serde_json::from_str(&note).unwrap());
        let is_left = |entry: &&Value| {
            entry["changes"]
                .as_array()
                .is_some_and(|changes| !changes.is_empty())
        };
        let left = entries.iter().filter(is_left);
        left.map(|entry| entry["record"].to_string()).collect()
    }

    /// Plays one case of each of these kinds, or all. Returns the failures of all, and otherwise panics at the first one.
    async fn play_cases(&self, sample: Range<usize>) -> Vec<String> {
        let (mut failures, mut played) = (Vec::new(), 0);
        let kinds = kinds_to_play(sample);
        let mut requests = BTreeMap::new();
        for kind in &kinds {
            if let Entry::Vacant(entry) = requests.entry(kind.first) {
                entry.insert(self.requests(kind.first).await);
            }
        }
        for case in cases(&requests, &kinds) {
            let asked = requests[&case.first].get(case.end.request);
            let asked = asked.map(|asked| format!("{} {}", asked.method, asked.path));
            let title = format!("{}: {case:?} at {}", I::CODE, asked.unwrap_or_default());
            match self.play(case).await {
                Ok(true) => println!("passed {title}"),
                Ok(false) => println!("over before {title}"),
                Err(why) if part().is_some() => {
                    println!("FAILED {title}: {why}");
                    failures.push(format!(
                        "{title}: {}",
                        why.lines().next().unwrap_or_default()
                    ));
                }
                Err(why) => panic!("{title}: {why}"),
            }
            played += 1;
        }
        println!("{}: {} of {played} cases failed", I::CODE, failures.len());
        failures
    }
}

fn settings<I: Incident>(work: Work) -> String {
    if work == Work::DaemonThatRepairs {
        return format!("repair: {{auto: [{}]}}\n", I::CODE);
    }
    String::new()
}

/// How often a daemon has looked at the cluster: each time it lists the Settings.
fn looks_of(gateway: &Gateway) -> usize {
    let asked = gateway.asked();
    let mut lists = asked
        .iter()
        .filter(|asked| asked.path.contains("/settings?"));
    let first = lists.next();
    first.map_or(0, |first| 1 + lists.filter(|list| *list == first).count())
}

/// The ends of a repair: each write, with and without effect, and the last read before each write. Several reads in a row leave
/// the disk and the cluster unchanged.
fn ends(requests: &[Asked], kind: &Kind) -> Vec<End> {
    let mut ends = Vec::new();
    for (request, asked) in requests.iter().enumerate() {
        let is_last_read = requests.get(request + 1).is_none_or(|next| !next.is_read());
        let sent: &[bool] = if !asked.is_read() {
            &[false, true]
        } else if is_last_read {
            &[false]
        } else {
            &[]
        };
        ends.extend(sent.iter().map(|is_sent| End {
            request,
            is_of_repair: kind.first == Work::DaemonThatRepairs,
            is_sent: *is_sent,
            signal: kind.signal,
        }));
    }
    ends
}

/// What is ended, how, and who goes on.
#[derive(Clone, Copy)]
struct Kind {
    first: Work,
    signal: Signal,
    successor: Successor,
}

fn kinds() -> Vec<Kind> {
    let of = |first: Work| {
        Successor::all().map(move |successor| Kind {
            first,
            signal: Signal::SIGKILL,
            successor,
        })
    };
    let hangup = Kind {
        first: Work::Repair,
        signal: Signal::SIGHUP,
        successor: Successor {
            work: Work::Daemon,
            is_elsewhere: false,
        },
    };
    let by_daemon = of(Work::DaemonThatRepairs);
    of(Work::Repair).chain([hangup]).chain(by_daemon).collect()
}

fn seed() -> usize {
    std::env::var("WINDROW_SEED").map_or(0, |seed| seed.parse().unwrap())
}

/// All kinds, or these of them, shifted by `WINDROW_SEED`.
fn kinds_to_play(sample: Range<usize>) -> Vec<Kind> {
    let mut all = kinds();
    if part().is_some() {
        let first = std::env::var("WINDROW_FIRST").ok();
        all.retain(|kind| {
            let by_daemon = kind.first == Work::DaemonThatRepairs;
            first
                .as_ref()
                .is_none_or(|first| (first == "daemon") == by_daemon)
        });
        return all;
    }
    sample
        .map(|number| all[(number + seed()) % all.len()])
        .collect()
}

/// All cases of these kinds, or one of each at a request that `WINDROW_SEED` chooses.
fn cases(requests: &BTreeMap<Work, Vec<Asked>>, kinds: &[Kind]) -> Vec<Case> {
    let mut all = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        let ends = ends(&requests[&kind.first], kind).into_iter();
        // By turns, so that each successor meets the operator at every other request.
        let cases = ends.map(|end| Case {
            first: kind.first,
            end,
            successor: kind.successor,
            has_operator: (end.request + number) % 2 == 1,
        });
        let cases: Vec<Case> = cases.collect();
        if part().is_some() {
            all.extend(cases);
        } else {
            // The ends of a sample are spread over the whole repair.
            let at = cases.len() * (2 * number + 1) / (2 * kinds.len()) + seed();
            all.push(cases[at % cases.len()]);
        }
    }
    let (first, of) = part().unwrap_or((0, 1));
    all.into_iter().skip(first).step_by(of).collect()
}
