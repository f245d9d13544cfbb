//! The scheduler: which probes run, and what becomes of one that hangs.

use std::sync::Arc;
use std::time::Duration;

use super::servers::{Says, Server};
use super::*;
use crate::rules::Platform;

const PATIENCE: Duration = Duration::from_secs(60);

async fn next(events: &mut mpsc::Receiver<ClusterEvent>) -> NodeEvent {
    let event = tokio::time::timeout(PATIENCE, events.recv()).await;
    match event.unwrap().unwrap() {
        ClusterEvent::Node(event) => event,
        other => panic!("{other:?}"),
    }
}

fn wants(platform: Platform) -> Interests {
    Interests {
        probes: Some(ProbeInterest {
            platform: Some(platform),
            installed: true,
            ..ProbeInterest::default()
        }),
        ..Interests::default()
    }
}

#[tokio::test]
async fn probing_begins_with_the_role_and_ends_when_it_is_switched_off() {
    let place = Place::new();
    place.write("/var/lib/rancher/rke2/server/tls/server-ca.crt", "");
    place.write("/proc/sys/kernel/random/boot_id", "boot-7\n");
    let (interests, wanted) = watch::channel(wants(Platform::Harvester));
    let (events, mut told) = mpsc::channel(64);
    let task = tokio::spawn(probe(Arc::new(place.world()), wanted, events));
    match next(&mut told).await {
        NodeEvent::Probing { role, boot, specs } => {
            assert_eq!((role, boot.as_str()), (Role::FirstServer, "boot-7"));
            assert!(specs.iter().any(|spec| spec.id.as_str() == "apiserver"));
            assert!(
                specs.iter().all(|spec| !spec.day_zero),
                "it was installed before"
            );
        }
        other => panic!("{other:?}"),
    }
    let mut answered = std::collections::BTreeSet::new();
    while answered.len() < 10 {
        if let NodeEvent::Probed(id, _) = next(&mut told).await {
            answered.insert(id);
        }
    }
    interests.send(Interests::default()).unwrap();
    while next(&mut told).await != NodeEvent::NotProbing {}
    drop(told);
    task.await.unwrap();
}

#[tokio::test]
async fn rke2s_data_directory_and_probes_of_the_configuration_may_change_while_the_node_is_probed()
{
    let place = Place::new();
    place.write("/data/rke2/server/tls/server-ca.crt", "");
    let (interests, wanted) = watch::channel(wants(Platform::Rke2));
    let (events, mut told) = mpsc::channel(64);
    let world = Arc::new(place.world());
    let task = tokio::spawn(probe(world.clone(), wanted, events));
    let first = next(&mut told).await;
    assert!(
        matches!(
            first,
            NodeEvent::Probing {
                role: Role::Unknown,
                ..
            }
        ),
        "{first:?}"
    );
    let mut changed = wants(Platform::Rke2);
    if let Some(probes) = &mut changed.probes {
        probes.data_dir = "/data/rke2".to_owned();
        let question =
            crate::readiness::node::CustomQuestion::File(crate::readiness::node::FileQuestion {
                path: "/nowhere".to_owned(),
                exists: true,
                contains: None,
                newer_than: None,
            });
        probes.custom = Arc::new([super::custom::probe(question)]);
    }
    interests.send(changed).unwrap();
    loop {
        if let NodeEvent::Probing { role, specs, .. } = next(&mut told).await {
            assert_eq!(role, Role::FirstServer);
            assert!(specs.iter().any(|spec| spec.id.as_str() == "user/mine"));
            break;
        }
    }
    assert!(
        world
            .layout()
            .manifests()
            .ends_with("data/rke2/server/manifests")
    );
    loop {
        if let NodeEvent::Probed(id, outcome) = next(&mut told).await
            && id.as_str() == "user/mine"
        {
            assert_eq!(failed(&outcome), "there is no /nowhere");
            break;
        }
    }
    drop(told);
    task.await.unwrap();
}

#[tokio::test]
async fn a_probe_that_hangs_is_unknown_and_keeps_no_other_waiting() {
    let mut place = Place::new();
    let silent = Server::http(|_| Says::Nothing).await;
    place.admin(&silent);
    let healthy = Server::http(|_| Says::ok("ok")).await;
    place.endpoints.kubelet.clone_from(&healthy.url);
    let world = Arc::new(place.world());
    let subject = Subject {
        interest: ProbeInterest {
            platform: Some(Platform::Rke2),
            installed: false,
            ..ProbeInterest::default()
        },
        role: Role::FirstServer,
        node: "n1".to_owned(),
    };
    let (events, mut told) = mpsc::channel(64);
    for mut spec in specs(Role::FirstServer, Some(Platform::Rke2)) {
        spec.period = Duration::from_millis(5);
        // Long beside what an answer takes here, also on a loaded machine.
        spec.timeout = Duration::from_secs(2);
        if matches!(spec.id.as_str(), "node" | "kubelet") {
            tokio::spawn(one(world.clone(), subject.clone(), spec, events.clone()));
        }
    }
    let mut kubelet = 0;
    loop {
        if let NodeEvent::Probed(id, outcome) = next(&mut told).await {
            match id.as_str() {
                "kubelet" => kubelet += 1,
                _ => {
                    assert!(unknown(&outcome).contains("no answer within"));
                    break;
                }
            }
        }
    }
    assert!(kubelet > 1, "the other one went on");
}
