//! The program on its own node: it is started with the tree as the root directory of its process, so it is not on the disk of
//! another machine.

use std::path::Path;
use std::process::Command;

/// The programs and libraries of this machine are in `/usr`, and the node's own below `/opt`.
const ENTER: &str = r#"
root=$1 program=$2
shift 2
for name in bin sbin lib lib64; do
    if [ -L "/$name" ]; then ln -sfn "$(readlink "/$name")" "$root/$name"
    elif [ -d "/$name" ]; then mkdir -p "$root/$name" && mount --rbind "/$name" "$root/$name"
    fi
done
for name in usr dev proc sys; do
    mkdir -p "$root/$name"
    mount --rbind "/$name" "$root/$name"
done
touch "$root/windrow"
mount --bind "$program" "$root/windrow"
exec chroot "$root" /windrow "$@"
"#;

/// Runs Windrow below this root as on the machine itself. The mounts end with the process. Ask
/// [`can_mount`](super::daemon::can_mount) before.
pub(crate) fn on_its_node(root: &Path) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-ec", ENTER, "sh"])
        .arg(root)
        .arg(env!("CARGO_BIN_EXE_windrow"))
        .env("NO_COLOR", "1");
    command
}
