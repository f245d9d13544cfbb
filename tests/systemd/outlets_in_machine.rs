//! Windrow's outlets on a booted machine: the real system bus with the installed policy.

use machine::{Builder, Machine, skipped};
use serde_json::Value;
use widgets::{KEEP, WIDGET};

use crate::support::machine;
use crate::support::widgets;

const MANIFEST: &str = "/var/lib/rancher/rke2/server/manifests/widget.yaml";

/// `busctl` as the user `nobody`.
const NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";
const OBJECT: &str = "dev.windrow.Agent1 /dev/windrow/Agent1";

fn get(machine: &Machine, property: &str) -> Option<Value> {
    let script =
        format!("{NOBODY} busctl --json=short get-property {OBJECT} dev.windrow.Agent1 {property}");
    let output = machine.run(&["sh", "-euc", &script]);
    let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(answer["data"].clone())
}

#[test]
fn everybody_reads_over_the_system_bus_and_only_root_releases() {
    if skipped() {
        return;
    }
    let machine = Builder::node().file(MANIFEST, WIDGET).boot();
    machine.wait_unit("windrow.service", "active");
    machine.wait_until("the file is held, as the user nobody sees it", |machine| {
        get(machine, "Held") == Some(Value::from(1))
    });
    assert_ne!(get(&machine, "Summary"), Some(Value::from("")));
    let call = |who: &str, method: &str| {
        let script = format!("{who} busctl call {OBJECT} dev.windrow.Agent1 {method}");
        machine.run(&["sh", "-euc", &script])
    };
    let why = call(NOBODY, "Why s widget.yaml");
    assert!(why.status.success(), "{why:?}");
    let release = "Release ass 1 widget.yaml test";
    let refused = call(NOBODY, release);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "the user nobody released a file");
    assert!(said.contains("Access denied"), "{said}");
    assert!(machine.exists(&format!("{MANIFEST}.skip")));
    let take = format!(
        "{NOBODY} busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus \
         RequestName su dev.windrow.Agent1 0"
    );
    let taken = machine.run(&["sh", "-euc", &take]);
    let said = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(said.contains("Access denied"), "{taken:?}");

    let done = call("", release);
    assert!(done.status.success(), "{done:?}");
    machine.wait_until("the release is known", |machine| {
        !machine.exists(&format!("{MANIFEST}.skip")) && get(machine, "Held") == Some(Value::from(0))
    });

    // The bus goes and comes back; Windrow stays, and takes its name again.
    let pid = machine.unit("windrow.service", "MainPID");
    machine.sh("systemctl kill --signal=KILL dbus.service");
    machine.wait_until("Windrow is on the bus again", |machine| {
        get(machine, "Held") == Some(Value::from(0))
    });
    assert_eq!(machine.unit("windrow.service", "MainPID"), pid);
}

/// The rule that the documentation gives.
fn documented_rule() -> &'static str {
    let docs = include_str!("../../docs/outlets.md");
    let (_, rest) = docs.split_once("```js\n").expect("a rule");
    rest.split_once("```").expect("its end").0
}

#[test]
fn policykit_decides_who_but_root_holds_and_releases() {
    if skipped() {
        return;
    }
    let machine = Builder::node()
        .file(MANIFEST, WIDGET)
        .file("/etc/polkit-1/rules.d/50-windrow.rules", documented_rule())
        .boot();
    machine.wait_unit("windrow.service", "active");
    machine.sh(
        "groupadd rack-operators; useradd --user-group ann; useradd --user-group --groups rack-operators otto",
    );
    machine.wait_until("the file is held", |machine| {
        machine.exists(&format!("{MANIFEST}.skip"))
    });
    // busctl hides the words of a refusal.
    let call = |user: &str, method: &str| {
        let script = format!(
            "setpriv --reuid={user} --regid={user} --init-groups dbus-send --system --print-reply \
             --dest=dev.windrow.Agent1 /dev/windrow/Agent1 dev.windrow.Agent1.{method} \
             array:string:widget.yaml string:ticket"
        );
        let output = machine.run(&["sh", "-euc", &script]);
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    };
    let mark = || machine.read(&format!("{MANIFEST}.skip"));
    for method in ["Hold", "Release"] {
        let (done, said) = call("ann", method);
        let action = format!("dev.windrow.{}", method.to_lowercase());
        assert!(!done, "{said}");
        assert!(
            said.contains("AccessDenied")
                && said.contains(&format!("{action} needs an administrator's password")),
            "{said}"
        );
    }
    // PolicyKit was running and could be asked.
    assert_eq!(machine.unit("polkit.service", "ActiveState"), "active");
    assert!(mark().is_some_and(|mark| !mark.contains("ticket")));

    let (done, said) = call("otto", "Release");
    assert!(done, "{said}");
    machine.wait_until("the release is known", |_| mark().is_none());
    let (done, said) = call("otto", "Hold");
    assert!(done, "{said}");
    assert!(
        mark().is_some_and(|mark| mark.contains("ticket (otto over D-Bus)")),
        "{:?}",
        mark()
    );
    let (done, said) = call("root", "Release");
    assert!(done, "{said}");

    // Without PolicyKit only root is allowed.
    machine.sh("systemctl mask --now polkit.service");
    let (done, said) = call("otto", "Hold");
    assert!(!done && said.contains("allowed to root alone"), "{said}");
    let (done, said) = call("root", "Hold");
    assert!(done, "{said}");
}

/// A console: writes every request into a file.
const CONSOLE: &str = "\
import http.server
class Console(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['content-length']))
        with open('/root/told.half', 'wb') as told:
            told.write(body)
        import os
        os.rename('/root/told.half', '/root/told')
        self.send_response(204)
        self.end_headers()
http.server.HTTPServer(('127.0.0.1', 8080), Console).serve_forever()
";
/// Asks for the status from outside.
const ASK: &str = "\
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile='/root/ca.pem')
request = urllib.request.Request('https://127.0.0.1:9346/status', headers={'Authorization': 'Bearer ' + sys.argv[1]})
print(urllib.request.urlopen(request, context=context).read().decode())
";

#[test]
fn the_sandboxed_unit_tells_a_console_that_comes_later_and_serves_its_status() {
    if skipped() {
        return;
    }
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])
        .expect("a certificate for the machine");
    let agent = "/var/lib/rancher/rke2/agent";
    let machine = Builder::node()
        .file(MANIFEST, WIDGET)
        .file("/etc/windrow/rules.d/90-test.yaml", KEEP)
        .file(
            "/etc/windrow/conf.d/50-test.yaml",
            "staging: {blindDeadline: 1s}\n\
             statusServer: {enabled: true}\n\
             webhooks: [{event: STAGING_BLOCKED, url: 'http://127.0.0.1:8080/{{.Hostname}}'}]\n",
        )
        .file(&format!("{agent}/serving-kubelet.crt"), made.cert.pem())
        .file(
            &format!("{agent}/serving-kubelet.key"),
            made.signing_key.serialize_pem(),
        )
        .file("/etc/credstore/windrow.status-token", "0123456789abcdef\n")
        .file("/root/ca.pem", made.cert.pem())
        .file("/root/ask.py", ASK)
        .file("/root/console.py", CONSOLE)
        .boot();
    machine.wait_unit("windrow.service", "active");
    machine.wait_journal(
        &["--unit=windrow.service"],
        "webhook STAGING_BLOCKED to http://127.0.0.1:8080",
    );
    let ask = |token: &str| machine.run(&["python3", "/root/ask.py", token]);
    machine.wait_until("the status is served", |_| {
        ask("0123456789abcdef").status.success()
    });
    let answer = ask("0123456789abcdef");
    let status: Value = serde_json::from_slice(&answer.stdout).expect("the document");
    assert_eq!(status["webhooks"][0]["state"], "failing", "{status:#}");
    let refused = ask("fedcba9876543210");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("401"), "{said}");

    machine.sh("systemd-run --unit=console python3 /root/console.py");
    let told = machine.wait_for("the console gets its request", |machine| {
        machine.read("/root/told")
    });
    let told: Value = serde_json::from_str(&told).expect("a CloudEvent");
    assert_eq!(told["type"], "dev.windrow.staging.blocked");
    assert_eq!(told["subject"], "node1");
    machine.wait_journal(
        &["--unit=windrow.service"],
        "webhook STAGING_BLOCKED was delivered to",
    );
}
