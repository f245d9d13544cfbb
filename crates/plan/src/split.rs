//! Documents that should stand in another file: what is needed early and what comes too early there share a file, so that no name of the
//! whole file lets RKE2 apply everything in one pass.
//!
//! It is a proposal. Whether it helps is found out by playing it.

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::manifest::ManifestPath;

use super::names::can_be_held;
use super::{FileId, Plan, PlanFile, Requirement, SatisfiedBy};
use crate::graph::Graph;
use crate::rules::Tier;

/// Most files that are split or renamed. A person changes no more, and hostile input must not cost more.
const MOST_MOVES: usize = 24;
/// Most objects that are looked at, for the same reason.
const MOST_OBJECTS: usize = 20_000;

/// What moves out of a file, to be applied behind all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedPart {
    /// Out of which.
    pub file: FileId,
    /// Where to.
    pub to: ManifestPath,
    /// The lines of the objects that move; empty where the whole file does.
    pub lines: BTreeSet<u32>,
}

/// Most documents that need one another in a row.
const MOST_ROUNDS: usize = 64;

/// The documents of each file that come too early where they stand.
type LateDocuments = BTreeMap<FileId, BTreeSet<usize>>;

impl Plan {
    /// Proposes which documents should move into which file, in the order in which RKE2 then applies these. Empty where names suffice and
    /// where nothing is seen to help.
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

    /// The documents whose needs the order of the files does not meet, and those that need one of them.
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
        // So long a chain is not followed to its end, and nothing is proposed.
        LateDocuments::new()
    }

    /// Does what a document needs come later, though the order of the files could have it come before?
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
        // RKE2 looks up the kinds of a file before it applies anything of it. What else stands in one file in a wrong order needs another
        // order there, and no second file.
        requirement.tier == Tier::Required && self.is_kind(requirement)
    }

    /// The document that meets a requirement of a file by being applied, where an order is all that is asked for.
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

    /// Does anything need what a file brings beside its late documents?
    fn is_needed_early(&self, id: FileId, late: &BTreeSet<usize>) -> bool {
        self.files.iter().enumerate().any(|(other, file)| {
            let mut requirements = file.requirements();
            requirements.any(|requirement| {
                let provider = self.provider_of(other, requirement);
                provider.is_some_and(|(file, document)| file == id && !late.contains(&document))
            })
        })
    }

    /// The parts that move, each behind those that it needs; `None` where they need one another.
    fn order_parts(&self, late: &LateDocuments) -> Option<Vec<FileId>> {
        let mut files: Vec<FileId> = late.keys().copied().collect();
        // Of those that need none of the others, what needs a kind comes last: the kind needs its time.
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

/// Can documents of a file move into another? RKE2 has to apply the file, all of it, and nothing else may decide about it.
fn can_move(file: &PlanFile) -> bool {
    can_be_held(file) && file.trouble.is_none()
}
