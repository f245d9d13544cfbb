//! Does a component of this node run with the gates that a trial gave it?
//!
//! A trial that changes a component's arguments replaces its process. So the former process proves nothing, even if it
//! reports the requested values: after a removal, it always does.

use std::time::Duration;

use super::Component;

/// How much less precise the start time of a process is than that of a unit.
const COARSE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComponentLook {
    /// The line of its log in which it refuses its gates.
    Refuses(String),
    /// Nothing answers on its port.
    Silent(String),
    /// It may run, but does not report its gates.
    Unreadable(String),
    Reports {
        is_new: bool,
        /// A message for each gate that is not in effect.
        differences: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It runs with these gates.
    Verified,
    /// It does not, and waiting does not change that.
    Otherwise(String),
    /// It may still do so. Until then, a trial that changed this component is not kept.
    Waits(String),
    /// There is no evidence.
    Unverified(String),
}

/// `is_changed`: the trial changes the component's arguments.
pub fn judge_look(component: Component, is_changed: bool, look: ComponentLook) -> Verdict {
    const BEFORE: &str = "its previous process still runs";
    match look {
        ComponentLook::Refuses(line) => Verdict::Otherwise(format!("{component} says: {line}")),
        ComponentLook::Silent(why) if is_changed => {
            Verdict::Waits(format!("{component} does not answer: {why}"))
        }
        ComponentLook::Silent(why) | ComponentLook::Unreadable(why) => Verdict::Unverified(why),
        ComponentLook::Reports {
            is_new: false,
            differences,
        } => {
            if is_changed {
                Verdict::Waits(format!("{component}: {BEFORE}"))
            } else if differences.is_empty() {
                Verdict::Verified
            } else {
                Verdict::Unverified(BEFORE.to_owned())
            }
        }
        ComponentLook::Reports { differences, .. } if differences.is_empty() => Verdict::Verified,
        ComponentLook::Reports { differences, .. } => {
            let differences = differences.join(", ");
            let why = format!("not in effect: {component} says that {differences}");
            Verdict::Otherwise(why)
        }
    }
}

/// Was a process started after a unit was? Both ages are from clocks that are never set. False for a process without a
/// known age.
pub fn is_newer(process: Option<Duration>, unit: Option<Duration>) -> bool {
    match (process, unit) {
        (Some(process), Some(unit)) => process <= unit.saturating_add(COARSE),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(is_new: bool, differences: &[&str]) -> ComponentLook {
        ComponentLook::Reports {
            is_new,
            differences: differences.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn only_a_process_of_this_start_verifies_a_component_that_the_trial_changes() {
        let judge = |is_changed, look| judge_look(Component::Kubelet, is_changed, look);
        assert_eq!(judge(true, reports(true, &[])), Verdict::Verified);
        // Like after a removal: the former process also has the requested values.
        assert!(matches!(
            judge(true, reports(false, &[])),
            Verdict::Waits(_)
        ));
        assert!(matches!(
            judge(true, reports(false, &["A is true"])),
            Verdict::Waits(_)
        ));
        let silent = ComponentLook::Silent("connection refused".to_owned());
        assert!(matches!(judge(true, silent), Verdict::Waits(_)));
    }

    #[test]
    fn a_component_that_the_trial_does_not_change_may_be_the_process_of_before() {
        let judge = |look| judge_look(Component::KubeScheduler, false, look);
        assert_eq!(judge(reports(false, &[])), Verdict::Verified);
        for look in [
            reports(false, &["A is true"]),
            ComponentLook::Silent("connection refused".to_owned()),
            ComponentLook::Unreadable("403".to_owned()),
        ] {
            assert!(
                matches!(judge(look.clone()), Verdict::Unverified(_)),
                "{look:?}"
            );
        }
    }

    #[test]
    fn a_refusal_and_a_new_process_with_other_gates_need_no_waiting() {
        for is_changed in [false, true] {
            for look in [
                ComponentLook::Refuses("unrecognized feature gate: X".to_owned()),
                reports(true, &["A is true"]),
            ] {
                let verdict = judge_look(Component::KubeScheduler, is_changed, look);
                assert!(matches!(verdict, Verdict::Otherwise(_)), "{verdict:?}");
            }
        }
    }

    #[test]
    fn a_process_is_newer_than_a_unit_if_it_is_younger_and_both_ages_are_known() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert!(is_newer(seconds(10), seconds(30)));
        assert!(is_newer(seconds(31), seconds(30)), "ages are coarse");
        assert!(!is_newer(seconds(3600), seconds(30)));
        assert!(!is_newer(None, seconds(30)) && !is_newer(seconds(10), None));
    }
}
