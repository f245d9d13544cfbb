//! The points where the sandbox's clock stops, so that you can look around.

use std::io::BufRead as _;
use std::thread;

use tokio::sync::mpsc;
use windrow_decide::{Phase, Readiness, Status};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;
use windrow_plan::rules::Platform;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PausePoint {
    Phase(Phase),
    /// When Windrow holds this file and knows its reason, or releases it at once.
    File(ManifestPath),
}

impl PausePoint {
    /// Parses a phase of the platform's bootstrap, or one of the node's files.
    ///
    /// # Errors
    ///
    /// When it is neither; a sentence for users that lists both.
    pub fn read(typed: &str, platform: Platform, files: &[ManifestPath]) -> Result<Self, String> {
        let phases = Phase::bootstrap(Some(platform));
        if let Some(phase) = phases.iter().find(|phase| phase.as_str() == typed) {
            return Ok(Self::Phase(*phase));
        }
        if let Some(file) = files.iter().find(|file| file.as_str() == typed) {
            return Ok(Self::File(file.clone()));
        }
        let phases: Vec<&str> = phases.iter().map(|phase| phase.as_str()).collect();
        let files: Vec<&str> = files.iter().map(ManifestPath::as_str).collect();
        Err(format!(
            "--pause-at {typed}: neither a phase ({}) nor a file of this node ({})",
            phases.join(", "),
            files.join(", ")
        ))
    }

    pub fn describe(&self) -> String {
        match self {
            Self::Phase(phase) => phase.as_str().to_owned(),
            Self::File(file) => file.to_string(),
        }
    }

    pub(super) fn is_reached(&self, status: &Status) -> bool {
        match self {
            Self::Phase(Phase::Ready) => status.readiness == Readiness::Ready,
            // A short phase may be over by the time of the check.
            Self::Phase(phase) => status.phase >= *phase && !status.phases.is_empty(),
            Self::File(file) => {
                let staging = &status.staging;
                let mut held = staging.held.iter();
                let let_go = staging.released.iter().chain(&staging.applied);
                held.any(|held| held.file == *file && held.code != Code::WaitsForCluster)
                    || let_go.into_iter().any(|free| free.file == *file)
            }
        }
    }
}

/// Enter, typed on standard input. The thread that reads it ends with the process.
pub(super) struct EnterKeys(mpsc::UnboundedReceiver<()>);

impl EnterKeys {
    pub(super) fn listen() -> Self {
        let (typed, keys) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                if line.is_err() || typed.send(()).is_err() {
                    return;
                }
            }
        });
        Self(keys)
    }

    /// Waits for Enter. False when standard input is at its end, so that nothing more can be typed.
    pub(super) async fn pressed(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_at_a_phase_or_at_a_file_and_else_both_are_listed() {
        let files = ["a.yaml".into(), "sub/b.yaml".into()];
        let read = |typed| PausePoint::read(typed, Platform::Harvester, &files);
        assert_eq!(
            read("rke2-installed"),
            Ok(PausePoint::Phase(Phase::Rke2Installed))
        );
        assert_eq!(
            read("sub/b.yaml"),
            Ok(PausePoint::File("sub/b.yaml".into()))
        );
        let wrong = read("c.yaml").unwrap_err();
        for words in ["c.yaml", "storage-network", "a.yaml, sub/b.yaml"] {
            assert!(wrong.contains(words), "{wrong}");
        }
        for typed in ["storage-network", "a.yaml"] {
            assert_eq!(
                read(typed).map(|point| point.describe()),
                Ok(typed.to_owned())
            );
        }
    }
}
