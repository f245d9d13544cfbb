//! Predicts which joining nodes Harvester promotes to control planes, and which one only to a member of etcd.
//!
//! Harvester checks all nodes whenever one of them changes, and promotes one at a time until there are three (harvester v1.4.0 to
//! v1.8.2, `selectPromoteNode` in `pkg/controller/master/node/promote_controller.go`). This assumes that all nodes are healthy
//! and join in the given order.

use std::collections::BTreeSet;

use super::membership::{HarvesterRole, Membership};
use crate::JoinRole;

/// The number of control-plane nodes that Harvester maintains, including a witness, if there are enough nodes.
const CONTROL_PLANES: usize = 3;

/// The role that each joining node gets, apart from the node that creates the cluster.
pub fn promotions(founder: &Membership, joining: &[&Membership]) -> Vec<JoinRole> {
    let mut roles = vec![JoinRole::Agent; joining.len()];
    while let Some(next) = next_promoted(founder, joining, &roles) {
        roles[next] = match joining[next].role {
            HarvesterRole::Witness => JoinRole::Witness,
            _ => JoinRole::Promoted,
        };
    }
    roles
}

/// The next node to promote; `None` if there are enough, or never will be.
fn next_promoted(
    founder: &Membership,
    joining: &[&Membership],
    roles: &[JoinRole],
) -> Option<usize> {
    let is_promoted = |number: usize| roles[number] != JoinRole::Agent;
    let promoted = (0..roles.len()).filter(|number| is_promoted(*number));
    if 1 + promoted.clone().count() >= CONTROL_PLANES {
        return None;
    }
    // Only one witness counts: a second one cannot be promoted.
    let of_role = |role: HarvesterRole| {
        let waiting = (0..joining.len()).filter(|number| !is_promoted(*number));
        waiting.filter(move |number| joining[*number].role == role)
    };
    let has_witness = roles.contains(&JoinRole::Witness);
    let witness = of_role(HarvesterRole::Witness).take(usize::from(!has_witness));
    let able: [Vec<usize>; 3] = [
        of_role(HarvesterRole::Management).collect(),
        witness.collect(),
        of_role(HarvesterRole::Default).collect(),
    ];
    let count = able.iter().map(Vec::len).sum::<usize>();
    if 1 + promoted.clone().count() + count < CONTROL_PLANES {
        return None;
    }
    let zone = |number: usize| joining[number].zone.as_deref();
    let own: BTreeSet<&str> = promoted
        .filter_map(zone)
        .chain(founder.zone.as_deref())
        .collect();
    let others = able.iter().flatten().filter_map(|number| zone(*number));
    let all: BTreeSet<&str> = own.iter().copied().chain(others).collect();
    if !own.is_empty() && all.len() < CONTROL_PLANES {
        return None;
    }
    let candidates = able.into_iter().find(|group| !group.is_empty())?;
    candidates
        .into_iter()
        .find(|number| own.is_empty() || zone(*number).is_some_and(|zone| !own.contains(zone)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(role: HarvesterRole, zone: Option<&str>) -> Membership {
        Membership {
            role,
            zone: zone.map(str::to_owned),
            ..Membership::default()
        }
    }

    fn roles(founder: Option<&str>, joining: &[(HarvesterRole, Option<&str>)]) -> Vec<JoinRole> {
        let founder = node(HarvesterRole::Default, founder);
        let joining: Vec<Membership> = joining
            .iter()
            .map(|(role, zone)| node(*role, *zone))
            .collect();
        promotions(&founder, &joining.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_witness_counts_towards_three_once_and_a_worker_never() {
        use HarvesterRole::{Default, Management, Witness, Worker};
        use JoinRole::{Agent, Promoted, Witness as InEtcd};
        let of = |all: &[HarvesterRole]| {
            let all: Vec<_> = all.iter().map(|role| (*role, None)).collect();
            roles(None, &all)
        };
        assert_eq!(of(&[Default, Witness]), [Promoted, InEtcd]);
        assert_eq!(of(&[Default, Default, Witness]), [Promoted, Agent, InEtcd]);
        assert_eq!(of(&[Witness, Witness]), [Agent, Agent]);
        assert_eq!(of(&[Default, Witness, Witness]), [Promoted, InEtcd, Agent]);
        assert_eq!(of(&[Default, Worker]), [Agent, Agent]);
        assert_eq!(
            of(&[Default, Management, Default]),
            [Promoted, Promoted, Agent]
        );
        assert_eq!(of(&[Default]), [Agent]);
    }

    #[test]
    fn a_zone_of_the_founder_asks_for_three_and_each_control_plane_is_in_another() {
        use JoinRole::{Agent, Promoted};
        let plain = |zone| (HarvesterRole::Default, zone);
        let same = [plain(Some("1")), plain(Some("1"))];
        assert_eq!(roles(Some("1"), &same), [Agent, Agent]);
        assert_eq!(
            roles(None, &[plain(None), plain(None)]),
            [Promoted, Promoted]
        );
        let three = [plain(Some("1")), plain(Some("2")), plain(Some("3"))];
        assert_eq!(roles(Some("1"), &three), [Agent, Promoted, Promoted]);
        assert_eq!(
            roles(Some("1"), &[plain(None), plain(None)]),
            [Agent, Agent]
        );
        // Without a zone in the first node, the rule starts with the first promoted node.
        assert_eq!(roles(None, &same), [Promoted, Agent]);
    }
}
