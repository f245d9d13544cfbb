//! The form of a file with accepted findings for editors: a JSON schema, draft 7, from the types below. Files are read by
//! `acceptance`.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};
use windrow_model::reasons::{Code, REASONS, Reason};

/// Findings that are accepted, each with a reason that stays visible.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcceptedFindingsFile {
    /// The version of the form.
    pub api_version: AcceptedVersion,
    /// What the file is.
    pub kind: AcceptedKind,
    /// The entries.
    pub accept: Vec<AcceptedEntry>,
}

/// The version of the form.
#[derive(JsonSchema)]
pub enum AcceptedVersion {
    /// The first.
    #[schemars(rename = "windrow.dev/v1")]
    V1,
}

/// What the file is.
#[derive(JsonSchema)]
pub enum AcceptedKind {
    /// Accepted findings.
    AcceptedFindings,
}

/// One entry: a code, a file or both, and a reason.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AcceptedEntry {
    /// The code; any where there is none.
    #[schemars(with = "Option<ListedCode>")]
    pub code: Option<Code>,
    /// The file, or the end of its path; any where there is none.
    pub file: Option<String>,
    /// Why. It is shown.
    #[schemars(length(min = 1))]
    pub reason: String,
}

/// A code, of which an editor shows all.
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

/// The schema as text.
pub fn accepted_findings_schema() -> String {
    let generator = SchemaSettings::draft07().into_generator();
    let schema = generator.into_root_schema_for::<AcceptedFindingsFile>();
    // A schema is made of maps and strings, and always serialises.
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}
