//! The files of RKE2's directory on the node, besides its configuration.

use windrow_inputs::extract::Extracted;
use windrow_inputs::manifest_path::is_set_aside;
use windrow_inputs::registries;
use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Code;
use windrow_model::unchecked::{CanStop, NotChecked};
use windrow_plan::rke2::config::{layer, merge};
use windrow_plan::rke2::{KubeletFiles, NamedFile, is_rke2_config, named_files};

use super::destinations::rke2_files;

const DIRECTORY: &str = "/etc/rancher/rke2/";
/// RKE2 reads nothing there.
const K3S: &str = "/etc/rancher/k3s/";
/// Files of variables that systemd gives to RKE2.
const VARIABLES: [&str; 2] = ["/etc/default/rke2-", "/etc/sysconfig/rke2-"];
pub(in crate::cli) const REGISTRIES: &str = "/etc/rancher/rke2/registries.yaml";

/// What was found in these files.
#[derive(Default)]
pub(in crate::cli) struct JudgedDirectory {
    pub(in crate::cli) findings: Vec<Finding>,
    /// The files that Windrow does not read.
    pub(in crate::cli) not_checked: Vec<NotChecked>,
    /// Where RKE2's configuration names a file that was judged here.
    pub(in crate::cli) named_at: Vec<Location>,
}

/// Judges these files.
pub(in crate::cli) fn judge_directory(
    configuration: &[Extracted],
    carriers: &[(String, String)],
) -> JudgedDirectory {
    let rke2 = rke2_files(configuration);
    let kubelet = KubeletFiles::new(&merge(&rke2));
    let named = named_files(&rke2);
    let mut judged = JudgedDirectory::default();
    let (findings, not_checked) = (&mut judged.findings, &mut judged.not_checked);
    for file in configuration {
        let written = || Location::line(&*file.carrier, file.written_at);
        if VARIABLES.iter().any(|begin| file.path.starts_with(begin)) {
            not_checked.extend(variables(file));
            continue;
        }
        if file.path.starts_with(K3S) && !is_set_aside(&file.path) {
            findings.push(not_read(&file.path, written()));
            continue;
        }
        let is_other = file.path.starts_with(DIRECTORY)
            && layer(&file.path).is_none()
            && kubelet.place(&file.path).is_none();
        if !is_other || is_set_aside(&file.path) {
            continue;
        }
        let text = String::from_utf8_lossy(&file.content);
        let uses: Vec<&NamedFile> = named.iter().filter(|one| one.path == file.path).collect();
        let faults = uses.first().and_then(|one| one.faults(&text));
        if let Some(faults) = faults {
            findings.extend(faults.into_iter().map(|fault| {
                let at = |line| Location::line(&*file.source, file.lines.outer(line));
                let at = fault.line.map_or_else(written, at);
                let (path, why) = (&file.path, fault.why);
                let message = format!("kube-apiserver does not start: it cannot use {path}: {why}");
                finding(Code::ComponentArgumentInvalid, message, at)
            }));
            judged
                .named_at
                .extend(uses.iter().map(|one| one.at.clone()));
        } else if file.path == REGISTRIES {
            findings.extend(registries(&text).into_iter().map(|problem| {
                let at = |line| Location::line(&*file.source, file.lines.outer(line));
                let at = problem.line.map_or_else(written, at);
                finding(problem.code, problem.message, at)
            }));
        } else if is_misplaced(&file.path, &text) && !is_selected(carriers) {
            findings.push(not_read(&file.path, written()));
        } else {
            not_checked.push(NotChecked {
                what: format!("the file {}", file.path),
                why: "Windrow does not read this file".to_owned(),
                can_stop: CanStop::Itself,
                at: vec![written()],
            });
        }
    }
    judged
}

/// Whether it looks like a configuration of RKE2 or of its registries, under a name that RKE2 does not read.
fn is_misplaced(path: &str, text: &str) -> bool {
    let name = path.strip_prefix(DIRECTORY).unwrap_or(path);
    is_rke2_config(text) || name.split('.').next() == Some("registries")
}

fn not_read(path: &str, at: Location) -> Finding {
    let code = Code::ConfigPathNotRead;
    finding(code, code.say(&[("path", path)]), at)
}

/// The variables of RKE2 in a file: each sets a key that no file of RKE2 sets, and `HTTP_PROXY` and its kin set none.
fn variables(file: &Extracted) -> Option<NotChecked> {
    let text = String::from_utf8_lossy(&file.content);
    let lines = (1..).zip(text.lines());
    let named = lines.filter(|(_, line)| line.trim_start().starts_with("RKE2_"));
    let at: Vec<Location> = named
        .map(|(line, _)| Location::line(&*file.source, file.lines.outer(line)))
        .collect();
    (!at.is_empty()).then(|| NotChecked {
        what: format!("the variables of RKE2 in {}", file.path),
        why: "Windrow reads only RKE2's own files: write them there as keys".to_owned(),
        can_stop: CanStop::Component,
        at,
    })
}

/// Whether an input selects another file than config.yaml (k3s `pkg/configfilearg`; rke2 `pkg/cli/defaults`).
fn is_selected(carriers: &[(String, String)]) -> bool {
    carriers
        .iter()
        .any(|(_, text)| text.contains("RKE2_CONFIG_FILE"))
}

fn finding(code: Code, message: String, at: Location) -> Finding {
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message,
        at: vec![at],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> (Vec<(Code, Option<u32>)>, usize) {
        let file = Extracted::given(path.to_owned(), "u.yaml", text.as_bytes().to_vec());
        let judged = judge_directory(&[file], &[]);
        let findings = judged.findings.iter();
        let findings = findings.map(|one| (one.code, one.at[0].line));
        (findings.collect(), judged.not_checked.len())
    }

    #[test]
    fn the_files_of_rke2s_directory_are_judged_or_listed() {
        let misplaced = (vec![(Code::ConfigPathNotRead, Some(1))], 0);
        let config = "cni: cilium\ntls-san: [a]\n";
        assert_eq!(
            found("/etc/rancher/rke2/config.yaml", config),
            (Vec::new(), 0)
        );
        for path in [
            "config.yml",
            "config.yaml.d/90-a.conf",
            "config.yaml.d/sub/a.yaml",
            "config.yaml-x",
        ] {
            assert_eq!(
                found(&format!("/etc/rancher/rke2/{path}"), config),
                misplaced,
                "{path}"
            );
        }
        assert_eq!(
            found("/etc/rancher/rke2/config.yaml.bak", config),
            (Vec::new(), 0)
        );
        assert_eq!(
            found("/etc/rancher/rke2/audit.yaml", "kind: Policy\n"),
            (Vec::new(), 1)
        );
        let wrong = "mirrors:\n  docker.io: {endpoints: []}\n";
        assert_eq!(
            found(REGISTRIES, wrong),
            (vec![(Code::KeyNotRead, Some(2))], 0)
        );
        assert_eq!(found("/etc/motd", config), (Vec::new(), 0));
        let k3s = found("/etc/rancher/k3s/config.yaml", config);
        assert_eq!(k3s, misplaced);
        assert_eq!(
            found("/etc/rancher/rke2/registries.yml", "mirrors: {}\n"),
            misplaced
        );
    }

    #[test]
    fn variables_of_rke2_are_listed_and_those_of_a_proxy_are_none() {
        let variables = "HTTP_PROXY=http://10.0.0.1:3128\nRKE2_URL=https://10.0.0.1:9345\n";
        let path = "/etc/default/rke2-agent";
        assert_eq!(found(path, variables), (Vec::new(), 1));
        assert_eq!(
            found(path, "HTTP_PROXY=http://10.0.0.1:3128\n"),
            (Vec::new(), 0)
        );
    }

    #[test]
    fn a_policy_that_the_configuration_names_is_judged_and_its_key_is_not_listed() {
        let file = |path: &str, text: &str| {
            Extracted::given(path.to_owned(), path, text.as_bytes().to_vec())
        };
        let path = "/etc/rancher/rke2/audit.yaml";
        let key = file(
            "/etc/rancher/rke2/config.yaml",
            &format!("cni: canal\naudit-policy-file: {path}\n"),
        );
        let judged = |text: &str| judge_directory(&[key.clone(), file(path, text)], &[]);
        let old =
            judged("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]\n");
        let at: Vec<String> = old.findings[0].at.iter().map(ToString::to_string).collect();
        assert_eq!(at, [format!("{path}:1")]);
        let new = judged("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n");
        assert_eq!((new.findings.len(), new.not_checked.len()), (0, 0));
        assert_eq!(new.named_at[0].line, Some(2));
    }
}
