//! What has to come from an installer for everything to work, because nothing known brings it. A
//! rehearsal takes it to come, and says that it is not known.

use std::collections::BTreeMap;

use windrow_model::manifest::ObjectRef;
use windrow_plan::rules::NeedTarget;
use windrow_plan::{Plan, SatisfiedBy};

use crate::MayBring;

/// What each installer has to bring.
pub fn guesses(plan: &Plan) -> BTreeMap<ObjectRef, MayBring> {
    let mut guesses: BTreeMap<ObjectRef, MayBring> = BTreeMap::new();
    let files = plan.files.iter().filter(|file| file.owner.is_none());
    for document in files.flat_map(|file| &file.documents) {
        for requirement in &document.requires {
            let SatisfiedBy::Installer { file, line } = requirement.satisfied_by else {
                continue;
            };
            let file = &plan.files[file];
            let mut documents = file.documents.iter();
            let Some(installer) = documents.find(|one| one.line == line) else {
                continue;
            };
            let guess = guesses.entry(installer.object.clone()).or_default();
            guess.file.clone_from(&file.path);
            match &plan.needs[requirement.need].target {
                NeedTarget::Kind(kind) => {
                    let namespaced = document.object.namespace.is_some();
                    guess.kinds.insert(kind.clone(), namespaced);
                }
                NeedTarget::Object(object) => {
                    guess.namespaces.insert(object.name.clone());
                }
            }
        }
    }
    guesses
}
