//! The same manifests applied by RKE2 alone, by RKE2 with Windrow, and by others of their kind: one after the other, each on an etcd, a
//! kube-apiserver and a kube-controller-manager of its own. And what each takes while nothing happens.
//!
//! `benches/compare/run` makes the parts and starts it. Nothing here fails when one is slower than another; without the parts it says so
//! and measures nothing.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has failed"
)]

#[expect(dead_code, reason = "the tests look at more of a bootstrap")]
#[path = "../../tests/kubernetes/staging/bootstrap.rs"]
mod bootstrap;
mod platform;
mod release;
mod requests;
mod rest;
mod sets;
#[path = "../../tests/support/mod.rs"]
mod support;
mod table;
mod trial;
mod usage;
mod ways;

use std::path::PathBuf;
use std::{env, fs, process};

use sets::Set;
use trial::Programs;
use ways::Way;

/// Where the peers' programs are; where what is measured and said is left; the program that is measured, where it is not this build's.
const PEERS: &str = "WINDROW_COMPARE_PEERS";
const OUT: &str = "WINDROW_COMPARE_OUT";
const PROGRAM: &str = "WINDROW_COMPARE_PROGRAM";
/// Only these ways, by the beginnings of their names.
const WAYS: &str = "WINDROW_COMPARE_WAYS";

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--measured") {
        process::exit(usage::run_measured(&arguments[1..]));
    }
    // cargo gives benchmarks an argument of its own.
    let wanted: Vec<String> = arguments
        .into_iter()
        .filter(|one| !one.starts_with("--"))
        .collect();
    let (Some(peers), Some(out)) = (env::var_os(PEERS), env::var_os(OUT)) else {
        println!("nothing is compared: run benches/compare/run");
        return;
    };
    let windrow = env::var_os(PROGRAM).unwrap_or_else(|| env!("CARGO_BIN_EXE_windrow").into());
    let programs = Programs {
        windrow: windrow.into(),
        peers: peers.into(),
        said: out.into(),
    };
    fs::create_dir_all(&programs.said).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let here = tokio::task::LocalSet::new();
    here.block_on(&runtime, async {
        for name in wanted {
            match name.split_once(':') {
                Some(("rest", minutes)) => {
                    rest::measure(&programs, minutes.parse().unwrap()).await;
                }
                Some(("release", samples)) => {
                    release::measure(&programs, samples.parse().unwrap()).await;
                }
                _ => compare(&Set::named(&name), &programs).await,
            }
        }
    });
}

async fn compare(set: &Set, programs: &Programs) {
    let only = env::var(WAYS).unwrap_or_default();
    let only: Vec<&str> = only.split_whitespace().collect();
    let is_asked_for = |way: Way| {
        let name = format!("{way:?}");
        only.is_empty() || only.contains(&name.as_str())
    };
    let mut outcomes = Vec::new();
    for way in Way::ALL {
        if !is_asked_for(way) || (way == Way::FluxWithoutNulls && !set.has_nulls()) {
            continue;
        }
        let Some(outcome) = trial::run(set, way, programs).await else {
            return;
        };
        eprintln!("{}: {} in {:.1} s", outcome.set, outcome.way, outcome.after);
        outcomes.push(outcome);
    }
    let place: PathBuf = programs.said.join(format!("{}.json", set.name));
    fs::write(place, serde_json::to_string_pretty(&outcomes).unwrap()).unwrap();
    println!("{}", table::table(&set.name, set.files.len(), &outcomes));
}
