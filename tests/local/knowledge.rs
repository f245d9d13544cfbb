//! Who brings what, through the real binary: a plan and a rehearsal of the same files exit alike.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::process::Command;

use tempfile::TempDir;

/// Exit code and standard output of a verb on files, which are options too where they begin with `--`.
fn run(directory: &TempDir, verb: &str, args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg(verb)
        .args(args)
        .current_dir(directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), text + &said)
}

/// How both verbs exit on files, given as `(name, text)`.
fn exits(files: &[(&str, &str)], plan: &[&str], rehearse: &[&str]) -> (i32, i32, String) {
    let directory = TempDir::new().unwrap();
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    // Files that options name are no inputs.
    let is_input = |name: &&str| !plan.contains(name);
    let inputs: Vec<&str> = names.into_iter().filter(is_input).collect();
    let planned = run(&directory, "plan", &[plan, &inputs[..]].concat());
    let rehearsed = run(
        &directory,
        "check",
        &[&["--details", "--runs", "5"], rehearse, &inputs[..]].concat(),
    );
    (planned.0, rehearsed.0, planned.1 + &rehearsed.1)
}

/// A Harvester configuration that writes a manifest.
fn on_harvester(manifest: &str) -> String {
    let indented: String = manifest
        .lines()
        .map(|line| format!("      {line}\n"))
        .collect();
    format!(
        "schemeVersion: 1\nos:\n  writeFiles:\n  - path: /var/lib/rancher/rke2/server/manifests/a.yaml\n    content: |\n{indented}"
    )
}

fn object(api_version: &str, kind: &str, metadata: &str) -> String {
    format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{{metadata}}}\n")
}

#[test]
fn what_harvester_brings_works_in_a_plan_and_in_a_rehearsal() {
    for (api_version, kind, metadata) in [
        (
            "monitoring.coreos.com/v1",
            "ServiceMonitor",
            "name: a, namespace: default",
        ),
        (
            "longhorn.io/v1beta2",
            "RecurringJob",
            "name: a, namespace: longhorn-system",
        ),
        (
            "crd.projectcalico.org/v1",
            "FelixConfiguration",
            "name: default",
        ),
        (
            "logging.banzaicloud.io/v1beta1",
            "ClusterFlow",
            "name: a, namespace: cattle-logging-system",
        ),
        (
            "instancetype.kubevirt.io/v1beta1",
            "VirtualMachineClusterPreference",
            "name: a",
        ),
    ] {
        let config = on_harvester(&object(api_version, kind, metadata));
        let ended = exits(&[("config.yaml", &config)], &[], &[]);
        assert_eq!((ended.0, ended.1), (0, 0), "{kind}: {}", ended.2);
    }
}

const RKE2: &[&str] = &["--platform", "rke2"];

#[test]
fn what_rke2_brings_depends_on_its_configuration_and_its_version() {
    let policy = object("crd.projectcalico.org/v1", "GlobalNetworkPolicy", "name: a");
    let ended = exits(&[("a.yaml", &policy)], RKE2, &[]);
    assert_eq!(
        (ended.0, ended.1),
        (0, 0),
        "canal is the default: {}",
        ended.2
    );

    let network = object(
        "k8s.cni.cncf.io/v1",
        "NetworkAttachmentDefinition",
        "name: a",
    );
    let ended = exits(&[("a.yaml", &network)], RKE2, &[]);
    assert_eq!(
        (ended.0, ended.1),
        (5, 5),
        "`cni` is not known: {}",
        ended.2
    );
    assert!(ended.2.contains("RKE2's `cni` names multus"), "{}", ended.2);
    for (cni, exit) in [("[multus, canal]", 0), ("canal", 4)] {
        let indented: String = network
            .lines()
            .map(|line| format!("    {line}\n"))
            .collect();
        let user_data = format!(
            "#cloud-config\nwrite_files:\n- path: /etc/rancher/rke2/config.yaml\n  content: |\n    cni: {cni}\n- path: /var/lib/rancher/rke2/server/manifests/a.yaml\n  content: |\n{indented}"
        );
        let ended = exits(&[("user-data", &user_data)], RKE2, &[]);
        assert_eq!((ended.0, ended.1), (exit, exit), "{cni}: {}", ended.2);
    }

    let class = object("resource.k8s.io/v1", "DeviceClass", "name: a") + "spec: {}\n";
    let ended = exits(&[("a.yaml", &class)], RKE2, &["--rke2", "v1.35.0"]);
    assert_eq!((ended.0, ended.1), (0, 0), "{}", ended.2);
}

#[test]
fn a_plan_knows_as_much_of_a_version_as_a_rehearsal() {
    let class = object("resource.k8s.io/v1", "DeviceClass", "name: a") + "spec: {}\n";
    let on = |class: &str, version: &[&str]| exits(&[("a.yaml", class)], version, version);
    for (version, exit) in [("v1.33.1", 4), ("v1.35.0", 0), ("v1.99.0", 5)] {
        let ended = on(&class, &["--rke2", version]);
        assert_eq!((ended.0, ended.1), (exit, exit), "{version}: {}", ended.2);
    }
    let ended = on(&class, &["--harvester", "v1.6.0"]);
    assert_eq!((ended.0, ended.1), (4, 4), "Kubernetes 1.33: {}", ended.2);
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("a.yaml"), class).unwrap();
    let both = ["--platform", "rke2", "--harvester", "v1.6.0", "a.yaml"];
    assert_eq!(run(&directory, "plan", &both).0, 64);
}

fn chart(name: &str, spec: &str) -> String {
    let metadata = format!("name: {name}, namespace: kube-system");
    object("helm.cattle.io/v1", "HelmChart", &metadata) + &format!("spec: {{{spec}}}\n")
}

#[test]
fn a_chart_that_is_known_brings_its_kinds_and_an_unknown_one_may() {
    let target = "targetNamespace: cert-manager, createNamespace: true";
    let issuer = object("cert-manager.io/v1", "ClusterIssuer", "name: a");
    let with = |values: &str| {
        let spec =
            format!("chart: cert-manager, repo: https://charts.jetstack.io, {target}{values}");
        let chart = chart("cert-manager", &spec);
        exits(&[("a.yaml", &issuer), ("b.yaml", &chart)], RKE2, &[])
    };
    let ended = with(", set: {crds.enabled: \"true\"}");
    assert_eq!((ended.0, ended.1), (0, 0), "{}", ended.2);
    let ended = with("");
    assert_eq!((ended.0, ended.1), (5, 5), "without its CRDs: {}", ended.2);
    let said = ended.2.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("if `crds.enabled` or `installCRDs` is true"),
        "{said}"
    );

    let foo = object("foo.example.com/v1", "Foo", "name: a, namespace: default");
    let unknown = chart("unknown", "chart: unknown, repo: https://example.com");
    let ended = exits(&[("a.yaml", &foo), ("b.yaml", &unknown)], RKE2, &[]);
    assert_eq!((ended.0, ended.1), (5, 5), "{}", ended.2);
    assert!(
        ended
            .2
            .contains("It can if b.yaml brings the kind Foo.foo.example.com."),
        "{}",
        ended.2
    );
    let ended = exits(&[("a.yaml", &foo)], RKE2, &[]);
    assert_eq!((ended.0, ended.1), (4, 4), "{}", ended.2);
    assert!(
        ended
            .2
            .contains("It cannot work as it is: no known component provides"),
        "{}",
        ended.2
    );
}

#[test]
fn a_chart_beside_its_own_objects_is_never_held_and_a_split_is_named() {
    let chart = chart(
        "metallb",
        "chart: metallb, repo: https://metallb.github.io/metallb, targetNamespace: metallb-system, createNamespace: true",
    );
    let pool = object(
        "metallb.io/v1beta1",
        "IPAddressPool",
        "name: a, namespace: metallb-system",
    );
    let file = format!("{chart}---\n{pool}");
    let ended = exits(&[("metallb.yaml", &file)], RKE2, &[]);
    assert_eq!((ended.0, ended.1), (0, 0), "{}", ended.2);
    assert!(ended.2.contains("0 held at a fresh boot"), "{}", ended.2);
    assert!(ended.2.contains("metallb-objects.yaml"), "{}", ended.2);
}

#[test]
fn virt_operator_makes_machines_once_there_is_an_object_for_it() {
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: kubevirts.kubevirt.io}\nspec:\n  group: kubevirt.io\n  names: {kind: KubeVirt, plural: kubevirts}\n  scope: Namespaced\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]\n";
    let operator = object(
        "apps/v1",
        "Deployment",
        "name: virt-operator, namespace: default",
    ) + "spec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec: {containers: [{name: c, image: i}]}\n";
    let whole = format!("{definition}---\n{operator}");
    let ours = object(
        "kubevirt.io/v1",
        "KubeVirt",
        "name: kubevirt, namespace: default",
    );
    let machine = object(
        "kubevirt.io/v1",
        "VirtualMachine",
        "name: vm, namespace: default",
    ) + "spec: {runStrategy: Always, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}\n";
    let files = [
        ("10.yaml", whole.as_str()),
        ("20.yaml", &ours),
        ("30.yaml", &machine),
    ];
    let ended = exits(&files, RKE2, &[]);
    assert_eq!((ended.0, ended.1), (0, 0), "{}", ended.2);
    // Without the operator nothing makes them.
    let files = [
        ("10.yaml", definition),
        ("20.yaml", &ours),
        ("30.yaml", &machine),
    ];
    let ended = exits(&files, RKE2, &[]);
    assert_eq!((ended.0, ended.1), (4, 4), "{}", ended.2);
}

#[test]
fn what_a_site_says_holds_in_a_plan_and_in_a_rehearsal() {
    let foo = object(
        "foo.example.com/v1",
        "Foo",
        "name: a, namespace: foo-system",
    );
    let pack = "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: site}\nprovides:\n  - by: our image\n    groups: [foo.example.com]\n    objects: [{kind: Namespace, name: foo-system}]\n";
    let knowledge = "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {name: site}\nentries:\n  - name: foo\n    by: {chart: foo}\n    kinds: [{group: foo.example.com, namespaced: [Foo]}]\n    namespaces: [foo-system]\n    source: our wiki, 3\n";
    let foo_chart = chart("foo", "chart: foo, repo: https://example.com");
    let packed = exits(
        &[("a.yaml", &foo), ("site.yaml", pack)],
        &["--rules", "site.yaml", "--platform", "rke2"],
        &["--rules", "site.yaml"],
    );
    assert_eq!((packed.0, packed.1), (0, 0), "{}", packed.2);
    let known = exits(
        &[
            ("a.yaml", &foo),
            ("b.yaml", &foo_chart),
            ("site.yaml", knowledge),
        ],
        &["--rules", "site.yaml", "--platform", "rke2"],
        &["--rules", "site.yaml"],
    );
    assert_eq!((known.0, known.1), (0, 0), "{}", known.2);
    let wrong = knowledge.replace("namespaces:", "namespace:");
    let wrong = exits(
        &[("a.yaml", &foo), ("site.yaml", &wrong)],
        &["--rules", "site.yaml", "--platform", "rke2"],
        &["--rules", "site.yaml"],
    );
    assert_eq!((wrong.0, wrong.1), (78, 4), "{}", wrong.2);
    assert!(
        wrong
            .2
            .contains("site.yaml:8: the entry has no key `namespace`"),
        "{}",
        wrong.2
    );
}

/// A learned entry of the chart foo, seen in this number of boots.
fn learned(boots: u32, of: u32) -> String {
    format!(
        "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {{name: learned}}\nentries:\n  - name: chart-foo\n    by: {{chart: foo}}\n    \
         kinds: [{{group: foo.example.com, namespaced: [Foo]}}]\n    namespaces: [foo-system]\n    \
         times: {{p5: 12s, p25: 15s, half: 20s, p75: 28s, p95: 1m}}\n    \
         seen: {{boots: {boots}, of: {of}, last: 2026-11-23}}\n    source: learned\n"
    )
}

#[test]
fn a_verdict_says_on_how_many_boots_it_rests_and_stays_unknown_where_they_are_too_few() {
    let foo = object(
        "foo.example.com/v1",
        "Foo",
        "name: a, namespace: foo-system",
    );
    let foo_chart = chart("foo", "chart: foo, repo: https://example.com");
    for (boots, of, code) in [(13, 14, 0), (2, 3, 5)] {
        let files = [
            ("a.yaml", foo.as_str()),
            ("b.yaml", &foo_chart),
            ("learned.yaml", &learned(boots, of)),
        ];
        let rules = ["--rules", "learned.yaml"];
        let (planned, rehearsed, said) = exits(
            &files,
            &[&rules[..], &["--platform", "rke2"]].concat(),
            &rules,
        );
        assert_eq!((planned, rehearsed), (code, code), "{said}");
        let seen = format!("seen on {boots} of {of} boots");
        assert!(said.contains(&seen), "{said}");

        let directory = TempDir::new().unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let checked = ["--runs", "5", "a.yaml", "b.yaml", rules[0], rules[1]];
        let (checked_code, table) = run(&directory, "check", &checked);
        assert_eq!(checked_code, code, "{table}");
        assert!(table.contains("known only from earlier boots"), "{table}");
        assert_eq!(table.contains(&seen), code == 5, "{table}");
        let (_, json) = run(
            &directory,
            "check",
            &[&checked[..], &["-o", "json"]].concat(),
        );
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let thing = &json["learned"]["things"][0];
        assert_eq!(thing["entry"], "learned/chart-foo");
        assert_eq!((&thing["boots"], &thing["of"]), (&boots.into(), &of.into()));
        assert_eq!(thing["enough"], code == 0);
        assert_eq!(thing["last"], "2026-11-23");
    }
}

#[test]
fn a_rehearsal_takes_the_times_of_the_class_that_is_named_or_of_the_machine_that_was_read() {
    let directory = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let on_class = "    timesOn:\n      - {hardware: CLASS, times: {p5: 10m, p25: 11m, half: 12m, p75: 13m, p95: 15m}}\n";
    write(
        "a.yaml",
        &chart("foo", "chart: foo, repo: https://example.com"),
    );
    let (_, machine) = run(
        &directory,
        "preflight",
        &[
            "--platform",
            "rke2",
            "--role",
            "worker",
            "--offline",
            "-o",
            "json",
        ],
    );
    write("machine.json", &machine);
    let machine: serde_json::Value = serde_json::from_str(&machine).unwrap();
    let class = machine["hardwareClass"].as_str().unwrap();
    write(
        "learned.yaml",
        &(learned(13, 14) + &on_class.replace("CLASS", class)),
    );
    let used = |hardware: &[&str]| {
        let args = ["a.yaml", "--rules", "learned.yaml", "--runs", "2"];
        let (_, table) = run(
            &directory,
            "check",
            &[&["--details"], &args[..], hardware].concat(),
        );
        let lines = table.lines();
        let mut lines = lines.filter(|line| line.starts_with("Times from earlier boots"));
        lines.next().unwrap().to_owned()
    };
    let of_class = format!("Times from earlier boots: 1 from {class}");
    assert_eq!(used(&["--hardware", class]), of_class);
    assert_eq!(used(&["--hardware", "machine.json"]), of_class);
    let of_all = "Times from earlier boots: 1 from all hosts";
    assert_eq!(used(&["--hardware", "1cpu-1g-hdd"]), of_all);
    assert_eq!(used(&[]), format!("{of_all} (--hardware selects a class)"));
    for (wrong, why) in [
        ("nowhere.json", "no such file"),
        ("a.yaml", "not what `windrow preflight -o json` prints"),
    ] {
        let (code, said) = run(&directory, "check", &["a.yaml", "--hardware", wrong]);
        assert!(code == 64 && said.contains(why), "{code} {said}");
    }
}

#[test]
fn a_plan_on_a_node_knows_what_its_rke2_configuration_selects() {
    let network = object(
        "k8s.cni.cncf.io/v1",
        "NetworkAttachmentDefinition",
        "name: a, namespace: default",
    ) + "spec: {config: '{}'}\n";
    let snapshots = object(
        "snapshot.storage.k8s.io/v1",
        "VolumeSnapshotClass",
        "name: a",
    ) + "driver: a\ndeletionPolicy: Delete\n";
    for (configuration, manifest, exit) in [
        (None, &network, 5),
        (Some("cni: [multus, canal]\n"), &network, 0),
        (Some("cni: canal\n"), &network, 4),
        (Some("cni: canal\n"), &snapshots, 0),
        (
            Some("disable: [rke2-snapshot-controller-crd]\n"),
            &snapshots,
            4,
        ),
    ] {
        let root = TempDir::new().unwrap();
        let manifests = root.path().join("var/lib/rancher/rke2/server/manifests");
        let rke2 = root.path().join("etc/rancher/rke2");
        fs::create_dir_all(&manifests).unwrap();
        fs::create_dir_all(&rke2).unwrap();
        fs::write(manifests.join("a.yaml"), manifest).unwrap();
        if let Some(configuration) = configuration {
            fs::write(rke2.join("config.yaml"), configuration).unwrap();
        }
        let path = root.path().display().to_string();
        let directory = manifests.display().to_string();
        // The node's own directory, and the same given by its name.
        for args in [&["plan"][..], &["plan", "--platform", "rke2", &directory]] {
            let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
                .args(["--root", &path])
                .args(args)
                .output()
                .unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            assert_eq!(
                output.status.code(),
                Some(exit),
                "{configuration:?} {args:?}\n{said}"
            );
        }
    }
}

#[test]
fn an_addon_that_the_installer_enables_brings_what_it_brings() {
    let claim = object(
        "devices.harvesterhci.io/v1beta1",
        "PCIDeviceClaim",
        "name: a",
    );
    for (addons, exit) in [
        ("", 5),
        ("harvester_pcidevices_controller: {enabled: false}", 5),
        ("harvester_pcidevices_controller: {enabled: true}", 0),
        ("pcidevices-controller: {enabled: true}", 4),
    ] {
        let text = format!(
            "{}install: {{addons: {{{addons}}}}}\n",
            on_harvester(&claim)
        );
        let ended = exits(&[("c.yaml", &text)], &[], &[]);
        assert_eq!((ended.0, ended.1), (exit, exit), "{addons}\n{}", ended.2);
    }
}

#[test]
fn what_a_site_provides_is_provided_although_rke2s_chart_of_it_is_switched_off() {
    let class = object(
        "snapshot.storage.k8s.io/v1",
        "VolumeSnapshotClass",
        "name: a",
    ) + "driver: a\ndeletionPolicy: Delete\n";
    let data = |manifest: &str| {
        let indented: String = manifest
            .lines()
            .map(|line| format!("    {line}\n"))
            .collect();
        format!(
            "#cloud-config\nwrite_files:\n- path: /var/lib/rancher/rke2/server/manifests/a.yaml\n  content: |\n{indented}- path: /etc/rancher/rke2/config.yaml\n  content: |\n    disable: [rke2-snapshot-controller-crd]\n"
        )
    };
    let pack = "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: site}\nprovides:\n  - by: our image, in place of rke2-snapshot-controller-crd\n    kinds: [{group: snapshot.storage.k8s.io, kind: VolumeSnapshotClass}]\n";
    let off = exits(&[("c.yaml", &data(&class))], RKE2, &[]);
    assert_eq!((off.0, off.1), (4, 4), "{}", off.2);
    let provided = exits(
        &[("c.yaml", &data(&class)), ("site.yaml", pack)],
        &["--rules", "site.yaml", "--platform", "rke2"],
        &["--rules", "site.yaml"],
    );
    assert_eq!((provided.0, provided.1), (0, 0), "{}", provided.2);
}

#[test]
fn a_sites_directory_is_read_on_the_node() {
    let root = TempDir::new().unwrap();
    let directory = root.path().join("etc/windrow/knowledge.d");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("50-site.yaml"), "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {name: site}\nentries:\n  - {name: x, by: {chart: x}, source: s}\n").unwrap();
    let path = root.path().display().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["--root", &path, "config", "check"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(78));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("50-site.yaml:5: the entry lacks `kinds`"),
        "{said}"
    );
}
