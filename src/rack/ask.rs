//! Asks nodes' own status servers: the document, then whenever it changes (`docs/outlets.md`).
//!
//! A server is identified by the fingerprint of its certificate, by a named authority, or by the machine's trust store.
//! The token goes to no other.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use windrow_rack::{NodeIdentity, NodeReport, read_document};

use super::bounded_client::{BoundedAnswer, BoundedClient, ServerIdentity};
use super::{Hub, NotTaken};
use crate::backoff::Backoff;
use crate::files::read_text;

/// How long a server is asked to wait for a change, and how much longer its answer may take.
const WAIT: Duration = Duration::from_secs(120);
const ANSWER: Duration = Duration::from_secs(15);
const CONNECT: Duration = Duration::from_secs(5);
/// Pauses while a server does not answer; and after each answer, so that false answers gain nothing.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
const BETWEEN: Duration = Duration::from_millis(500);
/// Documents up to this size are read at the same time while they have no more than `SMALL_TOGETHER`; of larger ones, only
/// this many are.
const SMALL: usize = 128 << 10;
const SMALL_TOGETHER: usize = 64 << 20;
const LARGE_AT_ONCE: usize = 2;
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

    fn client(&self, server: &AskedServer) -> Result<BoundedClient, String> {
        let identity = match &self.authority {
            _ if !server.fingerprint.is_empty() => ServerIdentity::Fingerprint(&server.fingerprint),
            Some(authority) => ServerIdentity::Authority(authority),
            // Reading what the machine trusts takes a while.
            None if server.speaks_https() => ServerIdentity::Machine,
            None => ServerIdentity::Unproved,
        };
        BoundedClient::new(identity, CONNECT)
    }
}

/// The room for the documents that are being read, so that servers that answer slowly at the same time do not fill the
/// memory together.
#[derive(Debug)]
pub(super) struct ReadingRoom {
    /// In bytes.
    small: Semaphore,
    large: Semaphore,
}

impl ReadingRoom {
    const fn new(small: usize, large: usize) -> Self {
        Self {
            small: Semaphore::const_new(small),
            large: Semaphore::const_new(large),
        }
    }

    /// Waits for room for a document of this length; for the largest one if the length is unknown.
    async fn take(&self, length: Option<u64>) -> Result<SemaphorePermit<'_>, String> {
        let length = length.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        let place = match length {
            Some(length) if length > LARGEST => return Err(too_large()),
            Some(length) if length <= SMALL => {
                let bytes = u32::try_from(length).unwrap_or(u32::MAX);
                self.small.acquire_many(bytes).await
            }
            _ => self.large.acquire().await,
        };
        place.map_err(|error| error.to_string())
    }
}

impl Default for ReadingRoom {
    fn default() -> Self {
        Self::new(SMALL_TOGETHER, LARGE_AT_ONCE)
    }
}

fn too_large() -> String {
    format!("its document is larger than {} MiB", LARGEST >> 20)
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
    let token = with.token.as_deref().filter(|_| server.speaks_https());
    let head = timeout(
        WAIT + ANSWER,
        client.get(url.as_str(), token.map(String::as_str)),
    );
    let answer = head.await.map_err(|_| {
        let seconds = (WAIT + ANSWER).as_secs();
        format!("it does not answer within {seconds} s")
    })??;
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
    // The place is returned once only the document's bytes are left in memory.
    let (bytes, _place) = read_body(&hub.reading, ANSWER, answer).await?;
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
    /// The length of all pieces, if the server declares it.
    fn length(&self) -> Option<u64>;

    /// The next piece; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<u8>>, String>> + Send;
}

impl Pieces for BoundedAnswer {
    fn length(&self) -> Option<u64> {
        self.declared_length()
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let piece = self.next_piece().await;
        piece.map(|piece| piece.map(Vec::from))
    }
}

/// Waits for a place, and reads a body. A server returns its place after a while, so that it does not keep the others
/// waiting.
async fn read_body(
    room: &ReadingRoom,
    patience: Duration,
    body: impl Pieces,
) -> Result<(Vec<u8>, SemaphorePermit<'_>), String> {
    let place = room.take(body.length()).await?;
    let read = timeout(patience, read_all(body)).await;
    let late = |_| format!("its document did not end within {} s", patience.as_secs());
    Ok((read.map_err(late)??, place))
}

async fn read_all(mut body: impl Pieces) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await? {
        bytes.extend(piece);
        if bytes.len() > LARGEST {
            return Err(too_large());
        }
    }
    Ok(bytes)
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
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(180);

    /// A body that a test sends piece by piece, and its length if the head declares it.
    struct Sent(Option<u64>, mpsc::Receiver<Vec<u8>>);

    fn body(length: Option<usize>) -> (mpsc::Sender<Vec<u8>>, Sent) {
        let (sender, pieces) = mpsc::channel(1);
        (sender, Sent(length.map(|length| length as u64), pieces))
    }

    /// Each of the other futures goes as far as it can.
    async fn others_go_on() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    impl Pieces for Sent {
        fn length(&self) -> Option<u64> {
            self.0
        }

        async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
            Ok(self.1.recv().await)
        }
    }

    #[tokio::test]
    async fn a_few_large_documents_are_read_at_a_time_and_small_ones_beside_them() {
        let room = ReadingRoom::new(SMALL, 1);
        // A length that is not declared may be a large one.
        for length in [None, Some(SMALL + 2)] {
            let ((first, of_first), (second, of_second)) = (body(length), body(length));
            let (of_first, of_second) = (
                read_body(&room, PATIENCE, of_first),
                read_body(&room, PATIENCE, of_second),
            );
            let play = async {
                first.send(vec![b'x'; SMALL]).await.unwrap();
                first.send(b"xx".to_vec()).await.unwrap();
                second.send(b"y".to_vec()).await.unwrap();
                others_go_on().await;
                // Nothing of it is read.
                assert!(second.try_send(b"y".to_vec()).is_err());
                let (small, of_small) = body(Some(SMALL));
                small.send(vec![b'z'; SMALL]).await.unwrap();
                drop(small);
                let (bytes, _place) = read_body(&room, PATIENCE, of_small).await.unwrap();
                assert_eq!(bytes.len(), SMALL);
                assert!(second.try_send(b"y".to_vec()).is_err());
                drop((first, second));
            };
            let first = async {
                let (bytes, place) = of_first.await.unwrap();
                assert_eq!(room.large.available_permits(), 0);
                drop(place);
                bytes.len()
            };
            let second = async { of_second.await.unwrap().0.len() };
            assert_eq!(tokio::join!(play, first, second), ((), SMALL + 2, 1));
        }
    }

    #[tokio::test]
    async fn small_documents_wait_too_once_those_that_are_read_may_take_all_of_their_memory() {
        let room = ReadingRoom::new(2 * SMALL, 1);
        let ((first, of_first), (second, of_second)) = (body(Some(SMALL)), body(Some(SMALL)));
        let (third, of_third) = body(Some(1));
        let (ended, has_ended) = oneshot::channel();
        let play = async {
            for stalls in [&first, &second] {
                stalls.send(b"x".to_vec()).await.unwrap();
                stalls.send(b"x".to_vec()).await.unwrap();
            }
            third.send(b"y".to_vec()).await.unwrap();
            others_go_on().await;
            // Nothing of it is read.
            assert!(third.try_send(b"y".to_vec()).is_err());
            drop((first, third));
            has_ended.await.unwrap();
            drop(second);
        };
        let read = async |pieces| read_body(&room, PATIENCE, pieces).await.unwrap().0.len();
        let third = async {
            let third = read(of_third).await;
            ended.send(()).unwrap();
            third
        };
        let read = tokio::join!(play, read(of_first), read(of_second), third);
        assert_eq!(read, ((), 2, 2, 1));
    }

    #[tokio::test]
    async fn a_document_that_stalls_or_is_too_large_gives_its_place_back() {
        for (length, of_all) in [(None, 1), (Some(SMALL), SMALL)] {
            let room = ReadingRoom::new(SMALL, 1);
            let (stalls, pieces) = body(length);
            stalls.send(b"x".to_vec()).await.unwrap();
            let why = read_body(&room, Duration::ZERO, pieces).await.unwrap_err();
            assert_eq!(why, "its document did not end within 0 s");
            let places = length.map_or(&room.large, |_| &room.small);
            assert_eq!(places.available_permits(), of_all);
        }
        let room = ReadingRoom::new(SMALL, 1);
        let (grows, pieces) = body(None);
        let grow = async { while grows.send(vec![b'x'; 1 << 20]).await.is_ok() {} };
        let (read, ()) = tokio::join!(read_body(&room, PATIENCE, pieces), grow);
        assert_eq!(read.unwrap_err(), "its document is larger than 8 MiB");
        let (_unread, pieces) = body(Some(LARGEST + 1));
        let read = read_body(&room, PATIENCE, pieces).await;
        assert_eq!(read.unwrap_err(), "its document is larger than 8 MiB");
        assert_eq!(room.large.available_permits(), 1);
    }
}
