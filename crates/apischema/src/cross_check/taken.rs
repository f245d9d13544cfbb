//! Values that only one object may have: a node port, a cluster IP, the name of the default PriorityClass; and the
//! values that RKE2 allows for Services.

use std::collections::BTreeMap;
use std::net::IpAddr;

use windrow_model::findings::Location;
use windrow_model::manifest::{Object, ObjectRef};
use windrow_model::reasons::Code;
use windrow_plan::SourceMap;
use windrow_plan::rke2::ServiceRanges;

use super::finding;
use super::refusals::{Refusals, in_cluster};

#[derive(Debug, Default)]
pub(super) struct Taken {
    /// By the value, in the order of the files.
    holders: BTreeMap<String, Vec<Holder>>,
    asked: Vec<Asked>,
}

#[derive(Debug)]
struct Holder {
    in_cluster: ObjectRef,
    id: ObjectRef,
    at: Location,
}

/// The values that a Service requests from RKE2's ranges.
#[derive(Debug)]
struct Asked {
    id: ObjectRef,
    field: &'static str,
    value: AskedValue,
    at: Location,
}

#[derive(Debug)]
enum AskedValue {
    Port(i64),
    Address(IpAddr),
    Ipv6,
    BothFamilies,
}

impl Taken {
    pub(super) fn add(&mut self, object: &Object, shown: &SourceMap) {
        let node = &object.node;
        match (object.id.group.as_str(), object.id.kind.as_str()) {
            ("", "Service") => self.add_service(object, shown),
            ("scheduling.k8s.io", "PriorityClass") => {
                let default = node.get("globalDefault");
                if let Some(default) = default.filter(|node| node.as_bool() == Some(true)) {
                    let what = "`globalDefault: true`".to_owned();
                    self.hold(what, object, default.line, shown);
                }
            }
            _ => {}
        }
    }

    fn add_service(&mut self, object: &Object, shown: &SourceMap) {
        let Some(spec) = object.node.get("spec") else {
            return;
        };
        let kind = spec.str_at(&["type"]).unwrap_or("ClusterIP");
        if kind == "ExternalName" {
            return;
        }
        let mut ask = |field, value, line| {
            self.asked.push(Asked {
                id: object.id.clone(),
                field,
                value,
                at: shown.at(Some(line)),
            });
        };
        let headless = spec.str_at(&["clusterIP"]) == Some("None");
        let families = spec.list("ipFamilies");
        let six = families.iter().find(|one| one.as_str() == Some("IPv6"));
        let policy = spec.get("ipFamilyPolicy");
        // A headless one without a selector has the address families of its endpoints.
        if !headless || spec.get("selector").is_some() {
            if let Some(six) = six {
                ask("spec.ipFamilies", AskedValue::Ipv6, six.line);
            } else if let Some(policy) =
                policy.filter(|policy| policy.as_str() == Some("RequireDualStack"))
            {
                ask("spec.ipFamilyPolicy", AskedValue::BothFamilies, policy.line);
            }
        }
        let address = spec.get("clusterIP");
        let parsed = address.and_then(|node| node.as_str()?.parse::<IpAddr>().ok());
        if let Some((node, address)) = address.zip(parsed) {
            ask("spec.clusterIP", AskedValue::Address(address), node.line);
        }
        let mut ports = Vec::new();
        if ["NodePort", "LoadBalancer"].contains(&kind) {
            for port in spec.list("ports") {
                let number = port
                    .get("nodePort")
                    .and_then(|node| node.to_json().as_i64());
                if let Some(number) = number.filter(|number| *number != 0) {
                    let line = port.get("nodePort").map_or(port.line, |node| node.line);
                    ask("spec.ports.nodePort", AskedValue::Port(number), line);
                    let protocol = port.str_at(&["protocol"]).unwrap_or("TCP");
                    ports.push((format!("the node port {number}/{protocol}"), line));
                }
            }
        }
        for (what, line) in ports {
            self.hold(what, object, line, shown);
        }
        if let Some((node, address)) = address.zip(parsed) {
            self.hold(
                format!("the cluster IP {address}"),
                object,
                node.line,
                shown,
            );
        }
    }

    fn hold(&mut self, what: String, object: &Object, line: u32, shown: &SourceMap) {
        let holder = Holder {
            in_cluster: in_cluster(object),
            id: object.id.clone(),
            at: shown.at(Some(line)),
        };
        let all = self.holders.entry(what).or_default();
        if all
            .iter()
            .all(|other| other.in_cluster != holder.in_cluster)
        {
            all.push(holder);
        }
    }

    /// `is_taken`: whether kube-apiserver accepts the object under the name in its manifest, without the others.
    pub(super) fn finish(
        &self,
        ranges: &ServiceRanges,
        is_taken: &impl Fn(&ObjectRef) -> bool,
    ) -> Refusals {
        let mut all = Refusals::default();
        for (thing, holders) in &self.holders {
            let mut holders = holders.iter().filter(|one| is_taken(&one.id));
            let Some(first) = holders.next() else {
                continue;
            };
            for second in holders {
                let (what, other) = (second.id.to_string(), first.id.to_string());
                let words = [("what", &*what), ("other", &*other), ("thing", thing)];
                let code = Code::TakenTwice;
                let at = vec![second.at.clone(), first.at.clone()];
                all.findings.push(finding(code, code.say(&words), at));
                let says = format!("{what} is invalid: {thing} is already that of {other}");
                all.refused.insert(second.id.clone(), says);
            }
        }
        for asked in &self.asked {
            if let Some(why) = asked.outside(ranges).filter(|_| is_taken(&asked.id)) {
                asked.refuse(&why, ranges, &mut all);
            }
        }
        all
    }
}

impl Asked {
    /// The value outside RKE2's ranges; `None` if the ranges are unknown.
    fn outside(&self, ranges: &ServiceRanges) -> Option<String> {
        let networks = ranges.networks.as_ref();
        let lacks =
            |six: bool| networks.is_some_and(|all| all.iter().all(|one| one.is_ipv6() != six));
        match self.value {
            AskedValue::Port(number) => {
                let range = ranges
                    .ports
                    .as_ref()
                    .filter(|range| !range.contains(&number))?;
                let (first, last) = (range.start(), range.end());
                Some(format!(
                    "is not one of RKE2's node ports, {first}-{last}; take one of them, or set service-node-port-range"
                ))
            }
            AskedValue::Address(address) => {
                let inside = networks?.iter().any(|network| network.contains(address));
                (!inside).then(|| {
                    "is not an address in RKE2's service-cidr; take one of it, or none".to_owned()
                })
            }
            AskedValue::Ipv6 => {
                lacks(true).then(|| "asks for IPv6, and RKE2's service-cidr has none".to_owned())
            }
            AskedValue::BothFamilies => (lacks(true) || lacks(false))
                .then(|| "asks for IPv4 and IPv6, and RKE2's service-cidr has one only".to_owned()),
        }
    }

    fn refuse(&self, why: &str, ranges: &ServiceRanges, all: &mut Refusals) {
        let at = vec![self.at.clone()];
        if !ranges.is_known {
            let why = format!("{} {why}", self.field);
            all.may_refuse(&self.id, "RKE2 as it is without a configuration", &why, at);
            return;
        }
        let code = Code::ApiInvalid;
        let object = self.id.to_string();
        let words = [("object", &*object), ("field", self.field), ("why", why)];
        all.findings.push(finding(code, code.say(&words), at));
        let says = format!("{object} is invalid: {}: {why}", self.field);
        all.refused.insert(self.id.clone(), says);
    }
}
