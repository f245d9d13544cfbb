//! The one table of settings. It is used to read the files, to print `config show`, and to generate the schema of
//! `windrow.yaml`. Tests compare `docs/configuration.md` and `config/windrow.yaml` with it.

use std::collections::BTreeMap;

use schemars::{Schema, SchemaGenerator};
use windrow_model::manifest::{Node, yaml};

use super::special::{COPY_TO, CURED, LISTEN, ON_CHANGE, PLATFORM, SITE_NAMES, TEXTFILE};
use super::value::ValueKind::{
    Count, Duration, DurationUpTo, Flag, Path, PathOr, Size, SizeOfMemory, Special, Word,
};
use super::value::{AUTO, NONE, Place, ValueKind};
use super::{LONGEST_PATIENCE, Settings};

pub struct SettingKey {
    /// Its path, with dots.
    pub name: &'static str,
    /// Its description for an editor.
    pub(super) says: &'static str,
    pub(super) kind: ValueKind,
}

impl SettingKey {
    /// Sets the value.
    ///
    /// # Errors
    ///
    /// The error in the value, and its fix.
    pub fn set(&self, settings: &mut Settings, node: &Node) -> Result<(), String> {
        self.kind.set(settings, node)
    }

    /// The value, as it would be written.
    pub fn show(&self, settings: &Settings) -> String {
        self.kind.show(settings)
    }

    pub(super) fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let mut schema = self.kind.schema(generator);
        schema.insert("description".to_owned(), self.says.into());
        schema
    }
}

macro_rules! at {
    ($($field:ident).+) => {
        Place {
            get: |settings| &settings.$($field).+,
            get_mut: |settings| &mut settings.$($field).+,
        }
    };
}

const fn key(name: &'static str, says: &'static str, kind: ValueKind) -> SettingKey {
    SettingKey { name, says, kind }
}

/// With a lower bound, the file would begin again with nearly every decision.
const SMALLEST_FLIGHT: u64 = 256 << 10;

/// Every key, in the order of the documentation.
pub const KEYS: &[SettingKey] = &[
    key(
        "platform",
        "The node's platform; auto detects it.",
        Word(PLATFORM),
    ),
    key(
        "dataDir",
        "RKE2's data directory, an absolute path.",
        Path(at!(data_dir)),
    ),
    key(
        "probes.enabled",
        "false: the node itself is not probed, and its readiness stays Unknown.",
        Flag(at!(probes.enabled)),
    ),
    key(
        "outlets.nodeCondition",
        "Condition windrow.dev/BootstrapIncomplete on the node's own Node.",
        Flag(at!(outlets.node_condition)),
    ),
    key(
        "outlets.nodeEvents",
        "Events about the node's own Node.",
        Flag(at!(outlets.node_events)),
    ),
    key(
        "outlets.loginNotices",
        "Lines at the login prompt and after the login.",
        Flag(at!(outlets.login_notices)),
    ),
    key(
        "staging.enabled",
        "false: everything is observed and reported, nothing is held.",
        Flag(at!(staging.enabled)),
    ),
    key(
        "staging.advisoryDeadline",
        "The maximum time that an ordering requirement may hold a file.",
        Duration(at!(staging.advisory_deadline)),
    ),
    key(
        "staging.inferredDeadline",
        "The maximum time that an inferred requirement may hold a file.",
        Duration(at!(staging.inferred_deadline)),
    ),
    key(
        "staging.refusedDeadline",
        "How long a file that RKE2 would refuse is kept from it.",
        Duration(at!(staging.refused_deadline)),
    ),
    key(
        "staging.overdueAfter",
        "The time after which a held file is reported as overdue.",
        Duration(at!(staging.overdue_after)),
    ),
    key(
        "staging.blindDeadline",
        "How long files are held while kube-apiserver has never answered.",
        Duration(at!(staging.blind_deadline)),
    ),
    key(
        "staging.rescan",
        "How often the directory is read again without an event.",
        Duration(at!(staging.rescan)),
    ),
    key(
        "staging.limits.fileBytes",
        "The size of the largest file that Windrow reads.",
        Size(at!(staging.limits.file_bytes), 1),
    ),
    key(
        "staging.limits.documents",
        "The maximum number of documents in a file.",
        Count(at!(staging.limits.documents)),
    ),
    key(
        "staging.limits.depth",
        "The maximum nesting depth of lists and maps.",
        Count(at!(staging.limits.depth)),
    ),
    key(
        "staging.limits.aliasNodes",
        "The maximum number of values that aliases may add to a document.",
        Count(at!(staging.limits.alias_nodes)),
    ),
    key(
        "staging.limits.expandedBytes",
        "The maximum memory for the values of a document.",
        SizeOfMemory(at!(staging.limits.expanded_bytes)),
    ),
    key(
        "staging.limits.directoryBytes",
        "The maximum amount of data from the directory in one scan.",
        Size(at!(staging.limits.directory_bytes), 1),
    ),
    key(
        "gates.onChange",
        "The effect of a changed configuration while RKE2 runs: it waits for a boot, or it is tried.",
        Word(ON_CHANGE),
    ),
    key(
        "gates.patience",
        "The maximum duration of each part of a trial, 8h at most.",
        DurationUpTo(at!(gates.patience), LONGEST_PATIENCE),
    ),
    key(
        "statusServer.enabled",
        "Is it served?",
        Flag(at!(status_server.enabled)),
    ),
    key(
        "statusServer.listen",
        "The address and the port, from 1024 on.",
        Special(LISTEN),
    ),
    key(
        "statusServer.tokenFile",
        "The file with the token that has to be shown; auto: /etc/rancher/windrow/status-token, or else the systemd credential windrow.status-token.",
        PathOr(AUTO, at!(status_server.token_file)),
    ),
    key(
        "statusServer.certificateFile",
        "The file with the certificate; auto: the one that RKE2 gives the node. Until it is there: a self-signed one.",
        PathOr(AUTO, at!(status_server.certificate_file)),
    ),
    key(
        "statusServer.keyFile",
        "The file with its key.",
        PathOr(AUTO, at!(status_server.key_file)),
    ),
    key(
        "statusServer.metrics.enabled",
        "Are they served?",
        Flag(at!(status_server.metrics.enabled)),
    ),
    key(
        "statusServer.metrics.tokenFile",
        "The file with a token that may read only the metrics; none: only the token of the status may.",
        PathOr(NONE, at!(status_server.metrics.token_file)),
    ),
    key(
        "metrics.textfile",
        "The file for its textfile collector, or none.",
        Special(TEXTFILE),
    ),
    key(
        "diagnosis.enabled",
        "false: the daemon does not search.",
        Flag(at!(diagnosis.enabled)),
    ),
    key(
        "diagnosis.interval",
        "How often it searches on a Ready node.",
        Duration(at!(diagnosis.interval)),
    ),
    key("repair.auto", "Codes of incidents.", Special(CURED)),
    key(
        "flight.enabled",
        "false: nothing is recorded.",
        Flag(at!(flight.enabled)),
    ),
    key(
        "flight.fileBytes",
        "The maximum size of the file, 256KiB or more.",
        Size(at!(flight.file_bytes), SMALLEST_FLIGHT),
    ),
    key(
        "flight.copyTo",
        "The destination of a copy when the node is Failed: auto, none, or a directory.",
        Special(COPY_TO),
    ),
    key(
        "flight.names",
        "The site's names in lines recorded for learning: unchanged, a short digest of each, or left out.",
        Word(SITE_NAMES),
    ),
];

/// The settings that decisions depend on, as they would be written. The others may be secrets, and are left out.
pub fn record(settings: &Settings) -> BTreeMap<String, String> {
    KEYS.iter()
        .filter(|key| decides(key.name))
        .map(|key| (key.name.to_owned(), key.show(settings)))
        .collect()
}

fn decides(key: &str) -> bool {
    key == "platform" || key.starts_with("staging.") || key.starts_with("probes.")
}

/// Restores the settings from the result of [`record`]. A key that this program does not know is an error, because its
/// effect cannot be repeated.
///
/// # Errors
///
/// A sentence for users that names the key.
pub fn restore(recorded: &BTreeMap<String, String>) -> Result<Settings, String> {
    let mut settings = Settings::default();
    for (name, value) in recorded {
        let key = find(name).ok_or_else(|| format!("unknown setting `{name}`"))?;
        let node = yaml::parse_configuration(value)
            .ok()
            .flatten()
            .ok_or_else(|| format!("{name}: `{value}` is not a value"))?;
        key.set(&mut settings, &node)
            .map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(settings)
}

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
