//! The plan as a graph of boxes with rows: the model for DOT, Mermaid and SVG.
//!
//! A box is a manifest file, or another provider of files' dependencies. A row is an object of the file, or an object
//! of the provider. Edges run from a dependency to the object that requires it.

use std::collections::{BTreeSet, HashMap};

use windrow_model::manifest::ObjectRef;
use windrow_plan::rules::{NeedTarget, Tier};
use windrow_plan::{FileObstacle, Plan, PlanFile, SatisfiedBy};

pub(super) struct BoxGraph {
    pub(super) boxes: Vec<GraphBox>,
    pub(super) edges: Vec<Edge>,
}

pub(super) struct GraphBox {
    pub(super) title: String,
    pub(super) kind: BoxKind,
    pub(super) rows: Vec<BoxRow>,
    /// Its place in the order of release, from 1.
    pub(super) order: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum BoxKind {
    /// A file that RKE2 may apply at once.
    Free,
    /// A file, held at a fresh boot.
    Held,
    /// A held file in a cycle: it waits, through other files, for itself.
    Stuck,
    Refused,
    /// A file that RKE2 applies only under a condition.
    Trouble(FileObstacle),
    /// A file that a foreign marker hides from RKE2.
    Skipped,
    Foreign,
    Platform,
    Cluster,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BoxClass {
    Free,
    Held,
    Wrong,
    Other,
}

impl BoxKind {
    pub(super) fn for_file(file: &PlanFile) -> Self {
        match file.trouble {
            _ if file.skipped.is_some() => Self::Skipped,
            _ if file.owner.is_some() => Self::Foreign,
            _ if file.harmful || file.refused.is_some() => Self::Refused,
            Some(trouble @ (FileObstacle::Dangling | FileObstacle::Unreadable)) => {
                Self::Trouble(trouble)
            }
            _ if file.held_at_boot().is_some() => Self::Held,
            Some(trouble) => Self::Trouble(trouble),
            None => Self::Free,
        }
    }

    pub(super) fn class(self) -> BoxClass {
        match self {
            Self::Free => BoxClass::Free,
            Self::Held | Self::Trouble(FileObstacle::Unseen) => BoxClass::Held,
            Self::Refused | Self::Stuck | Self::Unknown | Self::Trouble(_) => BoxClass::Wrong,
            Self::Skipped | Self::Foreign | Self::Platform | Self::Cluster => BoxClass::Other,
        }
    }

    /// The text next to the title.
    pub(super) fn badge(self) -> &'static str {
        match self {
            BoxKind::Free => "applied at once",
            BoxKind::Held => "held",
            BoxKind::Stuck => "in a cycle",
            BoxKind::Refused => "refused",
            BoxKind::Trouble(trouble) => trouble.as_str(),
            BoxKind::Skipped => "skipped",
            BoxKind::Foreign => "not touched",
            BoxKind::Platform => "platform",
            BoxKind::Cluster => "cluster",
            BoxKind::Unknown => "missing",
        }
    }

    pub(super) fn is_file(self) -> bool {
        !matches!(
            self,
            BoxKind::Platform | BoxKind::Cluster | BoxKind::Unknown
        )
    }
}

pub(super) struct BoxRow {
    pub(super) kind: String,
    pub(super) name: String,
    /// Line in the file.
    pub(super) line: Option<u32>,
}

/// From a row to a row: the first has to be there before the second can work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: (usize, usize),
    pub(super) to: (usize, usize),
    pub(super) tier: Tier,
    /// The need, and where it comes from.
    pub(super) label: String,
    pub(super) cycle: bool,
    /// It yields.
    pub(super) yields: bool,
}

impl BoxGraph {
    pub(super) fn from_plan(plan: &Plan) -> Self {
        let mut graph = Self {
            boxes: files(plan),
            edges: Vec::new(),
        };
        let mut others: HashMap<(BoxKind, String), usize> = HashMap::new();
        for (file_id, file) in plan.files.iter().enumerate() {
            if file.owner.is_some() {
                continue;
            }
            for (row, document) in file.documents.iter().enumerate() {
                for requirement in &document.requires {
                    if !requirement.takes_part() && !requirement.yields {
                        continue;
                    }
                    let need = &plan.needs[requirement.need];
                    let from = match &requirement.satisfied_by {
                        SatisfiedBy::SameFile { .. } => continue,
                        SatisfiedBy::Installer { file, .. } if *file == file_id => continue,
                        SatisfiedBy::File { file, line }
                        | SatisfiedBy::Installer { file, line } => {
                            (*file, graph.row_at(*file, *line, &need.target))
                        }
                        other => {
                            let (kind, title) = match other {
                                SatisfiedBy::Platform { by, .. } => {
                                    (BoxKind::Platform, by.as_str())
                                }
                                SatisfiedBy::Cluster => {
                                    (BoxKind::Cluster, "already in the cluster")
                                }
                                _ => (BoxKind::Unknown, "nothing known"),
                            };
                            let id = *others.entry((kind, title.to_owned())).or_insert_with(|| {
                                graph.boxes.push(GraphBox {
                                    title: title.to_owned(),
                                    kind,
                                    rows: Vec::new(),
                                    order: None,
                                });
                                graph.boxes.len() - 1
                            });
                            (id, graph.row_of(id, &need.target))
                        }
                    };
                    graph.add(Edge {
                        from,
                        to: (file_id, row),
                        tier: requirement.tier,
                        label: format!(
                            "{} {} ({})",
                            need.target, need.condition, requirement.origin.rule
                        ),
                        cycle: false,
                        yields: requirement.yields,
                    });
                }
            }
        }
        graph.mark_cycles();
        graph
    }

    /// One edge between two rows is enough for the reader: the stronger tier wins.
    pub(super) fn add(&mut self, edge: Edge) {
        match self
            .edges
            .iter_mut()
            .find(|known| known.from == edge.from && known.to == edge.to)
        {
            Some(known) => {
                if edge.tier == Tier::Required {
                    known.tier = Tier::Required;
                }
                known.yields &= edge.yields;
                if !known.label.contains(&edge.label) {
                    known.label = format!("{}; {}", known.label, edge.label);
                }
            }
            None => self.edges.push(edge),
        }
    }

    fn row_at(&self, file: usize, line: u32, target: &NeedTarget) -> usize {
        let rows = &self.boxes[file].rows;
        let by_line = rows.iter().position(|row| row.line == Some(line));
        by_line
            .or_else(|| {
                let (kind, name) = target_words(target);
                rows.iter()
                    .position(|row| row.kind == kind && row.name == name)
            })
            .unwrap_or(0)
    }

    fn row_of(&mut self, id: usize, target: &NeedTarget) -> usize {
        let (kind, name) = target_words(target);
        let rows = &mut self.boxes[id].rows;
        match rows
            .iter()
            .position(|row| row.kind == kind && row.name == name)
        {
            Some(row) => row,
            None => {
                rows.push(BoxRow {
                    kind,
                    name,
                    line: None,
                });
                rows.len() - 1
            }
        }
    }

    /// Marks the edges between boxes that can reach each other.
    fn mark_cycles(&mut self) {
        let successors = self.successors();
        let reach: Vec<BTreeSet<usize>> = (0..self.boxes.len())
            .map(|start| {
                let mut seen = BTreeSet::new();
                let mut stack: Vec<usize> = successors[start].iter().copied().collect();
                while let Some(next) = stack.pop() {
                    if seen.insert(next) {
                        stack.extend(&successors[next]);
                    }
                }
                seen
            })
            .collect();
        for edge in &mut self.edges {
            edge.cycle = reach[edge.to.0].contains(&edge.from.0);
            let stuck = edge.cycle && edge.tier == Tier::Required && !edge.yields;
            let waiting = &mut self.boxes[edge.to.0].kind;
            if stuck && *waiting == BoxKind::Held {
                *waiting = BoxKind::Stuck;
            }
        }
    }

    fn successors(&self) -> Vec<BTreeSet<usize>> {
        let mut successors = vec![BTreeSet::new(); self.boxes.len()];
        for edge in &self.edges {
            successors[edge.from.0].insert(edge.to.0);
        }
        successors
    }
}

fn files(plan: &Plan) -> Vec<GraphBox> {
    plan.files
        .iter()
        .enumerate()
        .map(|(id, file)| GraphBox {
            title: file.path.to_string(),
            kind: BoxKind::for_file(file),
            rows: file
                .documents
                .iter()
                .map(|document| BoxRow {
                    kind: document.object.kind.to_string(),
                    name: full_name(&document.object),
                    line: Some(document.line),
                })
                .collect(),
            order: plan
                .order
                .iter()
                .position(|ordered| *ordered == id)
                .map(|position| position + 1),
        })
        .collect()
}

fn target_words(target: &NeedTarget) -> (String, String) {
    match target {
        NeedTarget::Kind(kind) => ("kind".to_owned(), kind.to_string()),
        NeedTarget::Object(object) => (object.kind.to_string(), full_name(object)),
    }
}

fn full_name(object: &ObjectRef) -> String {
    match &object.namespace {
        Some(namespace) => format!("{namespace}/{}", object.name),
        None => object.name.to_string(),
    }
}
