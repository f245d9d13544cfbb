//! KubeVirt's own controller.

use serde_json::{Value, json};

use super::super::objects::{KUBEVIRT, VM, make, namespace, served};
use super::assets::{find_virt_controller, kubevirt_definitions};
use super::process::Process;
use super::{Cluster, Who, free_port, skip};

/// Where KubeVirt is configured.
const NAMESPACE: &str = "kubevirt";

/// A running virt-controller. It prints its log if the test that holds it fails.
pub(crate) struct VirtController(Process);

impl Cluster {
    /// Serves KubeVirt's kinds, configures it, and runs virt-controller (`tests/cluster/kubevirt`); `None`, after one line, if it
    /// is not built.
    pub(crate) async fn virt_controller(&self) -> Option<VirtController> {
        let program = find_virt_controller().inspect_err(|why| skip(why)).ok()?;
        let client = self.client(Who::Admin).await;
        for definition in kubevirt_definitions() {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let request = http::Request::post(path)
                .header("content-type", "application/yaml")
                .body(definition.into_bytes());
            let made = client.request::<Value>(request.expect("it is a path"));
            made.await.expect("KubeVirt's definitions are taken");
        }
        served(&client, VM).await;
        served(&client, KUBEVIRT).await;
        namespace(&client, NAMESPACE).await;
        let kubevirt = json!({"metadata": {"name": "kubevirt"}, "spec": {}});
        make(&client, KUBEVIRT, NAMESPACE, kubevirt).await;
        let (certificate, key) = self.pki.server();
        let arguments = [
            format!("--kubeconfig={}", self.kubeconfig(Who::Admin).display()),
            "--launcher-image=none".to_owned(),
            "--listen=127.0.0.1".to_owned(),
            format!("--port={}", free_port()),
            format!("--prom-cert-file={}", certificate.display()),
            format!("--prom-key-file={}", key.display()),
        ];
        let dir = self.dir.path();
        let environment = [("NAMESPACE", NAMESPACE)];
        let process = Process::start("virt-controller", &program, &arguments, dir, &environment);
        Some(VirtController(process))
    }
}

impl Drop for VirtController {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.print_log();
        }
    }
}
