//! Fields that count for a user and not for the daemon: plugins, `auth-provider`, proxies, another context.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use rustls::crypto::ring;
use serde_json::json;

use super::file::{CredentialSource, Kubeconfig, ReadFor};
use super::file_tests::{KubeconfigDir, SERVER, certificate_of, config, encoded, known, sent};
use super::plugin::{ExecPlugin, Interaction};

fn read(place: &KubeconfigDir, text: &str) -> Kubeconfig {
    place.read_for(ReadFor::Person, text).unwrap()
}

fn plugin(kubeconfig: Kubeconfig) -> ExecPlugin {
    match kubeconfig.credential {
        CredentialSource::Plugin(plugin) => *plugin,
        CredentialSource::Known(_) => panic!("no command prints it"),
    }
}

const V1: &str = "apiVersion: client.authentication.k8s.io/v1";

#[test]
fn a_plugin_is_read_with_all_its_fields_and_with_the_file_that_names_it() {
    let place = KubeconfigDir::new();
    let (authority, _) = certificate_of("authority");
    place.write("ca.crt", &authority);
    let text = config(
        &format!(
            "{SERVER}, certificate-authority: ca.crt, tls-server-name: kubernetes, extensions: \
             [{{name: other, extension: 1}}, {{name: client.authentication.k8s.io/exec, extension: {{audience: a}}}}]"
        ),
        &format!(
            "exec: {{{V1}, command: bin/login, args: [a, 'b c'], env: [{{name: ONE, value: '1'}}, {{name: TWO}}], \
             interactiveMode: Always, installHint: get it, provideClusterInfo: true}}"
        ),
    );
    let found = plugin(read(&place, &text));
    assert_eq!(
        found.at.to_string(),
        format!("{}:12", place.path().display())
    );
    assert_eq!(found.user, "u");
    assert_eq!(found.command, place.directory.path().join("bin/login"));
    assert_eq!(found.args, ["a", "b c"]);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(found.env, [pair("ONE", "1"), pair("TWO", "")]);
    assert_eq!(found.interaction, Interaction::Always);
    assert_eq!(found.install_hint.as_deref(), Some("get it"));
    let cluster = json!({
        "server": "https://127.0.0.1:6443",
        "tls-server-name": "kubernetes",
        "certificate-authority-data": encoded(&authority),
        "config": {"audience": "a"},
    });
    assert_eq!(found.cluster, Some(cluster));
    // Without a slash it is looked for in PATH; the older version may leave the mode out.
    let text = config(
        SERVER,
        "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws}",
    );
    let found = plugin(read(&place, &text));
    assert_eq!(found.command.to_str(), Some("aws"));
    assert_eq!(found.interaction, Interaction::IfAvailable);
    assert_eq!(found.cluster, None);
}

#[test]
fn what_is_wrong_with_a_plugin_a_provider_or_a_proxy_is_told_with_its_line() {
    let place = KubeconfigDir::new();
    let exec = |fields: &str| config(SERVER, &format!("exec: {{{fields}}}"));
    let whole = |fields: &str| exec(&format!("{V1}, command: x, {fields}"));
    let provider = |fields: &str| config(SERVER, &format!("auth-provider: {{{fields}}}"));
    let proxy = |url: &str| config(&format!("{SERVER}, proxy-url: '{url}'"), "");
    for (text, expected) in [
        (exec(""), "FILE:12: `command` is missing"),
        (exec(""), "FILE:12: `apiVersion` is missing"),
        (
            config(SERVER, "exec: aws"),
            "FILE:12: `exec` must be a map with the command, not a string",
        ),
        (
            exec("apiVersion: client.authentication.k8s.io/v1alpha1, command: x"),
            "FILE:12: `apiVersion` must be client.authentication.k8s.io/v1 or ",
        ),
        (
            exec(&format!("{V1}, command: x")),
            "FILE:12: `interactiveMode` is missing: write Never",
        ),
        (
            whole("interactiveMode: never"),
            "FILE:12: `interactiveMode` is unknown",
        ),
        (
            whole("interactiveMode: Never, args: x"),
            "FILE:12: `args` must be a list, not a string",
        ),
        (
            whole("interactiveMode: Never, args: [1]"),
            "FILE:12: every item of `args` must be text, not a number",
        ),
        (
            whole("interactiveMode: Never, env: [{value: a}]"),
            "FILE:12: `name` is missing",
        ),
        (
            whole("interactiveMode: Never, provideClusterInfo: 1"),
            "FILE:12: `provideClusterInfo` must be true or false",
        ),
        (
            provider("config: {}"),
            "FILE:12: `name` is missing: write oidc",
        ),
        (
            provider("name: gcp"),
            "FILE:12: `auth-provider` is none that kubectl still knows",
        ),
        (
            provider("name: oidc"),
            "FILE:12: `auth-provider` has no `id-token`: let kubectl fetch",
        ),
        (
            config(
                SERVER,
                &format!(
                    "auth-provider: {{name: oidc}}, exec: {{{V1}, command: x, interactiveMode: Never}}"
                ),
            ),
            "`auth-provider` and `exec` exclude each other",
        ),
        (
            proxy("proxy:3128"),
            "FILE:9: `proxy-url` is not a valid proxy: write http://HOST:PORT or",
        ),
        (
            proxy("https://proxy"),
            "FILE:9: `proxy-url` is not a valid proxy",
        ),
        (
            proxy("socks4://proxy"),
            "FILE:9: `proxy-url` is not a valid proxy",
        ),
    ] {
        let why = place.wrong_for(ReadFor::Person, &text);
        assert!(why.contains(expected), "{why}\nnot: {expected}");
        assert!(!why.contains('\n'), "{why}");
    }
}

#[test]
fn what_stands_in_the_kubeconfig_counts_before_what_a_command_would_print() {
    let place = KubeconfigDir::new();
    let exec = format!("exec: {{{V1}, command: x, interactiveMode: Never}}");
    let text = config(SERVER, &format!("{exec}, token: abc"));
    let found = read(&place, &text);
    assert_eq!(
        sent(&known(&found).authorization).as_deref(),
        Some("Bearer abc")
    );
    let (certificate, key) = certificate_of("admin");
    let (certificate, key) = (encoded(&certificate), encoded(&key));
    let data = format!("client-certificate-data: {certificate}, client-key-data: {key}");
    let found = read(&place, &config(SERVER, &format!("{exec}, {data}")));
    assert!(known(&found).identity.is_some());
}

fn token(ends: Timestamp) -> String {
    let part = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({"iss": "https://issuer", "exp": ends.as_second()});
    format!(
        "{}.{}.signature",
        part(json!({"alg": "RS256"})),
        part(claims)
    )
}

#[test]
fn the_token_of_oidc_is_used_until_it_ends_and_then_named_without_being_shown() {
    let place = KubeconfigDir::new();
    let hour = SignedDuration::from_hours(1);
    let user = |token: &str| {
        config(
            SERVER,
            &format!(
                "auth-provider: {{name: oidc, config: {{id-token: {token}, refresh-token: hunter2}}}}"
            ),
        )
    };
    let good = token(Timestamp::now() + hour);
    for counts in [good.as_str(), "not-a-web-token"] {
        let found = read(&place, &user(counts));
        let header = sent(&known(&found).authorization);
        assert_eq!(header, Some(format!("Bearer {counts}")));
    }
    let ended = token(Timestamp::now() - hour);
    let why = place.wrong_for(ReadFor::Person, &user(&ended));
    assert!(
        why.contains("FILE:12: the `id-token` of `auth-provider` ends or ended at "),
        "{why}"
    );
    assert!(!why.contains(&ended) && !why.contains("hunter2"), "{why}");
    // The command in the message has the name as one word, no matter which characters it contains.
    let named = |name: &str| {
        let text = user(&ended).replace("user: u}", &format!("user: {name:?}}}"));
        text.replace("- name: u", &format!("- name: {name:?}"))
    };
    for (name, command) in [
        ("me; reboot", "`kubectl --user='me; reboot' version`"),
        (ended.as_str(), "`kubectl --user=NAME version`"),
    ] {
        let why = place.wrong_for(ReadFor::Person, &named(name));
        assert!(why.contains(command), "{why}");
    }
}

#[test]
fn a_proxy_is_used_with_its_name_and_password() {
    let place = KubeconfigDir::new();
    for (url, scheme, basic) in [
        ("http://proxy:3128", "http", None),
        (
            "http://me:a%40b@proxy:3128/",
            "http",
            Some("Basic bWU6YUBi"),
        ),
        ("socks5://proxy:1080", "socks5", None),
    ] {
        let text = config(&format!("{SERVER}, proxy-url: '{url}'"), "");
        let proxy = read(&place, &text).endpoint.proxy.unwrap();
        assert_eq!(proxy.uri().scheme_str(), Some(scheme));
        assert_eq!(proxy.uri().host(), Some("proxy"));
        let header = proxy.basic_auth().map(|value| value.to_str().unwrap());
        assert_eq!(header, basic, "{url}");
    }
}

#[test]
fn another_context_than_the_current_one_is_found_by_its_name_or_those_that_there_are_are_named() {
    let place = KubeconfigDir::new();
    let text = config(SERVER, "token: abc").replace("current-context: here\n", "")
        + "- name: w\n  user: {token: other}\n";
    let text = text.replace(
        "contexts:\n",
        "contexts:\n- name: there\n  context: {cluster: c, user: w, namespace: apps}\n",
    );
    place.write("config", &text);
    let read = |context: &str| {
        let files = super::KubeconfigFiles::from(&place.path());
        let files = files.in_context(Some(context.to_owned()));
        Kubeconfig::read(&files, ReadFor::Person, &ring::default_provider()).map(|(read, _)| read)
    };
    let there = read("there").unwrap();
    assert_eq!(
        sent(&known(&there).authorization).as_deref(),
        Some("Bearer other")
    );
    assert_eq!(there.namespace, "apps");
    let here = read("here").unwrap();
    assert_eq!(
        sent(&known(&here).authorization).as_deref(),
        Some("Bearer abc")
    );
    let why = read("gone").err().unwrap();
    let expected = format!(
        "{}: no context is called \"gone\": --context takes there, here",
        place.path().display()
    );
    assert_eq!(why, expected);
    let long = "a long name ".repeat(400);
    place.write(
        "config",
        text.replace("- name: there", &format!("- name: {long:?}")),
    );
    let why = read("gone").err().unwrap();
    let expected = "--context takes a text of 4800 characters, here";
    assert!(why.ends_with(expected), "{why}");
    place.write("config", "kind: Config\n");
    let why = read("gone").err().unwrap();
    assert!(why.ends_with("but it has none"), "{why}");
}

/// A kubeconfig on a mounted disk is that machine's: it neither runs a command here nor has a file of this machine sent away.
#[test]
fn a_kubeconfig_of_another_machines_disk_runs_nothing_and_names_files_below_its_root() {
    let place = KubeconfigDir::new();
    let secret = place.directory.path().join("secret");
    std::fs::write(&secret, "of this machine").unwrap();
    let root = place.directory.path().join("disk");
    let own = root.join("etc/rancher/rke2/rke2.yaml");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(root.join("token"), "of the disk").unwrap();
    let read = |user: &str| {
        std::fs::write(&own, config(SERVER, user)).unwrap();
        let files = super::KubeconfigFiles::from(&own).on_disk(Some(&root));
        Kubeconfig::read(&files, ReadFor::Person, &ring::default_provider()).map(|(read, _)| read)
    };
    for user in [
        "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, interactiveMode: Never}".to_owned(),
        format!("tokenFile: {}", secret.display()),
    ] {
        assert!(read(&user).is_err(), "{user}");
    }
    let there = read("tokenFile: /token").unwrap();
    let header = sent(&known(&there).authorization);
    assert_eq!(header.as_deref(), Some("Bearer of the disk"));
}
