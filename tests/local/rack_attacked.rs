//! `windrow rack` towards who sends events in the name of a node, and towards other users of its machine.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::rack::{Serving, Site, event, post, text};

/// Hostile status servers of each kind.
const HOSTILE: usize = 20;
/// Most memory of the rack, in kB. The bodies of all hostile servers together have 160 MiB.
const MOST_MEMORY: u64 = 128 << 10;

#[tokio::test]
async fn a_forged_event_does_not_end_the_wait_and_the_next_one_of_the_node_counts() {
    let site = Site::new();
    site.file("nodes.yaml", "- {name: a, host: n1}\n");
    let rack = Serving::start(site.rack("--listen 127.0.0.1:0 --nodes nodes.yaml"));
    let says = |word: &str| json!({"readiness": word});
    for (sequence, word) in [(5, "SettingUp"), (u64::MAX, "Ready")] {
        assert_eq!(
            post(rack.port, event("n1", sequence, says(word))).await,
            202
        );
    }
    let here = format!("--listen 127.0.0.1:{}", rack.port);
    let waited = site.run(&format!("{here} --for ready --timeout 1s"));
    assert_eq!(waited.status.code(), Some(5), "{waited:?}");
    assert!(text(&waited.stdout).contains("gave up:"), "{waited:?}");

    assert_eq!(post(rack.port, event("n1", 6, says("Failed"))).await, 202);
    let once = site.run(&format!("{here} --once -o json"));
    let view: Value = serde_json::from_slice(&once.stdout).unwrap();
    let row = &view["nodes"][0];
    assert_eq!(row["readiness"], "Failed", "{row:#}");
    let note = row["notes"][0].as_str().unwrap();
    assert!(note.contains("5 to 18446744073709551615"), "{note}");
}

#[tokio::test]
async fn a_rack_on_loopback_asks_every_user_for_its_token() {
    let site = Site::new();
    let rack = Serving::start(site.rack("--listen 127.0.0.1:0 --token-file token"));
    assert_eq!(post(rack.port, event("n1", 1, json!({}))).await, 401);
    let once = format!("--once --listen 127.0.0.1:{}", rack.port);
    let refused = site.run(&once);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let shown = site.run(&format!("{once} --token-file token"));
    assert!(
        text(&shown.stdout).contains("no node has reported"),
        "{shown:?}"
    );
}

/// A status server whose answer does not end: its head, or its body.
async fn answer_without_end(mut stream: TcpStream) {
    let mut request = [0; 4096];
    let read = stream.read(&mut request).await.unwrap_or_default();
    let head: &[u8] = match request[..read].starts_with(b"GET /head") {
        true => b"HTTP/1.1 200 OK\r\nx: ",
        false => b"HTTP/1.1 200 OK\r\n\r\n",
    };
    let _ = stream.write_all(head).await;
    while stream.write_all(&[b'x'; 16 << 10]).await.is_ok() {}
}

#[tokio::test]
async fn status_servers_whose_answers_do_not_end_take_little_memory_together() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let servers = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_without_end(stream));
        }
    });
    let mut nodes = String::new();
    for number in 0..HOSTILE {
        for part in ["head", "body"] {
            let url = format!("http://{address}/{part}/{number}");
            writeln!(nodes, "- {{name: {part}{number}, url: '{url}'}}").unwrap();
        }
    }
    let site = Site::new();
    site.file("nodes.yaml", &nodes);
    let rack = Serving::start(site.rack("--listen 127.0.0.1:0 --nodes nodes.yaml"));
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Each of them has a notice: 20 are shown, and the rest is counted.
    let mut said = String::new();
    while !said.contains(&format!("and {} more of the kind", 2 * HOSTILE - 20)) {
        let url = format!("http://127.0.0.1:{}/rack.json", rack.port);
        said = reqwest::get(url).await.unwrap().text().await.unwrap();
    }
    assert!(said.contains("its document is larger than 8 MiB"), "{said}");
    assert!(
        rack.most_memory() < MOST_MEMORY,
        "{} kB",
        rack.most_memory()
    );
    servers.abort();
}
