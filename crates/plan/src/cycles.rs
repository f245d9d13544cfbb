//! Files that wait for each other. A cycle of required edges is proved and yields; an advisory edge that would close a
//! cycle yields silently.

use std::collections::{BTreeSet, HashMap};

use windrow_model::findings::Location;
use windrow_model::reasons::Code;

use super::graph::Graph;
use super::link::{DocumentId, Linker};
use super::{FileId, SatisfiedBy};
use crate::rules::Tier;

/// Most cycles that are reported one by one; the rest of a knot then yields as a whole. You can only fix one after the
/// other anyway, and hostile input must not cost more.
const MOST_CYCLES: usize = 64;
/// Most members of a knot from which a shortest cycle is searched.
const MOST_SEARCHES: usize = 256;

impl Linker<'_> {
    /// The graph of files that wait for each other, with only the required edges.
    pub(super) fn required_graph(&self) -> Graph {
        let mut graph = Graph::new(self.plan.files.len());
        for (file, provider, _) in self.file_edges(Tier::Required) {
            graph.add(file, provider);
        }
        graph
    }

    /// `(file, provider, rank)` of every requirement of a tier between two files, without those that are only learned.
    fn file_edges(&self, tier: Tier) -> Vec<(FileId, FileId, bool)> {
        let mut edges = Vec::new();
        for (id, file) in self.plan.files.iter().enumerate() {
            for requirement in file.requirements() {
                if let SatisfiedBy::File { file: provider, .. } = requirement.satisfied_by
                    && requirement.tier == tier
                    && !requirement.is_only_learned()
                {
                    edges.push((id, provider, requirement.inferred));
                }
            }
        }
        edges
    }

    /// Reports each cycle of required edges as one shortest cycle and lets its edges yield: files that wait for each
    /// other would wait forever, and RKE2's retries may well succeed.
    pub(super) fn cycles(&mut self, graph: &mut Graph) {
        for _ in 0..MOST_CYCLES {
            let knots = graph.knots();
            let Some(knot) = knots.first() else {
                return;
            };
            let cycle = graph.shortest_cycle(knot, MOST_SEARCHES);
            let documents = self.document_cycle(&cycle);
            self.report_cycle(&cycle, documents);
            for (position, &from) in cycle.iter().enumerate() {
                let to = cycle[(position + 1) % cycle.len()];
                graph.remove(from, to);
                self.yield_edge(from, to);
            }
        }
        for knot in graph.knots() {
            for &from in &knot {
                for &to in &knot {
                    graph.remove(from, to);
                    self.yield_edge(from, to);
                }
            }
        }
    }

    fn yield_edge(&mut self, from: FileId, to: FileId) {
        for document in &mut self.plan.files[from].documents {
            for requirement in &mut document.requires {
                if matches!(requirement.satisfied_by, SatisfiedBy::File { file, .. } if file == to)
                    && !requirement.is_only_learned()
                {
                    requirement.yields = true;
                }
            }
        }
    }

    /// A shortest cycle among the documents of these files, if their files do not only wait for
    /// each other through different documents.
    fn document_cycle(&self, files: &[FileId]) -> Option<Vec<DocumentId>> {
        let places: Vec<DocumentId> = files
            .iter()
            .flat_map(|&file| {
                (0..self.plan.files[file].documents.len()).map(move |document| (file, document))
            })
            .collect();
        let number: HashMap<DocumentId, usize> = places
            .iter()
            .enumerate()
            .map(|(number, &place)| (place, number))
            .collect();
        let mut graph = Graph::new(places.len());
        for (&(file, document), &from) in &number {
            for requirement in &self.plan.files[file].documents[document].requires {
                if requirement.tier != Tier::Required {
                    continue;
                }
                let target = &self.plan.needs[requirement.need].target;
                if let Some(to) = self
                    .index
                    .provider(target)
                    .and_then(|place| number.get(&place))
                {
                    graph.add(from, *to);
                }
            }
        }
        let knots = graph.knots();
        let knot = knots.first()?;
        Some(
            graph
                .shortest_cycle(knot, MOST_SEARCHES)
                .into_iter()
                .map(|number| places[number])
                .collect(),
        )
    }

    fn report_cycle(&mut self, files: &[FileId], documents: Option<Vec<DocumentId>>) {
        let edge = |from: FileId, to: FileId, document: Option<usize>| {
            let file = &self.plan.files[from];
            file.documents
                .iter()
                .enumerate()
                .filter(|(position, _)| document.is_none_or(|wanted| wanted == *position))
                .flat_map(|(_, document)| {
                    document.requires.iter().map(move |requirement| (document, requirement))
                })
                .find(|(_, requirement)| {
                    requirement.tier == Tier::Required
                        && matches!(requirement.satisfied_by, SatisfiedBy::File { file, .. } if file == to)
                })
                .map(|(document, requirement)| {
                    let line = format!(
                        "{} ({}) needs {} [{} at {}]",
                        document.object,
                        file.path,
                        self.plan.needs[requirement.need].target,
                        requirement.origin.rule,
                        requirement.origin.at,
                    );
                    (line, requirement.origin.at.clone())
                })
        };
        let (code, edges): (Code, Vec<_>) = match &documents {
            Some(documents) => {
                let edges = (0..documents.len())
                    .filter_map(|position| {
                        let (from, document) = documents[position];
                        let (to, _) = documents[(position + 1) % documents.len()];
                        edge(from, to, Some(document))
                    })
                    .collect();
                (Code::RequiredCycle, edges)
            }
            None => {
                let edges = (0..files.len())
                    .filter_map(|position| {
                        edge(files[position], files[(position + 1) % files.len()], None)
                    })
                    .collect();
                (Code::FileCycle, edges)
            }
        };
        let (lines, at): (Vec<String>, Vec<Location>) = edges.into_iter().unzip();
        let mut message = format!("{}: {}", code.say(&[]), lines.join("; "));
        if code == Code::FileCycle {
            let file = &self.plan.files[files[0]];
            let movable: Vec<String> = file
                .documents
                .iter()
                .filter(|document| {
                    document.requires.iter().any(|requirement| {
                        matches!(requirement.satisfied_by, SatisfiedBy::File { file, .. } if files.contains(&file))
                    })
                })
                .map(|document| format!("{} (line {})", document.object, document.line))
                .collect();
            message += &format!(
                ". Split {}: put {} into a separate file",
                file.path,
                movable.join(", ")
            );
        }
        self.find(code, message, at);
    }

    /// Adds the advisory edges that close no cycle: first those of annotations, then those of rules, then the inferred
    /// ones, each in the order of the files.
    pub(super) fn advisory(&mut self, graph: &mut Graph) {
        let mut edges = self.file_edges(Tier::Advisory);
        edges.sort_by_key(|&(_, _, inferred)| inferred);
        for (from, to, _) in edges {
            if graph.reaches(to, from) {
                self.yield_advisory(from, to);
            } else {
                graph.add(from, to);
            }
        }
    }

    fn yield_advisory(&mut self, from: FileId, to: FileId) {
        for document in &mut self.plan.files[from].documents {
            for requirement in &mut document.requires {
                if requirement.tier == Tier::Advisory
                    && matches!(requirement.satisfied_by, SatisfiedBy::File { file, .. } if file == to)
                {
                    requirement.yields = true;
                }
            }
        }
    }

    /// Adds the edges from earlier boots that close no cycle. They come after everything else: an observation, or a
    /// claim about one, must not make a requirement of the files yield.
    pub(super) fn learned(&mut self, graph: &mut Graph) {
        for (id, file) in self.plan.files.iter_mut().enumerate() {
            let mut requirements = file.documents.iter_mut().flat_map(|one| &mut one.requires);
            for requirement in requirements.by_ref() {
                let SatisfiedBy::File { file: provider, .. } = requirement.satisfied_by else {
                    continue;
                };
                if !requirement.is_only_learned() {
                    continue;
                }
                match graph.reaches(provider, id) {
                    true => requirement.yields = true,
                    false => graph.add(id, provider),
                }
            }
        }
    }

    /// A guess holds no file that may itself be the provider: a file with an installer, or one that an installer waits
    /// for. A file that it does hold comes after the installer's file.
    pub(super) fn guesses(&mut self, graph: &mut Graph) {
        let files: BTreeSet<FileId> = self.installers.iter().map(|place| place.0).collect();
        let waited_for = graph.reachable(files.iter().copied());
        for (id, file) in self.plan.files.iter_mut().enumerate() {
            let mut after = BTreeSet::new();
            for document in &mut file.documents {
                for requirement in &mut document.requires {
                    if let SatisfiedBy::Installer { file: other, .. } = requirement.satisfied_by {
                        requirement.yields = other == id || waited_for[id];
                        after.extend((!requirement.yields).then_some(other));
                    }
                }
            }
            for other in after {
                if !graph.reaches(other, id) {
                    graph.add(id, other);
                }
            }
        }
    }
}
