//! The inputs of `windrow knowledge learn`: flights, reports, knowledge files, and directories of them. An unreadable
//! file is reported with its reason, and the rest is used.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use windrow_learn::{BootSet, KnowledgeFile, ObservedBoot, observe};
use windrow_replay::Flights;

use crate::archive::{Archive, LARGEST_FLIGHT, Packed, read_flights};
use crate::cli::inputs::{is_standard_input, standard_input};
use crate::files::read_at_most;
use crate::fs;
use crate::json_values::ValueBudget;

/// Most files of all directories, and how deep they go.
const MOST_FILES: usize = 20_000;
const DEEPEST: usize = 16;
/// How a file that was packed begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// A report's flights, the older one first.
const IN_REPORT: [&str; 2] = ["windrow/state/flight.jsonl.1", "windrow/state/flight.jsonl"];
/// A boot that began later than this from now was recorded by a wrong clock.
const AHEAD: SignedDuration = SignedDuration::from_hours(48);
/// Progress is printed after this many files.
const STEP: usize = 25;

#[derive(Debug, Default)]
pub(in crate::cli) struct Gathered {
    pub(in crate::cli) boots: BootSet,
    /// The inputs that could not be used, a sentence each.
    pub(in crate::cli) unread: Vec<String>,
}

pub(in crate::cli) fn gather(named: &[PathBuf]) -> Gathered {
    let mut gathered = Gathered::default();
    let mut found = Found::default();
    for path in named {
        found.take_named(path, &mut gathered.unread);
    }
    let total = found.files.len();
    let tells = total >= STEP && io::stderr().is_terminal();
    for (done, (file, sort)) in found.files.iter().enumerate() {
        if tells && done % STEP == 0 {
            eprintln!("windrow: {done} of {total} files read");
        }
        // What may be the older half of a flight is read with the newer one.
        if !found.is_older_half(file) {
            gathered.read(file, *sort, found.older_half(file));
        }
    }
    gathered
}

/// How a file became an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// It was on the command line: it has to be usable.
    Named,
    /// It is in a directory: files that clearly do not belong to Windrow are skipped with a message.
    Listed,
}

#[derive(Debug, Default)]
struct Found {
    files: BTreeMap<PathBuf, Sort>,
    is_full: bool,
}

impl Found {
    fn take_named(&mut self, path: &Path, unread: &mut Vec<String>) {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => self.walk(path, 0, unread),
            // An unreadable file is reported when it is read.
            _ => {
                self.files.insert(path.to_owned(), Sort::Named);
            }
        }
    }

    fn walk(&mut self, directory: &Path, depth: usize, unread: &mut Vec<String>) {
        let shown = directory.display();
        if depth > DEEPEST {
            unread.push(format!(
                "{shown}: more than {DEEPEST} directories deep: not read"
            ));
            return;
        }
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => {
                unread.push(format!("{shown}: cannot be read: {error}"));
                return;
            }
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(sort) = entry.file_type() else {
                unread.push(format!("{}: cannot be read", path.display()));
                continue;
            };
            if sort.is_dir() {
                self.walk(&path, depth + 1, unread);
            } else if !sort.is_file() {
                let what = if sort.is_symlink() {
                    "a link"
                } else {
                    "not a regular file"
                };
                unread.push(format!("{}: {what}: not read", path.display()));
            } else if self.files.len() < MOST_FILES {
                self.files.entry(path).or_insert(Sort::Listed);
            } else if !self.is_full {
                self.is_full = true;
                unread.push(format!(
                    "{shown}: there are more than {MOST_FILES} files: the rest is not read"
                ));
            }
        }
    }

    fn older_half(&self, file: &Path) -> Option<(PathBuf, Sort)> {
        let mut older = file.as_os_str().to_owned();
        older.push(".1");
        let older = PathBuf::from(older);
        let sort = *self.files.get(&older)?;
        Some((older, sort))
    }

    fn is_older_half(&self, file: &Path) -> bool {
        let newer = file.to_str().and_then(|name| name.strip_suffix(".1"));
        newer
            .map(Path::new)
            .is_some_and(|newer| self.files.contains_key(newer) && !self.is_older_half(newer))
    }
}

impl Gathered {
    /// Reads a file, and the file that may be its older half: two halves of a boot log are one input, anything else is read separately.
    fn read(&mut self, file: &Path, sort: Sort, older: Option<(PathBuf, Sort)>) {
        let older = older.and_then(|(older, sort)| self.read_one(&older, sort));
        let newer = self.read_one(file, sort);
        let parts: Vec<_> = older.into_iter().chain(newer).collect();
        if !parts.is_empty() {
            self.take_flights(parts);
        }
    }

    /// Reads a file: its name and its bytes if it is to be read as a flight.
    fn read_one(&mut self, file: &Path, sort: Sort) -> Option<(String, Vec<u8>)> {
        let shown = file.display().to_string();
        let bytes = match read_bounded(file) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.unread
                    .push(format!("{shown}: cannot be read: {error}"));
                return None;
            }
        };
        if bytes.starts_with(&GZIP) {
            match Packed::read(&bytes, &IN_REPORT) {
                Ok(Packed::Flight(bytes)) => return Some((shown, bytes)),
                Ok(Packed::Report(archive)) => self.read_report(&shown, archive),
                Err(error) => self.unread.push(format!("{shown}: {error}")),
            }
            return None;
        }
        let is_flight = bytes.starts_with(b"{");
        if !is_flight && let Ok(text) = std::str::from_utf8(&bytes) {
            if let Some(learned) = KnowledgeFile::read(text) {
                self.take_knowledge(&shown, learned);
                return None;
            }
            if sort == Sort::Listed {
                let why = "not a boot log, a report or a knowledge file: not read";
                self.unread.push(format!("{shown}: {why}"));
                return None;
            }
        }
        Some((shown, bytes))
    }

    fn read_report(&mut self, shown: &str, mut archive: Archive) {
        let parts = IN_REPORT.iter().filter_map(|name| {
            let bytes = archive.files.remove(*name)?;
            Some((format!("{shown}: {name}"), bytes))
        });
        let parts: Vec<_> = parts.collect();
        match parts.is_empty() {
            true => self
                .unread
                .push(format!("{shown}: this report has no boot log")),
            false => self.take_flights(parts),
        }
    }

    fn take_knowledge(&mut self, shown: &str, file: KnowledgeFile) {
        let refused = file.refused.into_iter();
        self.unread
            .extend(refused.map(|why| format!("{shown}: {why}")));
        match file.boots {
            Some(boots) => boots
                .into_iter()
                .for_each(|boot| self.take_boot(shown, boot)),
            None => self.unread.push(format!(
                "{shown}: it has no `boots`: it is hand-written, and is not merged"
            )),
        }
    }

    /// The parts of one flight, the older one first.
    fn take_flights(&mut self, parts: Vec<(String, Vec<u8>)>) {
        let mut flights = Flights {
            segments: Vec::new(),
            damage: Vec::new(),
        };
        let mut named = String::new();
        let mut budget = ValueBudget::of_flights();
        for (name, bytes) in parts {
            match read_flights(&bytes, &mut budget) {
                Ok(one) => {
                    flights.segments.extend(one.segments);
                    let damage = one.damage.iter();
                    self.unread
                        .extend(damage.map(|why| format!("{name}: {why}")));
                }
                Err(why) => self.unread.push(format!("{name}: {why}")),
            }
            named = name;
        }
        let observed = observe(&flights);
        let refused = observed.refused.iter();
        self.unread
            .extend(refused.map(|why| format!("{named}: {why}")));
        for boot in observed.boots {
            self.take_boot(&named, boot);
        }
    }

    fn take_boot(&mut self, shown: &str, boot: ObservedBoot) {
        if boot.at.duration_since(Timestamp::now()) > AHEAD {
            self.unread.push(format!(
                "{shown}: the boot {} began in the future ({}): its clock was wrong, so this boot is omitted",
                boot.id, boot.at
            ));
            return;
        }
        self.boots.add(boot);
    }
}

/// A regular file of a sane size; a pipe or a device must neither block nor fill the memory.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    if is_standard_input(path) {
        return standard_input(LARGEST_FLIGHT).map_err(io::Error::other);
    }
    read_at_most(path, LARGEST_FLIGHT)
}
