//! Values of RKE2's keys that RKE2, or kube-apiserver after it, judges by other keys.

use std::collections::BTreeMap;
use std::net::IpAddr;

use windrow_model::findings::Finding;
use windrow_model::reasons::{Code, Severity};
use windrow_model::schedule;

use super::config::{ConfigItem, MergedConfig, split};
use super::keys::{Rke2Role, fatal, is_true, stops, unintended, words};
use super::service_ranges::ServiceRanges;
use super::value_form::host_and_port;
use super::written_keys::{WrittenKey, WrittenValue};
use crate::version::Version;

/// Addresses of cluster DNS that kube-apiserver gives to no Service. RKE2 does not compare them with `service-cidr`.
pub(super) fn dns_outside(
    values: &[WrittenValue],
    ranges: &ServiceRanges,
    found: &mut Vec<Finding>,
) {
    let Some(networks) = &ranges.networks else {
        return;
    };
    for (word, at) in words(values) {
        let Ok(address) = word.trim().parse::<IpAddr>() else {
            continue;
        };
        let mut of_family = networks
            .iter()
            .filter(|network| network.is_ipv6() == address.is_ipv6())
            .peekable();
        if of_family.peek().is_some() && !of_family.any(|network| network.contains(address)) {
            let code = Code::ClusterDnsOutside;
            found.push(Finding {
                incident: None,
                code,
                severity: code.severity(),
                message: code.say(&[("value", word.trim())]),
                at: vec![at.clone()],
            });
        }
    }
}

/// `server` without an address: an agent ends (k3s `pkg/cli/agent/agent.go`), and a server begins a cluster of its own. With another
/// port: RKE2 answers joining nodes at 9345 only (rke2 `pkg/rke2/rke2.go`); a load balancer may have any other one, but not
/// kube-apiserver's.
pub(super) fn server_address(
    keys: &BTreeMap<String, WrittenKey>,
    role: Rke2Role,
    found: &mut Vec<Finding>,
) {
    let Some(key) = keys.get("server") else {
        return;
    };
    let mut values = key.values.iter().map(|value| &value.item);
    let last = values.rfind(|item| !item.text.is_empty());
    match (last, &key.at, role) {
        (Some(item), ..) => {
            let rest = item.text.strip_prefix("https://").unwrap_or_default();
            let authority = rest.split('/').next().unwrap_or_default();
            if host_and_port(authority).1 == Some("6443") {
                let why = "`server` has the port of kube-apiserver: nodes join RKE2 at 9345";
                found.push(unintended(why, &item.at));
            }
        }
        (None, Some(at), Rke2Role::Agent) => {
            let why = "`rke2 agent` does not start with an empty `server`";
            found.push(fatal(why, at));
        }
        (None, Some(at), Rke2Role::Server) => {
            let why =
                "`server` is empty, so this server joins no cluster and begins one of its own";
            found.push(Finding {
                severity: Severity::Notice,
                ..unintended(why, at)
            });
        }
        (None, None, _) => {}
    }
}

/// Snapshots of etcd that RKE2 takes never, or sends nowhere, and only logs it (k3s `pkg/etcd/snapshot.go`, `setSnapshotFunction`;
/// `pkg/etcd/s3/s3.go`, `GetClient`).
pub(super) fn snapshots(keys: &BTreeMap<String, WrittenKey>, found: &mut Vec<Finding>) {
    let is_on = |name: &str| is_true(keys.get(name));
    let last = |name: &str| {
        let mut values = keys.get(name)?.values.iter().map(|value| &value.item);
        values.rfind(|item| !item.text.is_empty())
    };
    if is_on("etcd-disable-snapshots") {
        return;
    }
    if let Some(item) = last("etcd-snapshot-schedule-cron") {
        let text = item
            .text
            .trim_start_matches("CRON_")
            .trim_start_matches("TZ=");
        let schedule = match text.len() < item.text.len() {
            true => text.split_once(' ').map_or("", |(_, schedule)| schedule),
            false => text,
        };
        if let Some(why) = schedule::error(schedule) {
            let why =
                format!("RKE2 takes no snapshots of etcd by `etcd-snapshot-schedule-cron`: {why}");
            found.push(unintended(&why, &item.at));
        }
    }
    let at = keys.get("etcd-s3").and_then(|key| key.at.as_ref());
    let has_bucket = last("etcd-s3-bucket").is_some() || last("etcd-s3-config-secret").is_some();
    if let Some(at) = at.filter(|_| is_on("etcd-s3") && !has_bucket) {
        let why = "RKE2 sends no snapshot to S3: `etcd-s3` needs `etcd-s3-bucket` or `etcd-s3-config-secret`";
        found.push(unintended(why, at));
    }
}

/// Arguments of kube-apiserver that need a file which RKE2 names by a key of its own (rke2 `pkg/executor/staticpod/staticpod.go`), and
/// arguments that a later file takes away.
pub(super) fn arguments(
    keys: &BTreeMap<String, WrittenKey>,
    config: &MergedConfig,
    found: &mut Vec<Finding>,
) {
    let flag = |name: &str| config.flag("kube-apiserver-arg", name).pop();
    let is_set = |name: &str| {
        let key = keys.get(name);
        key.is_some_and(|key| key.values.iter().any(|value| !value.item.text.is_empty()))
    };
    let mut plugins = config
        .flag("kube-apiserver-arg", "enable-admission-plugins")
        .into_iter();
    let plugins = plugins.find(|item| {
        item.text
            .split(',')
            .any(|name| name.trim() == "EventRateLimit")
    });
    let has_file = flag("admission-control-config-file").is_some()
        || is_set("pod-security-admission-config-file");
    if let Some(item) = plugins.filter(|_| !has_file) {
        // Kubernetes `plugin/pkg/admission/eventratelimit`: RKE2's own file has no configuration for it.
        let why = "kube-apiserver does not start: the admission plugin EventRateLimit needs a configuration in the file of `pod-security-admission-config-file`";
        found.push(stops(why, &item.at));
    }
    let has_policy = flag("audit-policy-file").is_some()
        || is_set("audit-policy-file")
        || keys.get("profile").is_some_and(|key| {
            let mut values = key.values.iter();
            values.any(|value| value.item.text.starts_with("cis"))
        });
    if let Some(item) = flag("audit-log-path").filter(|_| !has_policy) {
        // k8s.io/apiserver `pkg/server/options/audit.go`.
        let why = "kube-apiserver records nothing in `audit-log-path` without a policy: write `audit-policy-file`";
        found.push(unintended(why, &item.at));
    }
    for replaced in &config.wiped {
        let now = config.list(&replaced.key);
        let name_of = |item: &ConfigItem| {
            let (name, _) = split(&item.text);
            name.trim_end_matches(['+', '-']).to_owned()
        };
        let is_lost = |name: &String| {
            name != "feature-gates" && !now.iter().any(|item| name_of(item) == *name)
        };
        let lost: Vec<String> = replaced.items.iter().map(name_of).filter(is_lost).collect();
        if lost.is_empty() {
            continue;
        }
        let names: Vec<String> = lost.iter().map(|name| format!("`{name}`")).collect();
        let (key, names) = (&replaced.key, names.join(" and "));
        let why = format!(
            "this `{key}` replaces that of an earlier file, which loses {names}: write `{key}+`"
        );
        found.push(unintended(&why, &replaced.by));
    }
}

/// The first minor that installs Traefik in a new cluster without `ingress-controller` (rke2 `pkg/bootstrap/bootstrap.go`, v1.36.0).
const TRAEFIK_FROM: u16 = 36;

/// `disable: rke2-ingress-nginx` for a cluster without an ingress controller: from 1.36 on, Traefik comes instead.
pub(super) fn other_ingress(
    keys: &BTreeMap<String, WrittenKey>,
    version: Option<Version>,
    found: &mut Vec<Finding>,
) {
    let values = |name: &str| keys.get(name).map_or(&[][..], |key| &key.values);
    let is_new = version.is_some_and(|version| version.minor.minor >= TRAEFIK_FROM);
    let is_chosen = words(values("ingress-controller")).next().is_some();
    let mut disabled = words(values("disable"));
    let is_off = words(values("disable")).any(|(word, _)| word.trim() == "rke2-traefik");
    let nginx = disabled.find(|(word, _)| word.trim() == "rke2-ingress-nginx");
    if let Some((_, at)) = nginx.filter(|_| is_new && !is_chosen && !is_off) {
        let why = "RKE2 v1.36 and later install Traefik instead of ingress-nginx. For a cluster without an ingress controller, write `ingress-controller: none`";
        found.push(unintended(why, at));
    }
}

/// `validateCloudProvider`, and rke2 `pkg/rke2/rke2_linux.go` (`initStaticPodExecutor`).
pub(super) fn cloud_provider(keys: &BTreeMap<String, WrittenKey>, found: &mut Vec<Finding>) {
    let is_set = |name: &str| keys.get(name).is_some_and(|key| !key.values.is_empty());
    let config = keys
        .get("cloud-provider-config")
        .and_then(|key| key.at.as_ref());
    if let Some(at) = config.filter(|_| !is_set("cloud-provider-name")) {
        let why = "RKE2 ends at `cloud-provider-config` without `cloud-provider-name`";
        found.push(fatal(why, at));
    }
    let provider = is_set("cloud-provider-name") || is_set("cloud-provider-config");
    let external = keys
        .get("node-external-ip")
        .filter(|key| !key.values.is_empty());
    if let Some(at) = external
        .filter(|_| provider)
        .and_then(|key| key.at.as_ref())
    {
        let why = "RKE2 refuses `node-external-ip` together with `cloud-provider-name` or `cloud-provider-config`";
        found.push(fatal(why, at));
    }
}
