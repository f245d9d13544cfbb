//! Finds errors in a configuration that contains manifests, apart from the manifests themselves, and corrects those that allow a
//! mechanical correction.

use windrow_inputs::extract::{Extraction, FileKind, InnerLines, extract};
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{ReadLimits, yaml};
use windrow_model::reasons::Code;

/// The spelling of the key that every version of the installer accepts.
const WRITE_FILES: &str = "writeFiles";
/// The notation with which yip writes two opening braces.
const BRACES: &str = "{{ \"{{\" }}";

/// The errors in a configuration. `shown` is its name in messages.
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

/// The configuration with corrections of the [`findings`] that can be corrected line by line; `None` if there are none.
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

/// A misspelt key such as `os.write_files` in a Harvester configuration.
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

/// The parts that yip renders: Harvester's installer converts its own configuration into a yip file.
fn rendered(extraction: &Extraction) -> impl Iterator<Item = &windrow_inputs::extract::Extracted> {
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

/// Escaped braces are correct, because they come out as braces.
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
