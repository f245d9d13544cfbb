//! Plans for the renderers' tests.

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{GroupKind, ManifestPath, ObjectRef};
use windrow_model::reasons::Code;
use windrow_plan::rules::{NeedCondition, NeedTarget, OnDeadline, Platform, Tier};
use windrow_plan::{
    FirstPass, NameAdvice, Need, Origin, Plan, PlanDocument, PlanFile, Requirement, SatisfiedBy,
    SourceMap,
};

pub(super) fn file(path: &str, objects: &[ObjectRef]) -> PlanFile {
    PlanFile {
        name: ManifestPath::from(path).name(),
        addon: ManifestPath::from(path).addon(),
        path: path.into(),
        sha256: "".into(),
        digest: "".into(),
        shown: SourceMap::itself(path),
        owner: None,
        refused: None,
        harmful: false,
        skipped: None,
        trouble: None,
        hold: None,
        apply_once: false,
        documents: objects
            .iter()
            .enumerate()
            .map(|(position, object)| PlanDocument {
                line: 1 + 10 * position as u32,
                object: object.clone(),
                requires: Vec::new(),
                brings: None,
            })
            .collect(),
        written: objects.len(),
        slow_effects: Vec::new(),
        first_pass: FirstPass::default(),
    }
}

pub(super) fn require(
    plan: &mut Plan,
    (file, document): (usize, usize),
    target: NeedTarget,
    tier: Tier,
    rule: &str,
    satisfied_by: SatisfiedBy,
) {
    let condition = match target {
        NeedTarget::Kind(_) => NeedCondition::Served,
        NeedTarget::Object(_) => NeedCondition::Exists,
    };
    let reason = format!("{target} is not there yet");
    let need = Need { target, condition };
    let need = match plan.needs.iter().position(|known| *known == need) {
        Some(id) => id,
        None => {
            plan.needs.push(need);
            plan.needs.len() - 1
        }
    };
    let path = plan.files[file].path.clone();
    let document = &mut plan.files[file].documents[document];
    document.requires.push(Requirement {
        need,
        tier,
        origin: Origin {
            rule: rule.to_owned(),
            at: Location::line(path, document.line),
        },
        reason: reason.into(),
        deadline: None,
        on_deadline: OnDeadline::Release,
        inferred: rule.starts_with("inferred/"),
        satisfied_by,
        learned: None,
        yields: false,
        at_once: false,
        may_come_first: false,
        own_namespace_of: None,
    });
}

/// A VM and its dependencies, named so that RKE2 would read the VM first.
pub(super) fn first_vm() -> Plan {
    let vm = ObjectRef::namespaced("kubevirt.io", "VirtualMachine", "shop", "till");
    let network = ObjectRef::namespaced(
        "k8s.cni.cncf.io",
        "NetworkAttachmentDefinition",
        "shop",
        "vlan40",
    );
    let image = ObjectRef::namespaced("harvesterhci.io", "VirtualMachineImage", "shop", "debian");
    let claim = ObjectRef::namespaced("", "PersistentVolumeClaim", "shop", "till-root");
    let secret = ObjectRef::namespaced("", "Secret", "shop", "till-init");
    let namespace = ObjectRef::cluster("", "Namespace", "shop");
    let mut plan = Plan {
        namesakes: Vec::new(),
        platform: Some(Platform::Harvester),
        files: vec![
            file("05-till.yaml", std::slice::from_ref(&vm)),
            file("10-shop.yaml", &[namespace.clone(), secret.clone()]),
            file("20-network.yaml", std::slice::from_ref(&network)),
            file("30-image.yaml", std::slice::from_ref(&image)),
            file("40-disk.yaml", std::slice::from_ref(&claim)),
        ],
        needs: Vec::new(),
        unobservable: Default::default(),
        order: vec![1, 2, 3, 4, 0],
        findings: Vec::new(),
        names: NameAdvice::default(),
        phases: Vec::new(),
    };
    let harvester = |by: &str| SatisfiedBy::Platform {
        by: by.to_owned(),
        condition: None,
    };
    for (at, object) in [((2, 0), &network), ((3, 0), &image), ((0, 0), &vm)] {
        require(
            &mut plan,
            at,
            NeedTarget::Kind(object.group_kind()),
            Tier::Required,
            "inferred/kind-served",
            harvester("Harvester's charts"),
        );
    }
    for at in [(2, 0), (3, 0), (4, 0), (0, 0)] {
        require(
            &mut plan,
            at,
            NeedTarget::Object(namespace.clone()),
            Tier::Required,
            "inferred/namespace-exists",
            SatisfiedBy::File { file: 1, line: 1 },
        );
    }
    let setting = ObjectRef::cluster("harvesterhci.io", "Setting", "storage-network");
    require(
        &mut plan,
        (0, 0),
        NeedTarget::Object(setting),
        Tier::Required,
        "harvester-vm/vm-waits-for-storage-network",
        harvester("Harvester"),
    );
    for (object, from, line) in [(&secret, 1, 11), (&claim, 4, 1), (&network, 2, 1)] {
        require(
            &mut plan,
            (0, 0),
            NeedTarget::Object(object.clone()),
            Tier::Advisory,
            "references/vm",
            SatisfiedBy::File { file: from, line },
        );
    }
    require(
        &mut plan,
        (4, 0),
        NeedTarget::Object(image),
        Tier::Advisory,
        "references/pvc-image",
        SatisfiedBy::File { file: 3, line: 1 },
    );
    plan.play_first_pass();
    plan
}

/// Two files that require each other, one object without a provider, and texts that need escaping.
pub(super) fn broken() -> Plan {
    let a = ObjectRef::namespaced("", "ConfigMap", "a", "left");
    let b = ObjectRef::namespaced("", "ConfigMap", "a", "right");
    let odd = ObjectRef::cluster("x.example", "Odd", "<&\">");
    let mut plan = Plan {
        files: vec![
            file("a.yaml", std::slice::from_ref(&a)),
            file("b.yaml", std::slice::from_ref(&b)),
            file("c.yaml", std::slice::from_ref(&odd)),
            file("d.yaml", &[]),
        ],
        order: vec![3],
        ..Plan::default()
    };
    plan.files[3].refused = Some("line 3: found a tab".to_owned());
    for (at, target, file) in [((0, 0), &b, 1), ((1, 0), &a, 0)] {
        require(
            &mut plan,
            at,
            NeedTarget::Object(target.clone()),
            Tier::Required,
            "annotation",
            SatisfiedBy::File { file, line: 1 },
        );
    }
    require(
        &mut plan,
        (2, 0),
        NeedTarget::Kind(GroupKind::new("x.example", "Odd")),
        Tier::Required,
        "inferred/kind-served",
        SatisfiedBy::Nobody,
    );
    plan.findings = vec![
        finding(
            Code::RequiredCycle,
            "ConfigMap a/left needs ConfigMap a/right, which needs ConfigMap a/left",
            &[("a.yaml", 1), ("b.yaml", 1)],
        ),
        finding(
            Code::FileRefused,
            "RKE2 will refuse the whole file: line 3: found a tab",
            &[("d.yaml", 3)],
        ),
    ];
    plan.play_first_pass();
    plan
}

fn finding(code: Code, message: &str, at: &[(&str, u32)]) -> Finding {
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: message.to_owned(),
        at: at
            .iter()
            .map(|(file, line)| Location::line(*file, *line))
            .collect(),
    }
}

/// Many files with many objects, in a chain, for width and overlap.
pub(super) fn wide() -> Plan {
    let mut plan = Plan::default();
    for position in 0..9_usize {
        let objects: Vec<ObjectRef> = (0..=position * 3)
            .map(|object| {
                ObjectRef::namespaced(
                    "very-long-group-name.operators.example.com",
                    "AKindWithQuiteALongNameThatGoesOn",
                    "a-namespace-with-a-long-name",
                    format!("an-object-with-a-name-as-long-as-generated-ones-{object:04}"),
                )
            })
            .collect();
        plan.files
            .push(file(&format!("some/where/{position}-file.yaml"), &objects));
        plan.order.push(position);
    }
    for position in 1..9_usize {
        for back in [1, 2, 4] {
            let Some(from) = position.checked_sub(back) else {
                continue;
            };
            for document in 0..plan.files[position].documents.len() {
                let target =
                    &plan.files[from].documents[document % plan.files[from].documents.len()];
                let (target, line) = (NeedTarget::Object(target.object.clone()), target.line);
                let tier = if back == 1 {
                    Tier::Required
                } else {
                    Tier::Advisory
                };
                require(
                    &mut plan,
                    (position, document),
                    target,
                    tier,
                    "annotation",
                    SatisfiedBy::File { file: from, line },
                );
            }
        }
    }
    plan.play_first_pass();
    plan
}
