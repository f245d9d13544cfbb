//! The values of Harvester's chart in the configuration, of which the installer passes on only some (harvester-installer v1.4.0 to
//! v1.8.1, `pkg/config/cos.go`, setConfigDefaultValues; `pkg/config/templates/rancherd-10-harvester.yaml`).

use windrow_model::manifest::{Node, NodeValue};

use super::remark::{Remark, RemarkKind, Remarks};

/// Percent of the CPUs. More than this becomes this.
const MOST_CPU: u64 = 12;
const PATH: &str = "install.harvester.longhorn.default_settings";

pub(super) fn check(install: Option<&Node>, remarks: &mut Remarks) {
    let settings =
        install.and_then(|install| install.at(&["harvester", "longhorn", "defaultSettings"]));
    let entry = |key: &str| settings?.entry(key);
    for key in ["guaranteedEngineManagerCPU", "guaranteedReplicaManagerCPU"] {
        if let Some(entry) = entry(key) {
            let why = "it passes on only `guaranteedInstanceManagerCPU`, which replaced this setting of Longhorn";
            let path = format!("{PATH}.{key}");
            remarks.push(Remark::ignored(entry.line, &path, why));
        }
    }
    if let Some(entry) = entry("guaranteedInstanceManagerCPU")
        && matches!(&entry.value.value, NodeValue::Number(percent) if percent.as_u64() > Some(MOST_CPU))
    {
        remarks.push(Remark {
            line: entry.line,
            kind: RemarkKind::Unintended,
            why: format!("`guaranteedInstanceManagerCPU` becomes {MOST_CPU}, the largest value that it passes on"),
        });
    }
}
