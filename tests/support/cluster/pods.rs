//! The kubelet of the only node, as far as pods of one namespace need it: a pod whose program is built here runs as a process of this
//! machine, with the arguments, variables, Secrets and service account of its pod. Any other pod only has a status that says that it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::super::objects::{POD, SECRET, SERVICE_ACCOUNT, api};
use super::Cluster;
use super::process::Process;
use super::tunnel::{loopback_address, pod_address};

/// Mounts the files of a pod below `/var` and `/etc`, as the kubelet does. The mounts end with the process.
const CONTAINER: &str = r#"
files=$1
shift
mount -t tmpfs var /var
mount -t tmpfs etc /etc
cp -r "$files/." /
exec "$@"
"#;
const SERVICE_ACCOUNT_FILES: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The pods of one namespace.
pub(super) struct Pods {
    namespace: &'static str,
    pods: Api<DynamicObject>,
    secrets: Api<DynamicObject>,
    accounts: Api<DynamicObject>,
    dir: PathBuf,
    ca: PathBuf,
    port: u16,
    /// The programs that are built, by the first word of a command.
    programs: BTreeMap<&'static str, PathBuf>,
    /// The commands that may run; of a container that has none its name. The image of the others is still being pulled.
    pulled: BTreeSet<&'static str>,
    /// Every pod that was started, by its UID.
    started: BTreeMap<String, Started>,
}

struct Started {
    number: u8,
    /// The program, if it is built.
    process: Option<Process>,
}

impl Pods {
    pub(super) fn new(
        cluster: &Cluster,
        client: &Client,
        namespace: &'static str,
        programs: BTreeMap<&'static str, PathBuf>,
    ) -> Self {
        Self {
            namespace,
            pods: api(client, POD, namespace),
            secrets: api(client, SECRET, namespace),
            accounts: api(client, SERVICE_ACCOUNT, namespace),
            dir: cluster.dir().to_owned(),
            ca: cluster.pki.ca(),
            port: cluster.port,
            programs,
            pulled: BTreeSet::new(),
            started: BTreeMap::new(),
        }
    }

    /// Pods with this command may run from now on.
    pub(super) fn pull(&mut self, command: &'static str) {
        self.pulled.insert(command);
    }

    /// Lets the kubelet act once.
    pub(super) async fn play(&mut self) {
        let pods = self.pods.list(&ListParams::default()).await.unwrap();
        for pod in pods.items {
            self.play_pod(pod).await;
        }
    }

    pub(super) fn print_logs(&self) {
        let started = self.started.values();
        for process in started.filter_map(|pod| pod.process.as_ref()) {
            process.print_log();
        }
    }

    async fn play_pod(&mut self, pod: DynamicObject) {
        let (uid, name) = (pod.metadata.uid.unwrap(), pod.metadata.name.unwrap());
        if pod.metadata.deletion_timestamp.is_some() {
            self.started.remove(&uid);
            // It may be gone meanwhile.
            let at_once = DeleteParams::default().grace_period(0);
            let _ = self.pods.delete(&name, &at_once).await;
            return;
        }
        let (spec, phase) = (&pod.data["spec"], &pod.data["status"]["phase"]);
        if spec["nodeName"].is_null() || phase == "Succeeded" || phase == "Failed" {
            return;
        }
        let container = &spec["containers"][0];
        // What a Job's pod does is another command.
        let mut command = texts(&container["command"]).join(" ");
        if command.is_empty() {
            container["name"].as_str().unwrap().clone_into(&mut command);
        }
        if !self.pulled.contains(command.as_str()) {
            return;
        }
        if !self.started.contains_key(&uid) {
            let number = u8::try_from(self.started.len() + 1).unwrap();
            let process = self.start(&name, spec, number).await;
            self.started
                .insert(uid.clone(), Started { number, process });
        }
        let Started { number, process } = &self.started[&uid];
        let ended = process.as_ref().and_then(Process::exit);
        let phase = match ended {
            // What a Job of a chart does is not done here.
            None if process.is_none() && spec["restartPolicy"] != "Always" => "Succeeded",
            None => "Running",
            Some(true) => "Succeeded",
            Some(false) => panic!("{name} has ended:\n{}", process.as_ref().unwrap().log()),
        };
        let is_ready = match (process, container["ports"][0]["containerPort"].as_u64()) {
            (Some(_), Some(port)) => {
                let address = loopback_address(self.port, *number);
                answers(address, u16::try_from(port).unwrap()).await
            }
            _ => phase == "Running",
        };
        let now_ready = json!(if is_ready { "True" } else { "False" });
        let conditions = pod.data["status"]["conditions"].as_array();
        let ready = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
        if *phase == pod.data["status"]["phase"]
            && ready.is_some_and(|was| was["status"] == now_ready)
        {
            return;
        }
        let address = pod_address(*number);
        let state = match ended {
            None => json!({"running": {}}),
            Some(_) => json!({"terminated": {"exitCode": 0}}),
        };
        let containers = spec["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|container| {
                json!({"name": container["name"], "image": "", "imageID": "", "restartCount": 0,
                "ready": is_ready, "state": state})
            });
        let status = json!({"phase": phase, "podIP": address, "podIPs": [{"ip": address}],
            "containerStatuses": containers.collect::<Vec<_>>(),
            "conditions": [{"type": "Ready", "status": now_ready}]});
        let patch = Patch::Merge(json!({"status": status}));
        // It may be gone meanwhile.
        let _ = self
            .pods
            .patch_status(&name, &PatchParams::default(), &patch)
            .await;
    }

    /// Starts the program of a pod; `None` if it is not built.
    async fn start(&self, name: &str, spec: &Value, number: u8) -> Option<Process> {
        let container = &spec["containers"][0];
        let mut command = texts(&container["command"]).into_iter();
        let program = self.programs.get(command.next()?.as_str())?;
        let files = self.dir.join(format!("{name}.files"));
        self.mount_account(&files, spec["serviceAccountName"].as_str().unwrap())
            .await;
        self.mount_secrets(&files, spec).await;
        let script = ["--mount", "sh", "-ec", CONTAINER, "sh"];
        let mut arguments = script.map(str::to_owned).to_vec();
        arguments.extend([&files, program].map(|path| path.display().to_string()));
        arguments.extend(command.chain(texts(&container["args"])));
        let address = loopback_address(self.port, number);
        arguments.push(format!("--listen={address}"));
        let (port, dir) = (self.port.to_string(), self.dir.display().to_string());
        let mut environment = vec![
            ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
            ("KUBERNETES_SERVICE_PORT", &port),
            ("TMPDIR", &dir),
        ];
        let variables = container["env"].as_array().into_iter().flatten();
        environment.extend(variables.filter_map(|variable| {
            Some((variable["name"].as_str()?, variable["value"].as_str()?))
        }));
        let unshare = Path::new("unshare");
        Some(Process::start(
            name,
            unshare,
            &arguments,
            &self.dir,
            &environment,
        ))
    }

    async fn mount_account(&self, files: &Path, account: &str) {
        let request =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let once = PostParams::default();
        let token = self
            .accounts
            .create_subresource::<Value, Value>("token", account, &once, &request);
        let token = token.await.unwrap()["status"]["token"].clone();
        let ca = fs::read(&self.ca).unwrap();
        let content: [(&str, &[u8]); 3] = [
            ("token", token.as_str().unwrap().as_bytes()),
            ("ca.crt", &ca),
            ("namespace", self.namespace.as_bytes()),
        ];
        for (file, bytes) in content {
            write(files, &format!("{SERVICE_ACCOUNT_FILES}/{file}"), bytes);
        }
    }

    async fn mount_secrets(&self, files: &Path, spec: &Value) {
        for volume in spec["volumes"].as_array().into_iter().flatten() {
            let Some(name) = volume["secret"]["secretName"].as_str() else {
                continue;
            };
            // The ones here are optional.
            let Some(secret) = self.secrets.get_opt(name).await.unwrap() else {
                continue;
            };
            let mounts = spec["containers"][0]["volumeMounts"].as_array();
            let mut mounts = mounts.into_iter().flatten();
            let Some(mount) = mounts.find(|mount| mount["name"] == volume["name"]) else {
                continue;
            };
            let path = mount["mountPath"].as_str().unwrap();
            for (file, content) in secret.data["data"].as_object().into_iter().flatten() {
                let bytes = BASE64_STANDARD.decode(content.as_str().unwrap()).unwrap();
                write(files, &format!("{path}/{file}"), &bytes);
            }
        }
    }
}

/// Does a program listen there?
async fn answers(address: Ipv4Addr, port: u16) -> bool {
    TcpStream::connect((address, port)).await.is_ok()
}

/// Writes a file of a pod, which is below `/etc` or `/var`.
fn write(files: &Path, path: &str, content: &[u8]) {
    assert!(
        path.starts_with("/etc/") || path.starts_with("/var/"),
        "{path}"
    );
    let path = files.join(path.trim_start_matches('/'));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}
