//! RKE2's registries.yaml, judged as RKE2 reads it (`data/registries.yaml`).

use std::sync::LazyLock;

use windrow_model::manifest::yaml::{self, InputFile};
use windrow_model::manifest::{Node, Problem, ReadLimits};
use windrow_model::reasons::Code;
use windrow_model::suggest::nearest;

use crate::input_types::{InputTypes, Misfit, UnknownKey};

static TYPES: LazyLock<InputTypes> = LazyLock::new(|| {
    InputTypes::parse(include_str!("../data/registries.yaml"))
        .expect("the data can be read, which a test holds")
});

/// The values with which RKE2 does not start, and the keys and names that nothing reads. Values are not shown: they may be passwords.
pub fn registries(text: &str) -> Vec<Problem> {
    // RKE2 reads the first document, and takes the last of two equal keys.
    let root = match yaml::input(text, &ReadLimits::default()) {
        Ok(InputFile {
            root: Some(root), ..
        }) => root,
        Ok(_) => return Vec::new(),
        Err(problems) => {
            let refused = |problem: Problem| Problem {
                code: Code::ConfigFileRefused,
                message: format!(
                    "RKE2 does not start with this registries.yaml: {}",
                    problem.message
                ),
                ..problem
            };
            return problems.into_iter().map(refused).collect();
        }
    };
    let found = TYPES.misfits("Registries", &root);
    let mut problems: Vec<Problem> = found.values.iter().map(refused).collect();
    // Keys that hold anchors.
    let keys = found.keys.iter();
    problems.extend(
        keys.filter(|key| !key.entry.key.starts_with("x-"))
            .map(unknown),
    );
    problems.extend(
        ["mirrors", "configs"]
            .iter()
            .flat_map(|key| addresses(&root, key)),
    );
    problems
}

fn refused(misfit: &Misfit) -> Problem {
    let Misfit {
        path, is, expected, ..
    } = misfit;
    let place = match path.as_str() {
        "" => "registries.yaml".to_owned(),
        path => format!("`{path}` of registries.yaml"),
    };
    Problem {
        code: Code::ConfigFileRefused,
        line: Some(misfit.line),
        message: format!("RKE2 does not start: {place} is {is}, not {expected}"),
    }
}

fn unknown(key: &UnknownKey<'_>) -> Problem {
    let meant = nearest(&key.entry.key, key.known.iter().map(String::as_str));
    let hint = match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("it has {}", key.known.join(", ")),
    };
    // Below `auth` it may be a password.
    let shown = match key.path.contains(".auth.") && meant.is_none() {
        true => key.path.rsplit_once('.').map_or("auth", |(above, _)| above),
        false => &key.path,
    };
    not_read(
        shown,
        key.entry.line,
        &format!("RKE2's registries.yaml has no such key; {hint}"),
    )
}

/// Names with a scheme: RKE2 looks for the name of a registry, which has none.
fn addresses(root: &Node, key: &str) -> Vec<Problem> {
    let entries = root.get(key).map_or(&[][..], Node::entries).iter();
    let with_scheme = entries.filter(|entry| entry.key.contains("://"));
    let problem = |line: u32, path: &str| {
        let why = "images are looked up by the name of their registry, without a scheme";
        not_read(path, line, why)
    };
    with_scheme
        .map(|entry| {
            let (_, address) = entry.key.split_once("://").unwrap_or_default();
            let name = address.rsplit_once('@').map_or(address, |(_, name)| name);
            problem(entry.line, &format!("{key}.…{name}"))
        })
        .collect()
}

fn not_read(key: &str, line: u32, why: &str) -> Problem {
    let code = Code::KeyNotRead;
    Problem {
        code,
        line: Some(line),
        message: code.say(&[("key", key), ("why", why)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(Code, Option<u32>)> {
        let problems = registries(text).into_iter();
        problems
            .map(|problem| (problem.code, problem.line))
            .collect()
    }

    #[test]
    fn the_documented_form_is_right() {
        let text = "mirrors:\n  docker.io:\n    endpoint: [https://registry.example.org:5000]\n    rewrite: {'^rancher/(.*)': 'mirror/$1'}\n  \
                    '*': {endpoint: [registry.example.org]}\nconfigs:\n  registry.example.org:5000:\n    \
                    auth: {username: a, password: 1234}\n    tls: {ca_file: /etc/ca.pem, insecure_skip_verify: no}\n";
        assert_eq!(found(text), []);
        for nothing in [
            "",
            "# only a comment\n",
            "mirrors:\n",
            "mirrors: {docker.io: }\n",
        ] {
            assert_eq!(found(nothing), [], "{nothing}");
        }
    }

    #[test]
    fn a_value_of_another_type_keeps_rke2_from_starting() {
        for (text, line) in [
            ("mirrors: [docker.io]\n", 1),
            ("mirrors:\n  docker.io:\n    endpoint: https://a\n", 3),
            ("mirrors:\n  docker.io: [https://a]\n", 2),
            (
                "configs:\n  a:\n    tls: {insecure_skip_verify: 'true'}\n",
                3,
            ),
            ("configs:\n  a:\n    auth: {username: [a]}\n", 3),
            ("- mirrors\n", 1),
            ("mirrors:\n  a: {b\n", 2),
        ] {
            assert_eq!(
                found(text),
                [(Code::ConfigFileRefused, Some(line))],
                "{text}"
            );
        }
    }

    #[test]
    fn a_key_or_name_that_nothing_reads_is_found() {
        for (text, line) in [
            ("mirror:\n  docker.io: {endpoint: []}\n", 1),
            ("mirrors:\n  docker.io:\n    endpoints: [https://a]\n", 3),
            ("configs:\n  a:\n    auth: {user: b}\n", 3),
            ("mirrors:\n  https://docker.io: {endpoint: []}\n", 2),
        ] {
            assert_eq!(found(text), [(Code::KeyNotRead, Some(line))], "{text}");
        }
    }
}
