//! A rehearsal as a self-contained page: no script, nothing loaded from anywhere, readable in light and in dark. The
//! page is `templates/rehearsal.html`; everything in `{{ }}` is escaped by [`markup`](super::markup).

use std::collections::BTreeMap;

use askama::Template;
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Severity;
use windrow_simulate::rehearse::check::{CheckReport, CheckVerdict};
use windrow_simulate::rehearse::{
    EndCount, Ending, FileFate, NodeRehearsal, Rehearsal, Side, Span, TimelineEntry,
    VersionOutcome, Weight,
};

use super::check::summary;
use super::markup::with_code;
use super::rehearsal::{
    RECOGNISED, clock, describe_end_on_node, describe_fate, in_seeds, platform, span,
};
use super::svg::boot_figure;
use super::timing::timing;

/// The most nodes that the title names.
const NAMED: usize = 8;

#[derive(Template)]
#[template(
    path = "rehearsal.html",
    escape = "one-line",
    config = "src/render/templates/askama.toml"
)]
struct RehearsalPage<'r> {
    check: &'r CheckReport,
    rehearsal: &'r Rehearsal,
    names: String,
}

/// A check as an HTML document: its verdict and findings, and below them the rehearsal.
pub fn check_page(check: &CheckReport, rehearsal: &Rehearsal) -> String {
    // A node that never boots has no boot to show.
    let mut rehearsal = rehearsal.clone();
    let mut nodes = check.nodes.iter();
    rehearsal.nodes.retain(|_| {
        let boots = nodes.next().is_none_or(|node| node.stopped_by.is_none());
        boots && check.is_simulated()
    });
    let names = check.nodes.iter().take(NAMED);
    let names: Vec<&str> = names.map(|node| node.name.as_str()).collect();
    let more = match check.nodes.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let page = RehearsalPage {
        check,
        rehearsal: &rehearsal,
        names: names.join(", ") + &more,
    };
    // Writing to a string cannot fail.
    page.render().unwrap_or_default()
}

// The template's helpers: templates pass everything by reference.

fn is_good(side: &Side, node: &NodeRehearsal) -> bool {
    let complete = side.ends.iter().all(|end| end.verdict == Ending::Complete);
    complete && node.beyond.is_empty()
}

fn comes_up(ended: &Ending, version: &VersionOutcome, node: &NodeRehearsal) -> bool {
    let is_this = node.harvester.as_ref() == Some(&version.version);
    *ended == Ending::Complete && (!is_this || node.beyond.is_empty())
}

fn verdict_class(verdict: &CheckVerdict) -> &'static str {
    match verdict {
        CheckVerdict::Pass => "good",
        CheckVerdict::Warn | CheckVerdict::Unknown => "staging",
        CheckVerdict::Fail => "bad",
    }
}

fn node_groups(check: &CheckReport) -> Vec<(CheckVerdict, Vec<&str>)> {
    let mut groups: BTreeMap<CheckVerdict, Vec<&str>> = BTreeMap::new();
    for node in &check.nodes {
        groups.entry(node.verdict).or_default().push(&node.name);
    }
    groups.into_iter().rev().collect()
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

fn end_of(node: &NodeRehearsal, side: &Side, end: &EndCount) -> String {
    capital(&describe_end_on_node(node, side, end.verdict))
}

fn end(ended: &Ending) -> String {
    capital(ended.describe())
}

fn seeds(count: &u64, of: &u64) -> String {
    capital(&in_seeds(*count, *of))
}

fn fate(fate: &FileFate, node: &NodeRehearsal) -> String {
    describe_fate(fate, node.seeds)
}

fn without<'n>(node: &'n NodeRehearsal, path: &ManifestPath) -> Option<&'n FileFate> {
    node.without.files.get(path)
}

fn duration(over: &Span) -> String {
    span(*over)
}

fn weight(moment: &TimelineEntry) -> &'static str {
    match moment.weight {
        Weight::Step => "step",
        Weight::Good => "good",
        Weight::Staging => "staging",
        Weight::Bad => "bad",
        Weight::Small => "small",
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windrow_harvester::HarvesterVersion;
    use windrow_plan::rules::RuleSet;
    use windrow_simulate::rehearse::check::CheckedNode;
    use windrow_simulate::rehearse::check::acceptance::Acceptances;
    use windrow_simulate::rehearse::{boot_timeline, rehearse};
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
        let mut node = rehearse("<b>node</b>", &setup, 1, Vec::new());
        node.boot = boot_timeline(&setup, &RuleSet::shipped_sources(), 1);
        let rehearsal = Rehearsal::new(vec![node], Vec::new());
        let nodes = vec![CheckedNode::default()];
        let accepted = Acceptances::default();
        let check = CheckReport::new(&rehearsal, nodes, None, accepted, "0.1.0");
        let page = check_page(&check, &rehearsal);
        for foreign in [
            // The message of kube-apiserver has the URL of a webhook, which is not a link.
            "<script", "=\"http", "='http", "src=", "<link", "@import", "url(",
        ] {
            assert!(!page.contains(foreign), "{foreign} is in the page");
        }
        assert!(page.contains("&lt;b&gt;node&lt;/b&gt;"));
        assert!(page.contains("It never comes up"));
        assert!(page.contains("00-registry.yaml"));
        assert!(page.contains("Where the time goes with Windrow, seed 1"));
        assert!(page.contains("Critical path"));
        let recognised = "<td><b class=\"bad\">In every simulated boot</b></td><td><b class=\"good\">In no simulated boot</b></td>";
        assert!(page.contains(recognised), "{page}");
    }
}
