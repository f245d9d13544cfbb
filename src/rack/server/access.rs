//! The clients that may ask: those with the token; without a token only this machine, and only under its own names, so
//! that a foreign web page cannot read it through a browser here.

use std::net::{IpAddr, SocketAddr};

use axum::response::Response;
use base64::Engine as _;
use http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::routes::plain;
use crate::https::{Token, shows_token};

pub(crate) enum Access {
    Loopback,
    Token(Token),
}

impl Access {
    pub(super) fn refusal(&self, headers: &HeaderMap) -> Option<Response> {
        let token = match self {
            Self::Loopback if is_own_name(headers) => return None,
            Self::Loopback => {
                return Some(plain(
                    StatusCode::FORBIDDEN,
                    "without a token it only answers under 127.0.0.1, [::1] and localhost",
                ));
            }
            Self::Token(token) => token.get(),
        };
        let why = match token {
            Ok(token) if shows_token(headers, &token) || shows_password(headers, &token) => {
                return None;
            }
            Ok(_) => "show the token: Authorization: Bearer …, or as the password".to_owned(),
            Err(why) => why,
        };
        let mut response = plain(StatusCode::UNAUTHORIZED, &why);
        // A browser asks for a password: any name will do.
        let realm = HeaderValue::from_static("Basic realm=\"windrow rack\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, realm);
        Some(response)
    }
}

/// Whether the request uses a name of this machine's loopback.
fn is_own_name(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let Some(host) = host else { return false };
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Whether the token is presented as the password of Basic authentication. That is how a browser presents it.
fn shows_password(headers: &HeaderMap, token: &str) -> bool {
    let shown = headers
        .get(AUTHORIZATION)
        .and_then(|shown| shown.to_str().ok());
    let encoded = shown.and_then(|shown| {
        let (scheme, encoded) = shown.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("basic")
            .then_some(encoded.trim())
    });
    let decoded = encoded.and_then(|encoded| {
        base64::engine::general_purpose::STANDARD
            .decode(encoded)
            .ok()
    });
    let password = decoded.and_then(|decoded| {
        let text = String::from_utf8(decoded).ok()?;
        Some(text.split_once(':')?.1.to_owned())
    });
    let Some(value) =
        password.and_then(|password| HeaderValue::from_str(&format!("Bearer {password}")).ok())
    else {
        return false;
    };
    let mut bearer = HeaderMap::new();
    bearer.insert(AUTHORIZATION, value);
    shows_token(&bearer, token)
}
