//! The schema of `probes` in `windrow.yaml`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use windrow_plan::readiness::node::{BUILTIN, NodeRole, Phase, ProbeSeverity};

use super::{AbsolutePath, DurationText};

/// Changes to Windrow's own probes, by name.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub struct BuiltinProbes(
    #[schemars(extend("propertyNames" = {"enum": builtin_names()}))]
    pub  BTreeMap<String, BuiltinProbeFile>,
);

/// Your probes, by name: lower-case letters, digits and `-`.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub struct CustomProbes(pub BTreeMap<String, ProbeFile>);

fn builtin_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = BUILTIN.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Changes to one of Windrow's own probes.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BuiltinProbeFile {
    /// false: it does not run. The status says so; if the node needs it, the node is not Ready without it.
    pub enabled: Option<bool>,
    /// Its period; longer than the timeout of an answer.
    pub period: Option<DurationText>,
    /// After how many bad answers in a row it fails.
    #[schemars(range(min = 1, max = 100))]
    pub fall: Option<u32>,
    /// wanted: the node can do without it.
    pub severity: Option<ProbeSeverity>,
    /// Its limit: a share like 10%, a size like 20GiB, a time like 30d, a load for each core.
    pub limit: Option<ProbeLimitFile>,
}

/// The limit of a probe.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum ProbeLimitFile {
    /// The load for each core.
    Number(f64),
    /// A share, a size or a time.
    Text(String),
}

/// A probe: one of http, tcp, unit, file, object, and when it counts.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ProbeFile {
    /// false removes an earlier definition.
    pub enabled: Option<bool>,
    /// An address that has to answer.
    pub http: Option<HttpProbeFile>,
    /// A port that has to take connections.
    pub tcp: Option<TcpProbeFile>,
    /// A systemd unit and its state.
    pub unit: Option<UnitProbeFile>,
    /// A file and its state.
    pub file: Option<FileProbeFile>,
    /// An object of the cluster and its state.
    pub object: Option<ObjectProbeFile>,
    /// Its period; 5s or more.
    pub period: Option<DurationText>,
    /// How long an answer may take; less than the period.
    pub timeout: Option<DurationText>,
    /// After how many good answers in a row it passes.
    #[schemars(range(min = 1, max = 100))]
    pub rise: Option<u32>,
    /// After how many bad answers in a row it fails.
    #[schemars(range(min = 1, max = 100))]
    pub fall: Option<u32>,
    /// Does the node need it, or is it only wanted?
    pub severity: Option<ProbeSeverity>,
    /// The nodes that run it.
    pub roles: Option<Vec<NodeRole>>,
    /// In which phase of the boot it counts.
    pub phase: Option<Phase>,
    /// The message when it fails.
    #[schemars(length(max = 160))]
    pub message: Option<String>,
}

/// An address that has to answer.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpProbeFile {
    /// The address, without credentials.
    #[schemars(regex(pattern = "^https?://"))]
    pub url: String,
    /// The status, or a list of them.
    pub status: Option<HttpStatus>,
    /// Text that the answer has to contain.
    pub contains: Option<String>,
    /// A file with the CA of the server's certificate.
    pub ca_file: Option<AbsolutePath>,
    /// true disables the check of the certificate.
    pub insecure: Option<bool>,
    /// A file with headers, for credentials.
    pub headers_file: Option<AbsolutePath>,
}

/// A status, or several.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum HttpStatus {
    /// One status.
    One(#[schemars(range(min = 100, max = 599))] u16),
    /// A list of statuses.
    Several(Vec<u16>),
}

/// A port that has to take connections.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TcpProbeFile {
    /// `HOST:PORT` or `[IPV6]:PORT`
    pub address: String,
}

/// A systemd unit and its state.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct UnitProbeFile {
    /// The whole name, like rke2-server.service.
    pub name: String,
    /// The state, or a list of them; active by default.
    pub state: Option<Words>,
}

/// A word, or several.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Words {
    /// One word.
    One(String),
    /// A list of words.
    Several(Vec<String>),
}

/// A file and its state.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileProbeFile {
    /// Its path.
    pub path: AbsolutePath,
    /// Does it have to be there, or absent?
    pub state: Option<FileState>,
    /// Text that it has to contain.
    pub contains: Option<String>,
    /// The maximum age of the file.
    pub newer_than: Option<DurationText>,
}

/// Does a file have to be there?
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum FileState {
    /// The file has to exist.
    Exists,
    /// The file must not exist.
    Absent,
}

/// An object of the cluster and its state.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectProbeFile {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name; the own Node where a Node has none.
    pub name: Option<String>,
    /// A CEL expression on `object`; without one it has to exist.
    pub expression: Option<String>,
}
