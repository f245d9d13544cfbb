//! The promises about feature gates, checked against the events on a node.

use std::collections::{BTreeMap, BTreeSet};

use super::world::{Asked, By, Configured, GATES, LONGEST_TRIAL, OWN, Seen, World, gates_of};

type Gates = BTreeMap<String, bool>;

fn request(configured: &Configured) -> Option<Gates> {
    match configured {
        Configured::Asks(gates) => {
            let name = |(gate, value): &(usize, bool)| (GATES[*gate].to_owned(), *value);
            Some(gates.iter().map(name).collect())
        }
        Configured::Missing | Configured::Broken(_) | Configured::Unreadable => None,
    }
}

struct SeenTrial {
    request: String,
    is_automatic: bool,
    is_rollback: bool,
    gates: Gates,
    version: usize,
    /// The requests of the configuration, if it was complete.
    asked: Option<Gates>,
    restarts: [u32; 2],
    minutes: u32,
    /// Reasons to repeat a restart: a crash, a boot, an upgrade.
    disturbances: u32,
    is_taken_back: bool,
    /// A boot has interrupted a start, which is then no evidence about its gates.
    is_cut_off: bool,
    /// An operator has changed the drop-in meanwhile: the end is no evidence about its gates.
    is_disturbed: bool,
    /// The former drop-in is restored.
    is_back: bool,
    /// An operator has changed it after that.
    is_left: bool,
    before: Option<String>,
}

/// An operator took something back: the drop-in has the same gates, or fewer, until the configuration requests
/// something else.
struct Back {
    asked: Option<Gates>,
}

struct Oracle<'w> {
    world: &'w World,
    objections: Vec<String>,
    version: usize,
    configured: Configured,
    /// Counts new requests, upgrades, and drop-ins that were removed by hand.
    epoch: u32,
    last_request: Gates,
    drop_in: Option<String>,
    /// An operator made its last change.
    is_edited: bool,
    trial: Option<SeenTrial>,
    automatic: BTreeSet<(Gates, usize, u32)>,
    failed: BTreeSet<(Gates, usize)>,
    /// The gates of a failed start, or those that kube-apiserver named.
    suspects: BTreeSet<String>,
    back: Option<Back>,
    /// Did the last start of the boot before succeed?
    was_up: bool,
    is_up: bool,
    /// May this boot end with a refused gate?
    is_excused: bool,
    /// Minutes since the boot, or the last trial.
    quiet: u32,
}

pub(crate) fn objections(world: &World) -> Vec<String> {
    let mut oracle = Oracle {
        world,
        objections: Vec::new(),
        version: 0,
        configured: Configured::Asks(Vec::new()),
        epoch: 0,
        last_request: Gates::new(),
        drop_in: None,
        is_edited: false,
        trial: None,
        automatic: BTreeSet::new(),
        failed: BTreeSet::new(),
        suspects: BTreeSet::new(),
        back: None,
        was_up: false,
        is_up: false,
        is_excused: false,
        quiet: 0,
    };
    for seen in &world.seen {
        oracle.look(seen);
    }
    oracle.judge_boot();
    oracle.judge_refused();
    oracle.objections
}

impl Oracle<'_> {
    fn object(&mut self, objection: &str) {
        self.objections.push(objection.to_owned());
    }

    fn is_complete(&self) -> bool {
        request(&self.configured).is_some()
    }

    fn look(&mut self, seen: &Seen) {
        match seen {
            Seen::Configured(configured) => self.configure(configured),
            Seen::Boot => {
                self.judge_boot();
                (self.was_up, self.is_up) = (self.is_up, false);
                (self.is_excused, self.quiet) = (false, 0);
                self.disturb();
                if let Some(trial) = &mut self.trial {
                    trial.is_cut_off = true;
                }
            }
            Seen::Started { is_up, refused } => {
                self.is_up = *is_up;
                if !is_up {
                    let gates = gates_of(self.drop_in.as_deref()).into_keys();
                    let named = refused.map(str::to_owned);
                    self.suspects.extend(gates.chain(named));
                }
            }
            Seen::DropIn(text, by) => self.change(text.clone(), *by),
            Seen::Began {
                request,
                is_automatic,
                is_rollback,
                gates,
            } => self.begin(request, *is_automatic, *is_rollback, gates),
            Seen::Restarted {
                request,
                is_way_back,
            } => self.restart(request, *is_way_back),
            Seen::Ended { request, is_kept } => self.end(request, *is_kept),
            Seen::Resumed { request } => {
                self.trial
                    .take_if(|trial| Some(&trial.request) != request.as_ref());
            }
            Seen::Asked(asked) => self.ask(asked),
            Seen::Upgraded(version) => {
                self.version = *version;
                self.is_excused = true;
                self.epoch += 1;
                self.disturb();
            }
            Seen::Silent => self.is_excused = true,
            Seen::Crashed => self.disturb(),
            Seen::Minute => self.pass(),
        }
    }

    fn pass(&mut self) {
        self.quiet += 1;
        let Some(trial) = &mut self.trial else {
            return;
        };
        self.quiet = 0;
        trial.minutes += 1;
        if trial.minutes == LONGEST_TRIAL {
            self.object("a trial does not end");
        }
    }

    fn disturb(&mut self) {
        if let Some(trial) = &mut self.trial {
            trial.disturbances += 1;
        }
    }

    fn configure(&mut self, configured: &Configured) {
        self.configured = configured.clone();
        let Some(asked) = request(configured) else {
            return;
        };
        if asked != self.last_request {
            self.epoch += 1;
            self.last_request.clone_from(&asked);
        }
        if let Some(back) = &mut self.back {
            // A decision during an incomplete configuration applies to its requests once it is complete.
            let known = back.asked.get_or_insert_with(|| asked.clone());
            if *known != asked {
                self.back = None;
            }
        }
    }

    fn ask(&mut self, asked: &Asked) {
        self.is_excused = true;
        match asked {
            // A decision to take back stays until this is kept.
            Asked::Apply => {}
            Asked::Rollback => self.back = None,
            Asked::TakeBack { request, trial } => {
                self.back = None;
                if request == trial {
                    self.object("a request takes back its own trial");
                }
                if let Some(known) = self.trial.as_mut().filter(|known| known.request == *trial) {
                    known.is_taken_back = true;
                }
            }
        }
    }

    fn begin(&mut self, name: &str, is_automatic: bool, is_rollback: bool, gates: &Gates) {
        if is_automatic {
            if !self.is_complete() {
                self.object("a trial begins on an incomplete configuration");
            }
            if self.failed.contains(&(gates.clone(), self.version)) {
                self.object("a drop-in that failed is tried again automatically");
            }
            if self.back.is_some() {
                self.object("a gate that an operator took back is tried again");
            }
        }
        let asked = self.is_complete().then(|| self.last_request.clone());
        self.trial = Some(SeenTrial {
            request: name.to_owned(),
            is_automatic,
            is_rollback,
            gates: gates.clone(),
            version: self.version,
            asked,
            restarts: [0; 2],
            minutes: 0,
            disturbances: 0,
            is_taken_back: false,
            is_cut_off: false,
            is_disturbed: false,
            is_back: false,
            is_left: false,
            before: self.drop_in.clone(),
        });
    }

    fn restart(&mut self, name: &str, is_way_back: bool) {
        let Some(trial) = self.trial.as_mut().filter(|trial| trial.request == name) else {
            return self.object("rke2-server is restarted without a trial");
        };
        let restarts = &mut trial.restarts[usize::from(is_way_back)];
        *restarts += 1;
        let (restarts, most) = (*restarts, 1 + trial.disturbances);
        let key = (trial.gates.clone(), trial.version, self.epoch);
        let is_first = trial.is_automatic && !is_way_back && restarts == 1;
        let is_there = trial.gates == gates_of(self.drop_in.as_deref());
        if !is_way_back && !is_there {
            self.objections
                .push("rke2-server is restarted for missing gates".to_owned());
        }
        if restarts > most {
            self.object("a trial restarts rke2-server again and again");
        }
        if is_first && !self.automatic.insert(key) {
            self.object("one drop-in has a second automatic trial without a new request");
        }
    }

    fn end(&mut self, request: &str, is_kept: bool) {
        let Some(trial) = self.trial.take_if(|trial| trial.request == request) else {
            return;
        };
        if is_kept && !trial.is_rollback {
            self.back = None;
        }
        if is_kept {
            self.failed.retain(|(gates, _)| *gates != trial.gates);
        } else if trial.is_cut_off {
            let key = (trial.gates.clone(), trial.version, self.epoch);
            self.automatic.remove(&key);
        } else if trial.restarts[0] > 0 && !trial.is_taken_back {
            self.failed.insert((trial.gates, trial.version));
        }
        if trial.is_rollback == is_kept && trial.is_rollback != trial.is_taken_back {
            // A new request may have come meanwhile.
            let is_new = trial
                .asked
                .as_ref()
                .is_some_and(|asked| *asked != self.last_request);
            self.back = (!is_new).then_some(Back { asked: trial.asked });
        }
    }

    fn change(&mut self, text: Option<String>, by: By) {
        let before = std::mem::replace(&mut self.drop_in, text);
        let was_edited = std::mem::replace(&mut self.is_edited, by == By::Operator);
        let (was, is) = (
            gates_of(before.as_deref()),
            gates_of(self.drop_in.as_deref()),
        );
        if let Some(trial) = &mut self.trial {
            let is_undisturbed = trial.disturbances == 0;
            match by {
                By::Operator => {
                    trial.is_disturbed = true;
                    trial.is_left =
                        trial.is_back && gates_of(self.drop_in.as_deref()) != trial.gates;
                }
                By::Trial if trial.is_left && is_undisturbed => {
                    self.objections
                        .push("a foreign change after the way back does not stay".to_owned());
                }
                _ => {
                    let is_of_before = self.drop_in == trial.before;
                    trial.is_back = trial.restarts[0] > 0 && is_of_before;
                }
            }
        }
        if by == By::Operator {
            self.is_excused = true;
            // A drop-in that was removed by hand is requested once more.
            self.epoch += 1;
            return;
        }
        let is_refused = self
            .world
            .refuses(self.version, before.as_deref())
            .is_some();
        if by == By::Trial || is_refused {
            return;
        }
        let added = is.iter().any(|(gate, value)| was.get(gate) != Some(value));
        let removed = was.iter().any(|(gate, value)| {
            // A gate that the version or the catalogue refuses is removed in any case. So is a gate that another writer
            // has added again.
            let is_known_to_fail = was_edited && self.suspects.contains(gate);
            let may_go = gate == GATES[3]
                || gate == GATES[2] && self.version > 0 && !value
                || is_known_to_fail;
            is.get(gate) != Some(value) && !may_go
        });
        if !self.is_complete() && (added || removed) {
            self.object("an incomplete configuration changes a gate");
        }
        if self.back.is_some() && (added || removed) {
            self.object("a gate that an operator took back does not stay back");
        }
    }

    /// After a failed start, each of its gates that counts is refused.
    fn judge_refused(&mut self) {
        let Some((record, _)) = self.world.records.get("refused") else {
            return;
        };
        let record: windrow_gates::RefusedGates = serde_json::from_str(record).unwrap();
        for gate in record.gates(OWN) {
            if !self.suspects.contains(&gate.gate) {
                self.object("a gate counts as refused that no failed start had");
            }
        }
    }

    /// A boot has ended, or its time is over.
    fn judge_boot(&mut self) {
        let was_long = self.quiet >= 10 && self.trial.is_none();
        if !was_long || self.is_excused || !self.was_up {
            return;
        }
        let drop_in = self.drop_in.as_deref();
        // The catalogue does not know that kube-apiserver needs a gate, and no trial has shown it.
        if self.world.lacks_a_gate(drop_in) {
            return;
        }
        if self.world.refuses(self.version, drop_in).is_some() {
            self.object("a boot ends with a drop-in that kube-apiserver refuses");
        }
    }
}
