//! `windrow release`: a person lets RKE2 apply files; `--failsafe` does so for a daemon that died.

use std::path::Path;

use super::document::{daemon_runs, now};
use super::manual::{look, marker_of, paths, request, who};
use super::{Context, Exit, complain};
use crate::act::{MarkerOutcome, Markers};
use crate::decide::{Mark, OnFailure};
use crate::manifest::MARKER_SUFFIX;
use crate::observe::requests::RequestAction;
use crate::observe::scan::Found;

/// Who releases when nobody does.
const FAILSAFE: &str = "windrow-failsafe";

/// Release held files by hand: RKE2 applies them at its next pass
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Manifest files: below the manifests directory, or their base names
    #[arg(required_unless_present_any = ["all", "failsafe"], value_name = "FILE")]
    files: Vec<String>,
    /// Release everything that Windrow holds
    #[arg(long, conflicts_with_all = ["files", "failsafe"])]
    all: bool,
    /// Lift every hold that may be lifted without the daemon; needs neither it nor a configuration
    #[arg(long, conflicts_with = "files")]
    failsafe: bool,
    /// Why; it is recorded with who and when
    #[arg(long, default_value = "no reason given")]
    reason: String,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if args.failsafe {
        return Ok(failsafe(context));
    }
    let now = now();
    let manifests = context.manifests();
    let found = look(&manifests, now)?;
    let files = if args.all {
        held_by_us(&found)
    } else {
        // A marker may be all that is left of a file.
        let mut known: Vec<String> = found.files.iter().map(|file| file.path.clone()).collect();
        known.extend(
            found
                .markers
                .iter()
                .filter_map(|marker| marker.path.strip_suffix(MARKER_SUFFIX))
                .map(str::to_owned),
        );
        known.sort();
        known.dedup();
        match paths(&args.files, &known, &manifests) {
            Ok(files) => files,
            Err(errors) => {
                complain(&errors);
                return Ok(Exit::Usage);
            }
        }
    };
    if files.is_empty() {
        println!("Nothing is held by Windrow.");
    }
    let by = who();
    let markers = Markers::new(&manifests);
    let mut exit = Exit::Ok;
    for file in files {
        let path = marker_of(&file, &found.markers);
        if is_foreign(&found, &path) {
            refuse(&file, &path);
            exit = Exit::Failure;
            continue;
        }
        // The request first: the daemon would put a marker back whose removal nobody explains.
        request(
            context,
            RequestAction::Release,
            &file,
            &by,
            now,
            &args.reason,
        )?;
        match markers.remove(&path) {
            Ok(MarkerOutcome::Foreign) => {
                refuse(&file, &path);
                exit = Exit::Failure;
            }
            Ok(MarkerOutcome::Changed) => println!("{file} released by {by}: {}", args.reason),
            Ok(MarkerOutcome::Unchanged | MarkerOutcome::NoDirectory) => {
                println!("{file} was not held; recorded, so that it will not be");
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

fn held_by_us(found: &Found) -> Vec<String> {
    found
        .markers
        .iter()
        .filter(|marker| marker.content.as_deref().and_then(Mark::parse).is_some())
        .filter_map(|marker| marker.path.strip_suffix(MARKER_SUFFIX))
        .map(str::to_owned)
        .collect()
}

fn is_foreign(found: &Found, path: &str) -> bool {
    found.markers.iter().any(|marker| {
        marker.path == path && marker.content.as_deref().and_then(Mark::parse).is_none()
    })
}

fn refuse(file: &str, path: &str) {
    eprintln!(
        "windrow: {file}: {path} is a marker that Windrow did not make (Harvester makes such markers \
         during upgrades); it is left alone. If you know that nobody needs it any more, remove it \
         with rm"
    );
}

/// Lifts what may be lifted. Runs when everything else has failed, so nothing here gives up: each
/// marker that cannot be handled is named, and the next one is taken.
fn failsafe(context: &Context) -> Exit {
    let lift = Lift {
        all: false,
        by: FAILSAFE,
        reason: "Windrow could not run",
    };
    lift.everywhere(context)
}

/// Which holds are lifted, and what is recorded about it.
pub(super) struct Lift {
    /// Also those that the fail-safe has to keep.
    pub(super) all: bool,
    /// Who.
    pub(super) by: &'static str,
    /// Why.
    pub(super) reason: &'static str,
}

impl Lift {
    /// In RKE2's default data directory and in the configured one.
    pub(super) fn everywhere(&self, context: &Context) -> Exit {
        let mut directories = vec![context.layout.manifests()];
        // A configuration that cannot be loaded must not keep the default directory's holds in place.
        let configured = std::panic::catch_unwind(|| context.manifests());
        directories.extend(configured.ok().filter(|one| *one != directories[0]));
        let mut exit = Exit::Ok;
        for directory in directories {
            if !self.below(context, &directory) {
                exit = Exit::Failure;
            }
        }
        exit
    }

    fn below(&self, context: &Context, directory: &Path) -> bool {
        if !directory.exists() {
            println!("{} does not exist: nothing to lift", directory.display());
            return true;
        }
        let found = match look(directory, now()) {
            Ok(found) => found,
            Err(error) => {
                eprintln!("windrow: {error:#}");
                return false;
            }
        };
        let markers = Markers::new(directory);
        let mut fine = true;
        let (mut lifted, mut kept) = (0, 0);
        for marker in &found.markers {
            let Some(mark) = marker.content.as_deref().and_then(Mark::parse) else {
                println!("kept   {}: Windrow did not make it", marker.path);
                kept += 1;
                continue;
            };
            let harms = mark.on_failure == OnFailure::Keep;
            if harms && !self.all {
                println!("kept   {}: {} (onFailure: keep)", marker.path, mark.why);
                kept += 1;
                continue;
            }
            match markers.remove(&marker.path) {
                Ok(
                    MarkerOutcome::Changed | MarkerOutcome::Unchanged | MarkerOutcome::NoDirectory,
                ) => {
                    println!("lifted {}: {}", marker.path, mark.why);
                    lifted += 1;
                    if harms {
                        println!(
                            "       RKE2 applies {} at its next pass, which may do harm: {} keeps a \
                             file from it without Windrow",
                            mark.file, marker.path
                        );
                    }
                    // Released stays released, also when the daemon comes back. A spool that cannot be
                    // written keeps nothing from being lifted.
                    let recorded = request(
                        context,
                        RequestAction::Release,
                        &mark.file,
                        self.by,
                        now(),
                        self.reason,
                    );
                    if let Err(error) = recorded {
                        println!("       not recorded: {error:#}");
                    }
                }
                Ok(MarkerOutcome::Foreign) => {
                    println!("kept   {}: Windrow did not make it", marker.path);
                    kept += 1;
                }
                Err(error) => {
                    eprintln!("windrow: {}: {error}", marker.path);
                    fine = false;
                }
            }
        }
        println!("{lifted} lifted, {kept} kept in {}", directory.display());
        fine
    }
}
