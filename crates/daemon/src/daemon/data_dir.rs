//! Checks whether RKE2 keeps its data where Windrow looks for it, and whether Windrow may write there. Configuration,
//! links and mounts may appear or change while the daemon runs.

use std::time::Duration;

use tokio::time::Instant;
use windrow_model::findings::Finding;
use windrow_model::reasons::Code;
use windrow_plan::rke2::data_dir;

use crate::fs::canonicalize;
use crate::layout::Layout;
use crate::observe::rke2::config_files;
use crate::observe::unit_sandbox;

const EVERY: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct DataDir {
    looked: Option<Instant>,
}

impl DataDir {
    /// Call it when Windrow's own configuration has changed.
    pub(super) fn forget(&mut self) {
        self.looked = None;
    }

    pub(super) fn findings(&mut self, layout: &Layout, ours: &str) -> Option<Vec<Finding>> {
        if self.looked.is_some_and(|at| at.elapsed() < EVERY) {
            return None;
        }
        self.looked = Some(Instant::now());
        let found = [difference(layout, ours), read_only(layout)];
        Some(found.into_iter().flatten().collect())
    }
}

/// The daemon cannot hold files in a read-only directory.
fn read_only(layout: &Layout) -> Option<Finding> {
    let manifests = layout.manifests();
    let found = unit_sandbox::read_only(&manifests)?;
    let path = manifests.display().to_string();
    let why = match found.by_sandbox {
        true => unit_sandbox::way_out(&found.real, &unit_sandbox::to_open(layout, &found.real)),
        false => format!(
            "the file system of {} is read-only. Mount it writable: mount -o remount,rw",
            found.real.display()
        ),
    };
    Some(Finding {
        incident: None,
        code: Code::ManifestsReadOnly,
        severity: Code::ManifestsReadOnly.severity(),
        message: Code::ManifestsReadOnly.say(&[("path", &path), ("why", &why)]),
        at: Vec::new(),
    })
}

fn difference(layout: &Layout, ours: &str) -> Option<Finding> {
    let theirs = data_dir(&config_files(layout).files)?;
    let (here, there) = (layout.path(ours), layout.path(&theirs.text));
    let same = here == there
        || canonicalize(here)
            .is_ok_and(|here| canonicalize(there).is_ok_and(|there| here == there));
    if same {
        return None;
    }
    let why = format!("its data-dir is {}, Windrow looks into {ours}", theirs.text);
    Some(Finding {
        incident: None,
        code: Code::DataDirDiffers,
        severity: Code::DataDirDiffers.severity(),
        message: Code::DataDirDiffers.say(&[("why", &why)]),
        at: vec![theirs.at],
    })
}
