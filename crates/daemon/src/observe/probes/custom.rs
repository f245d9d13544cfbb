//! Configured probes: HTTP, TCP, units, files, objects.

use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::net::TcpStream;
use windrow_model::redact::quoted;
use windrow_plan::readiness::node::{
    CustomProbe, CustomQuestion, FileQuestion, HttpQuestion, NodeRole, ObjectQuestion, ProbeOutcome,
};
use windrow_plan::rules::EvaluationError;

use super::context::ProbeContext;
use super::http::{self, NoAnswer};
use super::kubernetes::{Ask, Credential, NamespacedName, asked, object, object_path};
use super::looks::Looks;
use crate::files::{is_missing, read_beginning, read_text};
use crate::fs;
use crate::observe::unit_sandbox::is_hidden;

const LOOKED_AT: u64 = 256 * 1024;

pub(super) async fn ask(
    context: &ProbeContext,
    looks: &Looks,
    role: NodeRole,
    node: &str,
    probe: &CustomProbe,
) -> ProbeOutcome {
    // A request is given up a little before its probe is: its own error says more.
    let patience = probe.timeout * 9 / 10;
    let outcome = match &probe.question {
        CustomQuestion::Http(question) => over_http(context, question, patience).await,
        CustomQuestion::Tcp { host, port } => tcp(host, *port, patience).await,
        CustomQuestion::Unit { name, states } => unit(context, name, states).await,
        CustomQuestion::File(question) => file(context, looks, question).await,
        CustomQuestion::Object(question) => an_object(context, role, node, question).await,
    };
    match (outcome, &probe.message) {
        (ProbeOutcome::Failed { why, code, stuck }, Some(message)) => ProbeOutcome::Failed {
            why: format!("{message} ({why})"),
            code,
            stuck,
        },
        (outcome, _) => outcome,
    }
}

async fn over_http(
    context: &ProbeContext,
    question: &HttpQuestion,
    patience: Duration,
) -> ProbeOutcome {
    // Path and query may hold a key.
    let shown = windrow_decide::settings::origin(&question.url);
    let asked = || format!("GET {shown}");
    let prepared =
        client(context, question).and_then(|client| Ok((client, headers(context, question)?)));
    let (client, headers) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return ProbeOutcome::unknown(asked(), why),
    };
    let request = client.get(&question.url).headers(headers);
    let answer = match http::send(request, patience).await {
        Ok(answer) => answer,
        Err(NoAnswer::Garbage(why)) => return ProbeOutcome::unknown(asked(), why),
        Err(none) => return ProbeOutcome::failed(none.say(patience)),
    };
    let status = answer.status;
    let expected = match question.status.as_slice() {
        [] => (200..300).contains(&status),
        some => some.contains(&status),
    };
    match (&question.contains, expected) {
        // A refused request shows nothing.
        (_, false) if matches!(status, 401 | 403) => {
            ProbeOutcome::refused(asked(), format!("HTTP {status}"))
        }
        (_, false) => ProbeOutcome::failed(format!("HTTP {status}")),
        (Some(text), true) if !holds(&answer.body, text) => {
            ProbeOutcome::failed(format!("the answer does not contain {}", quoted(text)))
        }
        (_, true) => ProbeOutcome::Passed,
    }
}

fn holds(body: &[u8], text: &str) -> bool {
    memchr::memmem::find(body, text.as_bytes()).is_some()
}

fn client(context: &ProbeContext, question: &HttpQuestion) -> Result<reqwest::Client, String> {
    if question.insecure || question.url.starts_with("http:") {
        return Ok(context.http.clone());
    }
    let mut builder = http::builder();
    if let Some(path) = &question.ca_file {
        let read = read_text(&context.layout().path(path)).map_err(|error| error.to_string());
        let certificates = read.and_then(|text| {
            reqwest::Certificate::from_pem_bundle(text.as_bytes())
                .map_err(|error| error.to_string())
        });
        let certificates = certificates.map_err(|why| format!("caFile {path}: {why}"))?;
        if certificates.is_empty() {
            return Err(format!("caFile {path}: there is no certificate in it"));
        }
        builder = builder.tls_certs_only(certificates);
    }
    builder
        .build()
        .map_err(|error| format!("no client for it: {error}"))
}

/// `Name: value` lines. No error shows a line: it may be a secret.
fn headers(context: &ProbeContext, question: &HttpQuestion) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let Some(path) = &question.headers_file else {
        return Ok(headers);
    };
    let wrong = |why: &str| format!("headersFile {path}: {why}");
    let text =
        read_text(&context.layout().path(path)).map_err(|error| wrong(&error.to_string()))?;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let header = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        let (name, value) =
            header.ok_or_else(|| wrong(&format!("line {} is not `Name: value`", number + 1)))?;
        headers.append(name, value);
    }
    Ok(headers)
}

async fn tcp(host: &str, port: u16, patience: Duration) -> ProbeOutcome {
    match tokio::time::timeout(patience, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => ProbeOutcome::Passed,
        Ok(Err(error)) => ProbeOutcome::failed(http::not_connected(host, port, &error)),
        Err(_) => ProbeOutcome::failed(http::no_connection_within(host, port, patience)),
    }
}

async fn unit(context: &ProbeContext, name: &str, states: &[String]) -> ProbeOutcome {
    let unit = match context.bus.unit(name).await {
        Ok(unit) => unit,
        Err(why) => return ProbeOutcome::unknown(format!("systemd about {name}"), why),
    };
    if states.contains(&unit.active) && unit.load != "not-found" {
        return ProbeOutcome::Passed;
    }
    match unit.load.as_str() {
        "loaded" => ProbeOutcome::failed(format!("{name} is {} ({})", unit.active, unit.sub)),
        "not-found" => ProbeOutcome::failed(format!("there is no {name}")),
        other => ProbeOutcome::failed(format!("{name} is {other}")),
    }
}

async fn file(context: &ProbeContext, looks: &Looks, question: &FileQuestion) -> ProbeOutcome {
    let place = context.layout().path(&question.path);
    let (asked, now) = (question.clone(), (context.now)());
    looks
        .look(&question.path, move || look_at(&place, &asked, now))
        .await
}

fn look_at(place: &Path, question: &FileQuestion, now: Timestamp) -> ProbeOutcome {
    let path = &question.path;
    if is_hidden(place) {
        return ProbeOutcome::unknown(path, "the sandbox of windrow.service hides it");
    }
    let found = match fs::metadata(place) {
        Ok(found) => found,
        Err(error) if is_missing(&error) => {
            return match question.exists {
                true => ProbeOutcome::failed(format!("there is no {path}")),
                false => ProbeOutcome::Passed,
            };
        }
        Err(error) => return ProbeOutcome::unknown(path, error.to_string()),
    };
    if !question.exists {
        return ProbeOutcome::failed(format!("{path} is there"));
    }
    if let Some(limit) = question.newer_than {
        let written = found.modified().ok();
        let written = written.and_then(|time| Timestamp::try_from(time).ok());
        let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
        if written.is_none_or(|written| now.duration_since(written) > limit) {
            return ProbeOutcome::failed(format!("{path} was not written for too long"));
        }
    }
    match &question.contains {
        None => ProbeOutcome::Passed,
        Some(text) => match read_beginning(place, LOOKED_AT) {
            Ok(content) if holds(&content, text) => ProbeOutcome::Passed,
            Ok(_) => ProbeOutcome::failed(format!("{path} does not contain {}", quoted(text))),
            Err(error) => ProbeOutcome::unknown(path, error.to_string()),
        },
    }
}

async fn an_object(
    context: &ProbeContext,
    role: NodeRole,
    node: &str,
    question: &ObjectQuestion,
) -> ProbeOutcome {
    let credential = Credential::for_role(role);
    let name = question.name.as_deref().unwrap_or(node);
    let absent = format!("there is no {} {name}", question.kind);
    let found = match credential {
        Credential::Admin => match path(context, node, question, name).await {
            Ok(path) => {
                object(
                    &context.kubernetes,
                    Ask::Object(&path),
                    credential,
                    node,
                    &absent,
                )
                .await
            }
            Err(outcome) => return outcome,
        },
        // The configuration allows no other request; another one would not be sent.
        Credential::Node => {
            if !question.is_for_nodes() {
                let asked = format!("{} {name} as system:node:{node}", question.kind);
                return ProbeOutcome::unknown(asked, "not asked: a node's identity may not");
            }
            let ask = match question.kind.as_str() {
                "Node" => Ask::OwnNode,
                _ => Ask::Service(NamespacedName {
                    namespace: question.namespace.as_deref().unwrap_or("default"),
                    name,
                }),
            };
            object(&context.kubernetes, ask, credential, node, &absent).await
        }
    };
    let (value, expression) = match (found, &question.expression) {
        (Err(outcome), _) => return outcome,
        (Ok(_), None) => return ProbeOutcome::Passed,
        (Ok(value), Some(expression)) => (value, expression),
    };
    let of = || format!("{} {name}", question.kind);
    match expression.holds(&value) {
        Ok(true) => ProbeOutcome::Passed,
        Ok(false) => {
            ProbeOutcome::failed(format!("{} is not as the probe's expression wants", of()))
        }
        Err(EvaluationError::Missing(why)) => ProbeOutcome::failed(format!("{}: {why}", of())),
        Err(EvaluationError::Type(why) | EvaluationError::Limit(why)) => {
            ProbeOutcome::unknown(of(), why)
        }
    }
}

/// The object's path: only discovery knows the plural, and whether there are namespaces.
async fn path(
    context: &ProbeContext,
    node: &str,
    question: &ObjectQuestion,
    name: &str,
) -> Result<String, ProbeOutcome> {
    let ObjectQuestion {
        api_version, kind, ..
    } = question;
    let ask = Ask::Resources(api_version);
    let absent = format!("{api_version} is not served");
    let admin = Credential::Admin;
    let served = object(&context.kubernetes, ask, admin, node, &absent).await?;
    let resources = served["resources"].as_array();
    let resource = resources.into_iter().flatten().find(|resource| {
        let plural = resource["name"].as_str().unwrap_or_default();
        resource["kind"] == kind.as_str() && !plural.contains('/')
    });
    let resource = resource
        .ok_or_else(|| ProbeOutcome::failed(format!("{api_version} has no kind {kind}")))?;
    let Some(plural) = resource["name"].as_str() else {
        let asked = asked(ask, admin, node);
        return Err(ProbeOutcome::unknown(
            asked,
            "the answer is not the one expected",
        ));
    };
    let namespace = match resource["namespaced"] {
        Value::Bool(true) => Some(question.namespace.as_deref().unwrap_or("default")),
        _ => None,
    };
    Ok(object_path(api_version, namespace, plural, name))
}
