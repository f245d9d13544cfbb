//! Where to find in a plan what rests on something, so that one change need not go through all of it.

use foldhash::HashMap;
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_plan::rules::{Target, Tier};
use windrow_plan::{FileId, NeedId, Plan, PlanFile, SatisfiedBy, base_name};

use super::interests;

/// What rests on what in one plan.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    needs_by_object: HashMap<ObjectRef, Vec<NeedId>>,
    needs_by_kind: HashMap<GroupKind, Vec<NeedId>>,
    files_by_name: HashMap<String, Vec<FileId>>,
    files_by_addon: HashMap<String, Vec<FileId>>,
    /// In order of their targets.
    in_order: Vec<NeedId>,
    /// Of which the verdict may rest on more than what is needed itself.
    relating: Vec<NeedId>,
    files_by_need: Vec<Vec<FileId>>,
    wants: Vec<Wants>,
    /// By the file whose progress they go by.
    advised: Vec<Vec<FileId>>,
    /// By file: those of the same base name, itself among them; empty where it has the name alone.
    namesakes: Vec<Vec<FileId>>,
    /// Any files have one name.
    has_namesakes: bool,
}

/// The needs of one file that take part, each once.
#[derive(Debug, Clone, Default)]
pub(super) struct Wants {
    pub(super) all: Vec<NeedId>,
    /// Of these, what a rule or a person asked for: it may regress once the file is applied.
    pub(super) regress: Vec<NeedId>,
}

impl Lookup {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut lookup = Self {
            files_by_need: vec![Vec::new(); plan.needs.len()],
            advised: vec![Vec::new(); plan.files.len()],
            namesakes: vec![Vec::new(); plan.files.len()],
            in_order: (0..plan.needs.len()).collect(),
            relating: (0..plan.needs.len())
                .filter(|need| interests::relates(&plan.needs[*need]))
                .collect(),
            ..Self::default()
        };
        lookup
            .in_order
            .sort_by_key(|need| match &plan.needs[*need].target {
                Target::Kind(_) => None,
                Target::Object(object) => Some(object),
            });
        for (id, need) in plan.needs.iter().enumerate() {
            let kind = match &need.target {
                Target::Kind(kind) => kind.clone(),
                Target::Object(object) => {
                    let needs = lookup.needs_by_object.entry(object.clone());
                    needs.or_default().push(id);
                    object.group_kind()
                }
            };
            lookup.needs_by_kind.entry(kind).or_default().push(id);
        }
        for (id, file) in plan.files.iter().enumerate() {
            let named = lookup.files_by_name.entry(file.name.clone());
            named.or_default().push(id);
            let of_addon = lookup.files_by_addon.entry(file.addon.clone());
            of_addon.or_default().push(id);
            for requirement in file.requirements() {
                push_once(&mut lookup.files_by_need[requirement.need], id);
                if requirement.tier == Tier::Advisory
                    && let SatisfiedBy::File { file, .. } = requirement.satisfied_by
                {
                    push_once(&mut lookup.advised[file], id);
                }
            }
        }
        lookup.wants = plan.files.iter().map(Wants::of).collect();
        lookup.has_namesakes = !plan.namesakes.is_empty();
        for ids in &plan.namesakes {
            for id in ids {
                lookup.namesakes[*id].clone_from(ids);
            }
        }
        lookup
    }

    /// Needs of this very object.
    pub(super) fn needs_of(&self, object: &ObjectRef) -> &[NeedId] {
        self.needs_by_object.get(object).map_or(&[], Vec::as_slice)
    }

    /// Needs of a kind, and of objects of that kind.
    pub(super) fn needs_of_kind(&self, kind: &GroupKind) -> &[NeedId] {
        self.needs_by_kind.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Every need, in order of what is needed.
    pub(super) fn needs_in_order(&self) -> impl Iterator<Item = NeedId> {
        self.in_order.iter().copied()
    }

    /// Needs of which the verdict may rest on more than what is needed itself.
    pub(super) fn relating(&self) -> &[NeedId] {
        &self.relating
    }

    /// What a file waits for.
    pub(super) fn wants_of(&self, file: FileId) -> &Wants {
        &self.wants[file]
    }

    /// Files of this base name, which one marker hides.
    pub(super) fn named(&self, name: &str) -> &[FileId] {
        self.files_by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Is a marker of this name one of a file that is ours to hold?
    pub(super) fn hides_ours(&self, plan: &Plan, name: &str) -> bool {
        let mut named = self.named(name).iter();
        named.any(|file| plan.files[*file].owner.is_none())
    }

    /// Is there a file at this path?
    pub(super) fn has(&self, plan: &Plan, path: &str) -> bool {
        let mut named = self.named(base_name(path)).iter();
        named.any(|file| plan.files[*file].path == path)
    }

    /// Files of this Addon.
    pub(super) fn of_addon(&self, addon: &str) -> &[FileId] {
        self.files_by_addon.get(addon).map_or(&[], Vec::as_slice)
    }

    /// Files that need something.
    pub(super) fn needing(&self, need: NeedId) -> &[FileId] {
        self.files_by_need.get(need).map_or(&[], Vec::as_slice)
    }

    /// Files that wait for another as long as that one is on its way.
    pub(super) fn advised_by(&self, file: FileId) -> &[FileId] {
        self.advised.get(file).map_or(&[], Vec::as_slice)
    }

    /// Are there files that are held and released together?
    pub(super) fn has_namesakes(&self) -> bool {
        self.has_namesakes
    }

    /// Files that are held and released together with one.
    pub(super) fn namesakes_of(&self, file: FileId) -> &[FileId] {
        self.namesakes.get(file).map_or(&[], Vec::as_slice)
    }
}

impl Wants {
    fn of(file: &PlanFile) -> Self {
        let mut wants = Self::default();
        // A file that is not ours waits for nothing.
        for requirement in file.requirements().filter(|_| file.owner.is_none()) {
            if requirement.takes_part() {
                wants.all.push(requirement.need);
                if !requirement.inferred {
                    wants.regress.push(requirement.need);
                }
            }
        }
        for needs in [&mut wants.all, &mut wants.regress] {
            needs.sort_unstable();
            needs.dedup();
        }
        wants
    }
}

/// Ids come in order.
fn push_once(ids: &mut Vec<FileId>, id: FileId) {
    if ids.last() != Some(&id) {
        ids.push(id);
    }
}
