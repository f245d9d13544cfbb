//! `windrow gates`: which feature gates are set, by whom, and whether the components start with them.

mod inputs;
mod node;
mod oracle;
mod trial;

use std::path::PathBuf;

use windrow_gates::{ResolvedVersion, TargetVersion};
use windrow_harvester::HarvesterVersion;
use windrow_plan::version::Version;

use self::inputs::GateInputs;
pub(super) use self::node::judge_files;
use self::node::{confirm, found_out, judge, observe};
use super::out::print_whole;
use super::output::Output;
use super::{Context, Exit, style};
use crate::daemon::gates::hook;
use crate::layout::Layout;
use crate::report::journal;

/// Check, try and roll back feature gates
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: GatesVerb,
}

#[derive(Debug, clap::Subcommand)]
enum GatesVerb {
    /// Check gates and arguments, and show the source and the effect of each gate
    Check(LookArgs),
    /// Try the configured gates on this running server
    ///
    /// Restarts rke2-server, and rolls everything back if kube-apiserver does not come up with the gates.
    Apply(trial::ApplyArgs),
    /// Undo the last change of gates, or end the running trial
    Rollback(trial::RollbackArgs),
    /// Remove the gates from Windrow's drop-in that the starting RKE2 would refuse (systemd runs this before each start of
    /// RKE2)
    #[command(hide = true)]
    Settle,
}

#[derive(Debug, clap::Args)]
struct LookArgs {
    /// Directories of RKE2 drop-ins, single configuration files, Harvester configurations, cloud-init
    /// user-data, yip files, or `-` [default: this node's configuration]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Harvester's version, if it decides RKE2's
    #[arg(long, value_name = "VERSION", conflicts_with = "rke2")]
    harvester: Option<HarvesterVersion>,
    /// RKE2's version: the one that will start, for example v1.35 or v1.35.6+rke2r1 [default: detected]
    #[arg(long, value_name = "VERSION")]
    rke2: Option<Version>,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
    output: Output,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let look = match args.verb {
        GatesVerb::Check(look) => look,
        GatesVerb::Apply(apply) => return trial::apply(&apply, context),
        GatesVerb::Rollback(rollback) => return trial::rollback(&rollback, context),
        GatesVerb::Settle => return Ok(before_start(&context.layout)),
    };
    let inputs = if look.paths.is_empty() {
        GateInputs::node(&context.layout)
    } else {
        GateInputs::gather(&look.paths)
    };
    let refused = inputs.refused();
    if let Some(exit) = refused
        && inputs.is_empty()
    {
        return Ok(exit);
    }
    let of_release = look.harvester.map(HarvesterVersion::rke2);
    let resolved = match look.rke2.map(Some).or(of_release) {
        Some(version) => ResolvedVersion {
            target: version.map_or(TargetVersion::Unknown, TargetVersion::Known),
            because: "from the command line".to_owned(),
        },
        None if look.paths.is_empty() => found_out(&context.layout, &inputs.data_dir)?,
        None if inputs.version.is_some() => ResolvedVersion {
            target: inputs
                .version
                .map_or(TargetVersion::Unknown, TargetVersion::Known),
            because: "from the configuration".to_owned(),
        },
        None => ResolvedVersion {
            target: TargetVersion::Unknown,
            because: "set it with --rke2".to_owned(),
        },
    };
    let on_node = look.paths.is_empty();
    let data_dir = inputs.data_dir.clone();
    let not_looked_at = inputs.not_looked_at;
    let unread = inputs.unusable();
    let mut report = judge(inputs, &resolved);
    if on_node {
        confirm(context, &data_dir, &resolved, &mut report)?;
        observe(context, &data_dir, &mut report)?;
    }
    report.leave_unread(unread);
    if not_looked_at && report.starts == Some(true) {
        report.starts = None;
    }
    let table = || report.to_table(style());
    print_whole(&look.output.render(&report, table)?)?;
    if let Some(exit) = refused {
        return Ok(exit);
    }
    Ok(report.verdict().into())
}

/// The command that runs before each start of RKE2. It must never keep RKE2 from starting, so it never fails.
fn before_start(layout: &Layout) -> Exit {
    journal::start(journal::EVERYTHING);
    for event in &hook::before_start(layout) {
        journal::write_event(event);
    }
    Exit::Ok
}
