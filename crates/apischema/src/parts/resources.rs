//! The requests and limits of containers.
//!
//! Source: `ValidateContainerResourceRequirements` in `pkg/apis/core/validation` and `pkg/apis/core/v1/helper` of
//! k8s.io/kubernetes v1.31 to v1.36.

use windrow_model::manifest::{MapEntry, Node};
use windrow_model::quantity::billionths;

use super::{Part, quantity};
use crate::formats;
use crate::problem::{Problem, Reason};

/// One unit in billionths.
const ONE: i128 = 1_000_000_000;

impl<'a> Part<'a, '_> {
    pub(super) fn resources(&mut self) {
        for field in ["limits", "requests"] {
            for entry in self.amounts(field) {
                self.amount(field, entry);
            }
        }
        for entry in self.amounts("requests") {
            self.request(entry);
        }
        let all = ["limits", "requests"].map(|field| self.amounts(field));
        let mut names = all.into_iter().flatten().map(|entry| &*entry.key);
        let asks_for_one = names.clone().any(|name| ["cpu", "memory"].contains(&name));
        if names.any(is_huge) && !asks_for_one {
            let why = "hugepages require cpu or memory too";
            self.add("", Reason::Forbidden, why);
        }
    }

    fn amounts(&self, field: &str) -> &'a [MapEntry] {
        self.node.get(field).map_or(&[][..], Node::entries)
    }

    /// The name of a resource is a known one or has a domain, and its quantity is valid for it.
    fn amount(&mut self, field: &str, entry: &MapEntry) {
        let name = &*entry.key;
        let wrong = match (name_error(name), quantity(&entry.value)) {
            (Some(why), _) => Some((Reason::Invalid, why)),
            (None, Some(number)) => amount_error(name, number).map(|why| (Reason::Invalid, why)),
            (None, None) => None,
        };
        if let Some((reason, why)) = wrong {
            let list = self.path.field(field);
            let problem = Problem::invalid(entry.line, &list.key(name), reason, &why);
            self.problems.push(problem);
        }
    }

    /// A request must not exceed its limit, and must equal it if the resource cannot be overcommitted.
    fn request(&mut self, entry: &MapEntry) {
        let name = &entry.key;
        let limit = self
            .node
            .at(&["limits", name])
            .filter(|limit| !limit.is_null());
        let Some(limit) = limit else {
            if !is_shared(name) {
                let list = self.path.field("limits");
                let why = "a limit as large as the request, as it cannot be shared";
                let problem = Problem::invalid(entry.line, &list.key(name), Reason::Required, why);
                self.problems.push(problem);
            }
            return;
        };
        let (Some(request), Some(most)) = (quantity(&entry.value), quantity(limit)) else {
            return;
        };
        let why = if request != most && !is_shared(name) {
            format!("must be equal to {name} limit")
        } else if request > most {
            format!("must be less than or equal to {name} limit")
        } else {
            return;
        };
        let path = self.path.field("requests");
        let problem = Problem::invalid(entry.line, &path, Reason::Invalid, &why);
        self.problems.push(problem);
    }
}

fn name_error(name: &str) -> Option<String> {
    let of_domain = name.contains('/');
    let known = ["cpu", "memory", "ephemeral-storage"].contains(&name) || is_huge(name);
    match formats::label_key_error(name) {
        Some(why) => Some(why.to_owned()),
        None if of_domain || known => None,
        None => Some(
            "must be cpu, memory, ephemeral-storage, hugepages-SIZE, or DOMAIN/NAME".to_owned(),
        ),
    }
}

fn amount_error(name: &str, number: i128) -> Option<String> {
    let page = name.strip_prefix("hugepages-").and_then(billionths);
    let why = if number < 0 {
        "must be greater than or equal to 0"
    } else if is_extended(name) && number % ONE != 0 {
        "must be an integer"
    } else if page.is_some_and(|page| page > 0 && number % page != 0) {
        "must be a multiple of the page's size"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// Whether it is a resource of Kubernetes itself.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// For example a device.
fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.")
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether the request may be smaller than the limit.
fn is_shared(name: &str) -> bool {
    is_native(name) && !is_huge(name)
}
