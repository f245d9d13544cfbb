//! Checks whether several nodes fit into one cluster of plain RKE2: every server has the critical values of the first one, and
//! every node has a token that it accepts.

use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Code;
use windrow_plan::rke2::{Rke2Role, SharedValues};

/// A node with the values of its configuration.
pub struct Rke2Node<'n> {
    pub name: &'n str,
    pub role: Rke2Role,
    /// Whether the configuration shows it.
    pub is_role_known: bool,
    pub values: &'n SharedValues,
}

/// The differences for which a node does not join the cluster.
pub fn rke2_conflicts(nodes: &[Rke2Node<'_>]) -> Vec<Finding> {
    let servers = || nodes.iter().filter(|node| node.role == Rke2Role::Server);
    let first = servers()
        .find(|node| !node.values.joins)
        .or_else(|| servers().next());
    let Some(first) = first else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for node in nodes.iter().filter(|node| node.name != first.name) {
        let is_agent = node.role == Rke2Role::Agent;
        let names = format!("{} and {}", first.name, node.name);
        if let Some((own, theirs)) = first.values.refuses(node.values, is_agent) {
            let why =
                "their `token` differs, and a node joins only with the token of the first server";
            found.push(disagree(&names, why, own, theirs));
        }
        if is_agent {
            continue;
        }
        for (key, own, theirs) in first.values.differing(node.values) {
            let why = format!(
                "their `{key}` differs, and RKE2 ends on a joining server with another value. Write the same on all servers"
            );
            let differs = disagree(&names, &why, own, theirs);
            found.push(match node.is_role_known || node.values.is_of_a_server {
                true => differs,
                // Nothing shows whether it runs rke2-server or rke2-agent.
                false => Finding {
                    code: Code::BootUnknown,
                    severity: Code::BootUnknown.severity(),
                    message: Code::BootUnknown
                        .say(&[("how", &format!("{names}: if it is a server, {why}"))]),
                    ..differs
                },
            });
        }
    }
    found
}

fn disagree(names: &str, why: &str, own: &Location, theirs: &Location) -> Finding {
    let code = Code::NodesDisagree;
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: code.say(&[("nodes", names), ("why", why)]),
        at: vec![own.clone(), theirs.clone()],
    }
}

#[cfg(test)]
mod tests {
    use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile};

    use super::*;

    fn conflicts(nodes: &[(&str, Rke2Role, &str)]) -> Vec<(Code, Vec<String>)> {
        let nodes: Vec<_> = nodes
            .iter()
            .map(|(name, role, text)| {
                let file = Rke2ConfigFile::new(ConfigLayer::Main, *name, *text);
                (*name, *role, SharedValues::read(&[file], None).unwrap())
            })
            .collect();
        let nodes: Vec<_> = nodes
            .iter()
            .map(|(name, role, values)| Rke2Node {
                name,
                role: *role,
                is_role_known: true,
                values,
            })
            .collect();
        let found = rke2_conflicts(&nodes).into_iter();
        found
            .map(|finding| {
                (
                    finding.code,
                    finding.at.iter().map(ToString::to_string).collect(),
                )
            })
            .collect()
    }

    const FIRST: (&str, Rke2Role, &str) = (
        "a",
        Rke2Role::Server,
        "token: t\ncluster-cidr: 10.60.0.0/16\n",
    );

    #[test]
    fn a_server_with_other_critical_values_or_another_token_does_not_join() {
        let other = "server: https://a:9345\ntoken: u\n";
        let found = conflicts(&[("b", Rke2Role::Server, other), FIRST]);
        let expected = [["a:1", "b:2"], ["a:2", "b"]];
        let places: Vec<_> = found.iter().map(|(_, places)| places.clone()).collect();
        assert_eq!(
            places,
            expected.map(|pair| pair.map(str::to_owned).to_vec())
        );
        assert!(found.iter().all(|(code, _)| *code == Code::NodesDisagree));
    }

    #[test]
    fn a_node_that_may_be_an_agent_is_unknown_and_no_error() {
        let read = |name: &str, text: &str| {
            let file = Rke2ConfigFile::new(ConfigLayer::Main, name, text);
            SharedValues::read(&[file], None).unwrap()
        };
        let (first, second) = (
            read("a", FIRST.2),
            read("b", "server: https://a:9345\ntoken: t\n"),
        );
        let node = |name, values, is_role_known| Rke2Node {
            name,
            role: Rke2Role::Server,
            is_role_known,
            values,
        };
        let found = rke2_conflicts(&[node("a", &first, true), node("b", &second, false)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].code, Code::BootUnknown);
        let found = rke2_conflicts(&[node("a", &first, true), node("b", &second, true)]);
        assert_eq!(found[0].code, Code::NodesDisagree);
    }

    #[test]
    fn servers_with_equal_values_and_agents_with_a_token_fit() {
        let whole = "server: https://a:9345\ntoken: t\ncluster-cidr: 10.60.0.0/16\n";
        let agent = "server: https://a:9345\ntoken: t\n";
        let nodes = [
            FIRST,
            ("b", Rke2Role::Server, whole),
            ("c", Rke2Role::Agent, agent),
        ];
        assert_eq!(conflicts(&nodes), []);
        let other = ("d", Rke2Role::Agent, "server: https://a:9345\ntoken: u\n");
        assert_eq!(conflicts(&[FIRST, other]).len(), 1);
        assert_eq!(conflicts(&[other]), []);
    }
}
