//! The pages of the documentation by reader (`docs/pages.txt`), and what is made from them: the index and the website's order.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const LIST: &str = "docs/pages.txt";

/// A reader, and what is for him.
struct Reader<'l> {
    name: &'l str,
    about: &'l str,
    pages: Vec<Page<'l>>,
}

struct Page<'l> {
    /// Below `docs`.
    path: &'l str,
    about: &'l str,
    /// It belongs to the page above it.
    part: bool,
}

impl Page<'_> {
    /// Below the repository.
    fn whole_path(&self) -> PathBuf {
        let root = self.path.strip_prefix("../");
        root.map_or_else(|| Path::new("docs").join(self.path), PathBuf::from)
    }

    /// Its first heading.
    fn title(&self) -> String {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.whole_path());
        let text =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", self.path));
        let title = text.lines().find_map(|line| line.strip_prefix("# "));
        title
            .unwrap_or_else(|| panic!("{} has no heading", self.path))
            .to_owned()
    }
}

fn list() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(LIST)).unwrap()
}

fn readers(list: &str) -> Vec<Reader<'_>> {
    let mut readers: Vec<Reader<'_>> = Vec::new();
    for line in list.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((name, about)) = line
            .strip_prefix('[')
            .and_then(|line| line.split_once("] "))
        {
            let pages = Vec::new();
            readers.push(Reader { name, about, pages });
            continue;
        }
        let (path, about) = line
            .trim_start()
            .split_once("  ")
            .expect("a page and its contents");
        let part = line.starts_with(' ');
        let reader = readers.last_mut().expect("a reader before the first page");
        reader.pages.push(Page { path, about, part });
    }
    readers
}

/// Every page of the list, below the repository, once.
pub(crate) fn listed_pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for page in readers(&list()).iter().flat_map(|reader| &reader.pages) {
        let path = page.whole_path();
        if !pages.contains(&path) {
            pages.push(path);
        }
    }
    pages
}

/// `docs/README.md`.
pub(crate) fn index_page() -> String {
    let mut text = String::from(
        "# The pages, by reader\n\nThis list and the order of the website are generated from `pages.txt`.\n",
    );
    for reader in readers(&list()) {
        let _ = write!(text, "\n## {}\n\n{}\n\n", reader.name, reader.about);
        for page in &reader.pages {
            let indent = if page.part { "  " } else { "" };
            let _ = writeln!(
                text,
                "{indent}- [{}]({}): {}",
                page.title(),
                page.path,
                page.about
            );
        }
    }
    text
}

/// `docs/site/SUMMARY.md`. Its links begin at the root of the repository: so are the pages laid out for mdBook.
pub(crate) fn summary() -> String {
    let mut text = String::from(
        "<!-- Generated from docs/pages.txt. Links begin at the root of the repository, as in the layout of docs/site/build. -->\n\
         # Summary\n\n[Windrow](README.md)\n[The pages, by reader](docs/README.md)\n",
    );
    let mut seen = Vec::new();
    for reader in readers(&list()) {
        let _ = write!(text, "\n# {}\n\n", reader.name);
        for page in &reader.pages {
            let path = page.whole_path();
            if seen.contains(&path) {
                continue;
            }
            let indent = if page.part { "  " } else { "" };
            let _ = writeln!(text, "{indent}- [{}]({})", page.title(), path.display());
            seen.push(path);
        }
    }
    text
}
