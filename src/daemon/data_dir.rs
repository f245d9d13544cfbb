//! Does RKE2 keep its data where Windrow looks for it? Its configuration may come, or change, while the
//! daemon runs.

use std::fs::canonicalize;
use std::time::Duration;

use tokio::time::Instant;

use crate::layout::Layout;
use crate::observe::rke2::config_files;
use crate::plan::Finding;
use crate::reasons::Code;
use crate::rke2::data_dir;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(60);

/// When it was last looked.
#[derive(Default)]
pub(super) struct DataDir {
    looked: Option<Instant>,
}

impl DataDir {
    /// Windrow's own configuration is another one.
    pub(super) fn forget(&mut self) {
        self.looked = None;
    }

    /// What is wrong, if it is time to look.
    pub(super) fn look(&mut self, layout: &Layout, ours: &str) -> Option<Vec<Finding>> {
        if self.looked.is_some_and(|at| at.elapsed() < EVERY) {
            return None;
        }
        self.looked = Some(Instant::now());
        Some(difference(layout, ours).into_iter().collect())
    }
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
