//! Files that a configuration writes into directories that this node's RKE2 does not read.

use windrow_decide::settings::ConfigFileRole;
use windrow_inputs::extract::Extracted;
use windrow_inputs::manifest_path::{is_never_read, not_read};
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::DATA_DIR;
use windrow_model::manifest::yaml;
use windrow_model::reasons::{Code, Severity};
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, layer, merge};
use windrow_plan::rke2::{KubeletFiles, chart_selections, data_dir};

use super::gathered::{Destination, Inputs};
use super::own::carried_configuration;

/// The parts of RKE2's own files, and of the kubelet's, that configurations write.
pub(in crate::cli) fn rke2_files(configuration: &[Extracted]) -> Vec<Rke2ConfigFile> {
    let file = |found: &Extracted, place, path| Rke2ConfigFile {
        place,
        path,
        text: String::from_utf8_lossy(&found.content).into_owned(),
        shown: found.source.clone(),
        lines: found.lines,
    };
    let (rke2, others): (Vec<_>, Vec<_>) = configuration
        .iter()
        .map(|found| (layer(&found.path), found))
        .partition(|(layer, _)| layer.is_some());
    let mut files: Vec<Rke2ConfigFile> = rke2
        .into_iter()
        .filter_map(|(layer, found)| Some(file(found, layer?, found.path.clone())))
        .collect();
    let named = KubeletFiles::new(&merge(&files));
    let kubelet = others.into_iter().filter_map(|(_, found)| {
        let place = named.place(&found.path)?;
        Some(file(found, ConfigLayer::Kubelet, place))
    });
    files.extend(kubelet);
    files
}

/// The data directory that the configurations set, and the place of the setting; RKE2's setting counts before
/// Windrow's.
fn named(configuration: &[Extracted]) -> Option<(String, String)> {
    if let Some(item) = data_dir(&rke2_files(configuration)) {
        return Some((item.text, item.at.to_string()));
    }
    let mut settings = carried_configuration(configuration);
    settings.retain(|file| file.role == ConfigFileRole::Settings);
    settings.iter().rev().find_map(|file| {
        let root = yaml::parse_configuration(&file.text).ok().flatten()?;
        let directory = root.str_at(&["dataDir"])?.to_owned();
        Some((directory, file.path.display().to_string()))
    })
}

/// Removes the files that RKE2 deletes, because its configuration switches their names off, and reports them.
fn leave_out_deleted(inputs: &mut Inputs) {
    // Without a configuration, nothing shows that the files are RKE2's.
    let Some(whole) = inputs.configuration.first() else {
        return;
    };
    let whole = Location::file(whole.source.clone());
    let names = chart_selections(&rke2_files(&inputs.configuration)).deleted_names();
    let mut findings = Vec::new();
    inputs.files.retain(|file| {
        let Some((name, at)) = names.of(file.path.as_str()) else {
            return true;
        };
        let code = Code::PathNotRead;
        let why = format!("RKE2's configuration switches `{name}` off, so RKE2 deletes the file and what it has created: rename the file");
        findings.push(Finding {
            incident: None,
            code,
            severity: at.map_or(Severity::Warning, |_| code.severity()),
            message: code.say(&[("path", file.path.as_str()), ("why", &why)]),
            at: vec![file.shown.at(None), at.unwrap_or(&whole).clone()],
        });
        at.is_none()
    });
    inputs.findings.append(&mut findings);
}

/// Removes the files that RKE2 does not read, and reports them.
pub(super) fn leave_out_unread(inputs: &mut Inputs) {
    leave_out_deleted(inputs);
    let named = named(&inputs.configuration);
    let (data_dir, at) = match &named {
        Some((data_dir, at)) => (data_dir.as_str(), Some(at.as_str())),
        None => (DATA_DIR, None),
    };
    let mut findings = Vec::new();
    inputs.files.retain(|file| {
        let Some(Destination {
            data_dir: written,
            at: place,
        }) = &file.destination
        else {
            return true;
        };
        let Some(why) = not_read(written, data_dir, at) else {
            return true;
        };
        let path = format!("{written}/server/manifests/{}", file.path);
        let (code, message) = match is_never_read(written, at) {
            true => (
                Code::PathNotRead,
                Code::PathNotRead.say(&[("path", &path), ("why", &why)]),
            ),
            false => {
                let what = format!("{path}: RKE2 may not read it: {why}");
                (Code::NotLookedAt, Code::NotLookedAt.say(&[("what", &what)]))
            }
        };
        findings.push(Finding {
            incident: None,
            code,
            severity: code.severity(),
            message,
            at: vec![place.clone()],
        });
        false
    });
    inputs.findings.append(&mut findings);
}
