//! A drain check for users.

use std::fmt::Write as _;

use windrow_harvester::drain::{
    Drain, DrainCheck, DrainCheckList, MaintenanceAnswer, MaintenanceMode, PodDrain, PodFate,
};
use windrow_model::checks::CheckOutcome;

use super::checks::{outcome_word, write_verdict};
use super::table::Style;
use super::text::{paragraph, wrap};
use crate::printable::printable;

/// The check as a table: the first obstacle first, with the proof.
pub fn drain_table(check: &DrainCheck, style: Style) -> String {
    let mut out = String::new();
    let node = printable(&check.node);
    let head = style.strong(&format!("Drain of {node}"));
    // Without a list of pods there is no number of them.
    let _ = match check.why.is_empty() {
        true => {
            let (pods, ignored) = (check.pods.len(), check.ignored);
            writeln!(out, "{head}: {pods} pods to evict, {ignored} ignored")
        }
        false => writeln!(out, "{head}"),
    };
    for pod in &check.pods {
        write_pod(&mut out, pod, style);
    }
    let sentence = match check.drain {
        Drain::Finishes => "The drain would finish.".to_owned(),
        Drain::Blocked => "The drain would never finish: see the proof above.".to_owned(),
        Drain::Unknown if check.why.is_empty() => {
            "Windrow cannot tell whether the drain would finish: see above.".to_owned()
        }
        Drain::Unknown => format!(
            "Windrow cannot tell whether the drain would finish: {}",
            printable(&check.why)
        ),
    };
    write_verdict(&mut out, verdict(check.drain), &sentence, style);
    if let Some(mode) = &check.maintenance_mode {
        let _ = writeln!(out, "{}", maintenance_line(mode, style));
        for why in mode.because.iter().chain(&mode.labelled) {
            paragraph(&mut out, why, 2, style.width);
        }
    }
    out
}

fn maintenance_line(mode: &MaintenanceMode, style: Style) -> String {
    match mode.answer {
        MaintenanceAnswer::Accepted => {
            style.good(&format!(
            "Harvester accepts maintenance mode for this node (rules of v1.8.2){}",
            if mode.labelled.is_empty() { "." } else { ":" }
        ))
        }
        MaintenanceAnswer::Refused => {
            style.bad("Harvester refuses maintenance mode for this node (rules of v1.8.2):")
        }
        MaintenanceAnswer::Unknown => style.waiting(
            "Windrow cannot tell whether Harvester accepts maintenance mode for this node (rules of v1.8.2):",
        ),
    }
}

/// The checks of all nodes: a line for each, with the deciding reason.
pub fn drain_list_table(checked: &DrainCheckList, style: Style) -> String {
    let mut out = String::new();
    let names = checked.nodes.iter().map(|check| check.node.chars().count());
    let wide = names.max().unwrap_or_default();
    for check in &checked.nodes {
        let drain = outcome_word(verdict(check.drain), style);
        let counted = check.why.is_empty();
        let pods = counted.then(|| format!("{} pods to evict", check.pods.len()));
        let pods = style.dim(&pods.unwrap_or_default());
        let line = format!("{:wide$}  {drain}  {pods}", printable(&check.node));
        let _ = writeln!(out, "{}", line.trim_end());
        let decides = check.pods.iter().filter(|pod| pod.fate != PodFate::Goes);
        let decides = decides.map(|pod| format!("{}: {}", pod.pod, pod.why));
        let unread = (!check.why.is_empty()).then(|| check.why.clone());
        let refused = check.maintenance_mode.as_ref();
        let refused = refused.filter(|mode| mode.answer == MaintenanceAnswer::Refused);
        let refused = refused.into_iter().flat_map(|mode| &mode.because);
        let refused = refused.map(|why| format!("Harvester refuses maintenance mode: {why}"));
        for why in unread.into_iter().chain(decides).chain(refused) {
            paragraph(&mut out, &why, wide + 2, style.width);
        }
    }
    let blocked = checked
        .nodes
        .iter()
        .filter(|check| check.drain == Drain::Blocked);
    let sentence = match checked.drain {
        Drain::Finishes => "All drains would finish.".to_owned(),
        Drain::Blocked => format!(
            "{} of {} drains would never finish; for the proof, run: windrow drain-check NODE",
            blocked.count(),
            checked.nodes.len()
        ),
        Drain::Unknown => match checked.why.as_str() {
            "" => "Windrow cannot tell whether all drains would finish: see above.".to_owned(),
            why => format!(
                "Windrow cannot tell whether the drains would finish: {}",
                printable(why)
            ),
        },
    };
    write_verdict(&mut out, verdict(checked.drain), &sentence, style);
    out
}

fn verdict(drain: Drain) -> CheckOutcome {
    match drain {
        Drain::Finishes => CheckOutcome::Pass,
        Drain::Blocked => CheckOutcome::Fail,
        Drain::Unknown => CheckOutcome::Unknown,
    }
}

fn write_pod(out: &mut String, pod: &PodDrain, style: Style) {
    let fate = match pod.fate {
        PodFate::Blocked => style.bad("blocked"),
        PodFate::Unknown => style.waiting("unknown"),
        PodFate::Goes => style.good("goes   "),
    };
    let _ = writeln!(out, "\n{fate} {}", style.strong(&printable(&pod.pod)));
    let mut why = pod.why.clone();
    if let Some(place) = &pod.place {
        let _ = write!(why, "; {place} would accept it");
    }
    paragraph(out, &why, 8, style.width);
    for line in &pod.because {
        let indent = line.len() - line.trim_start().len();
        let room = style.width.saturating_sub(10 + indent);
        for (number, part) in wrap(&printable(line), room).into_iter().enumerate() {
            let more = if number == 0 { indent } else { indent + 2 };
            let text = format!("{:width$}{part}", "", width = 10 + more);
            let _ = writeln!(out, "{}", style.dim(&text));
        }
    }
}
