//! The facts about each node for an upgrade check: space, and the end of kube-apiserver's certificates.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use futures::future::join_all;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use windrow_harvester::objects::{ObjectKind, Objects, items, text};
use windrow_preflight::upgrade_check::{NodeReadings, NodeSpace};

use crate::apiserver::earliest_end;
use crate::observe::objects::get_object;

/// Asks the kubelets, through kube-apiserver, and kube-apiserver at each of its addresses.
pub(crate) async fn read_nodes(client: &Client, objects: &Objects) -> NodeReadings {
    let nodes = objects.all(ObjectKind::NODE).unwrap_or_default();
    let space = nodes.iter().map(async |node| {
        let name = text(node, "/metadata/name");
        (name.to_owned(), space(client, name).await)
    });
    NodeReadings {
        space: join_all(space).await.into_iter().collect(),
        certificates: certificates(client).await,
        own: None,
        gates: None,
    }
}

async fn space(client: &Client, node: &str) -> Result<NodeSpace, String> {
    let path = format!(
        "{}/proxy/stats/summary",
        ObjectKind::NODE.object_path("", node)
    );
    let summary = get_object(client, &path).await?;
    let summary = summary.ok_or("its kubelet does not serve /stats/summary")?;
    let number = |field: &str| {
        let number = summary.pointer(&format!("/node/fs/{field}"));
        let number = number.and_then(Value::as_u64);
        number.ok_or_else(|| format!("its kubelet does not say node.fs.{field}"))
    };
    Ok(NodeSpace {
        capacity: number("capacityBytes")?,
        used: number("usedBytes")?,
        available: number("availableBytes")?,
    })
}

async fn certificates(client: &Client) -> BTreeMap<String, Result<Timestamp, String>> {
    let endpoints = ObjectKind::ENDPOINTS.object_path("default", "kubernetes");
    let endpoints = match get_object(client, &endpoints).await {
        Ok(endpoints) => endpoints.unwrap_or_default(),
        Err(why) => return [("(Endpoints default/kubernetes)".to_owned(), Err(why))].into(),
    };
    let ends = addresses(&endpoints)
        .into_iter()
        .map(async |address| (address.to_string(), earliest_end(address).await));
    join_all(ends).await.into_iter().collect()
}

fn addresses(endpoints: &Value) -> Vec<SocketAddr> {
    let of_subset = |subset: &Value| {
        let ports = items(subset, "/ports").iter();
        let port = ports
            .filter_map(|port| port.pointer("/port")?.as_u64())
            .next();
        let port = port
            .and_then(|port| u16::try_from(port).ok())
            .unwrap_or(6443);
        let ips: Vec<IpAddr> = items(subset, "/addresses")
            .iter()
            .filter_map(|address| text(address, "/ip").parse().ok())
            .collect();
        ips.into_iter().map(move |ip| SocketAddr::new(ip, port))
    };
    items(endpoints, "/subsets")
        .iter()
        .flat_map(of_subset)
        .collect()
}
