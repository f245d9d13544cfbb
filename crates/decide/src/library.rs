//! Files that are read and planned once for many engines: a rehearsal plays the same directory over and
//! over.

use std::collections::BTreeMap;
use std::sync::Arc;

use windrow_model::manifest::{Content, Limits};
use windrow_plan::rules::{Platform, RuleSet};
use windrow_plan::{self as plan, Examined, Plan, Shown};

use super::engine::FileChange;
use super::interests::Asked;
use super::judged::Judged;
use super::lookup::Lookup;

/// A plan, and where to find what in it.
#[derive(Debug, Clone, Default)]
pub(super) struct Planned {
    pub(super) plan: Arc<Plan>,
    pub(super) lookup: Arc<Lookup>,
    /// What was found of its needs before; where it is planned once for many engines.
    pub(super) judged: Option<Arc<Judged>>,
    /// What had to be watched for it before; likewise.
    pub(super) asked: Option<Arc<Asked>>,
}

impl Planned {
    /// Nothing, on this platform.
    pub(super) fn on(mut self, platform: Option<Platform>) -> Self {
        Arc::make_mut(&mut self.plan).platform = platform;
        self
    }
}

impl From<Plan> for Planned {
    fn from(plan: Plan) -> Self {
        Self {
            lookup: Arc::new(Lookup::of(&plan)),
            plan: Arc::new(plan),
            judged: None,
            asked: None,
        }
    }
}

/// What is known of files before they are seen.
#[derive(Debug, Default)]
pub struct Library {
    examined: Arc<BTreeMap<String, Arc<Examined>>>,
    contents: BTreeMap<String, Arc<Content>>,
    planned: Planned,
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
                let shown = Shown::itself(path);
                let examined = plan::examine_content(path, content, limits, shown, rules, platform);
                (path.to_owned(), Arc::new(examined))
            })
            .collect();
        let all: Vec<Arc<Examined>> = examined.values().cloned().collect();
        Self {
            planned: Planned {
                judged: Some(Arc::default()),
                asked: Some(Arc::default()),
                ..Planned::from(plan::link(&all, rules, platform))
            },
            examined: Arc::new(examined),
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

    /// All files that are known, if these are they and no others, each with the very content that is known.
    pub(super) fn all(
        &self,
        files: &[FileChange],
    ) -> Option<&Arc<BTreeMap<String, Arc<Examined>>>> {
        let is_known = |(file, (path, known)): (&FileChange, (&String, &Arc<Content>))| {
            let content = file.content.as_ref();
            file.path == *path && content.is_some_and(|content| Arc::ptr_eq(content, known))
        };
        let all = files.len() == self.contents.len() && !files.is_empty();
        (all && files.iter().zip(&self.contents).all(is_known)).then_some(&self.examined)
    }

    /// The plan, if these are all the files that are known and no others.
    pub(super) fn planned(
        &self,
        examined: &Arc<BTreeMap<String, Arc<Examined>>>,
    ) -> Option<&Planned> {
        if Arc::ptr_eq(examined, &self.examined) && !examined.is_empty() {
            return Some(&self.planned);
        }
        let same = examined.len() == self.examined.len()
            && examined
                .values()
                .zip(self.examined.values())
                .all(|(one, other)| Arc::ptr_eq(one, other));
        (same && !examined.is_empty()).then_some(&self.planned)
    }
}
