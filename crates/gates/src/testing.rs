//! What the unit tests of the gates share.

use windrow_plan::rules::Location;

use super::{Component, Request, Target};

/// A gate asked for in `windrow.yaml`.
pub(super) fn request(component: Component, gate: &str, value: bool) -> Request {
    Request {
        component,
        gate: gate.to_owned(),
        value,
        when: None,
        reason: None,
        at: Location::line("windrow.yaml", 3),
    }
}

pub(super) fn api(gate: &str, value: bool) -> Request {
    request(Component::KubeApiserver, gate, value)
}

pub(super) fn at(version: &str) -> Target {
    Target::Known(version.parse().unwrap())
}
