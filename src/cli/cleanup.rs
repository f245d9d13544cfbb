//! `windrow cleanup`: removes what Windrow put on a node, before Windrow itself is removed.

mod cluster;

use windrow_decide::Manual;
use windrow_gates::Trial;

use super::release::Lift;
use super::{Context, Exit};
use crate::act::{GatesLock, StateFile, forget_gates, put_drop_in};
use crate::causes::plain;
use crate::lock::Lock;
use crate::report::{flight, login};

/// The script that also removes the unit for a boot without Windrow.
const FAILSAFE: &str = "/usr/lib/windrow/failsafe";

/// Remove what Windrow put on this node and into the cluster: its holds, its feature gates, its condition and annotation on the
/// Node, and its Leases if no other node uses them. Holds that you made (`windrow hold`) stay. For the removal of Windrow; the
/// packages run it automatically
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_args: Args, context: &Context) -> anyhow::Result<Exit> {
    // Held to the end: a daemon that starts meanwhile would put everything back.
    let Some(_lock) = Lock::take(&context.layout.lock())? else {
        eprintln!(
            "windrow: the daemon runs and would put everything back; stop it first: systemctl stop \
             windrow.service"
        );
        return Ok(Exit::Failure);
    };
    let lift = Lift {
        all: true,
        by: Manual::CLEANUP,
        reason: "Windrow was removed",
    };
    let mut exit = lift.everywhere(context);
    // The records first: what they say would be written again before RKE2's next start.
    if !end_gate_trial(context) {
        exit = Exit::Failure;
    }
    let drop_in = context.layout.gates_drop_in();
    match put_drop_in(&context.layout, None) {
        Ok(true) => println!(
            "removed {}: RKE2 goes without these feature gates from its next start on",
            drop_in.display()
        ),
        Ok(false) => println!("{} is not there: no gates to take back", drop_in.display()),
        Err(error) => {
            eprintln!("windrow: {}: {error}", drop_in.display());
            exit = Exit::Failure;
        }
    }
    login::remove(&context.layout);
    if !remove_copy_of_boot_log(context) {
        exit = Exit::Failure;
    }
    cluster::clean_up(context)?;
    name_the_rest(context);
    Ok(exit)
}

/// Ends a trial of feature gates, and removes everything that is remembered of them.
fn end_gate_trial(context: &Context) -> bool {
    let layout = &context.layout;
    let directory = layout.gates_dir();
    if !directory.exists() {
        return true;
    }
    let _lock = GatesLock::take(layout);
    let trial: Option<Trial> = StateFile::Trial.recall(layout).unwrap_or_default();
    let under_way = trial.filter(Trial::under_way);
    match forget_gates(layout) {
        Ok(()) => {
            if let Some(trial) = under_way {
                println!(
                    "ended the trial of feature gates that {} asked for: rolled back",
                    trial.by
                );
            }
            true
        }
        Err(error) => {
            eprintln!(
                "windrow: {} stays, so its feature gates may come back: {error}",
                directory.display()
            );
            false
        }
    }
}

fn remove_copy_of_boot_log(context: &Context) -> bool {
    let wanted = context.settings().settings.flight.copy_to;
    let Some(directory) = flight::copy_directory(&context.layout, &wanted) else {
        return true;
    };
    match flight::remove_copy(&directory) {
        Ok(Some(copy)) => println!("removed {}", copy.display()),
        Ok(None) => {}
        Err(error) => {
            eprintln!(
                "windrow: the copy of the boot log in {} stays: {}",
                directory.display(),
                plain(&error.to_string())
            );
            return false;
        }
    }
    true
}

/// Prints what stays on purpose, and how to remove it.
fn name_the_rest(context: &Context) {
    let layout = &context.layout;
    let textfile = context.settings().settings.metrics.textfile;
    let rest = [
        (
            Some(layout.state_dir()),
            "a later installation does not hold again what was released",
        ),
        (Some(layout.path("/etc/windrow")), "your configuration"),
        (
            Some(layout.path("/etc/rancher/windrow")),
            "your configuration",
        ),
        (
            textfile.map(|path| layout.path(&path)),
            "the metrics of a daemon that did not end properly",
        ),
    ];
    for (path, why) in rest {
        if let Some(path) = path.filter(|path| path.exists()) {
            let remove = if path.is_dir() { "rm -r" } else { "rm" };
            let path = path.display();
            println!("left {path}: {why}. To remove it: {remove} {path}");
        }
    }
    let unit = layout.path("/etc/systemd/system/windrow-orphans.service");
    if unit.is_file() {
        println!(
            "left {}: it lifts holds at a boot without Windrow, and the removal of the package removes it. \
             By hand: {FAILSAFE} cleanup",
            unit.display()
        );
    }
}
