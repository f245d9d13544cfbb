//! KubeVirt's own control plane, of v1.7.0: virt-operator, virt-api and virt-controller, and the definitions of its kinds.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kube::Client;
use serde_json::{Value, json};

use super::super::daemon::can_mount;
use super::super::objects::{
    DEPLOYMENT, Gvk, KUBEVIRT, SERVICE_ACCOUNT, VM, make, namespace, node, served,
};
use super::assets::{find_kubevirt, kubevirt_definitions};
use super::pods::Pods;
use super::process::Process;
use super::{Cluster, DEADLINE, Who, eventually, free_port, skip};

/// Where KubeVirt is configured without Harvester.
const NAMESPACE: &str = "kubevirt";
const PRIORITY: Gvk = ("scheduling.k8s.io", "v1", "PriorityClass");
const BINDING: Gvk = ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding");

/// A running virt-controller. It prints its log if the test that holds it fails.
pub(crate) struct VirtController(Process);

/// KubeVirt as it is installed: its operator makes everything, and its programs run where the test lets their pods run. The programs
/// print their logs if the test that holds the value fails.
pub(crate) struct KubeVirt {
    client: Client,
    pods: Pods,
}

impl Cluster {
    /// Serves KubeVirt's kinds, configures it, and runs virt-controller without virt-operator; `None`, after one line, if it is not
    /// built.
    pub(crate) async fn virt_controller(&self) -> Option<VirtController> {
        let program = find_kubevirt("virt-controller")
            .inspect_err(|why| skip(why))
            .ok()?;
        let client = self.client(Who::Admin).await;
        for definition in kubevirt_definitions().into_values() {
            define(&client, definition).await;
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

    /// Applies what KubeVirt's release consists of, in this namespace: the kind KubeVirt and virt-operator. There is no object yet, and
    /// no program runs. `None`, after one line, if it is not built or this process may not mount. Needs [`super::Spec::pods`] and the
    /// controllers.
    pub(crate) async fn kubevirt(&self, release: &'static str) -> Option<KubeVirt> {
        let programs = programs()?;
        let client = self.client(Who::Admin).await;
        let mut definitions = kubevirt_definitions();
        let of_kubevirt = definitions.remove("kubevirts.kubevirt.io");
        define(&client, of_kubevirt.expect("its definition is written")).await;
        served(&client, KUBEVIRT).await;
        let labels =
            json!({"kubernetes.io/os": "linux", "node-role.kubernetes.io/control-plane": "true"});
        node(&client, "n1", labels, json!([])).await;
        namespace(&client, release).await;
        let priority =
            json!({"metadata": {"name": "kubevirt-cluster-critical"}, "value": 1_000_000_000});
        make(&client, PRIORITY, "", priority).await;
        let account = json!({"metadata": {"name": "kubevirt-operator"}});
        make(&client, SERVICE_ACCOUNT, release, account).await;
        // The release lists what it may do; here it may do everything.
        let binding = json!({"metadata": {"name": "kubevirt-operator"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "kubevirt-operator", "namespace": release}]});
        make(&client, BINDING, "", binding).await;
        make(&client, DEPLOYMENT, release, virt_operator()).await;
        Some(KubeVirt {
            pods: Pods::new(self, &client, release, programs),
            client,
        })
    }

    /// The pods of a namespace into which a chart brings virt-operator. `None` as for [`Cluster::kubevirt`].
    pub(crate) async fn kubevirt_of_chart(&self, release: &'static str) -> Option<KubeVirt> {
        let programs = programs()?;
        let client = self.client(Who::Admin).await;
        Some(KubeVirt {
            pods: Pods::new(self, &client, release, programs),
            client,
        })
    }
}

/// KubeVirt's programs, by the first word of their pods' commands; `None`, after one line, if one is not built or this process may not
/// mount.
fn programs() -> Option<BTreeMap<&'static str, PathBuf>> {
    let mut programs = BTreeMap::new();
    for name in ["virt-operator", "virt-api", "virt-controller"] {
        let program = find_kubevirt(name).inspect_err(|why| skip(why)).ok()?;
        programs.insert(name, program);
    }
    can_mount().then_some(programs)
}

/// virt-operator, as `NewOperatorDeployment` in KubeVirt's `components/deployments.go` makes it.
fn virt_operator() -> Value {
    let labels = json!({"kubevirt.io": "virt-operator"});
    json!({"metadata": {"name": "virt-operator", "labels": labels},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"priorityClassName": "kubevirt-cluster-critical", "serviceAccountName": "kubevirt-operator",
                "containers": [{"name": "virt-operator", "image": IMAGE,
                    "command": ["virt-operator"], "args": ["--port", "8443", "-v", "2"],
                    // The one of its webhooks: it listens there last.
                    "ports": [{"name": "webhooks", "containerPort": 8444}, {"name": "metrics", "containerPort": 8443}],
                    "env": [{"name": "VIRT_OPERATOR_IMAGE", "value": IMAGE}, {"name": "KUBEVIRT_VERSION", "value": "v1.7.0"}]}]}}}})
}

const IMAGE: &str = "quay.io/kubevirt/virt-operator:v1.7.0";

async fn define(client: &Client, definition: String) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let request = http::Request::post(path)
        .header("content-type", "application/yaml")
        .body(definition.into_bytes());
    let made = client.request::<Value>(request.expect("it is a path"));
    made.await.expect("KubeVirt's definitions are taken");
}

impl KubeVirt {
    /// The command of the Job in which virt-operator lists the objects that it is going to create.
    pub(crate) const STRATEGY: &str = "virt-operator --dump-install-strategy";

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Pods with this command may run from now on.
    pub(crate) fn run(&mut self, command: &'static str) {
        self.pods.pull(command);
    }

    /// Waits for something, while the kubelet acts.
    pub(crate) async fn until<T>(
        &mut self,
        what: &str,
        mut look: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let pods = &mut self.pods;
        eventually(what, DEADLINE, async || {
            pods.play().await;
            look().await
        })
        .await
    }
}

impl Drop for KubeVirt {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.pods.print_logs();
        }
    }
}

impl Drop for VirtController {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.print_log();
        }
    }
}
