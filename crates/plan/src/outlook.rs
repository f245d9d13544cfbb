//! Whether all files of a plan can be applied, according to the plan.

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::{Code, Severity};

use crate::knowledge::{LearnedShare, LearnedThing};
use crate::link::{may_be_brought, without_provider};
use crate::rules::Tier;
use crate::{FileId, Plan, PlanFile, Requirement, SatisfiedBy, rke2};

/// Whether all files can be applied. A greater value is worse.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outlook {
    /// They can.
    Works,
    /// They can if all these conditions are met.
    Unknown {
        /// The unknown conditions, in words; never empty.
        unless: Vec<String>,
    },
    /// They cannot: these are missing.
    CannotWork {
        /// The needs that will never be met. Empty if findings describe the problem.
        missing: Vec<String>,
    },
}

impl Plan {
    /// Whether all files can be applied, according to the findings and the needs.
    pub fn outlook(&self) -> Outlook {
        let missing = self.needed(|requirement| {
            requirement.satisfied_by == SatisfiedBy::Nobody
                || self.unobservable.contains(&requirement.need)
        });
        let is_error = self
            .findings
            .iter()
            .any(|one| one.severity == Severity::Error);
        if is_error || !missing.is_empty() {
            let missing = missing
                .into_iter()
                .map(|requirement| self.target_of(requirement));
            return Outlook::CannotWork {
                missing: missing.collect::<BTreeSet<_>>().into_iter().collect(),
            };
        }
        let mut unless = BTreeSet::new();
        for requirement in self.needed(|_| true) {
            let what = self.target_of(requirement);
            if let Some(learned) = requirement.learned.as_ref().filter(|one| !one.is_firm()) {
                unless.insert(format!("{} brings {what} again ({learned})", learned.by));
            }
            match &requirement.satisfied_by {
                SatisfiedBy::Installer { file, .. } => {
                    unless.insert(format!("{} brings {what}", self.files[*file].path));
                }
                SatisfiedBy::Platform {
                    condition: Some(condition),
                    ..
                } => {
                    unless.insert(condition.clone());
                }
                _ => {}
            }
        }
        let elsewhere = self.made_elsewhere();
        unless.extend(elsewhere.map(|(_, requirement)| {
            let what = self.target_of(requirement);
            format!("{what} comes, which nothing here makes")
        }));
        let mut codes = self.findings.iter().map(|finding| finding.code);
        if codes.any(|code| code == Code::NotLookedAt) {
            unless.insert("nothing is wrong with the unchecked parts".to_owned());
        }
        let mut codes = self.findings.iter().map(|finding| finding.code);
        if codes.any(|code| code == Code::BootUnknown) {
            unless.insert("the given version behaves like the simulated one".to_owned());
        }
        let missed = self.findings.iter().filter(|finding| finding.is_unknown());
        unless.extend(missed.map(|finding| finding.message.clone()));
        match unless.is_empty() {
            true => Outlook::Works,
            false => Outlook::Unknown {
                unless: unless.into_iter().collect(),
            },
        }
    }

    /// The findings for checks ahead of a boot. On a node a missing object may still come from elsewhere, so this is
    /// only a warning. Ahead of a boot nothing else is known: it is an error if a file cannot do without the object,
    /// and unknown if an installer of these files may provide it.
    pub fn findings_ahead(&self) -> Vec<Finding> {
        let mut needed = BTreeMap::new();
        for requirement in self.needed(|_| true) {
            let target = &self.needs[requirement.need].target;
            match requirement.satisfied_by {
                SatisfiedBy::Nobody => {
                    needed.insert(without_provider(target), Severity::Error);
                }
                SatisfiedBy::Installer { file, .. } => {
                    let said = may_be_brought(target, &self.files[file].path);
                    needed.insert(said, Severity::Warning);
                }
                _ => {}
            }
        }
        let ahead = self.findings.iter().cloned().map(|mut finding| {
            let said = (finding.code, finding.message.clone());
            finding.severity = needed.get(&said).copied().unwrap_or(finding.severity);
            finding
        });
        let mut ahead: Vec<Finding> = ahead.collect();
        let mut elsewhere: BTreeMap<String, BTreeSet<Location>> = BTreeMap::new();
        for (file, requirement) in self.made_elsewhere() {
            let at = elsewhere.entry(self.waits_for_elsewhere(file, requirement));
            at.or_default().insert(requirement.origin.at.clone());
        }
        let code = Code::MadeElsewhere;
        ahead.extend(elsewhere.into_iter().map(|(message, at)| Finding {
            incident: None,
            code,
            severity: code.severity(),
            message,
            at: at.into_iter().collect(),
        }));
        ahead
    }

    /// The requirements of a rule or an annotation without a provider in these files, each with the file that waits:
    /// forever, if nothing creates the target at run time.
    pub fn made_elsewhere(&self) -> impl Iterator<Item = (FileId, &Requirement)> {
        let files = self.files.iter().enumerate();
        let applied = files.filter(|(_, file)| is_applied(file));
        let requirements = applied.flat_map(|(id, file)| {
            let requirements = file.requirements();
            requirements.map(move |requirement| (id, requirement))
        });
        requirements.filter(|(_, requirement)| {
            requirement.tier == Tier::Required
                && requirement.satisfied_by == SatisfiedBy::Cluster
                && !self.unobservable.contains(&requirement.need)
                && !requirement.yields
        })
    }

    /// The message about such a requirement.
    pub fn waits_for_elsewhere(&self, file: FileId, requirement: &Requirement) -> String {
        let what = self.target_of(requirement);
        Code::MadeElsewhere.say(&[("what", &what), ("file", &self.files[file].path)])
    }

    /// The share of the required needs with knowledge from earlier boots.
    pub fn learned_share(&self) -> LearnedShare {
        let needed = self.needed(|_| true);
        let all: BTreeSet<_> = needed.iter().map(|requirement| requirement.need).collect();
        let mut share = LearnedShare {
            needs: all.len(),
            ..LearnedShare::default()
        };
        let mut told = BTreeSet::new();
        for requirement in needed {
            let Some(learned) = &requirement.learned else {
                continue;
            };
            if !told.insert(requirement.need) {
                continue;
            }
            share.learned += usize::from(requirement.is_only_learned());
            share.weak += usize::from(!learned.is_firm());
            share.things.push(LearnedThing {
                what: self.target_of(requirement),
                learned: learned.report(),
            });
        }
        share
    }

    /// The required requirements of the files that RKE2 applies, filtered by `wanted`.
    fn needed(&self, wanted: impl Fn(&Requirement) -> bool) -> Vec<&Requirement> {
        let files = self.files.iter().filter(|file| is_applied(file));
        let requirements = files.flat_map(PlanFile::requirements);
        requirements
            .filter(|one| one.tier == Tier::Required && wanted(one))
            .collect()
    }

    fn target_of(&self, requirement: &Requirement) -> String {
        self.needs[requirement.need].target.to_string()
    }
}

/// Whether RKE2 applies a file, and the file does not come with the platform.
fn is_applied(file: &PlanFile) -> bool {
    file.skipped.is_none() && !rke2::is_platforms(&file.path)
}
