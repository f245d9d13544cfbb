//! One pass of RKE2 over the directory: what exists when it reaches a file.
//!
//! RKE2 reads names and markers once, at the beginning of a pass, and then applies the files in byte order of their
//! paths, one after the other (k3s `pkg/deploy/controller.go`, `listFilesIn`). A need that is met as soon as its object
//! exists is therefore met for every later file of the same pass. Holding such a file costs a poll and prevents
//! nothing.
//!
//! Only inferred requirements may be met like this. An annotation and a rule require more than an order, and their
//! files stay held.
//!
//! If a field merely refers to an object, the provider's file may also come later in the same pass: waiting for the
//! next pass would cost a poll, and Kubernetes' own controllers try the object again a moment later
//! ([`Requirement::may_come_first`]).

use std::collections::HashMap;

use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_model::reasons::Code;

use super::{FileId, Plan, PlanFile, Requirement, SatisfiedBy};
use crate::rules::NeedTarget;

/// kube-apiserver writes a definition's status twice, one definition after the other, before it serves the kind: its
/// names are accepted, and it is established. Meanwhile RKE2 continues to write one object after the other.
const WRITES_PER_DEFINITION: usize = 2;
/// The number of further objects that RKE2 has to write before a kind counts as served. With the real parts on a busy
/// machine with two cores, a file that came three objects after 25 definitions failed now and then; six objects after
/// 1, 5 or 25 definitions none ever did.
const SPARE_WRITES: usize = 6;
/// How often a pass is played again because further files go that others may precede. Enough for the length of chains
/// of files that refer to each other.
const MOST_ROUNDS: usize = 8;

/// Effects that take place some time after RKE2 applied an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlowEffect {
    /// The API serves a kind.
    Defines {
        kind: GroupKind,
        /// Whether a webhook converts its objects. Then nothing is certain before the webhook answers.
        converts: bool,
        /// The number of objects of its file that RKE2 writes after all definitions of the file.
        followed_by: usize,
    },
    /// kube-apiserver calls a webhook that fails closed for the objects of these groups. It refuses them until the
    /// webhook answers.
    Asks {
        /// `*` stands for every group.
        groups: Vec<String>,
    },
    /// Objects are refused until they were counted for the first time.
    Counts {
        /// The namespace whose objects are limited.
        namespace: String,
    },
}

/// How RKE2's next pass processes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenUp {
    /// Whether RKE2 still has to apply this content.
    pub is_new: bool,
    /// Whether RKE2 writes every object of it. If RKE2 applied the file before, it writes only new and changed objects.
    pub writes_all: bool,
    /// Whether it is hidden, or was a moment ago. Then RKE2 may be reading the directories now and may have found it
    /// hidden.
    pub was_hidden: bool,
}

impl TakenUp {
    /// A file that was never hidden, in RKE2's first pass.
    pub(super) const FIRST: Self = Self {
        is_new: true,
        writes_all: true,
        was_hidden: false,
    };
}

/// The files that RKE2's next pass processes, in any order.
pub type TakenFiles = HashMap<FileId, TakenUp>;

/// RKE2's next pass, as far as it can be predicted. Files are entered in the order in which RKE2 processes them.
#[derive(Debug)]
pub struct NextPass<'p> {
    plan: &'p Plan,
    /// The files of the whole pass, as far as they can be determined before it is played.
    whole: &'p TakenFiles,
    /// How each file is processed, if others may rely on it.
    files: TakenFiles,
    /// The number of objects that were written before, and of kube-apiserver's pending writes for definitions among
    /// them.
    written: usize,
    due: usize,
    /// The number of objects that have to be written before the kind is served.
    served_after: HashMap<&'p GroupKind, usize>,
    asked_groups: Vec<&'p str>,
    counted_namespaces: Vec<&'p str>,
}

impl<'p> NextPass<'p> {
    /// A pass that has not begun, and that processes at least the files of `whole`.
    pub fn new(plan: &'p Plan, whole: &'p TakenFiles) -> Self {
        Self {
            plan,
            whole,
            files: HashMap::new(),
            written: 0,
            due: 0,
            served_after: HashMap::new(),
            asked_groups: Vec::new(),
            counted_namespaces: Vec::new(),
        }
    }

    /// Enters a file that RKE2 applied before, at any place in the order. Its webhooks may not answer yet.
    pub fn note_applied(&mut self, id: FileId) {
        self.add_asked_groups(&self.plan.files[id]);
    }

    /// Enters a file that the pass processes. All files that sort before it have been entered already.
    pub fn take_up(&mut self, id: FileId, taken: TakenUp) {
        let file = &self.plan.files[id];
        let is_sure = is_reliable(file) && !(taken.is_new && self.is_disturbed(file));
        if taken.is_new {
            self.add_effects(file, taken.writes_all);
        }
        if is_sure {
            self.files.insert(id, taken);
        }
    }

    fn add_asked_groups(&mut self, file: &'p PlanFile) {
        for effect in &file.slow_effects {
            if let SlowEffect::Asks { groups } = effect {
                self.asked_groups.extend(groups.iter().map(String::as_str));
            }
        }
    }

    fn add_effects(&mut self, file: &'p PlanFile, writes_all: bool) {
        self.add_asked_groups(file);
        let mut definitions: Vec<&GroupKind> = Vec::new();
        let mut after = 0;
        for effect in &file.slow_effects {
            match effect {
                SlowEffect::Defines {
                    kind, followed_by, ..
                } => {
                    definitions.push(kind);
                    after = *followed_by;
                }
                SlowEffect::Counts { namespace } => self.counted_namespaces.push(namespace),
                SlowEffect::Asks { .. } => {}
            }
        }
        let objects = if writes_all { file.written } else { 0 };
        let after = after.min(objects);
        let before = objects.saturating_sub(definitions.len() + after);
        self.due = self.due.saturating_sub(before) + WRITES_PER_DEFINITION * definitions.len();
        let defined = self.written + objects.saturating_sub(after);
        for kind in definitions {
            let served = defined + self.due + SPARE_WRITES;
            self.served_after.entry(kind).or_insert(served);
        }
        self.due = self.due.saturating_sub(after);
        self.written += objects;
    }

    /// Whether the pass will have met this requirement when it reaches the file that has it. Every earlier file has
    /// been entered. `relied` says that the file was released because of it, and RKE2 may be about to reach it.
    pub fn meets(&self, id: FileId, requirement: &Requirement, relied: bool) -> bool {
        let SatisfiedBy::File { file: provider, .. } = requirement.satisfied_by else {
            return false;
        };
        let (file, brings) = (&self.plan.files[id], &self.plan.files[provider]);
        if requirement.may_come_first
            && let Some(taken) = self.whole.get(&provider)
            && is_reliable(brings)
        {
            return relied || taken.is_new && !self.is_disturbed(file);
        }
        let Some(taken) = self.files.get(&provider) else {
            return false;
        };
        if !requirement.at_once {
            return false;
        }
        if relied {
            return true;
        }
        // RKE2 reads one directory after the other: only in the same one it reads both markers at once.
        let seen_together = !taken.was_hidden || directory(&file.path) == directory(&brings.path);
        taken.is_new && seen_together && self.is_in_time(requirement) && !self.is_disturbed(file)
    }

    /// Whether a kind is served by then.
    fn is_in_time(&self, requirement: &Requirement) -> bool {
        match &self.plan.needs[requirement.need].target {
            NeedTarget::Kind(kind) => {
                let after = self.served_after.get(kind);
                after.is_some_and(|after| *after <= self.written)
            }
            NeedTarget::Object(_) => true,
        }
    }

    /// Whether something earlier in the pass may refuse an object of the file for a while.
    fn is_disturbed(&self, file: &PlanFile) -> bool {
        if self.asked_groups.is_empty() && self.counted_namespaces.is_empty() {
            return false;
        }
        file.documents.iter().any(|document| {
            let object = &document.object;
            let asked = |group: &&str| *group == "*" || *group == object.group.as_str();
            let namespace = object.namespace.as_deref();
            self.asked_groups.iter().any(asked)
                || self
                    .counted_namespaces
                    .iter()
                    .any(|one| namespace == Some(*one))
        })
    }
}

/// Whether others may rely on the results of a processed file. They may not if RKE2 refuses some of it, or if another
/// file shares its Addon, because each then removes the other's objects. The same is true if a file shares its name,
/// because one marker hides both.
fn is_reliable(file: &PlanFile) -> bool {
    file.skipped.is_none() && file.trouble.is_none()
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Why a file with `windrow.dev/apply: once` is held at first: another server may have applied it, or this one before its disk was
/// replaced.
pub const WAITS_FOR_ADDONS: &str =
    "windrow.dev/apply: once waits until RKE2's Addons show whether the file was applied";

/// The treatment of a file in RKE2's first pass on a fresh node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirstPass {
    /// Why Windrow holds the file; `None` if RKE2 may apply it at once.
    pub(crate) held: Option<Vec<String>>,
    /// The requirements of the file that the pass has met by then, each in a line.
    pub(crate) met: Vec<String>,
}

impl Plan {
    /// Plays one pass, and again with the files that it processes, until that releases no further files. `play` returns
    /// the result and the files.
    pub fn play_pass<T>(&self, play: impl Fn(&TakenFiles) -> (T, TakenFiles)) -> T {
        let (mut played, mut taken) = play(&TakenFiles::new());
        let mut requirements = self.files.iter().flat_map(PlanFile::requirements);
        if !requirements.any(|requirement| requirement.may_come_first) {
            return played;
        }
        for _ in 0..MOST_ROUNDS {
            let (next, then) = play(&taken);
            // A file that goes now prevents another one on which it relied.
            if taken.keys().any(|file| !then.contains_key(file)) {
                break;
            }
            played = next;
            if then.len() == taken.len() {
                break;
            }
            taken = then;
        }
        played
    }

    /// Determines the treatment of each file in RKE2's first pass on a fresh node.
    pub fn play_first_pass(&mut self) {
        let first = self.play_pass(|whole| {
            let mut pass = NextPass::new(self, whole);
            let mut taken = TakenFiles::new();
            let mut first = Vec::with_capacity(self.files.len());
            for (id, file) in self.files.iter().enumerate() {
                let outcome = self.first_pass_of(id, file, &pass);
                if file.owner.is_none() && outcome.held.is_none() {
                    pass.take_up(id, TakenUp::FIRST);
                    taken.insert(id, TakenUp::FIRST);
                }
                first.push(outcome);
            }
            (first, taken)
        });
        for (file, outcome) in self.files.iter_mut().zip(first) {
            file.first_pass = outcome;
        }
    }

    fn first_pass_of(&self, id: FileId, file: &PlanFile, pass: &NextPass<'_>) -> FirstPass {
        let mut first = FirstPass::default();
        if file.owner.is_some() {
            return first;
        }
        let mut reasons = Vec::new();
        if let Some((why, _)) = &file.hold {
            reasons.push(Code::HeldByAnnotation.say(&[("why", why)]));
        }
        if file.harmful {
            reasons.push(Code::SpecialFile.say(&[("what", "it is")]));
        }
        if let Some(why) = &file.refused {
            reasons.push(Code::HeldRefused.say(&[("why", why)]));
        }
        for requirement in file.requirements().filter(|one| one.takes_part()) {
            let met = match pass.meets(id, requirement, false) {
                true => self.describe_met_in_pass(file, requirement),
                false => None,
            };
            let (list, line) = match met {
                Some(line) => (&mut first.met, line),
                None => (&mut reasons, requirement.reason.to_string()),
            };
            if !list.contains(&line) {
                list.push(line);
            }
        }
        if file.apply_once {
            reasons.push(WAITS_FOR_ADDONS.to_owned());
        }
        first.held = (!reasons.is_empty()).then_some(reasons);
        first
    }

    /// The file that meets a requirement in the same pass, in words; `None` if no file of the directory does.
    pub fn describe_met_in_pass(
        &self,
        file: &PlanFile,
        requirement: &Requirement,
    ) -> Option<String> {
        let SatisfiedBy::File { file: provider, .. } = requirement.satisfied_by else {
            return None;
        };
        let what = match &self.needs[requirement.need].target {
            NeedTarget::Kind(kind) => format!("its kind {kind}"),
            NeedTarget::Object(object) if is_namespace(object) => {
                format!("its namespace {}", object.name)
            }
            NeedTarget::Object(object) => object.to_string(),
        };
        let provider = &self.files[provider].path;
        Some(match *provider < file.path {
            true => format!(
                "{what} comes with {provider}, which RKE2 applies before it in the same pass"
            ),
            false => format!(
                "{what} comes with {provider}, which RKE2 applies after it in the same pass"
            ),
        })
    }
}

pub(super) fn is_namespace(object: &ObjectRef) -> bool {
    object.group.is_empty() && object.kind == "Namespace"
}
