//! Level 4: what an Addon that is off has left behind is recognised by the metadata of Helm's Secrets, live, in a report and in
//! saved lists. Harvester and Helm are played; what is in a Secret does not leave kube-apiserver.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Who, eventually};
use support::objects::{ADDON, CHART, Gvk, api, make, namespace, patch, serve_published, status};
use windrow::archive::Archive;

use crate::support;

const SECRET: Gvk = ("", "v1", "Secret");
const SYSTEM: &str = "harvester-system";
const PLANTED: &str = "Pl4ntedInARelease";

/// As Helm writes a revision.
const KUBECONFIG: &str = "etc/rancher/rke2/rke2.yaml";

fn release(name: &str, status: &str, modified: &str) -> Value {
    let labels = json!({"owner": "helm", "name": name, "status": status, "version": "1", "modifiedAt": modified});
    json!({"metadata": {"name": format!("sh.helm.release.v1.{name}.v1"), "labels": labels},
        "type": "helm.sh/release.v1", "stringData": {"release": PLANTED}})
}

fn ago(minutes: i64) -> String {
    let at = Timestamp::now() - SignedDuration::from_mins(minutes);
    at.as_second().to_string()
}

/// The codes that are found, and all that is said.
fn diagnose(root: &Path, more: &[&OsStr]) -> (Vec<String>, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .args(["diagnose", "-o", "json"])
        .args(more)
        .output()
        .unwrap();
    let mut said: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert!(!said.to_string().contains(PLANTED));
    // Nothing runs here, which is a symptom. These tests are about known incidents.
    let findings = said["findings"].as_array_mut().unwrap();
    findings.retain(|finding| finding["unexplained"] != true);
    let findings = said["findings"].as_array().unwrap().iter();
    let codes = findings.map(|one| one["code"].as_str().unwrap().to_owned());
    (codes.collect(), said)
}

fn report(root: &Path, file: &Path) {
    let made = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .args(["report", "--kubeconfig"])
        .arg(root.join(KUBECONFIG))
        .arg("--output-file")
        .arg(file)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

async fn is_off(client: &Client, name: &str) {
    let addon = json!({"metadata": {"name": name}, "spec": {"enabled": false, "chart": name, "repo": "http://repo",
        "version": "1.0.0", "valuesContent": ""}});
    make(client, ADDON, SYSTEM, addon).await;
    let disabled = json!({"status": "AddonDisabled"});
    status(&api(client, ADDON, SYSTEM), name, disabled).await;
}

#[tokio::test]
async fn what_an_addon_left_is_recognised_by_metadata_alone_live_and_in_a_report() {
    let Some(cluster) = Cluster::start_audited().await else {
        return;
    };
    let log = cluster.audit_log();
    let client = cluster.client(Who::Admin).await;
    for kind in [ADDON, CHART] {
        serve_published(&client, kind, "Namespaced").await;
    }
    namespace(&client, SYSTEM).await;
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let kubeconfig = root.join(KUBECONFIG);
    fs::create_dir_all(kubeconfig.parent().unwrap()).unwrap();
    fs::copy(cluster.kubeconfig(Who::Admin), &kubeconfig).unwrap();
    let live = ["--kubeconfig".as_ref(), kubeconfig.as_os_str()];

    is_off(&client, "lvm").await;
    let other = json!({"metadata": {"name": "other"}, "stringData": {"password": PLANTED}});
    make(&client, SECRET, SYSTEM, other).await;
    make(
        &client,
        SECRET,
        SYSTEM,
        release("other", "deployed", &ago(60)),
    )
    .await;
    let (codes, said) = diagnose(root, &live);
    assert_eq!((codes.len(), &said["unknown"]), (0, &json!([])), "{said:#}");

    // Installed a moment ago: it may be on its way. Then it has been there for an hour.
    make(&client, SECRET, SYSTEM, release("lvm", "deployed", &ago(0))).await;
    assert_eq!(diagnose(root, &live).0, [""; 0]);
    let older = json!({"metadata": {"labels": {"modifiedAt": ago(60), "status": "uninstalling"}}});
    patch(&client, SECRET, SYSTEM, "sh.helm.release.v1.lvm.v1", older).await;
    // The list comes from kube-apiserver's memory, which hears of a change a moment later.
    let said = eventually("what was left is found", DEADLINE, async || {
        let (codes, said) = diagnose(root, &live);
        (codes == ["release-left"]).then_some(said)
    })
    .await;
    assert_eq!(said["findings"][0]["subject"], "Addon harvester-system/lvm");

    let file = root.join("report.tar.gz");
    report(root, &file);
    let (codes, said) = diagnose(root, &["--from".as_ref(), file.as_os_str()]);
    assert_eq!(codes, ["release-left"], "{said:#}");
    let archive = Archive::read(fs::File::open(&file).unwrap()).unwrap();
    let kept = archive.objects("", "Secret (helm-releases)").unwrap();
    assert_eq!(kept.len(), 2);
    assert!(
        kept.iter().all(|secret| secret.get("data").is_none()),
        "{kept:#?}"
    );
    let shown = |file: &Vec<u8>| String::from_utf8_lossy(file).into_owned();
    assert!(
        !archive
            .files
            .values()
            .any(|file| shown(file).contains(PLANTED))
    );

    // As `kubectl get secrets -A -o json` saves them, with all that is in them.
    let saved = tempfile::tempdir().unwrap();
    for (gvk, name) in [(SECRET, "secrets"), (ADDON, "addons"), (CHART, "charts")] {
        let all = api(&client, gvk, "")
            .list(&Default::default())
            .await
            .unwrap();
        let items: Vec<Value> = all
            .items
            .iter()
            .map(|item| serde_json::to_value(item).unwrap())
            .collect();
        let version = [gvk.0, gvk.1].join("/");
        let list = json!({"apiVersion": version.trim_start_matches('/'), "kind": format!("{}List", gvk.2), "items": items});
        fs::write(saved.path().join(format!("{name}.json")), list.to_string()).unwrap();
    }
    let (codes, said) = diagnose(root, &["--from".as_ref(), saved.path().as_os_str()]);
    assert_eq!(codes, ["release-left"], "{said:#}");

    // Of Secrets nothing but those two kinds is ever asked for.
    let asked = fs::read_to_string(&log).unwrap();
    let asked: Vec<Value> = asked
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    // The test's own list has no pages; kube-apiserver itself reads them too.
    let of_windrow = |event: &&Value| {
        event["objectRef"]["resource"] == "secrets"
            && ["get", "list"].iter().any(|verb| event["verb"] == *verb)
            && event["user"]["username"] != "system:apiserver"
    };
    let asked = asked.iter().filter(of_windrow);
    let asked: Vec<&str> = asked
        .filter_map(|event| event["requestURI"].as_str())
        .collect();
    let own = ["/api/v1/secrets", "/api/v1/secrets?"];
    let asked: Vec<&&str> = asked.iter().filter(|uri| !own.contains(uri)).collect();
    assert!(!asked.is_empty());
    for uri in asked {
        let named = ["type%3Dhelm.sh", "type%3Drke.cattle.io"];
        assert!(named.iter().any(|part| uri.contains(part)), "{uri}");
    }
}
