//! Level 4: a repair dies right before a call that writes, to the disk or to kube-apiserver. The same command finishes it, or takes it
//! back. Or it stands still there (SIGSTOP) for longer than its lease counts, and changes nothing when it goes on.
//! `WINDROW_WRITES=all` tries every call; otherwise each twenty-fifth, the first one by `WINDROW_SEED`. Standing still takes 45 s each
//! time: one call, or with `all` each tenth.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use support::objects::{LEASE, SETTING, VM, api, create, field};
use support::stepwise::{self, ENDED};

use crate::repair_in_cluster::{
    command, crash_harvester, play_machines, run, two_machines, while_it_runs,
};
use crate::support;

const REPAIR: [&str; 3] = ["repair", "machines-block-settings", "--yes"];
const UNDO: [&str; 3] = ["repair", "--undo", "--yes"];

/// The calls that are tried.
fn tried() -> impl Iterator<Item = usize> {
    let all = std::env::var("WINDROW_WRITES").is_ok_and(|which| which == "all");
    let seed: usize = std::env::var("WINDROW_SEED").map_or(1, |seed| seed.parse().unwrap());
    let (first, step) = if all { (1, 1) } else { (1 + seed % 25, 25) };
    (first..).step_by(step)
}

/// Every record is whole; how many there are.
fn records(root: &Path) -> usize {
    let records = fs::read_dir(root.join("var/lib/rancher/windrow/repairs"));
    let paths = records
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path());
    let records = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let read =
        records.map(|path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap());
    read.count()
}

/// A repair that waits to be traced.
fn traced(cluster: &Cluster, root: &Path) -> (Child, Pid) {
    let plain = command(cluster, root, &REPAIR);
    let mut traced = stepwise::stopped(env!("CARGO_BIN_EXE_windrow"));
    traced
        .args(plain.get_args())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = traced.spawn().unwrap();
    let process = Pid::from_raw(i32::try_from(child.id()).unwrap());
    waitpid(process, Some(WaitPidFlag::WUNTRACED)).unwrap();
    (child, process)
}

#[tokio::test]
async fn a_repair_that_dies_before_any_write_is_finished_or_taken_back_by_the_next() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    two_machines(&client).await;
    let (vms, settings) = (api(&client, VM, "default"), api(&client, SETTING, ""));
    for number in tried() {
        crash_harvester(&client).await;
        let _ = settings
            .delete("storage-network", &DeleteParams::default())
            .await;
        let root = tempfile::tempdir().unwrap();
        let below = root.path().canonicalize().unwrap();
        let (mut dying, process) = traced(&cluster, &below);
        let within = below.clone();
        let tracer = std::thread::spawn(move || {
            let mut calls = 0;
            stepwise::kill_at(process, |stop| {
                calls += usize::from(stop.is_about_to_write(&within, true));
                calls >= number
            })
        });
        eventually("the repair dies or ends", DEADLINE, async || {
            play_machines(&client).await;
            tracer.is_finished().then_some(())
        })
        .await;
        let killed = tracer.join().unwrap();
        let _ = dying.wait();
        assert!(
            killed.is_ok() || killed == Err(ENDED.to_owned()),
            "{killed:?}"
        );
        let begun = records(&below);

        // By turns it goes on, or is taken back.
        let words = match number / 25 % 2 {
            0 => REPAIR,
            _ => UNDO,
        };
        let mut next = command(&cluster, &below, &words);
        let next = next
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = while_it_runs(next, async || play_machines(&client).await).await;
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "before write {number}, {begun} records: {said}"
        );
        for name in ["db", "web"] {
            let strategy = field(&vms, name, "/spec/runStrategy").await;
            assert_eq!(
                strategy, "RerunOnFailure",
                "{name} before write {number}: {said}"
            );
        }
        records(&below);
        if words == UNDO {
            let (code, said) = run(&cluster, &below, &UNDO);
            let is_undone = code == 0 && said.contains("Nothing to undo");
            assert!(is_undone, "before write {number}: {said}");
        }
        if killed.is_err() {
            assert!(number > 50, "there are more writes than {number}");
            return;
        }
    }
}

/// Which calls a repair stands still before, counted from when it has the lease and its record: one, or each tenth.
fn stands_before() -> impl Iterator<Item = usize> {
    let all = std::env::var("WINDROW_WRITES").is_ok_and(|which| which == "all");
    let first = tried().next().unwrap_or(1);
    let most = if all { usize::MAX } else { 1 };
    (first..).step_by(10).take(most)
}

/// What the server that has the lease by then did to the machines.
#[derive(Clone, Copy)]
enum Meanwhile {
    /// It took them over: what is changed late finds another object.
    Changed,
    /// Nothing yet: only the lease keeps the repair from them.
    Left,
}

#[tokio::test]
async fn a_repair_that_stands_still_for_longer_than_its_lease_counts_changes_nothing_of_who_has_it_then()
 {
    stand_still(Meanwhile::Changed).await;
}

#[tokio::test]
async fn a_repair_that_stands_still_for_longer_than_its_lease_counts_sends_at_most_what_it_was_sending()
 {
    stand_still(Meanwhile::Left).await;
}

async fn stand_still(meanwhile: Meanwhile) {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    two_machines(&client).await;
    let (vms, settings) = (api(&client, VM, "default"), api(&client, SETTING, ""));
    let leases = api(&client, LEASE, "kube-system");
    let all_become = async |strategy: &str| {
        for name in ["db", "web"] {
            let spec = Patch::Merge(json!({"spec": {"runStrategy": strategy}}));
            let done = vms.patch(name, &PatchParams::default(), &spec).await;
            done.unwrap();
        }
    };
    // How often anything was changed in what was asked of the machines: in the end a repair puts all back.
    let changes = async || {
        let mut sum = 0;
        for name in ["db", "web"] {
            sum += vms.get(name).await.unwrap().metadata.generation.unwrap();
        }
        sum
    };
    for number in stands_before() {
        all_become("RerunOnFailure").await;
        crash_harvester(&client).await;
        let gone = DeleteParams::default();
        let _ = settings.delete("storage-network", &gone).await;
        let _ = leases.delete("windrow-repairs", &gone).await;
        let root = tempfile::tempdir().unwrap();
        let below = root.path().canonicalize().unwrap();
        let (mut repair, process) = traced(&cluster, &below);
        let (stopped, stands) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let tracer = std::thread::spawn(move || {
            let (mut calls, mut begun) = (0, false);
            stepwise::kill_at(process, |stop| {
                if stop.is_about_to_write(&below, true) {
                    begun = begun || records(&below) > 0;
                    calls += usize::from(begun);
                    if begun && calls == number {
                        let _ = stopped.send(());
                        let _ = goes_on.recv();
                    }
                }
                false
            })
        });
        let mut is_stopped = false;
        let mut before = changes().await;
        eventually("the repair stands still or ends", DEADLINE, async || {
            play_machines(&client).await;
            is_stopped |= stands.try_recv().is_ok();
            (is_stopped || tracer.is_finished()).then_some(())
        })
        .await;
        if is_stopped {
            // Its lease counts for a minute, of which it uses 40 s.
            tokio::time::sleep(Duration::from_secs(45)).await;
            let _ = leases.delete("windrow-repairs", &gone).await;
            let now = format!("{:.6}", Timestamp::now());
            let spec =
                json!({"holderIdentity": "another", "leaseDurationSeconds": 60, "renewTime": now});
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "windrow-repairs"}, "spec": spec});
            create(&leases, lease).await;
            if matches!(meanwhile, Meanwhile::Changed) {
                all_become("Manual").await;
            }
            before = changes().await;
            go_on.send(()).unwrap();
        }
        eventually("the repair ends", DEADLINE, async || {
            play_machines(&client).await;
            tracer.is_finished().then_some(())
        })
        .await;
        assert_eq!(tracer.join().unwrap(), Err(ENDED.to_owned()));
        let _ = repair.wait();
        if !is_stopped {
            assert!(number > 20, "there are more writes than {number}");
            return;
        }
        let late = match meanwhile {
            Meanwhile::Changed => 0,
            // What it stood still before may be a change that is on its way.
            Meanwhile::Left => 1,
        };
        let changed = changes().await - before;
        assert!(changed <= late, "{changed} changes after write {number}");
        let holder = field(&leases, "windrow-repairs", "/spec/holderIdentity").await;
        assert_eq!(holder, "another", "before write {number}");
    }
}
