//! The chain that decided when a boot ended, read backwards from the end.

use windrow_decide::Cause;
use windrow_model::manifest::ManifestPath;

use super::course::{BootCourse, NodePeriod};
use super::files::{FileCourse, FileCourses, Followed};
use super::{ChainStep, FileWait, WaitedOn};

/// In seconds. A shorter step is not shown.
const LEAST: f64 = 0.05;

/// The steps from the beginning to the end, without a gap.
pub(super) fn chain(course: &BootCourse, files: &FileCourses) -> Vec<ChainStep> {
    let mut reader = ChainReader {
        course,
        files,
        steps: Vec::new(),
        reached: course.last(),
        followed: Followed::new(),
    };
    let mut periods = course.periods();
    // The periods after the manifests, or instead of them.
    while let Some(period) = periods.pop_if(|period| !period.is_about_manifests()) {
        reader.node_step(&period);
    }
    if let Some(path) = reader.last_file() {
        reader.follow(&path);
    }
    while let Some(period) = periods.pop() {
        reader.node_step(&period);
    }
    let mut steps = reader.steps;
    steps.reverse();
    if let Some(first) = steps.first_mut() {
        // Covers the steps that were too short to show.
        first.from = 0.0;
    }
    if course.arrived.is_none()
        && let Some(last) = steps.last_mut()
    {
        last.open = true;
    }
    steps
}

/// Reads a chain, from its end.
struct ChainReader<'a> {
    course: &'a BootCourse,
    files: &'a FileCourses,
    /// The last one first.
    steps: Vec<ChainStep>,
    /// The beginning of the steps so far, in seconds.
    reached: f64,
    followed: Followed,
}

impl ChainReader<'_> {
    /// Adds a step from `from` to the beginning of the steps so far. A step that begins later than that took no time on
    /// the chain.
    fn step(&mut self, from: f64, on: WaitedOn, file: Option<&ManifestPath>, text: String) {
        let from = from.max(0.0);
        if self.reached - from < LEAST {
            // Too short to show; the next step includes it.
            return;
        }
        self.steps.push(ChainStep {
            from,
            to: self.reached,
            on,
            file: file.cloned(),
            text,
            open: false,
        });
        self.reached = from;
    }

    fn node_step(&mut self, period: &NodePeriod) {
        self.step(period.from, WaitedOn::Node, None, period.message.clone());
    }

    /// The last file that was applied before the current position. If the boot has not ended, the file that it waits
    /// for.
    fn last_file(&self) -> Option<ManifestPath> {
        let files = &self.files.files;
        if self.course.arrived.is_none() && self.steps.is_empty() {
            let waits_for = self.files.waits_for.clone();
            let released = || {
                let mut released = files.iter().filter(|(_, file)| file.is_released());
                released.next().map(|(path, _)| path.clone())
            };
            if let Some(path) = waits_for.or_else(released) {
                return Some(path);
            }
        }
        let applied = files.iter().filter_map(|(path, file)| {
            let (_, applied) = file.taken_up(self.course.api).filter(|_| !file.is_old)?;
            (applied <= self.reached + LEAST).then_some((path, applied))
        });
        applied
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(path, _)| path.clone())
    }

    fn follow(&mut self, path: &ManifestPath) {
        let mut next = Some(path.clone());
        while let Some(path) = next {
            let Some(file) = self.files.files.get(&path) else {
                return;
            };
            if !self.followed.insert(path.clone()) {
                return;
            }
            self.taken_up_by_rke2(&path, file);
            next = self.waits(&path, file);
            if next.is_none() {
                self.appeared(&path, file);
            }
        }
    }

    fn taken_up_by_rke2(&mut self, path: &ManifestPath, file: &FileCourse) {
        let api = self.course.api;
        let (from, text) = match (file.taken_up(api), &file.failure) {
            (Some((from, _)), _) => (from, "RKE2 took it up and applied it".to_owned()),
            (None, _) if file.is_held() => return,
            (None, Some(failure)) => {
                let released = file.released.unwrap_or(self.reached);
                (released, format!("RKE2 cannot apply it: {failure}"))
            }
            (None, None) => {
                let released = file.released.unwrap_or(self.reached);
                let text = "RKE2 has not applied it yet".to_owned();
                (released.max(api.unwrap_or(0.0)), text)
            }
        };
        self.step(from, WaitedOn::Rke2, Some(path), text);
    }

    /// Adds the waits of the file. Returns the file that provides the last required object, if that was decisive.
    fn waits(&mut self, path: &ManifestPath, file: &FileCourse) -> Option<ManifestPath> {
        // Before kube-apiserver answers, every file waits for the node.
        let api = self.course.api?;
        for (number, wait) in file.waits.iter().enumerate().rev() {
            let is_last = number + 1 == file.waits.len();
            let text = text(wait, file.cause.filter(|_| is_last && !file.is_held()));
            let brought = wait.brought_by.as_ref().and_then(|other| {
                let file = self.files.files.get(other).filter(|file| !file.is_old)?;
                let applied = file.applied?;
                (applied >= wait.from && applied <= self.reached + LEAST)
                    .then_some((other, applied))
            });
            if let Some((other, applied)) = brought {
                self.step(applied, WaitedOn::OtherFile, Some(path), text);
                return Some(other.clone());
            }
            let from = wait.from.max(api);
            self.step(from, WaitedOn::Requirement, Some(path), text);
        }
        None
    }

    /// A file that appeared later had nothing to wait for before.
    fn appeared(&mut self, path: &ManifestPath, file: &FileCourse) {
        let came = file.appeared.filter(|at| *at > LEAST);
        if came.is_some_and(|at| self.reached <= at + LEAST) {
            let text = "the file was not there yet".to_owned();
            self.step(0.0, WaitedOn::File, Some(path), text);
        }
    }
}

/// The wait, and how it ended if something else ended it.
fn text(wait: &FileWait, cause: Option<Cause>) -> String {
    let ended = match cause {
        Some(Cause::Yielded) => " (released at its deadline, without it)",
        Some(Cause::ByHand) => " (released by hand)",
        Some(Cause::SamePass) => " (released: RKE2 applies its provider in the same pass)",
        Some(Cause::Escaped) => " (RKE2 applied it before its marker existed)",
        Some(Cause::Elsewhere) => " (applied although it was held, probably by another server)",
        Some(Cause::Off) => " (staging was switched off)",
        Some(Cause::Met | Cause::Free) | None => "",
    };
    format!("{}{ended}", wait.why)
}
