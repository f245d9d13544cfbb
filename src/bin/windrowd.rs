//! The daemon as a program. It is built from `crates/daemon` and nothing else of this workspace's front ends.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    windrow_daemon::main()
}
