//! Tests of the handle for a user: commands that print credentials, and proxies. The commands are real ones.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{fs, io};

use http::Response;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::tests::{PATIENCE, TestAuthority, TestServer, VERSION, kubeconfig};
use super::{ApiServer, ReadFor};
use crate::causes;

fn person() -> ApiServer {
    ApiServer::made(ReadFor::Person, PATIENCE, PATIENCE, None, true)
}

const V1: &str = "client.authentication.k8s.io/v1";
const BETA: &str = "client.authentication.k8s.io/v1beta1";

fn printed(version: &str, status: Value) -> String {
    json!({"kind": "ExecCredential", "apiVersion": version, "status": status}).to_string()
}

struct PluginDir(tempfile::TempDir);

impl PluginDir {
    fn new(script: &str) -> Self {
        let directory = Self(tempfile::tempdir().unwrap());
        directory.write("login.sh", script);
        directory
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).unwrap();
    }

    fn lines(&self, name: &str) -> usize {
        let text = fs::read_to_string(self.path().join(name)).unwrap_or_default();
        text.lines().count()
    }

    /// A user whose credential the script prints, with further fields.
    fn user(&self, version: &str, fields: &str) -> String {
        let place = self.path().display();
        format!(
            "exec: {{apiVersion: {version}, command: sh, args: ['{place}/login.sh', '{place}'], {fields}}}"
        )
    }

    fn kubeconfig(&self, cluster: &str, version: &str, fields: &str) -> PathBuf {
        kubeconfig(self.path(), cluster, &self.user(version, fields))
    }
}

/// Records each time that it ran, and prints the content of a file.
const PRINTS: &str = "echo ran >> \"$1/runs\"; cat \"$1/printed\"\n";
const NEVER: &str = "interactiveMode: Never";

async fn ask(api: &ApiServer, path: &Path) -> Result<String, String> {
    let client = api.client(path).await?;
    let version = client.apiserver_version().await;
    version
        .map(|version| version.git_version)
        .map_err(|error| causes::in_words(&error))
}

#[tokio::test]
async fn a_command_is_told_what_is_wanted_and_its_token_goes_with_every_request() {
    let place = PluginDir::new(
        "printf '%s' \"$KUBERNETES_EXEC_INFO\" > \"$1/info\"\n\
         printf '{\"kind\": \"ExecCredential\", \"apiVersion\": \"%s\", \"status\": {\"token\": \"%s\"}}' \"$VERSION\" \"$TOKEN\"\n",
    );
    let mut server = TestServer::start(None).await;
    let cluster = format!("server: '{}'", server.url);
    for (version, more) in [
        (V1, "interactiveMode: IfAvailable, provideClusterInfo: true"),
        (BETA, "installHint: none"),
    ] {
        let env =
            format!("env: [{{name: VERSION, value: {version}}}, {{name: TOKEN, value: abc}}]");
        let path = place.kubeconfig(&cluster, version, &format!("{env}, {more}"));
        let api = person();
        for _ in 0..2 {
            assert_eq!(ask(&api, &path).await.as_deref(), Ok("v1.35.0"));
            let (_, header) = server.asked.recv().await.unwrap();
            assert_eq!(header.as_deref(), Some("Bearer abc"));
        }
        let info = fs::read_to_string(place.path().join("info")).unwrap();
        let info: Value = serde_json::from_str(&info).unwrap();
        assert_eq!(info["kind"], "ExecCredential");
        assert_eq!(info["apiVersion"], version);
        // No test has a terminal to ask on; one that runs in a terminal has.
        assert!(info["spec"]["interactive"].is_boolean());
        let wanted = (version == V1).then(|| json!({ "server": server.url }));
        assert_eq!(info["spec"].get("cluster"), wanted.as_ref());
    }
}

#[tokio::test]
async fn a_client_certificate_is_fetched_again_when_it_has_ended_and_has_connections_of_its_own() {
    let (authority, clients) = (TestAuthority::new(), TestAuthority::new());
    let tls = authority.serves("127.0.0.1", Some(&clients));
    let server = TestServer::start(Some(tls)).await;
    let place = PluginDir::new(PRINTS);
    place.write("ca.crt", &authority.pem);
    let put = |ends: Timestamp| {
        let (certificate, key) = clients.issue("ada");
        let status = json!({
            "clientCertificateData": certificate,
            "clientKeyData": key,
            "expirationTimestamp": ends.to_string(),
        });
        place.write("printed", &printed(V1, status));
    };
    let hour = SignedDuration::from_hours(1);
    put(Timestamp::now() - hour);
    let cluster = format!("server: '{}', certificate-authority: ca.crt", server.url);
    let path = place.kubeconfig(&cluster, V1, NEVER);
    let api = person();
    let client = api.client(&path).await.unwrap();
    assert_eq!(place.lines("runs"), 1);
    put(Timestamp::now() + hour);
    for _ in 0..3 {
        client.apiserver_version().await.unwrap();
    }
    assert_eq!(place.lines("runs"), 2);
    assert_eq!(server.accepted.load(Ordering::SeqCst), 1);
    // Requests of the same handle have the same credential.
    ask(&api, &path).await.unwrap();
    assert_eq!(place.lines("runs"), 2);
}

#[tokio::test]
async fn a_token_that_has_ended_or_was_refused_is_fetched_again_once_for_all_who_ask() {
    let place = PluginDir::new(PRINTS);
    let refuse = |target: &str| match target {
        "/version" => Response::new(VERSION.into()),
        _ => {
            let text = r#"{"kind": "Status", "status": "Failure", "code": 401, "message": "m", "reason": "r"}"#;
            Response::builder().status(401).body(text.into()).unwrap()
        }
    };
    let mut server = TestServer::saying(None, refuse).await;
    let ends = Timestamp::now() + SignedDuration::from_hours(1);
    let put = |token: &str, ends: Timestamp| {
        let status = json!({"token": token, "expirationTimestamp": ends.to_string()});
        place.write("printed", &printed(V1, status));
    };
    put("first", ends);
    let path = place.kubeconfig(&format!("server: '{}'", server.url), V1, NEVER);
    let client = person().client(&path).await.unwrap();
    client.apiserver_version().await.unwrap();
    put("second", ends);
    client.apiserver_version().await.unwrap();
    let refused = http::Request::get("/other").body(Vec::new()).unwrap();
    client.request_text(refused).await.unwrap_err();
    let asks = (0..4).map(|_| client.apiserver_version());
    for asked in futures::future::join_all(asks).await {
        asked.unwrap();
    }
    let mut sent = Vec::new();
    for _ in 0..7 {
        sent.push(server.asked.recv().await.unwrap().1.unwrap());
    }
    let (before, behind) = sent.split_at(3);
    assert!(
        before.iter().all(|header| header == "Bearer first"),
        "{sent:?}"
    );
    assert!(
        behind.iter().all(|header| header == "Bearer second"),
        "{sent:?}"
    );
    assert_eq!(place.lines("runs"), 2);
}

#[tokio::test]
async fn a_command_that_brings_no_credential_is_named_with_its_file_line_and_user_and_nothing_secret()
 {
    let place = PluginDir::new("echo hunter2; exit 3\n");
    let cluster = "server: 'https://127.0.0.1:1'";
    let at = |path: &Path| format!("{}:4: `", path.display());
    let path = place.kubeconfig(cluster, V1, NEVER);
    let why = ask(&person(), &path).await.unwrap_err();
    let expected = at(&path)
        + "sh`, which prints the credential of \"u\", has failed (exit status: 3): its output is above";
    assert_eq!(why, expected);
    // It hangs, and is ended.
    place.write(
        "login.sh",
        "echo $$ > \"$1/process\"; exec tail -f /dev/null\n",
    );
    let impatient = ApiServer::made(
        ReadFor::Person,
        PATIENCE,
        Duration::from_secs(2),
        None,
        true,
    );
    let why = ask(&impatient, &path).await.unwrap_err();
    assert!(
        why.contains("has printed nothing whole within 2 s and was ended"),
        "{why}"
    );
    let process = fs::read_to_string(place.path().join("process")).unwrap();
    assert!(!Path::new("/proc").join(process.trim()).exists());
    place.write("login.sh", PRINTS);
    let (certificate, key) = TestAuthority::new().issue("ada");
    let (_, other) = TestAuthority::new().issue("ada");
    for (text, expected) in [
        ("hunter2".to_owned(), "has printed no ExecCredential"),
        ("{hunter2".to_owned(), "has printed no ExecCredential"),
        (String::new(), "has printed no ExecCredential"),
        (
            json!({"kind": "Secret", "token": "hunter2"}).to_string(),
            "has printed no ExecCredential",
        ),
        (
            printed(BETA, json!({"token": "hunter2"})),
            "has printed another version than the kubeconfig's",
        ),
        (
            printed(V1, json!({})),
            "has printed neither a token nor a client certificate",
        ),
        (
            printed(V1, json!({"token": "hunter2\n"})),
            "has printed a token that no request can carry",
        ),
        (
            printed(V1, json!({"clientKeyData": key})),
            "has printed only one of client certificate and key",
        ),
        (
            printed(
                V1,
                json!({"clientCertificateData": certificate, "clientKeyData": other}),
            ),
            "has printed a client certificate and a key that cannot be used together",
        ),
        (
            printed(
                V1,
                json!({"token": "hunter2", "expirationTimestamp": "tomorrow"}),
            ),
            "has printed an `expirationTimestamp` that is not a valid time",
        ),
    ] {
        place.write("printed", &text);
        let why = ask(&person(), &path).await.unwrap_err();
        assert!(why.starts_with(&at(&path)), "{why}");
        assert!(why.contains(expected), "{why}\nnot: {expected}");
        assert!(!why.contains("hunter2"), "{why}");
    }
    let exec = |fields: &str| {
        kubeconfig(
            place.path(),
            cluster,
            &format!("exec: {{apiVersion: {V1}, {fields}}}"),
        )
    };
    for (fields, expected) in [
        (
            "command: windrow-no-such, interactiveMode: Never",
            "is not there, in no directory of PATH: install it",
        ),
        (
            "command: ./none, interactiveMode: Never, installHint: \"get\\eit\"",
            "is not there. get\\u{1b}it",
        ),
    ] {
        let why = ask(&person(), &exec(fields)).await.unwrap_err();
        assert!(why.contains(expected), "{why}");
    }
    // While the terminal is in use, the command asks nothing there.
    let api = person();
    api.leave_terminal();
    let why = ask(&api, &exec("command: sh, interactiveMode: Always"))
        .await
        .unwrap_err();
    assert!(why.contains("wants to ask on the terminal"), "{why}");
}

#[tokio::test]
async fn the_daemons_handle_runs_no_command_that_a_kubeconfig_names() {
    let place = PluginDir::new(PRINTS);
    place.write("printed", &printed(V1, json!({"token": "abc"})));
    let server = TestServer::start(None).await;
    let path = place.kubeconfig(&format!("server: '{}'", server.url), V1, NEVER);
    let why = ask(&super::tests::api(), &path).await.unwrap_err();
    assert!(
        why.contains("config:4: `exec` is not supported here: no credential plugin is run"),
        "{why}"
    );
    assert_eq!(place.lines("runs"), 0);
    // The same file is accepted by the handle for a user.
    ask(&person(), &path).await.unwrap();
    assert_eq!(place.lines("runs"), 1);
}

/// A proxy that lets every connection through whose first line is this, and returns the target.
async fn proxied(listener: TcpListener, socks: bool) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let mut stream = BufReader::new(stream);
        let address = match socks {
            true => socks_target(&mut stream).await?,
            false => connect_target(&mut stream).await?,
        };
        tokio::spawn(async move {
            let mut far = TcpStream::connect(address).await?;
            tokio::io::copy_bidirectional(&mut stream, &mut far).await
        });
    }
}

/// RFC 9110, 9.3.6.
async fn connect_target(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    if !lines
        .iter()
        .any(|line| line == "Proxy-Authorization: Basic bWU6aHVudGVyMg==")
    {
        stream
            .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            .await?;
        return Ok("127.0.0.1:1".to_owned());
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    Ok(lines[0].split(' ').nth(1).unwrap().to_owned())
}

/// RFC 1928, without a name and only for IPv4.
async fn socks_target(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut hello = [0; 3];
    stream.read_exact(&mut hello).await?;
    stream.write_all(&[5, 0]).await?;
    let mut wanted = [0; 4];
    stream.read_exact(&mut wanted).await?;
    let host = match wanted[3] {
        1 => {
            let mut address = [0; 4];
            stream.read_exact(&mut address).await?;
            std::net::Ipv4Addr::from(address).to_string()
        }
        _ => {
            let mut name = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut name).await?;
            String::from_utf8(name).unwrap()
        }
    };
    let port = stream.read_u16().await?;
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    Ok(format!("{host}:{port}"))
}

#[tokio::test]
async fn a_person_reaches_the_server_through_the_proxy_of_the_kubeconfig() {
    let directory = tempfile::tempdir().unwrap();
    let authority = TestAuthority::new();
    let server = TestServer::start(Some(authority.serves("127.0.0.1", None))).await;
    fs::write(directory.path().join("ca.crt"), &authority.pem).unwrap();
    let path = |proxy: &str| {
        let cluster = format!(
            "server: '{}', certificate-authority: ca.crt, proxy-url: '{proxy}'",
            server.url
        );
        kubeconfig(directory.path(), &cluster, "token: abc")
    };
    for socks in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = tokio::spawn(proxied(listener, socks));
        let url = match socks {
            true => format!("socks5://{address}"),
            false => format!("http://me:hunter2@{address}"),
        };
        let accepted = server.accepted.load(Ordering::SeqCst);
        assert_eq!(ask(&person(), &path(&url)).await.as_deref(), Ok("v1.35.0"));
        assert_eq!(server.accepted.load(Ordering::SeqCst), accepted + 1);
        if !socks {
            let why = ask(&person(), &path(&format!("http://{address}")))
                .await
                .unwrap_err();
            let expected =
                format!("the proxy {address} brings no connection: it wants a name and a password");
            assert!(why.starts_with(&expected), "{why}");
        }
        proxy.abort();
        assert!(proxy.await.is_err());
        let why = ask(&person(), &path(&url)).await.unwrap_err();
        assert!(why.starts_with(&format!("the proxy {address} ")), "{why}");
        assert!(!why.contains("hunter2"), "{why}");
    }
}
