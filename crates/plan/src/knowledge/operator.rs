//! Operators: the names of their workloads, by which the objects in a directory that run them are found.

use windrow_model::manifest::ObjectRef;

use super::{Bringer, InstalledChart, Knowledge, KnowledgeEntry};

/// Kinds in `apps` as which operators run.
const WORKLOADS: &[&str] = &["DaemonSet", "Deployment", "StatefulSet"];

/// The name of the operator that an object runs: the name of a workload, and for a chart the usual name of a Deployment in Helm's
/// templates.
pub(crate) fn operator_name(id: &ObjectRef, chart: Option<&InstalledChart>) -> Option<String> {
    let is_workload = id.group == "apps" && WORKLOADS.contains(&id.kind.as_str());
    let own = is_workload.then(|| id.name.to_string());
    own.or_else(|| chart.map(InstalledChart::fullname))
}

impl Knowledge {
    /// The things that an operator with this name is known to provide as soon as its pods run.
    pub(crate) fn brought_by_pods<'k>(
        &'k self,
        name: &'k str,
    ) -> impl Iterator<Item = &'k KnowledgeEntry> {
        let is_it = move |bringer: &Bringer| matches!(bringer, Bringer::Operator { acts_on: None, deployment } if deployment == name);
        let entries = self.entries.iter();
        entries.filter(move |entry| is_it(&entry.bringer))
    }
}
