//! The owners of the files that cloud-init writes.

use std::collections::HashSet;

use windrow_model::reasons::Code;

use super::taker::is_true;
use super::{Node, Problem};

/// Names that images have before cloud-init runs.
const OF_IMAGES: [&str; 26] = [
    "adm",
    "audio",
    "bin",
    "cdrom",
    "daemon",
    "dialout",
    "disk",
    "games",
    "kvm",
    "lp",
    "mail",
    "man",
    "netdev",
    "nobody",
    "nogroup",
    "operator",
    "plugdev",
    "root",
    "shadow",
    "staff",
    "sudo",
    "sys",
    "systemd-journal",
    "users",
    "wheel",
    "www-data",
];

/// Owners that do not exist when cloud-init writes the file. It looks them up by name and ends `write_files` with an error if one is
/// unknown (`cloudinit/util.py`, chownbyname; `cloudinit/config/cc_write_files.py`, 26.2). Users are created afterwards
/// (`config/cloud.cfg.tmpl`, cloud_init_modules), and deferred files are written after that.
pub(super) fn problems(root: &Node) -> Vec<Problem> {
    let created: HashSet<&str> = ["users", "groups"]
        .iter()
        .flat_map(|key| root.list(key))
        .flat_map(names)
        .collect();
    let files = root.list("write_files").iter();
    files
        .filter_map(|file| {
            let owner = file.get("owner")?;
            let is_deferred = file.get("defer").is_some_and(is_true);
            let parts = owner.as_str()?.split(':').map(str::trim);
            let why = parts.filter(|part| !part.is_empty()).find_map(|part| {
                if part.chars().all(|letter| letter.is_ascii_digit()) {
                    Some(format!(
                        "cloud-init looks up {part} as a name, not as a number"
                    ))
                } else if created.contains(part) && !OF_IMAGES.contains(&part) && !is_deferred {
                    Some(format!(
                        "cloud-init creates {part} after it has written the file; add `defer: true`"
                    ))
                } else {
                    None
                }
            })?;
            Some(Problem {
                code: Code::InputRefused,
                line: Some(owner.line),
                message: format!("`write_files` ends here with an error: {why}"),
            })
        })
        .collect()
}

/// The name of a user, or of a group: a text, `name`, or the only key.
fn names(entry: &Node) -> Vec<&str> {
    match (entry.as_str(), entry.get("name").and_then(Node::as_str)) {
        (Some(name), _) | (None, Some(name)) => vec![name],
        (None, None) => entry
            .entries()
            .iter()
            .map(|entry| entry.key.as_str())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use windrow_model::manifest::ReadLimits;

    use super::super::extract;
    use super::*;

    #[test]
    fn an_owner_exists_before_the_file_is_written() {
        let found = |owner: &str| -> Vec<(Code, Option<u32>)> {
            let text = format!(
                "#cloud-config\nusers: [default, {{name: admin}}]\ngroups: [ops, adm, {{dev: [admin]}}]\nwrite_files:\n- path: /a\n  {owner}\n"
            );
            let problems = extract("u", &text, &ReadLimits::default()).problems;
            problems
                .into_iter()
                .map(|problem| (problem.code, problem.line))
                .collect()
        };
        for right in [
            "owner: root:root",
            "owner: root",
            "owner: 'www-data:adm'",
            "owner: admin\n  defer: true",
            "owner: admin\n  defer: 'yes'",
            "owner: root:adm",
        ] {
            assert_eq!(found(right), [], "{right}");
        }
        for wrong in [
            "owner: admin",
            "owner: 'root:ops'",
            "owner: 'root:dev'",
            "owner: '0:0'",
            "owner: \"1000\"",
        ] {
            assert_eq!(found(wrong), [(Code::InputRefused, Some(6))], "{wrong}");
        }
    }
}
