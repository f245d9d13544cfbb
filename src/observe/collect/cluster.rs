//! The cluster's objects, as far as this node may read them: a server uses the admin's credential, any other node its
//! own identity, and only for what the node authorizer grants.

use std::path::PathBuf;
use std::time::Duration;

use http::Request;
use http::header::ACCEPT;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use windrow_harvester::objects::{KeptMetadata, ObjectKind};

use super::collection::{CollectedPart, Collection, LARGEST, LARGEST_OF_ALL};
use super::reduce;
use crate::apiserver::{ApiServer, Reply, RequestFailure, send};
use crate::archive::objects_path;
use crate::kubeconfig;
use crate::observe::objects::{ListForm, escaped};

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Objects in a page, and its longest size: a list of 500 larger objects helps no reader.
const PAGE: usize = 500;
const LONGEST_PAGE: usize = 8 * LARGEST;
/// Most pages of a kind. A list that was cut off proves nothing.
const MOST_PAGES: usize = 10;

/// A kind and where its objects are listed.
struct ListedKind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    /// Which part of its objects, where it is listed in parts.
    part: &'static str,
    /// What is kept of an object, where that is some metadata.
    kept: Option<KeptMetadata>,
    /// The resource, with the namespace before it where only one is read.
    resource: &'static str,
    /// Which objects are wanted: those that any of these selectors finds.
    selectors: &'static [&'static str],
}

const EVERY_OBJECT: &[&str] = &[""];

const fn kind(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    resource: &'static str,
) -> ListedKind {
    ListedKind {
        group,
        version,
        kind,
        part: "",
        kept: None,
        resource,
        selectors: EVERY_OBJECT,
    }
}

/// A kind that diagnosis looks at. A report has more of some.
fn diagnosed(kind: ObjectKind) -> ListedKind {
    ListedKind {
        group: kind.group,
        version: kind.version,
        kind: kind.kind,
        part: kind.part,
        kept: kind.kept_metadata(),
        resource: kind.plural,
        selectors: match kind {
            ObjectKind::EVENT => &[
                "&fieldSelector=type%3DWarning",
                // RKE2's own: some incidents are recognised by events of success.
                "&fieldSelector=involvedObject.kind%3DAddon,type%3DNormal",
            ],
            // People who read a report want all of these; what is secret in them is redacted.
            ObjectKind::SETTING | ObjectKind::BUNDLE_DEPLOYMENT => EVERY_OBJECT,
            _ => kind.queries(),
        },
    }
}

const SERVICES: ListedKind = kind("", "v1", "Service", "namespaces/kube-system/services");

/// What people read in a report and diagnosis does not look at.
const FOR_PEOPLE: &[ListedKind] = &[
    SERVICES,
    kind("apps", "v1", "DaemonSet", "daemonsets"),
    kind("apps", "v1", "StatefulSet", "statefulsets"),
    kind("storage.k8s.io", "v1", "StorageClass", "storageclasses"),
    kind(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    kind(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    ),
    kind("apiregistration.k8s.io", "v1", "APIService", "apiservices"),
    kind(
        "helm.cattle.io",
        "v1",
        "HelmChartConfig",
        "helmchartconfigs",
    ),
    kind(
        "k8s.cni.cncf.io",
        "v1",
        "NetworkAttachmentDefinition",
        "network-attachment-definitions",
    ),
];

impl ListedKind {
    fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Its name in the archive.
    fn name(&self) -> String {
        match self.part {
            "" => self.kind.to_owned(),
            part => format!("{} ({part})", self.kind),
        }
    }

    fn form(&self) -> ListForm {
        match self.kept {
            Some(_) => ListForm::Metadata,
            None => ListForm::Objects,
        }
    }

    fn path(&self) -> String {
        let api = match self.group {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        format!("{api}/{}?limit={PAGE}", self.resource)
    }
}

pub(super) async fn collect(api: &ApiServer, collection: &mut Collection<'_>) {
    collection.report_progress("the cluster");
    let layout = &collection.wanted.layout;
    let (admin, own) = (layout.admin_kubeconfig(), layout.kubelet_kubeconfig());
    let Some((client, node)) = credential(api, collection, admin, own).await else {
        return;
    };
    for (path, name) in [
        ("/version", "cluster/version.json"),
        ("/readyz?verbose", "cluster/readyz"),
    ] {
        match get(collection, &client, path, ListForm::Objects).await {
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
            // Pods that are Pending are among all pods.
            for kind in kinds.filter(|kind| **kind != ObjectKind::PENDING_POD) {
                list_all(collection, &client, &diagnosed(*kind)).await;
            }
            for kind in FOR_PEOPLE {
                list_all(collection, &client, kind).await;
            }
        }
        Some(node) => of_own_node(collection, &client, &node).await,
    }
}

/// All that a node's identity may read (KEP-4601).
async fn of_own_node(collection: &mut Collection<'_>, client: &Client, node: &str) {
    let why = "this node's identity may not ask for them; make a report on a server too";
    collection.missing("most objects of the cluster", why);
    let of_node = |kind: ObjectKind, selector: &str| {
        let kind = diagnosed(kind);
        let path = format!("{}&fieldSelector={selector}%3D{node}", kind.path());
        (kind, path)
    };
    for (kind, path) in [
        of_node(ObjectKind::NODE, "metadata.name"),
        of_node(ObjectKind::POD, "spec.nodeName"),
        (SERVICES, SERVICES.path()),
    ] {
        list(collection, client, &kind, &[path]).await;
    }
}

/// A client, and the node's name where the credential is its own identity.
async fn credential(
    api: &ApiServer,
    collection: &mut Collection<'_>,
    admin: PathBuf,
    own: PathBuf,
) -> Option<(Client, Option<String>)> {
    let mut why = Vec::new();
    for (path, is_node) in [(admin, false), (own, true)] {
        match api.client(&path).await {
            Ok(client) if !is_node => return Some((client, None)),
            Ok(client) => match kubeconfig::node_name(&path) {
                Some(name) => return Some((client, Some(name))),
                None => why.push(format!("{}: its certificate names no node", path.display())),
            },
            Err(error) => why.push(error),
        }
    }
    collection.missing("all objects of the cluster", why.join("; "));
    None
}

async fn list_all(collection: &mut Collection<'_>, client: &Client, kind: &ListedKind) {
    collection.report_progress(&format!("the cluster's objects: {}", kind.name()));
    let with = |selector| format!("{}{selector}", kind.path());
    let paths: Vec<String> = kind.selectors.iter().map(with).collect();
    list(collection, client, kind, &paths).await;
}

/// Lists what is at any of these paths.
async fn list(
    collection: &mut Collection<'_>,
    client: &Client,
    kind: &ListedKind,
    paths: &[String],
) {
    let what = format!("{} of {}", kind.name(), kind.api_version());
    let mut taken = ListedObjects::default();
    for path in paths {
        if let Err(why) = pages(collection, client, path, kind.form(), &mut taken).await {
            return collection.missing(what, why.to_string());
        }
    }
    let list = match kind.kept {
        Some(kept) => reduce::metadata_list(kept, taken.items),
        None => reduce::list(&kind.api_version(), kind.kind, taken.items),
    };
    let found = CollectedPart {
        truncated: taken.truncated,
        ..CollectedPart::tree(list, taken.bytes)
    };
    let name = objects_path(kind.group, &kind.name());
    let source = format!("GET {}", paths.first().map_or("", String::as_str));
    collection.add(name, "objects of the cluster", source, found);
}

/// The objects of a kind, as far as they were read.
#[derive(Default)]
struct ListedObjects {
    items: Vec<Value>,
    bytes: usize,
    truncated: bool,
}

/// Reads a list page by page, up to a bound.
async fn pages(
    collection: &Collection<'_>,
    client: &Client,
    path: &str,
    form: ListForm,
    taken: &mut ListedObjects,
) -> Result<(), RequestFailure> {
    let mut next = String::new();
    for _ in 0..MOST_PAGES {
        let reply = get(collection, client, &format!("{path}{next}"), form).await?;
        taken.bytes += reply.body.len();
        let mut answer: Value = reply.json()?;
        if let Value::Array(items) = answer["items"].take() {
            taken.items.extend(items);
        }
        let token = answer["metadata"]["continue"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Ok(());
        }
        next = format!("&continue={}", escaped(token));
        // Whatever exceeds the archive is not requested.
        if collection.bytes + taken.bytes > LARGEST_OF_ALL {
            break;
        }
    }
    taken.truncated = true;
    Ok(())
}

async fn get(
    collection: &Collection<'_>,
    client: &Client,
    path: &str,
    form: ListForm,
) -> Result<Reply, RequestFailure> {
    let request = Request::get(path)
        .header(ACCEPT, form.accept())
        .body(Body::empty());
    let reply = send(client, request, collection.time(PATIENCE), LONGEST_PAGE).await;
    reply.and_then(Reply::granted)
}
