//! The table of checks.

use windrow_model::checks::CheckOutcome::{self, Fail, Warn};
use windrow_model::checks::CheckResult;

use super::{Judged, disks, health, machine, network, servers};

pub(super) struct Row {
    pub(super) name: &'static str,
    /// The outcome if the requirement is not met. If it is `Warn`, an unknown outcome does not count.
    pub(super) broken: CheckOutcome,
    /// The requirement, as a sentence.
    pub(super) rule: &'static str,
    /// The action if the requirement is not met.
    pub(super) advice: &'static str,
    pub(super) look: fn(&Judged<'_>) -> CheckResult,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "configuration",
        broken: Fail,
        rule: "Harvester's installer accepts the configuration and knows all of its keys",
        advice: "Fix this line. `windrow check` finds the same errors and more, without the machine.",
        look: machine::configuration,
    },
    Row {
        name: "architecture",
        broken: Fail,
        rule: "the platform is built for this architecture",
        advice: "Use another machine, or the image for this architecture.",
        look: machine::architecture,
    },
    Row {
        name: "cpus",
        broken: Fail,
        rule: "there are enough processors for the platform",
        advice: "Check the firmware: cores and hyper-threading can be switched off there.",
        look: machine::cpus,
    },
    Row {
        name: "memory",
        broken: Fail,
        rule: "there is enough memory for the platform",
        advice: "Compare with the order: a module that the firmware does not count is loose or broken.",
        look: machine::memory,
    },
    Row {
        name: "firmware",
        broken: Fail,
        rule: "the release supports the firmware of the machine",
        advice: "Switch the firmware from legacy BIOS to UEFI, before anything is installed.",
        look: machine::firmware,
    },
    Row {
        name: "bare-metal",
        broken: Fail,
        rule: "the machine is not a virtual machine, which Harvester does not support in production",
        advice: "For a test, set `install.skipchecks: true`.",
        look: machine::bare_metal,
    },
    Row {
        name: "virtualisation",
        broken: Fail,
        rule: "virtual machines can run: the processors support them, and /dev/kvm exists",
        advice: "Switch on Intel VT-x or AMD-V in the firmware.",
        look: machine::virtualisation,
    },
    Row {
        name: "identity",
        broken: Warn,
        rule: "the machine has a unique UUID and serial number",
        advice: "Ask the board's vendor to set them; Harvester needs a different product UUID on every node.",
        look: machine::identity,
    },
    Row {
        name: "hostname",
        broken: Fail,
        rule: "the node's name is valid, and not localhost",
        advice: "Set `os.hostname` (or the machine's host name) to lower-case letters, digits, `-` and `.`, a different one on every node.",
        look: machine::hostname,
    },
    Row {
        name: "install-disk",
        broken: Fail,
        rule: "the disks for the installation exist and are large enough",
        advice: "Set other disks in `install.device` and `install.dataDisk`.",
        look: disks::install_disk,
    },
    Row {
        name: "disk-kind",
        broken: Warn,
        rule: "the disks are not rotational: etcd and volumes need SSD or NVMe",
        advice: "Put etcd and volumes on SSD or NVMe.",
        look: disks::kind,
    },
    Row {
        name: "etcd-disk",
        broken: Fail,
        rule: "99 of 100 writes reach the disk within the time that etcd requires",
        advice: "Put etcd on a faster disk, or on one that nothing else writes to; check the controller's write cache and its battery.",
        look: disks::fsync,
    },
    Row {
        name: "space",
        broken: Fail,
        rule: "the directories of RKE2, etcd and images have 10% of their space and 5% of their inodes free",
        advice: "Free some space, or put the directory on a separate file system.",
        look: disks::space,
    },
    Row {
        name: "links",
        broken: Fail,
        rule: "the links of the management network exist, each with a connected cable",
        advice: "Check cable and switch port, and the names in `install.managementInterface.interfaces`.",
        look: network::links,
    },
    Row {
        name: "link-speed",
        broken: Fail,
        rule: "the links of the management network are as fast as the platform requires",
        advice: "Check cable, transceiver and the port's setting: a link uses the highest speed that both ends support.",
        look: network::speed,
    },
    Row {
        name: "mtu",
        broken: Fail,
        rule: "the installer accepts the MTU of the configuration",
        advice: "Set an MTU from 576 to 9000 that the switch carries too.",
        look: network::mtu,
    },
    Row {
        name: "default-route",
        broken: Fail,
        rule: "there is a default route",
        advice: "Check the DHCP server, or the gateway of the configuration.",
        look: network::default_route,
    },
    Row {
        name: "addresses-free",
        broken: Fail,
        rule: "no other machine has the VIP or the node's own address",
        advice: "Use another address, or find the machine by its hardware address.",
        look: network::addresses,
    },
    Row {
        name: "ports-free",
        broken: Fail,
        rule: "nothing listens on the ports that the node needs",
        advice: "Stop the program that listens there: `ss -tulpn` shows it.",
        look: network::ports,
    },
    Row {
        name: "name-servers",
        broken: Fail,
        rule: "the name servers answer, and know the names of the configuration",
        advice: "Check `os.dnsNameservers` and whether the network lets UDP port 53 through.",
        look: servers::names,
    },
    Row {
        name: "time-servers",
        broken: Fail,
        rule: "the time servers answer, and the clock is not more than a second away from them",
        advice: "Check `os.ntpServers`, whether the network lets UDP port 123 through, and the clock in the firmware.",
        look: servers::times,
    },
    Row {
        name: "clock",
        broken: Warn,
        rule: "the clock is synchronised",
        advice: "Check the time servers.",
        look: health::clock,
    },
    Row {
        name: "join",
        broken: Fail,
        rule: "the cluster to join can be reached",
        advice: "Check `serverUrl`, and whether the cluster is up.",
        look: servers::join,
    },
    Row {
        name: "temperature",
        broken: Fail,
        rule: "no sensor is near its critical temperature",
        advice: "Check fans, air filters and the room.",
        look: health::temperatures,
    },
    Row {
        name: "link-errors",
        broken: Warn,
        rule: "the links lose at most one packet in ten thousand to errors",
        advice: "Change cable or transceiver; try another port.",
        look: health::link_errors,
    },
];
