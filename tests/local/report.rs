//! `windrow report` on a node's files: what the archive has, and that no secret is among it.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use windrow::archive::Archive;

/// One secret for each way in which a node holds one. None is a substring of another.
const SECRETS: &[&str] = &[
    "K10aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa::server:Clu5terT0ken",
    "Clu5terT0ken",
    "Ag3ntT0ken-xyz",
    "s3cretKey/of+etcd",
    "Reg1stryPassw0rd",
    "$6$saltsalt$h4shedPassw0rdOfTheNode",
    "pr0xyPass",
    "M4nifestSecret",
    "an0ther-String-Secret",
    "He1mValuePassword",
    "Us3rDataOfTheMachine",
    "N0dePasswordFile",
    "S3rverCredPasswd",
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDX",
    "MHcCAQEEIInlineKeyOfTheKubeconfig0123456789abcdef",
    "W3bhookBasicAuth",
    "bearer-T0ken-of-a-hook",
    "L34kedIntoAnAnnotation",
];

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path.trim_start_matches('/'));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A node with all of these secrets.
fn node() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str, text: &str| write(root.path(), path, text);
    let key = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        SECRETS[13]
    );
    at("/proc/sys/kernel/hostname", "n1\n");
    at(
        "/proc/cmdline",
        &format!("root=LABEL=COS harvester.token={}\n", SECRETS[0]),
    );
    at("/etc/os-release", "NAME=SLE\n");
    at(
        "/etc/rancher/rke2/config.yaml",
        &format!(
            "# the old one was {}\ntoken: {}\nserver: https://10.0.0.1:9345\n",
            SECRETS[2], SECRETS[0]
        ),
    );
    at(
        "/etc/rancher/rke2/config.yaml.d/90-harvester-server.yaml",
        &format!(
            "agent-token: {}\netcd-s3-secret-key: \"{}\"\netcd-s3-access-key: AKIAABCDEFGHIJKLMNOP\nnode-label: [a=b]\n",
            SECRETS[2], SECRETS[3]
        ),
    );
    at(
        "/etc/rancher/rke2/registries.yaml",
        &format!(
            "configs:\n  reg.example:\n    auth: {{username: ann, password: {}}}\n    tls: {{ca_file: /etc/ca}}\nmirrors: {{docker.io: {{endpoint: ['https://bob:{}@mirror.example/v2']}}}}\n",
            SECRETS[4], SECRETS[6]
        ),
    );
    at(
        "/etc/rancher/rke2/rke2.yaml",
        &format!(
            "apiVersion: v1\nkind: Config\nusers: [{{name: default, user: {{client-key-data: {}}}}}]\n",
            BASE64_STANDARD.encode(SECRETS[14])
        ),
    );
    at(
        "/etc/rancher/rancherd/config.yaml",
        &format!("token: {}\nrole: cluster-init\n", SECRETS[0]),
    );
    at("/etc/rancher/node/password", SECRETS[11]);
    at("/var/lib/rancher/rke2/server/token", SECRETS[0]);
    at(
        "/var/lib/rancher/rke2/server/cred/passwd",
        &format!("{},server,server,rke2:server\n", SECRETS[12]),
    );
    at(
        "/oem/harvester.config",
        &format!(
            "token: {}\nos:\n  password: \"{}\"\n  sshAuthorizedKeys: [ssh-ed25519 AAAAC3Nza ann@example]\n  writeFiles:\n  - path: /etc/x\n    content: |\n      {}\ninstall:\n  webhooks:\n  - {{event: SUCCEEDED, url: 'http://u:{}@hooks.example', basicAuth: {{user: u, password: {}}}, headers: {{Authorization: [Bearer {}]}}}}\n",
            SECRETS[0], SECRETS[5], SECRETS[10], SECRETS[6], SECRETS[15], SECRETS[16]
        ),
    );
    at(
        "/var/lib/rancher/rke2/server/manifests/secret.yaml",
        &format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: default}}\ndata: {{a: {}, key: {}}}\nstringData: {{b: {}}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c, namespace: default, annotations: {{note: '{}'}}}}\ndata:\n  conf: |\n    password={}\n",
            BASE64_STANDARD.encode(SECRETS[7]),
            BASE64_STANDARD.encode(&key),
            SECRETS[8],
            SECRETS[7],
            SECRETS[17]
        ),
    );
    at(
        "/var/lib/rancher/rke2/server/manifests/chart.yaml",
        &format!(
            "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {{name: c, namespace: kube-system}}\nspec:\n  valuesContent: |\n    adminPassword: {}\n    replicas: 3\n",
            SECRETS[9]
        ),
    );
    at(
        "/var/lib/rancher/rke2/server/manifests/chart.yaml.skip",
        "another program's",
    );
    // What Windrow remembers may quote what it saw.
    at(
        "/var/lib/rancher/windrow/gates/refused.json",
        &format!(
            "{{\"why\": \"the agent said {} and {}\"}}",
            SECRETS[1],
            BASE64_STANDARD.encode(SECRETS[2])
        ),
    );
    root
}

fn report(root: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .arg("report")
        .args(arguments)
        .output()
        .unwrap()
}

fn archive(root: &Path, arguments: &[&str]) -> Archive {
    let output = report(root, &[arguments, &["--output-file", "-"]].concat());
    assert!(output.status.success(), "{output:?}");
    Archive::read(&output.stdout[..]).unwrap()
}

/// Base64 of a text at each place in a group, without the characters that its neighbours share.
fn traces(secret: &str) -> Vec<String> {
    (0..3)
        .map(|shift| {
            let all = BASE64_STANDARD.encode(format!("{}{secret}", "\0".repeat(shift)));
            let whole = (shift + secret.len()) * 8 / 6;
            all[[0, 2, 3][shift]..whole].to_owned()
        })
        .collect()
}

#[test]
fn no_secret_of_the_node_is_in_the_archive_plain_or_in_base64() {
    let node = node();
    let archive = archive(node.path(), &["--with-manifests"]);
    for (path, content) in &archive.files {
        let text = String::from_utf8_lossy(content);
        for secret in SECRETS {
            assert!(!text.contains(secret), "{path} has {secret}:\n{text}");
            for trace in traces(secret) {
                assert!(
                    !text.contains(&trace),
                    "{path} has {secret} in base64:\n{text}"
                );
            }
        }
    }
    assert!(archive.index.redacted > 15, "{}", archive.index.redacted);
}

#[test]
fn a_manifest_that_is_not_in_the_archive_is_named_with_the_reason() {
    let node = tempfile::tempdir().unwrap();
    let manifests = "/var/lib/rancher/rke2/server/manifests";
    for name in ["a", "b", "c"] {
        let text = "#".repeat(12 << 20);
        write(node.path(), &format!("{manifests}/{name}.yaml"), &text);
    }
    let fifo = node.path().join(&manifests[1..]).join("d.yaml");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let archive = archive(node.path(), &["--with-manifests"]);
    for (name, why) in [("c.yaml", "directoryBytes"), ("d.yaml", "a FIFO")] {
        let missing = archive.index.missing.iter();
        let found = missing
            .clone()
            .find(|one| one.what.ends_with(&format!("{manifests}/{name}")));
        let found = found.unwrap_or_else(|| panic!("{name}: {:?}", archive.index.missing));
        assert!(found.why.contains(why), "{}", found.why);
    }
    assert!(archive.files.contains_key("manifests/a.yaml"));
}

#[test]
fn the_documents_of_a_file_are_reported_one_by_one() {
    let node = tempfile::tempdir().unwrap();
    let path = "/var/lib/rancher/rke2/server/manifests/a.yaml";
    // Each takes some 7 MiB of memory; together they take more than one document may.
    let items = "x,".repeat(110_000);
    let document = |number: usize| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: a{number}}}\nrules: [{{apiGroups: [''], resources: [pods], verbs: [{items}]}}]\n"
        )
    };
    let text: Vec<String> = (0..3).map(document).collect();
    write(node.path(), path, &text.join("---\n"));
    let archive = archive(node.path(), &[]);
    let manifests = archive.json("manifests.json").unwrap();
    assert_eq!(manifests[0]["problems"], serde_json::json!([]));
    assert_eq!(manifests[0]["objects"].as_array().unwrap().len(), 3);
    // A rehearsal has all of them, too, and reports what a plan reports.
    let windrow = |verb: &str| {
        let program = env!("CARGO_BIN_EXE_windrow");
        let file = node.path().join(&path[1..]);
        let words = verb.split(' ');
        let run = Command::new(program).args(words).arg(file).output();
        let run = run.unwrap();
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(!said.contains("limit-exceeded"), "{verb}: {said}");
        run.status.code()
    };
    assert_eq!(windrow("plan"), Some(0));
    assert_eq!(windrow("check --details"), Some(0));
}

#[test]
fn the_archive_tells_what_the_node_is_without_daemon_and_without_cluster() {
    let node = node();
    let archive = archive(node.path(), &[]);
    let text = |path: &str| String::from_utf8(archive.files[path].clone()).unwrap();
    assert_eq!(archive.index.host, "n1");
    assert!(text("rke2/config.yaml").contains("https://10.0.0.1:9345"));
    assert!(text("rke2/config.yaml.d/90-harvester-server.yaml").contains("a=b"));
    assert!(text("harvester/harvester.config").contains("ssh-ed25519 AAAAC3Nza ann@example"));
    assert!(text("rke2/registries.yaml").contains("@mirror.example/v2"));
    let manifests = archive.json("manifests.json").unwrap();
    assert_eq!(manifests[0]["addon"], "chart");
    assert_eq!(manifests[0]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(manifests[1]["objects"][0]["object"]["kind"], "Secret");
    assert!(manifests[1]["sha256"].is_null(), "a digest of a secret");
    assert_eq!(
        archive.json("markers.json").unwrap()[0]["text"],
        "another program's"
    );
    assert_eq!(archive.json("plan.json").unwrap()["kind"], "Plan");
    assert!(
        !archive
            .files
            .keys()
            .any(|path| path.starts_with("manifests/"))
    );
    let missing = |what: &str| {
        let found = archive
            .index
            .missing
            .iter()
            .find(|one| one.what.contains(what));
        &found
            .unwrap_or_else(|| panic!("{:?}", archive.index.missing))
            .why
    };
    assert!(missing("status document").contains("is not installed"));
    assert!(missing("objects of the cluster").contains("kubelet.kubeconfig"));
    assert!(missing("journal").contains("--root"));
    let unknown = windrow::archive::UNKNOWN_SOURCE;
    for missing in &archive.index.missing {
        assert_ne!(missing.why, unknown, "{}", missing.what);
    }
    for entry in &archive.index.files {
        assert_eq!(
            archive.files[&entry.path].len(),
            entry.bytes,
            "{}",
            entry.path
        );
    }
}

#[test]
fn a_configuration_that_cannot_be_read_is_named_with_its_line_and_left_out() {
    let node = node();
    write(
        node.path(),
        "/etc/rancher/rke2/config.yaml.d/99-bad.yaml",
        "a: b\n\ttoken: Clu5terT0ken\n",
    );
    let archive = archive(node.path(), &[]);
    assert!(!archive.files.contains_key("rke2/config.yaml.d/99-bad.yaml"));
    let bad = |one: &&windrow::archive::Missing| one.what.ends_with("99-bad.yaml");
    let why = &archive.index.missing.iter().find(bad).unwrap().why;
    assert!(why.contains("line 2") && !why.contains("Clu5ter"), "{why}");
}

#[test]
fn the_package_s_own_scripts_are_not_taken_for_configuration_that_cannot_be_read() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "/usr/lib/windrow/windrow.yaml", "flight: {}\n");
    write(
        root.path(),
        "/usr/lib/windrow/failsafe",
        "#!/bin/sh\n[ -e x ] || exit\n",
    );
    let script = root.path().join("usr/lib/windrow/failsafe");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let said = report(root.path(), &["--output-file", "-"]).stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(!said.contains("failsafe"), "{said}");
}

#[test]
fn the_archive_is_a_file_of_its_owner_named_after_host_and_time() {
    let node = node();
    let here = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["--root", node.path().to_str().unwrap(), "report"])
        .current_dir(here.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let name = String::from_utf8(output.stdout).unwrap();
    let name = name.trim();
    assert!(
        name.starts_with("windrow-report-n1-") && name.ends_with("Z.tar.gz"),
        "{name}"
    );
    let path = here.path().join(name);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(Archive::read(fs::File::open(path).unwrap()).is_ok());

    let output = report(node.path(), &["--output-file", "/nonexistent/x.tar.gz"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("another file with -o"), "{said}");
}

#[test]
fn verbs_count_the_checks_that_an_archive_without_objects_leaves_out() {
    let root = node();
    let file = root.path().join("report.tar.gz");
    report(root.path(), &["--output-file", file.to_str().unwrap()]);
    for (verb, node, code, lines) in [
        ("diagnose", None, 5, 1),
        ("upgrade-check", None, 5, 1),
        ("drain-check", Some("n1"), 5, 0),
        ("drain-check", None, 5, 0),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .arg(verb)
            .args(node)
            .arg("--from")
            .arg(&file)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let counted = text.lines().filter(|line| line.contains("checks skipped"));
        assert_eq!(counted.count(), lines, "{text}");
        assert!(!text.contains("0 pods"), "{text}");
    }
}
