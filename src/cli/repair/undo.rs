//! `windrow repair --undo`: shows what of a cure can be undone, asks, and undoes it.

use std::io;
use std::path::Path;

use windrow_harvester::incidents::{CureStep, WayBack};

use super::super::Exit;
use super::super::document::now;
use super::super::out::print_whole;
use super::{Args, Repair, agreed};
use crate::act::repair::{Record, RequestOutcome, UndoneStep, steps_to_undo, try_out, undo};
use crate::observe::requests::RequestAction;
use crate::render::request_text;

impl Repair<'_> {
    pub(super) async fn undo(&self, args: &Args) -> anyhow::Result<Exit> {
        let name = args.undo.as_deref().unwrap_or_default();
        let mut record = match self.record_to_undo(name) {
            Ok(Some(record)) => record,
            Ok(None) => {
                print_whole(
                    "Nothing to undo: no repair from this machine has changed anything in this cluster.\n",
                )?;
                return Ok(Exit::Ok);
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
                "windrow: it is of another cluster, whose Namespace kube-system has the UID {its}; --kubeconfig and --context choose the cluster"
            );
            return Ok(Exit::Usage);
        }
        if let Some(undone) = record.undone {
            print_whole(&format!("It was undone at {undone}.\n"))?;
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
            // It is closed at least.
            Exit::Failed => {
                if !args.yes && !agreed("Close it, so that it is not continued?")? {
                    return Ok(Exit::Usage);
                }
                self.take_back(&mut record).await?;
                Ok(Exit::Failed)
            }
            refused => Ok(refused),
        }
    }

    /// The record of this file name or path; without a name the newest that can be undone.
    fn record_to_undo(&self, name: &str) -> io::Result<Option<Record>> {
        match Path::new(name).file_name().and_then(|name| name.to_str()) {
            Some(name) => self.records.named(name).map(Some),
            None => self.records.newest_to_undo(),
        }
    }

    /// Shows what would be undone and what stays, and tries the requests.
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
                    eprintln!("windrow: it could not be tried: {why}");
                }
            }
        }
        if exit == Exit::Failed {
            eprintln!("windrow: nothing of it can be undone");
        }
        Ok(exit)
    }

    async fn take_back(&self, record: &mut Record) -> anyhow::Result<Exit> {
        let Some(mut turn) = self.turn().await else {
            return Ok(Exit::Failed);
        };
        if !self.records.is_current(record) {
            turn.end().await;
            eprintln!(
                "windrow: nothing was changed: somebody went on with this repair meanwhile; look at it again"
            );
            return Ok(Exit::Failed);
        }
        let (mut left, mut lost) = (0, 0);
        let client = turn.client();
        let work = async {
            let undone = undo(&client, &self.records, record, now, |step, undone| {
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
                        format!("all of it but {left} changed since and {lost} without a way back")
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

/// Says what came of a step, or what would.
fn print_undone(step: &CureStep, undone: &UndoneStep) {
    let say = &step.say;
    match undone {
        UndoneStep::Restored => println!("undone: {say}"),
        UndoneStep::AsBefore => println!("as before already: {say}"),
        UndoneStep::ChangedSince(why) => eprintln!("windrow: left as it is: {say}: {why}"),
        UndoneStep::NoWayBack(why) => println!("cannot be undone: {say}: {why}"),
        UndoneStep::Failed(why) => eprintln!("windrow: not undone: {say}: {why}"),
    }
}
