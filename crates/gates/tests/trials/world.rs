//! The node: its disk, RKE2, and the reaction of kube-apiserver to its gates.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use windrow_gates::{BootMoment, Component, GateRequest, TargetVersion, read_gates};
use windrow_model::findings::Location;

use super::agent::Agent;

/// The possible gates. The last one is in no catalogue.
pub(crate) const GATES: [&str; 4] = [
    "ImageVolume",
    "APIResponseCompression",
    "AuthorizeNodeWithSelectors",
    "NotInAnyCatalogue",
];
/// From the second one on, `AuthorizeNodeWithSelectors` is locked to true.
pub(crate) const VERSIONS: [&str; 3] = ["1.33.3", "1.34.2", "1.35.6"];
pub(crate) const OWN: &str = "99-zz9-windrow-gates.yaml";
/// `gates.patience`; a tick takes a minute.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5 * 60);
/// The maximum number of ticks of a trial, even with a crash in the middle.
pub(crate) const LONGEST_TRIAL: u32 = 60;

/// A rule of kube-apiserver that is in no catalogue.
#[derive(Debug, Clone)]
pub(crate) struct Trap {
    pub(crate) gate: usize,
    pub(crate) value: bool,
    /// It does not start without this gate; otherwise, with it.
    pub(crate) is_needed: bool,
}

/// The content of the configuration file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Configured {
    /// Valid; without any gate, it is an empty file.
    Asks(Vec<(usize, bool)>),
    /// Only this part can be parsed.
    Broken(Vec<(usize, bool)>),
    Missing,
    Unreadable,
}

#[derive(Debug, Clone)]
pub(crate) enum Event {
    Configure(Configured),
    OnChange(bool),
    Wait(u32),
    /// A boot, and this number of minutes.
    Boot(u32),
    RestartDaemon,
    /// The process with the next write dies at this write, before or after it.
    Crash {
        writes: u32,
        is_done: bool,
    },
    /// `windrow gates apply`, with `--force` or without.
    Apply(bool),
    Rollback,
    /// The binary is replaced, and rke2-server restarted.
    Upgrade(usize),
    /// For this number of ticks, no start of kube-apiserver succeeds with any gates.
    Silent(u32),
    RemoveDropIn,
    EditDropIn(Vec<(usize, bool)>),
}

/// An event that the oracle observes.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    Configured(Configured),
    Boot,
    /// A start of RKE2, whether kube-apiserver became ready, and the gate that it names if not.
    Started {
        is_up: bool,
        refused: Option<&'static str>,
    },
    DropIn(Option<String>, By),
    Began {
        request: String,
        is_automatic: bool,
        is_rollback: bool,
        gates: BTreeMap<String, bool>,
    },
    Restarted {
        request: String,
        is_way_back: bool,
    },
    Ended {
        request: String,
        is_kept: bool,
    },
    /// A daemon starts, and continues this trial.
    Resumed {
        request: Option<String>,
    },
    Asked(Asked),
    Upgraded(usize),
    Silent,
    /// A process of the agent has died, or was restarted.
    Crashed,
    Minute,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Trial,
    Settling,
    Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Apply,
    /// To the gates before the last change.
    Rollback,
    TakeBack {
        request: String,
        trial: String,
    },
}

#[derive(Debug)]
pub(crate) struct Crashed;

pub(crate) type Written<T = ()> = Result<T, Crashed>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunState {
    Up,
    Refused,
    Silent,
}

#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) invocation: u32,
    pub(crate) read: Option<String>,
    pub(crate) state: RunState,
    began: u32,
}

/// A refusal in kube-apiserver's log: the gate that it names.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) gate: &'static str,
    /// The start that it ended.
    start: u32,
}

pub(crate) struct World {
    traps: Vec<Trap>,
    pub(crate) configured: Configured,
    pub(crate) tries: bool,
    pub(crate) version: usize,
    pub(crate) drop_in: Option<String>,
    /// The last start before the drop-in was written.
    written_after: u32,
    /// By name.
    pub(crate) records: BTreeMap<&'static str, (String, Timestamp)>,
    /// Requests that the daemon has not removed.
    pub(crate) spool: Vec<(String, bool, bool)>,
    /// In `/run`: RKE2 was started in this boot.
    pub(crate) is_started: bool,
    pub(crate) run: Option<Run>,
    pub(crate) is_queued: bool,
    pub(crate) refusal: Option<Refusal>,
    silent: u32,
    fuse: Option<(u32, bool)>,
    tick: u32,
    starts: u32,
    requests: u32,
    boots: u32,
    pub(crate) agent: Agent,
    pub(crate) seen: Vec<Seen>,
}

impl World {
    pub(crate) fn new(traps: Vec<Trap>) -> Self {
        let mut world = Self {
            traps,
            configured: Configured::Asks(Vec::new()),
            tries: false,
            version: 0,
            drop_in: None,
            written_after: 0,
            records: BTreeMap::new(),
            spool: Vec::new(),
            is_started: false,
            run: None,
            is_queued: false,
            refusal: None,
            silent: 0,
            fuse: None,
            tick: 0,
            starts: 0,
            requests: 0,
            boots: 0,
            agent: Agent::default(),
            seen: Vec::new(),
        };
        world.boot();
        world
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_second(i64::from(self.tick) * 60).unwrap()
    }

    /// In minutes like [`World::now`], and never set.
    pub(crate) fn moment(&self) -> BootMoment {
        BootMoment {
            boot: self.boots.to_string(),
            seconds: u64::from(self.tick) * 60,
        }
    }

    pub(crate) fn target(&self) -> TargetVersion {
        TargetVersion::Known(VERSIONS[self.version].parse().unwrap())
    }

    /// The requests of the configuration, as far as it can be parsed, and whether it was read completely.
    pub(crate) fn requests(&self) -> (Vec<GateRequest>, bool) {
        match &self.configured {
            Configured::Asks(gates) => (requests(gates), true),
            Configured::Broken(gates) => (requests(gates), false),
            Configured::Missing | Configured::Unreadable => (Vec::new(), false),
        }
    }

    /// The gate that kube-apiserver of a version names when it refuses a drop-in.
    pub(crate) fn refuses(&self, version: usize, drop_in: Option<&str>) -> Option<&'static str> {
        let gates = gates_of(drop_in);
        let sets = |gate: usize, value: bool| gates.get(GATES[gate]) == Some(&value);
        if version > 0 && sets(2, false) {
            return Some(GATES[2]);
        }
        let mut traps = self.traps.iter();
        let trap = traps.find(|trap| sets(trap.gate, trap.value) != trap.is_needed);
        trap.map(|trap| GATES[trap.gate])
    }

    /// Does kube-apiserver need a gate that this drop-in does not set?
    pub(crate) fn lacks_a_gate(&self, drop_in: Option<&str>) -> bool {
        let gates = gates_of(drop_in);
        let mut needed = self.traps.iter().filter(|trap| trap.is_needed);
        needed.any(|trap| gates.get(GATES[trap.gate]) != Some(&trap.value))
    }

    /// Writes the drop-in, unless the write is interrupted.
    pub(crate) fn put_drop_in(&mut self, text: Option<String>, by: By) -> Written {
        if self.drop_in == text {
            return Ok(());
        }
        let cut = self.burns();
        if cut != Some(false) {
            self.change_drop_in(text, by);
        }
        cut.map_or(Ok(()), |_| Err(Crashed))
    }

    pub(crate) fn put_record(&mut self, name: &'static str, text: Option<String>) -> Written {
        if self.records.get(name).map(|(text, _)| text) == text.as_ref() {
            return Ok(());
        }
        let cut = self.burns();
        if cut != Some(false) {
            let now = self.now();
            match text {
                Some(text) => drop(self.records.insert(name, (text, now))),
                None => drop(self.records.remove(name)),
            }
        }
        cut.map_or(Ok(()), |_| Err(Crashed))
    }

    /// Does the process die at this write? Is the write done?
    fn burns(&mut self) -> Option<bool> {
        let (writes, is_done) = self.fuse?;
        if writes > 0 {
            self.fuse = Some((writes - 1, is_done));
            return None;
        }
        self.fuse = None;
        self.seen.push(Seen::Crashed);
        Some(is_done)
    }

    pub(crate) fn play(&mut self, event: &Event) {
        match event {
            Event::Configure(configured) => {
                self.configured = configured.clone();
                self.seen.push(Seen::Configured(configured.clone()));
                self.daemon(Agent::configuration_changed);
            }
            Event::OnChange(tries) => {
                self.tries = *tries;
                self.daemon(Agent::configuration_changed);
            }
            Event::Wait(ticks) => (0..*ticks).for_each(|_| self.pass()),
            Event::Boot(minutes) => {
                self.boot();
                self.play(&Event::Wait(*minutes));
            }
            Event::RestartDaemon => {
                self.seen.push(Seen::Crashed);
                self.start_daemon();
            }
            Event::Crash { writes, is_done } => self.fuse = Some((*writes, *is_done)),
            Event::Apply(is_forced) => self.ask(false, *is_forced),
            Event::Rollback => self.ask(true, false),
            Event::Upgrade(version) => {
                self.version = *version;
                self.refusal = None;
                self.seen.push(Seen::Upgraded(*version));
                self.start_rke2();
                self.pass();
            }
            Event::Silent(ticks) => {
                self.silent = *ticks;
                self.seen.push(Seen::Silent);
            }
            Event::RemoveDropIn => self.change_drop_in(None, By::Operator),
            Event::EditDropIn(gates) => self.change_drop_in(text_of(gates), By::Operator),
        }
    }

    fn change_drop_in(&mut self, text: Option<String>, by: By) {
        self.written_after = self.starts;
        self.drop_in.clone_from(&text);
        self.seen.push(Seen::DropIn(text, by));
    }

    /// The last refusal of kube-apiserver, if the present drop-in is older, or there is none.
    pub(crate) fn refusal_of_drop_in(&self) -> Option<&Refusal> {
        let refusal = self.refusal.as_ref()?;
        (self.drop_in.is_none() || refusal.start > self.written_after).then_some(refusal)
    }

    fn ask(&mut self, is_rollback: bool, is_forced: bool) {
        self.requests += 1;
        let name = format!("op-{}", self.requests);
        self.spool.push((name, is_rollback, is_forced));
        self.daemon(Agent::configuration_changed);
    }

    fn pass(&mut self) {
        self.tick += 1;
        self.silent = self.silent.saturating_sub(1);
        let again = self.run.as_ref().is_some_and(|run| match run.state {
            RunState::Up => false,
            RunState::Refused => true,
            // RKE2 itself gives up after a quarter of an hour.
            RunState::Silent => self.tick - run.began >= 15,
        });
        if self.is_queued || again {
            self.start_rke2();
        }
        // A trial's steps take less than a second each.
        for _ in 0..8 {
            self.daemon(Agent::step);
        }
        self.seen.push(Seen::Minute);
    }

    pub(crate) fn automatic_request(&mut self) -> String {
        self.requests += 1;
        format!("changed-{}", self.requests)
    }

    /// A deleted file may come back after a power cut.
    pub(crate) fn remove_request(&mut self, name: &str) -> Written {
        match self.burns() {
            Some(_) => Err(Crashed),
            None => {
                self.spool.retain(|(known, ..)| known != name);
                Ok(())
            }
        }
    }

    fn boot(&mut self) {
        self.tick += 1;
        self.boots += 1;
        self.fuse = None;
        self.seen.push(Seen::Boot);
        (self.run, self.is_queued, self.is_started) = (None, false, false);
        self.start_daemon();
        self.start_rke2();
        self.pass();
    }

    fn start_daemon(&mut self) {
        self.agent = Agent::default();
        self.daemon(Agent::begin);
    }

    /// Runs an action of the daemon. If it dies, systemd starts it again.
    fn daemon(&mut self, act: fn(&mut Agent, &mut World) -> Written) {
        let mut agent = std::mem::take(&mut self.agent);
        if act(&mut agent, self).is_err() {
            agent = Agent::default();
            // The fuse is used up.
            agent.begin(self).unwrap();
        }
        self.agent = agent;
    }

    fn start_rke2(&mut self) {
        self.is_queued = false;
        // If it dies, RKE2 still starts.
        let _ = super::agent::hook(self);
        self.starts += 1;
        let refusal = self.refuses(self.version, self.drop_in.as_deref());
        let state = match refusal {
            Some(gate) => {
                self.refusal = Some(Refusal {
                    gate,
                    start: self.starts,
                });
                RunState::Refused
            }
            None if self.silent > 0 => RunState::Silent,
            None => {
                self.refusal = None;
                RunState::Up
            }
        };
        self.run = Some(Run {
            invocation: self.starts,
            read: self.drop_in.clone(),
            state,
            began: self.tick,
        });
        let is_up = state == RunState::Up;
        self.seen.push(Seen::Started {
            is_up,
            refused: refusal,
        });
    }
}

fn text_of(gates: &[(usize, bool)]) -> Option<String> {
    let gates: BTreeMap<usize, bool> = gates.iter().copied().collect();
    let set = |(gate, value): (usize, bool)| format!("{}={value}", GATES[gate]);
    let set: Vec<String> = gates.into_iter().map(set).collect();
    let text = format!("kube-apiserver-arg+:\n- feature-gates+={}\n", set.join(","));
    (!set.is_empty()).then_some(text)
}

pub(crate) fn gates_of(drop_in: Option<&str>) -> BTreeMap<String, bool> {
    let gates = read_gates(OWN, drop_in.unwrap_or_default(), &[]);
    gates
        .into_iter()
        .map(|gate| (gate.gate, gate.value))
        .collect()
}

fn requests(gates: &[(usize, bool)]) -> Vec<GateRequest> {
    // A later line replaces an earlier one.
    let gates: BTreeMap<usize, bool> = gates.iter().copied().collect();
    gates
        .into_iter()
        .map(|(gate, value)| GateRequest {
            component: Component::KubeApiserver,
            gate: GATES[gate].to_owned(),
            value,
            when: None,
            reason: None,
            at: Location::line("windrow.yaml", 3),
        })
        .collect()
}
