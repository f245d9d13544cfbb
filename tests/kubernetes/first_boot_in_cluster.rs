//! Level 4: the first boot of a Harvester node, with the platform's own code, with Windrow and without it.
//!
//! Real are etcd, kube-apiserver, kube-controller-manager, kube-scheduler, Harvester's charts and the Helm that installs them, KubeVirt's
//! operator, API and controller, Harvester's webhook and its storage-network controller, and the program. The deploy controller is
//! that of `tests/cluster/node`. Rancher, the kubelet, Longhorn's manager, whereabouts, helm-controller and the provider of a storage
//! class are played. The steps come in the order of a real node. After each, RKE2 makes passes until it applies nothing new.
//!
//! It runs on request: `WINDROW_FIRST_BOOT=first-vm`, another name of `FIRST_BOOTS` or `all`. With `WINDROW_UPDATE=1` it records
//! the boot in `tests/fixtures/first-boot.json`, and `tests/local/first_boot_simulated.rs` compares the simulation with this file.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod answers;
mod node;

use std::fmt::Write as _;
use std::io::Write as _;

use node::{Booted, WAITS, boot};

use crate::staging::print as print_costs;
use crate::support::first_boot::{FIRST_BOOTS, FirstBoot, RecordedMoment, Recording};

fn print(boot: &FirstBoot, with: &Booted, without: &Booted) {
    let mut text = format!("=== the first boot {}\n", boot.name);
    for (with, without) in with.moments.iter().zip(&without.moments) {
        let (ours, theirs) = (&with.recorded, &without.recorded);
        let _ = writeln!(
            text,
            "{}\n    with Windrow: {} rejected, applied {:?}",
            ours.step, with.refused, ours.applied
        );
        for (file, why) in &ours.held {
            let _ = writeln!(text, "        holds {file}: {why}");
        }
        for needless in &with.needless {
            let _ = writeln!(text, "        could be applied: {needless}");
        }
        let _ = writeln!(
            text,
            "    without:      {} rejected, applied {:?}",
            without.refused, theirs.applied
        );
    }
    let _ = writeln!(
        text,
        "the storage network\n    with Windrow: {}\n    without:      {}",
        with.condition, without.condition
    );
    let _ = writeln!(
        text,
        "{:<52}{:>24}{:>24}\n{:<52}{:>24}{:>24}",
        "", "with Windrow", "without", "", "taken up, failed, again", "taken up, failed, again"
    );
    for directory in boot.directories {
        let row = |booted: &Booted| {
            let cost = &booted.costs[directory.prefix];
            format!("{}, {}, {}", cost.applies, cost.failed, cost.repeated)
        };
        let _ = writeln!(
            text,
            "{:<52}{:>24}{:>24}",
            directory.path,
            row(with),
            row(without)
        );
    }
    for (side, booted) in [("with", with), ("without", without)] {
        for (addon, messages) in &booted.failures {
            for message in messages {
                let _ = writeln!(text, "{side} Windrow, {addon}: {message}");
            }
        }
    }
    std::io::stderr().write_all(text.as_bytes()).unwrap();
    print_costs(boot.name, &with.cost, &without.cost);
}

/// Runs on request: each boot takes about five minutes of processor time.
#[tokio::test]
async fn a_first_boot_with_the_platforms_own_code_needs_no_second_try() {
    let Ok(requested) = std::env::var("WINDROW_FIRST_BOOT") else {
        return;
    };
    let update = std::env::var_os("WINDROW_UPDATE").is_some();
    let requested = |boot: &&FirstBoot| requested == "all" || requested == boot.name;
    let boots: Vec<&FirstBoot> = FIRST_BOOTS.iter().filter(requested).collect();
    assert!(!boots.is_empty(), "no boot has this name");
    for first_boot in boots {
        let sides = tokio::join!(boot(first_boot, true), boot(first_boot, false));
        let (Some(with), Some(without)) = sides else {
            return;
        };
        print(first_boot, &with, &without);
        let moments: Vec<RecordedMoment> = with
            .moments
            .iter()
            .map(|moment| moment.recorded.clone())
            .collect();
        let mut recording = Recording::load();
        if update {
            recording.boots.insert(first_boot.name.to_owned(), moments);
            recording.save();
        } else if let Some(recorded) = recording.boots.get(first_boot.name) {
            assert_eq!(*recorded, moments, "WINDROW_UPDATE=1 records it");
        }
        judge(first_boot, &with, &without);
        if first_boot.name == "first-vm" {
            the_vm_comes_last(&with, &without);
        }
    }
}

/// Asserts the rules for every directory.
fn judge(boot: &FirstBoot, with: &Booted, without: &Booted) {
    let cost = &with.cost;
    let fails: i32 = boot.directories.iter().map(|one| one.fails).sum();
    assert_eq!((cost.failed, cost.repeated), (fails, 0));
    assert_eq!(cost.refused > 0, fails > 0, "{}", cost.refused);
    assert!(without.cost.failed > 0);
    assert_eq!(with.condition["status"], "True");
    for moment in &with.moments {
        assert!(
            moment.needless.is_empty(),
            "{}: {:?}",
            moment.recorded.step,
            moment.needless
        );
    }
    let expected = boot.held();
    let held: Vec<&str> = with.held.keys().map(String::as_str).collect();
    assert_eq!(held, expected.keys().copied().collect::<Vec<_>>());
    for (file, waits) in &with.held {
        assert_eq!(*waits, [expected[file.as_str()]], "{file}");
    }
    let applied = with
        .moments
        .iter()
        .map(|moment| moment.recorded.applied.len());
    assert_eq!(applied.sum::<usize>() + held.len(), boot.files().len());
}

fn the_vm_comes_last(with: &Booted, without: &Booted) {
    const VM: &str = "00-registry.yaml";
    assert!(without.cost.refused > 0);
    let (last, before) = with.moments.split_last().unwrap();
    assert_eq!(last.recorded.applied, [VM]);
    let words = before.iter().map(|moment| {
        let why = &moment.recorded.held[VM];
        why.split(['(', ':']).next().unwrap().trim()
    });
    let words: Vec<&str> = words.collect();
    let (unset, unconfigured) = words.split_at(2);
    let unset_is = "Harvester has not made the setting storage-network yet";
    assert!(unset.iter().all(|why| *why == unset_is), "{unset:?}");
    let waits = "Harvester has not configured the storage network yet";
    assert!(
        unconfigured.iter().all(|why| *why == waits),
        "{unconfigured:?}"
    );
    // Without it the VM has its disk before Harvester comes to the storage network.
    assert_eq!(without.condition["status"], "False");
    let message = without.condition["message"].as_str().unwrap();
    assert!(message.starts_with(WAITS), "{message}");
}
