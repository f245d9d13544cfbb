//! How long things take in the simulated node: one table.
//!
//! The figures of the deploy controller are what was seen of the real one; those of a Harvester
//! bootstrap are modelled, coarse on purpose: what matters is which thing comes before which.

use std::time::Duration;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A shortest and a longest time; the seed draws one between them.
pub(super) type Range = (Duration, Duration);

/// RKE2's start until kube-apiserver answers `/readyz`. Modelled.
pub(super) const API_READY: Range = (s(35), s(50));
/// From there until the deploy controller's first pass (start-up hooks, registration of RKE2's own
/// CRDs). Modelled.
pub(super) const DEPLOY_START: Range = (s(2), s(6));
/// From the end of a pass to the next: a constant in k3s `pkg/deploy/controller.go`.
pub(super) const POLL: Duration = s(15);
/// A slow look at the directory, from its own entries to those of the directories below it: a busy disk, or a process that stood still.
pub(super) const SLOW_WALK: Range = (ms(50), s(9));
/// What one file costs a pass. Chosen so that eleven files of three objects make seven passes in
/// 110 s, as the real controller does.
pub(super) const PER_FILE: Duration = ms(40);
/// What one object costs a pass.
pub(super) const PER_OBJECT: Duration = ms(10);
/// A CustomResourceDefinition until it is Established: kube-apiserver takes one after the other. With the next range this makes as many
/// files too early for their kinds as were seen with the real parts: a third to most of those right behind their definitions, few that come
/// two objects later, none that come six later (1 to 25 definitions, a busy machine of two cores).
pub(super) const ESTABLISHED: Range = (ms(6), ms(16));
/// What a slow definition takes beside that: kube-apiserver is starved for a moment, or waits for others that were counted (five seconds:
/// [`SlowDefinitions::COUNTED`](super::SlowDefinitions::COUNTED)).
pub(super) const SLOW_DEFINITION: Range = (ms(50), ms(5_100));
/// From Established until discovery lists the kind.
pub(super) const DISCOVERED: Range = (ms(20), ms(60));
/// A workload until its pods run. Modelled.
pub(super) const WORKLOAD: Range = (s(4), s(60));
/// A HelmChart until its Job exists. Modelled.
pub(super) const HELM_JOB: Range = (ms(500), s(3));
/// A Job until it is complete. Modelled.
pub(super) const JOB: Range = (s(5), s(60));
/// A claim until it is bound. Modelled.
pub(super) const CLAIM: Range = (s(1), s(8));
/// A Service of type LoadBalancer until it has its address. Modelled.
pub(super) const ADDRESS: Range = (s(1), s(10));
/// A virtual machine whose parts are all there, until it runs. Modelled.
pub(super) const VM_START: Range = (s(10), s(60));
/// virt-controller's first word about a virtual machine. Modelled.
pub(super) const VM_STATUS: Range = (ms(200), s(2));
/// A VM image's import. Modelled.
pub(super) const IMAGE: Range = (s(20), s(120));
/// Any other custom resource until its controller says Ready. Modelled.
pub(super) const CUSTOM: Range = (s(1), s(20));
/// kube-apiserver's first answer until what a rule pack says that others provide is there. Modelled.
pub(super) const PROVIDED: Range = (s(20), s(240));
/// Each step of a platform's bootstrap is late by up to this much. Modelled.
pub(super) const STEP_LATE: Range = (s(0), s(45));
/// Harvester's pod until it creates its Settings. Modelled.
pub(super) const SET_ALL: Range = (s(5), s(20));
/// First back-off of a crash-looping pod; doubles up to [`BACK_OFF_MAX`] (kubelet's habit).
pub(super) const BACK_OFF: Duration = s(10);
/// Longest back-off of a crash-looping pod.
pub(super) const BACK_OFF_MAX: Duration = s(300);
/// Harvester's controllers run until the one of the storage network gets as far as looking at the volumes. It
/// is tried at once; while Longhorn's own setting is not there it fails, and is tried again after up to two
/// minutes (the default of `rancher/lasso`). Modelled.
pub(super) const STORAGE_NETWORK_LOOK: Range = (s(1), s(120));
/// From one look at volumes that are attached to the next: `rancher/lasso`, after 30 failures.
pub(super) const STORAGE_NETWORK_AGAIN: Duration = s(120);
/// Longhorn's setting names a storage network until its condition `configured` is True. Modelled.
pub(super) const STORAGE_NETWORK: Range = (s(30), s(120));
/// From power-on, or a reboot's end, until RKE2 reads its files. Modelled.
pub(super) const START: Duration = s(5);
/// The first server's kube-apiserver until that of one that joins it. Modelled.
pub(super) const JOIN: Range = (s(60), s(180));
/// Harvester has come up until it has made a joined node a server; one after the other. Modelled.
pub(super) const PROMOTE: Range = (s(120), s(300));
/// A reboot: from the stop to RKE2's start. Modelled.
pub(super) const REBOOT: Range = (s(60), s(240));
/// kube-apiserver's first answer until rancherd's other probes are answered. Modelled.
pub(super) const PROBES: Duration = s(15);
/// Rancher runs until its webhook answers as well. Modelled.
pub(super) const RANCHER_WEBHOOK: Duration = s(15);
/// rancherd restarts Fleet until it applies its bootstrap manifests. Modelled.
pub(super) const FLEET: Duration = s(10);
/// From one try of rancherd to apply them to the next. Modelled.
pub(super) const APPLY_AGAIN: Duration = s(15);
/// They are applied until the last thing that rancherd waits for is there. Modelled.
pub(super) const PROVISIONED: Duration = s(30);
