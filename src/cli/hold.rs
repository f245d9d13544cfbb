//! `windrow hold`: the operator hides files from RKE2.

use super::manual::{NO_REASON, carry_out};
use super::{Context, Exit};
use crate::orders::holds;

/// Hold manifests, so that RKE2 does not apply them
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Manifest files: paths below the manifests directory, or base names
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// The reason; Windrow records it with your name and the time
    #[arg(long, default_value = NO_REASON)]
    reason: String,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    carry_out(context, &args.reason, |order| {
        holds::hold(order, &args.files)
    })
}
