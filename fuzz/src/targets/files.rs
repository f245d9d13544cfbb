//! Readers of files.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use serde_json::Value;
use windrow_decide::settings::{ConfigFile, ConfigFileRole, ConfigFiles, add_installer, merge};
use windrow_decide::{Ledger, Mark};
use windrow_gates::Trial;
use windrow_harvester::HarvesterVersion;
use windrow_inputs::extract;
use windrow_inputs::user_data::{self, OpenedFile};
use windrow_learn::{BootSet, KnowledgeFile, Summary};
use windrow_model::manifest::{self, FileContent, MarkerPath, ReadLimits, yaml};
use windrow_model::quantity::milli;
use windrow_model::redact;
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile};
use windrow_plan::rules::{Expression, RuleSet, parse_duration};
use windrow_plan::version::{Version, When};
use windrow_plan::{SourceMap, examine_content, link, rke2};
use windrow_rack::Inventory;
use windrow_replay::{Flights, boots};

use crate::{check_messages, text};

static RULES: LazyLock<RuleSet> = LazyLock::new(RuleSet::shipped);

fn limits() -> ReadLimits {
    ReadLimits {
        expanded_bytes: 4 << 20,
        ..ReadLimits::default()
    }
}

/// A manifest: read, examined, put into a plan.
pub(super) fn manifest(bytes: &[u8]) {
    let content = FileContent::Bytes(bytes.to_vec());
    let read = manifest::read("a.yaml", &content, &limits());
    check_messages(read.problems.iter().map(|problem| &problem.message));
    for object in read.objects() {
        // JSON has every value, and the reader of JSON takes it.
        let json = object.node.to_json().to_string();
        assert!(
            serde_json::from_str::<Value>(&json).is_ok() || json.len() > 1 << 20,
            "{json}"
        );
    }
    let path = "a.yaml".into();
    let shown = SourceMap::itself("a.yaml");
    let examined = examine_content(&path, &content, &limits(), shown, &RULES, None);
    let plan = link(&[Arc::new(examined)], &RULES, None);
    check_messages(plan.findings.iter().map(|finding| &finding.message));
}

/// User-data in whatever it is packed, and what it writes.
pub(super) fn user_data(bytes: &[u8]) {
    let said = match user_data::open("given", bytes.to_vec(), &limits()) {
        OpenedFile::Text(bytes) => vec![extract::extract("given", text(&bytes), &limits())],
        OpenedFile::Wrapped(wrapped) => wrapped.extract(&limits()),
    };
    for extraction in said {
        check_messages(extraction.problems.iter().map(|problem| &problem.message));
    }
    user_data::is_configuration(bytes);
}

fn file(role: ConfigFileRole, name: &str, text: &str) -> ConfigFile {
    ConfigFile {
        role,
        name: name.to_owned(),
        path: PathBuf::from("/etc/windrow").join(name),
        text: text.to_owned(),
    }
}

/// `windrow.yaml`, and an installer's configuration.
pub(super) fn settings(bytes: &[u8]) {
    let mut loaded = merge(ConfigFiles {
        files: vec![file(ConfigFileRole::Settings, "windrow.yaml", text(bytes))],
        ..ConfigFiles::default()
    });
    add_installer(&mut loaded, "/oem/harvester.config", text(bytes));
    check_messages(&loaded.errors);
}

/// Rule packs and knowledge.
pub(super) fn rules(bytes: &[u8]) {
    let (_, errors) = RuleSet::load(&[("given.yaml".to_owned(), text(bytes).to_owned())]);
    check_messages(&errors);
}

/// A condition, a line break, and an object in JSON.
pub(super) fn expression(bytes: &[u8]) {
    let (source, object) = text(bytes).split_once('\n').unwrap_or((text(bytes), "{}"));
    match Expression::compile(source) {
        Err(why) => check_messages([why]),
        Ok(compiled) => {
            let object = serde_json::from_str(object).unwrap_or(Value::Null);
            if let Err(why) = compiled.holds(&object) {
                check_messages([why]);
            }
        }
    }
}

/// `config.yaml`, a line of three dashes, and a drop-in.
pub(super) fn rke2_config(bytes: &[u8]) {
    let (main, drop_in) = text(bytes)
        .split_once("\n---\n")
        .unwrap_or((text(bytes), ""));
    let files = [
        Rke2ConfigFile::new(ConfigLayer::Main, "/etc/rancher/rke2/config.yaml", main),
        Rke2ConfigFile::new(
            ConfigLayer::DropIn,
            "/etc/rancher/rke2/config.yaml.d/a.yaml",
            drop_in,
        ),
    ];
    let merged = rke2::config::merge(&files);
    check_messages(merged.findings.iter().map(|finding| &finding.message));
    merged.flag("kube-apiserver-arg", "feature-gates");
    rke2::data_dir(&files);
    rke2::chart_selections(&files).switched_off().for_each(drop);
}

/// Who is expected in a rack.
pub(super) fn inventory(bytes: &[u8]) {
    for name in ["nodes.yaml", "nodes.csv"] {
        if let Err(errors) = Inventory::read(name, text(bytes)) {
            check_messages(&errors);
        }
    }
}

/// A marker, which may be anybody's.
pub(super) fn marker(bytes: &[u8]) {
    if let Some(mark) = Mark::parse(bytes) {
        assert_eq!(Mark::parse(mark.to_json().as_bytes()), Some(mark));
    }
    let path = MarkerPath::parse("a.yaml.skip").unwrap_or_else(|| unreachable!("it is a marker's"));
    // Bytes in memory can be read.
    let read = Mark::read(bytes, &path, Timestamp::UNIX_EPOCH);
    assert!(read.is_ok());
}

/// What Windrow remembers.
pub(super) fn ledger(bytes: &[u8]) {
    let Ok((ledger, _)) = Ledger::read(bytes) else {
        return;
    };
    let written = serde_json::to_vec(&ledger).unwrap_or_default();
    let again: Result<Ledger, _> = serde_json::from_slice(&written);
    assert_eq!(again.ok().as_ref(), Some(&ledger));
}

/// The record of a gate trial.
pub(super) fn gate_trial(bytes: &[u8]) {
    let Ok(trial) = serde_json::from_slice::<Trial>(bytes) else {
        return;
    };
    let written = serde_json::to_vec(&trial).unwrap_or_default();
    let again: Result<Trial, _> = serde_json::from_slice(&written);
    assert_eq!(again.ok().as_ref(), Some(&trial));
    let own = "/etc/rancher/rke2/config.yaml.d/90-windrow.yaml";
    let on_disk = trial.asked.content.as_deref();
    trial.on_disk(on_disk);
    trial.gates_before(own);
    trial.trusted(own);
    trial.novel(own);
    trial.going(own);
    trial.withdrawal(Timestamp::UNIX_EPOCH);
    trial.failed();
}

/// What the flight recorder wrote, made again.
pub(super) fn flight(bytes: &[u8]) {
    let Ok(flights) = Flights::read(text(bytes)) else {
        return;
    };
    check_messages(&flights.damage);
    boots(&flights);
}

/// A word of whatever kind.
pub(super) fn words(bytes: &[u8]) {
    let word = text(bytes);
    let _ = milli(word);
    if let Err(why) = parse_duration(word) {
        check_messages([why]);
    }
    if let Ok(version) = word.parse::<Version>() {
        assert_eq!(version.to_string().parse(), Ok(version));
    }
    if let Ok(version) = word.parse::<HarvesterVersion>() {
        assert_eq!(version.to_string().parse(), Ok(version));
    }
    let _ = word.parse::<When>();
    let _ = yaml::parse_configuration(word);
    redact::tells_a_secret(word);
    check_messages(
        windrow_gates::syntax::pairs(word, true)
            .into_iter()
            .filter_map(Result::err),
    );
}

/// What earlier boots taught.
pub(super) fn learned(bytes: &[u8]) {
    let Some(file) = KnowledgeFile::read(text(bytes)) else {
        return;
    };
    check_messages(&file.refused);
    let mut set = BootSet::default();
    for boot in file.boots.into_iter().flatten() {
        set.add(boot);
    }
    Summary::of_boots(&set).text();
}
