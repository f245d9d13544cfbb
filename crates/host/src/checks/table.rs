//! The rows.

use super::{Judged, Looked, disks, health, machine, network, servers};
use crate::report::RowWeight::{self, Required, Wanted};

/// One row.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) weight: RowWeight,
    /// What has to hold, a sentence.
    pub(super) rule: &'static str,
    /// What to do where it does not.
    pub(super) advice: &'static str,
    pub(super) look: fn(&Judged<'_>) -> Looked,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "configuration",
        weight: Required,
        rule: "Harvester's installer takes the configuration, and reads all of its keys",
        advice: "Mend the line that is named; `windrow check` says the same, and more, without the machine.",
        look: machine::configuration,
    },
    Row {
        name: "architecture",
        weight: Required,
        rule: "the platform is built for this architecture",
        advice: "Take another machine, or the image for this architecture.",
        look: machine::architecture,
    },
    Row {
        name: "cpus",
        weight: Required,
        rule: "there are as many processors as the platform asks for",
        advice: "Check the firmware: cores and hyper-threading can be switched off there.",
        look: machine::cpus,
    },
    Row {
        name: "memory",
        weight: Required,
        rule: "there is as much memory as the platform asks for",
        advice: "Compare with what was ordered: a module that the firmware does not count is not seated, or broken.",
        look: machine::memory,
    },
    Row {
        name: "firmware",
        weight: Required,
        rule: "the machine is booted by what the release supports",
        advice: "Switch the firmware from legacy BIOS to UEFI, before anything is installed.",
        look: machine::firmware,
    },
    Row {
        name: "bare-metal",
        weight: Required,
        rule: "the machine is no virtual machine, which Harvester does not support in production",
        advice: "For a test, set `install.skipchecks: true`.",
        look: machine::bare_metal,
    },
    Row {
        name: "virtualisation",
        weight: Required,
        rule: "virtual machines can run: the processors can, and /dev/kvm is there",
        advice: "Switch on Intel VT-x or AMD-V in the firmware.",
        look: machine::virtualisation,
    },
    Row {
        name: "identity",
        weight: Wanted,
        rule: "the machine has a UUID and a serial number of its own",
        advice: "Have the board's vendor write them; Harvester needs a different product UUID on every node.",
        look: machine::identity,
    },
    Row {
        name: "hostname",
        weight: Required,
        rule: "the node's name is a legal one, and not localhost",
        advice: "Set `os.hostname` (or the machine's host name) to lower-case letters, digits, `-` and `.`, a different one on every node.",
        look: machine::hostname,
    },
    Row {
        name: "install-disk",
        weight: Required,
        rule: "the disks that the installer takes are there and large enough",
        advice: "Name others in `install.device` and `install.dataDisk`.",
        look: disks::install_disk,
    },
    Row {
        name: "disk-kind",
        weight: Wanted,
        rule: "the disks do not turn: etcd and volumes want SSD or NVMe",
        advice: "Put etcd and volumes on SSD or NVMe.",
        look: disks::kind,
    },
    Row {
        name: "etcd-disk",
        weight: Required,
        rule: "99 of 100 writes reach the disk within the time that etcd asks for",
        advice: "Put etcd on a faster disk, or on one that nothing else writes to; check the controller's write cache and its battery.",
        look: disks::fsync,
    },
    Row {
        name: "space",
        weight: Required,
        rule: "there is room where RKE2, etcd and images live: 10% of the space, 5% of the inodes",
        advice: "Make room, or give the directory a file system of its own.",
        look: disks::space,
    },
    Row {
        name: "links",
        weight: Required,
        rule: "the links of the management network are there, each with a cable in it",
        advice: "Check cable and switch port, and the names in `install.managementInterface.interfaces`.",
        look: network::links,
    },
    Row {
        name: "link-speed",
        weight: Required,
        rule: "the links of the management network are as fast as the platform asks for",
        advice: "Check cable, transceiver and the port's setting: a link takes the fastest speed that both ends offer.",
        look: network::speed,
    },
    Row {
        name: "mtu",
        weight: Required,
        rule: "the MTU of the configuration is one that the installer takes",
        advice: "Write an MTU from 576 to 9000 that the switch carries too.",
        look: network::mtu,
    },
    Row {
        name: "default-route",
        weight: Required,
        rule: "there is a default route",
        advice: "Check the DHCP server, or the gateway of the configuration.",
        look: network::default_route,
    },
    Row {
        name: "addresses-free",
        weight: Required,
        rule: "no other machine has the VIP or the node's own address",
        advice: "Take another address, or find the machine by its hardware address.",
        look: network::addresses,
    },
    Row {
        name: "ports-free",
        weight: Required,
        rule: "nothing listens on the ports that the node needs",
        advice: "Stop what listens there: `ss -tulpn` names it.",
        look: network::ports,
    },
    Row {
        name: "name-servers",
        weight: Required,
        rule: "the name servers answer, and know the names of the configuration",
        advice: "Check `os.dnsNameservers` and whether the network lets UDP port 53 through.",
        look: servers::names,
    },
    Row {
        name: "time-servers",
        weight: Required,
        rule: "the time servers answer, and the clock is not more than a second away from them",
        advice: "Check `os.ntpServers`, whether the network lets UDP port 123 through, and the clock in the firmware.",
        look: servers::times,
    },
    Row {
        name: "clock",
        weight: Wanted,
        rule: "the clock is synchronised",
        advice: "Check the time servers.",
        look: health::clock,
    },
    Row {
        name: "join",
        weight: Required,
        rule: "the cluster that is to be joined can be reached",
        advice: "Check `serverUrl`, and whether the cluster is up.",
        look: servers::join,
    },
    Row {
        name: "temperature",
        weight: Required,
        rule: "no sensor is near its critical temperature",
        advice: "Check fans, air filters and the room.",
        look: health::temperatures,
    },
    Row {
        name: "link-errors",
        weight: Wanted,
        rule: "the links lose at most one packet in ten thousand to errors",
        advice: "Change cable or transceiver; try another port.",
        look: health::link_errors,
    },
];
