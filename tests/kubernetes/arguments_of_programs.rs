//! Level 4: the arguments that Kubernetes' real programs have, and what `windrow gates check` says of them.

use std::path::Path;
use std::process::Command;

use windrow_gates::{JudgedArguments, TargetVersion, judge_arguments};
use windrow_model::findings::Finding;
use windrow_model::reasons::Severity;
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge};

use crate::support::cluster::assets::{self, Minor};
use crate::support::cluster::skip;

const PROGRAMS: [(Minor, &str, &str); 7] = [
    (Minor::V1_31, "kube-apiserver", "kube-apiserver-arg"),
    (Minor::V1_33, "kube-apiserver", "kube-apiserver-arg"),
    (Minor::V1_33, "kubelet", "kubelet-arg"),
    (Minor::V1_36, "kube-apiserver", "kube-apiserver-arg"),
    (Minor::V1_36, "kubelet", "kubelet-arg"),
    (
        Minor::V1_36,
        "kube-controller-manager",
        "kube-controller-manager-arg",
    ),
    (Minor::V1_36, "kube-scheduler", "kube-scheduler-arg"),
];
/// Arguments of several programs, of earlier minors, and misspelt ones.
const TRIED: [&str; 10] = [
    "event-qps",
    "cloud-config",
    "cpu-manager",
    "leader-elect",
    "keep-terminated-pod-volumes",
    "tls-curve-preferences",
    "node-monitor-period",
    "emulated-version",
    "audit-log-maxage",
    "profilling",
];

fn judged(list: &str, argument: &str, minor: Minor) -> JudgedArguments {
    let text = serde_json::json!({ list: [argument] }).to_string();
    let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text);
    let version = minor.text().parse().expect("a version");
    judge_arguments(&merge(&[file]), &TargetVersion::Known(version))
}

fn is_lacking(finding: &Finding) -> bool {
    finding.severity == Severity::Error && finding.message.contains("has no argument")
}

fn said(program: &Path, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output();
    let done = done.expect("it can be run");
    String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
}

#[test]
fn every_argument_in_a_programs_help_is_known_and_others_are_refused_as_it_refuses_them() {
    for (minor, name, list) in PROGRAMS {
        let program = match assets::find(minor, name) {
            Ok(program) => program,
            Err(why) => {
                skip(&why);
                continue;
            }
        };
        let help = said(&program, &["--help"]);
        let mut shown = 0;
        for line in help.lines() {
            let flag = line
                .trim_start()
                .trim_start_matches("-h, ")
                .trim_start_matches("-v, ");
            let Some(flag) = flag.strip_prefix("--") else {
                continue;
            };
            let flag = flag.split([' ', '[']).next().expect("a name");
            shown += 1;
            let findings = judged(list, &format!("{flag}=x"), minor).findings;
            assert!(
                !findings.iter().any(is_lacking),
                "{minor:?} {name} {flag}: {findings:?}"
            );
        }
        assert!(shown > 50, "{minor:?} {name}: {shown}");
        for flag in TRIED {
            let flag_text = format!("--{flag}=1s");
            let is_unknown = said(&program, &[&flag_text, "--help"]).contains("unknown flag");
            let findings = judged(list, &format!("{flag}=1s"), minor).findings;
            assert_eq!(
                findings.iter().any(is_lacking),
                is_unknown,
                "{minor:?} {name} {flag}"
            );
        }
    }
}
