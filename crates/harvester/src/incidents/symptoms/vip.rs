//! The Service that has Harvester's VIP. kube-vip announces the VIP for a Service of type LoadBalancer only (harvester#11440).
//!
//! Harvester makes `ingress-expose` a LoadBalancer if the VIP is enabled, and from v1.9 on uses RKE2's own `rke2-traefik` if that exists
//! (harvester v1.9.0-rc6 `pkg/controller/master/rancher/register.go`, `registerExposeService`).

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::{Clock, WORKLOAD_NOT_AVAILABLE, subject};
use crate::incidents::finding::IncidentFinding;
use crate::objects::{ObjectKind, Objects, Unlisted, items, text};
use crate::upgrade::time;

const SERVICES: [&str; 2] = ["rke2-traefik", "ingress-expose"];

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let config = objects.get(ObjectKind::CONFIG_MAP, "harvester-system", "vip")?;
    let Some(config) = config.filter(|config| is_wanted(config)) else {
        return Ok(Vec::new());
    };
    let services = objects.all(ObjectKind::SERVICE)?;
    // Every cluster has Services there: a list without any is that of other namespaces.
    let is_there = |service: &Value| text(service, "/metadata/namespace") == "kube-system";
    if !services.iter().any(is_there) {
        return Ok(Vec::new());
    }
    let candidates: Vec<&Value> = services
        .iter()
        .filter(|service| SERVICES.contains(&text(service, "/metadata/name")))
        .collect();
    let vip = text(config, "/data/ip");
    let is_fixed = text(config, "/data/mode") != "dhcp";
    let wanted: Option<IpAddr> = vip.parse().ok().filter(|_| is_fixed);
    if candidates.iter().any(|service| has_vip(service, wanted)) {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    // A Service has no time of its last change.
    let all = candidates.iter().copied().chain([config]);
    let made = all.filter_map(|one| time(one, "/metadata/creationTimestamp"));
    if !clock.is_late(made.max(), &WORKLOAD_NOT_AVAILABLE) {
        return Ok(Vec::new());
    }
    Ok(vec![finding(&candidates, config, vip)])
}

/// `getVipConfig` and `createIngressExposeService`: the VIP is enabled, and for a LoadBalancer.
fn is_wanted(config: &Value) -> bool {
    let kind = text(config, "/data/serviceType");
    text(config, "/data/enabled") == "true" && matches!(kind, "" | "LoadBalancer")
}

/// Without a wanted address, as with DHCP, any address will do.
fn has_vip(service: &Value, wanted: Option<IpAddr>) -> bool {
    let mut given = items(service, "/status/loadBalancer/ingress").iter();
    text(service, "/spec/type") == "LoadBalancer"
        && given.any(|one| {
            let given: Option<IpAddr> = text(one, "/ip").parse().ok();
            given.is_some() && (wanted.is_none() || given == wanted)
        })
}

fn finding(candidates: &[&Value], config: &Value, vip: &str) -> IncidentFinding {
    let about = format!("VIP {vip}");
    let kind = |service: &Value| text(service, "/spec/type").to_owned();
    let why = match candidates {
        [] => format!(
            "there is no Service {} in kube-system",
            SERVICES.join(" or ")
        ),
        [first, ..] if candidates.iter().all(|one| kind(one) != "LoadBalancer") => {
            format!("{} has the type {}", subject(first, "Service"), kind(first))
        }
        _ => "its LoadBalancer does not have this address".to_owned(),
    };
    let services = candidates.iter().flat_map(|service| {
        let given = items(service, "/status/loadBalancer/ingress").iter();
        let given: Vec<&str> = given.map(|one| text(one, "/ip")).collect();
        let given = if given.is_empty() {
            "none".to_owned()
        } else {
            given.join(", ")
        };
        let about = subject(service, "Service");
        [
            Evidence::new(&about, "spec.type", kind(service)),
            Evidence::new(&about, "status.loadBalancer.ingress", given),
        ]
    });
    IncidentFinding::new(Code::VipNotAnnounced, about, &why)
        .seen([Evidence::new(subject(config, "ConfigMap"), "data.ip", vip)])
        .seen(services)
}
