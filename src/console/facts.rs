//! The lines between the state and the panes: the addresses, the steps, the count of manifests.

use std::net::IpAddr;

use ratatui::text::{Line, Span};
use windrow_decide::{CertificateSource, HeldFile, Holder, Status};
use windrow_plan::readiness::node::ProbeState;

use super::Scene;
use super::draw::{Canvas, beside};
use super::steps::{progress, steps};
use super::text::columns;

impl Canvas<'_> {
    pub(super) fn facts(&mut self, scene: &Scene) {
        let width = self.width();
        let shown = |(address, interface): &(IpAddr, String)| format!("{address} ({interface})");
        let addresses = match scene.host.addresses.as_deref() {
            None => "not known below --root".to_owned(),
            Some([]) => "none yet".to_owned(),
            Some(some) => some.iter().map(shown).collect::<Vec<String>>().join("  "),
        };
        let vip = format!("{}{}", vip(&scene.status), no_route(&scene.status));
        let pen = self.pen(width);
        // The VIP is the address that users type, so it comes first: the node's own addresses may shrink to a third.
        let room = usize::from(width).saturating_sub(13);
        let own = room.saturating_sub(columns(&vip)).max(room / 3);
        let addresses = format!("{}{vip}", pen.fit(&addresses, own));
        let mut lines = vec![Line::raw(format!(
            " Address    {}",
            pen.fit(&addresses, room)
        ))];
        if !beside(self.buffer.area) {
            lines.extend(self.steps(scene));
        }
        lines.extend(self.manifests(scene));
        // Half a fingerprint would be compared as if it were the whole one.
        let pin = fingerprint(&scene.status).filter(|line| columns(line) <= width.into());
        lines.extend(pin.map(Line::raw));
        for line in &lines {
            self.line(line);
        }
    }

    fn steps(&self, scene: &Scene) -> Vec<Line<'static>> {
        const INDENT: usize = 12;
        let room = usize::from(self.width());
        let mut lines = vec![];
        let mut spans = vec![Span::raw(" Steps      ")];
        let mut used = INDENT;
        for step in steps(&scene.status) {
            let (mark, style) = self.theme.mark(step.mark);
            let needs = columns(mark) + 1 + columns(&step.title) + 2;
            if used + needs > room && used > INDENT {
                lines.push(Line::from(std::mem::take(&mut spans)));
                spans.push(Span::raw(" ".repeat(INDENT)));
                used = INDENT;
            }
            spans.push(Span::styled(mark, style));
            spans.push(Span::raw(format!(" {}  ", step.title)));
            used += needs;
        }
        lines.push(Line::from(spans));
        lines
    }

    fn manifests(&self, scene: &Scene) -> Option<Line<'static>> {
        let staging = &scene.detail().staging;
        let (done, total) = progress(staging);
        if total == 0 {
            return None;
        }
        let was = if scene.last.is_some() { "was " } else { "" };
        let mut counts = format!("{was}{done}/{total} applied");
        let foreign = |held: &&HeldFile| held.by == Holder::Other;
        let others = staging.held.iter().filter(foreign).count();
        for (count, what) in [
            (staging.failed.len(), "failed"),
            (staging.not_held.len(), "not held"),
            (staging.held.len() - others, "held"),
            (others, "held by others"),
            (staging.released.len(), "released"),
        ] {
            if count > 0 {
                counts.push_str(&format!(", {count} {what}"));
            }
        }
        let room = usize::from(self.width()).saturating_sub(14 + columns(&counts));
        // A shorter bar shows less than the figures.
        let bar = if room < 8 { 0 } else { room.min(24) };
        let (full, empty) = self.theme.bar();
        let filled = bar * done / total;
        Some(Line::from(vec![
            Span::raw(" Manifests  "),
            Span::styled(full.repeat(filled), self.theme.good()),
            Span::raw(empty.repeat(bar - filled)),
            Span::raw(if bar == 0 { "" } else { " " }),
            Span::raw(counts),
        ]))
    }
}

/// The fingerprint of a self-signed certificate: remote readers of the status compare it with this line.
fn fingerprint(status: &Status) -> Option<String> {
    let server = status.server.as_ref()?;
    let own = server.certificate == CertificateSource::SelfSigned;
    own.then(|| format!(" HTTPS pin  {}", server.fingerprint))
}

/// That the node has no default route: without one nothing beyond its own network reaches it.
fn no_route(status: &Status) -> &'static str {
    let mut probes = status.probes.iter();
    let route = probes.find(|probe| probe.id.as_str() == "default-route");
    match route.map(|route| route.state) {
        Some(ProbeState::Failing) => "  no default route",
        _ => "",
    }
}

fn vip(status: &Status) -> String {
    let (address, mode) = match &status.vip {
        Some(vip) => (
            format!(" {}", vip.address),
            vip.mode
                .map_or_else(String::new, |mode| format!(" ({})", mode.as_str())),
        ),
        None => (String::new(), String::new()),
    };
    let probe = status
        .probes
        .iter()
        .find(|probe| probe.id.as_str() == "vip");
    match probe.map(|probe| probe.state) {
        Some(ProbeState::Passing) => format!("  VIP{address} answers{mode}"),
        Some(ProbeState::Failing) => format!("  VIP{address} does not answer{mode}"),
        Some(ProbeState::Unknown) => format!("  VIP{address} unknown{mode}"),
        None => String::new(),
    }
}
