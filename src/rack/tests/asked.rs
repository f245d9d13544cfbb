//! The effect of the answers of nodes' status servers.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::sync::mpsc;
use windrow_model::manifest::sha256_hex;

use super::*;
use crate::rack::announced::{Announced, AskAnnounced};
use crate::rack::ask::{AskWith, AskedServer};
use crate::testing::server;

/// A node's status server, which answers everything with this document.
async fn node(document: Value) -> (AskedServer, mpsc::UnboundedReceiver<String>, JoinHandle<()>) {
    node_with(document.to_string()).await
}

async fn node_with(body: String) -> (AskedServer, mpsc::UnboundedReceiver<String>, JoinHandle<()>) {
    let (tls, pem) = server::certificate("node.example");
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let (log, requests) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, task) = server::start(listener, Some(tls), move |mut stream| {
        let (log, body) = (log.clone(), body.clone());
        async move {
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap_or_default();
            let _ = log.send(String::from_utf8_lossy(&head[..read]).into_owned());
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    let server = AskedServer {
        url: format!("{url}/status"),
        fingerprint: sha256_hex(&der),
        identity: None,
    };
    (server, requests, task)
}

#[tokio::test]
async fn a_node_is_asked_under_its_own_certificate_alone() {
    let document = json!({"kind": "Status", "host": "n1", "generation": 7, "readiness": "Ready", "phase": "ready"});
    let (server, mut requests, task) = node(document).await;
    let hub = Hub::new(Inventory::default(), None, Timestamp::now).unwrap();
    let with = AskWith {
        token: Some(Arc::new(TOKEN.to_owned())),
        authority: None,
    };
    for wrong in ["", &"0".repeat(64)] {
        let other = AskedServer {
            fingerprint: wrong.to_owned(),
            ..server.clone()
        };
        ask::once(&hub, &other, &with).await.unwrap_err();
    }
    assert!(
        requests.try_recv().is_err(),
        "the token went to who has no right to it"
    );
    ask::once(&hub, &server, &with).await.unwrap();
    let request = requests.try_recv().unwrap();
    assert!(
        request
            .to_lowercase()
            .contains(&format!("authorization: bearer {TOKEN}")),
        "{request}"
    );
    let view = hub.view();
    assert_eq!(
        (view.nodes[0].name.as_str(), view.nodes[0].word),
        ("n1", RackWord::Ready)
    );
    let kept: Value = serde_json::from_slice(&hub.document(&hub.view().nodes[0]).unwrap()).unwrap();
    assert_eq!(kept["generation"], 7);
    // Asked again and again, with the generation that it has.
    let following = tokio::spawn(ask::follow(hub.clone(), server, with, None));
    let mut heads = Vec::new();
    while heads.len() < 2 {
        heads.push(
            tokio::time::timeout(DEADLINE, requests.recv())
                .await
                .unwrap()
                .unwrap(),
        );
    }
    assert!(
        heads[1].starts_with("GET /status?generation=7&timeout=120s "),
        "{heads:?}"
    );
    following.abort();
    task.abort();
}

#[tokio::test]
async fn an_answer_that_is_none_is_told_and_not_kept() {
    for (document, expected) in [
        (json!({"kind": "Pod"}), "not a status document"),
        (json!([1]), "not a status document"),
    ] {
        let (server, _requests, task) = node(document).await;
        let hub = Hub::new(Inventory::default(), None, Timestamp::now).unwrap();
        let why = ask::once(&hub, &server, &AskWith::default())
            .await
            .unwrap_err();
        assert!(why.contains(expected), "{why}");
        assert!(hub.view().nodes.is_empty());
        task.abort();
    }
}

#[tokio::test]
async fn a_node_answers_as_another_one_and_the_page_of_that_one_stays_as_it_was() {
    let document = json!({"kind": "Status", "host": "n2", "generation": 7, "readiness": "Ready", "phase": "ready"});
    let (mut server, _requests, _task) = node(document).await;
    let list = Inventory::read("nodes.yaml", "- n1\n- n2\n").unwrap();
    server.identity = Some(list.nodes()[0].identity.clone());
    let hub = Hub::new(list, None, Timestamp::now).unwrap();
    ask::once(&hub, &server, &AskWith::default()).await.unwrap();
    let view = hub.view();
    let [n1, n2] = ["n1", "n2"].map(|name| view.node(name).unwrap());
    assert_eq!((n1.word, n2.word), (RackWord::Ready, RackWord::NeverCame));
    assert!(hub.document(n1).is_some() && hub.document(n2).is_none());
    let notice = &view.notices[0].text;
    assert!(notice.contains("says that it is n2"), "{notice}");
}

/// The largest documents that a status server may answer with, with any effect on the reader.
#[tokio::test]
async fn a_document_that_grows_when_it_is_read_is_refused() {
    let head = r#"{"kind": "Status", "host": "n1", "generation": 7, "readiness": "Ready", "phase": "ready", "x": ["#;
    for part in ["[],", "{\"a\":1},"] {
        let parts = part.repeat((8 << 20) / part.len() - 100);
        let (server, _requests, task) = node_with(format!("{head}{parts}0]}}")).await;
        let hub = Hub::new(Inventory::default(), None, Timestamp::now).unwrap();
        let why = ask::once(&hub, &server, &AskWith::default()).await;
        let why = why.unwrap_err();
        assert!(why.contains("more parts"), "{why}");
        task.abort();
    }
}

#[test]
fn the_oldest_documents_make_room_for_new_ones() {
    let hub = Hub::new(Inventory::default(), None, Timestamp::now).unwrap();
    let put = |name: &str, bytes| {
        hub.put_document(&NodeIdentity::new("", "", name), vec![b'x'; bytes]);
    };
    put("n0", 1);
    for name in ["n1", "n2", "n3", "n1", "n4", "n5"] {
        put(name, MOST_DOCUMENTS / 4);
    }
    let kept = lock(&hub.documents);
    let hosts: Vec<&str> = kept.iter().map(|(node, _)| node.host.as_str()).collect();
    assert_eq!(hosts, ["n3", "n1", "n4", "n5"]);
}

#[tokio::test]
async fn the_page_of_a_node_stays_small_whatever_its_document_says() {
    let rack = Served::new(false).await;
    rack.post(CLOUD_EVENT, event("n1", 1, "SettingUp")).await;
    // Indented, each of these takes a line of a hundred blanks.
    let deep = format!(
        "{}{}0{}",
        "[".repeat(100),
        "[],".repeat(20_000),
        "]".repeat(100)
    );
    let name = |number: usize| format!("f{number:02}.yaml");
    let held: Vec<Value> = (0..40)
        .map(|number| {
            let blockers: Vec<Value> = (0..number)
                .map(|before| {
                    json!({
                        "what": "the kind W", "condition": "served", "tier": "required", "message": "waits",
                        "requiredBy": "W w, line 1", "broughtBy": name(before),
                        "origin": {"rule": "inferred/kind-served", "file": name(number), "line": 1},
                    })
                })
                .collect();
            json!({"file": name(number), "since": "2026-01-01T00:00:00Z", "code": "waits-for-kind", "why": "waits",
                "by": "windrow", "blockers": blockers})
        })
        .collect();
    let mut document = json!({
        "apiVersion": "windrow.dev/v1", "kind": "Status", "generation": 1, "readiness": "SettingUp", "phase": "staging",
        "since": "2026-01-01T00:00:00Z", "reason": {"code": "waits-for-kind", "message": ""}, "summary": "",
        "staging": {"total": 40, "held": held, "released": [], "applied": [], "failed": []},
        "findings": [], "versions": {"windrow": "0.1.0"},
    });
    document["x"] = serde_json::from_str(&deep).unwrap();
    let node = NodeIdentity::new("", "", "n1");
    rack.hub
        .put_document(&node, document.to_string().into_bytes());
    let page = rack.get("/nodes/n1").await.text().await.unwrap();
    assert!(page.contains("f39.yaml"), "its files are there");
    assert!(page.contains("longer than 512 KiB"));
    assert!(page.len() < 2 << 20, "{}", page.len());
}

fn announcement(host: &str, sequence: u64, server: &AskedServer) -> NodeReport {
    let event = json!({
        "specversion": "1.0", "id": format!("{host}-{sequence}"), "type": "dev.windrow.node.seen",
        "data": {"hostname": host, "readiness": "SettingUp", "phase": "api", "sequence": sequence,
            "statusServer": {"url": server.url, "certificate": "selfSigned", "fingerprint": server.fingerprint}},
    });
    windrow_rack::read_event(event.to_string().as_bytes(), Timestamp::now()).unwrap()
}

#[tokio::test]
async fn a_server_that_a_node_announces_is_asked_where_that_is_allowed_and_nobody_else_gets_the_token()
 {
    let document = json!({"kind": "Status", "host": "n1", "generation": 7, "readiness": "Ready", "phase": "ready"});
    let (ours, mut requests, _task) = node(document.clone()).await;
    let (theirs, mut caught, _other) = node(document).await;
    let with = AskWith {
        token: Some(Arc::new(TOKEN.to_owned())),
        authority: None,
    };
    let list = format!(
        "- {{name: a, host: n1, fingerprint: '{}'}}\n",
        ours.fingerprint
    );
    let inventory = Inventory::read("nodes.yaml", &list).unwrap();
    let here = "10.0.0.7".parse().unwrap();
    let hub = Hub::new(inventory.clone(), None, Timestamp::now).unwrap();

    // As in practice: an address other than the sender's is not asked.
    let strict = Announced::new(AskAnnounced::Any, with.clone(), &inventory);
    strict.hear(&hub, &announcement("n1", 1, &ours), here);
    assert_eq!(strict.asked(), 0);

    let known = Announced::new(AskAnnounced::Known, with.clone(), &inventory).on_this_machine();
    known.hear(&hub, &announcement("n1", 2, &theirs), here);
    // Our node's certificate, which the other server does not have.
    let liar = AskedServer {
        url: theirs.url.clone(),
        ..ours.clone()
    };
    known.hear(&hub, &announcement("n2", 1, &liar), here);
    assert_eq!(known.asked(), 1);
    let refused = async {
        let mut changes = hub.changes();
        while !hub
            .view()
            .notices
            .iter()
            .any(|one| one.text.contains("another one than the fingerprint"))
        {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(DEADLINE, refused).await.unwrap();
    assert!(
        caught.try_recv().is_err(),
        "the token went to who announces it"
    );
    drop(known);
    let silent = async {
        let mut changes = hub.changes();
        while !hub.view().notices.is_empty() {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(DEADLINE, silent).await.unwrap();

    let known = Announced::new(AskAnnounced::Known, with.clone(), &inventory).on_this_machine();
    // The certificate identifies the node, not the name in the event.
    known.hear(&hub, &announcement("n9", 1, &ours), here);
    known.hear(&hub, &announcement("n9", 2, &ours), here);
    let request = tokio::time::timeout(DEADLINE, requests.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(request.to_lowercase().contains(&format!("bearer {TOKEN}")));
    let shown = async {
        let mut changes = hub.changes();
        while hub
            .view()
            .node("a")
            .is_none_or(|row| row.word != RackWord::Ready)
        {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(DEADLINE, shown).await.unwrap();
    assert_eq!(known.asked(), 1);
    drop(known);

    // If every node may be asked, one address has a bound.
    let any = Announced::new(AskAnnounced::Any, with, &inventory).on_this_machine();
    for number in 0..40 {
        any.hear(&hub, &announcement(&format!("x{number}"), 1, &theirs), here);
    }
    assert_eq!(any.asked(), 16);
    let request = tokio::time::timeout(DEADLINE, caught.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(request.to_lowercase().contains(&format!("bearer {TOKEN}")));
}
