//! `windrow repair --undo`: shows which changes of a cure can be undone, asks, and undoes them.

use std::io;
use std::path::Path;

use windrow_harvester::incidents::{CureStep, WayBack};

use super::super::Exit;
use super::super::document::now;
use super::super::out::print_whole;
use super::{Args, Repair, agreed, show_left};
use crate::act::repair::{Record, RequestOutcome, UndoneStep, steps_to_undo, try_out, undo};
use crate::observe::requests::RequestAction;
use crate::render::request_text;

impl Repair<'_> {
    pub(super) async fn undo(&self, args: &Args) -> anyhow::Result<Exit> {
        let name = args.undo.as_deref().unwrap_or_default();
        let mut record = match self.record_to_undo(name) {
            Ok(Some(record)) => record,
            Ok(None) => return self.undo_of_others(name, args).await,
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.has_entry(name).await => {
                return self.undo_of_others(name, args).await;
            }
            Err(error) => {
                eprintln!("windrow: there is no such record: {error}");
                return Ok(Exit::Usage);
            }
        };
        print_whole(&format!(
            "{}: {}\nrecord {}\n",
            record.subject,
            record.cure.summary,
            self.records.path(&record).display()
        ))?;
        if let Some(its) = self.records.other_cluster(&record) {
            eprintln!(
                "windrow: this record belongs to another cluster, whose Namespace kube-system has the UID {its}; select \
                 it with --kubeconfig and --context"
            );
            return Ok(Exit::Usage);
        }
        if let Some(undone) = record.undone {
            print_whole(&format!(
                "Nothing to undo: the repair was undone at {undone}.\n"
            ))?;
            return Ok(Exit::Ok);
        }
        if steps_to_undo(&record).is_empty() && !record.is_open() {
            print_whole("Nothing to undo: the repair has left no change.\n")?;
            return Ok(Exit::Ok);
        }
        match self.show_way_back(&record).await? {
            exit if args.dry_run => Ok(exit),
            Exit::Ok => {
                if !args.yes && !agreed("Undo this?")? {
                    return Ok(Exit::Usage);
                }
                self.take_back(&mut record).await
            }
            // It has changed nothing.
            Exit::Failed if steps_to_undo(&record).is_empty() => {
                let question =
                    "The repair has changed nothing. Close it, so that it does not continue?";
                if !args.yes && !agreed(question)? {
                    return Ok(Exit::Usage);
                }
                self.take_back(&mut record).await
            }
            // It is closed at least.
            Exit::Failed => {
                if !args.yes && !agreed("Close the repair, so that it does not continue?")? {
                    return Ok(Exit::Usage);
                }
                self.take_back(&mut record).await?;
                Ok(Exit::Failed)
            }
            refused => Ok(refused),
        }
    }

    /// The record of this file name or path. Without a name: the newest record with any result, so that a repeated undo
    /// does not continue with older repairs.
    fn record_to_undo(&self, name: &str) -> io::Result<Option<Record>> {
        match file_name(name) {
            Some(name) => self.records.named(name).map(Some),
            None => self.records.newest(),
        }
    }

    async fn has_entry(&self, name: &str) -> bool {
        let entries = self.entries().await.unwrap_or_default();
        entries
            .iter()
            .any(|entry| Some(entry.record.as_str()) == file_name(name))
    }

    /// Restores the changes that a repair on another server has left: the repair of this name, or else the newest.
    async fn undo_of_others(&self, name: &str, args: &Args) -> anyhow::Result<Exit> {
        let Some(mut left) = self.entries().await else {
            return Ok(Exit::Unknown);
        };
        left.retain(|entry| file_name(name).is_none_or(|name| entry.record == name));
        let Some(entry) = left.into_iter().max_by_key(|entry| entry.since) else {
            print_whole(
                "Nothing to undo: no repair from this host has changed anything in this cluster.\n",
            )?;
            return Ok(Exit::Ok);
        };
        let left = [entry];
        show_left(&left)?;
        if args.dry_run {
            return Ok(Exit::Ok);
        }
        if !args.yes && !agreed("Do this?")? {
            return Ok(Exit::Usage);
        }
        let Some((mut turn, interrupts)) = self.turn().await? else {
            return Ok(Exit::Failed);
        };
        let mut exit = Exit::Ok;
        let adopted = self.adopt(&left).await?;
        if adopted.is_empty() {
            eprintln!(
                "windrow: nothing was changed: the objects have changed since they were shown"
            );
            exit = Exit::Failed;
        }
        for mut record in adopted {
            if self.cure(&mut record, false, &interrupts, &mut turn).await {
                self.note(&record, RequestAction::RepairUndone, "all of it");
            } else {
                exit = Exit::Failed;
            }
        }
        turn.end().await;
        Ok(exit)
    }

    /// Shows the steps that would be undone and the steps that stay, and dry-runs the requests.
    async fn show_way_back(&self, record: &Record) -> anyhow::Result<Exit> {
        let mut exit = Exit::Failed;
        for (step, way_back) in steps_to_undo(record) {
            let request = match way_back {
                WayBack::Request(request) => request,
                WayBack::None { why } => {
                    print_undone(step, &UndoneStep::NoWayBack(why.clone()));
                    continue;
                }
            };
            exit = Exit::Ok;
            print_whole(&format!("undo: {}\n{}", step.say, request_text(request)))?;
            match try_out(&self.client, request).await {
                RequestOutcome::Taken(_) => {}
                RequestOutcome::Applied => print_undone(step, &UndoneStep::AsBefore),
                RequestOutcome::Outdated(why) => print_undone(step, &UndoneStep::ChangedSince(why)),
                RequestOutcome::Refused(why) => {
                    eprintln!("windrow: it would be refused: {why}");
                    return Ok(Exit::Refused);
                }
                RequestOutcome::Unanswered(why) => {
                    eprintln!("windrow: it could not be dry-run: {why}");
                }
            }
        }
        if exit == Exit::Failed {
            eprintln!("Nothing to undo: no step of the repair can be undone");
        }
        Ok(exit)
    }

    async fn take_back(&self, record: &mut Record) -> anyhow::Result<Exit> {
        // The first signal does not end it: it already restores.
        let Some((mut turn, _interrupts)) = self.turn().await? else {
            return Ok(Exit::Failed);
        };
        if !self.records.is_current(record) {
            turn.end().await;
            eprintln!(
                "windrow: nothing was changed: this repair continued meanwhile; run the command again"
            );
            return Ok(Exit::Failed);
        }
        let (mut left, mut lost) = (0, 0);
        let context = turn.repair_context(&self.records);
        let work = async {
            let undone = undo(&context, record, now, |step, undone| {
                left += usize::from(matches!(undone, UndoneStep::ChangedSince(_)));
                lost += usize::from(matches!(undone, UndoneStep::NoWayBack(_)));
                print_undone(step, undone);
            });
            undone.await.map_err(|error| error.to_string())
        };
        let undone = turn.during(work).await;
        turn.end().await;
        match undone {
            Ok(true) => {
                let what = match (left, lost) {
                    (0, 0) => "all of it".to_owned(),
                    _ => {
                        format!(
                            "all of it except {left} changed since and {lost} that cannot be undone"
                        )
                    }
                };
                self.note(record, RequestAction::RepairUndone, &what);
                Ok(if left == 0 { Exit::Ok } else { Exit::Failed })
            }
            Ok(false) => Ok(Exit::Failed),
            Err(why) => {
                eprintln!("windrow: {why}");
                Ok(Exit::Failed)
            }
        }
    }
}

/// The last part of a record's name or path; `None` without a name.
fn file_name(name: &str) -> Option<&str> {
    Path::new(name).file_name().and_then(|name| name.to_str())
}

/// Prints the result of a step, or its future result. A closed output does not stop the undo.
pub(super) fn print_undone(step: &CureStep, undone: &UndoneStep) {
    let say = &step.say;
    let done = match undone {
        UndoneStep::Restored => format!("undone: {say}\n"),
        UndoneStep::AsBefore => format!("already undone: {say}\n"),
        UndoneStep::NoWayBack(why) => format!("cannot be undone: {say}: {why}\n"),
        UndoneStep::ChangedSince(why) => {
            return eprintln!("windrow: skipped: {say}: {why}");
        }
        UndoneStep::Failed(why) => return eprintln!("windrow: not undone: {say}: {why}"),
    };
    let _ = print_whole(&done);
}
