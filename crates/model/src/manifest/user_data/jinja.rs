//! Templates. What stands in braces is known only on the node, so something else stands for it here: a
//! name that could be meant, in the same line.

/// The first line with a statement, which could leave out lines or repeat them.
pub(super) fn statement(text: &str) -> Option<u32> {
    let mut lines = (1..).zip(text.lines());
    lines
        .find(|(_, line)| line.contains("{%"))
        .map(|(line, _)| line)
}

/// The text with a blank line for the one that says that it is a template.
pub(super) fn without_header(text: &str) -> String {
    let start = text.len() - text.trim_start().len();
    let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    format!("{}{}", &text[..start], &text[end..])
}

/// So many expressions are told.
const MOST: usize = 100;

/// Each expression once: its first line, itself, and what stands for it.
pub(super) fn expressions(text: &str) -> Vec<(u32, String, String)> {
    let mut found: Vec<(u32, String, String)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut rest = line;
        while let Some((_, expression, after)) = next(rest) {
            if found.len() < MOST
                && !found
                    .iter()
                    .any(|(_, known, _)| *known == unquoted(expression))
            {
                found.push((number, unquoted(expression), word(expression)));
            }
            rest = after;
        }
    }
    found
}

/// The text with a word for each expression (`{{ … }}`) that begins and ends in one line.
pub fn stand_in(text: &str) -> String {
    let mut rendered = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while let Some((before, expression, after)) = next(rest) {
            rendered.push_str(before);
            rendered.push_str(&word(expression));
            rest = after;
        }
        rendered.push_str(rest);
    }
    rendered
}

/// What comes before the next expression, that, and what comes after it.
fn next(line: &str) -> Option<(&str, &str, &str)> {
    let start = line.find("{{")?;
    let length = line[start..].find("}}")? + 2;
    let (before, rest) = line.split_at(start);
    let (expression, after) = rest.split_at(length);
    Some((before, expression, after))
}

/// An expression without the texts in it, which could be secrets.
fn unquoted(expression: &str) -> String {
    let mut bare = String::with_capacity(expression.len());
    let mut quote = None;
    for ch in expression.chars() {
        match quote {
            Some(open) if ch == open => quote = None,
            Some(_) => {}
            None if matches!(ch, '"' | '\'') => {
                quote = Some(ch);
                bare.push('…');
            }
            None => bare.push(ch),
        }
    }
    bare
}

/// `{{ v1.local_hostname }}` → `v1-local-hostname`: a name that every field takes.
fn word(expression: &str) -> String {
    let bare = unquoted(expression.trim_matches(['{', '}']));
    let words = bare.split(|ch: char| !ch.is_ascii_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let mut word = words.join("-");
    word.truncate(40);
    match word.trim_matches('-') {
        "" => "x".to_owned(),
        word => word.to_owned(),
    }
}
