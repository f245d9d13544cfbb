//! `windrow hold`: a person keeps files from RKE2.

use super::manual::{NO_REASON, carry_out};
use super::{Context, Exit};
use crate::orders::holds;

/// Hold files by hand: RKE2 does not apply them until they are released
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Manifest files: below the manifests directory, or their base names
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Why; it is recorded with who and when
    #[arg(long, default_value = NO_REASON)]
    reason: String,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    carry_out(context, &args.reason, |order| {
        holds::hold(order, &args.files)
    })
}
