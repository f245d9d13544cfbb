//! What programs on a node take while nothing happens: all at once, on one machine and beside one kube-apiserver, in the same minutes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use nix::unistd::gethostname;
use serde::Serialize;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::{interval, sleep};

use crate::bootstrap::Daemon;
use crate::requests;
use crate::sets::Set;
use crate::support::cluster::{AuditLog, Cluster, HelmVersion, Spec, Who};
use crate::support::objects;
use crate::trial::{Programs, harness, load};
use crate::usage;

/// Whatever a start brings is over by then.
const SETTLED: Duration = Duration::from_secs(180);
/// A file like this is held for good.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";
const EXPORTER: &str = "127.0.0.1:9109";
/// As Prometheus asks an exporter.
const SCRAPE: Duration = Duration::from_secs(15);
const MONIT: &str = "set daemon 30
set log /dev/null
check system node if loadavg (5min) > 4 for 10 cycles then exec \"/bin/true\"
check filesystem root with path / if space usage > 90% then exec \"/bin/true\"
check host kubelet with address 127.0.0.1 if failed port 10248 then exec \"/bin/true\"
";

/// A program at rest.
#[derive(Debug, Serialize)]
struct Rest {
    what: String,
    /// Megabytes: all that is resident, and of it what is its own.
    resident: f64,
    own: f64,
    /// Of all its threads, a minute.
    wake_ups: f64,
    /// To kube-apiserver, an hour.
    requests: f64,
    /// Seconds of a processor, an hour.
    processor: f64,
}

/// A program that is looked at.
struct Agent {
    what: &'static str,
    pid: u32,
    /// How its user agent begins, where it asks kube-apiserver.
    program: Option<&'static str>,
}

/// Starts all of them, waits until they rest, and prints what they take in some minutes.
pub(crate) async fn measure(programs: &Programs, minutes: u32) {
    let scratch = tempfile::tempdir().unwrap();
    let spec = Spec {
        controller_manager: true,
        audit: AuditLog::Everything,
        ..Spec::default()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    let log = cluster.audit_log();
    let client = harness(&cluster).await;
    let node = gethostname().unwrap().into_string().unwrap();
    let healthy = json!({"metadata": {"name": node}, "status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
    objects::make(&client, objects::NODE, "", healthy).await;
    let kubelet = tokio::spawn(kubelet());

    let config = cluster.kubeconfig(Who::Admin);
    let root = scratch.path().join("root");
    let manifests = root.join("var/lib/rancher/rke2/server/manifests");
    fs::create_dir_all(&manifests).unwrap();
    for number in 0..200 {
        fs::write(manifests.join(format!("{number:03}.yaml")), WIDGET).unwrap();
    }
    let windrow = Daemon::start(&programs.daemon(), &root, &config).await;
    let mut agents = vec![Agent {
        what: "Windrow, 200 files held",
        pid: windrow.child.id(),
        program: Some("windrowd"),
    }];

    let applied = scratch.path().join("applied");
    fs::create_dir_all(&applied).unwrap();
    Set::named("small-files").write(&applied);
    let Some(controller) = cluster.deploy(&applied) else {
        return;
    };
    agents.push(Agent {
        what: "RKE2's deploy controller, 200 files applied",
        pid: controller.pid(),
        program: Some("deploy-controller"),
    });
    let helm = cluster.helm_controller(HelmVersion::V0_17);
    if let Some(helm) = &helm {
        agents.push(Agent {
            what: "helm-controller 0.17, no chart",
            pid: helm.pid(),
            program: Some("helm-controller"),
        });
    }
    let flux = flux(programs, &client, &config).await;
    if let Some(pid) = flux.as_ref().and_then(Child::id) {
        agents.push(Agent {
            what: "Flux's kustomize-controller, no Kustomization",
            pid,
            program: Some("kustomize-controller"),
        });
    }
    let exporter = other(
        "prometheus-node-exporter",
        &[&format!("--web.listen-address={EXPORTER}")],
    );
    let scraping = tokio::spawn(scrape());
    if let Some(pid) = exporter.as_ref().and_then(Child::id) {
        agents.push(Agent {
            what: "prometheus-node-exporter, asked every 15 s",
            pid,
            program: None,
        });
    }
    let control = scratch.path().join("monitrc");
    let id = scratch.path().join("monit.id");
    fs::write(&control, format!("set idfile {}\n{MONIT}", id.display())).unwrap();
    fs::set_permissions(&control, fs::Permissions::from_mode(0o600)).unwrap();
    let monit = monit(scratch.path(), &control);
    if let Some(pid) = monit.as_ref().and_then(Child::id) {
        agents.push(Agent {
            what: "monit, three checks every 30 s",
            pid,
            program: None,
        });
    }

    sleep(SETTLED).await;
    let (began, minutes) = (Timestamp::now(), f64::from(minutes));
    let before: Vec<(f64, f64)> = agents.iter().map(|agent| counts(agent.pid)).collect();
    sleep(Duration::from_secs_f64(minutes * 60.0)).await;
    let asked = requests::since(&log, began);
    let rests: Vec<Rest> = agents
        .iter()
        .zip(before)
        .map(|(agent, (wakes, processor))| {
            let (wakes_now, processor_now) = counts(agent.pid);
            let own = asked
                .iter()
                .filter(|one| Some(one.program.as_str()) == agent.program);
            #[expect(clippy::cast_precision_loss, reason = "nowhere near 2^52")]
            let requests = own.count() as f64;
            Rest {
                what: agent.what.to_owned(),
                resident: usage::status(agent.pid, "VmRSS") / 1000.0,
                own: usage::status(agent.pid, "RssAnon") / 1000.0,
                wake_ups: (wakes_now - wakes) / minutes,
                requests: requests * 60.0 / minutes,
                processor: (processor_now - processor) * 60.0 / minutes,
            }
        })
        .collect();
    let place = programs.said.join("rest.json");
    fs::write(place, serde_json::to_string_pretty(&rests).unwrap()).unwrap();
    print(&rests, minutes);
    scraping.abort();
    kubelet.abort();
}

fn print(rests: &[Rest], minutes: f64) {
    println!("\n### At rest: {minutes} minutes, load {}\n", load());
    println!(
        "| | resident | of these its own | wake-ups a minute | requests an hour | processor an hour |"
    );
    println!("|---|---|---|---|---|---|");
    for rest in rests {
        println!(
            "| {} | {:.1} MB | {:.1} MB | {:.0} | {:.0} | {:.1} s |",
            rest.what, rest.resident, rest.own, rest.wake_ups, rest.requests, rest.processor
        );
    }
}

/// Wake-ups and seconds of a processor until now.
fn counts(pid: u32) -> (f64, f64) {
    (usage::wake_ups(pid), usage::processor(pid))
}

/// kustomize-controller with the kinds that it watches, and nothing of them.
async fn flux(programs: &Programs, client: &kube::Client, config: &Path) -> Option<Child> {
    const SOURCE: &str = "source.toolkit.fluxcd.io";
    let kinds = [
        ("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"),
        (SOURCE, "v1", "GitRepository"),
        (SOURCE, "v1", "OCIRepository"),
        (SOURCE, "v1", "Bucket"),
        (SOURCE, "v1", "ExternalArtifact"),
    ];
    for kind in kinds {
        objects::serve(client, kind, "Namespaced").await;
    }
    let log = fs::File::create(programs.said.join("kustomize-controller.log")).unwrap();
    Command::new(programs.peers.join("kustomize-controller"))
        .args([
            "--metrics-addr=0",
            "--health-addr=127.0.0.1:0",
            "--events-addr=",
        ])
        .env("KUBECONFIG", config)
        .env("RUNTIME_NAMESPACE", "default")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .inspect_err(|_| eprintln!("not looked at: kustomize-controller is not built"))
        .ok()
}

/// A program of the system's, where it is installed.
fn other(program: &str, arguments: &[&str]) -> Option<Child> {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .inspect_err(|_| eprintln!("not looked at: {program} is not installed"))
        .ok()
}

fn monit(work: &Path, control: &Path) -> Option<Child> {
    let file = |name: &str| work.join(name).display().to_string();
    let control = control.display().to_string();
    let (pid, state) = (file("monit.pid"), file("monit.state"));
    other("monit", &["-I", "-c", &control, "-p", &pid, "-s", &state])
}

/// Asks the exporter, as Prometheus does.
async fn scrape() {
    let mut beat = interval(SCRAPE);
    loop {
        beat.tick().await;
        let Ok(mut stream) = TcpStream::connect(EXPORTER).await else {
            continue;
        };
        let request = b"GET /metrics HTTP/1.0\r\n\r\n";
        let mut answer = Vec::new();
        if stream.write_all(request).await.is_ok() {
            let _ = stream.read_to_end(&mut answer).await;
        }
    }
}

/// The kubelet says that it is well. Where its port is taken, somebody else does.
async fn kubelet() {
    let Ok(listener) = TcpListener::bind("127.0.0.1:10248").await else {
        return;
    };
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut request = [0; 1024];
            while let Ok(1..) = stream.read(&mut request).await {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                if stream.write_all(answer).await.is_err() {
                    break;
                }
            }
        });
    }
}
