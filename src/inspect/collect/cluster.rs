//! The cluster's objects, as far as this node may read them: a server uses the admin's credential, any other node its
//! own identity, and only for objects that the node authorizer grants.

use std::time::Duration;

use kube::Client;
use serde_json::Value;
use windrow_harvester::objects::{ObjectKind, text};

use super::collection::{CollectedPart, Collection, LARGEST_OF_ALL};
use super::reduce;
use crate::apiserver::{
    ApiServer, LONGEST, ListBounds, ListForm, Pages, Reply, RequestFailure, WhenExpired, get,
};
use crate::archive::objects_path;
use crate::json_values::memory_of;
use crate::kubeconfig::{self, KubeconfigFiles};
use crate::observe::rke2::admin_kubeconfig;

const PATIENCE: Duration = Duration::from_secs(10);
/// Most objects of a list. One that was cut off proves nothing.
const MOST_OBJECTS: usize = 5000;

fn selectors(kind: ObjectKind) -> &'static [&'static str] {
    match kind {
        ObjectKind::EVENT => &[
            "&fieldSelector=type%3DWarning",
            // RKE2's own: some incidents are recognised by events of success.
            "&fieldSelector=involvedObject.kind%3DAddon,type%3DNormal",
        ],
        ObjectKind::SETTING | ObjectKind::BUNDLE_DEPLOYMENT => &[""],
        _ => kind.queries(),
    }
}

fn path(kind: ObjectKind) -> String {
    match kind {
        ObjectKind::SERVICE => kind.path_in("kube-system"),
        _ => kind.path(),
    }
}

pub(super) async fn collect(api: &ApiServer, collection: &mut Collection<'_>) {
    collection.report_progress("the cluster");
    let Some((client, node)) = credential(api, collection).await else {
        return;
    };
    for (path, name) in [
        ("/version", "cluster/version.json"),
        ("/readyz?verbose", "cluster/readyz"),
    ] {
        let reply = get(&client, path, collection.time(PATIENCE), LONGEST).await;
        match reply.and_then(Reply::granted) {
            Ok(reply) => {
                let text = String::from_utf8_lossy(&reply.body).into_owned();
                let found = CollectedPart::text(text, false);
                collection.add(
                    name.to_owned(),
                    "kube-apiserver",
                    format!("GET {path}"),
                    found,
                );
            }
            Err(failure) => {
                collection.missing(format!("GET {path}"), failure.to_string());
                // Without an answer here, every other request would only wait.
                if failure.is_unanswered() {
                    let why = "kube-apiserver does not answer";
                    return collection.missing("all objects of the cluster", why);
                }
            }
        }
    }
    match node {
        None => {
            let kinds = ObjectKind::ALL.iter();
            // Pods that are Pending are among all pods, and warnings about pods and nodes among all warnings.
            let parts = [
                ObjectKind::PENDING_POD,
                ObjectKind::POD_WARNING,
                ObjectKind::NODE_WARNING,
            ];
            let kinds = kinds.filter(|kind| !parts.contains(kind));
            for kind in kinds.chain(ObjectKind::FOR_PEOPLE) {
                list_all(collection, &client, *kind).await;
            }
        }
        Some(node) => of_own_node(collection, &client, &node).await,
    }
}

/// All objects that a node's identity may read (KEP-4601).
async fn of_own_node(collection: &mut Collection<'_>, client: &Client, node: &str) {
    let why = "this node's identity may not ask for them; make a report on a server too";
    collection.missing("most objects of the cluster", why);
    let of_node = |selector: &str| format!("&fieldSelector={selector}%3D{node}");
    for (kind, query) in [
        (ObjectKind::NODE, of_node("metadata.name")),
        (ObjectKind::POD, of_node("spec.nodeName")),
        (ObjectKind::SERVICE, String::new()),
    ] {
        list(collection, client, kind, &[&query]).await;
    }
}

/// A client, and the node's name if the credential is its own identity.
async fn credential(
    api: &ApiServer,
    collection: &mut Collection<'_>,
) -> Option<(Client, Option<String>)> {
    let layout = &collection.wanted.layout;
    let own = layout.kubelet_kubeconfig();
    let paths = match &collection.wanted.kubeconfig {
        Some(path) => vec![path.clone()],
        None => vec![admin_kubeconfig(layout), own.clone()],
    };
    let mut why = Vec::new();
    for path in paths {
        let mut files = KubeconfigFiles::from(&path);
        if collection.wanted.kubeconfig.is_some() {
            files = files.chosen();
        }
        match api.client(files).await {
            Ok(client) => match kubeconfig::node_name(&path) {
                None if path == own => {
                    why.push(format!("{}: its certificate names no node", path.display()));
                }
                node => return Some((client, node)),
            },
            Err(error) => why.push(error),
        }
    }
    collection.missing("all objects of the cluster", why.join("; "));
    None
}

async fn list_all(collection: &mut Collection<'_>, client: &Client, kind: ObjectKind) {
    collection.report_progress(&format!("the cluster's objects: {}", kind.name()));
    list(collection, client, kind, selectors(kind)).await;
}

async fn list(
    collection: &mut Collection<'_>,
    client: &Client,
    kind: ObjectKind,
    queries: &[&str],
) {
    let what = format!("{} of {}", kind.name(), kind.api_version());
    let mut taken = ListedObjects::default();
    for query in queries {
        if let Err(why) = pages(collection, client, kind, query, &mut taken).await {
            return collection.missing(what, why.to_string());
        }
    }
    collection.room = collection.room.saturating_sub(taken.memory);
    if kind == ObjectKind::MANIFEST_ADDON {
        for addon in &taken.items {
            let checksum = text(addon, "/spec/checksum");
            if !collection.wanted.plain.contains(checksum) {
                collection.into.learner.secret(checksum);
            }
        }
    }
    let list = match kind.kept_metadata() {
        Some(kept) => reduce::metadata_list(kept, taken.items),
        None => reduce::list(&kind.api_version(), kind.kind, taken.items),
    };
    let found = CollectedPart {
        truncated: taken.truncated,
        ..CollectedPart::tree(list, taken.bytes)
    };
    let name = objects_path(kind.group, &kind.name());
    let query = queries
        .first()
        .map_or_else(String::new, |query| query.replacen('&', "?", 1));
    let source = format!("GET {}{query}", path(kind));
    collection.add(name, "objects of the cluster", source, found);
}

#[derive(Default)]
struct ListedObjects {
    items: Vec<Value>,
    bytes: usize,
    /// Their memory, in bytes.
    memory: usize,
    truncated: bool,
}

async fn pages(
    collection: &Collection<'_>,
    client: &Client,
    kind: ObjectKind,
    query: &str,
    taken: &mut ListedObjects,
) -> Result<(), RequestFailure> {
    let bounds = ListBounds::of(PATIENCE);
    let form = match kind.kept_metadata() {
        Some(_) => ListForm::Metadata,
        None => ListForm::Objects,
    };
    let mut pages = Pages::new(&path(kind), query, form, bounds, WhenExpired::GoOn);
    let most = taken.items.len() + MOST_OBJECTS;
    loop {
        pages.bounds.patience = collection.time(PATIENCE);
        let Some(page) = pages.next_values(client).await? else {
            return Ok(());
        };
        taken.bytes += page.bytes;
        taken.memory += page.items.iter().map(memory_of).sum::<usize>();
        taken.items.extend(page.items);
        // Objects that exceed the archive are not requested.
        let is_full =
            collection.bytes + taken.bytes > LARGEST_OF_ALL || taken.memory > collection.room;
        if !pages.is_done() && (is_full || taken.items.len() >= most) {
            taken.truncated = true;
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::time::Instant;
    use windrow_harvester::incidents::OwnNode;

    use super::*;
    use crate::apiserver::served_list::ServedList;
    use crate::archive::{Collected, CollectedContent};
    use crate::inspect::collect::collection::{MOST_MEMORY, Wanted};
    use crate::layout::Layout;

    async fn reported(served: ServedList) -> Result<(usize, bool), String> {
        reported_within(MOST_MEMORY, served).await
    }

    /// As `reported`, if its objects may take this much memory.
    async fn reported_within(room: usize, served: ServedList) -> Result<(usize, bool), String> {
        let patience = Duration::from_secs(600);
        let wanted = Wanted {
            kubeconfig: None,
            layout: Layout::new("/nowhere"),
            live: false,
            manifests: false,
            secret_files: Vec::new(),
            own: OwnNode::default(),
            plain: std::collections::BTreeSet::new(),
            patience,
        };
        let mut into = Collected::default();
        let mut collection = Collection {
            wanted: &wanted,
            until: Instant::now() + patience,
            bytes: 0,
            room,
            into: &mut into,
            on_progress: &mut |_| {},
        };
        let client = served.client();
        list_all(&mut collection, &client, ObjectKind::STORAGE_CLASS).await;
        let bytes = collection.bytes;
        if let Some(missing) = into.missing.first() {
            return Err(missing.why.clone());
        }
        let CollectedContent::Tree(list) = &into.items[0].content else {
            return Err("it is no list".to_owned());
        };
        let items = list["items"].as_array().unwrap();
        let names: BTreeSet<&str> = items
            .iter()
            .filter_map(|item| item["metadata"]["name"].as_str())
            .collect();
        assert_eq!(names.len(), items.len(), "none comes twice");
        assert!(
            bytes > names.len() * served.size,
            "{bytes} bytes are counted"
        );
        Ok((names.len(), into.items[0].truncated))
    }

    #[tokio::test]
    async fn a_list_of_large_objects_is_in_the_report_and_one_that_expires_is_whole() {
        // All thirty exceed the limit of one answer.
        let large = ServedList::thirty(600 << 10);
        assert_eq!(reported(large).await, Ok((30, false)));
        let expires = ServedList {
            objects: 1200,
            expires_at: 500,
            ..ServedList::thirty(1)
        };
        assert_eq!(reported(expires).await, Ok((1200, false)));
    }

    #[tokio::test]
    async fn a_list_that_is_too_long_is_cut_off_and_says_so() {
        let long = ServedList {
            objects: 5001,
            ..ServedList::thirty(1)
        };
        assert_eq!(reported(long).await, Ok((5000, true)));
        // Pages of fifty, because of the memory of their values.
        let of_maps = ServedList {
            objects: 200,
            maps: 1000,
            ..ServedList::thirty(1)
        };
        let whole = reported_within(1 << 30, of_maps).await;
        assert_eq!(whole, Ok((200, false)));
        assert_eq!(reported_within(1 << 20, of_maps).await, Ok((50, true)));
    }
}
