//! What the inputs say of the node beside its manifests.

use windrow_model::findings::Location;
use windrow_model::manifest::{ReadLimits, yaml};
use windrow_plan::knowledge::NodeFacts;
use windrow_plan::rules::Platform;
use windrow_simulate::rehearse::carriers;

use super::destinations::rke2_files;
use super::gathered::Inputs;
use super::markers::ForeignMarker;

/// RKE2's packaged components that the inputs switch off, and where.
pub(in crate::cli) fn disabled(inputs: &Inputs, limits: &ReadLimits) -> Vec<(String, Location)> {
    let carriers = inputs.carriers.iter();
    carriers
        .flat_map(|(shown, text)| carriers::disabled(shown, text, limits))
        .chain(inputs.markers.iter().filter_map(ForeignMarker::disables))
        .collect()
}

/// What is known of the node.
pub(super) fn node_facts(
    inputs: &Inputs,
    platform: Option<Platform>,
    disabled: &[(String, Location)],
) -> NodeFacts {
    let disabled = disabled.iter().map(|(name, _)| name.as_str());
    let mut facts = NodeFacts::from(platform).without(disabled);
    let mut files = rke2_files(&inputs.configuration);
    files.sort_by(|one, other| (one.place, one.name()).cmp(&(other.place, other.name())));
    for file in files {
        if let Ok(Some(root)) = yaml::parse_configuration(&file.text) {
            facts.add_rke2_configuration(&root);
        }
    }
    facts
}
