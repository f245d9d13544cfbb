//! `webhooks:` of the configuration, and `install.webhooks` of the configuration that Harvester's
//! installer leaves on the node: who is told of which event.
//!
//! ```yaml
//! webhooks:
//! - event: NODE_READY
//!   method: POST
//!   url: https://console.example/nodes/{{.Hostname}}
//!   headers: {X-Rack: [r12]}
//!   payload: '{"node": "{{.Hostname}}"}'
//!   insecure: false
//!   basicAuth: {user: windrow, password: secret}
//! ```
//!
//! The schema is Harvester's own (`pkg/installer/config/config.go`, `Webhook`). The files add up.

use std::fmt;

use serde::{Deserialize, Serialize};
use windrow_model::manifest::{Node, Value, yaml};
use windrow_model::redact::quoted;
use windrow_plan::rules::Location;

use super::error::ConfigError;
use super::template::Template;
use super::units::{expected, nearest};
use super::url;

/// The key under which they stand.
pub(super) const SECTION: &str = "webhooks";
/// Most webhooks of a node.
const MOST: usize = 32;
/// What Harvester's installer tells by itself.
const HARVESTERS: [&str; 3] = ["STARTED", "SUCCEEDED", "FAILED"];

/// What somebody is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WebhookEvent {
    /// The node has become Ready.
    NodeReady,
    /// It works, and something is wrong.
    NodeDegraded,
    /// It does not work and is not on its way.
    NodeFailed,
    /// The cluster's first server is ready for the first time.
    ClusterReady,
    /// A manifest is held beyond its deadline, or RKE2 cannot apply it.
    StagingBlocked,
}

impl WebhookEvent {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::NodeReady,
        Self::NodeDegraded,
        Self::NodeFailed,
        Self::ClusterReady,
        Self::StagingBlocked,
    ];

    /// The name, as it is configured.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeReady => "NODE_READY",
            Self::NodeDegraded => "NODE_DEGRADED",
            Self::NodeFailed => "NODE_FAILED",
            Self::ClusterReady => "CLUSTER_READY",
            Self::StagingBlocked => "STAGING_BLOCKED",
        }
    }
}

/// HTTP methods that can be asked for.
const METHODS: [&str; 7] = ["POST", "PUT", "PATCH", "GET", "HEAD", "DELETE", "OPTIONS"];

/// One webhook.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Who configured it.
    pub at: Location,
    /// Of what it tells.
    pub event: WebhookEvent,
    /// HTTP method, in upper case.
    pub method: String,
    /// Whom it tells; begins with `http://` or `https://`.
    pub url: Template,
    /// Further header lines.
    pub headers: Vec<(String, String)>,
    /// What it tells; `None`: a CloudEvent, where the method takes a body.
    pub payload: Option<Template>,
    /// Is any certificate accepted?
    pub insecure: bool,
    /// User and password.
    pub basic_auth: Option<(String, String)>,
}

/// URL, headers, payload and password may be secrets.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("at", &self.at)
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}

impl Webhook {
    /// Scheme, host and port: what of the URL may be shown.
    pub fn console(&self) -> String {
        url::origin(self.url.head())
    }

    /// Does a request of this method carry what is told?
    pub fn has_body(&self) -> bool {
        matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }
}

/// What one list says: the webhooks that can be used, and what is wrong with the others.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) hooks: Vec<Webhook>,
    pub(super) errors: Vec<ConfigError>,
}

/// Whose list it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Ours,
    /// Keys in any case; the installer's own events are not for us.
    Harvesters,
}

/// Reads `webhooks:` of one of our files. What is wrong with one webhook switches off that one.
pub(super) fn read(file: &str, node: &Node) -> Listed {
    list(file, SECTION, node, Whose::Ours)
}

/// Reads `install.webhooks` of `/oem/harvester.config`, whose keys the installer writes in lower
/// case.
pub(super) fn of_harvester(file: &str, text: &str) -> Listed {
    // What else is in there is Harvester's; so is telling that it cannot be read.
    let Ok(Some(root)) = yaml::one(text) else {
        return Listed::default();
    };
    match lax(&root, "install").and_then(|install| lax(install, "webhooks")) {
        Some(node) => list(file, "install.webhooks", node, Whose::Harvesters),
        None => Listed::default(),
    }
}

fn lax<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let mut entries = node.entries().iter();
    let found = entries.find(|entry| entry.key.eq_ignore_ascii_case(key));
    found.map(|entry| &entry.value)
}

fn list(file: &str, section: &str, node: &Node, whose: Whose) -> Listed {
    let mut listed = Listed::default();
    let mut wrong = |line: u32, message: String| {
        listed.errors.push(ConfigError {
            at: Location::line(file, line),
            message,
        });
    };
    if !matches!(node.value, Value::Sequence(_) | Value::Null) {
        wrong(
            node.line,
            format!("{section}: {}", expected("a list", node)),
        );
    }
    for (position, item) in node.items().iter().enumerate() {
        let mut reading = Reading {
            name: format!("{section}[{position}]"),
            whose,
            errors: Vec::new(),
        };
        match reading.one(file, item) {
            Some(hook) if listed.hooks.len() < MOST => listed.hooks.push(hook),
            Some(_) => wrong(
                item.line,
                format!("{}: {MOST} webhooks are the most", reading.name),
            ),
            None => {}
        }
        for (line, message) in reading.errors {
            wrong(line, message);
        }
    }
    listed
}

struct Reading {
    name: String,
    whose: Whose,
    errors: Vec<(u32, String)>,
}

impl Reading {
    fn wrong(&mut self, line: u32, key: &str, message: impl fmt::Display) {
        let dot = if key.is_empty() { "" } else { "." };
        let name = &self.name;
        self.errors.push((
            line,
            format!("{name}{dot}{key}: {message} (this webhook is off)"),
        ));
    }

    /// One webhook; `None` when it is wrong, or not for us.
    fn one(&mut self, file: &str, node: &Node) -> Option<Webhook> {
        if !matches!(node.value, Value::Mapping(_)) {
            self.wrong(node.line, "", expected("a map with event and url", node));
            return None;
        }
        let event = self.event(node)?;
        let mut hook = Webhook {
            at: Location::line(file, node.line),
            event,
            method: "POST".to_owned(),
            url: Template::parse("").ok()?,
            headers: Vec::new(),
            payload: None,
            insecure: false,
            basic_auth: None,
        };
        let mut has_url = false;
        for entry in node.entries() {
            let (line, value) = (entry.line, &entry.value);
            let Some(key) = self.key(&entry.key) else {
                let keys = KEYS.into_iter();
                let hint = match nearest(&entry.key, keys) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => format!("write {}", KEYS.join(", ")),
                };
                self.wrong(line, &entry.key, format!("unknown key: {hint}"));
                continue;
            };
            match key {
                "event" => {}
                "method" => hook.method = self.method(value).unwrap_or_default(),
                "headers" => hook.headers = self.headers(value),
                "url" => {
                    has_url = true;
                    if let Some(url) = self.url(value) {
                        hook.url = url;
                    }
                }
                "payload" => {
                    let template = self.template(key, value);
                    hook.payload = template.filter(|_| value.as_str() != Some(""));
                }
                "insecure" => match (value.as_bool(), value.is_null()) {
                    (Some(insecure), _) => hook.insecure = insecure,
                    (None, true) => {}
                    (None, false) => self.wrong(line, key, expected("true or false", value)),
                },
                _ => hook.basic_auth = self.basic_auth(value),
            }
        }
        if !has_url {
            self.wrong(node.line, "url", "it is missing");
        }
        self.errors.is_empty().then_some(hook)
    }

    /// The key, as we write it.
    fn key(&self, written: &str) -> Option<&'static str> {
        KEYS.into_iter().find(|key| match self.whose {
            Whose::Ours => written == *key,
            Whose::Harvesters => written.eq_ignore_ascii_case(key),
        })
    }

    fn event(&mut self, node: &Node) -> Option<WebhookEvent> {
        let names = || WebhookEvent::ALL.map(WebhookEvent::name).join(", ");
        let mut entries = node.entries().iter();
        let entry = entries.find(|entry| self.key(&entry.key) == Some("event"));
        let Some(entry) = entry else {
            self.wrong(
                node.line,
                "event",
                format!("it is missing: write one of {}", names()),
            );
            return None;
        };
        let name = entry.value.as_str().unwrap_or_default();
        let known = WebhookEvent::ALL
            .into_iter()
            .find(|event| event.name() == name);
        if known.is_none() && !(self.whose == Whose::Harvesters && HARVESTERS.contains(&name)) {
            let line = entry.value.line;
            let what = match HARVESTERS.contains(&name) {
                true => format!(
                    "{name} is told by Harvester's installer alone: write it into install.webhooks \
                     of Harvester's configuration, and here one of {}",
                    names()
                ),
                false => expected(&format!("one of {}", names()), &entry.value),
            };
            self.wrong(line, "event", what);
        }
        known
    }

    fn method(&mut self, node: &Node) -> Option<String> {
        let method = node.as_str().map(str::to_uppercase);
        let known = method.filter(|method| METHODS.contains(&method.as_str()));
        if known.is_none() {
            let what = format!("one of {}", METHODS.join(", "));
            self.wrong(node.line, "method", expected(&what, node));
        }
        known
    }

    /// Without the value, which may be a secret.
    fn template(&mut self, key: &str, node: &Node) -> Option<Template> {
        if node.is_null() {
            return Template::parse("").ok();
        }
        let Some(text) = node.as_str() else {
            self.wrong(node.line, key, expected("a text", node));
            return None;
        };
        match Template::parse(text) {
            Ok(template) => Some(template),
            Err(why) => {
                self.wrong(node.line, key, why);
                None
            }
        }
    }

    fn url(&mut self, node: &Node) -> Option<Template> {
        let address = self.template("url", node)?;
        // The host is written out; fields stand behind it. What they stand for has no sign of its own in it.
        let has_host = address
            .head()
            .find("://")
            .is_some_and(|at| address.head().len() > at + 3);
        let checked = match has_host {
            true => url::check(
                &address.render(|_| "x"),
                "write basicAuth: {user: …, password: …}",
            ),
            false => {
                Err("it has to begin with http:// or https:// and the name of a host".to_owned())
            }
        };
        match checked {
            Ok(()) => Some(address),
            Err(why) => {
                self.wrong(node.line, "url", why);
                None
            }
        }
    }

    fn headers(&mut self, node: &Node) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        if !matches!(node.value, Value::Mapping(_) | Value::Null) {
            self.wrong(
                node.line,
                "headers",
                "expected a map of names to lists of values",
            );
        }
        for entry in node.entries() {
            let values = match &entry.value.value {
                Value::Sequence(items) => items.as_slice(),
                _ => std::slice::from_ref(&entry.value),
            };
            for value in values {
                let good = http::HeaderName::from_bytes(entry.key.as_bytes()).is_ok();
                match value.as_str() {
                    Some(text) if good && http::HeaderValue::from_str(text).is_ok() => {
                        headers.push((entry.key.clone(), text.to_owned()));
                    }
                    // Without the value, which may be a secret.
                    _ => self.wrong(
                        entry.line,
                        "headers",
                        format!("{}: not the name and the text of an HTTP header", entry.key),
                    ),
                }
            }
        }
        headers
    }

    fn basic_auth(&mut self, node: &Node) -> Option<(String, String)> {
        let mut parts = [None, None];
        if !matches!(node.value, Value::Mapping(_) | Value::Null) {
            self.wrong(
                node.line,
                "basicAuth",
                "expected a map with user and password",
            );
        }
        for entry in node.entries() {
            let position = ["user", "password"]
                .iter()
                .position(|key| match self.whose {
                    Whose::Ours => entry.key == *key,
                    Whose::Harvesters => entry.key.eq_ignore_ascii_case(key),
                });
            // Without the value, which may be a secret.
            match (position, entry.value.as_str()) {
                (Some(position), Some(text)) => parts[position] = Some(text.to_owned()),
                (Some(_), None) if entry.value.is_null() => {}
                (Some(_), None) => self.wrong(
                    entry.line,
                    "basicAuth",
                    format!(
                        "{} has to be a text: put it into quotation marks",
                        entry.key
                    ),
                ),
                (None, _) => self.wrong(
                    entry.line,
                    "basicAuth",
                    format!("unknown key {}: write user, password", quoted(&entry.key)),
                ),
            }
        }
        let [user, password] = parts.map(Option::unwrap_or_default);
        // As in Harvester's installer: both, or none.
        (!user.is_empty() && !password.is_empty()).then_some((user, password))
    }
}

/// The keys, as Harvester writes them in an installation's configuration.
const KEYS: [&str; 7] = [
    "event",
    "method",
    "headers",
    "url",
    "payload",
    "insecure",
    "basicAuth",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(text: &str) -> Listed {
        read("windrow.yaml", &yaml::one(text).unwrap().unwrap())
    }

    fn said(listed: &Listed) -> Vec<String> {
        listed.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_webhook_is_read_with_everything_it_says() {
        let listed = ours(
            "- event: NODE_READY\n  method: put\n  headers: {X-Rack: [r1, r2], X-One: one}\n  \
             url: https://console.example:8443/n/{{.Hostname}}?t=secret\n  \
             payload: 'ready {{.IPAddrV4}}'\n  insecure: true\n  \
             basicAuth: {user: ann, password: secret}\n- {event: NODE_FAILED, url: 'http://c'}\n",
        );
        assert_eq!(said(&listed), [""; 0]);
        let hook = &listed.hooks[0];
        assert_eq!(hook.at, Location::line("windrow.yaml", 1));
        assert_eq!(
            (hook.event, hook.method.as_str()),
            (WebhookEvent::NodeReady, "PUT")
        );
        assert_eq!(hook.headers.len(), 3);
        assert!(hook.insecure && hook.payload.is_some());
        assert_eq!(
            hook.basic_auth,
            Some(("ann".to_owned(), "secret".to_owned()))
        );
        assert_eq!(hook.console(), "https://console.example:8443");
        let shown = format!("{listed:?}");
        assert!(
            !shown.contains("secret") && !shown.contains("ann"),
            "{shown}"
        );
        let other = &listed.hooks[1];
        assert_eq!(other.method, "POST");
        assert!(other.payload.is_none() && other.basic_auth.is_none() && !other.insecure);
    }

    #[test]
    fn what_is_wrong_with_one_webhook_is_named_with_its_line_and_the_others_stay() {
        let listed = ours(
            "- event: NODE_RAEDY\n  url: http://c\n- event: NODE_READY\n  url: ftp://c\n  methd: GET\n\
             - url: http://c\n- event: STARTED\n  url: http://c\n- event: NODE_READY\n  \
             url: 'http://c/{{.Nothing}}'\n  payload: '{{if .Hostname}}'\n  method: CONNECT\n  \
             headers: {'a b': x}\n  insecure: maybe\n  basicAuth: {user: 1, pass: geheim}\n\
             - event: NODE_READY\n- just text\n- {event: NODE_READY, url: 'http://good'}\n",
        );
        assert_eq!(listed.hooks.len(), 1);
        let said = said(&listed);
        for expected in [
            "windrow.yaml:1: webhooks[0].event: expected one of NODE_READY, ",
            "windrow.yaml:4: webhooks[1].url: it has to begin with http://",
            "windrow.yaml:5: webhooks[1].methd: unknown key: did you mean `method`?",
            "windrow.yaml:6: webhooks[2].event: it is missing",
            "windrow.yaml:7: webhooks[3].event: STARTED is told by Harvester's installer alone",
            "windrow.yaml:10: webhooks[4].url: there is no field .Nothing",
            "windrow.yaml:11: webhooks[4].payload: the Go template action {{if .Hostname}}",
            "windrow.yaml:12: webhooks[4].method: expected one of POST",
            "windrow.yaml:13: webhooks[4].headers: a b",
            "windrow.yaml:14: webhooks[4].insecure: expected true or false",
            "windrow.yaml:15: webhooks[4].basicAuth: user has to be a text",
            "windrow.yaml:15: webhooks[4].basicAuth: unknown key `pass`",
            "windrow.yaml:16: webhooks[5].url: it is missing",
            "windrow.yaml:17: webhooks[6]: expected a map",
        ] {
            assert!(
                said.iter().any(|said| said.starts_with(expected)),
                "nobody said: {expected}\nsaid: {said:#?}"
            );
        }
        assert_eq!(said.len(), 14, "{said:#?}");
        assert!(!said.iter().any(|said| said.contains("geheim")));
        assert!(!ours("a: b\n").errors.is_empty());
        assert!(ours("null\n").errors.is_empty());
    }

    #[test]
    fn harvesters_own_file_is_read_in_lower_case_and_its_own_events_are_left_to_it() {
        let text = "schemeversion: 1\ninstall:\n  mode: create\n  webhooks:\n  - event: STARTED\n    \
                    url: 'http://c/{{if}}'\n  - event: NODE_READY\n    method: POST\n    headers: {}\n    \
                    url: http://c/{{.Hostname}}\n    payload: \"\"\n    insecure: true\n    \
                    basicauth:\n      user: ann\n      password: secret\n  - event: OTHER\n    \
                    method: GET\n    url: http://c\n";
        let listed = of_harvester("/oem/harvester.config", text);
        assert_eq!(listed.hooks.len(), 1);
        let hook = &listed.hooks[0];
        assert!(hook.insecure && hook.basic_auth.is_some() && hook.payload.is_none());
        let said = said(&listed);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("/oem/harvester.config:16: install.webhooks[2].event:"));
        assert!(of_harvester("x", "a: [").hooks.is_empty());
        assert!(
            of_harvester("x", "install: {mode: create}\n")
                .hooks
                .is_empty()
        );
    }

    #[test]
    fn an_address_with_a_login_in_it_is_refused_with_its_line_and_not_shown() {
        for url in [
            "https://usr:geheim/tail@host",
            "https://geheim@host/{{.Hostname}}",
        ] {
            let listed = ours(&format!("- event: NODE_READY\n  url: '{url}'\n"));
            assert!(listed.hooks.is_empty());
            let said = said(&listed);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(
                said[0].starts_with("windrow.yaml:2: webhooks[0].url: a user or a password"),
                "{said:?}"
            );
            assert!(
                said[0].contains("basicAuth") && !said[0].contains("geheim"),
                "{said:?}"
            );
        }
    }

    #[test]
    fn there_is_a_bound() {
        let many = "- {event: NODE_READY, url: 'http://c'}\n".repeat(40);
        let listed = ours(&many);
        assert_eq!(listed.hooks.len(), MOST);
        assert_eq!(listed.errors.len(), 8);
    }
}
