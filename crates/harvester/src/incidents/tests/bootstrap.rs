use super::*;

/// A log line, in seconds relative to `now()`.
fn line(minutes_ago: i64, said: &str) -> String {
    let at = now().as_second() - 60 * minutes_ago;
    format!("{at}.123456 n1 rancherd[7]: {said}\n")
}

/// As kubectl prints the message of kube-apiserver about a webhook that closes the connection (rancher#51979).
const BROKE: &str = "level=error msg=\"will retry failed command [/bin/kubectl apply -f -]: exit status 1, Error from server \
    (InternalError): Internal error occurred: failed calling webhook \\\"rancher.cattle.io.clusters.provisioning.cattle.io\\\": \
    failed to call webhook: Post \\\"https://rancher-webhook.cattle-system.svc:443/v1/webhook/validation\\\": EOF\"";

fn local(spec: Value) -> Value {
    json!({"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
        "metadata": {"name": "local", "namespace": "fleet-local"}, "spec": spec})
}

fn codes_of(own: &OwnNode, objects: &Objects) -> Vec<&'static str> {
    let looked = look_at_own(own, objects, now());
    let found = looked.into_iter().flat_map(|one| one.found.unwrap());
    found.map(|one| one.code.as_str()).collect()
}

fn after(journal: &str, panic: Option<String>) -> OwnNode {
    let breaks = WebhookBreaks::read(journal);
    OwnNode {
        name: "n1".to_owned(),
        webhook_breaks: breaks.map(|breaks| WebhookBreaks { panic, ..breaks }),
        ..OwnNode::default()
    }
}

#[test]
fn a_webhook_that_breaks_off_over_rancherds_cluster_again_and_again_is_told() {
    let journal = [20, 12, 5].map(|ago| line(ago, BROKE)).concat();
    let own = after(&journal, Some("runtime error: nil".to_owned()));
    let objects = cluster([local(json!({}))]);
    assert_eq!(codes_of(&own, &objects), ["rancher-webhook-panics"]);
    let breaks = own.webhook_breaks.clone().unwrap();
    assert_eq!(breaks.count, 3);
    assert!(
        breaks.said.starts_with("failed calling webhook \"rancher")
            && breaks.said.ends_with(": EOF")
    );
    // The request was accepted; rancherd has given up or continues; it has only begun.
    let through = cluster([local(json!({"rkeConfig": {}}))]);
    assert_eq!(codes_of(&own, &through), [""; 0]);
    assert_eq!(codes_of(&own, &cluster([])), [""; 0]);
    for ago in [[50, 45, 35], [8, 5, 1]] {
        let journal = ago.map(|ago| line(ago, BROKE)).concat();
        assert_eq!(codes_of(&after(&journal, None), &objects), [""; 0]);
    }
    // No result if the Cluster cannot be read.
    let looked = look_at_own(&own, &Objects::default(), now());
    assert!(
        looked
            .iter()
            .any(|one| one.id.title().contains("rancher-webhook") && one.found.is_err())
    );
}

#[test]
fn a_webhook_that_is_not_up_yet_and_other_webhooks_are_not_counted() {
    for said in [
        BROKE.replace(": EOF", ": connect: connection refused"),
        BROKE.replace("clusters.provisioning.cattle.io", "secrets"),
        "level=info msg=\"[Applyinator] Extracting image\"".to_owned(),
    ] {
        assert_eq!(WebhookBreaks::read(&line(20, &said)), None, "{said}");
    }
    assert_eq!(WebhookBreaks::read("-- No entries --\n"), None);
}

#[test]
fn a_panic_is_the_clusters_only_where_its_functions_are_the_clusters() {
    let panic = "2026-05-01T11:00:00Z stderr F time=\"x\" level=error msg=\"2026/05/01 http: panic serving 10.52.0.1:55: \
                 runtime error: invalid memory address or nil pointer dereference\"\n";
    let of = |package: &str| {
        format!(
            "{panic}2026-05-01T11:00:00Z stderr F goroutine 7 [running]:\n2026-05-01T11:00:00Z stderr F \
                 github.com/rancher/webhook/pkg/resources/{package}.(*provisioningAdmitter).validateDataDirectories(0xc0)\n"
        )
    };
    assert_eq!(
        webhook_panic(&of("provisioning.cattle.io/v1/cluster")).as_deref(),
        Some("runtime error: invalid memory address or nil pointer dereference")
    );
    assert_eq!(webhook_panic(&of("management.cattle.io/v3/feature")), None);
    assert_eq!(webhook_panic(panic), None);
}

/// As in rke2#11056.
const START: [&str; 6] = [
    "level=info msg=\"Applying Pod Security Admission Configuration\"",
    "level=info msg=\"Starting rke2 v1.33.13+rke2r1 (879e8b14)\"",
    "level=info msg=\"Managed etcd cluster bootstrap already complete and initialized\"",
    "level=info msg=\"Reconciling bootstrap data between datastore and disk\"",
    "level=info msg=\"Opening etcd client connection with endpoints [https://127.0.0.1:2379]\"",
    "{\"level\":\"warn\",\"logger\":\"k3s.remotestore\",\"msg\":\"retrying of unary invoker failed\"}",
];
/// The next line of a start that is not blocked.
const FURTHER: &str = "level=info msg=\"Running kube-apiserver --advertise-address=10.0.0.1\"";

/// A journal with this many starts, each of which logs these lines and then fails.
fn journal(starts: u32, said: &[&str]) -> String {
    let mut journal = String::new();
    for number in 0..starts {
        journal += &line(20, "").replace(
            "rancherd[7]: ",
            "systemd[1]: Starting rke2-server.service...",
        );
        for said in said
            .iter()
            .chain(&["level=fatal msg=\"starting kubernetes\""])
        {
            journal += &line(20, said).replace("rancherd[7]", &format!("rke2[{}]", 8000 + number));
        }
    }
    journal
}

fn looping(journal: &str, etcd_answers: bool) -> OwnNode {
    OwnNode {
        name: "n1".to_owned(),
        server_starts: Some(ServerStarts {
            restarts: 40,
            etcd_answers,
            ..ServerStarts::read(journal)
        }),
        ..OwnNode::default()
    }
}

#[test]
fn a_server_whose_starts_all_end_at_the_reconcile_is_told() {
    let lost = line(25, "level=fatal msg=\"leaderelection lost for rke2\"");
    let looped = lost.replace("rancherd", "rke2") + &journal(6, &START);
    let own = looping(&looped, true);
    let starts = own.server_starts.clone().unwrap();
    assert_eq!((starts.at_reconcile, starts.lost_election), (5, true));
    assert_eq!(codes_of(&own, &cluster([])), ["rke2-bootstrap-loop"]);
    // etcd is down, which is another problem; or only a few starts so far.
    assert_eq!(codes_of(&looping(&looped, false), &cluster([])), [""; 0]);
    assert_eq!(
        codes_of(&looping(&journal(5, &START), true), &cluster([])),
        [""; 0]
    );
    // Starts that get further and fail later, or fail before.
    let crashing = journal(9, &[&START[..], &[FURTHER]].concat());
    let own = looping(&(journal(6, &START) + &crashing), true);
    assert_eq!(codes_of(&own, &cluster([])), [""; 0]);
    let crashed_between = [journal(5, &START), crashing.clone(), journal(5, &START)].concat();
    assert_eq!(ServerStarts::read(&crashed_between).at_reconcile, 4);
    assert_eq!(
        ServerStarts::read(&journal(9, &START[..2])),
        ServerStarts::default()
    );
    // The start that lost the election got further, within the last half hour.
    let own = looping(&[crashing, looped].concat(), true);
    assert_eq!(codes_of(&own, &cluster([])), ["rke2-bootstrap-loop"]);
}
