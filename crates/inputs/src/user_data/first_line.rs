//! First lines that only resemble one that cloud-init recognises, so that it does something else with the file.
//!
//! cloud-init compares the beginning of the text, without blank space and in any case (`cloudinit/handlers/__init__.py`,
//! `type_from_starts_with`, 26.2). A byte-order mark is not blank space to Python.

use windrow_model::suggest::nearest;

use super::type_of;

/// A first line that is probably a mistake: the line, and a clause.
pub(crate) type FirstLineFault = (u32, String);

const HEADER: &str = "#cloud-config";

/// First lines that users may mean, as letters, each with the right one.
const MEANT: [(&str, &str); 6] = [
    ("cloudconfig", HEADER),
    ("cloudinit", HEADER),
    ("cloudconfigarchive", "#cloud-config-archive"),
    ("cloudconfigjsonp", "#cloud-config-jsonp"),
    ("cloudboothook", "#cloud-boothook"),
    ("templatejinja", "## template: jinja"),
];

/// Why cloud-init ignores a text in spite of its beginning.
pub(crate) fn fault(text: &str) -> Option<FirstLineFault> {
    let bare = text.trim_start_matches('\u{feff}');
    if bare.len() < text.len() {
        let meant = type_of(bare)?;
        let why = match meant {
            "text/x-shellscript" => "a script",
            _ => "user-data",
        };
        return Some((
            1,
            format!(
                "a byte-order mark comes first, so cloud-init does not read the file as {why}; save it as UTF-8 without the mark"
            ),
        ));
    }
    let mut lines = (1..).zip(text.lines());
    let (number, first) = lines.find(|(_, line)| !line.trim().is_empty())?;
    let first = first.trim();
    if type_of(first).is_some() || !first.starts_with('#') {
        return None;
    }
    if let Some(meant) = meant(first) {
        let why = format!("the first line is `{}`; write `{meant}`", short(first));
        return Some((number, why));
    }
    let mut comments =
        lines.take_while(|(_, line)| line.trim().is_empty() || line.starts_with('#'));
    let header = comments.find(|(_, line)| type_of(line).is_some());
    let (later, header) = header.filter(|(_, line)| !line.starts_with("#!"))?;
    let header = short(header);
    Some((
        later,
        format!("`{header}` counts only in the first line; remove the text before it"),
    ))
}

/// The first line that this one resembles.
fn meant(line: &str) -> Option<&'static str> {
    let letters = letters(line);
    let exact = MEANT.iter().find(|(name, _)| *name == letters);
    let near = || {
        let name = nearest(&letters, MEANT.iter().map(|(name, _)| *name))?;
        // A comment has more words.
        let is_short =
            line.split_whitespace().count() <= 2 && name.len().abs_diff(letters.len()) <= 2;
        MEANT.iter().find(|(known, _)| *known == name && is_short)
    };
    exact.or_else(near).map(|(_, meant)| *meant)
}

fn letters(line: &str) -> String {
    let letters = line.chars().filter(char::is_ascii_alphabetic);
    letters.map(|ch| ch.to_ascii_lowercase()).collect()
}

fn short(line: &str) -> String {
    line.trim().chars().take(60).collect()
}

/// Why the kernel cannot run a script. cloud-init writes it to a file as it is (`cloudinit/handlers/shell_script.py`).
pub(super) fn script_fault(text: &str) -> Option<String> {
    if text.trim_start().len() < text.len() {
        return Some(
            "blank space comes before `#!`, so the kernel cannot run the script; remove it"
                .to_owned(),
        );
    }
    let line = text.lines().next()?.strip_prefix("#!")?;
    let interpreter = line.split_whitespace().next().unwrap_or_default();
    if interpreter.starts_with('/') && meant(interpreter).is_none() {
        return None;
    }
    let as_script = "the first line begins with `#!`, so cloud-init runs the file as a script";
    Some(match meant(line) {
        Some(meant) => format!("{as_script}, and nothing reads its keys; write `{meant}`"),
        None if interpreter.is_empty() => {
            format!("{as_script}, and the line names no program; write for example `#!/bin/sh`")
        }
        None => format!(
            "{as_script}, and `{}` is not the path of a program; write for example `#!/bin/sh`",
            short(interpreter)
        ),
    })
}

/// The line with which a template declares itself too late: cloud-init renders a file only if that is its first line.
pub(crate) fn late_template(text: &str) -> Option<u32> {
    let mut lines = (1..).zip(text.lines());
    let header = lines.find(|(_, line)| !line.trim().is_empty())?;
    let is_cloud_config = type_of(header.1) == Some("text/cloud-config");
    let mut comments =
        lines.take_while(|(_, line)| line.trim().is_empty() || line.starts_with('#'));
    let late = comments.find(|(_, line)| meant(line) == Some("## template: jinja"));
    late.filter(|_| is_cloud_config && (text.contains("{{") || text.contains("{%")))
        .map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_that_only_resembles_a_header_is_a_fault_and_those_that_cloud_init_accepts_are_none()
     {
        for (text, line) in [
            ("# cloud-config\na: 1\n", 1),
            ("#cloud_config\n", 1),
            ("#cloudconfig\n", 1),
            ("##cloud-config\n", 1),
            ("#-cloud-config\n", 1),
            ("#cloud-init\n", 1),
            ("# Cloud Config\n", 1),
            ("#clod-config\n", 1),
            ("\n#cloud-cofig\n", 2),
            ("#template: jinja\n#cloud-config\n", 1),
            ("\u{feff}#cloud-config\n", 1),
            ("\u{feff}## template: jinja\n#cloud-config\n", 1),
            ("# our nodes\n#cloud-config\n", 2),
            ("# vim: syntax=yaml\n\n#cloud-config\n", 3),
        ] {
            assert_eq!(fault(text).map(|(line, _)| line), Some(line), "{text:?}");
        }
        for text in [
            "#cloud-config\n",
            " #cloud-config\n",
            "\n\n#Cloud-Config\n",
            "#cloud-config;\n",
            "#cloud-config # ours\n",
            "#cloud-config-archive\n",
            "#!/bin/sh\n",
            "#! /bin/sh\n",
            "## template: jinja\n",
            "# the configuration of our cloud nodes\na: 1\n",
            "# include the users of the site\nusers: []\n",
            "a: 1\n#cloud-config\n",
            "\u{feff}a: 1\n",
            "",
        ] {
            assert_eq!(fault(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_script_that_the_kernel_cannot_run_is_a_fault() {
        for text in [
            "#!cloud-config\na: 1\n",
            "#! cloud-config\n",
            "#!/cloud-config\n",
            "#!#cloud-config\n",
            "#!bash\n",
            "#! bin/sh\n",
            "#!\necho\n",
            "\n#!/bin/sh\n",
            " #!/bin/sh\n",
        ] {
            assert!(script_fault(text).is_some(), "{text:?}");
        }
        for text in ["#!/bin/sh\n", "#! /bin/sh\n", "#!/usr/bin/env bash\r\n"] {
            assert_eq!(script_fault(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_template_below_the_header_is_never_rendered() {
        let text = "#cloud-config\n## template: jinja\nhostname: '{{ v1.local_hostname }}'\n";
        assert_eq!(late_template(text), Some(2));
        assert_eq!(late_template(&text.replace("{{", "((")), None);
        let right = "## template: jinja\n#cloud-config\nhostname: '{{ v1.local_hostname }}'\n";
        assert_eq!(late_template(right), None);
    }
}
