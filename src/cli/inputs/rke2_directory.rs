//! The files of RKE2's directory on the node, besides its configuration.

use windrow_inputs::extract::Extracted;
use windrow_inputs::manifest_path::is_set_aside;
use windrow_inputs::registries;
use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Code;
use windrow_model::unchecked::{CanStop, NotChecked};
use windrow_plan::rke2::config::{layer, merge};
use windrow_plan::rke2::{KubeletFiles, is_rke2_config};

use super::destinations::rke2_files;

const DIRECTORY: &str = "/etc/rancher/rke2/";
const REGISTRIES: &str = "/etc/rancher/rke2/registries.yaml";

/// The faults of these files, and the files that Windrow does not read.
pub(in crate::cli) fn judge_directory(
    configuration: &[Extracted],
    carriers: &[(String, String)],
) -> (Vec<Finding>, Vec<NotChecked>) {
    let kubelet = KubeletFiles::new(&merge(&rke2_files(configuration)));
    let (mut findings, mut not_checked) = (Vec::new(), Vec::new());
    for file in configuration {
        let is_other = file.path.starts_with(DIRECTORY)
            && layer(&file.path).is_none()
            && kubelet.place(&file.path).is_none();
        if !is_other || is_set_aside(&file.path) {
            continue;
        }
        let text = String::from_utf8_lossy(&file.content);
        let written = || Location::line(&*file.carrier, file.written_at);
        if file.path == REGISTRIES {
            findings.extend(registries(&text).into_iter().map(|problem| {
                let at = |line| Location::line(&*file.source, file.lines.outer(line));
                let at = problem.line.map_or_else(written, at);
                finding(problem.code, problem.message, at)
            }));
        } else if is_rke2_config(&text) && !is_selected(carriers) {
            let code = Code::ConfigPathNotRead;
            let message = code.say(&[("path", &file.path)]);
            findings.push(finding(code, message, written()));
        } else {
            not_checked.push(NotChecked {
                what: format!("the file {}", file.path),
                why: "Windrow does not read this file".to_owned(),
                can_stop: CanStop::Itself,
                at: vec![written()],
            });
        }
    }
    (findings, not_checked)
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
        let (findings, not_checked) = judge_directory(&[file], &[]);
        let findings = findings.iter().map(|one| (one.code, one.at[0].line));
        (findings.collect(), not_checked.len())
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
    }
}
