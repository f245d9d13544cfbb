//! The inputs of people: configurations known by their keys, user-data in every wrapping, and slips that no verb may
//! pass over in silence. Through the real binary, with its exit codes.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod given;
mod image_tools;
mod unread;

use std::fs;
use std::io::Write as _;

use given::{Given, MANIFESTS, NAMESPACE, PLAN, REHEARSE, cloud_config, harvester, indented, says};

#[test]
fn a_harvester_configuration_is_the_same_whatever_its_first_line_is() {
    for first in [
        "",
        "#cloud-config\n",
        "#!cloud-config\n",
        "\n#cloud-config\n",
        "## template: jinja\n",
    ] {
        let text = harvester(first, "staging: {}");
        says(
            &text,
            &["plan"],
            0,
            &["Plan on harvester: 1 manifest file, 1 held"],
        );
        says(
            &text,
            &["gates", "check", "--rke2", "v1.35"],
            4,
            &["NodeAuthorizerEnablePodSelectors"],
        );
        says(
            harvester(first, "stagng: {}"),
            &["config", "check"],
            78,
            &["`stagng`: did you mean `staging`?"],
        );
        let given = Given::new("c.yaml", &text);
        let ran = given.run(&["check", "--details", "--runs", "2", "c.yaml"]);
        assert!(ran.out.contains("Harvester"), "{first:?}: {}", ran.out);
    }
}

#[test]
fn rke2s_configuration_is_an_input_beside_the_manifests_and_decides_about_them() {
    let pool = "apiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata: {name: p}\nspec: {blocks: [{cidr: 10.0.0.0/28}]}\n";
    let given = Given::new("pool.yaml", pool);
    let check = ["check", "--runs", "1", "--rke2", "v1.33.5+rke2r1"];
    assert_eq!(given.run(&[&check[..], &["pool.yaml"]].concat()).exit, 5);
    fs::write(
        given.path("config.yaml"),
        "cni: cilium\ntls-san+: [a.example]\n",
    )
    .unwrap();
    let beside = given.run(&[&check[..], &["pool.yaml", "config.yaml"]].concat());
    assert_eq!(beside.exit, 0, "{}", beside.out);
    assert_eq!(given.run(&[&check[..], &["."]].concat()).exit, 0);
    // Among the manifests it is one, and RKE2 refuses it.
    fs::create_dir(given.path("manifests")).unwrap();
    fs::write(given.path("manifests/config.yaml"), "cni: cilium\n").unwrap();
    let misplaced = given.run(&[&check[..], &["manifests"]].concat());
    assert_eq!(misplaced.exit, 4);
    assert!(misplaced.out.contains("file-refused"), "{}", misplaced.out);
    let twice = given.run(&[&check[..], &["config.yaml", "config.yaml"]].concat());
    assert_eq!(twice.exit, 64);
    assert!(
        twice
            .err
            .contains("would both be /etc/rancher/rke2/config.yaml"),
        "{}",
        twice.err
    );
}

#[test]
fn a_file_that_disable_names_is_deleted_by_rke2_and_none_of_a_directory_of_drop_ins() {
    let given = Given::new("config.yaml", "disable: [my-app, monitoring]\n");
    fs::create_dir(given.path("m")).unwrap();
    fs::create_dir(given.path("m/monitoring")).unwrap();
    fs::write(given.path("m/my-app.yaml"), NAMESPACE).unwrap();
    fs::write(
        given.path("m/monitoring/x.yaml"),
        NAMESPACE.replace("one", "two"),
    )
    .unwrap();
    fs::write(
        given.path("m/other.yaml"),
        NAMESPACE.replace("one", "three"),
    )
    .unwrap();
    let ran = given.run(&["check", "--runs", "1", "config.yaml", "m"]);
    assert_eq!(ran.exit, 4);
    for words in [
        "(my-app.yaml): RKE2's configuration switches `my-app` off",
        "(monitoring/x.yaml): RKE2's configuration switches `monitoring` off",
    ] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    assert!(!ran.out.contains("other.yaml"), "{}", ran.out);
    let files = [
        (
            "/etc/rancher/rke2/config.yaml.d/sub/30.yaml",
            "kubelet-arg: [no-such=1]\n",
        ),
        (&*format!("{MANIFESTS}/a.yaml"), NAMESPACE),
    ];
    says(
        cloud_config(&files),
        &["check", "--runs", "1", "--rke2", "v1.33.5+rke2r1"],
        0,
        &["warn", "config-path-not-read", "c.yaml:3"],
    );
}

#[test]
fn what_is_ambiguous_is_said_and_a_key_at_the_wrong_place_is_an_error() {
    let text = format!(
        "#cloud-config\ninstall: {{mode: create}}\nwrite_files:\n- path: {MANIFESTS}/a.yaml\n  content: x\n"
    );
    says(
        &text,
        &["plan"],
        4,
        &[
            "c.yaml: read as a Harvester configuration because of `install` in line 2, not as cloud-init user-data",
            "c.yaml:3 nothing reads `write_files`: Harvester's installer reads files only below `os`",
        ],
    );
    says(
        &text,
        &["config", "check"],
        78,
        &["c.yaml:3: nothing reads `write_files`"],
    );
    says(
        &text,
        &["gates", "check"],
        64,
        &["c.yaml:3: nothing reads `write_files`"],
    );
}

#[test]
fn a_misspelt_key_is_an_error_with_the_key_that_was_meant() {
    let sound = cloud_config(&[(&format!("{MANIFESTS}/a.yaml"), NAMESPACE)]);
    for key in ["write-files", "writeFiles", "write_file", "wirte_files"] {
        let text = sound.replace("write_files", key);
        for verb in [PLAN, REHEARSE] {
            says(
                &text,
                verb,
                4,
                &[&format!(
                    "nothing reads `{key}`: cloud-init has no such key; did you mean `write_files`?"
                )],
            );
        }
        says(
            &text,
            &["config", "check"],
            78,
            &["did you mean `write_files`?"],
        );
        says(
            &text,
            &["gates", "check"],
            64,
            &["did you mean `write_files`?"],
        );
    }
    let text = harvester("", "staging: {}").replace("writeFiles", "write-files");
    says(
        &text,
        &["plan"],
        4,
        &[
            "nothing reads `os.write-files`",
            "did you mean `writeFiles`?",
        ],
    );
    // Without its first line cloud-init ignores all of it.
    let headless = sound.replace("#cloud-config\n", "# mine\n");
    says(
        &headless,
        PLAN,
        5,
        &[
            "c.yaml:1 cloud-init ignores this: its first line is not `#cloud-config`",
            "Windrow cannot tell whether it can work: it could not check everything.",
        ],
    );
}

#[test]
fn a_path_that_no_rke2_reads_is_an_error_and_one_that_it_may_read_is_unknown() {
    let meant = format!("did you mean {MANIFESTS}/a.yaml?");
    for directory in [
        "/var/lib/rancher/rke2/server/manifest",
        "/var/lib/rancher/rke2/manifests",
    ] {
        let text = cloud_config(&[(&format!("{directory}/a.yaml"), NAMESPACE)]);
        for verb in [PLAN, REHEARSE] {
            says(
                &text,
                verb,
                4,
                &[
                    "c.yaml:3",
                    &format!("RKE2 does not read this path ({directory}/a.yaml)"),
                    &meant,
                ],
            );
        }
    }
    let k3s = cloud_config(&[("/var/lib/rancher/k3s/server/manifests/a.yaml", NAMESPACE)]);
    says(&k3s, PLAN, 4, &["0 held", "that directory is k3s'"]);
    let elsewhere = [("/data/rke2/server/manifests/a.yaml", NAMESPACE)];
    for verb in [PLAN, REHEARSE] {
        says(
            cloud_config(&elsewhere),
            verb,
            5,
            &["unless its data-dir is /data/rke2, and nothing here sets that"],
        );
    }
    let main = |data_dir: &'static str| [elsewhere[0], ("/etc/rancher/rke2/config.yaml", data_dir)];
    for verb in [PLAN, REHEARSE] {
        says(cloud_config(&main("data-dir: /data/rke2/\n")), verb, 0, &[]);
        says(
            cloud_config(&main("data-dir: /srv\n")),
            verb,
            4,
            &["it reads /srv/server/manifests, which is below the data-dir of c.yaml:10"],
        );
    }
}

#[test]
fn empty_standard_input_is_no_manifest() {
    let given = Given::new("c.yaml", "");
    for verb in [PLAN, REHEARSE] {
        for input in [&b""[..], b" \n\n"] {
            let ran = given.run_with(&[verb, &["-"]].concat(), input);
            assert_eq!(ran.exit, 64, "{}", ran.out);
            assert_eq!(
                ran.err,
                "windrow: standard input: it is empty: nothing was checked"
            );
        }
    }
}

#[test]
fn a_configuration_without_manifests_is_none_and_says_what_was_looked_at() {
    let text = cloud_config(&[("/etc/motd", "hello"), ("/etc/issue", "hello")]);
    says(
        &text,
        PLAN,
        0,
        &[
            "c.yaml: read as cloud-init user-data: it writes 2 files, but none below RKE2's server/manifests",
        ],
    );
    says(
        "#cloud-config\nusers: []\n",
        PLAN,
        0,
        &["it writes no files below RKE2's server/manifests"],
    );
    says(
        &text,
        &["config", "check"],
        0,
        &["read as cloud-init user-data: it writes no configuration of Windrow"],
    );
}

#[test]
fn braces_in_a_name_are_the_name_unless_something_renders_them() {
    let named = |name: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: \"{name}\", namespace: default}}\n"
        )
    };
    let object = cloud_config(&[(
        &format!("{MANIFESTS}/a.yaml"),
        &named("{{ v1.local_hostname }}"),
    )]);
    let file = cloud_config(&[(
        &format!("{MANIFESTS}/{{{{ v1.local_hostname }}}}.yaml"),
        &named("x"),
    )]);
    for verb in [PLAN, REHEARSE] {
        says(&object, verb, 4, &["object-name-invalid"]);
        says(&file, verb, 4, &["addon-name-invalid"]);
        for text in [&object, &file] {
            let template = format!("## template: jinja\n{text}");
            says(
                template,
                verb,
                0,
                &[
                    "cloud-init fills in `{{ v1.local_hostname }}` on the node; it is read here as `v1-local-hostname`",
                ],
            );
        }
    }
    // yip renders what it writes.
    let yip = format!(
        "stages:\n  initramfs:\n  - files:\n    - path: {MANIFESTS}/a.yaml\n      content: |\n{}",
        indented(8, &named("{{ .Values.name }}"))
    );
    says(yip, PLAN, 0, &[]);
}

fn message(parts: &[(&str, &str)]) -> String {
    let mut text =
        "Content-Type: multipart/mixed; boundary=\"==X==\"\nMIME-Version: 1.0\n\n".to_owned();
    for (kind, body) in parts {
        text += &format!("--==X==\nContent-Type: {kind}\n\n{body}\n");
    }
    text + "--==X==--\n"
}

#[test]
fn every_verb_reads_multipart_user_data_and_points_to_its_lines() {
    let first = cloud_config(&[(
        &format!("{MANIFESTS}/a.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A_b}\n",
    )]);
    let second = cloud_config(&[
        (
            "/etc/rancher/rke2/config.yaml.d/60.yaml",
            "kube-apiserver-arg: [feature-gates=NodeAuthorizerEnablePodSelectors=true]\n",
        ),
        ("/etc/windrow/conf.d/a.yaml", "staging: {}\n"),
    ]) + "merge_how: dict(recurse_list)+list(append)\n";
    let text = message(&[
        ("text/x-shellscript", "#!/bin/sh\ntrue"),
        ("text/cloud-config", &first),
        ("text/cloud-config", &second),
    ]);
    let line = |words: &str| text.lines().position(|line| line.contains(words)).unwrap() + 1;
    let name = format!("c.yaml:{}", line("A_b"));
    for verb in [PLAN, REHEARSE] {
        says(
            &text,
            verb,
            4,
            &[
                "object-name-invalid",
                &name,
                "c.yaml:7: a script: its effect is not checked",
            ],
        );
    }
    says(
        &text,
        &["gates", "check", "--rke2", "v1.35"],
        4,
        &[&format!("c.yaml:{}", line("feature-gates"))],
    );
    says(
        text.replace("staging:", "stagng:"),
        &["config", "check"],
        78,
        &[&format!(
            "c.yaml:{}: unknown key `stagng`",
            line("staging:")
        )],
    );
}

#[test]
fn a_part_that_replaces_another_ones_files_is_an_error() {
    let one = cloud_config(&[(&format!("{MANIFESTS}/a.yaml"), NAMESPACE)]);
    let text = message(&[("text/cloud-config", &one), ("text/cloud-config", &one)]);
    says(
        &text,
        PLAN,
        4,
        &[
            "c.yaml:8 nothing reads `write_files`",
            "the part that begins in line 18 has the key too and replaces it",
        ],
    );
    let none = message(&[
        ("text/cloud-config", "#cloud-config\nusers: []"),
        ("text/x-shellscript", "#!/bin/sh"),
    ]);
    says(
        &none,
        PLAN,
        0,
        &["c.yaml: none of its parts writes files below RKE2's server/manifests"],
    );
}

#[test]
fn what_is_not_looked_at_is_named_and_unknown() {
    let one = cloud_config(&[(&format!("{MANIFESTS}/a.yaml"), NAMESPACE)]);
    let include = message(&[
        ("text/cloud-config", &one),
        ("text/x-include-url", "https://example.com/more"),
    ]);
    for verb in [PLAN, REHEARSE] {
        says(
            &include,
            verb,
            5,
            &[
                "not-looked-at",
                "c.yaml:18",
                "it includes what cloud-init fetches from an address",
            ],
        );
        says(
            "#!/bin/sh\ntrue\n",
            verb,
            5,
            &["a script: nothing else is in the file"],
        );
    }
    for verb in [
        &["config", "check"][..],
        &["gates", "check", "--rke2", "v1.35"],
    ] {
        says(
            &include,
            verb,
            5,
            &["c.yaml:18: not checked: it includes what cloud-init fetches from an address"],
        );
    }
}

#[test]
fn packed_user_data_is_unpacked_by_every_verb() {
    let pack = |text: String| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        packer.finish().unwrap()
    };
    let packed = pack(harvester("", "staging: {}"));
    says(
        &packed,
        &["plan"],
        0,
        &["Plan on harvester: 1 manifest file, 1 held"],
    );
    says(
        &packed,
        &["gates", "check", "--rke2", "v1.35"],
        4,
        &["c.yaml (unpacked):"],
    );
    let wrong = pack(harvester("", "stagng: {}"));
    says(&wrong, &["config", "check"], 78, &["c.yaml (unpacked):"]);
}

#[test]
fn a_part_of_a_file_is_not_corrected_in_a_copy() {
    let one = cloud_config(&[(&format!("{MANIFESTS}/A.yaml"), NAMESPACE)]);
    let given = Given::new("c.yaml", message(&[("text/cloud-config", &one)]));
    let ran = given.run(&[
        "check",
        "--details",
        "--runs",
        "2",
        "--fix",
        "copy",
        "c.yaml",
    ]);
    assert!(
        ran.err
            .contains("c.yaml: a part of a file cannot be corrected in a copy"),
        "{}",
        ran.err
    );
    assert!(!given.path("copy").exists());
}
