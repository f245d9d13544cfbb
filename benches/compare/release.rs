//! What a file waits for comes, and its marker goes: how long that takes, beside a real kube-apiserver.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use crate::bootstrap::Daemon;
use crate::support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use crate::support::objects;
use crate::trial::{Programs, harness, load};

/// Makes this many namespaces one after the other, each of which a held file waits for, and prints how long the markers stayed.
pub(crate) async fn measure(programs: &Programs, samples: usize) {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = harness(&cluster).await;
    let scratch = tempfile::tempdir().unwrap();
    let manifests = scratch.path().join("var/lib/rancher/rke2/server/manifests");
    fs::create_dir_all(&manifests).unwrap();
    for number in 0..samples {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: one, namespace: space-{number}}}\n"
        );
        fs::write(manifests.join(format!("{number:03}.yaml")), text).unwrap();
    }
    let config = cluster.kubeconfig(Who::Admin);
    let _daemon = Daemon::start(&programs.daemon(), scratch.path(), &config).await;
    let mut waits = Vec::new();
    for number in 0..samples {
        let marker = manifests.join(format!("{number:03}.yaml.skip"));
        eventually("the file is held", DEADLINE, async || {
            marker.exists().then_some(())
        })
        .await;
        let name = format!("space-{number}");
        let space = json!({"metadata": {"name": name}});
        objects::make(&client, objects::NAMESPACE, "", space).await;
        waits.push(until_gone(&marker).await);
    }
    waits.sort();
    let at = |percent: usize| waits[(waits.len() - 1) * percent / 100];
    println!(
        "a namespace is there, the marker that waited for it is gone: p50 {:.1?}, p99 {:.1?}, worst {:.1?} ({samples} samples, load {})",
        at(50),
        at(99),
        at(100),
        load()
    );
}

/// Looks all the time.
async fn until_gone(marker: &Path) -> Duration {
    let begun = Instant::now();
    while marker.exists() {
        assert!(begun.elapsed() < DEADLINE, "{} stays", marker.display());
        sleep(Duration::from_micros(500)).await;
    }
    begun.elapsed()
}
