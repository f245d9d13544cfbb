//! `windrow repair`: cures an incident that was recognised, after it has shown what it does.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use kube::Client;

use super::cluster::{print, runtime};
use super::document::now;
use super::{Context, Exit, style};
use crate::act::repair::{Record, Records, carry_out};
use crate::harvester::incidents::{Finding, diagnose, kinds};
use crate::observe::objects::{list, reach};
use crate::reasons::{Code, REASONS};
use crate::render::cure_text;

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
    /// The admin credential; RKE2's own when not given
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
    let kubeconfig = args
        .kubeconfig
        .clone()
        .unwrap_or_else(|| context.layout.admin_kubeconfig());
    runtime()?.block_on(async {
        let client = match reach(&kubeconfig).await {
            Ok(client) => client,
            Err(why) => {
                eprintln!("windrow: the cluster cannot be asked: {why}");
                eprintln!("A repair needs the admin credential: run it as root on a server.");
                return Ok(Exit::Unknown);
            }
        };
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
        let found: Vec<Finding> = found
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
        for finding in &found {
            if let Some(cure) = &finding.cure {
                begun.push(records.begin(finding, cure, now())?);
            }
        }
        for record in &mut begun {
            if !cure(&client, &records, record).await? {
                return Ok(Exit::Failed);
            }
        }
        verify(&client, code, &begun).await
    })
}

fn code(text: &str) -> Option<Code> {
    let reason = REASONS.iter().find(|reason| reason.id == text)?;
    Some(reason.code)
}

async fn recognised(client: &Client, code: Code) -> anyhow::Result<Vec<Finding>> {
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

/// Carries one cure out. False when it did not come to its end.
async fn cure(client: &Client, records: &Records, record: &mut Record) -> anyhow::Result<bool> {
    let subject = record.subject.clone();
    print(&format!("\n{subject}: {}\n", record.cure.summary))?;
    print(&format!("saved in {}\n", records.path(record).display()))?;
    let outcome = carry_out(client, records, record, now, |number, step| {
        // The next line of a terminal that is gone is not worth an end of the repair.
        let _ = print(&format!("{}. {}\n", number + 1, step.say));
    });
    match outcome.await {
        Ok(()) => Ok(true),
        Err(why) => {
            eprintln!("windrow: {subject}: {why}");
            eprintln!("The same command goes on from here; what was changed is in the record.");
            Ok(false)
        }
    }
}

/// Is what was cured recognised no longer?
async fn verify(client: &Client, code: Code, cured: &[Record]) -> anyhow::Result<Exit> {
    let left = recognised(client, code).await?;
    let still = left
        .iter()
        .find(|one| cured.iter().any(|record| record.subject == one.subject));
    Ok(match still {
        Some(finding) => {
            eprintln!("windrow: it is still there: {}", finding.message);
            Exit::Failed
        }
        None => {
            print("Done, and verified: it is recognised no longer.\n")?;
            Exit::Ok
        }
    })
}
