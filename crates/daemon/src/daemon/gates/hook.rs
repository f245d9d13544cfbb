//! The command before every start of RKE2, no matter who starts it and whether the daemon runs (`windrow gates settle`,
//! by `50-windrow-gates.conf` and `before-rke2`). It reads and writes local files and waits for nothing.
//!
//! It is also the last safety net. If the daemon is gone and cannot judge a trial, the trial's gates are taken back
//! after [`TrialStarts::ALLOWED`] starts, or at once if the starts cannot be counted. A gate of ours that
//! kube-apiserver or the kubelet has refused in its log is removed.

use std::io;
use std::time::Duration;

use windrow_decide::Event;
use windrow_gates::trial::OnDisk;
use windrow_gates::{Component, LeftOut, Rke2State, TooManyStarts, Trial, TrialStarts, list};
use windrow_model::reasons::Code;

use super::own_refusals::own_refusals;
use super::settle::{concerns, left_out, settle_for_start};
use crate::act::{
    GatesLock, StateFile, TakenOut, put_drop_in, read_drop_in, remember_failed, remember_refused,
    take_out_of_drop_in,
};
use crate::configuration::Configuration;
use crate::fs;
use crate::layout::Layout;
use crate::observe::effect;
use crate::observe::platform::boot_moment;

/// In the run-time directory: RKE2 was started in this boot.
const STARTED: &str = "rke2-started";

/// In the run-time directory: the last check before a start has ended. `before-rke2` reads its time.
const CHECKED: &str = "gates-checked";

fn mark(root: &Layout, name: &str) -> io::Result<()> {
    fs::create_dir_all(root.run_dir())?;
    fs::write(root.run_dir().join(name), "")
}

/// RKE2 was started in this boot, or already runs when Windrow is installed later.
pub(super) fn mark_started(root: &Layout) {
    if let Err(error) = mark(root, STARTED) {
        tracing::warn!("{}: {error}", root.run_dir().display());
    }
}

/// The first start of a boot applies the requests of the configuration. Later ones are restarts of a server that
/// worked, and only remove gates that would stop it. This is noted first: the process may be killed before it has read
/// everything.
fn begin_start(root: &Layout) -> (Rke2State, io::Result<()>) {
    let rke2 = if fs::exists(root.run_dir().join(STARTED)) {
        Rke2State::Running
    } else {
        Rke2State::Stopped
    };
    (rke2, mark(root, STARTED))
}

/// Returns the events to report.
pub fn before_start(root: &Layout) -> Vec<Event> {
    let (rke2, marked) = begin_start(root);
    let mut events = Vec::new();
    let mut patience = GatesLock::PATIENCE;
    let configuration = Configuration::load(root);
    let (settings, layout) = (configuration.settings(), configuration.layout());
    let mut unwritten = None;
    events.extend(remove_unreadable(layout, &mut patience));
    match StateFile::Trial.recall::<Trial>(layout) {
        Ok(Some(trial)) if trial.in_force() => {
            let _lock = GatesLock::take_within(layout, &mut patience);
            let counted = count(layout, &trial, settings.gates.patience);
            events.extend(
                counted.unwrap_or_else(|why| vec![failed("count the starts of a trial", &why)]),
            );
        }
        Ok(_) => {
            if let Err((refused, why)) = own_refusals(&configuration, &mut patience) {
                events.push(failed("remember refused feature gates", &why));
                unwritten = Some(refused);
            }
        }
        // Settling ignores a trial that cannot be read.
        Err(why) => events.push(failed("read the trial of feature gates", &why)),
    }
    // RKE2's binary is read for it, a hundred megabytes.
    if concerns(&configuration) {
        let settled = settle_for_start(&configuration, rke2, unwritten.as_ref(), &mut patience);
        events.extend(settled.events);
    }
    if let Err(error) = marked.and(mark(root, CHECKED)) {
        let what = format!("write to {}", root.run_dir().display());
        events.push(failed(&what, &error.to_string()));
    }
    events
}

/// RKE2 does not start with a drop-in that it cannot read.
fn remove_unreadable(layout: &Layout, patience: &mut Duration) -> Option<Event> {
    let error = read_drop_in(layout).err()?;
    let _lock = GatesLock::take_within(layout, patience);
    let own = layout.gates_drop_in().display().to_string();
    let what = format!("read {own}");
    let done = match put_drop_in(layout, None) {
        Ok(_) => format!("{error}; the file was removed"),
        Err(failure) => format!("{error}; nor can it be removed: {failure}"),
    };
    Some(failed(&what, &done))
}

/// Counts a start with a trial's gates. Restores the drop-in that the trial saved if there were too many starts, or if
/// they cannot be counted. A record that cannot be written does not prevent this. Returns the events to report.
fn count(layout: &Layout, trial: &Trial, patience: Duration) -> Result<Vec<Event>, String> {
    let line = |error: io::Error| error.to_string();
    let current = read_drop_in(layout).map_err(line)?;
    if trial.on_disk(current.as_deref()) != OnDisk::Asked {
        return Ok(Vec::new());
    }
    let known: Option<TrialStarts> = StateFile::Starts.recall(layout).unwrap_or_default();
    let mut starts = known.unwrap_or_default();
    let too_many = starts.count(trial, patience, boot_moment(layout).as_ref());
    let counted = StateFile::Starts.keep(layout, &starts).map_err(line);
    let why = match (&too_many, &counted) {
        (Some(too_many), _) => too_many.why.clone(),
        (None, Err(error)) => format!("the starts of its trial cannot be counted ({error})"),
        (None, Ok(())) => return Ok(Vec::new()),
    };
    let saved = trial.saved.clone().unwrap_or_default();
    let done = take_out_of_drop_in(layout, saved.content.as_deref()).map_err(line)?;
    let own = layout.gates_drop_in().display().to_string();
    let mut events = report_restored(trial, &done, &why, &own);
    let remembered = match (counted, too_many) {
        (Err(why), _) => Err(("count the starts of a trial", why)),
        (Ok(()), Some(too_many)) => remember_end(layout, trial, starts, too_many, &own)
            .map_err(|why| ("remember the end of a trial", why)),
        (Ok(()), None) => Ok(()),
    };
    events.extend(remembered.err().map(|(what, why)| failed(what, &why)));
    Ok(events)
}

/// A component's log since the trial's gates were written counts more than the number of starts.
fn remember_end(
    layout: &Layout,
    trial: &Trial,
    starts: TrialStarts,
    too_many: TooManyStarts,
    own: &str,
) -> Result<(), String> {
    let tried = trial.gates(own, &[]);
    let refusal = effect::refusal(layout, Component::KubeApiserver, trial.written);
    let refusal = refusal.filter(|(said, _)| said.names_any_of(&tried));
    let end = match refusal {
        Some((said, _)) => TooManyStarts {
            why: format!("kube-apiserver says: {}", said.line),
            is_failure: true,
        },
        None => too_many,
    };
    if end.is_failure {
        let why = &end.why;
        remember_refused(layout, &trial.version, &trial.novel(own), why, own)?;
        let failed = Trial {
            why: Some(why.clone()),
            ..trial.clone()
        };
        remember_failed(layout, failed.failed())?;
    }
    // The record that the daemon reads is written last.
    let starts = TrialStarts {
        put_back: Some(end),
        ..starts
    };
    StateFile::Starts
        .keep(layout, &starts)
        .map_err(|error| error.to_string())
}

/// The journal of rke2-server shows which gates this start does not have any more.
fn report_restored(trial: &Trial, done: &TakenOut, why: &str, own: &str) -> Vec<Event> {
    let (there, gone) = match done {
        TakenOut::Put(_) => (trial.gates_before(own), trial.novel(own)),
        TakenOut::Removed(_) => (Vec::new(), trial.gates(own, &[])),
    };
    let written = Code::GatesWritten.say(&[("path", own), ("gates", &list(&there))]);
    let mut events = vec![Event::new(Code::GatesWritten, written)];
    events.extend(gone.into_iter().map(|request| {
        let left = LeftOut {
            request,
            why: why.to_owned(),
            not_meant: false,
        };
        Event::new(
            Code::GateDropped,
            left_out(Code::GateDropped, &left).message,
        )
    }));
    events
}

fn failed(what: &str, error: &str) -> Event {
    Event::new(
        Code::ActionFailed,
        Code::ActionFailed.say(&[("what", what), ("error", error)]),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;

    use super::super::inputs::DropInInputs;
    use super::super::settle::settle_as_read;
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
            before_start(&root);
            assert_eq!(read_drop_in(&root).unwrap().is_none(), runs_already);
        }
    }

    #[test]
    fn a_gate_that_the_kubelet_refused_since_it_was_written_goes_before_the_next_start() {
        let (_place, root) = node("kubelet: {ImageVolume: true}");
        before_start(&root);
        assert!(read_drop_in(&root).unwrap().is_some());
        let log = "/var/lib/rancher/rke2/agent/logs/kubelet.log";
        let took = "I1126 20:00:00.1 9 server.go:525] \"Kubelet version\" kubeletVersion=\"v1.34.2+rke2r1\"\n";
        let refused = "E1126 20:00:00.1 9 run.go:72] \"command failed\" err=\"failed to set feature gates from initial flags-based config: unrecognized feature gate: ImageVolume\"\n";
        // A user who may create a pod chooses the name of its image.
        let of_image = "E1126 20:01:00.1 9 pod_workers.go:1301] \"Error syncing pod, skipping\" err=\"InvalidImageName: \\\"command failed Error: unrecognized feature gate: ImageVolume\\\"\"\n";
        for log_of_running in [format!("{refused}{took}"), format!("{took}{of_image}")] {
            write(&root, log, &log_of_running);
            before_start(&root);
            assert!(read_drop_in(&root).unwrap().is_some());
        }
        write(&root, log, &format!("{took}{refused}"));
        before_start(&root);
        assert_eq!(read_drop_in(&root).unwrap(), None);
    }
    /// Simulates the next boot, before RKE2 starts; returns the reported events.
    fn boot(root: &Layout) -> Vec<Event> {
        let _ = fs::remove_file(root.run_dir().join(STARTED));
        before_start(root)
    }

    fn codes(events: &[Event]) -> Vec<Code> {
        events.iter().map(|event| event.code).collect()
    }

    #[test]
    fn an_error_in_the_configuration_changes_no_gate_at_a_boot() {
        let asks = "featureGates: {kubeApiserver: {APIResponseCompression: false}}\n";
        for (name, text) in [
            (
                "wrong value",
                format!("{asks}staging: {{blindDeadline: 5 apples}}\n"),
            ),
            ("unknown key", format!("{asks}stagging: {{}}\n")),
            ("YAML", format!("{asks}a: [\n")),
            (
                "component",
                "featureGates: {kubelt: {ImageVolume: true}}\n".to_owned(),
            ),
            ("not text", "\0".to_owned()),
        ] {
            let (_place, root) = node("kubeApiserver: {APIResponseCompression: false}");
            boot(&root);
            let written = read_drop_in(&root).unwrap();
            assert!(written.is_some());
            write(&root, "/etc/windrow/windrow.yaml", &text);
            let events = boot(&root);
            assert_eq!(read_drop_in(&root).unwrap(), written, "{name}");
            assert_eq!(codes(&events), [Code::GatesWithheld], "{name}");
            // Nor is a gate added.
            fs::remove_file(root.gates_drop_in()).unwrap();
            write(&root, "/etc/windrow/conf.d/more.yaml", asks);
            boot(&root);
            assert_eq!(read_drop_in(&root).unwrap(), None, "{name}");
        }
    }

    #[test]
    fn a_configuration_that_cannot_be_read_changes_no_gate_at_a_boot() {
        let (_place, root) = node("kubeApiserver: {APIResponseCompression: false}");
        boot(&root);
        let written = read_drop_in(&root).unwrap();
        let file = root.path("/etc/windrow/windrow.yaml");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        boot(&root);
        assert_eq!(read_drop_in(&root).unwrap(), written);
        // It may come later in this boot. The file of the package says nothing about this node.
        fs::remove_dir(&file).unwrap();
        write(&root, "/usr/lib/windrow/windrow.yaml", "{}");
        assert_eq!(codes(&boot(&root)), [Code::GatesWithheld]);
        assert_eq!(read_drop_in(&root).unwrap(), written);
        // An empty file asks for nothing.
        write(&root, "/etc/windrow/windrow.yaml", "");
        let events = boot(&root);
        assert_eq!(read_drop_in(&root).unwrap(), None);
        assert_eq!(codes(&events), [Code::GatesWritten, Code::GateDropped]);
        assert!(events[1].message.contains("APIResponseCompression=false"));
    }

    #[test]
    fn a_drop_in_that_cannot_be_read_is_removed_before_a_start() {
        let (_place, root) = node("kubeApiserver: {APIResponseCompression: false}");
        boot(&root);
        let written = read_drop_in(&root).unwrap();
        let path = root.gates_drop_in();
        let damage: [fn(&Path); 2] = [
            |path| fs::write(path, b"kube-apiserver-arg+:\n- \xff\n").unwrap(),
            |path| {
                fs::remove_file(path).unwrap();
                std::os::unix::fs::symlink(path, path).unwrap();
            },
        ];
        for damage in damage {
            damage(&path);
            let events = before_start(&root);
            assert_eq!(codes(&events), [Code::ActionFailed]);
            assert!(fs::symlink_metadata(&path).is_err());
            boot(&root);
            assert_eq!(read_drop_in(&root).unwrap(), written);
            damage(&path);
            boot(&root);
            assert_eq!(read_drop_in(&root).unwrap(), written);
        }
    }

    #[test]
    fn a_start_counts_as_the_first_of_a_boot_once_although_its_check_was_killed() {
        let (_place, root) = node("");
        assert_eq!(begin_start(&root).0, Rke2State::Stopped);
        assert_eq!(begin_start(&root).0, Rke2State::Running);
        assert!(!root.run_dir().join(CHECKED).exists());
        before_start(&root);
        assert!(root.run_dir().join(CHECKED).exists());
    }

    #[test]
    fn a_boot_keeps_the_gate_without_which_a_component_stops() {
        let (_place, root) = node("kubeApiserver: {GracefulNodeShutdownBasedOnPodPriority: false}");
        write(&root, "/usr/local/bin/rke2", "\0v1.35.6+rke2r1\0");
        let site = "kube-apiserver-arg:\n- feature-gates=GracefulNodeShutdown=false,WindowsGracefulNodeShutdown=false\n";
        write(&root, "/etc/rancher/rke2/config.yaml.d/50-site.yaml", site);
        boot(&root);
        let written = read_drop_in(&root).unwrap();
        assert!(written.is_some());
        write(&root, "/etc/windrow/windrow.yaml", "");
        assert_eq!(codes(&boot(&root)), [Code::GatesWithheld]);
        assert_eq!(read_drop_in(&root).unwrap(), written);
    }

    #[test]
    fn a_gate_that_kube_apiserver_refused_is_not_written_again_after_the_drop_in_was_removed_by_hand()
     {
        let (_place, root) =
            node("kubeApiserver: {APIResponseCompression: false, ImageVolume: true}");
        boot(&root);
        let log = "/var/log/pods/kube-system_kube-apiserver-n_1/kube-apiserver/0.log";
        let refusal = "stderr F E1128 run.go:72] \"command failed\" err=\"failed to set feature gates from initial flags-based config: unrecognized feature gate: ImageVolume\"\n";
        write(&root, log, &format!("{} {refusal}", Timestamp::now()));
        fs::remove_file(root.gates_drop_in()).unwrap();
        boot(&root);
        let written = read_drop_in(&root).unwrap().unwrap();
        assert!(written.contains("APIResponseCompression") && !written.contains("ImageVolume"));
    }

    /// kube-apiserver's own log of a refusal, at this moment.
    fn refuse(root: &Layout, gate: &str, at: Timestamp) {
        let log = "/var/log/pods/kube-system_kube-apiserver-n_1/kube-apiserver/0.log";
        let refusal = format!(
            "{at} stderr F E1128 run.go:72] \"command failed\" err=\"failed to set feature gates from initial flags-based config: unrecognized feature gate: {gate}\"\n"
        );
        write(root, log, &refusal);
    }

    fn set_time(path: &Path, at: Duration) {
        let file = std::fs::File::open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + at).unwrap();
    }

    #[test]
    fn a_refused_gate_goes_before_the_next_start_although_the_refusal_cannot_be_written() {
        let gates = "kubeApiserver: {APIResponseCompression: false, ImageVolume: true}";
        let (_place, root) = node(gates);
        boot(&root);
        refuse(&root, "ImageVolume", Timestamp::now());
        // As on a full disk: there is no record, and none can be written.
        let records = root.gates_dir();
        fs::remove_dir_all(&records).unwrap();
        std::os::unix::fs::symlink("/nonexistent/windrow", &records).unwrap();
        let events = before_start(&root);
        assert_eq!(
            codes(&events),
            [Code::ActionFailed, Code::GatesWritten, Code::GateDropped]
        );
        let written = read_drop_in(&root).unwrap().unwrap();
        assert!(written.contains("APIResponseCompression") && !written.contains("ImageVolume"));
    }

    #[test]
    fn a_record_of_refusals_that_cannot_be_read_is_no_leave_to_write_a_refused_gate_again() {
        let gates = "kubeApiserver: {APIResponseCompression: false, ImageVolume: true}";
        let (_place, root) = node(gates);
        boot(&root);
        refuse(&root, "ImageVolume", Timestamp::now());
        before_start(&root);
        let written = read_drop_in(&root).unwrap();
        let is_refused = |content: &Option<String>| {
            let content = content.as_ref().unwrap();
            content.contains("APIResponseCompression") && !content.contains("ImageVolume")
        };
        assert!(is_refused(&written));
        // The log that shows it is gone after a reboot.
        fs::remove_dir_all(root.path("/var/log/pods")).unwrap();
        let record = StateFile::Refused.path(&root);
        let content = fs::read_to_string(&record).unwrap();
        let damage: [fn(&Path); 2] = [
            |path| fs::write(path, "{").unwrap(),
            |path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            },
        ];
        for damage in damage {
            damage(&record);
            assert_eq!(codes(&boot(&root)), [Code::GatesWithheld]);
            assert_eq!(read_drop_in(&root).unwrap(), written);
        }
        fs::remove_dir(&record).unwrap();
        fs::write(&record, content).unwrap();
        assert_eq!(codes(&boot(&root)), []);
        assert_eq!(read_drop_in(&root).unwrap(), written);
    }

    #[test]
    fn a_refusal_that_could_not_be_written_is_found_again_at_the_next_boot() {
        let gates = "kubeApiserver: {APIResponseCompression: false, ImageVolume: true}";
        let (_place, root) = node(gates);
        boot(&root);
        refuse(&root, "ImageVolume", Timestamp::now());
        let record = StateFile::Refused.path(&root);
        fs::create_dir(&record).unwrap();
        before_start(&root);
        let written = read_drop_in(&root).unwrap();
        assert!(!written.as_ref().unwrap().contains("ImageVolume"));
        fs::remove_dir(&record).unwrap();
        boot(&root);
        assert_eq!(read_drop_in(&root).unwrap(), written);
        assert!(record.exists());
    }

    #[test]
    fn a_gate_that_was_refused_goes_although_the_clock_starts_far_behind_after_that() {
        let (_place, root) = node("kubeApiserver: {ImageVolume: true}");
        boot(&root);
        // Both are later than now.
        set_time(&root.gates_drop_in(), Duration::from_secs(1 << 33));
        let refused = Timestamp::from_second((1 << 33) + 60).unwrap();
        refuse(&root, "ImageVolume", refused);
        before_start(&root);
        assert_eq!(read_drop_in(&root).unwrap(), None);
    }

    #[test]
    fn a_gate_that_was_never_set_is_written_although_a_refusal_names_it() {
        let (_place, root) = node("");
        boot(&root);
        // A gate of another file depends on it, for example.
        refuse(&root, "ImageVolume", Timestamp::now());
        let asks = "featureGates: {kubeApiserver: {ImageVolume: true}}\n";
        write(&root, "/etc/windrow/windrow.yaml", asks);
        boot(&root);
        let written = read_drop_in(&root).unwrap().unwrap();
        assert!(written.contains("ImageVolume=true"), "{written}");
        // Once it was set, a refusal counts also if the drop-in was removed manually.
        refuse(&root, "ImageVolume", Timestamp::now());
        fs::remove_file(root.gates_drop_in()).unwrap();
        boot(&root);
        assert_eq!(read_drop_in(&root).unwrap(), None);
    }

    #[test]
    fn a_refused_gate_goes_although_the_clock_was_ahead_when_it_was_written() {
        let (_place, root) = node("kubeApiserver: {ImageVolume: true}");
        boot(&root);
        set_time(&root.gates_drop_in(), Duration::from_secs(1 << 33));
        let long_ago = Timestamp::now() - Duration::from_secs(24 * 60 * 60);
        for (at, is_there) in [(long_ago, true), (Timestamp::now(), false)] {
            refuse(&root, "ImageVolume", at);
            before_start(&root);
            assert_eq!(read_drop_in(&root).unwrap().is_some(), is_there);
        }
    }

    #[test]
    fn what_was_refused_before_a_gate_was_set_does_not_count_once_the_drop_in_is_removed_by_hand() {
        let (_place, root) = node("kubeApiserver: {ImageVolume: true}");
        set_time(
            &root.path("/usr/local/bin/rke2"),
            Duration::from_secs(1 << 30),
        );
        let hour_ago = Timestamp::now() - Duration::from_secs(60 * 60);
        refuse(&root, "ImageVolume", hour_ago);
        boot(&root);
        let written = read_drop_in(&root).unwrap();
        assert!(written.is_some());
        fs::remove_file(root.gates_drop_in()).unwrap();
        boot(&root);
        assert_eq!(read_drop_in(&root).unwrap(), written);
    }

    #[test]
    fn an_old_kube_apiserver_that_repeats_a_refusal_undoes_no_later_change() {
        let (_place, root) = node("kubeApiserver: {ImageVolume: true}");
        boot(&root);
        refuse(&root, "ImageVolume", Timestamp::now());
        let asks = "featureGates: {kubeApiserver: {APIResponseCompression: false}}\n";
        write(&root, "/etc/windrow/windrow.yaml", asks);
        boot(&root);
        let written = read_drop_in(&root).unwrap();
        assert!(written.as_ref().unwrap().contains("APIResponseCompression"));
        // The kubelet starts the old static pod before RKE2 rewrites its manifest.
        let later = Timestamp::now() + Duration::from_secs(1);
        refuse(&root, "ImageVolume", later);
        before_start(&root);
        assert_eq!(read_drop_in(&root).unwrap(), written);
        assert!(codes(&boot(&root)).is_empty());
        assert_eq!(read_drop_in(&root).unwrap(), written);
    }

    #[test]
    fn what_another_process_has_changed_meanwhile_is_read_again_before_anything_is_written() {
        let (_place, root) = node(
            "kubeApiserver: {AuthorizeNodeWithSelectors: false, APIResponseCompression: false}",
        );
        write(&root, "/usr/local/bin/rke2", "\0v1.33.3+rke2r1\0");
        let configuration = Configuration::load(&root);
        let reads = std::cell::Cell::new(0);
        let read = || {
            reads.set(reads.get() + 1);
            let inputs = DropInInputs::read_for(&configuration, false);
            if reads.get() == 1 {
                // RKE2 is upgraded, and its start runs the hook.
                write(&root, "/usr/local/bin/rke2", "\0v1.34.2+rke2r1\0");
                boot(&root);
            }
            inputs
        };
        let mut patience = GatesLock::PATIENCE;
        settle_as_read(read, Rke2State::Stopped, &mut patience);
        assert_eq!(reads.get(), 2);
        let written = read_drop_in(&root).unwrap().unwrap();
        assert!(!written.contains("AuthorizeNodeWithSelectors"), "{written}");
    }

    const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

    /// A trial of kube-apiserver's `ImageVolume=true` that the daemon verifies, and RKE2 was started with it once in the boot `b1`.
    fn node_in_a_trial() -> (tempfile::TempDir, Layout, Trial) {
        let (place, root) = node("kubeApiserver: {ImageVolume: true}");
        write(&root, BOOT_ID, "b1\n");
        boot(&root);
        let asked = read_drop_in(&root).unwrap();
        let record = serde_json::json!({
            "request": "r1", "change": "apply", "by": "ann", "at": "2026-11-26T05:00:00Z", "forced": false,
            "version": "1.34.2", "asked": {"content": asked}, "saved": {"content": null},
            "state": "verifying", "since": "2026-11-26T05:00:00Z", "written": "2026-11-26T05:00:00Z",
        });
        let trial: Trial = serde_json::from_value(record).unwrap();
        StateFile::Trial.keep(&root, &trial).unwrap();
        assert!(codes(&before_start(&root)).is_empty());
        (place, root, trial)
    }

    fn is_known_to_fail(root: &Layout) -> bool {
        StateFile::Failed.path(root).exists() || StateFile::Refused.path(root).exists()
    }

    #[test]
    fn a_reboot_during_a_trial_is_no_failure_however_long_it_takes() {
        let (_place, root, trial) = node_in_a_trial();
        write(&root, BOOT_ID, "b2\n");
        assert!(codes(&before_start(&root)).is_empty());
        assert_eq!(read_drop_in(&root).unwrap(), trial.asked.content);
        // A clock that is set says nothing either.
        write(&root, BOOT_ID, "b3\n");
        let events = before_start(&root);
        assert_eq!(read_drop_in(&root).unwrap(), None);
        assert_eq!(codes(&events), [Code::GatesWritten, Code::GateDropped]);
        assert!(events[1].message.contains("ImageVolume"));
        assert!(!is_known_to_fail(&root));
    }

    #[test]
    fn a_trial_that_the_hook_ends_is_reported_and_has_failed_if_a_start_of_this_boot_came_to_nothing()
     {
        let (_place, root, _trial) = node_in_a_trial();
        assert!(codes(&before_start(&root)).is_empty());
        let events = before_start(&root);
        assert_eq!(codes(&events), [Code::GatesWritten, Code::GateDropped]);
        assert_eq!(read_drop_in(&root).unwrap(), None);
        assert!(is_known_to_fail(&root));
    }

    #[test]
    fn the_daemon_judges_before_a_start_as_the_hook_does_although_an_upgrade_is_known() {
        let asks = "kubeApiserver: {AuthorizeNodeWithSelectors: false";
        let (_place, root) = node(&format!("{asks}}}"));
        write(&root, "/usr/local/bin/rke2", "\0v1.33.3+rke2r1\0");
        boot(&root);
        let first = read_drop_in(&root).unwrap();
        let both = format!("featureGates: {{{asks}, APIResponseCompression: false}}}}\n");
        write(&root, "/etc/windrow/windrow.yaml", &both);
        boot(&root);
        let written = read_drop_in(&root).unwrap();
        let upgrade = windrow_gates::Upgrade::Rke2("v1.34.2+rke2r1".to_owned());
        StateFile::Upgrade.keep(&root, &upgrade).unwrap();
        let configuration = Configuration::load(&root);
        super::super::settle(&configuration, Rke2State::Stopped);
        assert_eq!(read_drop_in(&root).unwrap(), written);
        boot(&root);
        let last: Option<windrow_gates::LastChange> = StateFile::LastChange.recall(&root).unwrap();
        assert_eq!(last.unwrap().before, first);
    }

    #[test]
    fn a_drop_in_that_is_not_text_is_removed_during_a_trial_too() {
        let (_place, root, trial) = node_in_a_trial();
        fs::write(root.gates_drop_in(), b"kube-apiserver-arg+:\n- \xff\n").unwrap();
        assert_eq!(codes(&before_start(&root)), [Code::ActionFailed]);
        assert_eq!(read_drop_in(&root).unwrap(), None);
        // The daemon treats this as the drop-in from before the trial.
        assert_eq!(trial.on_disk(None), OnDisk::Saved);
        assert!(!is_known_to_fail(&root));
    }
}
