//! `probes.custom:` of the configuration: the user's own probes.
//!
//! ```yaml
//! probes:
//!   custom:
//!     registry:
//!       http: {url: "https://registry.example:5000/v2/", status: [200, 401], caFile: /etc/ssl/registry.pem}
//!       severity: required
//!       message: no image can be pulled
//!     time:
//!       unit: {name: chronyd.service}
//! ```
//!
//! Files are merged by name: the later file's definition replaces the earlier one as a whole; `enabled: false` removes
//! it. Requests to kube-apiserver that an agent may not make are rejected here, with their line, and not at run time.

pub(super) mod builtin;
mod fields;
#[cfg(test)]
mod tests;

use std::time::Duration;

use windrow_model::duration_text;
use windrow_model::findings::Location;
use windrow_model::manifest::{MapEntry, Node, NodeValue};
use windrow_model::redact::quoted;
use windrow_plan::readiness::node::{
    CustomProbe, CustomQuestion, FileQuestion, HttpQuestion, NodeRole, ObjectQuestion, Phase,
    ProbeSeverity,
};
use windrow_plan::rules::Expression;

use self::fields::{FieldReader, list};
use super::error::ConfigError;
use super::units::{count, expected};
use super::url;

pub(super) const SECTION: &str = "probes.custom";

const SECOND: Duration = Duration::from_secs(1);
/// No probe runs more often than this.
const LEAST_PERIOD: Duration = Duration::from_secs(5);
/// No probe may take longer than this.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);
const LONGEST_NAME: usize = 40;
const LONGEST_MESSAGE: usize = 160;

const KINDS: &[&str] = &["http", "tcp", "unit", "file", "object"];
const KEYS: &[&str] = &[
    "enabled", "http", "tcp", "unit", "file", "object", "period", "timeout", "rise", "fall",
    "severity", "roles", "phase", "message",
];
const ROLES: &[(&str, NodeRole)] = &[
    ("first-server", NodeRole::FirstServer),
    ("joined-server", NodeRole::JoinedServer),
    ("agent", NodeRole::Agent),
    ("witness", NodeRole::Witness),
];
const PHASES: &[(&str, Phase)] = &[
    ("network", Phase::Network),
    ("rke2-installed", Phase::Rke2Installed),
    ("api", Phase::Api),
    ("node", Phase::Node),
    ("rancher", Phase::Rancher),
    ("harvester-chart", Phase::HarvesterChart),
    ("settings", Phase::Settings),
    ("storage-network", Phase::StorageNetwork),
    ("ready", Phase::Ready),
];
const STATES: &[&str] = &[
    "active",
    "reloading",
    "refreshing",
    "inactive",
    "failed",
    "activating",
    "deactivating",
    "maintenance",
];

#[derive(Debug)]
pub(super) struct ProbeSetting {
    pub(super) name: String,
    pub(super) at: Location,
    /// `None` removes the definition of an earlier file.
    pub(super) probe: Option<CustomProbe>,
}

impl ProbeSetting {
    /// The definition in a few words, as `config show` prints it.
    pub(super) fn show(&self) -> String {
        let Some(probe) = &self.probe else {
            return "off".to_owned();
        };
        let what = match &probe.question {
            CustomQuestion::Http(http) => format!("http {}", url::origin(&http.url)),
            CustomQuestion::Tcp { host, port } => format!("tcp {host} port {port}"),
            CustomQuestion::Unit { name, .. } => format!("unit {name}"),
            CustomQuestion::File(file) => format!("file {}", file.path),
            CustomQuestion::Object(object) => {
                let name = object.name.as_deref().unwrap_or("(own)");
                format!("object {} {name}", object.kind)
            }
        };
        let severity = match probe.severity {
            ProbeSeverity::Required => "required",
            ProbeSeverity::Wanted => "wanted",
        };
        format!("{what}, every {}, {severity}", duration_text(probe.period))
    }
}

/// Reads the section and reports every error in it.
pub(super) fn read(file: &str, node: &Node) -> Result<Vec<ProbeSetting>, Vec<ConfigError>> {
    let mut reading = FieldReader::new(file);
    let mut settings = Vec::new();
    if !matches!(node.value, NodeValue::Mapping(_) | NodeValue::Null) {
        let what = expected("a map of names and probes", node);
        reading.wrong(node.line, format!("{SECTION}: {what}"));
    }
    for entry in node.entries() {
        settings.extend(reading.probe(entry));
    }
    match reading.errors.is_empty() {
        true => Ok(settings),
        false => Err(reading.errors),
    }
}

impl FieldReader<'_> {
    fn probe(&mut self, entry: &MapEntry) -> Option<ProbeSetting> {
        let before = self.errors.len();
        let path = format!("{SECTION}.{}", entry.key);
        if !is_name(&entry.key) {
            let why = format!(
                "a name is lower-case letters, digits and `-`, at most {LONGEST_NAME} of them"
            );
            self.wrong(entry.line, format!("{path}: {why}"));
        }
        let on = self.map(&path, entry, KEYS)
            && self.boolean(&path, &entry.value, "enabled").unwrap_or(true);
        let probe = on.then(|| self.definition(&path, entry));
        (self.errors.len() == before).then(|| ProbeSetting {
            name: entry.key.clone(),
            at: Location::line(self.file, entry.line),
            probe: probe.flatten(),
        })
    }

    fn definition(&mut self, path: &str, entry: &MapEntry) -> Option<CustomProbe> {
        let node = &entry.value;
        let question = self.question(path, entry);
        let period = self.duration(path, node, "period", LEAST_PERIOD);
        let timeout = self.duration(path, node, "timeout", SECOND);
        let period = period.unwrap_or(30 * SECOND);
        let timeout = timeout.unwrap_or(period.min(10 * SECOND) / 2);
        if timeout >= period || timeout > LONGEST_TIMEOUT {
            let line = node.entry("timeout").map_or(entry.line, |entry| entry.line);
            let why = format!(
                "{} is too long: write less than the period ({}), and {} at most",
                duration_text(timeout),
                duration_text(period),
                duration_text(LONGEST_TIMEOUT)
            );
            self.wrong(line, format!("{path}.timeout: {why}"));
        }
        let rise = self.in_a_row(path, node, "rise").unwrap_or(1);
        let fall = self.in_a_row(path, node, "fall").unwrap_or(3);
        let severity = self.one_of(
            path,
            node,
            "severity",
            &[
                ("required", ProbeSeverity::Required),
                ("wanted", ProbeSeverity::Wanted),
            ],
        );
        let phase = self.one_of(path, node, "phase", PHASES);
        let message = self.text(path, node, "message");
        if let Some(message) = &message
            && message.chars().count() > LONGEST_MESSAGE
        {
            let line = node.entry("message").map_or(entry.line, |entry| entry.line);
            let why = format!("it is too long: write {LONGEST_MESSAGE} characters at most");
            self.wrong(line, format!("{path}.message: {why}"));
        }
        let question = question?;
        let roles = self.roles(path, node, &question)?;
        Some(CustomProbe {
            name: entry.key.clone(),
            question,
            period,
            timeout,
            rise,
            fall,
            severity: severity.unwrap_or(ProbeSeverity::Wanted),
            roles,
            phase: phase.unwrap_or(Phase::Node),
            message,
        })
    }

    fn question(&mut self, path: &str, entry: &MapEntry) -> Option<CustomQuestion> {
        let entries = entry.value.entries().iter();
        let asked: Vec<&MapEntry> = entries
            .filter(|entry| KINDS.contains(&entry.key.as_str()))
            .collect();
        let [asked] = asked.as_slice() else {
            let why = match asked.as_slice() {
                [] => "what does it ask?".to_owned(),
                more => format!("it asks {} things at once", more.len()),
            };
            let line = asked.get(1).map_or(entry.line, |second| second.line);
            self.wrong(line, format!("{path}: {why} Write one of {}", list(KINDS)));
            return None;
        };
        let path = &format!("{path}.{}", asked.key);
        match asked.key.as_str() {
            "http" => self.http(path, asked).map(CustomQuestion::Http),
            "tcp" => self.tcp(path, asked),
            "unit" => self.unit(path, asked),
            "file" => self.file(path, asked).map(CustomQuestion::File),
            _ => self.object(path, asked).map(CustomQuestion::Object),
        }
    }

    fn http(&mut self, path: &str, entry: &MapEntry) -> Option<HttpQuestion> {
        let keys = [
            "url",
            "status",
            "contains",
            "caFile",
            "insecure",
            "headersFile",
        ];
        if !self.map(path, entry, &keys) {
            return None;
        }
        let node = &entry.value;
        let url = self.needed(path, entry, "url");
        let url = url.and_then(|url| {
            let line = node.entry("url").map_or(entry.line, |entry| entry.line);
            self.take(
                &format!("{path}.url"),
                line,
                url::check(&url, "put an Authorization header into headersFile")
                    .map(|()| url.clone()),
            )
        });
        let mut status = Vec::new();
        if let Some(entry) = node.entry("status") {
            let one = std::slice::from_ref(&entry.value);
            let all = match &entry.value.value {
                NodeValue::Sequence(items) if !items.is_empty() => items.as_slice(),
                _ => one,
            };
            for item in all {
                let code = count(item).ok().and_then(|code| u16::try_from(code).ok());
                let code = code.filter(|code| (100..600).contains(code));
                let what = || expected("an HTTP status like 200, or a list of them", item);
                status.extend(self.take(
                    &format!("{path}.status"),
                    item.line,
                    code.ok_or_else(what),
                ));
            }
        }
        let insecure = self.boolean(path, node, "insecure").unwrap_or(false);
        let ca_file = self.absolute(path, node, "caFile");
        if insecure && ca_file.is_some() {
            let why = "`insecure: true` checks no certificate: leave out one of the two";
            self.wrong(entry.line, format!("{path}.caFile: {why}"));
        }
        let contains = self.text(path, node, "contains");
        let headers_file = self.absolute(path, node, "headersFile");
        Some(HttpQuestion {
            url: url?,
            status,
            contains,
            ca_file,
            insecure,
            headers_file,
        })
    }

    fn tcp(&mut self, path: &str, entry: &MapEntry) -> Option<CustomQuestion> {
        if !self.map(path, entry, &["address"]) {
            return None;
        }
        let address = self.needed(path, entry, "address")?;
        let line = entry
            .value
            .entry("address")
            .map_or(entry.line, |one| one.line);
        let split = host_and_port(&address).ok_or_else(|| {
            format!(
                "expected HOST:PORT or [IPV6]:PORT, not {}",
                quoted(&address)
            )
        });
        let (host, port) = self.take(&format!("{path}.address"), line, split)?;
        Some(CustomQuestion::Tcp { host, port })
    }

    fn unit(&mut self, path: &str, entry: &MapEntry) -> Option<CustomQuestion> {
        if !self.map(path, entry, &["name", "state"]) {
            return None;
        }
        let name = self.needed(path, entry, "name");
        let name = name.and_then(|name| {
            let whole = name.contains('.') && !name.contains(['/', ' ']);
            let why = || {
                format!(
                    "{} is not a unit: write the whole name, like rke2-server.service",
                    quoted(&name)
                )
            };
            let line = entry.value.entry("name").map_or(entry.line, |one| one.line);
            self.take(
                &format!("{path}.name"),
                line,
                whole.then(|| name.clone()).ok_or_else(why),
            )
        });
        let states = match entry.value.entry("state") {
            None => vec!["active".to_owned()],
            Some(entry) => self.words(&format!("{path}.state"), &entry.value, STATES),
        };
        Some(CustomQuestion::Unit {
            name: name?,
            states,
        })
    }

    fn file(&mut self, path: &str, entry: &MapEntry) -> Option<FileQuestion> {
        if !self.map(path, entry, &["path", "state", "contains", "newerThan"]) {
            return None;
        }
        let node = &entry.value;
        let exists = self.one_of(path, node, "state", &[("exists", true), ("absent", false)]);
        let exists = exists.unwrap_or(true);
        let contains = self.text(path, node, "contains");
        let newer_than = self.duration(path, node, "newerThan", SECOND);
        if !exists && (contains.is_some() || newer_than.is_some()) {
            let why = "a file that must be absent can have no other condition";
            self.wrong(entry.line, format!("{path}: {why}"));
        }
        if node.entry("path").is_none() {
            self.needed(path, entry, "path");
        }
        Some(FileQuestion {
            path: self.absolute(path, node, "path")?,
            exists,
            contains,
            newer_than,
        })
    }

    fn object(&mut self, path: &str, entry: &MapEntry) -> Option<ObjectQuestion> {
        let keys = ["apiVersion", "kind", "namespace", "name", "expression"];
        if !self.map(path, entry, &keys) {
            return None;
        }
        let node = &entry.value;
        let api_version = self.needed(path, entry, "apiVersion");
        let kind = self.needed(path, entry, "kind");
        let own = api_version.as_deref() == Some("v1") && kind.as_deref() == Some("Node");
        let name = match own {
            true => self.text(path, node, "name"),
            false => Some(self.needed(path, entry, "name")?),
        };
        let namespace = self.text(path, node, "namespace");
        let expression = match self.text(path, node, "expression") {
            None => None,
            // The rest is read even after an error, so that all errors are reported at once.
            Some(source) => {
                let line = node.entry("expression").map_or(entry.line, |one| one.line);
                let compiled = Expression::compile(&source);
                self.take(&format!("{path}.expression"), line, compiled)
            }
        };
        Some(ObjectQuestion {
            api_version: api_version?,
            kind: kind?,
            namespace,
            name,
            expression,
        })
    }

    /// The given roles, or all roles that may make the request.
    fn roles(
        &mut self,
        path: &str,
        node: &Node,
        question: &CustomQuestion,
    ) -> Option<Vec<NodeRole>> {
        let servers_only = match question {
            CustomQuestion::Object(object) => !object.is_for_nodes(),
            _ => false,
        };
        let Some(entry) = node.entry("roles") else {
            return Some(
                ROLES
                    .iter()
                    .map(|(_, role)| *role)
                    .filter(|role| !servers_only || role.serves_api())
                    .collect(),
            );
        };
        let path = format!("{path}.roles");
        let names: Vec<&str> = ROLES.iter().map(|(name, _)| *name).collect();
        let named = self.words(&path, &entry.value, &names);
        let roles: Vec<NodeRole> = ROLES
            .iter()
            .filter(|(name, _)| named.iter().any(|one| one == name))
            .map(|(_, role)| *role)
            .collect();
        let not_served = roles.iter().find(|role| !role.serves_api());
        if let Some(role) = not_served.filter(|_| servers_only) {
            let why = format!(
                "the identity of a node (system:node) may read Services and its own Node (`kind: Node` without \
                 `name`), and this is neither: leave out {role}, and the others that are no servers"
            );
            self.wrong(entry.line, format!("{path}: {why}"));
            return None;
        }
        Some(roles)
    }
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.bytes().all(fits)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

fn host_and_port(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let port = port.parse().ok().filter(|port| *port > 0)?;
    (!host.is_empty() && !host.contains(['/', ' '])).then(|| (host.to_owned(), port))
}
