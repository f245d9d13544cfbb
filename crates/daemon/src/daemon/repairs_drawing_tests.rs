//! How a repair, its faults and its successors are drawn.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;
use windrow_harvester::incidents::{Cure, CureGoal, CureStep, ObjectChange};
use windrow_harvester::objects::ObjectKind;

use super::oracle::{OBJECTS, SIGN, object, path, uid};
use crate::act::repair::Worker;
use crate::act::testing::Fate;

/// A part of a cure, before its temporary changes are restored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    /// The object is switched off for a while.
    Off(usize),
    Keep(usize),
    /// It waits for an event that may never happen.
    Wait,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Deed {
    /// It sets the field to something that Windrow never writes.
    Else,
    /// It switches it off, as Windrow does.
    Off,
    On,
    Label,
    Delete,
    /// Another object gets the name.
    MakeAnew,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Successor {
    /// The daemon, and whether its configuration names the code.
    Daemon { named: bool },
    /// `windrow repair CODE`.
    Repair,
    /// `windrow repair --undo`.
    Undo,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Death {
    AtRequest(usize),
    /// At this request of it to change an object.
    AtChange(usize, Moment),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Moment {
    Before,
    /// It is done, and the answer does not come.
    After,
    /// The answer comes, and the next request does not arrive.
    Next,
}

/// An action of another client on an object; without a number, on the object that was to be changed last.
pub(super) type DrawnDeed = (Option<usize>, Deed);

#[derive(Debug, Clone, Copy)]
pub(super) struct Comer {
    pub(super) server: usize,
    pub(super) who: Successor,
    pub(super) death: Option<Death>,
    pub(super) deed: Option<DrawnDeed>,
}

#[derive(Debug, Clone)]
pub(super) struct Drawn {
    pub(super) parts: Vec<Part>,
    pub(super) by: Worker,
    pub(super) sign_comes: bool,
    pub(super) death: Option<Death>,
    pub(super) deed: Option<DrawnDeed>,
    /// The fate of each request about the repair, while there are faults.
    pub(super) fates: Vec<Fate>,
    /// Which request to change an object a webhook denies.
    pub(super) denied: Option<usize>,
    /// Actions of others right before these requests.
    pub(super) deeds: Vec<(usize, DrawnDeed)>,
    /// Actions of others right after each request to change an object.
    pub(super) replies: Vec<Option<Deed>>,
    pub(super) comers: Vec<Comer>,
    /// The first process after the faults.
    pub(super) last: (usize, Successor),
}

pub(super) fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        4 => (0..OBJECTS).prop_map(Part::Off),
        1 => (0..OBJECTS).prop_map(Part::Keep),
        2 => Just(Part::Wait),
    ];
    prop::collection::vec(part, 1..6).prop_map(|parts| {
        // Each object is changed once in each way.
        let (mut off, mut kept) = (BTreeSet::new(), BTreeSet::new());
        let is_first = |part: &Part| match part {
            Part::Off(object) => off.insert(*object),
            Part::Keep(object) => kept.insert(*object),
            Part::Wait => true,
        };
        parts.into_iter().filter(is_first).collect()
    })
}

pub(super) fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        60 => Just(Fate::Served),
        1 => Just(Fate::Denied),
        1 => Just(Fate::Conflict),
        1 => Just(Fate::AnswerLost),
        1 => Just(Fate::Lost),
    ]
}

pub(super) fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        1 => Just(Deed::Else),
        6 => Just(Deed::Off),
        4 => Just(Deed::On),
        1 => Just(Deed::Label),
        1 => Just(Deed::Delete),
        1 => Just(Deed::MakeAnew),
    ]
}

pub(super) fn drawn_deed() -> impl Strategy<Value = DrawnDeed> {
    (prop::option::weighted(0.2, 0..OBJECTS), deed())
}

pub(super) fn death() -> impl Strategy<Value = Option<Death>> {
    let moment = prop_oneof![
        1 => Just(Moment::Before),
        1 => Just(Moment::After),
        2 => Just(Moment::Next),
    ];
    let death = prop_oneof![
        1 => (0..20_usize).prop_map(Death::AtRequest),
        2 => (0..3_usize, moment).prop_map(|(change, moment)| Death::AtChange(change, moment)),
    ];
    prop::option::weighted(0.6, death)
}

pub(super) fn successor() -> impl Strategy<Value = (usize, Successor)> {
    let who = prop_oneof![
        any::<bool>().prop_map(|named| Successor::Daemon { named }),
        Just(Successor::Repair),
        Just(Successor::Undo),
    ];
    (0..2_usize, who)
}

pub(super) fn comer() -> impl Strategy<Value = Comer> {
    let deed = prop::option::weighted(0.6, drawn_deed());
    (successor(), death(), deed).prop_map(|((server, who), death, deed)| Comer {
        server,
        who,
        death,
        deed,
    })
}

pub(super) fn drawn() -> impl Strategy<Value = Drawn> {
    let by = prop_oneof![Just(Worker::Person), Just(Worker::Daemon)];
    let begins = (parts(), by, any::<bool>());
    let ends = (death(), prop::option::weighted(0.6, drawn_deed()));
    let meddling = (
        prop::collection::vec(fate(), 0..80),
        prop::option::weighted(0.3, 0..3_usize),
        prop::collection::vec((0..60_usize, drawn_deed()), 0..3),
        prop::collection::vec(prop::option::weighted(0.2, deed()), 0..12),
    );
    let comers = prop::collection::vec(comer(), 0..3);
    (begins, ends, meddling, comers, successor()).prop_map(
        |((parts, by, sign_comes), (death, deed), meddling, comers, last)| {
            let (fates, denied, deeds, replies) = meddling;
            Drawn {
                parts,
                by,
                sign_comes,
                death,
                deed,
                fates,
                denied,
                deeds,
                replies,
                comers,
                last,
            }
        },
    )
}

/// A cure of these parts, which finally restores its temporary changes. No step waits.
pub(super) fn cure(parts: &[Part]) -> Cure {
    let (mut steps, mut back) = (Vec::new(), Vec::new());
    let goal = |number: usize, field: &str| CureGoal::Field {
        path: path(number),
        before: None,
        field: format!("/spec/{field}"),
        value: json!(true),
    };
    for part in parts {
        match *part {
            Part::Off(number) => {
                let addon = object(number, &uid(number), json!({}));
                let off = ObjectChange::of(ObjectKind::ADDON, &addon).set("/spec/off", json!(true));
                steps.push(off.step(format!("off {number}"), goal(number, "off"), 0));
                back.push(off.step_back(format!("on {number}"), 0));
            }
            Part::Keep(number) => {
                let addon = object(number, &uid(number), json!({}));
                let keep =
                    ObjectChange::of(ObjectKind::ADDON, &addon).set("/spec/kept", json!(true));
                steps.push(keep.step(format!("keep {number}"), goal(number, "kept"), 0));
            }
            Part::Wait => {
                let sign = CureGoal::Anew {
                    path: SIGN.to_owned(),
                    before: "none".to_owned(),
                };
                steps.push(CureStep::wait("wait", sign, 0));
            }
        }
    }
    steps.extend(back);
    Cure {
        summary: "s".to_owned(),
        changes: Vec::new(),
        saves: Vec::new(),
        purpose: None,
        steps,
    }
}
