//! `windrow rack` towards drawn clients that stall, lie and never read. `WINDROW_CLIENTS=n` draws more of them, `WINDROW_SEED=n`
//! others.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::any::Any;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

use crate::rack::{Serving, Site, TOKEN, event};
use crate::secrets::Random;

/// Clients that are drawn, unless `WINDROW_CLIENTS` says how many.
const CLIENTS: usize = 600;
/// Clients that keep their connection at a time: both sides have a file for each, of 1,024.
const MOST_HELD: usize = 300;
/// Clients between two events of the node.
const BETWEEN: usize = 50;
/// Most memory of the rack, in kB: what its unit allows it, less a quarter.
const MOST_MEMORY: u64 = 384 << 10;
const PATHS: [&str; 7] = [
    "/",
    "/part",
    "/rack.json",
    "/live",
    "/nodes/ours",
    "/nodes/ours/part",
    "/healthz",
];
/// Beginnings of requests, some of them whole.
const HEADS: [&str; 8] = [
    "GET / HTTP/1.1\r\nhost: localhost\r\n",
    "GET /rack.json HTTP/1.1\r\nhost: localhost\r\n\r\nGET /rack.json HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "POST /events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n{",
    "POST /events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 18446744073709551615\r\n\r\n{}",
    "POST /events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nfff\r\n{}",
    "POST /events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n",
    "GET /live HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n\r\n",
    // A handshake record that is longer than what follows.
    "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03",
];

/// What a client keeps open: a connection, or an answer that it reads no further.
enum Held {
    Connection(TcpStream),
    Answer { _unread: Box<dyn Any> },
}

struct Attack {
    random: Random,
    address: SocketAddr,
    url: String,
    begun: Instant,
    /// The uptime of the node when the attack began.
    uptime: u64,
    held: VecDeque<Held>,
}

/// A client with an address of its own.
fn client(from: IpAddr) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder().no_proxy().local_address(from);
    builder
        .tls_danger_accept_invalid_certs(true)
        .build()
        .unwrap()
}

impl Attack {
    /// An address of this machine that is not the node's.
    fn other_address(&mut self) -> IpAddr {
        let last = u8::try_from(2 + self.random.below(20)).unwrap();
        IpAddr::from([127, 0, 0, last])
    }

    /// The time that the node's machine is up.
    fn node_uptime(&self) -> u64 {
        self.uptime + self.begun.elapsed().as_secs()
    }

    /// One more client does what is drawn. That its connection breaks is the rack's right.
    async fn begin_client(&mut self) {
        let held = match self.random.below(4) {
            0 => self.send_bytes().await.ok().map(Held::Connection),
            1 => self.send_event().await,
            _ => self.ask_for_page().await,
        };
        // Most keep what they have, and the oldest go.
        if let Some(held) = held.filter(|_| self.random.below(4) > 0) {
            self.held.push_back(held);
        }
        if self.held.len() > MOST_HELD {
            self.held.pop_front();
        }
        self.touch_held();
    }

    async fn connect(&mut self) -> io::Result<TcpStream> {
        let from = self.other_address();
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(self.address).await
    }

    /// Sends nothing, or a part of something.
    async fn send_bytes(&mut self) -> io::Result<TcpStream> {
        let mut stream = self.connect().await?;
        let mut bytes = HEADS[self.random.below(HEADS.len())].as_bytes().to_vec();
        if self.random.below(3) == 0 {
            let changed = self.random.below(bytes.len());
            bytes[changed] = u8::try_from(self.random.below(256)).unwrap();
        }
        if self.random.below(2) == 0 {
            bytes.truncate(self.random.below(bytes.len() + 1));
        }
        stream.write_all(&bytes).await?;
        Ok(stream)
    }

    /// Asks for a page, and reads nothing more than its head.
    async fn ask_for_page(&mut self) -> Option<Held> {
        let path = PATHS[self.random.below(PATHS.len())];
        let request = client(self.other_address()).get(format!("{}{path}", self.url));
        let answer = request.bearer_auth(TOKEN).send().await.ok()?;
        Some(Held::Answer {
            _unread: Box::new(answer),
        })
    }

    /// Sends an event in the name of the node or of an invented one, whole or damaged.
    async fn send_event(&mut self) -> Option<Held> {
        let node_uptime = self.node_uptime();
        let host = match self.random.below(3) {
            0 => "ours".to_owned(),
            _ => format!("x{}", self.random.below(400)),
        };
        let sequences = [0, 1, 1_000, 1 << 53, (1 << 53) + 1, u64::MAX - 1, u64::MAX];
        let sequence = sequences[self.random.below(sequences.len())];
        // A little ahead, and a forged event counts for so long: docs/threat-model.md says so.
        let day = 24 * 60 * 60;
        let uptimes = [0, 1, node_uptime, node_uptime + 2 * day, 1 << 53, u64::MAX];
        let boots = ["b", "", "c"];
        let long = "L".repeat(self.random.below(400));
        let finding = json!({"code": "c", "severity": "warning", "subject": long});
        let data = json!({
            "bootId": match self.random.below(boots.len() + 1) {
                number if number < boots.len() => boots[number].to_owned(),
                _ => format!("forged-{}", self.random.below(30)),
            },
            "uptimeSeconds": uptimes[self.random.below(uptimes.len())],
            "readiness": "Ready",
            "findings": vec![finding; 20],
        });
        let mut body = event(&host, sequence, data).into_bytes();
        if self.random.below(3) == 0 {
            let from = self.random.below(body.len());
            let to = body.len().min(from + self.random.below(20));
            body.drain(from..to);
        }
        let request = client(self.other_address()).post(format!("{}/events", self.url));
        let request = request.bearer_auth(TOKEN).body(body);
        let request = request.header("content-type", "application/cloudevents+json");
        let answer = request.send().await.ok()?;
        Some(Held::Answer {
            _unread: Box::new(answer),
        })
    }

    /// One of those that keep a connection reads a byte, or sends one.
    fn touch_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let which = self.random.below(self.held.len());
        let sends = self.random.below(2) == 0;
        if let Some(Held::Connection(stream)) = self.held.get(which) {
            let _ = if sends {
                stream.try_write(b"x")
            } else {
                stream.try_read(&mut [0])
            };
        }
    }
}

/// The node among the attackers.
struct HonestNode {
    client: Client,
    sequence: u64,
}

impl HonestNode {
    /// Sends its next events until the rack shows what they say. A second of uptime later it does, whatever was forged.
    async fn is_shown(&mut self, attack: &Attack, readiness: &str) {
        let begun = Instant::now();
        loop {
            self.sequence += 1;
            let data = json!({"readiness": readiness, "uptimeSeconds": attack.node_uptime()});
            let posted = self.client.post(format!("{}/events", attack.url));
            let posted = posted.bearer_auth(TOKEN);
            let posted = posted.header("content-type", "application/cloudevents+json");
            let posted = posted.body(event("ours", self.sequence, data));
            assert_eq!(posted.send().await.unwrap().status(), 202);
            let asked = self.client.get(format!("{}/rack.json", attack.url));
            let answer = asked.bearer_auth(TOKEN).send().await.unwrap();
            let view: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
            let rows = view["nodes"].as_array().unwrap();
            let row = rows.iter().find(|row| row["name"] == "ours").unwrap();
            if row["readiness"] == readiness {
                return;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "event {} of {readiness}: {row:#}",
                self.sequence
            );
        }
    }
}

async fn rack_serves_others(listen: &str) {
    let site = Site::new();
    site.file("nodes.yaml", "- {name: ours, host: ours}\n");
    let mut command = site.rack(&format!("{listen} --nodes nodes.yaml --token-file token"));
    command.stderr(fs::File::create(site.path("stderr")).unwrap());
    let mut rack = Serving::start(command);
    let seed = std::env::var("WINDROW_SEED").map_or(1, |seed| seed.parse().unwrap());
    let clients = std::env::var("WINDROW_CLIENTS").map_or(CLIENTS, |text| text.parse().unwrap());
    let scheme = rack.said.split_once(':').unwrap().0;
    let mut attack = Attack {
        random: Random::new(seed),
        address: SocketAddr::from(([127, 0, 0, 1], rack.port)),
        url: format!("{scheme}://127.0.0.1:{}", rack.port),
        begun: Instant::now(),
        uptime: 1000,
        held: VecDeque::new(),
    };
    let mut node = HonestNode {
        client: client(IpAddr::from([127, 0, 0, 1])),
        sequence: 0,
    };
    node.is_shown(&attack, "SettingUp").await;
    for number in 1..=clients {
        attack.begin_client().await;
        if number % BETWEEN == 0 {
            let readiness = ["SettingUp", "Failed"][number / BETWEEN % 2];
            node.is_shown(&attack, readiness).await;
        }
    }
    let memory = rack.most_memory();
    println!(
        "seed {seed}: {clients} clients in {:?}, {} events of the node, {memory} kB at most",
        attack.begun.elapsed(),
        node.sequence
    );
    assert!(memory < MOST_MEMORY, "{memory} kB");
    drop(attack);
    assert_eq!(rack.end(Signal::SIGTERM), Some(0));
    let said = fs::read_to_string(site.path("stderr")).unwrap();
    assert!(!said.contains("panicked"), "{said}");
}

#[tokio::test]
async fn a_rack_over_http_serves_a_node_whatever_its_other_clients_do() {
    rack_serves_others("--listen 127.0.0.1:0").await;
}

#[tokio::test]
async fn a_rack_over_https_serves_a_node_whatever_its_other_clients_do() {
    rack_serves_others("--listen 0.0.0.0:0").await;
}
