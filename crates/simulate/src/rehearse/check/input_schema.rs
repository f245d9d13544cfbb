//! The JSON schema, draft 7, of a file with accepted findings, for editors. It is generated from the types below, while
//! `acceptance` reads the files.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};
use windrow_model::reasons::{Code, REASONS, Reason};

/// Accepted findings, each with a reason that stays visible.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcceptedFindingsFile {
    /// Version of the format.
    pub api_version: AcceptedVersion,
    /// Kind of the file.
    pub kind: AcceptedKind,
    /// The entries.
    pub accept: Vec<AcceptedEntry>,
}

/// Version of the format.
#[derive(JsonSchema)]
pub enum AcceptedVersion {
    /// The first version.
    #[schemars(rename = "windrow.dev/v1")]
    V1,
}

/// Kind of the file.
#[derive(JsonSchema)]
pub enum AcceptedKind {
    /// Accepted findings.
    AcceptedFindings,
}

/// An entry: a code, a file or both, and a reason.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AcceptedEntry {
    /// Accepted code; any if absent.
    #[schemars(with = "Option<ListedCode>")]
    pub code: Option<Code>,
    /// File, or the end of its path; any if absent.
    pub file: Option<String>,
    /// Reason. It is shown.
    #[schemars(length(min = 1))]
    pub reason: String,
}

/// A code. Editors list all of them.
struct ListedCode;

impl JsonSchema for ListedCode {
    fn schema_name() -> Cow<'static, str> {
        Code::schema_name()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let code = |reason: &Reason| json!({"const": reason.id, "description": reason.template});
        let codes: Vec<Value> = REASONS.iter().map(code).collect();
        json_schema!({"oneOf": codes})
    }
}

pub fn accepted_findings_schema() -> String {
    let generator = SchemaSettings::draft07().into_generator();
    let schema = generator.into_root_schema_for::<AcceptedFindingsFile>();
    // A schema contains only maps and strings, so it can always be serialised.
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}
