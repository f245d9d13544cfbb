//! `windrow cleanup`: removes the traces of Windrow on a node, before Windrow itself is removed.

mod cluster;

use windrow_decide::Manual;
use windrow_gates::Trial;

use super::release::Lift;
use super::{Context, Exit};
use crate::act::repair::Records;
use crate::act::{GatesLock, StateFile, forget_gates, put_drop_in};
use crate::causes::plain;
use crate::fs;
use crate::lock::Lock;
use crate::printable::shell_word;
use crate::report::{flight, login};

/// The script that also removes the unit for a boot without Windrow.
const FAILSAFE: &str = "/usr/lib/windrow/failsafe";

/// Remove Windrow's changes from this node and the cluster
///
/// Removes its holds, its feature gates, its condition and annotation on the Node, and its Leases if no other node uses them.
/// Manual holds (`windrow hold`) stay. Run it before you remove Windrow; the packages run it automatically.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_args: Args, context: &Context) -> anyhow::Result<Exit> {
    // Held to the end: a daemon that starts meanwhile would put everything back.
    let Some(_lock) = Lock::take(&context.layout.lock())? else {
        eprintln!(
            "windrow: the daemon runs, and would create everything again; stop it first: systemctl stop \
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
    if !remove_gates(context) {
        exit = Exit::Failure;
    }
    login::remove(&context.layout);
    if !remove_copy_of_boot_log(context) {
        exit = Exit::Failure;
    }
    if !cluster::clean_up(context)? {
        exit = Exit::Failure;
    }
    let repairs = unfinished_repairs(context);
    for line in &repairs {
        eprintln!("windrow: {line}");
        exit = Exit::Failure;
    }
    name_the_rest(context);
    Ok(exit)
}

/// Removes the drop-in and all records of feature gates. The command before RKE2's start waits for both.
fn remove_gates(context: &Context) -> bool {
    let layout = &context.layout;
    let directory = layout.gates_dir();
    let _lock = fs::exists(&directory).then(|| GatesLock::take(layout));
    let trial: Option<Trial> = StateFile::Trial.recall(layout).unwrap_or_default();
    let under_way = trial.filter(Trial::under_way);
    let drop_in = layout.gates_drop_in();
    let mut is_done = true;
    match put_drop_in(layout, None) {
        Ok(true) => println!(
            "removed {}: RKE2's next start is without these feature gates. A boot before you remove the package writes them again",
            drop_in.display()
        ),
        Ok(false) => println!("{} is not there: no gates to remove", drop_in.display()),
        Err(error) => {
            eprintln!("windrow: {}: {error}", drop_in.display());
            is_done = false;
        }
    }
    match forget_gates(layout) {
        Ok(()) => {
            if let Some(trial) = under_way {
                println!(
                    "ended the trial of feature gates that {} requested: rolled back",
                    trial.by
                );
            }
        }
        Err(error) => {
            eprintln!(
                "windrow: {} stays, so its feature gates may come back: {error}",
                directory.display()
            );
            is_done = false;
        }
    }
    is_done
}

/// The repairs of this host that have not restored their temporary changes: their records list these changes.
fn unfinished_repairs(context: &Context) -> Vec<String> {
    let records = Records::new(&context.layout.state_dir());
    let found = records.to_restore().into_iter();
    found
        .map(|record| {
            let steps: Vec<&str> = record
                .steps_to_restore()
                .map(|(_, step)| step.say.as_str())
                .collect();
            let (subject, name) = (&record.subject, records.name(&record));
            format!(
                "a repair of {subject} has not restored what it changed: {}. Before you remove Windrow, run `windrow repair --undo {}`",
                steps.join("; "),
                shell_word(&name)
            )
        })
        .collect()
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
            "a later installation will not hold the released files again",
        ),
        (Some(layout.path("/etc/windrow")), "your configuration"),
        (
            Some(layout.path("/etc/rancher/windrow")),
            "your configuration",
        ),
        (
            textfile.map(|path| layout.path(&path)),
            "metrics of a daemon that did not exit properly",
        ),
    ];
    for (path, why) in rest {
        if let Some(path) = path.filter(|path| fs::exists(path)) {
            let remove = if fs::is_dir(&path) { "rm -r" } else { "rm" };
            // A shell follows a link of another machine's tree to a file of this one.
            let real = match fs::canonicalize(&path) {
                Ok(real) if !layout.is_this_machine() => real,
                _ => path.clone(),
            };
            let (path, real) = (path.display(), real.display().to_string());
            println!(
                "left {path}: {why}. To remove it: {remove} {}",
                shell_word(&real)
            );
        }
    }
    let unit = layout.path("/etc/systemd/system/windrow-orphans.service");
    if fs::is_file(&unit) {
        println!(
            "left {}: it lifts holds at a boot without Windrow, and the removal of the package removes it. \
             To remove it yourself: {FAILSAFE} cleanup",
            unit.display()
        );
    }
}

#[cfg(test)]
mod tests {
    use windrow_model::reasons::Code;

    use super::*;
    use crate::act::testing::sample_of_a_temporary_change;
    use crate::layout::Layout;

    #[test]
    fn a_repair_that_has_to_restore_something_is_named_with_its_command() {
        let root = tempfile::tempdir().unwrap();
        let context = Context::new(Layout::new(root.path()));
        assert_eq!(unfinished_repairs(&context), [""; 0]);
        let records = Records::new(&context.layout.state_dir());
        let name = sample_of_a_temporary_change(&records);
        let named = unfinished_repairs(&context);
        assert_eq!(named.len(), 1);
        assert!(
            named[0].contains("restore a") && named[0].contains(&format!("--undo {name}`")),
            "{named:?}"
        );
        assert_eq!(records.unfinished(Code::AddonStuck).unwrap().len(), 1);
    }
}
