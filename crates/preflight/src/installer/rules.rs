//! The checks of the installer after it has read a configuration (harvester-installer pkg/console/validator.go and util.go, alike
//! in v1.4.0 to v1.8.2 but for the settings).
//!
//! The kernel's command line overrides the file, and can add missing values. These checks assume that a value in the file is in
//! force.

use windrow_harvester::HarvesterVersion;
use windrow_harvester::versions::Fact;
use windrow_model::grammars::{is_subdomain, label_key_error, label_value_error};
use windrow_model::manifest::{MapEntry, Node, NodeValue};
use windrow_model::suggest::Slip;
use windrow_plan::rke2::kubelet_flag_fault;

use super::arguments::KernelArguments;
use super::bond;
use super::chart_values;
use super::disks;
use super::remark::{Remark, RemarkKind, Remarks};
use super::values;
use super::webhooks;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Create,
    Join,
    /// Only the image is installed, or upgraded.
    Other,
    /// The file has no mode, or an unknown one.
    Unsaid,
}

const MODES: [&str; 4] = ["create", "join", "install", "upgrade"];
const ROLES: [&str; 4] = ["default", "management", "witness", "worker"];
const METHODS: [&str; 2] = ["dhcp", "static"];
const VIP_MODES: [&str; 3] = ["dhcp", "static", "none"];

/// Checks a configuration for a release. Its keys are as that release reads them.
pub(super) fn check(
    root: &Node,
    release: HarvesterVersion,
    arguments: Option<&KernelArguments>,
    remarks: &mut Remarks,
) {
    let os = entry(root, "os").map(|entry| &entry.value);
    let install = entry(root, "install").map(|entry| &entry.value);
    let mut checker = Checker {
        root,
        os,
        install,
        management: install
            .and_then(|install| entry(install, "managementInterface"))
            .map(|entry| &entry.value),
        mode: Mode::Unsaid,
        missing: Vec::new(),
        arguments,
        remarks,
    };
    checker.modes();
    checker.node();
    webhooks::check(install, checker.remarks);
    if checker.mode != Mode::Other {
        checker.remarks.extend(disks::remarks(install, release));
        chart_values::check(install, checker.remarks);
        checker.witness();
        checker.network(release);
        checker.token();
        checker.vip();
        checker.settings(release);
        checker.addons(release);
        checker.cluster_networks();
        checker.addresses();
        checker.what_is_missing();
    }
}

pub(super) struct Checker<'n, 'r> {
    pub(super) root: &'n Node,
    pub(super) os: Option<&'n Node>,
    pub(super) install: Option<&'n Node>,
    pub(super) management: Option<&'n Node>,
    pub(super) mode: Mode,
    /// Values that an automatic installation needs and the file does not have: parameters of the kernel's command line.
    pub(super) missing: Vec<&'static str>,
    pub(super) arguments: Option<&'n KernelArguments>,
    pub(super) remarks: &'r mut Remarks,
}

pub(super) fn entry<'n>(section: &'n Node, key: &str) -> Option<&'n MapEntry> {
    section.entry(key)
}

/// A string of the configuration; `None` for an empty one.
pub(super) fn text<'n>(section: Option<&'n Node>, key: &str) -> Option<(&'n str, u32)> {
    let entry = entry(section?, key)?;
    let text = entry.value.as_str().filter(|text| !text.is_empty())?;
    Some((text, entry.line))
}

pub(super) fn is_set(section: Option<&Node>, key: &str) -> bool {
    let entry = section.and_then(|section| entry(section, key));
    entry.is_some_and(|entry| match &entry.value.value {
        NodeValue::Null => false,
        NodeValue::String(text) => !text.is_empty(),
        NodeValue::Sequence(items) => !items.is_empty(),
        NodeValue::Mapping(entries) => !entries.is_empty(),
        NodeValue::Bool(_) | NodeValue::Number(_) => true,
    })
}

pub(super) fn is_true(value: &Node) -> bool {
    match &value.value {
        NodeValue::Bool(is_true) => *is_true,
        NodeValue::String(text) => text == "true",
        _ => false,
    }
}

impl<'n> Checker<'n, '_> {
    pub(super) fn refuse(&mut self, line: u32, why: impl Into<String>) {
        self.remarks.push(Remark::refused(line, why));
    }

    /// A value that is rejected if the node begins a cluster.
    pub(super) fn refuse_to_create(&mut self, line: u32, why: &str) {
        match self.mode {
            Mode::Create => self.refuse(line, why),
            Mode::Unsaid => self.remarks.push(Remark {
                line,
                kind: RemarkKind::Depends,
                why: format!("if `install.mode` is create it refuses this; {why}"),
            }),
            Mode::Join | Mode::Other => {}
        }
    }

    pub(super) fn needs(&mut self, section: Option<&Node>, key: &str, parameter: &'static str) {
        if !is_set(section, key) {
            self.missing.push(parameter);
        }
    }

    fn modes(&mut self) {
        let Some((mode, line)) = text(self.install, "mode") else {
            return self.missing.push("install.mode");
        };
        self.mode = match mode {
            "create" => Mode::Create,
            "join" => Mode::Join,
            "install" | "upgrade" => Mode::Other,
            _ => {
                let why = unknown("install.mode", mode, &MODES, "write create or join");
                self.refuse(line, why);
                Mode::Unsaid
            }
        };
        let server = text(Some(self.root), "serverUrl");
        match (self.mode, server) {
            (Mode::Create, Some((_, line))) => self.refuse(
                line,
                "`server_url` is the cluster that a node joins, and `install.mode` is create; remove it, or write join",
            ),
            (Mode::Join, None) => self.missing.push("server_url"),
            _ => {}
        }
    }

    fn node(&mut self) {
        if let Some((url, line)) =
            text(Some(self.root), "serverUrl").filter(|_| self.mode != Mode::Create)
            && let Some(why) = values::server_url_error(url)
        {
            self.refuse(line, format!("`server_url` is refused; {why}"));
        }
        if let Some((role, line)) = text(self.install, "role")
            && !ROLES.contains(&role)
        {
            self.refuse(
                line,
                unknown(
                    "install.role",
                    role,
                    &ROLES,
                    "write default, management, witness or worker",
                ),
            );
        }
        if let Some((name, line)) = text(self.os, "hostname")
            && !is_subdomain(name)
        {
            self.refuse(
                line,
                "`os.hostname` is not a valid node name: use only lower-case letters, digits, `-` and `.`, and begin and end each \
                 part with a letter or digit (RFC 1123)",
            );
        }
        let labels = self.os.and_then(|os| entry(os, "labels"));
        for label in labels.map_or(&[][..], |labels| labels.value.entries()) {
            self.label(label);
        }
        if self.mode == Mode::Other {
            return;
        }
        let paths = self.os.and_then(|os| entry(os, "persistentStatePaths"));
        for node in paths.map_or(&[][..], |paths| match &paths.value.value {
            NodeValue::Sequence(items) => items,
            _ => std::slice::from_ref(&paths.value),
        }) {
            if let Some(why) = node.as_str().and_then(values::state_path_error) {
                self.refuse(
                    node.line,
                    format!("a path of `os.persistent_state_paths` is refused; {why}"),
                );
            }
        }
    }

    fn witness(&mut self) {
        if let Some(("witness", line)) = text(self.install, "role") {
            let why = "a witness runs only etcd (its taint node-role.kubernetes.io/etcd keeps all other pods away), so Rancher and \
                       Harvester never start on the first node; let the witness join";
            self.overlook(line, why.to_owned());
        }
    }

    fn label(&mut self, label: &MapEntry) {
        let key = &label.key;
        if let Some(why) = label_key_error(key) {
            self.refuse(label.line, format!("`{key}` is not a valid label; {why}"));
        }
        let value = label.value.as_str().map(str::trim);
        if let Some(why) = value.and_then(label_value_error) {
            self.refuse(
                label.line,
                format!("the value of the label `{key}` is not valid; {why}"),
            );
        } else if label_key_error(key).is_none()
            // The installer writes `kubelet-arg: node-labels=…` (pkg/config/config.go, GetKubeletArgs).
            && let Some(why) = kubelet_flag_fault("node-labels", &format!("{key}={}", value.unwrap_or_default()))
        {
            self.remarks.push(Remark {
                line: label.line,
                kind: RemarkKind::Overlooked,
                why: format!("the kubelet does not start: {why}"),
            });
        }
    }

    fn network(&mut self, release: HarvesterVersion) {
        let management = self.management;
        let interfaces = management.and_then(|management| entry(management, "interfaces"));
        let interfaces = interfaces.map_or(&[][..], |interfaces| interfaces.value.items());
        if interfaces.is_empty() {
            self.missing.push("install.management_interface.interfaces");
        }
        let is_read = |one: &&Node| one.is_null() || matches!(one.value, NodeValue::Mapping(_));
        for interface in interfaces.iter().filter(is_read) {
            let set = |key: &str| is_set(Some(interface), key);
            let hardware = text(Some(interface), "hwAddr").filter(|_| !set("name"));
            match hardware {
                Some((address, line)) if !values::is_hardware_address(address) => self.refuse(
                    line,
                    "`hwAddr` is not a valid hardware address; write it like 52:54:00:12:34:56",
                ),
                None if !set("name") && !set("hwAddr") => {
                    self.refuse(
                        interface.line,
                        "an interface without `name` and `hwAddr`; write one of them",
                    );
                }
                _ => {}
            }
        }
        if let Some(vlan) = management.and_then(|management| entry(management, "vlanId"))
            && whole(&vlan.value).is_some_and(|vlan| !values::VLANS.contains(&vlan))
        {
            self.refuse(
                vlan.line,
                "`vlan_id` must be from 1 to 4094; 0 means no VLAN",
            );
        }
        self.bond(release);
        let Some((method, line)) = text(management, "method") else {
            return self.missing.push("install.management_interface.method");
        };
        let method = method.to_lowercase();
        match method.as_str() {
            "static" => self.fixed_address(),
            "dhcp" => {}
            _ => self.refuse(
                line,
                unknown(
                    "install.management_interface.method",
                    &method,
                    &METHODS,
                    "write dhcp or static",
                ),
            ),
        }
    }

    fn bond(&mut self, release: HarvesterVersion) {
        let Some(management) = self.management else {
            return;
        };
        let faults = bond::faults(management).into_iter();
        self.remarks
            .extend(faults.map(|bond::BondFault { line, kind, why }| Remark { line, kind, why }));
        let options = entry(management, "bondOptions").map(|options| &options.value);
        if let Some((bond::LACP, line)) = bond::mode(options) {
            self.slow_bond(line, release);
        }
    }

    /// A bond that is up only after the switch has agreed, and an installer that checks only once whether the network is up. In
    /// an automatic installation with a static address it does not set up the network itself.
    fn slow_bond(&mut self, line: u32, release: HarvesterVersion) {
        let is_static = text(self.management, "method")
            .is_some_and(|(method, _)| method.eq_ignore_ascii_case("static"));
        let kind = match (self.automatic(), is_static) {
            (Some(_), true) => return,
            (Some(_), false) => RemarkKind::Depends,
            (None, _) => RemarkKind::Asks,
        };
        if Fact::NetworkAskedOnce.holds(release).assumed() {
            self.remarks.push(Remark {
                line,
                kind,
                why: "from v1.7.0 on it ends with `exit status 1` where the switch has not agreed on 802.3ad within moments \
                      (harvester#10885); try again with `lacp_rate: fast`, or install with active-backup"
                    .to_owned(),
            });
        }
    }

    fn fixed_address(&mut self) {
        let management = self.management;
        for (key, called, parameter) in [
            ("ip", "ip", "install.management_interface.ip"),
            (
                "subnetMask",
                "subnet_mask",
                "install.management_interface.subnet_mask",
            ),
            ("gateway", "gateway", "install.management_interface.gateway"),
        ] {
            match text(management, key) {
                None => self.needs(management, key, parameter),
                Some((address, _)) if values::is_ipv4(address) => {}
                Some((address, line)) => {
                    let hint = match (key, address.contains('/')) {
                        ("ip", true) => "; write only the address, and the mask as `subnet_mask`",
                        ("subnetMask", _) => "; write it like 255.255.255.0",
                        _ => "",
                    };
                    self.refuse(
                        line,
                        format!("`{called}` is not a valid IPv4 address{hint}"),
                    );
                }
            }
        }
        self.needs(self.os, "dnsNameservers", "os.dns_nameservers");
        if let Some(mtu) = management.and_then(|management| entry(management, "mtu"))
            && let Some(length) = whole(&mtu.value).filter(|length| *length != 0)
            && !u32::try_from(length).is_ok_and(|length| values::MTU.contains(&length))
        {
            let (least, most) = (values::MTU.start(), values::MTU.end());
            self.refuse(
                mtu.line,
                format!("`mtu` is {length}, and from {least} to {most} is taken"),
            );
        }
    }

    fn token(&mut self) {
        self.needs(Some(self.root), "token", "token");
        if let Some((token, line)) = text(Some(self.root), "token")
            && !values::is_token(token)
        {
            self.refuse(
                line,
                "`token` has a character outside printable ASCII, or more than one line; a block of text (`|`) ends in a \
                 line break",
            );
        }
        let keys = is_set(self.os, "sshAuthorizedKeys");
        if !keys {
            self.needs(self.os, "password", "os.password");
        }
    }

    fn vip(&mut self) {
        let install = self.install;
        let mode = text(install, "vipMode").map(|(mode, line)| (mode.to_lowercase(), line));
        let begins = self.mode == Mode::Create;
        let is_dhcp = match &mode {
            None => {
                if begins {
                    self.missing.push("install.vip_mode");
                }
                return;
            }
            Some((mode, line)) if !VIP_MODES.contains(&mode.as_str()) => {
                let why = unknown("install.vip_mode", mode, &VIP_MODES, "write dhcp or static");
                return self.refuse_to_create(*line, &why);
            }
            Some((mode, _)) => mode == "dhcp",
        };
        let (vip, hardware) = (text(install, "vip"), text(install, "vipHwAddr"));
        // If one is missing, it asks the DHCP server for both.
        if is_dhcp && (vip.is_none() || hardware.is_none()) {
            return;
        }
        match vip {
            None if begins => self.needs(install, "vip", "install.vip"),
            Some((vip, line)) if !values::is_ipv4(vip) => {
                self.refuse_to_create(line, "`install.vip` is not a valid IPv4 address");
            }
            _ => {}
        }
        if let Some((address, line)) = hardware.filter(|_| is_dhcp)
            && !values::is_hardware_address(address)
        {
            let why = "`install.vip_hw_addr` is not a valid hardware address";
            self.refuse_to_create(line, why);
        }
    }

    /// A value that is passed on if the node begins a cluster.
    pub(super) fn overlook(&mut self, line: u32, why: String) {
        let (kind, before) = match self.mode {
            Mode::Create => (RemarkKind::Overlooked, ""),
            Mode::Unsaid => (RemarkKind::Depends, "if `install.mode` is create: "),
            Mode::Join | Mode::Other => return,
        };
        let why = format!("{before}{why}");
        self.remarks.push(Remark { line, kind, why });
    }

    /// The entry that requests an automatic installation.
    pub(super) fn automatic(&self) -> Option<&'n MapEntry> {
        let automatic = self.install.and_then(|install| entry(install, "automatic"));
        automatic.filter(|automatic| is_true(&automatic.value))
    }
}

/// A whole number, or a string that contains one.
pub(super) fn whole(value: &Node) -> Option<i64> {
    match &value.value {
        NodeValue::Number(number) => number.as_i64(),
        NodeValue::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

pub(super) fn unknown(path: &str, written: &str, names: &[&str], write: &str) -> String {
    match Slip::find(written, names.iter().copied()) {
        Some(slip) => format!("`{path}`: {slip}"),
        None => format!("`{path}` is not valid; {write}"),
    }
}
