//! Values of a type that the reader of a file does not accept, and tags that it does not know.

use std::sync::LazyLock;

use windrow_model::manifest::file_kind::is_cloud_config;
use windrow_model::manifest::yaml::ForeignTag;
use windrow_model::reasons::Code;
use windrow_model::suggest::nearest;

use super::image_builder::is_known_version;
use super::unread::{ignored, image_builder_key};
use super::{FileKind, Node, NodeValue, Problem, key_not_read};
use crate::input_types::{InputTypes, Misfit, UnknownKey};

static YIP: LazyLock<InputTypes> = LazyLock::new(|| shipped(include_str!("../../data/yip.yaml")));
static CLOUD_INIT: LazyLock<InputTypes> =
    LazyLock::new(|| shipped(include_str!("../../data/cloud-init.yaml")));
pub(super) static IMAGE_BUILDER: LazyLock<InputTypes> =
    LazyLock::new(|| shipped(include_str!("../../data/image-builder.yaml")));

fn shipped(text: &str) -> InputTypes {
    InputTypes::parse(text).expect("the data can be read, which a test holds")
}

/// The values of a wrong type.
pub(super) fn problems(kind: FileKind, text: &str, root: &Node) -> Vec<Problem> {
    match kind {
        FileKind::Yip => yip(text, root),
        FileKind::CloudInit => {
            let misfits = CLOUD_INIT.misfits("CloudConfig", root).values;
            misfits.into_iter().map(cloud_init).collect()
        }
        FileKind::ImageBuilder => {
            let found = IMAGE_BUILDER.misfits("Definition", root);
            let refused = "builds nothing";
            let values = found.values.into_iter();
            let values = values.map(|misfit| wrong(&misfit, "Edge Image Builder", refused));
            let is_known = is_known_version(root);
            let keys = found.keys.into_iter();
            values
                .chain(keys.map(|key| image_builder_key(key, is_known)))
                .collect()
        }
        FileKind::HarvesterConfig | FileKind::Ignition | FileKind::Butane | FileKind::Manifests => {
            Vec::new()
        }
    }
}

/// Below the first line `#cloud-config`, yip reads the keys of cloud-init first. Only if it then can read the stages, it
/// adds them (`pkg/schema/loader_cloudinit.go`, v1.9.6).
fn yip(text: &str, root: &Node) -> Vec<Problem> {
    let with_cloud_config =
        is_cloud_config(text) && text.lines().next().map(str::trim_end) == Some("#cloud-config");
    let mut found = Vec::new();
    let mut effect = "applies nothing of the file";
    if with_cloud_config {
        let misfits = YIP.misfits("CloudConfig", root).values.into_iter();
        found.extend(misfits.map(|misfit| wrong(&misfit, "yip", effect)));
        effect = "ignores all stages of the file";
    }
    let misfits = YIP.misfits("YipConfig", root);
    let values = misfits.values.iter();
    found.extend(values.map(|misfit| wrong(misfit, "yip", effect)));
    found.extend(misfits.keys.iter().filter_map(slip));
    found
}

/// A misspelt key of a step: yip does nothing with it.
fn slip(key: &UnknownKey<'_>) -> Option<Problem> {
    let is_of_step =
        key.path.matches("[]").count() == 1 && key.path.ends_with(&format!("[].{}", key.entry.key));
    let known = key.known.iter().map(String::as_str);
    let meant = nearest(&key.entry.key, known).filter(|_| is_of_step)?;
    let why = format!("yip has no such key; did you mean `{meant}`?");
    Some(key_not_read(&key.path, key.entry.line, &why))
}

fn cloud_init(misfit: Misfit) -> Problem {
    let end = misfit.path.find(['.', '[']).unwrap_or(misfit.path.len());
    let module = misfit.path[..end].to_owned();
    if CLOUD_INIT.ignored.contains(&module) {
        return ignored(
            misfit.line,
            &sentence(&misfit, "cloud-init", "goes on without it"),
        );
    }
    let effect = match misfit.path.len() == end {
        true => format!("does nothing with `{module}`"),
        false => format!("ends `{module}` with an error there"),
    };
    wrong(&misfit, "cloud-init", &effect)
}

fn wrong(misfit: &Misfit, reader: &str, effect: &str) -> Problem {
    Problem {
        code: Code::InputRefused,
        line: Some(misfit.line),
        message: sentence(misfit, reader, effect),
    }
}

fn sentence(misfit: &Misfit, reader: &str, effect: &str) -> String {
    let Misfit {
        path,
        is,
        expected,
        hint,
        ..
    } = misfit;
    let name = match path.as_str() {
        "" => "the configuration".to_owned(),
        path => format!("`{path}`"),
    };
    format!("{name} is {is}, not {expected}; {reader} {effect}{hint}")
}

/// Modes whose digits are octal, written as decimal numbers: `600` is the mode 1130.
const OCTAL_DIGITS: [u64; 14] = [
    400, 440, 444, 600, 640, 644, 660, 664, 666, 700, 750, 755, 775, 777,
];

/// Permissions that are probably meant as octal numbers (elemental#1780). The node works without the change if only root reads the file.
pub(super) fn modes(kind: FileKind, root: &Node) -> Vec<Problem> {
    let steps = || {
        let stages = root.get("stages").map_or(&[][..], Node::entries).iter();
        stages.flat_map(|stage| stage.value.items())
    };
    let files: Vec<&Node> = match kind {
        FileKind::CloudInit => root.list("write_files").iter().collect(),
        FileKind::Yip => steps()
            .flat_map(|step| step.list("files").iter().chain(step.list("directories")))
            .collect(),
        _ => return Vec::new(),
    };
    let modes = files.into_iter().filter_map(|file| file.get("permissions"));
    modes.filter_map(decimal).take(MOST_MODES).collect()
}

/// Most modes that are reported.
const MOST_MODES: usize = 100;

fn decimal(mode: &Node) -> Option<Problem> {
    let NodeValue::Number(number) = &mode.value else {
        return None;
    };
    let written = number
        .as_u64()
        .filter(|written| OCTAL_DIGITS.contains(written))?;
    let code = Code::FileModeUnintended;
    let (written, mode_text) = (written.to_string(), format!("{written:o}"));
    Some(Problem {
        code,
        line: Some(mode.line),
        message: code.say(&[("value", &written), ("mode", &mode_text)]),
    })
}

/// Tags that cloud-init's reader does not know. PyYAML's safe loader rejects the document, and cloud-init goes on
/// without it (`cloudinit/util.py`, load_yaml, 26.2).
pub(super) fn tags(tags: &[ForeignTag]) -> Vec<Problem> {
    let problem = |tag: &ForeignTag| Problem {
        code: Code::InputRefused,
        line: Some(tag.line),
        message: format!(
            "cloud-init does not know the tag `{}` and ignores the whole file; remove it, or quote the value",
            tag.tag
        ),
    };
    tags.iter().map(problem).collect()
}

#[cfg(test)]
mod tests {
    use windrow_model::manifest::ReadLimits;

    use super::super::extract;
    use super::*;

    /// The code, the line and the beginning of the message of each problem.
    fn found(text: &str) -> Vec<(Code, u32, String)> {
        let problems = extract("u", text, &ReadLimits::default()).problems;
        problems
            .into_iter()
            .map(|problem| {
                let end = problem
                    .message
                    .find(", not")
                    .unwrap_or(problem.message.len());
                (
                    problem.code,
                    problem.line.unwrap(),
                    problem.message[..end].to_owned(),
                )
            })
            .collect()
    }

    fn refused(line: u32, message: &str) -> Vec<(Code, u32, String)> {
        vec![(Code::InputRefused, line, message.to_owned())]
    }

    #[test]
    fn yip_applies_nothing_of_a_file_with_a_value_of_another_type() {
        let stage = |step: &str| format!("stages:\n  initramfs:\n  - {step}\n");
        for (step, message) in [
            (
                "files: [{path: /a, permissions: '0600'}]",
                "`stages.initramfs[].files[].permissions` is a string",
            ),
            (
                "files: [{path: /a, permissions: 99999999999}]",
                "`stages.initramfs[].files[].permissions` is a number",
            ),
            (
                "files: [{path: /a, owner: root}]",
                "`stages.initramfs[].files[].owner` is a string",
            ),
            (
                "files: [{path: /a, group: '0'}]",
                "`stages.initramfs[].files[].group` is a string",
            ),
            (
                "files: [{path: /a, content: {a: 1}}]",
                "`stages.initramfs[].files[].content` is a map",
            ),
            (
                "files: [{path: /a, permissions: [0600]}]",
                "`stages.initramfs[].files[].permissions` is a list",
            ),
            (
                "commands: echo",
                "`stages.initramfs[].commands` is a string",
            ),
            (
                "commands: [[echo, a]]",
                "`stages.initramfs[].commands[]` is a list",
            ),
            (
                "commands: [echo: a]",
                "`stages.initramfs[].commands[]` is a map",
            ),
            (
                "directories: [{path: /a, permissions: 'rwx'}]",
                "`stages.initramfs[].directories[].permissions` is a string",
            ),
            ("hostname: [a]", "`stages.initramfs[].hostname` is a list"),
            ("users: [{name: a}]", "`stages.initramfs[].users` is a list"),
            (
                "users: {a: {lock_passwd: 'true'}}",
                "`stages.initramfs[].users.a.lock_passwd` is a string",
            ),
            ("sysctl: [a=1]", "`stages.initramfs[].sysctl` is a list"),
            (
                "systemctl: {enable: sshd}",
                "`stages.initramfs[].systemctl.enable` is a string",
            ),
            (
                "layout: {expand_partition: {size: '0'}}",
                "`stages.initramfs[].layout.expand_partition.size` is a string",
            ),
        ] {
            assert_eq!(found(&stage(step)), refused(3, message), "{step}");
        }
        for step in [
            "files: [{path: /a, permissions: 0600, owner: 0, group: 0, content: 5}]",
            "files: [{path: /a, permissions: 384.0}]",
            "{hostname: 5, if: '[ -e /a ]', sysctl: {a: 1}, users: {a: {lock_passwd: yes, uid: 5}}}",
            "{not_known: [1], files: null, commands: [5, true]}",
        ] {
            assert_eq!(found(&stage(step)), [], "{step}");
        }
        assert_eq!(found("stages: []\n"), refused(1, "`stages` is a list"));
        assert_eq!(
            found("stages:\n  boot:\n    files: []\n"),
            refused(3, "`stages.boot` is a map")
        );
    }

    #[test]
    fn a_misspelt_key_of_a_step_is_found_and_a_mode_in_decimal_is_a_warning() {
        let codes = |text: &str| -> Vec<(Code, u32)> {
            let found = found(text).into_iter();
            found.map(|(code, line, _)| (code, line)).collect()
        };
        let step = |step: &str| format!("stages:\n  network.before:\n  - {step}\n");
        for key in ["command", "fils", "direktories"] {
            assert_eq!(
                codes(&step(&format!("{key}: []"))),
                [(Code::KeyNotRead, 3)],
                "{key}"
            );
        }
        for right in ["if_files: {}", "mine: []", "users: {a: {nam: b}}"] {
            assert_eq!(codes(&step(right)), [], "{right}");
        }
        for mode in ["600", "644", "777"] {
            let file = format!("{{path: /a, permissions: {mode}}}");
            let wrong = [(Code::FileModeUnintended, 3)];
            assert_eq!(codes(&step(&format!("files: [{file}]"))), wrong, "{mode}");
            assert_eq!(
                codes(&step(&format!("directories: [{file}]"))),
                wrong,
                "{mode}"
            );
            assert_eq!(
                codes(&format!("#cloud-config\nwrite_files:\n- {file}\n")),
                wrong,
                "{mode}"
            );
        }
        for mode in ["0600", "384", "420", "0o644"] {
            let file = format!("{{path: /a, permissions: {mode}}}");
            assert_eq!(
                codes(&format!("#cloud-config\nwrite_files:\n- {file}\n")),
                [],
                "{mode}"
            );
        }
    }

    #[test]
    fn below_the_header_of_cloud_init_yip_also_checks_the_keys_of_cloud_init() {
        let text = |runcmd: &str| format!("#cloud-config\nstages:\n  boot: []\nruncmd: {runcmd}\n");
        assert!(found(&text("[[a, b]]")).contains(&refused(4, "`runcmd[]` is a list")[0]));
        assert!(
            !found(&text("[a]"))
                .iter()
                .any(|(code, ..)| *code == Code::InputRefused)
        );
    }

    #[test]
    fn a_module_of_cloud_init_that_fails_on_a_type_is_an_error_and_one_that_goes_on_a_warning() {
        for (text, message) in [
            ("runcmd: echo", "`runcmd` is a string"),
            ("runcmd: {a: b}", "`runcmd` is a map"),
            ("runcmd: [5]", "`runcmd[]` is a number"),
            ("runcmd: [echo: hello]", "`runcmd[]` is a map"),
            ("bootcmd: [true]", "`bootcmd[]` is a boolean"),
            ("write_files: [/a]", "`write_files[]` is a string"),
            ("write_files: /a", "`write_files` is a string"),
            (
                "write_files: [{path: /a, owner: 1000}]",
                "`write_files[].owner` is a number",
            ),
            (
                "write_files: [{path: /a, content: {a: 1}}]",
                "`write_files[].content` is a map",
            ),
            ("users: 5", "`users` is a number"),
            ("users: [5]", "`users[]` is a number"),
            (
                "users: [{name: a, sudo: {a: b}}]",
                "`users[].sudo` is a map",
            ),
            ("ntp: [a]", "`ntp` is a list"),
            ("ntp: {servers: a}", "`ntp.servers` is a string"),
            ("hostname: 5", "`hostname` is a number"),
            ("apt: []", "`apt` is a list"),
        ] {
            let text = format!("#cloud-config\n{text}\n");
            assert_eq!(found(&text), refused(2, message), "{text}");
        }
        for text in [
            "runcmd: [a, [b, 5], null]",
            "users: [default, a, {name: b, sudo: false}]",
            "users: {a: true}",
            "ntp: null",
            "write_files: [{path: /a, permissions: 0644, owner: 'a:b', append: yes}]",
            "packages: vim",
            "packages: [vim, [git, '1'], snap: [x]]",
        ] {
            assert_eq!(found(&format!("#cloud-config\n{text}\n")), [], "{text}");
        }
        let warned = found("#cloud-config\ngrowpart: auto\n");
        assert_eq!(
            warned
                .iter()
                .map(|(code, line, _)| (*code, *line))
                .collect::<Vec<_>>(),
            [(Code::UserDataIgnored, 2)]
        );
    }

    #[test]
    fn a_tag_that_is_not_yamls_makes_cloud_init_ignore_the_file_and_yip_does_not_mind() {
        for (value, tag) in [
            ("!str 0755", "!str"),
            ("!vault |\n    abc", "!vault"),
            ("!Ref [a]", "!Ref"),
            (
                "!!python/object:os.system {a: 1}",
                "tag:yaml.org,2002:python/object:os.system",
            ),
        ] {
            let text = format!("#cloud-config\nlocale: {value}\n");
            let message = found(&text)[0].2.clone();
            assert!(message.contains(&format!("`{tag}`")), "{text}: {message}");
            assert_eq!(found(&text)[0].1, 2);
        }
        for value in [
            "!!str 0755",
            "!!binary aGk=",
            "! a",
            "!!set {a, b}",
            "!!map {a: 1}",
            "!!timestamp 2001-01-01",
        ] {
            assert_eq!(
                found(&format!("#cloud-config\nlocale: {value}\n")),
                [],
                "{value}"
            );
        }
        assert_eq!(found("stages:\n  boot:\n  - name: !str a\n"), []);
    }
}
