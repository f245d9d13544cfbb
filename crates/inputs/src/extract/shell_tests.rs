//! Commands whose effect is clear, and commands that may write a manifest.

use super::*;

const DIRECTORY: &str = "/var/lib/rancher/rke2/server/manifests";

fn at(script: &str) -> Option<u32> {
    Some(unclear(&script.replace("DIR", DIRECTORY))?.0)
}

#[test]
fn commands_that_write_no_manifest_are_clear() {
    for script in [
        "mkdir -p DIR",
        "sudo mkdir -p DIR && sudo chown -R root:root DIR",
        "install -d -m 0700 DIR",
        "install -dm 0700 DIR",
        "chmod 600 DIR/*.yaml",
        "chcon -R -t etc_t DIR; restorecon -R DIR",
        "ls -l DIR > /root/list 2>&1",
        "test -d DIR || mkdir -p DIR",
        "[ -d DIR ] && echo there",
        "while [ ! -f DIR/a.yaml ]; do sleep 1; done",
        "if [[ ! -e DIR ]]; then\n  mkdir -p DIR\nfi",
        "touch DIR/a.yaml",
        "cp -r DIR /root/backup",
        "echo 'manifests go to DIR'",
        "echo \"manifests go to DIR\" | tee -a /var/log/site.log",
        "# cp a.yaml DIR\nsystemctl enable rke2-server",
        "bash -c 'mkdir -p DIR'",
        "sh -ec \"mkdir -p DIR; chmod 700 DIR\"",
        "find DIR -name '*.yaml'",
        "cat DIR/a.yaml | grep kind",
        "mkdir \\\n  -p DIR",
        "FOO=bar timeout 5 mkdir -p DIR",
        "cat > /root/x <<EOF\nhello\nEOF\nmkdir -p DIR",
        "#!/bin/bash\nset -e\nmkdir -p DIR\n",
        "sed -n 1p DIR/a.yaml",
    ] {
        assert_eq!(at(script), None, "{script}");
    }
}

#[test]
fn commands_that_may_write_a_manifest_are_unclear_in_their_line() {
    for (script, line) in [
        ("cp a.yaml DIR/", 1),
        ("cp a.yaml DIR/ -v", 1),
        ("cp -vt DIR a.yaml", 1),
        ("ln -s DIR /opt/m; cp a.yaml /opt/m", 1),
        (
            "mkdir -p DIR && cd $_ && curl -O https://example.com/a.yaml",
            1,
        ),
        ("ls DIR/*.yaml | xargs sed -i s/a/b/", 1),
        ("printf 'cp a.yaml DIR' | sh", 1),
        ("mkdir -p DIR\ncp a.yaml DIR/", 2),
        ("mkdir -p DIR && mv a.yaml DIR", 1),
        ("curl -o DIR/a.yaml https://example.com", 1),
        ("echo x > DIR/a.yaml", 1),
        ("echo x >> DIR/a.yaml", 1),
        ("echo x &> DIR/a.yaml", 1),
        ("echo x 1>DIR/a.yaml", 1),
        ("echo x | tee DIR/a.yaml", 1),
        ("cat <<EOF > DIR/a.yaml\na: 1\nEOF", 1),
        ("true\ncat > /root/x.sh <<'EOF'\necho\ncp a DIR\nEOF", 4),
        ("cd DIR && curl -O https://example.com/a.yaml", 1),
        ("D=DIR\ncp a.yaml $D", 1),
        ("for f in a b; do cp $f DIR; done", 1),
        ("ln -s /root/a.yaml DIR/a.yaml", 1),
        ("cp -t DIR a.yaml", 1),
        ("touch DIR/a.yaml.skip", 1),
        ("rm -f DIR/a.yaml", 1),
        ("sed -i s/a/b/ DIR/a.yaml", 1),
        ("find DIR -name '*.bak' -delete", 1),
        ("install -m 600 a.yaml DIR/", 1),
        ("bash -c 'cp a.yaml DIR'", 1),
        ("bash -c '\n\ncp a.yaml DIR'", 3),
        ("chmod 600 $(cp a.yaml DIR)", 1),
        ("chmod 600 `cp a.yaml DIR`", 1),
        ("echo 'no end DIR", 1),
        ("#!/usr/bin/python3\nprint('DIR')", 2),
        ("tar -C DIR -xf a.tar", 1),
    ] {
        assert_eq!(at(script), Some(line), "{script}");
    }
}

#[test]
fn a_command_of_words_is_judged_as_one_in_a_text() {
    assert_eq!(unclear_words(&["mkdir", "-p", DIRECTORY]), None);
    assert_eq!(
        unclear_words(&["sh", "-c", &format!("mkdir -p {DIRECTORY}")]),
        None
    );
    assert!(unclear_words(&["cp", "a.yaml", DIRECTORY]).is_some());
    assert!(unclear_words(&["sh", "-c", &format!("cp a {DIRECTORY}")]).is_some());
}
