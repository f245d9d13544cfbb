//! A definition of Edge Image Builder, and its directory.
//!
//! Source: suse-edge/edge-image-builder v1.3.3, `pkg/combustion/kubernetes.go`, `pkg/registry/`,
//! `pkg/kubernetes/cluster.go` and `pkg/combustion/templates/rke2-single-node-installer.sh.tpl`:
//!
//! ```text
//!   os-files/PATH                  ──> /PATH                                            (19-copy-os-files.sh)
//!   kubernetes/config/server.yaml  ──> /etc/rancher/rke2/config.yaml, with `cni: cilium` if it has no `cni`
//!   network.apiVIP                 ──> k8s-vip.yaml, metallb.yaml, …  ┐
//!   kubernetes/manifests/NAME      ──> NAME                           ├ /opt/eib-k8s/manifests
//!   helm.charts                    ──> NAME.yaml, a HelmChart         ┘
//! ```
//!
//! The files in /opt/eib-k8s/manifests are created with `kubectl create`, by the unit kubernetes-resources-install of
//! the first node of the cluster: as soon as kube-apiserver answers, in the order of the names, and again every minute
//! until all of them exist. Up to v1.0.2 they were copied into RKE2's own directory.

mod objects;
mod rules;

use windrow_model::manifest::{
    APPLIED_BY_IMAGE_BUILDER, FileContent, Object, ReadLimits, is_manifest_name, read,
};
use windrow_model::reasons::Code;

use super::put::{ContentError, FoundContent, WrittenTo};
use super::taker::Extractor;
use super::{InnerLines, Node, NodeValue, Problem, unclear, yaml};

/// The supported versions of definitions.
const VERSIONS: [&str; 4] = ["1.0", "1.1", "1.2", "1.3"];
/// RKE2's configuration in the directory of a definition.
const SERVER: &str = "kubernetes/config/server.yaml";
const AGENT: &str = "kubernetes/config/agent.yaml";
const MANIFESTS: &str = "kubernetes/manifests";
const VALUES: &str = "kubernetes/helm/values";
const OS_FILES: &str = "os-files";
const SCRIPTS: &str = "custom/scripts";

impl Extractor<'_> {
    pub(super) fn image_builder(&mut self, root: &Node) {
        let version = self.definition_version(root);
        let broken = rules::problems(root, &version, self.beside);
        self.extraction.problems.extend(broken);
        if self.beside.is_known() {
            self.os_files(root.line);
            self.scripts(root.line);
        } else {
            let what = "the files next to the definition (os-files, kubernetes, custom); give the definition by its name";
            self.not_looked_at(root.line, what);
        }
        let Some(kubernetes) = root.get("kubernetes").filter(|node| !node.is_null()) else {
            return;
        };
        let Some(version) = kubernetes
            .get("version")
            .filter(|version| !text(version).is_empty())
        else {
            return self.without_version(kubernetes);
        };
        if !text(version).contains("rke2") {
            let what = "a cluster of another Kubernetes than RKE2, which Windrow is for";
            return self.not_looked_at(version.line, what);
        }
        self.extraction.rke2_version = Some(text(version).to_owned());
        if self.beside.is_known() {
            self.server_configuration(kubernetes.line);
        }
        self.nodes(kubernetes);
        self.address(kubernetes);
        self.manifests(kubernetes.line);
        self.addresses_of_manifests(kubernetes);
        self.charts(kubernetes);
        let applied = self.extraction.files.iter();
        let applied = applied.filter(|file| file.path.starts_with(APPLIED_BY_IMAGE_BUILDER));
        let (applied, line) = (applied.count(), kubernetes.line);
        if applied > 0 {
            let note = format!(
                "Edge Image Builder (from 1.1 on) creates {applied} of its files with kubectl once RKE2 answers, and again every minute \
                 until all is there; RKE2 does not read them, and Windrow holds none of them"
            );
            self.extraction.notes.push((line, note));
        }
    }

    fn definition_version(&mut self, root: &Node) -> String {
        let written = version_of(root);
        if let Some(version) = root.get("apiVersion")
            && !VERSIONS.contains(&written.as_str())
        {
            let what = format!(
                "keys that a definition of version {written} may have in addition to those of 1.3"
            );
            self.not_looked_at(version.line, &what);
        }
        written
    }

    /// Edge Image Builder rejects manifests and charts for a cluster without a version
    /// (`pkg/image/validation/kubernetes.go`).
    fn without_version(&mut self, kubernetes: &Node) {
        let given = [&["manifests", "urls"][..], &["helm", "charts"]];
        let mut given = given.iter().filter_map(|path| kubernetes.at(path));
        let local = matches!(self.beside.below(MANIFESTS), Ok(Some(paths)) if !paths.is_empty());
        if local || given.any(|list| !list.items().is_empty()) {
            let message = "`kubernetes.version` is missing, and Edge Image Builder refuses manifests and charts without it; \
                           write RKE2's version, for example v1.34.2+rke2r1";
            self.problem(kubernetes.line, message.to_owned());
        }
    }

    /// Files that are copied to the node unchanged.
    fn os_files(&mut self, line: u32) {
        for path in self.listed_beside(OS_FILES, line) {
            let to = WrittenTo {
                path: &format!("/{path}"),
                path_line: line,
                line,
                appends: None,
            };
            let from = format!("{OS_FILES}/{path}");
            self.put(&to, |taker| taker.lying_beside(&from, line));
        }
    }

    /// Scripts that run during the first boot.
    fn scripts(&mut self, line: u32) {
        for name in self.listed_beside(SCRIPTS, line) {
            let path = format!("{SCRIPTS}/{name}");
            let Ok(Some(file)) = self.beside.read(&path) else {
                continue;
            };
            if let Some((number, directory)) = unclear(&String::from_utf8_lossy(&file.bytes)) {
                let what = format!(
                    "{path}:{number} names {directory}, and Windrow cannot tell the script's effect there"
                );
                self.not_looked_at(line, &what);
            }
        }
    }

    /// RKE2's configuration. On the first node of the cluster it has no `server`.
    fn server_configuration(&mut self, line: u32) {
        let to = WrittenTo {
            path: "/etc/rancher/rke2/config.yaml",
            path_line: line,
            line,
            appends: None,
        };
        self.put(&to, |taker| {
            let mut found = match taker.beside.read(SERVER) {
                Ok(None) => FoundContent {
                    bytes: Vec::new(),
                    lines: InnerLines::Begin { line },
                    source: None,
                },
                _ => taker.lying_beside(SERVER, line)?,
            };
            add_default_cni(&mut found);
            Ok(found)
        });
    }

    /// Which of several nodes this is.
    fn nodes(&mut self, kubernetes: &Node) {
        let Some(list) = kubernetes
            .get("nodes")
            .filter(|list| list.items().len() > 1)
        else {
            return;
        };
        let nodes = list.items().iter();
        let mut servers = nodes.filter(|node| node.str_at(&["type"]) == Some("server"));
        let begins = |node: &&Node| node.get("initializer").and_then(Node::as_bool) == Some(true);
        let first = list.items().iter().find(begins).or_else(|| servers.next());
        let Some(first) = first else {
            let message = "none of the nodes is a server, and Edge Image Builder refuses that; write `type: server`";
            return self.problem(list.line, message.to_owned());
        };
        let mut note = format!(
            "read as the node {}, which begins the cluster; {} join it and get only its configuration",
            first.str_at(&["hostname"]).unwrap_or_default(),
            match list.items().len() - 1 {
                1 => "one other".to_owned(),
                others => format!("{others} others"),
            }
        );
        if matches!(self.beside.read(AGENT), Ok(Some(_))) {
            note += &format!(" ({AGENT}, which is for agents, is not checked)");
        }
        self.extraction.notes.push((list.line, note));
    }

    /// The address of the cluster, for which MetalLB answers.
    fn address(&mut self, kubernetes: &Node) {
        let network = kubernetes.get("network");
        let of = |key: &str| network.and_then(|network| network.get(key));
        let given =
            [of("apiVIP"), of("apiVIP6")].map(|node| node.filter(|node| !text(node).is_empty()));
        let Some(line) = given.iter().flatten().map(|node| node.line).next() else {
            let nodes = kubernetes.list("nodes");
            if nodes.len() > 1 {
                let message = "several nodes need `kubernetes.network.apiVIP`, and Edge Image Builder refuses the definition; write the \
                               cluster's address";
                self.problem(kubernetes.line, message.to_owned());
            }
            return;
        };
        let [four, six] = given.map(|node| node.map_or("", text));
        self.applied(
            "k8s-vip.yaml",
            line,
            generated(objects::address(four, six), line),
        );
        for (name, namespace) in objects::ADDRESS_CHARTS {
            let chart = objects::address_chart(name, namespace);
            self.applied(&format!("{name}.yaml"), line, generated(chart, line));
        }
    }

    /// The manifests next to the definition, without those in subdirectories.
    fn manifests(&mut self, line: u32) {
        for name in self.listed_beside(MANIFESTS, line) {
            let path = format!("{MANIFESTS}/{name}");
            if name.contains('/') {
                let note = format!("{path} is in a subdirectory: Edge Image Builder ignores it");
                self.extraction.notes.push((line, note));
            } else if !is_manifest_name(&name) {
                let what =
                    format!("{path}: kubectl reads it under any name; end its name in .yaml");
                self.not_looked_at(line, &what);
            } else {
                match self.lying_beside(&path, line) {
                    Ok(found) => {
                        let late = late_configs(&path, &found.bytes, line, self.limits);
                        self.extraction.problems.extend(late);
                        self.applied(&name, line, found);
                    }
                    Err(ContentError::Wrong { line, message }) => self.problem(line, message),
                    Err(ContentError::Unknown(problem)) => self.extraction.problems.push(problem),
                }
            }
        }
    }

    /// The manifests that are fetched when the image is built.
    fn addresses_of_manifests(&mut self, kubernetes: &Node) {
        let urls = kubernetes.at(&["manifests", "urls"]);
        for url in urls.map_or(&[][..], Node::items) {
            let what = format!(
                "{}: Edge Image Builder fetches it when the image is built; put the file into {MANIFESTS}",
                shown(text(url))
            );
            self.not_looked_at(url.line, &what);
        }
    }

    /// The charts, each as the HelmChart that Edge Image Builder makes from it.
    fn charts(&mut self, kubernetes: &Node) {
        let helm = kubernetes.get("helm");
        let list = |key: &str| {
            let list = helm.and_then(|helm| helm.get(key));
            list.map_or(&[][..], Node::items)
        };
        for chart in list("charts") {
            // The rules report a chart without a name.
            let Some(name) = chart.str_at(&["name"]) else {
                continue;
            };
            let repository = chart.str_at(&["repositoryName"]).unwrap_or_default();
            let mut repositories = list("repositories").iter();
            let url = repositories.find(|one| one.str_at(&["name"]) == Some(repository));
            if url.is_none() {
                let message = format!(
                    "the chart {name} is of the repository `{repository}`, which `repositories` does not have; Edge Image Builder \
                     refuses the definition"
                );
                self.problem(chart.line, message);
            }
            let Some(values) = self.values(chart) else {
                continue;
            };
            let url = url.and_then(|one| one.str_at(&["url"])).unwrap_or_default();
            let (release, object) = objects::chart(chart, name, url, &values);
            self.applied(
                &format!("{release}.yaml"),
                chart.line,
                generated(object, chart.line),
            );
        }
    }

    /// The values of a chart; `None` if they cannot be read.
    fn values(&mut self, chart: &Node) -> Option<String> {
        let Some(file) = chart
            .get("valuesFile")
            .filter(|file| !text(file).is_empty())
        else {
            return Some(String::new());
        };
        let path = format!("{VALUES}/{}", text(file));
        match self.beside.read(&path) {
            Ok(Some(values)) => return Some(String::from_utf8_lossy(&values.bytes).into_owned()),
            Ok(None) => {
                let message =
                    format!("{path} is not next to the definition; Edge Image Builder refuses it");
                self.problem(file.line, message);
            }
            Err(why) => self.not_looked_at(file.line, &format!("{path}: {why}")),
        }
        None
    }

    /// A manifest that kubectl creates.
    fn applied(&mut self, name: &str, line: u32, found: FoundContent) {
        self.extraction.written += 1;
        let path = format!("{APPLIED_BY_IMAGE_BUILDER}{name}");
        let to = WrittenTo {
            path: &path,
            path_line: line,
            line,
            appends: None,
        };
        let file = self.found(&to, path.clone(), found);
        self.keep_manifest(line, file);
    }

    /// The files below a directory, which may be absent.
    fn listed_beside(&mut self, directory: &str, line: u32) -> Vec<String> {
        match self.beside.below(directory) {
            Ok(paths) => paths.unwrap_or_default(),
            Err(_) if !self.beside.is_known() => Vec::new(),
            Err(why) => {
                self.not_looked_at(line, &format!("{directory}: {why}"));
                Vec::new()
            }
        }
    }

    fn lying_beside(&mut self, path: &str, line: u32) -> Result<FoundContent, ContentError> {
        let unknown = |why: &str| {
            let problem = super::not_looked_at(line, &format!("{path}: {why}"));
            ContentError::Unknown(problem)
        };
        match self.beside.read(path) {
            Ok(Some(file)) => Ok(FoundContent {
                bytes: file.bytes,
                lines: InnerLines::Follow { first: 1 },
                source: Some(file.shown),
            }),
            Ok(None) => Err(unknown(
                "there is no such file, or a link that leads nowhere",
            )),
            Err(why) => Err(unknown(&why)),
        }
    }
}

/// The version of a definition; empty if it has none.
fn version_of(root: &Node) -> String {
    let Some(version) = root.get("apiVersion") else {
        return String::new();
    };
    // To YAML `1.0` is a number.
    match &version.value {
        NodeValue::Number(number) => format!("{:.1}", number.as_f64().unwrap_or_default()),
        _ => text(version).to_owned(),
    }
}

/// Whether the keys of this definition's version are known.
pub(super) fn is_known_version(root: &Node) -> bool {
    VERSIONS.contains(&version_of(root).as_str())
}

/// The HelmChartConfigs of RKE2's own charts in a manifest of the cluster. kubectl applies it when the cluster is up, after RKE2 has
/// installed these charts (edge-image-builder v1.3.3, `docs/building-images.md`, Kubernetes; issue 734).
fn late_configs(path: &str, content: &[u8], line: u32, limits: &ReadLimits) -> Vec<Problem> {
    let content = FileContent::Bytes(content.to_vec());
    let file = read(path, &content, limits);
    let is_packaged = |object: &&Object| {
        let id = &object.id;
        (id.group.as_str(), id.kind.as_str()) == ("helm.cattle.io", "HelmChartConfig")
            && id.name.starts_with("rke2-")
    };
    let configs = file.objects().filter(is_packaged);
    let late = configs.map(|config| {
        let code = Code::ChartConfigLate;
        Problem {
            code,
            line: Some(line),
            message: code.say(&[("file", path), ("name", &config.id.name)]),
        }
    });
    late.collect()
}

/// Adds Cilium if RKE2's configuration has no other CNI (`setClusterCNI`).
fn add_default_cni(found: &mut FoundContent) {
    const DEFAULT: &str = "cni: cilium\n";
    let Ok(text) = std::str::from_utf8(&found.bytes) else {
        return;
    };
    match yaml::parse_configuration(text) {
        Ok(None) => found.bytes = DEFAULT.into(),
        Ok(Some(root)) if root.get("cni").is_some() || root.entries().is_empty() => {}
        Ok(Some(root)) if text.trim_start().starts_with('{') => {
            let mut value = root.to_json();
            value["cni"] = "cilium".into();
            found.bytes = value.to_string().into_bytes();
        }
        Ok(Some(_)) => {
            if !text.ends_with('\n') {
                found.bytes.push(b'\n');
            }
            found.bytes.extend(DEFAULT.as_bytes());
        }
        // The reader of the configuration reports its problems.
        Err(_) => {}
    }
}

fn generated(text: String, line: u32) -> FoundContent {
    FoundContent {
        bytes: text.into_bytes(),
        lines: InnerLines::Begin { line },
        source: None,
    }
}

fn refused(line: u32, why: &str) -> Problem {
    Problem {
        code: Code::InputRefused,
        line: Some(line),
        message: format!("Edge Image Builder refuses the definition: {why}"),
    }
}

/// A text; empty for anything else.
fn text(node: &Node) -> &str {
    node.as_str().unwrap_or_default()
}

/// A URL without the name, the password and the query, which may be secret.
fn shown(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = path.split_once("://").unwrap_or(("https", path));
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}
