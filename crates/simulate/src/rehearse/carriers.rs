//! What is wrong with a configuration that carries manifests, beside the manifests: and the same
//! configuration corrected, where that is mechanical.

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::extract::{Extraction, FileKind, InnerLines, extract};
use windrow_model::manifest::{ReadLimits, yaml};
use windrow_model::reasons::Code;

/// How the key is called that every version of the installer is known to read.
const WRITE_FILES: &str = "writeFiles";
/// What yip makes two opening braces of.
const BRACES: &str = "{{ \"{{\" }}";

/// What is wrong with a configuration. `shown` is how it is called in messages.
pub fn findings(shown: &str, text: &str, limits: &ReadLimits) -> Vec<Finding> {
    let extraction = extract(shown, text, limits);
    let mut found = Vec::new();
    if let Some((key, line)) = misspelt(text, &extraction) {
        found.push(finding(
            Code::WriteFilesSpelling,
            Code::WriteFilesSpelling.say(&[("key", &key)]),
            Location::line(shown, line),
        ));
    }
    for (line, template) in templates(&extraction) {
        found.push(finding(
            Code::YipTemplate,
            Code::YipTemplate.say(&[("what", &template)]),
            Location::line(shown, line),
        ));
    }
    found
}

/// The configuration without what [`findings`] finds, as far as that can be done line by line; `None`
/// when nothing was changed.
pub fn corrected(shown: &str, text: &str, limits: &ReadLimits) -> Option<String> {
    let extraction = extract(shown, text, limits);
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let mut at = |line: u32, change: &dyn Fn(&str) -> String| {
        let place = usize::try_from(line)
            .ok()
            .and_then(|line| line.checked_sub(1));
        if let Some(line) = place.and_then(|place| lines.get_mut(place)) {
            *line = change(line);
        }
    };
    if let Some((key, line)) = misspelt(text, &extraction) {
        at(line, &|line| line.replacen(&key, WRITE_FILES, 1));
    }
    for file in rendered(&extraction) {
        // Quoted and encoded text cannot be corrected line by line.
        let InnerLines::Follow { first } = file.lines else {
            continue;
        };
        let inner = String::from_utf8_lossy(&file.content);
        for (number, line) in (first..).zip(inner.lines()) {
            if has_template(line) {
                at(number, &|line| line.replace("{{", BRACES));
            }
        }
    }
    let corrected: String = lines.concat();
    (corrected != text).then_some(corrected)
}

/// `os.write_files` and the like, in a Harvester configuration.
fn misspelt(text: &str, extraction: &Extraction) -> Option<(String, u32)> {
    if extraction.kind != FileKind::HarvesterConfig {
        return None;
    }
    let root = yaml::parse_configuration(text).ok().flatten()?;
    let os = root
        .entries()
        .iter()
        .find(|entry| entry.key.eq_ignore_ascii_case("os"))?;
    os.value
        .entries()
        .iter()
        .find(|entry| {
            let plain = entry.key.replace(['_', '-'], "").to_lowercase();
            plain == "writefiles" && entry.key != WRITE_FILES && entry.key != "writefiles"
        })
        .map(|entry| (entry.key.clone(), entry.line))
}

/// What yip renders of what is looked at here: Harvester's installer turns its own configuration into a yip file.
fn rendered(
    extraction: &Extraction,
) -> impl Iterator<Item = &windrow_model::manifest::extract::Extracted> {
    let by_yip = matches!(extraction.kind, FileKind::HarvesterConfig | FileKind::Yip);
    let files = extraction.files.iter().chain(&extraction.configuration);
    files.filter(move |_| by_yip)
}

fn templates(extraction: &Extraction) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for file in rendered(extraction) {
        let text = String::from_utf8_lossy(&file.content);
        for (number, line) in (1..).zip(text.lines()) {
            if has_template(line) {
                let from = line.find("{{").unwrap_or_default();
                let to = line[from..]
                    .find("}}")
                    .map_or(line.len(), |at| from + at + 2);
                found.push((file.lines.outer(number), line[from..to].to_owned()));
            }
        }
    }
    found
}

/// Braces that are written so that they come out as braces are as they should be.
fn has_template(line: &str) -> bool {
    line.replace(BRACES, "").contains("{{")
}

fn finding(code: Code, message: String, at: Location) -> Finding {
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message,
        at: vec![at],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "schemeVersion: 1\nos:\n  write_files:\n  - path: /var/lib/rancher/rke2/server/manifests/a.yaml\n    content: |\n      apiVersion: v1\n      kind: ConfigMap\n      metadata: {name: x}\n      data:\n        rule: '{{ $labels.pod }}'\n  - path: /etc/rancher/rke2/config.yaml.d/10.yaml\n    content: |\n      disable: [rke2-metrics-server]\n";

    fn found(text: &str) -> Vec<(Code, u32)> {
        findings("c.yaml", text, &ReadLimits::default())
            .into_iter()
            .map(|finding| (finding.code, finding.at[0].line.unwrap()))
            .collect()
    }

    #[test]
    fn braces_that_yip_swallows_and_a_spelling_that_is_passed_over_are_told_and_corrected() {
        assert_eq!(
            found(CONFIG),
            [(Code::WriteFilesSpelling, 3), (Code::YipTemplate, 10)]
        );
        let corrected = corrected("c.yaml", CONFIG, &ReadLimits::default()).unwrap();
        assert_eq!(found(&corrected), []);
        assert!(corrected.contains("  writeFiles:\n"), "{corrected}");
        assert!(
            corrected.contains("'{{ \"{{\" }} $labels.pod }}'"),
            "{corrected}"
        );
        assert_eq!(
            super::corrected("c.yaml", &corrected, &ReadLimits::default()),
            None
        );
    }

    #[test]
    fn cloud_init_renders_no_braces() {
        let text = "#cloud-config\nwrite_files:\n- path: /var/lib/rancher/rke2/server/manifests/a.yaml\n  content: |\n    a: '{{ b }}'\n";
        assert_eq!(found(text), []);
    }
}
