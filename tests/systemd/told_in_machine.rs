//! Level 5: from a node that is being set up to one that is Ready, degrades, fails and recovers: the installed daemon,
//! against a real systemd and a real kube-apiserver, and the webhooks that a console gets.

use assets::Minor;
use gate_node::status;
use machine::Machine;
use serde_json::Value;

use crate::support::cluster::assets;
use crate::support::gate_node;
use crate::support::machine;

/// The parts of a node that the stand-in for rke2-server lacks: the supervisor's answer, and the kubelet's.
const REST_OF_RKE2: &str = "\
import http.server, ssl, threading
def serve(port, answers, certificate=None):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = answers.get(self.path, '').encode()
            self.send_response(200 if body else 404)
            self.send_header('content-length', str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        def log_message(self, *arguments):
            pass
    server = http.server.ThreadingHTTPServer(('127.0.0.1', port), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever).start()
serve(9345, {'/ping': 'pong'}, '/root/supervisor.pem')
serve(10248, {'/healthz': 'ok'})
";
/// A console: each event that it gets is a line.
const CONSOLE: &str = "\
import http.server
class Console(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['content-length']))
        with open('/root/told', 'ab') as told:
            told.write(body + b'\\n')
        self.send_response(204)
        self.end_headers()
    def log_message(self, *arguments):
        pass
http.server.HTTPServer(('127.0.0.1', 8080), Console).serve_forever()
";
const CONFIGURATION: &str = "\
platform: rke2
outlets: {nodeCondition: true}
probes:
  custom:
    wanted: {file: {path: /run/degrade, state: absent}, period: 5s, fall: 1}
    required: {file: {path: /run/fail, state: absent}, period: 5s, fall: 1, severity: required}
webhooks:
- {event: NODE_READY, url: 'http://127.0.0.1:8080/{{.Event}}'}
- {event: NODE_DEGRADED, url: 'http://127.0.0.1:8080/{{.Event}}'}
- {event: NODE_FAILED, url: 'http://127.0.0.1:8080/{{.Event}}'}
- {event: CLUSTER_READY, url: 'http://127.0.0.1:8080/{{.Event}}'}
";
/// The host may be busy, and the stand-in's certificates expire tomorrow: neither may count here.
const CALM: &str = "[Service]\n\
BindReadOnlyPaths=/root/loadavg:/proc/loadavg /root/tls:/var/lib/rancher/rke2/server/tls\n";

/// What the console got, each as the event and its readiness.
fn told(machine: &Machine) -> Vec<String> {
    let text = machine.read("/root/told").unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|event| {
            let kind = event["type"].as_str().unwrap_or_default();
            let readiness = event["data"]["readiness"].as_str().unwrap_or_default();
            let kind = kind.trim_start_matches("dev.windrow.");
            format!("{kind}: {readiness}")
        })
        .collect()
}

fn wait_told(machine: &Machine, expected: &[&str]) {
    machine.wait_until(format!("the console got {expected:?}"), |machine| {
        told(machine).len() >= expected.len()
    });
    let mut heard = told(machine);
    // Two webhooks to one console: the order of the first two is not promised.
    if let Some(first) = heard.get_mut(..2) {
        first.sort();
    }
    assert_eq!(heard, expected, "{:#}", status(machine)["reason"]);
}

fn wait_readiness(machine: &Machine, word: &str) {
    machine.wait_until(format!("the node is {word}"), |machine| {
        status(machine)["readiness"] == word
    });
}

#[test]
fn a_console_hears_how_the_node_gets_on_in_order_and_last_how_it_is() {
    let Some(node) = gate_node::node(Minor::V1_36) else {
        return;
    };
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])
        .expect("a certificate for the supervisor");
    let machine = node
        .file("/etc/windrow/conf.d/50-test.yaml", CONFIGURATION)
        .drop_in("windrow.service", CALM)
        .file("/root/loadavg", "0.10 0.10 0.10 1/100 1000\n")
        .file(
            "/root/supervisor.pem",
            made.cert.pem() + &made.signing_key.serialize_pem(),
        )
        .file("/root/tls/server-ca.crt", made.cert.pem())
        .file("/root/rke2.py", REST_OF_RKE2)
        .file("/root/console.py", CONSOLE)
        .boot();
    // Without a time service the clock's state is unknown, which is no fault.
    machine.sh("systemctl mask --now systemd-timedated.service");
    machine.sh("systemd-run --unit=console python3 /root/console.py");
    machine.wait_unit("rke2-server.service", "active");
    wait_readiness(&machine, "SettingUp");
    assert_eq!(told(&machine), [""; 0]);

    machine.sh("systemd-run --unit=rest-of-rke2 python3 /root/rke2.py");
    wait_readiness(&machine, "Ready");
    wait_told(&machine, &["cluster.ready: Ready", "node.ready: Ready"]);

    machine.write("/run/degrade", "");
    wait_readiness(&machine, "Degraded");
    let mut expected = vec![
        "cluster.ready: Ready",
        "node.ready: Ready",
        "node.degraded: Degraded",
    ];
    wait_told(&machine, &expected);
    machine.ok(&["rm", "/run/degrade"]);
    wait_readiness(&machine, "Ready");
    expected.push("node.ready: Ready");
    wait_told(&machine, &expected);

    // While the console is away the node fails and recovers: it gets the final state.
    machine.ok(&["systemctl", "stop", "console.service"]);
    machine.write("/run/fail", "");
    wait_readiness(&machine, "Failed");
    machine.wait_journal(&["--unit=windrow.service"], "webhook NODE_FAILED to");
    machine.ok(&["rm", "/run/fail"]);
    wait_readiness(&machine, "Ready");
    machine.sh("systemd-run --unit=console-again python3 /root/console.py");
    expected.push("node.ready: Ready");
    wait_told(&machine, &expected);
}
