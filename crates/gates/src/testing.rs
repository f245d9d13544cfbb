//! Shared by the unit tests of the gates.

use windrow_model::findings::Location;

use super::{Component, GateRequest, TargetVersion};

pub(super) fn request(component: Component, gate: &str, value: bool) -> GateRequest {
    GateRequest {
        component,
        gate: gate.to_owned(),
        value,
        when: None,
        reason: None,
        at: Location::line("windrow.yaml", 3),
    }
}

pub(super) fn api(gate: &str, value: bool) -> GateRequest {
    request(Component::KubeApiserver, gate, value)
}

pub(super) fn at(version: &str) -> TargetVersion {
    TargetVersion::Known(version.parse().unwrap())
}
