//! `windrow knowledge`: the knowledge about other systems with its sources, and the results of recorded boots.

mod learn;

use std::path::PathBuf;

use windrow_learn::KnowledgeReport;

use super::inputs::rules_of_node;
use super::out::{print_whole, style};
use super::output::Output;
use super::{Context, Exit, complain};
use crate::configuration;
use crate::printable::printable_colours;
use crate::render::knowledge_table;

/// Show or learn what programs provide, and after how long
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: KnowledgeVerb,
}

#[derive(Debug, clap::Subcommand)]
enum KnowledgeVerb {
    Learn(learn::Args),
    /// Show everything that is known
    Show {
        /// A directory or file with additional rule packs or knowledge; can be repeated
        #[arg(long, value_name = "PATH")]
        rules: Vec<PathBuf>,
        /// Output format
        #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
        output: Output,
    },
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.verb {
        KnowledgeVerb::Learn(args) => learn::run(&args),
        KnowledgeVerb::Show { rules, output } => show(&rules, output, context),
    }
}

fn show(rules: &[PathBuf], output: Output, context: &Context) -> anyhow::Result<Exit> {
    let node = rules_of_node(&configuration::load(&context.layout), rules, false);
    if !node.errors.is_empty() {
        complain(&node.errors);
        return Ok(Exit::Configuration);
    }
    let report = KnowledgeReport::of(&node.rules.knowledge);
    let table = || printable_colours(&knowledge_table(&report, style()));
    print_whole(&output.render(&report, table)?)?;
    Ok(Exit::Ok)
}
