//! Level 4: KubeVirt is installed by its own virt-operator. In each half-made state, a file with a VM is held as long as kube-apiserver
//! refuses the VM. The probe, the diagnosis, the knowledge and the simulation agree with the cluster.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::PostParams;
use serde_json::{Value, json};
use support::cluster::{AuditLog, Cluster, DEADLINE, KubeVirt, Spec, Who, eventually};
use support::objects::{
    API_SERVICE, DEFINITION, DEPLOYMENT, ENDPOINTS, Gvk, KUBEVIRT, SERVICE, SETTING, VALIDATION,
    VM, api, field, make, resource, serve_published,
};
use windrow::observe::objects::diagnosed;
use windrow_plan::knowledge::Knowledge;
use windrow_plan::readiness::node::{NodeRole, ProbeOutcome};

use crate::daemon_in_cluster::{Node, failures};
use crate::harvester_webhook_in_cluster::{objects_of_the_example, refusal};
use crate::readiness_in_cluster::{answers, server};
use crate::support;

const SYSTEM: &str = "harvester-system";
/// A VM that starts and one that does not, in separate files.
const FILES: [(&str, &str); 2] = [("vm-10-starts", "Always"), ("vm-20-is-off", "Halted")];
const CLUSTER_INSTANCE_TYPE: Gvk = (
    "instancetype.kubevirt.io",
    "v1beta1",
    "VirtualMachineClusterInstancetype",
);
const MIGRATION_POLICY: Gvk = ("migrations.kubevirt.io", "v1alpha1", "MigrationPolicy");

fn vm(name: &str, strategy: &str) -> Value {
    json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name, "namespace": "default"},
        "spec": {"runStrategy": strategy, "template": {"spec": {
            "domain": {"devices": {}, "memory": {"guest": "64Mi"}}}}}})
}

/// The refusal of a new VM: its code and its words.
async fn refused(client: &Client, mut machine: Value) -> Option<(u16, String)> {
    machine["metadata"]["namespace"] = json!("default");
    refused_in(client, VM, "default", machine).await
}

async fn refused_in(
    client: &Client,
    gvk: Gvk,
    namespace: &str,
    mut object: Value,
) -> Option<(u16, String)> {
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let (group, version, kind) = gvk;
    object["apiVersion"] = json!(format!("{group}/{version}"));
    object["kind"] = json!(kind);
    let object = serde_json::from_value(object).unwrap();
    refusal(api(client, gvk, namespace).create(&dry, &object)).await
}

/// The words of kube-apiserver while a webhook does not answer.
fn silent(webhook: &str, service: &str, path: &str, why: &str) -> (u16, String) {
    let words = format!(
        "Internal error occurred: failed calling webhook \"{webhook}\": failed to call webhook: Post \
         \"https://{service}.{SYSTEM}.svc:443{path}?timeout=10s\": {why}"
    );
    (500, words)
}

/// A server of Harvester on which nothing but KubeVirt is missing, with the daemon and RKE2's deploy controller.
struct HarvesterServer {
    cluster: Cluster,
    client: Client,
    root: PathBuf,
    daemon: Node,
}

impl HarvesterServer {
    async fn start(cluster: Cluster) -> Self {
        let client = cluster.client(Who::Admin).await;
        serve_published(&client, SETTING, "Cluster").await;
        let setting = json!({"metadata": {"name": "storage-network"}, "value": ""});
        make(&client, SETTING, "", setting).await;
        let validator = json!({"metadata": {"name": "harvester-validator"}, "webhooks": []});
        make(&client, VALIDATION, "", validator).await;
        let endpoints = json!({"metadata": {"name": "harvester-webhook"},
            "subsets": [{"addresses": [{"ip": "10.42.1.1"}], "ports": [{"port": 9443}]}]});
        make(&client, ENDPOINTS, SYSTEM, endpoints).await;
        let root = cluster.dir().join("root");
        let manifests = Node::manifests(&root);
        for directory in [&manifests, &root.join("etc")] {
            fs::create_dir_all(directory).unwrap();
        }
        let release = root.join("etc/harvester-release.yaml");
        fs::write(release, "harvester: v1.8.1\n").unwrap();
        for (name, strategy) in FILES {
            let file = manifests.join(format!("{name}.yaml"));
            fs::write(file, vm(name, strategy).to_string()).unwrap();
        }
        let daemon = Node::start(&root, &cluster.kubeconfig(Who::Admin));
        let server = Self {
            cluster,
            client,
            root,
            daemon,
        };
        eventually("both files are held", DEADLINE, async || {
            server.holds_all().then_some(())
        })
        .await;
        server
    }

    fn manifests(&self) -> PathBuf {
        Node::manifests(&self.root)
    }

    fn holds_all(&self) -> bool {
        let is_held = |name: &str| self.manifests().join(format!("{name}.yaml.skip")).exists();
        FILES.iter().all(|(name, _)| is_held(name))
    }

    /// The answer of the probe `kubevirt` on a server.
    async fn probed(&self) -> ProbeOutcome {
        let root = tempfile::tempdir().unwrap();
        server(root.path(), &self.cluster.kubeconfig(Who::Admin));
        let mut said = answers(root.path(), NodeRole::FirstServer, &[], &["kubevirt"]).await;
        said.remove("kubevirt").unwrap()
    }

    /// The codes of `windrow diagnose`: now, and in two hours if nothing changes.
    async fn diagnosed(&self) -> [Vec<String>; 2] {
        let now = Timestamp::now();
        let codes = async |at: Timestamp| -> Vec<String> {
            let findings = diagnosed(&self.client, at).await.findings;
            findings.iter().map(|one| one.code.to_string()).collect()
        };
        let later = now + SignedDuration::from_hours(2);
        [codes(now).await, codes(later).await]
    }

    /// Waits for something while the kubelet acts. Meanwhile both files are held whenever kube-apiserver refuses a VM.
    async fn until<T>(
        &self,
        kubevirt: &mut KubeVirt,
        what: &str,
        mut look: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let good = vm("new", "Always");
        let looked = kubevirt.until(what, async || {
            // Asked first: nothing that was accepted is refused later.
            let said = refused(&self.client, good.clone()).await;
            if let Some(words) = said {
                assert!(self.holds_all(), "a file is released, and a VM {words:?}");
            }
            look().await
        });
        looked.await
    }

    /// Lets this command run, and waits for this Deployment.
    async fn until_deployment(&self, kubevirt: &mut KubeVirt, command: &'static str, name: &str) {
        kubevirt.run(command);
        let deployments = api(&self.client, DEPLOYMENT, SYSTEM);
        self.until(kubevirt, &format!("{name} is wanted"), async || {
            deployments.get_opt(name).await.unwrap().map(drop)
        })
        .await;
    }

    /// Waits until KubeVirt is in this phase.
    async fn until_phase(&self, kubevirt: &mut KubeVirt, phase: &str) {
        let kubevirts = api(&self.client, KUBEVIRT, SYSTEM);
        self.until(kubevirt, &format!("KubeVirt is {phase}"), async || {
            (field(&kubevirts, "kubevirt", "/status/phase").await == phase).then_some(())
        })
        .await;
    }

    /// KubeVirt is being deployed, and everybody says so.
    async fn is_deploying(&self) {
        let deploying = ProbeOutcome::failed("its phase is `Deploying`");
        assert_eq!(self.probed().await, deploying);
        let [now, later] = self.diagnosed().await;
        assert_eq!(now, [""; 0]);
        assert!(
            later.contains(&"kubevirt-not-ready".to_owned()),
            "{later:?}"
        );
        let (name, _) = FILES[0];
        let file = format!("{name}.yaml");
        eventually("the daemon waits for KubeVirt", DEADLINE, async || {
            let status = self.daemon.status()?;
            let mut held = status["staging"]["held"].as_array()?.iter();
            let starts = held.find(|entry| entry["file"] == file)?;
            (starts["why"] == "KubeVirt is not deployed yet").then_some(())
        })
        .await;
    }
}

/// Is the API of virt-api available? Its reason if not.
async fn api_of_virt_api(client: &Client) -> (Value, Value) {
    let condition = |field: &str| format!("/status/conditions/0/{field}");
    let services = api(client, API_SERVICE, "");
    let name = "v1.subresources.kubevirt.io";
    (
        field(&services, name, &condition("status")).await,
        field(&services, name, &condition("reason")).await,
    )
}

#[tokio::test]
async fn whatever_of_kubevirt_is_half_made_a_file_is_held_while_kube_apiserver_refuses_its_vm() {
    let spec = Spec {
        pods: true,
        audit: AuditLog::Writes,
        ..Spec::with_controllers()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    let Some(mut kubevirt) = cluster.kubevirt(SYSTEM).await else {
        return;
    };
    let server = HarvesterServer::start(cluster).await;
    let client = &server.client;
    let Some(_rke2) = server.cluster.deploy(&server.manifests()) else {
        return;
    };

    // One replica of each, and without the instance types of KubeVirt, which take it twenty seconds.
    let object = json!({"metadata": {"name": "kubevirt"}, "spec": {"infra": {"replicas": 1},
        "configuration": {"commonInstancetypesDeployment": {"enabled": false}}}});
    make(client, KUBEVIRT, SYSTEM, object).await;
    kubevirt.run("virt-operator");
    server.until_phase(&mut kubevirt, "Deploying").await;
    server.is_deploying().await;
    let new = || vm("new", "Always");
    let unknown = refused(client, new()).await.unwrap();
    assert_eq!(unknown, (404, "404 page not found".to_owned()));

    // The kinds are there, and the webhooks that nobody answers.
    server
        .until_deployment(&mut kubevirt, KubeVirt::STRATEGY, "virt-api")
        .await;
    server.is_deploying().await;
    makes_the_kinds_that_are_known_of_it(client).await;
    assert_eq!(
        refused(client, new()).await.unwrap(),
        silent(
            "virtualmachines-mutator.kubevirt.io",
            "virt-api",
            "/virtualmachines-mutate",
            "no endpoints available for service \"virt-api\""
        )
    );
    guards_the_kinds_of_its_group_for_a_while(client).await;
    for (gvk, namespace, object, webhook, path) in guarded_by_virt_api() {
        let why = "no endpoints available for service \"virt-api\"";
        let words = silent(webhook, "virt-api", path, why);
        let said = refused_in(client, gvk, namespace, object).await;
        assert_eq!(said, Some(words), "{gvk:?}");
    }
    let no_endpoints = (json!("False"), json!("MissingEndpoints"));
    assert_eq!(api_of_virt_api(client).await, no_endpoints);

    // virt-api answers, the temporary webhook is gone, and no virt-controller starts what is accepted.
    server
        .until_deployment(&mut kubevirt, "virt-api", "virt-controller")
        .await;
    server.is_deploying().await;
    assert_eq!(refused(client, new()).await, None);
    assert!(server.holds_all());
    let available = (json!("True"), json!("Passed"));
    assert_eq!(api_of_virt_api(client).await, available);
    virt_api_judges(client).await;

    for program in ["virt-controller", "virt-handler"] {
        kubevirt.run(program);
    }
    server.until_phase(&mut kubevirt, "Deployed").await;
    assert_eq!(server.probed().await, ProbeOutcome::Passed);
    let [_, later] = server.diagnosed().await;
    assert!(
        !later.contains(&"kubevirt-not-ready".to_owned()),
        "{later:?}"
    );
    for (name, _) in FILES {
        let file = format!("{name}.yaml");
        kubevirt
            .until(&format!("{file} is applied"), async || {
                server.daemon.lists("applied", &file).then_some(())
            })
            .await;
    }
    assert_eq!(failures(&server.cluster, &["vm-"]).await, [""; 0]);
    makes_all_in_this_order(&server.cluster);
}

/// A new object of each group, the webhook that is called first, and its path. The simulation refuses them in the same words.
fn guarded_by_virt_api() -> [(Gvk, &'static str, Value, &'static str, &'static str); 7] {
    let machine =
        |name: &str| json!({"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": name});
    let spec = |spec: Value| json!({"metadata": {"name": "new"}, "spec": spec});
    let labels = json!({"pool": "new"});
    let template = json!({"metadata": {"labels": labels}, "spec": vm("new", "Halted")["spec"]});
    [
        (
            CLUSTER_INSTANCE_TYPE,
            "",
            spec(json!({"cpu": {"guest": 1}, "memory": {"guest": "64Mi"}})),
            "virtualmachineclusterinstancetype-validator.instancetype.kubevirt.io",
            "/virtualmachineclusterinstancetypes-validate",
        ),
        (
            MIGRATION_POLICY,
            "",
            spec(json!({"selectors": {}})),
            "migration-policy-validator.kubevirt.io",
            "/migration-policy-validate-create",
        ),
        (
            ("pool.kubevirt.io", "v1beta1", "VirtualMachinePool"),
            "default",
            spec(json!({"selector": {"matchLabels": labels}, "virtualMachineTemplate": template})),
            "virtualmachinepool-validator.kubevirt.io",
            "/virtualmachinepool-validate",
        ),
        (
            ("clone.kubevirt.io", "v1beta1", "VirtualMachineClone"),
            "default",
            spec(json!({"source": machine("a"), "target": machine("b")})),
            "virtualmachineclones-mutator.kubevirt.io",
            "/vm-clone-mutate-create",
        ),
        (
            ("export.kubevirt.io", "v1beta1", "VirtualMachineExport"),
            "default",
            spec(json!({"source": machine("a")})),
            "virtualmachineexport-validator.export.kubevirt.io",
            "/virtualmachineexports-validate",
        ),
        (
            ("snapshot.kubevirt.io", "v1beta1", "VirtualMachineSnapshot"),
            "default",
            spec(json!({"source": machine("a")})),
            "virtualmachinesnapshot-validator.snapshot.kubevirt.io",
            "/virtualmachinesnapshots-validate",
        ),
        (
            ("snapshot.kubevirt.io", "v1beta1", "VirtualMachineRestore"),
            "default",
            spec(json!({"target": machine("a"), "virtualMachineSnapshotName": "new"})),
            "virtualmachinerestore-validator.snapshot.kubevirt.io",
            "/virtualmachinerestores-validate",
        ),
    ]
}

/// The knowledge has exactly the kinds that virt-operator makes.
async fn makes_the_kinds_that_are_known_of_it(client: &Client) {
    let definitions = api(client, DEFINITION, "");
    let definitions = definitions.list(&Default::default()).await.unwrap().items;
    let made: BTreeSet<String> = definitions
        .into_iter()
        .filter_map(|definition| definition.metadata.name)
        .filter(|name| name.ends_with("kubevirt.io") && name != "kubevirts.kubevirt.io")
        .collect();
    assert_eq!(made.len(), 16);
    for entry in ["harvester/virt-operator", "operators/virt-operator"] {
        let entries = Knowledge::shipped().entries();
        let known = entries.iter().find(|known| known.name == entry).unwrap();
        let kinds = known.brings.kinds.iter().map(|known| {
            let (group, kind) = (known.kind.group.as_str(), known.kind.kind.as_str());
            format!("{}.{group}", resource((group, "", kind)).plural)
        });
        assert_eq!(made, kinds.collect(), "{entry}");
    }
}

/// kube-apiserver calls the temporary webhook when a VM is created, and the Service of the webhook does not exist. The simulation refuses a VM
/// in these words.
async fn guards_the_kinds_of_its_group_for_a_while(client: &Client) {
    let configurations = api(client, VALIDATION, "").list(&Default::default()).await;
    let mut configurations = configurations.unwrap().items.into_iter();
    let temporary = configurations.find(|one| {
        let name = one.metadata.name.as_ref().unwrap();
        name.starts_with("virt-operator-tmp-webhook")
    });
    let temporary = temporary.unwrap().data;
    let mut webhooks = temporary["webhooks"].as_array().unwrap().iter();
    let definition = "virtualmachines.kubevirt.io";
    let of_vm = webhooks.find(|webhook| webhook["name"] == format!("{definition}-tmp-validator"));
    let of_vm = of_vm.unwrap();
    assert_eq!(of_vm["failurePolicy"], "Fail");
    assert_eq!(of_vm["rules"][0]["operations"], json!(["CREATE"]));
    // So it is asked about no other group: those have other versions.
    assert_eq!(of_vm["rules"][0]["apiVersions"], json!(["v1alpha3", "v1"]));
    let service = json!({"namespace": SYSTEM, "name": "fake-validation-service",
        "path": format!("/fake-path/{definition}"), "port": 443});
    assert_eq!(of_vm["clientConfig"]["service"], service);
    let services = api(client, SERVICE, SYSTEM);
    let service = services.get_opt("fake-validation-service").await.unwrap();
    assert!(service.is_none());
}

/// The VM of the example is accepted; one whose disk has no volume is not.
async fn virt_api_judges(client: &Client) {
    let example = objects_of_the_example().pop().unwrap();
    assert_eq!(refused(client, example.clone()).await, None);
    let mut bad = example;
    let volumes = &mut bad["spec"]["template"]["spec"]["volumes"];
    volumes.as_array_mut().unwrap().remove(0);
    let words = "admission webhook \"virtualmachine-validator.kubevirt.io\" denied the request: \
        spec.template.spec.domain.devices.disks[0].Name 'system' not found.";
    assert_eq!(refused(client, bad).await.unwrap(), (422, words.to_owned()));
}

/// The temporary webhook guards the kinds from before they are there until virt-api runs.
fn makes_all_in_this_order(cluster: &Cluster) {
    let writes = cluster.writes();
    let at = |verb: &str, resource: &str, name: &str| {
        let is_it = |write: &support::cluster::Write| {
            write.program == "virt-operator"
                && write.done()
                && (write.verb.as_str(), write.resource.as_str()) == (verb, resource)
                && write.name.starts_with(name)
        };
        let found = writes.iter().position(is_it);
        found.unwrap_or_else(|| panic!("virt-operator never did {verb} {resource} {name}"))
    };
    let order = [
        // Its name is chosen by kube-apiserver.
        at("create", "validatingwebhookconfigurations", ""),
        at("create", "customresourcedefinitions", ""),
        at("create", "services", "virt-api"),
        at(
            "create",
            "validatingwebhookconfigurations",
            "virt-api-validator",
        ),
        at(
            "create",
            "mutatingwebhookconfigurations",
            "virt-api-mutator",
        ),
        at("create", "apiservices", "v1.subresources.kubevirt.io"),
        at("create", "deployments", "virt-api"),
        at(
            "delete",
            "validatingwebhookconfigurations",
            "virt-operator-tmp-webhook",
        ),
        at("create", "deployments", "virt-controller"),
        at("create", "daemonsets", "virt-handler"),
    ];
    assert!(order.is_sorted(), "{order:?}");
}
