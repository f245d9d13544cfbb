use std::fs;

use rustls::crypto::ring;

use super::file::{Kubeconfig, ReadFor};
use super::file_tests::{KubeconfigDir, SERVER, certificate_of, config, encoded};

#[test]
fn what_is_wrong_is_told_with_its_line_and_what_to_do() {
    let place = KubeconfigDir::new();
    let (certificate, key) = certificate_of("admin");
    let (_, another) = certificate_of("another");
    place.write("some.crt", &certificate);
    place.write("some.key", &key);
    place.write("another.key", another);
    place.write("empty", "\n");
    let certificate = encoded(&certificate);
    let cluster = |field: &str| config(&format!("{SERVER}, {field}"), "");
    let user = |fields: &str| config(SERVER, fields);
    let whole = config(SERVER, "");
    for (text, expected) in [
        (String::new(), "FILE: it is empty"),
        ("# nothing\n".to_owned(), "FILE: it is empty"),
        (
            "- a\n".to_owned(),
            "FILE:1: a kubeconfig is a map, not a list",
        ),
        ("clusters: [".to_owned(), "FILE:1: not valid YAML; "),
        (format!("{whole}---\n{whole}"), "FILE:13: a second document"),
        (
            format!("kind: Config\n{whole}"),
            "FILE:3: the key `…` appears twice",
        ),
        (
            whole.replace("current-context: here\n", ""),
            "FILE:1: `current-context` is missing",
        ),
        (
            whole.replace("current-context: here", "current-context: 1"),
            "FILE:3: `current-context` must be text, not a number: put it in quotation marks",
        ),
        (
            whole.replace("current-context: here", "current-context: no-one"),
            "FILE:3: no context is called \"no-one\": add it under `contexts`",
        ),
        (
            whole.replace("contexts:", "context:"),
            "FILE:3: no context is called \"here\"",
        ),
        (
            whole.replace("cluster: c,", "cluster: d,"),
            "FILE:6: no cluster is called \"d\"",
        ),
        (
            whole.replace("cluster: c,", ""),
            "FILE:6: `cluster` is missing",
        ),
        (
            whole.replace("user: u}", "user: w}"),
            "FILE:6: no user is called \"w\"",
        ),
        // A token in place of the name is not quoted.
        (
            whole.replace(
                "user: u}",
                "user: ghp_0123456789abcdefghijklmnopqrstuvwxyz}",
            ),
            "FILE:6: no user is called a text of 40 characters",
        ),
        // Nor a whole text there.
        (
            whole.replace(
                "user: u}",
                &format!("user: {}}}", "a b ".repeat(800).trim()),
            ),
            "FILE:6: no user is called a text of 3199 characters",
        ),
        (
            whole.replace("user: u}", "user: [u]}"),
            "FILE:6: `user` must be text, not a list",
        ),
        (
            whole.replace("  cluster: {", "  clusters: {"),
            "FILE:8: the cluster \"c\" has no map `cluster`",
        ),
        (
            whole.replace("  cluster: {", "  cluster: x #"),
            "FILE:8: the cluster \"c\" has no map `cluster`",
        ),
        (
            format!("{whole}- name: u\n  user: {{}}\n"),
            "FILE:13: a second user is called \"u\", the first is in line 11: keep one",
        ),
        (
            config("", ""),
            "FILE:9: `server` is missing: write https://HOST:PORT",
        ),
        (config("server: ''", ""), "FILE:9: `server` is missing"),
        (
            config("server: 6443", ""),
            "FILE:9: `server` must be text, not a number",
        ),
        (
            config("server: '127.0.0.1:6443'", ""),
            "FILE:9: `server` is not a valid address",
        ),
        (
            config("server: 'unix:///run/x'", ""),
            "FILE:9: `server` is not a valid address",
        ),
        (
            config("server: 'https://'", ""),
            "FILE:9: `server` is not a valid address",
        ),
        (
            config("server: 'https://a b'", ""),
            "FILE:9: `server` is not a valid address",
        ),
        (
            config("server: 'https://me:secret@host'", ""),
            "without a user's name",
        ),
        (
            cluster("insecure-skip-tls-verify: 'true'"),
            "FILE:9: `insecure-skip-tls-verify` must be true or false without quotation marks, not a string",
        ),
        (
            cluster(&format!(
                "insecure-skip-tls-verify: true, certificate-authority-data: {certificate}"
            )),
            "FILE:9: `certificate-authority-data` and `insecure-skip-tls-verify: true` exclude each other",
        ),
        (
            cluster("certificate-authority-data: '-'"),
            "FILE:9: `certificate-authority-data` is not base64",
        ),
        (
            cluster("certificate-authority-data: aGk="),
            "FILE:9: `certificate-authority-data` has no certificate in PEM",
        ),
        (
            cluster("certificate-authority-data: [x]"),
            "FILE:9: `certificate-authority-data` must be text, not a list",
        ),
        (
            cluster("certificate-authority: not-there"),
            "not-there: No such file",
        ),
        (
            cluster("certificate-authority: empty"),
            "FILE:9: `certificate-authority` has no certificate in PEM",
        ),
        (
            cluster("tls-server-name: 'a b'"),
            "FILE:9: `tls-server-name` is neither a host name nor an address",
        ),
        (
            cluster("proxy-url: 'http://proxy:3128'"),
            "FILE:9: `proxy-url` is not supported here: no proxy is used",
        ),
        (
            user("exec: {command: aws}"),
            "FILE:12: `exec` is not supported here: no credential plugin is run; give this user a client certificate",
        ),
        (
            user("auth-provider: {name: oidc}"),
            "FILE:12: `auth-provider` is not supported here",
        ),
        (
            user("as: admin"),
            "FILE:12: `as` is not supported here: use a client certificate",
        ),
        (
            user("as-groups: ['system:masters']"),
            "FILE:12: `as-groups` is not supported here",
        ),
        (user("as-uid: 1"), "FILE:12: `as-uid` is not supported here"),
        (
            user("as-user-extra: {scopes: [a]}"),
            "FILE:12: `as-user-extra` is not supported here",
        ),
        (
            user("token: 12345"),
            "FILE:12: `token` must be text, not a number",
        ),
        (
            user("token: \"a\\nb\""),
            "FILE:12: `token` has a line break",
        ),
        (user("tokenFile: not-there"), "FILE:12: `tokenFile`: "),
        (
            user("tokenFile: empty"),
            "has no token: write one on one line",
        ),
        (
            user("username: a, password: b, token: c"),
            "FILE:12: `username` and a token exclude each other",
        ),
        (
            user("username: a, tokenFile: empty"),
            "FILE:12: `username` and a token exclude each other",
        ),
        (
            user("client-certificate: some.crt"),
            "FILE:12: `client-certificate` requires `client-key` or `client-key-data`",
        ),
        (
            user("client-key: some.key"),
            "FILE:12: `client-key` requires `client-certificate` or `client-certificate-data`",
        ),
        (
            user("client-certificate: some.crt, client-key: some.crt"),
            "FILE:12: `client-key` has no private key in PEM",
        ),
        (
            user("client-certificate: some.key, client-key: some.key"),
            "FILE:12: `client-certificate` has no certificate in PEM",
        ),
        (
            user("client-certificate: some.crt, client-key: another.key"),
            "FILE:12: `client-certificate` and `client-key` do not fit: ",
        ),
        (
            user("client-certificate: some.crt, client-key-data: aGk"),
            "FILE:12: `client-key-data` is not base64",
        ),
        (
            user("client-certificate: some.crt, client-key: ../"),
            "it is not a regular file",
        ),
    ] {
        let why = place.wrong(&text);
        assert!(why.contains(expected), "{why}\nnot: {expected}");
        assert!(!why.contains('\n'), "{why}");
    }
    place.write("config", [0xff, 0xfe, b'k', 0]);
    let read = || {
        let files = (&place.path()).into();
        Kubeconfig::read(&files, ReadFor::Daemon, &ring::default_provider())
    };
    let why = read().err();
    assert!(why.unwrap().contains("not UTF-8"));
    fs::remove_file(place.path()).unwrap();
    let why = read().err();
    assert!(why.unwrap().ends_with("/config: it is not there yet"));
}

#[test]
fn of_a_file_with_a_hundred_problems_the_first_ones_are_told() {
    let place = KubeconfigDir::new();
    let why = place.wrong(&"token: 1\n".repeat(101));
    assert_eq!(why.matches("appears twice").count(), 8, "{why}");
    assert!(why.ends_with("; and 92 more"), "{why}");
}

#[test]
fn all_errors_are_told_at_once() {
    let place = KubeconfigDir::new();
    let why = place.wrong(&config(
        "server: here, proxy-url: p, certificate-authority-data: '*', tls-server-name: '*'",
        "token: 1, exec: {command: x}, client-key-data: '*', client-certificate: not-there",
    ));
    for field in [
        "server",
        "proxy-url",
        "certificate-authority-data",
        "tls-server-name",
        "token",
        "exec",
        "client-key-data",
        "client-certificate",
    ] {
        assert!(why.contains(&format!("`{field}`")), "{field}: {why}");
    }
    assert_eq!(why.split("; FILE:").count(), 8, "{why}");
}

#[test]
fn no_error_shows_a_secret() {
    let place = KubeconfigDir::new();
    let (certificate, key) = certificate_of("admin");
    place.write("some.crt", certificate);
    let broken = key.replace("-----END", "hunter2 -----END");
    place.write("broken.key", &broken);
    place.write("token", "hunter2 \n hunter2");
    let broken = encoded(&broken);
    let body = key.lines().nth(1).unwrap();
    for user in [
        "token: \"hunter2\\n\"".to_owned(),
        "token: [hunter2]".to_owned(),
        "token: *hunter2".to_owned(),
        "token: !!int hunter2".to_owned(),
        "token: 'hunter2".to_owned(),
        "token: hunter2: hunter2".to_owned(),
        "token: {hunter2: 1, hunter2: 2}".to_owned(),
        "token: &hunter2 [*hunter2]".to_owned(),
        "token: @hunter2".to_owned(),
        "tokenFile: token".to_owned(),
        "username: a, password: [hunter2]".to_owned(),
        "username: \"a\\n\", password: hunter2, token: 1".to_owned(),
        "client-certificate: some.crt, client-key: broken.key".to_owned(),
        format!("client-certificate: some.crt, client-key-data: {broken}"),
        format!("client-certificate: some.crt, client-key-data: {body}"),
        format!("client-certificate-data: {broken}, client-key: some.crt"),
    ] {
        let why = place.wrong(&config(SERVER, &user));
        assert!(!why.is_empty());
        assert!(
            !why.contains("hunter2") && !why.contains(&body[..8]),
            "{user}: {why}"
        );
    }
    let why = place.wrong(&config("server: 'https://me:hunter2@host'", ""));
    assert!(!why.contains("hunter2"), "{why}");
}
