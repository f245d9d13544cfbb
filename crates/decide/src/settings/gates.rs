//! `featureGates:` of the configuration: the requested gates, and their components.
//!
//! ```yaml
//! featureGates:
//!   kubeApiserver:
//!     ImageVolume: true
//!     AuthorizeNodeWithSelectors: {value: false, when: ">=1.32, <1.34", reason: second node NotReady}
//! ```
//!
//! Files are merged gate by gate; `null` cancels the request of an earlier file. This module does not check that a gate
//! exists: that depends on the version that will start.

use windrow_gates::{Component, GateRequest};
use windrow_model::findings::Location;
use windrow_model::manifest::{MapEntry, Node, NodeValue};
use windrow_model::redact::quoted;
use windrow_model::suggest::nearest;
use windrow_plan::version::When;

use super::error::ConfigError;
use super::units::expected;

pub(super) const SECTION: &str = "featureGates";

#[derive(Debug)]
pub(super) struct GateSetting {
    pub(super) component: Component,
    pub(super) gate: String,
    /// `None` cancels the request of an earlier file.
    pub(super) request: Option<GateRequest>,
}

/// Reads the section and reports every error in it.
pub(super) fn read(file: &str, node: &Node) -> Result<Vec<GateSetting>, Vec<ConfigError>> {
    let mut settings = Vec::new();
    let mut errors = Vec::new();
    let mut wrong = |line: u32, message: String| {
        errors.push(ConfigError {
            at: Location::line(file, line),
            message,
        });
    };
    if !is_map_or_empty(node) {
        wrong(node.line, expected("a map of components", node));
    }
    for entry in node.entries() {
        let component = Component::ALL
            .into_iter()
            .find(|component| component.setting() == Some(&entry.key));
        let Some(component) = component else {
            let known = Component::ALL.into_iter().filter_map(Component::setting);
            let hint = match nearest(&entry.key, known.clone()) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("write one of {}", known.collect::<Vec<_>>().join(", ")),
            };
            wrong(
                entry.line,
                format!("unknown component `{SECTION}.{}`: {hint}", entry.key),
            );
            continue;
        };
        if !is_map_or_empty(&entry.value) {
            let what = expected("a map of gates and their values", &entry.value);
            wrong(entry.value.line, format!("{SECTION}.{}: {what}", entry.key));
        }
        for gate in entry.value.entries() {
            match read_gate(file, component, gate) {
                Ok(setting) => settings.push(setting),
                Err((line, why)) => {
                    wrong(line, format!("{SECTION}.{}.{}: {why}", entry.key, gate.key))
                }
            }
        }
    }
    if errors.is_empty() {
        Ok(settings)
    } else {
        Err(errors)
    }
}

fn is_map_or_empty(node: &Node) -> bool {
    matches!(node.value, NodeValue::Mapping(_) | NodeValue::Null)
}

fn read_gate(
    file: &str,
    component: Component,
    gate: &MapEntry,
) -> Result<GateSetting, (u32, String)> {
    let mut request = GateRequest {
        component,
        gate: gate.key.clone(),
        value: false,
        when: None,
        reason: None,
        at: Location::line(file, gate.line),
    };
    let setting = |request| GateSetting {
        component,
        gate: gate.key.clone(),
        request,
    };
    let boolean = |node: &Node| {
        node.as_bool()
            .ok_or_else(|| (node.line, expected("true or false", node)))
    };
    match &gate.value.value {
        NodeValue::Null => return Ok(setting(None)),
        NodeValue::Mapping(entries) => {
            let mut value = None;
            for entry in entries {
                let text = || {
                    let text = entry.value.as_str().map(str::trim);
                    text.filter(|text| !text.is_empty())
                        .ok_or_else(|| (entry.line, expected("a text", &entry.value)))
                };
                match entry.key.as_str() {
                    "value" => value = Some(boolean(&entry.value)?),
                    "when" => {
                        let when: When = text()?
                            .parse()
                            .map_err(|error| (entry.line, format!("{error}")))?;
                        request.when = Some(when);
                    }
                    "reason" => request.reason = Some(text()?.to_owned()),
                    other => {
                        let why =
                            format!("unknown key {}: write value, when, reason", quoted(other));
                        return Err((entry.line, why));
                    }
                }
            }
            request.value = value.ok_or_else(|| {
                (
                    gate.line,
                    "`value` is missing: write true or false".to_owned(),
                )
            })?;
        }
        _ => request.value = boolean(&gate.value)?,
    }
    Ok(setting(Some(request)))
}

#[cfg(test)]
mod tests {
    use windrow_model::manifest::yaml;

    use super::*;

    fn section(text: &str) -> Result<Vec<GateSetting>, Vec<ConfigError>> {
        read(
            "windrow.yaml",
            &yaml::parse_configuration(text).unwrap().unwrap(),
        )
    }

    #[test]
    fn a_gate_is_a_boolean_or_a_map_with_when_and_reason() {
        let read = section(
            "kubeApiserver:\n  ImageVolume: true\n  A: {value: false, when: '>=1.32, <1.34', reason: why}\nkubelet:\n  B: null\nkubeScheduler:\n",
        )
        .unwrap();
        let requests: Vec<&GateRequest> =
            read.iter().filter_map(|one| one.request.as_ref()).collect();
        assert_eq!(requests.len(), 2);
        assert!(requests[0].value);
        assert_eq!(requests[0].at, Location::line("windrow.yaml", 2));
        assert!(!requests[1].value);
        assert_eq!(
            requests[1].when.as_ref().unwrap().to_string(),
            ">=1.32, <1.34"
        );
        assert_eq!(requests[1].reason.as_deref(), Some("why"));
        assert!(read[2].request.is_none());
    }

    #[test]
    fn everything_that_is_wrong_is_named_with_its_line() {
        let errors = section(
            "kubeApiServer: {A: true}\nkubelet:\n  A: 'true'\n  B: {when: '>=1.32'}\n  C: {value: true, when: soon}\n  D: {value: true, until: x}\nkubeScheduler: [A]\nkubeProxy: {A: true}\n",
        )
        .unwrap_err();
        let lines: Vec<Option<u32>> = errors.iter().map(|error| error.at.line).collect();
        assert_eq!(lines, [1, 3, 4, 5, 6, 7, 8].map(Some));
        assert!(errors[0].message.contains("did you mean `kubeApiserver`?"));
    }
}
