//! Operators: under which name their pods run, and so who of a directory runs them.

use windrow_model::manifest::ObjectRef;

use super::{Bringer, InstalledChart, Knowledge, KnowledgeEntry};

/// Kinds in `apps` that operators run as.
const WORKLOADS: &[&str] = &["DaemonSet", "Deployment", "StatefulSet"];

/// The name of an operator that an object runs: its own where it makes pods, and for a chart what Helm's templates usually call a
/// release's Deployment.
pub(crate) fn operator_name(id: &ObjectRef, chart: Option<&InstalledChart>) -> Option<String> {
    let is_workload = id.group == "apps" && WORKLOADS.contains(&id.kind.as_str());
    let own = is_workload.then(|| id.name.to_string());
    own.or_else(|| chart.map(InstalledChart::fullname))
}

impl Knowledge {
    /// What an operator of this name is known to bring as soon as its pods run.
    pub(crate) fn brought_by_pods<'k>(
        &'k self,
        name: &'k str,
    ) -> impl Iterator<Item = &'k KnowledgeEntry> {
        let is_it = move |bringer: &Bringer| matches!(bringer, Bringer::Operator { acts_on: None, deployment } if deployment == name);
        let entries = self.entries.iter();
        entries.filter(move |entry| is_it(&entry.bringer))
    }
}
