//! `windrow timeline`: the time that each part of a boot took, and the chain that decided its end. The input is a flight
//! or a report.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use windrow_replay::{BootState, BootTimeline, Flights, boots};

use super::out::print_whole;
use super::output::Output;
use super::recordings::{Unreadable, flights, read};
use super::{Context, Exit, complain, style};
use crate::archive::LARGEST_FLIGHT;
use crate::files::read_at_most;
use crate::layout::Layout;
use crate::printable::printable_colours;
use crate::render::{Style, boot_picture, timeline_summary, timeline_table};

/// Show where the boot spent its time
///
/// Also shows the chain of waits that decided when the boot ended.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Read saved data instead of this node: a boot log, an archive of `windrow report`, or `-`
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The boot, as in journalctl: 0 is the last one, -1 the one before it, 1 the first one
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    boot: i64,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(FORMATS), default_value = "table")]
    output: Output,
}

const FORMATS: &[Output] = &[Output::Table, Output::Json, Output::Yaml, Output::Svg];

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let flights = match recorded(args.from.as_deref(), context) {
        Ok(flights) => flights,
        Err(Unreadable { why, exit }) => {
            complain(&[why]);
            return Ok(exit);
        }
    };
    let boots = boots(&flights);
    if boots.is_empty() {
        complain(&["the boot log has no decision, so Windrow knows nothing about any boot"]);
        complain(&flights.damage);
        return Ok(Exit::Unknown);
    }
    let Some(chosen) = chosen(args.boot, boots.len()) else {
        let (count, s) = (boots.len(), if boots.len() == 1 { "" } else { "s" });
        complain(&[format!(
            "there is no boot {} in the boot log: it has {count} boot{s} (0 is the last one, -1 the one before it, 1 the first one)",
            args.boot
        )]);
        return Ok(Exit::Usage);
    };
    let mut timeline = match BootTimeline::from_boot(&boots[chosen], &boots[..chosen]) {
        Ok(timeline) => timeline,
        Err(why) => {
            complain(&[why]);
            return Ok(Exit::Unknown);
        }
    };
    timeline.cautions.extend(flights.damage.iter().cloned());
    let text = match args.output {
        Output::Svg => boot_picture(&timeline),
        output => {
            let table = || printable_colours(&timeline_table(&timeline, style()));
            output.render(&timeline, table)?
        }
    };
    print_whole(&text)?;
    Ok(match timeline.end.state {
        BootState::Ready | BootState::Degraded | BootState::Staged => Exit::Ok,
        BootState::Underway => Exit::NotYet,
        BootState::Failed => Exit::Failed,
    })
}

/// The critical path of the last boot in short, or the reason why there is no path.
pub(super) fn summary_of(layout: &Layout, style: Style) -> String {
    let flights = match own(layout) {
        Ok(flights) => flights,
        Err(Unreadable { why, .. }) => return format!("not known: {why}\n"),
    };
    let boots = boots(&flights);
    let timeline = match boots.split_last() {
        None => Err("there are no decisions".to_owned()),
        Some((last, earlier)) => BootTimeline::from_boot(last, earlier),
    };
    match timeline {
        Ok(timeline) => printable_colours(&timeline_summary(&timeline, style)),
        Err(why) => format!("not known: {why}\n"),
    }
}

/// The index of the chosen boot among this many, the oldest first.
fn chosen(boot: i64, count: usize) -> Option<usize> {
    let count = i64::try_from(count).ok()?;
    let chosen = match boot {
        1.. => boot - 1,
        _ => count.checked_add(boot)?.checked_sub(1)?,
    };
    usize::try_from(chosen).ok().filter(|_| chosen < count)
}

fn recorded(from: Option<&Path>, context: &Context) -> Result<Flights, Unreadable> {
    match from {
        Some(path) => read(path),
        None => own(&context.layout),
    }
}

fn own(layout: &Layout) -> Result<Flights, Unreadable> {
    let mut found = Vec::new();
    for path in layout.flights() {
        match read_at_most(&path, LARGEST_FLIGHT) {
            Ok(bytes) => found.push((path.display().to_string(), bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let hint = match error.kind() {
                    ErrorKind::PermissionDenied => " (only root may read a boot log)",
                    _ => "",
                };
                let why = format!("{}: cannot be read: {error}{hint}", path.display());
                return Err(Unreadable::usage(why));
            }
        }
    }
    if found.is_empty() {
        return Err(Unreadable {
            why: format!(
                "there is no {}: Windrow's daemon has not run on this node, or `flight.enabled` is false (windrow config show)",
                layout.flight().display()
            ),
            exit: Exit::Unknown,
        });
    }
    flights(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boots_are_counted_from_the_last_one_down_and_from_the_first_one_up() {
        let all = [0, -1, -2, -3, 1, 2, 3, 4, i64::MIN, i64::MAX];
        let chosen = all.map(|boot| chosen(boot, 3));
        let (first, second, last) = (Some(0), Some(1), Some(2));
        let expected = [
            last, second, first, None, first, second, last, None, None, None,
        ];
        assert_eq!(chosen, expected);
    }
}
