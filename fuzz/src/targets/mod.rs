//! The targets.

mod cluster;
mod files;
mod network;
#[cfg(feature = "program")]
mod program;

use super::Target;

/// All of them.
pub fn targets() -> impl Iterator<Item = Target> {
    #[cfg(feature = "program")]
    let program = program::TARGETS;
    #[cfg(not(feature = "program"))]
    let program = &[];
    TARGETS.iter().chain(program).copied()
}

/// Those of the crates.
const TARGETS: &[Target] = &[
    // Files of a person or an image.
    Target {
        name: "manifest",
        run: files::manifest,
    },
    Target {
        name: "user-data",
        run: files::user_data,
    },
    Target {
        name: "settings",
        run: files::settings,
    },
    Target {
        name: "rules",
        run: files::rules,
    },
    Target {
        name: "expression",
        run: files::expression,
    },
    Target {
        name: "rke2-config",
        run: files::rke2_config,
    },
    Target {
        name: "inventory",
        run: files::inventory,
    },
    // What Windrow wrote itself, and may be torn or somebody else's by now.
    Target {
        name: "marker",
        run: files::marker,
    },
    Target {
        name: "ledger",
        run: files::ledger,
    },
    Target {
        name: "flight",
        run: files::flight,
    },
    Target {
        name: "learned",
        run: files::learned,
    },
    Target {
        name: "gate-trial",
        run: files::gate_trial,
    },
    // What a preflight printed on another machine.
    Target {
        name: "machine",
        run: cluster::machine,
    },
    // Texts of a few characters.
    Target {
        name: "words",
        run: files::words,
    },
    // What a cluster or another machine answers.
    Target {
        name: "objects",
        run: cluster::objects,
    },
    Target {
        name: "component",
        run: cluster::component,
    },
    Target {
        name: "gate-note",
        run: cluster::gate_note,
    },
    Target {
        name: "event",
        run: network::event,
    },
    Target {
        name: "packet",
        run: network::packet,
    },
];
