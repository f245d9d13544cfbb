//! Single values of RKE2's configuration: paths, and the hardening profile.

use windrow_model::manifest::{Node, NodeValue};

use super::config::{ConfigItem, Rke2ConfigFile, in_order, pairs};

/// RKE2's data directory (`data-dir`), if its configuration sets it.
pub fn data_dir(files: &[Rke2ConfigFile]) -> Option<ConfigItem> {
    last(files, "data-dir")
}

/// The file to which RKE2 writes the admin kubeconfig (`write-kubeconfig`), if its configuration sets it.
pub fn write_kubeconfig(files: &[Rke2ConfigFile]) -> Option<ConfigItem> {
    last(files, "write-kubeconfig")
}

/// The hardening profile (`profile`), if RKE2's configuration sets one.
pub fn profile(files: &[Rke2ConfigFile]) -> Option<ConfigItem> {
    last(files, "profile")
}

/// The last value, which counts (k3s `pkg/configfilearg/parser.go`).
fn last(files: &[Rke2ConfigFile], key: &str) -> Option<ConfigItem> {
    in_order(files).into_iter().rev().find_map(|file| {
        let entries = pairs(file).ok()?;
        let entry = entries
            .into_iter()
            .rev()
            .find(|entry| entry.key.trim().trim_end_matches('+') == key)?;
        Some(ConfigItem {
            text: last_text(&entry.value)?.to_owned(),
            at: file.at(entry.line),
        })
    })
}

fn last_text(node: &Node) -> Option<&str> {
    match &node.value {
        NodeValue::String(text) if !text.trim().is_empty() => Some(text.trim()),
        // For a repeated flag the last value counts.
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

    #[test]
    fn the_kubeconfig_is_written_where_the_last_file_says() {
        let main = Rke2ConfigFile::new(ConfigLayer::Main, "c", "write-kubeconfig: /root/a\n");
        let drop_in = Rke2ConfigFile::new(ConfigLayer::DropIn, "d.yaml", "write-kubeconfig: /b\n");
        let written = |files: &[Rke2ConfigFile]| write_kubeconfig(files).map(|item| item.text);
        assert_eq!(
            written(std::slice::from_ref(&main)),
            Some("/root/a".to_owned())
        );
        assert_eq!(written(&[main, drop_in]), Some("/b".to_owned()));
        assert_eq!(written(&[]), None);
    }
}
