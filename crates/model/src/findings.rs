//! Findings: the type that every check returns and every command shows, with the place or the evidence for it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::reasons::{Code, Severity};
use crate::text::cut;

/// A place in a file that a person can open.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Location {
    /// The file, as the person named it or as it is called on the node.
    pub file: String,
    /// Line, counted from 1; absent when the whole file is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Location {
    pub fn file(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: None,
        }
    }

    pub fn line(file: impl Into<String>, line: u32) -> Self {
        Self {
            file: file.into(),
            line: Some(line),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// Something that a person should know: of a file, of the node or of its cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The stable code.
    pub code: Code,
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong and what to do.
    pub message: String,
    /// The lines that prove it.
    pub at: Vec<Location>,
    /// What was seen of a known incident of the cluster; absent for what is found in files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<Box<Incident>>,
}

const PLACES: usize = 3;

impl Finding {
    /// One line: the first places, the number of the other places, and the message.
    pub fn line(&self) -> String {
        let places = self.at.iter().take(PLACES).map(ToString::to_string);
        let places = places.collect::<Vec<_>>().join(", ");
        match self.at.len().saturating_sub(PLACES) {
            _ if self.at.is_empty() => self.message.clone(),
            0 => format!("{places}: {}", self.message),
            more => format!("{places} and {more} more: {}", self.message),
        }
    }

    /// Whether the finding reports something that Windrow cannot determine. A missing dependency of an object is a
    /// notice if something else may provide it. A dependency of an installer is a warning if it may be requested by
    /// hand, and so is one that may still be provided if a file cannot do without it.
    pub fn is_unknown(&self) -> bool {
        match self.code {
            Code::RoleWithoutProvider | Code::ClaimWithoutClass => {
                self.severity == Severity::Notice
            }
            // Of such a key Windrow cannot tell whether its files are written.
            Code::InstallerDepends | Code::MayBeBrought | Code::WriteFilesSpelling => {
                self.severity == Severity::Warning
            }
            _ => false,
        }
    }
}

/// A finding as a document shows it: with what to do about it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AdvisedFinding<'f> {
    /// The finding.
    #[serde(flatten)]
    finding: &'f Finding,
    /// What to do about it.
    advice: &'f str,
}

impl<'f> AdvisedFinding<'f> {
    fn new(finding: &'f Finding) -> Self {
        Self {
            finding,
            advice: finding.code.reason().advice,
        }
    }
}

/// Writes findings into a document, each with its advice.
///
/// # Errors
///
/// The serializer's errors.
pub fn serialize_advised<S: Serializer>(
    findings: &[Finding],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(findings.iter().map(AdvisedFinding::new))
}

/// A known incident of the cluster: of what, by which signs, and what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    /// What it is about, `Kind namespace/name`.
    pub subject: String,
    /// The rule of a rule pack that found it, `pack/rule`; absent of those that Windrow brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What was seen, the first things of it.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub advice: String,
    /// The command that shows and carries out the cure; absent where Windrow has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
    /// The page that explains it: below `docs/`, or an address.
    pub documentation: String,
}

impl Incident {
    /// The address of its page.
    pub fn page(&self) -> String {
        documentation_page(&self.documentation)
    }
}

/// The address of a documentation page: one of ours below `docs/`, or a full address.
pub fn documentation_page(documentation: &str) -> String {
    match documentation.contains("://") {
        true => documentation.to_owned(),
        false => format!("docs/{documentation}"),
    }
}

/// Most characters of a shortened value. Messages of controllers are seldom as long.
const LONGEST_IN_SHORT: usize = 500;

/// One thing that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The object, `Kind namespace/name`.
    pub object: String,
    /// The field.
    pub field: String,
    /// What stands there.
    pub value: String,
}

impl Evidence {
    /// The value of a field of an object.
    pub fn new(
        object: impl Into<String>,
        field: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Self {
            object: object.into(),
            field: field.into(),
            value: value.into(),
        }
    }

    /// Shortens a long value to its beginning.
    pub fn in_short(&self) -> Self {
        Self {
            value: cut(&*self.value, LONGEST_IN_SHORT),
            ..self.clone()
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.object, self.field, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_still_come_is_unknown_and_what_cannot_is_not() {
        let is_unknown = |code, severity| {
            let finding = Finding {
                code,
                severity,
                message: String::new(),
                at: Vec::new(),
                incident: None,
            };
            finding.is_unknown()
        };
        for code in [Code::RoleWithoutProvider, Code::ClaimWithoutClass] {
            assert!(is_unknown(code, Severity::Notice));
            assert!(!is_unknown(code, Severity::Error));
        }
        assert!(is_unknown(Code::InstallerDepends, Severity::Warning));
        assert!(is_unknown(Code::MayBeBrought, Severity::Warning));
        assert!(!is_unknown(Code::MayBeBrought, Severity::Notice));
        assert!(!is_unknown(Code::InstallerDepends, Severity::Error));
        assert!(!is_unknown(Code::FileRefused, Severity::Notice));
    }
}
