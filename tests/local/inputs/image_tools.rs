//! Ignition, Butane and Edge Image Builder, through the real binary.

use std::fs;

use super::given::{Given, MACHINE, MANIFESTS, NAMESPACE, PLAN, REHEARSE, Ran, indented, says};

const GATES: &[&str] = &["gates", "check", "--rke2", "v1.35"];
const CONFIG: &[&str] = &["config", "check"];
/// A namespaced object of a namespace that nothing brings.
const HOMELESS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: two}\n";

/// A Butane file that writes a manifest and what stands in RKE2's and Windrow's own configuration.
fn butane(manifest: &str, staging: &str) -> String {
    format!(
        "variant: flatcar\nversion: 1.0.0\nstorage:\n  files:\n  - path: {MANIFESTS}/a.yaml\n    contents:\n      inline: |\n{}  \
         - path: /etc/rancher/rke2/config.yaml.d/60.yaml\n    contents:\n      inline: |\n        kube-apiserver-arg: \
         [feature-gates=NodeAuthorizerEnablePodSelectors=true]\n  - path: /etc/windrow/conf.d/a.yaml\n    contents:\n      inline: |\n        {staging}\n",
        indented(8, manifest)
    )
}

/// The same as Ignition, as butane writes it.
fn ignition(manifest: &str, staging: &str) -> String {
    let encoded = |text: &str| {
        let bytes = text.bytes().map(|byte| format!("%{byte:02X}"));
        format!("data:,{}", bytes.collect::<String>())
    };
    let gates = "kube-apiserver-arg: [feature-gates=NodeAuthorizerEnablePodSelectors=true]\n";
    let files = [
        (format!("{MANIFESTS}/a.yaml"), manifest),
        ("/etc/rancher/rke2/config.yaml.d/60.yaml".to_owned(), gates),
        ("/etc/windrow/conf.d/a.yaml".to_owned(), staging),
    ];
    let files = files.map(|(path, text)| {
        let source = encoded(text);
        format!("{{\"path\": \"{path}\", \"contents\": {{\"source\": \"{source}\"}}}}")
    });
    format!(
        "{{\"ignition\": {{\"version\": \"3.4.0\"}}, \"storage\": {{\"files\": [\n{}\n]}}}}\n",
        files.join(",\n")
    )
}

#[test]
fn every_verb_reads_ignition_and_butane() {
    for text in [
        butane(NAMESPACE, "staging: {}"),
        ignition(NAMESPACE, "staging: {}"),
    ] {
        says(&text, PLAN, 0, &["1 manifest file, 0 held", "a.yaml"]);
        says(&text, REHEARSE, 4, &["gate-pod-selectors"]);
        says(&text, GATES, 4, &["NodeAuthorizerEnablePodSelectors"]);
        says(&text, CONFIG, 0, &["1 files"]);
    }
    // Findings have the lines of the file.
    let homeless = butane(HOMELESS, "staging: {}");
    says(&homeless, PLAN, 4, &["c.yaml:8", "Namespace two"]);
    let wrong = butane(NAMESPACE, "stagng: {}");
    says(&wrong, CONFIG, 78, &["c.yaml:18: unknown key `stagng`"]);
    let homeless = ignition(HOMELESS, "staging: {}");
    says(&homeless, PLAN, 4, &["c.yaml:2", "Namespace two"]);
    let wrong = ignition(NAMESPACE, "stagng: {}");
    says(
        &wrong,
        CONFIG,
        78,
        &["c.yaml:4: /etc/windrow/conf.d/a.yaml:1: unknown key `stagng`"],
    );
}

#[test]
fn a_file_under_any_name_is_known_by_its_keys() {
    let given = Given::new("node.ign", ignition(MACHINE, "staging: {}"));
    let ran = given.run(&["plan", "--platform", "harvester", "node.ign"]);
    assert!(
        ran.out.contains("1 manifest file, 1 held"),
        "{}",
        ran.out + &ran.err
    );
    let given = Given::new("node.bu", butane(NAMESPACE, "staging: {}"));
    let ran = given.run(&[PLAN, &["."]].concat());
    assert_eq!(ran.exit, 0, "{}", ran.out + &ran.err);
}

#[test]
fn what_butane_takes_from_beside_it_has_its_own_name_and_lines() {
    let text = format!(
        "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n  - path: {MANIFESTS}/a.yaml\n    contents:\n      local: parts/a.yaml\n"
    );
    let given = Given::new("node.bu", &text);
    let missing = given.run(&[PLAN, &["node.bu"]].concat());
    assert_eq!(missing.exit, 4);
    assert!(
        missing
            .out
            .contains("node.bu:7 `parts/a.yaml` is not next to this file"),
        "{}",
        missing.out
    );
    fs::create_dir(given.path("parts")).unwrap();
    fs::write(
        given.path("parts/a.yaml"),
        format!("{NAMESPACE}---\n{HOMELESS}"),
    )
    .unwrap();
    let ran = given.run(&[PLAN, &["node.bu"]].concat());
    assert!(ran.out.contains("parts/a.yaml:5"), "{}", ran.out);
    let standard = given.run_with(&[PLAN, &["-"]].concat(), text.as_bytes());
    assert_eq!(standard.exit, 5, "{}", standard.out + &standard.err);
    let outside = text.replace("parts/a.yaml", "../a.yaml");
    says(
        outside,
        PLAN,
        5,
        &["../a.yaml: it leads out of the directory of this file"],
    );
}

const DEFINITION: &str = "apiVersion: 1.0\nimage:\n  {imageType: iso, arch: x86_64, baseImage: b.iso, outputImageName: o.iso}\nkubernetes:\n  version: v1.34.2+rke2r1\n";

/// A definition and what lies beside it.
fn definition(more: &str, files: &[(&str, &str)]) -> Given {
    let given = Given::new("definition.yaml", format!("{DEFINITION}{more}"));
    for (path, text) in files {
        let path = given.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    given
}

fn both(given: &Given, verb: &[&str]) -> Ran {
    let by_name = given.run(&[verb, &["definition.yaml"]].concat());
    let by_directory = given.run(&[verb, &["."]].concat());
    assert_eq!(
        by_name.exit,
        by_directory.exit,
        "{}",
        by_directory.out + &by_directory.err
    );
    by_name
}

#[test]
fn a_definition_is_read_with_the_directory_in_which_it_lies() {
    let machine = "os-files/var/lib/rancher/rke2/server/manifests/vm.yaml";
    let homeless = "kubernetes/manifests/homeless.yaml";
    let settings = "os-files/etc/windrow/conf.d/a.yaml";
    let given = definition(
        "",
        &[
            (homeless, HOMELESS),
            (machine, NAMESPACE),
            (settings, "stagng: {}\n"),
        ],
    );
    let plan = both(&given, &["plan"]);
    assert_eq!(plan.exit, 78, "{}", plan.out + &plan.err);
    fs::write(given.path(settings), "staging: {}\n").unwrap();
    let plan = both(&given, &["plan"]);
    assert_eq!(plan.exit, 4, "{}", plan.out + &plan.err);
    for words in [
        "Plan on rke2: 2 manifest files, 0 held",
        "/opt/eib-k8s/manifests/homeless.yaml 1 object by Edge Image Builder",
        "kubernetes/manifests/homeless.yaml:1",
    ] {
        assert!(plan.out.contains(words), "{words}: {}", plan.out);
    }
    assert!(
        plan.err.contains("Windrow holds none of them"),
        "{}",
        plan.err
    );
    fs::write(given.path(homeless), NAMESPACE.replace("one", "two")).unwrap();
    let rehearsed = both(&given, REHEARSE);
    assert_eq!(rehearsed.exit, 0, "{}", rehearsed.out + &rehearsed.err);
}

#[test]
fn what_a_definition_brings_is_there_for_what_rke2_applies() {
    let pool = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: a, namespace: metallb-system}\nspec: {addresses: [192.0.2.0/28]}\n";
    let path = "os-files/var/lib/rancher/rke2/server/manifests/pool.yaml";
    let given = definition("  network: {apiVIP: 192.0.2.1}\n", &[(path, pool)]);
    let plan = both(&given, &["plan"]);
    assert_eq!(plan.exit, 0, "{}", plan.out + &plan.err);
    assert!(
        plan.out
            .contains("from /opt/eib-k8s/manifests/metallb.yaml"),
        "{}",
        plan.out
    );
    assert!(plan.out.contains("1 held"), "{}", plan.out);
    let rehearsed = both(&given, REHEARSE);
    assert_eq!(rehearsed.exit, 0, "{}", rehearsed.out + &rehearsed.err);
    // Nothing makes a file wait that kubectl creates, so nothing advises it.
    let created = definition(
        "  network: {apiVIP: 192.0.2.1}\n",
        &[("kubernetes/manifests/pool.yaml", pool)],
    );
    let rehearsed = both(&created, REHEARSE);
    let said = rehearsed.out + &rehearsed.err;
    assert_eq!(rehearsed.exit, 0, "{said}");
    assert!(!said.contains("webhook-not-awaited"), "{said}");
    // Without an address nothing brings MetalLB.
    let alone = definition("", &[(path, pool)]);
    assert_eq!(both(&alone, &["plan"]).exit, 4);
}

#[test]
fn the_cni_of_a_definition_is_cilium_unless_its_configuration_names_another() {
    let policy = "apiVersion: cilium.io/v2\nkind: CiliumClusterwideNetworkPolicy\nmetadata: {name: a}\nspec: {endpointSelector: {}}\n";
    let manifest = ("kubernetes/manifests/policy.yaml", policy);
    assert_eq!(both(&definition("", &[manifest]), &["plan"]).exit, 0);
    let canal = ("kubernetes/config/server.yaml", "cni: canal\n");
    let plan = both(&definition("", &[manifest, canal]), &["plan"]);
    assert_eq!(plan.exit, 4, "{}", plan.out);
}

#[test]
fn gates_are_checked_against_the_version_of_the_definition() {
    let gates = "kube-apiserver-arg: [feature-gates=AuthorizeNodeWithSelectors=false]\n";
    let path = "os-files/etc/rancher/rke2/config.yaml.d/60.yaml";
    let given = definition("", &[(path, gates)]);
    let checked = both(&given, &["gates", "check"]);
    assert_eq!(checked.exit, 4, "{}", checked.out + &checked.err);
    assert!(
        checked
            .out
            .contains("Kubernetes 1.34.2 (from the configuration)"),
        "{}",
        checked.out
    );
    assert!(
        checked.out.contains(&format!("{path}:1")),
        "{}",
        checked.out
    );
}

#[test]
fn of_several_definitions_one_has_to_be_named() {
    let given = definition("", &[("other.yaml", DEFINITION)]);
    let ran = given.run(&[PLAN, &["."]].concat());
    assert_eq!(ran.exit, 64);
    assert!(
        ran.err
            .contains("there are several Edge Image Builder definitions here"),
        "{}",
        ran.err
    );
    assert_eq!(given.run(&[PLAN, &["other.yaml"]].concat()).exit, 0);
    // Nor is one found in a directory below.
    fs::create_dir_all(given.path("above/below")).unwrap();
    fs::write(given.path("above/below/d.yaml"), DEFINITION).unwrap();
    let ran = given.run(&[PLAN, &["above"]].concat());
    assert_eq!(ran.exit, 64);
    assert!(
        ran.err
            .contains("pass the directory, or the path of the definition"),
        "{}",
        ran.err
    );
    assert_eq!(given.run(&[PLAN, &["above/below"]].concat()).exit, 0);
}

#[test]
fn what_another_file_takes_in_is_not_corrected_in_a_copy() {
    let path = "os-files/var/lib/rancher/rke2/server/manifests/A.yaml";
    let given = definition("", &[(path, NAMESPACE)]);
    let ran = given.run(&[
        "check",
        "--details",
        "--runs",
        "2",
        "--fix",
        "copy",
        "definition.yaml",
    ]);
    assert!(
        ran.err
            .contains(&format!("{path}: another file includes it")),
        "{}",
        ran.err
    );
    assert!(!given.path("copy/A.yaml").exists());
}
