//! What linking works on.

use std::collections::HashMap;

use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Code;

use super::declarations::{DeclarationIndex, DocumentId};
use crate::examine::Examined;
use crate::knowledge::NodeFacts;
use crate::rules::RuleSet;
use crate::{Need, NeedId, Plan};

/// The plan in the making, and what it is made from.
pub(crate) struct Linker<'a> {
    pub(crate) examined: &'a [&'a Examined],
    pub(crate) rules: &'a RuleSet,
    /// The node that the files are for.
    pub(crate) node: NodeFacts,
    /// Installers that what nothing known brings may come from.
    pub(crate) installers: Vec<DocumentId>,
    /// Charts that would bring more with other values.
    pub(crate) charts_with_values: Vec<DocumentId>,
    pub(crate) index: DeclarationIndex,
    /// What is in files that RKE2 does not apply.
    pub(crate) skipped: DeclarationIndex,
    pub(crate) plan: Plan,
    pub(crate) need_ids: HashMap<Need, NeedId>,
}

impl Linker<'_> {
    pub(crate) fn find(&mut self, code: Code, message: String, at: Vec<Location>) {
        self.plan.findings.push(Finding {
            incident: None,
            code,
            severity: code.severity(),
            message,
            at,
        });
    }
}
