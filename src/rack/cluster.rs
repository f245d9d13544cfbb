//! The Nodes of a cluster: the condition that Windrow keeps on each. They are listed in pages, every half minute, and
//! whatever the answer is, the rack goes on.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use tokio::time::timeout;
use windrow_rack::read_node;

use super::Hub;
use crate::apiserver::ApiServer;
use crate::causes;
use crate::kubeconfig::KubeconfigFiles;

/// How often the Nodes are listed.
const EVERY: Duration = Duration::from_secs(30);
/// Longest wait for a page.
const PATIENCE: Duration = Duration::from_secs(20);
/// Nodes in a page, and most pages.
const PAGE: u32 = 250;
const MOST_PAGES: usize = 40;

/// Lists the Nodes again and again.
pub(crate) async fn follow(hub: Arc<Hub>, api: ApiServer, kubeconfig: KubeconfigFiles) {
    loop {
        let listed = once(&hub, &api, &kubeconfig).await;
        let note = listed
            .err()
            .map(|why| format!("the cluster's Nodes cannot be listed: {why}"));
        hub.note("cluster", note);
        tokio::time::sleep(EVERY).await;
    }
}

/// Lists them once.
///
/// # Errors
///
/// Why not, in a line.
pub(crate) async fn once(
    hub: &Hub,
    api: &ApiServer,
    kubeconfig: &KubeconfigFiles,
) -> Result<(), String> {
    let client = api.client(kubeconfig.clone()).await?;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Node"));
    let nodes: Api<DynamicObject> = Api::all_with(client, &kind);
    let mut parameters = ListParams::default().limit(PAGE);
    for _ in 0..MOST_PAGES {
        let page = timeout(PATIENCE, nodes.list(&parameters)).await;
        let page = page.map_err(|_| "kube-apiserver does not answer".to_owned())?;
        let page = page.map_err(|error| causes::in_words(&error))?;
        for node in page.items {
            let Ok(node) = serde_json::to_value(&node) else {
                continue;
            };
            if let Some(report) = read_node(&node, hub.now()) {
                // There may be no room for it, which a notice says.
                let _ = hub.take(report).await;
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    Ok(())
}
