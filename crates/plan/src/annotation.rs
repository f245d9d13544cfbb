//! The annotations with which a manifest declares dependencies.
//!
//! `config.kubernetes.io/depends-on` has the grammar of sigs.k8s.io/cli-utils (`pkg/object/dependson`): references
//! separated by commas, each `group/kind/name` for a cluster-scoped object or `group/namespaces/namespace/kind/name`.
//! The core group is empty, so a core reference starts with `/`. `windrow.dev/depends-on` accepts the same, and after a
//! reference `(exists)` or `(ready)`, and `(advisory)`.

use crate::kubernetes::lacks_its_group;
use windrow_model::manifest::ObjectRef;

use crate::rules::{NeedCondition, Tier};

/// cli-utils' annotation.
pub(super) const DEPENDS_ON: &str = "config.kubernetes.io/depends-on";
/// cli-utils' grammar with suffixes.
pub(super) const WINDROW_DEPENDS_ON: &str = "windrow.dev/depends-on";
/// Held until released by hand.
pub(super) const HOLD: &str = "windrow.dev/hold";
/// `once`: applied once, then kept from RKE2.
pub(super) const APPLY: &str = "windrow.dev/apply";

/// The prefix of Windrow's own annotations.
pub(super) const OWN: &str = "windrow.dev/";
/// The annotations that an object may have: those that Windrow reads, and those that it writes itself.
pub(super) const KNOWN: [&str; 6] = [
    WINDROW_DEPENDS_ON,
    HOLD,
    APPLY,
    "windrow.dev/accept",
    "windrow.dev/bootstrap",
    "windrow.dev/note",
];

/// One reference of a depends-on annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dependency {
    pub(super) object: ObjectRef,
    /// The required state; a reference without a suffix waits for readiness, as in cli-utils.
    pub(super) condition: NeedCondition,
    pub(super) tier: Tier,
}

/// More references of one annotation are not read.
const MOST: usize = 1000;
/// A longer reference is invalid.
const LONGEST: usize = 1000;

/// Reads a depends-on annotation: returns every valid reference, and an error for every invalid one.
pub(super) fn depends_on(value: &str, with_suffixes: bool) -> (Vec<Dependency>, Vec<String>) {
    let mut dependencies: Vec<Dependency> = Vec::new();
    let mut errors = Vec::new();
    for (number, reference) in value.split(',').map(str::trim).enumerate() {
        if number == MOST {
            errors.push(format!(
                "it names more than {MOST} objects; the rest is ignored"
            ));
            break;
        }
        if reference.len() > LONGEST {
            errors.push(format!(
                "a reference has {} bytes, and no name is so long",
                reference.len()
            ));
            continue;
        }
        match dependency(reference, with_suffixes) {
            Ok(dependency) if dependencies.iter().any(|d| d.object == dependency.object) => {
                errors.push(format!("{reference:?} appears twice"));
            }
            Ok(dependency) => dependencies.push(dependency),
            Err(error) => errors.push(error),
        }
    }
    (dependencies, errors)
}

fn dependency(reference: &str, with_suffixes: bool) -> Result<Dependency, String> {
    let mut condition = NeedCondition::Ready;
    let mut tier = Tier::Required;
    let mut rest = reference;
    while let Some((before, suffix)) = with_suffixes.then(|| suffix(rest)).flatten() {
        match suffix {
            "exists" => condition = NeedCondition::Exists,
            "ready" => condition = NeedCondition::Ready,
            "advisory" => tier = Tier::Advisory,
            other => {
                return Err(format!(
                    "{reference:?} ends in ({other}): only (exists), (ready) and (advisory) are valid"
                ));
            }
        }
        rest = before;
    }
    let object = object(rest).ok_or_else(|| {
        format!("{reference:?} is neither group/kind/name nor group/namespaces/namespace/kind/name")
    })?;
    if let Some(why) = lacks_its_group(&object.group, &object.kind) {
        return Err(format!("{why} in {reference:?}"));
    }
    Ok(Dependency {
        object,
        condition,
        tier,
    })
}

/// Splits ` (word)` off the end.
fn suffix(text: &str) -> Option<(&str, &str)> {
    let (before, word) = text.strip_suffix(')')?.rsplit_once('(')?;
    Some((before.trim_end(), word.trim()))
}

fn object(reference: &str) -> Option<ObjectRef> {
    let fields: Vec<&str> = reference.split('/').collect();
    let plain = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    let object = match fields[..] {
        [group, kind, name] => ObjectRef::cluster(group, kind, name),
        [group, "namespaces", namespace, kind, name] if plain(namespace) => {
            ObjectRef::namespaced(group, kind, namespace, name)
        }
        _ => return None,
    };
    (plain(&object.kind) && plain(&object.name) && !object.group.contains(char::is_whitespace))
        .then_some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_both_scopes_are_read_as_cli_utils_reads_them() {
        let (found, errors) = depends_on(
            "/namespaces/ns/ConfigMap/c , /Namespace/n,apps/namespaces/a/Deployment/d",
            false,
        );
        assert!(errors.is_empty(), "{errors:?}");
        let objects: Vec<_> = found.into_iter().map(|d| d.object).collect();
        assert_eq!(
            objects,
            [
                ObjectRef::namespaced("", "ConfigMap", "ns", "c"),
                ObjectRef::cluster("", "Namespace", "n"),
                ObjectRef::namespaced("apps", "Deployment", "a", "d"),
            ]
        );
    }

    #[test]
    fn suffixes_say_which_state_and_whether_it_holds() {
        let (found, errors) = depends_on("/Namespace/n (exists), /Node/m (ready) (advisory)", true);
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(found[0].condition, NeedCondition::Exists);
        assert_eq!(found[0].tier, Tier::Required);
        assert_eq!(found[1].condition, NeedCondition::Ready);
        assert_eq!(found[1].tier, Tier::Advisory);
    }

    #[test]
    fn every_bad_reference_has_an_error_of_its_own_and_good_ones_are_kept() {
        let (found, errors) = depends_on(
            "Namespace/n, /Namespace/n (soon), /Namespace/, , /Namespace/ok, /Namespace/ok",
            true,
        );
        assert_eq!(found.len(), 1);
        assert_eq!(errors.len(), 5, "{errors:#?}");
        for namespace in ["", "a b"] {
            let (found, errors) = depends_on(&format!("/namespaces/{namespace}/ConfigMap/c"), true);
            assert_eq!((found.len(), errors.len()), (0, 1), "{errors:?}");
        }
        let reference = "/namespaces/db/StatefulSet/postgres";
        let (found, errors) = depends_on(&format!("{reference}, x.org/StatefulSet/s"), true);
        let why = "StatefulSet is a kind of the group apps, which is not written in";
        assert_eq!(
            (found.len(), &errors[..]),
            (1, &[format!("{why} {reference:?}")][..])
        );
        let (_, errors) = depends_on("/Namespace/n (exists)", false);
        assert_eq!(errors.len(), 1, "suffixes are ours, not cli-utils'");
    }
}
