//! What RKE2 makes of a file's name.

/// What a marker's name ends in: `x.yaml.skip` keeps RKE2 from applying every `x.yaml`.
pub const MARKER_SUFFIX: &str = ".skip";

/// Is this the base name of a file that RKE2 applies? Extensions count in upper case too; a dot in
/// front hides a file.
pub fn is_manifest_name(base: &str) -> bool {
    if base.starts_with('.') {
        return false;
    }
    base.rsplit_once('.').is_some_and(|(_, extension)| {
        ["yaml", "yml", "json"]
            .iter()
            .any(|known| extension.eq_ignore_ascii_case(known))
    })
}

/// The name of the Addon object that RKE2 makes for a file: its base name up to the first dot.
pub fn addon_name(base: &str) -> &str {
    base.split('.').next().unwrap_or_default()
}

/// What RKE2 would call the Addon of this base name, why it cannot, and what to call the file instead: the
/// `name` of `addon-name-invalid`.
pub fn addon_name_error(base: &str) -> Option<String> {
    let name = addon_name(base);
    let problem = if name.is_empty() {
        "is empty"
    } else if name.len() > 253 {
        "is longer than 253 characters"
    } else if !name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    {
        "may have only lower-case letters, digits and `-` (RFC 1123)"
    } else if name.starts_with('-') || name.ends_with('-') {
        "must begin and end with a letter or digit (RFC 1123)"
    } else {
        return None;
    };
    Some(format!(
        "`{name}`, and a name {problem}; rename the file, for example to {}",
        suggestion(base)
    ))
}

fn suggestion(base: &str) -> String {
    let (name, rest) = base.split_once('.').unwrap_or((base, "yaml"));
    let mut better: String = name
        .chars()
        .map(|ch| match ch.to_ascii_lowercase() {
            ch @ ('a'..='z' | '0'..='9') => ch,
            _ => '-',
        })
        .take(253)
        .collect();
    better = better.trim_matches('-').to_owned();
    if better.is_empty() {
        better.push_str("manifest");
    }
    format!("{better}.{rest}")
}

/// The path of a second file beside this one, for objects that must not stand in it; its Addon's name is
/// not `taken`.
pub fn objects_path(path: &str, taken: impl Fn(&str) -> bool) -> String {
    let (directory, base) = match path.rsplit_once('/') {
        Some((directory, base)) => (format!("{directory}/"), base),
        None => (String::new(), path),
    };
    let extension = base
        .rsplit_once('.')
        .map_or("yaml", |(_, extension)| extension);
    let first = format!("{}-objects", addon_name(base));
    let numbered = (2..).map(|number| format!("{first}-{number}"));
    let mut names = std::iter::once(first.clone()).chain(numbered);
    let name = names.find(|name| !taken(name)).unwrap_or(first);
    format!("{directory}{name}.{extension}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_extension_and_a_leading_dot_decide_what_rke2_applies() {
        for name in ["a.yaml", "a.yml", "a.json", "X.YML", "a.b.Json", "-.yaml"] {
            assert!(is_manifest_name(name), "{name}");
        }
        for name in [
            "",
            "yaml",
            ".yaml",
            ".a.yaml",
            "a.yaml.skip",
            "a.yaml.d",
            "a.tmp",
            "a.yaml~",
        ] {
            assert!(!is_manifest_name(name), "{name}");
        }
    }

    #[test]
    fn an_addon_is_called_like_the_file_up_to_its_first_dot() {
        for name in ["foo.yaml", "foo.bar.yml", "foo.json"] {
            assert_eq!(addon_name(name), "foo");
            assert_eq!(addon_name_error(name), None);
        }
    }

    #[test]
    fn a_name_that_no_addon_can_have_is_told_with_a_better_one() {
        for (name, better) in [
            ("Upper.yaml", "upper.yaml"),
            ("under_score.yaml", "under-score.yaml"),
            ("-a-.yaml", "a.yaml"),
            ("grün.yml", "gr-n.yml"),
            ("___.json", "manifest.json"),
        ] {
            let error = addon_name_error(name).unwrap();
            assert!(error.ends_with(&format!("to {better}")), "{error}");
        }
        let long = format!("{}.yaml", "a".repeat(254));
        assert!(addon_name_error(&long).unwrap().contains("253"));
    }
}
