//! Reports changes of mounts. There is no inotify event when something is mounted over a directory, or unmounted; the
//! kernel reports both on `/proc/self/mountinfo` (proc_pid_mountinfo(5)).

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::thread;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::fs::{self, File};

const MOUNTS: &str = "/proc/self/mountinfo";

/// Calls `changed` on a thread whenever the mounts of this process change, until the returned end is dropped.
///
/// # Errors
///
/// When there is no `/proc`, or the system gives no thread.
pub(super) fn watch(changed: impl FnMut() + Send + 'static) -> io::Result<PipeWriter> {
    let mounts = fs::open(MOUNTS)?;
    let (ended, end) = io::pipe()?;
    thread::Builder::new()
        .name("mounts".to_owned())
        .spawn(move || wait_for_changes(&mounts, &ended, changed))?;
    Ok(end)
}

fn wait_for_changes(mounts: &File, ended: &PipeReader, mut changed: impl FnMut()) {
    loop {
        let mut both = [
            PollFd::new(mounts.as_fd(), PollFlags::POLLPRI),
            PollFd::new(ended.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut both, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(_) => return,
        }
        let [mounts, ended] = both.map(|fd| fd.any().unwrap_or(true));
        if ended {
            return;
        }
        if mounts {
            changed();
        }
    }
}

/// The mounts at this directory and below, a line for each. The list is empty without `/proc`.
pub(super) fn in_directory(directory: &Path) -> Vec<String> {
    let mounts = fs::read_to_string(MOUNTS).unwrap_or_default();
    let within = |line: &&str| mount_point(line).is_some_and(|point| point.starts_with(directory));
    mounts.lines().filter(within).map(str::to_owned).collect()
}

/// The fifth field: spaces and the like are written `\040`.
fn mount_point(line: &str) -> Option<PathBuf> {
    let mut bytes = line.split(' ').nth(4)?.bytes().peekable();
    let mut point = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            point.push(byte);
            continue;
        }
        let mut code = 0_u8;
        for _ in 0..3 {
            code = code
                .wrapping_mul(8)
                .wrapping_add(bytes.next()?.wrapping_sub(b'0'));
        }
        point.push(code);
    }
    Some(std::ffi::OsString::from_vec(point).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_with_a_space_is_read() {
        let line = r"36 35 98:0 /mnt1 /mnt/with\040space rw,noatime shared:1 - ext3 /dev/root rw";
        assert_eq!(mount_point(line), Some("/mnt/with space".into()));
        assert_eq!(mount_point("36 35 98:0 /"), None);
    }

    #[test]
    fn the_thread_ends_with_its_end() {
        let mounts = File::open(MOUNTS).unwrap();
        let (ended, end) = io::pipe().unwrap();
        drop(end);
        wait_for_changes(&mounts, &ended, || ());
    }
}
