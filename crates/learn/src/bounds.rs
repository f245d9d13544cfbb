//! The limits of a row. A flight comes from a node, and its content may be wrong on purpose: an invalid Kubernetes
//! name, a time too long for a bootstrap, or more objects than a boot can create are left out or rejected.

use jiff::Timestamp;
use windrow_decide::flight::Appeared;
use windrow_model::grammars::is_label_of_any_length;
use windrow_model::manifest::{GroupKind, ObjectRef, namespace_name_error, object_name_error};
use windrow_plan::knowledge::is_kubernetes_group;

use crate::row::{ObservedBoot, ROW_FORMAT, Who};

/// The longest time of anything in a bootstrap, in milliseconds: seven days.
pub const LONGEST_MS: u64 = 7 * 24 * 3600 * 1000;
/// The maximum number of things of one provider, and of providers, in one boot.
pub const MOST_THINGS: usize = 500;
/// The maximum number of things in a boot.
pub const MOST_OF_A_BOOT: usize = 2_000;
/// The maximum number of RKE2's polls in a boot.
pub const MOST_POLLS: usize = 32;
/// The maximum number of refusals in a boot.
pub const MOST_REFUSALS: usize = 50;
/// The largest row, in bytes.
pub const LARGEST_ROW: usize = 64 << 10;
const LONGEST_NAME: usize = 253;
pub const LONGEST_TEXT: usize = 200;

/// Namespaces of every cluster (kubernetes `pkg/controlplane/controller/systemnamespaces`).
const OF_EVERY_CLUSTER: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Can a boot have this time? Windrow did not exist earlier, and a clock further ahead is wrong.
pub fn is_plausible_time(at: Timestamp) -> bool {
    let year = at.strftime("%Y").to_string();
    ("2020".."2100").contains(&year.as_str())
}

/// A name of an object, a chart or a release: letters, digits, and `-._:` within (`k8s.io/apimachinery` `pkg/api/validation`; names of
/// roles have colons).
pub fn is_name(text: &str) -> bool {
    let inner = |one: char| one.is_ascii_alphanumeric() || "-._:".contains(one);
    (1..=LONGEST_NAME).contains(&text.len())
        && text.chars().all(inner)
        && text.starts_with(|one: char| one.is_ascii_alphanumeric())
        && text.ends_with(|one: char| one.is_ascii_alphanumeric())
}

/// A version, a hardware class or a repository: one printable word.
pub fn is_word(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(|one| ('!'..='~').contains(&one))
}

/// One line of printable ASCII.
pub fn is_text(text: &str) -> bool {
    (1..=LONGEST_TEXT).contains(&text.len()) && text.chars().all(|one| (' '..='~').contains(&one))
}

/// A kind that a provider can create: not a kind of Kubernetes itself.
pub fn is_kind(kind: &GroupKind) -> bool {
    is_any_kind(kind) && kind.group.contains('.') && !is_kubernetes_group(&kind.group)
}

/// Any kind. The core group is empty.
fn is_any_kind(kind: &GroupKind) -> bool {
    let is_group = |group: &str| {
        group.is_empty() || (is_name(group) && group.split('.').all(is_label_of_any_length))
    };
    is_group(&kind.group)
        && (1..=63).contains(&kind.kind.len())
        && kind.kind.starts_with(|one: char| one.is_ascii_uppercase())
        && kind.kind.chars().all(|one| one.is_ascii_alphanumeric())
}

/// A kind or an object that can be learned.
pub fn is_thing(what: &Appeared) -> bool {
    match what {
        Appeared::Kind { kind, .. } => is_kind(kind),
        Appeared::Object(object) => is_object(object),
    }
}

/// A name that `flight.names: hash` replaced: 12 digits of its digest. It is not the name of an object.
pub fn is_digest(name: &str) -> bool {
    name.len() == 12
        && name
            .bytes()
            .all(|one| matches!(one, b'0'..=b'9' | b'a'..=b'f'))
}

/// An object that a rule pack may name. An object that a rule pack rejects cannot exist, and would make the file
/// invalid for all other boots.
fn is_object(object: &ObjectRef) -> bool {
    let is_hashed = is_digest(&object.name) || object.namespace.as_deref().is_some_and(is_digest);
    let is_own = object.kind == "Namespace" && object.group.is_empty();
    !is_hashed
        && is_any_kind(&object.group_kind())
        && is_name(&object.name)
        && object_name_error(&object.group_kind(), &object.name).is_none()
        && object.namespace.as_deref().is_none_or(is_namespace)
        && !(is_own && OF_EVERY_CLUSTER.contains(&object.name.as_str()))
}

fn is_namespace(name: &str) -> bool {
    namespace_name_error(name).is_none()
}

/// The error in a row; a sentence for users.
pub fn complaint(boot: &ObservedBoot) -> Option<String> {
    let wrong = |what: &str| Some(format!("{what}: the boot is left out"));
    if boot.format != ROW_FORMAT {
        return wrong(&format!(
            "its format is {}, and this program reads {ROW_FORMAT}",
            boot.format
        ));
    }
    if !is_name(&boot.id) || boot.id.len() > 64 || !is_word(&boot.windrow) {
        return wrong("its id or Windrow's version is not a name");
    }
    if !is_plausible_time(boot.at) {
        return wrong("it began before 2020 or after 2099, by its own clock");
    }
    let words = [&boot.kubernetes, &boot.harvester, &boot.hardware];
    if words.into_iter().flatten().any(|word| !is_word(word)) {
        return wrong("a version or the hardware class is not a valid word");
    }
    if boot.phases.iter().any(|phase| phase.ms > LONGEST_MS) {
        return wrong("a phase takes longer than seven days");
    }
    if boot.polls.len() > MOST_POLLS || boot.polls.iter().any(|ms| *ms > LONGEST_MS) {
        return wrong("a poll of RKE2's takes longer than seven days, or there are too many");
    }
    let things = || boot.brought.iter().flat_map(|one| &one.things);
    let mut times = things().flat_map(|thing| [thing.after, thing.api]);
    if times.any(|time| time.is_some_and(|ms| ms > LONGEST_MS)) {
        return wrong("something takes longer than seven days to come");
    }
    if things().any(|thing| !is_thing(&thing.what)) {
        return wrong(
            "one of its objects is not a valid kind or name, or belongs to Kubernetes itself",
        );
    }
    if boot.brought.iter().any(|one| !is_who(&one.by)) {
        return wrong("the name of what brought something is not a name");
    }
    let is_refusal = |said: &str, cause: Option<&str>| is_text(said) && cause.is_none_or(is_text);
    let mut refusals = boot.refusals.iter();
    if refusals.any(|one| !is_any_kind(&one.kind) || !is_refusal(&one.said, one.cause.as_deref())) {
        return wrong("a refusal has unprintable or too many words");
    }
    if things().count() > MOST_OF_A_BOOT
        || boot.brought.len() > MOST_THINGS
        || boot.refusals.len() > MOST_REFUSALS
        || boot.phases.len() > 20
        || boot.line().len() > LARGEST_ROW
    {
        return wrong("it says more than a boot can bring");
    }
    None
}

/// Is it a valid provider?
pub fn is_who(who: &Who) -> bool {
    match who {
        Who::Chart {
            name,
            version,
            repository,
            ..
        } => {
            is_name(name)
                && version.as_deref().is_none_or(is_word)
                && repository.as_deref().is_none_or(is_word)
        }
        Who::Release { name, namespace } => is_name(name) && is_namespace(namespace),
        Who::Addon { name } => is_name(name),
        Who::Fleet { bundle } => is_name(bundle),
        Who::Owner { kind } => is_any_kind(kind),
        Who::Unknown => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_kubernetes_takes_and_nothing_of_kubernetes_is_learned() {
        let kind = |group: &str, kind: &str| is_kind(&GroupKind::new(group, kind));
        assert!(kind("example.com", "Widget"));
        for (group, name) in [
            ("apps", "Deployment"),
            ("", "Secret"),
            ("rbac.authorization.k8s.io", "ClusterRole"),
            ("example.com", "widget"),
            ("example.com", "Wid\nget"),
            ("exa mple.com", "Widget"),
            ("Example.com", "Widget"),
            ("a..example.com", "Widget"),
            ("a.-b.example.com", "Widget"),
        ] {
            assert!(!kind(group, name), "{group:?} {name:?}");
        }
        for wrong in ["", "a b", "-a", "a\u{1b}[31m", "a: [", &"a".repeat(254)] {
            assert!(!is_name(wrong), "{wrong:?}");
        }
        let namespace = |name: &str| is_object(&ObjectRef::cluster("", "Namespace", name));
        assert!(namespace("widgets") && !namespace("kube-system"));
        assert!(!namespace("a.b") && !namespace("A"));
        let limits = |space: &str, name: &str| {
            is_object(&ObjectRef::namespaced("", "LimitRange", space, name))
        };
        assert!(limits("a", "a.b") && !limits("a.b", "a") && !limits("a", "a..b"));
        // `flight.names: hash` writes names of this form.
        assert!(!namespace("0a1b2c3d4e5f") && namespace("0a1b2c3d4e5"));
    }
}
