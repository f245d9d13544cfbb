//! Links all files: finds the provider of each requirement, the requirements that cannot be met, and an order for the
//! others.

mod at_once;
mod declarations;
mod installers;
mod linker;
mod problems;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use windrow_model::manifest::GroupKind;

use self::declarations::DeclarationIndex;
pub(super) use self::declarations::DocumentId;
pub(super) use self::linker::Linker;
use self::problems::RequirementFindings;
pub(super) use self::problems::{may_be_brought, without_provider};
use super::examine::{ChartConfigs, Examined, OWN_NAMESPACE, UnresolvedRequirement};
use super::installer::HelmObject;
use super::{FileId, Need, NeedId, Plan, PlanDocument, Requirement, SatisfiedBy};
use crate::builtin;
use crate::knowledge::{Knowledge, NodeFacts, Provider, Reliance, UnsetValues};
use crate::rules::{NeedCondition, NeedTarget, RuleSet};

/// Combines examined files into a plan. Their order does not matter.
pub fn link(examined: &[Arc<Examined>], rules: &RuleSet, node: impl Into<NodeFacts>) -> Plan {
    let node = node.into();
    let configured = with_chart_configs(examined, &rules.knowledge);
    let mut examined: Vec<&Examined> = configured.iter().map(Cow::as_ref).collect();
    examined.sort_by(|a, b| a.path.as_bytes().cmp(b.path.as_bytes()));
    let mut linker = Linker {
        index: DeclarationIndex::new(&examined, |one| one.skipped.is_none()),
        skipped: DeclarationIndex::new(&examined, |one| one.skipped.is_some()),
        installers: Vec::new(),
        charts_with_values: charts_with_values(&examined),
        examined: &examined,
        rules,
        plan: Plan {
            platform: node.platform,
            phases: rules.knowledge.phases_on(&node),
            ..Plan::default()
        },
        node,
        need_ids: HashMap::new(),
    };
    linker.installers = linker.able_installers();
    linker.add_files();
    linker.report_shared_names();
    linker.report_duplicates();
    linker.report_unknown_platform();
    let mut graph = linker.required_graph();
    linker.cycles(&mut graph);
    linker.advisory(&mut graph);
    linker.learned(&mut graph);
    linker.guesses(&mut graph);
    linker.plan.order = graph.order();
    let files = &linker.plan.files;
    let order = &mut linker.plan.order;
    order.retain(|file| files[*file].skipped.is_none());
    linker.plan.sort_findings();
    linker.plan.play_first_pass();
    linker.plan.names = linker.plan.find_names();
    linker.plan
}

/// The files, with the results of their charts under the HelmChartConfigs among them.
fn with_chart_configs<'e>(
    examined: &'e [Arc<Examined>],
    knowledge: &Knowledge,
) -> Vec<Cow<'e, Examined>> {
    let applied = || examined.iter().filter(|one| one.skipped.is_none());
    let configs = applied().flat_map(|one| {
        let objects = one.objects.iter();
        objects.filter_map(|object| match &object.helm {
            Some(HelmObject::Config(config)) => {
                Some((object.release(), (config.as_ref(), &one.shown)))
            }
            _ => None,
        })
    });
    let configs: ChartConfigs<'_> = configs.collect();
    let files = examined.iter().map(|one| {
        let changes = !configs.is_empty() && one.skipped.is_none();
        let configured = changes.then(|| one.configured_by(&configs, knowledge));
        match configured.flatten() {
            Some(configured) => Cow::Owned(configured),
            None => Cow::Borrowed(one.as_ref()),
        }
    });
    files.collect()
}

/// The documents of charts that would provide more with other values.
fn charts_with_values(examined: &[&Examined]) -> Vec<DocumentId> {
    let files = examined.iter().enumerate();
    let applied = files.filter(|(_, one)| one.skipped.is_none());
    let documents = applied.flat_map(|(file, one)| {
        let objects = one.objects.iter().enumerate();
        let with_values = objects.filter(|(_, object)| !object.unset.is_empty());
        with_values.map(move |(document, _)| (file, document))
    });
    documents.collect()
}

impl Linker<'_> {
    /// Adds every file with the requirements of its documents and their providers.
    fn add_files(&mut self) {
        let mut found = RequirementFindings::default();
        for (file, one) in self.examined.iter().enumerate() {
            self.plan.findings.extend(one.findings.iter().cloned());
            let mut documents = Vec::with_capacity(one.objects.len());
            for (document, object) in one.objects.iter().enumerate() {
                let place = (file, document);
                let wants = object.wants.iter();
                let mut requires: Vec<Requirement> = wants
                    .filter_map(|want| self.requirement(place, want))
                    .collect();
                requires.shrink_to_fit();
                for requirement in &requires {
                    self.check_requirement(place, requirement, &mut found);
                }
                for want in &object.wants {
                    self.check_undeclared_namespace(place, want, &mut found);
                }
                documents.push(PlanDocument {
                    line: object.line,
                    object: self.index.scoped(&object.object),
                    requires,
                    brings: object
                        .brings
                        .clone()
                        .filter(|_| self.index.is_bringer(place)),
                });
            }
            self.plan.files.push(one.to_plan_file(documents));
        }
        self.report_requirements(found);
    }

    /// A requirement with its provider; `None` if it counts only for a declared object and no document declares it.
    fn requirement(
        &mut self,
        place: DocumentId,
        want: &UnresolvedRequirement,
    ) -> Option<Requirement> {
        let target = self.target(want);
        if want.if_declared && self.index.provider_for(place, &target).is_none() {
            return None;
        }
        let own_namespace_of = match want.origin.rule == OWN_NAMESPACE {
            true => self.kind_that_may_have_none(place)?,
            false => None,
        };
        let (mut satisfied_by, learned) = self.satisfied_by(place, want.inferred, &target);
        // A kind that kube-apiserver itself does not serve will never exist.
        let never_comes = matches!(&target, NeedTarget::Kind(kind) if builtin::serves(&kind.group));
        if satisfied_by == SatisfiedBy::Nobody
            && !never_comes
            && let Some((file, line)) = self.may_bring(place, &target)
        {
            satisfied_by = SatisfiedBy::Installer { file, line };
        }
        let at_once = self.is_there_at_once(place, want, &target);
        Some(Requirement {
            at_once,
            may_come_first: at_once && self.may_come_first(place, want, &target),
            need: self.need(target, want.condition.clone()),
            tier: want.tier,
            origin: want.origin.clone(),
            reason: want.reason.clone(),
            deadline: want.deadline,
            on_deadline: want.on_deadline,
            inferred: want.inferred,
            satisfied_by,
            learned: learned.map(|learned| learned.on(&self.node)),
            yields: never_comes,
            own_namespace_of,
        })
    }

    /// The kind of an object in a namespace, if the scope of the kind is unknown. An object of a kind without
    /// namespaces has no such requirement: RKE2 applies it without the namespace in its manifest.
    fn kind_that_may_have_none(&self, (file, document): DocumentId) -> Option<Option<GroupKind>> {
        let kind = self.examined[file].objects[document].object.group_kind();
        let known = self.index.scope_of(&kind);
        match known.or_else(|| self.rules.scope_of(&kind)) {
            Some(true) => Some(None),
            Some(false) => None,
            None => Some(Some(kind)),
        }
    }

    /// The target, with its namespace according to the set's own definitions.
    fn target(&self, want: &UnresolvedRequirement) -> NeedTarget {
        match &want.target {
            NeedTarget::Object(object) => NeedTarget::Object(self.index.scoped(object)),
            kind => kind.clone(),
        }
    }

    /// The installers of the directory, if any of them can begin: one without a requirement that only an installer
    /// could meet. Otherwise none of them can provide anything.
    fn able_installers(&self) -> Vec<DocumentId> {
        let installers = installers::find_installers(self.examined);
        let begins = |place: &DocumentId| {
            let wants = &self.examined[place.0].objects[place.1].wants;
            let known = |want: &UnresolvedRequirement| {
                self.satisfied_by(*place, want.inferred, &self.target(want))
                    .0
                    != SatisfiedBy::Nobody
            };
            wants.iter().all(known)
        };
        match installers.iter().any(begins) {
            true => installers,
            false => Vec::new(),
        }
    }

    /// The file and line of an installer that may provide a target without a known provider: of this file, if it has
    /// one. No installer provides its own requirements.
    fn may_bring(&self, place: DocumentId, target: &NeedTarget) -> Option<(FileId, u32)> {
        // Another version of the provider of a group may have more of its kinds.
        if let NeedTarget::Kind(kind) = target
            && let Some((file, document)) = self.index.brings_group(place, kind)
        {
            return Some((file, self.examined[file].objects[document].line));
        }
        let by_value = |unset: &UnsetValues| unset.off.is_none() && unset.brings.may_bring(target);
        if let Some((file, document)) = self.chart_with(place, by_value) {
            return Some((file, self.examined[file].objects[document].line));
        }
        let file = place.0;
        let needs_it = |place: &DocumentId| {
            let wants = &self.examined[place.0].objects[place.1].wants;
            wants
                .iter()
                .any(|want| want.inferred && self.target(want) == *target)
        };
        let here = self.installers.partition_point(|place| place.0 < file);
        let of_this_file = self.installers[here..]
            .iter()
            .take_while(|place| place.0 == file);
        let leaves_it_out = |place: &DocumentId| {
            let object = &self.examined[place.0].objects[place.1];
            let helm = object.helm.as_ref().and_then(HelmObject::chart);
            let mut off = object.unset.iter().filter(|unset| unset.off.is_some());
            helm.is_some_and(|chart| !chart.carries_objects())
                && off.any(|unset| unset.brings.brings(target))
        };
        let (file, document) = *of_this_file
            .chain(&self.installers)
            .find(|place| !needs_it(place) && !leaves_it_out(place))?;
        Some((file, self.examined[file].objects[document].line))
    }

    /// A chart that would provide more with other values, of which one counts: of this document's file, if possible.
    fn chart_with(
        &self,
        place: DocumentId,
        counts: impl Fn(&UnsetValues) -> bool,
    ) -> Option<DocumentId> {
        let has_it = |&&(file, document): &&DocumentId| {
            let unset = &self.examined[file].objects[document].unset;
            (file, document) != place && unset.iter().any(&counts)
        };
        let charts = || self.charts_with_values.iter();
        let mut of_this_file = charts().filter(|chart| chart.0 == place.0);
        let found = of_this_file.find(has_it);
        found.or_else(|| charts().find(has_it)).copied()
    }

    /// The expected provider of a target, and the knowledge from earlier boots about it. That knowledge applies only to
    /// inferred requirements: those of a rule or an annotation are linked as if there had been no boot.
    fn satisfied_by(
        &self,
        place: DocumentId,
        inferred: bool,
        target: &NeedTarget,
    ) -> (SatisfiedBy, Option<Arc<Reliance>>) {
        let reliance = |place: DocumentId| self.learned_of(place, target).filter(|_| inferred);
        if let Some(provider) = self.index.provider_for(place, target) {
            return (self.document(place, provider), reliance(provider));
        }
        let by = match target {
            NeedTarget::Kind(kind) => self.rules.provider_of_kind(kind, &self.node),
            NeedTarget::Object(object) => self.rules.provider_of_object(object, &self.node),
        };
        let by = by.filter(|provider| inferred || !provider.is_only_learned());
        // A certain provider counts, even if another was also observed.
        let is_certain = |provider: &Provider| provider.condition.is_none();
        let learned = self.index.learned_for(place, target);
        if let Some(provider) = learned.filter(|_| inferred && !by.as_ref().is_some_and(is_certain))
        {
            return (self.document(place, provider), reliance(provider));
        }
        let satisfied_by = match &by {
            Some(Provider { by, condition, .. }) => SatisfiedBy::Platform {
                by: by.clone(),
                condition: condition.clone(),
            },
            // A rule or an annotation may mean an object that is created at run time; a field that merely refers to an
            // object does not hold anything. Only a target without which RKE2 cannot apply the file is worth a finding.
            None if inferred && matches!(target, NeedTarget::Kind(_)) => SatisfiedBy::Nobody,
            None if inferred && is_namespace(target) => SatisfiedBy::Nobody,
            None => SatisfiedBy::Cluster,
        };
        let learned = by.and_then(|provider| provider.learned);
        (satisfied_by, learned.filter(|_| inferred))
    }

    /// A document that provides something, from the view of another.
    fn document(&self, place: DocumentId, (file, document): DocumentId) -> SatisfiedBy {
        let line = self.examined[file].objects[document].line;
        match file == place.0 {
            true => SatisfiedBy::SameFile { line },
            false => SatisfiedBy::File { file, line },
        }
    }

    /// The knowledge from earlier boots about the results of a document.
    fn learned_of(
        &self,
        (file, document): DocumentId,
        target: &NeedTarget,
    ) -> Option<Arc<Reliance>> {
        let known = self.examined[file].objects[document].brings.as_ref()?;
        known.learned_of(target).cloned()
    }

    fn need(&mut self, target: NeedTarget, condition: NeedCondition) -> NeedId {
        let need = Need { target, condition };
        if let Some(&id) = self.need_ids.get(&need) {
            return id;
        }
        let id = self.plan.needs.len();
        self.plan.needs.push(need.clone());
        self.need_ids.insert(need, id);
        id
    }
}

pub(super) fn is_namespace(target: &NeedTarget) -> bool {
    matches!(target, NeedTarget::Object(object) if object.group.is_empty() && object.kind == "Namespace")
}
