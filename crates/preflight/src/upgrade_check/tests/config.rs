//! The Setting `upgrade-config`. Each value was given to Harvester's own function as well.

use super::*;

fn configured(value: &str, release: &str) -> Build {
    let mut build = Build::new(release);
    build.setting(json!({"value": value}));
    build
}

#[test]
fn a_field_of_another_type_blocks_the_upgrade() {
    for (value, words) in [
        (
            r#"{"restoreVM": "true"}"#,
            "value: restoreVM is not true or false",
        ),
        (r#"{"restoreVM": 1}"#, "restoreVM is not"),
        (
            r#"{"imagePreloadOption": []}"#,
            "imagePreloadOption is not a JSON object",
        ),
        (
            r#"{"imagePreloadOption": {"strategy": {"type": 7}}}"#,
            "strategy.type is not a text",
        ),
        (
            r#"{"imagePreloadOption": {"strategy": {"concurrency": "2"}}}"#,
            "imagePreloadOption.strategy.concurrency is not a whole number",
        ),
        (
            r#"{"imagePreloadOption": {"strategy": {"concurrency": 2.5}}}"#,
            "concurrency",
        ),
        (r#"{"logReadyTimeout": 5}"#, "logReadyTimeout is not a text"),
        (r#"{"nodeUpgradeOption": true}"#, "nodeUpgradeOption is not"),
        (
            r#"{"nodeUpgradeOption": {"strategy": {"mode": "auto", "pauseNodes": [1]}}}"#,
            "pauseNodes is not a list of texts",
        ),
    ] {
        configured(value, "v1.8.2").is("upgrade-config-read", Fail, words);
    }
}

#[test]
fn any_value_of_the_right_type_is_read() {
    for value in [
        "{}",
        "null",
        r#"{"restoreVM": null, "other": [1]}"#,
        r#"{"imagePreloadOption": {"strategy": {"type": "all", "concurrency": -2}}}"#,
        r#"{"nodeUpgradeOption": {"strategy": {"mode": "x", "pauseNodes": [null, "n1"]}}}"#,
    ] {
        configured(value, "v1.8.2").is("upgrade-config-read", Pass, "");
    }
}

#[test]
fn a_field_that_a_release_does_not_read_may_have_any_type() {
    let value = r#"{"logReadyTimeout": 5, "nodeUpgradeOption": true}"#;
    configured(value, "v1.6.1").is("upgrade-config-read", Pass, "");
    configured(value, "v1.7.0").is("upgrade-config-read", Fail, "logReadyTimeout");
}

#[test]
fn the_name_of_a_field_is_read_in_any_case() {
    for (value, outcome) in [
        (r#"{"RestoreVM": true}"#, Pass),
        (r#"{"restorevm": true}"#, Pass),
        (r#"{"RestoreVM": false}"#, Fail),
        (r#"{"restoreVMs": true}"#, Fail),
    ] {
        let mut build = configured(value, "v1.8.2");
        build.instance(json!({"nodeSelector": {"kubernetes.io/hostname": "n1"}}));
        let words = if outcome == Fail { "nodeSelector" } else { "" };
        build.is("machines-migrate", outcome, words);
    }
    configured(r#"{"RestoreVM": 1}"#, "v1.8.2").is("upgrade-config-read", Fail, "restoreVM");
}
