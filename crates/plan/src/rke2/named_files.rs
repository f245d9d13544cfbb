//! Files that RKE2's configuration names for kube-apiserver, as far as Windrow judges them: the audit policy, and the configuration of
//! admission plugins. kube-apiserver ends at one that it cannot read.

use windrow_model::findings::Location;
use windrow_model::manifest::{Node, yaml};

use super::config::{Rke2ConfigFile, merge};
use super::written_keys::written;

/// What is wrong with a file, with the line of it where one is at fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFault {
    pub line: Option<u32>,
    pub why: String,
}

/// A file that RKE2's configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    pub path: String,
    /// Where it is named.
    pub at: Location,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Audit,
    Admission,
}

/// The keys of RKE2 and the arguments of kube-apiserver with the paths.
const KEYS: [(&str, Kind); 2] = [
    ("audit-policy-file", Kind::Audit),
    ("pod-security-admission-config-file", Kind::Admission),
];
const ARGUMENTS: [(&str, Kind); 2] = [
    ("audit-policy-file", Kind::Audit),
    ("admission-control-config-file", Kind::Admission),
];
/// k8s.io/apiserver `pkg/apis/audit/v1/types.go`, v0.30 to v0.37.
const AUDIT_LEVELS: [&str; 4] = ["None", "Metadata", "Request", "RequestResponse"];
const STAGES: [&str; 4] = [
    "RequestReceived",
    "ResponseStarted",
    "ResponseComplete",
    "Panic",
];
/// k8s.io/pod-security-admission `admission/api/{v1,v1beta1,v1alpha1}`, and `api/constants.go`.
const POD_SECURITY: [&str; 3] = [
    "pod-security.admission.config.k8s.io/v1",
    "pod-security.admission.config.k8s.io/v1beta1",
    "pod-security.admission.config.k8s.io/v1alpha1",
];
const POD_LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

/// The files that these files of RKE2 name.
pub fn named_files(files: &[Rke2ConfigFile]) -> Vec<NamedFile> {
    let (keys, config) = (written(files), merge(files));
    // An argument counts instead of RKE2's own, which comes from the key.
    let is_overruled = |kind: &Kind| {
        let mut rows = ARGUMENTS.iter().filter(|(_, own)| own == kind);
        rows.any(|(name, _)| !config.flag("kube-apiserver-arg", name).is_empty())
    };
    let of_keys = KEYS.iter().filter_map(|(name, kind)| {
        let key = keys.get(*name).filter(|_| !is_overruled(kind))?;
        let path = &key.values.last()?.item.text;
        Some((path.clone(), key.at.clone()?, *kind))
    });
    let of_arguments = ARGUMENTS.iter().filter_map(|(name, kind)| {
        let item = config.flag("kube-apiserver-arg", name).pop()?;
        Some((item.text, item.at, *kind))
    });
    let found = of_keys.chain(of_arguments);
    found
        .filter(|(path, ..)| !path.is_empty())
        .map(|(path, at, kind)| NamedFile { path, at, kind })
        .collect()
}

impl NamedFile {
    /// Why kube-apiserver does not start with this file; `None` if that is not judged.
    pub fn faults(&self, text: &str) -> Option<Vec<FileFault>> {
        // kube-apiserver takes some texts that this reader refuses, and reads the first document only.
        let first = text.split("\n---").next().unwrap_or(text);
        let Some(root) = yaml::parse_configuration(first).ok()? else {
            return Some(vec![FileFault {
                line: None,
                why: "it is empty".to_owned(),
            }]);
        };
        let others = root.list("plugins").iter().any(|plugin| {
            plugin.str_at(&["name"]) != Some("PodSecurity") || plugin.get("path").is_some()
        });
        let mut faults = Vec::new();
        match self.kind {
            Kind::Audit => audit(&root, &mut faults),
            Kind::Admission => admission(&root, &mut faults),
        }
        // The configurations of other plugins are not judged.
        (!faults.is_empty() || !others).then_some(faults)
    }
}

fn fault(faults: &mut Vec<FileFault>, line: u32, why: String) {
    let line = Some(line);
    faults.push(FileFault { line, why });
}

/// `apiVersion` and `kind`: does kube-apiserver read an object of this kind here?
fn is_object(node: &Node, versions: &[&str], kind: &str, faults: &mut Vec<FileFault>) -> bool {
    let before = faults.len();
    for (key, allowed) in [("apiVersion", versions), ("kind", &[kind])] {
        match node.entry(key) {
            Some(entry)
                if entry
                    .value
                    .as_str()
                    .is_some_and(|text| allowed.contains(&text)) => {}
            Some(entry) => fault(faults, entry.line, format!("write `{key}: {}`", allowed[0])),
            None => fault(faults, node.line, format!("write `{key}: {}`", allowed[0])),
        }
    }
    faults.len() == before
}

/// k8s.io/apiserver `pkg/audit/policy/reader.go` and `pkg/apis/audit/validation`.
fn audit(root: &Node, faults: &mut Vec<FileFault>) {
    if !is_object(root, &["audit.k8s.io/v1"], "Policy", faults) {
        return;
    }
    if root.list("rules").is_empty() {
        let line = root.entry("rules").map_or(root.line, |entry| entry.line);
        fault(faults, line, "write at least one rule".to_owned());
    }
    for rule in root.list("rules") {
        let level = rule.get("level");
        if !level.is_some_and(|level| {
            level
                .as_str()
                .is_some_and(|text| AUDIT_LEVELS.contains(&text))
        }) {
            let line = level.map_or(rule.line, |level| level.line);
            let why = format!(
                "the `level` of a rule is one of {}",
                AUDIT_LEVELS.join(", ")
            );
            fault(faults, line, why);
        }
        let stages = rule.list("omitStages").iter();
        for stage in stages.chain(root.list("omitStages")) {
            if !stage.as_str().is_some_and(|text| STAGES.contains(&text)) {
                let why = format!("a stage in `omitStages` is one of {}", STAGES.join(", "));
                fault(faults, stage.line, why);
            }
        }
        for url in rule.list("nonResourceURLs") {
            let text = url.as_str().unwrap_or_default();
            let before = text.strip_suffix('*').unwrap_or(text);
            if text != "*" && (!text.starts_with('/') || before.contains('*')) {
                let why = "a path in `nonResourceURLs` begins with / and has `*` only at its end";
                fault(faults, url.line, why.to_owned());
            }
        }
    }
}

/// k8s.io/apiserver `pkg/apis/apiserver`; k8s.io/pod-security-admission `admission/api/{load,validation}`.
fn admission(root: &Node, faults: &mut Vec<FileFault>) {
    let versions = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];
    if !is_object(root, &versions, "AdmissionConfiguration", faults) {
        return;
    }
    let plugins = root.list("plugins").iter();
    for plugin in plugins.filter(|plugin| plugin.str_at(&["name"]) == Some("PodSecurity")) {
        let Some(configuration) = plugin.get("configuration") else {
            continue;
        };
        if !is_object(
            configuration,
            &POD_SECURITY,
            "PodSecurityConfiguration",
            faults,
        ) {
            continue;
        }
        let defaults = configuration.get("defaults").map_or(&[][..], Node::entries);
        for entry in defaults {
            let text = entry.value.as_str().unwrap_or_default();
            let fits = entry.value.as_str() == Some("")
                || match entry.key.strip_suffix("-version") {
                    Some(_) => is_version(text),
                    None => POD_LEVELS.contains(&text),
                };
            if !fits {
                let expected = match entry.key.ends_with("-version") {
                    true => "`latest` or a version such as v1.33".to_owned(),
                    false => format!("one of {}", POD_LEVELS.join(", ")),
                };
                fault(faults, entry.line, format!("`{}` is {expected}", entry.key));
            }
        }
    }
}

fn is_version(text: &str) -> bool {
    let minor = text.strip_prefix("v1.").unwrap_or("-");
    text == "latest" || minor.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rke2::config::ConfigLayer;

    const AUDIT: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n";
    const ADMISSION: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: PodSecurity\n  configuration:\n    apiVersion: pod-security.admission.config.k8s.io/v1\n    kind: PodSecurityConfiguration\n    defaults:\n      enforce: restricted\n      enforce-version: latest\n";

    fn named(text: &str) -> Vec<NamedFile> {
        let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text);
        named_files(&[file])
    }

    fn lines(file: &NamedFile, text: &str) -> Vec<Option<u32>> {
        let faults = file.faults(text).unwrap();
        faults.into_iter().map(|one| one.line).collect()
    }

    #[test]
    fn a_file_is_named_by_a_key_or_an_argument() {
        let text = "audit-policy-file: /etc/a.yaml\nkube-apiserver-arg:\n- admission-control-config-file=/etc/b.yaml\n";
        let found = named(text);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.path.as_str(), one.at.line, one.kind))
            .collect();
        assert_eq!(
            found,
            [
                ("/etc/a.yaml", Some(1), Kind::Audit),
                ("/etc/b.yaml", Some(3), Kind::Admission)
            ]
        );
    }

    #[test]
    fn an_audit_policy_has_a_version_and_rules_with_levels() {
        let file = &named("audit-policy-file: /a")[0];
        assert_eq!(lines(file, AUDIT), []);
        for (from, to, line) in [
            ("k8s.io/v1", "k8s.io/v1beta1", 1),
            ("Policy", "Polcy", 2),
            ("rules:\n- level: Metadata", "rules: []", 3),
            ("Metadata", "metadata", 4),
        ] {
            assert_eq!(lines(file, &AUDIT.replace(from, to)), [Some(line)], "{to}");
        }
        assert_eq!(lines(file, ""), [None]);
        assert_eq!(file.faults("a: ["), None);
        for wrong in ["omitStages: [foo]", "nonResourceURLs: ['/a*b']"] {
            let text = format!("{AUDIT}  {wrong}\n");
            assert_eq!(lines(file, &text), [Some(5)], "{wrong}");
        }
        let second = format!("{AUDIT}---\na: b\n");
        assert_eq!(lines(file, &second), []);
    }

    #[test]
    fn a_configuration_of_pod_security_has_kinds_levels_and_versions() {
        let file = &named("pod-security-admission-config-file: /a")[0];
        assert_eq!(lines(file, ADMISSION), []);
        for (from, to, line) in [
            ("kind: AdmissionConfiguration\n", "", 1),
            ("PodSecurityConfiguration", "PodSecurity", 7),
            ("restricted", "Restricted", 9),
            ("latest", "1.33", 10),
        ] {
            assert_eq!(
                lines(file, &ADMISSION.replace(from, to)),
                [Some(line)],
                "{to}"
            );
        }
    }
}
