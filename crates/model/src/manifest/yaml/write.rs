//! Writes Windrow's YAML: from types, through serde.
//!
//! RKE2, cloud-init and Ansible read YAML 1.1, in which `yes`, `on`, `1:30` and `2026-11-23` are not strings. The
//! library quotes every text that a reader would read as another type; a test here compares it with RKE2's rules.

use serde::Serialize;

/// A text that is always written in double quotes.
pub use serde_yaml::DoubleQuoted;

/// Writes a value as one document.
///
/// # Errors
///
/// The value cannot be written in YAML: a map in place of a key.
pub fn to_text(value: &impl Serialize) -> Result<String, serde_yaml::ser::Error> {
    let options = serde_yaml::ser_options! {
        // A long text stays on one line, so that it can be searched and compared.
        prefer_block_scalars: false,
    };
    serde_yaml::to_string_with_options(value, options)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::manifest::{NodeValue, yaml};

    /// Texts that YAML 1.1 reads as another type, and characters that would break the syntax.
    const ODD: &str = "yes|no|on|off|y|n|Y|N|true|True|TRUE|tRUE|null|~|=|<<|-|\\?|\\||>|1:30|190:20:30|0o17|017|0x1f|1_000|1e3|\\.inf|\\.NaN|0b11|\
                       2026-11-23|2001-12-14t21:59:43\\.10-05:00|a: b|a #b|#x|: l|@a|%c|!d|&e|\\*f|\\[g|\\{h|'i|\"j|x\ny|x\n| lead|trail |\u{e9}\u{85}\u{1b}|";

    fn read_alike(text: &str) {
        let value = BTreeMap::from([(text, vec![text]), ("other", vec![])]);
        let written = to_text(&value).unwrap();
        let root = yaml::parse_configuration(&written).unwrap().unwrap();
        let list = root
            .get(text)
            .unwrap_or_else(|| panic!("{text:?} is no key of {written}"));
        let NodeValue::Sequence(items) = &list.value else {
            panic!("{written}");
        };
        assert_eq!(
            items[0].value,
            NodeValue::String(text.to_owned()),
            "{written}"
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_rke2_reads_it(odd in ODD, any in ".{0,40}", number in "[-+]?[0-9][0-9_:.eExob-]{0,8}") {
            for text in [odd, any, number] {
                if text != "other" {
                    read_alike(&text);
                }
            }
        }
    }

    #[test]
    fn a_long_text_stays_on_one_line_and_a_quoted_one_is_quoted() {
        let long = "a word ".repeat(40);
        assert_eq!(to_text(&[&long]).unwrap().lines().count(), 1);
        let quoted = BTreeMap::from([("key+", [DoubleQuoted("a=b")])]);
        assert_eq!(to_text(&quoted).unwrap(), "key+:\n- \"a=b\"\n");
    }
}
