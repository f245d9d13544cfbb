//! How true predictions were, as a picture: for each time that was predicted the intervals, and where it fell. Self-contained SVG, no
//! script, readable in light and in dark. The axis is logarithmic.

use std::fmt::Write as _;
use std::time::Duration;

use windrow_learn::{Backtest, BacktestCase, Coverage, duration_text};

use super::super::markup::escaped;
use super::metrics::clip;
use crate::printable::printable;

const WIDTH: f64 = 1120.0;
const MARGIN: f64 = 20.0;
const LEFT: f64 = 270.0;
const RIGHT: f64 = WIDTH - 30.0;
const ROW: f64 = 9.0;
/// Most rows of one sort: evenly chosen.
const ROWS: usize = 40;
/// Most sorts that are drawn; the table has all.
const SORTS: usize = 30;
/// The shortest time of the axis, in seconds.
const SHORTEST: f64 = 0.1;

/// Every rule is below `.backtest`, so that the picture can stand in a page.
const STYLE: &str = r#"<style>
.backtest text { font-family: "DejaVu Sans", Verdana, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; font-size: 12px; fill: #1f2937; }
.backtest .page { fill: #ffffff; }
.backtest .headline { font-size: 17px; font-weight: 600; }
.backtest .soft { font-size: 11px; fill: #4b5563; }
.backtest .mark { stroke: #e5e7eb; fill: none; }
.backtest .most { fill: #c7d2fe; }
.backtest .half { fill: #818cf8; }
.backtest .within { fill: #16a34a; }
.backtest .outside { fill: #dc2626; }
@media (prefers-color-scheme: dark) {
.backtest text { fill: #e5e7eb; }
.backtest .page { fill: #111827; }
.backtest .soft { fill: #9ca3af; }
.backtest .mark { stroke: #374151; }
.backtest .most { fill: #312e81; }
.backtest .half { fill: #4f46e5; }
.backtest .within { fill: #4ade80; }
.backtest .outside { fill: #f87171; }
}
</style>
"#;

/// The picture of a backtest: each boot predicted from all others.
pub fn backtest_picture(backtest: &Backtest) -> String {
    let round = &backtest.leave_one_out;
    let axis = LogAxis::over(&round.cases);
    let mut rows = String::new();
    let mut y = 110.0;
    let sorts = round.coverage.iter().filter(|sort| sort.of != "all");
    for sort in sorts.take(SORTS) {
        y = draw_sort(&mut rows, sort, &round.cases, &axis, y);
    }
    let height = y + 30.0;
    let all = round.coverage.first();
    let headline = all.map_or_else(
        || "Nothing was predicted".to_owned(),
        |all| {
            format!(
                "{} of {} times fell into their interval of 90 %, {} into that of 50 %",
                all.in_most, all.cases, all.in_half
            )
        },
    );
    let (headline, boots) = (escaped(&headline), backtest.boots);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"backtest\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{headline}\">"
    );
    out.push_str(STYLE);
    let _ = writeln!(
        out,
        "<rect class=\"page\" width=\"{WIDTH}\" height=\"{height:.0}\" rx=\"10\"/>\
         <text class=\"headline\" x=\"{MARGIN}\" y=\"34\">{headline}</text>\
         <text class=\"soft\" x=\"{MARGIN}\" y=\"54\">{boots} boots, each predicted from all others: intervals of 90 % (pale) and 50 %, \
         and where the time fell; red is outside</text>"
    );
    axis.draw(&mut out, height);
    out.push_str(&rows);
    out.push_str("</svg>\n");
    out
}

/// Seconds on a logarithmic axis.
struct LogAxis {
    from: f64,
    to: f64,
}

impl LogAxis {
    fn over(cases: &[BacktestCase]) -> Self {
        let values = || {
            cases
                .iter()
                .flat_map(|one| one.predicted.into_iter().chain([one.seconds]))
        };
        let least = values().fold(f64::INFINITY, f64::min).max(SHORTEST);
        let most = values().fold(1.0, f64::max);
        Self {
            from: least.min(most / 10.0),
            to: most,
        }
    }

    fn x(&self, seconds: f64) -> f64 {
        let share = (seconds.max(self.from) / self.from).ln() / (self.to / self.from).ln();
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    }

    fn draw(&self, out: &mut String, height: f64) {
        let marks = [0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36_000.0, 360_000.0];
        for mark in marks
            .into_iter()
            .filter(|mark| (self.from..=self.to).contains(mark))
        {
            let x = self.x(mark);
            let _ = write!(
                out,
                "<line class=\"mark\" x1=\"{x:.1}\" y1=\"88\" x2=\"{x:.1}\" y2=\"{:.0}\"/>\
                 <text class=\"soft\" x=\"{x:.1}\" y=\"82\" text-anchor=\"middle\">{}</text>",
                height - 20.0,
                time(mark)
            );
        }
    }
}

fn draw_sort(
    out: &mut String,
    sort: &Coverage,
    cases: &[BacktestCase],
    axis: &LogAxis,
    y: f64,
) -> f64 {
    let own: Vec<&BacktestCase> = cases.iter().filter(|one| one.of == sort.of).collect();
    let step = own.len().div_ceil(ROWS).max(1);
    let name = clip(&printable(&sort.of), 12.0, false, LEFT - MARGIN - 20.0);
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"{:.0}\">{}</text><text class=\"soft\" x=\"{MARGIN}\" y=\"{:.0}\">90 %: {} of {}, 50 %: {}</text>",
        y + 10.0,
        escaped(&name),
        y + 25.0,
        sort.in_most,
        sort.cases,
        sort.in_half
    );
    let mut row = y;
    for case in own.iter().step_by(step) {
        draw_case(out, case, axis, row);
        row += ROW;
    }
    row.max(y + 30.0) + 14.0
}

fn draw_case(out: &mut String, case: &BacktestCase, axis: &LogAxis, y: f64) {
    let [p5, p25, half, p75, p95] = case.predicted;
    let bar = |class: &str, from: f64, to: f64| {
        let (x, end) = (axis.x(from), axis.x(to));
        let width = (end - x).max(1.0);
        format!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"6\"/>"
        )
    };
    let class = match (p5..=p95).contains(&case.seconds) {
        true => "within",
        false => "outside",
    };
    let hint = format!(
        "boot {}: {}; predicted {} to {}, usually {} ({} boots)",
        printable(&case.boot),
        time(case.seconds),
        time(p5),
        time(p95),
        time(half),
        case.boots
    );
    let _ = writeln!(
        out,
        "<g><title>{}</title>{}{}<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/></g>",
        escaped(&hint),
        bar("most", p5, p95),
        bar("half", p25, p75),
        axis.x(case.seconds),
        y + 3.0
    );
}

fn time(seconds: f64) -> String {
    duration_text(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
