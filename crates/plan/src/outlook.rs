//! Whether the files of a plan can all be applied, as far as the plan knows.

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::{Code, Severity};

use crate::knowledge::{LearnedShare, LearnedThing};
use crate::link::{may_be_brought, without_provider};
use crate::rules::Tier;
use crate::{FileId, Plan, PlanFile, Requirement, SatisfiedBy, rke2};

/// Whether all files can be applied. The worse, the greater.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outlook {
    /// They can.
    Works,
    /// They can if each of these is so.
    Unknown {
        /// What is not known, in words; never empty.
        unless: Vec<String>,
    },
    /// They cannot: nothing brings these.
    CannotWork {
        /// What is needed and never comes. Empty where findings say what is wrong.
        missing: Vec<String>,
    },
}

impl Plan {
    /// Whether all files can be applied. It follows from the findings and from what is needed.
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
            unless.insert("nothing is wrong with what was not looked at".to_owned());
        }
        let mut codes = self.findings.iter().map(|finding| finding.code);
        if codes.any(|code| code == Code::BootUnknown) {
            unless.insert("the version that is named is like the one it is taken for".to_owned());
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

    /// What was found, for who looks ahead. On a node what nothing here brings may still come from elsewhere, and is only a
    /// warning. Ahead of it nothing else is known: it is an error where a file cannot do without it, and where an installer of
    /// these files may bring it, it is not known.
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

    /// What a rule or an annotation waits for and nothing here makes, each with the file that waits: for good, if nothing makes it at
    /// run time.
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

    /// What is said of that.
    pub fn waits_for_elsewhere(&self, file: FileId, requirement: &Requirement) -> String {
        let what = self.target_of(requirement);
        Code::MadeElsewhere.say(&[("what", &what), ("file", &self.files[file].path)])
    }

    /// How much of what the files cannot do without is known from earlier boots.
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

    /// What files that are applied need before they can be.
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

/// Does RKE2 apply a file, and is it none of its own?
fn is_applied(file: &PlanFile) -> bool {
    file.skipped.is_none() && !rke2::is_platforms(&file.path)
}
