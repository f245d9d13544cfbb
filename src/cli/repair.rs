//! `windrow repair`: cures an incident that was recognised, after it has shown what it does.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use tokio::time::{Instant, sleep};
use windrow_harvester::incidents::{IncidentFinding, diagnose, kinds};
use windrow_model::reasons::{Code, REASONS};

use super::cluster::{chosen_by_variable, complain_of_cluster, kubeconfig, print, runtime};
use super::document::now;
use super::manual::who;
use super::{Context, Exit, style};
use crate::act::repair::{Record, Records, Worker, carry_out};
use crate::act::{Turn, lease_on_repairs};
use crate::apiserver::ApiServer;
use crate::daemon::repairs::report_to_daemon;
use crate::observe::management::lease_holder;
use crate::observe::objects::{list, reach};
use crate::observe::requests::RequestAction;
use crate::render::cure_text;

/// So long it is waited for another repair.
const WAIT: Duration = Duration::from_secs(120);
/// Between two tries to have its turn.
const AGAIN: Duration = Duration::from_secs(5);

/// Cure an incident that `windrow diagnose` recognised; asks first, and saves what it changes
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The incident's code, as `windrow diagnose` prints it
    #[arg(value_name = "CODE")]
    code: String,
    /// Of what, where there is more than one: `Kind namespace/name` or a part of it
    #[arg(value_name = "SUBJECT")]
    subject: Option<String>,
    /// Only show the exact requests
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// The admin credential; when not given, what KUBECONFIG names, or else RKE2's own
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let Some(code) = code(&args.code) else {
        eprintln!(
            "windrow: there is no code {}; `windrow diagnose` prints those that were recognised",
            args.code
        );
        return Ok(Exit::Usage);
    };
    let records = Records::new(&context.layout.state_dir());
    let kubeconfig = kubeconfig(args.kubeconfig.as_deref(), context);
    runtime()?.block_on(async {
        let client = match reach(&ApiServer::new(), &kubeconfig).await {
            Ok(client) => client,
            Err(why) => {
                complain_of_cluster(&why, args.kubeconfig.as_deref());
                eprintln!("A repair needs the admin credential: run it as root on a server.");
                return Ok(Exit::Unknown);
            }
        };
        // What is changed need not be the cluster of this node.
        if let Some(files) = chosen_by_variable(args.kubeconfig.as_deref()) {
            eprintln!("windrow: the cluster is the one that KUBECONFIG names: {files}");
        }
        let wanted = |subject: &str| {
            let part = args.subject.as_deref().unwrap_or_default();
            subject.contains(part)
        };
        let begun = records.unfinished(code)?;
        let mut begun: Vec<Record> = begun
            .into_iter()
            .filter(|record| wanted(&record.subject))
            .collect();
        let found = recognised(&client, code).await?;
        let found: Vec<IncidentFinding> = found
            .into_iter()
            .filter(|one| wanted(&one.subject))
            .filter(|one| !begun.iter().any(|record| record.subject == one.subject))
            .collect();
        if begun.is_empty() && found.is_empty() {
            print(&format!("Nothing to repair: {code} is not recognised.\n"))?;
            return Ok(Exit::Ok);
        }
        for record in &begun {
            let done = record.done;
            print(&format!(
                "{}: begun at {}, {done} of {} steps are done; it goes on from there.\n",
                record.subject,
                record.started,
                record.cure.steps.len()
            ))?;
            print(&cure_text(&record.cure, style()))?;
        }
        let mut incurable = 0;
        for finding in &found {
            print(&format!("{}\n", finding.message))?;
            match &finding.cure {
                Some(cure) => print(&cure_text(cure, style()))?,
                None => {
                    incurable += 1;
                    print(&format!("Windrow has no cure for it: {}\n", finding.advice))?;
                }
            }
        }
        if args.dry_run {
            return Ok(Exit::Ok);
        }
        if begun.is_empty() && found.len() == incurable {
            return Ok(Exit::Failed);
        }
        if !args.yes && !agreed()? {
            eprintln!("windrow: nothing was changed");
            return Ok(Exit::Usage);
        }
        let mut turn = match turn(context, &client).await {
            Ok(turn) => turn,
            Err(why) => {
                eprintln!("windrow: nothing was changed: {why}");
                return Ok(Exit::Failed);
            }
        };
        for finding in &found {
            if let Some(cure) = &finding.cure {
                let record = records.begin(finding, cure, Worker::Person, now())?;
                note(
                    context,
                    &records,
                    &record,
                    RequestAction::RepairBegun,
                    &cure.summary,
                );
                begun.push(record);
            }
        }
        let mut exit = Exit::Ok;
        for record in &mut begun {
            if let Err(why) = cure(&client, &records, record, &mut turn).await {
                note(context, &records, record, RequestAction::RepairFailed, &why);
                exit = Exit::Failed;
                break;
            }
        }
        turn.end().await;
        match exit {
            Exit::Ok => verify(&client, context, &records, code, &begun).await,
            exit => Ok(exit),
        }
    })
}

fn code(text: &str) -> Option<Code> {
    let reason = REASONS.iter().find(|reason| reason.id == text)?;
    Some(reason.code)
}

async fn recognised(client: &Client, code: Code) -> anyhow::Result<Vec<IncidentFinding>> {
    let found = diagnose(&list(client, &kinds()).await, now());
    for why in &found.unknown {
        eprintln!("windrow: not judged: {why}");
    }
    let findings = found.findings.into_iter();
    Ok(findings.filter(|finding| finding.code == code).collect())
}

/// Asks a person at a terminal; nobody else is asked.
fn agreed() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        eprintln!("windrow: nobody can be asked here: --yes does it, --dry-run shows it");
        return Ok(false);
    }
    print("\nDo this? Write yes: ")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

/// Waits until nobody else repairs.
async fn turn<'c>(context: &Context, client: &'c Client) -> Result<Turn<'c>, String> {
    let until = Instant::now() + WAIT;
    let mut lease = lease_on_repairs(lease_holder(&context.layout));
    loop {
        match Turn::take(lease, &context.layout.state_dir(), client, now).await {
            Ok(turn) => return Ok(turn),
            Err((_, why)) if Instant::now() > until => return Err(why),
            Err((back, why)) => {
                eprintln!("windrow: waiting: {why}");
                sleep(AGAIN).await;
                lease = back;
            }
        }
    }
}

/// Tells the daemon, for the flight and the journal.
fn note(context: &Context, records: &Records, record: &Record, what: RequestAction, why: &str) {
    report_to_daemon(
        &context.layout,
        what,
        &records.name(record),
        (&who(), why),
        now(),
    );
}

/// Carries one cure out; why it did not come to its end.
async fn cure(
    client: &Client,
    records: &Records,
    record: &mut Record,
    turn: &mut Turn<'_>,
) -> Result<(), String> {
    let subject = record.subject.clone();
    // A terminal that is gone is not worth an end of the repair.
    let _ = print(&format!("\n{subject}: {}\n", record.cure.summary));
    let _ = print(&format!("saved in {}\n", records.path(record).display()));
    let work = async {
        let done = carry_out(client, records, record, now, |number, step| {
            let _ = print(&format!("{}. {}\n", number + 1, step.say));
        });
        done.await.map_err(|error| error.to_string())
    };
    let ended = turn.during(work).await;
    if let Err(why) = &ended {
        eprintln!("windrow: {subject}: {why}");
        eprintln!("The same command goes on from here; what was changed is in the record.");
    }
    ended
}

/// Is what was cured recognised no longer?
async fn verify(
    client: &Client,
    context: &Context,
    records: &Records,
    code: Code,
    cured: &[Record],
) -> anyhow::Result<Exit> {
    let left = recognised(client, code).await?;
    let mut exit = Exit::Ok;
    for record in cured {
        match left.iter().find(|one| one.subject == record.subject) {
            Some(finding) => {
                eprintln!("windrow: it is still there: {}", finding.message);
                note(
                    context,
                    records,
                    record,
                    RequestAction::RepairFailed,
                    &finding.message,
                );
                exit = Exit::Failed;
            }
            None => note(context, records, record, RequestAction::RepairDone, ""),
        }
    }
    if exit == Exit::Ok {
        print("Done, and verified: it is recognised no longer.\n")?;
    }
    Ok(exit)
}
