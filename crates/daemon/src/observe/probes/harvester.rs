//! Harvester seen from outside: its VIP, and the answers behind it.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use windrow_harvester::vip_mode;
use windrow_plan::readiness::node::{NodeEvent, NodeRole, ProbeOutcome, Vip, VipMode};

use super::answer::ProbeAnswer;
use super::context::ProbeContext;
use super::http::{self, NoAnswer, get};
use super::kubernetes::{Ask, Credential, object};
use crate::locked::lock;
use crate::observe::kube_vip;

const PATIENCE: Duration = Duration::from_secs(3);
/// How long finding the address may take, so that there is time left to ask it.
const LOOKUP: Duration = Duration::from_millis(1500);
/// How long an address that answers is kept before it is looked up again.
const KNOWN: Duration = Duration::from_secs(60);

/// The VIP that was last found, for all probes that ask it.
#[derive(Default)]
pub(super) struct VipMemory(Mutex<Option<KnownVip>>);

#[derive(Debug, Clone)]
struct KnownVip {
    vip: Vip,
    /// When it was found; `None` once it has stopped answering.
    at: Option<Instant>,
}

impl KnownVip {
    /// The VIP, unless it should be looked up again.
    fn fresh(self) -> Option<Vip> {
        (self.at?.elapsed() < KNOWN).then_some(self.vip)
    }
}

/// Whether the VIP answers. Also reports its address as an event.
pub(super) async fn vip_answers(
    context: &ProbeContext,
    memory: &VipMemory,
    role: NodeRole,
    node: &str,
) -> ProbeAnswer {
    match vip(context, memory, role, node).await {
        Ok(vip) => {
            let outcome = connects(&vip.address, context.endpoints.vip_https).await;
            if outcome != ProbeOutcome::Passed {
                // The address may have changed: it is looked up again, and kept when that fails.
                if let Some(known) = lock(&memory.0).as_mut() {
                    known.at = None;
                }
            }
            ProbeAnswer {
                events: vec![NodeEvent::Vip(vip)],
                ..outcome.into()
            }
        }
        Err(outcome) => outcome.into(),
    }
}

pub(super) async fn vip_port(
    context: &ProbeContext,
    memory: &VipMemory,
    role: NodeRole,
    node: &str,
    port: u16,
) -> ProbeOutcome {
    match vip(context, memory, role, node).await {
        Ok(vip) => connects(&vip.address, port).await,
        Err(outcome) => outcome,
    }
}

async fn connects(vip: &str, port: u16) -> ProbeOutcome {
    let connected = tokio::net::TcpStream::connect((vip, port));
    match tokio::time::timeout(PATIENCE, connected).await {
        Ok(Ok(_)) => ProbeOutcome::Passed,
        Ok(Err(error)) => ProbeOutcome::failed(http::not_connected(vip, port, &error)),
        Err(_) => ProbeOutcome::failed(http::no_connection_within(vip, port, PATIENCE)),
    }
}

/// The VIP: from Harvester's own ConfigMap, which a server may read, else from the Service that carries it, else, on a
/// node that joined, from the address that it joined. The last known address is kept, because the VIP matters most when
/// kube-apiserver may be gone. If the cluster does not show how its address is found, the installer's configuration
/// may.
async fn vip(
    context: &ProbeContext,
    memory: &VipMemory,
    role: NodeRole,
    node: &str,
) -> Result<Vip, ProbeOutcome> {
    let known = lock(&memory.0).clone();
    let found = match known.and_then(|known| known.fresh()) {
        Some(vip) => Ok(vip),
        None => {
            let looked = tokio::time::timeout(LOOKUP, look_up(context, memory, role, node));
            looked.await.unwrap_or_else(|_| {
                Err(ProbeOutcome::unknown(
                    "the VIP's address",
                    "kube-apiserver does not answer",
                ))
            })
        }
    };
    let vip = match found {
        Ok(vip) => vip,
        Err(none) => {
            let joined_by = || {
                let rancherd = context.rancherd()?;
                let address = host(rancherd.str_at(&["server"])?)?;
                Some(Vip {
                    address,
                    mode: None,
                })
            };
            let known = lock(&memory.0).clone().map(|known| known.vip);
            known.or_else(joined_by).ok_or(none)?
        }
    };
    Ok(Vip {
        mode: vip.mode.or_else(|| installed_mode(context)),
        ..vip
    })
}

async fn look_up(
    context: &ProbeContext,
    memory: &VipMemory,
    role: NodeRole,
    node: &str,
) -> Result<Vip, ProbeOutcome> {
    let credential = Credential::for_role(role);
    let absent = "there is no VIP yet";
    let mut none = ProbeOutcome::failed(absent);
    for ask in [Ask::Vip, Ask::Traefik, Ask::Expose] {
        if !ask.allowed(credential) {
            continue;
        }
        let found = object(&context.kubernetes, ask, credential, node, absent).await;
        match found.as_ref().map(|found| (address(found), found)) {
            Ok((Some(address), found)) => {
                let mode = found["data"]["mode"].as_str().and_then(VipMode::read);
                let vip = Vip { address, mode };
                *lock(&memory.0) = Some(KnownVip {
                    vip: vip.clone(),
                    at: Some(Instant::now()),
                });
                return Ok(vip);
            }
            Err(outcome @ ProbeOutcome::Unknown { .. }) => none = outcome.clone(),
            Ok((None, _)) | Err(_) => {}
        }
    }
    Err(none)
}

/// The address in the ConfigMap or in the Service's status.
fn address(object: &Value) -> Option<String> {
    let in_config = object["data"]["ip"].as_str();
    let in_status = object["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
    // No host name is looked up: a client that may write the ConfigMap could otherwise name any host.
    let address: IpAddr = in_config.or(in_status)?.parse().ok()?;
    Some(address.to_string())
}

/// Whether kube-vip can get the VIP's address from DHCP. Its own log shows it, if DHCP is used.
pub(super) fn dhcp_clash(context: &ProbeContext, memory: &VipMemory) -> ProbeOutcome {
    let known = lock(&memory.0).clone().and_then(|known| known.vip.mode);
    if known.or_else(|| installed_mode(context)) != Some(VipMode::Dhcp) {
        return ProbeOutcome::Passed;
    }
    match kube_vip::port_68_refused(&context.layout(), (context.now)()) {
        Some(said) => ProbeOutcome::failed(said),
        None => ProbeOutcome::Passed,
    }
}

/// How the installer's configuration obtains the VIP's address.
fn installed_mode(context: &ProbeContext) -> Option<VipMode> {
    let config = super::context::config(&context.layout(), windrow_harvester::INSTALLER_CONFIG)?;
    vip_mode(&config).and_then(VipMode::read)
}

fn host(url: &str) -> Option<String> {
    let rest = url.trim().strip_prefix("https://")?;
    let authority = rest.split('/').next()?;
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next()?,
        None => authority.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.to_owned())
}

/// Whether Harvester answers the request that its console sends. `/v1/harvester/readyz` (v1.8.0) would show more, but
/// requires the cluster's token. A client with that token joins as a server, and the VIP's certificate proves nothing
/// to this node, so the token is never sent.
pub(super) async fn ready(
    context: &ProbeContext,
    memory: &VipMemory,
    role: NodeRole,
    node: &str,
) -> ProbeOutcome {
    let vip = match vip(context, memory, role, node).await {
        Ok(vip) => vip,
        Err(outcome) => return outcome,
    };
    let authority = http::authority(&vip.address, context.endpoints.vip_https);
    let url = format!("https://{authority}/v1/harvester/cluster/local");
    match get(&context.http, &url, None).await {
        Ok(answer) if answer.status == 200 => ProbeOutcome::Passed,
        Ok(answer) if matches!(answer.status, 401 | 403) => {
            ProbeOutcome::refused(format!("GET {url}"), format!("HTTP {}", answer.status))
        }
        Ok(answer) => ProbeOutcome::failed(format!("HTTP {}", answer.status)),
        Err(NoAnswer::Garbage(why)) => ProbeOutcome::unknown(format!("GET {url}"), why),
        Err(none) => ProbeOutcome::failed(none.say(http::PATIENCE)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_vip_is_found_in_the_config_map_and_in_the_service() {
        assert_eq!(
            address(&json!({"data": {"ip": "10.0.0.9"}})).as_deref(),
            Some("10.0.0.9")
        );
        let service = json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}]}}});
        assert_eq!(address(&service).as_deref(), Some("10.0.0.9"));
        assert_eq!(address(&json!({"data": {"ip": ""}})), None);
        assert_eq!(address(&json!({"data": {"ip": "vip.example.com"}})), None);
        assert_eq!(address(&json!({"status": {"loadBalancer": {}}})), None);
    }

    #[test]
    fn the_address_that_a_node_joined_by_is_read_from_its_url() {
        for (url, expected) in [
            ("https://10.0.0.9:443", Some("10.0.0.9")),
            ("https://vip.example:8443/x", Some("vip.example")),
            ("https://[fd00::9]:443", Some("fd00::9")),
            ("10.0.0.9", None),
            ("https://", None),
        ] {
            assert_eq!(host(url).as_deref(), expected, "{url}");
        }
    }
}
