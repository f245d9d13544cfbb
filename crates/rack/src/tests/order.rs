//! Tests that neither the order nor the number of reports matters.

use proptest::prelude::*;

use super::*;

/// Reports of only a few machines, so that all combinations occur.
fn any_report() -> impl Strategy<Value = NodeReport> {
    let macs = prop::sample::select(vec!["", "52:54:00:00:00:01", "52:54:00:00:00:02"]);
    let serials = prop::sample::select(vec!["", "S1", "S2"]);
    let hosts = prop::sample::select(vec!["n1", "n2", "localhost"]);
    let boots = prop::sample::select(vec!["", "one", "two", "three"]);
    let phases = prop::sample::select(vec!["network", "api", "node", "ready"]);
    let kinds = prop::sample::select(vec!["dev.windrow.node.seen", "dev.windrow.node.phase"]);
    let numbers = (
        prop::option::of(prop_oneof![9 => 0_u64..6, 1 => Just(u64::MAX)]),
        prop::option::of(prop_oneof![9 => 0_u64..300, 1 => Just(400_000_000)]),
        prop::option::of(0_i64..600),
        0_i64..600,
        0_i64..600,
    );
    (macs, serials, hosts, boots, phases, kinds, numbers).prop_map(
        |(mac, serial, host, boot, phase, kind, (sequence, uptime, sent, since, received))| {
            let mut event = Sender::new(1).event(0, 0, phase, since);
            event["type"] = json!(kind);
            let data = event["data"].as_object_mut().unwrap();
            data.insert("macAddress".to_owned(), json!(mac));
            data.insert("serial".to_owned(), json!(serial));
            data.insert("hostname".to_owned(), json!(host));
            data.insert("bootId".to_owned(), json!(boot));
            data.insert("sequence".to_owned(), json!(sequence));
            data.insert("uptimeSeconds".to_owned(), json!(uptime));
            data.insert(
                "sentAt".to_owned(),
                json!(sent.map(|sent| at(sent).to_string())),
            );
            read(&event, received)
        },
    )
}

proptest! {
    #[test]
    fn the_order_and_the_number_of_reports_make_no_difference(
        (reports, shuffled) in prop::collection::vec(any_report(), 1..12).prop_flat_map(|reports| {
            let mut twice = reports.clone();
            twice.extend(reports.iter().take(5).cloned());
            (Just(reports), Just(twice).prop_shuffle())
        }),
        known in any::<bool>(),
    ) {
        let inventory = match known {
            true => "- {name: a, mac: '52:54:00:00:00:01', serial: S1}\n- {name: b, host: n2}\n",
            false => "",
        };
        let (mut one, mut other) = (rack(inventory), rack(inventory));
        for report in &reports {
            one.take(report).unwrap();
        }
        for report in &shuffled {
            other.take(report).unwrap();
        }
        prop_assert_eq!(one.view(at(700)), other.view(at(700)));
        // Merging the records of two receivers gives the same result.
        let mut both = rack(inventory);
        let (left, right) = reports.split_at(reports.len() / 2);
        for half in [right, left] {
            let mut part = rack(inventory);
            for report in half {
                part.take(report).unwrap();
            }
            for (identity, record) in part.records() {
                both.restore(identity.clone(), record.clone()).unwrap();
            }
        }
        prop_assert_eq!(one.view(at(700)), both.view(at(700)));
    }

    #[test]
    fn nothing_that_is_sent_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_event(&bytes, start());
    }
}
