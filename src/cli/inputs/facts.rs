//! Facts in the inputs about the node, other than its manifests.

use windrow_model::findings::Location;
use windrow_plan::knowledge::NodeFacts;
use windrow_plan::rke2::config::Rke2ConfigFile;
use windrow_plan::rke2::{ServiceRanges, chart_selections, service_ranges};
use windrow_plan::rules::Platform;
use windrow_preflight::named_by_installer;

use super::destinations::rke2_files;
use super::gathered::Inputs;
use super::markers::ForeignMarker;

/// RKE2's configuration: the parts that the inputs write, or the node's own if the inputs are the node's.
fn rke2_configuration(inputs: &Inputs) -> Vec<Rke2ConfigFile> {
    let own = inputs.node_rke2.iter().cloned();
    own.chain(rke2_files(&inputs.configuration)).collect()
}

/// RKE2's packaged components that the inputs switch off, and where.
pub(in crate::cli) fn disabled(inputs: &Inputs) -> Vec<(String, Location)> {
    chart_selections(&rke2_configuration(inputs))
        .switched_off()
        .chain(inputs.markers.iter().filter_map(ForeignMarker::disables))
        .collect()
}

/// The ranges that RKE2 reserves for Services. Harvester's own configuration of them is not among the inputs.
pub(in crate::cli) fn ranges(inputs: &Inputs, platform: Option<Platform>) -> ServiceRanges {
    match platform {
        Some(Platform::Rke2) => service_ranges(&rke2_configuration(inputs)),
        _ => ServiceRanges::default(),
    }
}

pub(super) fn node_facts(inputs: &Inputs, platform: Option<Platform>) -> NodeFacts {
    let by_marker = inputs.markers.iter().filter_map(ForeignMarker::disables);
    let by_marker: Vec<String> = by_marker.map(|(name, _)| name).collect();
    let texts = inputs.carriers.iter().map(|(_, text)| text.as_str());
    let addons = texts.flat_map(named_by_installer);
    let enabled = addons.filter_map(|(name, is_enabled)| is_enabled.then_some(name));
    NodeFacts::from(platform)
        .with_rke2_files(&rke2_configuration(inputs))
        .without(by_marker.iter().map(String::as_str))
        .with_addons(enabled)
}
