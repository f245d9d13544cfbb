//! The ways to apply a directory of manifests, and what is started for each.

use std::fs;
use std::path::{Path, PathBuf};

use kube::core::DynamicObject;

use crate::sets::{Files, objects_of};

/// A way to apply a directory of manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// RKE2's deploy controller, and Windrow beside it.
    Windrow,
    /// RKE2's deploy controller by itself.
    Rke2,
    /// The stages of Flux's kustomize-controller.
    Flux,
    /// The same, without fields whose value is null.
    FluxWithoutNulls,
    Kubectl,
    Kapp,
    /// kpt's and Config Sync's.
    CliUtils,
    Helm,
}

impl Way {
    pub(crate) const ALL: [Self; 8] = [
        Self::Rke2,
        Self::Windrow,
        Self::Flux,
        Self::FluxWithoutNulls,
        Self::Kubectl,
        Self::Kapp,
        Self::CliUtils,
        Self::Helm,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Windrow => "Windrow",
            Self::Rke2 => "RKE2 alone",
            Self::Flux => "Flux's `ssa`",
            Self::FluxWithoutNulls => "Flux's `ssa`, nulls left out",
            Self::Kubectl => "`kubectl apply --server-side`",
            Self::Kapp => "`kapp deploy`",
            Self::CliUtils => "`kapply apply` (kpt)",
            Self::Helm => "`helm upgrade --install`",
        }
    }

    /// Whether RKE2's deploy controller applies, and not a program that runs to its end.
    pub(crate) fn is_rke2(self) -> bool {
        matches!(self, Self::Windrow | Self::Rke2)
    }

    /// The programs that are run once, before the first run, and then for each run.
    pub(crate) fn commands(self, place: &Place, files: &Files) -> (Vec<Vec<String>>, Vec<String>) {
        let program = |name: &str| place.peers.join(name).display().to_string();
        let text = |path: &Path| path.display().to_string();
        let (config, folder) = (text(&place.kubeconfig), text(&place.manifests));
        let command = |name: &str, arguments: &[&str]| -> Vec<String> {
            let arguments = arguments.iter().map(|one| (*one).to_owned());
            [program(name)].into_iter().chain(arguments).collect()
        };
        match self {
            Self::Windrow | Self::Rke2 => (Vec::new(), Vec::new()),
            Self::Flux => (Vec::new(), command("ssa", &[&config, &folder])),
            Self::FluxWithoutNulls => {
                let run = command("ssa", &["-drop-nulls", &config, &folder]);
                (Vec::new(), run)
            }
            Self::Kubectl => {
                let all = ["apply", "--server-side", "--recursive", "-f", &folder];
                (
                    Vec::new(),
                    command("kubectl", &[&all[..], &["--kubeconfig", &config]].concat()),
                )
            }
            Self::Kapp => {
                let all = [
                    "deploy", "-a", "compare", "-n", "default", "-f", &folder, "--yes",
                ];
                let rest = ["--kubeconfig", &config, "--wait-timeout", "2m"];
                (Vec::new(), command("kapp", &[&all[..], &rest].concat()))
            }
            Self::CliUtils => {
                let first = command("kapply", &["init", &folder, "--kubeconfig", &config]);
                let all = ["apply", &folder, "--kubeconfig", &config];
                let run = command(
                    "kapply",
                    &[&all[..], &["--server-side", "--reconcile-timeout=2m"]].concat(),
                );
                (vec![first], run)
            }
            Self::Helm => {
                let chart = text(&chart(&place.work, files));
                let all = ["upgrade", "--install", "compare", &chart, "-n", "default"];
                (
                    Vec::new(),
                    command("helm", &[&all[..], &["--kubeconfig", &config]].concat()),
                )
            }
        }
    }
}

/// Where everything is.
pub(crate) struct Place {
    /// The peers' programs.
    pub(crate) peers: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) manifests: PathBuf,
    /// For a run's own files.
    pub(crate) work: PathBuf,
}

/// The directory as somebody would make a chart of it: definitions of kinds in `crds`, everything else in `templates`.
fn chart(work: &Path, files: &Files) -> PathBuf {
    let chart = work.join("chart");
    for folder in ["crds", "templates"] {
        fs::create_dir_all(chart.join(folder)).unwrap();
    }
    let about = "apiVersion: v2\nname: compare\nversion: 1.0.0\n";
    fs::write(chart.join("Chart.yaml"), about).unwrap();
    for (path, text) in files {
        let name = path.replace('/', "-");
        let objects = objects_of(path, text);
        let (kinds, rest): (Vec<DynamicObject>, Vec<DynamicObject>) =
            objects.into_iter().partition(|object| {
                let kind = object.types.as_ref().map(|types| types.kind.as_str());
                kind == Some("CustomResourceDefinition")
            });
        if kinds.is_empty() {
            fs::write(chart.join("templates").join(&name), escaped(text)).unwrap();
            continue;
        }
        fs::write(chart.join("crds").join(&name), documents(&kinds)).unwrap();
        if !rest.is_empty() {
            fs::write(
                chart.join("templates").join(&name),
                escaped(&documents(&rest)),
            )
            .unwrap();
        }
    }
    chart
}

/// JSON is YAML.
fn documents(objects: &[DynamicObject]) -> String {
    let texts = objects
        .iter()
        .map(|object| serde_json::to_string(object).unwrap());
    texts.collect::<Vec<_>>().join("\n---\n")
}

/// A template that gives this text.
fn escaped(text: &str) -> String {
    text.replace("{{", r#"{{ "{{" }}"#)
}
