//! RKE2's `config.yaml` and `config.yaml.d`, merged as RKE2 merges them.
//!
//! Pure: names and texts of files come in. Only the lists of component arguments (`…-arg`) are kept here; other modules
//! read paths, keys with a closed set of values, and the values that servers share. Tokens are compared there and never
//! shown; every other value is dropped immediately. The rules are
//! those of `k3s pkg/configfilearg/parser.go`: config.yaml first, then the drop-ins in byte order. A plain key replaces
//! earlier values, `key+` appends to them, and a later plain key also removes earlier appends.

use std::collections::BTreeMap;

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::InnerLines;
use windrow_model::manifest::{MapEntry, Node, NodeValue, yaml};
use windrow_model::reasons::{Code, Severity};

use super::keys::Rke2Role;
use super::kubelet::{self, KubeletField};

/// RKE2's lists of component arguments (k3s `pkg/cli/cmds`, rke2 `pkg/cli/cmds`).
const ARGUMENT_LISTS: [&str; 7] = [
    "etcd-arg",
    "kube-apiserver-arg",
    "kube-cloud-controller-manager-arg",
    "kube-controller-manager-arg",
    "kube-proxy-arg",
    "kube-scheduler-arg",
    "kubelet-arg",
];

/// The place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigLayer {
    /// `config.yaml` itself: read first.
    Main,
    /// In `config.yaml.d`.
    DropIn,
    /// The kubelet's own: a KubeletConfiguration, of which only feature gates are read. Its path is the one at which
    /// the kubelet finds it ([`KubeletFiles::place`](super::KubeletFiles::place)).
    Kubelet,
}

/// The layer of the file with this path on a node; `None` if RKE2 does not read it for its arguments. Files to which
/// arguments refer are not considered here.
pub fn layer(path: &str) -> Option<ConfigLayer> {
    match path.strip_prefix("/etc/rancher/rke2/") {
        Some("config.yaml") => Some(ConfigLayer::Main),
        Some(below) => {
            let name = below.strip_prefix("config.yaml.d/")?;
            // RKE2 does not read the directories below.
            (is_read(name) && !name.contains('/')).then_some(ConfigLayer::DropIn)
        }
        None => None,
    }
}

/// One file of the configuration. Its text may hold secrets: it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Rke2ConfigFile {
    pub place: ConfigLayer,
    /// Its path; drop-ins are ordered by its last part.
    pub path: String,
    pub text: String,
    /// The file that contains the text, with its name in messages: this file, or the configuration that carries it.
    pub shown: String,
    /// The lines of the text in that file.
    pub lines: InnerLines,
}

impl std::fmt::Debug for Rke2ConfigFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConfigFile({:?} {:?})", self.place, self.path)
    }
}

impl Rke2ConfigFile {
    /// A separate file.
    pub fn new(place: ConfigLayer, path: impl Into<String>, text: impl Into<String>) -> Self {
        let path = path.into();
        Self {
            place,
            shown: path.clone(),
            path,
            text: text.into(),
            lines: InnerLines::Follow { first: 1 },
        }
    }

    /// One of its lines, as messages show it.
    pub(super) fn at(&self, line: u32) -> Location {
        Location::line(self.shown.clone(), self.lines.outer(line))
    }

    /// Its base name, by which drop-ins are ordered.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Whether RKE2 reads a drop-in of this name. Hidden files are read too.
pub fn is_read(name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    ending.eq_ignore_ascii_case("yaml") || ending.eq_ignore_ascii_case("yml")
}

/// One text and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigItem {
    pub text: String,
    pub at: Location,
}

/// Items that a later file replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacedItems {
    pub key: String,
    /// Its earlier items.
    pub items: Vec<ConfigItem>,
    /// The plain key that replaced it.
    pub by: Location,
}

/// The merged lists of component arguments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MergedConfig {
    lists: BTreeMap<String, Vec<ConfigItem>>,
    /// The replaced items, in order.
    pub wiped: Vec<ReplacedItems>,
    /// Feature gates of the kubelet's own files, each as `name=value`: any use of the flag counts after them.
    pub kubelet_gates: Vec<ConfigItem>,
    /// The other fields of the kubelet's own files, in the order in which they count.
    pub kubelet_fields: Vec<KubeletField>,
    /// Whether the kubelet gets more values than these files have: its arguments name a file that is not among them, or Harvester adds its
    /// own (v1.8.2 `package/upgrade/upgrade_node.sh`).
    pub lacks_kubelet_values: bool,
    /// Problems for which RKE2 or a component will refuse the configuration.
    pub findings: Vec<Finding>,
}

impl MergedConfig {
    /// The items of a list (`kube-apiserver-arg`), as RKE2 will read them.
    pub fn list(&self, key: &str) -> &[ConfigItem] {
        self.lists.get(key).map_or(&[], Vec::as_slice)
    }

    /// Every list, by key.
    pub fn lists(&self) -> impl Iterator<Item = (&str, &[ConfigItem])> {
        self.lists
            .iter()
            .map(|(key, items)| (key.as_str(), items.as_slice()))
    }

    /// The values that a component receives for a flag, in its order. The components read `_` in a flag's name as `-`;
    /// RKE2 does not, and passes those on later.
    pub fn flag(&self, key: &str, flag: &str) -> Vec<ConfigItem> {
        let mut values = flag_values(self.list(key), flag);
        values.extend(flag_values(self.list(key), &flag.replace('-', "_")));
        values
    }
}

/// The values of one flag among a component's items (`k3s pkg/util/args.go`): `name=value` and `name+=value` come after
/// the user's earlier values, `name-=value` before them; one leading `--` is dropped; an item without `=` is true.
pub fn flag_values(items: &[ConfigItem], flag: &str) -> Vec<ConfigItem> {
    let mut values: Vec<ConfigItem> = Vec::new();
    for item in items {
        let (name, value) = split(&item.text);
        if name.trim_end_matches(['+', '-']) != flag {
            continue;
        }
        let value = ConfigItem {
            text: value.to_owned(),
            at: item.at.clone(),
        };
        match name.ends_with('-') {
            true => values.insert(0, value),
            false => values.push(value),
        }
    }
    values
}

/// An item's name, with its `+` or `-`, and its value.
pub fn split(item: &str) -> (&str, &str) {
    let item = item.strip_prefix("--").unwrap_or(item);
    item.split_once('=').unwrap_or((item, "true"))
}

/// The value of a key while the files are read.
enum HeldValue {
    /// Nothing, which becomes one empty item.
    Empty(Location),
    Items(Vec<ConfigItem>),
}

/// The lists that `rke2 agent` reads too (rke2 `pkg/cli/cmds/agent.go`).
const AGENT_LISTS: [&str; 2] = ["kube-proxy-arg", "kubelet-arg"];

/// Merges the files as a server does. Drop-ins that RKE2 does not read are ignored.
pub fn merge(files: &[Rke2ConfigFile]) -> MergedConfig {
    merge_as(files, Rke2Role::Server)
}

/// As [`merge`], for one of both commands: an agent skips the lists of components that it does not run.
pub fn merge_as(files: &[Rke2ConfigFile], role: Rke2Role) -> MergedConfig {
    let is_skipped = |entry: &MapEntry| {
        let key = entry.key.trim().trim_end_matches('+');
        role == Rke2Role::Agent && key.ends_with("-arg") && !AGENT_LISTS.contains(&key)
    };
    let mut held: BTreeMap<String, HeldValue> = BTreeMap::new();
    let mut effective = MergedConfig::default();
    for file in in_order(files) {
        match pairs(file) {
            Ok(entries) => {
                for entry in entries.into_iter().filter(|entry| !is_skipped(entry)) {
                    take(file, entry, &mut held, &mut effective);
                }
            }
            Err(finding) => effective.findings.push(finding),
        }
    }
    for (key, held) in held {
        let items = match held {
            HeldValue::Items(items) => items,
            HeldValue::Empty(at) => vec![ConfigItem {
                text: String::new(),
                at,
            }],
        };
        for item in &items {
            judge(&key, item, &mut effective.findings);
        }
        effective.lists.insert(key, items);
    }
    kubelet::add_gates(files, &mut effective);
    effective
}

/// The files that RKE2 reads, in its order.
pub(super) fn in_order(files: &[Rke2ConfigFile]) -> Vec<&Rke2ConfigFile> {
    let mut ordered: Vec<&Rke2ConfigFile> = files
        .iter()
        .filter(|file| match file.place {
            ConfigLayer::Main => true,
            ConfigLayer::DropIn => is_read(file.name()),
            ConfigLayer::Kubelet => false,
        })
        .collect();
    ordered.sort_by(|a, b| (a.place, a.name().as_bytes()).cmp(&(b.place, b.name().as_bytes())));
    ordered
}

/// The top-level pairs of a file that RKE2 can read.
pub(super) fn pairs(file: &Rke2ConfigFile) -> Result<Vec<MapEntry>, Finding> {
    let refused = |line: Option<u32>, what: &str| Finding {
        incident: None,
        code: Code::ConfigFileRefused,
        severity: Code::ConfigFileRefused.severity(),
        // The reader's own words can quote the file, and the file can contain secrets.
        message: format!(
            "RKE2 cannot read this configuration file: {what}. rke2 exits at once, and systemd restarts it every 5 s forever. Fix this line, or remove the file"
        ),
        at: vec![line.map_or_else(|| Location::file(file.shown.clone()), |line| file.at(line))],
    };
    match yaml::pairs(&file.text) {
        Ok(None) => Ok(Vec::new()),
        Ok(Some(Node {
            value: NodeValue::Mapping(entries),
            ..
        })) => Ok(entries),
        Ok(Some(node)) if node.is_null() => Ok(Vec::new()),
        Ok(Some(node)) => Err(refused(
            Some(node.line),
            &format!("it holds {}, not `key: value` pairs", node.type_name()),
        )),
        Err(problems) => Err(refused(
            problems.first().and_then(|problem| problem.line),
            "it is not valid YAML here",
        )),
    }
}

fn take(
    file: &Rke2ConfigFile,
    entry: MapEntry,
    held: &mut BTreeMap<String, HeldValue>,
    effective: &mut MergedConfig,
) {
    let (key, appends) = match entry.key.trim().strip_suffix('+') {
        Some(key) => (key, true),
        None => (entry.key.trim(), false),
    };
    let at = |line: u32| file.at(line);
    let here = at(entry.line);
    if !key.ends_with("-arg") {
        if let Some(meant) = meant_list(key) {
            effective.findings.push(Finding {
                incident: None,
                code: Code::ComponentArgumentInvalid,
                severity: Severity::Warning,
                message: format!("RKE2 has no key `{key}` and ignores everything below it: did you mean `{meant}`?"),
                at: vec![here],
            });
        }
        return;
    }
    let item = |node: &Node| ConfigItem {
        text: text(node),
        at: at(node.line),
    };
    let given = match &entry.value.value {
        NodeValue::Null => HeldValue::Empty(here.clone()),
        NodeValue::Sequence(items) => HeldValue::Items(items.iter().map(item).collect()),
        NodeValue::Mapping(_) => {
            effective.findings.push(argument(
                key,
                "it is a map; write a list of name=value texts",
                here.clone(),
            ));
            HeldValue::Items(Vec::new())
        }
        _ => HeldValue::Items(vec![item(&entry.value)]),
    };
    if let NodeValue::Sequence(items) = &entry.value.value {
        for node in items.iter().filter(|node| is_no_text(node)) {
            effective.findings.push(argument(
                key,
                &format!(
                    "this item is {}; write a text, name=value, with `=` and not with `: `",
                    node.type_name()
                ),
                at(node.line),
            ));
        }
    }
    match (held.remove(key), given) {
        (Some(HeldValue::Items(mut before)), HeldValue::Items(more)) if appends => {
            before.extend(more);
            held.insert(key.to_owned(), HeldValue::Items(before));
        }
        // An empty value and a text, appended in either order, give the text.
        (Some(before @ HeldValue::Items(_)), HeldValue::Empty(_)) if appends => {
            held.insert(key.to_owned(), before);
        }
        (Some(HeldValue::Empty(_)), HeldValue::Empty(_)) if appends => {
            held.insert(key.to_owned(), HeldValue::Items(Vec::new()));
        }
        (before, given) => {
            if let Some(HeldValue::Items(items)) = before
                && !appends
                && !items.is_empty()
            {
                effective.wiped.push(ReplacedItems {
                    key: key.to_owned(),
                    items,
                    by: here,
                });
            }
            held.insert(key.to_owned(), given);
        }
    }
}

/// The list of arguments that a key resembles: `kube_apiserver_args` is not one.
pub(super) fn meant_list(key: &str) -> Option<&'static str> {
    let letters = |text: &str| -> String {
        let letters = text.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    let written = letters(key);
    let written = written.strip_suffix('s').unwrap_or(&written);
    ARGUMENT_LISTS
        .into_iter()
        .find(|list| letters(list) == written)
}

fn is_no_text(node: &Node) -> bool {
    match &node.value {
        NodeValue::Sequence(items) => match &items[..] {
            [item] => matches!(item.value, NodeValue::Mapping(_) | NodeValue::Sequence(_)),
            _ => true,
        },
        value => matches!(value, NodeValue::Mapping(_)),
    }
}

/// An item as RKE2 writes it into an argument (wrangler's `convert.ToString`): without white space around it, and of a
/// list its first text. Another list or a map gives no working argument.
pub(super) fn text(node: &Node) -> String {
    let node = match &node.value {
        NodeValue::Sequence(items) => items.first().unwrap_or(node),
        _ => node,
    };
    match &node.value {
        NodeValue::String(text) => text.trim().to_owned(),
        NodeValue::Bool(value) => value.to_string(),
        NodeValue::Number(number) => number.to_string(),
        NodeValue::Null | NodeValue::Sequence(_) | NodeValue::Mapping(_) => String::new(),
    }
}

/// Reports items with which no component can start.
fn judge(key: &str, item: &ConfigItem, findings: &mut Vec<Finding>) {
    let (name, _) = split(&item.text);
    let name = name.trim_end_matches(['+', '-']);
    if name.is_empty() {
        let finding = argument(
            key,
            "an empty item becomes the flag `--=true`, with which the component does not start; remove it, or write the list",
            item.at.clone(),
        );
        // An item that is not a text was already reported.
        if !findings
            .iter()
            .any(|known| known.at == finding.at && known.code == finding.code)
        {
            findings.push(finding);
        }
    }
}

fn argument(key: &str, what: &str, at: Location) -> Finding {
    Finding {
        incident: None,
        code: Code::ComponentArgumentInvalid,
        severity: Code::ComponentArgumentInvalid.severity(),
        message: format!("`{key}` cannot be used: {what}"),
        at: vec![at],
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
