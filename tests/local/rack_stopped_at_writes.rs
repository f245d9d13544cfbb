//! Level 3: the rack dies (SIGKILL) right before any system call that writes, and the next one has every event that was taken.
//! `WINDROW_WRITES=all` tries every call; otherwise a few of them, drawn by `WINDROW_SEED`.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::stopped_at_writes::{is_tried, started};
use crate::support::stepwise::{self, ENDED};

const WINDROW: &str = env!("CARGO_BIN_EXE_windrow");

/// A rack that keeps what it hears.
struct Rack {
    child: Child,
    process: Pid,
    port: mpsc::Receiver<u16>,
}

fn port_of(output: ChildStdout) -> mpsc::Receiver<u16> {
    let (sender, port) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let address = line.split_once("http://").map(|(_, rest)| rest);
            let port =
                address.and_then(|rest| rest.split_once('/')?.0.rsplit_once(':')?.1.parse().ok());
            if let Some(port) = port {
                let _ = sender.send(port);
            }
        }
    });
    port
}

fn rack(state: &Path, traced: bool) -> Rack {
    let mut command = if traced {
        stepwise::stopped(WINDROW)
    } else {
        Command::new(WINDROW)
    };
    command
        .args(["rack", "--listen", "127.0.0.1:0", "--state"])
        .arg(state);
    command
        .env_remove("STATE_DIRECTORY")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let (mut child, process) = match traced {
        true => started(&mut command),
        false => {
            let child = command.spawn().unwrap();
            let process = Pid::from_raw(i32::try_from(child.id()).unwrap());
            (child, process)
        }
    };
    let port = port_of(child.stdout.take().unwrap());
    Rack {
        child,
        process,
        port,
    }
}

/// A request; the status and the body of its answer, where there is one.
fn ask(port: u16, request: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

fn send(port: u16, host: &str, sequence: u64) -> bool {
    let body = json!({"specversion": "1.0", "id": format!("{host}-{sequence}"), "type": "dev.windrow.node.phase",
        "data": {"hostname": host, "bootId": "b", "sequence": sequence, "uptimeSeconds": 60, "phase": format!("phase-{sequence}")}})
    .to_string();
    let head = "POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/cloudevents+json\r\n";
    let answer = ask(
        port,
        &format!("{head}content-length: {}\r\n\r\n{body}", body.len()),
    );
    answer.is_some_and(|(status, _)| status == 202)
}

#[test]
fn a_rack_that_dies_before_any_write_has_every_event_that_it_took() {
    let site = tempfile::tempdir().unwrap();
    let state = site.path().canonicalize().unwrap().join("state");
    let mut taken: BTreeMap<String, u64> = BTreeMap::new();
    let mut sequence = 0;
    for number in (1..).filter(|number| is_tried(*number)) {
        // It has the past of all the racks before it.
        let mut dying = rack(&state, true);
        let (mut calls, process) = (0, dying.process);
        let sent = std::thread::scope(|scope| {
            let tracer = scope.spawn(|| {
                stepwise::kill_at(process, |stop| {
                    calls += usize::from(stop.is_about_to_write(&state, false));
                    calls >= number
                })
            });
            let mut sent = 0;
            if let Ok(port) = dying.port.recv() {
                loop {
                    sequence += 1;
                    let host = format!("node{}", sequence % 3);
                    if !send(port, &host, sequence) {
                        break;
                    }
                    taken.insert(host, sequence);
                    sent += 1;
                }
            }
            // One that takes nothing and goes on living would be waited for.
            let _ = kill(process, Signal::SIGKILL);
            let killed = tracer.join().unwrap();
            assert!(
                killed.is_ok() || killed == Err(ENDED.to_owned()),
                "{killed:?}"
            );
            sent
        });
        let _ = dying.child.wait();
        let mut next = rack(&state, false);
        let port = next.port.recv().unwrap();
        let (_, view) = ask(
            port,
            "GET /rack.json HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
        )
        .unwrap();
        let view: Value = serde_json::from_str(&view).unwrap();
        let shown: BTreeMap<&str, u64> = view["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|node| {
                let phase = node["phase"].as_str()?.strip_prefix("phase-")?;
                Some((node["host"].as_str()?, phase.parse().ok()?))
            })
            .collect();
        for (host, sequence) in &taken {
            // The one that it died over may be there, too.
            assert!(
                shown.get(host.as_str()) >= Some(sequence),
                "{host}: {sequence} after a death before write {number}: {shown:?}"
            );
        }
        let _ = next.child.kill();
        let _ = next.child.wait();
        let names = fs::read_dir(&state)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let aside: Vec<_> = names
            .filter(|name| name.to_string_lossy().contains("broken"))
            .collect();
        assert!(aside.is_empty(), "{aside:?} before write {number}");
        // An event is a handful of writes, and each kind of them was met.
        if sent >= 10 {
            return;
        }
    }
}
