//! Resolves the file names that an operator types.

use std::path::Path;

use windrow_model::manifest::ManifestPath;

use windrow_decide::why::{names_file, nearest_file};

use crate::fs;

/// The typed names as paths below the manifests directory.
///
/// # Errors
///
/// A line for each unknown name.
pub(super) fn manifest_paths(
    typed: &[String],
    known: &[ManifestPath],
    manifests: &Path,
) -> Result<Vec<ManifestPath>, Vec<String>> {
    let mut paths = Vec::new();
    let mut errors = Vec::new();
    for typed in typed {
        let wanted = inside(typed, manifests).unwrap_or_else(|| typed.clone());
        let exact: Vec<&ManifestPath> = known
            .iter()
            .filter(|path| **path == wanted.as_str())
            .collect();
        let meant: Vec<&ManifestPath> = if exact.is_empty() {
            known
                .iter()
                .filter(|path| names_file(&wanted, path, manifests))
                .collect()
        } else {
            exact
        };
        match meant[..] {
            [] => {
                let meant = nearest_file(typed, known.iter());
                let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
                errors.push(format!(
                    "{typed}: no such manifest file below {}{meant}",
                    manifests.display()
                ));
            }
            [one] => paths.push(one.clone()),
            // A marker hides its name in every directory: they go together.
            ref many => paths.extend(many.iter().map(|path| (*path).clone())),
        }
    }
    paths.sort();
    paths.dedup();
    if errors.is_empty() {
        Ok(paths)
    } else {
        Err(errors)
    }
}

/// A path typed relative to the working directory that leads into the manifests directory.
fn inside(typed: &str, manifests: &Path) -> Option<String> {
    let directory = fs::canonicalize(manifests).ok()?;
    let typed = Path::new(typed);
    let parent = match typed.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return None,
    };
    let path = fs::canonicalize(parent).ok()?.join(typed.file_name()?);
    Some(path.strip_prefix(&directory).ok()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_means_nothing_is_named() {
        let known = ["a.yaml", "sub/a.yaml", "b.yaml"].map(ManifestPath::from);
        let typed = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        let manifests = Path::new("/nowhere/manifests");
        assert_eq!(
            manifest_paths(
                &typed(&["/nowhere/manifests/b.yaml", "b.yaml"]),
                &known,
                manifests
            ),
            Ok(vec!["b.yaml".into()])
        );
        assert_eq!(
            manifest_paths(&typed(&["a.yaml"]), &known, manifests),
            Ok(vec!["a.yaml".into()])
        );
        let errors = manifest_paths(&typed(&["x.yaml", "b.yaml", "y.yaml"]), &known, manifests);
        assert_eq!(errors.unwrap_err().len(), 2);
        let slip = manifest_paths(&typed(&["b.yml"]), &known, manifests).unwrap_err();
        assert!(slip[0].ends_with("did you mean b.yaml?"), "{slip:?}");
    }
}
