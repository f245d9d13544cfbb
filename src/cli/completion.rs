//! `windrow completion`: the completions for a shell, as the packages install them.

use super::Exit;
use super::out::print_whole;

/// Print completions for a shell
///
/// The packages install them already.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Fish,
    Zsh,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    // The generated files, so that the program needs no generator.
    print_whole(match args.shell {
        Shell::Bash => include_str!("../../packaging/completions/windrow.bash"),
        Shell::Fish => include_str!("../../packaging/completions/windrow.fish"),
        Shell::Zsh => include_str!("../../packaging/completions/_windrow"),
    })?;
    Ok(Exit::Ok)
}
