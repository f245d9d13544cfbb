//! The webhooks that the API server calls.

use serde_json::Value;
use windrow_model::manifest::ObjectRef;

use super::super::literals;
use super::SimulatedCluster;
use super::stored::Stored;

impl SimulatedCluster {
    /// The object's name in the cluster: with a namespace if its kind is namespaced.
    fn resolve(&self, id: &ObjectRef) -> Option<ObjectRef> {
        let namespaced = self.serves(&id.group_kind())?;
        let namespace = namespaced.then(|| id.namespace.clone().unwrap_or("default".into()));
        Some(ObjectRef {
            namespace,
            ..id.clone()
        })
    }

    /// A webhook of the manifests, which fails closed, while no pod answers it.
    pub(super) fn ask(&self, declared: &ObjectRef) -> Result<(), String> {
        // Most clusters have none.
        if self.asked.is_empty() {
            return Ok(());
        }
        let Some(asked) = self.asked.get(declared) else {
            return Ok(());
        };
        let get = |id: &ObjectRef| self.stored(&self.resolve(id)?);
        let answers = |backend: &Stored| {
            let ready = |key: &str| backend.status()[key].as_u64().is_some_and(|pods| pods > 0);
            ready("readyReplicas") || ready("numberReady")
        };
        match get(&asked.webhook).is_none() || get(&asked.backend).is_some_and(answers) {
            true => Ok(()),
            false => Err(asked.refusal.clone()),
        }
    }

    /// Harvester's webhooks, after they answer, and KubeVirt's.
    pub(crate) fn admit(&self, id: &ObjectRef, json: &Value) -> Result<(), String> {
        self.admit_storage_network(id, json)?;
        self.admit_kubevirts_kinds(id)?;
        self.admit_networks(id, json)
    }

    /// A VM is rejected, also when it is applied again, while a network in its spec does not exist: the mutator adds the nodes of
    /// the network to its affinity (`pkg/webhook/resources/virtualmachine/mutator.go`, v1.2 to v1.9).
    fn admit_networks(&self, id: &ObjectRef, json: &Value) -> Result<(), String> {
        let is_machine = id.group == "kubevirt.io" && id.kind == "VirtualMachine";
        if self.guard.is_none() || !is_machine {
            return Ok(());
        }
        let networks = json["spec"]["template"]["spec"]["networks"].as_array();
        let names = networks
            .into_iter()
            .flatten()
            .filter_map(|network| network["multus"]["networkName"].as_str());
        for named in names.filter(|named| !named.is_empty()) {
            let own = id.namespace.as_deref().unwrap_or("default");
            let (namespace, name) = named.split_once('/').unwrap_or((own, named));
            let kind = ("k8s.cni.cncf.io", "NetworkAttachmentDefinition");
            let network = ObjectRef::namespaced(kind.0, kind.1, namespace, name);
            if !self.has(&network) {
                return Err(format!(
                    "admission webhook \"mutator.harvesterhci.io\" denied the request: \
                     network-attachment-definitions.k8s.cni.cncf.io \"{name}\" not found"
                ));
            }
        }
        Ok(())
    }

    /// The storage network must not change while any VM might run. Any `printableStatus` except `Stopped`, and also a missing
    /// one, counts as running (`pkg/util/virtualmachine`). Since v1.5.1 an empty value is accepted.
    fn admit_storage_network(&self, id: &ObjectRef, json: &Value) -> Result<(), String> {
        let storage_network =
            id.group == "harvesterhci.io" && id.kind == "Setting" && id.name == "storage-network";
        let Some(guard) = self.guard.filter(|_| storage_network) else {
            return Ok(());
        };
        let empty = json["value"].as_str().unwrap_or("").is_empty();
        if empty && !guard.even_when_empty {
            return Ok(());
        }
        let running = self
            .of_kind(&literals::kind("kubevirt.io", "VirtualMachine"))
            .any(|(_, vm)| vm.status()["printableStatus"] != "Stopped");
        match running {
            false => Ok(()),
            true => Err(
                "admission webhook \"validator.harvesterhci.io\" denied the request: \
                 Please stop all VMs before configuring the storage-network setting"
                    .to_owned(),
            ),
        }
    }
}
