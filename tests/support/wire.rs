//! Two machines on one wire: network namespaces with the kernel's own links, ARP and neighbour discovery between them.

use std::process::{Child, Command, Stdio};

/// On our side of the wire; the other side has `PEER`.
pub(crate) const OURS: &str = "192.0.2.1";
pub(crate) const PEER: &str = "192.0.2.2";
pub(crate) const VIP: &str = "192.0.2.10";
pub(crate) const PEER_MAC: &str = "02:00:00:00:00:07";
pub(crate) const OURS_V6: &str = "2001:db8::1";
pub(crate) const PEER_V6: &str = "2001:db8::2";
pub(crate) const VIP_V6: &str = "2001:db8::10";

/// A network and a host name of its own, which live as long as their process.
pub(crate) struct Namespace(Child);

impl Namespace {
    fn new(name: &str) -> Self {
        let mut command = Command::new("unshare");
        let script = format!("hostname {name} && ip link set lo up && echo ready && exec cat");
        command.args(["--net", "--uts", "sh", "-c", &script]);
        let mut holder = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let said = holder.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(holder)
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", self.0.id()))
            .arg(format!("--uts=/proc/{}/ns/uts", self.0.id()))
            .arg(program);
        command
    }

    pub(crate) fn sh(&self, script: &str) {
        let done = self.command("sh").args(["-ec", script]).output().unwrap();
        assert!(done.status.success(), "{script}: {done:?}");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two machines on one wire. `None`, after a line that says so, where namespaces are not allowed.
pub(crate) fn wire() -> Option<(Namespace, Namespace)> {
    let allowed = Command::new("unshare")
        .args(["--net", "--uts", "ip", "link"])
        .output();
    if !allowed.is_ok_and(|done| done.status.success()) {
        eprintln!(
            "skipped: two machines on a wire need the right to make network namespaces, and ip"
        );
        return None;
    }
    let (here, there) = (Namespace::new("here"), Namespace::new("there"));
    here.sh(&format!(
        "ip link add eth0 type veth peer name eth0 netns {} address {PEER_MAC}
         ip address add {OURS}/24 dev eth0; ip address add {OURS_V6}/64 dev eth0 nodad; ip link set eth0 up",
        there.0.id()
    ));
    there.sh(&format!(
        "ip address add {PEER}/24 dev eth0; ip address add {PEER_V6}/64 dev eth0 nodad; ip link set eth0 up"
    ));
    // The kernel finds out a moment later.
    for side in [&here, &there] {
        side.sh(&until("eth0", "state UP"));
    }
    Some((here, there))
}

/// Waits until the kernel says this of the link.
pub(crate) fn until(link: &str, state: &str) -> String {
    let says = format!("ip link show {link} | grep -q '{state}'");
    format!("timeout 300 sh -c \"until {says}; do sleep 0.05; done\"")
}
