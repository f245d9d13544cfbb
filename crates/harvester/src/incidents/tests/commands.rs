//! Tests commands that an operator copies: a name is one word of the command, regardless of its characters.

use proptest::prelude::*;

use super::*;
use crate::incidents::cure::Cure;

/// The words of a command in a POSIX shell, as far as quotes are concerned.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        let word = words.last_mut().unwrap();
        match character {
            '\'' => is_quoted = !is_quoted,
            '\\' if !is_quoted => word.extend(characters.next()),
            ' ' if !is_quoted => words.push(String::new()),
            _ => {
                let ends = "\n\t;&|<>()$`\"*?[#~!{}";
                assert!(is_quoted || !ends.contains(character), "{command}");
                word.push(character);
            }
        }
    }
    words
}

fn commands(finding: &IncidentFinding) -> impl Iterator<Item = &str> {
    finding.advice.split('`').skip(1).step_by(2)
}

proptest! {
    #[test]
    fn a_name_of_a_report_is_one_word_of_each_command(name in "[ a-z;'\"$()|&<>\\n*?#!~{}\\\\/-]{1,24}") {
        let own = OwnNode {
            unfinished_repairs: vec![UnfinishedRepair {
                record: name.clone(),
                subject: "Plan a/b".to_owned(),
                server: String::new(),
                since: now(),
                steps: Vec::new(),
            }],
            ..OwnNode::default()
        };
        let looked = look_at_own(&own, &Objects::default(), now());
        let found: Vec<IncidentFinding> = looked.into_iter().flat_map(|one| one.found.unwrap_or_default()).collect();
        let undo: Vec<&str> = found.iter().flat_map(commands).collect();
        prop_assert_eq!(words(undo[0]), ["windrow", "repair", "--undo", name.as_str(), "--dry-run"]);
        let mut finding = IncidentFinding::new(Code::PlanStuck, name.clone(), "");
        finding.cure = Some(Cure {
            summary: String::new(),
            changes: Vec::new(),
            saves: Vec::new(),
            purpose: None,
            steps: Vec::new(),
        });
        prop_assert_eq!(words(&finding.remedy().unwrap()), ["windrow", "repair", "plan-stuck", name.as_str()]);
    }

    #[test]
    fn a_name_or_label_of_a_saved_list_is_one_word_of_each_command(hostile in "[a-z0-9]{0,4}[ ;'\"$()|&<>`\\n][a-z ;]{0,8}") {
        let old = "2026-05-01T00:00:00Z";
        let release = |name: &str, version: &str, status: &str| json!({
            "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
            "metadata": {"namespace": "cattle-system", "name": format!("sh.helm.release.v1.rancher.{status}"), "creationTimestamp": old,
                "labels": {"owner": "helm", "name": name, "version": version, "status": status, "modifiedAt": "1700000000"}}});
        let chart = json!({"apiVersion": "management.cattle.io/v3", "kind": "ManagedChart",
            "metadata": {"namespace": "fleet-local", "name": "harvester"}});
        let upgrade = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
            "metadata": {"namespace": "harvester-system", "name": "up", "labels": {"harvesterhci.io/latestUpgrade": "true"}}});
        let job = |name: &str| json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"failed": 5},
            "metadata": {"namespace": "harvester-system", "name": name, "creationTimestamp": old,
                "labels": {"harvesterhci.io/upgrade": "up"}}});
        let of = |name: &str, version: &str| {
            let objects = [
                chart.clone(), upgrade.clone(), job(name),
                release(name, version, "deployed"), release(name, "2", "pending-upgrade"),
            ];
            let found = diagnose(&cluster(objects), now()).findings;
            found.iter().flat_map(commands).map(str::to_owned).collect::<Vec<_>>()
        };
        let plain = of("rancher", "1");
        prop_assert!(plain.iter().any(|command| command == "helm rollback rancher 1 -n cattle-system"), "{:?}", plain);
        prop_assert!(plain.iter().any(|command| command == "kubectl -n harvester-system logs job/rancher"), "{:?}", plain);
        for command in of(&hostile, "1").iter().chain(&of("rancher", &hostile)) {
            let words = words(command);
            prop_assert!(matches!(words.len(), 5 | 6), "{}", command);
        }
    }
}
