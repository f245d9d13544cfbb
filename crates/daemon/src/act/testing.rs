//! A kube-apiserver in memory for the tests: it keeps objects by their paths, and refuses requests as told.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use http::{Method, Request, Response, StatusCode, Uri};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;
use windrow_harvester::incidents::{
    Cure, CureGoal, CureStep, FieldValue, IncidentFinding, ObjectChange, TemporaryField,
    TemporaryKind,
};
use windrow_harvester::objects::ObjectKind;
use windrow_model::reasons::Code;

use super::repair::{ChangedObject, Records, Worker};

pub fn finding() -> (IncidentFinding, Cure) {
    let cure = Cure {
        summary: "s".into(),
        changes: Vec::new(),
        saves: Vec::new(),
        purpose: None,
        steps: Vec::new(),
    };
    (
        IncidentFinding::new(Code::AddonStuck, "Addon harvester-system/pci", "why"),
        cure,
    )
}

pub fn addon() -> Value {
    json!({"kind": "Addon", "metadata": {"name": "pci", "namespace": "harvester-system", "uid": "1"}, "spec": {}})
}

macro_rules! switched {
    ($field:literal, $restore:literal) => {
        &TemporaryKind {
            id: $field,
            kind: ObjectKind::ADDON,
            fields: &[TemporaryField {
                field: $field,
                before: &[FieldValue::Absent],
                during: FieldValue::Bool(true),
            }],
            change: |name| format!("change {name}"),
            restore: |_| $restore.to_owned(),
            afterwards: "nothing follows",
            goal: |path| CureGoal::Differs {
                path,
                field: "/metadata/uid".to_owned(),
                value: Value::Null,
            },
            patience: 0,
            restore_patience: 0,
        }
    };
}

pub const TEMPORARY_KINDS: [&TemporaryKind; 4] = [
    switched!("/spec/a", "restore a"),
    switched!("/spec/b", "restore b"),
    switched!("/spec/c", "restore c"),
    switched!("/spec/off", "on"),
];

/// A step that sets a field of the addon. It has to be reached within `patience` seconds.
pub fn sets(field: &str, patience: u32) -> CureStep {
    let pointer = format!("/spec/{field}");
    let goal = CureGoal::Field {
        path: ADDON.to_owned(),
        before: None,
        field: pointer.clone(),
        value: json!(true),
    };
    ObjectChange::of(ObjectKind::ADDON, &addon())
        .set(pointer, json!(true))
        .step(format!("set {field}"), goal, patience)
}

/// A step that only waits, for a state that is never reached.
pub fn waits() -> CureStep {
    CureStep {
        request: None,
        way_back: None,
        ..sets("b", 0)
    }
}

pub fn gives_back(field: &str) -> CureStep {
    ObjectChange::of(ObjectKind::ADDON, &addon())
        .set(format!("/spec/{field}"), json!(true))
        .step_back(format!("restore {field}"), 0)
}

pub fn sample_of_a_temporary_change(records: &Records) -> String {
    let (finding, mut cure) = finding();
    cure.steps = vec![sets("a", 0), waits(), gives_back("a")];
    let begun = records.begin(&finding, &cure, Worker::Person, Timestamp::UNIX_EPOCH);
    let mut record = begun.unwrap();
    record.done = 1;
    record.changed.push(ChangedObject::new(0, addon()));
    records.write(&record).unwrap();
    records.name(&record)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Served,
    Denied,
    /// It is answered with 409, and changes nothing.
    Conflict,
    AnswerLost,
    /// It never arrives, and times out.
    Lost,
    /// The process dies before it arrives.
    DiesBefore,
    /// It is done, and the process dies before the answer.
    DiesAfter,
}

/// A function that changes objects right before a request with this body, as other clients would, and decides the fate
/// of the request.
pub type Meddler = Box<
    dyn FnMut(
            (&Method, &str, &Value),
            &BTreeMap<String, Value>,
        ) -> (Vec<(String, Option<Value>)>, Fate)
        + Send,
>;

pub type Judge = Box<dyn FnMut(&MadeChange) + Send>;

#[derive(Debug, Clone)]
pub struct MadeChange {
    pub path: String,
    pub before: Value,
    pub after: Value,
    pub note: Value,
}

#[derive(Default)]
struct State {
    meddler: Option<Meddler>,
    judge: Option<Judge>,
    objects: BTreeMap<String, Value>,
    version: u64,
    refused: Vec<(Method, StatusCode, String)>,
    lost: Vec<Method>,
    overtaking: Option<(String, Option<Value>)>,
    /// The method, and how many more requests of it are answered.
    hanging: Option<(Method, usize)>,
    requests: Vec<String>,
    /// The cluster's note at each request that would change an object other than the lease.
    notes: Vec<Value>,
}

pub const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/windrow-repairs";
pub const ADDONS: &str = "/apis/harvesterhci.io/v1beta1/addons";
pub const JOBS: &str = "/apis/batch/v1/jobs";
pub const ADDON: &str = "/apis/harvesterhci.io/v1beta1/namespaces/harvester-system/addons/pci";
pub const OLD_JOB: &str = "/apis/batch/v1/namespaces/harvester-system/jobs/helm-install-pci";

pub fn list_of(items: &[Value]) -> Value {
    json!({"metadata": {}, "items": items})
}

/// A Job that ended before the operation that waits for it.
pub fn old_job(uid: &str) -> Value {
    json!({"metadata": {"name": "helm-install-pci", "namespace": "harvester-system", "uid": uid,
            "creationTimestamp": "2026-05-01T11:00:00Z"},
        "status": {"completionTime": "2026-05-01T11:00:00Z", "conditions": [{"type": "Complete", "status": "True"}]}})
}

#[derive(Clone, Default)]
pub struct ObjectStore(Arc<Mutex<State>>, Arc<Notify>);

impl ObjectStore {
    pub fn client(&self) -> Client {
        let store = self.clone();
        let service = tower::service_fn(move |request| store.clone().answer(request));
        Client::new(service, "default")
    }

    pub fn object(&self, path: &str) -> Value {
        self.state().objects.get(path).cloned().unwrap_or_default()
    }

    pub fn put(&self, path: &str, object: Value) {
        self.state().store(path, object);
    }

    /// Takes the object at a path away, as another client would.
    pub fn remove(&self, path: &str) {
        self.state().objects.remove(path);
    }

    /// Puts an Addon that waits for a newer Job than this one, in the lists that a look asks for.
    pub fn put_stuck_addon(&self, job_uid: &str) {
        let addon = json!({"metadata": {"name": "pci", "namespace": "harvester-system", "uid": "a1"},
            "spec": {"enabled": true, "chart": "pci"},
            "status": {"status": "AddonEnabling", "conditions": [
                {"type": "InProgress", "status": "True", "lastUpdateTime": "2026-05-01T11:30:00Z"}]}});
        let chart = json!({"metadata": {"name": "pci", "namespace": "harvester-system", "uid": "c1",
                "ownerReferences": [{"kind": "Addon", "name": "pci", "uid": "a1"}]},
            "status": {"jobName": "helm-install-pci"}});
        let version = json!({"metadata": {"name": "server-version"}, "value": "v1.8.1"});
        let node = json!({"metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/control-plane": "true"}},
            "status": {"nodeInfo": {"kubeletVersion": "v1.35.6+rke2r1"}}});
        self.put("/api/v1/nodes", list_of(&[node]));
        self.put(ADDONS, list_of(&[addon]));
        self.put("/apis/helm.cattle.io/v1/helmcharts", list_of(&[chart]));
        self.put(
            "/apis/harvesterhci.io/v1beta1/settings",
            list_of(&[version]),
        );
        self.put(JOBS, list_of(&[old_job(job_uid)]));
        self.put(OLD_JOB, old_job(job_uid));
    }

    pub fn refuse(&self, method: Method, status: StatusCode) {
        self.refuse_saying(method, status, "the webhook says no");
    }

    /// As [`Self::refuse`], with this message.
    pub fn refuse_saying(&self, method: Method, status: StatusCode, words: &str) {
        self.state()
            .refused
            .push((method, status, words.to_owned()));
    }

    /// Carries out the next request of this method, and answers that it failed.
    pub fn lose_answer(&self, method: Method) {
        self.state().lost.push(method);
    }

    /// Another client is faster: right before the next request that would change something, it puts this object at the
    /// path, or removes the object there.
    pub fn overtake(&self, path: &str, object: Option<Value>) {
        self.state().overtaking = Some((path.to_owned(), object));
    }

    /// From now on `meddler` is called before each request that is not a dry run.
    pub fn meddle(&self, meddler: Meddler) {
        self.state().meddler = Some(meddler);
    }

    /// From now on this is shown each change that a patch makes.
    pub fn judge_changes(&self, judge: Judge) {
        self.state().judge = Some(judge);
    }

    /// Takes the next request of this method, even if requests are refused afterwards.
    pub fn take(&self, method: Method) {
        self.refuse(method, StatusCode::OK);
    }

    /// Answers this number of further requests of this method, and none after these.
    pub fn hang_after(&self, method: Method, answered: usize) {
        self.state().hanging = Some((method, answered));
    }

    /// Waits until a request is not answered. From then on all are answered.
    pub async fn hung(&self) {
        self.1.notified().await;
        self.state().hanging = None;
    }

    /// The lease is held by this holder from now on, with the same annotations.
    pub fn hand_lease_to(&self, holder: &str) {
        let mut lease = self.object(LEASE);
        lease["spec"]["holderIdentity"] = json!(holder);
        self.put(LEASE, lease);
    }

    /// The cluster's note at each request that would change an object other than the lease.
    pub fn notes_at_changes(&self) -> Vec<Value> {
        self.state().notes.clone()
    }

    pub fn put_lease_of(&self, holder: &str) {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "windrow-repairs", "namespace": "kube-system"},
            "spec": {"holderIdentity": holder}});
        self.put(LEASE, lease);
    }

    /// Writes a note of changes to restore. The lease is free.
    pub fn put_restore_note(&self, note: &Value) {
        self.put_lease_of("");
        let mut lease = self.object(LEASE);
        lease["metadata"]["annotations"] = json!({"windrow.dev/restore": note.to_string()});
        self.put(LEASE, lease);
    }

    pub fn restore_note(&self) -> Value {
        self.state().restore_note()
    }

    /// The requests that would change something, in their order, except for those of the lease on repairs.
    pub fn changes(&self) -> Vec<String> {
        let state = self.state();
        let changes = state
            .requests
            .iter()
            .filter(|one| !one.starts_with("GET ") && !one.ends_with(LEASE));
        changes.cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        if self.state().hangs(&head.method) {
            self.1.notify_one();
            std::future::pending().await
        }
        let fate = self.state().fate(&head.method, &head.uri, &body);
        if fate == Fate::DiesBefore {
            self.1.notify_one();
            std::future::pending().await
        }
        let (mut status, mut value) = match fate {
            Fate::Denied => refusal_saying(
                StatusCode::FORBIDDEN,
                "admission webhook \"w\" denied the request: no",
            ),
            Fate::Conflict => refusal(StatusCode::CONFLICT),
            Fate::Lost => refusal(StatusCode::GATEWAY_TIMEOUT),
            _ => self.state().answer(&head.method, &head.uri, body),
        };
        if fate == Fate::DiesAfter {
            self.1.notify_one();
            std::future::pending().await
        }
        if fate == Fate::AnswerLost {
            (status, value) = refusal(StatusCode::GATEWAY_TIMEOUT);
        }
        let mut state = self.state();
        if let Some(at) = state.lost.iter().position(|one| one == head.method) {
            state.lost.remove(at);
            (status, value) = refusal(StatusCode::INTERNAL_SERVER_ERROR);
        }
        drop(state);
        let mut response = Response::new(Body::from(value.to_string().into_bytes()));
        *response.status_mut() = status;
        Ok(response)
    }
}

impl State {
    fn fate(&mut self, method: &Method, uri: &Uri, body: &Value) -> Fate {
        let Some(mut meddler) = self.meddler.take() else {
            return Fate::Served;
        };
        let mut fate = Fate::Served;
        if !is_trial(uri, body) {
            let (puts, drawn) = meddler((method, uri.path(), body), &self.objects);
            fate = drawn;
            for (path, object) in puts {
                match object {
                    Some(object) => drop(self.store(&path, object)),
                    None => drop(self.objects.remove(&path)),
                }
            }
        }
        self.meddler = Some(meddler);
        fate
    }

    fn hangs(&mut self, method: &Method) -> bool {
        let Some((hanging, answered)) = &mut self.hanging else {
            return false;
        };
        if hanging != method {
            return false;
        }
        let hangs = *answered == 0;
        *answered = answered.saturating_sub(1);
        hangs
    }

    fn restore_note(&self) -> Value {
        let lease = self.objects.get(LEASE).cloned().unwrap_or_default();
        let text = lease["metadata"]["annotations"]["windrow.dev/restore"].as_str();
        text.map_or(json!([]), |text| serde_json::from_str(text).unwrap())
    }

    fn answer(&mut self, method: &Method, uri: &Uri, body: Value) -> (StatusCode, Value) {
        let path = uri.path();
        let is_trial = is_trial(uri, &body);
        let mark = if is_trial { " (dry run)" } else { "" };
        self.requests.push(format!("{method} {path}{mark}"));
        if let Some(at) = self.refused.iter().position(|(one, ..)| one == method) {
            let (_, status, words) = self.refused.remove(at);
            if status != StatusCode::OK {
                return refusal_saying(status, &words);
            }
        }
        if method != Method::GET && path != LEASE {
            let note = self.restore_note();
            self.notes.push(note);
        }
        if method != Method::GET
            && let Some((path, object)) = self.overtaking.take()
        {
            match object {
                Some(object) => drop(self.store(&path, object)),
                None => drop(self.objects.remove(&path)),
            }
        }
        let known = self.objects.get(path).cloned();
        match (method.as_str(), known) {
            ("GET", Some(object)) => (StatusCode::OK, object),
            ("POST", None) => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                (
                    StatusCode::CREATED,
                    self.store(&format!("{path}/{name}"), body),
                )
            }
            ("PUT", Some(object)) => {
                if object["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] {
                    return refusal(StatusCode::CONFLICT);
                }
                (StatusCode::OK, self.store(path, body))
            }
            ("PATCH", Some(mut object)) => match patched(&mut object, &body) {
                None => refusal(StatusCode::UNPROCESSABLE_ENTITY),
                Some(()) if is_trial => (StatusCode::OK, object),
                Some(()) => {
                    let change = MadeChange {
                        path: path.to_owned(),
                        before: self.objects.get(path).cloned().unwrap_or_default(),
                        after: object.clone(),
                        note: self.restore_note(),
                    };
                    if let Some(judge) = &mut self.judge {
                        judge(&change);
                    }
                    (StatusCode::OK, self.store(path, object))
                }
            },
            ("DELETE", Some(object)) => {
                if !is_trial {
                    self.objects.remove(path);
                }
                (StatusCode::OK, object)
            }
            _ => refusal(StatusCode::NOT_FOUND),
        }
    }

    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}

fn is_trial(uri: &Uri, body: &Value) -> bool {
    uri.query() == Some("dryRun=All") || body["dryRun"] == json!(["All"])
}

/// A JSON patch (RFC 6902) as kube-apiserver applies it, of fields of objects: null tests that a field is absent. None
/// when a test fails.
fn patched(object: &mut Value, patch: &Value) -> Option<()> {
    for operation in patch.as_array()? {
        let pointer = operation["path"].as_str()?;
        let (parent, field) = pointer.rsplit_once('/')?;
        let parent = object.pointer_mut(parent)?.as_object_mut()?;
        match operation["op"].as_str()? {
            "test" if parent.get(field).unwrap_or(&Value::Null) != &operation["value"] => {
                return None;
            }
            "test" => {}
            "remove" => drop(parent.remove(field)?),
            _ => drop(parent.insert(field.to_owned(), operation["value"].clone())),
        }
    }
    Some(())
}

fn refusal(status: StatusCode) -> (StatusCode, Value) {
    refusal_saying(status, "it is not as it should be")
}

fn refusal_saying(status: StatusCode, words: &str) -> (StatusCode, Value) {
    let reason = match status {
        StatusCode::NOT_FOUND => "NotFound",
        _ => "Refused",
    };
    let said = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": words, "reason": reason, "code": status.as_u16(),
    });
    (status, said)
}
