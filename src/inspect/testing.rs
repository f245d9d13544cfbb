//! What the tests share.

/// A machine made of files.
pub(super) fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, crate::layout::Layout) {
    let root = tempfile::TempDir::new().unwrap();
    let layout = crate::layout::Layout::new(root.path());
    for (path, text) in files {
        let path = layout.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    (root, layout)
}
