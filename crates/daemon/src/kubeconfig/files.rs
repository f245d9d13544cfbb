//! Which files a kubeconfig is read from.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

/// The variable in which a user names kubeconfigs for kubectl.
const VARIABLE: &str = "KUBECONFIG";

/// The files of one kubeconfig, and its context in use. It is one file, unless `$KUBECONFIG` names several: they are
/// merged as kubectl merges them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KubeconfigFiles {
    paths: Vec<PathBuf>,
    context: Option<String>,
    disk: Option<PathBuf>,
    is_chosen: bool,
}

impl KubeconfigFiles {
    /// The files in `$KUBECONFIG`; `None` if it is empty. Only for a verb that a user calls: the daemon has its own.
    pub fn from_environment() -> Option<Self> {
        Self::from_list(&std::env::var_os(VARIABLE)?)
    }

    /// Paths with `:` between them. Empty ones do not count, as for kubectl.
    pub(super) fn from_list(list: &OsStr) -> Option<Self> {
        let paths = std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty());
        let paths: Vec<PathBuf> = paths.collect();
        (!paths.is_empty()).then_some(Self {
            paths,
            context: None,
            disk: None,
            is_chosen: false,
        })
    }

    /// Replaces the current context.
    pub fn in_context(self, context: Option<String>) -> Self {
        Self { context, ..self }
    }

    /// Marks the files as named by the user for this one command (`--kubeconfig`). Then they are used on another
    /// machine's disk too.
    pub fn chosen(self) -> Self {
        Self {
            is_chosen: true,
            ..self
        }
    }

    pub(crate) fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    /// If all of them are below the root of another machine's disk, files that they name are looked for there and
    /// nowhere else.
    pub(crate) fn on_disk(self, root: Option<&Path>) -> Self {
        let is_there = |root: &&Path| self.paths.iter().all(|path| path.starts_with(root));
        let disk = root.filter(is_there).map(Path::to_owned);
        Self { disk, ..self }
    }

    pub(crate) fn disk(&self) -> Option<&Path> {
        self.disk.as_deref()
    }

    pub(super) fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// The paths, the most important one first.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}

impl From<&Path> for KubeconfigFiles {
    fn from(path: &Path) -> Self {
        Self {
            paths: vec![path.to_owned()],
            context: None,
            disk: None,
            is_chosen: false,
        }
    }
}

impl From<&PathBuf> for KubeconfigFiles {
    fn from(path: &PathBuf) -> Self {
        path.as_path().into()
    }
}

impl From<&KubeconfigFiles> for KubeconfigFiles {
    fn from(files: &KubeconfigFiles) -> Self {
        files.clone()
    }
}

impl fmt::Display for KubeconfigFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, path) in self.paths.iter().enumerate() {
            let between = if at == 0 { "" } else { ":" };
            write!(f, "{between}{}", path.display())?;
        }
        Ok(())
    }
}
