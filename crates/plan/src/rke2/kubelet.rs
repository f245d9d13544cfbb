//! The kubelet's own configuration files, of which only feature gates are kept.
//!
//! Since 1.32 the kubelet of RKE2 reads `agent/etc/kubelet.conf.d` below the data directory. RKE2 copies the values of
//! `kubelet-arg: config=` and `config-dir=` there (k3s `pkg/daemons/agent/agent.go`). The kubelet merges the files that
//! end in `.conf` in the order of their names, key by key, and lets `--feature-gates` count after them (Kubernetes
//! `cmd/kubelet/app/server.go`).

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{MapEntry, Node, NodeValue};
use windrow_model::reasons::Code;

use super::config::{ConfigItem, ConfigLayer, MergedConfig, Rke2ConfigFile, merge, pairs, text};

const DIRECTORY: &str = "/agent/etc/kubelet.conf.d/";
const FROM_ARGUMENT: &str = "10-cli-config.conf";
const FROM_DIRECTORY: &str = "20-cli-config-dir/";
/// Files that RKE2 writes into its directory again at each start.
const OWN: [&str; 3] = ["00-rke2-defaults.conf", FROM_ARGUMENT, FROM_DIRECTORY];

/// A field of a KubeletConfiguration, without `featureGates`.
#[derive(Debug, Clone, PartialEq)]
pub struct KubeletField {
    pub name: String,
    pub value: Node,
    pub at: Location,
    /// The places of the fields below it.
    inner: Vec<Location>,
}

impl KubeletField {
    /// The text of the value, or of the field below it, for a path such as `memorySwap.swapBehavior`, and its place. The text of a
    /// list or a map is empty.
    pub fn text_at(&self, path: &str) -> Option<(String, &Location)> {
        let (first, below) = match path.split_once('.') {
            Some((first, below)) => (first, Some(below)),
            None => (path, None),
        };
        let (node, at) = match below {
            _ if first != self.name => return None,
            None => (&self.value, &self.at),
            Some(below) => {
                let mut entries = self.value.entries().iter().zip(&self.inner);
                let (entry, at) = entries.find(|(entry, _)| entry.key == below)?;
                (&entry.value, at)
            }
        };
        (!node.is_null()).then(|| (text(node), at))
    }
}

/// The arguments of a kubelet for its configuration files; the last value of each counts.
#[derive(Debug, Clone, Default)]
pub struct KubeletFiles {
    /// The value of `config=`.
    pub file: Option<ConfigItem>,
    /// The value of `config-dir=`.
    pub directory: Option<ConfigItem>,
}

impl KubeletFiles {
    pub fn new(config: &MergedConfig) -> Self {
        let last = |flag: &str| config.flag("kubelet-arg", flag).pop();
        Self {
            file: last("config"),
            directory: last("config-dir"),
        }
    }

    /// The path at which the kubelet finds this file: in RKE2's directory, or copied there; `None` if it does not read
    /// it.
    pub fn place(&self, path: &str) -> Option<String> {
        if let Some((_, below)) = path.split_once(DIRECTORY) {
            let own = OWN.iter().any(|own| below.starts_with(own));
            return (Self::is_read(below) && !own).then(|| path.to_owned());
        }
        if self.file.as_ref().is_some_and(|file| file.text == path) {
            return Some(format!("{DIRECTORY}{FROM_ARGUMENT}"));
        }
        let directory = self.directory.as_ref()?.text.trim_end_matches('/');
        let below = path.strip_prefix(directory)?.strip_prefix('/')?;
        Self::is_read(below).then(|| format!("{DIRECTORY}{FROM_DIRECTORY}{below}"))
    }

    /// Whether the kubelet reads a file of this name in a directory.
    pub fn is_read(name: &str) -> bool {
        name.ends_with(".conf")
    }

    /// The path at which the kubelet finds a file of this name without further knowledge: in RKE2's directory, or as
    /// the value of `config=`.
    pub fn as_read(name: &str) -> String {
        match Self::is_read(name) {
            true => format!("{DIRECTORY}{name}"),
            false => format!("{DIRECTORY}{FROM_ARGUMENT}"),
        }
    }
}

/// The address at which the kubelet serves its health, according to the configuration. Absent values are RKE2's
/// defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubeletHealth {
    /// `healthz-port`; 0 disables the endpoint.
    pub port: Option<ConfigItem>,
    /// `healthz-bind-address`.
    pub address: Option<ConfigItem>,
}

impl KubeletHealth {
    /// Reads it from RKE2's and the kubelet's files. A flag counts after all of the kubelet's files.
    pub fn new(files: &[Rke2ConfigFile]) -> Self {
        let config = merge(files);
        let mut health = Self {
            port: config.flag("kubelet-arg", "healthz-port").pop(),
            address: config.flag("kubelet-arg", "healthz-bind-address").pop(),
        };
        let mut own: Vec<&Rke2ConfigFile> = files
            .iter()
            .filter(|file| file.place == ConfigLayer::Kubelet)
            .collect();
        own.sort_by_key(|file| below_directory(file));
        for file in own.into_iter().rev() {
            for entry in pairs(file).unwrap_or_default() {
                let setting = match entry.key.as_str() {
                    "healthzPort" => &mut health.port,
                    "healthzBindAddress" => &mut health.address,
                    _ => continue,
                };
                setting.get_or_insert_with(|| ConfigItem {
                    text: text(&entry.value),
                    at: file.at(entry.line),
                });
            }
        }
        health
    }

    /// The line that disables the endpoint.
    pub fn switched_off(&self) -> Option<&Location> {
        let port = self.port.as_ref()?;
        (port.text == "0").then_some(&port.at)
    }

    /// Its URL, if it is not RKE2's default. If it listens on every address, the loopback interface is used.
    pub fn url(&self) -> Option<String> {
        if self.port.is_none() && self.address.is_none() {
            return None;
        }
        let set = |item: &Option<ConfigItem>| item.as_ref().map(|item| item.text.clone());
        let port = set(&self.port).unwrap_or_else(|| "10248".to_owned());
        let address = match set(&self.address).unwrap_or_default().as_str() {
            "" | "0.0.0.0" | "::" => "127.0.0.1".to_owned(),
            address if address.contains(':') => format!("[{address}]"),
            address => address.to_owned(),
        };
        Some(format!("http://{address}:{port}"))
    }
}

/// The key by which files are ordered.
fn below_directory(file: &Rke2ConfigFile) -> &str {
    let below = file.path.split_once(DIRECTORY);
    below.map_or(&file.path, |(_, below)| below)
}

/// Adds the gates of the kubelet's files, each as `name=value`, in the order in which they count.
pub(super) fn add_gates(files: &[Rke2ConfigFile], config: &mut MergedConfig) {
    let mut files: Vec<&Rke2ConfigFile> = files
        .iter()
        .filter(|file| file.place == ConfigLayer::Kubelet)
        .collect();
    files.sort_by_key(|file| below_directory(file));
    let named = KubeletFiles::new(config);
    let copied = |copy: &str| {
        files
            .iter()
            .any(|file| below_directory(file).starts_with(copy))
    };
    let absent = [
        (named.file, FROM_ARGUMENT),
        (named.directory, FROM_DIRECTORY),
    ];
    for item in absent
        .into_iter()
        .filter_map(|(item, copy)| item.filter(|_| !copied(copy)))
    {
        config.lacks_kubelet_values = true;
        config.findings.push(Finding {
            incident: None,
            code: Code::GateUndecided,
            severity: Code::GateUndecided.severity(),
            message: format!("kubelet reads {}, which is not among these files: feature gates in it are not judged. Name it as well", item.text),
            at: vec![item.at],
        });
    }
    for file in files {
        match pairs(file) {
            Ok(entries) => {
                let gates = entries.iter().filter(|entry| entry.key == "featureGates");
                for entry in gates {
                    of_file(file, &entry.value, config);
                }
                let others = ["apiVersion", "kind", "featureGates"];
                for entry in entries {
                    if !others.contains(&&*entry.key) {
                        add_field(file, entry, &mut config.kubelet_fields);
                    }
                }
            }
            Err(refused) => config.findings.push(Finding {
                message: "kubelet cannot read this KubeletConfiguration and does not start. Fix this line, or remove the file".to_owned(),
                ..refused
            }),
        }
    }
}

/// Adds a field as a merge patch does: a null takes it away, maps are merged key by key, and other values replaced.
fn add_field(file: &Rke2ConfigFile, entry: MapEntry, fields: &mut Vec<KubeletField>) {
    let place = fields.iter().position(|field| field.name == entry.key);
    let earlier = place.map(|place| fields.remove(place));
    if entry.value.is_null() {
        return;
    }
    let mut field = KubeletField {
        name: entry.key,
        at: file.at(entry.line),
        inner: Vec::new(),
        value: entry.value,
    };
    if let NodeValue::Mapping(entries) = &mut field.value.value {
        let mut inner: Vec<Location> = entries.iter().map(|inner| file.at(inner.line)).collect();
        for (old, at) in earlier
            .iter()
            .flat_map(|earlier| earlier.value.entries().iter().zip(&earlier.inner))
        {
            if !entries.iter().any(|entry| entry.key == old.key) {
                entries.push(old.clone());
                inner.push(at.clone());
            }
        }
        let kept = entries.iter().map(|entry| !entry.value.is_null());
        let kept: Vec<bool> = kept.collect();
        let mut keep = kept.iter();
        inner.retain(|_| keep.next() != Some(&false));
        entries.retain(|entry| !entry.value.is_null());
        field.inner = inner;
    }
    fields.push(field);
}

fn of_file(file: &Rke2ConfigFile, map: &Node, config: &mut MergedConfig) {
    let mut wrong = |line: u32, what: &str| {
        config.findings.push(Finding {
            incident: None,
            code: Code::GateSyntax,
            severity: Code::GateSyntax.severity(),
            message: format!("kubelet does not start: in featureGates, {what}"),
            at: vec![file.at(line)],
        });
    };
    let entries = match &map.value {
        NodeValue::Mapping(entries) => entries.as_slice(),
        NodeValue::Null => &[],
        _ => {
            let what = format!("there is {}, not a map: write Name: true", map.type_name());
            return wrong(map.line, &what);
        }
    };
    for entry in entries {
        match entry.value.value {
            NodeValue::Bool(value) => config.kubelet_gates.push(ConfigItem {
                text: format!("{}={value}", entry.key),
                at: file.at(entry.line),
            }),
            // As if it were not written (a merge patch).
            NodeValue::Null => {}
            _ => wrong(
                entry.line,
                &format!(
                    "`{}` is {}: write true or false, without quotes",
                    entry.key,
                    entry.value.type_name()
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubelet(path: &str, text: &str) -> Rke2ConfigFile {
        Rke2ConfigFile::new(ConfigLayer::Kubelet, path, text)
    }

    #[test]
    fn the_kubelets_health_is_where_its_last_file_or_else_its_flags_have_it() {
        let health = |arguments: &str, files: &[(&str, &str)]| {
            let main = format!("kubelet-arg: [{arguments}]");
            let mut all = vec![Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", main)];
            all.extend(files.iter().map(|(path, text)| kubelet(path, text)));
            KubeletHealth::new(&all)
        };
        assert_eq!(health("", &[]).url(), None);
        let port = health("healthz-port=10348", &[("/d/50-a.conf", "healthzPort: 1")]);
        assert_eq!(port.url().as_deref(), Some("http://127.0.0.1:10348"));
        let files = [
            (
                "/d/50-b.conf",
                "healthzBindAddress: fd00::1\nhealthzPort: 2\n",
            ),
            ("/d/50-a.conf", "healthzPort: 0\n"),
        ];
        assert_eq!(
            health("", &files).url().as_deref(),
            Some("http://[fd00::1]:2")
        );
        assert_eq!(health("", &files).switched_off(), None);
        let any = health("healthz-bind-address=0.0.0.0", &[]);
        assert_eq!(any.url().as_deref(), Some("http://127.0.0.1:10248"));
        let off = health("healthz-port=0", &[]);
        assert_eq!(off.switched_off(), Some(&Location::line("config.yaml", 1)));
    }

    #[test]
    fn gates_of_the_kubelets_files_count_in_the_order_of_their_names() {
        let merged = merge(&[
            kubelet(
                "/d/50-b.conf",
                "kind: KubeletConfiguration\nfeatureGates: {B: true, A: false}\n",
            ),
            kubelet("/d/10-a.conf", "featureGates:\n  A: true\n  C:\n"),
            Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", "featureGates: {X: true}"),
        ]);
        let texts: Vec<_> = merged
            .kubelet_gates
            .iter()
            .map(|gate| (&*gate.text, gate.at.to_string()))
            .collect();
        assert_eq!(
            texts,
            [
                ("A=true", "/d/10-a.conf:2".to_owned()),
                ("B=true", "/d/50-b.conf:2".to_owned()),
                ("A=false", "/d/50-b.conf:2".to_owned())
            ]
        );
        assert_eq!(merged.findings, []);
    }

    #[test]
    fn what_is_no_gate_is_said_with_its_line() {
        let merged = merge(&[
            kubelet("/d/1.conf", "featureGates:\n  A: \"true\"\n  B: 1\n"),
            kubelet("/d/2.conf", "featureGates: [A=true]\n"),
            kubelet("/d/3.conf", "featureGates: [\n"),
        ]);
        let at: Vec<_> = merged
            .findings
            .iter()
            .map(|finding| finding.at[0].to_string())
            .collect();
        assert_eq!(at[..3], ["/d/1.conf:2", "/d/1.conf:3", "/d/2.conf:1"]);
        assert!(at[3].starts_with("/d/3.conf"), "{at:?}");
        assert!(
            merged.findings[3]
                .message
                .starts_with("kubelet cannot read")
        );
    }

    #[test]
    fn a_file_is_the_kubelets_by_its_place_or_because_an_argument_names_it() {
        let nothing = KubeletFiles::default();
        for drop_in in [
            "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/50-a.conf",
            "/data/agent/etc/kubelet.conf.d/below/a.conf",
        ] {
            assert_eq!(nothing.place(drop_in).unwrap(), drop_in);
        }
        for other in [
            "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-rke2-defaults.conf",
            "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/20-cli-config-dir/a.conf",
            "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/a.yaml",
            "/etc/kubernetes/kubelet.conf",
        ] {
            assert_eq!(nothing.place(other), None, "{other}");
        }
        let named = KubeletFiles::new(&merge(&[arguments()]));
        let at = |path: &str| named.place(path);
        let copied = |name: &str| Some(format!("/agent/etc/kubelet.conf.d/{name}"));
        assert_eq!(
            at("/etc/rancher/rke2/kubelet.yaml"),
            copied("10-cli-config.conf")
        );
        assert_eq!(
            at("/etc/kubelet.d/x.conf"),
            copied("20-cli-config-dir/x.conf")
        );
        assert_eq!(at("/etc/kubelet.d/x.yaml"), None);
        assert_eq!(at("/etc/kubelet.d2/x.conf"), None);
    }

    fn arguments() -> Rke2ConfigFile {
        let text =
            "kubelet-arg: [config=/etc/rancher/rke2/kubelet.yaml, config-dir=/etc/kubelet.d/]";
        Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text)
    }

    #[test]
    fn what_an_argument_names_and_nobody_has_seen_is_not_judged() {
        let absent = |files: &[Rke2ConfigFile]| -> Vec<String> {
            let findings = merge(files).findings;
            findings
                .iter()
                .map(|finding| finding.message.clone())
                .collect()
        };
        let both = absent(&[arguments()]);
        assert!(both[0].starts_with("kubelet reads /etc/rancher/rke2/kubelet.yaml, which is not"));
        assert!(both[1].starts_with("kubelet reads /etc/kubelet.d/, which is not"));
        let file = kubelet("/agent/etc/kubelet.conf.d/10-cli-config.conf", "kind: X");
        assert_eq!(absent(&[arguments(), file]), [both[1].clone()]);
    }
}
