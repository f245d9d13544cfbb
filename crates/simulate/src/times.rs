//! How long things take in the simulated node: one table.
//!
//! The figures of the deploy controller were measured on the real one. Those of a Harvester bootstrap are modelled and coarse on
//! purpose: only the order of events matters.

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
/// From there until the deploy controller's first pass (start-up hooks, registration of RKE2's own CRDs). Modelled.
pub(super) const DEPLOY_START: Range = (s(2), s(6));
/// From the end of a pass to the next: a constant in k3s `pkg/deploy/controller.go`.
pub(super) const POLL: Duration = s(15);
/// A slow scan of the directory, from its own entries to those of its subdirectories: a busy disk, or a paused process.
pub(super) const SLOW_WALK: Range = (ms(50), s(9));
/// The cost of one file in a pass. Chosen so that eleven files of three objects make seven passes in 110 s, as the real
/// controller does.
pub(super) const PER_FILE: Duration = ms(40);
/// The cost of one object in a pass.
pub(super) const PER_OBJECT: Duration = ms(10);
/// A CustomResourceDefinition until it is Established: kube-apiserver handles one after the other. With the next range, as many
/// files are too early for their kinds as with the real programs: a third to most of those right behind their definitions, few
/// that come two objects later, none that come six later (1 to 25 definitions, a busy machine of two cores).
pub(super) const ESTABLISHED: Range = (ms(6), ms(16));
/// The additional time of a slow definition: kube-apiserver is starved for a moment, or waits for other servers in its count
/// (five seconds: [`SlowDefinitions::COUNTED`](super::SlowDefinitions::COUNTED)).
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
/// virt-controller's first status of a virtual machine. Modelled.
pub(super) const VM_STATUS: Range = (ms(200), s(2));
/// A VM image's import. Modelled.
pub(super) const IMAGE: Range = (s(20), s(120));
/// Any other custom resource until its controller says Ready. Modelled.
pub(super) const CUSTOM: Range = (s(1), s(20));
/// kube-apiserver's first answer until the objects exist that others provide according to a rule pack. Modelled.
pub(super) const PROVIDED: Range = (s(20), s(240));
/// Each step of a platform's bootstrap is late by up to this much. Modelled.
pub(super) const STEP_LATE: Range = (s(0), s(45));
/// Harvester's pod until it creates its Settings. Modelled.
pub(super) const SET_ALL: Range = (s(5), s(20));
/// First back-off of a crash-looping pod; doubles up to [`BACK_OFF_MAX`] (kubelet's habit).
pub(super) const BACK_OFF: Duration = s(10);
/// Longest back-off of a crash-looping pod.
pub(super) const BACK_OFF_MAX: Duration = s(300);
/// The start of Harvester's controllers until the one of the storage network checks the volumes. It tries at once; while
/// Longhorn's own setting is missing it fails, and tries again after up to two minutes (the default of `rancher/lasso`).
/// Modelled.
pub(super) const STORAGE_NETWORK_LOOK: Range = (s(1), s(120));
/// From one check of attached volumes to the next: `rancher/lasso`, after 30 failures.
pub(super) const STORAGE_NETWORK_AGAIN: Duration = s(120);
/// Longhorn's setting names a storage network until its condition `configured` is True. Modelled.
pub(super) const STORAGE_NETWORK: Range = (s(30), s(120));
/// From power-on, or a reboot's end, until RKE2 reads its files. Modelled.
pub(super) const START: Duration = s(5);
/// The first server's kube-apiserver until that of a joining server. Modelled.
pub(super) const JOIN: Range = (s(60), s(180));
/// The end of Harvester's start until it has promoted a joined node to a server; one after the other. Modelled.
pub(super) const PROMOTE: Range = (s(120), s(300));
/// A reboot: from the stop to RKE2's start. Modelled.
pub(super) const REBOOT: Range = (s(60), s(240));
/// kube-apiserver's first answer until rancherd's other probes are answered. Modelled.
pub(super) const PROBES: Duration = s(15);
/// The start of Rancher until its webhook answers as well. Modelled.
pub(super) const RANCHER_WEBHOOK: Duration = s(15);
/// rancherd restarts Fleet until it applies its bootstrap manifests. Modelled.
pub(super) const FLEET: Duration = s(10);
/// From one attempt of rancherd to apply them to the next. Modelled.
pub(super) const APPLY_AGAIN: Duration = s(15);
/// From their application until the last object exists that rancherd waits for. Modelled.
pub(super) const PROVISIONED: Duration = s(30);
