//! What table and pages show, and that nothing of a node becomes markup.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use windrow_model::hidden::is_hidden;
use windrow_rack::{Inventory, Rack, RackView, read_event};

use super::*;
use crate::render::Style;

fn at(second: i64) -> Timestamp {
    Timestamp::constant(1_795_000_000, 0) + SignedDuration::from_secs(second)
}

/// A node whose boot began at zero.
fn event(number: u8, host: &str, phase: &str, since: i64, more: &Value) -> Value {
    let mut data = json!({
        "hostname": host, "macAddress": format!("52:54:00:00:00:{number:02x}"), "bootId": "b", "sequence": 1,
        "uptimeSeconds": 1400, "sentAt": at(1400).to_string(), "readiness": if phase == "ready" { "Ready" } else { "SettingUp" },
        "phase": phase, "since": at(since).to_string(), "phaseSince": at(since).to_string(),
        "reason": {"code": "apiserver-not-ready", "message": "127.0.0.1:6443 refuses connections"},
        "phases": [{"name": "network", "since": at(5).to_string(), "took": 15}, {"name": phase, "since": at(since).to_string()}],
    });
    for (key, value) in more.as_object().unwrap() {
        data[key] = value.clone();
    }
    json!({"specversion": "1.0", "id": format!("{number}"), "type": "dev.windrow.node.phase", "data": data})
}

fn view(events: &[Value]) -> RackView {
    let inventory = "- {name: n1, mac: '52:54:00:00:00:01', rack: r1}\n- {name: absent, mac: '52:54:00:00:00:0f'}\n";
    let mut rack = Rack::new(Inventory::read("rack.yaml", inventory).unwrap());
    for event in events {
        let report = read_event(event.to_string().as_bytes(), at(1400)).unwrap();
        rack.take(&report).unwrap();
    }
    rack.view(at(1440))
}

fn usual() -> RackView {
    view(&[
        event(1, "n1", "ready", 600, &json!({"role": "server"})),
        event(2, "n2", "api", 20, &json!({"pace": "stalled"})),
        event(3, "n3", "node", 900, &json!({"pace": "moving"})),
    ])
}

#[test]
fn the_table_says_first_who_needs_a_person() {
    let table = rack_table(
        &usual(),
        Style {
            width: 110,
            color: false,
        },
    );
    assert_eq!(
        table,
        "4 nodes, 2 of them not in the inventory: 2 setting up (1 hangs), 1 never came, 1 ready\n\
         \n\
         Need attention (2)\n\
         \x20 n2     Setting up: kube-apiserver, stalled  23m40s    40s ago  127.0.0.1:6443 refuses connections\n\
         \x20 absent Never came                                       never\n\
         \n\
         Setting up (1)\n\
         \x20 n3     Setting up: node                      9m00s    40s ago  127.0.0.1:6443 refuses connections\n\
         \n\
         Ready (1)\n\
         \x20 n1     Ready                                14m00s    40s ago\n"
    );
    let widest = |width| {
        let table = rack_table(
            &usual(),
            Style {
                width,
                color: false,
            },
        );
        table
            .lines()
            .skip(1)
            .map(|line| line.chars().count())
            .max()
            .unwrap()
    };
    for width in [60, 80, 160] {
        assert!(widest(width) <= width, "{width}");
    }
    let nothing = rack_table(&Rack::default().view(at(0)), Style::default());
    assert_eq!(nothing, "0 nodes: no node has reported yet\n");
}

fn hostile() -> RackView {
    let evil = "\u{1b}[2J\u{202e}<script>alert(1)</script>\"'&<img src=x onerror=alert(1)>";
    let more = json!({
        "role": evil, "version": evil, "phase": evil, "rke2Version": evil, "addresses": ["10.0.0.1"],
        "firstBlocker": {"file": evil, "why": evil}, "findings": [{"code": evil, "severity": evil, "subject": evil}],
        "statusServer": {"url": "javascript:alert(1)", "fingerprint": evil},
        "phases": [{"name": evil, "since": at(3).to_string()}],
    });
    view(&[event(2, evil, "api", 20, &more)])
}

#[test]
fn nothing_of_a_node_becomes_markup_or_control() {
    let view = hostile();
    let row = view.nodes.iter().find(|row| !row.expected).unwrap();
    let page = NodePage {
        row,
        view: &view,
        chain: vec![ChainFile {
            file: "<b>".to_owned(),
            state: "held".to_owned(),
            why: String::new(),
            links: vec![ChainLink {
                what: "<b>".to_owned(),
                message: "<b>".to_owned(),
                root: true,
                brought_by: "<b>".to_owned(),
            }],
        }],
        document: Some("{\"x\": \"<b>\"}".to_owned()),
    };
    let pages = [
        rack_page(&view),
        node_page(&page, false),
        node_page(&page, true),
    ];
    for page in &pages {
        for markup in [
            "<script>alert",
            "<img",
            "<b>x",
            "onerror=alert(1)>",
            "\"<b>\"",
            "href=\"javascript",
        ] {
            assert!(!page.contains(markup), "{markup}: {page}");
        }
        assert!(page.contains("&lt;script&gt;"));
        let seen = page.replace('\n', "");
        assert!(!seen.chars().any(is_hidden), "{seen}");
    }
    let table = rack_table(&view, Style::default());
    assert!(!table.replace('\n', "").chars().any(is_hidden), "{table}");
}

#[test]
fn a_page_loads_nothing_and_its_policy_allows_its_own_style_and_script_alone() {
    let view = usual();
    let page = rack_page(&view);
    for foreign in [
        "http://", "https://", "src=", "<link", "@import", "url(", " style=", " onclick",
    ] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let between = |open: &str, close: &str| {
        let rest = page.split_once(open).unwrap().1;
        rest.split_once(close).unwrap().0.to_owned()
    };
    let policy = policy();
    use base64::Engine as _;
    for (what, text) in [
        ("style-src", between("<style>", "</style>")),
        ("script-src", between("<script>", "</script>")),
    ] {
        let digest = windrow_model::manifest::sha256(text.as_bytes());
        let digest = base64::engine::general_purpose::STANDARD.encode(digest);
        assert!(
            policy.contains(&format!("{what} 'sha256-{digest}'")),
            "{policy}"
        );
    }
    assert!(policy.starts_with("default-src 'none'"));
    assert!(!policy.contains("unsafe"));
    assert_eq!(page.matches("<script>").count(), 1);
    // What changes is the page's own part, word for word.
    assert!(page.contains(&rack_part(&view)));
}

#[test]
fn all_bars_have_one_scale_and_one_that_hangs_does_not_squash_the_others() {
    let page = rack_page(&usual());
    // n1 was Ready after 10 minutes, n3 is on its way for 24: the marks are the same for all.
    assert!(page.contains(">5 min</text>"), "{page}");
    assert_eq!(page.matches("class=\"ready\"").count(), 1);
    let mut late = event(
        4,
        "n4",
        "api",
        -200_000,
        &json!({"uptimeSeconds": 201_400, "pace": "stalled"}),
    );
    late["data"]["phases"] = json!([]);
    let events = [
        event(1, "n1", "ready", 600, &json!({})),
        event(2, "n2", "ready", 620, &json!({})),
        late,
    ];
    let page = rack_page(&view(&events));
    assert!(page.contains(">10 min</text>"), "{page}");
    assert!(page.contains("class=\"more\""));
}

#[test]
fn the_page_of_a_node_says_what_to_do() {
    let view = usual();
    let page = NodePage {
        row: view.node("n2").unwrap(),
        view: &view,
        chain: Vec::new(),
        document: None,
    };
    let text = node_page(&page, false);
    assert!(text.contains("127.0.0.1:6443 refuses connections"));
    assert!(text.contains("data-part=\"/nodes/n2/part\""));
    assert!(text.contains("52:54:00:00:00:02"));
    let advice = windrow_model::reasons::Code::ApiNotReady.reason().advice;
    assert!(
        advice.is_empty() || text.contains("class=\"advice\""),
        "{text}"
    );
}
