//! Nodes without a CNI, or without kube-proxy: RKE2 comes up, but no pod of the cluster network runs, or no Service works.
//!
//! You may install the missing part later, so each is unknown, never an error.

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{ManifestFile, Node, NodeValue, Object, yaml};
use windrow_model::reasons::Code;
use windrow_plan::SourceMap;
use windrow_plan::rke2::PodNetwork;

/// Words in the names of charts and workloads that install a CNI.
const NETWORKS: [&str; 9] = [
    "antrea",
    "calico",
    "canal",
    "cilium",
    "flannel",
    "kube-ovn",
    "kube-router",
    "tigera",
    "weave",
];
/// Kinds that install something under such a name.
const INSTALLERS: [&str; 6] = [
    "Application",
    "DaemonSet",
    "Deployment",
    "HelmChart",
    "HelmRelease",
    "Installation",
];

/// The missing parts of the network. `disabled` are the packaged charts that RKE2 does not install.
pub fn missing_network(
    files: &[(&ManifestFile, &SourceMap)],
    network: &PodNetwork,
    disabled: &[(String, Location)],
) -> Vec<Finding> {
    let objects = || files.iter().flat_map(|(file, _)| file.objects());
    let mut found = Vec::new();
    let without = match &network.cni {
        None => Some(&network.at),
        Some(cni) => {
            let chart = format!("rke2-{cni}");
            let off = disabled.iter().find(|(name, _)| *name == chart);
            off.map(|(_, at)| at)
        }
    };
    if let Some(at) = without.filter(|_| !objects().any(installs_network)) {
        let how = "RKE2 installs no CNI here, and no file installs a known one. Without a CNI the node stays NotReady, and pods of the cluster network do not run. Windrow cannot tell whether you install one later";
        found.push(unknown(how, at));
    }
    if let Some(at) = network
        .without_kube_proxy
        .as_ref()
        .filter(|_| !objects().any(|object| replaces_kube_proxy(object, network)))
    {
        let how = "kube-proxy is off, and no file replaces it (for Cilium `kubeProxyReplacement: true`, for Calico `linuxDataplane: BPF`). Without a replacement no Service works";
        found.push(unknown(how, at));
    }
    found
}

fn unknown(how: &str, at: &Location) -> Finding {
    let code = Code::BootUnknown;
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: code.say(&[("how", how)]),
        at: vec![at.clone()],
    }
}

fn names(object: &Object, words: &[&str]) -> bool {
    let chart = object.node.str_at(&["spec", "chart"]);
    let texts = [Some(&*object.id.name), chart];
    let mut texts = texts.into_iter().flatten();
    texts.any(|text| words.iter().any(|word| text.contains(word)))
}

fn installs_network(object: &Object) -> bool {
    match &*object.id.kind {
        // A CNI runs on every node; its operator is a Deployment.
        "Deployment" => {
            let name = &*object.id.name;
            names(object, &NETWORKS) && name.contains("operator")
        }
        kind => {
            INSTALLERS.contains(&kind)
                && (names(object, &NETWORKS) || &*object.id.group == "operator.tigera.io")
        }
    }
}

fn replaces_kube_proxy(object: &Object, network: &PodNetwork) -> bool {
    // RKE2 installs the chart of its own CNI only.
    let of_rke2 = object.id.name.strip_prefix("rke2-");
    if let Some(chart) = of_rke2.filter(|_| &*object.id.kind == "HelmChartConfig")
        && network.cni.as_deref() != Some(chart)
    {
        return false;
    }
    match &*object.id.kind {
        "DaemonSet" => names(object, &["kube-proxy", "kube-router"]),
        "FelixConfiguration" => object.node.at(&["spec", "bpfEnabled"]).is_some_and(is_on),
        "Installation" => is_bpf(&object.node, &["spec", "calicoNetwork", "linuxDataplane"]),
        "HelmChart" | "HelmChartConfig" | "HelmRelease" | "Application" => {
            let content = object.node.str_at(&["spec", "valuesContent"]);
            let content = content.and_then(|text| yaml::parse_configuration(text).ok().flatten());
            let others = [
                &["spec", "set"][..],
                &["spec", "values"],
                &["spec", "valuesObject"],
            ];
            let others = others.into_iter().filter_map(|path| object.node.at(path));
            let mut values = content.iter().chain(others);
            values.any(|values| {
                values.get("kubeProxyReplacement").is_some_and(is_on)
                    || is_bpf(values, &["installation", "calicoNetwork", "linuxDataplane"])
                    || values
                        .at(&["felixConfiguration", "bpfEnabled"])
                        .is_some_and(is_on)
            })
        }
        _ => false,
    }
}

/// `true`, or Cilium's former `strict`.
fn is_on(value: &Node) -> bool {
    match &value.value {
        NodeValue::Bool(is_on) => *is_on,
        NodeValue::String(text) => text == "true" || text == "strict",
        _ => false,
    }
}

fn is_bpf(root: &Node, path: &[&str]) -> bool {
    root.str_at(path) == Some("BPF")
}

#[cfg(test)]
mod tests {
    use windrow_model::manifest::{FileContent, ReadLimits, read};
    use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile};

    use super::*;

    fn missing(configuration: &str, disabled: &[&str], manifest: &str) -> Vec<Option<u32>> {
        let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", configuration);
        let network = PodNetwork::read(&[file]).unwrap();
        let disabled: Vec<_> = disabled
            .iter()
            .map(|name| ((*name).to_owned(), Location::line("config.yaml", 9)))
            .collect();
        let content = FileContent::Bytes(manifest.as_bytes().to_vec());
        let manifest = read(
            &windrow_model::manifest::ManifestPath::from("net.yaml"),
            &content,
            &ReadLimits::default(),
        );
        let shown = SourceMap::itself("net.yaml".to_owned());
        let found = missing_network(&[(&manifest, &shown)], &network, &disabled);
        for finding in &found {
            assert_eq!(finding.code, Code::BootUnknown);
        }
        found
            .into_iter()
            .map(|finding| finding.at[0].line)
            .collect()
    }

    fn chart(kind: &str, name: &str, values: &str) -> String {
        format!(
            "apiVersion: helm.cattle.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: kube-system}}\nspec: {{{values}}}\n"
        )
    }

    #[test]
    fn a_node_without_a_cni_is_found_and_one_with_a_chart_or_rke2s_own_is_not() {
        assert_eq!(missing("cni: none\n", &[], ""), [Some(1)]);
        assert_eq!(missing("cni: [multus, none]\n", &[], ""), [Some(1)]);
        assert_eq!(missing("token: a\n", &["rke2-canal"], ""), [Some(9)]);
        let config = chart("HelmChartConfig", "rke2-cilium", "valuesContent: 'a: b'");
        assert_eq!(missing("cni: none\n", &[], &config), [Some(1)]);
        let cilium = chart(
            "HelmChart",
            "net",
            "chart: cilium, repo: 'https://a.example'",
        );
        for (configuration, disabled, manifest) in [
            ("token: a\n", &[][..], ""),
            ("cni: cilium\n", &["rke2-canal", "rke2-coredns"], ""),
            ("cni: none\n", &[], cilium.as_str()),
            ("token: a\n", &["rke2-canal"], cilium.as_str()),
        ] {
            let found = missing(configuration, disabled, manifest);
            assert_eq!(found, [], "{configuration} {manifest}");
        }
    }

    #[test]
    fn a_node_without_kube_proxy_is_found_unless_the_cni_replaces_it() {
        let cilium = "cni: cilium\ndisable-kube-proxy: true\n";
        let on = |values: &str| chart("HelmChartConfig", "rke2-cilium", values);
        let calico = chart(
            "HelmChartConfig",
            "rke2-calico",
            "valuesContent: '{installation: {calicoNetwork: {linuxDataplane: BPF}}}'",
        );
        let of_calico = cilium.replace("cni: cilium", "cni: calico");
        assert_eq!(missing(&of_calico, &[], &calico), []);
        for values in [
            "set: {kubeProxyReplacement: 'false'}",
            "valuesContent: 'debug: true'",
        ] {
            assert_eq!(missing(cilium, &[], &on(values)), [Some(2)], "{values}");
        }
        assert_eq!(missing(cilium, &[], ""), [Some(2)]);
        // RKE2 does not install the chart that this configures.
        assert_eq!(missing(cilium, &[], &calico), [Some(2)]);
        for manifest in [
            on("valuesContent: 'kubeProxyReplacement: true'"),
            on("valuesContent: 'kubeProxyReplacement: strict'"),
            on("set: {kubeProxyReplacement: 'true'}"),
        ] {
            assert_eq!(missing(cilium, &[], &manifest), [], "{manifest}");
        }
        assert_eq!(
            missing("cni: cilium\ndisable-kube-proxy: false\n", &[], ""),
            []
        );
    }
}
