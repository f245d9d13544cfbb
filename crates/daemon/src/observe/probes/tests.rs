//! Probes against real servers on the loopback interface: right, wrong, slow, silent, garbage.

mod addons;
mod bus;
mod cluster;
mod control_loop;
mod custom;
mod harvester;
mod machine;
mod platform;
mod role;
mod schedule;
mod upgrade;
mod webhooks;

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use windrow_decide::{ClusterEvent, Interests, ProbeInterest};
use windrow_plan::readiness::node::{NodeEvent, NodeRole, ProbeOutcome, specs};

use super::context::{Endpoints, ProbeContext};
use crate::apiserver::ApiServer;
use crate::layout::Layout;
use crate::testing::replies::TestServer;

struct TestNode {
    root: tempfile::TempDir,
    endpoints: Endpoints,
}

impl TestNode {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            endpoints: Endpoints {
                // Nothing listens on port 1.
                supervisor: "https://127.0.0.1:1".to_owned(),
                etcd: "http://127.0.0.1:1".to_owned(),
                kubelet: "http://127.0.0.1:1".to_owned(),
                controller_manager: "https://127.0.0.1:1".to_owned(),
                scheduler: "https://127.0.0.1:1".to_owned(),
                bus: Some("unix:path=/nonexistent/bus".to_owned()),
                journalctl: "/nonexistent/journalctl".to_owned(),
                ..Endpoints::default()
            },
        }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.root.path())
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.layout().path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn kubeconfig(&self, path: &str, url: &str) {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: \"{url}\"}}}}]\n\
             users: [{{name: u, user: {{}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
        );
        self.write(path, text);
    }

    fn admin(&self, server: &TestServer) {
        self.kubeconfig("/etc/rancher/rke2/rke2.yaml", &server.url);
    }

    fn identity(&self, server: &TestServer) {
        let path = "/var/lib/rancher/rke2/agent/kubelet.kubeconfig";
        self.kubeconfig(path, &server.url);
    }

    fn context(&self) -> ProbeContext {
        let api = ApiServer::new();
        ProbeContext::new(self.layout(), self.endpoints.clone(), api, Timestamp::now).unwrap()
    }
}

fn failed(outcome: &ProbeOutcome) -> &str {
    match outcome {
        ProbeOutcome::Failed { why, .. } => why,
        other => panic!("expected a failure, not {other:?}"),
    }
}

fn unknown(outcome: &ProbeOutcome) -> String {
    match outcome {
        ProbeOutcome::Unknown { asked, why, .. } => format!("{asked}: {why}"),
        other => panic!("expected Unknown, not {other:?}"),
    }
}

#[test]
fn every_probe_of_the_table_is_known_to_the_adapters() {
    let source = include_str!("ask.rs");
    for row in windrow_plan::readiness::node::BUILTIN {
        let arm = format!(
            "\"{}\" =>",
            windrow_plan::readiness::node::question_of(row.name)
        );
        assert!(source.contains(&arm), "{} has no adapter", row.name);
    }
}
