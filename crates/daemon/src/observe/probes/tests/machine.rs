//! The machine, below a temporary root.

use super::*;
use crate::observe::host::read_host;
use crate::observe::probes::{certificates, hardware, host, role};
use windrow_host::HardwareInventory;
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::{ProbeLimit, limit_of};

fn memory(place: &TestNode) -> ProbeOutcome {
    host::memory(&place.context(), limit_of("memory", &[]))
}

fn load(place: &TestNode) -> ProbeOutcome {
    host::load(&place.context(), limit_of("load", &[]))
}

fn expiry(place: &TestNode) -> ProbeOutcome {
    certificates::expiry(&place.context(), limit_of("certificates", &[]))
}

fn disk(place: &TestNode, scarce: host::Scarce, limit: Option<ProbeLimit>) -> ProbeOutcome {
    host::disk(&place.context(), scarce, limit)
}

#[test]
fn the_default_route_is_read_and_what_cannot_be_read_is_not_known() {
    let place = TestNode::new();
    assert!(unknown(&host::default_route(&place.context())).contains("/proc/net/route"));
    let head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n";
    place.write("/proc/net/route", head);
    assert!(failed(&host::default_route(&place.context())).contains("neither"));
    let route = "e0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n";
    place.write("/proc/net/route", format!("{head}{route}"));
    assert_eq!(host::default_route(&place.context()), ProbeOutcome::Passed);
}

#[test]
fn a_physical_nic_with_a_link_is_enough_and_a_bridge_is_none() {
    let place = TestNode::new();
    place.write("/sys/class/net/mgmt-br/carrier", "1\n");
    assert!(unknown(&host::carrier(&place.context())).contains("no physical NIC"));
    place.write("/sys/class/net/e0/carrier", "0\n");
    place.write("/sys/class/net/e0/device/vendor", "x");
    assert_eq!(
        failed(&host::carrier(&place.context())),
        "e0 without a link"
    );
    place.write("/sys/class/net/e1/carrier", "1\n");
    place.write("/sys/class/net/e1/device/vendor", "x");
    assert_eq!(host::carrier(&place.context()), ProbeOutcome::Passed);
}

#[test]
fn memory_and_load_are_judged_by_the_kernels_figures() {
    let place = TestNode::new();
    assert!(unknown(&memory(&place)).contains("/proc/meminfo"));
    place.write("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 4 kB\n");
    assert_eq!(failed(&memory(&place)), "4% available (less than 5%)");
    place.write("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 40 kB\n");
    assert_eq!(memory(&place), ProbeOutcome::Passed);
    place.write("/proc/meminfo", "garbage");
    assert!(unknown(&memory(&place)).contains("no figures"));
    place.write("/proc/stat", "cpu  1 2\ncpu0 1\ncpu1 1\nintr 5\n");
    place.write("/proc/loadavg", "90.00 50.00 9.00 1/2 3\n");
    assert!(failed(&load(&place)).contains("2 cores"));
    // Four for each core are not more than four.
    for load_average in ["7.00", "8.00"] {
        place.write(
            "/proc/loadavg",
            format!("90.00 50.00 {load_average} 1/2 3\n"),
        );
        assert_eq!(load(&place), ProbeOutcome::Passed, "{load_average}");
    }
}

#[test]
fn hardware_that_is_as_it_was_at_first_passes_and_a_link_that_is_gone_is_told() {
    let place = TestNode::new();
    let ask = || hardware::hardware(&place.context());
    assert!(unknown(&ask()).contains("not been written down yet"));
    place.write("/sys/class/net/e0/device/vendor", "x");
    place.write("/sys/class/net/e0/address", "52:54:00:00:00:01\n");
    let now = Timestamp::now();
    let inventory = HardwareInventory::begun(now).with(&read_host(&place.layout(), now));
    let text = serde_json::to_string(&inventory).unwrap();
    fs::create_dir_all(place.layout().state_dir()).unwrap();
    fs::write(place.layout().hardware(), text).unwrap();
    assert_eq!(ask(), ProbeOutcome::Passed);
    fs::remove_dir_all(place.layout().path("/sys/class/net/e0")).unwrap();
    assert!(failed(&ask()).contains("e0"));
}

#[test]
fn the_disk_is_looked_at_where_rke2_lives() {
    let place = TestNode::new();
    let nothing = disk(
        &place,
        host::Scarce::Space,
        Some(ProbeLimit::FreePercent(10)),
    );
    assert!(unknown(&nothing).contains("none of RKE2's directories"));
    place.write("/var/lib/rancher/rke2/agent/x", "");
    // This depends on the machine's own file system; both answers are valid.
    for (scarce, limit) in [
        (host::Scarce::Space, ProbeLimit::FreePercent(10)),
        (host::Scarce::Inodes, ProbeLimit::InodesPercent(5)),
    ] {
        let outcome = disk(&place, scarce, Some(limit));
        assert!(!matches!(outcome, ProbeOutcome::Unknown { .. }));
    }
    // No file system has so much, and every one has a byte.
    let bytes = |bytes| {
        disk(
            &place,
            host::Scarce::Space,
            Some(ProbeLimit::FreeBytes(bytes)),
        )
    };
    let low = bytes(u64::MAX);
    assert!(failed(&low).starts_with("/var/lib/rancher/rke2/agent has "));
    assert!(failed(&low).contains("% free (less than 17592186044416 MiB)"));
    assert_eq!(bytes(1), ProbeOutcome::Passed);
}

#[test]
fn a_disk_that_cannot_be_read_is_not_one_with_room() {
    let place = TestNode::new();
    let limit = Some(ProbeLimit::FreeBytes(1));
    place.write("/var/lib/rancher/rke2/agent/x", "");
    assert_eq!(
        disk(&place, host::Scarce::Space, limit),
        ProbeOutcome::Passed
    );
    let server = place.layout().data_dir().join("server");
    fs::create_dir_all(&server).unwrap();
    // A link to itself: not even root can read it.
    std::os::unix::fs::symlink("db", server.join("db")).unwrap();
    unknown(&disk(&place, host::Scarce::Space, limit));
}

#[test]
fn the_certificate_that_runs_out_first_is_told() {
    let place = TestNode::new();
    assert!(unknown(&expiry(&place)).contains("none yet"));
    let tls = "/var/lib/rancher/rke2/server/tls";
    place.write(&format!("{tls}/good.crt"), certificate(300));
    assert_eq!(expiry(&place), ProbeOutcome::Passed);
    place.write(&format!("{tls}/garbage.crt"), "garbage");
    place.write(
        "/var/lib/rancher/rke2/agent/client-kubelet.crt",
        certificate(3),
    );
    assert_eq!(
        failed(&expiry(&place)),
        "client-kubelet.crt runs out in 3 days"
    );
}

#[test]
fn what_is_larger_than_a_certificate_or_no_file_is_not_read() {
    let place = TestNode::new();
    let large = certificate(3) + &"\n".repeat(1 << 20);
    let large = place.write("/large.crt", large);
    let directory = place.layout().path("/directory.crt");
    fs::create_dir(&directory).unwrap();
    for path in [large, directory] {
        let why = certificates::not_after(&path).unwrap_err();
        assert_eq!(why, "it is not a certificate file", "{}", path.display());
    }
}

/// As in harvester#3863: the components keep the files that they made themselves.
#[test]
fn certificates_of_etcd_and_of_components_are_looked_at_in_their_own_directories() {
    let tls = "/var/lib/rancher/rke2/server/tls";
    for (file, code) in [
        ("etcd/server-client.crt", None),
        (
            "kube-scheduler/kube-scheduler.crt",
            Some(Code::ComponentCertificateExpiring),
        ),
        (
            "kube-controller-manager/kube-controller-manager.crt",
            Some(Code::ComponentCertificateExpiring),
        ),
    ] {
        let place = TestNode::new();
        place.write(&format!("{tls}/client-admin.crt"), certificate(300));
        place.write(&format!("{tls}/{file}"), certificate(-3));
        // Nothing is served with these.
        place.write(&format!("{tls}/temporary-certs/a.crt"), certificate(-9));
        let expected = ProbeOutcome::Failed {
            why: format!("{file} has run out"),
            code,
            stuck: false,
        };
        assert_eq!(expiry(&place), expected);
    }
}

#[test]
fn a_certificate_that_cannot_be_read_is_unknown_unless_another_one_expires() {
    let place = TestNode::new();
    let tls = |name: &str| format!("/var/lib/rancher/rke2/{name}");
    place.write(&tls("server/tls/good.crt"), certificate(300));
    place.write(&tls("agent/client-kubelet.crt"), "");
    let outcome = expiry(&place);
    assert!(
        unknown(&outcome).starts_with("client-kubelet.crt: "),
        "{outcome:?}"
    );
    place.write(&tls("server/tls/old.crt"), certificate(3));
    assert!(failed(&expiry(&place)).starts_with("old.crt runs out"));
}

fn certificate(days: i64) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["n1".to_owned()]).unwrap();
    let end = Timestamp::now().as_second() + days * 86_400 + 3600;
    params.not_after = (std::time::UNIX_EPOCH
        + std::time::Duration::from_secs(u64::try_from(end).unwrap()))
    .into();
    params.self_signed(&key).unwrap().pem()
}

#[tokio::test]
async fn without_a_bus_the_role_comes_from_what_rke2_left_on_the_disk() {
    let place = TestNode::new();
    place.write("/proc/sys/kernel/hostname", "Node-1\n");
    assert_eq!(
        role::role_and_name(&place.context()).await,
        (NodeRole::Unknown, "node-1".to_owned())
    );
    place.write("/var/lib/rancher/rke2/agent/kubelet.kubeconfig", "");
    assert_eq!(
        role::role_and_name(&place.context()).await.0,
        NodeRole::Agent
    );
    place.write("/var/lib/rancher/rke2/server/tls/server-ca.crt", "");
    assert_eq!(
        role::role_and_name(&place.context()).await.0,
        NodeRole::FirstServer
    );
    let dropin = "/etc/rancher/rke2/config.yaml.d/40-rancherd.yaml";
    place.write(dropin, "server: https://10.0.0.9:9345\nnode-name: n7\n");
    assert_eq!(
        role::role_and_name(&place.context()).await,
        (NodeRole::JoinedServer, "n7".to_owned())
    );
    let witness = "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml";
    place.write(witness, "disable-apiserver: true\n");
    assert_eq!(
        role::role_and_name(&place.context()).await.0,
        NodeRole::Witness
    );
}
