//! Commands, scripts, and files that are fetched onto a node. Windrow can tell the effects of few (`shell`). The others
//! count if they contain the name of a directory whose files Windrow checks.

use super::inner_lines;
use super::shell::{unclear, unclear_words};
use super::taker::Extractor;
use super::{InnerLines, Node};

/// Directories whose files Windrow checks.
const DIRECTORIES: [&str; 3] = ["server/manifests", "/etc/rancher/", "/etc/windrow/"];
/// The full paths.
const WHOLE: [&str; 3] = [
    "/var/lib/rancher/rke2/server/manifests/",
    "/etc/rancher/",
    "/etc/windrow/",
];

/// A file that RKE2 writes there itself. A command with this name in it reads it.
const KUBECONFIG: &str = "/etc/rancher/rke2/rke2.yaml";

/// The first line with the name of such a directory, counted from 1, and the directory.
pub(crate) fn named(text: &str) -> Option<(u32, &'static str)> {
    let mut lines = (1..).zip(text.lines());
    lines.find_map(|(number, line)| {
        let line = line.replace(KUBECONFIG, "");
        let mut directories = DIRECTORIES.into_iter();
        let named = directories.find(|directory| line.contains(directory))?;
        Some((number, named))
    })
}

impl Extractor<'_> {
    /// A list of commands, each a text or a list of words. Reports the first one that may write into such a directory.
    pub(super) fn commands(&mut self, list: Option<&Node>, what: &str) {
        let commands = list.map_or(&[][..], |list| match list.as_str() {
            Some(_) => std::slice::from_ref(list),
            None => list.items(),
        });
        let found = commands.iter().find_map(|command| {
            if let Some(text) = command.as_str() {
                let (line, directory) = unclear(text)?;
                let line = inner_lines(&self.lines, command, text).outer(line);
                return Some((line, directory));
            }
            let words = command.items().iter().filter_map(Node::as_str);
            Some((command.line, unclear_words(&words.collect::<Vec<_>>())?))
        });
        if let Some((line, directory)) = found {
            let what = format!(
                "{what}: a command names {directory}, and Windrow cannot tell its effect there"
            );
            self.not_looked_at(line, &what);
        }
    }

    /// A path to which a file is fetched.
    pub(super) fn target(&mut self, path: Option<&Node>, what: &str) {
        let Some((node, text)) = path.and_then(|path| Some((path, path.as_str()?))) else {
            return;
        };
        let below = format!("{}/", text.trim_end_matches('/'));
        let holds = WHOLE.iter().any(|whole| whole.starts_with(&below));
        if !text.is_empty() && (holds || named(&below).is_some()) {
            let what = format!("{what}: Windrow cannot tell which files are fetched to {text}");
            self.not_looked_at(node.line, &what);
        }
    }

    /// A script that is written to a file and may run later.
    pub(super) fn names_directory(&mut self, script: &[u8], lines: InnerLines, path: &str) {
        if let Some((line, directory)) = unclear(&String::from_utf8_lossy(script)) {
            let what = format!(
                "the script {path} names {directory}, and Windrow cannot tell its effect there"
            );
            self.not_looked_at(lines.outer(line), &what);
        }
    }
}
