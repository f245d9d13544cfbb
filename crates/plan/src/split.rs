//! Documents that should be in another file. A file contains documents that others require early, and documents that
//! come too early there. Then no name of the whole file lets RKE2 apply everything in one pass.
//!
//! It is a proposal, which is tested by playing the pass.

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::manifest::ManifestPath;

use super::names::can_be_held;
use super::{FileId, Plan, PlanFile, Requirement, SatisfiedBy};
use crate::graph::Graph;
use crate::rules::Tier;

/// Most files that are split or renamed. Users change no more, and hostile input must not cost more.
const MOST_MOVES: usize = 24;
/// Most objects that are checked, for the same reason.
const MOST_OBJECTS: usize = 20_000;

/// A part that moves out of a file, to be applied after all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedPart {
    pub file: FileId,
    pub to: ManifestPath,
    /// The lines of the objects that move; empty if the whole file moves.
    pub lines: BTreeSet<u32>,
}

/// Longest chain of documents that require one another.
const MOST_ROUNDS: usize = 64;

/// The documents of each file that come too early in their place.
type LateDocuments = BTreeMap<FileId, BTreeSet<usize>>;

impl Plan {
    /// Proposes which documents should move into which file, in the order in which RKE2 then applies these. Empty if
    /// names are sufficient, and if no move helps.
    pub fn advise_split(&self) -> Vec<MovedPart> {
        let objects: usize = self.files.iter().map(|file| file.documents.len()).sum();
        if objects > MOST_OBJECTS {
            return Vec::new();
        }
        let mut late = self.late_documents();
        if late.is_empty() || late.len() > MOST_MOVES {
            return Vec::new();
        }
        for (file, documents) in &mut late {
            if !self.is_needed_early(*file, documents) {
                *documents = (0..self.files[*file].documents.len()).collect();
            }
        }
        let all =
            |file: FileId, late: &BTreeSet<usize>| late.len() == self.files[file].documents.len();
        if late.iter().all(|(file, documents)| all(*file, documents)) {
            return Vec::new();
        }
        let Some(order) = self.order_parts(&late) else {
            return Vec::new();
        };
        let kept: Vec<FileId> = order
            .iter()
            .filter(|file| !all(**file, &late[*file]))
            .copied()
            .collect();
        let Some(paths) = self.name_behind(&order, &kept) else {
            return Vec::new();
        };
        let parts = order.into_iter().zip(paths);
        let part = |(file, to): (FileId, ManifestPath)| MovedPart {
            file,
            to,
            lines: match kept.contains(&file) {
                true => self.lines_of(file, &late[&file]),
                false => BTreeSet::new(),
            },
        };
        parts.map(part).collect()
    }

    fn lines_of(&self, file: FileId, documents: &BTreeSet<usize>) -> BTreeSet<u32> {
        let all = &self.files[file].documents;
        documents
            .iter()
            .map(|document| all[*document].line)
            .collect()
    }

    /// The documents whose needs the order of the files does not meet, and those that require one of them.
    fn late_documents(&self) -> LateDocuments {
        let mut late = LateDocuments::new();
        for _ in 0..MOST_ROUNDS {
            let mut more = Vec::new();
            for (id, file) in self.files.iter().enumerate() {
                if !can_move(file) {
                    continue;
                }
                for (number, document) in file.documents.iter().enumerate() {
                    let known = late.get(&id).is_some_and(|known| known.contains(&number));
                    let mut requires = document.requires.iter();
                    if !known && requires.any(|one| self.comes_too_late(id, one, &late)) {
                        more.push((id, number));
                    }
                }
            }
            if more.is_empty() {
                return late;
            }
            for (id, number) in more {
                late.entry(id).or_default().insert(number);
            }
        }
        // A longer chain is not followed to its end, and nothing is proposed.
        LateDocuments::new()
    }

    /// Whether the target of a requirement comes later, although the order of the files could place it before.
    fn comes_too_late(&self, id: FileId, requirement: &Requirement, late: &LateDocuments) -> bool {
        let Some((provider, document)) = self.provider_of(id, requirement) else {
            return false;
        };
        let is_late = late
            .get(&provider)
            .is_some_and(|late| late.contains(&document));
        if is_late || provider != id {
            return is_late || provider > id;
        }
        // RKE2 looks up the kinds of a file before it applies anything of it. Other documents in a wrong order require
        // another order in the same file, and no second file.
        requirement.tier == Tier::Required && self.is_kind(requirement)
    }

    /// The document that meets a requirement of a file as soon as it is applied, if only an order is required.
    fn provider_of(&self, id: FileId, requirement: &Requirement) -> Option<(FileId, usize)> {
        let (file, line) = match requirement.satisfied_by {
            SatisfiedBy::File { file, line } => (file, line),
            SatisfiedBy::SameFile { line } => (id, line),
            _ => return None,
        };
        let documents = &self.files[file].documents;
        let document = documents.binary_search_by_key(&line, |document| document.line);
        Some((file, document.ok()?)).filter(|_| requirement.at_once)
    }

    /// Whether anything requires documents of a file other than its late ones.
    fn is_needed_early(&self, id: FileId, late: &BTreeSet<usize>) -> bool {
        self.files.iter().enumerate().any(|(other, file)| {
            let mut requirements = file.requirements();
            requirements.any(|requirement| {
                let provider = self.provider_of(other, requirement);
                provider.is_some_and(|(file, document)| file == id && !late.contains(&document))
            })
        })
    }

    /// The moving parts, each after those that it requires; `None` if they require one another.
    fn order_parts(&self, late: &LateDocuments) -> Option<Vec<FileId>> {
        let mut files: Vec<FileId> = late.keys().copied().collect();
        // Among the parts that require none of the others, one that requires a kind comes last: the kind takes its
        // time.
        files.sort_by_key(|file| self.needs_kinds(*file, |number| late[file].contains(&number)));
        let mut graph = Graph::new(files.len());
        for (from, file) in files.iter().enumerate() {
            for number in &late[file] {
                for requirement in &self.files[*file].documents[*number].requires {
                    let provider = self.provider_of(*file, requirement);
                    let moved = provider.filter(|(other, document)| {
                        other != file && late.get(other).is_some_and(|late| late.contains(document))
                    });
                    let to =
                        moved.and_then(|(other, _)| files.iter().position(|one| *one == other));
                    if let Some(to) = to {
                        graph.add(from, to);
                    }
                }
            }
        }
        let order = graph.knots().is_empty().then(|| graph.order())?;
        Some(order.into_iter().map(|number| files[number]).collect())
    }
}

/// Whether documents of a file can move into another. RKE2 has to apply the whole file, and nothing else may decide
/// about it.
fn can_move(file: &PlanFile) -> bool {
    can_be_held(file) && file.trouble.is_none()
}
