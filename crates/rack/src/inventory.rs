//! The expected nodes, from a list in YAML or CSV, or from Inventory objects of Harvester's Seeder.
//!
//! All errors are reported at once, each with its line. A list with an error is rejected as a whole, because otherwise a missing
//! entry would go unnoticed.

mod csv_list;
mod seeder;
mod yaml_list;

use std::collections::BTreeMap;
use std::fmt;

use crate::identity::{NodeIdentity, host_of, mac_of, serial_of};
use crate::text::{NAME, WORD, clean};

/// Limit of expected nodes.
const MOST: usize = 10_000;
const MOST_ERRORS: usize = 50;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpectedNode {
    /// Name of the node for users.
    pub name: String,
    pub identity: NodeIdentity,
    /// Planned role: `server`, `agent`, or any other word.
    pub role: String,
    /// Location of the node.
    pub rack: String,
    /// Address of its status server, for example `https://node:9346/status`; empty if the rack does not query it.
    pub url: String,
    /// SHA-256 of the certificate of this server.
    pub fingerprint: String,
    pub line: u32,
}

impl ExpectedNode {
    /// The name as a host name, if the list has no host name for the node; otherwise empty.
    pub(crate) fn own_name(&self) -> String {
        match self.identity.host.is_empty() {
            true => host_of(&self.name),
            false => String::new(),
        }
    }
}

/// The expected nodes in the order of their list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    pub(crate) nodes: Vec<ExpectedNode>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InventoryError {
    pub file: String,
    /// Starts at 1.
    pub line: u32,
    pub message: String,
}

impl fmt::Display for InventoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// The columns of a CSV list, or the keys of entries in YAML.
const KEYS: [&str; 8] = [
    "name",
    "mac",
    "serial",
    "host",
    "role",
    "rack",
    "url",
    "fingerprint",
];

/// Errors in a list, with their lines.
#[derive(Default)]
struct Complaints(Vec<(u32, String)>);

impl Complaints {
    fn add(&mut self, line: u32, message: impl Into<String>) {
        if self.0.len() < MOST_ERRORS {
            self.0.push((line, message.into()));
        }
    }
}

impl Inventory {
    /// Reads a list. A file whose name ends in `.csv` is CSV, any other file is YAML.
    ///
    /// # Errors
    ///
    /// All errors in the list.
    pub fn read(file: &str, text: &str) -> Result<Self, Vec<InventoryError>> {
        let mut complaints = Complaints::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let is_csv = file.to_ascii_lowercase().ends_with(".csv");
        let nodes = match is_csv {
            true => csv_list::read(text, &mut complaints),
            false => yaml_list::read(text, &mut complaints),
        };
        if nodes.len() > MOST {
            complaints.add(
                nodes[MOST].line,
                format!("there are more than {MOST} nodes"),
            );
        }
        if nodes.is_empty() && complaints.0.is_empty() {
            complaints.add(1, "it names no node");
        }
        name_duplicates(&nodes, &mut complaints);
        if complaints.0.is_empty() {
            return Ok(Self { nodes });
        }
        complaints.0.sort();
        let errors = complaints
            .0
            .into_iter()
            .map(|(line, message)| InventoryError {
                file: file.to_owned(),
                line,
                message,
            });
        Err(errors.collect())
    }

    pub fn nodes(&self) -> &[ExpectedNode] {
        &self.nodes
    }
}

/// The message about an unknown key or column.
fn unknown(what: &str, name: &str, meant: Option<&str>) -> String {
    let name = clean(name, 40);
    match meant {
        Some(meant) => format!("unknown {what} `{name}`: did you mean `{meant}`?"),
        None => format!("unknown {what} `{name}`; there are {}", KEYS.join(", ")),
    }
}

fn entry(
    line: u32,
    field: impl Fn(&str) -> (u32, String),
    complaints: &mut Complaints,
) -> ExpectedNode {
    let (mac_line, mac_text) = field("mac");
    let mac = mac_of(&mac_text);
    if mac.is_none() && !mac_text.is_empty() {
        complaints.add(
            mac_line,
            format!(
                "mac: `{}` is not a hardware address: write 52:54:00:12:34:56",
                clean(&mac_text, 40)
            ),
        );
    }
    let (serial_line, serial_text) = field("serial");
    let serial = serial_of(&serial_text);
    if serial.is_none() && !serial_text.is_empty() {
        complaints.add(
            serial_line,
            format!(
                "serial: `{}` is a placeholder of the firmware, not a serial number",
                clean(&serial_text, 40)
            ),
        );
    }
    let host = host_of(&field("host").1);
    let named = clean(&field("name").1, NAME);
    let nothing = mac_text.is_empty() && serial_text.is_empty() && host.is_empty();
    // In a list that contains only names, the names are host names.
    let host = match nothing {
        true => host_of(&named),
        false => host,
    };
    if nothing && named.is_empty() {
        complaints.add(
            line,
            "nothing tells this node from others: write mac, serial or host",
        );
    }
    let identity = NodeIdentity {
        mac: mac.unwrap_or_default(),
        serial: serial.unwrap_or_default(),
        host,
    };
    let first = [&named, &identity.host, &identity.serial, &identity.mac];
    let name = first.into_iter().find(|text| !text.is_empty());
    let (url_line, url_text) = field("url");
    let url = match url_of(&url_text) {
        Ok(url) => url,
        Err(why) => {
            complaints.add(url_line, format!("url: {why}"));
            String::new()
        }
    };
    let (fingerprint_line, fingerprint) = field("fingerprint");
    let fingerprint = fingerprint.replace(':', "").to_ascii_lowercase();
    let is_digest =
        fingerprint.len() == 64 && fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !fingerprint.is_empty() && !is_digest {
        complaints.add(
            fingerprint_line,
            "fingerprint: write the certificate's SHA-256, 64 hexadecimal digits",
        );
    }
    if url.starts_with("http:") && !fingerprint.is_empty() {
        complaints.add(
            url_line,
            "url: http:// has no certificate for the fingerprint, and anybody can read the traffic: write https://",
        );
    }
    ExpectedNode {
        name: name.cloned().unwrap_or_default(),
        identity,
        role: clean(&field("role").1, WORD),
        rack: clean(&field("rack").1, WORD),
        url,
        fingerprint,
        line,
    }
}

/// Completes the address of a status server.
fn url_of(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let mut url: url::Url = text
        .parse()
        .map_err(|error| format!("`{}`: {error}", clean(text, 80)))?;
    if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none() {
        return Err("write https://node:9346/status".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("write no password here; the token is in --ask-token-file".to_owned());
    }
    if url.path() == "/" {
        url.set_path("/status");
    }
    Ok(url.into())
}

fn name_duplicates(nodes: &[ExpectedNode], complaints: &mut Complaints) {
    type Part = fn(&ExpectedNode) -> &str;
    let parts: [(&str, Part); 5] = [
        ("name", |node| &node.name),
        ("mac", |node| &node.identity.mac),
        ("serial", |node| &node.identity.serial),
        ("host", |node| &node.identity.host),
        ("url", |node| &node.url),
    ];
    for (key, part) in parts {
        let mut lines: BTreeMap<&str, u32> = BTreeMap::new();
        for node in nodes {
            let value = part(node);
            if value.is_empty() {
                continue;
            }
            if let Some(first) = lines.insert(value, node.line) {
                // For a node with only a name, the host name is this name, so one message is enough.
                if key == "host" && *value == *node.name.to_lowercase() {
                    continue;
                }
                complaints.add(
                    node.line,
                    format!("{key} `{value}` is in line {first} already"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
