//! When each file of a rehearsal is held, applied and refused: a picture for the page.

use std::fmt::Write as _;

use windrow_simulate::rehearse::{NodeRehearsal, Span};

use super::markup::escaped;
use super::rehearsal::clock;
use crate::render::fit;

const LEFT: f64 = 230.0;
const RIGHT: f64 = 40.0;
const WIDTH: f64 = 1080.0;
const ROW: f64 = 40.0;
const TOP: f64 = 58.0;
/// Most marks on the time axis.
const MARKS: f64 = 10.0;

/// One row a file: above without Windrow, below with it; bars from the earliest to the latest.
pub(super) fn timing(node: &NodeRehearsal) -> String {
    let mut out = String::new();
    let files: Vec<_> = node.with.files.iter().collect();
    let end = node
        .with
        .timeline
        .iter()
        .map(|moment| moment.at)
        .chain(
            node.with
                .files
                .values()
                .filter_map(|fate| Some(fate.applied?.to)),
        )
        .fold(60.0_f64, f64::max)
        * 1.04;
    let x = |at: f64| LEFT + (WIDTH - LEFT - RIGHT) * (at.min(end) / end);
    let height = TOP + ROW * files.len() as f64 + 46.0;
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"When each file is held, \
         applied and refused\">"
    );
    axis(&mut out, end, height, x);
    for (number, (path, fate)) in files.iter().enumerate() {
        let y = TOP + ROW * number as f64;
        let _ = write!(
            out,
            "<line x1=\"0\" y1=\"{y:.0}\" x2=\"{WIDTH}\" y2=\"{y:.0}\" stroke=\"var(--line)\"/>\
             <text x=\"16\" y=\"{:.0}\">{}</text>",
            y + 24.0,
            escaped(&fit(path, 30))
        );
        if let Some(alone) = node.without.files.get(*path) {
            let y = y + 8.0;
            match alone.applied {
                Some(span) if alone.applied_in > 0 => dot(&mut out, x, span, y, "good"),
                _ => {
                    bar(&mut out, x(0.0).max(LEFT), x(end), y, "bad", 0.22);
                    cross(&mut out, x(end) - 8.0, y);
                }
            }
            if alone.failures > 0 && alone.applied.is_some() {
                let until = alone.applied.map_or(end, |span| span.from);
                bar(&mut out, x(0.0), x(until), y, "bad", 0.22);
            }
        }
        let y = y + 24.0;
        if fate.held_in > 0 {
            let until = fate.released.map_or(end, |span| span.to);
            bar(&mut out, x(0.0), x(until), y, "wait", 0.75);
        }
        if let Some(span) = fate.applied {
            dot(&mut out, x, span, y, "good");
        }
    }
    let _ = write!(
        out,
        "<text class=\"soft\" x=\"16\" y=\"{:.0}\">Upper line: without Windrow. Lower line: with it. \
         Amber: held. Green: applied. Red: refused or never applied.</text></svg>",
        height - 14.0
    );
    out
}

fn axis(out: &mut String, end: f64, height: f64, x: impl Fn(f64) -> f64) {
    let step = [30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0]
        .into_iter()
        .find(|step| end / step <= MARKS)
        .unwrap_or(7200.0);
    let mut at = 0.0;
    while at <= end {
        let _ = write!(
            out,
            "<line x1=\"{0:.1}\" y1=\"36\" x2=\"{0:.1}\" y2=\"{1:.0}\" stroke=\"var(--line)\"/>\
             <text class=\"soft\" x=\"{0:.1}\" y=\"28\" text-anchor=\"middle\">{2}</text>",
            x(at),
            height - 36.0,
            clock(at)
        );
        at += step;
    }
}

fn bar(out: &mut String, from: f64, to: f64, y: f64, colour: &str, opacity: f64) {
    let _ = write!(
        out,
        "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"8\" rx=\"4\" \
         fill=\"var(--{colour})\" opacity=\"{opacity}\"/>",
        y - 4.0,
        (to - from).max(2.0)
    );
}

fn dot(out: &mut String, x: impl Fn(f64) -> f64, span: Span, y: f64, colour: &str) {
    let (from, to) = (x(span.from), x(span.to));
    let _ = write!(
        out,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\" rx=\"6\" \
         fill=\"var(--{colour})\"/>",
        from - 6.0,
        y - 6.0,
        to - from + 12.0
    );
}

fn cross(out: &mut String, x: f64, y: f64) {
    let _ = write!(
        out,
        "<path d=\"M{:.1} {:.1}l10 10m0 -10l-10 10\" stroke=\"var(--bad)\" stroke-width=\"2.5\"/>",
        x - 5.0,
        y - 5.0
    );
}
