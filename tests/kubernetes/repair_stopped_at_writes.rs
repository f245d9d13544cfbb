//! Level 4: a repair dies right before a call that writes, to the disk or to kube-apiserver. The same command finishes it, or takes it
//! back. `WINDROW_WRITES=all` tries every call; otherwise each twenty-fifth, the first one by `WINDROW_SEED`.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::Stdio;

use kube::api::DeleteParams;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::Value;
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use support::objects::{SETTING, VM, api, field};
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
        let plain = command(&cluster, &below, &REPAIR);
        let mut traced = stepwise::stopped(env!("CARGO_BIN_EXE_windrow"));
        traced
            .args(plain.get_args())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut dying = traced.spawn().unwrap();
        let process = Pid::from_raw(i32::try_from(dying.id()).unwrap());
        waitpid(process, Some(WaitPidFlag::WUNTRACED)).unwrap();
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
