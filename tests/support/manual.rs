//! Manual pages out of the documentation: the Markdown that docs/ is written in, as roff.
//!
//! Knows headings, paragraphs, lists, fenced code and tables, and within a line code, bold text and links. The
//! documents use nothing else; anything unknown would show as it was typed.

use std::fmt::Write as _;

/// Where a page belongs.
pub(crate) struct Page<'a> {
    /// `windrow.yaml`
    pub(crate) name: &'a str,
    /// `5`
    pub(crate) section: u8,
    /// Its subject, in a line.
    pub(crate) about: &'a str,
    /// Related pages.
    pub(crate) see_also: &'a [(&'a str, u8)],
}

impl Page<'_> {
    /// The whole page; `body` is roff.
    pub(crate) fn around(&self, body: &str) -> String {
        let mut page = String::new();
        let _ = write!(
            page,
            ".TH {} {} \"\" \"windrow {}\"\n.SH NAME\n{} \\- {}\n{body}.SH SEE ALSO\n",
            self.name.to_uppercase(),
            self.section,
            env!("CARGO_PKG_VERSION"),
            self.name,
            inline(self.about)
        );
        let pages: Vec<String> = self
            .see_also
            .iter()
            .map(|(name, section)| format!("\\fB{name}\\fR({section})"))
            .collect();
        page.push_str(&pages.join(",\n"));
        page.push('\n');
        page
    }
}

/// A document's text below its title, as roff.
pub(crate) fn from_markdown(text: &str) -> String {
    let mut roff = String::from(".SH DESCRIPTION\n");
    let mut lines = text.lines().peekable();
    let mut header: Vec<String> = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with("# ") || line.starts_with("![") {
        } else if let Some(title) = line.strip_prefix("## ") {
            let _ = writeln!(
                roff,
                ".SH {}",
                inline(&title.replace('`', "").to_uppercase())
            );
        } else if let Some(title) = line.strip_prefix("### ") {
            let _ = writeln!(roff, ".SS {}", inline(title));
        } else if line.starts_with("```") {
            roff.push_str(".PP\n.RS 4\n.nf\n");
            for code in lines.by_ref().take_while(|line| !line.starts_with("```")) {
                let _ = writeln!(roff, "{}", guarded(escaped(code)));
            }
            roff.push_str(".fi\n.RE\n");
        } else if line.starts_with('|') {
            let cells = cells(line);
            if cells.iter().all(|cell| cell.chars().all(|c| c == '-')) {
                continue;
            }
            if header.is_empty() {
                header = cells;
            } else {
                row(&mut roff, &header, &cells);
            }
            if !lines.peek().is_some_and(|next| next.starts_with('|')) {
                header.clear();
            }
        } else if let Some((bullet, item)) = item(line) {
            let text = continued(item, &mut lines);
            let _ = writeln!(roff, ".IP {bullet} 4\n{}", guarded(inline(&text)));
        } else if !line.trim().is_empty() {
            let text = continued(line, &mut lines);
            let _ = writeln!(roff, ".PP\n{}", guarded(inline(&text)));
        }
    }
    roff
}

/// A paragraph or an item goes on until something else begins.
fn continued<'a>(
    first: &str,
    lines: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
) -> String {
    let mut text = first.trim().to_owned();
    while let Some(next) = lines.peek() {
        let ends = next.trim().is_empty()
            || next.starts_with(['#', '|'])
            || next.starts_with("```")
            || item(next).is_some();
        if ends {
            break;
        }
        text.push(' ');
        text.push_str(next.trim());
        lines.next();
    }
    text
}

fn item(line: &str) -> Option<(String, &str)> {
    if let Some(item) = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")) {
        return Some(("\\(bu".to_owned(), item));
    }
    let (number, item) = line.split_once(". ")?;
    number.parse::<u8>().ok()?;
    Some((format!("{number}."), item))
}

fn cells(line: &str) -> Vec<String> {
    // A bar within a cell is written `\|`.
    let line = line.trim().trim_matches('|').replace("\\|", "\u{0}");
    line.split('|')
        .map(|cell| cell.trim().replace('\u{0}', "|"))
        .collect()
}

/// The first cell names the row, the last one describes it; the cells between are named by their columns.
fn row(roff: &mut String, header: &[String], cells: &[String]) {
    let Some((name, rest)) = cells.split_first() else {
        return;
    };
    let _ = writeln!(roff, ".TP\n{}", guarded(inline(name)));
    let mut text = String::new();
    for (column, cell) in rest.iter().enumerate() {
        let title = header.get(column + 1).map_or("", String::as_str);
        if cell.is_empty() {
        } else if rest.len() == 1 || ["", "what", "meaning"].contains(&title) {
            let _ = write!(text, "{cell} ");
        } else {
            let _ = write!(text, "({title}: {cell}) ");
        }
    }
    let text = if text.trim().is_empty() {
        "\\&".to_owned()
    } else {
        guarded(inline(text.trim()))
    };
    let _ = writeln!(roff, "{text}");
}

/// Code, bold text and links within a line.
pub(crate) fn inline(text: &str) -> String {
    let mut roff = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '[']) {
        roff.push_str(&escaped(&rest[..at]));
        rest = &rest[at..];
        let code = rest
            .strip_prefix('`')
            .and_then(|inner| inner.split_once('`'));
        let bold = rest
            .strip_prefix("**")
            .and_then(|inner| inner.split_once("**"));
        let link = rest
            .strip_prefix('[')
            .and_then(|inner| inner.split_once("]("));
        if let Some((inner, after)) = code.or(bold) {
            let _ = write!(roff, "\\fB{}\\fR", escaped(inner));
            rest = after;
        } else if let Some((inner, after)) = link
            && let Some((_, after)) = after.split_once(')')
        {
            roff.push_str(&inline(inner));
            rest = after;
        } else {
            roff.push_str(&escaped(&rest[..1]));
            rest = &rest[1..];
        }
    }
    roff + &escaped(rest)
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// A line that begins with a dot or an apostrophe would be a request.
fn guarded(line: String) -> String {
    if line.starts_with(['.', '\'']) {
        format!("\\&{line}")
    } else {
        line
    }
}
