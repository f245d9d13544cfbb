//! What virt-api's webhooks refuse of a VirtualMachine, and kube-apiserver's definition of the kind does not.
//!
//! Source: kubevirt/kubevirt v1.2.2 (Harvester v1.4) to v1.7.4 (v1.8): `pkg/virt-api/webhooks/validating-webhook/admitters`
//! (`vms-admitter.go`, `vmi-create-admitter.go`), `pkg/network/admitter`, `pkg/storage/admitters`. A rule is the same in all of these
//! unless it says from which release of Harvester on. The rules were compared with the functions themselves on 1,645 generated objects.

mod domain;
mod harvester;
mod networks;
mod storage;

use windrow_model::grammars::{is_dns_label, is_subdomain};
use windrow_model::manifest::{Node, Object};
use windrow_plan::rules::Platform;

use crate::problem::{Problem, ProblemKind};
use crate::release::MinorRelease;

pub(crate) fn is_one(object: &Object) -> bool {
    object.id.group == "kubevirt.io" && object.id.kind == "VirtualMachine"
}

/// The problems of a VirtualMachine; none for other kinds.
pub(crate) fn judge(
    object: &Object,
    platform: Option<Platform>,
    release: Option<MinorRelease>,
) -> Vec<Problem> {
    let Some(spec) = object.node.get("spec").filter(|_| is_one(object)) else {
        return Vec::new();
    };
    let mut judged = Judged {
        problems: Vec::new(),
        on_harvester: platform == Some(Platform::Harvester),
        release,
        has_hotplug: object
            .annotation("harvesterhci.io/enableCPUAndMemoryHotplug")
            .is_some_and(|(value, _)| value == "true"),
        has_preference: has(spec, "preference") || has(spec, "instancetype"),
    };
    if let Some(strategy) = spec.get("runStrategy")
        && judged.on_harvester
        && strategy.as_str() == Some("WaitAsReceiver")
    {
        let why = "Harvester does not enable the feature gate that `WaitAsReceiver` needs";
        judged.add(strategy, "spec.runStrategy", why);
    }
    if let Some(of) = spec.get("instancetype").filter(|node| !node.is_null())
        && judged.has_later_rules()
    {
        let why = "Harvester sets processors and memory of every VM itself, and KubeVirt then refuses an instance type";
        judged.add(of, "spec.instancetype", why);
    }
    if let Some(template) = spec.get("template") {
        judged.template(template);
        if let Some(machine) = template.get("spec") {
            judged.machine(machine, has(spec, "instancetype"));
            judged.data_volume_templates(spec, machine);
            if judged.on_harvester {
                judged.of_harvester(object, machine);
            }
        }
    }
    judged.problems
}

struct Judged {
    problems: Vec<Problem>,
    on_harvester: bool,
    /// Harvester's.
    release: Option<MinorRelease>,
    /// Harvester then leaves the most sockets to KubeVirt.
    has_hotplug: bool,
    /// A preference may set what the VM does not.
    has_preference: bool,
}

/// Problems of the definition that virt-api's mutating webhook, which runs before the definition counts, corrects: quantities with a
/// fraction (`mutators/vm-mutator.go` writes `spec` as Go reads it).
pub(crate) fn is_corrected(object: &Object, problem: &Problem) -> bool {
    let of = [".resources.limits", ".resources.requests"];
    is_one(object)
        && problem.kind == ProblemKind::WrongType
        && of.iter().any(|of| problem.field.contains(of))
        && problem.message.ends_with("is a number")
}

impl Judged {
    /// Harvester from v1.7 on.
    fn has_later_rules(&self) -> bool {
        self.on_harvester && !self.is_before((1, 7))
    }

    /// Whether it is certainly an older release of Harvester.
    fn is_before(&self, release: MinorRelease) -> bool {
        self.release.is_some_and(|own| own < release)
    }

    fn add(&mut self, node: &Node, field: &str, why: &str) {
        self.problems.push(Problem {
            kind: ProblemKind::Invalid,
            line: node.line,
            field: field.to_owned(),
            message: format!("is not valid: {why}"),
            // It is another program that refuses it.
            refusal: None,
        });
    }

    fn template(&mut self, template: &Node) {
        for kind in ["labels", "annotations"] {
            let entries = template
                .at(&["metadata", kind])
                .map_or(&[][..], Node::entries);
            for entry in entries {
                if !entry.value.is_null() && entry.value.as_str().is_none() {
                    let field = format!("spec.template.metadata.{kind}");
                    self.add(&entry.value, &field, "it is not a string");
                }
            }
        }
    }

    fn machine(&mut self, spec: &Node, of_instancetype: bool) {
        self.networks(spec);
        self.volumes(spec);
        self.disks(spec);
        self.boot_order(spec);
        self.domain(spec, of_instancetype);
        let at = |field: &str| format!("spec.template.spec.{field}");
        if let Some(name) = text(spec, "hostname").filter(|name| !is_dns_label(name.1)) {
            let why = "a host name has only lower-case letters, digits and `-`, and at most 63 characters";
            self.add(name.0, &at("hostname"), why);
        }
        if let Some(name) = text(spec, "subdomain").filter(|name| !is_subdomain(name.1)) {
            self.add(name.0, &at("subdomain"), "it is not a DNS subdomain");
        }
        if let Some(strategy) = spec.get("evictionStrategy").filter(|node| !node.is_null()) {
            let words = ["External", "LiveMigrate", "LiveMigrateIfPossible", "None"];
            self.one_of(strategy, &at("evictionStrategy"), &words);
        }
        if let Some((policy, _)) = text(spec, "dnsPolicy") {
            let words = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
            self.one_of(policy, &at("dnsPolicy"), &words);
        }
        let has_pods = spec
            .list("networks")
            .iter()
            .any(|network| has(network, "pod"))
            || (spec.list("networks").is_empty() && interfaces(spec).is_empty());
        for name in ["livenessProbe", "readinessProbe"] {
            let Some(probe) = spec.get(name).filter(|node| !node.is_null()) else {
                continue;
            };
            let handlers = ["exec", "guestAgentPing", "httpGet", "tcpSocket"];
            let set: Vec<&str> = handlers.into_iter().filter(|one| has(probe, one)).collect();
            if set.len() != 1 {
                let why = format!("it needs exactly one of {}", handlers.join(", "));
                self.add(probe, &at(name), &why);
            } else if !has_pods && ["httpGet", "tcpSocket"].contains(&set[0]) {
                let why =
                    "a probe over the network needs the pod network, which this VM does not have";
                self.add(probe, &at(name), why);
            }
        }
    }

    /// One set of numbers for disks and interfaces.
    fn boot_order(&mut self, spec: &Node) {
        let mut known = std::collections::HashSet::new();
        let disks = devices(spec, "disks").iter().map(|disk| (disk, "disks"));
        for (device, list) in disks.chain(interfaces(spec).iter().map(|one| (one, "interfaces"))) {
            let Some(order) = device.get("bootOrder").filter(|node| !node.is_null()) else {
                continue;
            };
            let field = format!("spec.template.spec.domain.devices.{list}[].bootOrder");
            match order.to_json().as_u64() {
                Some(number) if number > u64::from(u32::MAX) => {
                    self.add(order, &field, "it is too large");
                }
                Some(0) | None => self.add(order, &field, "the first one is 1"),
                Some(number) if !known.insert(number) => {
                    self.add(order, &field, "two devices have the same number");
                }
                Some(_) => {}
            }
        }
    }

    fn one_of(&mut self, node: &Node, field: &str, words: &[&str]) {
        if !node.as_str().is_some_and(|text| words.contains(&text)) {
            self.add(node, field, &format!("write one of {}", words.join(", ")));
        }
    }
}

/// Whether the field is there and not null.
fn has(node: &Node, field: &str) -> bool {
    node.get(field).is_some_and(|value| !value.is_null())
}

/// A text that is not empty.
fn text<'n>(node: &'n Node, field: &str) -> Option<(&'n Node, &'n str)> {
    let value = node.get(field)?;
    Some((value, value.as_str().filter(|text| !text.is_empty())?))
}

fn devices<'n>(spec: &'n Node, list: &str) -> &'n [Node] {
    let devices = spec.at(&["domain", "devices"]);
    devices.map_or(&[], |devices| devices.list(list))
}

fn interfaces(spec: &Node) -> &[Node] {
    devices(spec, "interfaces")
}

#[cfg(test)]
mod tests;
