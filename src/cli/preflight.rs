//! `windrow preflight`: can this host become the wanted node? Checked before the installation.

mod ask;
mod wanted;

use std::path::{Path, PathBuf};

use windrow_harvester::HarvesterVersion;
use windrow_plan::rules::Platform;
use windrow_preflight::{Preflight, preflight};

use super::document::now;
use super::inputs::{name_of, platform, text_of};
use super::out::print_whole;
use super::output::Output;
use super::{Context, Exit, style};
use crate::observe::host::read_host;
use crate::render::preflight_table;

/// Check CPU, memory, disks and network before installing
///
/// Compares this host and its network with the requirements of the node that you want to install.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The node's configuration: a Harvester configuration, cloud-init user-data, or `-` [default: this node's]
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,
    /// The platform [default: the platform of the version, of the configuration, of the --from file, or of this node]
    #[arg(long, value_parser = platform(), value_name = "PLATFORM")]
    platform: Option<Platform>,
    /// Harvester's version [default: the version of the ISO that the configuration names, then the version in the --from file, then the image's, then the newest known one]
    #[arg(long, value_name = "VERSION", conflicts_with = "platform")]
    harvester: Option<HarvesterVersion>,
    /// The role [default: the role in the configuration or in the --from file]
    #[arg(long, value_enum, value_name = "ROLE")]
    role: Option<NamedRole>,
    /// Require the published values for production, or the recommended ones
    #[arg(long)]
    production: bool,
    /// Measure writes in this directory, on the disk that etcd will use
    #[arg(long, value_name = "DIR")]
    disk_test: Option<PathBuf>,
    /// The interface for the check of free addresses [default: the first one of the configuration]
    #[arg(long, value_name = "LINK")]
    interface: Option<String>,
    /// Send nothing to the network
    #[arg(long)]
    offline: bool,
    /// Read saved data instead of this host: the output of `windrow preflight -o json`, or `-`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["disk_test", "interface", "offline"])]
    from: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
    output: Output,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum NamedRole {
    Server,
    Worker,
    Witness,
}

pub(super) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let saved = match args.from.as_deref().map(saved).transpose() {
        Ok(saved) => saved,
        Err(why) => {
            eprintln!("windrow: {why}");
            return Ok(Exit::Usage);
        }
    };
    let wanted = match wanted::wanted_node(args, saved.as_ref(), context) {
        Ok(wanted) => wanted,
        Err(wrong) => {
            super::complain(&wrong.errors);
            return Ok(wrong.exit);
        }
    };
    let (host, surroundings, at) = match saved {
        Some(read) => (read.host, read.surroundings, read.at),
        None => {
            let at = now();
            let layout = context.node();
            let mut host = read_host(&layout, at);
            let (surroundings, synchronised) = ask::ask_around(args, &layout, &wanted, &host)?;
            host.clock.synchronised = synchronised;
            (host, surroundings, at)
        }
    };
    let judged = preflight(&host, &surroundings, &wanted, at);
    let text = args
        .output
        .render(&judged, || preflight_table(&judged, style()))?;
    print_whole(&text)?;
    Ok(judged.list.verdict.into())
}

fn saved(path: &Path) -> Result<Preflight, String> {
    let text = text_of(path)?;
    serde_json::from_str(&text).map_err(|error| {
        format!(
            "{}:{}: not what `windrow preflight -o json` prints: {error}",
            name_of(path),
            error.line()
        )
    })
}
