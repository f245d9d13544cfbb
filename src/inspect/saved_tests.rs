use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

#[test]
fn lists_of_every_form_are_read_and_what_has_no_file_is_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "cluster/_Pod.json",
        r#"{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a","namespace":"x","managedFields":[{}]}}]}"#,
    );
    write(
        "mixed.json",
        r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}]}"#,
    );
    write(
        "one.json",
        r#"{"apiVersion":"kubevirt.io/v1","kind":"KubeVirt","metadata":{"name":"kubevirt"}}"#,
    );
    write(
        "empty.json",
        r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudgetList","items":[]}"#,
    );
    write("report.json", r#"{"collected": []}"#);
    write("notes.txt", "not JSON");
    let objects = saved(directory.path()).unwrap().objects;
    let pods = objects.all(ObjectKind::POD).unwrap();
    assert_eq!(text(&pods[0], "/kind"), "Pod");
    assert!(pods[0].pointer("/metadata/managedFields").is_none());
    assert_eq!(objects.all(ObjectKind::NODE).unwrap().len(), 1);
    assert_eq!(objects.all(ObjectKind::KUBEVIRT).unwrap().len(), 1);
    assert_eq!(objects.all(ObjectKind::BUDGET).unwrap().len(), 0);
    assert!(objects.all(ObjectKind::VM).is_err());
    let alone = saved(&directory.path().join("one.json")).unwrap().objects;
    assert_eq!(alone.all(ObjectKind::KUBEVIRT).unwrap().len(), 1);
}

#[test]
fn lists_as_kubectl_writes_them_are_read_as_json_and_as_yaml_also_if_they_are_empty() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    // kubectl 1.35, `get … -A -o yaml` and `-o json`.
    write(
        "nodes.yaml",
        "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    name: n1\n    labels: {a: \"true\"}\nkind: List\nmetadata:\n  resourceVersion: \"\"\n",
    );
    let none = r#"{"apiVersion":"v1","items":[],"kind":"List","metadata":{"resourceVersion":""}}"#;
    write("upgrades.harvesterhci.io.json", none);
    write("pods.json", none);
    write("policy_PodDisruptionBudget.json", none);
    write("secrets.json", none);
    write("whatever.json", none);
    write(
        "two.yml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: vip, namespace: harvester-system}\n---\napiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: kubevirt}\n",
    );
    let objects = saved(directory.path()).unwrap().objects;
    let nodes = objects.all(ObjectKind::NODE).unwrap();
    assert_eq!(text(&nodes[0], "/metadata/labels/a"), "true");
    let secrets = [ObjectKind::HELM_RELEASE, ObjectKind::MACHINE_PLAN];
    let others = [ObjectKind::UPGRADE, ObjectKind::POD, ObjectKind::BUDGET];
    for kind in secrets.into_iter().chain(others) {
        assert_eq!(objects.all(kind), Ok(&[][..]), "{}", kind.kind);
    }
    assert_eq!(objects.all(ObjectKind::CONFIG_MAP).unwrap().len(), 1);
    assert_eq!(objects.all(ObjectKind::KUBEVIRT).unwrap().len(), 1);
    assert!(objects.all(ObjectKind::VM).is_err());
    let alone = saved_in("-", b"apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n").unwrap();
    assert_eq!(alone.objects.all(ObjectKind::NODE).unwrap().len(), 1);
}

#[test]
fn of_yaml_that_cannot_be_read_the_line_is_named_and_nothing_quoted() {
    let error = saved_in("-", b"token: s3cret\nkind: [").unwrap_err();
    assert!(
        error.contains("line ") && !error.contains("s3cret"),
        "{error}"
    );
    let bomb = format!(
        "a: &a [{}]\nb: [{}]\n",
        "x, ".repeat(1000),
        "*a, ".repeat(1000)
    );
    assert!(saved_in("-", bomb.as_bytes()).is_err());
}

#[test]
fn an_object_that_has_items_of_its_own_is_no_list_and_keeps_them() {
    let widget = serde_json::json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "a"}, "items": [{"metadata": {"name": "b"}}]});
    let mut objects = Objects::default();
    assert!(take(&mut objects, widget.clone()));
    let kind = GroupKind::new("example.com", "Widget");
    assert_eq!(objects.list(&kind).unwrap(), [widget]);
}

#[test]
fn an_object_that_is_saved_twice_is_read_once_in_its_newest_state() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let pod = |name: &str, revision: &str, phase: &str| {
        format!(
            "- apiVersion: v1\n  kind: Pod\n  metadata: {{name: {name}, namespace: x, uid: u, resourceVersion: \"{revision}\"}}\n  status: {{phase: {phase}}}\n"
        )
    };
    let list = |items: &[String]| format!("apiVersion: v1\nkind: List\nitems:\n{}", items.concat());
    write(
        "a.yaml",
        &list(&[pod("one", "1000", "Running"), pod("other", "7", "Running")]),
    );
    write("b.yaml", &list(&[pod("one", "999", "Pending")]));
    let machine = |version: &str| {
        format!(
            "apiVersion: cluster.x-k8s.io/{version}\nkind: Machine\nmetadata: {{name: m, namespace: fleet-local, resourceVersion: \"5\"}}\n"
        )
    };
    write("machine-v1beta1.yaml", &machine("v1beta1"));
    write("machine-v1beta2.yaml", &machine("v1beta2"));
    let objects = saved(directory.path()).unwrap().objects;
    let pods = objects.all(ObjectKind::POD).unwrap();
    assert_eq!(pods.len(), 2, "{pods:#?}");
    let one = objects.get(ObjectKind::POD, "x", "one").unwrap().unwrap();
    assert_eq!(text(one, "/status/phase"), "Running");
    let machines = objects.all(ObjectKind::CAPI_MACHINE).unwrap();
    assert_eq!(machines.len(), 1);
    assert_eq!(
        text(&machines[0], "/apiVersion"),
        "cluster.x-k8s.io/v1beta1"
    );
}

#[test]
fn a_list_inside_a_list_is_read_and_a_repeated_key_is_refused() {
    let inside = br#"{"apiVersion":"v1","kind":"List","items":[
        {"apiVersion":"v1","kind":"NodeList","items":[{"metadata":{"name":"n1"}}]},
        {"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}]},
        {"apiVersion":"policy/v1","kind":"PodDisruptionBudgetList","items":[]}]}"#;
    let objects = saved_in("-", inside).unwrap().objects;
    assert_eq!(objects.all(ObjectKind::NODE).unwrap().len(), 1);
    assert_eq!(objects.all(ObjectKind::POD).unwrap().len(), 1);
    assert_eq!(objects.all(ObjectKind::BUDGET).unwrap().len(), 0);
    for twice in [
        r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}],"items":[]}"#,
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: n1}\nitems: []\n",
    ] {
        let error = saved_in("-", twice.as_bytes()).unwrap_err();
        assert!(error.contains("appears twice"), "{error}");
    }
}

#[test]
fn everything_that_cannot_be_read_is_named_without_quoting_it() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.json"), "{\"token\": s3cret").unwrap();
    fs::write(directory.path().join("b.json"), "").unwrap();
    let errors = saved(directory.path()).unwrap_err();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].contains("a.json") && errors[0].contains("line 1"));
    assert!(!errors[0].contains("s3cret"));
    let none = saved(&directory.path().join("none")).unwrap_err();
    assert!(none[0].contains("No such file"), "{none:?}");
}

#[test]
fn of_a_broken_list_only_the_kind_in_its_name_is_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let pod = r#"{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a","namespace":"x"}}]}"#;
    write("core_Pod.json", pod);
    write("nodes.json", &pod.replace("Pod", "Node"));
    write("pods.yaml", "items: [\nkind: s3cret");
    let objects = saved(directory.path()).unwrap().objects;
    assert_eq!(objects.all(ObjectKind::NODE).unwrap().len(), 1);
    // The whole list also had the pod of the other file, perhaps.
    let why = objects.all(ObjectKind::POD).unwrap_err().to_string();
    assert!(
        why.contains("pods.yaml: it is neither JSON nor YAML"),
        "{why}"
    );
    assert!(!why.contains("s3cret"), "{why}");
    // This one may have objects of any kind.
    write("all.yaml", "items: [\nkind: s3cret");
    let found = saved(directory.path()).unwrap();
    assert_eq!(found.broken.len(), 1, "{:?}", found.broken);
    assert!(found.broken[0].contains("all.yaml"));
}

#[test]
fn yaml_may_begin_with_a_brace_and_have_documents_of_json() {
    let list = "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Node, metadata: {name: n1}}]}\n";
    let one = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}"#;
    let two = format!("{one}\n---\n{}\n", one.replace("n1", "n2"));
    for (text, nodes) in [(list, 1), (two.as_str(), 2)] {
        let objects = saved_in("saved", text.as_bytes()).unwrap().objects;
        assert_eq!(objects.all(ObjectKind::NODE).unwrap().len(), nodes);
    }
    assert!(saved_in("saved", b"{kind: List, kind: List, items: []}").is_err());
    let error = saved_in("saved", b"{\"kind\": \"List\", \"items\": [").unwrap_err();
    assert!(error.contains("it is not JSON"), "{error}");
}

#[test]
fn a_file_that_is_too_large_is_named_and_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let file = fs::File::create(directory.path().join("a.json")).unwrap();
    file.set_len(LARGEST + 1).unwrap();
    let errors = saved(directory.path()).unwrap_err();
    assert!(errors[0].contains("larger than 256 MiB"), "{errors:?}");
}

#[test]
fn a_report_says_what_there_was_what_was_not_served_and_what_is_not_known() {
    use crate::archive::{ArchiveOwner, Collected, CollectedContent, CollectedItem, pack};
    let list = |kind: &str, truncated: bool| CollectedItem {
        path: format!("cluster/core_{kind}.json"),
        what: "objects of the cluster".to_owned(),
        source: "GET".to_owned(),
        content: CollectedContent::Tree(
            serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [
                {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}}
            ]}),
        ),
        truncated,
    };
    let mut collected = Collected {
        items: vec![list("Node", false), list("Pod", true)],
        ..Collected::default()
    };
    collected.missing("Addon of harvesterhci.io/v1beta1", "404: not found");
    collected.missing("Volume of longhorn.io/v1beta2", "HTTP 404");
    collected.missing("PodDisruptionBudget of policy/v1", "403: forbidden");
    let created: Timestamp = "2026-11-21T20:15:00Z".parse().unwrap();
    let head = ArchiveOwner {
        host: "n1".to_owned(),
        created,
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.tar.gz");
    pack(collected, &head, fs::File::create(&path).unwrap()).unwrap();
    let read = saved(&path).unwrap();
    assert_eq!(read.at, Some(created));
    let objects = read.objects;
    assert_eq!(objects.all(ObjectKind::NODE).unwrap().len(), 1);
    assert!(
        objects
            .all(ObjectKind::POD)
            .unwrap_err()
            .why
            .contains("a part")
    );
    assert_eq!(objects.all(ObjectKind::ADDON).unwrap().len(), 0);
    assert_eq!(objects.all(ObjectKind::LONGHORN_VOLUME).unwrap().len(), 0);
    assert!(
        objects
            .all(ObjectKind::BUDGET)
            .unwrap_err()
            .why
            .contains("403")
    );
    assert!(objects.all(ObjectKind::VM).is_err());
    // With less memory than its lists take, they are unknown.
    let file = fs::File::open(&path).unwrap();
    let within = packed_within(ValueBudget::of(1000), file).unwrap();
    let refused = within.objects.all(ObjectKind::NODE).unwrap_err();
    assert!(refused.why.contains("too large"), "{refused:?}");
    fs::write(&path, [0x1f, 0x8b, 0]).unwrap();
    assert!(saved(&path).unwrap_err()[0].contains("not an archive"));
}

#[test]
fn what_a_node_says_of_itself_has_a_bound_when_it_is_read() {
    for (count, is_read) in [(10, true), (1 << 20, false)] {
        let files = r#""","#.repeat(count);
        let own = format!(r#"{{"name": "n1", "missingFiles": [{files}""]}}"#);
        let read = own_node(own.as_bytes());
        assert_eq!(read.is_ok(), is_read, "{count}");
        let files = read.ok().flatten().map(|own| own.missing_files.len());
        assert_eq!(files, is_read.then_some(count + 1));
    }
    assert!(matches!(own_node(b"{}"), Ok(None)));
    assert!(matches!(own_node(b"no JSON"), Ok(None)));
}

#[test]
fn a_directory_without_a_list_is_no_report() {
    let directory = tempfile::tempdir().unwrap();
    let errors = saved(directory.path()).unwrap_err();
    assert!(errors[0].contains("kubectl get"), "{errors:?}");
}

#[test]
fn a_broken_file_of_a_directory_loses_only_itself_and_makes_its_kind_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("nodes.yaml", NODES);
    write("pods.yaml", "kind: [");
    write("odd.json", "{\"token\": s3cret");
    let found = saved(directory.path()).unwrap();
    assert_eq!(found.objects.all(ObjectKind::NODE).unwrap().len(), 1);
    let pods = found.objects.all(ObjectKind::POD).unwrap_err();
    assert!(pods.why.contains("pods.yaml"), "{pods}");
    assert_eq!(found.broken.len(), 1, "{:?}", found.broken);
    assert!(!found.broken.concat().contains("s3cret"));
}

#[test]
fn a_packed_directory_of_lists_is_read_as_the_directory() {
    let mut packed = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(NODES.len() as u64);
    let path = "saved/nodes.yaml";
    packed
        .append_data(&mut header, path, NODES.as_bytes())
        .unwrap();
    let tar = packed.into_inner().unwrap().finish().unwrap();
    let zip = zip::tests::pack(&[(path, NODES)]);
    for archive in [tar, zip] {
        let found = saved_in("-", &archive).unwrap().objects;
        assert_eq!(found.all(ObjectKind::NODE).unwrap().len(), 1);
    }
}

const NODES: &str =
    "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: n1}\n";
