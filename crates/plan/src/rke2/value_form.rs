//! The forms of texts in arguments and keys: what the program that reads a text takes, as far as data says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use windrow_model::grammars::is_subdomain;
use windrow_model::quantity::is_quantity;
use windrow_model::suggest::nearest;

use super::Network;

/// The form of a text. Words after it narrow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    /// No text stops the program.
    Any,
    /// The path of a file. Its content can stop the program.
    File,
    Cidr,
    Cidrs,
    CidrsOr(&'static str),
    /// Controllers that run, or do not (`-name`), or all (`*`).
    Controllers(&'static str),
    /// A set of CPUs, as the kernel writes it.
    Cpus,
    Durations,
    Evictions,
    /// A host, with or without a port, and without `https://`.
    HostPort,
    /// Hosts without a port.
    Hosts,
    Https,
    Ip,
    IpPort,
    Ips,
    Level,
    List(&'static str),
    /// The memory that the kubelet reserves in each NUMA node.
    Memory,
    /// The mode of a file in octal digits, with which its owner can read and write it.
    Mode,
    /// Levels of logs by file (klog).
    Modules,
    /// A path on the host and one in the container.
    Mounts,
    Name,
    One(&'static str),
    Options(&'static str),
    Pairs,
    Ports,
    Quantities(&'static str),
    Quantity,
    Reclaims,
    Sysctls,
    /// A variable and its value, which may have commas.
    Variable,
}

/// Signals of evictions (Kubernetes `pkg/kubelet/eviction/api/types.go`, v1.30 to v1.37).
const SIGNALS: [&str; 9] = [
    "allocatableMemory.available",
    "containerfs.available",
    "containerfs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
];

impl ValueForm {
    /// The form that these words of the data name; `None` for other words.
    pub fn read(name: &str, words: Option<&'static str>) -> Option<Self> {
        Some(match (name, words) {
            ("any", None) => Self::Any,
            ("file", None) => Self::File,
            ("cidr", None) => Self::Cidr,
            ("cidrs", None) => Self::Cidrs,
            ("cidrs-or", Some(word)) => Self::CidrsOr(word),
            ("controllers", Some(words)) => Self::Controllers(words),
            ("cpus", None) => Self::Cpus,
            ("durations", None) => Self::Durations,
            ("evictions", None) => Self::Evictions,
            ("host-port", None) => Self::HostPort,
            ("hosts", None) => Self::Hosts,
            ("https", None) => Self::Https,
            ("ip", None) => Self::Ip,
            ("ip-port", None) => Self::IpPort,
            ("level", None) => Self::Level,
            ("name", None) => Self::Name,
            ("ips", None) => Self::Ips,
            ("list", Some(words)) => Self::List(words),
            ("memory", None) => Self::Memory,
            ("mode", None) => Self::Mode,
            ("modules", None) => Self::Modules,
            ("mounts", None) => Self::Mounts,
            ("options", Some(words)) => Self::Options(words),
            ("one", Some(words)) => Self::One(words),
            ("pairs", None) => Self::Pairs,
            ("ports", None) => Self::Ports,
            ("quantities", Some(words)) => Self::Quantities(words),
            ("quantity", None) => Self::Quantity,
            ("reclaims", None) => Self::Reclaims,
            ("sysctls", None) => Self::Sysctls,
            ("variable", None) => Self::Variable,
            _ => return None,
        })
    }

    /// What the program expects instead of this text; `None` if it takes the text.
    pub fn refusal(self, text: &str) -> Option<String> {
        let all = |fits: &dyn Fn(&str) -> bool| text.split(',').all(|item| fits(item.trim()));
        // pflag makes an empty list of an empty text, and hands blanks on.
        let exact = |fits: &dyn Fn(&str) -> bool| text.is_empty() || text.split(',').all(fits);
        let named = |between: char, names: &[&str], fits: &dyn Fn(&str) -> bool| {
            let fits = |item: &str| {
                let pair = item.split_once(between);
                pair.is_some_and(|(name, value)| {
                    (names.is_empty() || names.contains(&name.trim())) && fits(value.trim())
                })
            };
            text.is_empty() || all(&fits)
        };
        let listed = |words: &'static str| words.split('|').collect::<Vec<_>>();
        let (fits, expected) = match self {
            Self::Any | Self::File => return None,
            Self::Cidr => (
                Network::parse(text).is_some(),
                "a network such as 10.42.0.0/16",
            ),
            Self::Cidrs => (
                text.is_empty() || all(&|item| Network::parse(item).is_some()),
                "networks such as 10.42.0.0/16",
            ),
            Self::CidrsOr(word) => {
                let fits =
                    text == word || text.is_empty() || all(&|item| Network::parse(item).is_some());
                return (!fits).then(|| format!("write networks such as 10.42.0.0/16, or {word}"));
            }
            Self::Controllers(words) => {
                let known = listed(words);
                let is_known =
                    |item: &str| item == "*" || known.contains(&item.trim_start_matches('-'));
                let wrong = text.split(',').find(|item| !is_known(item))?;
                let near = nearest(wrong.trim_start_matches('-'), known.iter().copied());
                return Some(match near {
                    Some(near) => {
                        format!("one of its words is no controller; did you mean `{near}`?")
                    }
                    None => "one of its words is no controller".to_owned(),
                });
            }
            Self::Cpus => (exact(&is_cpus), "CPUs such as 0-3,8"),
            Self::Memory => (
                text.split(';').all(|node| {
                    let parts = node
                        .split_once(':')
                        .filter(|(number, _)| number.parse::<u32>().is_ok());
                    parts.is_some_and(|(_, amounts)| amounts.split(',').all(is_reserved))
                }),
                "the memory of each NUMA node such as 0:memory=1Gi;1:memory=1Gi",
            ),
            Self::Modules => (
                named('=', &[], &|value| value.parse::<u32>().is_ok()),
                "files and levels such as kubelet*=4",
            ),
            Self::Options(words) => {
                let known = listed(words);
                let fits = named('=', &known, &|value| !value.is_empty());
                return (!fits).then(|| {
                    let known = known.join(", ");
                    format!("write name=value, separated by commas, with these names: {known}")
                });
            }
            Self::Sysctls => (
                exact(&is_namespaced),
                "sysctls that belong to a namespace, such as kernel.msg* or net.core.somaxconn",
            ),
            Self::Durations => (
                named('=', &SIGNALS, &|value| is_duration(value)),
                "signals and times such as memory.available=1m30s",
            ),
            Self::Evictions => (
                named('<', &SIGNALS, &is_amount),
                "signals and amounts such as memory.available<100Mi,nodefs.available<10%",
            ),
            Self::Reclaims => (
                named('=', &SIGNALS, &is_amount),
                "signals and amounts such as nodefs.available=1Gi",
            ),
            Self::Https => (
                text.strip_prefix("https://").is_some_and(is_host),
                "an address such as https://10.0.0.10:9345, with https://, a host and perhaps a port",
            ),
            Self::HostPort => (
                !text.contains("//") && is_host(text),
                "a host such as s3.example.org:9000, without https://",
            ),
            Self::Hosts => (
                all(&|item| {
                    let (_, port) = host_and_port(item);
                    item.parse::<IpAddr>().is_ok() || (port.is_none() && !item.contains('/'))
                }),
                "names or IP addresses, without https:// and without a port",
            ),
            Self::Mode => {
                let mode = u32::from_str_radix(text, 8);
                (
                    mode.is_ok_and(|mode| mode & 0o600 == 0o600),
                    "a mode with which its owner can read and write it, as a text such as \"0644\"; without quotes, YAML reads 0644 as 420",
                )
            }
            Self::Mounts => (
                (2..=4).contains(&text.split(':').count()) && !text.contains(','),
                "one mount in an item, such as /etc/ssl:/etc/ssl:ro",
            ),
            Self::Variable => (text.contains('='), "NAME=value"),
            Self::IpPort => (
                text.parse::<SocketAddr>().is_ok() || text.parse::<IpAddr>().is_ok(),
                "an address, with or without a port",
            ),
            Self::Level => (text.parse::<i32>().is_ok(), "a whole number"),
            Self::Name => (
                is_subdomain(&text.to_ascii_lowercase()),
                "a name of letters, digits, `-` and `.`, each part of which begins and ends with a letter or digit",
            ),
            Self::Ip => (text.parse::<IpAddr>().is_ok(), "an IP address"),
            Self::Ips => (all(&|item| item.parse::<IpAddr>().is_ok()), "IP addresses"),
            Self::List(words) => {
                let known = listed(words);
                let fits = exact(&|item| known.contains(&item));
                return (!fits).then(|| format!("write a list of these: {}", known.join(", ")));
            }
            Self::One(words) => {
                let known = listed(words);
                let shown: Vec<&str> = known
                    .iter()
                    .copied()
                    .filter(|word| !word.is_empty())
                    .collect();
                let fits = text.is_empty() || known.contains(&text);
                return (!fits).then(|| format!("write one of these: {}", shown.join(", ")));
            }
            Self::Pairs => (
                all(&|item| item.contains('=')),
                "name=value, separated by commas",
            ),
            Self::Ports => (is_port_range(text), "a range of ports such as 30000-32767"),
            Self::Quantities(words) => {
                let known = listed(words);
                let fits = named('=', &known, &|value| is_quantity(value));
                return (!fits).then(|| {
                    format!(
                        "write name=quantity, separated by commas, with these names: {}",
                        known.join(", ")
                    )
                });
            }
            Self::Quantity => (is_quantity(text), "a quantity such as 10Mi"),
        };
        (!fits).then(|| format!("write {expected}"))
    }
}

/// CPUs from one to another, or one (k8s.io/utils `cpuset.Parse`).
fn is_cpus(text: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().ok();
    match text.split_once('-') {
        Some((from, to)) => number(from)
            .zip(number(to))
            .is_some_and(|(from, to)| from <= to),
        None => number(text).is_some(),
    }
}

/// An amount of memory or huge pages, and not nothing.
fn is_reserved(text: &str) -> bool {
    let Some((name, amount)) = text.split_once('=') else {
        return false;
    };
    let is_known = name == "memory" || name.starts_with("hugepages-");
    let is_nothing = amount.trim_end_matches(char::is_alphabetic).parse::<f64>() == Ok(0.0);
    is_known && is_quantity(amount) && !is_nothing
}

/// A sysctl, or the beginning of several with a `*`, in a namespace that the kernel has for pods (k8s.io/component-helpers
/// `node/util/sysctl/namespace.go`).
fn is_namespaced(text: &str) -> bool {
    let name = text.trim_end_matches('*').replace('/', ".");
    let is_name = !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&letter))
        && text.trim_end_matches('*').len() + 1 >= text.len();
    let begins = ["kernel.shm", "kernel.msg", "fs.mqueue.", "net."];
    is_name && (name == "kernel.sem" || begins.iter().any(|begin| name.starts_with(begin)))
}

/// A quantity, or a share of the whole.
fn is_amount(text: &str) -> bool {
    match text.strip_suffix('%') {
        Some(share) => share
            .parse::<f32>()
            .is_ok_and(|share| (0.0..=100.0).contains(&share)),
        None => is_quantity(text),
    }
}

/// A host, with or without a port, before any path. A host that ends in a number is an IPv4 address.
fn is_host(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = host_and_port(authority);
    let is_port = |port: &str| port.is_empty() || port.parse::<u16>().is_ok();
    let is_name = |host: &str| {
        let mut labels = host.trim_end_matches('.').rsplit('.');
        let ends_in_number = labels.next().is_some_and(|last| {
            !last.is_empty() && last.chars().all(|letter| letter.is_ascii_digit())
        });
        match ends_in_number {
            true => host.parse::<Ipv4Addr>().is_ok(),
            false => {
                !host.is_empty()
                    && !host.contains(|letter: char| letter.is_whitespace() || letter == ':')
            }
        }
    };
    let is_ipv6 = |host: &str| {
        let inside = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        inside.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok())
    };
    port.is_none_or(is_port) && (is_name(host) || is_ipv6(host))
}

/// The host of an authority, with the brackets of IPv6, and its port.
pub(super) fn host_and_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// `utilnet.ParsePortRange`: `a-b`, `a+n` or one port.
fn is_port_range(text: &str) -> bool {
    let port = |text: &str| text.trim().parse::<u16>().ok();
    if let Some((from, more)) = text.split_once('+') {
        return port(from).zip(port(more)).is_some();
    }
    match text.split_once('-') {
        Some((from, to)) => port(from)
            .zip(port(to))
            .is_some_and(|(from, to)| from <= to),
        None => port(text).is_some(),
    }
}

/// Is this a duration for Go (`time.ParseDuration`)?
pub fn is_duration(text: &str) -> bool {
    seconds(text).is_some()
}

/// The seconds of a duration in Go's notation, such as 1m30s.
pub fn seconds(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Some(0.0);
    }
    if rest.is_empty() {
        return None;
    }
    let is_digit = |letter: char| letter.is_ascii_digit() || letter == '.';
    let mut sum = 0.0;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(is_digit);
        let number: f64 = rest[..rest.len() - after.len()].parse().ok()?;
        let end = after.find(is_digit).unwrap_or(after.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &after[..end])?;
        sum += number * unit;
        rest = &after[end..];
    }
    Some(if text.starts_with('-') { -sum } else { sum })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_taken_in_its_form_and_refused_in_any_other() {
        for (form, good, bad) in [
            (ValueForm::Cidr, "10.42.0.0/16", "10.42.0.0/33"),
            (ValueForm::Cidrs, "10.42.0.0/16,fd00::/56", "10.42.0.0"),
            (
                ValueForm::Durations,
                "memory.available=1m30s",
                "memory.available=90",
            ),
            (
                ValueForm::Evictions,
                "memory.available<100Mi,nodefs.available<10%",
                "memory.available=100Mi",
            ),
            (ValueForm::Evictions, "", "memory.avail<100Mi"),
            (
                ValueForm::Evictions,
                "pid.available<5%",
                "pid.available<500%",
            ),
            (
                ValueForm::Https,
                "https://id.example.org/a",
                "http://id.example.org",
            ),
            (
                ValueForm::Https,
                "https://[fd00::1]:9345",
                "https://fd00::1:9345",
            ),
            (ValueForm::Https, "https://rke2.example.org", "https://10."),
            (
                ValueForm::Https,
                "https://10.0.0.1:9345",
                "https://10.0.0.1:9345-x",
            ),
            (ValueForm::Https, "https://host:", "https://10.0.0.300:9345"),
            (ValueForm::CidrsOr("primary"), "primary", "10.0.0.5"),
            (ValueForm::Controllers("a|b"), "*,-a,b", "*,c"),
            (ValueForm::Cpus, "0-3,8", "0-"),
            (ValueForm::Cpus, "", "3-1"),
            (
                ValueForm::Memory,
                "0:memory=1Gi,hugepages-2Mi=1Gi;1:memory=2Gi",
                "0:memory=0",
            ),
            (ValueForm::Memory, "0:memory=1Gi", "memory=1Gi"),
            (ValueForm::Modules, "kubelet*=4,proxy=2", "kubelet=much"),
            (ValueForm::Options("a|b"), "a=true", "c=true"),
            (
                ValueForm::Sysctls,
                "kernel.msg*,net.core.somaxconn",
                "vm.max_map_count",
            ),
            (ValueForm::Sysctls, "net.*", "net.*.somaxconn"),
            (
                ValueForm::HostPort,
                "s3.example.org:9000",
                "https://s3.example.org",
            ),
            (
                ValueForm::Hosts,
                "rke2.lab,10.0.0.5,fd00::5",
                "rke2.lab:9345",
            ),
            (ValueForm::Hosts, "rke2.lab", "https://rke2.lab"),
            (ValueForm::Mode, "0644", "420"),
            (ValueForm::Mounts, "/a:/b:ro", "/a"),
            (ValueForm::Mounts, "/a:/b", "/a:/b,/c:/d"),
            (ValueForm::Variable, "NO_PROXY=10.0.0.0/8,.svc", "NO_PROXY"),
            (ValueForm::Ip, "fd00::1", "10.0.0.256"),
            (ValueForm::Ips, "10.0.0.1, fd00::1", "10.0.0.1;fd00::1"),
            (ValueForm::List("Node|RBAC"), "Node,RBAC", "Node, RBAC"),
            (ValueForm::IpPort, "0.0.0.0:10249", "0.0.0.0:port"),
            (ValueForm::Level, "2", "debug"),
            (ValueForm::Name, "rack-1.example", "rack_1"),
            (ValueForm::One("none|static"), "", "statik"),
            (ValueForm::Pairs, "hd=example.org", "hd"),
            (ValueForm::Ports, "30000-32767", "32767-30000"),
            (ValueForm::Ports, "30000+100", "30000-"),
            (
                ValueForm::Quantities("cpu|memory"),
                "cpu=500m,memory=1Gi",
                "cpu=500m,disk=1Gi",
            ),
            (ValueForm::Quantity, "10Mi", "10MB"),
            (
                ValueForm::Reclaims,
                "nodefs.available=1Gi",
                "nodefs.available<1Gi",
            ),
        ] {
            assert_eq!(form.refusal(good), None, "{form:?}");
            assert!(form.refusal(bad).is_some(), "{form:?} {bad}");
        }
        assert_eq!(ValueForm::Any.refusal("\0"), None);
    }

    #[test]
    fn a_duration_is_what_go_reads_as_one() {
        for text in ["0", "5m", "1h30m", "1.5s", "-10ms", "+3us"] {
            assert!(is_duration(text), "{text}");
        }
        for text in ["", "5", "5 m", "m", ".s", "1..5s", "5min", "1h30"] {
            assert!(!is_duration(text), "{text}");
        }
    }
}
