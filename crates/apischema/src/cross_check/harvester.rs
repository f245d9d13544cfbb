//! Objects that Harvester's webhooks refuse because of others, of the files or of Harvester itself. Sources: as in
//! `harvester_kinds`, and harvester/addons v1.4.0 to v1.8.1, `pkg/templates/rancherd-22-addons.yaml`.

mod machines;

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use machines::Machines;
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{Node, Object, ObjectRef};
use windrow_model::reasons::Code;
use windrow_model::unchecked::{CanStop, NotChecked};
use windrow_plan::SourceMap;

use super::finding;
use super::refusals::in_cluster;
use crate::MinorRelease;
use crate::harvester_kinds::{ENCRYPTION_SECRETS, GROUP, Runs, is_exempt};

/// Harvester's own Addons: namespace, name, chart, and the first release with it.
const OWN_ADDONS: [(&str, &str, &str, MinorRelease); 8] = [
    (
        "cattle-logging-system",
        "rancher-logging",
        "rancher-logging",
        (1, 4),
    ),
    (
        "cattle-monitoring-system",
        "rancher-monitoring",
        "rancher-monitoring",
        (1, 4),
    ),
    (
        "harvester-system",
        "harvester-seeder",
        "harvester-seeder",
        (1, 4),
    ),
    (
        "harvester-system",
        "nvidia-driver-toolkit",
        "nvidia-driver-runtime",
        (1, 4),
    ),
    (
        "harvester-system",
        "pcidevices-controller",
        "harvester-pcidevices-controller",
        (1, 4),
    ),
    (
        "harvester-system",
        "vm-import-controller",
        "harvester-vm-import-controller",
        (1, 4),
    ),
    ("kube-system", "descheduler", "descheduler", (1, 7)),
    (
        "kube-system",
        "kubeovn-operator",
        "kubeovn-operator",
        (1, 6),
    ),
];

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Harvester's own templates, in harvester-public (`pkg/data/template.go`, v1.4.0 to v1.8.2).
const OWN_TEMPLATES: [&str; 4] = [
    "iso-image-base-template",
    "raw-image-base-template",
    "windows-iso-image-base-template",
    "windows-raw-image-base-template",
];

/// Fields of the Secret of an encrypted class, and their values; none means any text (`validateEncryptionSecret`).
const ENCRYPTION: [(&str, &[&str]); 6] = [
    (
        "CRYPTO_KEY_CIPHER",
        &[
            "aes-xts-plain",
            "aes-xts-plain64",
            "aes-cbc-plain",
            "aes-cbc-plain64",
            "aes-cbc-essiv:sha256",
        ],
    ),
    ("CRYPTO_KEY_HASH", &["sha256", "sha384", "sha512"]),
    ("CRYPTO_KEY_PROVIDER", &["secret"]),
    ("CRYPTO_KEY_SIZE", &["256", "384", "512"]),
    ("CRYPTO_KEY_VALUE", &[]),
    ("CRYPTO_PBKDF", &["argon2i", "argon2id", "pbkdf2"]),
];

#[derive(Debug, Default)]
pub(super) struct Harvester {
    /// What only one object may have, in the order of the files.
    holders: BTreeMap<String, Vec<Holder>>,
    addons: Vec<(Holder, String)>,
    schedules: Vec<(Holder, Runs, bool)>,
    machines: Machines,
    declared: BTreeSet<Named>,
    /// What Harvester looks up for an object: the objects and where they are named.
    names: Vec<(Named, Location)>,
    secrets: BTreeMap<(String, String), BTreeMap<String, String>>,
    /// Encrypted classes and their Secrets.
    encrypted: Vec<(Holder, (String, String))>,
}

/// Kind, namespace and name.
type Named = (&'static str, String, String);

#[derive(Debug, Clone)]
struct Holder {
    /// With the name in its manifest.
    id: ObjectRef,
    in_cluster: ObjectRef,
    at: Location,
}

impl Harvester {
    pub(super) fn add(&mut self, object: &Object, namespace: &str, shown: &SourceMap) {
        let spec = object.node.get("spec");
        let text = |path: &[&str]| spec?.str_at(path).filter(|text| !text.is_empty());
        let holder = |node: Option<&Node>| Holder {
            id: object.id.clone(),
            in_cluster: in_cluster(object),
            at: shown.at(Some(node.map_or(object.line, |node| node.line))),
        };
        let of_spec = |path: &[&str]| holder(spec.and_then(|spec| spec.at(path)));
        self.machines.add(object, namespace, shown);
        let own = || (namespace.to_owned(), object.id.name.to_string());
        match (object.id.group.as_str(), object.id.kind.as_str()) {
            (GROUP, "Addon") => {
                if let Some(chart) = text(&["chart"]) {
                    self.addons.push((of_spec(&["chart"]), chart.to_owned()));
                }
            }
            (GROUP, "KeyPair") => self.declare("KeyPair", own()),
            (GROUP, "VirtualMachineTemplate") => self.declare("VirtualMachineTemplate", own()),
            (GROUP, "VirtualMachineTemplateVersion") => {
                let keys = spec.map_or(&[][..], |spec| spec.list("keyPairIds"));
                let keys = keys.iter().map(|key| ("KeyPair", Some(key)));
                let template = spec.and_then(|spec| spec.get("templateId"));
                for (kind, node) in keys.chain([("VirtualMachineTemplate", template)]) {
                    let name = node.and_then(|node| node.as_str()?.split_once('/'));
                    if let Some((namespace, name)) = name {
                        let named = (kind, namespace.to_owned(), name.to_owned());
                        self.names.push((named, holder(node).at));
                    }
                }
            }
            (GROUP, "VirtualMachineImage") => {
                // Before v1.8.2 it takes the second until it has fetched the first, and then refuses its own changes of the second.
                if let Some(name) = text(&["displayName"]) {
                    let what = format!("the display name {name} in the namespace {namespace}");
                    self.hold(what, of_spec(&["displayName"]));
                }
            }
            (GROUP, "ScheduleVMBackup") => {
                let source = ["vmbackup", "source", "name"];
                if let Some(machine) = text(&source) {
                    let what = format!("a schedule of the VM {namespace}/{machine}");
                    self.hold(what, of_spec(&source));
                }
                if let Some(runs) = Runs::of(object) {
                    self.schedules
                        .push((of_spec(&["cron"]), runs, is_exempt(object)));
                }
            }
            ("storage.k8s.io", "StorageClass") => {
                if let Some(("true", _)) = object.annotation(DEFAULT_CLASS) {
                    let annotations = object.node.at(&["metadata", "annotations"]);
                    let node = annotations.and_then(|all| all.get(DEFAULT_CLASS));
                    self.hold(format!("the annotation {DEFAULT_CLASS}"), holder(node));
                }
                self.add_encrypted(object, &holder);
            }
            ("", "Secret") => {
                let fields = self.secrets.entry(own()).or_default();
                fields.extend(secret_fields(object));
            }
            _ => {}
        }
    }

    fn declare(&mut self, kind: &'static str, (namespace, name): (String, String)) {
        self.declared.insert((kind, namespace, name));
    }

    fn hold(&mut self, what: String, holder: Holder) {
        self.holders.entry(what).or_default().push(holder);
    }

    fn add_encrypted(&mut self, object: &Object, holder: &impl Fn(Option<&Node>) -> Holder) {
        let parameter = |name: &str| object.node.get("parameters")?.get(name);
        let text = |name: &str| parameter(name)?.as_str();
        let is_encrypted = text("encrypted")
            .is_some_and(|word| ["1", "t", "T", "true", "TRUE", "True"].contains(&word));
        let [name, namespace] = ENCRYPTION_SECRETS[0];
        if let (true, Some(secret), Some(of)) = (is_encrypted, text(name), text(namespace)) {
            // `harvester_kinds` judges these.
            if [of, secret].iter().any(|name| name.contains("${")) {
                return;
            }
            let secret = (of.to_owned(), secret.to_owned());
            self.encrypted.push((holder(parameter(name)), secret));
        }
    }

    /// `is_taken`: whether kube-apiserver accepts an object, under the name in its manifest, without the others.
    pub(super) fn finish(
        &self,
        release: Option<MinorRelease>,
        is_taken: &impl Fn(&ObjectRef) -> bool,
    ) -> (Vec<Finding>, Vec<NotChecked>) {
        let mut findings = Vec::new();
        for (thing, holders) in &self.holders {
            let holders: Vec<&Holder> = holders.iter().filter(|one| is_taken(&one.id)).collect();
            findings.extend(second(&holders, thing));
        }
        findings.extend(self.addons(release, is_taken));
        findings.extend(self.close_schedules(is_taken));
        findings.extend(self.machines.finish(release, is_taken));
        findings.extend(self.wrong_secrets());
        let is_there = |named: &Named| {
            let is_own = named.1 == "harvester-public" && OWN_TEMPLATES.contains(&&*named.2);
            is_own || self.declared.contains(named)
        };
        let missing = self.names.iter().filter(|(named, _)| !is_there(named));
        let mut unjudged: BTreeMap<String, Vec<Location>> = BTreeMap::new();
        for ((kind, namespace, name), at) in missing {
            let places = unjudged
                .entry(format!("{kind} {namespace}/{name}"))
                .or_default();
            places.push(at.clone());
        }
        for (class, secret) in &self.encrypted {
            if !self.secrets.contains_key(secret) {
                let places = unjudged
                    .entry(format!("Secret {}/{}", secret.0, secret.1))
                    .or_default();
                places.push(class.at.clone());
            }
        }
        let unjudged = unjudged.into_iter().map(|(what, at)| NotChecked {
            what,
            why: "the files do not have it, and Harvester looks it up in the cluster".to_owned(),
            can_stop: CanStop::Itself,
            at,
        });
        (findings, unjudged.collect())
    }

    /// validateNewAddon and validateUpdatedAddon.
    fn addons(
        &self,
        release: Option<MinorRelease>,
        is_taken: &impl Fn(&ObjectRef) -> bool,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut by_chart: BTreeMap<&str, Vec<&Holder>> = BTreeMap::new();
        for (holder, chart) in self.addons.iter().filter(|(one, _)| is_taken(&one.id)) {
            let namespace = holder.id.namespace_or_default();
            let of_release = OWN_ADDONS
                .iter()
                .filter(|(.., since)| release.unwrap_or((1, 4)) >= *since);
            let is_own = |one: &&(&str, &str, &str, MinorRelease)| {
                one.0 == namespace && holder.id.name == one.1
            };
            if let Some((.., own_chart, _)) = of_release.clone().find(is_own) {
                if chart != own_chart {
                    let why = format!(
                        "is not valid: Harvester's own Addon of this name has the chart {own_chart}, and it cannot be changed"
                    );
                    findings.push(invalid(holder, "spec.chart", &why));
                }
                continue;
            }
            if let Some((namespace, name, ..)) =
                of_release.clone().find(|(_, _, own, _)| own == chart)
            {
                let other = format!("Harvester's own Addon {namespace}/{name}");
                let thing = format!("the chart {chart}");
                findings.push(taken_twice(holder, &other, &thing, Vec::new()));
                continue;
            }
            by_chart.entry(chart).or_default().push(holder);
        }
        for (chart, holders) in by_chart {
            findings.extend(second(&holders, &format!("the chart {chart}")));
        }
        findings
    }

    /// cronGranularityCheck, of schedules with the same days. The second one is the one that is checked.
    fn close_schedules(&self, is_taken: &impl Fn(&ObjectRef) -> bool) -> Vec<Finding> {
        let taken = self
            .schedules
            .iter()
            .filter(|(holder, ..)| is_taken(&holder.id));
        let taken: Vec<_> = taken.collect();
        let mut findings = Vec::new();
        for (index, (holder, runs, is_exempt)) in taken.iter().enumerate() {
            let is_close = |(other, of_other, _): &&&(Holder, Runs, bool)| {
                other.in_cluster != holder.in_cluster && runs.are_close_to(of_other)
            };
            if let Some((other, ..)) = taken[..index].iter().find(is_close)
                && !is_exempt
            {
                let thing = "runs that are less than 10 minutes apart";
                let at = vec![other.at.clone()];
                findings.push(taken_twice(holder, &other.id.to_string(), thing, at));
            }
        }
        findings
    }

    fn wrong_secrets(&self) -> Vec<Finding> {
        let known = self.encrypted.iter().filter_map(|(class, name)| {
            let fields = self.secrets.get(name)?;
            let wrong = ENCRYPTION.iter().find(|(field, values)| match fields.get(*field) {
                None => true,
                Some(value) if values.is_empty() => value.is_empty(),
                Some(value) => !values.contains(&&**value),
            });
            let (field, values) = wrong?;
            let values = match values.len() {
                0 => "a key".to_owned(),
                _ => values.join(", "),
            };
            let (namespace, name) = name;
            let why = format!("is not valid: the Secret {namespace}/{name} needs the field `{field}` with {values}");
            Some(invalid(class, "parameters", &why))
        });
        known.collect()
    }
}

/// The findings on all but the first of the objects that have something.
fn second(holders: &[&Holder], thing: &str) -> Vec<Finding> {
    let Some((first, others)) = holders.split_first() else {
        return Vec::new();
    };
    let others = others
        .iter()
        .filter(|one| one.in_cluster != first.in_cluster);
    let findings = others.map(|other| {
        let at = vec![first.at.clone()];
        taken_twice(other, &first.id.to_string(), thing, at)
    });
    findings.collect()
}

fn taken_twice(holder: &Holder, other: &str, thing: &str, more: Vec<Location>) -> Finding {
    let what = holder.id.to_string();
    let words = [("what", &*what), ("other", other), ("thing", thing)];
    let at = std::iter::once(holder.at.clone()).chain(more).collect();
    finding(Code::TakenTwice, Code::TakenTwice.say(&words), at)
}

fn invalid(holder: &Holder, field: &str, why: &str) -> Finding {
    let object = holder.id.to_string();
    let words = [("object", &*object), ("field", field), ("why", why)];
    let code = Code::ApiInvalid;
    finding(code, code.say(&words), vec![holder.at.clone()])
}

/// The texts of a Secret.
fn secret_fields(object: &Object) -> Vec<(String, String)> {
    let entries = |field: &str| object.node.get(field).map_or(&[][..], Node::entries).iter();
    let coded = entries("data").filter_map(|entry| {
        let bytes = STANDARD.decode(entry.value.as_str()?.trim()).ok()?;
        Some((entry.key.clone(), String::from_utf8(bytes).ok()?))
    });
    let plain = entries("stringData");
    let plain =
        plain.filter_map(|entry| Some((entry.key.clone(), entry.value.as_str()?.to_owned())));
    // The plain text counts.
    coded.chain(plain).collect()
}
