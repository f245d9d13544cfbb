//! The recipes of packaging/, followed to the letter on a booted machine: cloud-init's user-data, a combustion script,
//! the files for Harvester. And a node's downloads over the network.

use std::process::Command;

use machine::{Builder, Machine, program, repository, skipped, stripped};
use serde_json::Value;

use crate::support::machine;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
const DROP_IN: &str = "/etc/rancher/rke2/config.yaml.d/99-zz9-windrow-gates.yaml";

fn text(path: &str) -> String {
    std::fs::read_to_string(repository(path)).expect("a file of the repository")
}

/// A node whose RKE2 has a version, so that it is known which gates it takes.
fn node() -> Builder {
    let rke2 = text("tests/machine/rke2");
    let (shebang, rest) = rke2.split_once('\n').expect("a script");
    let rke2 = format!("{shebang}\n# v1.36.3+rke2r1\n{rest}");
    Builder::node()
        .disabled("rke2-server.service")
        .script("/usr/local/bin/rke2", &rke2)
}

/// A marker of Windrow's.
fn held(machine: &Machine, name: &str) -> Option<Value> {
    let content = machine.read(&format!("{MANIFESTS}/{name}.skip"))?;
    serde_json::from_str(&content).ok()
}

fn applied(machine: &Machine, name: &str) -> bool {
    machine
        .read("/var/lib/rancher/rke2/applied")
        .is_some_and(|names| names.lines().any(|line| line == name))
}

/// Settings as the daemon reads them, with the file that set each.
fn settings(machine: &Machine) -> String {
    machine.ok(&["windrow", "config", "show", "--origin"])
}

#[test]
fn the_user_data_configures_a_node_and_its_manifests_are_held_before_rke2_starts() {
    if skipped() {
        return;
    }
    let machine = node()
        .user_data(&text("packaging/cloud-init/user-data.yaml"))
        .boot();
    machine.wait_unit("rke2-server.service", "active");
    // cloud-init itself accepts it.
    let checked = machine.run(&["cloud-init", "schema", "--system"]);
    assert!(checked.status.success(), "{checked:?}");
    let settings = settings(&machine);
    assert!(
        settings.contains("/etc/windrow/conf.d/20-site.yaml:1"),
        "{settings}"
    );
    let drop_in = machine
        .read(DROP_IN)
        .expect("gates, written before RKE2 started");
    assert!(
        drop_in.contains("APIResponseCompression=false"),
        "{drop_in}"
    );
    machine.wait_until("RKE2 applies what needs nothing", |machine| {
        applied(machine, "20-namespaces.yaml")
    });
    // Its namespace comes before it in the same pass.
    machine.wait_until("RKE2 applies the database too", |machine| {
        applied(machine, "30-database.yaml")
    });
    assert!(held(&machine, "30-database.yaml").is_none());
    assert!(held(&machine, "10-app.yaml").is_some() && !applied(&machine, "10-app.yaml"));
    // By the rule that came with the user-data too.
    let output = machine.run(&["windrow", "why", "-v", "10-app.yaml"]);
    let why = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        why.contains("site/app-waits-for-database"),
        "{why} {output:?}"
    );
}

/// Asks the status server with a token; prints the code.
const ASK: &str = r"
import ssl, sys, urllib.error, urllib.request
trust = ssl._create_unverified_context()
asked = urllib.request.Request('https://127.0.0.1:9346/status', headers={'authorization': 'Bearer ' + sys.argv[1]})
try:
    print(urllib.request.urlopen(asked, context=trust).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError as error:
    print(error)
";

#[test]
fn one_token_for_a_rack_comes_with_the_documented_user_data() {
    if skipped() {
        return;
    }
    let docs = text("docs/outlets.md");
    let (_, recipe) = docs
        .split_once("**One token for a whole rack** comes with cloud-init:\n\n```yaml\n")
        .expect("the recipe");
    let (recipe, _) = recipe.split_once("```").expect("its end");
    let token = "0f7c5d1e9a3b4c6d8e0f1a2b3c4d5e6f";
    let machine = Builder::node()
        .user_data(&recipe.replace("0f7c…", token))
        .boot();
    machine.wait_unit("windrow.service", "active");
    let checked = machine.run(&["cloud-init", "schema", "--system"]);
    assert!(checked.status.success(), "{checked:?}");
    let ask = |token: &str| machine.ok(&["python3", "-c", ASK, token]).trim().to_owned();
    machine.wait_until("the status server answers who has the token", |_| {
        ask(token) == "200"
    });
    assert_eq!(ask("another"), "401");
    let mode = machine.sh("stat -c '%a %U' /etc/rancher/windrow/status-token");
    assert_eq!(mode.trim(), "600 root");
    let status = machine.ok(&["sh", "-c", "windrow status -o json || true"]);
    assert!(!status.contains(token), "the token is in the status");
    let status: Value = serde_json::from_str(&status).expect("a status");
    let events = status["webhooks"].as_array().expect("webhooks");
    assert_eq!(events.len(), 3, "{events:?}");
}

#[test]
fn the_combustion_script_installs_configures_and_enables_before_the_first_boot() {
    if skipped() {
        return;
    }
    let packages = tempfile::tempdir().expect("a directory");
    let built = Command::new(repository("packaging/build"))
        .args(["--fast", "--programs"])
        .arg(stripped(packages.path()))
        .arg("-o")
        .arg(packages.path())
        .arg("rpm")
        .output()
        .expect("packaging/build");
    assert!(built.status.success(), "{built:?}");
    let machine = Builder::rke2()
        .bind(packages.path().to_owned(), "/packages")
        .script("/run/combustion/script", &text("packaging/combustion/script"))
        .file(
            "/etc/systemd/system-preset/99-default-disable.preset",
            "disable *\n",
        )
        .file("/root/conf.d/20-site.yaml", "platform: harvester\n")
        .file(
            "/root/manifests/vm.yaml",
            "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: first, namespace: default}\n\
             spec: {runStrategy: Always, template: {spec: {domain: {devices: {}}}}}\n",
        )
        .boot();
    machine.wait_booted();
    // As combustion lays it out.
    machine.sh("mkdir -p /root/combustion && cp -a /packages/windrow-*.rpm /root/conf.d /root/manifests /root/combustion");
    machine.write(
        "/root/combustion/script",
        &text("packaging/combustion/script"),
    );
    // This machine's own packages are dpkg's; rpm does not know them.
    let said = machine.sh("WINDROW_RPM_OPTIONS=--nodeps sh /root/combustion/script");
    assert!(said.contains("windrow: windrow "), "{said}");
    assert_eq!(
        machine.ok(&["systemctl", "is-enabled", "windrow.service"]),
        "enabled"
    );
    // What the boot does.
    machine.ok(&[
        "systemctl",
        "start",
        "windrow.service",
        "rke2-server.service",
    ]);
    assert!(held(&machine, "vm.yaml").is_some());
    assert!(settings(&machine).contains("/etc/windrow/conf.d/20-site.yaml:1"));
    let mode = machine.sh("stat -c %a /etc/windrow/conf.d/20-site.yaml");
    assert_eq!(mode.trim(), "600");
    // Once more is no error, nor is a directory without a file of its kind; and no file is passed over without a word.
    machine.sh("cd /root/combustion && mkdir rules.d && touch rules.d/.gitkeep conf.d/30-site.yml");
    machine.write(
        "/root/combustion/manifests/map.yml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map, namespace: default}\n",
    );
    let said = machine.sh("WINDROW_RPM_OPTIONS=--nodeps sh /root/combustion/script");
    assert!(
        said.contains("FAILED: conf.d/30-site.yml is not read"),
        "{said}"
    );
    assert!(machine.exists("/var/lib/rancher/rke2/server/manifests/map.yml"));
}

/// A minimal yip: the files of the stage `initramfs`, and the units to enable, of one document. Its templates are not
/// rendered: ours have none.
const YIP: &str = r#"
import os, subprocess, sys, yaml
for path in sys.argv[1:]:
    for step in yaml.safe_load(open(path))['stages']['initramfs']:
        if 'if' in step and subprocess.call(['sh', '-c', step['if']]) != 0:
            print('not here:', step['name'])
            continue
        for file in step.get('files', []):
            os.makedirs(os.path.dirname(file['path']), exist_ok=True)
            with open(file['path'], 'w') as out:
                out.write(file['content'])
            os.chmod(file['path'], file['permissions'])
        for unit in step.get('systemctl', {}).get('enable', []):
            subprocess.check_call(['systemctl', 'enable', unit])
"#;

#[test]
fn the_files_for_oem_configure_a_harvester_node_and_leave_the_installer_alone() {
    if skipped() {
        return;
    }
    let baked = text("packaging/harvester/image/system/oem/92_windrow.yaml");
    let site = text("packaging/harvester/oem/93_windrow.yaml");
    for content in [&baked, &site] {
        assert!(
            !content.contains("{{") && !content.contains("}}"),
            "yip would render it"
        );
    }
    let machine = node()
        .disabled("windrow.service")
        .file("/system/oem/92_windrow.yaml", &baked)
        .file("/oem/93_windrow.yaml", &site)
        .boot();
    let yip = [
        "python3",
        "-c",
        YIP,
        "/system/oem/92_windrow.yaml",
        "/oem/93_windrow.yaml",
    ];
    let said = machine.ok(&yip);
    assert!(
        said.contains("not here"),
        "this machine's command line is no installed node's: {said}"
    );
    let enabled = |machine: &Machine| {
        let output = machine.run(&["systemctl", "is-enabled", "windrow.service"]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(enabled(&machine), "disabled");
    // An installed node's. Nothing clears /run while the machine still boots, as it does /tmp.
    machine
        .sh("echo root=LABEL=COS_STATE >/run/cmdline && mount --bind /run/cmdline /proc/cmdline");
    machine.ok(&yip);
    assert_eq!(enabled(&machine), "enabled");
    let settings = settings(&machine);
    assert!(
        settings.contains("/etc/rancher/windrow/conf.d/20-site.yaml:1"),
        "{settings}"
    );
    machine.ok(&["windrow", "config", "check"]);
    machine.ok(&["systemctl", "start", "windrow.service"]);
}

#[test]
fn everything_that_the_boot_script_names_is_served_and_a_configuration_that_cannot_work_is_not_laid_out()
 {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let files = place.path().join("files");
    std::fs::create_dir(&files).expect("a directory");
    for name in [
        "harvester-v1.7.0-vmlinuz-amd64",
        "harvester-v1.7.0-initrd-amd64",
        "harvester-v1.7.0-rootfs-amd64.squashfs",
    ] {
        std::fs::write(files.join(name), name).expect("a file");
    }
    let out = place.path().join("out");
    let lay_out = |nodes: &[String]| {
        Command::new(repository("packaging/pxe/lay-out"))
            .args(["--base", "http://127.0.0.1:8080", "--files"])
            .arg(&files)
            .arg("--out")
            .arg(&out)
            .args(nodes)
            .env("WINDROW", program())
            .output()
            .expect("packaging/pxe/lay-out")
    };
    let config = repository("packaging/harvester/install-config.yaml");
    let laid = lay_out(&[
        format!("52:54:00:AB:34:56={}", config.display()),
        format!("join={}", config.display()),
    ]);
    assert!(laid.status.success(), "{laid:?}");

    // Served and fetched as a node does, its address in iPXE's spelling.
    let machine = Builder::new().bind(out.clone(), "/srv/pxe").boot();
    machine.ok(&[
        "systemd-run",
        "--working-directory=/srv/pxe",
        "python3",
        "-m",
        "http.server",
        "8080",
        "--bind",
        "127.0.0.1",
    ]);
    const GET: &str = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())";
    let get = |path: &str| {
        let url = format!("http://127.0.0.1:8080/{path}");
        machine.run(&["python3", "-c", GET, &url])
    };
    machine.wait_until("the server answers", |_| get("boot.ipxe").status.success());
    let script = String::from_utf8_lossy(&get("boot.ipxe").stdout).into_owned();
    assert!(
        script.starts_with("#!ipxe\n") && !script.contains('@'),
        "{script}"
    );
    let named: Vec<String> = script
        .split([' ', '=', '\n', ':'])
        .filter_map(|word| word.strip_prefix("${base}/"))
        .map(|path| path.replace("${net0/mac", "52-54-00-ab-34-56.yaml"))
        .collect();
    assert!(named.len() >= 5, "{named:?}");
    for path in named {
        let answer = get(&path);
        assert!(
            answer.status.success() && !answer.stdout.is_empty(),
            "{path}: {answer:?}"
        );
    }

    // A chart may bring the kind: not known is no reason to lay nothing out.
    let chart = place.path().join("chart.yaml");
    std::fs::write(
        &chart,
        "schemeVersion: 1\nos:\n  writeFiles:\n    - path: /var/lib/rancher/rke2/server/manifests/a.yaml\n      content: |\n        \
         apiVersion: helm.cattle.io/v1\n        kind: HelmChart\n        metadata: {name: widgets, namespace: kube-system}\n        \
         spec: {chart: widgets, repo: https://charts.example, version: 1.0.0, targetNamespace: default}\n    \
         - path: /var/lib/rancher/rke2/server/manifests/b.yaml\n      content: |\n        apiVersion: example.com/v1\n        \
         kind: Widget\n        metadata: {name: w, namespace: default}\n",
    )
    .expect("a file");
    let unknown = lay_out(&[format!("join={}", chart.display())]);
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(unknown.status.success(), "{unknown:?}");
    assert!(said.contains("it is not known whether"), "{said}");

    let bad = place.path().join("bad.yaml");
    std::fs::write(
        &bad,
        "schemeVersion: 1\nos:\n  writeFiles:\n    - path: /var/lib/rancher/rke2/server/manifests/a.yaml\n      content: |\n        apiVersion: v1\n        kind: [\n",
    )
    .expect("a file");
    let refused = lay_out(&[format!("join={}", bad.display())]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
}
