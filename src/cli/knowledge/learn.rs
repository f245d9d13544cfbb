//! `windrow knowledge learn`: turns recorded boots into knowledge, as readable data.

mod inputs;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use windrow_learn::{BootSet, KnowledgeFile, MOST_BOOTS, ObservedBoot, Summary};

use self::inputs::{Gathered, gather};
use super::super::out::print_whole;
use super::super::{Exit, complain};
use crate::files::{Durability, read_text, replace};

/// Learn providers and durations from recorded boots
///
/// Learns which component provides which kinds and objects, and how long each step takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Boot logs, archives of `windrow report`, learned knowledge files, or directories of them
    #[arg(value_name = "FLIGHT|REPORT|DIRECTORY", required = true)]
    from: Vec<PathBuf>,
    /// The file to write: the learned knowledge [default: standard output]
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let before = match args.output_file.as_deref().map(boots_to_replace) {
        None => Vec::new(),
        Some(Ok(boots)) => boots,
        Some(Err(why)) => {
            complain(&[why]);
            return Ok(Exit::Usage);
        }
    };
    let Gathered { boots, unread } = gather(&args.from);
    complain(&unread);
    if boots.is_empty() {
        complain(&["the inputs have no boot: Windrow learned nothing and wrote nothing"]);
        return Ok(Exit::Unknown);
    }
    let summary = Summary::of_boots(&boots);
    eprintln!("windrow: {}", words_of(&boots, &summary));
    let lost = before.iter().filter(|boot| boots.lacks(boot)).count();
    let text = summary.text();
    match &args.output_file {
        None => print_whole(&text)?,
        // A bare name has no directory; its absolute path has.
        Some(path) => std::path::absolute(path)
            .and_then(|path| replace(&path, text.as_bytes(), 0o644, Durability::Durable))
            .with_context(|| format!("cannot write {}", path.display()))?,
    }
    if let Some(path) = args.output_file.as_deref().filter(|_| lost > 0) {
        let shown = path.display();
        eprintln!(
            "windrow: {shown}: it had boots that are in none of the inputs: {lost}; they are removed"
        );
    }
    Ok(match unread.is_empty() {
        true => Exit::Ok,
        false => Exit::Unknown,
    })
}

/// The boots of a file that is to be written over.
///
/// # Errors
/// The reason against it: it is hand-written, it is something else, or it has boots that this program would omit.
fn boots_to_replace(path: &Path) -> Result<Vec<ObservedBoot>, String> {
    let shown = path.display();
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{shown}: is not overwritten: {error}")),
    };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let file = KnowledgeFile::read(&text).unwrap_or_default();
    let Some(boots) = file.boots else {
        return Err(format!(
            "{shown}: is not overwritten: it has no `boots`, so `windrow knowledge learn` did not write it; set another file with --output-file"
        ));
    };
    match file.refused.first() {
        None => Ok(boots),
        Some(why) => {
            let why = why.split(": the boot").next().unwrap_or(why);
            Err(format!(
                "{shown} is not overwritten, because it has boots that this version of Windrow cannot read ({why}); set another file with --output-file"
            ))
        }
    }
}

fn words_of(boots: &BootSet, summary: &Summary) -> String {
    let many = |count: usize, one: &str, more: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {more}"),
    };
    let used = summary.boots.len();
    let left = match boots.len() - used {
        0 => String::new(),
        _ => format!(" (without the oldest: a file has at most {MOST_BOOTS} boots, and 2.5 MiB)"),
    };
    format!(
        "{}{left}: {}, {}, {}",
        many(used, "boot", "boots"),
        many(summary.entries.len(), "entry", "entries"),
        many(summary.phases.len(), "phase", "phases"),
        many(summary.refusals.len(), "refusal", "refusals")
    )
}
