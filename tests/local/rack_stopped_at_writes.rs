//! Level 3: the rack dies (SIGKILL) or stands still (SIGSTOP) right before any system call that writes, and the next one has every event
//! that was taken.
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

/// The last event that is known of each node.
fn shown(port: u16) -> BTreeMap<String, u64> {
    let (_, view) = ask(
        port,
        "GET /rack.json HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
    )
    .unwrap();
    let view: Value = serde_json::from_str(&view).unwrap();
    let nodes = view["nodes"].as_array().unwrap().iter();
    let known = nodes.filter_map(|node| {
        let phase = node["phase"].as_str()?.strip_prefix("phase-")?;
        Some((node["host"].as_str()?.to_owned(), phase.parse().ok()?))
    });
    known.collect()
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
        let shown = shown(port);
        for (host, sequence) in &taken {
            // The one that it died over may be there, too.
            assert!(
                shown.get(host) >= Some(sequence),
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

/// Sends events of one node until the rack is gone, or to `most`; the last one that was taken.
fn send_all(port: &mpsc::Receiver<u16>, host: &str, most: u64) -> Option<u64> {
    let port = port.recv().ok()?;
    (1..=most)
        .take_while(|number| send(port, host, *number))
        .last()
}

#[test]
fn while_a_rack_stands_still_before_any_write_another_one_takes_nothing_from_it() {
    for number in (1..).filter(|number| is_tried(*number)) {
        let site = tempfile::tempdir().unwrap();
        let state = site.path().canonicalize().unwrap().join("state");
        if number % 2 == 0 {
            fs::create_dir(&state).unwrap();
            fs::write(state.join("rack.redb"), "broken").unwrap();
        }
        let Rack {
            child: mut first,
            process,
            port,
        } = rack(&state, true);
        let (stopped, stands) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let mut taken: BTreeMap<&str, u64> = BTreeMap::new();
        let reached = std::thread::scope(|scope| {
            let below = &state;
            let tracer = scope.spawn(move || {
                let mut calls = 0;
                stepwise::kill_at(process, |stop| {
                    if stop.is_about_to_write(below, false) {
                        calls += 1;
                        if calls == number {
                            let _ = stopped.send(());
                            let _ = goes_on.recv();
                        }
                    }
                    false
                })
            });
            let sender = scope.spawn(move || {
                let last = send_all(&port, "first", 20);
                // Whoever is still waited for would be waited for without an end.
                let _ = kill(process, Signal::SIGKILL);
                last
            });
            let reached = stands.recv().is_ok();
            if reached {
                let mut second = rack(&state, false);
                // It serves, or it has ended because of the first one.
                let serves = send_all(&second.port, "second", 3);
                taken.extend(serves.map(|last| ("second", last)));
                if serves.is_none() {
                    let ended = second.child.wait().unwrap();
                    assert_eq!(ended.code(), Some(75), "before write {number}");
                }
                let _ = go_on.send(());
                let last = sender.join().unwrap();
                let both = last.is_some() && serves.is_some();
                assert!(!both, "two racks served one state before write {number}");
                taken.extend(last.map(|last| ("first", last)));
                let _ = second.child.kill();
                let _ = second.child.wait();
            }
            let killed = tracer.join().unwrap();
            assert_eq!(killed, Err(ENDED.to_owned()));
            reached
        });
        let _ = first.wait();
        if !reached {
            assert!(number > 20, "there are more writes than {number}");
            return;
        }
        let mut next = rack(&state, false);
        let shown = shown(next.port.recv().unwrap());
        for (host, sequence) in taken {
            assert!(
                shown.get(host) >= Some(&sequence),
                "{host}: {sequence} after a halt before write {number}: {shown:?}"
            );
        }
        let _ = next.child.kill();
        let _ = next.child.wait();
    }
}
