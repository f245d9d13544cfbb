//! Level 4: the real kubelet's answers about feature gates, and how `windrow gates check` reads them.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assets::Minor;
use windrow::layout::Layout;
use windrow::observe::kubelet::Kubelet;
use windrow_gates::catalogue::{Catalogue, GateStanding};
use windrow_gates::last_refusal;

use crate::support::as_node::on_its_node;
use crate::support::cluster::assets;
use crate::support::daemon::can_mount;

/// Where RKE2 unpacks it.
const KUBELET: &str = "var/lib/rancher/rke2/bin/kubelet";
/// Where a stand-in finds the real one.
const REAL_KUBELET: &str = "opt/kubelet";

/// The kubelet of a minor; `None`, after one line that says why, when it is not here.
fn kubelet(minor: Minor) -> Option<PathBuf> {
    match assets::find(minor, "kubelet") {
        Ok(path) => Some(path),
        Err(why) => {
            assert!(
                std::env::var_os("WINDROW_REQUIRE_CLUSTER").is_none(),
                "WINDROW_REQUIRE_CLUSTER is set, and {why}"
            );
            // Not eprintln: the line must show without --nocapture.
            writeln!(std::io::stderr(), "skipped: {why}").expect("standard error is open");
            None
        }
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
    fs::write(path, text).expect("a file");
}

/// A node on which RKE2 has unpacked this kubelet.
fn node(kubelet: &Path) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory");
    let place = root.path().join(KUBELET);
    fs::create_dir_all(place.parent().expect("a directory")).expect("directories");
    symlink(kubelet, place).expect("a link");
    root
}

/// The kubelet of such a node, as one of this machine: no other one is run.
async fn found(root: &tempfile::TempDir) -> Kubelet {
    let data_dir = root.path().join("var/lib/rancher/rke2");
    let layout = Layout::new("/").with_data_dir(data_dir.to_str().expect("UTF-8"));
    let kubelet = Kubelet::find(&layout).await;
    kubelet.expect("it tells its version")
}

/// Makes a file that was just written executable, as a copy by another process: while a child of another test has it open for
/// writing it could not be executed.
fn make_executable(path: &Path) {
    let script = r#"cat "$0" >"$0.new" && chmod 755 "$0.new" && mv "$0.new" "$0""#;
    let done = Command::new("sh").args(["-c", script]).arg(path).status();
    assert!(
        done.is_ok_and(|status| status.success()),
        "{}",
        path.display()
    );
}

fn check(root: &Path) -> (Option<i32>, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = on_its_node(root)
        .args(["gates", "check"])
        .output()
        .expect("windrow");
    let text = [stdout, stderr].concat();
    (status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_kubelet_judges_its_gates_before_it_reads_its_configuration_and_leaves_nothing_behind() {
    const ALL_TAKEN: &str = "failed to load kubelet config file";
    const REFUSED: &str = "failed to set feature gates from initial flags-based config: ";
    for minor in [Minor::V1_33, Minor::V1_36] {
        let Some(kubelet) = kubelet(minor) else {
            return;
        };
        let empty = tempfile::tempdir().expect("a directory");
        for (gates, words) in [
            ("ImageVolume=true", ALL_TAKEN),
            ("AuthorizeNodeWithSelectors=true", ALL_TAKEN),
            ("NotAGate=true", "unrecognized feature gate: NotAGate"),
            ("imagevolume=true", "unrecognized feature gate: imagevolume"),
            (
                "kube:ImageVolume=true",
                "unrecognized feature gate: kube:ImageVolume",
            ),
            (
                "NodeSwap=true,SidecarContainers=false",
                "cannot set feature gate SidecarContainers to false, feature is locked to true",
            ),
        ] {
            let output = Command::new(&kubelet)
                .arg(format!("--feature-gates={gates}"))
                .arg("--config=/nonexistent")
                .current_dir(empty.path())
                .env_clear()
                .output()
                .expect("the kubelet");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{minor:?} {gates}: {said}");
            assert!(said.contains(words), "{minor:?} {gates}: {said}");
            assert_eq!(
                said.contains(REFUSED),
                words != ALL_TAKEN,
                "{minor:?} {gates}: {said}"
            );
            assert!(
                said.lines()
                    .any(|line| line.contains(words) && line.contains("\"command failed\"")),
                "all in one line: {said}"
            );
        }
        let left = fs::read_dir(empty.path()).expect("the directory").count();
        assert_eq!(left, 0);
    }
}

#[test]
fn a_kubelet_that_takes_its_gates_says_its_version_after_what_one_before_it_refused() {
    for minor in [Minor::V1_33, Minor::V1_36] {
        let Some(kubelet) = kubelet(minor) else {
            return;
        };
        let place = tempfile::tempdir().expect("a directory");
        // The host of a test may have the older cgroups, which 1.36 refuses before it says its version.
        let config = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailCgroupV1: false\n";
        write(place.path(), "config.yaml", config);
        // It ends at the kubeconfig that is not there.
        let says = |gates: &str| {
            let output = Command::new(&kubelet)
                .arg(format!("--feature-gates={gates}"))
                .args([
                    "--config=config.yaml",
                    "--kubeconfig=/nonexistent",
                    "--root-dir=.",
                ])
                .args(["--cert-dir=."])
                .current_dir(place.path())
                .env_clear()
                .output()
                .expect("the kubelet");
            assert!(!output.status.success());
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        let (refused, taken) = (says("NotAGate=true"), says("ImageVolume=true"));
        let gates = |log: &str| last_refusal(log, ..).map(|said| said.gates);
        let expected = Some(vec!["NotAGate".to_owned()]);
        assert_eq!(
            gates(&format!("{taken}{refused}")),
            expected,
            "{minor:?}: {refused}"
        );
        assert_eq!(
            gates(&format!("{refused}{taken}")),
            None,
            "{minor:?}: {taken}"
        );
    }
}

#[tokio::test]
async fn a_kubelet_refuses_exactly_the_gates_that_the_catalogue_calls_unknown_or_locked() {
    for minor in [Minor::V1_33, Minor::V1_36] {
        let Some(path) = kubelet(minor) else {
            return;
        };
        let root = node(&path);
        let kubelet = found(&root).await;
        assert_eq!(kubelet.version.minor.to_string(), minor.text());

        // Every gate there ever was: locked ones are changed, the others keep their value.
        let (mut asked, mut expected) = (Vec::new(), Vec::new());
        for gate in Catalogue::builtin().gates() {
            let (value, refused) = match gate.at(kubelet.version) {
                GateStanding::Known(state) => (state.default != state.locked, state.locked),
                _ => (true, true),
            };
            asked.push((gate.name().to_owned(), value));
            if refused {
                expected.push(gate.name().to_owned());
            }
        }
        let refused = kubelet.all_refused(&asked).await.expect("an answer");
        let mut names: Vec<String> = refused.into_iter().flat_map(|said| said.gates).collect();
        names.sort();
        expected.sort();
        assert!(expected.len() > 50, "{minor:?}: {}", expected.len());
        assert_eq!(names, expected, "{minor:?}");

        asked.retain(|(name, _)| !expected.contains(name));
        assert_eq!(kubelet.refuses(&asked).await, Ok(None), "{minor:?}");
    }
}

#[tokio::test]
async fn a_gate_that_is_off_is_found_behind_those_that_are_on_by_default_and_depend_on_it() {
    let Some(path) = kubelet(Minor::V1_36) else {
        return;
    };
    let root = node(&path);
    let kubelet = found(&root).await;
    let gates = [
        ("ImageVolume".to_owned(), true),
        ("AtomicFIFO".to_owned(), false),
    ];
    let refused = kubelet.all_refused(&gates).await.expect("an answer");
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].gates, ["AtomicFIFO"]);
    assert!(
        refused[0].line.contains("is enabled, but depends on"),
        "{refused:?}"
    );
}

#[test]
fn check_confirms_with_the_kubelet_where_rke2_has_unpacked_it() {
    let Some(kubelet) = kubelet(Minor::V1_36) else {
        return;
    };
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().expect("a directory");
    let root = root.path();
    for place in [KUBELET, REAL_KUBELET] {
        write(root, place, "");
        fs::copy(&kubelet, root.join(place)).expect("a copy");
    }
    write(root, "opt/rke2/bin/rke2", "v1.36.3+rke2r1");
    let configure = |gates: &str| {
        write(
            root,
            "etc/rancher/rke2/config.yaml",
            &format!("token: s3cr3t\nkube-apiserver-arg:\n- feature-gates={gates}\n"),
        );
    };
    configure("APIResponseCompression=false");
    let (exit, text) = check(root);
    assert_eq!(exit, Some(0), "{text}");

    configure("APIResponseCompression=false,NotAGate=true,AuthorizeNodeWithSelectors=false");
    let (exit, text) = check(root);
    assert_eq!(exit, Some(4), "{text}");
    for gate in ["NotAGate", "AuthorizeNodeWithSelectors"] {
        let says = format!("the binary that will start refuses the feature gate {gate}: ");
        assert!(text.contains(&says), "{text}");
    }
    assert!(text.contains("config.yaml:3"), "{text}");
    assert!(!text.contains("s3cr3t"), "{text}");

    // The catalogue does not have a minor that is not out; a kubelet that claims that minor knows all.
    write(root, "opt/rke2/bin/rke2", "v1.60.1+rke2r1");
    fs::remove_file(root.join(KUBELET)).expect("the kubelet");
    write(
        root,
        KUBELET,
        &format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && echo Kubernetes v1.60.1 && exit\nexec /{REAL_KUBELET} \"$@\"\n"
        ),
    );
    make_executable(&root.join(KUBELET));
    configure("APIResponseCompression=false");
    let (exit, text) = check(root);
    assert_eq!(exit, Some(0), "{text}");
    configure("AtomicFIFO=false");
    let (exit, text) = check(root);
    assert_eq!(exit, Some(4), "{text}");
    let says = "refuses the feature gate AtomicFIFO: ";
    assert!(
        text.contains(says) && text.contains("config.yaml:3"),
        "{text}"
    );
}
