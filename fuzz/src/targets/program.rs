//! Readers of the program itself.

use std::cell::OnceCell;
use std::fs;
use std::path::PathBuf;

use windrow::act::repair::RestoreEntry;
use windrow::archive::Archive;
use windrow::hostile;
use windrow_decide::Status;
use windrow_decide::why;
use windrow_harvester::incidents::CureMethod;
use windrow_model::grammars::is_subdomain;

use crate::{Target, check_messages, text};

/// All of them.
pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "kubeconfig",
        run: kubeconfig,
    },
    Target {
        name: "keys",
        run: keys,
    },
    Target {
        name: "request",
        run: request,
    },
    Target {
        name: "watch",
        run: watch,
    },
    Target {
        name: "bus",
        run: bus,
    },
    Target {
        name: "report",
        run: report,
    },
    Target {
        name: "status",
        run: status,
    },
    Target {
        name: "saved",
        run: saved,
    },
    Target {
        name: "restore-note",
        run: restore_note,
    },
];

thread_local! {
    /// A kubeconfig is a file, and names others beside it.
    static FILE: OnceCell<PathBuf> = const { OnceCell::new() };
}

/// Saved objects: lists in JSON or YAML, or a support bundle.
pub(super) fn saved(bytes: &[u8]) {
    check_messages(hostile::saved_objects(bytes));
}

/// A kubeconfig.
pub(super) fn kubeconfig(bytes: &[u8]) {
    FILE.with(|file| {
        let path = file.get_or_init(|| {
            let thread = std::thread::current().id();
            std::env::temp_dir().join(format!("windrow-fuzz-{}-{thread:?}", std::process::id()))
        });
        // A directory that cannot be written is none of the reader's faults.
        if fs::write(path, bytes).is_ok() {
            check_messages(hostile::kubeconfig(path));
            let _ = fs::remove_file(path);
        }
    });
}

/// Keys of a terminal.
pub(super) fn keys(bytes: &[u8]) {
    assert!(hostile::keys(bytes) <= bytes.len());
}

/// Requests: over HTTP, and in the spool.
pub(super) fn request(bytes: &[u8]) {
    hostile::query(text(bytes));
    check_messages(hostile::spooled_request(bytes));
}

/// Lines of a watch.
pub(super) fn watch(bytes: &[u8]) {
    hostile::watch(bytes);
}

/// Messages on the bus.
pub(super) fn bus(bytes: &[u8]) {
    assert!(hostile::bus(bytes).is_none_or(|passed| passed <= bytes.len()));
}

/// The archive of a report.
pub(super) fn report(bytes: &[u8]) {
    match Archive::read(bytes) {
        Err(why) => check_messages([why]),
        Ok(archive) => {
            archive.objects("", "Node");
        }
    }
}

/// A status document, of which it is asked why each file waits.
pub(super) fn status(bytes: &[u8]) {
    let Ok(status) = serde_json::from_slice::<Status>(bytes) else {
        return;
    };
    let files = status.staging.held.iter().map(|file| file.file.as_str());
    let mut names: Vec<&str> = files.collect();
    names.push("x");
    for name in names {
        if why::explain(&status, name, "/m".as_ref()).is_none() {
            check_messages([why::unknown_name(&status, name)]);
        }
    }
    let written = serde_json::to_value(&status).unwrap_or_default();
    let again = serde_json::from_value::<Status>(written.clone());
    assert_eq!(
        again
            .ok()
            .and_then(|again| serde_json::to_value(again).ok()),
        Some(written)
    );
}

/// What repairs, or anybody who may write the Lease, noted of changes for a while. Whatever it says, the requests that follow restore
/// one object of a closed list, and only if it is still the same one.
pub(super) fn restore_note(bytes: &[u8]) {
    let Ok(entries) = serde_json::from_slice::<Vec<RestoreEntry>>(bytes) else {
        return;
    };
    let written = serde_json::to_vec(&entries).unwrap_or_default();
    let again: Result<Vec<RestoreEntry>, _> = serde_json::from_slice(&written);
    assert_eq!(again.ok().as_ref(), Some(&entries));
    let changes = entries.iter().flat_map(|entry| &entry.changes);
    for request in changes.filter_map(|change| change.restoring_step().request) {
        assert_eq!(request.method, CureMethod::Patch);
        let below = request
            .path
            .strip_prefix("/apis/kubevirt.io/v1/namespaces/");
        let place: Option<Vec<&str>> = below.map(|below| below.split('/').collect());
        assert!(
            matches!(place.as_deref(), Some([namespace, "virtualmachines", name])
                if is_subdomain(namespace) && is_subdomain(name)),
            "{}",
            request.path
        );
        assert_eq!(request.subresource, None);
        let steps = request.body.as_array().map(Vec::as_slice);
        let is_tested = steps.unwrap_or_default().iter().any(|step| {
            step["op"] == "test" && step["path"] == "/metadata/uid" && step["value"] != ""
        });
        assert!(is_tested, "{}", request.body);
        for step in steps.unwrap_or_default() {
            let field = step["path"].as_str().unwrap_or_default();
            assert!(
                matches!(
                    field,
                    "/metadata/uid" | "/spec/running" | "/spec/runStrategy"
                ),
                "{}",
                request.body
            );
        }
    }
}
