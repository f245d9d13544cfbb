use windrow_model::reasons::{Code, Severity};

use super::super::findings;

const FIXED: &str = "\
scheme_version: 1
token: tok
os:
  hostname: yard1
  password: pw
  dns_nameservers: [192.0.2.3]
install:
  mode: create
  automatic: true
  management_interface:
    interfaces: [{name: eno1}]
    method: static
    ip: 192.0.2.20
    subnet_mask: 255.255.255.128
    gateway: 192.0.2.1
  device: /dev/sda
  iso_url: http://192.0.2.3/h.iso
  vip: 192.0.2.21
  vip_mode: static
";

fn with(from: &str, to: &str) -> String {
    assert!(FIXED.contains(from), "{from}");
    FIXED.replacen(from, to, 1)
}

fn said(text: &str, version: &str) -> Vec<(Code, Severity, u32)> {
    let version = (!version.is_empty()).then(|| version.parse().unwrap());
    let found = findings("c.yaml", text, version).into_iter();
    found
        .map(|one| (one.code, one.severity, one.at[0].line.unwrap()))
        .collect()
}

fn overlooked(line: u32) -> Vec<(Code, Severity, u32)> {
    vec![(Code::InstallerOverlooks, Severity::Error, line)]
}

fn depends(line: u32) -> Vec<(Code, Severity, u32)> {
    vec![(Code::InstallerDepends, Severity::Warning, line)]
}

#[test]
fn a_label_that_the_kubelet_must_not_set_stops_it() {
    let labelled = |labels: &str| with("os:\n", &format!("os:\n  labels: {{{labels}}}\n"));
    assert_eq!(
        said(&labelled("node-role.kubernetes.io/gpu: 'true'"), ""),
        overlooked(4)
    );
    assert_eq!(
        said(&labelled("topology.kubernetes.io/zone: z1, rack: r1"), ""),
        []
    );
}

#[test]
fn texts_that_the_installer_takes_whatever_they_are_are_listed_with_their_lines() {
    let listed = super::super::unjudged("c.yaml", FIXED, None);
    let listed: Vec<String> = listed
        .iter()
        .map(|one| format!("{} {}", one.at[0], one.what))
        .collect();
    assert_eq!(
        listed,
        [
            "c.yaml:2 `token`",
            "c.yaml:4 `os.hostname`",
            "c.yaml:5 `os.password`",
            "c.yaml:6 `os.dnsNameservers`",
            "c.yaml:9 `install.automatic`",
            "c.yaml:11 `install.managementInterface.interfaces[].name`",
            "c.yaml:16 `install.device`",
            "c.yaml:17 `install.isoUrl`",
        ]
    );
    assert_eq!(super::super::unjudged("a.yaml", "token: x\n", None), []);
    let line = "kernel vmlinuz harvester.install.device=/dev/sda\n  harvester.token=t\n";
    let listed = super::super::unjudged("boot.ipxe", line, None);
    let listed: Vec<String> = listed
        .iter()
        .map(|one| format!("{} {}", one.at[0], one.what))
        .collect();
    assert_eq!(
        listed,
        ["boot.ipxe:1 `install.device`", "boot.ipxe:2 `token`"]
    );
}

#[test]
fn addresses_that_fit_each_other_are_accepted() {
    for fitting in [
        FIXED.to_owned(),
        with("255.255.255.128", "255.255.0.0"),
        with("vip: 192.0.2.21", "vip: 192.0.2.126"),
        with(
            "  dns_nameservers: [192.0.2.3]",
            "  dns_nameservers: [192.0.2.3, 9.9.9.9]",
        ),
        // The last address is the broadcast address only of larger networks.
        with("192.0.2.20\n", "192.0.2.0\n").replace("255.255.255.128", "255.255.255.254"),
    ] {
        let found = said(&fitting, "v1.8.1");
        let errors = found
            .iter()
            .filter(|(_, severity, _)| *severity == Severity::Error);
        assert_eq!(errors.count(), 0, "{fitting}: {found:?}");
    }
    assert_eq!(said(FIXED, ""), []);
}

#[test]
fn addresses_of_the_node_that_cannot_work_are_errors_in_each_mode() {
    for (wrong, line) in [
        (with("255.255.255.128", "255.255.0.255"), 14),
        (with("ip: 192.0.2.20", "ip: 192.0.2.127"), 13),
        (with("ip: 192.0.2.20", "ip: 192.0.2.0"), 13),
        (
            with("ip: 192.0.2.20", "ip: 239.0.0.20")
                .replace("gateway: 192.0.2.1", "gateway: 239.0.0.21"),
            13,
        ),
        (with("gateway: 192.0.2.1", "gateway: 192.0.2.20"), 15),
        (with("gateway: 192.0.2.1", "gateway: 192.0.2.127"), 15),
    ] {
        let has = |text: &str, line| {
            let found = said(text, "");
            assert!(found.contains(&overlooked(line)[0]), "{text}: {found:?}");
        };
        has(&wrong, line);
        let joins = wrong.replace("mode: create", "mode: join").replace(
            "token: tok\n",
            "token: tok\nserver_url: https://192.0.2.21\n",
        );
        has(&joins, line + 1);
    }
}

#[test]
fn a_gateway_or_a_vip_outside_the_network_may_have_a_route() {
    assert_eq!(
        said(&with("gateway: 192.0.2.1", "gateway: 192.0.2.129"), ""),
        depends(15)
    );
    let vip = with("vip: 192.0.2.21", "vip: 198.51.100.21");
    assert_eq!(said(&vip, ""), depends(18));
    let joins = vip.replace("mode: create", "mode: join").replace(
        "token: tok\n",
        "token: tok\nserver_url: https://198.51.100.21\n",
    );
    assert_eq!(said(&joins, ""), []);
}

#[test]
fn the_vip_is_an_address_that_no_other_computer_has() {
    for address in [
        "192.0.2.20",
        "192.0.2.1",
        "192.0.2.127",
        "224.0.0.20",
        "127.0.0.1",
        "0.0.0.0",
    ] {
        let text = with("vip: 192.0.2.21", &format!("vip: {address}"));
        assert_eq!(said(&text, ""), overlooked(18), "{address}");
        // A node that joins does not use the key.
        let joins = text.replace("mode: create", "mode: join").replace(
            "token: tok\n",
            "token: tok\nserver_url: https://192.0.2.21\n",
        );
        assert_eq!(said(&joins, ""), [], "{address}");
    }
    let by_dhcp = FIXED
        .replace("method: static", "method: dhcp")
        .replace("vip: 192.0.2.21", "vip: 192.0.2.20");
    assert_eq!(said(&by_dhcp, ""), []);
}

#[test]
fn the_networks_of_the_cluster_contain_no_address_of_others() {
    let moved = |to: &str| FIXED.replace("192.0.2.", to);
    assert_eq!(said(&moved("10.52.3."), ""), overlooked(13));
    assert_eq!(said(&moved("10.53.3."), "v1.4.3"), overlooked(13));
    assert_eq!(said(&moved("10.54.3."), ""), []);
    // The routes of a flat network around them are shorter.
    let flat = moved("10.1.1.").replace("255.255.255.128", "255.0.0.0");
    let unintended = (Code::InstallerUnintended, Severity::Warning, 13);
    assert_eq!(said(&flat, ""), [unintended; 2]);
    let inside = flat.replace("gateway: 10.1.1.1", "gateway: 10.52.1.1");
    assert!(said(&inside, "").contains(&overlooked(13)[0]));
    let cluster = |lines: &str| with("  mode: create\n", &format!("  mode: create\n{lines}"));
    for (lines, line) in [
        ("  cluster_pod_cidr: 192.0.0.0/16\n", 9),
        (
            "  cluster_service_cidr: 192.0.2.0/26\n  cluster_dns: 192.0.2.10\n",
            9,
        ),
        ("  cluster_pod_cidr: 10.53.8.0/24\n", 9),
    ] {
        assert_eq!(said(&cluster(lines), "v1.8.1"), overlooked(line), "{lines}");
    }
    assert_eq!(
        said(&cluster("  cluster_pod_cidr: 10.44.0.0/16\n"), "v1.8.1"),
        []
    );
    let beside = "  cluster_service_cidr: 192.0.2.64/26\n  cluster_dns: 192.0.2.70\n";
    let unintended = (Code::InstallerUnintended, Severity::Warning, 9);
    assert_eq!(said(&cluster(beside), "v1.8.1"), [unintended]);
    let name = with("[192.0.2.3]", "[10.53.0.10]");
    assert_eq!(said(&name, ""), overlooked(6));
    // Releases before v1.5.0 do not read the key.
    let all = said(&cluster("  cluster_pod_cidr: 192.0.0.0/16\n"), "");
    assert!(all.contains(&depends(9)[0]), "{all:?}");
}

#[test]
fn the_storage_network_gives_no_address_that_others_have() {
    let of = |value: &str| format!("{FIXED}system_settings:\n  storage-network: '{value}'\n");
    for (wrong, why) in [
        (
            r#"{"vlan":9,"clusterNetwork":"uplink","range":"198.51.100.0/24","exclude":["198.51.0.0/16"]}"#,
            "leaves no address",
        ),
        (
            r#"{"vlan":9,"clusterNetwork":"uplink","range":"198.51.100.0/24","exclude":["198.51.100.9/24"]}"#,
            "leaves no address",
        ),
        (
            r#"{"vlan":9,"clusterNetwork":"uplink","range":"10.52.8.0/24"}"#,
            "network of pods",
        ),
        (
            r#"{"vlan":1,"clusterNetwork":"mgmt","range":"192.0.2.0/25"}"#,
            "192.0.2.1",
        ),
        (
            r#"{"clusterNetwork":"mgmt","range":"192.0.2.16/28","exclude":["192.0.2.20/32"]}"#,
            "192.0.2.21",
        ),
    ] {
        let found = findings("c.yaml", &of(wrong), None);
        assert_eq!(said(&of(wrong), ""), overlooked(21), "{wrong}");
        assert!(found[0].message.contains(why), "{}", found[0].message);
    }
    for sound in [
        r#"{"vlan":9,"clusterNetwork":"uplink","range":"198.51.100.0/24","exclude":["198.51.100.0/25"]}"#,
        r#"{"vlan":9,"clusterNetwork":"mgmt","range":"192.0.2.0/25"}"#,
        r#"{"vlan":1,"clusterNetwork":"mgmt","range":"192.0.2.64/26"}"#,
        r#"{"clusterNetwork":"mgmt","range":"192.0.2.16/28","exclude":["192.0.2.20/31"]}"#,
    ] {
        assert_eq!(said(&of(sound), ""), [], "{sound}");
    }
}

#[test]
fn the_exceptions_of_a_proxy_contain_the_node() {
    let of = |value: &str| format!("{FIXED}system_settings:\n  http-proxy: '{value}'\n");
    for sound in [
        "{}",
        r#"{"noProxy":"example.org"}"#,
        r#"{"httpProxy":"http://p:1","noProxy":"a.example, 192.0.2.0/24"}"#,
        r#"{"HTTPSProxy":"http://p:1","noproxy":"192.0.2.20"}"#,
    ] {
        assert_eq!(said(&of(sound), ""), [], "{sound}");
    }
    for wrong in [
        "http://p:1",
        "[]",
        r#"{"httpProxy":"http://p:1"}"#,
        r#"{"httpsProxy":"http://p:1","noProxy":"a.example,192.0.2.21"}"#,
        r#"{"httpProxy":"http://p:1","noProxy":"198.51.100.0/24"}"#,
        r#"{"httpProxy":["http://p:1"]}"#,
    ] {
        assert_eq!(said(&of(wrong), ""), overlooked(21), "{wrong}");
    }
    let by_dhcp = of(r#"{"httpProxy":"http://p:1","noProxy":"198.51.100.0/24"}"#)
        .replace("method: static", "method: dhcp");
    assert_eq!(said(&by_dhcp, ""), []);
    let none = by_dhcp.replace(r#","noProxy":"198.51.100.0/24""#, "");
    assert_eq!(said(&none, ""), overlooked(21));
}

#[test]
fn a_setting_or_an_addon_whose_text_cannot_be_read_is_an_error() {
    let setting = |text: &str| format!("{FIXED}system_settings:\n  {text}\n");
    assert_eq!(
        said(&setting("vm-force-reset-policy: 'on'"), ""),
        overlooked(21)
    );
    assert_eq!(
        said(
            &setting(r#"vm-force-reset-policy: '{"enable":false,"period":15}'"#),
            ""
        ),
        []
    );
    assert_eq!(said(&setting("log-level: debug"), ""), []);
    let addon = |name: &str, values: &str| {
        with(
            "  device:",
            &format!(
                "  addons:\n    {name}:\n      enabled: true\n      values_content: |\n{values}  device:"
            ),
        )
    };
    let torn = "        a:\n          b: 1\n         c: 2\n";
    assert_eq!(said(&addon("rancher_logging", torn), ""), overlooked(19));
    assert_eq!(
        said(&addon("rancher_logging", "        only a text\n"), ""),
        overlooked(19)
    );
    assert_eq!(
        said(
            &addon("rancher_logging", "        a:\n          b: 1\n"),
            ""
        ),
        []
    );
    let off = addon("rancher_logging", torn).replace("enabled: true", "enabled: false");
    assert_eq!(said(&off, ""), []);
}

#[test]
fn the_options_of_a_bond_are_those_of_the_kernel() {
    let of = |options: &str| {
        with(
            "    method: static\n",
            &format!("    bond_options: {options}\n    method: static\n"),
        )
        .replace("[{name: eno1}]", "[{name: eno1}, {name: eno2}]")
    };
    for sound in [
        "{mode: active-backup, miimon: 100}",
        "{mode: 802.3ad, xmit_hash_policy: layer3+4, lacp_rate: fast, ad_select: 1}",
        "{mode: 1, primary: eno1, arp_ip_target: 192.0.2.1, arp_interval: '200'}",
        "{}",
    ] {
        assert_eq!(said(&of(sound), ""), [], "{sound}");
    }
    for wrong in [
        "{mode: 802.3ad, xmit_hash_policy: layer2+4}",
        "{mode: active-backup, miimon: often}",
        "{mode: 802.3ad, lacp_rate: 2}",
    ] {
        assert_eq!(said(&of(wrong), ""), overlooked(12), "{wrong}");
    }
    let unintended = |line| vec![(Code::InstallerUnintended, Severity::Warning, line)];
    assert_eq!(said(&of("{miimon: 100}"), ""), unintended(12));
    let twice = with("[{name: eno1}]", "[{name: eno1}, {name: eno1}]");
    assert_eq!(said(&twice, ""), unintended(11));
    let one = of("{miimon: 100}").replace(", {name: eno2}", "");
    assert_eq!(said(&one, ""), []);
}

#[test]
fn keys_of_disks_and_roles_that_a_release_cannot_use_are_found() {
    let install = |line: &str| with("  mode: create\n", &format!("  mode: create\n  {line}\n"));
    let mbr = install("force_mbr: true");
    assert_eq!(
        said(&mbr, "v1.8.1"),
        [(Code::InstallerRefuses, Severity::Error, 9)]
    );
    assert_eq!(said(&mbr, "v1.7.1"), []);
    assert_eq!(said(&mbr, ""), depends(9));
    assert_eq!(said(&install("force_mbr: false"), "v1.8.1"), []);
    let wipe = install("wipe_disks_list: [/dev/sdb]");
    assert_eq!(said(&wipe, "v1.8.0"), depends(9));
    assert_eq!(said(&wipe, "v1.8.1"), []);
    assert!(said(&wipe, "").contains(&depends(9)[0]));
    assert_eq!(said(&install("role: witness"), ""), overlooked(9));
    assert_eq!(said(&install("role: management"), ""), []);
    let joins = install("role: witness")
        .replace("mode: create", "mode: join")
        .replace(
            "token: tok\n",
            "token: tok\nserver_url: https://192.0.2.21\n",
        );
    assert_eq!(said(&joins, ""), []);
}
