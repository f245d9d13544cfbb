//! A kube-apiserver for tests, on loopback: it serves a few kinds well, and answers badly where a test asks for that.
//!
//! Plain HTTP/1.1, a connection per request, a thread per connection. A watch is silent until
//! something changes here, and then ends: the client lists again.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A special answer.
#[derive(Clone)]
pub(crate) enum Answer {
    /// A Status with this code, reason and message, as in kube-apiserver's refusals.
    Refuse(u16, &'static str, &'static str),
    /// 200, and this as the body.
    Body(String),
    /// 200 and a length, but the connection ends before all of it was sent.
    Cut,
    /// None, while this answer is set.
    Hang,
    /// A watch that is opened, sends this, and stays open.
    Says(String),
    /// A watch that is opened, and ends in the middle of a chunk after this.
    Breaks(String),
}

#[derive(Default)]
struct State {
    faults: Vec<(String, Answer)>,
    objects: BTreeMap<String, Value>,
    /// Objects of any kind by their path, which may be written.
    kept: BTreeMap<String, Value>,
    token: Option<String>,
    asked: Vec<String>,
    /// Rises with every change.
    version: u64,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The server. It ends, with every connection, when this is dropped.
pub(crate) struct ApiServer {
    shared: Arc<Shared>,
    port: u16,
    listener: Option<JoinHandle<()>>,
}

impl ApiServer {
    pub(crate) fn start() -> Self {
        Self::on(0)
    }

    /// On a port that an earlier server had.
    pub(crate) fn on(port: u16) -> Self {
        let listener = bind(port);
        let shared = Arc::new(Shared::default());
        let port = listener.local_addr().unwrap().port();
        let ours = shared.clone();
        let thread = std::thread::spawn(move || {
            for connection in listener.incoming() {
                let shared = ours.clone();
                if shared.lock().closed {
                    return;
                }
                // A client that goes away in the middle is no error here.
                std::thread::spawn(move || connection.and_then(|stream| shared.serve(stream)));
            }
        });
        Self {
            shared,
            port,
            listener: Some(thread),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A kubeconfig for this server.
    pub(crate) fn kubeconfig(&self, token: &str) -> String {
        format!(
            "apiVersion: v1
kind: Config
current-context: default
clusters: [{{name: default, cluster: {{server: 'http://127.0.0.1:{}'}}}}]
contexts: [{{name: default, context: {{cluster: default, user: default}}}}]
users: [{{name: default, user: {{token: {token}}}}}]
",
            self.port
        )
    }

    /// Requests whose address contains each of these words get this answer from now on. Open watches end.
    pub(crate) fn fault(&self, words: &str, answer: Answer) {
        self.change(|state| state.faults.push((words.to_owned(), answer)));
    }

    /// Every request gets a good answer from now on.
    pub(crate) fn heal(&self) {
        self.change(|state| state.faults.clear());
    }

    /// The object exists from now on: `resource` is `configmaps` or `deployments`.
    pub(crate) fn put(&self, resource: &str, name: &str, mut object: Value) {
        object["metadata"] = json!({"name": name, "namespace": "default", "generation": 1,
            "resourceVersion": "1"});
        self.change(|state| {
            state.objects.insert(format!("{resource}/{name}"), object);
        });
    }

    /// The object exists at this path from now on. Who asks for it or its list gets it, and who writes it changes it.
    pub(crate) fn keep(&self, path: &str, object: Value) {
        self.change(|state| drop(state.kept.insert(path.to_owned(), object)));
    }

    /// From now on only requests with this token are answered.
    pub(crate) fn only(&self, token: &str) {
        self.change(|state| state.token = Some(token.to_owned()));
    }

    /// How many requests had an address that contains each of these words?
    pub(crate) fn asked(&self, words: &str) -> usize {
        let state = self.shared.lock();
        state
            .asked
            .iter()
            .filter(|address| contains(address, words))
            .count()
    }

    fn change(&self, how: impl FnOnce(&mut State)) {
        let mut state = self.shared.lock();
        how(&mut state);
        state.version += 1;
        self.shared.changed.notify_all();
    }
}

/// Another connection may still have an earlier server's port.
fn bind(port: u16) -> TcpListener {
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        match TcpListener::bind(("127.0.0.1", port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            bound => return bound.unwrap(),
        }
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.change(|state| state.closed = true);
        // One more connection, for the listener to see it.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Waits until something changes here.
    fn wait(&self, version: u64) {
        let state = self.lock();
        let unchanged = |state: &mut State| state.version == version;
        drop(self.changed.wait_while(state, unchanged).unwrap());
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let (mut method, mut address) = (String::new(), String::new());
        let (mut token, mut length) = (String::new(), 0);
        let mut reader = BufReader::new(stream.try_clone()?);
        for line in reader.by_ref().lines() {
            let line = line?;
            if line.is_empty() {
                break;
            }
            if address.is_empty() {
                let mut words = line.split(' ');
                words.next().unwrap_or_default().clone_into(&mut method);
                let path = words.next().unwrap_or_default();
                address = path.replace("%3D", "=").replace("%2C", ",") + "&";
            }
            match line.split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                    value.trim_start_matches("Bearer ").clone_into(&mut token);
                }
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().unwrap_or_default();
                }
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let (answer, version) = {
            let mut state = self.lock();
            state.asked.push(address.clone());
            let fault = state
                .faults
                .iter()
                .find(|(words, _)| contains(&address, words));
            let answer = match (&state.token, fault) {
                (Some(wanted), _) if *wanted != token => {
                    Answer::Refuse(401, "Unauthorized", "Unauthorized")
                }
                (_, Some((_, answer))) => answer.clone(),
                (_, None) if method != "GET" => state.write(&method, &address, &body),
                (_, None) => state.well(&address),
            };
            (answer, version_of(&address).unwrap_or(state.version))
        };
        match answer {
            Answer::Refuse(code, reason, message) => {
                let body = status(code, reason, message).to_string();
                whole(&mut stream, code, body.len(), &body)
            }
            Answer::Body(body) => whole(&mut stream, 200, body.len(), &body),
            Answer::Cut => whole(&mut stream, 200, 1000, "{\"kind\": \"ConfigMapList\", "),
            Answer::Hang => {
                self.wait(version);
                Ok(())
            }
            Answer::Says(text) => {
                open(&mut stream, &text)?;
                self.wait(version);
                stream.write_all(b"0\r\n\r\n")
            }
            Answer::Breaks(text) => {
                open(&mut stream, &text)?;
                stream.write_all(b"ff\r\n{\"type\":\"MODIF")
            }
        }
    }
}

impl State {
    /// What a good server does with an object that it is sent.
    fn write(&mut self, method: &str, address: &str, body: &[u8]) -> Answer {
        let path = address.split(['?', '&']).next().unwrap_or_default();
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        let name = sent["metadata"]["name"].as_str().unwrap_or_default();
        let (path, mut written) = match method {
            "POST" => (format!("{path}/{name}"), sent),
            "PUT" => (path.to_owned(), sent),
            _ => match self.kept.get(path) {
                Some(found) => (path.to_owned(), replaced(found.clone(), &sent)),
                None => return Answer::Refuse(404, "NotFound", "the server could not find it"),
            },
        };
        self.version += 1;
        written["metadata"]["resourceVersion"] = self.version.to_string().into();
        if !address.contains("dryRun=All") {
            self.kept.insert(path, written.clone());
        }
        Answer::Body(written.to_string())
    }

    /// How a good server answers.
    fn well(&self, address: &str) -> Answer {
        let path = address.split(['?', '&']).next().unwrap_or_default();
        if let Some(found) = self.kept.get(path) {
            return Answer::Body(found.to_string());
        }
        let inside = |key: &str| key.rsplit_once('/').is_some_and(|(list, _)| list == path);
        let kept = self.kept.iter().filter(|(key, _)| inside(key));
        let kept: Vec<Value> = kept.map(|(_, object)| object.clone()).collect();
        if !kept.is_empty() {
            return Answer::Body(list(&kept, self.version).to_string());
        }
        let kind = |kind: &str, name: &str| json!({"kind": kind, "name": name, "namespaced": true, "singularName": "", "verbs": []});
        let kinds = |version: &str, resources: Vec<Value>| json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources});
        let answer = match path {
            "/version" => {
                json!({"major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""})
            }
            "/api/v1" => kinds("v1", vec![kind("ConfigMap", "configmaps")]),
            "/apis/apps" => json!({"kind": "APIGroup", "name": "apps",
                "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
                "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}),
            "/apis/apps/v1" => kinds("apps/v1", vec![kind("Deployment", "deployments")]),
            _ if address.contains("watch=true") => return Answer::Says(String::new()),
            _ => match path.rsplit('/').next() {
                Some(plural @ ("configmaps" | "deployments" | "addons" | "events")) => {
                    let wanted = |key: &str| {
                        key.split_once('/').is_some_and(|(found, name)| {
                            found == plural && address.contains(&format!("metadata.name={name}&"))
                        })
                    };
                    let found = self.objects.iter().filter(|(key, _)| wanted(key));
                    let items: Vec<_> = found.map(|(_, object)| object.clone()).collect();
                    list(&items, self.version)
                }
                _ => return Answer::Refuse(404, "NotFound", "the server could not find it"),
            },
        };
        Answer::Body(answer.to_string())
    }
}

/// An object after the steps of a JSON patch that replace something.
fn replaced(mut object: Value, patch: &Value) -> Value {
    let steps = patch.as_array().into_iter().flatten();
    for step in steps.filter(|step| step["op"] == "replace") {
        let path = step["path"].as_str().unwrap_or_default();
        if let Some(field) = object.pointer_mut(path) {
            *field = step["value"].clone();
        }
    }
    object
}

fn contains(address: &str, words: &str) -> bool {
    words.split(' ').all(|word| address.contains(word))
}

/// Where a watch begins: a change since then ends it at once.
fn version_of(address: &str) -> Option<u64> {
    let (_, rest) = address.split_once("resourceVersion=")?;
    rest.split('&').next()?.parse().ok()
}

/// A list as kube-apiserver sends it.
pub(crate) fn list(items: &[Value], version: u64) -> Value {
    let metadata = json!({"resourceVersion": version.to_string()});
    json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items})
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message})
}

fn whole(stream: &mut TcpStream, code: u16, length: usize, body: &str) -> io::Result<()> {
    let retry = if code == 429 {
        "Retry-After: 1\r\n"
    } else {
        ""
    };
    let head = format!(
        "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\n{retry}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes())
}

fn open(stream: &mut TcpStream, text: &str) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    if !text.is_empty() {
        stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())?;
    }
    Ok(())
}
