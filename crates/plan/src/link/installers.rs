//! Finds the documents of a directory that install further objects automatically.

use std::collections::{HashMap, HashSet};

use super::declarations::DocumentId;
use crate::examine::Examined;
use crate::installer::{HARMLESS_ROLES, Installing, RoleSubject, ServiceAccount};
use crate::rke2;

/// Every installer of the directory. Files of RKE2 and Rancher are not installers: Windrow knows their results.
pub(super) fn find_installers(examined: &[&Examined]) -> Vec<DocumentId> {
    let ours = || {
        examined
            .iter()
            .enumerate()
            .filter(|(_, one)| !rke2::is_platforms(&one.path))
    };
    let objects = || {
        ours().flat_map(|(file, one)| {
            let objects = one.objects.iter().enumerate();
            objects.map(move |(document, object)| ((file, document), &object.installing))
        })
    };
    let mut roles: HashMap<&str, bool> = HashMap::new();
    for (_, installing) in objects() {
        if let Installing::Role { name, may_install } = installing {
            *roles.entry(name).or_default() |= may_install;
        }
    }
    // A role that is not in these files may allow anything, unless every cluster has it.
    let may_install = |role: &str| match roles.get(role) {
        Some(may_install) => *may_install,
        None => !HARMLESS_ROLES.contains(&role) && !role.starts_with("system:"),
    };
    let mut privileged: HashSet<&RoleSubject> = HashSet::new();
    for (_, installing) in objects() {
        if let Installing::Binding { role, subjects } = installing
            && may_install(role)
        {
            privileged.extend(subjects);
        }
    }
    let has_rights = |account: &ServiceAccount| {
        let all = |namespace| RoleSubject::AllAccounts(namespace);
        privileged.contains(&RoleSubject::ServiceAccount(account.clone()))
            || privileged.contains(&all(None))
            || privileged.contains(&all(Some(account.namespace.clone())))
    };
    objects()
        .filter(|(_, installing)| match installing {
            Installing::Yes => true,
            Installing::ActsAs(account) => has_rights(account),
            _ => false,
        })
        .map(|(place, _)| place)
        .collect()
}
