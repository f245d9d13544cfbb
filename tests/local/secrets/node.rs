//! A node that has each secret of the corpus in each of its files.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::plant::{Class, Planter, base64, commands, corpus, lines, tree};
use super::support::Node;
use super::widgets;

/// The configuration of a Harvester installation with everything in it.
pub(crate) fn harvester(planter: &mut Planter, place: &str) -> Value {
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

/// A tree as a YAML text: JSON is YAML, with one key per line.
pub(crate) fn yaml(tree: &Value) -> String {
    let entries = tree.as_object().unwrap().iter();
    entries
        .map(|(key, value)| format!("{key}: {value}\n"))
        .collect()
}

/// Manifests with everything in them, by name.
pub(crate) fn manifests(planter: &mut Planter) -> BTreeMap<String, Value> {
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
pub(crate) fn planted(planter: &mut Planter, console: &str) -> Node {
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
        "/var/lib/rancher/windrow/gates/refused.json",
        &json!({"why": lines(planter, "state", "")}).to_string(),
    );
    for (name, object) in manifests(planter) {
        let path = format!("/var/lib/rancher/rke2/server/manifests/{name}");
        node.write(&path, &yaml(&object));
    }
    node
}

/// `key=value`, as RKE2's `*-arg` has it.
pub(crate) fn arguments(planter: &mut Planter, place: &str) -> Value {
    let corpus = corpus();
    let keys = corpus.iter().filter(|entry| entry.class == Class::Key);
    keys.map(|entry| json!(format!("{}={}", entry.name, planter.plant(entry, place))))
        .collect()
}
