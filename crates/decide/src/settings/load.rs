//! Turns files into settings: each file becomes a fragment, and the fragments are merged with the origin of every
//! value, and validated.
//!
//! A file with an error is ignored as a whole, and reported: its author wrote it as one unit, and half of it would be
//! something else. All errors of all files are reported at once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use windrow_gates::Component;
use windrow_harvester as harvester;
use windrow_model::findings::Location;
use windrow_model::manifest::{Node, NodeValue as Yaml, yaml};
use windrow_model::redact::quoted;
use windrow_model::suggest::nearest;
use windrow_plan::knowledge;
use windrow_plan::rules::RuleSet;

use super::error::ConfigError;
use super::files::{ConfigFile, ConfigFileRole, ConfigFiles};
use super::keys::{self, KEYS, SettingKey};
use super::units::expected;
use super::webhook_list::{self, WebhookList};
use super::webhooks::Webhook;
use super::{Settings, gates, probes};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    Default,
    File(Location),
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueOrigin::Default => f.write_str("default"),
            ValueOrigin::File(at) => at.fmt(f),
        }
    }
}

/// One key, its value as it would be written, and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredValue {
    /// The key's path, with dots.
    pub key: Cow<'static, str>,
    /// The value in force.
    pub value: String,
    pub origin: ValueOrigin,
}

#[derive(Debug, Clone)]
pub struct Loaded {
    pub settings: Settings,
    /// The same, key by key, with origins.
    pub values: Vec<ConfiguredValue>,
    /// The shipped packs and those of the files.
    pub rules: Arc<RuleSet>,
    /// All errors. Files with an error are ignored; of rule files only the rules with an error.
    pub errors: Vec<ConfigError>,
    /// In their order of precedence.
    pub files: Vec<ConfigFile>,
    /// Does the configuration of Harvester's installer preset a storage network?
    pub preset: bool,
}

/// Adds the configuration of Harvester's installer, which is kept on the node. `file` is its name in messages. Windrow
/// uses its webhooks as well.
pub fn add_installer(loaded: &mut Loaded, file: &str, text: &str) {
    let listed = webhook_list::read_harvesters_webhooks(file, text);
    loaded.values.extend(listed.hooks.iter().map(value_of));
    loaded.settings.webhooks.extend(listed.hooks);
    loaded.errors.extend(listed.errors);
}

/// Errors in the webhooks of an installer's configuration, which Windrow uses as well on the node. `file` is its name
/// in messages.
pub fn installer_errors(file: &str, text: &str) -> Vec<ConfigError> {
    webhook_list::read_harvesters_webhooks(file, text).errors
}

/// Merges configuration files. Never fails: values with an error are left out and reported in [`Loaded::errors`].
pub fn merge(found: ConfigFiles) -> Loaded {
    let ConfigFiles {
        files,
        mut errors,
        preset,
    } = found;
    let mut merged = Merged::default();
    for file in files
        .iter()
        .filter(|file| file.role == ConfigFileRole::Settings)
    {
        match Fragment::read(file) {
            Ok(mut fragment) => {
                errors.append(&mut fragment.wrong);
                merged.take(fragment);
            }
            Err(wrong) => errors.extend(wrong),
        }
    }
    let rules = Arc::new(load_rules(&files, preset, &mut errors));
    let (settings, values) = merged.validate(&mut errors);
    Loaded {
        settings,
        values,
        rules,
        errors,
        files,
        preset,
    }
}

struct Fragment {
    values: Vec<Assignment>,
    gates: Vec<gates::GateSetting>,
    probes: Vec<probes::ProbeSetting>,
    tunings: Vec<probes::builtin::TuningSetting>,
    webhooks: Vec<Webhook>,
    /// Errors in single webhooks: those are off, and the file counts.
    wrong: Vec<ConfigError>,
}

struct Assignment {
    key: &'static SettingKey,
    node: Node,
    at: Location,
}

impl Fragment {
    fn read(file: &ConfigFile) -> Result<Self, Vec<ConfigError>> {
        let mut reading = FragmentReader {
            file: file.path.display().to_string(),
            values: Vec::new(),
            gates: Vec::new(),
            probes: Vec::new(),
            tunings: Vec::new(),
            webhooks: WebhookList::default(),
            errors: Vec::new(),
        };
        match yaml::parse_configuration(&file.text) {
            Ok(None) => {}
            Ok(Some(root)) => reading.section("", &root),
            Err(problems) => {
                for problem in problems {
                    reading.errors.push(ConfigError {
                        at: Location {
                            file: reading.file.clone(),
                            line: problem.line,
                        },
                        message: problem.message,
                    });
                }
            }
        }
        if reading.errors.is_empty() {
            Ok(Self {
                values: reading.values,
                gates: reading.gates,
                probes: reading.probes,
                tunings: reading.tunings,
                webhooks: reading.webhooks.hooks,
                wrong: reading.webhooks.errors,
            })
        } else {
            reading.errors.extend(reading.webhooks.errors);
            Err(reading.errors)
        }
    }
}

struct FragmentReader {
    file: String,
    values: Vec<Assignment>,
    gates: Vec<gates::GateSetting>,
    probes: Vec<probes::ProbeSetting>,
    tunings: Vec<probes::builtin::TuningSetting>,
    webhooks: WebhookList,
    errors: Vec<ConfigError>,
}

impl FragmentReader {
    fn section(&mut self, prefix: &str, node: &Node) {
        if node.is_null() {
            return; // `staging:` with everything below it commented out.
        }
        if !matches!(node.value, Yaml::Mapping(_)) {
            return self.wrong(node.line, expected("a map of keys", node));
        }
        for entry in node.entries() {
            let name = match prefix {
                "" => entry.key.clone(),
                prefix => format!("{prefix}.{}", entry.key),
            };
            if name == gates::SECTION {
                match gates::read(&self.file, &entry.value) {
                    Ok(settings) => self.gates.extend(settings),
                    Err(wrong) => self.errors.extend(wrong),
                }
            } else if name == probes::SECTION {
                match probes::read(&self.file, &entry.value) {
                    Ok(settings) => self.probes.extend(settings),
                    Err(wrong) => self.errors.extend(wrong),
                }
            } else if name == probes::builtin::SECTION {
                match probes::builtin::read(&self.file, &entry.value) {
                    Ok(settings) => self.tunings.extend(settings),
                    Err(wrong) => self.errors.extend(wrong),
                }
            } else if name == webhook_list::SECTION {
                self.webhooks = webhook_list::read_webhooks(&self.file, &entry.value);
            } else if keys::is_section(&name) {
                self.section(&name, &entry.value);
            } else if let Some(key) = keys::find(&name) {
                self.value(key, entry.line, &entry.value);
            } else {
                self.unknown(prefix, &name, entry.line);
            }
        }
    }

    fn value(&mut self, key: &'static SettingKey, line: u32, node: &Node) {
        // Tried on a scratch copy, so that a file with one invalid value sets nothing.
        let whole = key.set(&mut Settings::default(), node);
        if whole.is_err() && self.items(key, node) {
            return;
        }
        match whole {
            Ok(()) => self.values.push(Assignment {
                key,
                node: node.clone(),
                at: Location::line(self.file.clone(), line),
            }),
            Err(why) => self.wrong(line, format!("{}: {why}", key.name)),
        }
    }

    /// Reports each invalid item of a list at its own line. False if every item is valid.
    fn items(&mut self, key: &'static SettingKey, node: &Node) -> bool {
        let before = self.errors.len();
        for item in node.items() {
            let alone = Node {
                line: item.line,
                value: Yaml::Sequence(vec![item.clone()]),
            };
            if let Err(why) = key.set(&mut Settings::default(), &alone) {
                self.wrong(item.line, format!("{}: {why}", key.name));
            }
        }
        self.errors.len() > before
    }

    fn unknown(&mut self, prefix: &str, name: &str, line: u32) {
        // These sections are read elsewhere.
        let section = [
            ("", gates::SECTION),
            ("", webhook_list::SECTION),
            ("probes", "builtin"),
            ("probes", "custom"),
        ]
        .into_iter()
        .filter(|(of, _)| *of == prefix)
        .map(|(_, section)| section);
        let siblings = KEYS
            .iter()
            .filter_map(|key| {
                let rest = key.name.strip_prefix(prefix)?;
                rest.trim_start_matches('.').split('.').next()
            })
            .chain(section);
        let last = name.rsplit('.').next().unwrap_or(name);
        let hint = match nearest(last, siblings) {
            Some(known) => format!("did you mean `{known}`?"),
            None => "windrow.yaml(5) lists the keys".to_owned(),
        };
        self.wrong(line, format!("unknown key {}: {hint}", quoted(name)));
    }

    fn wrong(&mut self, line: u32, message: String) {
        self.errors.push(ConfigError {
            at: Location::line(self.file.clone(), line),
            message,
        });
    }
}

/// The values of all files: the last value of each key.
#[derive(Default)]
struct Merged {
    values: BTreeMap<&'static str, Assignment>,
    gates: BTreeMap<(Component, String), gates::GateSetting>,
    probes: BTreeMap<String, probes::ProbeSetting>,
    tunings: BTreeMap<String, probes::builtin::TuningSetting>,
    webhooks: Vec<Webhook>,
}

impl Merged {
    fn take(&mut self, fragment: Fragment) {
        for assignment in fragment.values {
            self.values.insert(assignment.key.name, assignment);
        }
        self.webhooks.extend(fragment.webhooks);
        for setting in fragment.gates {
            let of = (setting.component, setting.gate.clone());
            self.gates.insert(of, setting);
        }
        for setting in fragment.probes {
            self.probes.insert(setting.name.clone(), setting);
        }
        for setting in fragment.tunings {
            self.tunings.insert(setting.tuning.name.clone(), setting);
        }
    }

    fn validate(self, errors: &mut Vec<ConfigError>) -> (Settings, Vec<ConfiguredValue>) {
        let mut settings = Settings::default();
        for assignment in self.values.values() {
            if let Err(message) = assignment.key.set(&mut settings, &assignment.node) {
                errors.push(ConfigError {
                    at: assignment.at.clone(),
                    message,
                });
            }
        }
        let server = &settings.status_server;
        if server.certificate_file.is_some() != server.key_file.is_some() {
            let names = ["statusServer.certificateFile", "statusServer.keyFile"];
            let set = names.iter().find_map(|name| self.values.get(name));
            errors.extend(set.map(|assignment| ConfigError {
                at: assignment.at.clone(),
                message: format!(
                    "{}: a certificate needs its key, and a key its certificate: \
                    write both, or none",
                    assignment.key.name
                ),
            }));
        }
        if server.metrics.enabled && !server.enabled {
            let set = self.values.get("statusServer.metrics.enabled");
            errors.extend(set.map(|assignment| ConfigError {
                at: assignment.at.clone(),
                message: format!(
                    "{}: the status server shows them, and it is off: write \
                     `statusServer.enabled: true` as well",
                    assignment.key.name
                ),
            }));
        }
        let mut values: Vec<ConfiguredValue> = KEYS
            .iter()
            .map(|key| ConfiguredValue {
                key: Cow::Borrowed(key.name),
                value: key.show(&settings),
                origin: self
                    .values
                    .get(key.name)
                    .map_or(ValueOrigin::Default, |assignment| {
                        ValueOrigin::File(assignment.at.clone())
                    }),
            })
            .collect();
        values.extend(self.tunings.values().map(|setting| ConfiguredValue {
            key: Cow::Owned(format!(
                "{}.{}",
                probes::builtin::SECTION,
                setting.tuning.name
            )),
            value: setting.show(),
            origin: ValueOrigin::File(setting.at.clone()),
        }));
        let tunings = self.tunings.into_values();
        settings.probes.tunings = tunings.map(|setting| setting.tuning).collect();
        values.extend(self.probes.values().map(|setting| ConfiguredValue {
            key: Cow::Owned(format!("{}.{}", probes::SECTION, setting.name)),
            value: setting.show(),
            origin: ValueOrigin::File(setting.at.clone()),
        }));
        let custom = self.probes.into_values();
        settings.probes.custom = custom.filter_map(|setting| setting.probe).collect();
        settings.feature_gates = self
            .gates
            .into_values()
            .filter_map(|setting| setting.request)
            .collect();
        values.extend(self.webhooks.iter().map(value_of));
        settings.webhooks = self.webhooks;
        (settings, values)
    }
}

/// Without the parts that may be secret.
fn value_of(hook: &Webhook) -> ConfiguredValue {
    ConfiguredValue {
        key: Cow::Borrowed(webhook_list::SECTION),
        value: format!("{} {} {}", hook.event.name(), hook.method, hook.console()),
        origin: ValueOrigin::File(hook.at.clone()),
    }
}

/// The texts of all rule packs: the shipped ones, which are part of the program, that of a preset storage network, and
/// those of files. A file with the same name masks a shipped pack.
pub fn rule_sources(files: &[ConfigFile], preset: bool) -> Vec<(String, String)> {
    let mut packs: BTreeMap<String, (String, String)> = RuleSet::shipped_sources()
        .into_iter()
        .chain(preset.then(harvester::preset_rules))
        .map(|(name, text)| (name.clone(), (name, text)))
        .collect();
    for file in files
        .iter()
        .filter(|file| file.role == ConfigFileRole::Rules)
    {
        packs.insert(
            file.name.clone(),
            (file.path.display().to_string(), file.text.clone()),
        );
    }
    let knowledge = files
        .iter()
        .filter(|file| file.role == ConfigFileRole::Knowledge);
    // The packages install a copy of the shipped knowledge, which is part of the program.
    let knowledge = knowledge
        .filter(|file| !knowledge::is_shipped(&file.text))
        .map(|file| (file.path.display().to_string(), file.text.clone()));
    packs
        .into_values()
        .chain(knowledge)
        .filter(|(_, text)| !text.trim().is_empty())
        .collect()
}

fn load_rules(files: &[ConfigFile], preset: bool, errors: &mut Vec<ConfigError>) -> RuleSet {
    let (rules, wrong) = RuleSet::load(&rule_sources(files, preset));
    errors.extend(wrong.into_iter().map(|error| ConfigError {
        at: error.at,
        message: error.message,
    }));
    rules
}
