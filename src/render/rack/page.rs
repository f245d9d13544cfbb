//! The pages: rendered here, in one file each, with nothing loaded from anywhere. A script of a few lines fetches the part
//! that changes; without it the page is a snapshot. Everything in `{{ }}` is escaped by [`markup`](crate::render::markup).

use askama::Template;
use base64::Engine as _;
use jiff::Timestamp;
use windrow_model::manifest::sha256;
use windrow_model::reasons::REASONS;
use windrow_rack::{NodeRow, RackView};

use super::timeline::{Scale, class, legend};
use super::words::{self, RowGroup};
use crate::render::lasted;

const STYLE: &str = include_str!("../templates/rack.css");
const SCRIPT: &str = include_str!("../templates/rack.js");

#[derive(Template)]
#[template(path = "rack.html", config = "src/render/templates/askama.toml")]
struct Whole<'r> {
    title: String,
    part: String,
    home: bool,
    main: &'r str,
}

#[derive(Template)]
#[template(path = "rack-nodes.html", config = "src/render/templates/askama.toml")]
struct Nodes<'r> {
    view: &'r RackView,
    scale: Scale,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainFile {
    /// Its path below the manifests directory.
    pub file: String,
    pub state: String,
    pub why: String,
    pub links: Vec<ChainLink>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainLink {
    pub what: String,
    /// The last message about it.
    pub message: String,
    pub root: bool,
    pub brought_by: String,
}

#[derive(Debug, Clone)]
pub struct NodePage<'r> {
    pub row: &'r NodeRow,
    /// All of them, for the scale.
    pub view: &'r RackView,
    pub chain: Vec<ChainFile>,
    pub document: Option<String>,
}

#[derive(Template)]
#[template(path = "rack-node.html", config = "src/render/templates/askama.toml")]
struct One<'r> {
    page: &'r NodePage<'r>,
    row: &'r NodeRow,
    scale: Scale,
    at: Timestamp,
}

/// The `Content-Security-Policy` of every page: its own style and script, and nothing else.
pub fn policy() -> String {
    let digest =
        |text: &str| base64::engine::general_purpose::STANDARD.encode(sha256(text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        digest(STYLE),
        digest(SCRIPT)
    )
}

pub fn rack_page(view: &RackView) -> String {
    whole(headline(view), "/part".to_owned(), true, &rack_part(view))
}

pub fn rack_part(view: &RackView) -> String {
    let scale = Scale::of(view);
    // Writing to a string cannot fail.
    Nodes { view, scale }.render().unwrap_or_default()
}

/// One node: as a page, or the part that changes.
pub fn node_page(page: &NodePage<'_>, part_alone: bool) -> String {
    let one = One {
        page,
        row: page.row,
        scale: Scale::of(page.view),
        at: page.view.at,
    };
    let part = one.render().unwrap_or_default();
    if part_alone {
        return part;
    }
    let title = format!("{}: {}", page.row.name, page.row.word.as_str());
    whole(title, format!("/nodes/{}/part", page.row.id), false, &part)
}

fn whole(title: String, part: String, home: bool, main: &str) -> String {
    let page = Whole {
        title,
        part,
        home,
        main,
    };
    page.render().unwrap_or_default()
}

fn headline(view: &RackView) -> String {
    let need = group(view, RowGroup::NeedsPerson).len();
    match need {
        0 => format!("Rack: {}/{} ready", view.counts.ready, view.counts.total),
        1 => "Rack: 1 node needs attention".to_owned(),
        number => format!("Rack: {number} nodes need attention"),
    }
}

// The templates' helpers: templates pass everything by reference.

fn style() -> &'static str {
    STYLE
}

fn script() -> &'static str {
    SCRIPT
}

fn group(view: &RackView, group: RowGroup) -> Vec<&NodeRow> {
    let rows = view.nodes.iter();
    rows.filter(|row| RowGroup::for_row(row) == group).collect()
}

fn groups(view: &RackView) -> Vec<(&'static str, Vec<&NodeRow>)> {
    let groups = RowGroup::ALL.into_iter();
    groups
        .map(|one| (one.title(), group(view, one)))
        .filter(|(_, rows)| !rows.is_empty())
        .collect()
}

fn time(at: &Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

fn ago(at: &Timestamp, now: &Timestamp) -> String {
    lasted(now.duration_since(*at).as_secs())
}

fn took(phase: &windrow_rack::PhaseSpan, now: &Timestamp) -> String {
    let seconds = match (phase.to, phase.took) {
        (Some(to), _) => to.duration_since(phase.from).as_secs(),
        (None, _) => now.duration_since(phase.from).as_secs(),
    };
    lasted(seconds)
}

/// The advice for a finding, if this version knows its code.
fn advice(code: &str) -> &'static str {
    let known = REASONS.iter().find(|reason| reason.id == code);
    known.map_or("", |reason| reason.advice)
}
