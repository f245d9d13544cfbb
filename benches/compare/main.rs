//! The same manifests applied by RKE2 alone, by RKE2 with Windrow, by both under the names that Windrow advises, and by Flux's `ssa`: one
//! after the other, each on an etcd and a kube-apiserver of its own.
//!
//! `benches/compare/run DIRECTORY` makes the parts and starts it. Nothing here fails when one is slower than another; without the parts it
//! says so and measures nothing.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has failed"
)]

#[expect(dead_code, reason = "the tests look at more of a bootstrap")]
#[path = "../../tests/kubernetes/staging/bootstrap.rs"]
mod bootstrap;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

use bootstrap::{Bootstrap, Cost};
use support::cluster::{Cluster, Spec, Who};

/// Manifests by their paths.
type Manifests = BTreeMap<String, String>;

/// Where the program is that applies as Flux does.
const SSA: &str = "WINDROW_COMPARE_SSA";

#[tokio::main]
async fn main() {
    // cargo gives benchmarks an argument of its own.
    let directory = env::args().skip(1).find(|one| !one.starts_with("--"));
    let (Some(directory), Some(ssa)) = (directory.map(PathBuf::from), env::var_os(SSA)) else {
        println!("nothing is compared: run benches/compare/run DIRECTORY");
        return;
    };
    let ssa = PathBuf::from(ssa);
    let given = manifests(&directory);
    let renames = advised_names(&directory);
    let renamed: Manifests = given
        .iter()
        .map(|(path, text)| (renames.get(path).unwrap_or(path).clone(), text.clone()))
        .collect();
    for (from, to) in &renames {
        println!("renamed: {from} to {to}");
    }
    println!("\n{HEAD}");
    bootstrap_row("RKE2 alone", &given, false).await;
    bootstrap_row("Windrow", &given, true).await;
    if !renames.is_empty() {
        bootstrap_row("RKE2 alone, renamed", &renamed, false).await;
        bootstrap_row("Windrow, renamed", &renamed, true).await;
    }
    ssa_row("Flux's `ssa`", &ssa, &[], &directory).await;
    let dropped = ["-drop-nulls"];
    ssa_row("Flux's `ssa`, nulls left out", &ssa, &dropped, &directory).await;
}

const HEAD: &str = "| | from the first pass' beginning | from the program's start | passes | objects applied | files failed | files repeated | files held | load |
|---|---|---|---|---|---|---|---|---|";

async fn bootstrap_row(title: &str, files: &Manifests, windrow: bool) {
    let Some(node) = Bootstrap::start(files.clone(), windrow, false).await else {
        return;
    };
    let load = load();
    let Cost {
        time,
        time_of_passes,
        passes,
        failed,
        repeated,
        held,
        created,
        ..
    } = node.end().await;
    let objects = created.len();
    println!(
        "| {title} | {:.1} s | {:.1} s | {passes} | {objects} | {failed} | {repeated} | {held} | {load} |",
        time_of_passes.as_secs_f64(),
        time.as_secs_f64(),
    );
}

async fn ssa_row(title: &str, program: &Path, options: &[&str], directory: &Path) {
    let spec = Spec {
        controller_manager: true,
        audit: true,
        ..Spec::default()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    let load = load();
    let began = std::time::Instant::now();
    let run = Command::new(program)
        .args(options)
        .arg(cluster.kubeconfig(Who::Admin))
        .arg(directory)
        .output()
        .unwrap();
    let whole = began.elapsed().as_secs_f64();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let said: Value = serde_json::from_slice(&run.stdout).unwrap();
    let (seconds, applied) = (&said["seconds"], &said["applied"]);
    let error = said["error"].as_str().unwrap_or_default();
    let failed = usize::from(!error.is_empty());
    println!(
        "| {title} | {:.1} s | {whole:.1} s | | {applied} | {failed} | 0 | | {load} |",
        seconds.as_f64().unwrap()
    );
    if failed > 0 {
        println!("\n{title} stopped: {error}\n\n{HEAD}");
    }
}

/// Every manifest below a directory.
fn manifests(directory: &Path) -> Manifests {
    let mut found = Manifests::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "yaml") {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    assert!(!found.is_empty(), "no manifests in {}", directory.display());
    found
}

/// The names that `windrow plan` advises.
fn advised_names(directory: &Path) -> BTreeMap<String, String> {
    let plan = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["plan", "-o", "json"])
        .arg(directory)
        .output()
        .unwrap();
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    let renames = plan["names"]["renames"].as_array().cloned();
    let name = |one: &Value, key: &str| one[key].as_str().unwrap().to_owned();
    renames
        .unwrap_or_default()
        .iter()
        .map(|one| (name(one, "file"), name(one, "to")))
        .collect()
}

/// The machine's load of the last minute.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}
