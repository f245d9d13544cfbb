//! What kube-apiserver answers: the kinds that it serves, the objects that it has, and whether it would accept another one.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::ApiResource;
use serde_json::Value;
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_plan::rules::Expression;

use crate::support::first_boot::{ACCEPTED, IS_THERE, NOT_SERVED, OBJECTS, facts, object_ref};

/// The cluster at one moment.
pub(super) struct Answers {
    client: Client,
    kinds: BTreeMap<GroupKind, ApiResource>,
    /// Those whose objects have a namespace.
    namespaced: BTreeSet<GroupKind>,
}

impl Answers {
    pub(super) async fn now(client: &Client) -> Self {
        let (mut kinds, mut namespaced) = (BTreeMap::new(), BTreeSet::new());
        for path in ["/api", "/apis"] {
            let all = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList";
            let request = http::Request::get(path).header("accept", all);
            let request = request.body(Vec::new()).unwrap();
            let list: Value = client.request(request).await.unwrap();
            for group in items(&list["items"]) {
                let name = text(&group["metadata"]["name"]);
                for version in items(&group["versions"]) {
                    for resource in items(&version["resources"]) {
                        let kind = text(&resource["responseKind"]["kind"]);
                        let version = text(&version["version"]);
                        let api_version = match name.as_str() {
                            "" => version.clone(),
                            group => format!("{group}/{version}"),
                        };
                        // The first version is the preferred one.
                        let key = GroupKind::new(name.as_str(), kind.as_str());
                        if resource["scope"] == "Namespaced" {
                            namespaced.insert(key.clone());
                        }
                        kinds.entry(key).or_insert_with(|| ApiResource {
                            group: name.clone(),
                            version,
                            api_version,
                            kind,
                            plural: text(&resource["resource"]),
                        });
                    }
                }
            }
        }
        Self {
            client: client.clone(),
            kinds,
            namespaced,
        }
    }

    fn objects(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }

    async fn get(&self, object: &ObjectRef) -> Option<Value> {
        let resource = self.kinds.get(&object.group_kind())?;
        let objects = self.objects(resource, object.namespace.as_deref());
        let found = objects.get_opt(&object.name).await.ok().flatten()?;
        Some(serde_json::to_value(found).unwrap())
    }

    /// The facts that a recording has.
    pub(super) async fn facts(&self) -> BTreeSet<String> {
        let mut found = BTreeMap::new();
        for object in OBJECTS {
            let object = object_ref(*object);
            if let Some(json) = self.get(&object).await {
                found.insert(object, json);
            }
        }
        facts(|kind| self.kinds.contains_key(kind), &found)
    }

    /// What kube-apiserver and its webhooks say when this object is created. It is not kept.
    pub(super) async fn try_object(&self, object: &ObjectRef, json: &Value) -> String {
        let Some(resource) = self.kinds.get(&object.group_kind()) else {
            return NOT_SERVED.to_owned();
        };
        let objects = self.objects(resource, object.namespace.as_deref());
        let on_trial = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let body = serde_json::from_value(json.clone()).unwrap();
        match objects.create(&on_trial, &body).await {
            Ok(_) => ACCEPTED.to_owned(),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                IS_THERE.to_owned()
            }
            Err(kube::Error::Api(status)) => status.message.clone(),
            Err(other) => panic!("{object}: {other}"),
        }
    }

    /// What of the reasons for holds in Windrow's status is not so. Each line has the file.
    pub(super) async fn untrue(&self, status: &Value) -> Vec<String> {
        let mut untrue = Vec::new();
        for held in items(&status["staging"]["held"]) {
            for blocker in items(&held["blockers"]) {
                if !self.is_unmet(blocker).await {
                    let (file, what) = (text(&held["file"]), text(&blocker["what"]));
                    let condition = text(&blocker["condition"]);
                    untrue.push(format!("{file} waits for {what} ({condition})"));
                }
            }
        }
        untrue
    }

    async fn is_unmet(&self, blocker: &Value) -> bool {
        let what = text(&blocker["what"]);
        if let Some(kind) = what.strip_prefix("the kind ") {
            let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
            return !self.kinds.contains_key(&GroupKind::new(group, kind));
        }
        let (kind, name) = what.split_once(' ').unwrap();
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, name),
        };
        let condition = text(&blocker["condition"]);
        // The group is not in these words, so one of those with such a kind has to lack it.
        let of_kind = self.kinds.iter().filter(|(key, _)| {
            key.kind == kind && self.namespaced.contains(key) == namespace.is_some()
        });
        let mut found = of_kind.peekable();
        if found.peek().is_none() {
            return true;
        }
        for (_, resource) in found {
            let objects = self.objects(resource, namespace);
            // Some kinds cannot be read.
            let Some(object) = objects.get_opt(name).await.ok().flatten() else {
                return true;
            };
            let json = serde_json::to_value(object).unwrap();
            if !meets(kind, &condition, &json) {
                return true;
            }
        }
        false
    }
}

/// Does an object have what is required of it?
fn meets(kind: &str, condition: &str, json: &Value) -> bool {
    let status = &json["status"];
    match (condition, kind) {
        ("exists", _) => true,
        ("ready", "PersistentVolumeClaim") => status["phase"] == "Bound",
        ("ready", "Namespace") => status["phase"] == "Active",
        ("ready", "Deployment") => status["availableReplicas"].as_u64().unwrap_or(0) > 0,
        ("ready", "VirtualMachineImage") => {
            let mut conditions = items(&status["conditions"]);
            conditions.any(|one| one["type"] == "Imported" && one["status"] == "True")
        }
        ("ready", _) => panic!("when is {kind} ready?"),
        (expression, _) => {
            let expression = Expression::compile(expression).unwrap();
            expression.holds(json).unwrap_or(false)
        }
    }
}

pub(super) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
