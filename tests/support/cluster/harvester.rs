//! Harvester's own controllers and its own webhook, of v1.8.2.

use futures::future::join_all;

use super::super::objects::{
    ADDON, CAPI_CLUSTER, Gvk, KUBEVIRT, MACHINE, MANAGED_CHART, MUTATION, SETTING, UPGRADE,
    VERSION, VM, VM_BACKUP, VMI, VMI_MIGRATION, VOLUME, api, serve_published,
};
use super::assets::find_harvester;
use super::process::Process;
use super::{Cluster, DEADLINE, Who, eventually, skip};

/// Running controllers. They print their log if the test that holds them fails.
pub(crate) struct HarvesterControllers(Process);

/// The running webhook. It prints its log if the test that holds it fails.
pub(crate) struct HarvesterWebhook(Process);

/// The kinds that the webhook lists before it answers, with their scopes. While one of them is not served, it waits without a word.
pub(crate) const LISTED_BY_WEBHOOK: &[(Gvk, &str)] = &[
    (SETTING, "Cluster"),
    (ADDON, "Namespaced"),
    (UPGRADE, "Namespaced"),
    (VERSION, "Namespaced"),
    (VM_BACKUP, "Namespaced"),
    (harvesters("KeyPair"), "Namespaced"),
    (harvesters("ScheduleVMBackup"), "Namespaced"),
    (harvesters("UpgradeLog"), "Namespaced"),
    (harvesters("VirtualMachineImage"), "Namespaced"),
    (harvesters("VirtualMachineRestore"), "Namespaced"),
    (harvesters("VirtualMachineTemplate"), "Namespaced"),
    (harvesters("VirtualMachineTemplateVersion"), "Namespaced"),
    (VM, "Namespaced"),
    (VMI, "Namespaced"),
    (VMI_MIGRATION, "Namespaced"),
    (KUBEVIRT, "Namespaced"),
    (
        ("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition"),
        "Namespaced",
    ),
    (
        ("snapshot.storage.k8s.io", "v1", "VolumeSnapshotClass"),
        "Cluster",
    ),
    (VOLUME, "Namespaced"),
    (("longhorn.io", "v1beta2", "Node"), "Namespaced"),
    (networks("ClusterNetwork"), "Cluster"),
    (networks("VlanConfig"), "Cluster"),
    (networks("VlanStatus"), "Cluster"),
    (MANAGED_CHART, "Namespaced"),
    (("management.cattle.io", "v3", "Feature"), "Cluster"),
    (CAPI_CLUSTER, "Namespaced"),
    (MACHINE, "Namespaced"),
    (("fleet.cattle.io", "v1alpha1", "Cluster"), "Namespaced"),
    (loggings("Flow"), "Namespaced"),
    (loggings("Output"), "Namespaced"),
    (loggings("ClusterFlow"), "Namespaced"),
    (loggings("ClusterOutput"), "Namespaced"),
];

const fn harvesters(kind: &'static str) -> Gvk {
    ("harvesterhci.io", "v1beta1", kind)
}

const fn networks(kind: &'static str) -> Gvk {
    ("network.harvesterhci.io", "v1beta1", kind)
}

const fn loggings(kind: &'static str) -> Gvk {
    ("logging.banzaicloud.io", "v1beta1", kind)
}

impl Cluster {
    /// Runs these controllers of Harvester (`tests/cluster/harvester`); `None`, after one line, if they are not built.
    pub(crate) fn harvester_controllers(&self, names: &[&str]) -> Option<HarvesterControllers> {
        let mut arguments = vec![self.admin_argument()];
        arguments.extend(names.iter().map(|name| (*name).to_owned()));
        let process = self.start_harvester("controllers", &arguments)?;
        Some(HarvesterControllers(process))
    }

    /// Serves the kinds of [`LISTED_BY_WEBHOOK`], as they are published.
    pub(crate) async fn serve_kinds_of_harvesters_webhook(&self) {
        let client = self.client(Who::Admin).await;
        let served = LISTED_BY_WEBHOOK
            .iter()
            .map(|(gvk, scope)| serve_published(&client, *gvk, scope));
        join_all(served).await;
    }

    /// Runs Harvester's webhook (`tests/cluster/harvester`), and waits until it has registered itself; `None`, after one line, if it is
    /// not built.
    pub(crate) async fn harvester_webhook(&self) -> Option<HarvesterWebhook> {
        let (certificate, key) = self.pki.server();
        let arguments = [
            self.admin_argument(),
            format!("--certificate={}", certificate.display()),
            format!("--key={}", key.display()),
            format!("--ca={}", self.pki.ca().display()),
        ];
        let process = self.start_harvester("webhook", &arguments)?;
        let webhook = HarvesterWebhook(process);
        let configurations = api(&self.client(Who::Admin).await, MUTATION, "");
        // It makes this one last.
        eventually("Harvester's webhook is registered", DEADLINE, async || {
            assert!(!webhook.0.ended(), "Harvester's webhook has ended");
            configurations.get("harvester-mutator").await.ok()
        })
        .await;
        Some(webhook)
    }

    fn admin_argument(&self) -> String {
        format!("--kubeconfig={}", self.kubeconfig(Who::Admin).display())
    }

    fn start_harvester(&self, program: &str, arguments: &[String]) -> Option<Process> {
        let path = find_harvester(program).inspect_err(|why| skip(why)).ok()?;
        let name = format!("harvester-{program}");
        Some(Process::start(
            &name,
            &path,
            arguments,
            self.dir.path(),
            &[],
        ))
    }
}

impl HarvesterControllers {
    /// What they wrote so far.
    pub(crate) fn log(&self) -> String {
        self.0.log()
    }

    /// Waits until they have handled this version of a Node.
    pub(crate) async fn handled(&self, node: &str, version: &str) {
        let line = format!("handled Node {node} {version}\n");
        eventually(
            &format!("Harvester has handled {node}"),
            DEADLINE,
            async || self.0.log().contains(&line).then_some(()),
        )
        .await;
    }
}

impl Drop for HarvesterControllers {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.print_log();
        }
    }
}

impl Drop for HarvesterWebhook {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.print_log();
        }
    }
}
