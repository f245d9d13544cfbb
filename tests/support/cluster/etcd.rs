//! What no request to kube-apiserver can do: an object that was made earlier than the test began, and whether etcd is well before there is
//! a kube-apiserver.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Cluster;

impl Cluster {
    /// Has an object be made as many minutes earlier than it was. `key` is what etcd has it under, without `/registry/`:
    /// `GROUP/PLURAL/NAMESPACE/NAME` of a kind that is defined, `PLURAL/NAMESPACE/NAME` of one that kube-apiserver brings,
    /// which has to store it as JSON (`--storage-media-type=application/json`).
    pub(crate) async fn make_older(&self, key: &str, minutes: i64) {
        let key = BASE64_STANDARD.encode(format!("/registry/{key}"));
        let found = self.ask_etcd("range", json!({"key": key})).await;
        let stored = found["kvs"][0]["value"].as_str().expect("it is there");
        let stored = BASE64_STANDARD.decode(stored).expect("etcd writes base64");
        let mut object: Value = serde_json::from_slice(&stored).expect("it is stored as JSON");
        let made = &mut object["metadata"]["creationTimestamp"];
        let at: Timestamp = made.as_str().unwrap_or_default().parse().expect("a time");
        *made = json!((at - SignedDuration::from_mins(minutes)).to_string());
        let value = BASE64_STANDARD.encode(object.to_string());
        self.ask_etcd("put", json!({"key": key, "value": value}))
            .await;
    }

    /// A request to etcd's own gateway for HTTP.
    async fn ask_etcd(&self, what: &str, body: Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.etcd_port))
            .await
            .expect("etcd listens");
        let body = body.to_string();
        // In HTTP 1.0 the answer ends with the connection.
        let request = format!(
            "POST /v3/kv/{what} HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let sent = stream.write_all(request.as_bytes()).await;
        sent.expect("etcd takes it");
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer).await;
        read.expect("etcd answers");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        assert!(head.contains(" 200 "), "{answer}");
        serde_json::from_str(body).expect("it is JSON")
    }
}

/// Does etcd on this port say that it is well?
pub(super) async fn is_healthy(etcd_port: u16) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(("127.0.0.1", etcd_port)).await?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = tokio::time::timeout(Duration::from_secs(5), asked).await;
    answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.contains("\"health\":\"true\"")))
}
