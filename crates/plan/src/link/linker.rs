//! The state of linking.

use std::collections::HashMap;

use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Code;

use super::declarations::{DeclarationIndex, DocumentId};
use crate::examine::Examined;
use crate::knowledge::NodeFacts;
use crate::rules::RuleSet;
use crate::{Need, NeedId, Plan};

/// The unfinished plan, and its inputs.
pub(crate) struct Linker<'a> {
    pub(crate) examined: &'a [&'a Examined],
    pub(crate) rules: &'a RuleSet,
    /// The node for which the files are meant.
    pub(crate) node: NodeFacts,
    /// Installers that may provide targets without a known provider.
    pub(crate) installers: Vec<DocumentId>,
    /// Charts that would provide more with other values.
    pub(crate) charts_with_values: Vec<DocumentId>,
    pub(crate) index: DeclarationIndex,
    /// The content of files that RKE2 does not apply.
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
