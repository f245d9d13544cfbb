//! An admission webhook on loopback that kube-apiserver calls over TLS. What it says is decided by a [`Judge`].

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The HTTP status that the API server passes on.
    pub(crate) code: u16,
    pub(crate) message: String,
}

/// Decides about the requests (`AdmissionRequest`) of the reviews.
pub(crate) trait Judge: Send + Sync + 'static {
    /// `None`: no answer, ever.
    fn judge(&self, request: Value) -> impl Future<Output = Option<Result<(), Refusal>>> + Send;
}

/// A certificate for loopback, and what a server needs of it.
#[derive(Clone)]
pub(crate) struct Certificate {
    pem: String,
    acceptor: TlsAcceptor,
}

impl Certificate {
    pub(crate) fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
        Self {
            pem: made.cert.pem(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        }
    }
}

/// The server; it ends with the value.
pub(crate) struct WebhookServer {
    pub(crate) port: u16,
    pem: String,
    task: JoinHandle<()>,
}

impl WebhookServer {
    /// Port 0 takes any that is free.
    pub(crate) async fn start(port: u16, certificate: Certificate, judge: impl Judge) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let judge = Arc::new(judge);
        let Certificate { pem, acceptor } = certificate;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, judge) = (acceptor.clone(), judge.clone());
                tokio::spawn(async move {
                    if let Ok(mut stream) = acceptor.accept(stream).await {
                        answer(&mut stream, &*judge).await;
                    }
                });
            }
        });
        Self { port, pem, task }
    }

    /// `clientConfig` of a webhook that this server answers.
    pub(crate) fn client_config(&self) -> Value {
        json!({"url": format!("https://127.0.0.1:{}/validate", self.port), "caBundle": BASE64_STANDARD.encode(&self.pem)})
    }

    /// It is gone, and its port is free.
    pub(crate) async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(stream: &mut (impl AsyncRead + tokio::io::AsyncWrite + Unpin), judge: &impl Judge) {
    let Some(review) = read(stream).await else {
        return;
    };
    let request = review["request"].clone();
    let uid = request["uid"].clone();
    let response = match judge.judge(request).await {
        None => return std::future::pending().await,
        Some(Ok(())) => json!({"uid": uid, "allowed": true}),
        Some(Err(refusal)) => json!({"uid": uid, "allowed": false,
            "status": {"code": refusal.code, "message": refusal.message}}),
    };
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    let body = answer.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all((head + &body).as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// The review in a request.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Value> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && let Ok(review) = serde_json::from_str(body)
        {
            return Some(review);
        }
    }
}
