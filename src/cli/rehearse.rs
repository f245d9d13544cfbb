//! `windrow rehearse`: a boot before the image is burned.

mod args;
mod findings;
mod fix;
mod fleet;
mod layout;
mod play;
mod read_node;
mod rehearsed;
mod unjudged;

use windrow_simulate::rehearse::{Ending, Rehearsal};

pub(super) use self::args::{Args, SetupArgs};
pub(super) use self::findings::FoundOnNode;
pub(super) use self::rehearsed::{Rehearsed, rehearse};
use super::out::print_whole;
use super::output::Output;
use super::{Context, Exit, complain, style};
use crate::render;

pub(super) fn run(args: Args, _context: &Context) -> anyhow::Result<Exit> {
    let rehearsed = match rehearse(&args.setup, false) {
        Ok(rehearsed) => rehearsed,
        Err((exit, errors)) => {
            complain(&errors);
            return Ok(exit);
        }
    };
    let wrong = rehearsed.configuration_errors();
    if !wrong.is_empty() {
        complain(&wrong);
        return Ok(Exit::Configuration);
    }
    print(&rehearsed.rehearsal, args.output)?;
    if let Some(cut) = &rehearsed.cut_short {
        eprintln!(
            "windrow: the simulation ended after {}, with {} of {} boots simulated; --timeout gives it more time",
            cut.time, cut.played, cut.seeds
        );
    }
    Ok(match rehearsed.rehearsal.worst() {
        Ending::Complete if rehearsed.cut_short.is_some() => Exit::Unknown,
        Ending::Complete => Exit::Ok,
        Ending::Unknown => Exit::Unknown,
        _ => Exit::Failed,
    })
}

fn print(rehearsal: &Rehearsal, output: Output) -> anyhow::Result<()> {
    print_whole(&match output {
        Output::Html => render::page(rehearsal),
        output => output.render(rehearsal, || render::rehearsal(rehearsal, style()))?,
    })
}
