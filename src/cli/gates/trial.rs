//! `windrow gates apply` and `rollback`: the daemon does the work. These verbs request it and report its progress;
//! interrupting them does not stop it.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use windrow_decide::Status;
use windrow_gates::trial::TrialState;
use windrow_gates::{TrialOutcome, TrialStatus};

use super::node::node_report;
use crate::cli::document::{FoundStatus, current, daemon_runs, now};
use crate::cli::follow::Follow;
use crate::cli::manual::who;
use crate::cli::out::print_whole;
use crate::cli::{Context, Exit, style};
use crate::observe::requests::{RequestAction, SpooledRequest};
use crate::orders::spool::publish_request;

/// systemd restarts a daemon that died, and it continues the trial.
const DAEMON_RETURNS: Duration = Duration::from_secs(120);

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ApplyArgs {
    /// Also try gates that the check refuses: the trial shows whether the check was right. Ignores an upgrade in progress,
    /// other servers that are not ready, and failed trials on other servers
    #[arg(long)]
    force: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RollbackArgs {
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub(super) fn apply(args: &ApplyArgs, context: &Context) -> anyhow::Result<Exit> {
    if let Some(exit) = without_daemon(context) {
        return Ok(exit);
    }
    let report = match node_report(context)? {
        Ok(report) => report,
        Err(exit) => return Ok(exit),
    };
    if report.starts == Some(false) && !args.force {
        print_whole(&report.to_table(style()))?;
        eprintln!(
            "windrow: nothing was changed. Fix the problems above. --force tries the gates anyway, \
             and rolls everything back if kube-apiserver does not come up"
        );
        return Ok(Exit::Failed);
    }
    let question = "This restarts rke2-server on this node, twice if the gates do not work. Its kube-apiserver \
                    is unavailable meanwhile.";
    if !args.yes && !agreed(question)? {
        return Ok(Exit::Usage);
    }
    lay_and_follow(context, RequestAction::GatesApply, args.force)
}

pub(super) fn rollback(args: &RollbackArgs, context: &Context) -> anyhow::Result<Exit> {
    if let Some(exit) = without_daemon(context) {
        return Ok(exit);
    }
    let question = "This restarts rke2-server on this node with the previous feature gates.";
    if !args.yes && !agreed(question)? {
        return Ok(Exit::Usage);
    }
    lay_and_follow(context, RequestAction::GatesRollback, false)
}

fn without_daemon(context: &Context) -> Option<Exit> {
    daemon_runs(context).err()?;
    eprintln!(
        "windrow: nothing was changed: only the daemon does this, and it does not run (systemctl start windrow)"
    );
    Some(Exit::Failure)
}

fn agreed(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        eprintln!("windrow: {question} Confirm with --yes");
        return Ok(false);
    }
    print!("{question} Continue? [y/N] ");
    crate::cli::out::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    let agreed = matches!(answer.trim(), "y" | "Y" | "yes");
    if !agreed {
        println!("Nothing was changed.");
    }
    Ok(agreed)
}

fn lay_and_follow(context: &Context, action: RequestAction, force: bool) -> anyhow::Result<Exit> {
    // Before the request, so that no answer is missed.
    let mut follow = Follow::file(&context.layout.status())?;
    let request = SpooledRequest {
        force,
        ..SpooledRequest::new(action, who(), now())
    };
    let published = publish_request(&context.layout, &request, "gates")?;
    let mut shown = String::new();
    let mut gone: Option<Instant> = None;
    loop {
        let found = current(context);
        follow.writer_of(&found);
        let until = match &found {
            FoundStatus::Current(status) => {
                gone = None;
                match answer(status, published.name()) {
                    TrialProgress::Nothing => {}
                    TrialProgress::Step(step) if step == shown => {}
                    TrialProgress::Step(step) => {
                        println!("{step}");
                        shown = step;
                    }
                    TrialProgress::Over(exit, words) => {
                        println!("{words}");
                        return Ok(exit);
                    }
                }
                None
            }
            FoundStatus::Stale { why, .. } => {
                if gone.is_none() {
                    println!(
                        "the daemon is not running ({why}); the trial continues when it is back"
                    );
                }
                Some(*gone.get_or_insert_with(Instant::now) + DAEMON_RETURNS)
            }
        };
        if !follow.wait(until) {
            eprintln!(
                "windrow: the daemon does not come back. `windrow gates check` shows how the trial ended. \
                 Without the daemon, the next start of RKE2 rolls everything back"
            );
            return Ok(Exit::Unknown);
        }
    }
}

enum TrialProgress {
    Nothing,
    Step(String),
    Over(Exit, String),
}

fn answer(status: &Status, name: &str) -> TrialProgress {
    let Some(gates) = &status.gates else {
        return TrialProgress::Nothing;
    };
    if let Some(answer) = gates.answered.iter().find(|answer| answer.request == name) {
        let exit = match answer.outcome {
            TrialOutcome::Unchanged | TrialOutcome::Kept => Exit::Ok,
            TrialOutcome::NotTried | TrialOutcome::RolledBack => Exit::NotYet,
        };
        return TrialProgress::Over(exit, format!("nothing was changed: {}", answer.why));
    }
    let trial = gates.trial.as_ref();
    match trial.filter(|trial| trial.requests.iter().any(|request| request == name)) {
        Some(trial) => progress(trial, name),
        None => TrialProgress::Nothing,
    }
}

fn progress(trial: &TrialStatus, name: &str) -> TrialProgress {
    let why = trial.why.as_deref().unwrap_or("unknown reason");
    // The operator asked for a rollback.
    let taken_back = trial.requests.iter().position(|request| request == name) == Some(1);
    if let Some(outcome) = trial.outcome {
        let (exit, words) = match outcome {
            TrialOutcome::Kept | TrialOutcome::Unchanged => (
                Exit::Ok,
                match trial.unverified.as_slice() {
                    [] => format!("kept: {}", trial.gates),
                    unverified => format!(
                        "kept: {}; not everything could be verified: {}",
                        trial.gates,
                        unverified.join("; ")
                    ),
                },
            ),
            TrialOutcome::RolledBack if taken_back => (Exit::Ok, format!("rolled back: {why}")),
            TrialOutcome::RolledBack => (Exit::Failed, format!("rolled back: {why}")),
            TrialOutcome::NotTried if taken_back => (Exit::Ok, format!("not tried: {why}")),
            TrialOutcome::NotTried => (Exit::NotYet, format!("not tried: {why}")),
        };
        return TrialProgress::Over(exit, words);
    }
    let step = match trial.state {
        TrialState::Idle | TrialState::Leased => "waits for its turn in the cluster",
        TrialState::Saved => "writes the drop-in",
        TrialState::Written => "wrote the drop-in; rke2-server has to be restarted",
        TrialState::Restarting => "restarts rke2-server",
        TrialState::Verifying => "waits until kube-apiserver is ready with the gates",
        TrialState::RollingBack => "restores the previous gates",
        TrialState::Kept | TrialState::RolledBack => "is over",
    };
    TrialProgress::Step(match (&trial.waits_for, trial.state) {
        (Some(waits_for), TrialState::Idle | TrialState::Written) => {
            format!("{}: {step} ({waits_for})", trial.gates)
        }
        _ => format!("{}: {step}", trial.gates),
    })
}
