//! The input and the findings of a judgement: shared by the checks of single gates and of their dependencies.

use std::collections::HashSet;

use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::version::{Version, When};

use super::{Component, GateRequest};

/// One gate as it would be set, in any file.
#[derive(Debug, Clone, Copy)]
pub(super) struct GateAssignment<'a> {
    pub(super) component: Component,
    pub(super) gate: &'a str,
    pub(super) value: bool,
    pub(super) reason: Option<&'a str>,
    pub(super) when: Option<&'a When>,
    pub(super) at: &'a Location,
    /// Did the configuration request it? Gates of other writers are judged less strictly if they would work.
    pub(super) ours: bool,
}

impl GateAssignment<'_> {
    /// The advice to limit it to some minors: only Windrow's configuration can.
    pub(super) fn or_limit(&self, when: &str) -> String {
        match self.ours {
            true => format!(", or limit it with `when: \"{when}\"`"),
            false => String::new(),
        }
    }
}

impl GateRequest {
    pub(super) fn as_set(&self) -> GateAssignment<'_> {
        GateAssignment {
            component: self.component,
            gate: &self.gate,
            value: self.value,
            reason: self.reason.as_deref(),
            when: self.when.as_ref(),
            at: &self.at,
            ours: true,
        }
    }

    /// Does its `when` admit this version?
    pub(super) fn meant_on(&self, version: Version) -> bool {
        self.when
            .as_ref()
            .is_none_or(|when| when.admits(version.minor))
    }
}

/// Each finding only once.
#[derive(Debug, Default)]
pub(super) struct Findings {
    found: Vec<Finding>,
    known: HashSet<(Code, String, Vec<Location>)>,
}

impl Findings {
    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    pub(super) fn push(&mut self, code: Code, message: String, at: Vec<Location>) {
        self.push_as(code, code.severity(), message, at);
    }

    pub(super) fn push_as(
        &mut self,
        code: Code,
        severity: Severity,
        message: String,
        at: Vec<Location>,
    ) {
        let finding = Finding {
            incident: None,
            code,
            severity,
            message,
            at,
        };
        let key = (code, finding.message.clone(), finding.at.clone());
        if self.known.insert(key) {
            self.found.push(finding);
        }
    }

    pub(super) fn done(self) -> Vec<Finding> {
        self.found
    }
}
