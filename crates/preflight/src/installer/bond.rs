//! The bond of the management network. The installer passes its options on unchanged (harvester-installer pkg/config/cos.go
//! updateBond, v1.4.0 to v1.8.1). With an invalid one neither the bond nor the network comes up.
//!
//! The values are those of linux Documentation/networking/bonding.rst.

use std::collections::BTreeSet;

use windrow_model::manifest::{MapEntry, Node, NodeValue};
use windrow_model::suggest::nearest;

use super::remark::RemarkKind;
use super::rules::{text, unknown, whole};

/// The mode that also needs configuration on the switch.
pub(super) const LACP: &str = "802.3ad";

/// The values of an option by name, each of which also has a number, starting with 0.
const NAMED: [(&str, &[&str]); 8] = [
    (
        "mode",
        &[
            "balance-rr",
            "active-backup",
            "balance-xor",
            "broadcast",
            LACP,
            "balance-tlb",
            "balance-alb",
        ],
    ),
    (
        "xmit_hash_policy",
        &[
            "layer2",
            "layer3+4",
            "layer2+3",
            "encap2+3",
            "encap3+4",
            "vlan+srcmac",
        ],
    ),
    ("lacp_rate", &["slow", "fast"]),
    ("ad_select", &["stable", "bandwidth", "count"]),
    ("primary_reselect", &["always", "better", "failure"]),
    ("fail_over_mac", &["none", "active", "follow"]),
    ("arp_all_targets", &["any", "all"]),
    (
        "arp_validate",
        &[
            "none",
            "active",
            "backup",
            "all",
            "filter",
            "filter_active",
            "filter_backup",
        ],
    ),
];

/// Options whose value is a number: milliseconds or a count.
const COUNTED: [&str; 7] = [
    "miimon",
    "updelay",
    "downdelay",
    "arp_interval",
    "resend_igmp",
    "min_links",
    "lp_interval",
];

/// Options with other values, which are not judged.
const OTHERS: [&str; 16] = [
    "active_slave",
    "ad_actor_sys_prio",
    "ad_actor_system",
    "ad_user_port_key",
    "all_slaves_active",
    "arp_ip_target",
    "arp_missed_max",
    "lacp_active",
    "ns_ip6_target",
    "num_grat_arp",
    "num_unsol_na",
    "packets_per_slave",
    "peer_notif_delay",
    "primary",
    "tlb_dynamic_lb",
    "use_carrier",
];
/// A fault of the bond, and its line.
pub(super) struct BondFault {
    pub(super) line: u32,
    pub(super) kind: RemarkKind,
    pub(super) why: String,
}

/// The mode of a bond in its options, by name; `None` for an unknown one.
pub(super) fn mode(options: Option<&Node>) -> Option<(&'static str, u32)> {
    let entry = options?.entry("mode")?;
    let (_, modes) = NAMED.first()?;
    Some((named(&entry.value, modes)?, entry.line))
}

/// What is wrong with the bond of this management interface.
pub(super) fn faults(management: &Node) -> Vec<BondFault> {
    let mut found = Vec::new();
    let options = management.entry("bondOptions").map(|entry| &entry.value);
    let entries = options.map_or(&[][..], Node::entries);
    for option in entries {
        found.extend(option_fault(option));
    }
    let interfaces = management.entry("interfaces");
    let interfaces = interfaces.map_or(&[][..], |entry| entry.value.items());
    // An empty map replaces the installer's own options, too.
    let has_mode = entries
        .iter()
        .any(|option| option.key == "mode" && !is_empty(&option.value));
    if let Some(first) = entries.first()
        && !has_mode
        && interfaces.len() > 1
    {
        found.push(BondFault {
            line: first.line,
            kind: RemarkKind::Unintended,
            why: "`bond_options` has no `mode`: the bond then sends packets over all interfaces in turn (balance-rr), which needs \
                  a configured switch; add `mode: active-backup`"
                .to_owned(),
        });
    }
    let mut seen = BTreeSet::new();
    for interface in interfaces {
        let name = text(Some(interface), "name").or_else(|| text(Some(interface), "hwAddr"));
        if let Some((name, line)) = name
            && !seen.insert(name.to_ascii_lowercase())
        {
            found.push(BondFault {
                line,
                kind: RemarkKind::Unintended,
                why: "two items of `interfaces` name the same interface: the bond has one interface less; name another one"
                    .to_owned(),
            });
        }
    }
    found
}

fn option_fault(option: &MapEntry) -> Option<BondFault> {
    if is_empty(&option.value) {
        return None;
    }
    let key = option.key.as_str();
    let mut kind = RemarkKind::Overlooked;
    let path = format!("install.management_interface.bond_options.{key}");
    let why = if let Some((_, values)) = NAMED.iter().find(|(known, _)| *known == key) {
        if named(&option.value, values).is_some() {
            return None;
        }
        let usual = match key {
            "mode" => "active-backup",
            _ => values.first()?,
        };
        let why = unknown(
            &path,
            &written(&option.value),
            values,
            &format!("write {usual}"),
        );
        let what = match key {
            "mode" => "mode of a bond".to_owned(),
            _ => format!("`{key}` of a bond"),
        };
        format!("the kernel has no such {what}, and no network comes up: {why}")
    } else if COUNTED.contains(&key) {
        if whole(&option.value).is_some_and(|count| count >= 0) {
            return None;
        }
        format!("the kernel takes only a number as `{path}`, and no network comes up")
    } else if OTHERS.contains(&key) {
        return None;
    } else {
        let known = NAMED.iter().map(|(known, _)| *known);
        let all = known.chain(COUNTED).chain(OTHERS);
        let meant =
            nearest(key, all).map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
        kind = RemarkKind::Depends;
        format!(
            "the kernel has no option `{key}` of a bond, and the network may not come up{meant}"
        )
    };
    Some(BondFault {
        line: option.line,
        kind,
        why,
    })
}

/// The name of a value that is written as a name or a number.
fn named(value: &Node, values: &[&'static str]) -> Option<&'static str> {
    let written = written(value);
    let by_number = || values.get(usize::try_from(whole(value)?).ok()?).copied();
    let by_name = values.iter().copied().find(|known| *known == written);
    by_name.or_else(by_number)
}

fn written(value: &Node) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => whole(value)
            .map(|number| number.to_string())
            .unwrap_or_default(),
    }
}

fn is_empty(value: &Node) -> bool {
    match &value.value {
        NodeValue::Null => true,
        NodeValue::String(text) => text.is_empty(),
        _ => false,
    }
}
