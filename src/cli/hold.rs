//! `windrow hold`: a person keeps files from RKE2.

use super::document::{daemon_runs, now};
use super::manual::{look, marker_of, paths, request, who};
use super::{Context, Exit, complain};
use crate::act::{MarkerOutcome, Markers};
use crate::decide::{Mark, OnFailure};
use crate::observe::requests::RequestAction;
use crate::reasons::Code;

/// Hold files by hand: RKE2 does not apply them until they are released
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Manifest files: below the manifests directory, or their base names
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Why; it is recorded with who and when
    #[arg(long, default_value = "no reason given")]
    reason: String,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let now = now();
    let manifests = context.manifests();
    let found = look(&manifests, now)?;
    let known: Vec<String> = found.files.iter().map(|file| file.path.clone()).collect();
    let files = match paths(&args.files, &known, &manifests) {
        Ok(files) => files,
        Err(errors) => {
            complain(&errors);
            return Ok(Exit::Usage);
        }
    };
    let by = who();
    let markers = Markers::new(&manifests);
    let mut exit = Exit::Ok;
    for file in files {
        let path = marker_of(&file, &found.markers);
        let mark = Mark {
            by: Mark::BY.to_owned(),
            file: file.clone(),
            code: Code::HeldByHand,
            why: Code::HeldByHand.say(&[("why", &format!("{} ({by})", args.reason))]),
            since: now,
            // A person asked for it: no fail-safe knows better.
            on_failure: OnFailure::Keep,
            // Whatever the file says now or later is held.
            digest: String::new(),
            release: format!("windrow release {file}"),
        };
        match markers.create(&path, &mark) {
            Ok(MarkerOutcome::Foreign) => {
                eprintln!(
                    "windrow: {file}: {path} is there already and Windrow did not make it \
                     (Harvester makes such markers during upgrades); it is left alone, and RKE2 \
                     does not apply the file while it is there"
                );
                exit = Exit::Failure;
            }
            Ok(MarkerOutcome::NoDirectory) => {
                eprintln!("windrow: {file}: its directory is gone");
                exit = Exit::Failure;
            }
            Ok(MarkerOutcome::Changed | MarkerOutcome::Unchanged) => {
                request(context, RequestAction::Hold, &file, &by, now, &args.reason)?;
                println!("{file} held by {by}: {}", args.reason);
            }
            Err(error) => {
                eprintln!("windrow: {file}: {error}");
                exit = Exit::Failure;
            }
        }
    }
    if let Err(why) = daemon_runs(context) {
        println!("The daemon does not run ({why}); it will learn of this when it starts.");
    }
    Ok(exit)
}
