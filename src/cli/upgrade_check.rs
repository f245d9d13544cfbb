//! `windrow upgrade-check`: would Harvester let an upgrade begin, and would it end?

mod gates;

use windrow_harvester::HarvesterVersion;
use windrow_harvester::incidents::look_for_symptoms;
use windrow_harvester::objects::Objects;
use windrow_preflight::upgrade_check::{NodeReadings, check, kinds};

use self::gates::refused_gates;
use super::cluster::{ObjectSource, runtime};
use super::out::print_whole;
use super::output::Output;
use super::{Context, Exit, style};
use crate::daemon::node_findings::read_own_node;
use crate::inspect::upgrade_check::read_nodes;
use crate::observe::objects::{Room, ask, look_in_rounds, on_this_thread};
use crate::render::upgrade_table;

/// Check whether a Harvester upgrade would start and finish
///
/// Runs all checks of Harvester's preflight, and additional checks that it does not make.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Harvester's version: the release to upgrade to; without it, Windrow skips the checks that depend on it
    #[arg(long, value_name = "VERSION")]
    harvester: Option<HarvesterVersion>,
    #[command(flatten)]
    from: ObjectSource,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
    output: Output,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let asked = args.from.objects(context, async |client, at| {
        let (mut objects, mut room) = (Objects::to_be_asked(), Room::of_a_person());
        ask(client, &kinds(), &mut objects, &mut room).await;
        let judge = on_this_thread(|objects| look_for_symptoms(objects, at));
        look_in_rounds(client, objects, &mut room, judge).await.0
    });
    let cluster = match asked? {
        Ok(seen) => seen,
        Err(exit) => return Ok(exit),
    };
    let mut readings = NodeReadings::default();
    let mut own_gates = Vec::new();
    if args.from.is_live() {
        let asked = args.from.ask(context, async |client| {
            read_nodes(client, &cluster.objects).await
        })?;
        match asked {
            Ok(read) => readings = read,
            Err(exit) => return Ok(exit),
        }
        let limits = &context.settings().settings.staging.limits;
        let layout = context.node();
        readings.own = Some(runtime()?.block_on(read_own_node(&layout, limits, cluster.at)));
        own_gates = context.settings().settings.feature_gates.clone();
    }
    readings.own = readings.own.or(cluster.own);
    readings.gates = args
        .harvester
        .map(|to| refused_gates(&cluster.objects, to, &own_gates));
    let checked = check(&cluster.objects, &readings, args.harvester, cluster.at);
    let text = args
        .output
        .render(&checked, || upgrade_table(&checked, style()))?;
    print_whole(&text)?;
    Ok(checked.list.verdict.into())
}
