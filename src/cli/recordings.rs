//! Boot logs for the verbs that read them: a file, a compressed copy, or the archive of `windrow report`.

use std::path::Path;

use windrow_replay::Flights;

use super::Exit;
use super::inputs::{is_standard_input, standard_input};
use crate::archive::{LARGEST_FLIGHT, Packed, read_flights};
use crate::files::read_at_most;
use crate::json_values::ValueBudget;

/// How a file that was packed begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// A report's flights, the older one first.
const IN_REPORT: [&str; 2] = ["windrow/state/flight.jsonl.1", "windrow/state/flight.jsonl"];

/// Why there are no recordings, and the exit code.
pub(super) struct Unreadable {
    pub(super) why: String,
    pub(super) exit: Exit,
}

impl Unreadable {
    pub(super) fn usage(why: String) -> Self {
        let exit = Exit::Usage;
        Self { why, exit }
    }
}

/// The recordings in a boot log or in an archive of `windrow report`.
pub(super) fn read(path: &Path) -> Result<Flights, Unreadable> {
    let shown = path.display();
    let bytes = match is_standard_input(path) {
        true => standard_input(LARGEST_FLIGHT).map_err(Unreadable::usage)?,
        false => read_at_most(path, LARGEST_FLIGHT)
            .map_err(|error| Unreadable::usage(format!("{shown}: cannot be read: {error}")))?,
    };
    if !bytes.starts_with(&GZIP) {
        return flights([(shown.to_string(), bytes)]);
    }
    let mut archive = match Packed::read(&bytes, &IN_REPORT)
        .map_err(|error| Unreadable::usage(format!("{shown}: {error}")))?
    {
        Packed::Report(archive) => archive,
        Packed::Flight(bytes) => return flights([(shown.to_string(), bytes)]),
    };
    let found = IN_REPORT.map(|name| Some((name.to_owned(), archive.files.remove(name)?)));
    if found.iter().all(Option::is_none) {
        return Err(Unreadable {
            why: format!(
                "{shown}: this report has no boot log: there was none on {}",
                archive.index.host
            ),
            exit: Exit::Unknown,
        });
    }
    flights(found.into_iter().flatten())
}

/// The recordings of several files, the oldest first. A file that is not a boot log does not affect the others.
pub(super) fn flights(
    files: impl IntoIterator<Item = (String, Vec<u8>)>,
) -> Result<Flights, Unreadable> {
    let mut all = Flights {
        segments: Vec::new(),
        damage: Vec::new(),
    };
    let mut budget = ValueBudget::of_flights();
    for (name, bytes) in files {
        match read_flights(&bytes, &mut budget) {
            Ok(one) => {
                all.segments.extend(one.segments);
                let damage = one.damage.iter();
                all.damage
                    .extend(damage.map(|why| format!("{name}: {why}")));
            }
            Err(why) => all.damage.push(format!("{name}: {why}")),
        }
    }
    match all.segments.is_empty() {
        true => Err(Unreadable::usage(all.damage.join("\n"))),
        false => Ok(all),
    }
}
