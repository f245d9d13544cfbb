//! Secrets that are planted wherever a node has input, and of which nothing comes out of what Windrow says
//! (`secrets/corpus.tsv`: shapes of a published rule set, keys, texts, commands).

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

#[path = "secrets/plant.rs"]
mod plant;
#[path = "support/daemon.rs"]
mod support;
#[path = "support/widgets.rs"]
#[allow(dead_code, reason = "each test file takes what it needs of it")]
mod widgets;

use std::collections::BTreeMap;
use std::process::{Command, Output};

use jiff::Timestamp;
use plant::{Class, Planter, base64, commands, corpus, lines, tree};
use serde_json::{Value, json};
use support::Node;
use windrow::archive::{Archive, Collected, Content, Head, Item, pack};

/// The configuration of a Harvester installation with everything in it.
fn harvester(planter: &mut Planter, place: &str) -> Value {
    let files: Vec<Value> = lines(planter, &format!("{place} writeFiles"), "")
        .chunks(40)
        .map(|some| json!({"path": "/etc/x", "content": some.join("\n")}))
        .collect();
    json!({
        "schemeVersion": 1,
        "token": planter.password(place),
        "serverurl": "https://10.0.0.1:443",
        "os": {
            "hostname": "n1",
            "password": planter.password(place),
            "environment": tree(planter, &format!("{place} environment")),
            "afterInstallChrootCommands": commands(planter, &format!("{place} commands")),
            "writeFiles": files,
        },
        "runcmd": commands(planter, &format!("{place} runcmd")).iter().map(|one| json!(["sh", "-c", one])).collect::<Vec<_>>(),
        "bootcmd": commands(planter, &format!("{place} bootcmd")),
        "install": {
            "mode": "create",
            "webhooks": [{
                "event": "SUCCEEDED",
                "method": "POST",
                "url": format!("https://console.example/{}?k={}", planter.password(place), planter.password(place)),
                "headers": {"X-Any": [planter.password(place)]},
                "basicAuth": {"user": "ann", "password": planter.password(place)},
                "payload": planter.password(place),
            }],
            "addons": {"a": {"enabled": true, "valuesContent": yaml(&tree(planter, &format!("{place} values")))}},
        },
        "systemSettings": {"backup-target": tree(planter, &format!("{place} setting")).to_string()},
    })
}

/// A tree as a YAML text: JSON is YAML, a key a line.
fn yaml(tree: &Value) -> String {
    let entries = tree.as_object().unwrap().iter();
    entries
        .map(|(key, value)| format!("{key}: {value}\n"))
        .collect()
}

/// Manifests with everything in them, by name.
fn manifests(planter: &mut Planter) -> BTreeMap<String, Value> {
    let mut data = json!({});
    let mut strings = json!({});
    let mut annotations = json!({});
    let mut files = json!({});
    let mut env = Vec::new();
    let mut arguments = Vec::new();
    for (at, entry) in corpus().iter().enumerate() {
        if entry.class == Class::Alias {
            continue;
        }
        let name = format!("e{at}");
        data[&name] = base64(&planter.plant(entry, "Secret.data")).into();
        strings[&name] = planter.plant(entry, "Secret.stringData").into();
        annotations[&format!("example.com/{name}")] =
            planter.plant(entry, "Secret.annotations").into();
        if entry.class == Class::Key {
            env.push(json!({"name": entry.name, "value": planter.plant(entry, "env")}));
            arguments.push(json!(format!(
                "--{}={}",
                entry.name,
                planter.plant(entry, "args")
            )));
            arguments.push(json!(format!("--{}", entry.name)));
            arguments.push(planter.plant(entry, "args").into());
        } else {
            arguments.push(planter.plant(entry, "args").into());
        }
    }
    let applied = json!({"stringData": tree(planter, "last-applied")}).to_string();
    annotations["kubectl.kubernetes.io/last-applied-configuration"] = applied.clone().into();
    annotations["objectset.rio.cattle.io/applied"] = base64(&applied).into();
    for (at, some) in lines(planter, "ConfigMap.data", "").chunks(25).enumerate() {
        files[&format!("file{at}")] = some.join("\n").into();
    }
    files[".netrc"] = planter.password("ConfigMap .netrc").into();
    files["values.yaml"] = yaml(&tree(planter, "ConfigMap values.yaml")).into();
    let widget = |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "widget", "namespace": "default"}, "spec": spec});
    let object = |version: &str, kind: &str, name: &str, rest: Value| {
        let mut whole = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}});
        for (key, value) in rest.as_object().unwrap() {
            whole[key] = value.clone();
        }
        whole
    };
    let mut secret = object(
        "v1",
        "Secret",
        "s",
        json!({"data": data, "stringData": strings}),
    );
    secret["metadata"]["annotations"] = annotations;
    let chart = json!({"spec": {"chart": "c", "set": tree(planter, "HelmChart set"), "valuesContent": yaml(&tree(planter, "valuesContent"))}});
    let pods = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
        "containers": [{"name": "c", "image": "example.com/c:1", "env": env, "args": arguments}]}}}});
    let machine = json!({"spec": {"template": {"spec": {"volumes": [{"cloudInitNoCloud": {
        "userData": lines(planter, "userData", "").join("\n"), "networkData": lines(planter, "networkData", "").join("\n")}}]}}}});
    BTreeMap::from([
        ("10-secret.yaml".to_owned(), secret),
        (
            "20-map.yaml".to_owned(),
            object("v1", "ConfigMap", "m", json!({"data": files})),
        ),
        (
            "30-pods.yaml".to_owned(),
            object("apps/v1", "Deployment", "d", pods),
        ),
        (
            "40-chart.yaml".to_owned(),
            object("helm.cattle.io/v1", "HelmChart", "c", chart),
        ),
        (
            "50-widget.yaml".to_owned(),
            widget(tree(planter, "custom resource")),
        ),
        (
            "60-machine.yaml".to_owned(),
            object("kubevirt.io/v1", "VirtualMachine", "vm", machine),
        ),
        (
            "70-setting.yaml".to_owned(),
            object(
                "harvesterhci.io/v1beta1",
                "Setting",
                "x",
                json!({"value": tree(planter, "Setting").to_string()}),
            ),
        ),
    ])
}

/// A node that has each secret of the corpus in each of its files.
fn planted(planter: &mut Planter, console: &str) -> Node {
    let node = Node::empty();
    node.write("/proc/sys/kernel/hostname", "n1\n");
    let mut cmdline = vec!["root=LABEL=COS".to_owned()];
    for entry in corpus() {
        match entry.class {
            Class::Key => cmdline.push(format!(
                "{}={}",
                entry.name,
                planter.plant(&entry, "cmdline")
            )),
            Class::Shape => cmdline.push(format!("x.y={}", planter.plant(&entry, "cmdline"))),
            _ => {}
        }
    }
    node.write("/proc/cmdline", &(cmdline.join(" ") + "\n"));
    let config = harvester(planter, "harvester.config");
    node.write("/oem/harvester.config", &yaml(&config));
    for (path, place) in [
        ("/etc/rancher/rke2/config.yaml", "rke2 config.yaml"),
        (
            "/etc/rancher/rke2/config.yaml.d/50-x.yaml",
            "rke2 config.yaml.d",
        ),
        ("/etc/rancher/rancherd/config.yaml", "rancherd config.yaml"),
        ("/etc/rancher/rke2/registries.yaml", "registries.yaml"),
    ] {
        let mut one = tree(planter, place);
        one["kubelet-arg"] = arguments(planter, &format!("{place} kubelet-arg"));
        one["kube-apiserver-arg"] = arguments(planter, &format!("{place} kube-apiserver-arg"));
        one["postInstructions"] = json!([{"name": "x", "args": commands(planter, place), "env": arguments(planter, place)}]);
        node.write(path, &yaml(&one));
    }
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "users": [{"name": "default", "user": tree(planter, "kubeconfig")}]});
    node.write(
        "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
        &yaml(&kubeconfig),
    );
    node.write(
        "/var/lib/rancher/rke2/server/token",
        &planter.password("token file"),
    );
    node.write(
        "/etc/rancher/node/password",
        &planter.password("password file"),
    );
    node.write("/etc/windrow/rules.d/90-test.yaml", widgets::KEEP);
    node.write(
        "/etc/windrow/conf.d/10-blind.yaml",
        "staging: {blindDeadline: 1s}\n",
    );
    node.write(
        "/etc/windrow/conf.d/50-console.yaml",
        &yaml(&json!({
            "webhooks": [{
                "event": "STAGING_BLOCKED",
                "url": format!("{console}/hook"),
            }, {
                "event": "NODE_READY",
                "url": format!("https://console.example/{}?k={}", planter.password("url"), planter.password("url")),
                "headers": {"X-Any": [planter.password("headers")]},
                "basicAuth": {"user": "ann", "password": planter.password("basicAuth")},
                "payload": planter.password("payload"),
            }],
            "probes": {"custom": {"registry": {"http": {"url":
                format!("http://127.0.0.1:1/{}/v2/?q={}", planter.password("probe path"), planter.password("probe query"))}}}},
        })),
    );
    node.write(
        "/var/lib/rancher/windrow/gates/note.json",
        &json!({"why": lines(planter, "state", "")}).to_string(),
    );
    for (name, object) in manifests(planter) {
        let path = format!("/var/lib/rancher/rke2/server/manifests/{name}");
        node.write(&path, &yaml(&object));
    }
    node
}

/// `key=value`, as RKE2's `*-arg` has it.
fn arguments(planter: &mut Planter, place: &str) -> Value {
    let corpus = corpus();
    let keys = corpus.iter().filter(|entry| entry.class == Class::Key);
    keys.map(|entry| json!(format!("{}={}", entry.name, planter.plant(entry, place))))
        .collect()
}

fn windrow(node: &Node, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(node.root.path())
        .args(arguments)
        .output()
        .unwrap()
}

/// Everything in an archive.
fn texts(archive: &Archive) -> Vec<(String, &[u8])> {
    let files = archive.files.iter();
    files
        .map(|(path, content)| (path.clone(), content.as_slice()))
        .collect()
}

#[test]
fn the_corpus_is_large_and_no_two_secrets_are_the_same() {
    let corpus = corpus();
    assert!(corpus.len() >= 250, "{}", corpus.len());
    let mut planter = Planter::new();
    let made: std::collections::BTreeSet<String> = corpus
        .iter()
        .map(|entry| planter.plant(entry, "x"))
        .collect();
    assert_eq!(made.len(), corpus.len());
}

#[test]
fn nothing_planted_comes_out_of_a_report_with_or_without_the_manifests() {
    let mut planter = Planter::new();
    let node = planted(&mut planter, "http://127.0.0.1:1");
    for with in [&["-o", "-"][..], &["-o", "-", "--with-manifests"][..]] {
        let output = windrow(&node, &[&["report"], with].concat());
        assert!(output.status.success(), "{output:?}");
        let archive = Archive::read(&output.stdout[..]).unwrap();
        let missing = serde_json::to_string(&archive.index.missing).unwrap();
        assert_eq!(
            archive.files.contains_key("manifests/10-secret.yaml"),
            with.len() == 3,
            "{missing}"
        );
        for path in [
            "harvester/harvester.config",
            "rke2/config.yaml",
            "host/cmdline",
            "settings.json",
        ] {
            assert!(archive.files.contains_key(path), "{path}: {missing}");
        }
        let mut all = texts(&archive);
        all.push(("standard error".to_owned(), &output.stderr));
        planter.nothing_in(all);
    }
    assert!(planter.planted() > 5000, "{}", planter.planted());
}

#[test]
fn nothing_planted_in_a_journal_or_an_answer_of_the_cluster_comes_out_of_an_archive() {
    let mut planter = Planter::new();
    let mut collected = Collected::default();
    let mut add = |path: &str, content| {
        collected.items.push(Item {
            path: path.to_owned(),
            what: "x".to_owned(),
            source: "x".to_owned(),
            content,
            truncated: false,
        });
    };
    let lead = "2026-11-22T18:27:48.123456+0000 rke2[1234]: ";
    add(
        "journal/rke2-server.log",
        Content::Text(lines(&mut planter, "journal", lead).join("\n")),
    );
    let go = "2026-11-22T18:27:48+0000 rke2[1]: time=\"2026-11-22T18:27:48Z\" level=error msg=\"it failed\" error=";
    add(
        "journal/rancherd.log",
        Content::Text(lines(&mut planter, "journal of rancherd", go).join("\n")),
    );
    add(
        "host/plain",
        Content::Text(lines(&mut planter, "text", "").join("\n")),
    );
    let messages: Vec<Value> = lines(&mut planter, "a condition's message", "")
        .into_iter()
        .map(|text| json!({"type": "Ready", "status": "False", "message": text}))
        .collect();
    add(
        "cluster/x.json",
        Content::Tree(json!({"kind": "X", "apiVersion": "v1", "status": {"conditions": messages}})),
    );
    collected.missing(
        "the cluster",
        lines(&mut planter, "an API error", "403: ").join("\n"),
    );
    let head = Head {
        host: "n1".to_owned(),
        created: Timestamp::UNIX_EPOCH,
    };
    let mut bytes = Vec::new();
    pack(collected, &head, &mut bytes).unwrap();
    let archive = Archive::read(&bytes[..]).unwrap();
    planter.nothing_in(texts(&archive));
}
