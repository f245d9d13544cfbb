//! The part of Go's `text/template` that webhooks use: text with fields.
//!
//! Harvester's installer renders `url` and `payload` with `.Hostname`, `.MACAddr`, `.IPAddrV4` and `.IPAddrV6`
//! (`pkg/installer/console/webhooks.go`). Fields, trim markers and comments are emulated; every other element of the
//! language is rejected with its name.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Hostname,
    /// Hardware address of the management interface.
    MacAddr,
    /// The first IPv4 address of the management interface.
    IpAddrV4,
    /// The first IPv6 address of the management interface.
    IpAddrV6,
    /// The event, as the webhook names it. Only in Windrow.
    Event,
    /// The node's readiness, a word. Only in Windrow.
    Readiness,
    /// The stable reason code. Only in Windrow.
    ReasonCode,
}

const FIELDS: [(&str, Field); 7] = [
    ("Hostname", Field::Hostname),
    ("MACAddr", Field::MacAddr),
    ("IPAddrV4", Field::IpAddrV4),
    ("IPAddrV6", Field::IpAddrV6),
    ("Event", Field::Event),
    ("Readiness", Field::Readiness),
    ("ReasonCode", Field::ReasonCode),
];

impl Field {
    /// Its name, without the dot.
    pub fn name(self) -> &'static str {
        let known = FIELDS.iter().find(|(_, field)| *field == self);
        known.map_or("", |(name, _)| name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Field(Field),
}

#[derive(Clone, PartialEq, Eq)]
pub struct WebhookTemplate(Vec<TemplatePart>);

/// The text of a webhook may contain secrets.
impl fmt::Debug for WebhookTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template")
    }
}

impl WebhookTemplate {
    /// Parses a template.
    ///
    /// # Errors
    ///
    /// The part that cannot be rendered, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        let mut trim = false;
        loop {
            let (before, action) = match rest.split_once("{{") {
                None => (rest, None),
                Some((before, after)) => {
                    let (inner, behind) = after
                        .split_once("}}")
                        .ok_or("`{{` without `}}`: a Go template action has to be closed")?;
                    (before, Some((inner, behind)))
                }
            };
            let mut before = if trim { before.trim_start() } else { before };
            // `{{- ` and ` -}}` remove the white space next to them.
            let trims_before = action.is_some_and(|(inner, _)| {
                inner.starts_with('-') && inner[1..].starts_with(char::is_whitespace)
            });
            if trims_before {
                before = before.trim_end();
            }
            if !before.is_empty() {
                parts.push(TemplatePart::Text(before.to_owned()));
            }
            let Some((inner, behind)) = action else {
                return Ok(Self(parts));
            };
            let inner = if trims_before { &inner[1..] } else { inner };
            let kept = inner
                .strip_suffix('-')
                .filter(|kept| kept.ends_with(char::is_whitespace));
            trim = kept.is_some();
            if let Some(field) = field(kept.unwrap_or(inner).trim())? {
                parts.push(TemplatePart::Field(field));
            }
            rest = behind;
        }
    }

    /// The text with `value` in place of each field.
    pub fn render<V: AsRef<str>>(&self, value: impl Fn(Field) -> V) -> String {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                TemplatePart::Text(text) => out.push_str(text),
                TemplatePart::Field(field) => out.push_str(value(*field).as_ref()),
            }
        }
        out
    }

    /// The text before the first field.
    pub fn head(&self) -> &str {
        match self.0.first() {
            Some(TemplatePart::Text(text)) => text,
            _ => "",
        }
    }
}

/// The field that an action names; `None` for a comment.
fn field(action: &str) -> Result<Option<Field>, String> {
    if action.starts_with("/*") && action.ends_with("*/") {
        return Ok(None);
    }
    let known = || {
        let names: Vec<String> = FIELDS.iter().map(|(name, _)| format!(".{name}")).collect();
        names.join(", ")
    };
    let name = action.strip_prefix('.').filter(|name| {
        !name.is_empty()
            && name
                .chars()
                .all(|character| character.is_alphanumeric() || character == '_')
    });
    let Some(name) = name else {
        // A text in it may be a secret; names are not.
        let is_name = |one: char| one.is_ascii_alphabetic() || " .|()$-".contains(one);
        let shown = match action.chars().all(is_name) {
            true => format!(" {{{{{action}}}}}"),
            false => String::new(),
        };
        return Err(format!(
            "the Go template action{shown} cannot be rendered here: only fields can ({})",
            known()
        ));
    };
    FIELDS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, field)| Some(*field))
        .ok_or_else(|| format!("there is no field .{name}: write one of {}", known()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> String {
        WebhookTemplate::parse(text)
            .unwrap()
            .render(|field| match field {
                Field::Hostname => "node1",
                Field::MacAddr => "52:54:00:00:00:01",
                Field::IpAddrV4 => "10.1.2.3",
                Field::Event => "NODE_READY",
                _ => "",
            })
    }

    #[test]
    fn fields_are_rendered_as_harvesters_installer_does() {
        for (text, expected) in [
            ("", ""),
            ("plain } { text", "plain } { text"),
            ("http://c/{{.Hostname}}", "http://c/node1"),
            (
                "{{ .IPAddrV4 }}/{{\t.MACAddr}}",
                "10.1.2.3/52:54:00:00:00:01",
            ),
            ("v6=[{{.IPAddrV6}}]", "v6=[]"),
            ("a {{- .Hostname -}}  b", "anode1b"),
            ("a {{- /* said */ -}} b", "ab"),
            ("a \n{{- .Hostname }} b", "anode1 b"),
            ("a {{ .Hostname -}} \n b", "a node1b"),
            ("{\"e\": \"{{.Event}}\"}", "{\"e\": \"NODE_READY\"}"),
        ] {
            assert_eq!(rendered(text), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_rendered_is_named() {
        for (text, expected) in [
            ("{{.Hostname", "has to be closed"),
            (
                "{{.Hostnam}}",
                "there is no field .Hostnam: write one of .Hostname",
            ),
            (
                "{{ .Hostname | upper }}",
                "{{.Hostname | upper}} cannot be rendered",
            ),
            (
                "{{if .Hostname}}x{{end}}",
                "{{if .Hostname}} cannot be rendered",
            ),
            ("{{}}", "cannot be rendered"),
            ("{{.}}", "cannot be rendered"),
            ("{{.A.B}}", "cannot be rendered"),
            ("{{-.Hostname}}", "{{-.Hostname}} cannot be rendered"),
            // A comment without its end or its start is not a comment.
            ("{{/* said }}", "action cannot be rendered"),
            ("{{ said */}}", "action cannot be rendered"),
        ] {
            let why = WebhookTemplate::parse(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }

    #[test]
    fn a_template_is_not_printed() {
        let template = WebhookTemplate::parse("https://c/secret-token").unwrap();
        assert!(!format!("{template:?}").contains("secret"));
    }
}
