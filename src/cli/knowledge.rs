//! `windrow knowledge`: the facts about other systems, and their sources.

use std::path::{Path, PathBuf};

use windrow_decide::settings::ConfigFileRole;
use windrow_learn::{BootSet, KnowledgeDiff, KnowledgeFile, KnowledgeReport, explain};
use windrow_plan::knowledge::Knowledge;
use windrow_plan::rules::RuleSet;

use super::inputs::{rule_files, rules_of_node};
use super::out::{print_whole, style};
use super::output::Output;
use super::{Context, Exit, complain};
use crate::configuration;
use crate::files::read_text;
use crate::printable::printable_colours;
use crate::render::{explanation_text, knowledge_diff_table, knowledge_table};

/// Show known facts about components and their durations
///
/// Shows which component provides which kinds and objects, how long each step takes, and the source of each fact.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: KnowledgeVerb,
}

#[derive(Debug, clap::Subcommand)]
enum KnowledgeVerb {
    /// Show all facts
    Show {
        #[command(flatten)]
        from: From,
        /// Output format
        #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
        output: Output,
    },
    /// Compare two knowledge files
    Diff {
        /// The first file, or a directory of files
        before: PathBuf,
        /// The second file, or a directory of files
        after: PathBuf,
        /// Output format
        #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
        output: Output,
    },
    /// Explain a kind, an object, a chart, an operator or a phase
    Explain {
        /// A kind (`Widget.example.com`, `Widget`), an object (`Namespace widgets`), a chart, an operator, an entry or a phase
        what: String,
        #[command(flatten)]
        from: From,
        /// Output format
        #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
        output: Output,
    },
}

/// Sources of knowledge, in addition to the shipped facts and this node's files.
#[derive(Debug, clap::Args)]
struct From {
    /// Additional knowledge (a file or directory; can be repeated)
    #[arg(long, value_name = "PATH")]
    rules: Vec<PathBuf>,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.verb {
        KnowledgeVerb::Show { from, output } => show(&from, output, context),
        KnowledgeVerb::Diff {
            before,
            after,
            output,
        } => diff(&before, &after, output),
        KnowledgeVerb::Explain { what, from, output } => {
            print_explanation(&what, &from, output, context)
        }
    }
}

fn show(from: &From, output: Output, context: &Context) -> anyhow::Result<Exit> {
    let (rules, _) = match loaded(from, context) {
        Ok(loaded) => loaded,
        Err(exit) => return Ok(exit),
    };
    let report = KnowledgeReport::of(&rules.knowledge);
    let table = || printable_colours(&knowledge_table(&report, style()));
    print_whole(&output.render(&report, table)?)?;
    Ok(Exit::Ok)
}

fn print_explanation(
    what: &str,
    from: &From,
    output: Output,
    context: &Context,
) -> anyhow::Result<Exit> {
    let (rules, boots) = match loaded(from, context) {
        Ok(loaded) => loaded,
        Err(exit) => return Ok(exit),
    };
    let explanation = explain(what, &rules.knowledge, &boots);
    let table = || printable_colours(&explanation_text(&explanation, style()));
    print_whole(&output.render(&explanation, table)?)?;
    Ok(match explanation.things.is_empty() {
        true => Exit::Unknown,
        false => Exit::Ok,
    })
}

fn diff(before: &Path, after: &Path, output: Output) -> anyhow::Result<Exit> {
    let (before, after) = (own_entries(before), own_entries(after));
    let (Ok(before), Ok(after)) = (&before, &after) else {
        for errors in [before.err(), after.err()].into_iter().flatten() {
            complain(&errors);
        }
        return Ok(Exit::Usage);
    };
    let diff = KnowledgeDiff::between(before, after);
    let table = || printable_colours(&knowledge_diff_table(&diff, style()));
    print_whole(&output.render(&diff, table)?)?;
    Ok(Exit::Ok)
}

/// The entries of a file, or of the files in a directory.
fn own_entries(path: &Path) -> Result<KnowledgeReport, Vec<String>> {
    let shown = path.display();
    let files =
        rule_files(path).map_err(|error| vec![format!("{shown}: cannot be read: {error}")])?;
    let is_knowledge = files
        .iter()
        .any(|(_, text)| KnowledgeFile::read(text).is_some());
    let (rules, wrong) = RuleSet::load(&files);
    if !wrong.is_empty() {
        return Err(wrong.iter().map(ToString::to_string).collect());
    }
    if !is_knowledge {
        return Err(vec![format!(
            "{shown}: is not a knowledge file (kind Knowledge)"
        )]);
    }
    let mut report = KnowledgeReport::of(&rules.knowledge);
    let shipped = KnowledgeReport::of(Knowledge::shipped());
    report
        .entries
        .retain(|entry| !shipped.entries.contains(entry));
    Ok(report)
}

/// The facts on this node, and the boots that they were learned from.
fn loaded(from: &From, context: &Context) -> Result<(std::sync::Arc<RuleSet>, BootSet), Exit> {
    let loaded = configuration::load(&context.layout);
    let node = rules_of_node(&loaded, &from.rules, false);
    if !node.errors.is_empty() {
        complain(&node.errors);
        return Err(Exit::Configuration);
    }
    let mut boots = BootSet::default();
    // What is in force here comes without its boots. A file that is gone meanwhile has none.
    let own = loaded
        .files
        .iter()
        .filter(|file| file.role == ConfigFileRole::Knowledge);
    let own =
        own.filter_map(|file| Some((file.path.display().to_string(), read_text(&file.path).ok()?)));
    let further = node.packs.iter().cloned();
    for (name, text) in own.chain(further) {
        // Most packs are rules.
        let Some(file) = text
            .contains("\nboots:")
            .then(|| KnowledgeFile::read(&text))
            .flatten()
        else {
            continue;
        };
        for why in &file.refused {
            eprintln!("windrow: {name}: {why}");
        }
        file.boots
            .into_iter()
            .flatten()
            .for_each(|boot| boots.add(boot));
    }
    Ok((node.rules, boots))
}
