//! A rehearsal as a self-contained page: no script, nothing loaded from anywhere, readable in light and in dark. The
//! page is `templates/rehearsal.html`; everything in `{{ }}` is escaped by [`markup`](super::markup).

use askama::Template;
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Severity;
use windrow_simulate::rehearse::{
    EndCount, Ending, FileFate, NodeRehearsal, Rehearsal, Side, Span, TimelineEntry,
    VersionOutcome, Weight,
};

use super::rehearsal::{
    RECOGNISED, clock, describe_end, describe_end_on_node, describe_fate, in_seeds, platform, span,
};
use super::timing::timing;

#[derive(Template)]
#[template(path = "rehearsal.html", config = "src/render/templates/askama.toml")]
struct RehearsalPage<'r> {
    rehearsal: &'r Rehearsal,
    names: String,
}

/// A rehearsal as an HTML document.
pub fn page(rehearsal: &Rehearsal) -> String {
    let names = rehearsal.nodes.iter().map(|node| node.name.as_str());
    let page = RehearsalPage {
        rehearsal,
        names: names.collect::<Vec<_>>().join(", "),
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

fn is_none(count: &u64) -> bool {
    *count == 0
}

fn end_of(node: &NodeRehearsal, side: &Side, end: &EndCount) -> String {
    capital(&describe_end_on_node(node, side, end.verdict))
}

fn end(ended: &Ending) -> String {
    capital(describe_end(*ended))
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
