//! What the simulated node has on its agenda.

use windrow_model::manifest::{GroupKind, ObjectRef};

/// Something that will happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Timer {
    /// RKE2 starts on a server and reads its files.
    Start(usize),
    /// A server's kube-apiserver answers.
    ApiReady(usize),
    /// The next file of a server's deploy controller, or its next pass.
    Deploy(usize),
    /// rancherd's next step on the first node.
    Rancherd(RancherdStep),
    /// A node has joined as an agent.
    Joined(usize),
    /// A server is restarted.
    Reboot(usize),
    /// A CustomResourceDefinition becomes Established.
    Established(ObjectRef),
    /// Discovery lists a kind; true when it is namespaced.
    Discovered(Box<GroupKind>, bool),
    /// An object that something outside the manifests makes.
    Appears(Box<ObjectRef>),
    /// A step of the platform's bootstrap.
    Step(usize),
    /// Something that the scenario brings.
    Arrival(usize),
    /// Harvester's pod creates its Settings.
    SetAll,
    /// Harvester's storage-network controller gets to its Setting.
    StorageNetwork,
    /// A controller gets to an object.
    Act(ObjectRef, ControllerStage),
}

/// A controller speaks twice about an object: when it has seen it, and when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControllerStage {
    /// It has seen the object.
    Seen,
    /// It is done with it.
    Done,
}

/// What rancherd does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RancherdStep {
    /// Its unit starts.
    Start,
    /// RKE2's parts answer its probes.
    Probes,
    /// Rancher is up.
    Rancher,
    /// It applies its bootstrap manifests.
    Apply,
    /// All that it waits for is there.
    Done,
    /// Its unit starts once more, with the machine. What was under way goes on where it was.
    Restart,
}
