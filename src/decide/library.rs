//! Files that are read and planned once for many engines: a rehearsal plays the same directory over and
//! over.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::manifest::{self, Content, Limits};
use crate::plan::{self, Examined, Plan, Shown};
use crate::rules::{Platform, RuleSet};

/// What is known of files before they are seen.
#[derive(Debug, Default)]
pub struct Library {
    examined: BTreeMap<String, Arc<Examined>>,
    contents: BTreeMap<String, Arc<Content>>,
    plan: Arc<Plan>,
}

impl Library {
    /// What these files are under these rules and limits; an engine that has others must not get it.
    pub fn of<'a>(
        files: impl Iterator<Item = (&'a str, &'a Arc<Content>)>,
        limits: &Limits,
        rules: &RuleSet,
        platform: Option<Platform>,
    ) -> Self {
        let contents: BTreeMap<String, Arc<Content>> = files
            .map(|(path, content)| (path.to_owned(), Arc::clone(content)))
            .collect();
        let examined: BTreeMap<String, Arc<Examined>> = contents
            .iter()
            .map(|(path, content)| {
                let file = manifest::read(path, content, limits);
                let examined = plan::examine(&file, Shown::itself(path), rules, platform);
                (path.to_owned(), Arc::new(examined))
            })
            .collect();
        let all: Vec<Arc<Examined>> = examined.values().cloned().collect();
        Self {
            plan: Arc::new(plan::link(&all, rules, platform)),
            examined,
            contents,
        }
    }

    /// The file at this path, if it is known.
    pub(super) fn file(&self, path: &str) -> Option<&Arc<Examined>> {
        self.examined.get(path)
    }

    /// The file at this path, if this is the very content that is known: it need not even be compared.
    pub(super) fn same(&self, path: &str, content: &Arc<Content>) -> Option<&Arc<Examined>> {
        let known = self.contents.get(path)?;
        Arc::ptr_eq(known, content)
            .then(|| self.examined.get(path))
            .flatten()
    }

    /// The plan, if these are all the files that are known and no others.
    pub(super) fn plan(&self, examined: &BTreeMap<String, Arc<Examined>>) -> Option<&Arc<Plan>> {
        let same = examined.len() == self.examined.len()
            && examined
                .values()
                .zip(self.examined.values())
                .all(|(one, other)| Arc::ptr_eq(one, other));
        (same && !examined.is_empty()).then_some(&self.plan)
    }
}
