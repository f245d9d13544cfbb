//! Charts that a directory installs: what they are called, in which version, with which values.

use windrow_model::manifest::{Node, Object, yaml};

use super::range::{Numbers, numbers};

/// A chart that helm-controller installs.
#[derive(Debug)]
pub struct InstalledChart {
    name: String,
    /// The release: the HelmChart's own name.
    release: String,
    /// Where its objects go.
    namespace: String,
    /// Its repository, or the whole address of the chart.
    address: String,
    version: Option<Numbers>,
    /// What `spec.set` and `spec.valuesContent` say.
    values: Vec<Node>,
}

/// The chart of a HelmChart. `None` where it is none, or names no chart.
pub fn installed_chart(object: &Object) -> Option<InstalledChart> {
    if object.id.group != "helm.cattle.io" || object.id.kind != "HelmChart" {
        return None;
    }
    let spec = object.node.get("spec")?;
    let written = spec.str_at(&["chart"]).filter(|text| !text.is_empty());
    // A chart whose content stands in the object is called like the object.
    let content = spec
        .str_at(&["chartContent"])
        .map(|_| object.id.name.as_str());
    let (name, in_name) = split(written.or(content)?);
    let stated = spec.str_at(&["version"]).and_then(upstream_version);
    let values = spec.str_at(&["valuesContent"]);
    let values = values.and_then(|text| yaml::parse_configuration(text).ok().flatten());
    let own = object.id.namespace.as_deref().unwrap_or("default");
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
        values: spec.get("set").cloned().into_iter().chain(values).collect(),
    })
}

/// The version of a chart, by which knowledge compares. Of one that Rancher packages again (`104.1.0+up57.0.3`, rancher/charts) that of
/// the original. `None` for what is not a version of its own, such as `1.x`.
pub fn upstream_version(text: &str) -> Option<[u32; 3]> {
    match text.split_once("+up") {
        Some((own, upstream)) => numbers(own).and_then(|_| numbers(upstream)),
        None => numbers(text),
    }
}

/// A chart's name without its repository, and the version in an archive's name.
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
    /// Is it this chart?
    pub(super) fn is_called(&self, name: &str, repository: Option<&str>) -> bool {
        self.name == name && repository.is_none_or(|part| self.address.contains(part))
    }

    /// Its version, as [`upstream_version`] reads it; `None` where the HelmChart names none.
    pub fn version(&self) -> Option<[u32; 3]> {
        self.version
    }

    /// What it is called, without its repository.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The Helm release: the HelmChart's own name.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Its repository, or the whole address of the chart; empty where it is neither.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Do its values carry objects of their own? Many charts have `extraObjects`, `extraManifests` or `extraDeploy`.
    pub(crate) fn carries_objects(&self) -> bool {
        let entries = self.values.iter().flat_map(Node::entries);
        let mut keys = entries.map(|entry| entry.key.as_str());
        keys.any(|key| key.starts_with("extra"))
    }

    /// The namespace that its objects go to.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// What Helm's templates usually call a release of this chart: `helm create` writes that rule into every chart.
    pub(super) fn fullname(&self) -> String {
        match self.release.contains(&self.name) {
            true => self.release.clone(),
            false => format!("{}-{}", self.release, self.name),
        }
    }

    /// A value that is set: the key of `spec.set`, or the place in the values.
    pub(super) fn value(&self, path: &str) -> Option<&Node> {
        let keys: Vec<&str> = path.split('.').collect();
        let mut set = self.values.iter().filter_map(|root| root.get(path));
        let mut written = self.values.iter().filter_map(|root| root.at(&keys));
        set.next().or_else(|| written.next())
    }

    /// Is one of these values true, if any has to be?
    pub(super) fn sets_one_of(&self, values: &[String]) -> bool {
        let is_true =
            |value: &Node| value.as_bool() == Some(true) || value.as_str() == Some("true");
        let sets = |path: &String| self.value(path).is_some_and(is_true);
        values.is_empty() || values.iter().any(sets)
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
