//! Valid and invalid entries of `probes.custom`, and the messages about them.

use windrow_model::manifest::yaml;

use super::*;

fn section(text: &str) -> Result<Vec<ProbeSetting>, Vec<ConfigError>> {
    read(
        "windrow.yaml",
        &yaml::parse_configuration(text).unwrap().unwrap(),
    )
}

fn probes(text: &str) -> Vec<CustomProbe> {
    let settings = section(text).unwrap();
    settings.into_iter().filter_map(|one| one.probe).collect()
}

fn wrong(text: &str) -> Vec<String> {
    let errors = section(text).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_probe_needs_only_what_it_asks_and_is_wanted_by_all_roles() {
    let read = probes("time: {unit: {name: chronyd.service}}\n");
    assert_eq!(
        read,
        [CustomProbe {
            name: "time".to_owned(),
            question: CustomQuestion::Unit {
                name: "chronyd.service".to_owned(),
                states: vec!["active".to_owned()],
            },
            period: Duration::from_secs(30),
            timeout: Duration::from_secs(5),
            rise: 1,
            fall: 3,
            severity: ProbeSeverity::Wanted,
            roles: ROLES.iter().map(|(_, role)| *role).collect(),
            phase: Phase::Node,
            message: None,
        }]
    );
}

#[test]
fn a_name_may_have_digits_and_hyphens_between_its_letters() {
    for name in ["disk-1", "3par", "a"] {
        let read = probes(&format!("{name}: {{tcp: {{address: 'a:1'}}}}\n"));
        assert_eq!(read[0].name, name);
    }
}

#[test]
fn every_kind_is_read_with_all_its_keys() {
    let read = probes(
        "\
registry:
  http:
    url: https://registry.example:5000/v2/?token=s3cret
    status: [200, 401]
    contains: ok
    caFile: /etc/ssl/registry.pem
    headersFile: /etc/windrow/registry.headers
  period: 1m
  timeout: 10s
  rise: 2
  fall: 5
  severity: required
  roles: [first-server, agent]
  phase: ready
  message: no image can be pulled
storage: {tcp: {address: '[fd00::9]:3260'}}
swap: {file: {path: /proc/swaps, contains: Filename, newerThan: 10m}}
lock: {file: {path: /run/maintenance, state: absent}}
proxy: {object: {apiVersion: apps/v1, kind: Deployment, namespace: web, name: proxy, expression: object.status.availableReplicas > 1}}
own: {object: {apiVersion: v1, kind: Node, expression: \"'gpu' in object.metadata.labels\"}}
",
    );
    let [registry, storage, swap, lock, proxy, own] = read.as_slice() else {
        panic!("{read:?}");
    };
    assert!(matches!(&registry.question, CustomQuestion::Http(http)
        if http.status == [200, 401] && http.headers_file.is_some() && !http.insecure));
    assert_eq!(registry.roles, [NodeRole::FirstServer, NodeRole::Agent]);
    assert_eq!(
        (registry.severity, registry.phase),
        (ProbeSeverity::Required, Phase::Ready)
    );
    assert_eq!((registry.rise, registry.fall), (2, 5));
    assert!(
        matches!(&storage.question, CustomQuestion::Tcp { host, port: 3260 } if host == "fd00::9")
    );
    assert!(
        matches!(&swap.question, CustomQuestion::File(file) if file.exists && file.newer_than.is_some())
    );
    assert!(matches!(&lock.question, CustomQuestion::File(file) if !file.exists));
    // Probes that only an admin may run are for servers by default.
    assert_eq!(proxy.roles, [NodeRole::FirstServer, NodeRole::JoinedServer]);
    assert_eq!(own.roles.len(), 4);
}

#[test]
fn everything_that_is_wrong_is_named_with_its_line() {
    let said = wrong(
        "\
Upper: {tcp: {address: 'a:1'}}
none: {period: 30s}
two:
  tcp: {address: 'a:1'}
  unit: {name: a.service}
keys: {tcp: {address: 'a:1', adress: x}, servity: wanted}
port: {tcp: {address: 'host'}}
url: {http: {url: 'ftp://x/'}}
user: {http: {url: 'https://me:s3cret@host/'}}
status: {http: {url: 'http://a/', status: [200, 999]}}
certs: {http: {url: 'https://a/', insecure: true, caFile: /ca.pem}}
relative: {file: {path: etc/x}}
absent: {file: {path: /x, state: absent, contains: a}}
unit: {unit: {name: chronyd}}
state: {unit: {name: a.service, state: running}}
cel: {object: {apiVersion: v1, kind: Pod, name: x, expression: 'object.spec ='}, roles: [agent]}
period: {tcp: {address: 'a:1'}, period: 1s}
timeout: {tcp: {address: 'a:1'}, period: 10s, timeout: 10s}
phase: {tcp: {address: 'a:1'}, phase: manifests}
text: 5
zero: {tcp: {address: 'host:0'}}
pod: {object: {apiVersion: v1, kind: Pod}}
other: {object: {apiVersion: example.com/v1, kind: Node}}
",
    );
    let starts = [
        ":1: probes.custom.Upper: a name is lower-case",
        ":2: probes.custom.none: what does it ask? Write one of http, tcp, unit, file or object",
        ":5: probes.custom.two: it asks 2 things at once",
        ":6: unknown key `probes.custom.keys.servity`: did you mean `severity`?",
        ":6: unknown key `probes.custom.keys.tcp.adress`: did you mean `address`?",
        ":7: probes.custom.port.tcp.address: expected HOST:PORT",
        ":8: probes.custom.url.http.url: it has to begin with http://",
        ":9: probes.custom.user.http.url: a user or a password does not belong",
        ":10: probes.custom.status.http.status: expected an HTTP status",
        ":11: probes.custom.certs.http.caFile: `insecure: true`",
        ":12: probes.custom.relative.file.path: expected an absolute path",
        ":13: probes.custom.absent.file: a file that must be absent",
        ":14: probes.custom.unit.unit.name: `chronyd` is not a unit",
        ":15: probes.custom.state.unit.state: expected active, reloading",
        ":16: probes.custom.cel.object.expression: the expression cannot be read",
        ":16: probes.custom.cel.roles: the identity of a node",
        ":17: probes.custom.period.period: 1s is too short",
        ":18: probes.custom.timeout.timeout: 10s is too long",
        ":19: probes.custom.phase.phase: expected network,",
        ":20: probes.custom.text: expected a map",
        ":21: probes.custom.zero.tcp.address: expected HOST:PORT",
        ":22: probes.custom.pod.object",
        ":23: probes.custom.other.object",
    ];
    for (said, start) in said.iter().zip(starts) {
        let expected = format!("windrow.yaml{start}");
        assert!(said.starts_with(&expected), "{said}\nnot {expected}");
        assert!(!said.contains("s3cret"), "{said}");
    }
    assert_eq!(said.len(), starts.len(), "{said:#?}");
}

#[test]
fn what_a_nodes_identity_may_not_ask_is_refused_where_it_is_written() {
    for (object, refused) in [
        ("{apiVersion: apps/v1, kind: Deployment, name: x}", true),
        ("{apiVersion: v1, kind: Pod, name: x}", true),
        ("{apiVersion: v1, kind: Node, name: other}", true),
        ("{apiVersion: example.com/v1, kind: Service, name: x}", true),
        ("{apiVersion: v1, kind: Service, name: x}", false),
        ("{apiVersion: v1, kind: Node}", false),
    ] {
        for role in ["agent", "witness"] {
            let text = format!("x:\n  object: {object}\n  roles: [first-server, {role}]\n");
            match refused {
                true => {
                    let said = wrong(&text).join("\n");
                    assert!(
                        said.starts_with("windrow.yaml:3: probes.custom.x.roles: "),
                        "{said}"
                    );
                    assert!(said.contains("system:node"), "{said}");
                }
                false => assert_eq!(probes(&text).len(), 1, "{object}"),
            }
        }
    }
}

#[test]
fn what_is_shown_of_a_probe_keeps_its_secrets() {
    let settings = section("a: {http: {url: 'https://h/p?token=s3cret'}}\nb: {enabled: false}\n");
    let shown: Vec<String> = settings.unwrap().iter().map(ProbeSetting::show).collect();
    assert_eq!(shown, ["http https://h, every 30s, wanted", "off"]);
}

#[test]
fn each_probe_of_the_table_can_be_switched_off_and_changed_by_itself() {
    use crate::settings::{ConfigFile, ConfigFileRole, ConfigFiles, merge};
    use windrow_plan::readiness::node::{BUILTIN, ProbeLimit, ProbeSeverity, tuned_specs};

    let load = |text: String| {
        let loaded = merge(ConfigFiles {
            files: vec![ConfigFile {
                role: ConfigFileRole::Settings,
                name: "50-site.yaml".to_owned(),
                path: "50-site.yaml".into(),
                text,
            }],
            ..ConfigFiles::default()
        });
        assert_eq!(loaded.errors, []);
        loaded.settings.probes.tunings
    };
    for row in BUILTIN {
        let limit = match row.limit {
            None => "",
            Some(ProbeLimit::FreePercent(_) | ProbeLimit::InodesPercent(_)) => ", limit: 7%",
            Some(ProbeLimit::FreeBytes(_)) => ", limit: 7GiB",
            Some(ProbeLimit::LoadPerCore(_)) => ", limit: 7",
            Some(ProbeLimit::Left(_)) => ", limit: 7d",
            Some(ProbeLimit::Degrees(_)) => ", limit: 7",
            Some(ProbeLimit::ErrorsPerMillion(_)) => ", limit: 700",
        };
        let name = row.name;
        let off = load(format!(
            "probes:\n  builtin:\n    {name}: {{enabled: false}}\n"
        ));
        let changed = load(format!(
            "probes: {{builtin: {{{name}: {{period: 2h, fall: 7, severity: wanted{limit}}}}}}}\n"
        ));
        for role in row.roles {
            let plain = tuned_specs(*role, row.platform, &[]);
            let without = tuned_specs(*role, row.platform, &off);
            let with = tuned_specs(*role, row.platform, &changed);
            for ((plain, without), with) in plain.iter().zip(&without).zip(&with) {
                if plain.id.as_str() != name {
                    assert_eq!(
                        (without, with),
                        (plain, plain),
                        "{name} changes {}",
                        plain.id
                    );
                    continue;
                }
                let place = without.off.as_ref().map(ToString::to_string);
                assert_eq!(place.as_deref(), Some("50-site.yaml:3"), "{name}");
                assert_eq!((with.period.as_secs(), with.fall), (7200, 7), "{name}");
                assert_eq!(with.severity, ProbeSeverity::Wanted, "{name}");
                assert_eq!(with.limit.is_some(), row.limit.is_some(), "{name}");
                if let Some(limit) = &with.limit {
                    assert!(limit.starts_with('7'), "{name}: {limit}");
                }
            }
        }
    }
}
