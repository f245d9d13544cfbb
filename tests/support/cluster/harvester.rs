//! Harvester's own controllers.

use super::assets::find_harvester_controllers;
use super::process::Process;
use super::{Cluster, DEADLINE, Who, eventually, skip};

/// Running controllers of Harvester v1.8.2. They print their log if the test that holds them fails.
pub(crate) struct HarvesterControllers(Process);

impl Cluster {
    /// Runs these controllers of Harvester (`tests/cluster/harvester`); `None`, after one line, if they are not built.
    pub(crate) fn harvester_controllers(&self, names: &[&str]) -> Option<HarvesterControllers> {
        let program = find_harvester_controllers()
            .inspect_err(|why| skip(why))
            .ok()?;
        let mut arguments = vec![format!(
            "--kubeconfig={}",
            self.kubeconfig(Who::Admin).display()
        )];
        arguments.extend(names.iter().map(|name| (*name).to_owned()));
        let dir = self.dir.path();
        let process = Process::start("harvester", &program, &arguments, dir, &[]);
        Some(HarvesterControllers(process))
    }
}

impl HarvesterControllers {
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
