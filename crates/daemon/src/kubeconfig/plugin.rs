//! `exec`: a kubeconfig's command for a user, which prints the user's credential.
//!
//! Here it is read; [`crate::apiserver`] runs it, only for a verb that a user calls. The fields and their defaults are
//! client-go's (`tools/clientcmd/api/v1`, `plugin/pkg/client/auth/exec`, 0.36).

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use windrow_model::findings::Location;
use windrow_model::manifest::{Node, NodeValue};

use super::reader::{KubeconfigReader, MergedFile};

/// The prefix of the versions in the field `apiVersion`.
const GROUP: &str = "client.authentication.k8s.io/";
const EXTENSION: &str = "client.authentication.k8s.io/exec";

pub struct ExecPlugin {
    pub(crate) at: Location,
    /// Whose credential it prints.
    pub(crate) user: String,
    pub(crate) command: PathBuf,
    pub(crate) args: Vec<String>,
    /// Additions to the environment.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) api_version: String,
    pub(crate) interaction: Interaction,
    pub(crate) install_hint: Option<String>,
    /// The facts about the cluster that it requires.
    pub(crate) cluster: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interaction {
    Never,
    IfAvailable,
    Always,
}

impl KubeconfigReader {
    /// The plugin of a user. Only its file is the current one; a cluster may be in another.
    pub(super) fn plugin(
        &mut self,
        (user, name): (&Node, &str),
        (cluster_file, cluster): (&MergedFile, &Node),
    ) -> Option<ExecPlugin> {
        let entry = user.entry("exec").filter(|entry| !entry.value.is_null())?;
        let (line, exec) = (entry.line, &entry.value);
        if !matches!(exec.value, NodeValue::Mapping(_)) {
            let is = exec.type_name();
            self.say(
                line,
                format!("`exec` must be a map with the command, not {is}"),
            );
            return None;
        }
        let said = self.wrong.len();
        let command = self.needed(
            exec,
            "command",
            "name the program that prints the credential",
        );
        let api_version = self.needed(
            exec,
            "apiVersion",
            "write client.authentication.k8s.io/v1, or v1beta1 if the plugin prints that",
        );
        let api_version = api_version.and_then(|(line, version)| {
            let known = matches!(version.strip_prefix(GROUP), Some("v1" | "v1beta1"));
            if !known {
                self.say(
                    line,
                    format!("`apiVersion` must be {GROUP}v1 or {GROUP}v1beta1, for kubectl too: write the one that the plugin prints"),
                );
            }
            known.then_some(version)
        });
        let interaction = self.interaction(exec, api_version);
        let args = self.list(exec, "args", |reader, item| reader.item_text(item, "args"));
        let env = self.list(exec, "env", |reader, item| {
            let (_, name) = reader.needed(item, "name", "name the variable")?;
            let value = reader.text(item, "value").map_or("", |(_, value)| value);
            Some((name.to_owned(), value.to_owned()))
        });
        let hint = self.text(exec, "installHint");
        let install_hint = hint.map(|(_, hint)| hint.to_owned());
        let wants_cluster = self.flag(exec, "provideClusterInfo");
        // One without a slash is looked for in PATH.
        let command = command.map(|(_, command)| match command.contains('/') {
            true => self.beside(command),
            false => command.into(),
        });
        let at = self.at(line);
        let cluster = wants_cluster.then(|| {
            self.enter(cluster_file);
            self.cluster_info(cluster)
        });
        if self.wrong.len() > said {
            return None;
        }
        Some(ExecPlugin {
            at,
            user: name.to_owned(),
            command: command?,
            args,
            env,
            api_version: api_version?.to_owned(),
            interaction: interaction?,
            install_hint,
            cluster,
        })
    }

    fn interaction(&mut self, exec: &Node, api_version: Option<&str>) -> Option<Interaction> {
        let older = api_version.is_some_and(|version| version.ends_with("v1beta1"));
        let instead = "write Never, IfAvailable or Always";
        if older && exec.get("interactiveMode").is_none_or(Node::is_null) {
            return Some(Interaction::IfAvailable);
        }
        let (line, mode) = self.needed(exec, "interactiveMode", instead)?;
        match mode {
            "Never" => Some(Interaction::Never),
            "IfAvailable" => Some(Interaction::IfAvailable),
            "Always" => Some(Interaction::Always),
            _ => {
                self.say(line, format!("`interactiveMode` is unknown: {instead}"));
                None
            }
        }
    }

    fn list<T>(
        &mut self,
        map: &Node,
        key: &str,
        mut read: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Vec<T> {
        let Some(entry) = map.entry(key).filter(|entry| !entry.value.is_null()) else {
            return Vec::new();
        };
        if !matches!(entry.value.value, NodeValue::Sequence(_)) {
            let is = entry.value.type_name();
            self.say(entry.line, format!("`{key}` must be a list, not {is}"));
        }
        let items = entry.value.items().iter();
        items.filter_map(|item| read(self, item)).collect()
    }

    fn item_text(&mut self, item: &Node, key: &str) -> Option<String> {
        let text = item.as_str().map(str::to_owned);
        if text.is_none() {
            let is = item.type_name();
            self.say(
                item.line,
                format!("every item of `{key}` must be text, not {is}: put it in quotation marks"),
            );
        }
        text
    }

    /// `spec.cluster` of an ExecCredential. The fields have been checked.
    fn cluster_info(&mut self, cluster: &Node) -> Value {
        let mut info = Map::new();
        for key in ["server", "tls-server-name", "proxy-url"] {
            if let Some(text) = cluster.str_at(&[key]).filter(|text| !text.is_empty()) {
                info.insert(key.to_owned(), json!(text));
            }
        }
        for key in ["insecure-skip-tls-verify", "disable-compression"] {
            if cluster.get(key).and_then(Node::as_bool) == Some(true) {
                info.insert(key.to_owned(), json!(true));
            }
        }
        let said = self.wrong.len();
        if let Some(pem) = self.pem(cluster, "certificate-authority") {
            let pem = BASE64_STANDARD.encode(pem.bytes);
            info.insert("certificate-authority-data".to_owned(), json!(pem));
        }
        // It has been reported.
        self.wrong.truncate(said);
        let extensions = cluster.list("extensions");
        let mut meant = extensions
            .iter()
            .filter(|one| one.str_at(&["name"]) == Some(EXTENSION));
        if let Some(config) = meant.next().and_then(|one| one.get("extension")) {
            info.insert("config".to_owned(), config.to_json());
        }
        Value::Object(info)
    }
}
