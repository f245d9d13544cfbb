//! The route of a path to a directory: its directories and links, and its end.
//!
//! ```text
//!   /a/b/manifests, b -> ../c      steps: a in /, b in /a, c in /, manifests in /c      end: /c/manifests
//! ```
//!
//! The directory behind a path changes when any of these steps changes: a link points elsewhere, a directory is
//! renamed, or something is mounted.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

use crate::files::is_missing;
use crate::fs::{self, Metadata};

/// Most links that are followed, as in the kernel.
const MOST_LINKS: usize = 40;

/// The route from `/` to the directory behind a path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Route {
    steps: Vec<Step>,
    end: Option<Place>,
}

/// A name, and the directory in which it is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    directory: Place,
    name: OsString,
}

/// A directory: its path without links, and its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    path: PathBuf,
    /// Device and inode. A new directory can get the inode of a removed one.
    id: (u64, u64),
}

impl Place {
    fn new(path: PathBuf, found: &Metadata) -> Self {
        Self {
            path,
            id: (found.dev(), found.ino()),
        }
    }
}

impl Route {
    /// Follows an absolute path as far as it exists.
    ///
    /// # Errors
    ///
    /// Those of the file system, except that something is missing; and too many links.
    pub(super) fn find(path: &Path) -> io::Result<Self> {
        let mut route = Self::default();
        let (top, mut rest) = match fs::split_root(path) {
            Some((root, rest)) if fs::is_dir(root) => (root, names(rest)),
            _ => (Path::new("/"), names(path)),
        };
        let mut at = vec![Place::new(top.to_owned(), &fs::metadata(top)?)];
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                // The parent of the root is the root.
                if at.len() > 1 {
                    at.pop();
                }
                continue;
            }
            let Some(directory) = at.last().cloned() else {
                break;
            };
            let next = directory.path.join(&name);
            route.steps.push(Step { directory, name });
            let found = match fs::symlink_metadata(&next) {
                Ok(found) => found,
                Err(error) if is_missing(&error) => return Ok(route),
                Err(error) => return Err(error),
            };
            if found.is_symlink() {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::ELOOP.into());
                }
                let target = match fs::read_link(&next) {
                    Ok(target) => target,
                    Err(error) if is_missing(&error) => return Ok(route),
                    Err(error) => return Err(error),
                };
                if target.is_absolute() {
                    at.truncate(1);
                }
                let mut through = names(&target);
                through.append(&mut rest);
                rest = through;
            } else if found.is_dir() {
                at.push(Place::new(next, &found));
            } else {
                return Ok(route);
            }
        }
        route.end = at.pop();
        Ok(route)
    }

    /// The directory itself, without links, if it exists.
    pub(super) fn end(&self) -> Option<&Path> {
        self.end.as_ref().map(|end| end.path.as_path())
    }

    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.steps.iter().map(|step| step.directory.path.as_path())
    }

    /// Whether the route leads over this path. If an entry appears or disappears there, the route may be a new one.
    pub(super) fn leads_over(&self, path: &Path) -> bool {
        self.end() == Some(path)
            || self.steps.iter().any(|step| {
                let Step { directory, name } = step;
                directory.path == path
                    || (path.file_name() == Some(name) && path.parent() == Some(&directory.path))
            })
    }
}

/// The names in a path, without `.` and the leading `/`.
fn names(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_route_leads_through_every_link_to_the_directory_itself() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        for directory in ["a", "c/real"] {
            fs::create_dir_all(top.join(directory)).unwrap();
        }
        symlink("../c", top.join("a/b")).unwrap();
        symlink(top.join("c/real"), top.join("c/manifests")).unwrap();
        let route = Route::find(&top.join("a/b/manifests")).unwrap();
        assert_eq!(route.end(), Some(top.join("c/real").as_path()));
        for path in ["a", "a/b", "c", "c/manifests", "c/real"] {
            assert!(route.leads_over(&top.join(path)), "{path}");
        }
        for path in ["d", "a/x", "c/real/x"] {
            assert!(!route.leads_over(&top.join(path)), "{path}");
        }
        assert_eq!(Route::find(&top.join("a/b/manifests")).unwrap(), route);
    }

    #[test]
    fn a_path_that_ends_early_is_followed_to_its_missing_name() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        symlink("nowhere", top.join("dangling")).unwrap();
        fs::write(top.join("file"), "").unwrap();
        for (path, last) in [
            ("x/manifests", "x"),
            ("dangling/manifests", "nowhere"),
            ("file/manifests", "file"),
        ] {
            let route = Route::find(&top.join(path)).unwrap();
            assert_eq!(route.end(), None, "{path}");
            assert!(route.leads_over(&top.join(last)), "{path}");
        }
    }

    #[test]
    fn a_loop_of_links_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        symlink("b", place.path().join("a")).unwrap();
        symlink("a", place.path().join("b")).unwrap();
        let error = Route::find(&place.path().join("a")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::ELOOP as i32));
    }
}
