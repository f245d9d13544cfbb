//! helm-controller: the real one, in the versions that Harvester has inside RKE2's server.

use super::assets::{HelmVersion, find_helm_controller};
use super::process::Process;
use super::{Cluster, Who, skip};

/// A running helm-controller. It prints its log if the test that holds it fails.
pub(crate) struct HelmController(Process);

impl Cluster {
    /// Runs helm-controller for all namespaces, with the arguments that k3s gives it; `None`, after one line, when it
    /// is not here. It makes its kinds itself (HelmChart, HelmChartConfig). For anything to come of its Jobs the
    /// cluster needs kube-controller-manager.
    pub(crate) fn helm_controller(&self, version: HelmVersion) -> Option<HelmController> {
        let program = find_helm_controller(version)
            .inspect_err(|why| skip(why))
            .ok()?;
        let arguments = [
            format!("--kubeconfig={}", self.kubeconfig(Who::Admin).display()),
            "--controller-name=helm-controller".to_owned(),
            "--job-cluster-role=cluster-admin".to_owned(),
            "--default-job-image=rancher/klipper-helm:test".to_owned(),
        ];
        let dir = self.dir.path();
        let process = Process::start("helm-controller", &program, &arguments, dir, &[]);
        Some(HelmController(process))
    }
}

impl HelmController {
    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }
}

impl Drop for HelmController {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.print_log();
        }
    }
}
