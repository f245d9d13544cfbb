//! The host as a picture: its model, load, temperature, disks and network interfaces.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use windrow_host::{DiskKind, HostFacts, HostLink, LinkState, Reading};

use super::panes::Pen;
use super::text::columns;
use super::theme::StepMark;

const GIB: u64 = 1 << 30;
const LABEL: usize = 12;
const BAR: usize = 20;
/// From this share on a bar is worth attention, in percent.
const HIGH: u64 = 90;

pub(super) fn machine_lines(host: &HostFacts, pen: &Pen<'_>) -> Vec<Line<'static>> {
    let mut picture = Picture {
        pen,
        lines: Vec::new(),
    };
    picture.identity(host);
    picture.processors(host);
    picture.memory(host);
    picture.heat(host);
    for one in &host.directories {
        let used = one.total.saturating_sub(one.free);
        let text = format!("of {} used, {}", gib(one.total), one.file_system);
        picture.bar(&one.path, used, one.total, text.trim_end_matches(", "));
    }
    picture.disks(host);
    picture.links(host);
    picture.lines
}

struct Picture<'p, 'a> {
    pen: &'p Pen<'a>,
    lines: Vec<Line<'static>>,
}

impl Picture<'_, '_> {
    fn text(&mut self, label: &str, text: &str) {
        self.spans(label, Vec::new(), text);
    }

    fn unknown(&mut self, label: &str, why: &str) {
        self.text(label, &format!("unknown: {why}"));
    }

    fn spans(&mut self, label: &str, mut spans: Vec<Span<'static>>, text: &str) {
        let label = self.pen.fit(label, LABEL - 1);
        let used: usize = spans.iter().map(|span| columns(&span.content)).sum();
        let room = self.pen.width.saturating_sub(LABEL + used);
        let blank = " ".repeat(LABEL.saturating_sub(columns(&label)));
        spans.insert(0, Span::raw(format!("{label}{blank}")));
        spans.push(Span::raw(self.pen.fit(text, room)));
        self.lines.push(Line::from(spans));
    }

    /// A share of a whole, as a bar and in percent.
    fn bar(&mut self, label: &str, part: u64, whole: u64, text: &str) {
        let share = |of: usize| {
            let share = u128::from(part) * of as u128 / u128::from(whole.max(1));
            usize::try_from(share).unwrap_or(of).min(of)
        };
        let (full, empty) = self.pen.theme.bar();
        let percent = share(100);
        let style = match percent as u64 >= HIGH {
            true => self.pen.theme.waiting(),
            false => self.pen.theme.good(),
        };
        let filled = share(BAR);
        let bar = vec![
            Span::styled(full.repeat(filled), style),
            Span::raw(empty.repeat(BAR - filled)),
        ];
        self.spans(label, bar, &format!(" {percent:>3}% {text}"));
    }

    fn identity(&mut self, host: &HostFacts) {
        let machine = &host.machine;
        let known = |reading: &Reading<String>| reading.known().cloned();
        let parts = [
            known(&machine.vendor),
            known(&machine.product),
            known(&machine.serial).map(|serial| format!("serial number {serial}")),
            match known(&machine.hypervisor).as_deref() {
                Some("none") => Some("bare metal".to_owned()),
                other => other.map(|other| format!("virtual ({other})")),
            },
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect();
        match parts.is_empty() {
            true => self.unknown("Machine", "the firmware shows nothing"),
            false => self.text("Machine", &parts.join(", ")),
        }
    }

    fn processors(&mut self, host: &HostFacts) {
        let cpus = match host.cpus.get() {
            Ok(cpus) => cpus,
            Err(why) => return self.unknown("Processors", why),
        };
        let cores = cpus.cores.known();
        let cores = cores.map_or_else(String::new, |cores| format!(" on {cores} cores"));
        let model = match cpus.model.as_str() {
            "" => String::new(),
            model => format!(", {model}"),
        };
        self.text("Processors", &format!("{}{cores}{model}", cpus.logical));
        if let Some(load) = host.load.known() {
            // In hundredths of a processor.
            let (busy, all) = ((load.one * 100.0) as u64, u64::from(cpus.logical) * 100);
            self.bar("Load", busy, all, "of the processors, over a minute");
        }
    }

    fn memory(&mut self, host: &HostFacts) {
        let memory = match host.memory.get() {
            Ok(memory) => memory,
            Err(why) => return self.unknown("Memory", why),
        };
        let modules = match memory.modules.known() {
            Some(modules) => format!(", {} modules", modules.len()),
            None => String::new(),
        };
        let used = memory.total.saturating_sub(memory.available);
        let text = format!("of {} used{modules}", gib(memory.total));
        self.bar("Memory", used, memory.total, &text);
    }

    fn heat(&mut self, host: &HostFacts) {
        let sensors = match host.temperatures.get() {
            Ok(sensors) => sensors,
            Err(why) => return self.unknown("Heat", why),
        };
        let judged = sensors.iter().filter_map(|sensor| {
            let critical = *sensor.critical.known()?;
            (critical > 0.0).then_some((sensor, critical))
        });
        let nearest =
            judged.max_by(|(a, of_a), (b, of_b)| (a.celsius - of_a).total_cmp(&(b.celsius - of_b)));
        match nearest {
            Some((sensor, critical)) => {
                let text = format!(
                    "of critical: {} has {:.0} of {critical:.0} C",
                    sensor.sensor, sensor.celsius
                );
                let (now, most) = (sensor.celsius.max(0.0) as u64, critical as u64);
                self.bar("Heat", now, most, &text);
            }
            None => self.unknown("Heat", "no sensor tells its critical temperature"),
        }
    }

    fn disks(&mut self, host: &HostFacts) {
        let disks = match host.disks.get() {
            Ok(disks) => disks,
            Err(why) => return self.unknown("Disks", why),
        };
        for disk in disks {
            let kind = match disk.kind.known() {
                Some(DiskKind::Nvme) => "NVMe",
                Some(DiskKind::SolidState) => "SSD",
                Some(DiskKind::Rotational) => "turning",
                Some(DiskKind::Virtual) => "virtual",
                None => "",
            };
            let removable = if disk.removable {
                "can be taken out"
            } else {
                ""
            };
            let parts = [kind, &disk.model, &disk.serial, removable];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            let text = format!("{} {}", gib(disk.size), parts.join(", "));
            self.text(&disk.name, text.trim_end());
        }
    }

    fn links(&mut self, host: &HostFacts) {
        match host.links.get() {
            Ok(links) => links.iter().for_each(|link| self.link(link)),
            Err(why) => self.unknown("Links", why),
        }
    }

    fn link(&mut self, link: &HostLink) {
        let (mark, state) = match link.state.known() {
            Some(LinkState::Up) => (StepMark::Done, "up"),
            Some(LinkState::NoCarrier) => (StepMark::Wrong, "no carrier"),
            Some(LinkState::Down) => (StepMark::Later, "switched off"),
            None => (StepMark::Unknown, "unknown"),
        };
        let (sign, style): (&'static str, Style) = self.pen.theme.mark(mark);
        let speed = link.speed.known();
        let speed = speed.map_or_else(String::new, |speed| format!(", {speed} Mb/s"));
        let errors = match link.errors {
            0 => String::new(),
            errors => format!(", {errors} errors"),
        };
        let addresses: Vec<String> = link
            .addresses
            .iter()
            .map(|(address, prefix)| format!(", {address}/{prefix}"))
            .collect();
        let text = format!(
            " {state}{speed}{errors}, {}{}",
            link.mac,
            addresses.concat()
        );
        self.spans(&link.name, vec![Span::styled(sign, style)], &text);
    }
}

fn gib(bytes: u64) -> String {
    format!("{} GiB", bytes.saturating_add(GIB / 2) / GIB)
}
