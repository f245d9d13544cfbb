//! The installer's parameters on a kernel command line: in an iPXE script, in a boot menu, or as a line of their own.
//!
//! harvester-installer v1.8.1: `pkg/util/cmdline.go` (ParseCmdLine) and `pkg/config/config.go` (Merge). A value of the command line
//! wins over that of the configuration, and lists are joined.

use windrow_model::manifest::{MapEntry, Node, NodeValue};

const PREFIX: &str = "harvester.";

/// Sections whose keys may have no value.
const FLAGS: [&str; 2] = ["install.", "os."];

/// The parameters of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelArguments {
    root: Node,
    /// Keys whose value contains `${…}`, which only the boot replaces.
    open: Vec<String>,
}

impl KernelArguments {
    /// Reads the parameters of a text; `None` if it has none.
    pub fn read(text: &str) -> Option<Self> {
        let mut arguments = Self {
            root: map(1),
            open: Vec::new(),
        };
        let mut found = false;
        for (line, written) in (1..).zip(text.lines()) {
            if written.trim_start().starts_with('#') {
                continue;
            }
            for word in words(written) {
                let (key, value) = word.split_once('=').unwrap_or((&word, "true"));
                let Some(path) = key.trim_matches('"').strip_prefix(PREFIX) else {
                    continue;
                };
                // A host name may begin so, too.
                found |= word.contains('=') || FLAGS.iter().any(|below| path.starts_with(below));
                let value = value.trim_matches('"');
                if value.contains("${") {
                    arguments.open.push(normal(path));
                } else {
                    let keys: Vec<&str> = path.split('.').collect();
                    put(&mut arguments.root, &keys, value, line);
                }
            }
        }
        found.then_some(arguments)
    }

    /// Whether they contain the address of the configuration.
    pub fn fetch_configuration(&self) -> bool {
        let address = self.root.at(&["install", "config_url"]);
        address.is_some() || self.has_open("install.config_url")
    }

    /// Whether only the boot decides the value of a key.
    pub(super) fn has_open(&self, key: &str) -> bool {
        self.open.contains(&normal(key))
    }

    /// The parameters as a configuration.
    pub(super) fn into_root(self) -> Node {
        self.root
    }

    /// A configuration with these parameters.
    pub(super) fn merged(&self, configuration: &Node) -> Node {
        let mut merged = configuration.clone();
        merge(&mut merged, &self.root);
        merged
    }
}

/// Words, of which a part may be in quotation marks.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for ch in line.chars() {
        match ch {
            '"' => quoted = !quoted,
            _ if ch.is_whitespace() && !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(ch),
        }
    }
    words.push(word);
    words
}

fn map(line: u32) -> Node {
    Node {
        line,
        value: NodeValue::Mapping(Vec::new()),
    }
}

/// A key without its case and underscores: all spellings that the installer reads as one.
pub(super) fn normal(key: &str) -> String {
    key.replace('_', "").to_lowercase()
}

/// The limit for the levels of a key.
const DEEPEST: usize = 10;

fn put(node: &mut Node, keys: &[&str], value: &str, line: u32) {
    let [key, rest @ ..] = keys else { return };
    let NodeValue::Mapping(entries) = &mut node.value else {
        return;
    };
    if rest.len() > DEEPEST {
        return;
    }
    let at = entries.iter().position(|entry| entry.key == *key);
    let entry = match at {
        Some(at) => &mut entries[at],
        None => {
            let value = match rest.is_empty() {
                true => scalar(key, value, line),
                false => map(line),
            };
            entries.push(MapEntry {
                key: (*key).to_owned(),
                line,
                value,
            });
            let last = entries.len() - 1;
            if rest.is_empty() {
                return;
            }
            &mut entries[last]
        }
    };
    match (&mut entry.value.value, rest.is_empty()) {
        (_, false) => put(&mut entry.value, rest, value, line),
        (NodeValue::Sequence(items), true) => items.extend(match scalar(key, value, line).value {
            NodeValue::Sequence(new) => new,
            new => vec![Node { line, value: new }],
        }),
        (NodeValue::Mapping(_), true) => {}
        (_, true) => {
            let first = entry.value.clone();
            let second = scalar(key, value, line);
            entry.value.value = NodeValue::Sequence(vec![first, second]);
        }
    }
}

fn scalar(key: &str, text: &str, line: u32) -> Node {
    let value = match (normal(key).as_str(), text) {
        ("interfaces", _) => NodeValue::Sequence(vec![interface(text, line)]),
        // Each parameter is one item of the list.
        ("dnsnameservers" | "ntpservers" | "sshauthorizedkeys", _) => {
            NodeValue::Sequence(vec![Node {
                line,
                value: NodeValue::String(text.to_owned()),
            }])
        }
        (_, "true") => NodeValue::Bool(true),
        (_, "false") => NodeValue::Bool(false),
        ("schemeversion", _) => match text.parse::<u32>() {
            Ok(number) => NodeValue::Number(number.into()),
            Err(_) => NodeValue::String(text.to_owned()),
        },
        _ => NodeValue::String(text.to_owned()),
    };
    Node { line, value }
}

/// `hwAddr: 52:54:00:12:34:56,name:ens3`, each part with or without its key.
fn interface(text: &str, line: u32) -> Node {
    let mut node = map(line);
    for part in text.split(',') {
        let part = part.trim();
        let (key, value) = match part.split_once(':') {
            Some((key @ ("name" | "hwAddr"), value)) => (key, value.trim()),
            Some(_) => ("hwAddr", part),
            None => ("name", part),
        };
        put(&mut node, &[key], value, line);
    }
    node
}

/// The lines stay those of the configuration.
fn merge(into: &mut Node, from: &Node) {
    let line = into.line;
    if into.is_null() {
        into.value = NodeValue::Mapping(Vec::new());
    }
    let NodeValue::Mapping(entries) = &mut into.value else {
        return;
    };
    for new in from.entries() {
        let known = entries
            .iter_mut()
            .find(|entry| normal(&entry.key) == normal(&new.key));
        let Some(entry) = known else {
            let mut new = new.clone();
            set_line(&mut new.value, line);
            new.line = line;
            entries.push(new);
            continue;
        };
        match (&mut entry.value.value, &new.value.value) {
            (NodeValue::Mapping(_), NodeValue::Mapping(_)) => merge(&mut entry.value, &new.value),
            (NodeValue::Sequence(items), NodeValue::Sequence(others)) => {
                items.splice(0..0, others.iter().cloned());
            }
            (old, new) => *old = new.clone(),
        }
        let line = entry.line;
        set_line_above(&mut entry.value, line);
    }
}

fn set_line(node: &mut Node, line: u32) {
    node.line = line;
    match &mut node.value {
        NodeValue::Sequence(items) => items.iter_mut().for_each(|item| set_line(item, line)),
        NodeValue::Mapping(entries) => {
            for entry in entries {
                entry.line = line;
                set_line(&mut entry.value, line);
            }
        }
        _ => {}
    }
}

/// Gives the parts that came from the command line a line of the configuration.
fn set_line_above(node: &mut Node, line: u32) {
    if let NodeValue::Sequence(items) = &mut node.value {
        for item in items.iter_mut().filter(|item| item.line < line) {
            set_line(item, line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> serde_json::Value {
        KernelArguments::read(text).unwrap().root.to_json()
    }

    #[test]
    fn parameters_are_read_as_the_installer_reads_them() {
        assert_eq!(
            json(
                "#!ipxe\nkernel vmlinuz ip=dhcp harvester.install.automatic=true harvester.scheme_version=1 \
                 harvester.install.management_interface.interfaces=\"hwAddr: be:44:8c:b0:5d:f2,name:ens3\" \
                 harvester.install.management_interface.interfaces=ens5 harvester.install.debug \
                 harvester.os.dns_nameservers=192.0.2.1 harvester.token=\"a b\"\n"
            ),
            serde_json::json!({
                "install": {
                    "automatic": true,
                    "management_interface": {
                        "interfaces": [{"hwAddr": "be:44:8c:b0:5d:f2", "name": "ens3"}, {"name": "ens5"}],
                    },
                    "debug": true,
                },
                "scheme_version": 1,
                "os": {"dns_nameservers": ["192.0.2.1"]},
                "token": "a b",
            })
        );
        for text in [
            "",
            "quiet splash\n",
            "# harvester.install.automatic=true\n",
            "harvester: true\n",
        ] {
            assert_eq!(KernelArguments::read(text), None, "{text}");
        }
        let open = KernelArguments::read("harvester.os.hostname=${hostname}\n").unwrap();
        assert!(open.has_open("os.hostname") && !open.has_open("os.password"));
    }

    #[test]
    fn a_parameter_wins_over_the_configuration_in_any_spelling_and_lists_are_joined() {
        let configuration = "install:\n  isoUrl: a\n  mode: create\nos:\n  dnsNameservers: [b]\n";
        let root = windrow_model::manifest::yaml::installers(configuration)
            .unwrap()
            .unwrap();
        let arguments = "harvester.install.iso_url=c harvester.os.dns_nameservers=d harvester.install.device=/dev/sda";
        let merged = KernelArguments::read(arguments).unwrap().merged(&root);
        assert_eq!(
            merged.to_json(),
            serde_json::json!({
                "install": {"isoUrl": "c", "mode": "create", "device": "/dev/sda"},
                "os": {"dnsNameservers": ["d", "b"]},
            })
        );
        assert_eq!(
            merged.get("install").unwrap().entry("device").unwrap().line,
            2
        );
    }
}
