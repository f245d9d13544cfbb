//! Reports from the field: the observations, the verdict of Harvester's console, and Windrow's verdict. The console's verdict
//! follows from its code (`pkg/console/dashboard_panels.go`) for the same observations.

use windrow_model::reasons::Code;

use super::*;

struct Recorded {
    issue: &'static str,
    role: NodeRole,
    /// Whether the node was set up in an earlier boot.
    installed: bool,
    /// The probes that did not pass, in the order of observation, with their outcomes.
    seen: &'static [(&'static str, Seen)],
    console: &'static str,
    ours: (Readiness, Code),
}

enum Seen {
    Failed(&'static str),
    Refused(&'static str),
    Passed,
}

use Seen::{Failed, Passed, Refused};

const RECORDED: &[Recorded] = &[
    // The URL was shown as Ready and answered 503: the object existed, but Harvester was not up.
    Recorded {
        issue: "harvester#2022",
        role: NodeRole::FirstServer,
        installed: false,
        seen: &[("harvester", Failed("HTTP 503"))],
        console: "Ready",
        ours: (Readiness::SettingUp, Code::HarvesterNotReady),
    },
    // The same bootstrap two minutes later.
    Recorded {
        issue: "harvester#2022, later",
        role: NodeRole::FirstServer,
        installed: false,
        seen: &[("harvester", Failed("HTTP 503")), ("harvester", Passed)],
        console: "Ready",
        ours: (Readiness::Ready, Code::NodeReady),
    },
    // The kubelet's credential had expired: the console read Unauthorized as NotReady.
    Recorded {
        issue: "harvester#2481",
        role: NodeRole::JoinedServer,
        installed: true,
        seen: &[("node", Refused("401 Unauthorized"))],
        console: "NotReady",
        ours: (Readiness::Unknown, Code::ProbeUnknown),
    },
    // A feature request: show the state of a node, from outside and before there is a credential. The console showed the
    // existence of the Node object as Ready although its kubelet was NotReady.
    Recorded {
        issue: "harvester#5303",
        role: NodeRole::Agent,
        installed: false,
        seen: &[(
            "node",
            Failed("KubeletNotReady: cni plugin not initialized"),
        )],
        console: "Ready",
        ours: (Readiness::SettingUp, Code::NodeNotReady),
    },
    // The condition of the ManagedChart had another structure, so the console showed `Setting up Harvester` forever.
    Recorded {
        issue: "harvester#6690",
        role: NodeRole::FirstServer,
        installed: true,
        seen: &[("managed-chart", Failed("Modified(1)"))],
        console: "Setting up Harvester",
        ours: (Readiness::Ready, Code::NodeReady),
    },
    // The console read a refused list of pods as NotReady. Windrow requests no pods here.
    Recorded {
        issue: "harvester#7963",
        role: NodeRole::JoinedServer,
        installed: false,
        seen: &[],
        console: "NotReady",
        ours: (Readiness::Ready, Code::NodeReady),
    },
    // If a request were refused, this would be the verdict.
    Recorded {
        issue: "harvester#7963, refused",
        role: NodeRole::Agent,
        installed: false,
        seen: &[(
            "node",
            Refused("403: node 'n1' cannot read 'n2', only its own Node object"),
        )],
        console: "NotReady",
        ours: (Readiness::Unknown, Code::ProbeUnknown),
    },
    // A healthy cluster after a reboot; Fleet has reported Modified since a deployment was edited.
    Recorded {
        issue: "harvester#8655",
        role: NodeRole::FirstServer,
        installed: true,
        seen: &[("managed-chart", Failed("Modified(1)"))],
        console: "Setting up Harvester",
        ours: (Readiness::Ready, Code::NodeReady),
    },
    // On day 0 the same probe prevents Ready.
    Recorded {
        issue: "harvester#8655, day 0",
        role: NodeRole::FirstServer,
        installed: false,
        seen: &[("managed-chart", Failed("NotReady(1)"))],
        console: "Setting up Harvester",
        ours: (Readiness::SettingUp, Code::ChartNotReady),
    },
];

#[test]
fn every_report_is_judged_as_it_should_have_been() {
    for report in RECORDED {
        let mut node = Node::harvester(report.role);
        if report.installed {
            node.passes_but(&[]);
            assert_eq!(node.judge().readiness, Readiness::Ready);
            node.boots(report.role, "boot-2");
        }
        let others: Vec<&str> = report.seen.iter().map(|(probe, _)| *probe).collect();
        node.passes_but(&others);
        for (probe, seen) in report.seen {
            let outcome = match seen {
                Failed(why) => ProbeOutcome::failed(*why),
                Refused(why) => ProbeOutcome::unknown("GET the own Node", *why),
                Passed => ProbeOutcome::Passed,
            };
            node.settles(probe, &outcome);
        }
        let judged = node.judge();
        assert_eq!(
            (judged.readiness, judged.code),
            report.ours,
            "{} (the console said {})",
            report.issue,
            report.console
        );
    }
}

#[test]
fn the_console_and_this_judgement_differ_in_every_report_but_those_it_had_right() {
    let same: Vec<&str> = RECORDED
        .iter()
        .filter(|report| {
            let ours = match report.ours.0 {
                Readiness::Ready | Readiness::Degraded => "Ready",
                Readiness::SettingUp => "Setting up Harvester",
                Readiness::Failed => "NotReady",
                Readiness::Unknown => "",
            };
            ours == report.console
        })
        .map(|report| report.issue)
        .collect();
    assert_eq!(same, ["harvester#2022, later", "harvester#8655, day 0"]);
}
