//! A rehearsal as a page of its own: no script, nothing loaded from anywhere, readable in light and in
//! dark.

use std::fmt::Write as _;

use windrow_model::findings::Finding;
use windrow_model::reasons::Severity;
use windrow_simulate::rehearse::{Ending, NodeRehearsal, Rehearsal, Side, Span, Weight};

use super::rehearsal::{
    RECOGNISED, clock, describe_end, describe_end_of, describe_fate, in_how_many_seeds, in_seeds,
    span,
};
use crate::printable::{is_hidden, printable};

const LEFT: f64 = 230.0;
const RIGHT: f64 = 40.0;
const WIDTH: f64 = 1080.0;
const ROW: f64 = 40.0;
const TOP: f64 = 58.0;
/// Most marks on the time axis.
const MARKS: f64 = 10.0;

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1d2430;--soft:#5b6675;--paper:#fbfbf9;--card:#fff;--line:#dfe3e8;
--good:#1a7f4b;--wait:#b7791f;--bad:#c0392b;--step:#8795a8}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#9aa6b5;--paper:#14181e;--card:#1c222b;
--line:#303946;--good:#4cc38a;--wait:#e0a848;--bad:#ef6b5e;--step:#6c7a8d}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0}
main{max-width:1120px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:24px;margin:0}h2{font-size:17px;margin:34px 0 10px}
.sub{color:var(--soft);margin:2px 0 20px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(330px,1fr));gap:16px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:16px 18px;border-left:5px solid var(--bad)}
.card.good{border-left-color:var(--good)}.card h3{margin:0 0 4px;font-size:14px;color:var(--soft);font-weight:600}
.card p{margin:4px 0}.big{font-size:19px;font-weight:650}ul{margin:8px 0 0;padding-left:20px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:10px;overflow-x:auto}
svg{display:block;min-width:760px;width:100%;height:auto}svg text{fill:var(--ink);font:12px system-ui,sans-serif}
svg .soft{fill:var(--soft);font-size:11px}
table{border-collapse:collapse;width:100%;background:var(--card);border:1px solid var(--line);border-radius:10px}
td,th{text-align:left;padding:6px 12px;border-top:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600;border-top:0}.t{font-variant-numeric:tabular-nums;color:var(--soft);white-space:nowrap}
.good td:last-child,b.good{color:var(--good)}.bad td:last-child,b.bad{color:var(--bad)}
.staging td:last-child{color:var(--wait)}.step td:last-child{font-weight:600}.small td:last-child{color:var(--soft)}
details{margin-top:12px}summary{cursor:pointer;color:var(--soft)}code{font:13px ui-monospace,monospace}
footer{color:var(--soft);margin-top:34px;font-size:13px}";

/// A rehearsal as an HTML document.
pub fn page(rehearsal: &Rehearsal) -> String {
    let mut out = String::new();
    let names: Vec<&str> = rehearsal
        .nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>Rehearsal of {}</title><style>{STYLE}</style></head><body><main>",
        escape(&names.join(", "))
    );
    for node in &rehearsal.nodes {
        one_node(&mut out, node);
    }
    if !rehearsal.findings.is_empty() {
        out.push_str("<h2>Between the nodes</h2>");
        findings(&mut out, &rehearsal.findings);
    }
    out.push_str(
        "<footer>Made by windrow rehearse. Times and Harvester's controllers are modelled; RKE2's \
         deploy controller is checked against a real API server.</footer></main></body></html>\n",
    );
    out
}

fn one_node(out: &mut String, node: &NodeRehearsal) {
    let platform = match &node.harvester {
        Some(version) if node.storage_network => {
            format!("Harvester {version}, storage network preset")
        }
        Some(version) => format!("Harvester {version}"),
        None => "RKE2".to_owned(),
    };
    let _ = write!(
        out,
        "<h1>{}</h1><p class=\"sub\">{} · {} seeds</p>",
        escape(&node.name),
        escape(&platform),
        node.seeds
    );
    for beyond in &node.beyond {
        let _ = write!(out, "<p><b class=\"bad\">{}</b></p>", escape(beyond));
    }
    out.push_str("<div class=\"cards\">");
    card(out, "Without Windrow", &node.without, node);
    card(out, "With Windrow", &node.with, node);
    out.push_str("</div><h2>What happens to each file</h2><figure>");
    picture(out, node);
    out.push_str("</figure>");
    files(out, node);
    kept(out, &node.with);
    recognised(out, node);
    versions(out, node);
    if !node.findings.is_empty() {
        out.push_str("<h2>Findings</h2>");
        findings(out, &node.findings);
    }
    out.push_str("<h2>Timelines</h2>");
    timeline(out, "With Windrow", &node.with, true);
    timeline(out, "Without Windrow", &node.without, false);
}

fn card(out: &mut String, title: &str, side: &Side, node: &NodeRehearsal) {
    let seeds = node.seeds;
    let complete = side.ends.iter().all(|end| end.verdict == Ending::Complete);
    let good = complete && node.beyond.is_empty();
    let class = if good { "card good" } else { "card" };
    let _ = write!(out, "<section class=\"{class}\"><h3>{title}</h3>");
    for end in &side.ends {
        let _ = write!(
            out,
            "<p class=\"big\">{}</p><p>{}</p>",
            capital(&describe_end_of(node, side, end.verdict)),
            capital(in_how_many_seeds(end.seeds, seeds).trim_start_matches(", "))
        );
        if !end.because.is_empty() {
            out.push_str("<ul>");
            for line in &end.because {
                let _ = write!(out, "<li>{}</li>", escape(line));
            }
            out.push_str("</ul>");
        }
    }
    if let Some(over) = side.over {
        let _ = write!(out, "<p>All is there after {}.</p>", span(over));
    }
    let work = &side.work.most;
    let _ = write!(
        out,
        "<p class=\"t\">At most {} applies, {} failed, {} API writes</p></section>",
        work.applies, work.failed, work.writes
    );
}

/// One row a file: above without Windrow, below with it; bars from the earliest to the latest.
fn picture(out: &mut String, node: &NodeRehearsal) {
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
    axis(out, end, height, x);
    for (number, (path, fate)) in files.iter().enumerate() {
        let y = TOP + ROW * number as f64;
        let _ = write!(
            out,
            "<line x1=\"0\" y1=\"{y:.0}\" x2=\"{WIDTH}\" y2=\"{y:.0}\" stroke=\"var(--line)\"/>\
             <text x=\"16\" y=\"{:.0}\">{}</text>",
            y + 24.0,
            escape(&super::text::fit(path, 30))
        );
        if let Some(alone) = node.without.files.get(*path) {
            let y = y + 8.0;
            match alone.applied {
                Some(span) if alone.applied_in > 0 => dot(out, x, span, y, "good"),
                _ => {
                    bar(out, x(0.0).max(LEFT), x(end), y, "bad", 0.22);
                    cross(out, x(end) - 8.0, y);
                }
            }
            if alone.failures > 0 && alone.applied.is_some() {
                let until = alone.applied.map_or(end, |span| span.from);
                bar(out, x(0.0), x(until), y, "bad", 0.22);
            }
        }
        let y = y + 24.0;
        if fate.held_in > 0 {
            let until = fate.released.map_or(end, |span| span.to);
            bar(out, x(0.0), x(until), y, "wait", 0.75);
        }
        if let Some(span) = fate.applied {
            dot(out, x, span, y, "good");
        }
    }
    let _ = write!(
        out,
        "<text class=\"soft\" x=\"16\" y=\"{:.0}\">Upper line: without Windrow. Lower line: with it. \
         Amber: held. Green: applied. Red: refused or never applied.</text></svg>",
        height - 14.0
    );
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

fn files(out: &mut String, node: &NodeRehearsal) {
    out.push_str(
        "<details><summary>In words</summary><table><tr><th>File</th><th>Without Windrow</th>\
         <th>With Windrow</th></tr>",
    );
    for (path, fate) in &node.with.files {
        let alone = node.without.files.get(path);
        let _ = write!(
            out,
            "<tr><td><code>{}</code></td><td>{}",
            escape(path),
            alone.map_or_else(String::new, |alone| escape(&describe_fate(
                alone, node.seeds
            ))),
        );
        if let Some(error) = alone.and_then(|alone| alone.error.as_ref()) {
            let _ = write!(out, "<br><span class=\"t\">{}</span>", escape(error));
        }
        let _ = write!(
            out,
            "</td><td>{}</td></tr>",
            escape(&describe_fate(fate, node.seeds))
        );
    }
    out.push_str("</table></details>");
}

fn kept(out: &mut String, side: &Side) {
    if side.stays_held.is_empty() {
        return;
    }
    out.push_str("<h2>Stays held for ever</h2><table>");
    for kept in &side.stays_held {
        let rules: Vec<String> = kept
            .rules
            .iter()
            .map(|rule| escape(&format!("{} ({})", rule.rule, rule.at)))
            .collect();
        let _ = write!(
            out,
            "<tr><td><code>{}</code></td><td>{}<br><span class=\"t\">{}</span></td></tr>",
            escape(&kept.file),
            escape(&kept.why),
            rules.join("<br>")
        );
    }
    out.push_str("</table>");
}

/// What `windrow diagnose` would say of what is left.
fn recognised(out: &mut String, node: &NodeRehearsal) {
    let all = node.recognised();
    if all.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<h2>{RECOGNISED}</h2><table><tr><th>What</th><th>Without Windrow</th><th>With Windrow</th>\
         </tr>"
    );
    for (one, without, with) in all {
        let cell = |count: u64| {
            let class = if count == 0 { "good" } else { "bad" };
            format!(
                "<b class=\"{class}\">{}</b>",
                capital(&in_seeds(count, node.seeds))
            )
        };
        let _ = write!(
            out,
            "<tr><td><code>{}</code> {}<br>{}<br><span class=\"sub\">{}</span></td><td>{}</td>\
             <td>{}</td></tr>",
            one.code,
            escape(&one.subject),
            escape(&one.message),
            escape(&one.advice),
            cell(without),
            cell(with)
        );
    }
    out.push_str("</table>");
}

fn versions(out: &mut String, node: &NodeRehearsal) {
    if node.versions.is_empty() {
        return;
    }
    out.push_str(
        "<h2>By Harvester's version, at worst</h2><table><tr><th>Version</th><th>Without Windrow</th>\
         <th>With Windrow</th></tr>",
    );
    for version in &node.versions {
        let is_this = node.harvester.as_ref() == Some(&version.version);
        let cell = |ended| {
            let beyond = is_this && !node.beyond.is_empty();
            let class = if ended == Ending::Complete && !beyond {
                "good"
            } else {
                "bad"
            };
            format!("<b class=\"{class}\">{}</b>", capital(describe_end(ended)))
        };
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&version.version),
            cell(version.without),
            cell(version.with)
        );
    }
    out.push_str("</table>");
}

fn findings(out: &mut String, findings: &[Finding]) {
    out.push_str("<table>");
    for finding in findings {
        let class = if finding.severity == Severity::Error {
            "bad"
        } else {
            "staging"
        };
        let at: Vec<String> = finding
            .at
            .iter()
            .map(|at| escape(&at.to_string()))
            .collect();
        let _ = write!(
            out,
            "<tr class=\"{class}\"><td class=\"t\">{}<br><code>{}</code></td><td>{}</td></tr>",
            finding.code,
            at.join("<br>"),
            escape(&finding.message)
        );
    }
    out.push_str("</table>");
}

fn timeline(out: &mut String, title: &str, side: &Side, open: bool) {
    let open = if open { " open" } else { "" };
    let _ = write!(
        out,
        "<details{open}><summary>{title}, seed {}</summary><table>",
        side.seed
    );
    for moment in &side.timeline {
        let class = match moment.weight {
            Weight::Step => "step",
            Weight::Good => "good",
            Weight::Staging => "staging",
            Weight::Bad => "bad",
            Weight::Small => "small",
        };
        let _ = write!(
            out,
            "<tr class=\"{class}\"><td class=\"t\">{}</td><td>{}</td></tr>",
            clock(moment.at),
            escape(&moment.what)
        );
    }
    out.push_str("</table></details>");
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

/// A manifest's text may hold anything.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for ch in text.chars() {
        match ch {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            ch if is_hidden(ch) && ch != '\n' => {
                out.push_str(&printable(ch.encode_utf8(&mut [0; 4])));
            }
            ch => out.push(ch),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windrow_harvester::HarvesterVersion;
    use windrow_simulate::rehearse::rehearse;
    use windrow_simulate::{Scenario, Setup};

    use super::*;

    #[test]
    fn the_page_needs_nothing_else_and_nothing_of_a_manifest_becomes_markup() {
        let start = Timestamp::constant(1_767_225_600, 0);
        let mut setup = Setup::first_vm(start);
        let version = HarvesterVersion::new(1, 5, 0);
        setup.scenario = Scenario::harvester(version, None, start);
        setup.files.write(
            "90-odd.yaml",
            "apiVersion: v1\nkind: <script>alert(1)</script>\nmetadata: {name: x}\n",
            start,
        );
        let node = rehearse("<b>node</b>", &setup, 1, Vec::new());
        let page = page(&Rehearsal::new(vec![node], Vec::new()));
        for foreign in [
            "<script", "http://", "https://", "src=", "<link", "@import", "url(",
        ] {
            assert!(!page.contains(foreign), "{foreign} stands in the page");
        }
        assert!(page.contains("&lt;b&gt;node&lt;/b&gt;"));
        assert!(page.contains("It never comes up"));
        assert!(page.contains("00-registry.yaml"));
        let recognised =
            "<td><b class=\"bad\">In every seed</b></td><td><b class=\"good\">In no seed</b></td>";
        assert!(page.contains(recognised), "{page}");
    }
}
