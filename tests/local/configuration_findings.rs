//! Level 3: what is wrong with the configuration is in the status document, and the node is none the worse for it.

use nix::sys::signal::Signal;
use serde_json::Value;
use support::Node;
use widgets::WIDGET;

use crate::support::daemon as support;
use crate::support::widgets;

/// The findings about the configuration: severity, place and text.
fn found(node: &Node) -> Vec<(String, String, String)> {
    let status = node.status();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = status["findings"].as_array().cloned().unwrap_or_default();
    let ours = findings
        .iter()
        .filter(|one| one["code"] == "configuration-invalid");
    ours.map(|one| {
        let at = &one["at"][0];
        let file = text(&at["file"]);
        let file = file.rsplit('/').next().unwrap_or_default();
        let line = at["line"]
            .as_u64()
            .map_or(String::new(), |line| format!(":{line}"));
        (
            text(&one["severity"]),
            format!("{file}{line}"),
            text(&one["message"]),
        )
    })
    .collect()
}

#[test]
fn a_broken_configuration_is_in_the_status_with_its_lines_and_gone_when_it_is_mended() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let typo = "/etc/windrow/conf.d/50-site.yaml";
    let hooks = "/etc/windrow/conf.d/60-hooks.yaml";
    node.write(typo, "staging:\n  enabld: false\n");
    node.write(
        hooks,
        "webhooks:\n- {event: NODE_REDY, url: 'http://127.0.0.1:9'}\n- event: NODE_STALLED\n",
    );
    let unread = node.write(
        "/etc/windrow/conf.d/70-more.yml",
        "staging: {enabled: false}\n",
    );
    let daemon = node.ready();
    daemon.until("the errors are in the status", || found(&node).len() == 4);
    let told = found(&node);
    let of = |place: &str| {
        let found = told.iter().find(|(_, at, _)| at == place);
        found.unwrap_or_else(|| panic!("{place}: {told:#?}"))
    };
    for (place, words) in [
        ("50-site.yaml:2", "did you mean `enabled`?"),
        ("60-hooks.yaml:2", "this webhook is off"),
        ("60-hooks.yaml:3", "this webhook is off"),
        ("70-more.yml", "rename it"),
    ] {
        let (severity, _, message) = of(place);
        assert_eq!(severity, "warning");
        assert!(message.contains(words), "{place}: {message}");
    }
    assert_eq!(
        node.status()["readiness"],
        "Unknown",
        "no better and no worse"
    );
    assert!(node.is_marked("a.yaml"), "staging is on");

    node.write(typo, "staging: {}\n");
    node.write(hooks, "webhooks: []\n");
    std::fs::remove_file(unread).unwrap();
    daemon.signal(Signal::SIGHUP);
    daemon.until("they are gone", || found(&node).is_empty());
}

#[test]
fn a_console_that_takes_no_webhook_is_a_finding() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    // Nothing listens on this port: it is for services of long ago.
    node.write(
        "/etc/windrow/conf.d/50-site.yaml",
        "staging: {blindDeadline: 1s}\nwebhooks: [{event: STAGING_BLOCKED, url: 'http://127.0.0.1:1/secret'}]\n",
    );
    node.write("/etc/windrow/rules.d/90-test.yaml", widgets::KEEP);
    let daemon = node.ready();
    let failing = || {
        let status = node.status();
        let findings = status["findings"].as_array().cloned().unwrap_or_default();
        findings
            .into_iter()
            .find(|one| one["code"] == "webhook-failing")
    };
    daemon.until("the delivery fails", || failing().is_some());
    let finding = failing().unwrap();
    assert_eq!(finding["severity"], "warning");
    assert_eq!(finding["at"][0]["line"], 2, "{finding:#}");
    let message = finding["message"].as_str().unwrap();
    assert!(
        message.contains("webhook STAGING_BLOCKED to http://127.0.0.1:1 failed"),
        "{message}"
    );
    assert!(!message.contains("secret"));
    let host = node.status()["host"].clone();
    assert_eq!(host.as_str(), nix::unistd::gethostname().unwrap().to_str());
}
