//! `windrow drain-check`: whether a drain of a node would finish, and the proof if not.

use windrow_harvester::drain::{Drain, KINDS, check, check_all};
use windrow_harvester::objects::{ObjectKind, Objects, text};

use super::cluster::{ClusterObjects, ObjectSource};
use super::out::print_whole;
use super::output::Output;
use super::{Context, Exit, style};
use crate::fs;
use crate::observe::objects::list;
use crate::render::{drain_list_table, drain_table};

/// Check whether a drain of a node would finish
///
/// Shows each blocking pod, its disruption budget, and why no other node accepts a replacement.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The node [default: this node]
    #[arg(value_name = "NODE")]
    node: Option<String>,
    /// Check every node, each as if you drained only this one
    #[arg(long, conflicts_with = "node")]
    all: bool,
    #[command(flatten)]
    from: ObjectSource,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
    output: Output,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let seen = match args
        .from
        .objects(context, async |client, _| list(client, KINDS).await)?
    {
        Ok(seen) => seen,
        Err(exit) => return Ok(exit),
    };
    let ClusterObjects { objects, at, .. } = seen;
    if args.all {
        let checked = check_all(&objects, at);
        let text = args
            .output
            .render(&checked, || drain_list_table(&checked, style()))?;
        print_whole(&text)?;
        return Ok(exit(checked.drain));
    }
    let node = match args.node.or_else(|| own_node(&objects, context)) {
        Some(node) => node,
        None => {
            return Ok(which_node(&objects));
        }
    };
    if objects.all(ObjectKind::NODE).is_ok() && !nodes(&objects).any(|name| name == node) {
        let names: Vec<&str> = nodes(&objects).collect();
        eprintln!(
            "windrow: there is no node {node}; there are: {}",
            names.join(", ")
        );
        return Ok(Exit::Usage);
    }
    let checked = check(&objects, &node, at);
    let text = args
        .output
        .render(&checked, || drain_table(&checked, style()))?;
    print_whole(&text)?;
    Ok(exit(checked.drain))
}

/// Prints the choice of nodes, or why there is none.
fn which_node(objects: &Objects) -> Exit {
    match objects.all(ObjectKind::NODE) {
        Err(why) => eprintln!("windrow: no node to check: {why}"),
        Ok([]) => eprintln!("windrow: no node to check: the list of nodes is empty"),
        Ok(_) => {
            let names: Vec<&str> = nodes(objects).collect();
            let names = names.join(", ");
            eprintln!("windrow: which node? There are: {names}; `--all` checks each of them");
            return Exit::Usage;
        }
    }
    Exit::Unknown
}

fn exit(drain: Drain) -> Exit {
    match drain {
        Drain::Finishes => Exit::Ok,
        Drain::Blocked => Exit::Failed,
        Drain::Unknown => Exit::Unknown,
    }
}

fn nodes(objects: &Objects) -> impl Iterator<Item = &str> {
    let nodes = objects.all(ObjectKind::NODE).unwrap_or_default();
    nodes.iter().map(|node| text(node, "/metadata/name"))
}

/// This machine's node: by its name, or the only one.
fn own_node(objects: &Objects, context: &Context) -> Option<String> {
    let path = context.layout.path("/proc/sys/kernel/hostname");
    let host = fs::read_to_string(path).unwrap_or_default();
    let mut names: Vec<&str> = nodes(objects).collect();
    match names.iter().find(|name| **name == host.trim()) {
        Some(name) => Some((*name).to_owned()),
        None if names.len() == 1 => names.pop().map(str::to_owned),
        None => None,
    }
}
