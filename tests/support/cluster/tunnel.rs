//! The way of kube-apiserver to pods: its egress selector and a tunnel (HTTP CONNECT), as RKE2 has them.
//!
//! kube-apiserver calls a webhook or an API by its Service. It looks for a ready pod in the EndpointSlices, as with RKE2's
//! `--enable-aggregator-routing`, and asks the tunnel for that pod's address. No address of loopback may be in an EndpointSlice, so a
//! pod has one of [`PODS`], and the tunnel connects to the address on loopback where its program listens.

use std::fs;
use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::pki::{PROXY, Pki};

/// The first three bytes of the address of each pod.
const PODS: [u8; 3] = [10, 42, 0];

/// The address of the pod with this number.
pub(super) fn pod_address(number: u8) -> Ipv4Addr {
    let [a, b, c] = PODS;
    Ipv4Addr::new(a, b, c, number)
}

/// The address on which the program of the pod with this number listens. It contains the port of kube-apiserver, so that two clusters can
/// run at the same time.
pub(super) fn loopback_address(port: u16, number: u8) -> Ipv4Addr {
    let [high, low] = port.to_be_bytes();
    Ipv4Addr::new(127, high, low, number)
}

/// The arguments with which kube-apiserver goes through the tunnel, and shows itself to APIs.
pub(super) fn arguments(dir: &Path, pki: &Pki) -> Vec<String> {
    let config = dir.join("egress.yaml");
    let text = format!(
        "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n\
         - name: cluster\n  connection: {{proxyProtocol: HTTPConnect, transport: {{uds: {{udsName: {}}}}}}}\n",
        socket(dir).display()
    );
    fs::write(&config, text).expect("the cluster's directory is writable");
    let (certificate, key) = pki.proxy();
    vec![
        "--enable-aggregator-routing=true".to_owned(),
        format!("--egress-selector-config-file={}", config.display()),
        format!("--proxy-client-cert-file={}", certificate.display()),
        format!("--proxy-client-key-file={}", key.display()),
        format!("--requestheader-client-ca-file={}", pki.ca().display()),
        format!("--requestheader-allowed-names={PROXY}"),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
    ]
}

fn socket(dir: &Path) -> std::path::PathBuf {
    dir.join("tunnel.sock")
}

/// The tunnel; it ends with the value.
pub(super) struct Tunnel(JoinHandle<()>);

impl Tunnel {
    /// Starts the tunnel of the kube-apiserver on this port.
    pub(super) fn start(dir: &Path, port: u16) -> Self {
        let listener =
            UnixListener::bind(socket(dir)).expect("the cluster's directory is writable");
        Self(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    // Either end may go at any time.
                    let _ = carry(stream, port).await;
                });
            }
        }))
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn carry(mut stream: UnixStream, port: u16) -> Result<(), Error> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let wanted = head
        .split(' ')
        .nth(1)
        .and_then(|address| address.parse().ok());
    let connected = match wanted {
        Some(address) => TcpStream::connect(on_loopback(address, port)).await,
        None => Err(Error::from(ErrorKind::InvalidInput)),
    };
    let Ok(mut pod) = connected else {
        // As RKE2's tunnel.
        let refusal = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n";
        return stream.write_all(refusal).await;
    };
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut stream, &mut pod).await.map(drop)
}

fn on_loopback(wanted: SocketAddrV4, port: u16) -> SocketAddrV4 {
    match wanted.ip().octets() {
        [a, b, c, number] if [a, b, c] == PODS => {
            SocketAddrV4::new(loopback_address(port, number), wanted.port())
        }
        _ => wanted,
    }
}
