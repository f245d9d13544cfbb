//! One try: a request over HTTP(S), with bounds on everything that the console can do.

use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Method, StatusCode, Url};
use windrow_decide::settings::Webhook;

use super::payload::WebhookMessage;
use crate::causes;
use crate::pinned::{pinned, use_ring};

const REDIRECTS: usize = 3;

/// Sends it; `patience` is for the whole try. An answer of 200 to 299 is a success.
///
/// # Errors
///
/// In a line, without anything secret.
pub(super) async fn send(
    hook: &Webhook,
    message: WebhookMessage,
    patience: Duration,
) -> Result<(), String> {
    let method: Method = hook
        .method
        .parse()
        .map_err(|_| "the method is not one of HTTP".to_owned())?;
    // A client for each try: tries are rare, and keeping the trusted certificates would take a megabyte.
    let describe = |error: reqwest::Error| describe(&error, patience);
    let client = client(hook, redirects(&method, has_password(hook)), patience)?;
    let client = client.map_err(describe)?;
    let url: Url = message
        .url
        .parse()
        .map_err(|error| format!("the URL cannot be used: {error}"))?;
    let mut request = client.request(method, url);
    let names_type = |name: &str| name.eq_ignore_ascii_case("content-type");
    if let Some(content_type) = message.content_type
        && !hook.headers.iter().any(|(name, _)| names_type(name))
    {
        request = request.header("content-type", content_type);
    }
    if let Some((user, password)) = &hook.basic_auth {
        request = request.basic_auth(user, Some(password));
    }
    for (name, value) in &hook.headers {
        request = request.header(name, value);
    }
    if let Some(body) = message.body {
        request = request.body(body);
    }
    // The body of the answer is not read.
    let answer = request.send().await.map_err(describe)?;
    match answer.status() {
        status if status.is_success() => Ok(()),
        status if status.is_redirection() => Err(format!(
            "the console redirects with HTTP {}, which would lose the event: write the URL that it \
             redirects to",
            status.as_u16()
        )),
        status => Err(format!("the console answered HTTP {}", status.as_u16())),
    }
}

fn client(
    hook: &Webhook,
    redirects: Policy,
    patience: Duration,
) -> Result<reqwest::Result<Client>, String> {
    use_ring();
    let mut builder = Client::builder()
        .redirect(redirects)
        .no_proxy()
        .timeout(patience)
        .pool_max_idle_per_host(0);
    builder = match &hook.fingerprint {
        Some(fingerprint) => builder.tls_backend_preconfigured(pinned(fingerprint)?),
        None => builder.tls_danger_accept_invalid_certs(hook.insecure),
    };
    Ok(builder.build())
}

/// Headers that cannot hold a password. Every other one may: consoles have many names for theirs.
const WITHOUT_PASSWORD: &[&str] = &["accept", "content-type", "user-agent"];

/// Whether the request proves its sender. That proof goes to no other address, not even to the same console over HTTPS.
pub fn has_password(hook: &Webhook) -> bool {
    let is_harmless = |name: &str| {
        let mut harmless = WITHOUT_PASSWORD.iter();
        harmless.any(|known| name.eq_ignore_ascii_case(known))
    };
    hook.basic_auth.is_some() || !hook.headers.iter().all(|(name, _)| is_harmless(name))
}

/// Whether this is the same console, over HTTPS instead of HTTP. Another port may belong to another service on the
/// host.
fn is_same_over_https(from: &Url, to: &Url) -> bool {
    let ports = (from.port_or_known_default(), to.port_or_known_default());
    from.scheme() == "http"
        && to.scheme() == "https"
        && from.host_str() == to.host_str()
        && (ports.0 == ports.1 || ports == (Some(80), Some(443)))
}

/// Only to the same console, or from http to https there, and only if the request stays the same.
fn redirects(method: &Method, has_password: bool) -> Policy {
    let bodiless = matches!(*method, Method::GET | Method::HEAD);
    Policy::custom(move |attempt: Attempt<'_>| {
        let keeps = bodiless
            || matches!(
                attempt.status(),
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
            );
        if !keeps {
            return attempt.stop();
        }
        let Some(first) = attempt.previous().first() else {
            return attempt.stop();
        };
        if attempt.previous().len() > REDIRECTS {
            return attempt.error(format!("more than {REDIRECTS} redirects"));
        }
        let (from, to) = (place(first), place(attempt.url()));
        let safer = is_same_over_https(first, attempt.url());
        if safer && has_password {
            attempt.error(format!(
                "redirected to {to}, where the password would not go along: write that URL, so that it is not sent in the clear"
            ))
        } else if from == to || safer {
            attempt.follow()
        } else {
            // Headers and password are only for the configured console.
            attempt.error(format!("redirected to another console, {to}"))
        }
    })
}

fn place(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// The reason, without the URL, which may be secret.
fn describe(error: &reqwest::Error, patience: Duration) -> String {
    if error.is_timeout() {
        return format!("no answer within {} s", patience.as_secs());
    }
    match causes::in_words(error) {
        // reqwest's own errors name the URL, and have no cause.
        text if text.contains("://") && !error.is_redirect() => "the request failed".to_owned(),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_the_same_over_https_only_on_its_own_port() {
        for (from, to, is_same) in [
            ("http://a", "https://a", true),
            ("http://a:8080", "https://a:8080", true),
            ("http://a", "https://a:8443", false),
            ("http://a:8080", "https://a:8443", false),
            ("http://a:8080", "https://a", false),
            ("http://a", "https://b", false),
            ("https://a", "http://a", false),
        ] {
            let [from, to] = [from, to].map(|url| url.parse::<Url>().unwrap());
            assert_eq!(is_same_over_https(&from, &to), is_same, "{from} {to}");
        }
    }
}
