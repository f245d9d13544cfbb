//! Pages and watches, as a careless API server sends them.

use std::convert::Infallible;

use futures::stream;
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windrow_decide::flight::{Appeared, ObjectMetadata};

use windrow_harvester::objects::ObjectKind;

use super::definitions::NewDefinitions;
use super::requests::{Change, Item, Resource, Watch, read_lines};
use super::{Sighting, Source, version};
use crate::apiserver::served_list::ServedList;
use crate::apiserver::{ApiServer, Connection, RequestFailure};
use crate::testing::replies::{ServerReply, TestServer};

const NAMESPACES: Resource = Resource {
    kind: ObjectKind::NAMESPACE,
    query: "",
    from_memory: false,
};

fn object(name: &str, annotation: usize) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": "5", "annotations": {"large": "x".repeat(annotation)}}})
}

fn thirty(size: usize) -> Connection {
    Connection::with_client(ServedList::thirty(size).client())
}

/// A connection to a watch with this text, in parts of this size in bytes.
fn watched(text: String, part: usize) -> Connection {
    let serve = tower::service_fn(move |_: Request<Body>| {
        let parts: Vec<Result<Frame<Bytes>, std::io::Error>> = text
            .as_bytes()
            .chunks(part)
            .map(|part| Ok(Frame::data(Bytes::copy_from_slice(part))))
            .collect();
        let body = StreamBody::new(stream::iter(parts));
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    Connection::with_client(Client::new(serve, "default"))
}

async fn listed(connection: &Connection) -> Result<Vec<String>, RequestFailure> {
    let mut pages = NAMESPACES.pages();
    let mut names = Vec::new();
    while let Some(page) = pages.next::<Item>(connection.client()).await? {
        names.extend(page.items.into_iter().map(|item| item.metadata.name));
        assert_eq!(page.version, "9");
    }
    Ok(names)
}

#[tokio::test]
async fn of_objects_with_giant_metadata_fewer_are_asked_for_at_once() {
    let all: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    // Thirty of them, and ten of the larger ones, exceed a page.
    for size in [1, 1 << 19, 1 << 20] {
        assert_eq!(listed(&thirty(size)).await, Ok(all.clone()), "{size}");
    }
    assert_eq!(
        listed(&thirty(9 << 20)).await,
        Err(RequestFailure::TooLarge(8 << 20))
    );
}

#[tokio::test]
async fn an_empty_list_is_none_that_cannot_be_read() {
    // As kube-apiserver writes it.
    let page =
        r#"{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"9"},"items":null}"#;
    assert_eq!(
        listed(&watched(page.to_owned(), 1000)).await,
        Ok(Vec::new())
    );
}

#[tokio::test]
async fn a_line_of_a_watch_is_one_change_however_it_comes() {
    let line =
        |kind: &str, object: Value| json!({"type": kind, "object": object}).to_string() + "\n";
    let text = line("ADDED", object("a", 0))
        + &line("MODIFIED", object("b", 5000))
        + &line("BOOKMARK", json!({"metadata": {"resourceVersion": "77"}}))
        + &line("DELETED", object("c", 0));
    for part in [1, 7, 1000, 1 << 20] {
        let connection = watched(text.clone(), part);
        let mut version = "1".to_owned();
        let mut watch = Watch::open(&connection, NAMESPACES, &version)
            .await
            .unwrap();
        let mut seen = Vec::new();
        while let Some(change) = watch.next(&mut version).await.unwrap() {
            seen.push(match change {
                Change::There(object) => format!("{} {version}", object.name),
                Change::Gone(object) => format!("{} gone", object.name),
            });
        }
        assert_eq!(seen, ["a 5", "b 5", "c gone"], "{part}");
    }
}

#[test]
fn lines_are_read_up_to_the_first_that_is_none_however_they_come() {
    let line = json!({"type": "ADDED", "object": object("a", 0)}).to_string() + "\n";
    for piece in [1, 7, 1 << 20] {
        let (read, wrong) = read_lines((line.repeat(3) + "half a l").as_bytes(), piece);
        assert_eq!((read, wrong), (3, None), "{piece}");
        let (read, wrong) = read_lines(format!("{line}<html>\n{line}").as_bytes(), piece);
        assert!(read == 1 && wrong.is_some(), "{piece}");
    }
}

#[tokio::test]
async fn a_watch_that_cannot_be_read_is_a_failure_and_an_old_version_is_not_taken_over() {
    let endless = format!("{{\"type\":\"ADDED\",\"object\":\"{}", "x".repeat(5 << 20));
    let expired =
        json!({"type": "ERROR", "object": {"code": 410, "metadata": {}}}).to_string() + "\n";
    let nothing = "<html>\n".to_owned();
    for (text, is_expired) in [(endless, false), (expired, true), (nothing, false)] {
        let connection = watched(text, 1 << 16);
        let mut version = "1".to_owned();
        let mut watch = Watch::open(&connection, NAMESPACES, &version)
            .await
            .unwrap();
        let failure = watch.next(&mut version).await.unwrap_err();
        assert_eq!(failure.is_gone(), is_expired, "{failure:?}");
        assert_eq!(version, "1");
    }
}

#[tokio::test]
async fn a_list_that_expires_is_begun_again_because_its_watch_goes_on_from_it() {
    let served = ServedList {
        objects: 300,
        expires_at: 100,
        ..ServedList::thirty(1)
    };
    let failure = listed(&Connection::with_client(served.client())).await;
    assert!(failure.unwrap_err().is_gone());
}

/// kube-apiserver's discovery of itself, and of two groups with a kind each.
fn kubernetes(target: &str) -> ServerReply {
    let path = target.trim_end_matches('?');
    let body = match path.split('/').collect::<Vec<_>>()[..] {
        ["", "version"] => {
            json!({"major": "1", "minor": "34", "gitVersion": "v1.34.2+rke2r1", "gitCommit": "",
            "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""})
        }
        ["", "apis", group] => {
            let version = json!({"groupVersion": format!("{group}/v1"), "version": "v1"});
            json!({"name": group, "versions": [version]})
        }
        ["", "apis", group, "v1"] => {
            let kind = json!({"name": "things", "singularName": "thing", "kind": "Thing", "namespaced": true, "verbs": []});
            json!({"groupVersion": format!("{group}/v1"), "resources": [kind]})
        }
        _ => return ServerReply::Http(404, "{}".to_owned()),
    };
    ServerReply::ok(&body.to_string())
}

pub(super) fn source(
    place: &tempfile::TempDir,
    url: &str,
) -> (Source, mpsc::Receiver<Vec<Sighting>>) {
    let kubeconfig = place.path().join("rke2.yaml");
    let text = format!(
        "{{current-context: c, clusters: [{{name: c, cluster: {{server: '{url}'}}}}], \
         users: [{{name: u, user: {{}}}}], contexts: [{{name: c, context: {{cluster: c, user: u}}}}]}}"
    );
    std::fs::write(&kubeconfig, text).unwrap();
    let (sightings, seen) = mpsc::channel(16);
    let api = ApiServer::new();
    let source = Source {
        api,
        kubeconfig: std::sync::Arc::new(move || kubeconfig.clone()),
        sightings,
    };
    (source, seen)
}

#[tokio::test]
async fn the_version_is_the_one_that_kube_apiserver_says() {
    let place = tempfile::tempdir().unwrap();
    let server = TestServer::http(kubernetes).await;
    let (source, mut seen) = source(&place, &server.url);
    assert!(version(&source).await);
    let told = Sighting::Kubernetes("v1.34.2+rke2r1".to_owned());
    assert_eq!(seen.try_recv(), Ok(vec![told]));
    drop(seen);
    assert!(!version(&source).await, "the receiver is gone");
}

#[tokio::test]
async fn the_groups_of_all_definitions_that_wait_are_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let server = TestServer::http(kubernetes).await;
    let (source, mut seen) = source(&place, &server.url);
    let definitions = NewDefinitions::default();
    let groups = ["a.example", "b.example"];
    for group in groups {
        let object = ObjectMetadata {
            name: format!("things.{group}"),
            ..ObjectMetadata::default()
        };
        definitions.add(&object, false);
    }
    let reported = async {
        for group in groups {
            let sightings = seen.recv().await.unwrap();
            let [
                Sighting::Appearance {
                    what: Appeared::Kind { kind, .. },
                    ..
                },
            ] = &*sightings
            else {
                panic!("{sightings:?}");
            };
            assert_eq!((&*kind.group, &*kind.kind), (group, "Thing"));
        }
    };
    tokio::select! {
        () = definitions.resolve(&source) => panic!("the receiver is not gone"),
        () = reported => {}
    }
}
