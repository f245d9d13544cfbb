//! The logs that the kubelet keeps of this node's pods (`/var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log`).

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::fs;
use crate::layout::Layout;

/// Only the end of each log is read.
const TAIL: u64 = 256 << 10;

/// The logs of a container, the newest first: of the pods whose directory's name begins with `pods`
/// (`kube-system_etcd-`).
pub(super) fn logs(layout: &Layout, pods: &str, container: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for pod in entries(&layout.path("/var/log/pods")) {
        let name = pod.file_name().and_then(|name| name.to_str());
        if !name.is_some_and(|name| name.starts_with(pods)) {
            continue;
        }
        for log in entries(&pod.join(container)) {
            let is_log = log.extension().is_some_and(|extension| extension == "log");
            if let (true, Ok(Ok(written))) =
                (is_log, fs::metadata(&log).map(|found| found.modified()))
            {
                found.push((written, log));
            }
        }
    }
    found.sort();
    found.into_iter().rev().map(|(_, log)| log).collect()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).map_or_else(
        |_| Vec::new(),
        |entries| entries.flatten().map(|entry| entry.path()).collect(),
    )
}

/// The log of a container from its start; `None` if it cannot be read or is long, or if the kubelet has set the beginning aside.
pub(super) fn whole(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let is_older = |other: &PathBuf| {
        let other = other.file_name().and_then(|other| other.to_str());
        let rest = other.and_then(|other| other.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    let is_long = fs::metadata(path).ok()?.len() > TAIL;
    let is_part = is_long || entries(path.parent()?).iter().any(is_older);
    if is_part { None } else { tail(path) }
}

/// The end of a log; `None` if it cannot be read.
pub(super) fn tail(path: &Path) -> Option<String> {
    let mut file = fs::open(path).ok()?;
    let length = file.metadata().ok().filter(|found| found.is_file())?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))
        .ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
