//! Which files a kubeconfig is read from.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

/// The variable in which a person names kubeconfigs for kubectl.
const VARIABLE: &str = "KUBECONFIG";

/// The files of one kubeconfig, and which of its contexts counts. It is one file, unless `$KUBECONFIG` names several:
/// they are merged as kubectl merges them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KubeconfigFiles {
    paths: Vec<PathBuf>,
    context: Option<String>,
    /// The root of the other machine's disk that they lie on.
    disk: Option<PathBuf>,
    /// A person named these files for this one order.
    is_chosen: bool,
}

impl KubeconfigFiles {
    /// What `$KUBECONFIG` names; `None` when it names nothing. Only for a verb that a person calls: the daemon has its own.
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

    /// The same with another context than the current one.
    pub fn in_context(self, context: Option<String>) -> Self {
        Self { context, ..self }
    }

    /// The same, as a person named them for this one order (`--kubeconfig`). Then they are used on another machine's disk too.
    pub fn chosen(self) -> Self {
        Self {
            is_chosen: true,
            ..self
        }
    }

    pub(crate) fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    /// The same, where all of them lie below the root of another machine's disk: what they name is looked for there and nowhere else.
    pub(crate) fn on_disk(self, root: Option<&Path>) -> Self {
        let is_there = |root: &&Path| self.paths.iter().all(|path| path.starts_with(root));
        let disk = root.filter(is_there).map(Path::to_owned);
        Self { disk, ..self }
    }

    /// The root of the other machine's disk that they lie on.
    pub(crate) fn disk(&self) -> Option<&Path> {
        self.disk.as_deref()
    }

    /// The context that counts, where it is not the current one.
    pub(super) fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// The paths, the one that counts first at the beginning.
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
