//! Names that avoid holds: the number of passes that RKE2 needs for the files under their names, and under other names.
//!
//! RKE2 applies the files in byte order of their paths. A file that sorts before its provider is held through a pass;
//! one that sorts after it is not. So a name is enough if the right order meets the need.
//!
//! A new name is for an image that has not booted yet. An Addon has the name of its file: on a node that has booted,
//! RKE2 treats the renamed file as a new one, which takes over the objects, and leaves the Addon of the old name.

use std::collections::BTreeSet;
use std::time::Duration;

use windrow_model::manifest::{AddonName, ManifestPath};

use super::{FileId, NextPass, Plan, PlanFile, Requirement, SatisfiedBy, TakenFiles, TakenUp};
use crate::rules::NeedTarget;

/// The time from the end of one of RKE2's passes to the next (k3s `pkg/deploy/controller.go`, `start`).
const POLL: Duration = Duration::from_secs(15);
/// Most passes that are counted, and most files that are moved. Users rename no more, and hostile input must not cost
/// more.
const MOST_PASSES: usize = 16;
const MOST_MOVES: usize = 24;

/// The effect of other names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameAdvice {
    /// The files that should be renamed, in the order in which RKE2 then applies them.
    pub renames: Vec<Rename>,
    /// The number of passes that RKE2 needs for the files whose needs the directory itself meets.
    pub passes: usize,
    /// The number of passes with these names.
    pub passes_then: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rename {
    pub file: FileId,
    pub to: ManifestPath,
}

impl NameAdvice {
    /// The time that the names save: one poll for each pass.
    pub fn saves(&self) -> Duration {
        POLL * u32::try_from(self.passes - self.passes_then).unwrap_or(u32::MAX)
    }

    /// The path under which RKE2 would apply a file after its providers.
    pub fn new_path_of(&self, file: FileId) -> Option<&ManifestPath> {
        let rename = self.renames.iter().find(|rename| rename.file == file);
        rename.map(|rename| &rename.to)
    }
}

/// Whether another name would avoid the hold of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldAdvice {
    Name(ManifestPath),
    /// No name would, for this reason.
    NoName(&'static str),
}

impl Plan {
    /// Finds names with which RKE2 needs fewer passes; empty if there are none.
    pub(super) fn find_names(&self) -> NameAdvice {
        let order: Vec<FileId> = (0..self.files.len()).collect();
        let passes = last(&self.passes(&order));
        let mut advice = NameAdvice {
            renames: Vec::new(),
            passes,
            passes_then: passes,
        };
        if passes < 2 {
            return advice;
        }
        let moved = self.files_to_move(order.clone());
        let Some(paths) = self.name_behind(&moved, &[]) else {
            return advice;
        };
        let renames = moved.iter().zip(paths);
        let renames = renames.map(|(&file, to)| Rename { file, to }).collect();
        let stays = |file: &FileId| !moved.contains(file);
        let then: Vec<FileId> = order
            .into_iter()
            .filter(stays)
            .chain(moved.clone())
            .collect();
        let passes_then = last(&self.passes(&then));
        if passes_then < passes {
            advice.renames = renames;
            advice.passes_then = passes_then;
        }
        advice
    }

    /// For a file that is held on a fresh node: whether another name would have avoided that.
    pub fn advise_on_hold(&self, id: FileId) -> HoldAdvice {
        if let Some(path) = self.names.new_path_of(id) {
            return HoldAdvice::Name(path.clone());
        }
        let file = &self.files[id];
        let mut requirements = file.requirements().filter(|one| one.takes_part());
        let by_order = |requirement: &Requirement| {
            requirement.at_once && matches!(requirement.satisfied_by, SatisfiedBy::File { .. })
        };
        HoldAdvice::NoName(match () {
            () if !can_be_held(file) => "its dependencies are not the reason for the hold",
            () if !requirements.all(by_order) => {
                "it waits for more than another file order can provide"
            }
            () => "its dependencies would not exist in an earlier pass either",
        })
    }

    /// The files whose needs the directory itself meets: names can move these to an earlier pass.
    pub fn files_met_by_files(&self) -> impl Iterator<Item = FileId> {
        let order: Vec<FileId> = (0..self.files.len()).collect();
        let passes = self.passes(&order).into_iter().enumerate();
        passes.filter_map(|(id, pass)| pass.map(|_| id))
    }

    /// The pass in which RKE2 applies each file if it processes them in this order and Windrow holds those that are too
    /// early. `None` for a file that waits for something outside the directory's own files, and for files that wait for
    /// such a file.
    fn passes(&self, order: &[FileId]) -> Vec<Option<usize>> {
        let mut passes: Vec<Option<usize>> = vec![None; self.files.len()];
        for number in 1..=MOST_PASSES {
            let taken = self.play_pass(|whole| {
                let mut pass = NextPass::new(self, whole);
                let mut taken = TakenFiles::new();
                for &id in order {
                    let waits = passes[id].is_none() && can_be_held(&self.files[id]);
                    if waits && self.is_free(id, &passes, &pass) {
                        pass.take_up(id, TakenUp::FIRST);
                        taken.insert(id, TakenUp::FIRST);
                    }
                }
                (taken.clone(), taken)
            });
            if taken.is_empty() {
                return passes;
            }
            for id in taken.into_keys() {
                passes[id] = Some(number);
            }
        }
        // More passes than this are not counted, and nothing is advised.
        vec![None; self.files.len()]
    }

    /// Whether all requirements of a file are met, by an earlier pass or by this one.
    fn is_free(&self, id: FileId, applied: &[Option<usize>], pass: &NextPass<'_>) -> bool {
        let mut requirements = self.files[id].requirements();
        requirements.all(|requirement| {
            !requirement.takes_part()
                || pass.meets(id, requirement, false)
                || matches!(requirement.satisfied_by, SatisfiedBy::File { file, .. } if applied[file].is_some())
        })
    }

    /// Whether RKE2's first pass over a file fails under any name, because the file has a definition and objects of its
    /// kind.
    fn fails_by_itself(&self, id: FileId) -> bool {
        let mut requirements = self.files[id].requirements();
        requirements.any(|requirement| {
            let by_itself = matches!(requirement.satisfied_by, SatisfiedBy::SameFile { .. });
            by_itself && requirement.at_once && self.is_kind(requirement)
        })
    }

    /// Whether any of these documents of a file requires a kind that a file provides.
    pub(super) fn needs_kinds(&self, id: FileId, chosen: impl Fn(usize) -> bool) -> bool {
        let documents = self.files[id].documents.iter().enumerate();
        let mut requirements = documents
            .filter(|(number, _)| chosen(*number))
            .flat_map(|(_, document)| &document.requires);
        requirements.any(|requirement| requirement.at_once && self.is_kind(requirement))
    }

    pub(super) fn is_kind(&self, requirement: &Requirement) -> bool {
        matches!(self.needs[requirement.need].target, NeedTarget::Kind(_))
    }

    /// The files that would be in the first pass after all others, each after its providers.
    fn files_to_move(&self, mut order: Vec<FileId>) -> Vec<FileId> {
        let mut moved: Vec<FileId> = Vec::new();
        // Each file moves once: if it is still too early at the end, no name can change that.
        for _ in 0..MOST_MOVES {
            let passes = self.passes(&order);
            let late = order.iter().filter(|file| {
                let is_late = passes[**file].is_some_and(|pass| pass > 1);
                is_late && !moved.contains(file) && !self.fails_by_itself(**file)
            });
            // A file with fewer waits comes before those that wait for it, and a file that requires a kind comes last:
            // the kind takes its time.
            let key = |file: &&FileId| (passes[**file], self.needs_kinds(**file, |_| true));
            let Some(&file) = late.min_by_key(key) else {
                break;
            };
            order.retain(|other| *other != file);
            order.push(file);
            moved.push(file);
        }
        let passes = self.passes(&order);
        order.retain(|file| moved.contains(file) && passes[*file] == Some(1));
        order
    }

    /// Names for the parts that move from these files. They sort in this order and after all other files; `None` if
    /// there are none. The files of `kept` keep some of their documents under their own names, the others do not.
    pub(super) fn name_behind(
        &self,
        moved: &[FileId],
        kept: &[FileId],
    ) -> Option<Vec<ManifestPath>> {
        if moved.is_empty() {
            return None;
        }
        let by_name = |file: &FileId| self.files[*file].path.name();
        let is_ordered = moved.is_sorted_by_key(by_name);
        let digits = moved.len().to_string().len();
        ["zz", "zzz", "zzzz"].into_iter().find_map(|letters| {
            let paths = moved.iter().enumerate().map(|(position, &file)| {
                let prefix = match is_ordered {
                    true => format!("{letters}-"),
                    false => format!("{letters}{:0digits$}-", position + 1),
                };
                let path = self.files[file].path.as_str();
                let (directory, name) = match path.rsplit_once('/') {
                    Some((directory, name)) => (format!("{directory}/"), name),
                    None => (String::new(), path),
                };
                ManifestPath::from(format!("{directory}{prefix}{name}").as_str())
            });
            let paths: Vec<ManifestPath> = paths.collect();
            let stays = |id: &FileId| kept.contains(id) || !moved.contains(id);
            self.are_usable(&paths, stays).then_some(paths)
        })
    }

    /// Whether the new paths sort in this order and after all files that stay, and each Addon's name is still unique.
    fn are_usable(&self, paths: &[ManifestPath], stays: impl Fn(&FileId) -> bool) -> bool {
        let stay = (0..self.files.len()).filter(stays);
        let stay: Vec<&PlanFile> = stay.map(|id| &self.files[id]).collect();
        let last = stay.iter().map(|file| &file.path).max();
        let mut addons: BTreeSet<AddonName> = stay.iter().map(|file| file.addon.clone()).collect();
        last < paths.first()
            && paths.is_sorted()
            && paths.iter().all(|path| addons.insert(path.addon()))
    }
}

/// Whether only its requirements decide about a file.
pub(super) fn can_be_held(file: &PlanFile) -> bool {
    file.owner.is_none()
        && file.skipped.is_none()
        && file.refused.is_none()
        && file.hold.is_none()
        && !file.harmful
}

fn last(passes: &[Option<usize>]) -> usize {
    passes.iter().flatten().copied().max().unwrap_or_default()
}
