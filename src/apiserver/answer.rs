//! Answers within a bound, and why requests fail.

use std::error::Error;
use std::time::Duration;

use tokio::time::timeout;
use windrow_model::redact;

use super::Connection;
use crate::causes;

/// How long a request may take. Watches last longer, and are bounded in `follow`.
const ANSWER: Duration = Duration::from_secs(15);

/// The answer to a request. The time that kube-apiserver asks to be left alone does not count.
///
/// # Errors
///
/// Why no answer came within [`ANSWER`].
pub(crate) async fn answer<T>(
    connection: &Connection,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, RequestFailure> {
    connection.wait().await;
    match timeout(ANSWER, request).await {
        Ok(answer) => answer.map_err(|error| RequestFailure::from_error(&error)),
        Err(_) => Err(RequestFailure {
            why: format!("no answer within {} s", ANSWER.as_secs()),
            status: None,
        }),
    }
}

/// Why a request failed.
pub(crate) struct RequestFailure {
    /// In a line.
    pub(crate) why: String,
    /// The HTTP status, where there was an answer.
    status: Option<u16>,
}

impl RequestFailure {
    pub(crate) fn from_error(error: &kube::Error) -> Self {
        Self {
            why: explain(error),
            status: match error {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
        }
    }

    /// The credential itself is refused.
    pub(crate) fn is_unauthorized(&self) -> bool {
        self.status == Some(401)
    }

    pub(crate) fn is_forbidden(&self) -> bool {
        self.status == Some(403)
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status == Some(404)
    }

    /// The requested version is too old.
    pub(crate) fn is_gone(&self) -> bool {
        self.status == Some(410)
    }

    /// Is it about the credential (401), or about the server (5xx, no answer)? Other answers are about this one request.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.status
            .is_none_or(|status| status == 401 || status >= 500)
    }
}

/// An error in a line: the status in kube-apiserver's words, or the chain of causes. Values that it quotes, which may
/// be secrets, are cut here, before the text reaches any outlet.
pub(crate) fn explain(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        let (code, message) = (status.code, redact::message(&status.message));
        // `widgets.example.com is forbidden: …` says the reason itself.
        let said = message
            .to_lowercase()
            .contains(&status.reason.to_lowercase());
        return match said {
            true => format!("{code}: {message}"),
            false => format!("{code} {}: {message}", status.reason),
        };
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
