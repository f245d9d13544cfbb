//! Recognises the kind of a file, once for all commands, by its top-level keys. A first line never outweighs a key:
//! `#cloud-config` is a comment to YAML, and Harvester's installer and yip read files that begin with it.

use super::{MapEntry, Node, NodeValue, ReadLimits};
use super::{json, yaml};
use crate::suggest::nearest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Manifests,
    /// A Harvester configuration (`os.writeFiles`). The platform is then known.
    HarvesterConfig,
    CloudInit,
    /// A yip file (`stages.<stage>[].files[]`), as on an Elemental system and in Harvester's `/oem`.
    Yip,
    /// An Ignition configuration (JSON, `ignition.version`).
    Ignition,
    /// A Butane configuration (`variant`, `version`), from which an Ignition configuration is made.
    Butane,
    /// A definition of Edge Image Builder (`apiVersion` and `image`, without `kind`).
    ImageBuilder,
}

impl FileKind {
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Manifests => "Kubernetes manifests",
            FileKind::HarvesterConfig => "a Harvester configuration",
            FileKind::CloudInit => "cloud-init user-data",
            FileKind::Yip => "a yip file",
            FileKind::Ignition => "an Ignition configuration",
            FileKind::Butane => "a Butane configuration",
            FileKind::ImageBuilder => "an Edge Image Builder definition",
        }
    }
}

/// How strongly a key indicates the kind of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyEvidence {
    /// Sufficient without other keys.
    Alone,
    /// Other kinds of files have it too. It counts after `#cloud-config`, or together with a sufficient key.
    WithOthers,
}

use KeyEvidence::{Alone, WithOthers};

/// The keys of a Harvester configuration: `HarvesterConfig` in harvester-installer's
/// `pkg/config/config.go`. RKE2's own configuration has a `token` too.
const HARVESTER: &[(&str, KeyEvidence)] = &[
    ("schemeVersion", Alone),
    ("os", Alone),
    ("install", Alone),
    ("systemSettings", Alone),
    ("serverUrl", Alone),
    ("harvesterChartVersion", Alone),
    ("token", WithOthers),
    ("sans", WithOthers),
    ("runtimeVersion", WithOthers),
    ("rancherVersion", WithOthers),
    ("monitoringChartVersion", WithOthers),
    ("loggingChartVersion", WithOthers),
    ("kubeovnChartVersion", WithOthers),
];

/// The keys of cloud-init whose files or commands Windrow checks.
pub const CLOUD_INIT_READ: [&str; 3] = ["write_files", "runcmd", "bootcmd"];

/// cloud-init's other keys: `cloudinit/config/schemas/schema-cloud-config-v1.json`.
const CLOUD_INIT: &str = "allow_public_ssh_keys ansible apk_repos apt apt_pipelining \
    apt_reboot_if_required apt_update apt_upgrade authkey_hash autoinstall byobu_by_default ca-certs ca_certs \
    chef chpasswd cloud_config_modules cloud_final_modules cloud_init_modules create_hostname_file \
    device_aliases disable_ec2_metadata disable_root disable_root_opts disk_setup drivers fan final_message \
    fqdn fs_setup groups growpart grub-dpkg grub_dpkg hostname keyboard landscape launch-index locale \
    locale_configfile lxd manage_etc_hosts manage_resolv_conf mcollective merge_how merge_type migrate \
    mount_default_fields mounts no_ssh_fingerprints ntp output package_reboot_if_required package_update \
    package_upgrade packages password phone_home power_state prefer_fqdn_over_hostname preserve_hostname \
    puppet random_seed reporting resize_rootfs resolv_conf rh_subscription rpi rsyslog salt_minion snap \
    spacewalk ssh ssh_authorized_keys ssh_deletekeys ssh_fp_console_blacklist ssh_genkeytypes ssh_import_id \
    ssh_key_console_blacklist ssh_keys ssh_publish_hostkeys ssh_pwauth ssh_quiet_keygen swap system_info \
    timezone ubuntu_advantage ubuntu_pro updates user users vendor_data version wireguard yum_repo_dir \
    yum_repos zypper";

/// The key of a yip file: `pkg/schema/schema.go` of yip. Elemental's documentation begins such files
/// with `#cloud-config`.
const YIP: &str = "stages";

/// The variants of Butane (`config/config.go`, v0.29.0).
const BUTANE_VARIANTS: [&str; 6] = ["fcos", "fiot", "flatcar", "openshift", "r4e", "rhcos"];

/// The sections of a definition of Edge Image Builder (`pkg/image/definition.go`, v1.3.3). It has an `apiVersion` as objects of
/// Kubernetes do, but no `kind`.
const IMAGE_BUILDER: [&str; 3] = ["image", "operatingSystem", "embeddedArtifactRegistry"];

/// The recognised kind of a text, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecognisedKind {
    pub kind: FileKind,
    /// The key that decided, and its line.
    key: Option<(String, u32)>,
    /// Another kind that it resembles, with its key and line.
    rival: Option<(FileKind, String, u32)>,
    /// Whether both kinds have the same number of keys.
    tie: bool,
}

impl RecognisedKind {
    fn new(kind: FileKind, key: Option<&(String, u32)>) -> Self {
        Self {
            kind,
            key: key.cloned(),
            rival: None,
            tie: false,
        }
    }

    /// The line with which it could also be another kind.
    pub fn tie(&self) -> Option<u32> {
        let (_, _, line) = self.rival.as_ref().filter(|_| self.tie)?;
        Some(*line)
    }

    /// The recognised kind, if a reader could take it for another.
    pub fn where_ambiguous(&self) -> Option<String> {
        let (rival, key, line) = self.rival.as_ref()?;
        let because = match &self.key {
            Some((key, line)) => format!("because of `{key}` in line {line}"),
            None => "because of its first line".to_owned(),
        };
        Some(format!(
            "read as {} {because}, not as {}, which `{key}` in line {line} belongs to",
            self.kind.name(),
            rival.name()
        ))
    }
}

/// Recognises the kind of a file, even if a later part of it has a mistake.
pub fn kind_of(text: &str) -> FileKind {
    recognise(text).kind
}

/// Like [`kind_of`], with the key that decided.
pub fn recognise(text: &str) -> RecognisedKind {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let keys = match root(text) {
        Some(root) => {
            let entries = root.entries().iter();
            entries
                .filter(|entry| !is_other_s_word(entry))
                .map(|entry| (entry.key.clone(), entry.line))
                .collect()
        }
        None => keys_by_line(text),
    };
    decide(is_cloud_config(text), &keys)
}

/// The text's value, if it has one.
fn root(text: &str) -> Option<Node> {
    let limits = ReadLimits::default();
    match yaml::parse(text, 1, &limits) {
        Ok(root) => root,
        // Some JSON is not YAML to the YAML reader.
        Err(_) if text.trim_start().starts_with('{') => {
            json::parse(text.trim_end(), 1, &limits, 0).ok()
        }
        Err(_) => None,
    }
}

/// `install: true` and `os: linux` are keys of Helm values and of many other files: the installer's keys contain
/// further keys. The same is true of Ignition and Edge Image Builder, and Butane has few variants.
fn is_other_s_word(entry: &MapEntry) -> bool {
    let is_word = matches!(
        entry.value.value,
        NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::String(_)
    );
    if entry.key == "variant" {
        let mut variants = BUTANE_VARIANTS.into_iter();
        return !variants.any(|variant| entry.value.as_str() == Some(variant));
    }
    let mut sections = ["os", "install", "systemSettings"].into_iter();
    let mut exact = IMAGE_BUILDER.into_iter().chain(["ignition"]);
    is_word
        && (sections.any(|section| installer_reads(&entry.key, section))
            || exact.any(|section| entry.key == section))
}

/// The first top-level keys identify a file; more only take memory.
const MOST_KEYS: usize = 10_000;

/// The first top-level keys of a text that is not valid YAML.
fn keys_by_line(text: &str) -> Vec<(String, u32)> {
    // The keys of JSON are behind a brace, which may be on their line.
    let is_json = text.trim_start().starts_with('{');
    let key_of = |line: &'_ str| match is_json {
        true => line.trim_start_matches(['{', ' ', '\t']).to_owned(),
        false => line.to_owned(),
    };
    let lines = (1..).zip(text.lines().map(key_of));
    lines
        .filter(|(_, line)| !line.starts_with([' ', '\t', '#', '-']))
        .filter_map(|(number, line)| {
            let (key, _) = line.split_once(':')?;
            Some((key.trim_matches(['"', '\'']).to_owned(), number))
        })
        .take(MOST_KEYS)
        .collect()
}

fn decide(header: bool, keys: &[(String, u32)]) -> RecognisedKind {
    let key = |wanted: &dyn Fn(&str) -> bool| keys.iter().find(|(key, _)| wanted(key));
    let has = |name: &str| keys.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
    if has("apiVersion") && has("kind") {
        return RecognisedKind::new(FileKind::Manifests, None);
    }
    if let Some(kind) = of_other_tools(keys) {
        return kind;
    }
    if let Some(stages) = key(&|key| key == YIP) {
        return RecognisedKind::new(FileKind::Yip, Some(stages));
    }
    let harvesters = |tells: Option<KeyEvidence>| {
        move |key: &str| {
            let mut known = HARVESTER.iter();
            known.any(|(name, how)| {
                tells.is_none_or(|tells| tells == *how) && installer_reads(key, name)
            })
        }
    };
    let count = |wanted: &dyn Fn(&str) -> bool| keys.iter().filter(|(key, _)| wanted(key)).count();
    let harvester = key(&harvesters(Some(Alone)));
    let any_harvester = key(&harvesters(None));
    let cloud = key(&is_cloud_inits);
    let (of_harvester, of_cloud_init) = (count(&harvesters(None)), count(&is_cloud_inits));
    match (harvester, cloud) {
        (Some(_), Some((name, line))) if of_harvester < of_cloud_init && header => {
            let mut found = RecognisedKind::new(FileKind::CloudInit, cloud);
            let (name, line) = harvester.unwrap_or(&(name.clone(), *line)).clone();
            found.rival = Some((FileKind::HarvesterConfig, name, line));
            found
        }
        (Some(_), _) => {
            let mut found = RecognisedKind::new(FileKind::HarvesterConfig, harvester);
            found.rival = cloud.map(|(name, line)| (FileKind::CloudInit, name.clone(), *line));
            found.tie = of_harvester <= of_cloud_init;
            found
        }
        (None, None) if header && any_harvester.is_some() => {
            RecognisedKind::new(FileKind::HarvesterConfig, any_harvester)
        }
        _ if header => RecognisedKind::new(FileKind::CloudInit, cloud),
        _ => {
            let meant = key(&|key| CLOUD_INIT_READ.contains(&key) || meant_write_files(key));
            let all = keys.len() > 1 && keys.iter().all(|(key, _)| is_cloud_inits(key));
            match meant.or(cloud.filter(|_| all)) {
                Some(told) => RecognisedKind::new(FileKind::CloudInit, Some(told)),
                None => RecognisedKind::new(FileKind::Manifests, None),
            }
        }
    }
}

/// Butane, Ignition or Edge Image Builder, each with a combination of keys that no other kind has.
fn of_other_tools(keys: &[(String, u32)]) -> Option<RecognisedKind> {
    let key = |wanted: &str| keys.iter().find(|(key, _)| key == wanted);
    let mut sections = IMAGE_BUILDER.into_iter();
    if let (Some(variant), Some(_)) = (key("variant"), key("version")) {
        Some(RecognisedKind::new(FileKind::Butane, Some(variant)))
    } else if let Some(ignition) = key("ignition") {
        Some(RecognisedKind::new(FileKind::Ignition, Some(ignition)))
    } else if key("apiVersion").is_some()
        && let Some(section) = sections.find_map(key)
    {
        Some(RecognisedKind::new(FileKind::ImageBuilder, Some(section)))
    } else {
        None
    }
}

pub fn cloud_init_keys() -> impl Iterator<Item = &'static str> {
    CLOUD_INIT_READ
        .into_iter()
        .chain(CLOUD_INIT.split_ascii_whitespace())
}

pub fn is_cloud_inits(key: &str) -> bool {
    cloud_init_keys().any(|known| known == key)
}

/// Whether the key is `write-files`, `writeFiles` or similar: unknown to cloud-init, but probably meant as
/// `write_files`.
pub fn meant_write_files(key: &str) -> bool {
    nearest(key, ["write_files"].into_iter()).is_some()
}

/// Whether cloud-init accepts this text as a cloud-config. It compares the beginning of the text, without blank space
/// and in any case (`cloudinit/handlers/__init__.py`, `type_from_starts_with`).
pub fn is_cloud_config(text: &str) -> bool {
    begins_with(text, "#cloud-config")
        && !begins_with(text, "#cloud-config-archive")
        && !begins_with(text, "#cloud-config-jsonp")
}

/// Whether a text begins like this, as cloud-init compares.
pub fn begins_with(text: &str, beginning: &str) -> bool {
    let text = text.trim_start().as_bytes();
    text.get(..beginning.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(beginning.as_bytes()))
}

/// Whether Harvester's installer reads `written` as the key `name`, in camelCase.
///
/// `FuzzyNames` (`pkg/config/rename.go`) maps the name in lower case and in snake_case, each with and without the
/// plural's ending; the rest is read by Go's `encoding/json`, in any case. None of these forms has a hyphen.
pub fn installer_reads(written: &str, name: &str) -> bool {
    if written.eq_ignore_ascii_case(name) {
        return true;
    }
    let singulars = ["s", "es"].map(|ending| name.strip_suffix(ending));
    let names = singulars.into_iter().flatten().chain([name]);
    names
        .filter(|name| !name.is_empty())
        .any(|name| written == snake_case(name) || written == name.to_lowercase())
}

/// The snake_case form of a camelCase name.
pub fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for ch in name.chars() {
        if ch.is_uppercase() {
            snake.push('_');
        }
        snake.extend(ch.to_lowercase());
    }
    snake
}

/// The value of a key as Harvester's installer reads it; the last one counts. `name` is in camelCase.
pub fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let entries = node.entries().iter().rev();
    let mut found = entries.filter(|entry| installer_reads(&entry.key, name));
    found.next().map(|entry| &entry.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_keys_whatever_its_first_line_says() {
        for (text, kind) in [
            // harvester-installer's own pkg/config/testdata/userdata.yaml begins so.
            (
                "#cloud-config\ntoken: x\nos:\n  ntp_servers: []\ninstall:\n  mode: create\n",
                FileKind::HarvesterConfig,
            ),
            ("#!cloud-config\nos: {}\n", FileKind::HarvesterConfig),
            (
                "#cloud-config\nserver_url: https://a\ntoken: x\n",
                FileKind::HarvesterConfig,
            ),
            ("#cloud-config\ntoken: x\n", FileKind::HarvesterConfig),
            (
                "#cloud-config\nscheme_version: 1\n",
                FileKind::HarvesterConfig,
            ),
            (
                "#cloud-config\nSYSTEMSETTINGS: {}\n",
                FileKind::HarvesterConfig,
            ),
            // Values of a chart, and a file that a build service reads.
            ("install: true\nreplicas: 2\n", FileKind::Manifests),
            ("os: linux\nlanguage: go\n", FileKind::Manifests),
            // RKE2's own configuration.
            ("token: x\nserver: https://a\n", FileKind::Manifests),
            (
                "#cloud-config\nwrite_files: []\nusers: []\nos: x\n",
                FileKind::CloudInit,
            ),
            ("\n#Cloud-Config\npackages: []\n", FileKind::CloudInit),
            ("#cloud-config\nnothing-known: 1\n", FileKind::CloudInit),
            ("runcmd: []\n", FileKind::CloudInit),
            ("users: []\npackages: []\n", FileKind::CloudInit),
            ("users: []\nmine: []\n", FileKind::Manifests),
            ("write-files: []\n", FileKind::CloudInit),
            (
                "#cloud-config\nname: x\nstages:\n  initramfs: []\n",
                FileKind::Yip,
            ),
            (
                "#cloud-config\napiVersion: v1\nkind: A\n",
                FileKind::Manifests,
            ),
            (
                "{\"ignition\": {\"version\": \"3.4.0\"}}",
                FileKind::Ignition,
            ),
            (
                "{\n  \"ignition\": {\"version\": \"\\ud83d\\ude00\"}\n}\n",
                FileKind::Ignition,
            ),
            ("variant: fcos\nversion: 1.5.0\n", FileKind::Butane),
            (
                "variant: flatcar\nversion: 1.0.0\nignition: {}\n",
                FileKind::Butane,
            ),
            (
                "apiVersion: 1.3\nimage:\n  imageType: iso\n",
                FileKind::ImageBuilder,
            ),
            (
                "apiVersion: '1.0'\noperatingSystem: {}\n",
                FileKind::ImageBuilder,
            ),
            // A chart, its values, and a theme.
            (
                "apiVersion: v2\nname: a\nversion: 1.0.0\n",
                FileKind::Manifests,
            ),
            ("apiVersion: v1\nimage: nginx\n", FileKind::Manifests),
            ("variant: dark\nversion: 2\n", FileKind::Manifests),
            ("ignition: true\n", FileKind::Manifests),
            // Later mistakes hide nothing.
            (
                "{\n  \"ignition\": {\"version\": \"3.4.0\"},\n  \"storage\": {\"files\": [}\n}\n",
                FileKind::Ignition,
            ),
            (
                "variant: fcos\nversion: 1.5.0\nstorage:\n\tfiles: []\n",
                FileKind::Butane,
            ),
            ("#cloud-config\nos:\n  a: b: c\n", FileKind::HarvesterConfig),
        ] {
            assert_eq!(kind_of(text), kind, "{text:?}");
        }
    }

    #[test]
    fn what_could_be_taken_for_something_else_is_said() {
        let said = |text: &str| recognise(text).where_ambiguous();
        assert_eq!(
            said("#cloud-config\ninstall: {}\nwrite_files: []\n").unwrap(),
            "read as a Harvester configuration because of `install` in line 2, not as cloud-init user-data, \
             which `write_files` in line 3 belongs to"
        );
        assert_eq!(
            said("#cloud-config\nos: {}\nwrite_files: []\nusers: []\n").unwrap(),
            "read as cloud-init user-data because of `write_files` in line 3, not as a Harvester \
             configuration, which `os` in line 2 belongs to"
        );
        for text in [
            "#cloud-config\nos: {}\n",
            "#cloud-config\nusers: []\n",
            "a: 1\n",
        ] {
            assert_eq!(said(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_installer_reads_a_key_in_these_spellings_and_no_other() {
        for key in [
            "writeFiles",
            "write_files",
            "writefiles",
            "WriteFiles",
            "WRITEFILES",
            "write_file",
            "writefile",
        ] {
            assert!(installer_reads(key, "writeFiles"), "{key}");
        }
        for key in [
            "write-files",
            "Write_Files",
            "writeFile",
            "write files",
            "files",
        ] {
            assert!(!installer_reads(key, "writeFiles"), "{key}");
        }
        assert!(installer_reads("server_url", "serverUrl"));
    }
}
