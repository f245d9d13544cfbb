//! A console in a machine that receives webhooks: each event is a line of a file.

use serde_json::Value;

use super::machine::{Builder, Machine};

/// Where a webhook of the test sends its events.
pub(crate) const ADDRESS: &str = "http://127.0.0.1:8080";
const PROGRAM: &str = "/root/console.py";
const RECEIVED: &str = "/root/received";
const SOURCE: &str = "\
import http.server
class Console(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['content-length']))
        with open('/root/received', 'ab') as received:
            received.write(body + b'\\n')
        self.send_response(204)
        self.end_headers()
    def log_message(self, *arguments):
        pass
http.server.HTTPServer(('127.0.0.1', 8080), Console).serve_forever()
";

pub(crate) fn installed(node: Builder) -> Builder {
    node.file(PROGRAM, SOURCE)
}

/// It listens from now on, as a unit of this name.
pub(crate) fn start(machine: &Machine, unit: &str) {
    machine.sh(&format!(
        "systemd-run --quiet --unit={unit} python3 {PROGRAM}"
    ));
}

/// The events received so far, oldest first.
pub(crate) fn events(machine: &Machine) -> Vec<Value> {
    let text = machine.read(RECEIVED).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}
