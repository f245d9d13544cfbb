//! Asks a probe, whether built in or configured, and keeps the memory of each.

use std::sync::Arc;

use windrow_decide::ProbeInterest;
use windrow_gates::Component;
use windrow_plan::readiness::node::{NodeRole, ProbeLimit, ProbeOutcome, limit_of};
use windrow_plan::rke2::KubeletHealth;

use super::answer::ProbeAnswer;
use super::context::ProbeContext;
use super::looks::Looks;
use super::{
    addons, certificates, cluster, components, custom, hardware, harvester, host, longhorn,
    own_node, platform, rancherd, unit, upgrade, webhooks,
};

/// The facts that the probes depend on. When they change, other probes run.
#[derive(Clone, PartialEq)]
pub(super) struct ProbedNode {
    pub(super) interest: ProbeInterest,
    pub(super) role: NodeRole,
    pub(super) name: String,
    pub(super) kubelet: KubeletHealth,
}

impl ProbedNode {
    /// Whether each question is answered in the same way on the other node. That the node is installed only ends the
    /// probes of day 0, and that it joined is a part of its role.
    pub(super) fn is_asked_like(&self, other: &Self) -> bool {
        let interest = ProbeInterest {
            installed: other.interest.installed,
            joined: other.interest.joined,
            ..self.interest.clone()
        };
        let before = Self {
            interest,
            ..self.clone()
        };
        before == *other
    }
}

/// Asks probes, and keeps their memory between questions.
pub(super) struct Prober {
    context: Arc<ProbeContext>,
    vip: harvester::VipMemory,
    unit: unit::RestartMemory,
    upgrade: upgrade::SignMemory,
    heartbeats: own_node::HeartbeatMemory,
    kubelet: components::KubeletMemory,
    webhooks: webhooks::WebhookMemory,
    links: Arc<hardware::LinkMemory>,
    looks: Looks,
}

impl Prober {
    pub(super) fn new(context: Arc<ProbeContext>) -> Self {
        Self {
            context,
            vip: harvester::VipMemory::default(),
            unit: unit::RestartMemory::default(),
            upgrade: upgrade::SignMemory::default(),
            heartbeats: own_node::HeartbeatMemory::default(),
            kubelet: components::KubeletMemory::default(),
            webhooks: webhooks::WebhookMemory::default(),
            links: Arc::default(),
            looks: Looks::default(),
        }
    }

    /// Asks the question of a probe ([`question_of`](windrow_plan::readiness::node::question_of)).
    pub(super) async fn ask(&self, probed: &ProbedNode, probe: &str) -> ProbeAnswer {
        let ProbedNode {
            interest,
            role,
            name,
            kubelet,
        } = probed;
        let (role, node, kind) = (*role, name.as_str(), interest.platform);
        let (context, vip) = (&*self.context, &self.vip);
        let mut custom = interest.custom.iter();
        if let Some(custom) = custom.find(|custom| custom.id().as_str() == probe) {
            let outcome = custom::ask(context, &self.looks, role, node, custom).await;
            return outcome.into();
        }
        match probe {
            "vip" => harvester::vip_answers(context, vip, role, node).await,
            "vip-join" => {
                let port = context.endpoints.vip_join;
                let outcome = harvester::vip_port(context, vip, role, node, port).await;
                outcome.into()
            }
            "dhcp-client-clash" => harvester::dhcp_clash(context, vip).into(),
            "rke2-installed" => unit::installed(context, role).await.into(),
            "rke2-service" => unit::service(context, &self.unit, &self.upgrade, role, kind).await,
            "supervisor" => components::supervisor(context).await.into(),
            "etcd" => components::etcd(context).await.into(),
            "apiserver" => cluster::apiserver(context, role, node).await.into(),
            "kubelet" => components::kubelet(context, &self.kubelet, kubelet)
                .await
                .into(),
            "node" => {
                cluster::own_node(context, &self.upgrade, &self.heartbeats, role, node, kind).await
            }
            "controller-manager" => {
                let component = Component::KubeControllerManager;
                components::control_loop(context, component, node)
                    .await
                    .into()
            }
            "scheduler" => {
                let component = Component::KubeScheduler;
                components::control_loop(context, component, node)
                    .await
                    .into()
            }
            "rancherd" => rancherd::bootstrapped(context).await.into(),
            "system-upgrade-controller" => platform::upgrade_controller(context, node).await.into(),
            "cluster-provisioned" => platform::local_cluster(context, node).await.into(),
            "charts" => platform::charts(context, node).await.into(),
            "kubevirt" => platform::kubevirt(context, node).await.into(),
            "longhorn-node" => longhorn::node(context, node).await,
            "rancher" => cluster::rancher(context, node).await.into(),
            "managed-chart" => cluster::managed_chart(context, node).await.into(),
            "harvester" => harvester::ready(context, vip, role, node).await.into(),
            "webhook" => webhooks::answer(context, &self.webhooks, node).await.into(),
            "settings" => cluster::settings(context, node).await,
            "storage-network" => cluster::storage_network(context, node).await.into(),
            "addons" => addons::settled(context, node).await.into(),
            "clock" => host::clock(context).await.into(),
            other => self.look(interest, other).await.into(),
        }
    }

    async fn look(&self, interest: &ProbeInterest, probe: &str) -> ProbeOutcome {
        let limit = limit_of(probe, &interest.tunings);
        let (context, links) = (self.context.clone(), self.links.clone());
        let look: fn(&ProbeContext, &hardware::LinkMemory, Option<ProbeLimit>) -> ProbeOutcome =
            match probe {
                "default-route" => |context, _, _| host::default_route(context),
                "nic-carrier" => |context, _, _| host::carrier(context),
                "certificates" => |context, _, limit| certificates::expiry(context, limit),
                "disk-space" => |context, _, limit| host::disk(context, host::Scarce::Space, limit),
                "disk-inodes" => {
                    |context, _, limit| host::disk(context, host::Scarce::Inodes, limit)
                }
                "memory" => |context, _, limit| host::memory(context, limit),
                "load" => |context, _, limit| host::load(context, limit),
                "temperature" => |context, _, limit| hardware::temperature(context, limit),
                "link-errors" => hardware::link_errors,
                "hardware" => |context, _, _| hardware::hardware(context),
                other => return ProbeOutcome::unknown(other, "this version cannot ask it"),
            };
        self.looks
            .look(probe, move || look(&context, &links, limit))
            .await
    }

    /// Reads in another way, for a test: the kernel's own files do not hang.
    #[cfg(test)]
    pub(super) async fn look_as(
        &self,
        probe: &str,
        look: impl FnOnce() -> ProbeOutcome + Send + 'static,
    ) -> ProbeOutcome {
        self.looks.look(probe, look).await
    }

    #[cfg(test)]
    pub(super) fn is_looking(&self, probe: &str) -> bool {
        self.looks.is_under_way(probe)
    }
}
