//! The agenda of the simulated node.

use windrow_model::manifest::{GroupKind, ObjectRef};

/// A future event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Timer {
    /// RKE2 starts on a server and reads its files.
    Start(usize),
    ApiReady(usize),
    /// The next file of a server's deploy controller, or its next pass.
    Deploy(usize),
    /// rancherd's next step on the first node.
    Rancherd(RancherdStep),
    Joined(usize),
    Reboot(usize),
    Established(ObjectRef),
    /// Discovery lists a kind; true if it is namespaced.
    Discovered(Box<GroupKind>, bool),
    /// An object that something outside the manifests creates.
    Appears(Box<ObjectRef>),
    /// A step of the platform's bootstrap.
    Step(usize),
    /// An addition of the scenario.
    Arrival(usize),
    /// Harvester's pod creates its Settings.
    SetAll,
    /// Harvester's storage-network controller handles its Setting.
    StorageNetwork,
    Act(ObjectRef, ControllerStage),
}

/// A controller writes the status of an object twice: when it has seen it, and when it has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControllerStage {
    Seen,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RancherdStep {
    /// Its unit starts.
    Start,
    /// RKE2's parts answer its probes.
    Probes,
    Rancher,
    /// It applies its bootstrap manifests.
    Apply,
    /// Everything that it waits for exists.
    Done,
    /// Its unit starts again, with the machine. Work in progress continues where it was.
    Restart,
}
