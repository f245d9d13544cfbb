//! The node to install: from the configuration, the command line and the image.

use std::path::{Path, PathBuf};

use windrow_harvester::HarvesterVersion;
use windrow_model::findings::Location;
use windrow_model::manifest::file_kind::{FileKind, kind_of};
use windrow_model::manifest::yaml;
use windrow_plan::rke2::config::Rke2ConfigFile;
use windrow_plan::rules::Platform;
use windrow_preflight::{
    ConfiguredValue, PlannedRole, Preflight, WantedNode, cloud_init_node, harvester_node, installer,
};

use super::super::inputs::{name_of, text_of};
use super::super::{Context, Exit};
use super::{Args, NamedRole};
use crate::fs;
use crate::layout::Layout;
use crate::observe::{platform, rke2};

pub(super) struct Wrong {
    pub(super) errors: Vec<String>,
    pub(super) exit: Exit,
}

impl Wrong {
    fn usage(error: impl Into<String>) -> Self {
        Self {
            errors: vec![error.into()],
            exit: Exit::Usage,
        }
    }
}

/// The node to install. For a saved host, its saved purpose counts unless the command line sets another one.
pub(super) fn wanted_node(
    args: &Args,
    saved: Option<&Preflight>,
    context: &Context,
) -> Result<WantedNode, Wrong> {
    let own = context.layout.harvester_config();
    let own_counts = args.config.is_none() && saved.is_none() && fs::is_file(&own);
    let named: Option<PathBuf> = match own_counts {
        true => Some(own),
        false => args.config.clone(),
    };
    let (option, asked) = match args.harvester {
        Some(_) => ("--harvester", Some(Platform::Harvester)),
        None => ("--platform", args.platform),
    };
    let (mut wanted, text) = match &named {
        Some(path) => configured(path)?,
        None => (bare(asked, saved, context)?, None),
    };
    if let Some(asked) = asked.filter(|asked| *asked != wanted.platform) {
        return Err(Wrong::usage(format!(
            "{} is for {}, and {option} says {asked}",
            named.as_deref().map_or_else(String::new, name_of),
            wanted.platform
        )));
    }
    wanted.role = match args.role {
        Some(NamedRole::Server) => PlannedRole::Server,
        Some(NamedRole::Worker) => PlannedRole::Worker,
        Some(NamedRole::Witness) => PlannedRole::Witness,
        None => wanted.role,
    };
    if wanted.role == PlannedRole::Witness && wanted.platform == Platform::Rke2 {
        return Err(Wrong::usage("only Harvester has the role witness"));
    }
    wanted.production = args.production;
    match wanted.platform {
        Platform::Harvester => {
            let installs = match (&args.config, &text) {
                (Some(path), Some(text)) => installer::of_configuration(&name_of(path), text),
                _ => None,
            };
            let installed = installs.as_ref().map(|release| release.version);
            wanted.harvester = args.harvester.or(installed).or_else(|| {
                let found = match saved {
                    Some(saved) => saved.version.clone(),
                    None => rke2::harvester(&context.layout),
                };
                // An image may be called anything.
                found.and_then(|version| version.parse::<HarvesterVersion>().ok())
            });
            // The installer does not read the configuration of an installed node again.
            if let (Some(path), Some(text)) = (&args.config, text) {
                let mut found = installer::findings(&name_of(path), &text, wanted.harvester);
                let used = wanted.harvester.zip(installs);
                found.extend(used.and_then(|(used, named)| installer::difference(used, &named)));
                wanted.configuration = Some(found);
            }
        }
        Platform::Rke2 => {
            if args.config.is_none() && saved.is_none() {
                wanted.hostname = node_name(&context.layout);
            }
        }
    }
    Ok(wanted)
}

/// The name that RKE2's configuration gives the node; `None` if it takes the machine's.
fn node_name(layout: &Layout) -> Option<ConfiguredValue> {
    let mut found = rke2::config_files(layout).files;
    // As RKE2 reads them: config.yaml first, then the drop-ins in byte order.
    found.sort_by(|a, b| (a.place, a.name()).cmp(&(b.place, b.name())));
    let name = |file: &Rke2ConfigFile| {
        let root = yaml::parse_configuration(&file.text).ok()??;
        let node = root.get("node-name")?;
        let text = node.as_str()?.trim();
        (!text.is_empty()).then(|| ConfiguredValue {
            text: text.to_owned(),
            at: Location::line(&file.shown, node.line),
        })
    };
    found.iter().rev().find_map(name)
}

fn configured(path: &Path) -> Result<(WantedNode, Option<String>), Wrong> {
    let text = text_of(path).map_err(Wrong::usage)?;
    let name = name_of(path);
    let kind = kind_of(&text);
    let root = yaml::parse_configuration(&text).map_err(|problems| Wrong {
        errors: problems
            .iter()
            .map(|problem| {
                let at = Location {
                    file: name.clone(),
                    line: problem.line,
                };
                format!("{at}: {}", problem.message)
            })
            .collect(),
        exit: Exit::Configuration,
    })?;
    let Some(root) = root else {
        return Err(Wrong::usage(format!("{name}: it is empty")));
    };
    match kind {
        FileKind::HarvesterConfig => Ok((harvester_node(&name, &root), Some(text))),
        FileKind::CloudInit => Ok((cloud_init_node(&name, &root), None)),
        other => Err(Wrong {
            errors: vec![format!(
                "{name}: read as {}; a preflight needs a Harvester configuration or cloud-init user-data, or --platform \
                 and --role",
                other.name()
            )],
            exit: Exit::Configuration,
        }),
    }
}

/// Without a configuration.
fn bare(
    asked: Option<Platform>,
    saved: Option<&Preflight>,
    context: &Context,
) -> Result<WantedNode, Wrong> {
    let found = match saved {
        Some(saved) => Some(asked.unwrap_or(saved.platform)),
        None => asked.or_else(|| platform::detect(&context.layout)),
    };
    let platform = found.ok_or_else(|| {
        Wrong::usage(
            "which node do you want to install? Pass a configuration, or --platform harvester or rke2",
        )
    })?;
    // Another platform has other roles.
    let role = saved.filter(|saved| saved.platform == platform);
    let role = role.map_or(PlannedRole::Server, |saved| saved.role);
    Ok(WantedNode::bare(platform, role))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_last_node_name_of_rke2s_configuration_counts() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        assert_eq!(node_name(&layout), None);
        let write = |name: &str, text: &str| {
            let path = layout.path(&format!("/etc/rancher/rke2/{name}"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let text = || node_name(&layout).unwrap().text;
        write("config.yaml", "token: x\nnode-name: Rack1-Node3\n");
        assert_eq!(text(), "Rack1-Node3");
        write("config.yaml.d/50-name.yaml", "node-name: node4\n");
        write("config.yaml.d/60-other.yaml", "tls-san: [a]\n");
        assert_eq!(text(), "node4");
        let at = node_name(&layout).unwrap().at.to_string();
        assert!(at.ends_with("50-name.yaml:1"), "{at}");
    }
}
