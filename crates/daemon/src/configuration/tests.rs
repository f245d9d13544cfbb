use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use windrow_decide::settings::{KEYS, Settings, ValueOrigin};
use windrow_model::reasons::Code;
use windrow_plan::rules::Platform;

use super::*;
use crate::layout::Layout;

fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Layout) {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::new(directory.path());
    for (path, text) in files {
        let path = layout.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    (directory, layout)
}

fn error_lines(loaded: &Loaded, layout: &Layout) -> Vec<String> {
    let root = layout.root().display().to_string();
    loaded
        .errors
        .iter()
        .map(|error| error.to_string().replace(&root, ""))
        .collect()
}

#[test]
fn without_files_the_settings_are_the_default_and_the_rules_are_those_shipped() {
    let (_directory, layout) = root(&[]);
    let loaded = load(&layout);
    assert_eq!(loaded.settings, Settings::default());
    assert!(loaded.errors.is_empty(), "{:?}", loaded.errors);
    assert!(!loaded.rules.rules.is_empty());
    assert!(
        loaded
            .values
            .iter()
            .all(|value| value.origin == ValueOrigin::Default)
    );
}

#[test]
fn the_shipped_file_says_the_default_when_its_lines_are_uncommented() {
    let shipped = include_str!("../../../../config/windrow.yaml");
    let uncommented: String = shipped
        .lines()
        .map(|line| {
            let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
            match rest.strip_prefix('#') {
                Some(key) if !key.starts_with(' ') => format!("{indent}{key}\n"),
                _ => format!("{line}\n"),
            }
        })
        .collect();
    let (_directory, layout) = root(&[("/etc/windrow/windrow.yaml", &uncommented)]);
    let loaded = load(&layout);
    assert_eq!(error_lines(&loaded, &layout), [""; 0]);
    assert_eq!(loaded.settings, Settings::default());
    for value in &loaded.values {
        assert_ne!(
            value.origin,
            ValueOrigin::Default,
            "{} is missing",
            value.key
        );
    }
    let (_directory, layout) = root(&[("/usr/lib/windrow/windrow.yaml", shipped)]);
    let loaded = load(&layout);
    assert_eq!(error_lines(&loaded, &layout), [""; 0]);
    assert_eq!(loaded.settings, Settings::default());
}

#[test]
fn the_documentation_has_every_key_with_its_default() {
    let documentation = include_str!("../../../../docs/configuration.md");
    for key in KEYS {
        let row = format!("| `{}` | `{}` |", key.name, key.show(&Settings::default()));
        assert!(
            documentation.contains(&row),
            "docs/configuration.md lacks: {row}"
        );
    }
}

#[test]
fn the_last_word_on_a_key_counts_and_its_origin_is_known() {
    let (_directory, layout) = root(&[
        (
            "/usr/lib/windrow/windrow.yaml",
            "platform: rke2\nstaging:\n  rescan: 30s\n  advisoryDeadline: 5m\n",
        ),
        (
            "/etc/windrow/conf.d/50-site.yaml",
            "staging:\n  rescan: 2h\n",
        ),
        ("/run/windrow/conf.d/90-boot.yaml", "platform: harvester\n"),
        (
            "/etc/rancher/windrow/conf.d/60-rack.yaml",
            "staging: {rescan: 45s}\n",
        ),
    ]);
    let loaded = load(&layout);
    assert_eq!(error_lines(&loaded, &layout), [""; 0]);
    assert_eq!(loaded.settings.platform, Some(Platform::Harvester));
    assert_eq!(loaded.settings.staging.rescan, Duration::from_secs(45));
    assert_eq!(
        loaded.settings.staging.advisory_deadline,
        Duration::from_secs(300)
    );
    let shown = |key: &str| {
        let value = loaded.values.iter().find(|value| value.key == key).unwrap();
        let origin = value.origin.to_string();
        format!(
            "{} {}",
            value.value,
            origin.replace(&layout.root().display().to_string(), "")
        )
    };
    assert_eq!(
        shown("platform"),
        "harvester /run/windrow/conf.d/90-boot.yaml:1"
    );
    assert_eq!(
        shown("staging.rescan"),
        "45s /etc/rancher/windrow/conf.d/60-rack.yaml:1"
    );
    assert_eq!(
        shown("staging.advisoryDeadline"),
        "5m /usr/lib/windrow/windrow.yaml:4"
    );
    assert_eq!(shown("staging.enabled"), "true default");
}

#[test]
fn a_file_of_the_same_name_in_a_later_directory_masks() {
    let (_directory, layout) = root(&[
        ("/usr/lib/windrow/windrow.yaml", "staging: {rescan: 30s}\n"),
        ("/etc/windrow/windrow.yaml", "platform: rke2\n"),
        ("/usr/lib/windrow/conf.d/10-a.yaml", "dataDir: /a\n"),
        (
            "/run/windrow/conf.d/10-a.yaml",
            "staging: {refusedDeadline: 1m}\n",
        ),
        ("/usr/lib/windrow/conf.d/20-b.yaml", "dataDir: /b\n"),
        ("/etc/rancher/windrow/conf.d/ignored.yml", "dataDir: /c\n"),
        ("/etc/rancher/windrow/conf.d/.hidden.yaml", "dataDir: /c\n"),
    ]);
    symlink("/dev/null", layout.path("/run/windrow/conf.d/20-b.yaml")).unwrap();
    let loaded = load(&layout);
    let errors = error_lines(&loaded, &layout);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].contains("ignored.yml") && errors[0].contains("rename it"),
        "{errors:?}"
    );
    let mut expected = Settings {
        platform: Some(Platform::Rke2),
        ..Settings::default()
    };
    expected.staging.refused_deadline = Duration::from_secs(60);
    assert_eq!(loaded.settings, expected);
}

#[test]
fn a_shipped_rule_pack_is_masked_by_a_file_of_its_name() {
    let (_directory, layout) = root(&[]);
    let shipped = load(&layout).rules.rules.len();
    let masked = "/etc/windrow/rules.d/40-harvester-vm.yaml";
    let (_directory, layout) = root(&[(masked, "# nothing\n")]);
    fs::remove_file(layout.path(masked)).unwrap();
    symlink("/dev/null", layout.path(masked)).unwrap();
    let loaded = load(&layout);
    assert_eq!(error_lines(&loaded, &layout), [""; 0]);
    assert!(loaded.rules.rules.len() < shipped);
}

#[test]
fn every_error_of_every_file_is_told_with_its_line_and_such_a_file_sets_nothing() {
    let (_directory, layout) = root(&[
        (
            "/etc/windrow/windrow.yaml",
            "platform: harvestr\nstaging:\n  enabled: maybe\n  rescn: 30s\n  advisoryDeadline: 15\n  \
             limits:\n    fileBytes: huge\n    depth: 0\nflavour: mint\ndataDir: ../rke2\n",
        ),
        ("/etc/windrow/conf.d/10-list.yaml", "- a\n"),
        ("/etc/windrow/conf.d/20-broken.yaml", "staging: {\n"),
        (
            "/etc/windrow/conf.d/30-good.yaml",
            "staging: {rescan: 5m}\n",
        ),
        ("/etc/windrow/conf.d/40-section.yaml", "staging: off\n"),
    ]);
    fs::write(
        layout.path("/etc/windrow/conf.d/50-bytes.yaml"),
        [0xff, 0xfe],
    )
    .unwrap();
    fs::create_dir(layout.path("/etc/windrow/conf.d/60-directory.yaml")).unwrap();
    symlink(
        "nowhere",
        layout.path("/etc/windrow/conf.d/70-dangling.yaml"),
    )
    .unwrap();
    nix::unistd::mkfifo(
        &layout.path("/etc/windrow/conf.d/80-fifo.yaml"),
        nix::sys::stat::Mode::S_IRWXU,
    )
    .unwrap();
    let loaded = load(&layout);
    let said = error_lines(&loaded, &layout);
    for expected in [
        "windrow.yaml:1: platform: expected auto, harvester or rke2, not `harvestr`",
        "windrow.yaml:3: staging.enabled: expected true or false, not `maybe`",
        "windrow.yaml:4: unknown key `staging.rescn`: did you mean `rescan`?",
        "windrow.yaml:5: staging.advisoryDeadline: expected a duration like 90s, 15m or 2h, not a number",
        "windrow.yaml:7: staging.limits.fileBytes: expected a size like 512KiB or 16MiB, not `huge`",
        "windrow.yaml:8: staging.limits.depth: 0 is out of range",
        "windrow.yaml:9: unknown key `flavour`",
        "windrow.yaml:10: dataDir: expected an absolute path, not `../rke2`",
        "10-list.yaml:1: expected a map of keys, not a list",
        "20-broken.yaml:",
        "40-section.yaml:1: expected a map of keys, not a boolean",
        "50-bytes.yaml: cannot be read and is left out: it is not UTF-8",
        "60-directory.yaml: cannot be read and is left out: it is not a regular file",
        "70-dangling.yaml: cannot be read",
        "80-fifo.yaml: cannot be read and is left out: it is not a regular file",
    ] {
        assert!(
            said.iter().any(|said| said.contains(expected)),
            "missing: {expected}\nsaid: {said:#?}"
        );
    }
    let mut expected = Settings::default();
    expected.staging.rescan = Duration::from_secs(300);
    assert_eq!(loaded.settings, expected);
}

#[test]
fn an_error_in_a_rule_file_is_told_with_its_place() {
    let (_directory, layout) = root(&[(
        "/etc/windrow/rules.d/90-site.yaml",
        "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: site}\nrulez: []\n",
    )]);
    let loaded = load(&layout);
    let said = error_lines(&loaded, &layout);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("/etc/windrow/rules.d/90-site.yaml:4:"),
        "{said:?}"
    );
}

#[test]
fn probes_are_merged_by_name_and_shown_with_who_defined_them() {
    let (_directory, layout) = root(&[
        (
            "/usr/lib/windrow/conf.d/10-a.yaml",
            "probes:\n  custom:\n    one: {tcp: {address: 'a:1'}, period: 1m}\n    two: {tcp: {address: 'a:2'}}\n    three: {tcp: {address: 'a:3'}}\n",
        ),
        (
            "/etc/windrow/conf.d/20-b.yaml",
            "probes:\n  custom:\n    one: {tcp: {address: 'b:1'}}\n    two: {enabled: false}\n",
        ),
        // A file with an error sets nothing at all.
        (
            "/etc/windrow/conf.d/30-c.yaml",
            "probes:\n  custom:\n    three: {enabled: false}\n    four: {tcp: {}}\n  costum: {}\n",
        ),
    ]);
    let loaded = load(&layout);
    let names: Vec<&str> = loaded
        .settings
        .probes
        .custom
        .iter()
        .map(|probe| probe.name.as_str())
        .collect();
    assert_eq!(names, ["one", "three"]);
    let shown = |key: &str| {
        let value = loaded.values.iter().find(|value| value.key == key).unwrap();
        let origin = value.origin.to_string();
        let origin = origin.replace(&layout.root().display().to_string(), "");
        format!("{} {origin}", value.value)
    };
    assert_eq!(
        shown("probes.custom.one"),
        "tcp b port 1, every 30s, wanted /etc/windrow/conf.d/20-b.yaml:3"
    );
    assert_eq!(
        shown("probes.custom.two"),
        "off /etc/windrow/conf.d/20-b.yaml:4"
    );
    let said = error_lines(&loaded, &layout);
    assert_eq!(
        said,
        [
            "/etc/windrow/conf.d/30-c.yaml:4: probes.custom.four.tcp: `address` is missing",
            "/etc/windrow/conf.d/30-c.yaml:5: unknown key `probes.costum`: did you mean `custom`?",
        ]
    );
}

#[test]
fn what_the_daemon_cures_by_itself_is_named_by_codes_that_have_a_cure() {
    let (_directory, layout) = root(&[
        (
            "/etc/windrow/conf.d/10-good.yaml",
            "repair:\n  auto: [machines-block-settings, addon-stuck, addon-stuck]\n",
        ),
        (
            "/etc/windrow/conf.d/20-bad.yaml",
            "repair:\n  auto:\n    - addon-stuck\n    - addon-stck\n    - apply-storm\n    - 7\n",
        ),
        (
            "/etc/windrow/conf.d/30-bad.yaml",
            "repair: {auto: addon-stuck}\n",
        ),
    ]);
    let loaded = load(&layout);
    assert_eq!(
        loaded.settings.repair.auto,
        [Code::AddonStuck, Code::MachinesBlockSettings]
    );
    let said = error_lines(&loaded, &layout);
    for expected in [
        "20-bad.yaml:4: repair.auto: there is no code addon-stck: did you mean `addon-stuck`?",
        "20-bad.yaml:5: repair.auto: Windrow has no fix for apply-storm: write one of addon-stuck, drain-blocked",
        "20-bad.yaml:6: repair.auto: expected a code, not a number",
        "30-bad.yaml:1: repair.auto: expected a list of codes like [addon-stuck], not `addon-stuck`",
    ] {
        assert!(
            said.iter().any(|line| line.contains(expected)),
            "{expected}: {said:#?}"
        );
    }
    assert!(Settings::default().repair.auto.is_empty(), "off by default");
}

#[test]
fn metrics_that_nobody_would_get_are_an_error_with_its_line() {
    let path = "/etc/windrow/conf.d/50-metrics.yaml";
    let errors = |text: &str| {
        let (_directory, layout) = root(&[(path, text)]);
        error_lines(&load(&layout), &layout)
    };
    let served = "statusServer:\n  metrics:\n    enabled: true\n";
    assert_eq!(
        errors(served),
        [
            "/etc/windrow/conf.d/50-metrics.yaml:3: statusServer.metrics.enabled: the status server shows them, and it is \
             off: write `statusServer.enabled: true` as well"
        ]
    );
    assert!(errors(&format!("{served}  enabled: true\n")).is_empty());
    for (textfile, why) in [
        ("windrow.prom", "expected an absolute path"),
        ("/var/lib/x/../windrow.prom", "leads upwards"),
        (
            "/var/lib/x/windrow.txt",
            "write /var/lib/x/windrow.txt.prom",
        ),
    ] {
        let said = errors(&format!("metrics:\n  textfile: {textfile}\n"));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with(&format!("{path}:2: metrics.textfile: ")),
            "{said:?}"
        );
        assert!(said[0].contains(why), "{said:?}");
    }
    assert!(errors("metrics: {textfile: none}\n").is_empty());
    assert!(errors("metrics: {textfile: /srv/windrow.prom}\n").is_empty());
}

#[test]
fn a_storage_network_may_be_preset_while_what_the_installer_left_cannot_be_read() {
    let (_directory, layout) = root(&[]);
    assert!(!load(&layout).preset);
    // A directory in its place cannot be read as a file.
    fs::create_dir_all(layout.harvester_config()).unwrap();
    let loaded = load(&layout);
    assert!(loaded.preset && loaded.errors.len() == 1);
}

#[test]
fn a_file_that_cannot_be_read_any_more_is_told_from_one_that_is_gone() {
    let (_directory, layout) = root(&[
        ("/etc/windrow/windrow.yaml", "platform: harvester\n"),
        ("/etc/windrow/rules.d/10-own.yaml", ""),
    ]);
    let known = Configuration::load(&layout);
    let rules = layout.path("/etc/windrow/rules.d");
    fs::remove_dir_all(&rules).unwrap();
    assert!(
        Configuration::load(&layout)
            .failure_to_read(&known)
            .is_none()
    );
    // A link to itself cannot be listed.
    symlink("rules.d", &rules).unwrap();
    let failure = Configuration::load(&layout);
    assert!(
        failure.failure_to_read(&known).is_some(),
        "{:?}",
        failure.loaded.errors
    );
}
