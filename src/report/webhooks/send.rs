//! One try: a request over HTTP(S), with bounds on everything that the console can do.

use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Method, StatusCode, Url};
use windrow_decide::settings::Webhook;

use super::payload::WebhookMessage;
use crate::causes;
use crate::pinned::{pinned, use_ring};

/// How many redirects are followed.
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

/// Does it say who it is? That goes along to no other address, be it the same console's over HTTPS.
fn has_password(hook: &Webhook) -> bool {
    let sensitive = |name: &str| {
        ["authorization", "proxy-authorization", "cookie"]
            .iter()
            .any(|one| name.eq_ignore_ascii_case(one))
    };
    hook.basic_auth.is_some() || hook.headers.iter().any(|(name, _)| sensitive(name))
}

/// Only to the same console, or from http to https there, and only where the request stays the same.
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
        let safer = first.scheme() == "http" && attempt.url().scheme() == "https";
        let safer = safer && first.host_str() == attempt.url().host_str();
        if safer && has_password {
            attempt.error(format!(
                "redirected to {to}, where the password would not go along: write that URL, so that it is not sent in the clear"
            ))
        } else if from == to || safer {
            attempt.follow()
        } else {
            // Headers and password are for the console that is configured.
            attempt.error(format!("redirected to another console, {to}"))
        }
    })
}

fn place(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Why, without the URL, which may be secret.
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
