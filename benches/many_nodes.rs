//! What the outlet of many nodes asks of kube-apiserver, over simulated time: the program's own policy decides what is written and when,
//! with its own jitter; boots are made up. Prints the table of docs/dev/benchmarks.md.
//!
//! `cargo bench --bench many_nodes`. What a request costs a real kube-apiserver: `tests/kubernetes/many_nodes.rs`.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has failed"
)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::Instant;
use windrow::report::cluster::{NodeOutletPolicy, NodeOutletSwitches, WriteError};
use windrow_decide::{Readiness, Status};
use windrow_model::reasons::Code;

const HOUR: u64 = 3600;
/// What a boot says on its way, and for how many seconds: half of it to one and a half.
const COURSE: [(Readiness, Code, &str, u64); 8] = [
    (
        Readiness::SettingUp,
        Code::RkeNotInstalled,
        "no rke2 unit yet",
        60,
    ),
    (Readiness::SettingUp, Code::ApiNotReady, "api", 180),
    (Readiness::SettingUp, Code::NodeNotReady, "node", 60),
    (Readiness::SettingUp, Code::Staging, "1 of 14 files", 60),
    (Readiness::SettingUp, Code::Staging, "7 of 14 files", 60),
    (Readiness::SettingUp, Code::Staging, "12 of 14 files", 60),
    (Readiness::SettingUp, Code::Staging, "13 of 14 files", 60),
    (Readiness::Ready, Code::NodeReady, "all well", 0),
];
const READY: usize = COURSE.len() - 1;

fn status(step: usize) -> Arc<Status> {
    let (readiness, code, message, _) = COURSE[step];
    let status = json!({
        "apiVersion": "windrow.dev/v1", "kind": "Status", "generation": 1,
        "readiness": readiness, "phase": "staging", "since": "2026-11-21T20:15:00Z",
        "reason": {"code": code, "message": message}, "summary": message, "headline": message,
        "staging": {"total": 0, "held": [], "released": [], "applied": [], "failed": []},
        "findings": [], "versions": {"windrow": "0"},
    });
    Arc::new(serde_json::from_value(status).unwrap())
}

/// Up to a number, at random.
fn up_to(most: u64) -> u64 {
    RandomState::new().build_hasher().finish() % most.max(1)
}

/// kube-apiserver: away until some second, and then it takes this number of requests a second.
struct Server {
    away_until: u64,
    most: u64,
}

/// Many nodes over simulated milliseconds.
struct Run {
    began: Instant,
    nodes: Vec<NodeOutletPolicy>,
    server: Server,
    statuses: Vec<Arc<Status>>,
    /// When which node says something (a step of its course), or has something due.
    queue: BinaryHeap<Reverse<(u64, usize, Option<usize>)>>,
    /// Requests by second, and those that were not taken.
    asked: BTreeMap<u64, u64>,
    failed: u64,
}

impl Run {
    fn new(count: usize, server: Server) -> Self {
        let began = Instant::now();
        let switches = NodeOutletSwitches {
            condition: true,
            events: true,
        };
        let node = |_| NodeOutletPolicy::new(switches, began);
        Self {
            began,
            nodes: (0..count).map(node).collect(),
            server,
            statuses: (0..COURSE.len()).map(status).collect(),
            queue: BinaryHeap::new(),
            asked: BTreeMap::new(),
            failed: 0,
        }
    }

    /// Every node begins within this number of milliseconds, at this step of its course.
    fn begin(&mut self, within: u64, step: usize) {
        for node in 0..self.nodes.len() {
            self.queue.push(Reverse((up_to(within), node, Some(step))));
        }
    }

    /// Until nothing is due before this second.
    fn until(mut self, end: u64) -> Self {
        while let Some(Reverse((at, node, says))) = self.queue.pop() {
            if at >= end * 1000 {
                break;
            }
            let now = self.began + Duration::from_millis(at);
            let time =
                Timestamp::UNIX_EPOCH + SignedDuration::from_millis(i64::try_from(at).unwrap());
            if let Some(step) = says {
                self.nodes[node].observe(&self.statuses[step], time);
                let (.., seconds) = COURSE[step];
                if step < READY {
                    let lasts = seconds * 500 + up_to(seconds * 1000);
                    self.queue.push(Reverse((at + lasts, node, Some(step + 1))));
                }
            }
            while let Some(request) = self.nodes[node].next(now, time) {
                let second = self.asked.entry(at / 1000).or_default();
                *second += 1;
                let is_taken = at / 1000 >= self.server.away_until && *second <= self.server.most;
                let answer = match is_taken {
                    true => Ok(json!({})),
                    false => Err(WriteError::Down),
                };
                self.failed += u64::from(!is_taken);
                self.nodes[node].answered(request, &answer, now);
            }
            if let Some(due) = self.nodes[node].due(now) {
                let due = u64::try_from((due - self.began).as_millis()).unwrap();
                // The next millisecond at the earliest: durations are cut to these.
                self.queue.push(Reverse((due.max(at) + 1, node, None)));
            }
        }
        self
    }

    fn row(&self, what: &str, seconds: u64) {
        let all: u64 = self.asked.values().sum();
        let peak = |width: u64| {
            let mut windows: BTreeMap<u64, u64> = BTreeMap::new();
            for (second, number) in &self.asked {
                *windows.entry(second / width).or_default() += number;
            }
            windows.values().max().copied().unwrap_or_default() / width
        };
        println!(
            "| {} | {what} | {all} | {:.1} | {:.1} | {} | {} | {} |",
            self.nodes.len(),
            all as f64 / self.nodes.len() as f64,
            all as f64 / seconds as f64,
            peak(1),
            peak(60),
            self.failed,
        );
    }
}

fn main() {
    println!(
        "| nodes | what | requests | of each node | a second, mean | in the busiest second | a second in the busiest minute | not taken |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for count in [40, 1000, 10_000] {
        let there = || Server {
            away_until: 0,
            most: u64::MAX,
        };
        let mut boot = Run::new(count, there());
        boot.begin(30_000, 0);
        boot.until(HOUR / 2)
            .row("switched on within 30 s; half an hour", HOUR / 2);

        let mut rest = Run::new(count, there());
        rest.begin(600_000, READY);
        let mut rest = rest.until(HOUR);
        rest.asked = rest.asked.split_off(&(HOUR / 2));
        rest.row("at rest; half an hour", HOUR / 2);

        let mut restart = Run::new(count, there());
        restart.begin(1000, READY);
        restart.until(HOUR / 4).row(
            "all daemons start within one second; a quarter of an hour",
            HOUR / 4,
        );

        let mut away = Run::new(
            count,
            Server {
                away_until: 300,
                most: 500,
            },
        );
        away.begin(1000, READY);
        away.until(HOUR / 4).row(
            "the same, kube-apiserver away for 5 min and then taking 500 requests a second",
            HOUR / 4,
        );
    }
}
