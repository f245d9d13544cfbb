//! Addresses in the configuration: which are valid, and which parts of one may be shown.

/// Is it `http://HOST…` or `https://HOST…`, without a user and a password?
///
/// # Errors
///
/// The error, without the address: the path, the query, and the text before an `@` may be secrets.
pub(super) fn check(url: &str, instead: &str) -> Result<(), String> {
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme))
        .ok_or("it has to begin with http:// or https:// and the name of a host")?;
    let login = || format!("a user or a password does not belong into an address: {instead}");
    let (authority, path) = match rest.find(['/', '?', '#', '\\']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    if authority.contains('@') {
        return Err(login());
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(inner) => inner
            .split_once(']')
            .ok_or("the address lacks the `]` after its IPv6 address")?,
        None => match authority.split_once(':') {
            Some((host, _)) => authority.split_at(host.len()),
            None => (authority, ""),
        },
    };
    if host.is_empty() {
        return Err("it has to begin with http:// or https:// and the name of a host".to_owned());
    }
    if let Some(port) = port.strip_prefix(':') {
        // In `https://user:password/x@host`, the password is not a port. If it consists of digits, it might be one.
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        let login_follows = path.split(['?', '#']).next().unwrap_or("").contains('@');
        if login_follows {
            return Err(format!("{}; an `@` in the path is written `%40`", login()));
        }
        if !is_port && !port.is_empty() {
            return Err("the text after the host and `:` is not a port (1 to 65535)".to_owned());
        }
    } else if !port.is_empty() {
        return Err("the text after the host is not a port".to_owned());
    }
    let parsed = url::Url::parse(url).ok().filter(url::Url::has_host);
    match parsed {
        Some(parsed) if parsed.username().is_empty() && parsed.password().is_none() => Ok(()),
        Some(_) => Err(login()),
        None => Err("the host is not one that an address can have".to_owned()),
    }
}

/// Scheme, host and port. The rest may contain a key: the address of a webhook is enough to post to it.
pub fn origin(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_login_or_without_a_host_is_refused_without_being_shown() {
        for url in [
            "https://usr:geheim@host/",
            "https://geheim@host/",
            "https://usr:geheim/tail@host",
            "https://usr:1234/geheim@host",
            "https://usr:geheim?tail@host",
            "https://usr:geheim\\tail@host",
            "https://host:geheim/",
            "https://host:0/geheim",
            "https://[::1/geheim",
            "https://[::1]geheim/",
            "https:///geheim",
            "https://:80/geheim",
            "https://ho st/geheim",
            // A URL parser drops tabs and line ends, and then finds a login that the text does not have.
            "https://\t/geheim@host/",
            "https://\t/:geheim@host/",
            "ftp://host/geheim",
            "host/geheim",
        ] {
            let why = check(url, "use basicAuth").expect_err(url);
            assert!(
                !why.contains("geheim") && !why.contains("usr"),
                "{url}: {why}"
            );
        }
        for url in [
            "https://host",
            "http://host:8080/a/b?c=d@e#f",
            "https://[fd00::1]:8443/x",
            "https://corp.webhook.office.com/webhookb2/a@b/IncomingWebhook/c",
        ] {
            assert_eq!(check(url, ""), Ok(()), "{url}");
        }
    }

    #[test]
    fn of_an_address_scheme_host_and_port_are_shown() {
        assert_eq!(origin("https://h:8443/a/b?c=d"), "https://h:8443");
        assert_eq!(origin("https://[fd00::1]/a"), "https://[fd00::1]");
        assert_eq!(origin("https://u:p@h/a"), "https://h");
    }
}
