//! Each rule: a file that the installer rejects or ignores, and a similar one that it accepts. The table was compared with the
//! installer's own code of v1.4.0, v1.5.0, v1.6.1, v1.7.1 and v1.8.1.

use windrow_model::reasons::{Code, Severity};

use super::*;

/// A configuration that every release accepts in an automatic installation.
const GOOD: &str = "\
scheme_version: 1
token: tok
os:
  hostname: node1
  password: pw
  dns_nameservers: [8.8.8.8]
install:
  mode: create
  automatic: true
  management_interface:
    interfaces: [{name: ens5}]
    method: dhcp
  device: /dev/sda
  iso_url: http://s/h.iso
  vip: 10.0.0.19
  vip_mode: static
";

const STATIC: &str =
    "    method: static\n    ip: 10.0.0.2\n    subnet_mask: 255.255.255.0\n    gateway: 10.0.0.1\n";

fn named(version: &str) -> Option<HarvesterVersion> {
    (!version.is_empty()).then(|| version.parse().unwrap())
}

/// The good configuration with one line replaced.
fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}

fn said(text: &str, version: &str) -> Vec<(Code, Severity, u32)> {
    let found = findings("c.yaml", text, named(version));
    let found = found.into_iter();
    found
        .map(|one| (one.code, one.severity, one.at[0].line.unwrap()))
        .collect()
}

fn refused(text: &str, version: &str) -> Vec<u32> {
    let found = said(text, version).into_iter();
    let found = found.filter(|(code, severity, _)| {
        *code == Code::InstallerRefuses && *severity == Severity::Error
    });
    found.map(|(_, _, line)| line).collect()
}

#[test]
fn a_sound_configuration_is_taken_by_all_releases() {
    for version in ["", "v1.4.0", "v1.5.2", "v1.6.1", "v1.7.3", "v1.8.2"] {
        assert_eq!(said(GOOD, version), [], "{version}");
    }
    let fixed = with("    method: dhcp\n", STATIC);
    assert_eq!(said(&fixed, ""), []);
    // The installer does not check other files.
    assert_eq!(
        said("apiVersion: v1\nkind: ConfigMap\ninstall: []\n", ""),
        []
    );
}

#[test]
fn what_every_release_refuses_is_an_error_with_its_line_and_its_neighbour_is_taken() {
    let fixed = |from: &str, to: &str| with("    method: dhcp\n", &STATIC.replacen(from, to, 1));
    for (bad, line, near) in [
        (
            with("mode: create", "mode: Create"),
            8,
            with("mode: create", "mode: create"),
        ),
        (
            with(
                "token: tok\n",
                "token: tok\nserver_url: https://10.0.0.1:443\n",
            ),
            3,
            with("token: tok\n", "token: tok\nserver_url: ''\n"),
        ),
        (
            with(
                "token: tok\n",
                "token: tok\nserver_url: https://10.0.0.1:6443\n",
            )
            .replace("mode: create", "mode: join"),
            3,
            with("token: tok\n", "token: tok\nserver_url: https://10.0.0.1\n")
                .replace("mode: create", "mode: join"),
        ),
        (
            with(
                "    method: dhcp\n",
                "    method: dhcp\n    vlan_id: 4095\n",
            ),
            13,
            with(
                "    method: dhcp\n",
                "    method: DHCP\n    vlan_id: 4094\n",
            ),
        ),
        (with("method: dhcp", "method: none"), 12, GOOD.to_owned()),
        (
            fixed("10.0.0.2", "10.0.0.2/24"),
            13,
            fixed("10.0.0.2", "10.0.0.3"),
        ),
        (
            fixed("255.255.255.0", "'24'"),
            14,
            fixed("255.255.255.0", "255.255.0.0"),
        ),
        (
            fixed("10.0.0.1", "fd00::1"),
            15,
            fixed("10.0.0.1", "'::ffff:10.0.0.1'"),
        ),
        (
            fixed("10.0.0.1\n", "10.0.0.1\n    mtu: 9001\n"),
            16,
            fixed("10.0.0.1\n", "10.0.0.1\n    mtu: 0\n"),
        ),
        (
            with("[{name: ens5}]", "[{hwAddr: x}]"),
            11,
            with("[{name: ens5}]", "[{name: ens5, hwAddr: x}]"),
        ),
        (
            with("[{name: ens5}]", "[{}]"),
            11,
            with("[{name: ens5}]", "[{hwAddr: '52:54:00:12:34:56'}]"),
        ),
        (
            with("vip_mode: static", "vip_mode: statc"),
            16,
            with("vip_mode: static", "vip_mode: Static"),
        ),
        (
            with("10.0.0.19", "fd00::1"),
            15,
            with("10.0.0.19", "10.10.0.20"),
        ),
        (
            with("vip_mode: static", "vip_mode: dhcp\n  vip_hw_addr: x"),
            17,
            // It asks the DHCP server for both.
            with("vip_mode: static", "vip_mode: dhcp"),
        ),
        (
            with("mode: create", "mode: create\n  role: witnes"),
            9,
            with("mode: create", "mode: create\n  role: worker"),
        ),
        (
            with("hostname: node1", "hostname: Node_1"),
            4,
            with("hostname: node1", "hostname: node-1.site"),
        ),
        (
            with("os:\n", "os:\n  labels: {'bad key': x}\n"),
            4,
            with("os:\n", "os:\n  labels: {example.com/key: ' x '}\n"),
        ),
        (
            with("os:\n", "os:\n  labels: {key: 'x y'}\n"),
            4,
            with("os:\n", "os:\n  labels: {key: 5}\n"),
        ),
        (
            with("token: tok", "token: t\u{f6}k"),
            2,
            with("token: tok", "token: t o~k"),
        ),
        (
            with("os:\n", "os:\n  persistent_state_paths: [/tmp/x]\n"),
            4,
            with("os:\n", "os:\n  persistent_state_paths: [/tmpx]\n"),
        ),
        (
            with("scheme_version: 1", "scheme_version: 2"),
            1,
            GOOD.to_owned(),
        ),
        (
            format!("{GOOD}system_settings: {{ntp-serverz: x}}\n"),
            17,
            format!("{GOOD}system_settings: {{ntp-servers: 5}}\n"),
        ),
        (
            format!("{GOOD}system_settings: {{containerd-registry: '{{bad'}}\n"),
            17,
            format!("{GOOD}system_settings: {{containerd-registry: '{{}}'}}\n"),
        ),
    ] {
        assert_eq!(refused(&bad, ""), [line], "{bad}");
        assert_eq!(said(&near, ""), [], "{near}");
    }
}

#[test]
fn a_value_of_another_type_is_refused_as_the_releases_convert_it() {
    // The line, the releases that reject it: all, those before v1.8, or none.
    for (section, line, before, since) in [
        ("token: 123456\nos: {}", 1, true, true),
        ("token: '123456'\nos: {}", 1, false, false),
        ("token: yes\nos: {}", 1, false, false),
        ("os: {password: 123456}", 1, true, true),
        ("install: []", 1, true, true),
        ("install:", 1, false, false),
        (
            "os: {writeFiles: [{path: /x, permissions: 0644}]}",
            1,
            true,
            true,
        ),
        (
            "os: {writeFiles: [{path: /x, permissions: '0644'}]}",
            1,
            false,
            false,
        ),
        ("os: {sysctls: {a: 1, b: [x]}}", 1, false, false),
        ("os: {Sysctls: {a: 1}}", 1, true, true),
        ("os: {ntp_servers: a}", 1, false, false),
        ("os: {ntpservers: a}", 1, true, true),
        ("os: {ntp_servers: [1]}", 1, true, false),
        ("install: {force_efi: 'true'}", 1, false, false),
        ("install: {forceefi: 'true'}", 1, true, true),
        ("install: {silent: 1}", 1, true, false),
        (
            "install: {management_interface: {vlan_id: '100'}}",
            1,
            true,
            false,
        ),
        (
            "install: {management_interface: {vlanid: '100'}}",
            1,
            true,
            true,
        ),
        (
            "install: {management_interface: {vlan_id: abc}}",
            1,
            true,
            true,
        ),
        (
            "install: {management_interface: {vlan_id: 1.0}}",
            1,
            false,
            false,
        ),
        (
            "install: {management_interface: {interfaces: [ens5]}}",
            1,
            true,
            true,
        ),
        ("install: {addons: {rancher_logging: true}}", 1, true, true),
        (
            "install: {harvester: {storage_class: {replica_count: -1}}}",
            1,
            true,
            true,
        ),
        ("install: {webhooks: [{headers: {a: b}}]}", 1, true, true),
        // A later spelling counts, and which one is random.
        (
            "install: {management_interface: {vlan_id: 5, vlanId: abc}}",
            1,
            false,
            false,
        ),
    ] {
        let refuses = |version: &str| refused(section, version) == [line];
        for (version, expected) in [("v1.4.0", before), ("v1.7.3", before), ("v1.8.0", since)] {
            assert_eq!(refuses(version), expected, "{section} {version}");
        }
        assert_eq!(refuses(""), before && since, "{section}");
        if before != since {
            let depends =
                said(section, "").contains(&(Code::InstallerDepends, Severity::Warning, line));
            assert!(depends, "{section}: {:?}", said(section, ""));
        }
    }
    let disks = "os:\n  external_storage_config:\n    multi_path_config:\n      blacklist: []\n";
    assert_eq!(refused(disks, "v1.6.1"), [4]);
    assert!(refused(disks, "v1.7.0").is_empty());
}

#[test]
fn a_key_that_nothing_reads_is_passed_over_by_the_releases_without_it() {
    let ignores = |text: &str, version: &str| {
        let found = said(text, version).into_iter();
        let found = found.filter(|(code, _, _)| *code == Code::InstallerIgnores);
        found.map(|(_, severity, _)| severity).collect::<Vec<_>>()
    };
    let warning = [Severity::Warning].as_slice();
    let notice = [Severity::Notice].as_slice();
    for (section, old, new, unnamed) in [
        ("install: {vip-mode: static}", warning, warning, warning),
        ("install: {wipedisks: true}", &[], warning, notice),
        ("install: {wipe_all_disks: true}", warning, &[], notice),
        (
            "install: {cluster_pod_cidr: 10.52.0.0/16}",
            warning,
            &[],
            notice,
        ),
        ("install: {skipcheck: true}", &[], &[], &[]),
        ("install: {addons: {descheduler: {}}}", warning, &[], notice),
        (
            "install: {addons: {kubeovn_operator: {}}}",
            warning,
            &[],
            notice,
        ),
        (
            "install: {addons: {rancher_monitorng: {}}}",
            warning,
            warning,
            warning,
        ),
        ("install: {addons: {rancher_monitoring: {}}}", &[], &[], &[]),
        ("install: {networks: {}}", warning, warning, warning),
        ("install: {automatic: 'yes'}", warning, &[], notice),
        ("install: {x-anchor: {a: b}}", &[], &[], &[]),
        (
            "install: {managementinterface: {defaultroute: false}}",
            &[],
            &[],
            &[],
        ),
        (
            "os: {sshd: {disable_password_auth: true}}",
            warning,
            &[],
            notice,
        ),
        ("sans: [a]\nos: {}", warning, &[], notice),
    ] {
        assert_eq!(ignores(section, "v1.4.3"), old, "{section}");
        assert_eq!(ignores(section, "v1.8.2"), new, "{section}");
        assert_eq!(ignores(section, ""), unnamed, "{section}");
    }
}

#[test]
fn a_setting_of_some_releases_is_refused_by_the_others() {
    let text = format!("{GOOD}system_settings: {{vm-migration-network: ''}}\n");
    assert_eq!(refused(&text, "v1.7.1"), [17]);
    assert_eq!(said(&text, "v1.8.0"), []);
    assert_eq!(
        said(&text, ""),
        [(Code::InstallerDepends, Severity::Warning, 17)]
    );
    // Only the node that begins a cluster sets them.
    let joins = text
        .replace("mode: create", "mode: join")
        .replace("token: tok\n", "token: tok\nserver_url: vip\n");
    assert_eq!(said(&joins, "v1.7.1"), []);
    // If the file does not set them, the result depends on the installation.
    let unsaid = "os: {}\nsystem_settings: {vm-migration-network: ''}\n";
    assert_eq!(
        said(unsaid, "v1.7.1"),
        [(Code::InstallerDepends, Severity::Warning, 2)]
    );
}

#[test]
fn a_mode_of_a_bond_that_there_is_not_leaves_the_node_without_a_network() {
    let bond = |mode: &str| {
        let options = format!("    method: dhcp\n    bond_options:\n      mode: {mode}\n");
        with("    method: dhcp\n", &options)
    };
    for mode in ["balance-xor", "balance-tlb", "\"1\"", "6", "\"\"", "null"] {
        assert_eq!(said(&bond(mode), ""), [], "{mode}");
    }
    for mode in ["active_backup", "lacp", "7", "Active-Backup"] {
        let line = bond(mode)
            .lines()
            .position(|line| line.contains("      mode:"));
        let line = u32::try_from(line.unwrap()).unwrap() + 1;
        assert_eq!(
            said(&bond(mode), ""),
            [(Code::InstallerOverlooks, Severity::Error, line)],
            "{mode}"
        );
    }
}

#[test]
fn a_bond_that_the_switch_has_to_agree_on_may_come_up_too_late_for_the_installer() {
    let bond = |method: &str, mode: &str| {
        let options = format!("{method}    bond_options:\n      mode: {mode}\n");
        with("    method: dhcp\n", &options)
    };
    let by_dhcp = bond("    method: dhcp\n", "802.3ad");
    let line = by_dhcp.lines().position(|line| line.contains("802.3ad"));
    let line = u32::try_from(line.unwrap()).unwrap() + 1;
    // The kernel's command line may request an automatic installation.
    let asks = by_dhcp.replace("  automatic: true\n", "");
    for version in ["", "v1.7.0", "v1.8.2", "v1.9.0"] {
        let with = |severity| (Code::InstallerDepends, severity, line);
        assert_eq!(said(&by_dhcp, version), [with(Severity::Warning)]);
        assert_eq!(
            said(&bond("    method: DHCP\n", "4"), version),
            said(&by_dhcp, version)
        );
        let line = line - 1;
        assert_eq!(
            said(&asks, version),
            [(Code::InstallerDepends, Severity::Notice, line)]
        );
    }
    for version in ["v1.4.0", "v1.6.1"] {
        assert_eq!(said(&by_dhcp, version), [], "{version}");
    }
    // Its network is not set up before the first boot.
    assert_eq!(said(&bond(STATIC, "802.3ad"), ""), []);
}

#[test]
fn a_preset_storage_network_that_harvester_never_configures_is_found() {
    let of = |value: &str| format!("{GOOD}system_settings: {{storage-network: '{value}'}}\n");
    let (line, wrong) = (17, (Code::InstallerOverlooks, Severity::Error));
    for sound in [
        "",
        r#"{"vlan":220,"clusterNetwork":"uplink","range":"198.51.100.0/24"}"#,
        r#"{"VLAN":0,"clusternetwork":"uplink","range":"fd00::/64","exclude":null}"#,
        r#"{"clusterNetwork":"uplink","range":"198.51.100.0/24","exclude":["198.51.100.0/28"],"x":1}"#,
    ] {
        for version in ["", "v1.4.0", "v1.8.2"] {
            assert_eq!(said(&of(sound), version), [], "{sound}");
        }
    }
    for bad in [
        "vlan: 220",
        "null",
        "[]",
        r#"{"vlan":"220","clusterNetwork":"uplink","range":"198.51.100.0/24"}"#,
        r#"{"vlan":4095,"clusterNetwork":"uplink","range":"198.51.100.0/24"}"#,
        r#"{"vlan":220,"range":"198.51.100.0/24"}"#,
        r#"{"vlan":220,"clusterNetwork":"uplink"}"#,
        r#"{"vlan":220,"clusterNetwork":"uplink","range":"198.51.100.0"}"#,
        r#"{"vlan":220,"clusterNetwork":"uplink","range":"198.51.100.7/24"}"#,
        r#"{"vlan":220,"clusterNetwork":"uplink","range":"fd00::1/64"}"#,
        r#"{"vlan":220,"clusterNetwork":"uplink","range":"198.51.100.0/24","exclude":"198.51.100.1/32"}"#,
        r#"{"vlan":220,"clusterNetwork":"uplink","range":"198.51.100.0/24","exclude":["198.51.100.1"]}"#,
    ] {
        assert_eq!(said(&of(bad), ""), [(wrong.0, wrong.1, line)], "{bad}");
    }
    let found = findings(
        "c.yaml",
        &of(r#"{"clusterNetwork":"a","range":"10.0.5.9/20"}"#),
        None,
    );
    assert!(found[0].message.contains("write 10.0.0.0/20"), "{found:?}");
}

#[test]
fn a_preset_setting_that_harvesters_webhook_refuses_is_found_if_the_release_has_the_rule() {
    let of =
        |setting: &str, value: &str| format!("{GOOD}system_settings:\n  {setting}: '{value}'\n");
    let wrong = [(Code::InstallerOverlooks, Severity::Error, 18)];
    for (setting, sound, bad) in [
        (
            "overcommit-config",
            r#"{"cpu":1600,"memory":150,"storage":200}"#,
            r#"{"cpu":1600}"#,
        ),
        (
            "ntp-servers",
            r#"{"ntpServers":["0.suse.pool.ntp.org"]}"#,
            r#"{"ntpServers":["http://a.b"]}"#,
        ),
        ("vip-pools", r#"{"default":"10.0.0.0/24"}"#, "10.0.0.0/24"),
        ("support-bundle-timeout", "10", "10m"),
        ("http-proxy", "{}", r#"{"httpProxy":1}"#),
        ("containerd-registry", "{}", r#"{"Mirrors":[]}"#),
        ("csi-driver-config", "{}", "[]"),
        ("log-level", "any", ""),
    ] {
        for version in ["v1.6.0", "v1.8.2"] {
            assert_eq!(said(&of(setting, sound), version), [], "{setting}");
            if !bad.is_empty() {
                assert_eq!(said(&of(setting, bad), version), wrong, "{setting}");
            }
        }
    }
    // Up to v1.5, leading zeros were accepted.
    let zero = of("support-bundle-timeout", "010");
    assert_eq!(said(&zero, "v1.5.0"), []);
    assert_eq!(said(&zero, "v1.8.2"), wrong);
    let secret = of("ssl-certificates", r#"{"privateKey":"hunter2"}"#);
    let found = findings("c.yaml", &secret, named("v1.8.2"));
    assert!(!found[0].message.contains("hunter2"), "{found:?}");
}

#[test]
fn the_networks_of_a_new_cluster_fit_each_other() {
    let of = |lines: &str| with("  mode: create\n", &format!("  mode: create\n{lines}"));
    for sound in [
        "  cluster_pod_cidr: 10.42.0.0/16\n",
        "  cluster_service_cidr: 10.53.0.0/20\n",
        "  cluster_service_cidr: 10.96.0.0/12\n  cluster_dns: 10.96.0.10\n",
        "  cluster_service_cidr: 10.96.0.0/12, fd00::/112\n  cluster_dns: 10.96.0.10,fd00::a\n",
        "  cluster_dns: 10.53.7.7\n",
        "  cluster_dns: ''\n",
    ] {
        for version in ["v1.5.0", "v1.8.1"] {
            assert_eq!(said(&of(sound), version), [], "{sound}");
        }
    }
    for (wrong, line) in [
        ("  cluster_pod_cidr: 10.42.0.0\n", 9),
        ("  cluster_pod_cidr: 10.42.0.0/33\n", 9),
        ("  cluster_service_cidr: 10.96.0.0/12\n", 9),
        (
            "  cluster_service_cidr: 10.96.0.0/12\n  cluster_dns: 10.53.0.10\n",
            10,
        ),
        ("  cluster_dns: 10.43.0.10\n", 9),
        ("  cluster_dns: dns\n", 9),
    ] {
        let expected = (Code::InstallerOverlooks, Severity::Error, line);
        assert_eq!(said(&of(wrong), "v1.8.1"), [expected], "{wrong}");
        // This has no effect if the mode does not begin a cluster.
        let joins = of(wrong).replace("mode: create", "mode: join");
        let joins = joins.replace(
            "scheme_version",
            "server_url: https://10.0.0.1:443\nscheme_version",
        );
        assert!(
            said(&joins, "v1.8.1")
                .iter()
                .all(|(code, ..)| *code != Code::InstallerOverlooks)
        );
        // Releases before v1.5.0 ignore the keys.
        assert!(
            said(&of(wrong), "v1.4.3")
                .iter()
                .all(|(code, ..)| *code == Code::InstallerIgnores)
        );
    }
}

#[test]
fn what_the_command_line_may_add_is_no_error_and_counts_where_nobody_is_asked() {
    for missing in [
        "scheme_version: 1\n",
        "token: tok\n",
        "  password: pw\n",
        "    interfaces: [{name: ens5}]\n",
        "    method: dhcp\n",
        "  mode: create\n",
        "  device: /dev/sda\n",
        "  iso_url: http://s/h.iso\n",
        "  vip: 10.0.0.19\n",
        "  vip_mode: static\n",
    ] {
        let found = said(&with(missing, ""), "");
        let [(Code::InstallerDepends, Severity::Warning, _)] = found[..] else {
            panic!("{missing}: {found:?}");
        };
        // The file chooses an image or a disk, so nobody is at the console.
        let chosen = with(missing, "").replace("  automatic: true\n", "");
        if missing != "  mode: create\n" {
            let found = said(&chosen, "");
            let [(Code::InstallerDepends, Severity::Warning, _)] = found[..] else {
                panic!("{missing}: {found:?}");
            };
        }
        let chosen = chosen.replace("  device: /dev/sda\n", "");
        let asked = said(&chosen.replace("  iso_url: http://s/h.iso\n", ""), "");
        let is_notice = |(_, severity, _): &(Code, Severity, u32)| *severity == Severity::Notice;
        assert!(asked.iter().all(is_notice), "{missing}: {asked:?}");
    }
    for missing in [
        "ip: 10.0.0.2",
        "subnet_mask: 255.255.255.0",
        "gateway: 10.0.0.1",
    ] {
        let fixed = STATIC.replacen(&format!("    {missing}\n"), "", 1);
        let found = findings("c.yaml", &with("    method: dhcp\n", &fixed), None);
        let [one] = &found[..] else {
            panic!("{missing}: {found:?}");
        };
        let key = missing.split(':').next().unwrap();
        assert!(
            one.message
                .contains(&format!("harvester.install.management_interface.{key}=")),
            "{}",
            one.message
        );
    }
    let keys = with("password: pw", "ssh_authorized_keys: [a]");
    assert_eq!(said(&keys, ""), []);
    assert_eq!(said("install: {mode: install, automatic: true}\n", ""), []);
}

/// What the installer says if the kernel's command line is known, too.
fn with_arguments(text: &str, arguments: &str) -> Vec<(Code, String)> {
    let arguments = KernelArguments::read(arguments);
    let found = findings_with("c.yaml", text, None, arguments.as_ref());
    found
        .into_iter()
        .map(|finding| (finding.code, finding.message))
        .collect()
}

#[test]
fn with_the_command_line_a_missing_value_is_refused_and_all_are_named_at_once() {
    let text = with("  automatic: true\n", "")
        .replace("  device: /dev/sda\n", "")
        .replace("  vip: 10.0.0.19\n", "")
        .replace("  vip_mode: static\n", "");
    let found = with_arguments(&text, "harvester.install.automatic=true");
    let [(Code::InstallerRefuses, message)] = &found[..] else {
        panic!("{found:?}");
    };
    for key in ["install.device", "install.vip_mode", "install.vip (if"] {
        assert!(message.contains(key), "{message}");
    }
    let all = "harvester.install.automatic=true harvester.install.device=/dev/sda harvester.install.vip_mode=static \
               harvester.install.vip=10.0.0.19";
    assert_eq!(with_arguments(&text, all), []);
    let open = all.replace("10.0.0.19", "${vip}");
    assert_eq!(with_arguments(&text, &open), []);
    let wrong = all.replace("10.0.0.19", "10.0.0.300");
    assert_eq!(with_arguments(&text, &wrong)[0].0, Code::InstallerRefuses);
    // Without `automatic`, the installer asks.
    let asks = with_arguments(&text, "harvester.install.debug=true");
    assert_eq!(asks[0].0, Code::InstallerDepends);
}

#[test]
fn a_webhook_that_the_installer_cannot_use_is_a_warning_with_the_event_that_was_meant() {
    let hook = |hook: &str| {
        let text = with(
            "  vip_mode: static\n",
            &format!("  vip_mode: static\n  webhooks: [{{{hook}, url: http://s/}}]\n"),
        );
        with_arguments(&text, "")
    };
    for (written, meant) in [
        ("event: SUCEEDED, method: GET", "did you mean SUCCEEDED?"),
        ("event: succeeded, method: GET", "did you mean SUCCEEDED?"),
        (
            "event: NODE_READY, method: GET",
            "write one of STARTED, SUCCEEDED, FAILED",
        ),
        ("method: GET", "write one of STARTED"),
        ("event: STARTED, method: GTE", "did you mean GET?"),
        ("event: STARTED", "write one of GET"),
    ] {
        let found = hook(written);
        let [(Code::InstallerUnintended, message)] = &found[..] else {
            panic!("{written}: {found:?}");
        };
        assert!(message.contains(meant), "{message}");
    }
    assert_eq!(hook("event: STARTED, method: get"), []);
}

#[test]
fn of_a_version_that_was_not_read_nothing_is_certain() {
    let bad = with("mode: create", "mode: Create");
    assert_eq!(refused(&bad, "v1.8.2"), [8]);
    for version in ["v1.9.0", "v1.3.2", "v1.8.0-rc1"] {
        let found = findings("c.yaml", &bad, named(version));
        let one = &found[0];
        assert_eq!(
            (one.code, one.severity),
            (Code::InstallerDepends, Severity::Warning)
        );
        assert!(one.message.contains(version), "{}", one.message);
    }
}

#[test]
fn what_stands_below_a_key_in_capitals_is_read_only_under_its_own_name() {
    let text = "scheme_version: 1\nINSTALL:\n  mode: Create\n  management_interface: {method: x}\n  vipMode: x\n";
    let found = said(text, "v1.8.1");
    assert!(
        found.contains(&(Code::InstallerIgnores, Severity::Warning, 4)),
        "{found:?}"
    );
    assert_eq!(refused(text, "v1.8.1"), [3]);
    // A renamed key overrides one that already has the name.
    for twice in [
        "vip_mode: x\n  vipMode: static",
        "vipMode: static\n  vip_mode: x",
    ] {
        let text = with("vip_mode: static", twice);
        assert_eq!(refused(&text, "v1.8.1").len(), 1, "{text}");
    }
}

#[test]
fn no_secret_stands_in_a_message() {
    let text = with("token: tok", "token: s\u{f6}cret")
        .replace("password: pw", "password: [sEcret]")
        .replace("token: s", "server_url: https://u:sEcret@Vip/\ntoken: s");
    for one in findings("c.yaml", &text, None) {
        assert!(!one.message.contains("cret"), "{}", one.message);
    }
}

#[test]
fn the_partition_of_the_system_has_a_size_in_mi_or_gi_of_at_least_150_gi() {
    let with = |keys: &str| GOOD.replace("install:\n", &format!("install:\n{keys}"));
    let size = |size: &str| with(&format!("  persistent_partition_size: {size}\n"));
    for right in ["150Gi", "153600Mi", "1000Gi", "''"] {
        assert_eq!(said(&size(right), ""), [], "{right}");
    }
    for wrong in [
        "200G", "149Gi", "153599Mi", "1.5Gi", "-200Gi", "Gi", "200 Gi", "'200'",
    ] {
        assert_eq!(refused(&size(wrong), "").len(), 1, "{wrong}");
    }
    let skips = with("  skipchecks: true\n  persistent_partition_size: 50Gi\n");
    assert_eq!(refused(&skips, "v1.7.1").len(), 1);
    assert_eq!(refused(&skips, "v1.8.1").len(), 0);
    let separate = with("  data_disk: /dev/sdb\n  persistent_partition_size: 50Gi\n");
    assert_eq!(said(&separate, ""), []);
}

#[test]
fn longhorns_share_of_the_cpus_is_passed_on_under_one_name_and_up_to_a_limit() {
    let codes = |key: &str| {
        let keys = format!("  harvester: {{longhorn: {{default_settings: {{{key}}}}}}}\n");
        let text = GOOD.replace("install:\n", &format!("install:\n{keys}"));
        let found = said(&text, "").into_iter();
        found
            .map(|(code, severity, _)| (code, severity))
            .collect::<Vec<_>>()
    };
    assert_eq!(codes("guaranteedInstanceManagerCPU: 12"), []);
    let more = codes("guaranteedInstanceManagerCPU: 13");
    assert_eq!(more, [(Code::InstallerUnintended, Severity::Warning)]);
    for key in ["guaranteedEngineManagerCPU", "guaranteedReplicaManagerCPU"] {
        let found = codes(&format!("{key}: 6"));
        assert_eq!(
            found,
            [(Code::InstallerIgnores, Severity::Warning)],
            "{key}"
        );
    }
}

#[test]
fn a_key_that_requests_what_happens_anyway_is_only_a_notice() {
    let severity = |value: &str| {
        let keys = format!("  management_interface:\n    default_route: {value}\n");
        let text = GOOD.replace("  management_interface:\n", &keys);
        let found = said(&text, "").into_iter();
        let found = found.filter(|(code, _, _)| *code == Code::InstallerIgnores);
        found.map(|(_, severity, _)| severity).collect::<Vec<_>>()
    };
    assert_eq!(severity("true"), [Severity::Notice]);
    assert_eq!(severity("false"), [Severity::Warning]);
}
