//! Where RKE2 keeps its data, by its own configuration.

use windrow_model::manifest::{Node, NodeValue};

use super::config::{ConfigItem, Rke2ConfigFile, in_order, pairs};

/// What RKE2's configuration says of its data directory; `None` where it says nothing, or nothing that
/// can be read. Of several the last one counts (k3s `pkg/configfilearg/parser.go`).
pub fn data_dir(files: &[Rke2ConfigFile]) -> Option<ConfigItem> {
    in_order(files).into_iter().rev().find_map(|file| {
        let entries = pairs(file).ok()?;
        let entry = entries
            .into_iter()
            .rev()
            .find(|entry| entry.key.trim().trim_end_matches('+') == "data-dir")?;
        let said = last_text(&entry.value)?;
        Some(ConfigItem {
            text: said.to_owned(),
            at: file.at(entry.line),
        })
    })
}

fn last_text(node: &Node) -> Option<&str> {
    match &node.value {
        NodeValue::String(text) if !text.trim().is_empty() => Some(text.trim()),
        // A flag that is given twice: the last one counts.
        NodeValue::Sequence(items) => last_text(items.last()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rke2::config::ConfigLayer;

    fn said_by(files: &[(ConfigLayer, &str, &str)]) -> Option<(String, String, Option<u32>)> {
        let files: Vec<Rke2ConfigFile> = files
            .iter()
            .map(|(place, path, text)| Rke2ConfigFile::new(*place, *path, *text))
            .collect();
        data_dir(&files).map(|item| (item.text, item.at.file, item.at.line))
    }

    #[test]
    fn the_last_file_that_names_a_data_directory_counts() {
        let main = (
            ConfigLayer::Main,
            "/c/config.yaml",
            "token: x\ndata-dir: /a\n",
        );
        let drop_in = (ConfigLayer::DropIn, "/c/d/50.yaml", "data-dir: /b\n");
        let silent = (ConfigLayer::DropIn, "/c/d/60.yaml", "debug: true\n");
        let unread = (ConfigLayer::DropIn, "/c/d/70.txt", "data-dir: /c\n");
        let broken = (ConfigLayer::DropIn, "/c/d/80.yaml", "data-dir: [\n");
        let at =
            |path: &str, file: &str, line| Some((path.to_owned(), file.to_owned(), Some(line)));
        assert_eq!(said_by(&[]), None);
        assert_eq!(said_by(&[silent]), None);
        assert_eq!(said_by(&[main, silent]), at("/a", "/c/config.yaml", 2));
        let spaced = (ConfigLayer::DropIn, "/c/d/90.yaml", "data-dir: ' /d '\n");
        assert_eq!(said_by(&[spaced]), at("/d", "/c/d/90.yaml", 1));
        assert_eq!(
            said_by(&[broken, unread, silent, drop_in, main]),
            at("/b", "/c/d/50.yaml", 1)
        );
    }

    #[test]
    fn of_a_directory_that_is_given_more_than_once_the_last_counts() {
        let said = said_by(&[(ConfigLayer::Main, "config.yaml", "data-dir: [/a, /b]\n")]);
        assert_eq!(said.map(|said| said.0), Some("/b".to_owned()));
        let none = said_by(&[(ConfigLayer::Main, "config.yaml", "data-dir: []\n")]);
        assert_eq!(none, None);
    }
}
