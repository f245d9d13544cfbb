//! The events and findings about a configuration.

use windrow_decide::settings::Loaded;
use windrow_decide::{DeliveryState, Event, WebhookStatus};
use windrow_model::findings::Finding;
use windrow_model::reasons::{Code, Severity};

/// How many errors get separate findings: a file of another kind has one in every line.
const NAMED: usize = 20;

pub(super) fn configuration_events(loaded: &Loaded) -> Vec<Event> {
    if loaded.errors.is_empty() {
        return vec![Event::new(
            Code::ConfigurationLoaded,
            Code::ConfigurationLoaded.say(&[]),
        )];
    }
    loaded
        .errors
        .iter()
        .map(|error| Event {
            code: Code::ConfigurationInvalid,
            file: Some(error.at.file.clone()),
            message: Code::ConfigurationInvalid.say(&[("why", &error.to_string())]),
        })
        .collect()
}

/// The errors of the configuration, for the status document. They are warnings: the previous setting, or the default,
/// stays in force, and the node suffers no harm.
pub(super) fn configuration_findings(loaded: &Loaded) -> Vec<Finding> {
    let code = Code::ConfigurationInvalid;
    let finding = |message: String, at| Finding {
        code,
        severity: Severity::Warning,
        message,
        at,
        incident: None,
    };
    let (named, more) = loaded.errors.split_at(NAMED.min(loaded.errors.len()));
    let mut findings: Vec<Finding> = named
        .iter()
        .map(|error| finding(error.message.clone(), vec![error.at.clone()]))
        .collect();
    if !more.is_empty() {
        let message = format!(
            "and {} more errors: `windrow config check` lists them",
            more.len()
        );
        findings.push(finding(message, Vec::new()));
    }
    findings
}

/// Webhooks whose receiver does not accept them.
pub(super) fn webhook_findings(webhooks: &[WebhookStatus]) -> Vec<Finding> {
    let wrong = webhooks.iter().filter_map(|webhook| {
        let code = match webhook.state {
            DeliveryState::Failing => Code::WebhookFailing,
            DeliveryState::GivenUp => Code::WebhookGivenUp,
            DeliveryState::Waiting | DeliveryState::Pending | DeliveryState::Delivered => {
                return None;
            }
        };
        let message = code.say(&[
            ("event", &webhook.event),
            ("console", &webhook.console),
            ("why", &webhook.message),
        ]);
        Some(Finding {
            code,
            severity: code.severity(),
            message,
            at: vec![webhook.at.clone()],
            incident: None,
        })
    });
    wrong.collect()
}

#[cfg(test)]
mod tests {
    use windrow_decide::settings::{ConfigFile, ConfigFileRole, ConfigFiles, merge};
    use windrow_model::findings::Location;

    use super::*;

    fn loaded(text: &str) -> Loaded {
        merge(ConfigFiles {
            files: vec![ConfigFile {
                role: ConfigFileRole::Settings,
                name: "50-site.yaml".to_owned(),
                path: "/etc/rancher/windrow/conf.d/50-site.yaml".into(),
                text: text.to_owned(),
            }],
            ..ConfigFiles::default()
        })
    }

    #[test]
    fn each_error_of_the_configuration_is_a_warning_with_its_line_and_what_to_do() {
        assert_eq!(configuration_findings(&loaded("staging: {}\n")), []);
        let text = "staging: {}\nstagin: {}\nwebhooks:\n- {event: NODE_STALED, url: 'http://c'}\n";
        let findings = configuration_findings(&loaded(text));
        let told: Vec<(String, bool)> = findings
            .iter()
            .map(|one| (one.at[0].to_string(), one.severity == Severity::Warning))
            .collect();
        let line = |line| {
            (
                format!("/etc/rancher/windrow/conf.d/50-site.yaml:{line}"),
                true,
            )
        };
        assert_eq!(told, [line(2), line(4)]);
        assert!(findings[0].message.contains("did you mean `staging`?"));
        assert!(findings[1].message.contains("NODE_STALLED"));
        assert!(findings[1].message.contains("this webhook is off"));
    }

    #[test]
    fn a_file_that_is_wrong_in_every_line_fills_no_document() {
        let text: String = (0..200).map(|line| format!("a{line}: 1\n")).collect();
        let findings = configuration_findings(&loaded(&text));
        assert_eq!(findings.len(), NAMED + 1);
        assert!(findings[NAMED].message.starts_with("and 180 more"));
    }

    #[test]
    fn a_webhook_that_does_not_arrive_is_a_finding_and_one_that_waits_is_none() {
        let webhook = |state| WebhookStatus {
            event: "NODE_STALLED".to_owned(),
            console: "https://c.example".to_owned(),
            at: Location::line("windrow.yaml", 3),
            state,
            since: jiff::Timestamp::UNIX_EPOCH,
            message: "the console answered HTTP 500".to_owned(),
        };
        let all = [
            DeliveryState::Waiting,
            DeliveryState::Pending,
            DeliveryState::Delivered,
            DeliveryState::Failing,
            DeliveryState::GivenUp,
        ];
        let findings = webhook_findings(&all.map(webhook));
        let told: Vec<(Code, &str)> = findings
            .iter()
            .map(|one| (one.code, one.message.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                (
                    Code::WebhookFailing,
                    "webhook NODE_STALLED to https://c.example failed: the console answered HTTP 500"
                ),
                (
                    Code::WebhookGivenUp,
                    "webhook NODE_STALLED to https://c.example was given up: the console answered HTTP 500"
                ),
            ]
        );
        assert_eq!(findings[0].at[0].to_string(), "windrow.yaml:3");
    }
}
