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

/// Arguments that a program refuses before it connects to anything, and what it then says.
const REFUSED: [(&str, &[&str], &str); 26] = [
    ("kube-apiserver", &["max-requests-inflight=-1"], "negative"),
    ("kube-apiserver", &["goaway-chance=0.5"], "0.02"),
    (
        "kube-apiserver",
        &["oidc-issuer-url=https://id"],
        "oidc-client-id",
    ),
    ("kube-apiserver", &["oidc-client-id=x"], "oidc-issuer-url"),
    (
        "kube-apiserver",
        &["authorization-mode=Node,RBAC,Webhook"],
        "authorization config file",
    ),
    (
        "kube-apiserver",
        &["authorization-mode=Node,RBAC,Node"],
        "more than once",
    ),
    (
        "kube-apiserver",
        &["service-account-jwks-uri=http://x"],
        "https",
    ),
    (
        "kube-apiserver",
        &["kubernetes-service-node-port=70000"],
        "65535",
    ),
    ("kube-apiserver", &["livez-grace-period=-1s"], "negative"),
    ("kube-apiserver", &["apiserver-count=0"], "positive"),
    (
        "kube-apiserver",
        &["audit-log-path=/tmp/none/a.log", "audit-log-maxage=-3"],
        "negative",
    ),
    ("kubelet", &["image-gc-low-threshold=90"], "less than"),
    ("kubelet", &["max-pods=-1"], "negative"),
    ("kubelet", &["reserved-cpus=0-"], "unable to parse"),
    (
        "kubelet",
        &["reserved-cpus=0-1", "system-reserved-cgroup=/system.slice"],
        "can't use",
    ),
    (
        "kubelet",
        &["enforce-node-allocatable=pods,pods"],
        "duplicated",
    ),
    (
        "kubelet",
        &["enforce-node-allocatable=pods,system-reserved"],
        "must be specified",
    ),
    ("kubelet", &["container-log-max-files=1"], "greater than 1"),
    ("kubelet", &["registry-qps=-1"], "negative"),
    ("kubelet", &["oom-score-adj=-2000"], "-1000"),
    ("kubelet", &["healthz-port=70000"], "65535"),
    (
        "kubelet",
        &["reserved-memory=0:memory=0"],
        "may not be zero",
    ),
    (
        "kube-controller-manager",
        &["concurrent-job-syncs=0"],
        "greater than 0",
    ),
    (
        "kube-controller-manager",
        &["max-endpoints-per-slice=2000"],
        "1000",
    ),
    ("kube-controller-manager", &["controllers=job,foo"], "foo"),
    (
        "kube-controller-manager",
        &["attach-detach-reconcile-sync-period=1ms"],
        "one second",
    ),
];

#[test]
fn values_and_combinations_that_a_program_refuses_are_errors_and_their_neighbours_are_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let key = directory.path().join("key.pem");
    let made = Command::new("openssl")
        .args(["genrsa", "-out"])
        .arg(&key)
        .arg("2048")
        .output();
    assert!(made.expect("openssl runs").status.success());
    let key = key.display();
    let of_api_server = [
        "--etcd-servers=http://127.0.0.1:1".to_owned(),
        "--service-account-issuer=https://x".to_owned(),
        format!("--service-account-signing-key-file={key}"),
        format!("--service-account-key-file={key}"),
        format!("--cert-dir={}", directory.path().display()),
    ];
    let none = [format!("--kubeconfig={}/none", directory.path().display())];
    for (minor, name, list) in PROGRAMS {
        let program = match assets::find(minor, name) {
            Ok(program) => program,
            Err(why) => {
                skip(&why);
                continue;
            }
        };
        for (_, arguments, part) in REFUSED.iter().filter(|(of, ..)| *of == name) {
            let base = match name {
                "kube-apiserver" => &of_api_server[..],
                _ => &none,
            };
            let own = arguments.iter().map(|argument| format!("--{argument}"));
            let own: Vec<String> = base.iter().cloned().chain(own).collect();
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            let answer = said(&program, &own);
            let failed = answer.lines().find(|line| line.contains("command failed"));
            assert!(
                failed.is_some_and(|line| line.contains(part)),
                "{minor:?} {name} {arguments:?}: {answer}"
            );
            let text = serde_json::json!({ list: arguments }).to_string();
            let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text);
            let version = minor.text().parse().expect("a version");
            let judged = judge_arguments(&merge(&[file]), &TargetVersion::Known(version));
            let errors = judged.findings.iter();
            let errors = errors.filter(|one| one.severity == Severity::Error);
            assert_eq!(errors.count(), 1, "{minor:?} {name} {arguments:?}");
        }
    }
}
