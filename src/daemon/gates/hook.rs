//! What runs before every start of RKE2, whoever asks for it and whether or not the daemon runs (`windrow gates
//! settle`, by `50-windrow-gates.conf` and `before-rke2`). It reads and writes local files and waits for nothing.
//!
//! It is also the last safety. If the daemon is gone and cannot judge a trial, its gates are put back after
//! [`TrialStarts::ALLOWED`] starts, or at once where the starts cannot be counted. A gate of ours that kube-apiserver or the kubelet has
//! refused in its log is taken out.

use std::time::Duration;
use std::{fs, io};

use jiff::Timestamp;
use windrow_decide::Event;
use windrow_gates::trial::OnDisk;
use windrow_gates::{Component, Rke2State, Trial, TrialStarts};
use windrow_model::reasons::Code;

use super::settle::{concerns, settle_for_start};
use super::startup_watch;
use crate::act::{StateFile, read_drop_in, remember_refused, take_out_of_drop_in};
use crate::configuration::Configuration;
use crate::layout::Layout;
use crate::observe::effect;

/// In the run-time directory: RKE2 was started in this boot.
const STARTED: &str = "rke2-started";

/// RKE2 was started in this boot, or runs already where Windrow comes later.
pub(super) fn mark_started(root: &Layout) {
    let started = root.run_dir().join(STARTED);
    if let Err(error) = fs::write(&started, "") {
        tracing::warn!("{}: {error}", started.display());
    }
}

/// Settles the gates; returns what to report.
pub fn before_start(root: &Layout, now: Timestamp) -> Vec<Event> {
    // The first start of a boot applies what the configuration asks for. Later ones are restarts of a server that
    // worked, and only remove gates that would stop it.
    let started = root.run_dir().join(STARTED);
    let rke2 = match started.exists() {
        true => Rke2State::Running,
        false => Rke2State::Stopped,
    };
    let mut events = Vec::new();
    let configuration = Configuration::load(root);
    let (settings, layout) = (configuration.settings(), configuration.layout());
    match StateFile::Trial.recall::<Trial>(layout) {
        Ok(Some(trial)) if trial.in_force() => {
            let counted = count(layout, &trial, settings.gates.patience, now);
            events.extend(
                counted
                    .err()
                    .map(|why| failed("count the starts of a trial", &why)),
            );
        }
        Ok(_) => startup_watch::own_refusals(&configuration),
        // Settling ignores a trial that cannot be read.
        Err(why) => events.push(failed("read the trial of feature gates", &why)),
    }
    // RKE2's binary is read for it, a hundred megabytes.
    if concerns(&configuration) {
        events.extend(settle_for_start(&configuration, rke2).events);
    }
    let marked = fs::create_dir_all(root.run_dir()).and_then(|()| fs::write(started, ""));
    if let Err(error) = marked {
        let what = format!("write to {}", root.run_dir().display());
        events.push(failed(&what, &error.to_string()));
    }
    events
}

/// Counts a start with a trial's gates, and restores what the trial saved when there were too many, or when they cannot be
/// counted. What cannot be remembered keeps nothing from being put back.
fn count(layout: &Layout, trial: &Trial, patience: Duration, now: Timestamp) -> Result<(), String> {
    let line = |error: io::Error| error.to_string();
    let current = read_drop_in(layout).map_err(line)?;
    if trial.on_disk(current.as_deref()) != OnDisk::Asked {
        return Ok(());
    }
    let known: Option<TrialStarts> = StateFile::Starts.recall(layout).unwrap_or_default();
    let mut starts = known.unwrap_or_default();
    let too_many = starts.count(trial, patience, now);
    let counted = StateFile::Starts.keep(layout, &starts).map_err(line);
    if too_many.is_none() && counted.is_ok() {
        return Ok(());
    }
    let saved = trial.saved.clone().unwrap_or_default();
    take_out_of_drop_in(layout, saved.content.as_deref()).map_err(line)?;
    counted?;
    let Some(why) = too_many else { return Ok(()) };
    let why = effect::refusal(layout, Component::KubeApiserver, trial.written)
        .map_or(why, |(said, _)| {
            format!("kube-apiserver says: {}", said.line)
        });
    let own = layout.gates_drop_in().display().to_string();
    remember_refused(layout, &trial.version, &trial.novel(&own), &why, &own)?;
    // What the daemon goes by is last.
    starts.restored = Some(why);
    StateFile::Starts.keep(layout, &starts).map_err(line)
}

fn failed(what: &str, error: &str) -> Event {
    Event::new(
        Code::ActionFailed,
        Code::ActionFailed.say(&[("what", what), ("error", error)]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Layout, path: &str, text: &str) {
        let path = root.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A node with RKE2 1.34 that asks for these gates.
    fn node(gates: &str) -> (tempfile::TempDir, Layout) {
        let place = tempfile::tempdir().unwrap();
        let root = Layout::new(place.path());
        write(&root, "/usr/local/bin/rke2", "\0v1.34.2+rke2r1\0");
        let settings = format!("featureGates: {{{gates}}}\n");
        write(&root, "/etc/windrow/windrow.yaml", &settings);
        fs::create_dir_all(root.run_dir()).unwrap();
        (place, root)
    }

    #[test]
    fn only_the_first_start_of_a_boot_writes_what_is_asked_for() {
        for runs_already in [false, true] {
            let (_place, root) = node("kubeApiserver: {APIResponseCompression: false}");
            if runs_already {
                mark_started(&root);
            }
            before_start(&root, Timestamp::now());
            assert_eq!(read_drop_in(&root).unwrap().is_none(), runs_already);
        }
    }

    #[test]
    fn a_gate_that_the_kubelet_refused_since_it_was_written_goes_before_the_next_start() {
        let (_place, root) = node("kubelet: {ImageVolume: true}");
        before_start(&root, Timestamp::now());
        assert!(read_drop_in(&root).unwrap().is_some());
        let log = "/var/lib/rancher/rke2/agent/logs/kubelet.log";
        let took = "I1126 20:00:00.1 9 server.go:525] \"Kubelet version\" kubeletVersion=\"v1.34.2+rke2r1\"\n";
        let refused = "E1126 20:00:00.1 9 run.go:72] \"command failed\" err=\"failed to set feature gates from initial flags-based config: unrecognized feature gate: ImageVolume\"\n";
        write(&root, log, &format!("{refused}{took}"));
        before_start(&root, Timestamp::now());
        assert!(read_drop_in(&root).unwrap().is_some());
        write(&root, log, &format!("{took}{refused}"));
        before_start(&root, Timestamp::now());
        assert_eq!(read_drop_in(&root).unwrap(), None);
    }
}
