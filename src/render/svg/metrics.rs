//! How wide a text is, without a font: an upper bound.
//!
//! The widths are those of DejaVu Sans, the widest of the sans-serif fonts that a viewer is likely to use, so that no
//! text runs out of its box in any viewer.

/// Width of a text in a font of `size`, in the same unit.
pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let em: f64 = text.chars().map(advance).sum();
    em * size * if bold { 1.12 } else { 1.0 }
}

/// The longest beginning of a text that fits, with an ellipsis if it is shortened.
pub(super) fn clip(text: &str, size: f64, bold: bool, room: f64) -> String {
    if width(text, size, bold) <= room {
        return text.to_owned();
    }
    let mut clipped = text.to_owned();
    while clipped.pop().is_some() {
        let candidate = format!("{}…", clipped.trim_end());
        if width(&candidate, size, bold) <= room {
            return candidate;
        }
    }
    String::new()
}

/// Like [`clip`], but it is shortened in the middle: names differ at their ends.
pub(super) fn clip_middle(text: &str, size: f64, room: f64) -> String {
    if width(text, size, false) <= room {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    for kept in (1..letters.len()).rev() {
        let (head, tail) = (kept.div_ceil(2), kept / 2);
        let candidate: String = letters[..head]
            .iter()
            .chain(&['…'])
            .chain(&letters[letters.len() - tail..])
            .collect();
        if width(&candidate, size, false) <= room {
            return candidate;
        }
    }
    String::new()
}

fn advance(c: char) -> f64 {
    match c {
        'i' | 'l' | 'j' | 'I' | 'J' | '\'' | '|' => 0.30,
        'f' | 't' | 'r' | '-' | '(' | ')' | '[' | ']' => 0.41,
        ' ' | '.' | ',' | ':' | ';' | '/' => 0.34,
        'm' | 'W' | '@' => 1.0,
        'M' | 'w' => 0.87,
        's' | 'c' | 'k' | 'v' | 'x' | 'y' | 'z' | '_' => 0.6,
        'a'..='z' | '0'..='9' => 0.64,
        'A'..='Z' => 0.76,
        c if (c as u32) < 0x250 => 0.7,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clipped_text_fits() {
        let text = "VlanConfig.network.harvesterhci.io";
        let clipped = clip(text, 12.0, false, 100.0);
        assert!(width(&clipped, 12.0, false) <= 100.0);
        assert!(clipped.ends_with('…'));
        assert_eq!(clip(text, 12.0, false, 1000.0), text);
        let clipped = clip_middle(text, 12.0, 100.0);
        assert!(width(&clipped, 12.0, false) <= 100.0);
        assert!(clipped.starts_with("Vlan") && clipped.ends_with(".io"));
    }
}
