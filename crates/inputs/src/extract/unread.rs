//! Keys that are probably meant to write files but are never read, and user-data that is not read at all.

use windrow_model::manifest::file_kind::{
    CLOUD_INIT_READ, RecognisedKind, cloud_init_keys, installer_reads, is_cloud_config,
    is_cloud_inits, meant_write_files,
};
use windrow_model::manifest::yaml::RepeatedKey;
use windrow_model::reasons::Code;
use windrow_model::suggest::nearest;

use super::addons::misspelt as misspelt_addons;
use super::{FileKind, Node, NodeValue, Problem, field, key_not_read, not_looked_at};
use crate::input_types::UnknownKey;
use crate::user_data::first_line;
use crate::user_data::{LAUNCH_INDEX, NOTHING, ONE_MACHINE, takes_nothing};

/// The keys of a written file: cloud-init's schema of `write_files` (26.2), which includes those that the installer and
/// yip read. A misspelling of the last two changes nothing that Windrow checks.
const ENTRY: [&str; 8] = [
    "path",
    "content",
    "source",
    "encoding",
    "append",
    "defer",
    "owner",
    "permissions",
];

/// The keys of an Ignition or Butane file whose files or commands Windrow checks.
const IGNITION: [&str; 3] = ["ignition", "storage", "systemd"];

/// Reports unread keys of the file itself.
pub(super) fn keys(kind: FileKind, text: &str, root: &Node) -> Vec<Problem> {
    match kind {
        FileKind::CloudInit => cloud_init(root),
        FileKind::HarvesterConfig => harvester(root),
        FileKind::Yip => yip(text, root),
        FileKind::Ignition | FileKind::Butane => top_keys(root, &IGNITION),
        // Its keys are checked with the types of their values.
        FileKind::ImageBuilder | FileKind::Manifests => Vec::new(),
    }
}

/// Reports a beginning with which the reader ignores the file. The files of /etc/cloud/cloud.cfg.d need no header, and
/// their names end in `.cfg`.
pub(super) fn beginning(kind: FileKind, source: &str, text: &str) -> Vec<Problem> {
    let refused = |line: u32, message: String| {
        vec![Problem {
            code: Code::InputRefused,
            line: Some(line),
            message,
        }]
    };
    match kind {
        FileKind::CloudInit if source.ends_with(".cfg") && !is_cloud_config(text) => Vec::new(),
        FileKind::CloudInit => match first_line::fault(text) {
            Some((line, why)) => refused(line, format!("cloud-init ignores this file: {why}")),
            None if !is_cloud_config(text) && is_user_data(source) => refused(
                1,
                "cloud-init ignores this file: its first line is not `#cloud-config`".to_owned(),
            ),
            None if !is_cloud_config(text) => without_header(text),
            None => {
                let why = "`## template: jinja` counts only in the first line, so cloud-init fills in no expression; move it up";
                let late = first_line::late_template(text);
                late.map(|line| ignored(line, why)).into_iter().collect()
            }
        },
        FileKind::Butane if source.ends_with(".ign") => {
            let why = "Ignition reads JSON, and this is Butane's YAML; translate it with butane";
            refused(1, why.to_owned())
        }
        FileKind::Ignition if text.starts_with('\u{feff}') => {
            let why = "Ignition cannot read JSON with a byte-order mark; save the file as UTF-8 without it";
            refused(1, why.to_owned())
        }
        _ => Vec::new(),
    }
}

/// Whether a file has the name of user-data: `user-data`, `userdata.yaml`.
fn is_user_data(source: &str) -> bool {
    let base = source.rsplit('/').next().unwrap_or_default();
    let plain = base.to_lowercase().replace(['-', '_'], "");
    plain.starts_with("userdata")
}

fn without_header(text: &str) -> Vec<Problem> {
    let blank = text.lines().take_while(|line| line.trim().is_empty());
    let first = u32::try_from(blank.count()).unwrap_or_default();
    let first = first.saturating_add(1);
    let why =
        "its first line is not `#cloud-config`; only a file of /etc/cloud/cloud.cfg.d needs none";
    let what = "whether cloud-init reads this file at all";
    vec![ignored(first, why), not_looked_at(first, what)]
}

/// Keys that would write files or run commands if the file were read as the other kind that it resembles.
pub(super) fn keys_of_another_kind(recognised: &RecognisedKind, root: &Node) -> Option<Problem> {
    let taken = recognised.where_ambiguous()?;
    let entries = root.entries().iter();
    let mut writes = entries.filter(|entry| match recognised.kind {
        FileKind::HarvesterConfig => CLOUD_INIT_READ.contains(&entry.key.as_str()),
        _ => installer_reads(&entry.key, "os"),
    });
    let line = writes.next().map(|entry| entry.line).or(recognised.tie())?;
    let what = format!("whether the file is of another kind: it is {taken}");
    Some(not_looked_at(line, &what))
}

fn cloud_init(root: &Node) -> Vec<Problem> {
    let mut found = Vec::new();
    if let Some(index) = root.entry(LAUNCH_INDEX) {
        found.push(not_looked_at(index.line, ONE_MACHINE));
    }
    if let Some((key, line)) = takes_nothing(root) {
        found.push(key_not_read(key, line, NOTHING));
    }
    for entry in root.entries() {
        if is_cloud_inits(&entry.key) {
            continue;
        }
        let meant =
            nearest(&entry.key, cloud_init_keys()).filter(|key| CLOUD_INIT_READ.contains(key));
        if let Some(meant) = meant {
            let why = format!("cloud-init has no such key; did you mean `{meant}`?");
            found.push(key_not_read(&entry.key, entry.line, &why));
        }
    }
    found
}

fn harvester(root: &Node) -> Vec<Problem> {
    let mut found = misspelt_addons(root);
    for entry in root.entries() {
        if meant_write_files(&entry.key) {
            let why = "Harvester's installer reads files only below `os`; move it there as `os.writeFiles`";
            found.push(key_not_read(&entry.key, entry.line, why));
        }
    }
    for entry in field(root, "os").map_or(&[][..], Node::entries) {
        if meant_write_files(&entry.key) && !installer_reads(&entry.key, "writeFiles") {
            let why = "Harvester's installer has no such key; did you mean `writeFiles`?";
            found.push(key_not_read(&format!("os.{}", entry.key), entry.line, why));
        }
    }
    found
}

/// A file with the keys of both is read by both, each in its own way.
fn yip(text: &str, root: &Node) -> Vec<Problem> {
    let mut found = Vec::new();
    let Some(stages) = root.entry("stages") else {
        return found;
    };
    let with_cloud_config = text.lines().next().map(str::trim_end) == Some("#cloud-config");
    let entries = root.entries().iter();
    let cloud_inits = entries.filter(|entry| CLOUD_INIT_READ.contains(&entry.key.as_str()));
    let (read, unread): (Vec<_>, Vec<_>) =
        cloud_inits.partition(|entry| with_cloud_config && entry.key != "bootcmd");
    if let Some(entry) = read.first() {
        let why = format!(
            "it has no key `stages`. Windrow reads the file as yip does: `{}` belongs to its stage boot. Put \
             the keys for cloud-init into a separate file",
            entry.key
        );
        found.push(ignored(stages.line, &why));
    }
    for entry in unread {
        let why = match with_cloud_config {
            true => "yip has no such key; move it into a stage as `commands`",
            false => "yip takes it only below a first line `#cloud-config`; move it into a stage",
        };
        found.push(key_not_read(&entry.key, entry.line, why));
    }
    found
}

/// Ignition and Butane ignore unknown keys.
fn top_keys(root: &Node, names: &[&'static str]) -> Vec<Problem> {
    let mut found = resource_keys(root, names);
    if let Some(storage) = root.get("storage") {
        found.extend(resource_keys(storage, &["files", "trees", "links"]));
    }
    found
}

/// Keys that resemble these but are misspelt, so that no program reads them.
pub(super) fn resource_keys(node: &Node, names: &[&'static str]) -> Vec<Problem> {
    let others = node.entries().iter();
    let others = others.filter(|entry| !names.contains(&entry.key.as_str()));
    others
        .filter_map(|entry| {
            let meant = nearest(&entry.key, names.iter().copied())?;
            let why = format!("there is no such key there; did you mean `{meant}`?");
            Some(key_not_read(&entry.key, entry.line, &why))
        })
        .collect()
}

/// Edge Image Builder rejects a definition with an unknown key (`pkg/image/definition.go`, v1.3.3: `KnownFields`). A
/// newer version of definitions may have more keys.
pub(super) fn image_builder_key(key: UnknownKey<'_>, is_known_version: bool) -> Problem {
    let UnknownKey { path, entry, known } = key;
    let meant = nearest(&entry.key, known.iter().map(String::as_str));
    let why = match (meant, is_known_version) {
        (Some(meant), _) => format!(
            "Edge Image Builder has no such key and builds nothing; did you mean `{meant}`?"
        ),
        (None, true) => {
            "Edge Image Builder has no such key there and builds nothing; remove it".to_owned()
        }
        (None, false) => {
            let what = format!(
                "`{path}`: Edge Image Builder 1.3 has no such key and builds nothing; Windrow does not know the keys of newer versions"
            );
            return not_looked_at(entry.line, &what);
        }
    };
    key_not_read(&path, entry.line, &why)
}

/// Reports unread keys of a written file.
pub(super) fn entry_keys(kind: FileKind, file: &Node) -> Vec<Problem> {
    let reads = |key: &str| match kind {
        FileKind::HarvesterConfig => ENTRY.iter().any(|name| installer_reads(key, name)),
        _ => ENTRY.contains(&key),
    };
    let slips = file.entries().iter().filter(|entry| !reads(&entry.key));
    slips
        .filter_map(|entry| {
            let meant = nearest(&entry.key, ENTRY.into_iter().take(6))?;
            let why = format!("a file has no such key; did you mean `{meant}`?");
            Some(key_not_read(&entry.key, entry.line, &why))
        })
        .collect()
}

/// Repeated keys. The installer, yip, Butane and Edge Image Builder reject such a file (their YAML reader,
/// `gopkg.in/yaml.v3`, refuses it). In cloud-init's reader (PyYAML) the last one counts, and only keys that Windrow
/// reads are reported.
pub(super) fn repeated(kind: FileKind, keys: Vec<RepeatedKey>) -> Vec<Problem> {
    let told = keys.into_iter().filter_map(|key| {
        let RepeatedKey { key, line, earlier } = key;
        if kind != FileKind::CloudInit {
            return Some(Problem {
                code: Code::InputRefused,
                line: Some(line),
                message: format!(
                    "the key `{key}` appears twice in this map, first in line {earlier}, and the whole file is ignored; keep one"
                ),
            });
        }
        let known = CLOUD_INIT_READ.contains(&key.as_str()) || ENTRY.contains(&key.as_str());
        known.then(|| {
            let why = format!("the key appears again in line {line}, and the last one counts; make one of them");
            key_not_read(&key, earlier, &why)
        })
    });
    told.collect()
}

pub(super) fn ignored(line: u32, why: &str) -> Problem {
    Problem {
        code: Code::UserDataIgnored,
        line: Some(line),
        message: Code::UserDataIgnored.say(&[("why", why)]),
    }
}

/// Values of a type that their reader does not accept: it ignores them.
pub(super) fn misshaped(kind: FileKind, root: &Node) -> Vec<Problem> {
    let is_map = |node: &Node| node.is_null() || matches!(node.value, NodeValue::Mapping(_));
    let mut problems = Vec::new();
    let mut expect = |node: &Node, name: &str, fits: bool, what: &str| {
        if !fits {
            problems.push(Problem {
                code: Code::InputRefused,
                line: Some(node.line),
                message: format!("{name} is {}, not a {what}", node.type_name()),
            });
        }
    };
    expect(root, "the configuration", is_map(root), "map");
    match kind {
        FileKind::HarvesterConfig => {
            if let Some(os) = field(root, "os") {
                expect(os, "`os`", is_map(os), "map");
            }
        }
        FileKind::Yip
        | FileKind::Ignition
        | FileKind::Butane
        | FileKind::ImageBuilder
        | FileKind::CloudInit
        | FileKind::Manifests => {}
    }
    problems
}
