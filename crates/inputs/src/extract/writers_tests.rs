//! Tests of the last writer of a path, of content from elsewhere, and of misspelt keys.

use windrow_model::reasons::Code;

use super::*;

const FILE: &str = "/var/lib/rancher/rke2/server/manifests/a.yaml";

fn cloud_config(files: &str) -> String {
    format!(
        "#cloud-config\nwrite_files:\n{}",
        files.replace("FILE", FILE)
    )
}

fn take(text: &str) -> Extraction {
    extract("c.yaml", text, &ReadLimits::default())
}

fn contents(extraction: &Extraction) -> Vec<String> {
    let files = extraction.files.iter().chain(&extraction.configuration);
    let text = |file: &Extracted| String::from_utf8_lossy(&file.content).into_owned();
    files.map(text).collect()
}

fn problem_codes(extraction: &Extraction) -> Vec<(Code, u32)> {
    let problems = extraction.problems.iter();
    let all = problems.chain(&extraction.configuration_problems);
    all.map(|problem| (problem.code, problem.line.unwrap()))
        .collect()
}

#[test]
fn what_is_deferred_is_written_last() {
    for defer in ["true", "\"True\"", "'yes'", "on", "1"] {
        let text = cloud_config(&format!(
            "- {{path: FILE, content: late, defer: {defer}}}\n- {{path: FILE, content: early}}\n"
        ));
        let found = take(&text);
        assert_eq!(contents(&found), ["late"], "{defer}");
        assert_eq!(
            found.files[0].late.as_deref(),
            Some("cloud-init, final stage")
        );
    }
    for defer in ["false", "\"no\"", "0", "''", "{}"] {
        let text = cloud_config(&format!("- {{path: FILE, content: x, defer: {defer}}}\n"));
        assert_eq!(take(&text).files[0].late, None, "{defer}");
    }
}

#[test]
fn stages_write_in_the_order_in_which_they_run() {
    let stage =
        |stage: &str| format!("  {stage}:\n  - files:\n    - {{path: {FILE}, content: {stage}}}\n");
    for (stages, last) in [
        (["boot", "initramfs"], "boot"),
        (["network", "boot.after"], "network"),
        (["boot.after", "boot.before"], "boot.after"),
        (["rootfs", "after-install-chroot"], "rootfs"),
        (["mine", "reconcile"], "mine"),
    ] {
        let text = format!("stages:\n{}{}", stage(stages[0]), stage(stages[1]));
        assert_eq!(contents(&take(&text)), [last], "{stages:?}");
    }
}

#[test]
fn a_file_with_stages_and_write_files_is_read_as_yip_reads_it_and_that_is_said() {
    let text = format!(
        "#cloud-config\nwrite_files:\n- {{path: {FILE}, content: first}}\nstages:\n  boot:\n  - files:\n    - {{path: /etc/rancher/rke2/config.yaml, content: 'a: 1'}}\n"
    );
    let found = take(&text);
    assert_eq!(contents(&found), ["first", "a: 1"]);
    assert_eq!(found.files[0].late.as_deref(), Some("yip, stage boot"));
    assert_eq!(problem_codes(&found), [(Code::UserDataIgnored, 4)]);
    // yip recognises the header only as the whole first line.
    let found = take(&text.replace("#cloud-config", "# cloud-config"));
    assert_eq!(contents(&found), ["a: 1"]);
    assert_eq!(problem_codes(&found), [(Code::KeyNotRead, 2)]);
}

#[test]
fn a_slip_in_a_stages_key_is_found_and_a_condition_of_a_newer_yip_is_none() {
    let text = |key: &str| {
        format!(
            "stages:\n  boot:\n  - {key}: null\n    files:\n    - {{path: {FILE}, content: x}}\n"
        )
    };
    assert_eq!(problem_codes(&take(&text("file"))), [(Code::KeyNotRead, 3)]);
    for key in ["if_files", "if", "commands"] {
        assert_eq!(problem_codes(&take(&text(key))), [], "{key}");
    }
}

#[test]
fn what_is_appended_follows_what_was_written() {
    let first = cloud_config("- {path: FILE, content: \"a\\n\"}\n");
    let second = cloud_config("- {path: FILE, content: \"b\\n\", append: \"True\"}\n");
    let parts = |parts: [&str; 2]| {
        let parts = parts.into_iter().map(|text| ("u", text));
        extract_parts(parts, &ReadLimits::default())
    };
    let found = parts([&first, &second]);
    assert_eq!(contents(&found[0]), ["a\nb\n"]);
    assert_eq!(contents(&found[1]), [""; 0]);
    assert_eq!(problem_codes(&found[1]), []);
    // The earlier content is unknown.
    let found = parts([&second, &first]);
    assert_eq!(problem_codes(&found[0]), [(Code::NotLookedAt, 3)]);
    assert_eq!(contents(&found[1]), ["a\n"]);
    let text =
        cloud_config("- {path: /etc/rancher/rke2/config.yaml, content: 'a: 1', append: yes}\n");
    assert_eq!(problem_codes(&take(&text)), [(Code::NotLookedAt, 3)]);
}

#[test]
fn the_last_of_two_parts_that_write_one_path_counts_but_another_data_directory_is_another_path() {
    let one = cloud_config("- {path: FILE, content: one}\n");
    let two = cloud_config("- {path: FILE, content: two}\n");
    let other = two.replace("/var/lib/rancher/rke2", "/data");
    let names = |texts: [&str; 2]| {
        let found = extract_parts(
            texts.map(|text| ("u", text)).into_iter(),
            &ReadLimits::default(),
        );
        found.iter().flat_map(contents).collect::<Vec<_>>()
    };
    assert_eq!(names([&one, &two]), ["two"]);
    assert_eq!(names([&one, &other]), ["one", "two"]);
}

#[test]
fn commands_and_targets_count_where_they_name_a_directory_that_is_looked_at() {
    for (text, line) in [
        (
            "#cloud-config\nruncmd:\n- ls\n- cp a.yaml /var/lib/rancher/rke2/server/manifests\n",
            4,
        ),
        (
            "#cloud-config\nbootcmd:\n- [sh, -c, 'echo x > /etc/rancher/rke2/config.yaml']\n",
            3,
        ),
        (
            "#cloud-config\nruncmd:\n- |\n  true\n  cp a /etc/windrow/conf.d\n",
            5,
        ),
        (
            "os:\n  after_install_chroot_commands:\n  - tee /etc/rancher/rke2/config.yaml\n",
            3,
        ),
        (
            "stages:\n  boot:\n  - commands:\n    - tee /etc/rancher/x\n",
            4,
        ),
        (
            "#cloud-config\nstages: {}\nruncmd: [tee /etc/rancher/x]\n",
            3,
        ),
        (
            "stages:\n  boot:\n  - downloads:\n    - {path: /var/lib/rancher/rke2/server/manifests/a.yaml, url: 'http://x'}\n",
            4,
        ),
        (
            "stages:\n  boot:\n  - unpack_images:\n    - {source: x, target: /}\n",
            4,
        ),
        (
            "stages:\n  boot:\n  - git: {url: x, path: /etc/rancher}\n",
            3,
        ),
        (
            "stages:\n  boot:\n  - datasource:\n      providers: [aws]\n",
            4,
        ),
        ("install:\n  configUrl: http://x\n", 2),
        ("install:\n  config_url: http://x\n", 2),
        (
            "#cloud-config\nwrite_files:\n- path: /usr/local/bin/x\n  content: |\n    #!/bin/sh\n    rm /etc/rancher/\n",
            6,
        ),
    ] {
        let told = problem_codes(&take(text));
        assert!(
            told.contains(&(Code::NotLookedAt, line)),
            "{text}\n{told:?}"
        );
    }
    for text in [
        "#cloud-config\nruncmd: [[ls, -l], systemctl enable rke2-server]\nbootcmd: null\n",
        "os:\n  after_install_chroot_commands: [touch /etc/motd]\ninstall: {config_url: ''}\n",
        "stages:\n  boot:\n  - commands: [ls]\n    downloads: [{path: /opt/x}]\n    git: {path: /opt/y}\n",
        "#cloud-config\nwrite_files:\n- {path: /etc/motd, content: see /etc/rancher/}\n",
    ] {
        assert_eq!(problem_codes(&take(text)), [], "{text}");
    }
}

#[test]
fn what_is_fetched_is_not_looked_at() {
    let not_looked_at = (Code::NotLookedAt, 3);
    let refused = (Code::InputRefused, 3);
    for (source, codes) in [
        ("{uri: 'http://x'}", &[not_looked_at][..]),
        ("http://x", &[not_looked_at, refused]),
        ("[http://x]", &[not_looked_at, refused]),
    ] {
        let file = format!("- {{path: FILE, source: {source}, content: x}}\n");
        let found = take(&cloud_config(&file));
        assert_eq!(problem_codes(&found), codes, "{source}");
        assert_eq!(contents(&found), [""; 0]);
    }
    for source in ["null", "{}", "{uri: ''}"] {
        let file = format!("- {{path: FILE, source: {source}, content: x}}\n");
        assert_eq!(contents(&take(&cloud_config(&file))), ["x"], "{source}");
    }
}

#[test]
fn an_encoding_counts_as_its_reader_takes_it() {
    // `a: 1` and a line break.
    const BASE64: &str = "YTogMQo=";
    const GZIP: &str = "H4sIAAAAAAACA0u0UjDkAgBpGSPjBQAAAA==";
    for (encoding, content) in [
        ("B64", BASE64.to_owned()),
        (" base64 ", BASE64.to_owned()),
        ("GZ+B64", GZIP.to_owned()),
        ("gzip", format!("!!binary {GZIP}")),
        (
            "gz",
            format!("!!binary |\n    {}\n    {}", &GZIP[..12], &GZIP[12..]),
        ),
        ("b64", "!!binary WVRvZ01Rbz0=".to_owned()),
        ("", format!("!!binary {BASE64}")),
        ("Text/Plain", "|\n    a: 1".to_owned()),
    ] {
        let file = format!("- path: FILE\n  encoding: '{encoding}'\n  content: {content}\n");
        let found = take(&cloud_config(&file));
        assert_eq!(
            (contents(&found), problem_codes(&found)),
            (vec!["a: 1\n".to_owned()], vec![]),
            "{encoding}"
        );
    }
    // An invalid binary does not prevent other entries from being read.
    let other = "- {path: /bin/x, content: !!binary '*'}\n- {path: FILE, content: x}\n";
    assert_eq!(contents(&take(&cloud_config(other))), ["x"]);
    // yip accepts only the exact names.
    let yip = |encoding: &str| {
        take(&format!(
            "stages:\n  boot:\n  - files:\n    - {{path: {FILE}, encoding: {encoding}, content: {BASE64}}}\n"
        ))
    };
    assert_eq!(contents(&yip("b64")), ["a: 1\n"]);
    assert_eq!(contents(&yip("B64")), [BASE64]);
    assert_eq!(problem_codes(&yip("B64")), [(Code::KeyNotRead, 4)]);
    let found = take(&cloud_config(
        "- {path: FILE, encoding: rot13, content: x}\n",
    ));
    assert_eq!(
        (contents(&found), problem_codes(&found)),
        (vec!["x".to_owned()], vec![(Code::KeyNotRead, 3)])
    );
}

#[test]
fn a_key_that_nobody_reads_and_a_key_that_stands_twice_are_told() {
    for key in ["Content", "contents", "conten"] {
        let text = cloud_config(&format!("- path: FILE\n  {key}: x\n"));
        assert_eq!(
            problem_codes(&take(&text)),
            [(Code::KeyNotRead, 4)],
            "{key}"
        );
        let text = cloud_config(&format!("- path: /etc/windrow/windrow.yaml\n  {key}: x\n"));
        assert_eq!(
            problem_codes(&take(&text)),
            [(Code::KeyNotRead, 4)],
            "{key}"
        );
    }
    let text = format!("stages:\n  boot:\n  - Files: [{{path: {FILE}, content: x}}]\n");
    assert_eq!(problem_codes(&take(&text)), [(Code::KeyNotRead, 3)]);
    let text = format!("os:\n  write_files:\n  - {{PATH: {FILE}, CONTENT: x}}\n");
    assert_eq!(problem_codes(&take(&text)), []);
    let twice = cloud_config("- {path: FILE, content: x}\n") + "write_files: []\n";
    assert_eq!(problem_codes(&take(&twice)), [(Code::KeyNotRead, 2)]);
    let packages = "#cloud-config\npackages: [a]\npackages: [b]\n";
    assert_eq!(problem_codes(&take(packages)), []);
    // The installer and yip reject such a file.
    let twice = "os: {hostname: a}\nos: {hostname: b}\n";
    assert_eq!(problem_codes(&take(twice)), [(Code::InputRefused, 2)]);
}

#[test]
fn what_could_as_well_be_another_kind_of_file_is_not_looked_at() {
    for (text, line) in [
        ("#cloud-config\ninstall: {}\nruncmd: [ls]\n", 3),
        ("#cloud-config\ninstall: {}\nhostname: x\n", 3),
        ("#cloud-config\nos: {}\nusers: []\npackages: []\n", 2),
    ] {
        assert_eq!(
            problem_codes(&take(text)),
            [(Code::NotLookedAt, line)],
            "{text}"
        );
    }
    let text = "#cloud-config\ninstall: {}\nos: {}\nhostname: x\n";
    assert_eq!(problem_codes(&take(text)), []);
}

#[test]
fn text_that_belongs_to_no_document_is_an_error() {
    let text = format!("#cloud-config\n    write_files:\n    - path: {FILE}\n  content: x\n");
    let problems = take(&text).problems;
    assert_eq!((problems.len(), problems[0].code), (1, Code::InputRefused));
}

#[test]
fn a_manifest_under_a_name_that_rke2_does_not_read_is_reported_and_other_files_are_not() {
    let named = |name: &str, content: &str| {
        let path = format!("/var/lib/rancher/rke2/server/manifests/{name}");
        let text = format!("#cloud-config\nwrite_files:\n- path: {path}\n  content: {content:?}\n");
        problem_codes(&take(&text))
    };
    let object = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n";
    for name in [
        "a.yaml.j2",
        "a.tmpl",
        "a.txt",
        "a.yaml.gz",
        ".a.yaml",
        "a",
        "a.YAML.tpl",
    ] {
        assert_eq!(named(name, object), [(Code::PathNotRead, 3)], "{name}");
    }
    for name in ["a.yaml.bak", "a.yaml.disabled", "a.yaml~", "a.yaml.OLD"] {
        assert_eq!(named(name, object), [(Code::PathSetAside, 3)], "{name}");
    }
    for name in ["a.yaml", "a.YML", "a.json", "a.yaml.skip", "sub/a.yaml"] {
        assert_eq!(named(name, object), [], "{name}");
    }
    for (name, content) in [
        ("README.md", "# The manifests\n"),
        (".gitkeep", ""),
        ("a.yaml.j2", "no object"),
    ] {
        assert_eq!(named(name, content), [], "{name}");
    }
    let template = "{% if x %}\napiVersion: v1\nkind: {{ y }}\n{% endif %}\n";
    assert_eq!(named("a.yaml.j2", template), [(Code::PathNotRead, 3)]);
}

#[test]
fn a_file_that_its_reader_does_not_recognise_is_refused_by_its_name() {
    let codes =
        |name: &str, text: &str| problem_codes(&extract(name, text, &ReadLimits::default()));
    let no_header = "write_files: []\nusers: []\n";
    for name in ["seed/user-data", "userdata.yaml", "USER_DATA"] {
        assert_eq!(codes(name, no_header), [(Code::InputRefused, 1)], "{name}");
    }
    assert_eq!(codes("99-site.cfg", no_header), []);
    assert!(codes("c.yaml", no_header).contains(&(Code::NotLookedAt, 1)));
    let butane = "variant: fcos\nversion: 1.5.0\n";
    assert_eq!(codes("config.ign", butane), [(Code::InputRefused, 1)]);
    assert_eq!(codes("config.bu", butane), []);
    let marked = "\u{feff}{\"ignition\": {\"version\": \"3.4.0\"}}";
    assert_eq!(codes("config.ign", marked), [(Code::InputRefused, 1)]);
}
