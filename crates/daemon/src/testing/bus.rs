//! A separate, real dbus-daemon.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A bus at this address; it ends with its owner. `None` if there is no dbus-daemon.
pub async fn start(address: &str) -> Option<Child> {
    let mut daemon = Command::new("dbus-daemon")
        .args(["--session", "--nofork", "--nopidfile", "--print-address=1"])
        .arg(format!("--address={address}"))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let mut line = String::new();
    // Its address is printed once it listens.
    let mut output = BufReader::new(daemon.stdout.take()?);
    output.read_line(&mut line).await.ok()?;
    Some(daemon)
}
