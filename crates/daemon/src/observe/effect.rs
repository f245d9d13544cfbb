//! Observes which feature gates are in effect: from the reports of the components on this node, and from their logs if
//! they do not start.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use nix::time::{ClockId, clock_gettime};
use sysinfo::System;
use windrow_gates::{
    Component, ComponentRefusal, ObservedGates, last_refusal, metrics, pod_arguments, pod_flag,
};

use super::pod_logs;
use crate::apiserver::{self, ApiServer, Reply, RequestFailure};
use crate::files::read_text;
use crate::fs;
use crate::layout::Layout;

const ANSWER: Duration = Duration::from_secs(10);
/// The longest answer, in bytes. The metrics of a large cluster's kube-apiserver have tens of MB.
const LONGEST: usize = 128 << 20;
/// How many of the newest logs are read: the container's last two starts, and those of the pod before.
const LOGS: usize = 4;

/// A component's own HTTPS port on the loopback interface; `None` when the kubeconfig has its address.
fn port(component: Component) -> Option<u16> {
    match component {
        Component::KubeApiserver => None,
        Component::KubeControllerManager => Some(10257),
        Component::KubeScheduler => Some(10259),
        Component::Kubelet => Some(10250),
        Component::KubeProxy => None,
    }
}

/// A client with the kubeconfig's current credential: RKE2 writes another one at every start.
///
/// # Errors
///
/// In a line, when no credential can be used.
pub async fn client(api: &ApiServer, path: &Path, component: Component) -> Result<Client, String> {
    match port(component) {
        None => api.client(path).await,
        Some(port) => api.on_loopback(path, port).await,
    }
}

/// Whether kube-apiserver reports that it is ready.
///
/// # Errors
///
/// In a line, its other status, or why it does not answer.
pub async fn ready(client: &Client) -> Result<(), String> {
    let answer = get(client, "/readyz").await;
    answer.map(drop).map_err(|failure| failure.to_string())
}

/// A component's report of its gates.
///
/// # Errors
///
/// In a line, when it refuses or does not answer.
pub async fn observed(client: &Client) -> Result<ObservedGates, String> {
    let metrics = observed_process(client).await;
    metrics.map_or_else(|unseen| Err(unseen.why), |process| Ok(process.gates))
}

#[derive(Debug, Clone, PartialEq)]
pub struct ObservedProcess {
    pub gates: ObservedGates,
    /// The process's age, by a clock that is never set; `None` if the clock was set during the look.
    pub age: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unobserved {
    /// In a line.
    pub why: String,
    /// Nothing answers on its port.
    pub is_silent: bool,
}

/// A component's report of its gates, and the age of its process.
///
/// # Errors
///
/// When it refuses or does not answer.
pub async fn observed_process(client: &Client) -> Result<ObservedProcess, Unobserved> {
    let booted = System::boot_time();
    let text = get(client, "/metrics").await;
    let text = text.map_err(|failure| Unobserved {
        is_silent: failure.is_unanswered(),
        why: failure.to_string(),
    })?;
    let gates = metrics(&text);
    let is_steady = System::boot_time() == booted;
    let started = gates.started_after_boot(booted).filter(|_| is_steady);
    let up = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from);
    let age = started.zip(up.ok());
    Ok(ObservedProcess {
        gates,
        age: age.map(|(started, up)| up.saturating_sub(started)),
    })
}

async fn get(client: &Client, path: &str) -> Result<String, RequestFailure> {
    let reply = apiserver::get(client, path, ANSWER, LONGEST).await;
    let reply = reply.and_then(Reply::granted)?;
    Ok(String::from_utf8_lossy(&reply.body).into_owned())
}

/// The gates in the arguments of a component's static pod; `None` when there is no such manifest.
pub fn pod(layout: &Layout, component: Component) -> Option<BTreeMap<String, bool>> {
    pod_arguments(component, &pod_manifest(layout, component)?)
}

fn pod_manifest_path(layout: &Layout, component: Component) -> PathBuf {
    let directory = layout.data_dir().join("agent/pod-manifests");
    directory.join(format!("{component}.yaml"))
}

fn pod_manifest(layout: &Layout, component: Component) -> Option<String> {
    read_text(&pod_manifest_path(layout, component)).ok()
}

/// How long ago the manifest of a component's static pod was written, as far as the wall clock tells; `None` without a manifest.
pub fn manifest_age(layout: &Layout, component: Component) -> Option<Duration> {
    let found = fs::metadata(pod_manifest_path(layout, component)).ok()?;
    let written = found.modified().ok()?;
    // A clock that was set back says nothing.
    Some(written.elapsed().unwrap_or(Duration::MAX))
}

/// The address on which a component listens, if its static pod names another one than Windrow asks.
pub fn elsewhere(layout: &Layout, component: Component) -> Option<String> {
    let port = port(component)?.to_string();
    let manifest = pod_manifest(layout, component)?;
    let flag = |name: &str| pod_flag(component, &manifest, name);
    let address = flag("bind-address").filter(|address| address != "127.0.0.1");
    let other_port = flag("secure-port").filter(|other| *other != port);
    if address.is_none() && other_port.is_none() {
        return None;
    }
    let address = address.unwrap_or_else(|| "127.0.0.1".to_owned());
    let port = other_port.unwrap_or(port);
    Some(format!("{address}, port {port}"))
}

/// The message of a component that has accepted its gates, before any client can write to its log
/// (`pkg/server/secure_serving.go` of k8s.io/apiserver).
const SERVES: &str = "Serving securely on ";

/// The last message of a component that did not start because of its gates, at `since` or later, and the file with it.
pub fn refusal(
    layout: &Layout,
    component: Component,
    since: Option<Timestamp>,
) -> Option<(ComponentRefusal, PathBuf)> {
    let from = since.map_or(Bound::Unbounded, Bound::Included);
    let said = (
        from,
        latest(since).map_or(Bound::Unbounded, Bound::Included),
    );
    logs(layout, component, since).into_iter().find_map(|path| {
        let log = match component {
            Component::Kubelet => pod_logs::tail(&path),
            _ => pod_logs::whole(&path).filter(|log| !log.contains(SERVES)),
        };
        Some((last_refusal(&log?, said)?, path))
    })
}

/// The latest time of a line that counts. A line with a later time than now was written before the clock was set back,
/// maybe by an earlier start. It counts only if `since` is of that clock too.
fn latest(since: Option<Timestamp>) -> Option<Timestamp> {
    let now = Timestamp::now();
    (since <= Some(now)).then_some(now)
}

/// A component's logs that were written to at `since` or later, the newest first.
fn logs(layout: &Layout, component: Component, since: Option<Timestamp>) -> Vec<PathBuf> {
    if component == Component::Kubelet {
        // Its lines have neither year nor zone: the file's own time has.
        let log = layout.data_dir().join("agent/logs/kubelet.log");
        let written = fs::metadata(&log).and_then(|found| found.modified());
        let written = written.ok().and_then(|at| Timestamp::try_from(at).ok());
        let is_recent = written >= since && latest(since).is_none_or(|last| written <= Some(last));
        return Vec::from_iter(is_recent.then_some(log));
    }
    let pods = format!("kube-system_{component}-");
    let mut found = pod_logs::logs(layout, &pods, component.as_str());
    found.truncate(LOGS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn kube_apiserver_is_ready_when_it_says_so_with_200() {
        for (status, is_ready) in [(200, true), (500, false), (401, false)] {
            let serve = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
                let body = kube::client::Body::from(b"ok".to_vec());
                let response = http::Response::builder().status(status).body(body).unwrap();
                Ok::<_, std::convert::Infallible>(response)
            });
            let client = Client::new(serve, "default");
            assert_eq!(ready(&client).await.is_ok(), is_ready, "{status}");
        }
    }

    #[test]
    fn a_component_is_asked_on_its_own_port_but_where_the_kubeconfig_leads_to_it() {
        for (component, expected) in [
            (Component::KubeApiserver, None),
            (Component::KubeControllerManager, Some(10257)),
            (Component::KubeScheduler, Some(10259)),
            (Component::Kubelet, Some(10250)),
        ] {
            assert_eq!(port(component), expected, "{component:?}");
        }
    }

    #[test]
    fn a_component_that_listens_elsewhere_is_known_by_its_static_pod() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let component = Component::KubeScheduler;
        let pods = layout.data_dir().join("agent/pod-manifests");
        fs::create_dir_all(&pods).unwrap();
        for (arguments, expected) in [
            ("--bind-address=127.0.0.1, --secure-port=10259", None),
            ("--v=2", None),
            ("--bind-address=::1", Some("::1, port 10259")),
            ("--secure-port=1", Some("127.0.0.1, port 1")),
        ] {
            let command = format!("[kube-scheduler, {arguments}]");
            let text =
                format!("spec: {{containers: [{{name: kube-scheduler, command: {command}}}]}}\n");
            fs::write(pods.join("kube-scheduler.yaml"), text).unwrap();
            let found = elsewhere(&layout, component);
            assert_eq!(found.as_deref(), expected, "{arguments}");
        }
    }

    #[tokio::test]
    async fn a_process_is_as_old_as_it_is_whatever_the_wall_clock_says() {
        let second = Duration::from_secs(1);
        let up = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap());
        let since_boot = up.as_secs_f64() / 2.0;
        let serve = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
            // As the components do it: `btime` as it is now, and the ticks since the boot.
            let booted = f64::from(u32::try_from(System::boot_time()).unwrap());
            let text = format!("process_start_time_seconds {}\n", booted + since_boot);
            let body = kube::client::Body::from(text.into_bytes());
            Ok::<_, std::convert::Infallible>(http::Response::new(body))
        });
        let client = Client::new(serve, "default");
        let age = observed_process(&client).await.unwrap().age.unwrap();
        assert!(age + second > up / 2, "{age:?} of {up:?}");
    }

    #[test]
    fn the_newest_log_of_the_component_that_says_why_is_found() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let pods = root.path().join("var/log/pods");
        let write = |path: &str, text: &str| {
            let path = pods.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let said = |gate: &str| {
            format!("2026-11-21T20:00:00Z stderr F Error: unrecognized feature gate: {gate}\n")
        };
        let component = Component::KubeApiserver;
        assert_eq!(refusal(&layout, component, None), None);
        write("kube-system_etcd-n1_1/etcd/0.log", &said("NotOurs"));
        write(
            "kube-system_kube-apiserver-n1_1/kube-apiserver/0.log",
            &said("One"),
        );
        write(
            "kube-system_kube-apiserver-n1_1/kube-apiserver/1.log.gz",
            &said("Two"),
        );
        let (found, path) = refusal(&layout, component, None).unwrap();
        assert_eq!(found.gates, ["One"]);
        assert!(path.ends_with("kube-apiserver/0.log"));
        let later = "2026-11-21T20:00:01Z".parse().ok();
        assert_eq!(refusal(&layout, component, later), None);
    }

    #[test]
    fn a_log_of_a_component_that_has_served_has_no_refusal_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let component = Component::KubeApiserver;
        let logs = root
            .path()
            .join("var/log/pods/kube-system_kube-apiserver-n1_1/kube-apiserver");
        fs::create_dir_all(&logs).unwrap();
        let line = |text: &str| format!("2026-11-21T20:00:00Z stderr F {text}\n");
        let refused = line("Error: unrecognized feature gate: One");
        let served =
            line("I1121 20:00:00.1 1 secure_serving.go:211] Serving securely on [::]:6443");
        let long = line("I1121 20:00:00.1 1 a.go:1] more").repeat(10_000);
        for (log, counts) in [
            (refused.clone(), true),
            (served + &refused, false),
            (long + &refused, false),
        ] {
            fs::write(logs.join("0.log"), log).unwrap();
            assert_eq!(refusal(&layout, component, None).is_some(), counts);
        }
        // The kubelet has set the log of a process aside that runs.
        fs::write(logs.join("0.log"), &refused).unwrap();
        fs::write(logs.join("0.log.20261121-200000"), "").unwrap();
        assert_eq!(refusal(&layout, component, None), None);
    }

    #[test]
    fn the_kubelets_log_counts_where_it_was_written_to_since() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let component = Component::Kubelet;
        assert_eq!(refusal(&layout, component, None), None);
        let logs = layout.data_dir().join("agent/logs");
        fs::create_dir_all(&logs).unwrap();
        let line = "E1121 20:00:00.1 9 run.go:72] \"command failed\" err=\"failed to set feature gates from initial flags-based config: unrecognized feature gate: X\"\n";
        fs::write(logs.join("kubelet.log"), line).unwrap();
        let at = |second| Timestamp::from_second(second).ok();
        let log = fs::File::options()
            .append(true)
            .open(logs.join("kubelet.log"))
            .unwrap();
        log.set_modified(at(1000).unwrap().into()).unwrap();
        assert!(refusal(&layout, component, at(999)).is_some());
        assert_eq!(refusal(&layout, component, at(1001)), None);
    }

    #[test]
    fn the_gates_of_a_static_pod_are_those_of_its_own_manifest() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let component = Component::KubeScheduler;
        assert_eq!(pod(&layout, component), None);
        let pods = layout.data_dir().join("agent/pod-manifests");
        fs::create_dir_all(&pods).unwrap();
        for (name, gates) in [
            ("kube-apiserver", "One=true"),
            ("kube-scheduler", "Two=false"),
        ] {
            let command = format!("[{name}, --feature-gates={gates}]");
            let text = format!("spec: {{containers: [{{name: {name}, command: {command}}}]}}\n");
            fs::write(pods.join(format!("{name}.yaml")), text).unwrap();
        }
        let gates = BTreeMap::from([("Two".to_owned(), false)]);
        assert_eq!(pod(&layout, component), Some(gates));
    }
}
