//! Reads lists of webhooks. An error in one webhook switches off only that one.

use std::fmt;
use std::time::Duration;

use windrow_model::duration_text;
use windrow_model::findings::Location;
use windrow_model::manifest::{Node, NodeValue, yaml};
use windrow_model::redact::quoted;
use windrow_model::suggest::nearest;

use super::error::ConfigError;
use super::template::WebhookTemplate;
use super::units::{duration, expected};
use super::url;
use super::webhooks::{Webhook, WebhookEvent};

pub(super) const SECTION: &str = "webhooks";
/// The maximum number of webhooks of a node.
const MOST: usize = 32;
/// Events that Harvester's installer sends itself.
const HARVESTERS: [&str; 3] = ["STARTED", "SUCCEEDED", "FAILED"];

/// The shortest and the longest interval at which an event may be sent again.
const EVERY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(24 * 60 * 60));

const METHODS: [&str; 7] = ["POST", "PUT", "PATCH", "GET", "HEAD", "DELETE", "OPTIONS"];

/// The keys, as Harvester writes them in an installation's configuration, followed by Windrow's own two.
const KEYS: [&str; 9] = [
    "event",
    "method",
    "headers",
    "url",
    "payload",
    "insecure",
    "basicAuth",
    "every",
    "fingerprint",
];

impl ListWriter {
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::User => &KEYS,
            Self::Harvester => &KEYS[..KEYS.len() - 2],
        }
    }
}

/// The usable webhooks of one list, and the errors in the others.
#[derive(Debug, Default)]
pub(super) struct WebhookList {
    pub(super) hooks: Vec<Webhook>,
    pub(super) errors: Vec<ConfigError>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ListWriter {
    /// A user, in Windrow's own configuration.
    User,
    /// Harvester's installer: keys in any case, and some events that it sends itself.
    Harvester,
}

/// Reads `webhooks:` of one of Windrow's files. An error in one webhook switches off only that one.
pub(super) fn read_webhooks(file: &str, node: &Node) -> WebhookList {
    read_list(file, SECTION, node, ListWriter::User)
}

/// Reads `install.webhooks` of `/oem/harvester.config`, whose keys the installer writes in lower
/// case.
pub(super) fn read_harvesters_webhooks(file: &str, text: &str) -> WebhookList {
    // The rest of the file belongs to Harvester, which also reports when it cannot be read.
    let Ok(Some(root)) = yaml::parse_configuration(text) else {
        return WebhookList::default();
    };
    match get_in_any_case(&root, "install").and_then(|install| get_in_any_case(install, "webhooks"))
    {
        Some(node) => read_list(file, "install.webhooks", node, ListWriter::Harvester),
        None => WebhookList::default(),
    }
}

fn get_in_any_case<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let mut entries = node.entries().iter();
    let found = entries.find(|entry| entry.key.eq_ignore_ascii_case(key));
    found.map(|entry| &entry.value)
}

fn read_list(file: &str, section: &str, node: &Node, writer: ListWriter) -> WebhookList {
    let mut listed = WebhookList::default();
    let mut wrong = |line: u32, message: String| {
        listed.errors.push(ConfigError {
            at: Location::line(file, line),
            message,
        });
    };
    if !matches!(node.value, NodeValue::Sequence(_) | NodeValue::Null) {
        wrong(
            node.line,
            format!("{section}: {}", expected("a list", node)),
        );
    }
    for (position, item) in node.items().iter().enumerate() {
        let mut reader = WebhookReader {
            name: format!("{section}[{position}]"),
            writer,
            errors: Vec::new(),
        };
        match reader.webhook(file, item) {
            Some(hook) if listed.hooks.len() < MOST => listed.hooks.push(hook),
            Some(_) => wrong(
                item.line,
                format!("{}: {MOST} webhooks are the most", reader.name),
            ),
            None => {}
        }
        for (line, message) in reader.errors {
            wrong(line, message);
        }
    }
    listed
}

struct WebhookReader {
    /// Its name in messages.
    name: String,
    writer: ListWriter,
    errors: Vec<(u32, String)>,
}

impl WebhookReader {
    fn wrong(&mut self, line: u32, key: &str, message: impl fmt::Display) {
        let dot = if key.is_empty() { "" } else { "." };
        let name = &self.name;
        self.errors.push((
            line,
            format!("{name}{dot}{key}: {message} (this webhook is off)"),
        ));
    }

    /// One webhook; `None` if it is invalid, or its event is the installer's own.
    fn webhook(&mut self, file: &str, node: &Node) -> Option<Webhook> {
        if !matches!(node.value, NodeValue::Mapping(_)) {
            self.wrong(node.line, "", expected("a map with event and url", node));
            return None;
        }
        let event = self.event(node)?;
        let mut hook = Webhook {
            at: Location::line(file, node.line),
            event,
            method: "POST".to_owned(),
            url: WebhookTemplate::parse("").ok()?,
            headers: Vec::new(),
            payload: None,
            insecure: false,
            fingerprint: None,
            basic_auth: None,
            every: None,
        };
        let mut has_url = false;
        for entry in node.entries() {
            let (line, value) = (entry.line, &entry.value);
            let Some(key) = self.key(&entry.key) else {
                let keys = self.writer.keys();
                let hint = match nearest(&entry.key, keys.iter().copied()) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => format!("write {}", keys.join(", ")),
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
                "every" => hook.every = self.every(value),
                "fingerprint" => hook.fingerprint = self.fingerprint(value),
                _ => hook.basic_auth = self.basic_auth(value),
            }
        }
        if !has_url {
            self.wrong(node.line, "url", "it is missing");
        }
        if hook.fingerprint.is_some() {
            self.check_pinned(node, &hook);
        }
        self.errors.is_empty().then_some(hook)
    }

    /// The key in Windrow's spelling.
    fn key(&self, written: &str) -> Option<&'static str> {
        let mut keys = self.writer.keys().iter().copied();
        keys.find(|key| match self.writer {
            ListWriter::User => written == *key,
            ListWriter::Harvester => written.eq_ignore_ascii_case(key),
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
        if known.is_none() && !(self.writer == ListWriter::Harvester && HARVESTERS.contains(&name))
        {
            let line = entry.value.line;
            let what = match HARVESTERS.contains(&name) {
                true => format!(
                    "{name} is sent only by Harvester's installer: write it into \
                     install.webhooks of Harvester's configuration, and here one of {}",
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

    fn fingerprint(&mut self, node: &Node) -> Option<String> {
        if node.is_null() {
            return None;
        }
        let digits = node.as_str().map(|text| text.replace(':', ""));
        let digits = digits.filter(|digits| digits.len() == 64);
        let digest = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if digest.is_none() {
            let what = "expected the SHA-256 of the console's certificate, 64 hexadecimal digits in quotation marks";
            self.wrong(node.line, "fingerprint", what);
        }
        digest.map(|digest| digest.to_ascii_lowercase())
    }

    /// A fingerprint requires HTTPS and a checked certificate.
    fn check_pinned(&mut self, node: &Node, hook: &Webhook) {
        let line = node
            .entry("fingerprint")
            .map_or(node.line, |entry| entry.line);
        if hook.insecure {
            let why = "`insecure: true` checks no certificate: leave out one of the two";
            self.wrong(line, "fingerprint", why);
        }
        if hook.url.head().starts_with("http://") {
            let why = "plain HTTP has no certificate: write https:// in url";
            self.wrong(line, "fingerprint", why);
        }
    }

    fn every(&mut self, node: &Node) -> Option<Duration> {
        if node.is_null() {
            return None;
        }
        let (shortest, longest) = EVERY;
        let read = duration(node, shortest).and_then(|every| match every > longest {
            true => Err(format!("write {} or less", duration_text(longest))),
            false => Ok(every),
        });
        match read {
            Ok(every) => Some(every),
            Err(why) => {
                self.wrong(node.line, "every", why);
                None
            }
        }
    }

    /// Messages leave out the value, which may be a secret.
    fn template(&mut self, key: &str, node: &Node) -> Option<WebhookTemplate> {
        if node.is_null() {
            return WebhookTemplate::parse("").ok();
        }
        let Some(text) = node.as_str() else {
            self.wrong(node.line, key, expected("a text", node));
            return None;
        };
        match WebhookTemplate::parse(text) {
            Ok(template) => Some(template),
            Err(why) => {
                self.wrong(node.line, key, why);
                None
            }
        }
    }

    fn url(&mut self, node: &Node) -> Option<WebhookTemplate> {
        let address = self.template("url", node)?;
        // The host has to come before the first field. The values of fields contain no special characters.
        let has_host = address
            .head()
            .find("://")
            .is_some_and(|at| address.head().len() > at + 3);
        let checked = match has_host {
            true => url::check(
                &address.render(|_| "x"),
                "write `basicAuth: {user: …, password: …}`",
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
        if !matches!(node.value, NodeValue::Mapping(_) | NodeValue::Null) {
            self.wrong(
                node.line,
                "headers",
                "expected a map of names to lists of values",
            );
        }
        for entry in node.entries() {
            let values = match &entry.value.value {
                NodeValue::Sequence(items) => items.as_slice(),
                _ => std::slice::from_ref(&entry.value),
            };
            for value in values {
                let good = http::HeaderName::from_bytes(entry.key.as_bytes()).is_ok();
                match value.as_str() {
                    Some(text) if good && http::HeaderValue::from_str(text).is_ok() => {
                        headers.push((entry.key.clone(), text.to_owned()));
                    }
                    _ => {
                        let which = shown_name(&entry.key);
                        let why = format!("{which}: not the name and the text of an HTTP header");
                        self.wrong(entry.line, "headers", why);
                    }
                }
            }
        }
        headers
    }

    fn basic_auth(&mut self, node: &Node) -> Option<(String, String)> {
        let mut parts = [None, None];
        if !matches!(node.value, NodeValue::Mapping(_) | NodeValue::Null) {
            self.wrong(
                node.line,
                "basicAuth",
                "expected a map with user and password",
            );
        }
        for entry in node.entries() {
            let position = ["user", "password"]
                .iter()
                .position(|key| match self.writer {
                    ListWriter::User => entry.key == *key,
                    ListWriter::Harvester => entry.key.eq_ignore_ascii_case(key),
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
        // Like in Harvester's installer: both, or none.
        (!user.is_empty() && !password.is_empty()).then_some((user, password))
    }
}

/// The part of a header's name that is shown: a value that was entered as a name by mistake may be a secret.
fn shown_name(key: &str) -> &str {
    let name = key.split([':', ' ', '\t']).next().unwrap_or_default();
    match http::HeaderName::from_bytes(name.as_bytes()) {
        Ok(_) if key.len() == name.len() || key[name.len()..].starts_with(':') => name,
        _ => "a header",
    }
}

#[cfg(test)]
mod tests;
