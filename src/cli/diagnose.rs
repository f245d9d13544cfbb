//! `windrow diagnose`: the known incidents, with evidence, proof and cure.

use std::cell::RefCell;

use windrow_harvester::incidents::{
    DetectorResult, OwnNode, add_own, kinds_of, look_at_own, look_at_saved, look_by_rules,
    look_for_symptoms, rules_for, summed_up, unread_kinds, upgrade_in_words,
};
use windrow_harvester::objects::{ObjectKind, Objects};
use windrow_model::reasons::Severity;
use windrow_plan::rules::Platform;

use super::cluster::{ClusterObjects, NoObjects, ObjectSource, runtime};
use super::document::now;
use super::out::print_whole;
use super::output::Output;
use super::{Context, Exit, style};
use crate::act::repair::{Records, RestoreEntry};
use crate::daemon::node_findings::read_own_node;
use crate::daemon::repairs::entries_of_others;
use crate::observe::objects::ask_for_a_person;
use crate::observe::platform;
use crate::render::diagnosis_table;

/// Find known problems, and show evidence and fix
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    from: ObjectSource,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
    output: Output,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let loaded = context.settings();
    // The changes that other servers have left are in the cluster.
    let (left, unread) = (RefCell::new(Vec::new()), RefCell::new(None));
    let live = match args.from.is_live() {
        true => Some(runtime()?.block_on(read_own_node(
            &context.node(),
            &loaded.settings.staging.limits,
            now(),
        ))),
        false => None,
    };
    let judge = |objects: &Objects, own: Option<&OwnNode>, at| {
        let mut looked = look_for_symptoms(objects, at);
        if let Some(own) = own {
            let mut own = own.clone();
            own.unfinished_repairs.extend(left.borrow().iter().cloned());
            add_own(&mut looked, &own, objects, at);
        }
        looked
    };
    let records = Records::new(&context.layout.state_dir());
    let seen = args.from.look(context, async |client, at| {
        let found = entries_of_others(client, &records, at).await;
        let found = found.unwrap_or_else(|why| {
            unread.replace(Some(why.to_string()));
            Vec::new()
        });
        left.replace(found.iter().map(RestoreEntry::in_short).collect());
        ask_for_a_person(client, |objects| judge(objects, live.as_ref(), at)).await
    })?;
    let (mut notes, mut lost) = (Vec::new(), Vec::new());
    let (objects, mut looked, at, unasked) = match seen {
        Ok(ClusterObjects {
            mut objects,
            at,
            own,
            partial,
            unread,
            broken,
        }) => {
            lost.extend(
                broken
                    .iter()
                    .map(|why| format!("1 file is not read: {why}")),
            );
            notes.extend(unread.into_iter().chain(partial));
            if !args.from.is_live() {
                objects.fill_absent_kinds();
                notes.extend(unread_kinds(&objects));
            }
            let mut looked = judge(&objects, live.as_ref().or(own.as_ref()), at);
            if !args.from.is_live() {
                looked.extend(look_at_saved(&objects, at));
            }
            (objects, looked, at, None)
        }
        Err(NoObjects::Unreadable) => return Ok(Exit::Usage),
        // The node itself can still be examined.
        Err(NoObjects::NotAsked(why)) => {
            let (objects, at) = (
                Objects::closed(&format!("cannot query the cluster: {why}")),
                now(),
            );
            let own = live.iter();
            let looked = own.flat_map(|own| look_at_own(own, &objects, at)).collect();
            (objects, looked, at, Some(why))
        }
    };
    if unasked.is_none() {
        let platform = match args.from.is_live() {
            true => loaded
                .settings
                .platform
                .or_else(|| platform::detect(&context.layout)),
            false => platform_of(&objects),
        };
        let rules = rules_for(&loaded.rules.findings, platform);
        match args
            .from
            .named_objects(&objects, &kinds_of(&rules), context)?
        {
            Ok(objects) => looked.extend(look_by_rules(&objects, &rules)),
            Err(exit) => return Ok(exit),
        }
    }
    let nowhere = args.from.is_empty_input(&objects);
    let needs_objects =
        |result: &DetectorResult| matches!(&result.found, Err(why) if why.is_not_in_input());
    let without_objects = looked.extract_if(.., |result| nowhere && needs_objects(result));
    let skipped = without_objects.count();
    let mut found = summed_up(looked, at);
    if skipped > 0 {
        let line = format!("{skipped} checks skipped: the input contains no cluster objects");
        found.unknown.insert(0, line);
    }
    found.upgrade = upgrade_in_words(&objects, at);
    found.skipped.extend(notes);
    found.unknown.extend(lost);
    if let Some(why) = unread.take() {
        let unknown = format!("changes that repairs of other servers left: {why}");
        found.unknown.push(unknown);
    }
    if let Some(why) = unasked {
        let unknown = format!("all incidents that need the cluster's objects: {why}");
        found.unknown.insert(0, unknown);
    }
    let text = args
        .output
        .render(&found, || diagnosis_table(&found, style()))?;
    print_whole(&text)?;
    let wrong = |severity| found.findings.iter().any(|one| one.severity >= severity);
    Ok(match wrong(Severity::Error) {
        true => Exit::Failed,
        false if found.unknown.is_empty() => Exit::Ok,
        false => Exit::Unknown,
    })
}

/// The platform of a saved cluster: Harvester has its settings.
fn platform_of(objects: &Objects) -> Option<Platform> {
    let settings = objects.all(ObjectKind::SETTING).ok()?;
    Some(match settings.is_empty() {
        true => Platform::Rke2,
        false => Platform::Harvester,
    })
}
