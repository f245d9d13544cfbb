//! Asks nodes' own status servers: the document, then whenever it changes (`docs/outlets.md`).
//!
//! A server is identified by the fingerprint of its certificate, by a named authority, or by the machine's trust store.
//! The token goes to no other.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use windrow_rack::{NodeIdentity, NodeReport, read_document};

use super::{Hub, NotTaken};
use crate::backoff::Backoff;
use crate::causes;
use crate::files::read_text;
use crate::pinned::{pinned, use_ring};

/// How long a server is asked to wait for a change, and how much longer its answer may take.
const WAIT: Duration = Duration::from_secs(120);
const ANSWER: Duration = Duration::from_secs(15);
const CONNECT: Duration = Duration::from_secs(5);
/// Pauses while a server does not answer; and after each answer, so that false answers gain nothing.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
const BETWEEN: Duration = Duration::from_millis(500);
/// A document up to this size is read at the same time as any number of others; of larger ones, only this many.
const SMALL: usize = 128 << 10;
pub(super) const LARGE_AT_ONCE: usize = 2;
/// The largest document, and its largest memory while it is read.
const LARGEST: usize = 8 << 20;
const LARGEST_PARSED: usize = 64 << 20;

#[derive(Debug, Clone, Default)]
pub(crate) struct AskedServer {
    pub(crate) url: String,
    pub(crate) fingerprint: String,
    pub(crate) identity: Option<NodeIdentity>,
}

impl AskedServer {
    /// Over any other protocol the token would be sent in clear text.
    pub(crate) fn speaks_https(&self) -> bool {
        let url: Result<reqwest::Url, _> = self.url.parse();
        url.is_ok_and(|url| url.scheme() == "https")
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct AskWith {
    pub(crate) token: Option<Arc<String>>,
    /// A certificate authority, as PEM.
    pub(crate) authority: Option<Arc<String>>,
}

impl AskWith {
    /// Reads the files of both.
    ///
    /// # Errors
    ///
    /// The file that cannot be read, and why.
    pub(crate) fn read(token: Option<&Path>, authority: Option<&Path>) -> Result<Self, String> {
        let read = |path: &Path| {
            let text = read_text(path).map_err(|error| format!("{}: {error}", path.display()));
            text.map(|text| Arc::new(text.trim().to_owned()))
        };
        Ok(Self {
            token: token.map(read).transpose()?,
            authority: authority.map(read).transpose()?,
        })
    }

    fn client(&self, server: &AskedServer) -> Result<Client, String> {
        use_ring();
        let mut builder = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(0);
        if !server.fingerprint.is_empty() {
            builder = builder.tls_backend_preconfigured(pinned(&server.fingerprint)?);
        } else if let Some(authority) = &self.authority {
            let certificates = reqwest::Certificate::from_pem_bundle(authority.as_bytes())
                .map_err(|error| causes::in_words(&error))?;
            builder = builder.tls_certs_only(certificates);
        }
        builder.build().map_err(|error| causes::in_words(&error))
    }
}

struct Answered {
    report: NodeReport,
    document: Vec<u8>,
}

/// Asks a server again and again; with `patience`, until it has not answered for this long.
pub(crate) async fn follow(
    hub: Arc<Hub>,
    server: AskedServer,
    with: AskWith,
    patience: Option<Duration>,
) {
    let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
    let mut last: Option<NodeReport> = None;
    let mut answered_at = Instant::now();
    let about = [format!("url {}", server.url), about_name(&server)];
    let about = About(&hub, about);
    loop {
        let from = last.as_ref().and_then(|report| report.generation);
        let asked = ask(&hub, &server, &with, from).await;
        hub.note(
            &about.1[0],
            asked
                .as_ref()
                .err()
                .map(|why| format!("{}: {why}", shown(&server.url))),
        );
        match asked {
            Ok(answered) => {
                pauses.reset();
                answered_at = Instant::now();
                take(&hub, answered, &mut last).await;
                tokio::time::sleep(BETWEEN).await;
            }
            Err(_) if patience.is_some_and(|most| answered_at.elapsed() > most) => break,
            Err(_) => pauses.wait().await,
        }
    }
}

/// Asks a server once.
///
/// # Errors
///
/// Why there is no answer, in a line.
pub(crate) async fn once(hub: &Hub, server: &AskedServer, with: &AskWith) -> Result<(), String> {
    let answered = ask(hub, server, with, None).await?;
    take(hub, answered, &mut None).await;
    Ok(())
}

struct About<'h>(&'h Hub, [String; 2]);

impl Drop for About<'_> {
    fn drop(&mut self) {
        for about in &self.1 {
            self.0.note(about, None);
        }
    }
}

fn about_name(server: &AskedServer) -> String {
    format!("name {}", server.url)
}

async fn take(hub: &Hub, answered: Option<Answered>, last: &mut Option<NodeReport>) {
    let report = match answered {
        Some(answered) => {
            hub.put_document(&answered.report.identity, answered.document);
            answered.report
        }
        // Nothing has changed, and the node answers.
        None => match last.take() {
            Some(mut report) => {
                let now = hub.now();
                let later = now.duration_since(report.received);
                report.sent = report.sent.and_then(|sent| sent.checked_add(later).ok());
                report.received = now;
                report
            }
            None => return,
        },
    };
    let taken = hub.take(report.clone()).await;
    // A report that could not be kept is shown as a notice.
    if !matches!(taken, Err(NotTaken::Full(_))) {
        *last = Some(report);
    }
}

/// The document once its generation differs from `from`; `None` when it does not for a while.
async fn ask(
    hub: &Hub,
    server: &AskedServer,
    with: &AskWith,
    from: Option<u64>,
) -> Result<Option<Answered>, String> {
    let client = with.client(server)?;
    let mut url: reqwest::Url = server.url.parse().map_err(|error| format!("{error}"))?;
    if let Some(from) = from {
        let query = format!("generation={from}&timeout={}s", WAIT.as_secs());
        url.set_query(Some(&query));
    }
    let mut request = client.get(url).timeout(WAIT + ANSWER);
    if let Some(token) = with.token.as_ref().filter(|_| server.speaks_https()) {
        request = request.bearer_auth(token);
    }
    let answer = request
        .send()
        .await
        .map_err(|error| causes::in_words(&error))?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::NOT_MODIFIED => return Ok(None),
        StatusCode::UNAUTHORIZED => {
            return Err("it wants another token (--ask-token-file)".to_owned());
        }
        status => return Err(format!("it answers HTTP {}", status.as_u16())),
    }
    let sent = answer
        .headers()
        .get("date")
        .and_then(|date| date.to_str().ok());
    let sent = sent.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    let sent: Option<Timestamp> = sent.map(|zoned| zoned.timestamp());
    // The place of a large document is returned once only its bytes are left in memory.
    let (bytes, _place) = read_body(&hub.large_documents, ANSWER, answer).await?;
    if parsed_size(&bytes) > LARGEST_PARSED {
        return Err("its document has more parts than any status has".to_owned());
    }
    let document: Value =
        serde_json::from_slice(&bytes).map_err(|_| "its answer is not JSON".to_owned())?;
    let read = hub
        .with_inventory(|list| {
            let asked = server.identity.as_ref().map(|asked| (asked, list));
            read_document(&document, hub.now(), sent, asked)
        })
        .map_err(|wrong| wrong.join("; "))?;
    let report = read.report;
    let about = about_name(server);
    hub.note(
        &about,
        read.contradiction.map(|name| {
            let at = shown(&server.url);
            format!("{at}: its document says that it is {name}, which the list does not: what it says is shown of the node that the list has there")
        }),
    );
    Ok(Some(Answered {
        report,
        document: bytes,
    }))
}

trait Pieces: Send {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<u8>>, String>> + Send;
}

impl Pieces for Response {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let piece = self.chunk().await;
        piece
            .map(|piece| piece.map(Vec::from))
            .map_err(|error| causes::in_words(&error))
    }
}

/// Reads a body. A large one takes one of the few places, so that servers that answer slowly at the same time do not
/// fill the memory together. It returns the place after a while, so that they do not keep the others waiting.
async fn read_body(
    places: &Semaphore,
    patience: Duration,
    mut body: impl Pieces,
) -> Result<(Vec<u8>, Option<SemaphorePermit<'_>>), String> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await? {
        bytes.extend(piece);
        if bytes.len() > SMALL {
            let place = places.acquire().await.map_err(|error| error.to_string())?;
            let rest = timeout(patience, read_rest(&mut bytes, body)).await;
            let late = |_| format!("its document did not end within {} s", patience.as_secs());
            rest.map_err(late)??;
            return Ok((bytes, Some(place)));
        }
    }
    Ok((bytes, None))
}

async fn read_rest(bytes: &mut Vec<u8>, mut body: impl Pieces) -> Result<(), String> {
    while bytes.len() <= LARGEST {
        match body.next().await? {
            Some(piece) => bytes.extend(piece),
            None => return Ok(()),
        }
    }
    Err("its document is larger than 8 MiB".to_owned())
}

/// An upper estimate of a document's memory after parsing: a short value takes more than its text.
fn parsed_size(document: &[u8]) -> usize {
    /// A value, and a map with its first key, which has room for more.
    const VALUE: usize = 32;
    const MAP: usize = 720;
    let (mut size, mut in_text, mut escaped) = (document.len(), false, false);
    for byte in document {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' => size += MAP,
            // A list begins with room for four.
            b'[' => size += 4 * VALUE,
            b',' => size += 2 * VALUE,
            _ => {}
        }
    }
    size
}

fn shown(url: &str) -> String {
    let parsed: Result<reqwest::Url, _> = url.parse();
    parsed.map_or_else(
        |_| "a status server".to_owned(),
        |url| url.origin().ascii_serialization(),
    )
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(180);

    fn body() -> (mpsc::Sender<Vec<u8>>, mpsc::Receiver<Vec<u8>>) {
        mpsc::channel(1)
    }

    impl Pieces for mpsc::Receiver<Vec<u8>> {
        async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
            Ok(self.recv().await)
        }
    }

    #[tokio::test]
    async fn a_few_large_documents_are_read_at_a_time_and_small_ones_beside_them() {
        let places = Semaphore::new(1);
        let ((first, of_first), (second, of_second)) = (body(), body());
        let (of_first, of_second) = (
            read_body(&places, PATIENCE, of_first),
            read_body(&places, PATIENCE, of_second),
        );
        let play = async {
            first.send(vec![b'x'; SMALL + 1]).await.unwrap();
            first.send(b"x".to_vec()).await.unwrap();
            second.send(vec![b'y'; SMALL + 1]).await.unwrap();
            second.send(b"y".to_vec()).await.unwrap();
            // Its second piece is not read.
            assert!(second.try_send(b"y".to_vec()).is_err());
            let (small, of_small) = body();
            small.send(vec![b'z'; SMALL]).await.unwrap();
            drop(small);
            let (bytes, place) = read_body(&places, PATIENCE, of_small).await.unwrap();
            assert_eq!((bytes.len(), place.is_none()), (SMALL, true));
            assert!(second.try_send(b"y".to_vec()).is_err());
            drop((first, second));
        };
        let first = async {
            let (bytes, place) = of_first.await.unwrap();
            assert_eq!(places.available_permits(), 0);
            drop(place);
            bytes.len()
        };
        let second = async { of_second.await.unwrap().0.len() };
        assert_eq!(
            tokio::join!(play, first, second),
            ((), SMALL + 2, SMALL + 2)
        );
    }

    #[tokio::test]
    async fn a_document_that_stalls_or_is_too_large_gives_its_place_back() {
        let places = Semaphore::new(1);
        let (stalls, pieces) = body();
        stalls.send(vec![b'x'; SMALL + 1]).await.unwrap();
        let why = read_body(&places, Duration::ZERO, pieces)
            .await
            .unwrap_err();
        assert_eq!(why, "its document did not end within 0 s");
        let (grows, pieces) = body();
        let grow = async { while grows.send(vec![b'x'; 1 << 20]).await.is_ok() {} };
        let (read, ()) = tokio::join!(read_body(&places, PATIENCE, pieces), grow);
        assert_eq!(read.unwrap_err(), "its document is larger than 8 MiB");
        assert_eq!(places.available_permits(), 1);
    }
}
