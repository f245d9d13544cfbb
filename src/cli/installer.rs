//! `windrow installer`: how the installer image, which has no shell, runs its script with the node's own shell.

use std::io;
use std::os::unix::fs::chroot;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::Exit;

use crate::fs;

/// The temporary directory of the script and its files on the node; removed at the end, and with the next boot.
const PLACE: &str = "run/windrow-installer";

/// Install Windrow on the node whose root is mounted here
///
/// For the installer image.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The node's root
    #[arg(long, value_name = "DIR", default_value = "/host")]
    host: PathBuf,
    /// The image's directory with `install` and `tree`
    #[arg(long, value_name = "DIR", default_value = "/windrow")]
    image: PathBuf,
    /// The script's command: `install` or `remove`
    arguments: Vec<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let place = args.host.join(PLACE);
    copy(&args.image, &place).with_context(|| {
        format!(
            "{} cannot be copied to {}",
            args.image.display(),
            place.display()
        )
    })?;
    chroot(&args.host)
        .and_then(|()| std::env::set_current_dir("/"))
        .with_context(|| format!("{} cannot be entered", args.host.display()))?;
    let place = Path::new("/").join(PLACE);
    let status = Command::new("/bin/sh")
        .arg(place.join("install"))
        .args(&args.arguments)
        .env("WINDROW_HOST", "/")
        .env("WINDROW_TREE", place.join("tree"))
        .status();
    // It is in memory; the next boot does not have it.
    let _ = fs::remove_dir_all(&place);
    let status = status.context("the node's /bin/sh cannot be started")?;
    Ok(if status.success() {
        Exit::Ok
    } else {
        Exit::Failure
    })
}

/// Copies a directory with all its contents, after removing the remains of an earlier run.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if fs::exists(to) {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}
