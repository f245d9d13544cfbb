//! The tree of another machine, of which the user names the root (`--root DIR`).
//!
//! Every path below that root is resolved as the other machine resolves it: an absolute link begins at the root, and `..`
//! does not leave it. The kernel does this (openat2(2), `RESOLVE_IN_ROOT`). The result is an open file, and not a name that
//! may lead elsewhere a moment later.

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;

/// The kernel gives up if something was renamed or mounted meanwhile, anywhere on the machine.
const TRIES: usize = 128;

static TREE: OnceLock<Tree> = OnceLock::new();

/// Resolves all paths below this root inside it, as long as this process runs.
///
/// # Errors
///
/// If the kernel cannot do this.
pub fn confine(root: &Path) -> io::Result<()> {
    let Some(tree) = Tree::new(root)? else {
        return Ok(());
    };
    TREE.set(tree)
        .map_err(|_| io::Error::other("another root is in use"))
}

/// A path that the file system may follow.
#[derive(Debug)]
pub struct Resolved<'a> {
    path: Cow<'a, Path>,
    /// The open file to which the path leads. The path has another meaning once this is closed.
    _opened: Option<OwnedFd>,
}

impl AsRef<Path> for Resolved<'_> {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl<'a> Resolved<'a> {
    fn unchanged(path: &'a Path) -> Self {
        let path = Cow::Borrowed(path);
        Self {
            path,
            _opened: None,
        }
    }

    fn below(opened: OwnedFd, name: Option<&Path>) -> Self {
        let mut path = descriptor(&opened);
        if let Some(name) = name {
            path.push(name);
        }
        Self {
            path: Cow::Owned(path),
            _opened: Some(opened),
        }
    }
}

fn descriptor(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// The file to which a path leads, with all links followed.
///
/// # Errors
///
/// Those of the file system; only for a path in the tree of another machine.
pub fn resolve(path: &Path) -> io::Result<Resolved<'_>> {
    match inside(path) {
        None => Ok(Resolved::unchanged(path)),
        Some((tree, rest)) => Ok(Resolved::below(tree.open(rest)?, None)),
    }
}

/// The entry itself, which may be a link or missing. Its directory is resolved. The caller must not follow the entry.
///
/// # Errors
///
/// Those of the file system; only for a path in the tree of another machine.
pub fn resolve_entry(path: &Path) -> io::Result<Resolved<'_>> {
    let Some((tree, rest)) = inside(path) else {
        return Ok(Resolved::unchanged(path));
    };
    let (directory, name) = match (rest.parent(), rest.file_name()) {
        (Some(directory), Some(name)) => (directory, Path::new(name)),
        _ => (rest, Path::new(".")),
    };
    Ok(Resolved::below(tree.open(directory)?, Some(name)))
}

/// The real path, with all links followed.
///
/// # Errors
///
/// Those of the file system.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    match inside(path.as_ref()) {
        None => std::fs::canonicalize(path),
        Some((tree, rest)) => tree.canonicalize(rest),
    }
}

/// The root of the tree in which a path is, and the rest of the path; `None` for a path of this machine.
pub fn split_root(path: &Path) -> Option<(&'static Path, &Path)> {
    let (tree, rest) = inside(path)?;
    Some((tree.root(), rest))
}

/// The tree of another machine in which a path is, and the rest of the path. The root itself is the user's: it is followed as any path.
fn inside(path: &Path) -> Option<(&'static Tree, &Path)> {
    let tree = TREE.get()?;
    Some((tree, tree.rest(path)?))
}

#[derive(Debug)]
struct Tree {
    /// The names of the root: as the user wrote it, absolute, and finally without links.
    names: Vec<PathBuf>,
}

impl Tree {
    /// `None` for the root of this machine.
    fn new(root: &Path) -> io::Result<Option<Self>> {
        let machine = Path::new("/");
        let id = |path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
        if id(root).is_ok_and(|root| id(machine).is_ok_and(|machine| machine == root)) {
            return Ok(None);
        }
        let mut names = vec![root.to_owned(), std::path::absolute(root)?];
        // The root of another container (`/proc/1/root`) is a root there, and not here.
        names.extend(
            std::fs::canonicalize(root)
                .ok()
                .filter(|real| real != machine),
        );
        let tried = open_in(machine, Path::new("."), ResolveFlag::RESOLVE_IN_ROOT);
        is_possible(tried)?;
        Ok(Some(Self { names }))
    }

    fn root(&self) -> &Path {
        self.names.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    fn rest<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        let mut rests = self
            .names
            .iter()
            .filter_map(|name| path.strip_prefix(name).ok());
        rests.next().filter(|rest| !rest.as_os_str().is_empty())
    }

    fn canonicalize(&self, rest: &Path) -> io::Result<PathBuf> {
        let name_of = |rest: &Path| std::fs::read_link(descriptor(&self.open(rest)?));
        let (root, real) = (name_of(Path::new(""))?, name_of(rest)?);
        let outside = |_| io::Error::other("it is no longer in the tree");
        let rest = real.strip_prefix(root).map_err(outside)?;
        let above = self
            .names
            .last()
            .into_iter()
            .flat_map(|name| name.components());
        Ok(above.chain(rest.components()).collect())
    }

    /// Opens the target of this path only as a name: not even a device notices.
    fn open(&self, rest: &Path) -> io::Result<OwnedFd> {
        let rest = if rest.as_os_str().is_empty() {
            Path::new(".")
        } else {
            rest
        };
        let flags = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        Ok(open_in(self.root(), rest, flags)?)
    }
}

fn open_in(root: &Path, rest: &Path, resolve: ResolveFlag) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let root = open(root, flags | OFlag::O_DIRECTORY, Mode::empty())?;
    let how = OpenHow::new().flags(flags).resolve(resolve);
    let mut opened = Err(Errno::EAGAIN);
    for _ in 0..TRIES {
        opened = openat2(&root, rest, how);
        if !matches!(opened, Err(Errno::EAGAIN | Errno::EINTR)) {
            break;
        }
    }
    opened
}

/// Whether the kernel can resolve a path inside a root. Without that, the tree could lead to files of this machine.
fn is_possible(tried: nix::Result<OwnedFd>) -> io::Result<()> {
    let why = match tried {
        Ok(opened) if std::fs::metadata(descriptor(&opened)).is_ok() => return Ok(()),
        Ok(_) => "/proc is not mounted".to_owned(),
        Err(Errno::ENOSYS | Errno::EPERM) => {
            "the system call openat2 is missing (Linux before 5.6) or forbidden (a filter of system calls)"
                .to_owned()
        }
        Err(error) => error.desc().to_owned(),
    };
    let why = format!("links in this tree cannot be kept inside it: {why}");
    Err(io::Error::other(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_the_tree_whatever_name_of_the_root_it_begins_with() {
        let place = tempfile::tempdir().unwrap();
        let (real, link) = (place.path().join("real"), place.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        let tree = Tree::new(&link).unwrap().unwrap();
        for root in [&real, &link] {
            assert_eq!(tree.rest(&root.join("etc/x")), Some(Path::new("etc/x")));
            assert_eq!(tree.rest(root), None, "the root is the user's");
        }
        assert_eq!(tree.rest(&place.path().join("realm/x")), None);
        let later = Tree::new(&place.path().join("later")).unwrap().unwrap();
        let path = place.path().join("later/x");
        assert_eq!(later.rest(&path), Some(Path::new("x")));
        assert!(Tree::new(Path::new("")).is_err());
        for root in ["/", "/.", "/usr/..", "/proc/self/root"] {
            assert!(Tree::new(Path::new(root)).unwrap().is_none(), "{root}");
        }
    }

    #[test]
    fn a_kernel_that_cannot_resolve_inside_a_root_is_refused_with_the_reason() {
        for (error, reason) in [
            (Errno::ENOSYS, "Linux before 5.6"),
            (Errno::EPERM, "a filter of system calls"),
            (Errno::EMFILE, "Too many open files"),
        ] {
            let why = is_possible(Err(error)).unwrap_err().to_string();
            assert!(
                why.contains("cannot be kept inside it") && why.contains(reason),
                "{why}"
            );
        }
    }

    #[test]
    fn a_link_is_followed_inside_the_root() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("etc")).unwrap();
        std::fs::write(place.path().join("secret"), "of this machine").unwrap();
        std::fs::write(root.join("etc/own"), "of the tree").unwrap();
        let tree = Tree::new(&root).unwrap().unwrap();
        for (target, expected) in [
            ("/etc/own", Some("of the tree")),
            ("../../../etc/own", Some("of the tree")),
            ("own", Some("of the tree")),
            ("../../secret", None),
            ("link", None),
            ("/proc/self/exe", None),
        ] {
            let link = root.join("etc/link");
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(target, &link).unwrap();
            let opened = tree.open(Path::new("etc/link")).ok();
            let text = opened.map(|opened| std::fs::read_to_string(descriptor(&opened)).unwrap());
            assert_eq!(text.as_deref(), expected, "{target}");
        }
    }
}
