//! Small servers with answers that a test chooses. They remember their requests.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::server::{self, Stream};

#[derive(Debug, Clone)]
pub enum ServerReply {
    Http(u16, String),
    /// Bytes that are not HTTP.
    Garbage,
    /// More than any reader accepts.
    TooMuch,
    /// Nothing, and the connection stays open.
    Nothing,
}

impl ServerReply {
    pub fn ok(body: &str) -> Self {
        Self::Http(200, body.to_owned())
    }
}

pub struct TestServer {
    pub url: String,
    pub port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

type Handler = Arc<dyn Fn(&str) -> ServerReply + Send + Sync>;

impl TestServer {
    /// Plain HTTP; `says` gets each request's target.
    pub async fn http(says: impl Fn(&str) -> ServerReply + Send + Sync + 'static) -> Self {
        Self::http_on("127.0.0.1:0", says).await
    }

    /// As [`Self::http`], at another address.
    pub async fn http_on(
        address: &str,
        says: impl Fn(&str) -> ServerReply + Send + Sync + 'static,
    ) -> Self {
        Self::start(address, Arc::new(says), None).await
    }

    /// As [`Self::http`], with a certificate that no authority has signed.
    pub async fn https(says: impl Fn(&str) -> ServerReply + Send + Sync + 'static) -> Self {
        Self::https_as("someone.example", says).await.0
    }

    /// As [`Self::https`], with a certificate for this name; also returns the certificate.
    pub async fn https_as(
        name: &str,
        says: impl Fn(&str) -> ServerReply + Send + Sync + 'static,
    ) -> (Self, String) {
        let (tls, certificate) = server::certificate(name);
        let server = Self::start("127.0.0.1:0", Arc::new(says), Some(tls)).await;
        (server, certificate)
    }

    async fn start(address: &str, says: Handler, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let (url, task) = server::start(listener, tls, move |stream| {
            serve(stream, says.clone(), log.clone())
        });
        Self {
            url,
            port,
            asked,
            task,
        }
    }

    /// Every request's head so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: Stream, says: Handler, log: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    let mut buffer = [0_u8; 4096];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => head.extend_from_slice(&buffer[..count]),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    log.lock().unwrap().push(head);
    let answer = match says(&target) {
        ServerReply::Http(status, body) => format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ),
        ServerReply::Garbage => "SSH-2.0-OpenSSH_9.9\r\n\r\n".to_owned(),
        ServerReply::TooMuch => format!(
            "HTTP/1.1 200 X\r\nconnection: close\r\n\r\n{}",
            "x".repeat(2 << 20)
        ),
        ServerReply::Nothing => return std::future::pending().await,
    };
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}
