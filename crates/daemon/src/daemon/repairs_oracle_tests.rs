//! The oracle of drawn repairs. It sees requests and changes, and knows nothing of records.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::{Value, json};

use super::drawing::{Death, Deed, DrawnDeed, Moment};
use crate::act::testing::{Fate, MadeChange};

pub(super) const KUBE_SYSTEM: &str = "/api/v1/namespaces/kube-system";
pub(super) const SIGN: &str = "/apis/harvesterhci.io/v1beta1/settings/sign";
pub(super) const OBJECTS: usize = 3;

pub(super) fn path(object: usize) -> String {
    format!("/apis/harvesterhci.io/v1beta1/namespaces/default/addons/a{object}")
}

pub(super) fn object(number: usize, uid: &str, spec: Value) -> Value {
    json!({"kind": "Addon", "metadata": {"name": format!("a{number}"), "namespace": "default", "uid": uid}, "spec": spec})
}

pub(super) fn uid(number: usize) -> String {
    format!("u{number}")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    Nobody,
    Windrow,
    Other,
}

/// A request to change an object. When its sender sends the next request, the outcome is in the record.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) path: String,
    pub(super) is_off: bool,
    pub(super) fate: Fate,
    pub(super) is_made: bool,
    /// Windrow could regard the object as its own before.
    pub(super) was_claimed: bool,
    /// It was refused by a test, and its sender has examined the object since.
    pub(super) is_judged: bool,
}

/// Whether an object is switched off by Windrow, as far as Windrow can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// A request to switch it off was sent, and not refused.
    Open,
    /// This server knows that it is not: the request was refused, or the object restored.
    Settled(usize),
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) has_faults: bool,
    pub(super) server: usize,
    pub(super) requests: usize,
    pub(super) changes: usize,
    pub(super) death: Option<Death>,
    pub(super) own: (usize, usize),
    pub(super) dies_next: bool,
    pub(super) reply: Option<Deed>,
    pub(super) sent: Option<Sent>,
    /// The object of the last request for a change.
    pub(super) last: usize,
    /// The fields `off` and `kept` of each object.
    pub(super) writers: BTreeMap<(String, &'static str), Writer>,
    pub(super) claims: BTreeMap<String, Claim>,
    /// Objects that were certainly switched off.
    pub(super) taken: BTreeSet<String>,
    pub(super) has_restored: BTreeSet<usize>,
    pub(super) is_undone: bool,
    /// Violations. A panic in a task of the daemon would not fail the test.
    pub(super) faults: Vec<String>,
}

pub(super) const FIELDS: [&str; 2] = ["off", "kept"];

impl Seen {
    pub(super) fn begin_process(&mut self, server: usize, death: Option<Death>) {
        self.server = server;
        self.death = death;
        (self.own, self.dies_next, self.sent) = ((0, 0), false, None);
    }

    pub(super) fn writer(&self, path: &str, field: &'static str) -> Writer {
        let known = self.writers.get(&(path.to_owned(), field));
        known.copied().unwrap_or(Writer::Nobody)
    }

    /// The sender of this request has recorded the outcome of its last change.
    pub(super) fn settle_last_change(&mut self, method: &Method, path: &str) {
        let Some(mut sent) = self.sent.take() else {
            return;
        };
        let is_look = *method == Method::GET && path == sent.path;
        match sent.fate {
            Fate::Served if sent.is_made && sent.is_off => drop(self.taken.insert(sent.path)),
            Fate::Served if sent.is_made => self.settle(sent.path),
            // A test failed, or there was a conflict: the object shows which.
            Fate::Served | Fate::Conflict if is_look && !sent.is_judged => {
                sent.is_judged = true;
                self.sent = Some(sent);
            }
            Fate::Served | Fate::Denied | Fate::Conflict if sent.is_off && !sent.was_claimed => {
                self.settle(sent.path);
            }
            _ => {}
        }
    }

    /// This server knows that the object is not switched off by Windrow.
    pub(super) fn settle(&mut self, path: String) {
        self.claims.insert(path, Claim::Settled(self.server));
    }

    pub(super) fn fate(&mut self, number: Option<usize>, is_change: bool, drawn: Fate) -> Fate {
        let (request, change) = self.own;
        self.own = (request + 1, change + usize::from(is_change));
        let is_it = |at: usize| is_change && at == change;
        let fate = match self.death {
            _ if self.dies_next => Fate::DiesBefore,
            Some(Death::AtRequest(at)) if at == request => Fate::DiesBefore,
            Some(Death::AtChange(at, Moment::Before)) if is_it(at) => Fate::DiesBefore,
            Some(Death::AtChange(at, Moment::After)) if is_it(at) => Fate::DiesAfter,
            _ => drawn,
        };
        self.dies_next |=
            matches!(self.death, Some(Death::AtChange(at, Moment::Next)) if is_it(at));
        if let Some(number) = number.filter(|_| is_change) {
            self.last = number;
        }
        fate
    }

    pub(super) fn note_change(&mut self, path: &str, body: &Value, fate: Fate) {
        let mut operations = body.as_array().into_iter().flatten();
        let Some(change) = operations.find(|operation| operation["op"] != "test") else {
            return;
        };
        if change["path"] != "/spec/off" {
            return;
        }
        let is_off = change["op"] != "remove";
        self.sent = Some(Sent {
            path: path.to_owned(),
            is_off,
            fate,
            is_made: false,
            was_claimed: self.claims.get(path) == Some(&Claim::Open),
            is_judged: false,
        });
        if is_off {
            self.claims.insert(path.to_owned(), Claim::Open);
        }
    }

    /// Whether this server can regard the object as switched off by Windrow. Another server that knows better may not
    /// have been able to note it.
    pub(super) fn may_claim(&self, path: &str, is_noted: bool) -> bool {
        match self.claims.get(path) {
            None => false,
            Some(Claim::Open) => true,
            Some(Claim::Settled(server)) => *server != self.server && is_noted,
        }
    }

    pub(super) fn take_in(&mut self, change: &MadeChange) {
        let path = &change.path;
        let (before, after) = (&change.before["spec"], &change.after["spec"]);
        if let Some(sent) = &mut self.sent {
            sent.is_made = true;
        }
        let mut faults = Vec::new();
        let number = (0..OBJECTS).find(|number| self::path(*number) == *path);
        if change.before["metadata"]["uid"] != number.map(uid).unwrap_or_default() {
            faults.push("the new object is changed");
        }
        let is_it = |noted: &Value| {
            let number = (0..OBJECTS).find(|number| noted["name"] == format!("a{number}"));
            number.is_some_and(|number| self::path(number) == *path)
        };
        let is_noted = changes_of(&change.note).any(is_it);
        let is_off = !after["off"].is_null();
        if before["off"] != after["off"] && is_off {
            if !before["off"].is_null() {
                faults.push("the value of another client is overwritten");
            }
            if self.taken.contains(path) {
                faults.push("it is switched off again");
            }
            if self.has_restored.contains(&self.server) {
                faults.push("it is switched off after the repair restored something");
            }
        } else if before["off"] != after["off"] {
            let is_of_other = self.writer(path, "off") == Writer::Other;
            let can_tell = before["off"] != json!(true) || !self.may_claim(path, is_noted);
            if is_of_other && can_tell {
                faults.push("the object of another client is switched on");
            }
            if !is_noted {
                faults.push("it is restored, and the cluster had nothing left to restore");
            }
            self.has_restored.insert(self.server);
        }
        let is_change = FIELDS
            .iter()
            .any(|field| before[field].is_null() && !after[field].is_null());
        if is_change && self.is_undone {
            faults.push("it is changed after the undo began");
        }
        let faults = faults.into_iter().map(|fault| format!("{path}: {fault}"));
        self.faults.extend(faults);
        self.write(path, (&change.before, &change.after), Writer::Windrow);
    }

    pub(super) fn write(&mut self, path: &str, (before, after): (&Value, &Value), writer: Writer) {
        for field in FIELDS {
            let is_same = before["metadata"]["uid"] == after["metadata"]["uid"]
                && before["spec"][field] == after["spec"][field];
            if !is_same {
                let key = (path.to_owned(), field);
                self.writers.insert(key, writer);
            }
        }
    }
}

pub(super) fn changes_of(note: &Value) -> impl Iterator<Item = &Value> {
    let entries = note.as_array().into_iter().flatten();
    entries.flat_map(|entry| entry["changes"].as_array().into_iter().flatten())
}

impl Seen {
    /// Another client does this: which path has which object from now on.
    pub(super) fn do_as_other(
        &mut self,
        (number, deed): DrawnDeed,
        objects: &BTreeMap<String, Value>,
    ) -> (String, Option<Value>) {
        let number = number.unwrap_or(self.last);
        let at = path(number);
        let before = objects.get(&at).cloned().unwrap_or_default();
        let after = done_by_other(number, deed, &before);
        let written = after.as_ref().unwrap_or(&Value::Null);
        self.write(&at, (&before, written), Writer::Other);
        (at, after)
    }
}

/// The object as another client leaves it; `None` if it is gone.
fn done_by_other(number: usize, deed: Deed, before: &Value) -> Option<Value> {
    let mut object = match deed {
        Deed::Delete => return None,
        Deed::MakeAnew => return Some(object(number, &format!("new{number}"), json!({}))),
        _ if before.is_null() => return None,
        _ => before.clone(),
    };
    match deed {
        Deed::Else => object["spec"]["off"] = json!("else"),
        Deed::Off => object["spec"]["off"] = json!(true),
        Deed::On => drop(object["spec"].as_object_mut().unwrap().remove("off")),
        _ => object["metadata"]["labels"] = json!({"by": "another"}),
    }
    Some(object)
}
