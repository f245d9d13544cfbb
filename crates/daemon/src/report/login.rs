//! The login screens: `/run/issue.d/windrow.issue`, which agetty shows above its prompt, and `/run/motd.d/windrow`,
//! which `pam_motd` shows after it.
//!
//! agetty does not repaint an existing prompt, so the text carries its time. Both files are written when their text
//! changes. When Windrow stops, they say that it does not run. `tmpfiles.d` writes the same before it starts, and
//! `not-running` after it was killed: nothing outdated is shown, and silence is not a good sign.

use std::io;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use windrow_decide::{Event, Readiness, Status};
use windrow_model::reasons::Code;

use super::journal;
use crate::files::{Durability, overwrite};
use crate::fs::{self, DirBuilder};
use crate::layout::Layout;
use crate::printable::printable;
use crate::report::publish::StatusWatch;
use windrow_model::text::fit;

/// The longest line that fits Harvester's own console.
const WIDTH: usize = 65;
/// The line of every file that outlives the daemon.
const NOT_RUNNING: &str = "Unknown: Windrow's daemon does not run";
/// Shortest time between two writes.
const PAUSE: Duration = Duration::from_secs(1);
/// The time between two tries of a write that failed.
const RETRY: Duration = Duration::from_secs(5);

/// Keeps both files until the publisher of the status is gone. `wanted` is true while they are wanted.
pub async fn serve(
    layout: Layout,
    wanted: impl Fn() -> bool,
    now: fn() -> Timestamp,
    mut configured: watch::Receiver<impl Send + Sync>,
    mut status: StatusWatch,
) {
    let mut shown: Option<String> = None;
    let mut reported = false;
    let mut on = wanted();
    if !on {
        // Written before the first start, without knowing the configuration.
        remove(&layout);
    }
    let mut not_before = Instant::now();
    loop {
        let mut has_failed = false;
        let current = status.borrow_and_update().clone();
        if let Some(current) = current.filter(|_| on) {
            let summary = summary(&current);
            if shown.as_ref() != Some(&summary) {
                let text = text(&summary, current.readiness, now());
                match write(&layout, &text) {
                    Ok(()) => {
                        shown = Some(summary);
                        reported = false;
                    }
                    Err((path, error)) => {
                        has_failed = true;
                        if !std::mem::replace(&mut reported, true) {
                            report_failure(&path, &error);
                        }
                    }
                }
                not_before = Instant::now() + PAUSE;
            }
        } else if !on && shown.is_some() {
            remove(&layout);
            shown = None;
        }
        tokio::select! {
            changed = status.changed() => if changed.is_err() { break },
            Ok(()) = configured.changed() => on = wanted(),
            () = sleep(RETRY), if has_failed => {}
        }
        // After several quick changes, only the newest counts.
        sleep_until(not_before).await;
    }
    if on {
        // A text that cannot be replaced carries its time.
        let _ = write(&layout, &last_words(now()));
    }
}

fn report_failure(path: &str, error: &io::Error) {
    let what = format!("write the login notice {path}");
    let error = error.to_string();
    journal::write_event(&Event {
        code: Code::ActionFailed,
        file: None,
        message: Code::ActionFailed.say(&[("what", &what), ("error", &error)]),
    });
}

/// The text from now on.
fn last_words(now: Timestamp) -> String {
    let time = now.strftime("%Y-%m-%d %H:%M UTC");
    format!("{NOT_RUNNING}\n({time}; what to do: `systemctl status windrow`)\n")
}

fn summary(status: &Status) -> String {
    // On a prompt, agetty reads `\n` as the host's name; and its terminal may have no UTF-8.
    let plain: String = printable(&status.summary)
        .chars()
        .map(|one| match one {
            '\\' => '/',
            '…' | '\u{fffd}' => '.',
            one if one.is_ascii() => one,
            _ => '?',
        })
        .collect();
    fit(&plain, WIDTH).replace('…', ".")
}

fn text(summary: &str, readiness: Readiness, now: Timestamp) -> String {
    let more = match readiness {
        Readiness::Ready => "`windrow status` shows more",
        _ => "what to do: `windrow status`",
    };
    let time = now.strftime("%Y-%m-%d %H:%M UTC");
    format!("{summary}\n({time}; {more})\n")
}

fn write(layout: &Layout, text: &str) -> Result<(), (String, io::Error)> {
    for (path, text) in [
        (layout.issue(), format!("{text}\n")),
        (layout.motd(), text.to_owned()),
    ] {
        // `pam_motd` shows every file of its directory, so there must be no temporary name.
        let written = directory(path.parent())
            .and_then(|()| overwrite(&path, text.as_bytes(), 0o644, Durability::Volatile));
        written.map_err(|error| (path.display().to_string(), error))?;
    }
    Ok(())
}

fn directory(path: Option<&Path>) -> io::Result<()> {
    match path {
        Some(path) if !fs::exists(path) => {
            DirBuilder::new().recursive(true).mode(0o755).create(path)
        }
        _ => Ok(()),
    }
}

pub fn remove(layout: &Layout) {
    for path in [layout.issue(), layout.motd()] {
        // A missing file is fine. One that cannot be removed carries its time.
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::publish::{PublishedStatus, sample};

    fn status(summary: &str) -> PublishedStatus {
        PublishedStatus::new(Status {
            summary: summary.to_owned(),
            ..sample("x")
        })
    }

    fn clock() -> Timestamp {
        "2026-11-21T20:15:00Z".parse().unwrap()
    }

    #[test]
    fn two_short_lines_of_plain_characters_say_what_when_and_what_to_do() {
        let odd = status(
            "SettingUp: \\n \u{1b}[31m é — 3 of 40 manifests applied, and a long story goes on",
        );
        let summary = summary(&odd);
        assert!(
            summary.is_ascii() && !summary.contains(['\\', '\u{1b}']),
            "{summary}"
        );
        for readiness in [Readiness::Ready, Readiness::Failed] {
            let text = text(&summary, readiness, clock());
            assert_eq!(text.lines().count(), 2);
            for line in text.lines() {
                assert!(line.len() <= WIDTH, "{line}");
            }
            assert!(text.contains("(2026-11-21 20:15 UTC; "));
        }
    }

    /// Waits until a file has this text; without a daemon there is no other event.
    async fn reads(path: &Path, expected: Option<&str>) {
        let found = || fs::read_to_string(path).ok();
        tokio::time::timeout(Duration::from_secs(600), async {
            while found()
                .as_deref()
                .map(|text| text.lines().next().unwrap_or_default().to_owned())
                != expected.map(str::to_owned)
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{}: {:?}, not {expected:?}", path.display(), found()));
    }

    #[tokio::test]
    async fn a_write_that_failed_is_tried_again_although_the_status_stays_the_same() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        // A file is in the place of the directory, as on a file system without room for a directory.
        let in_the_way = layout.issue().parent().unwrap().to_owned();
        fs::create_dir_all(in_the_way.parent().unwrap()).unwrap();
        fs::write(&in_the_way, "").unwrap();
        let (publish, published) = watch::channel(Some(status("NotReady: c")));
        let (_reload, reloads) = watch::channel(());
        let (looked, mut looks) = watch::channel(());
        let wanted = move || {
            looked.send_replace(());
            true
        };
        let serving = tokio::spawn(serve(layout.clone(), wanted, clock, reloads, published));
        looks.changed().await.unwrap();
        fs::remove_file(&in_the_way).unwrap();
        for path in [layout.issue(), layout.motd()] {
            reads(&path, Some("NotReady: c")).await;
        }
        drop(publish);
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn both_files_follow_the_status_and_say_when_it_has_ended() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let (publish, published) = watch::channel(None);
        let (_reload, reloads) = watch::channel(());
        let serving = tokio::spawn(serve(layout.clone(), || true, clock, reloads, published));
        for summary in ["Setting up node: a", "Ready: b"] {
            publish.send_replace(Some(status(summary)));
            for path in [layout.issue(), layout.motd()] {
                reads(&path, Some(summary)).await;
            }
        }
        drop(publish);
        serving.await.unwrap();
        for path in [layout.issue(), layout.motd()] {
            reads(&path, Some(NOT_RUNNING)).await;
        }
        let text = last_words(clock());
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
    }

    #[test]
    fn what_is_laid_before_the_daemon_and_after_its_death_is_what_it_says_itself() {
        let repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let laid = fs::read_to_string(repository.join("systemd/windrow.tmpfiles")).unwrap();
        let script = fs::read_to_string(repository.join("systemd/not-running")).unwrap();
        let layout = Layout::new("/");
        for path in [layout.issue(), layout.motd()] {
            let path = path.display().to_string();
            let line = laid
                .lines()
                .find(|line| line.split_whitespace().nth(1) == Some(&path));
            let line = line.unwrap_or_else(|| panic!("{path}"));
            assert!(line.contains(NOT_RUNNING), "{line}");
            assert!(script.contains(&path), "{path}");
        }
        assert!(script.contains(NOT_RUNNING));
    }

    #[tokio::test]
    async fn switched_off_they_are_taken_away_and_on_again_they_come_back() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let (publish, published) = watch::channel(Some(status("Ready: b")));
        let (reload, reloads) = watch::channel(());
        let (switch, on) = watch::channel(true);
        let serving = tokio::spawn(serve(
            layout.clone(),
            move || *on.borrow(),
            clock,
            reloads,
            published,
        ));
        reads(&layout.motd(), Some("Ready: b")).await;
        switch.send_replace(false);
        reload.send_replace(());
        reads(&layout.motd(), None).await;
        switch.send_replace(true);
        reload.send_replace(());
        reads(&layout.issue(), Some("Ready: b")).await;
        switch.send_replace(false);
        reload.send_replace(());
        reads(&layout.motd(), None).await;
        drop(publish);
        serving.await.unwrap();
        assert!(!layout.motd().exists(), "not wanted, whoever ends");
    }

    #[tokio::test]
    async fn where_they_are_not_wanted_what_was_laid_before_the_start_is_taken_away() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        write(&layout, "laid\n").unwrap();
        let (publish, published) = watch::channel(None);
        let (_reload, reloads) = watch::channel(());
        let serving = tokio::spawn(serve(layout.clone(), || false, clock, reloads, published));
        reads(&layout.motd(), None).await;
        reads(&layout.issue(), None).await;
        drop(publish);
        serving.await.unwrap();
    }
}
