//! The charts that a directory installs: their names, versions and values.

use windrow_model::findings::Location;
use windrow_model::manifest::{Node, NodeValue, Object, ObjectRef, yaml};

use super::SwitchedOff;
use super::range::{Numbers, numbers};
use crate::SourceMap;

/// Longest name: no API server accepts a longer one.
const LONGEST_NAME: usize = 1000;

/// A chart that helm-controller installs.
#[derive(Debug, Clone)]
pub struct InstalledChart {
    name: String,
    /// The release, which is the name of the HelmChart.
    release: String,
    /// The namespace of its objects.
    namespace: String,
    /// The namespace that it creates.
    creates: Option<ObjectRef>,
    /// The repository, or the complete URL of the chart.
    address: String,
    version: Option<Numbers>,
    /// The values in order of precedence: `spec.set`, then HelmChartConfigs, then `spec.valuesContent`.
    values: Vec<ChartValues>,
    /// Whether there are also values in Secrets. They take precedence over all except `spec.set`.
    has_secret_values: bool,
}

/// Values of a chart, with the lines of the manifest.
#[derive(Debug, Clone)]
struct ChartValues {
    root: Node,
    from: ValueSource,
}

#[derive(Debug, Clone)]
enum ValueSource {
    /// `spec.set` of the HelmChart, whose values are all texts.
    Set,
    /// `spec.valuesContent` of the HelmChart.
    Content,
    /// `spec.valuesContent` of a HelmChartConfig, with its position.
    Config(SourceMap),
}

/// The values that a HelmChartConfig adds to the HelmChart of the same name.
#[derive(Debug, Clone)]
pub(crate) struct ChartConfig {
    values: Option<Node>,
    has_secret_values: bool,
}

/// The chart of a HelmChart. `None` for other objects, and for a HelmChart without a chart.
pub fn installed_chart(object: &Object) -> Option<InstalledChart> {
    if object.id.group != "helm.cattle.io" || object.id.kind != "HelmChart" {
        return None;
    }
    let spec = object.node.get("spec")?;
    let written = spec.str_at(&["chart"]).filter(|text| !text.is_empty());
    // If the object contains the chart, the chart has the name of the object.
    let content = spec
        .str_at(&["chartContent"])
        .map(|_| object.id.name.as_str());
    let (name, in_name) = split(written.or(content)?);
    let stated = spec.str_at(&["version"]).and_then(upstream_version);
    let set = spec.get("set").cloned().map(|root| ChartValues {
        root,
        from: ValueSource::Set,
    });
    let content = values_content(spec).map(|root| ChartValues {
        root,
        from: ValueSource::Content,
    });
    let own = object.id.namespace_or_default();
    let target = spec.str_at(&["targetNamespace"]);
    Some(InstalledChart {
        name: name.to_owned(),
        release: object.id.name.to_string(),
        namespace: target.unwrap_or(own).to_owned(),
        address: [spec.str_at(&["repo"]), written]
            .into_iter()
            .flatten()
            .collect(),
        version: stated.or(in_name),
        creates: created_namespace(spec),
        values: set.into_iter().chain(content).collect(),
        has_secret_values: has_secret_values(spec),
    })
}

/// The content of a HelmChartConfig. `None` for other objects.
pub(crate) fn chart_config(object: &Object) -> Option<ChartConfig> {
    if object.id.group != "helm.cattle.io" || object.id.kind != "HelmChartConfig" {
        return None;
    }
    let spec = object.node.get("spec")?;
    Some(ChartConfig {
        values: values_content(spec),
        has_secret_values: has_secret_values(spec),
    })
}

fn has_secret_values(spec: &Node) -> bool {
    let secrets = spec.get("valuesSecrets");
    secrets.is_some_and(|secrets| !secrets.items().is_empty())
}

/// The namespace that a chart creates (helm-controller since v0.15.0: `helm install --create-namespace --namespace TARGET`).
/// Without a target it is the chart's own namespace, which already exists.
fn created_namespace(spec: &Node) -> Option<ObjectRef> {
    let name = spec.str_at(&["targetNamespace"])?;
    let creates = spec.get("createNamespace")?.as_bool() == Some(true);
    let named = (1..=LONGEST_NAME).contains(&name.len());
    (creates && named).then(|| ObjectRef::cluster("", "Namespace", name))
}

/// `valuesContent`, each value with its line in the manifest.
fn values_content(spec: &Node) -> Option<Node> {
    let entry = spec.entry("valuesContent")?;
    let text = entry.value.as_str()?;
    let mut values = yaml::parse_configuration(text).ok().flatten()?;
    let opens = entry.value.line;
    let last = opens.saturating_add(u32::try_from(text.lines().count()).unwrap_or(u32::MAX));
    let mut others = spec.entries().iter();
    // A block begins in the line after its `|`, while a quoted text may have line breaks anywhere.
    let is_block =
        text.contains('\n') && others.all(|other| other.line <= entry.line || other.line > last);
    place_lines(&mut values, &|line| match is_block {
        true => opens.saturating_add(line),
        false => entry.line,
    });
    Some(values)
}

/// Sets the line of every part of a value.
fn place_lines(node: &mut Node, place: &impl Fn(u32) -> u32) {
    node.line = place(node.line);
    match &mut node.value {
        NodeValue::Sequence(items) => {
            for item in items {
                place_lines(item, place);
            }
        }
        NodeValue::Mapping(entries) => {
            for entry in entries {
                entry.line = place(entry.line);
                place_lines(&mut entry.value, place);
            }
        }
        _ => {}
    }
}

/// The version of a chart for comparisons with knowledge. For a chart that Rancher repackages (`104.1.0+up57.0.3`,
/// rancher/charts) it is the original version. `None` for a version range such as `1.x`.
pub fn upstream_version(text: &str) -> Option<[u32; 3]> {
    match text.split_once("+up") {
        Some((own, upstream)) => numbers(own).and_then(|_| numbers(upstream)),
        None => numbers(text),
    }
}

/// The name of a chart without its repository, and the version from the name of an archive.
fn split(chart: &str) -> (&str, Option<Numbers>) {
    let name = chart
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or(chart);
    let Some(archive) = name.strip_suffix(".tgz") else {
        return (name.split(':').next().unwrap_or(name), None);
    };
    let version = archive.match_indices('-').find_map(|(at, _)| {
        let version = upstream_version(&archive[at + 1..])?;
        Some((&archive[..at], Some(version)))
    });
    version.unwrap_or((archive, None))
}

impl InstalledChart {
    pub(super) fn is_called(&self, name: &str, repository: Option<&str>) -> bool {
        self.name == name && repository.is_none_or(|part| self.address.contains(part))
    }

    /// The version, parsed by [`upstream_version`]; `None` if the HelmChart has none.
    pub fn version(&self) -> Option<[u32; 3]> {
        self.version
    }

    /// The name without the repository.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The Helm release, which is the name of the HelmChart.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The repository, or the complete URL of the chart; otherwise empty.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether its values contain additional objects. Many charts have `extraObjects`, `extraManifests` or `extraDeploy`.
    pub(crate) fn carries_objects(&self) -> bool {
        let entries = self.values.iter().flat_map(|values| values.root.entries());
        let mut keys = entries.map(|entry| entry.key.as_str());
        keys.any(|key| key.starts_with("extra"))
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The usual name of a release of this chart in Helm's templates: `helm create` writes this rule into every chart.
    pub(super) fn fullname(&self) -> String {
        match self.release.contains(&self.name) {
            true => self.release.clone(),
            false => format!("{}-{}", self.release, self.name),
        }
    }

    pub(crate) fn created_namespace(&self) -> Option<&ObjectRef> {
        self.creates.as_ref()
    }

    /// The chart with the values of a HelmChartConfig of the same name.
    #[must_use]
    pub(crate) fn configured_by(&self, config: &ChartConfig, shown: &SourceMap) -> Self {
        let mut chart = self.clone();
        chart.has_secret_values |= config.has_secret_values;
        if let Some(root) = config.values.clone() {
            let from = ValueSource::Config(shown.clone());
            let behind_set = |values: &ChartValues| matches!(values.from, ValueSource::Set);
            let at = chart.values.partition_point(behind_set);
            chart.values.insert(at, ChartValues { root, from });
        }
        chart
    }

    /// A value: the key in `spec.set`, or the path in the other values.
    pub(super) fn value(&self, path: &str) -> Option<&Node> {
        self.written_value(path).map(|(value, _)| value)
    }

    fn written_value(&self, path: &str) -> Option<(&Node, &ValueSource)> {
        let keys: Vec<&str> = path.split('.').collect();
        self.values.iter().find_map(|values| {
            let root = &values.root;
            let value = root.get(path).or_else(|| root.at(&keys))?;
            Some((value, &values.from))
        })
    }

    /// Whether one of these values is true, or the list is empty.
    pub(super) fn sets_one_of(&self, values: &[String]) -> bool {
        let is_true =
            |value: &Node| value.as_bool() == Some(true) || value.as_str() == Some("true");
        let sets = |path: &String| self.value(path).is_some_and(is_true);
        values.is_empty() || values.iter().any(sets)
    }

    /// Whether this value is false. A text can be false only in `spec.set`; elsewhere Helm treats it as a text.
    pub(super) fn switches_off(&self, path: &str) -> bool {
        self.written_value(path)
            .is_some_and(|(value, from)| is_false(value, from))
    }

    /// The first of these values that is false, if no Secret can override it. `shown` is the position of the HelmChart.
    pub(super) fn switched_off(&self, values: &[String], shown: &SourceMap) -> Option<SwitchedOff> {
        values.iter().find_map(|path| {
            let (value, from) = self.written_value(path)?;
            let counts = matches!(from, ValueSource::Set) || !self.has_secret_values;
            (counts && is_false(value, from)).then(|| SwitchedOff {
                value: path.clone(),
                at: from.place(value.line, shown),
            })
        })
    }
}

fn is_false(value: &Node, from: &ValueSource) -> bool {
    value.as_bool() == Some(false)
        || (matches!(from, ValueSource::Set) && value.as_str() == Some("false"))
}

impl ValueSource {
    /// The position of a line of these values.
    fn place(&self, line: u32, chart: &SourceMap) -> Location {
        match self {
            Self::Set | Self::Content => chart.at(Some(line)),
            Self::Config(config) => config.at(Some(line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_known_by_the_last_part_of_its_address() {
        for (chart, name, version) in [
            ("cert-manager", "cert-manager", None),
            (
                "oci://quay.io/jetstack/charts/cert-manager",
                "cert-manager",
                None,
            ),
            ("oci://example.com/charts/metallb:0.14.9", "metallb", None),
            (
                "https://example.com/a/kube-prometheus-stack-70.4.1.tgz",
                "kube-prometheus-stack",
                Some([70, 4, 1]),
            ),
            (
                "https://example.com/a/cert-manager-v1.16.2.tgz",
                "cert-manager",
                Some([1, 16, 2]),
            ),
            (
                "https://example.com/a/longhorn-crd-104.1.0+up1.6.2.tgz",
                "longhorn-crd",
                Some([1, 6, 2]),
            ),
            (
                "%{KUBERNETES_API}%/static/charts/rancher.tgz",
                "rancher",
                None,
            ),
        ] {
            assert_eq!(split(chart), (name, version));
        }
    }
}
