//! The values of RKE2's own keys, judged as `rke2 server` and `rke2 agent` judge them at their start.
//!
//! Pure. A value is shown only if its key has a closed set of values: another one may be a secret. The rules are those of RKE2 from
//! 1.30 on (rancher/rke2 `pkg/cli/cmds/{root,server,profile_linux}.go`, read at v1.30.0 to v1.36.3).

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::{Code, Severity};
use windrow_model::suggest::nearest;
use windrow_model::unchecked::{ANY_TEXT, CanStop, NotChecked};

use super::PACKAGED;
use super::config::{ConfigItem, Rke2ConfigFile, in_order, meant_list, merge, pairs};
use super::key_relations;
use super::known_keys::{KNOWN, Key, TextRule, ValueType};
use super::networks;
use super::node_labels;
use super::service_ranges::service_ranges;
use super::value_form::{ValueForm, is_duration};
use super::written_keys::{WrittenKey, WrittenValue, written};
use crate::version::Version;

/// `CNIItems` (rke2 `pkg/cli/types.go`; up to 1.30 `pkg/rke2/rke2.go`).
pub(crate) const CNI: [&str; 4] = ["calico", "canal", "cilium", "flannel"];
/// `IngressItems`, there.
pub(crate) const INGRESS: [&str; 2] = ["ingress-nginx", "traefik"];
/// k3s `pkg/cli/server/server.go`, `validateNetworkConfiguration`.
const EGRESS: [&str; 4] = ["agent", "cluster", "disabled", "pod"];
/// Profiles of RKE2 up to 1.29: from 1.30 on each of them is fatal.
const FORMER_PROFILES: [&str; 3] = ["cis-1.23", "cis-1.5", "cis-1.6"];
/// The first patch of each minor with `profile: etcd` (rancher/rke2#8349). Minors after these always have it.
const ETCD_PROFILE: [(u16, u16); 4] = [(30, 14), (31, 10), (32, 6), (33, 2)];
/// Names of `disable` in k3s that RKE2 does not package.
const OF_K3S: [&str; 5] = [
    "coredns",
    "local-storage",
    "metrics-server",
    "servicelb",
    "traefik",
];

/// Keys of K3s that RKE2 does not have (rke2 `pkg/cli/cmds/server.go`, `dropFlag`; K3s' former names), and what to do instead.
const KEYS_OF_K3S: [(&str, &str); 9] = [
    ("cluster-init", ": RKE2 needs none"),
    ("disable-helm-controller", ""),
    ("disable-network-policy", ""),
    ("docker", ""),
    ("flannel-backend", "; choose the network with `cni`"),
    (
        "flannel-iface",
        "; choose it in the values of the CNI's chart",
    ),
    (
        "kube-controller-arg",
        "; write `kube-controller-manager-arg`",
    ),
    ("no-deploy", "; write `disable`"),
    ("rootless", ""),
];

/// The command that reads the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rke2Role {
    #[default]
    Server,
    Agent,
}

impl Rke2Role {
    fn command(self) -> &'static str {
        match self {
            Self::Server => "rke2 server",
            Self::Agent => "rke2 agent",
        }
    }
}

/// The values with which RKE2 or the kubelet does not start, and the keys that nothing reads.
pub fn judge_keys(
    files: &[Rke2ConfigFile],
    role: Rke2Role,
    version: Option<Version>,
) -> Vec<Finding> {
    let keys = written(files);
    let mut found = written_twice(files);
    for (name, key) in &keys {
        match KNOWN.get(name.as_str()) {
            Some(known) if is_read(known, role) => {
                let first = version.and_then(|version| known.comes_with(version));
                if let (Some(first), Some(at)) = (first, &key.at) {
                    let why = format!("this release does not have the key, RKE2 {first} does");
                    found.push(not_read(name, &why, Severity::Warning, at));
                    continue;
                }
                typed(name, known.value, key, &mut found);
                found.extend(empty(name, known, key));
                found.extend(deep(name, known, key));
                if let TextRule::Form(form) = known.text {
                    formed(name, form, key, &mut found);
                }
                if let Some(form) = known.meant {
                    not_meant(name, form, key, &mut found);
                }
            }
            Some(_) => found.extend(unread(name, role, key)),
            None => found.extend(unknown(name, key)),
        }
    }
    let values = |name: &str| keys.get(name).map_or(&[][..], |key| &key.values);
    profile(&keys, version, &mut found);
    node_labels::judge(values("node-label"), values("node-taint"), &mut found);
    key_relations::cloud_provider(&keys, &mut found);
    if role == Rke2Role::Server {
        cni(values("cni"), &mut found);
        for (name, allowed) in [
            ("ingress-controller", &INGRESS[..]),
            ("egress-selector-mode", &EGRESS),
        ] {
            let none = (name == "ingress-controller").then_some("none");
            for (word, at) in words(values(name)) {
                if !allowed.contains(&word) && Some(word) != none {
                    found.push(refused(name, word, allowed, at));
                }
            }
        }
        disabled(values("disable"), &mut found);
        key_relations::other_ingress(&keys, version, &mut found);
        let merged = merge(files);
        networks::judge(&keys, &merged, version, &mut found);
        key_relations::snapshots(&keys, &mut found);
        key_relations::arguments(&keys, &merged, &mut found);
        // Without RKE2's own DNS, the address may be another server's.
        let mut disabled = words(values("disable"));
        if !disabled.any(|(word, _)| word.trim() == "rke2-coredns") {
            key_relations::dns_outside(values("cluster-dns"), &service_ranges(files), &mut found);
        }
    }
    key_relations::server_address(&keys, role, &mut found);
    found
}

/// Keys that a file has twice: RKE2 reads the last one only (k3s `pkg/configfilearg/parser.go`).
fn written_twice(files: &[Rke2ConfigFile]) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in in_order(files) {
        let mut known: BTreeMap<String, u32> = BTreeMap::new();
        for entry in pairs(file).unwrap_or_default() {
            let name = entry.key.trim();
            if name.ends_with('+') {
                continue;
            }
            if let Some(first) = known.insert(name.to_owned(), entry.line) {
                let why =
                    "the file has the key again further down, and RKE2 reads only the last one";
                found.push(not_read(name, why, Severity::Warning, &file.at(first)));
            }
        }
    }
    found
}

fn is_read(key: &Key, role: Rke2Role) -> bool {
    match role {
        Rke2Role::Server => key.server,
        Rke2Role::Agent => key.agent,
    }
}

/// The values that no rule judges.
pub fn unjudged_keys(files: &[Rke2ConfigFile], role: Rke2Role) -> Vec<NotChecked> {
    let keys = written(files);
    let unjudged = keys.iter().filter_map(|(name, key)| {
        let known = KNOWN
            .get(name.as_str())
            .filter(|known| is_read(known, role))?;
        let (why, can_stop) = match known.text {
            TextRule::Nothing => ("Windrow has no rule for this text", CanStop::Component),
            TextRule::Form(ValueForm::File) => {
                ("Windrow does not read this file", CanStop::Component)
            }
            TextRule::Form(ValueForm::Any) => (ANY_TEXT, CanStop::Itself),
            TextRule::Own | TextRule::Form(_) => return None,
        };
        let is_empty = key.values.iter().all(|value| value.item.text.is_empty());
        let at = key
            .at
            .clone()
            .filter(|_| !is_empty || can_stop == CanStop::Itself)?;
        Some(NotChecked {
            what: format!("`{name}`"),
            why: why.to_owned(),
            can_stop,
            at: vec![at],
        })
    });
    unjudged.collect()
}

/// Texts that the key does not take. They are not shown: a wrong one may be a secret in the wrong place.
fn formed(name: &str, form: ValueForm, key: &WrittenKey, found: &mut Vec<Finding>) {
    for value in &key.values {
        let item = &value.item;
        // The empty items of a list are in `empty`, if all of them are.
        let is_empty = item.text.is_empty() && (key.values.len() == 1 || !is_of_addresses(form));
        if is_empty || value.no_text.is_some() {
            continue;
        }
        if let Some(expected) = form.refusal(&item.text) {
            let why = format!("RKE2 does not start with the value of `{name}`: {expected}");
            found.push(fatal(&why, &item.at));
        }
    }
}

/// Texts that RKE2 takes, and that do not do what they look like.
fn not_meant(name: &str, form: ValueForm, key: &WrittenKey, found: &mut Vec<Finding>) {
    for value in &key.values {
        let item = &value.item;
        let is_judged = !item.text.is_empty() && value.no_text.is_none();
        if let Some(expected) = form.refusal(&item.text).filter(|_| is_judged) {
            let why = format!("the value of `{name}`: {expected}");
            found.push(unintended(&why, &item.at));
        }
    }
}

/// A key without a value, which the parser hands on as an empty one (k3s `pkg/configfilearg/parser.go`): no boolean, number or
/// time, and no CNI.
fn empty(name: &str, known: &Key, key: &WrittenKey) -> Option<Finding> {
    let is_empty = key
        .values
        .iter()
        .all(|value| value.item.text.is_empty() && value.no_text.is_none());
    let of_addresses = matches!(known.text, TextRule::Form(form) if is_of_addresses(form));
    let takes_none = match known.value {
        ValueType::List => !of_addresses && !NEED_A_VALUE.contains(&name),
        ValueType::Text => !NEED_A_VALUE.contains(&name),
        ValueType::Bool | ValueType::Int | ValueType::Duration => false,
    };
    // An empty list is none of the flag, and so is a key that is only appended to.
    let is_written = key.is_null || !key.values.is_empty();
    let why =
        format!("RKE2 does not start with `{name}` without a value: write one, or remove the key");
    let at = key
        .at
        .as_ref()
        .filter(|_| is_empty && is_written && !takes_none)?;
    Some(fatal(&why, at))
}

/// Whether RKE2 ends at an empty item of a list in this form: no network and no address (k3s `pkg/cli/server/server.go`,
/// `pkg/util/net.go`, `ParseStringSliceToIPs`).
fn is_of_addresses(form: ValueForm) -> bool {
    matches!(form, ValueForm::Cidrs | ValueForm::Ips)
}

/// A mapping, of which the parser makes one text (`map[…]`), or a list inside the list, of which it takes the first item only (k3s
/// `pkg/configfilearg/parser.go`; rancher/wrangler `pkg/data/convert`, `ToString`).
fn deep(name: &str, known: &Key, key: &WrittenKey) -> Option<Finding> {
    // Their own rules judge these.
    if name.ends_with("-arg") || ["node-label", "node-taint"].contains(&name) {
        return None;
    }
    let mut values = key.values.iter();
    let (value, type_name) = values.find_map(|value| Some((value, value.no_text?)))?;
    let is_list = type_name == "a list";
    let takes_any = matches!(known.value, ValueType::List | ValueType::Text)
        && (known.meant.is_some()
            || matches!(
                known.text,
                TextRule::Nothing | TextRule::Form(ValueForm::Any | ValueForm::File)
            ));
    let why = match is_list {
        true => format!(
            "the value of `{name}` has a list inside its list, of which RKE2 reads only the first item: write one list"
        ),
        false => format!(
            "the value of `{name}` is a mapping, of which RKE2 makes one text: write a text or a list of texts"
        ),
    };
    let at = &value.item.at;
    Some(match is_list || takes_any {
        true => unintended(&why, at),
        false => fatal(&why, at),
    })
}

/// Texts of which RKE2 refuses an empty one (`validateCNI`, `validateIngress`, k3s `validateNetworkConfiguration`).
const NEED_A_VALUE: [&str; 3] = ["cni", "egress-selector-mode", "ingress-controller"];

/// Values that the flag's own type refuses.
fn typed(name: &str, value: ValueType, key: &WrittenKey, found: &mut Vec<Finding>) {
    let (fits, expected): (fn(&str) -> bool, &str) = match value {
        ValueType::Bool => (is_boolean, "true or false"),
        ValueType::Int => (is_whole_number, "a whole number"),
        ValueType::Duration => (is_duration, "a time with its unit, for example `5m`"),
        ValueType::List | ValueType::Text => return,
    };
    for value in key
        .values
        .iter()
        .filter(|value| !value.item.text.is_empty())
    {
        if !fits(&value.item.text) {
            let why = format!("RKE2 refuses the value of `{name}`: it is not {expected}");
            found.push(fatal(&why, &value.item.at));
        }
    }
}

/// `strconv.ParseBool`. A YAML boolean without quotes, `yes` for example, has become `true` or `false` before.
fn is_boolean(text: &str) -> bool {
    [
        "1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False",
    ]
    .contains(&text)
}

/// Whether a boolean key is on.
pub(super) fn is_true(key: Option<&WrittenKey>) -> bool {
    let value = key.and_then(|key| key.values.last());
    value.is_some_and(|value| {
        is_boolean(&value.item.text) && value.item.text.starts_with(['1', 't', 'T'])
    })
}

fn is_whole_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    // Go also reads `0x10`.
    digits.parse::<i64>().is_ok() || digits.starts_with("0x")
}

/// `validateProfile`.
fn profile(
    keys: &BTreeMap<String, WrittenKey>,
    version: Option<Version>,
    found: &mut Vec<Finding>,
) {
    let Some(value) = keys.get("profile").and_then(|key| key.values.last()) else {
        return;
    };
    let ConfigItem { text, at } = &value.item;
    let minor = version.map(|version| version.minor.minor);
    match text.as_str() {
        "" => {}
        "cis" => {
            let protects = keys.get("protect-kernel-defaults");
            let off = protects.and_then(|key| key.values.last()).filter(|value| {
                is_boolean(&value.item.text) && value.item.text.starts_with(['0', 'f', 'F'])
            });
            if let Some(off) = off {
                let why = "`profile: cis` requires `protect-kernel-defaults: true`";
                found.push(fatal(why, &off.item.at));
            }
        }
        "etcd" => {
            let has = version.is_none_or(|version| has_etcd_profile(version) != Some(false));
            if !has {
                let why = "this release of RKE2 does not have `profile: etcd` (1.30.14, 1.31.10, 1.32.6, 1.33.2 and later have it)";
                found.push(fatal(why, at));
            }
        }
        former if FORMER_PROFILES.contains(&former) => {
            let why = format!("RKE2 1.30 and later refuse `profile: {former}`. Write `cis`");
            match minor {
                Some(minor) if minor < 30 => {}
                Some(_) => found.push(fatal(&why, at)),
                None => found.push(Finding {
                    severity: Severity::Warning,
                    ..fatal(&why, at)
                }),
            }
        }
        other => found.push(refused("profile", other, &["cis", "etcd"], at)),
    }
}

/// `None` if the patch decides and the version does not have one.
fn has_etcd_profile(version: Version) -> Option<bool> {
    let minor = version.minor.minor;
    match ETCD_PROFILE.iter().find(|(known, _)| *known == minor) {
        Some((_, patch)) => version.patch.map(|own| own >= *patch),
        None => Some(minor > 30),
    }
}

/// `validateCNI`, which compares the words with their blanks.
fn cni(values: &[WrittenValue], found: &mut Vec<Finding>) {
    let all: Vec<(&str, &Location)> = words(values).collect();
    let of_several = match all[..] {
        [] => return,
        [("multus", at)] => Some((
            at,
            "`multus` needs a second value, for example `[multus, canal]`",
        )),
        [_] | [("multus", _), _] => None,
        [(_, at), _] => Some((at, "it takes two values only if the first one is `multus`")),
        [(_, at), ..] => Some((at, "it takes one value, or `multus` and one more")),
    };
    if let Some((at, why)) = of_several {
        found.push(fatal(
            &format!("RKE2 refuses the values of `cni`: {why}"),
            at,
        ));
        return;
    }
    let first = usize::from(all.len() > 1);
    for (word, at) in &all[first..] {
        if *word != "none" && !CNI.contains(word) {
            found.push(refused("cni", word, &CNI, at));
        }
    }
}

/// The words of a list, between its commas.
pub(super) fn words(values: &[WrittenValue]) -> impl Iterator<Item = (&str, &Location)> {
    let items = values.iter().map(|value| &value.item);
    let items = items.filter(|item| !item.text.is_empty());
    items.flat_map(|item| item.text.split(',').map(move |word| (word, &item.at)))
}

/// Names of `disable` that switch nothing off. RKE2 ignores them; a name of a file of the user's is possible.
fn disabled(values: &[WrittenValue], found: &mut Vec<Finding>) {
    let mut known: BTreeSet<&str> = PACKAGED.iter().copied().collect();
    known.extend([
        "rke2-flannel-crd",
        "rke2-canal-crd",
        "rke2-cilium-crd",
        "rke2-multus-crd",
    ]);
    for (word, at) in words(values) {
        let name = word.trim();
        if known.contains(name) || name.is_empty() {
            continue;
        }
        let advice = match name {
            "rke2-kube-proxy" => Some(
                "kube-proxy is no chart. To switch it off, write `disable-kube-proxy: true`"
                    .to_owned(),
            ),
            name if OF_K3S.contains(&name) => Some(format!(
                "this is a name of K3s. The names in RKE2 begin with `rke2-`; `{name}` has no effect"
            )),
            name => {
                nearest(name, known.iter().copied()).map(|meant| format!("did you mean `{meant}`?"))
            }
        };
        if let Some(advice) = advice {
            let why = format!("RKE2 has no packaged component of this name: {advice}");
            found.push(not_read(
                &format!("disable: {name}"),
                &why,
                Severity::Warning,
                at,
            ));
        }
    }
}

/// A key of the other command: RKE2 skips it with a warning.
fn unread(name: &str, role: Rke2Role, key: &WrittenKey) -> Option<Finding> {
    let why = format!("`{}` does not have this key, and skips it", role.command());
    let severity = Severity::Notice;
    Some(not_read(name, &why, severity, key.at.as_ref()?))
}

fn unknown(name: &str, key: &WrittenKey) -> Option<Finding> {
    // One letter is the short form of a flag, and the merged lists report the keys of arguments that resemble one.
    if name.chars().count() == 1 || (!name.ends_with("-arg") && meant_list(name).is_some()) {
        return None;
    }
    // A key is a name; another text may be a secret in the wrong place.
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.len() > 63 || !name.chars().all(is_name) {
        return None;
    }
    // Who writes it by mistake loses the data of etcd.
    let harmless = KNOWN
        .keys()
        .copied()
        .filter(|known| !known.starts_with("cluster-reset"));
    let known_of_k3s = KEYS_OF_K3S.iter().find(|(known, _)| *known == name);
    let why = match nearest(name, harmless) {
        _ if known_of_k3s.is_some() => format!(
            "it is a key of K3s, and RKE2 skips it{}",
            known_of_k3s.map_or("", |(_, instead)| instead)
        ),
        Some(meant) => {
            format!("RKE2 does not have this key, and skips it; did you mean `{meant}`?")
        }
        None => "RKE2 does not have this key, and skips it".to_owned(),
    };
    Some(not_read(name, &why, Severity::Warning, key.at.as_ref()?))
}

fn refused(name: &str, value: &str, allowed: &[&str], at: &Location) -> Finding {
    let meant = nearest(value, allowed.iter().copied());
    let meant = meant.map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
    let why = format!(
        "RKE2 refuses the value of `{name}`: it accepts {}{meant}",
        allowed.join(", ")
    );
    fatal(&why, at)
}

/// RKE2 ends with this value.
pub(super) fn fatal(message: &str, at: &Location) -> Finding {
    let code = Code::ConfigFileRefused;
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: message.to_owned(),
        at: vec![at.clone()],
    }
}

/// A component of Kubernetes ends at this.
pub(super) fn stops(why: &str, at: &Location) -> Finding {
    let code = Code::ComponentArgumentInvalid;
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: why.to_owned(),
        at: vec![at.clone()],
    }
}

/// RKE2 takes this value, and probably not as it is meant.
pub(super) fn unintended(why: &str, at: &Location) -> Finding {
    let code = Code::Rke2ValueUnintended;
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: code.say(&[("why", why)]),
        at: vec![at.clone()],
    }
}

fn not_read(key: &str, why: &str, severity: Severity, at: &Location) -> Finding {
    let code = Code::KeyNotRead;
    Finding {
        incident: None,
        code,
        severity,
        message: code.say(&[("key", key), ("why", why)]),
        at: vec![at.clone()],
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
