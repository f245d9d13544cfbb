//! The one table of what can be set. Files are read by it, `config show` prints it, and tests compare
//! `docs/configuration.md` and `config/windrow.yaml` with it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use windrow_harvester::incidents::CURABLE;
use windrow_model::manifest::{Node, NodeValue, yaml};
use windrow_model::reasons::{Code, REASONS};
use windrow_plan::rules::Platform;

use super::units::{count, duration, expected, flag, nearest, show_duration, show_size, size};
use super::{CopyTo, OnChange, Settings, SiteNames};

/// One key.
pub struct SettingKey {
    /// Its path, with dots.
    pub name: &'static str,
    /// Sets the value, or says what is wrong with it.
    pub set: fn(&mut Settings, &Node) -> Result<(), String>,
    /// The value, as it would be written.
    pub show: fn(&Settings) -> String,
}

const SECOND: Duration = Duration::from_secs(1);
/// In place of a path: Windrow finds it, or there is none.
const AUTO: &str = "auto";
const NONE: &str = "none";
/// The bound is what the setting of this name says.
const LIKE_INFERRED: &str = "inferredDeadline";
/// With a lower bound the file would begin again with nearly every decision.
const SMALLEST_FLIGHT: u64 = 256 << 10;

/// Every key, in the order of the documentation.
pub const KEYS: &[SettingKey] = &[
    SettingKey {
        name: "platform",
        set: |settings, node| {
            settings.platform = match node.as_str() {
                Some("auto") => None,
                Some("harvester") => Some(Platform::Harvester),
                Some("rke2") => Some(Platform::Rke2),
                _ => return Err(expected("auto, harvester or rke2", node)),
            };
            Ok(())
        },
        show: |settings| {
            settings
                .platform
                .map_or_else(|| "auto".to_owned(), |platform| platform.to_string())
        },
    },
    SettingKey {
        name: "dataDir",
        set: |settings, node| {
            path(node)?.clone_into(&mut settings.data_dir);
            Ok(())
        },
        show: |settings| settings.data_dir.clone(),
    },
    SettingKey {
        name: "probes.enabled",
        set: |settings, node| {
            settings.probes.enabled = flag(node)?;
            Ok(())
        },
        show: |settings| settings.probes.enabled.to_string(),
    },
    SettingKey {
        name: "outlets.nodeCondition",
        set: |settings, node| {
            settings.outlets.node_condition = flag(node)?;
            Ok(())
        },
        show: |settings| settings.outlets.node_condition.to_string(),
    },
    SettingKey {
        name: "outlets.nodeEvents",
        set: |settings, node| {
            settings.outlets.node_events = flag(node)?;
            Ok(())
        },
        show: |settings| settings.outlets.node_events.to_string(),
    },
    SettingKey {
        name: "outlets.loginNotices",
        set: |settings, node| {
            settings.outlets.login_notices = flag(node)?;
            Ok(())
        },
        show: |settings| settings.outlets.login_notices.to_string(),
    },
    SettingKey {
        name: "staging.enabled",
        set: |settings, node| {
            settings.staging.enabled = flag(node)?;
            Ok(())
        },
        show: |settings| settings.staging.enabled.to_string(),
    },
    SettingKey {
        name: "staging.advisoryDeadline",
        set: |settings, node| {
            settings.staging.advisory_deadline = duration(node, SECOND)?;
            Ok(())
        },
        show: |settings| show_duration(settings.staging.advisory_deadline),
    },
    SettingKey {
        name: "staging.inferredDeadline",
        set: |settings, node| {
            settings.staging.inferred_deadline = duration(node, SECOND)?;
            Ok(())
        },
        show: |settings| show_duration(settings.staging.inferred_deadline),
    },
    SettingKey {
        name: "staging.learnedDeadline.atLeast",
        set: |settings, node| {
            settings.staging.learned_deadline.at_least = match node.as_str() {
                Some(LIKE_INFERRED) => None,
                _ => Some(duration(node, SECOND)?),
            };
            Ok(())
        },
        show: |settings| {
            let at_least = settings.staging.learned_deadline.at_least;
            at_least.map_or_else(|| LIKE_INFERRED.to_owned(), show_duration)
        },
    },
    SettingKey {
        name: "staging.learnedDeadline.atMost",
        set: |settings, node| {
            settings.staging.learned_deadline.at_most = duration(node, SECOND)?;
            Ok(())
        },
        show: |settings| show_duration(settings.staging.learned_deadline.at_most),
    },
    SettingKey {
        name: "staging.refusedDeadline",
        set: |settings, node| {
            settings.staging.refused_deadline = duration(node, SECOND)?;
            Ok(())
        },
        show: |settings| show_duration(settings.staging.refused_deadline),
    },
    SettingKey {
        name: "staging.overdueAfter",
        set: |settings, node| {
            settings.staging.overdue_after = duration(node, SECOND)?;
            Ok(())
        },
        show: |settings| show_duration(settings.staging.overdue_after),
    },
    SettingKey {
        name: "staging.blindDeadline",
        set: |settings, node| {
            settings.staging.blind_deadline = duration(node, SECOND)?;
            Ok(())
        },
        show: |settings| show_duration(settings.staging.blind_deadline),
    },
    SettingKey {
        name: "staging.rescan",
        set: |settings, node| {
            settings.staging.rescan = duration(node, SECOND)?;
            Ok(())
        },
        show: |settings| show_duration(settings.staging.rescan),
    },
    SettingKey {
        name: "staging.limits.fileBytes",
        set: |settings, node| {
            settings.staging.limits.file_bytes = size(node)?;
            Ok(())
        },
        show: |settings| show_size(settings.staging.limits.file_bytes),
    },
    SettingKey {
        name: "staging.limits.documents",
        set: |settings, node| {
            settings.staging.limits.documents = count(node)?;
            Ok(())
        },
        show: |settings| settings.staging.limits.documents.to_string(),
    },
    SettingKey {
        name: "staging.limits.depth",
        set: |settings, node| {
            settings.staging.limits.depth = count(node)?;
            Ok(())
        },
        show: |settings| settings.staging.limits.depth.to_string(),
    },
    SettingKey {
        name: "staging.limits.aliasNodes",
        set: |settings, node| {
            settings.staging.limits.alias_nodes = count(node)?;
            Ok(())
        },
        show: |settings| settings.staging.limits.alias_nodes.to_string(),
    },
    SettingKey {
        name: "staging.limits.expandedBytes",
        set: |settings, node| {
            settings.staging.limits.expanded_bytes =
                usize::try_from(size(node)?).unwrap_or(usize::MAX);
            Ok(())
        },
        show: |settings| show_size(settings.staging.limits.expanded_bytes as u64),
    },
    SettingKey {
        name: "staging.limits.directoryBytes",
        set: |settings, node| {
            settings.staging.limits.directory_bytes = size(node)?;
            Ok(())
        },
        show: |settings| show_size(settings.staging.limits.directory_bytes),
    },
    SettingKey {
        name: "gates.onChange",
        set: |settings, node| {
            settings.gates.on_change = match node.as_str() {
                Some("wait") => OnChange::Wait,
                Some("try") => OnChange::Try,
                _ => return Err(expected("wait or try", node)),
            };
            Ok(())
        },
        show: |settings| {
            match settings.gates.on_change {
                OnChange::Wait => "wait",
                OnChange::Try => "try",
            }
            .to_owned()
        },
    },
    SettingKey {
        name: "gates.patience",
        set: |settings, node| {
            settings.gates.patience = duration(node, SECOND)?;
            Ok(())
        },
        show: |settings| show_duration(settings.gates.patience),
    },
    SettingKey {
        name: "statusServer.enabled",
        set: |settings, node| {
            settings.status_server.enabled = flag(node)?;
            Ok(())
        },
        show: |settings| settings.status_server.enabled.to_string(),
    },
    SettingKey {
        name: "statusServer.listen",
        set: |settings, node| {
            let listen: SocketAddr = node
                .as_str()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| expected("an address with a port like 0.0.0.0:9346", node))?;
            if listen.port() < 1024 {
                return Err(format!(
                    "port {} is one that Windrow has no right to: write one from 1024 on",
                    listen.port()
                ));
            }
            settings.status_server.listen = listen;
            Ok(())
        },
        show: |settings| settings.status_server.listen.to_string(),
    },
    SettingKey {
        name: "statusServer.tokenFile",
        set: |settings, node| {
            settings.status_server.token_file = path_or_auto(node)?;
            Ok(())
        },
        show: |settings| show_or_auto(&settings.status_server.token_file),
    },
    SettingKey {
        name: "statusServer.certificateFile",
        set: |settings, node| {
            settings.status_server.certificate_file = path_or_auto(node)?;
            Ok(())
        },
        show: |settings| show_or_auto(&settings.status_server.certificate_file),
    },
    SettingKey {
        name: "statusServer.keyFile",
        set: |settings, node| {
            settings.status_server.key_file = path_or_auto(node)?;
            Ok(())
        },
        show: |settings| show_or_auto(&settings.status_server.key_file),
    },
    SettingKey {
        name: "statusServer.metrics.enabled",
        set: |settings, node| {
            settings.status_server.metrics.enabled = flag(node)?;
            Ok(())
        },
        show: |settings| settings.status_server.metrics.enabled.to_string(),
    },
    SettingKey {
        name: "statusServer.metrics.tokenFile",
        set: |settings, node| {
            settings.status_server.metrics.token_file = path_or(NONE, node)?;
            Ok(())
        },
        show: |settings| show_or(NONE, &settings.status_server.metrics.token_file),
    },
    SettingKey {
        name: "metrics.textfile",
        set: |settings, node| {
            let path = path_or(NONE, node)?;
            if let Some(path) = path.as_ref().filter(|path| !path.ends_with(".prom")) {
                return Err(format!(
                    "node_exporter reads files that end in .prom: write {path}.prom"
                ));
            }
            settings.metrics.textfile = path;
            Ok(())
        },
        show: |settings| show_or(NONE, &settings.metrics.textfile),
    },
    SettingKey {
        name: "diagnosis.enabled",
        set: |settings, node| {
            settings.diagnosis.enabled = flag(node)?;
            Ok(())
        },
        show: |settings| settings.diagnosis.enabled.to_string(),
    },
    SettingKey {
        name: "diagnosis.interval",
        set: |settings, node| {
            settings.diagnosis.interval = duration(node, SECOND)?;
            Ok(())
        },
        show: |settings| show_duration(settings.diagnosis.interval),
    },
    SettingKey {
        name: "repair.auto",
        set: |settings, node| {
            let NodeValue::Sequence(items) = &node.value else {
                return Err(expected("a list of codes like [addon-stuck]", node));
            };
            settings.repair.auto = items.iter().map(curable).collect::<Result<_, _>>()?;
            settings.repair.auto.sort_unstable();
            settings.repair.auto.dedup();
            Ok(())
        },
        show: |settings| {
            let codes = settings.repair.auto.iter().map(|code| code.as_str());
            format!("[{}]", codes.collect::<Vec<_>>().join(", "))
        },
    },
    SettingKey {
        name: "flight.enabled",
        set: |settings, node| {
            settings.flight.enabled = flag(node)?;
            Ok(())
        },
        show: |settings| settings.flight.enabled.to_string(),
    },
    SettingKey {
        name: "flight.fileBytes",
        set: |settings, node| {
            let size = size(node)?;
            if size < SMALLEST_FLIGHT {
                return Err(format!(
                    "{} is too small: write {} or more",
                    show_size(size),
                    show_size(SMALLEST_FLIGHT)
                ));
            }
            settings.flight.file_bytes = size;
            Ok(())
        },
        show: |settings| show_size(settings.flight.file_bytes),
    },
    SettingKey {
        name: "flight.copyTo",
        set: |settings, node| {
            settings.flight.copy_to = match node.as_str() {
                Some("auto") => CopyTo::Auto,
                Some("none") => CopyTo::None,
                Some(path)
                    if path.starts_with('/') && !path.split('/').any(|part| part == "..") =>
                {
                    CopyTo::Directory(path.to_owned())
                }
                _ => {
                    return Err(expected(
                        "auto, none or the absolute path of a directory",
                        node,
                    ));
                }
            };
            Ok(())
        },
        show: |settings| match &settings.flight.copy_to {
            CopyTo::Auto => "auto".to_owned(),
            CopyTo::None => "none".to_owned(),
            CopyTo::Directory(path) => path.clone(),
        },
    },
    SettingKey {
        name: "flight.names",
        set: |settings, node| {
            settings.flight.names = match node.as_str() {
                Some("keep") => SiteNames::Keep,
                Some("hash") => SiteNames::Hash,
                Some("drop") => SiteNames::Drop,
                _ => return Err(expected("keep, hash or drop", node)),
            };
            Ok(())
        },
        show: |settings| {
            let word = match settings.flight.names {
                SiteNames::Keep => "keep",
                SiteNames::Hash => "hash",
                SiteNames::Drop => "drop",
            };
            word.to_owned()
        },
    },
];

/// The settings that decisions depend on, as they would be written. The others may be secrets, and are left out.
pub fn record(settings: &Settings) -> BTreeMap<String, String> {
    KEYS.iter()
        .filter(|key| decides(key.name))
        .map(|key| (key.name.to_owned(), (key.show)(settings)))
        .collect()
}

fn decides(key: &str) -> bool {
    key == "platform" || key.starts_with("staging.") || key.starts_with("probes.")
}

/// The settings that [`record`] wrote down. Keys that this program does not know (any more) are an
/// error: what they did cannot be done again.
///
/// # Errors
///
/// A sentence for people that names the key.
pub fn restore(recorded: &BTreeMap<String, String>) -> Result<Settings, String> {
    let mut settings = Settings::default();
    for (name, value) in recorded {
        let key = find(name).ok_or_else(|| format!("unknown setting `{name}`"))?;
        let node = yaml::parse_configuration(value)
            .ok()
            .flatten()
            .ok_or_else(|| format!("{name}: `{value}` is not a value"))?;
        (key.set)(&mut settings, &node).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(settings)
}

/// The key of this name.
pub(super) fn find(name: &str) -> Option<&'static SettingKey> {
    KEYS.iter().find(|key| key.name == name)
}

/// Is this the name of a map that has keys below it?
pub(super) fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| {
        key.name
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.'))
    })
}

/// The code of an incident that Windrow has a cure for.
fn curable(node: &Node) -> Result<Code, String> {
    let known = || CURABLE.iter().map(|code| code.as_str());
    let list = || known().collect::<Vec<_>>().join(", ");
    let text = node.as_str().ok_or_else(|| expected("a code", node))?;
    if let Some(code) = CURABLE.iter().find(|code| code.as_str() == text) {
        return Ok(*code);
    }
    if REASONS.iter().any(|reason| reason.id == text) {
        return Err(format!(
            "Windrow has no cure for {text}: write one of {}",
            list()
        ));
    }
    let hint = match nearest(text, known()) {
        Some(code) => format!("did you mean `{code}`?"),
        None => format!("write one of {}", list()),
    };
    Err(format!("there is no code {text}: {hint}"))
}

fn path(node: &Node) -> Result<&str, String> {
    let path = node
        .as_str()
        .filter(|path| path.starts_with('/'))
        .ok_or_else(|| expected("an absolute path", node))?;
    if path.split('/').any(|part| part == "..") {
        return Err(format!("`{path}` leads upwards: write it without `..`"));
    }
    Ok(path)
}

fn path_or_auto(node: &Node) -> Result<Option<String>, String> {
    path_or(AUTO, node)
}

fn show_or_auto(path: &Option<String>) -> String {
    show_or(AUTO, path)
}

fn path_or(word: &str, node: &Node) -> Result<Option<String>, String> {
    match node.as_str() {
        Some(text) if text == word => Ok(None),
        _ => path(node).map(|path| Some(path.to_owned())),
    }
}

fn show_or(word: &str, path: &Option<String>) -> String {
    path.clone().unwrap_or_else(|| word.to_owned())
}
