//! The release of Harvester that the inputs of `check` and `plan` install: it counts if the command line names no other one.

use windrow_model::findings::Finding;
use windrow_preflight::installer::{
    NamedRelease, difference, of_configuration, of_kernel_arguments,
};

use super::inputs::{Inputs, NamedVersions};

/// The versions of the command line, completed from the inputs, and a finding on each input that installs another release.
pub(super) fn with_installed(
    named: &NamedVersions,
    inputs: &Inputs,
) -> (NamedVersions, Vec<Finding>) {
    let releases = named_releases(inputs);
    let first = releases.first().map(|release| release.version);
    let named = NamedVersions {
        harvester: named.harvester.or(first),
        ..named.clone()
    };
    let used = named.harvester.into_iter();
    let different = used.flat_map(|used| {
        let releases = releases.iter();
        releases.filter_map(move |release| difference(used, release))
    });
    let different = different.collect();
    (named, different)
}

/// As the installer reads them: a parameter of the kernel wins over a configuration.
fn named_releases(inputs: &Inputs) -> Vec<NamedRelease> {
    let parameters = inputs.kernel_arguments.iter();
    let parameters = parameters.filter_map(|(shown, text)| of_kernel_arguments(shown, text));
    let configurations = inputs.carriers.iter();
    let configurations = configurations.filter_map(|(shown, text)| of_configuration(shown, text));
    parameters.chain(configurations).collect()
}
