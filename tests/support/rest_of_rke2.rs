//! What the stand-in for rke2-server lacks in a machine: the supervisor's answer and the kubelet's; and a machine on
//! which nothing but the test's own doing counts.

use super::machine::{Builder, Machine};

const PROGRAM: &str = "/root/rke2.py";
const SOURCE: &str = "\
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
/// The host may be busy, and the stand-in's certificates expire tomorrow: neither may count here.
const CALM: &str = "[Service]\n\
BindReadOnlyPaths=/root/loadavg:/proc/loadavg /root/tls:/var/lib/rancher/rke2/server/tls\n";

/// Brings the parts, which [`start`] starts.
pub(crate) fn installed(node: Builder) -> Builder {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])
        .expect("a certificate for the supervisor");
    node.drop_in("windrow.service", CALM)
        .file("/root/loadavg", "0.10 0.10 0.10 1/100 1000\n")
        .file(
            "/root/supervisor.pem",
            made.cert.pem() + &made.signing_key.serialize_pem(),
        )
        .file("/root/tls/server-ca.crt", made.cert.pem())
        .file(PROGRAM, SOURCE)
}

/// Supervisor and kubelet answer from now on.
pub(crate) fn start(machine: &Machine) {
    machine.sh(&format!(
        "systemd-run --quiet --unit=rest-of-rke2 python3 {PROGRAM}"
    ));
}

/// Without a time service the clock's state is unknown, which is no fault.
pub(crate) fn without_time_service(machine: &Machine) {
    machine.sh("systemctl mask --now systemd-timedated.service");
}
