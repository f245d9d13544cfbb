//! Which of Windrow's own files a text is: settings, rules, knowledge or accepted findings.

use std::path::Path;

use windrow_decide::settings::{ConfigFileRole, is_settings_section};
use windrow_model::manifest::{self, Node, ReadLimits, yaml};

const KINDS: [(&str, OwnKind); 3] = [
    ("RulePack", OwnKind::Configuration(ConfigFileRole::Rules)),
    (
        "Knowledge",
        OwnKind::Configuration(ConfigFileRole::Knowledge),
    ),
    ("AcceptedFindings", OwnKind::Accepted),
];
const DIRECTORIES: [(&str, OwnKind); 3] = [
    ("conf.d", OwnKind::Configuration(ConfigFileRole::Settings)),
    ("rules.d", OwnKind::Configuration(ConfigFileRole::Rules)),
    (
        "knowledge.d",
        OwnKind::Configuration(ConfigFileRole::Knowledge),
    ),
];
const SETTINGS: OwnKind = OwnKind::Configuration(ConfigFileRole::Settings);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum OwnKind {
    Configuration(ConfigFileRole),
    Accepted,
}

/// The purpose of a file that only Windrow reads; `None` for any other. Its kind decides, otherwise its keys, otherwise its directory or
/// its name.
pub(in crate::cli) fn own_kind(path: &Path, text: &str) -> Option<OwnKind> {
    let Ok(Some(root)) = yaml::parse_configuration(text) else {
        // It has several documents, or an error that the right reader reports with its line.
        return match has_objects(text) {
            true => None,
            false => kind_in_lines(text).or_else(|| kind_of_place(path)),
        };
    };
    // Settings have neither `apiVersion` nor `kind`; an object, which has both, also has `metadata`.
    let is_main = path.file_name().is_some_and(|name| name == "windrow.yaml");
    let is_object = root.get("metadata").is_some() || !is_main;
    match root.str_at(&["kind"]) {
        Some(kind) if !is_object && KINDS.iter().all(|known| known.0 != kind) => Some(SETTINGS),
        Some(kind) => KINDS
            .iter()
            .find(|known| known.0 == kind)
            .map(|known| known.1),
        None if root.get("metadata").is_some() => None,
        None if root.get("apiVersion").is_some() && is_object => None,
        None if has_settings(&root) => Some(SETTINGS),
        None => kind_of_place(path),
    }
}

/// Whether at least half of the top-level keys are sections of the settings. The others may be misspelt.
fn has_settings(root: &Node) -> bool {
    let keys: Vec<&str> = root
        .entries()
        .iter()
        .map(|entry| entry.key.as_str())
        .collect();
    let known = keys.iter().filter(|key| is_settings_section(key)).count();
    known > 0 && 2 * known >= keys.len()
}

/// Whether it declares objects of Kubernetes, even if it has other errors.
pub(in crate::cli) fn has_objects(text: &str) -> bool {
    manifest::nodes(text, &ReadLimits::default())
        .iter()
        .any(|document| {
            let kind = document.str_at(&["kind"]);
            document.get("apiVersion").is_some()
                && kind.is_some_and(|kind| KINDS.iter().all(|known| known.0 != kind))
        })
}

/// By the line that names the kind, in a text that cannot be read as a whole.
fn kind_in_lines(text: &str) -> Option<OwnKind> {
    let named = |kind: &str| {
        let line = format!("kind: {kind}");
        text.lines().any(|one| one.trim_end() == line)
    };
    KINDS
        .iter()
        .find(|known| named(known.0))
        .map(|known| known.1)
}

fn kind_of_place(path: &Path) -> Option<OwnKind> {
    if path.file_name()? == "windrow.yaml" {
        return Some(SETTINGS);
    }
    let directory = path.parent()?.file_name()?;
    let known = DIRECTORIES.iter().find(|known| directory == known.0);
    known.map(|known| known.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windrows_own_files_are_known_by_kind_keys_and_place_and_no_object_is_taken_for_one() {
        let rules = OwnKind::Configuration(ConfigFileRole::Rules);
        let knowledge = OwnKind::Configuration(ConfigFileRole::Knowledge);
        for (path, text, kind) in [
            (
                "a.yaml",
                "apiVersion: windrow.dev/v1\nkind: RulePack\n",
                Some(rules),
            ),
            ("a.yaml", "kind: Knowledge\nentries: 5\n", Some(knowledge)),
            ("a.yaml", "kind: RulePack\n\tbroken: {\n", Some(rules)),
            (
                "a.yaml",
                "kind: AcceptedFindings\n",
                Some(OwnKind::Accepted),
            ),
            (
                "a.yaml",
                "staging: {enabled: false}\nwebhoks: []\n",
                Some(SETTINGS),
            ),
            ("conf.d/a.yaml", "stagin: {}\n", Some(SETTINGS)),
            ("rules.d/a.yaml", "rules: [\n", Some(rules)),
            ("/etc/windrow/windrow.yaml", "", Some(SETTINGS)),
            ("a.yaml", "stagin: {}\n", None),
            (
                "windrow.yaml",
                "apiVersion: v1\nkind: Config\nstaging: {}\n",
                Some(SETTINGS),
            ),
            (
                "windrow.yaml",
                "apiVersion: v1\nkind: Namespace\nmetadata: {name: windrow}\n",
                None,
            ),
            ("a.yaml", "replicas: 1\nimage: {}\nplatform: x\n", None),
            ("conf.d/a.yaml", "apiVersion: v1\nkind: ConfigMap\n", None),
            (
                "rules.d/a.yaml",
                "apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: B\n",
                None,
            ),
            ("manifests/a.yaml", "", None),
        ] {
            assert_eq!(own_kind(Path::new(path), text), kind, "{path}: {text}");
        }
    }
}
