//! Requests and their answers within a bound, and why requests fail: the one place that says so.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;
use windrow_model::redact;

use super::Connection;
use crate::causes;
use crate::json_values::{ValueBudget, ValueError};

/// How long a request may take. Watches last longer, and are bounded in `follow`.
pub(crate) const ANSWER: Duration = Duration::from_secs(15);
/// The longest answer, in bytes, for requests other than metrics and lists of unknown length.
pub const LONGEST: usize = 16 << 20;
/// Most memory for the values of an answer, in bytes. Users of one namespace decide about the content of their objects:
/// each `{"key":"a"},` takes 60 times its length, and an object has 260,000 of them.
pub(super) const MOST_MEMORY: usize = 64 << 20;

/// The answer to a request. A wait that kube-apiserver asks for (`Retry-After`) does not count.
///
/// # Errors
///
/// Why no answer came within `ANSWER`.
pub async fn answer<T>(
    connection: &Connection,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, RequestFailure> {
    connection.wait().await;
    within(ANSWER, request).await
}

/// The answer to a request of `kube`'s.
///
/// # Errors
///
/// Why none came within this time, or kube-apiserver's refusal.
pub async fn within<T>(
    patience: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, RequestFailure> {
    match timeout(patience, request).await {
        Ok(answer) => answer.map_err(|error| RequestFailure::from_error(&error)),
        Err(_) => Err(RequestFailure::Late(patience)),
    }
}

/// Sends a request and reads the answer, of at most `longest` bytes.
///
/// # Errors
///
/// Why no whole answer came within this time. A refusal is an answer.
pub async fn send(
    client: &Client,
    request: http::Result<Request<Body>>,
    patience: Duration,
    longest: usize,
) -> Result<Reply, RequestFailure> {
    let answer = timeout(patience, async {
        let response = begin(client, request).await?;
        Reply::read(response, longest).await
    });
    let answer = answer.await;
    answer.unwrap_or(Err(RequestFailure::Late(patience)))
}

/// As [`send`], for a GET of a path.
///
/// # Errors
///
/// As for [`send`].
pub async fn get(
    client: &Client,
    path: &str,
    patience: Duration,
    longest: usize,
) -> Result<Reply, RequestFailure> {
    let request = Request::get(path).body(Body::empty());
    send(client, request, patience, longest).await
}

/// Sends a request whose answer lasts; the caller reads it.
///
/// # Errors
///
/// Why none began within this time, or the refusal.
pub async fn open(
    client: &Client,
    request: http::Result<Request<Body>>,
    patience: Duration,
) -> Result<Body, RequestFailure> {
    let answer = timeout(patience, async {
        let response = begin(client, request).await?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(Reply::read(response, LONGEST).await?.failure())
    });
    let answer = answer.await;
    answer.unwrap_or(Err(RequestFailure::Late(patience)))
}

async fn begin(
    client: &Client,
    request: http::Result<Request<Body>>,
) -> Result<Response<Body>, RequestFailure> {
    let request = request.map_err(|error| RequestFailure::Other(error.to_string()))?;
    let response = client.send(request).await;
    response.map_err(|error| RequestFailure::from_error(&error))
}

pub struct Reply {
    pub(crate) status: u16,
    pub body: Bytes,
}

impl Reply {
    /// Reads all of it.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, or that it is too large.
    async fn read(response: Response<Body>, longest: usize) -> Result<Self, RequestFailure> {
        let status = response.status().as_u16();
        match Limited::new(response.into_body(), longest).collect().await {
            Ok(body) => Ok(Self {
                status,
                body: body.to_bytes(),
            }),
            Err(error) if error.is::<LengthLimitError>() => Err(RequestFailure::TooLarge(longest)),
            Err(error) => Err(RequestFailure::Other(causes::in_words(&*error))),
        }
    }

    /// # Errors
    ///
    /// The refusal.
    pub fn granted(self) -> Result<Self, RequestFailure> {
        match self.status {
            200..300 => Ok(self),
            _ => Err(self.failure()),
        }
    }

    fn failure(&self) -> RequestFailure {
        RequestFailure::Refused {
            status: self.status,
            why: self.refusal(),
        }
    }

    /// The values in it, without the `managedFields` of objects.
    ///
    /// # Errors
    ///
    /// The refusal, or why they cannot be read.
    pub(crate) fn value(self) -> Result<Value, RequestFailure> {
        let read = ValueBudget::of(MOST_MEMORY).parse(&self.granted()?.body);
        read.map_err(|error| match error {
            ValueError::TooLarge { most } => RequestFailure::TooManyValues(most),
            error => RequestFailure::Other(format!("the answer cannot be read: {error}")),
        })
    }

    /// Its content, as a type that takes little memory.
    ///
    /// # Errors
    ///
    /// The refusal, or why it cannot be read.
    pub(crate) fn json<T: DeserializeOwned>(self) -> Result<T, RequestFailure> {
        serde_json::from_slice(&self.granted()?.body).map_err(|error| {
            let why = redact::message(&error.to_string());
            RequestFailure::Other(format!("the answer cannot be read: {why}"))
        })
    }

    pub(crate) fn refusal(&self) -> String {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Refusal {
            message: String,
        }
        let said: Refusal = serde_json::from_slice(&self.body).unwrap_or_default();
        refusal(self.status, &said.message)
    }
}

/// A refusal in kube-apiserver's words. Values that it quotes, which may be secrets, are cut here, before the text goes
/// anywhere.
fn refusal(status: u16, message: &str) -> String {
    match message {
        "" => format!("HTTP {status}"),
        message => format!("{status}: {}", redact::message(message)),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestFailure {
    Down(String),
    Late(Duration),
    /// The answer is longer than this, in bytes.
    TooLarge(usize),
    /// Its values take more memory than this, in bytes.
    TooManyValues(usize),
    Refused {
        status: u16,
        why: String,
    },
    /// Any other reason, in a line: no trust, a connection that broke, no valid request.
    Other(String),
}

impl RequestFailure {
    pub(crate) fn from_error(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused {
                status: status.code,
                why: explain(error),
            },
            error if causes::is_refused(error) => Self::Down(explain(error)),
            error => Self::Other(explain(error)),
        }
    }

    pub(crate) fn refused(status: u16, message: &str) -> Self {
        Self::Refused {
            status,
            why: refusal(status, message),
        }
    }

    fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    pub(crate) fn is_unauthorized(&self) -> bool {
        self.status() == Some(401)
    }

    pub(crate) fn is_forbidden(&self) -> bool {
        self.status() == Some(403)
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Another client has changed or created the object.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.status() == Some(410)
    }

    pub fn is_unanswered(&self) -> bool {
        !matches!(self, Self::Refused { .. }) && !self.is_too_large()
    }

    /// Whether it is too large to be read. A smaller part of it may not be.
    pub(crate) fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge(_) | Self::TooManyValues(_))
    }

    /// Whether it is about the credential (401) or about the server (5xx, no answer). Other answers are about this one
    /// request.
    pub(crate) fn is_doubtful(&self) -> bool {
        let is_doubtful = |status| status == 401 || status >= 500;
        !self.is_too_large() && self.status().is_none_or(is_doubtful)
    }
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down(why) | Self::Refused { why, .. } | Self::Other(why) => f.write_str(why),
            Self::Late(patience) => write!(f, "no answer within {} s", patience.as_secs()),
            Self::TooLarge(most) => {
                write!(f, "too large: the answer has more than {} MiB", most >> 20)
            }
            Self::TooManyValues(most) => write!(
                f,
                "too large: the values of the answer take more than {} MiB of memory",
                most >> 20
            ),
        }
    }
}

/// `None` if the object, or its kind, is not there.
///
/// # Errors
///
/// Any other failure.
pub fn if_found<T>(answer: Result<T, RequestFailure>) -> Result<Option<T>, RequestFailure> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// An error in a line: the status in kube-apiserver's words, or the chain of causes.
pub(crate) fn explain(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        // An answer that is not a Status of Kubernetes may be the page of a proxy.
        let is_status = status.reason != "Failed to parse error data";
        return refusal(status.code, if is_status { &status.message } else { "" });
    }
    if let kube::Error::Service(error) = error {
        return causes::in_words(&**error);
    }
    let mut chain = vec![error.to_string()];
    let mut cause: Option<&dyn Error> = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Many errors repeat the words of their cause.
        if !chain.iter().any(|known| known.contains(&text)) {
            chain.push(text);
        }
        cause = error.source();
    }
    chain.join(": ")
}
