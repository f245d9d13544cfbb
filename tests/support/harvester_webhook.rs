//! What Harvester's validating webhook, and Rancher's for node drivers, refuse: played by version, as read in
//! `pkg/webhook/resources` of harvester v1.4.0 to v1.8.2 and `nodedriver/validator.go` of rancher/webhook.
//!
//! Of Harvester's rules these are here: Addons, the storage network, the Upgrade's preflight as far as single objects
//! decide it, ManagedCharts, machines that are stopped during a backup. A request that no rule is about is let through, as there.

use kube::Client;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use serde_json::{Value, json};
use windrow_harvester::HarvesterVersion;

use super::objects::HARVESTER_MACHINE;
use super::objects::{
    ADDON, Gvk, MANAGED_CHART, NODE, UPGRADE, VALIDATION, VM, VM_BACKUP, api, create,
};
use super::webhook::{Certificate, Judge, Refusal, WebhookServer};

/// Both webhooks on one server, registered under their own names.
pub(crate) async fn play(client: &Client, version: HarvesterVersion) -> WebhookServer {
    let judge = Refuser {
        client: client.clone(),
        version,
    };
    let server = WebhookServer::start(0, Certificate::new(), judge).await;
    let configurations = api(client, VALIDATION, "");
    for (name, hook, rules) in [
        (
            "harvester-validator",
            "validator.harvesterhci.io",
            vec![
                rule("harvesterhci.io", "addons", &addon_operations(version)),
                rule("harvesterhci.io", "settings", &["UPDATE", "DELETE"]),
                rule("harvesterhci.io", "upgrades", &["CREATE"]),
                rule("management.cattle.io", "managedcharts", &["DELETE"]),
                rule("kubevirt.io", "virtualmachines", &["UPDATE"]),
            ],
        ),
        (
            "rancher.cattle.io",
            "rancher.cattle.io.nodedrivers.management.cattle.io",
            vec![rule(
                "management.cattle.io",
                "nodedrivers",
                &["UPDATE", "DELETE"],
            )],
        ),
    ] {
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name},
            "webhooks": [{"name": hook, "clientConfig": server.client_config(), "rules": rules,
                "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"]}]});
        create(&configurations, configuration).await;
    }
    server
}

/// Both are gone, and may be registered again.
pub(crate) async fn remove(client: &Client, server: WebhookServer) {
    let configurations = api(client, VALIDATION, "");
    let at_once = DeleteParams::default();
    for name in ["harvester-validator", "rancher.cattle.io"] {
        let deleted = configurations.delete(name, &at_once).await;
        deleted.expect("it was registered");
    }
    server.stop().await;
}

fn rule(group: &str, resource: &str, operations: &[&str]) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": operations})
}

/// Deleting an Addon is looked at from v1.7.0 on.
fn addon_operations(version: HarvesterVersion) -> Vec<&'static str> {
    match version >= HarvesterVersion::new(1, 7, 0) {
        true => vec!["UPDATE", "DELETE"],
        false => vec!["UPDATE"],
    }
}

struct Refuser {
    client: Client,
    version: HarvesterVersion,
}

impl Judge for Refuser {
    async fn judge(&self, request: Value) -> Option<Result<(), Refusal>> {
        let (old, new) = (&request["oldObject"], &request["object"]);
        let resource = request["resource"]["resource"].as_str();
        let operation = request["operation"].as_str();
        Some(match (resource?, operation?) {
            ("addons", "UPDATE") => addon_changed(old, new),
            ("addons", "DELETE") => addon_deleted(old),
            ("settings", "UPDATE") => self.storage_network_changed(old, new).await,
            ("settings", "DELETE") if old["metadata"]["name"] == "storage-network" => {
                refused(405, "Disallow delete setting name storage-network")
            }
            ("upgrades", "CREATE") => self.upgrade_begun(new).await,
            ("managedcharts", "DELETE") => self.chart_deleted(old),
            ("virtualmachines", "UPDATE") => self.machine_stopped(old, new).await,
            ("nodedrivers", _) => self.driver_switched_off(old, new).await,
            _ => Ok(()),
        })
    }
}

fn refused(code: u16, message: impl Into<String>) -> Result<(), Refusal> {
    Err(Refusal {
        code,
        message: message.into(),
    })
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = object["status"]["conditions"].as_array()?;
    all.iter().find(|one| one["type"] == kind)
}

fn named(object: &Value) -> String {
    let part = |pointer| text(object, pointer);
    format!("{}/{}", part("/metadata/namespace"), part("/metadata/name"))
}

/// As KubeVirt reads it: `running` is the older field.
fn strategy(vm: &Value) -> &str {
    match vm["spec"]["running"].as_bool() {
        Some(true) => "Always",
        Some(false) => "Halted",
        None => text(vm, "/spec/runStrategy"),
    }
}

fn addon_changed(old: &Value, new: &Value) -> Result<(), Refusal> {
    if old["spec"]["chart"] != new["spec"]["chart"] {
        return refused(400, "chart field cannot be changed.");
    }
    match condition(old, "InProgress") {
        Some(found) if found["status"] == "True" => refused(
            400,
            format!(
                "cannot perform operation, as an existing operation is in progress on addon {}",
                text(old, "/metadata/name")
            ),
        ),
        _ => Ok(()),
    }
}

/// Only what is labelled experimental may go, and some never.
fn addon_deleted(old: &Value) -> Result<(), Refusal> {
    let kept = ["kubeovn-operator", "rancher-logging", "rancher-monitoring"];
    let experimental = text(old, "/metadata/labels/addon.harvesterhci.io~1experimental") == "true";
    match experimental && !kept.contains(&text(old, "/metadata/name")) {
        true => Ok(()),
        false => refused(400, format!("{} addon cannot be deleted", named(old))),
    }
}

impl Refuser {
    /// All objects of a kind; none where it is not served.
    async fn all(&self, kind: Gvk, namespace: &str) -> Vec<Value> {
        let listed = api(&self.client, kind, namespace);
        let found = listed.list(&ListParams::default()).await;
        let items = found.map(|list| list.items).unwrap_or_default();
        let value = |object: DynamicObject| serde_json::to_value(object).expect("it came as JSON");
        items.into_iter().map(value).collect()
    }

    async fn storage_network_changed(&self, old: &Value, new: &Value) -> Result<(), Refusal> {
        let is_asked = text(new, "/metadata/name") == "storage-network"
            && (old["value"] != new["value"] || old["default"] != new["default"]);
        if !is_asked {
            return Ok(());
        }
        let configured = condition(old, "configured").unwrap_or(&Value::Null);
        let busy = configured["status"] == "False" && configured["reason"] == "In Progress";
        let reset = text(new, "/value").is_empty() && text(new, "/default").is_empty();
        if self.version >= HarvesterVersion::new(1, 8, 0) && busy && !reset {
            return refused(
                409,
                format!(
                    "cannot update the setting \"storage-network\" because it is still being configured (reason: {}, \
                     message: {})",
                    configured["reason"], configured["message"]
                ),
            );
        }
        let vms = self.all(VM, "").await;
        let stopped = |vm: &Value| {
            vm["status"]["printableStatus"] == "Stopped" && vm["spec"]["runStrategy"] == "Halted"
        };
        match vms.iter().all(stopped) {
            true => Ok(()),
            false => refused(
                422,
                "Please stop all VMs before configuring the storage-network setting",
            ),
        }
    }

    /// The preflight, in its order; it says the first thing only.
    async fn upgrade_begun(&self, new: &Value) -> Result<(), Refusal> {
        if text(new, "/spec/version").is_empty() && text(new, "/spec/image").is_empty() {
            return refused(400, "version or image field are not specified.");
        }
        let state = "/metadata/labels/harvesterhci.io~1upgradeState";
        for other in self.all(UPGRADE, text(new, "/metadata/namespace")).await {
            if !["Succeeded", "Failed"].contains(&text(&other, state)) {
                let name = text(&other, "/metadata/name");
                let why = format!("cannot proceed until previous upgrade {name:?} completes");
                return refused(409, why);
            }
        }
        if text(new, "/metadata/annotations/harvesterhci.io~1skipWebhook") == "true" {
            return Ok(());
        }
        for chart in self.all(MANAGED_CHART, "fleet-local").await {
            if condition(&chart, "Ready").is_some_and(|ready| ready["status"] != "True") {
                let name = text(&chart, "/metadata/name");
                let why = format!(
                    "managed chart {name} is not ready, please wait for it to be ready or fix it"
                );
                return refused(400, why);
            }
        }
        if self.version >= HarvesterVersion::new(1, 7, 0) {
            self.addons_are_settled().await?;
        }
        self.nodes_are_ready().await
    }

    async fn addons_are_settled(&self) -> Result<(), Refusal> {
        for addon in self.all(ADDON, "").await {
            let state = text(&addon, "/status/status");
            let (word, settled) = match addon["spec"]["enabled"] == true {
                true => ("enabled", state == "AddonDeploySuccessful"),
                false => ("disabled", ["", "AddonDisabled"].contains(&state)),
            };
            if !settled {
                let name = named(&addon);
                let why = format!(
                    "addon {name} is {word} but still on status {state}, please wait for it to be ready or fix it"
                );
                return refused(400, why);
            }
        }
        Ok(())
    }

    async fn nodes_are_ready(&self) -> Result<(), Refusal> {
        for node in self.all(NODE, "").await {
            let name = text(&node, "/metadata/name");
            if condition(&node, "Ready").is_some_and(|ready| ready["status"] != "True") {
                let why = format!("node {name} is not ready, please wait for it to be ready");
                return refused(400, why);
            }
            if node["spec"]["unschedulable"] == true {
                let why =
                    format!("node {name} is unschedulable, please wait for it to be schedulable");
                return refused(400, why);
            }
        }
        Ok(())
    }

    fn chart_deleted(&self, old: &Value) -> Result<(), Refusal> {
        let mut kept = vec!["harvester", "harvester-crd"];
        if self.version >= HarvesterVersion::new(1, 7, 0) {
            kept.extend(["rancher-logging-crd", "rancher-monitoring-crd"]);
        }
        let ours = text(old, "/metadata/namespace") == "fleet-local"
            && kept.contains(&text(old, "/metadata/name"));
        match ours {
            true => refused(
                422,
                format!("Delete managedchart {} is prohibited", named(old)),
            ),
            false => Ok(()),
        }
    }

    /// A machine is not stopped while a backup of it is being made, or has failed. What its other checks look at, a stop leaves
    /// as it is.
    async fn machine_stopped(&self, old: &Value, new: &Value) -> Result<(), Refusal> {
        if strategy(old) != "Always" || strategy(new) != "Halted" {
            return Ok(());
        }
        let uid = text(old, "/metadata/uid");
        let backups = self.all(VM_BACKUP, "").await;
        let hinders = backups.iter().any(|backup| {
            let status = &backup["status"];
            status["sourceUID"] == uid
                && (status["readyToUse"] != true || status["error"].is_object())
        });
        match hinders {
            true => refused(
                400,
                format!(
                    "there is vmbackup in progress for vm {}, please wait for the vmbackup or remove it before \
                     stop/restart the vm",
                    named(new)
                ),
            ),
            false => Ok(()),
        }
    }

    /// Rancher's: a driver that is switched off or deleted must have no machines. RKE1's nodes are not looked at here.
    async fn driver_switched_off(&self, old: &Value, new: &Value) -> Result<(), Refusal> {
        if old["spec"]["active"] != true || new["spec"]["active"] == true {
            return Ok(());
        }
        let driver = text(old, "/spec/displayName");
        // No other driver's machines are made in these tests.
        let machines = match driver {
            "harvester" => self.all(HARVESTER_MACHINE, "").await,
            _ => Vec::new(),
        };
        match machines.is_empty() {
            true => Ok(()),
            // It gives no code.
            false => refused(
                0,
                "This driver is in use by existing nodes and cannot be disabled",
            ),
        }
    }
}
