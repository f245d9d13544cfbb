use http::{Method, StatusCode};
use serde_json::Value;
use windrow_model::findings::Incident;
use windrow_model::reasons::Severity;

use super::*;
use crate::act::testing::ObjectStore;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/windrow-diagnosis";
const INTERVAL: Duration = Duration::from_secs(300);

struct Server {
    root: tempfile::TempDir,
    turns: LookTurns,
}

impl Server {
    fn new(identity: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        std::fs::write(root.path().join("etc/machine-id"), identity).unwrap();
        Self {
            root,
            turns: LookTurns::new(Timestamp::now),
        }
    }

    async fn take(&mut self, store: &ObjectStore, basis: &LookBasis) -> LookTurn {
        let layout = Layout::new(self.root.path());
        let client = store.client();
        self.turns.take(&client, &layout, INTERVAL, basis).await
    }
}

fn basis() -> LookBasis {
    LookBasis::new(&[], &[])
}

fn counted(message: &str) -> BTreeMap<DetectorId, Vec<Finding>> {
    let finding = Finding {
        code: Code::AddonStuck,
        severity: Severity::Error,
        message: message.to_owned(),
        at: Vec::new(),
        incident: Some(Box::new(Incident {
            subject: "Addon x/a".to_owned(),
            rule: None,
            evidence: Vec::new(),
            advice: String::new(),
            cure: None,
            documentation: "incidents/addon.md".to_owned(),
        })),
    };
    BTreeMap::from([(DetectorId::new("addons"), vec![finding])])
}

#[tokio::test]
async fn one_server_looks_and_the_other_shows_what_it_left_and_who_saw_it() {
    let store = ObjectStore::default();
    let (mut first, mut second) = (Server::new("a"), Server::new("b"));
    assert_eq!(first.take(&store, &basis()).await, LookTurn::Ours);
    assert_eq!(
        second.take(&store, &basis()).await,
        LookTurn::Ours,
        "nothing is left yet"
    );
    let client = store.client();
    first
        .turns
        .leave(&client, &basis(), counted("it waits"))
        .await;
    // A server without the lease does not overwrite the findings of another one.
    second.turns.leave(&client, &basis(), BTreeMap::new()).await;
    let LookTurn::Theirs(shown) = second.take(&store, &basis()).await else {
        panic!("it looks too");
    };
    let finding = &shown[&DetectorId::new("addons")][0];
    assert_eq!(finding.message, "it waits");
    let seen = finding.incident.as_ref().unwrap().evidence[0].to_string();
    let holder = store.object(LEASE)["spec"]["holderIdentity"].clone();
    assert_eq!(
        seen,
        format!(
            "Lease kube-system/windrow-diagnosis: seen by: {}",
            holder.as_str().unwrap()
        )
    );
}

#[tokio::test]
async fn what_is_left_is_written_only_when_it_is_another() {
    let store = ObjectStore::default();
    let mut first = Server::new("a");
    first.take(&store, &basis()).await;
    let client = store.client();
    for _ in 0..3 {
        first
            .turns
            .leave(&client, &basis(), counted("it waits"))
            .await;
    }
    assert_eq!(store.changes().len(), 2, "{:?}", store.changes());
    first.turns.leave(&client, &basis(), BTreeMap::new()).await;
    assert_eq!(store.changes().len(), 3);
}

#[tokio::test]
async fn a_server_that_goes_by_other_rules_or_cures_or_cannot_read_what_is_left_looks_itself() {
    let store = ObjectStore::default();
    let (mut first, mut second) = (Server::new("a"), Server::new("b"));
    first.take(&store, &basis()).await;
    let client = store.client();
    first
        .turns
        .leave(&client, &basis(), counted("it waits"))
        .await;
    assert_ne!(second.take(&store, &basis()).await, LookTurn::Ours);
    let other = LookBasis::new(&[], &[Code::AddonStuck]);
    assert_eq!(second.take(&store, &other).await, LookTurn::Ours);

    let long = "x".repeat(LONGEST);
    first.turns.leave(&client, &basis(), counted(&long)).await;
    let mut lease = store.object(LEASE);
    let note = &mut lease["metadata"]["annotations"]["windrow.dev/note"];
    assert!(note.as_str().unwrap().len() < 100, "too long for the Lease");
    assert_eq!(second.take(&store, &basis()).await, LookTurn::Ours);
    let note = &mut lease["metadata"]["annotations"]["windrow.dev/note"];
    *note = Value::from("{");
    store.put(LEASE, lease);
    assert_eq!(second.take(&store, &basis()).await, LookTurn::Ours);
}

#[tokio::test]
async fn a_server_that_cannot_have_the_lease_looks_as_if_it_were_alone() {
    for (method, status) in [
        (Method::GET, StatusCode::FORBIDDEN),
        (Method::GET, StatusCode::INTERNAL_SERVER_ERROR),
        (Method::POST, StatusCode::FORBIDDEN),
        (Method::POST, StatusCode::CONFLICT),
    ] {
        let store = ObjectStore::default();
        let mut server = Server::new("a");
        store.refuse(method.clone(), status);
        let turn = server.take(&store, &basis()).await;
        assert_eq!(turn, LookTurn::Ours, "{method} {status}");
        assert!(!server.turns.is_ours(), "{method} {status}");
        assert_eq!(server.take(&store, &basis()).await, LookTurn::Ours);
        assert!(server.turns.is_ours(), "{method} {status}");
    }
}

#[tokio::test]
async fn a_server_that_stops_leaves_the_turn_to_the_next() {
    let store = ObjectStore::default();
    let (mut first, mut second) = (Server::new("a"), Server::new("b"));
    first.take(&store, &basis()).await;
    let client = store.client();
    first
        .turns
        .leave(&client, &basis(), counted("it waits"))
        .await;
    assert_ne!(second.take(&store, &basis()).await, LookTurn::Ours);

    // Its holder has stopped without releasing it.
    let mut lease = store.object(LEASE);
    lease["spec"]["renewTime"] = Value::from("2020-01-01T00:00:00.000000Z");
    store.put(LEASE, lease);
    assert_ne!(
        second.take(&store, &basis()).await,
        LookTurn::Ours,
        "clocks differ"
    );

    // It releases the lease.
    first.turns.give_up(&client).await;
    assert!(!first.turns.is_ours());
    assert_eq!(second.take(&store, &basis()).await, LookTurn::Ours);
    assert!(second.turns.is_ours());
    // A server does not release the lease of another.
    first.turns.give_up(&client).await;
    assert_ne!(store.object(LEASE)["spec"]["holderIdentity"], Value::Null);
}
