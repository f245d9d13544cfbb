use super::*;

fn read(file: &str, text: &str) -> Result<Vec<ExpectedNode>, Vec<String>> {
    Inventory::read(file, text)
        .map(|read| read.nodes)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

#[test]
fn the_same_nodes_come_out_of_yaml_and_csv() {
    let yaml = "nodes:\n- name: r1-1\n  mac: 52-54-00-00-00-01\n  role: server\n  rack: r1\n  url: https://10.0.0.1:9346\n- serial: 4711\n- n3\n";
    let csv = "# rack one\nname,mac,serial,host,role,rack,url\nr1-1, 52:54:00:00:00:01,,,server,r1,https://10.0.0.1:9346/status\n,,4711\nn3\n";
    let (mut from_yaml, mut from_csv) =
        (read("a.yaml", yaml).unwrap(), read("a.CSV", csv).unwrap());
    let lines =
        |nodes: &[ExpectedNode]| -> Vec<u32> { nodes.iter().map(|node| node.line).collect() };
    assert_eq!(lines(&from_yaml), [2, 7, 8]);
    assert_eq!(lines(&from_csv), [3, 4, 5]);
    for node in from_yaml.iter_mut().chain(&mut from_csv) {
        node.line = 0;
    }
    assert_eq!(from_yaml, from_csv);
    assert_eq!(from_yaml[0].identity.mac, "52:54:00:00:00:01");
    assert_eq!(from_yaml[0].url, "https://10.0.0.1:9346/status");
    assert_eq!(from_yaml[1].name, "4711");
    assert_eq!(from_yaml[2].identity.host, "n3");
    // The name of the file makes no difference.
    assert_eq!(
        read("a.yml", "- n1\n- {mac: '52:54:00:00:00:02'}\n")
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn everything_that_is_wrong_is_said_at_once_with_its_line() {
    let yaml = "nodes:\n- name: a\n  mca: 52:54:00:00:00:01\n- mac: 52:54\n- {role: server}\n- name: b\n  mac: 52:54:00:00:00:02\n- name: b\n  mac: 52:54:00:00:00:02\n  serial: None\n  url: ftp://x\n  fingerprint: ab\n- [x]\n- host: [x]\n";
    assert_eq!(
        read("rack.yaml", yaml).unwrap_err(),
        [
            "rack.yaml:3: unknown key `mca`: did you mean `mac`?",
            "rack.yaml:4: mac: `52:54` is not a hardware address: write 52:54:00:12:34:56",
            "rack.yaml:5: nothing tells this node from others: write mac, serial or host",
            "rack.yaml:8: mac `52:54:00:00:00:02` is in line 6 already",
            "rack.yaml:8: name `b` is in line 6 already",
            "rack.yaml:10: serial: `None` is a placeholder of the firmware, not a serial number",
            "rack.yaml:11: url: write https://node:9346/status",
            "rack.yaml:12: fingerprint: write the certificate's SHA-256, 64 hexadecimal digits",
            "rack.yaml:13: write a node's name or its keys, not a list",
            "rack.yaml:14: host: write a text, not a list",
            "rack.yaml:14: nothing tells this node from others: write mac, serial or host",
        ]
    );
    assert_eq!(
        read("rack.csv", "name,mca,mac,mac\n").unwrap_err(),
        [
            "rack.csv:1: the column `mac` is there twice",
            "rack.csv:1: unknown column `mca`: did you mean `mac`?",
        ]
    );
    assert_eq!(
        read("rack.csv", "name,mac\na,52:54:00:00:00:01,x\nb,y\n").unwrap_err(),
        [
            "rack.csv:2: it has 3 fields, and there are 2 columns",
            "rack.csv:3: mac: `y` is not a hardware address: write 52:54:00:12:34:56",
        ]
    );
    assert_eq!(read("x.csv", "role\n").unwrap_err().len(), 1);
    assert_eq!(
        read("x.csv", "name,mac\na,\n\"b,52:54:00:00:00:02\nc,\n").unwrap_err(),
        ["x.csv:3: a quotation mark is not closed"]
    );
    assert_eq!(
        read("x.csv", "name,role\n\"a\",\"x, y\"\n").unwrap()[0].role,
        "x, y"
    );
    assert_eq!(
        read("x.csv", "name;mac\na;x\n").unwrap_err(),
        ["x.csv:1: separate the columns by `,`, not by `;`"]
    );
    // A serial number is always a text, even if it looks like a number.
    assert_eq!(
        read(
            "x.yaml",
            "- {serial: 4711}\n- {serial: 007}\n- serial: 1e5\n"
        )
        .unwrap_err(),
        [
            "x.yaml:2: serial: YAML reads this as the number 7: put it into quotation marks",
            "x.yaml:3: serial: YAML reads this as the number 100000: put it into quotation marks",
        ]
    );
    assert_eq!(
        read("x.yaml", "- {serial: 4711}\n").unwrap()[0]
            .identity
            .serial,
        "4711"
    );
    for nothing in ["", "nodes: []\n", "# none\n"] {
        assert_eq!(
            read("x.yaml", nothing).unwrap_err(),
            ["x.yaml:1: it names no node"]
        );
    }
    assert!(read("x.yaml", "nodes: {\n").unwrap_err()[0].starts_with("x.yaml:"));
    assert!(read("x.yaml", "node:\n- a\n").unwrap_err()[0].contains("did you mean `nodes`"));
    let many = "- [x]\n".repeat(10_000);
    assert_eq!(read("x.yaml", &many).unwrap_err().len(), MOST_ERRORS);
}

#[test]
fn the_objects_of_seeder_are_a_list() {
    let object = |name: &str, mac: &str| {
        format!(
            "apiVersion: metal.harvesterhci.io/v1alpha1\nkind: Inventory\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  primaryDisk: /dev/sda\n  managementInterfaceMacAddress: {mac}\n  baseboardSpec: {{connection: {{host: 10.0.0.9}}}}\nstatus:\n  ownerCluster: {{name: east, namespace: default}}\n"
        )
    };
    let two = format!(
        "{}---\n{}",
        object("n1", "52:54:00:00:00:01"),
        object("n2", "52:54:00:00:00:02")
    );
    let nodes = read("seeder.yaml", &two).unwrap();
    assert_eq!(nodes.len(), 2);
    assert_eq!(
        (nodes[1].name.as_str(), nodes[1].rack.as_str()),
        ("n2", "east")
    );
    assert_eq!(nodes[1].identity.mac, "52:54:00:00:00:02");
    assert_eq!(nodes[1].identity.host, "");
    let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: metal.harvesterhci.io/v1alpha1\n  kind: Inventory\n  metadata: {name: n1}\n  spec: {managementInterfaceMacAddress: '52:54:00:00:00:01'}\n- apiVersion: metal.harvesterhci.io/v1alpha1\n  kind: Cluster\n  metadata: {name: east}\n";
    assert_eq!(read("list.yaml", list).unwrap().len(), 1);
    let without = object("n1", "''");
    assert_eq!(
        read("seeder.yaml", &without).unwrap_err(),
        ["seeder.yaml:1: Inventory n1 has no spec.managementInterfaceMacAddress"]
    );
    // An unreadable object may describe a node, so the list is rejected.
    let broken = format!(
        "{}---\nkind: Inventory\nspec: {{\n",
        object("n1", "52:54:00:00:00:01")
    );
    let why = read("seeder.yaml", &broken).unwrap_err();
    assert!(why[0].starts_with("seeder.yaml:1"), "{why:?}");
    // Two namespaces may contain the same name. A machine that is already in the cluster has the name of its Node.
    let other = object("n1", "52:54:00:00:00:02")
        .replace("namespace: default}\nspec", "namespace: west}\nspec");
    let both = format!("{}---\n{other}", object("n1", "52:54:00:00:00:01"));
    let nodes = read("seeder.yaml", &both).unwrap();
    assert_eq!(
        (nodes[0].name.as_str(), nodes[1].name.as_str()),
        ("default/n1", "west/n1")
    );
    let local = object("n1", "''").replace(
        "namespace: default}\nspec",
        "namespace: default, annotations: {metal.harvesterhci.io/local-inventory: 'true', metal.harvesterhci.io/local-node-name: Host-1}}\nspec",
    );
    assert_eq!(
        read("seeder.yaml", &local).unwrap()[0].identity.host,
        "host-1"
    );
}

#[test]
fn a_fingerprint_beside_http_is_an_error() {
    let print = "ab".repeat(32);
    let list = format!("- {{host: n1, url: 'http://n1:9346', fingerprint: '{print}'}}\n");
    let errors = Inventory::read("nodes.yaml", &list).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].message.ends_with("write https://"), "{errors:?}");
    let list = list.replace("http:", "https:");
    Inventory::read("nodes.yaml", &list).unwrap();
}

#[test]
fn a_line_of_windows_is_one_line_and_an_unknown_column_hides_nothing() {
    let list = "name,mca,mac\r\nn1,,52:54:00:00:00:01\r\nn2,,x\r\n# a remark\r\nn1,,\r\n";
    assert_eq!(
        read("rack.csv", list).unwrap_err(),
        [
            "rack.csv:1: unknown column `mca`: did you mean `mac`?",
            "rack.csv:3: mac: `x` is not a hardware address: write 52:54:00:12:34:56",
            "rack.csv:5: name `n1` is in line 2 already",
        ]
    );
    let list = read("rack.csv", "name\r\nn1\r\nn2\r\n").unwrap();
    assert_eq!(
        list.iter().map(|node| node.line).collect::<Vec<_>>(),
        [2, 3]
    );
}
