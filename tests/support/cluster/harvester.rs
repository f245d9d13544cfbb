//! Harvester's own controllers and its own webhook, of v1.8.2, and the webhooks of its network-controller and of Longhorn.

use std::fs;
use std::path::Path;

use futures::future::join_all;
use kube::Client;
use serde_json::Value;
use tokio::process::Command;

use super::super::objects::{
    ADDON, CAPI_CLUSTER, CLUSTER_NETWORK, Gvk, KUBEVIRT, MACHINE, MANAGED_CHART, MUTATION, NETWORK,
    SETTING, UPGRADE, VERSION, VLAN_CONFIG, VLAN_STATUS, VM, VM_BACKUP, VMI, VMI_MIGRATION, VOLUME,
    api, serve_published,
};
use super::assets::find_harvester;
use super::process::Process;
use super::{Cluster, DEADLINE, Who, eventually, skip};

/// Running controllers. They print their log if the test that holds them fails.
pub(crate) struct HarvesterControllers(Process);

/// A running webhook. It prints its log if the test that holds it fails.
pub(crate) struct HarvesterWebhook {
    process: Process,
    /// What it registers last.
    configuration: &'static str,
}

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
    (NETWORK, "Namespaced"),
    (
        ("snapshot.storage.k8s.io", "v1", "VolumeSnapshotClass"),
        "Cluster",
    ),
    (VOLUME, "Namespaced"),
    (("longhorn.io", "v1beta2", "Node"), "Namespaced"),
    (CLUSTER_NETWORK, "Cluster"),
    (VLAN_CONFIG, "Cluster"),
    (VLAN_STATUS, "Cluster"),
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

/// The kinds of Longhorn that its webhook lists before it answers.
const LISTED_BY_LONGHORN: &[&str] = &[
    "BackingImage",
    "BackingImageDataSource",
    "BackingImageManager",
    "Backup",
    "BackupBackingImage",
    "BackupTarget",
    "BackupVolume",
    "Engine",
    "EngineImage",
    "InstanceManager",
    "Node",
    "Orphan",
    "RecurringJob",
    "Replica",
    "Setting",
    "ShareManager",
    "Snapshot",
    "SupportBundle",
    "SystemBackup",
    "SystemRestore",
    "Volume",
    "VolumeAttachment",
];

const fn harvesters(kind: &'static str) -> Gvk {
    ("harvesterhci.io", "v1beta1", kind)
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
        let webhook = self.start_harvester_webhook()?;
        webhook.registered(&self.client(Who::Admin).await).await;
        Some(webhook)
    }

    /// The same, while kinds may be missing that it waits for.
    pub(crate) fn start_harvester_webhook(&self) -> Option<HarvesterWebhook> {
        self.start_webhook("webhook", "harvester-mutator")
    }

    /// Runs the webhook of Harvester's network-controller (v1.7.1) in the same way. It waits for the kinds of its group, of KubeVirt and
    /// of networks, which Harvester's webhook lists, too.
    pub(crate) async fn network_webhook(&self) -> Option<HarvesterWebhook> {
        let webhook = self.start_webhook("networks", "harvester-network-webhook")?;
        webhook.registered(&self.client(Who::Admin).await).await;
        Some(webhook)
    }

    /// Serves Longhorn's kinds, as they are published, and runs its webhook (v1.10.0) in the same way.
    pub(crate) async fn longhorn_webhook(&self) -> Option<HarvesterWebhook> {
        let client = self.client(Who::Admin).await;
        let served = LISTED_BY_LONGHORN
            .iter()
            .map(|kind| serve_published(&client, ("longhorn.io", "v1beta2", kind), "Namespaced"));
        join_all(served).await;
        let webhook = self.start_webhook("longhorn", "longhorn-webhook-mutator")?;
        webhook.registered(&client).await;
        Some(webhook)
    }

    fn start_webhook(
        &self,
        program: &str,
        configuration: &'static str,
    ) -> Option<HarvesterWebhook> {
        let (certificate, key) = self.pki.server();
        let arguments = [
            self.admin_argument(),
            format!("--certificate={}", certificate.display()),
            format!("--key={}", key.display()),
            format!("--ca={}", self.pki.ca().display()),
        ];
        let process = self.start_harvester(program, &arguments)?;
        Some(HarvesterWebhook {
            process,
            configuration,
        })
    }

    /// Installs one of Harvester's charts by Helm's own code, as Fleet does: `harvester-crd` or `harvester`. Returns why it failed.
    pub(crate) async fn install_harvesters_chart(
        &self,
        name: &str,
        values: &Value,
    ) -> Option<Result<(), String>> {
        let program = find_harvester("install")
            .inspect_err(|why| skip(why))
            .ok()?;
        let file = self.dir().join(format!("{name}.values.yaml"));
        fs::write(&file, values.to_string()).expect("the cluster's directory is writable");
        let charts = program.with_file_name("charts");
        let log = self.dir().join(format!("{name}.install.log"));
        let output = fs::File::create(&log).expect("the cluster's directory is writable");
        let installed = Command::new(&program)
            .arg(self.admin_argument())
            .args([Path::new(name), &charts.join(name), &file])
            .stdout(output.try_clone().expect("a file can be opened twice"))
            .stderr(output)
            .kill_on_drop(true)
            .status();
        let installed = installed.await.expect("the program starts");
        let log = fs::read_to_string(log).expect("it was written");
        Some(if installed.success() {
            Ok(())
        } else {
            Err(log)
        })
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

impl HarvesterWebhook {
    /// Waits until it has registered itself.
    pub(crate) async fn registered(&self, client: &Client) {
        let (configurations, name) = (api(client, MUTATION, ""), self.configuration);
        eventually(&format!("{name} is registered"), DEADLINE, async || {
            assert!(!self.process.ended(), "the webhook of {name} has ended");
            configurations.get(name).await.ok()
        })
        .await;
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
            self.process.print_log();
        }
    }
}
