//! The schedule of a CronJob, as github.com/robfig/cron/v3 (`ParseStandard`) parses it: five fields, or a word that begins with
//! `@`.

/// The name, the smallest and the largest number, and the words of each field.
const FIELDS: [(&str, u32, u32, &[&str]); 5] = [
    ("minute", 0, 59, &[]),
    ("hour", 0, 23, &[]),
    ("day of the month", 1, 31, &[]),
    (
        "month",
        1,
        12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    (
        "day of the week",
        0,
        6,
        &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    ),
];

const WORDS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// The reason why this is not a valid schedule.
pub fn error(text: &str) -> Option<String> {
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        return Some("write the time zone into `timeZone`".to_owned());
    }
    if text.starts_with('@') {
        // Go parses the duration after `@every`, and it is not checked here.
        let known = WORDS.contains(&text) || text.starts_with("@every ");
        return (!known).then(|| format!("there is no such word; there are {}", WORDS.join(", ")));
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!(
            "it has {} fields and has to have 5: minute, hour, day of the month, month, day of the week",
            fields.len()
        ));
    }
    let mut pairs = fields.iter().zip(&FIELDS);
    pairs.find_map(|(text, field)| {
        let mut parts = text.split(',').filter(|part| !part.is_empty());
        parts.find(|part| !is_part(part, field))?;
        let (name, least, most, _) = field;
        Some(format!(
            "the {name} is not valid; write a number from {least} to {most}, a range, a step or `*`"
        ))
    })
}

fn is_part(part: &str, field: &(&str, u32, u32, &[&str])) -> bool {
    let (_, least, most, words) = field;
    let number = |text: &str| -> Option<u32> {
        let lower = text.to_ascii_lowercase();
        if let Some(position) = words.iter().position(|word| *word == lower) {
            return Some(least + position as u32);
        }
        text.parse().ok()
    };
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (part, None),
    };
    if step.is_some_and(|step| {
        step.parse::<u32>().is_ok_and(|step| step == 0) || step.parse::<u32>().is_err()
    }) {
        return false;
    }
    // The parser ignores anything after a star.
    if matches!(range.split('-').next(), Some("*" | "?")) {
        return true;
    }
    let (from, to) = match range.split_once('-') {
        Some((from, to)) => (number(from), number(to)),
        None => (number(range), number(range)),
    };
    match (from, to) {
        (Some(from), Some(to)) => from >= *least && to <= *most && from <= to,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_kubernetes_reads_them() {
        for text in [
            "* * * * *",
            "*/5 0-6,12 1 JAN Mon",
            "0 3 ? * 0",
            "@daily",
            "@every 1h",
            "5/15 * * * *",
            "*-x * * * *",
        ] {
            assert_eq!(error(text), None, "{text}");
        }
        for text in [
            "every day",
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * * 7",
            "*/0 * * * *",
            "5-1 * * * *",
            "TZ=UTC 0 0 * * *",
            "@never",
            "a * * * *",
            "0 0 0 * * *",
        ] {
            assert!(error(text).is_some(), "{text}");
        }
    }
}
