//! `windrow repair`: fixes a recognised incident, after showing its requests and asking kube-apiserver whether it
//! would accept them; or undoes a repair.

mod interrupts;
mod plan;
#[cfg(test)]
mod tests;
mod undo;

use std::io::{BufRead as _, IsTerminal as _};
use std::mem;
use std::time::Duration;

use kube::Client;
use tokio::time::{Instant, sleep};
use windrow_harvester::incidents::{Cure, CureStep, IncidentFinding, found_of, look};
use windrow_model::reasons::{Code, REASONS};

use self::interrupts::Interrupts;
use self::plan::RepairPlan;
use self::undo::print_undone;
use super::cluster::{ClusterArgs, ClusterAsker};
use super::document::now;
use super::manual::who;
use super::out::print_whole;
use super::{Context, Exit, style};
use crate::act::repair::{
    BegunCure, Record, Records, RequestOutcome, RestoreEntry, RestoreNote, Worker, ask_for_cluster,
    carry_out, give_back, has_come, has_room_for, try_out, undo,
};
use crate::act::{Turn, lease_on_repairs};
use crate::daemon::repairs::report_to_daemon;
use crate::observe::management::lease_holder;
use crate::observe::objects::{ask_for_a_person, reach};
use crate::observe::requests::RequestAction;
use crate::render::{cure_text, request_text};

/// How long to wait for another repair.
const WAIT: Duration = Duration::from_secs(120);
/// The pause between two tries to get the turn.
const AGAIN: Duration = Duration::from_secs(5);

/// Fix a problem that `windrow diagnose` found
///
/// Asks before it changes anything, and saves the old values so that you can undo the repair.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The incident's code, as `windrow diagnose` prints it
    #[arg(
        value_name = "CODE",
        required_unless_present = "undo",
        conflicts_with = "undo"
    )]
    code: Option<String>,
    /// The subject, if there are several: `Kind namespace/name` or a part of it
    #[arg(value_name = "SUBJECT")]
    subject: Option<String>,
    /// Only show the exact requests, and whether kube-apiserver would accept those that it can dry-run
    #[arg(long)]
    dry_run: bool,
    /// Undo this repair (default: the newest): restore all values that nothing else has changed since
    #[arg(long, value_name = "RECORD", num_args = 0..=1, default_missing_value = "")]
    undo: Option<String>,
    /// Do not ask for confirmation
    #[arg(short, long, conflicts_with = "dry_run")]
    yes: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let code = args.code.as_deref().map(code).transpose();
    let Ok(code) = code else {
        eprintln!(
            "windrow: there is no code {}; `windrow diagnose` prints the codes of all problems",
            args.code.unwrap_or_default()
        );
        return Ok(Exit::Usage);
    };
    if let Some(code) = code.filter(|code| !code.reason().is_curable) {
        let advice = code.reason().advice;
        print_whole(&format!("Windrow has no fix for {code}: {advice}\n"))?;
        return Ok(Exit::Failed);
    }
    let kubeconfig = args.cluster.kubeconfig(context);
    let ClusterAsker { runtime, api } = context.cluster_asker()?;
    runtime.block_on(async {
        match reach(api, &kubeconfig).await {
            Ok(client) => {
                // The changed cluster need not be this node's.
                if let Some(files) = args.cluster.chosen_by_variable(context) {
                    eprintln!("windrow: using the cluster of KUBECONFIG: {files}");
                }
                let cluster = match ask_for_cluster(&client).await {
                    Ok(cluster) => cluster,
                    Err(why) => {
                        args.cluster.complain(&why, context);
                        return Ok(Exit::Unknown);
                    }
                };
                let records = Records::new(&context.layout.state_dir()).of_cluster(cluster);
                let repair = Repair {
                    context,
                    client,
                    records,
                };
                match code {
                    Some(code) => repair.run(code, &args).await,
                    None => repair.undo(&args).await,
                }
            }
            Err(why) => {
                args.cluster.complain(&why, context);
                eprintln!("A repair needs the admin credential: run it as root on a server.");
                Ok(Exit::Unknown)
            }
        }
    })
}

fn code(text: &str) -> Result<Code, ()> {
    let reason = REASONS.iter().find(|reason| reason.id == text).ok_or(())?;
    Ok(reason.code)
}

struct Repair<'a> {
    context: &'a Context,
    client: Client,
    records: Records,
}

impl Repair<'_> {
    async fn run(&self, code: Code, args: &Args) -> anyhow::Result<Exit> {
        let part = args.subject.as_deref().unwrap_or_default();
        let unfinished = self.records.unfinished(code)?;
        let begun = about(&unfinished, part);
        let (left, is_left_known) = self.left_by_others(code, part).await;
        let recognised = self.recognised(code, part).await;
        if let Err(why) = &recognised {
            eprintln!("windrow: cannot tell whether there is anything to repair: {why}");
            if begun.is_empty() && left.is_empty() {
                return Ok(Exit::Unknown);
            }
        }
        let plan = RepairPlan::new(&begun, recognised.as_deref().ok());
        let mut plan = self.tell_what_is_over(plan).await;
        show_closed(&plan.closed)?;
        if plan.is_empty() && left.is_empty() {
            if !args.dry_run && !plan.closed.is_empty() {
                let Some((mut turn, _interrupts)) = self.turn().await? else {
                    return Ok(Exit::Failed);
                };
                let again = self.look_again(code, part, &unfinished, &mut turn).await?;
                turn.end().await;
                return match again {
                    Some(_) if !is_left_known => Ok(Exit::Unknown),
                    Some(again) => self.say_nothing_left(code, &again),
                    None => Ok(Exit::Failed),
                };
            }
            if !is_left_known {
                return Ok(Exit::Unknown);
            }
            print_whole(&format!("Nothing to repair: {code} was not found.\n"))?;
            return Ok(Exit::Ok);
        }
        show_begun(&plan.begun)?;
        show_giving_back(&plan.giving_back)?;
        show_left(&left)?;
        show_found(&plan.found)?;
        let tried = self.try_out(&mut plan.begun, &mut plan.found).await?;
        if !plan.has_a_cure() && left.is_empty() {
            return Ok(if tried == Exit::Ok {
                Exit::Failed
            } else {
                tried
            });
        }
        if args.dry_run {
            return Ok(tried);
        }
        if !args.yes && !agreed("Do this?")? {
            return Ok(Exit::Usage);
        }
        let Some((mut turn, interrupts)) = self.turn().await? else {
            return Ok(Exit::Failed);
        };
        let Some(again) = self.look_again(code, part, &unfinished, &mut turn).await? else {
            turn.end().await;
            return Ok(Exit::Failed);
        };
        for subject in plan.keep_what_is_still_so(&again) {
            if again.is_known {
                eprintln!(
                    "windrow: {subject}: it has changed since it was shown, so it is skipped"
                );
            }
        }
        plan.giving_back.extend(self.adopt(&left).await?);
        if !plan.has_a_cure() {
            turn.end().await;
            return self.say_nothing_left(code, &again);
        }
        let mut cured = true;
        let records = plan.giving_back.iter_mut().map(|record| (record, false));
        for (record, wanted) in records.chain(plan.begun.iter_mut().map(|record| (record, true))) {
            cured = cured && self.cure(record, wanted, &interrupts, &mut turn).await;
        }
        // It was planned for the cluster with these changes: a VM that starts again may be in the way.
        let is_outdated = !plan.giving_back.is_empty() && !plan.found.is_empty();
        if is_outdated && cured {
            eprintln!(
                "windrow: the restored objects may change the problem, so no other repair was started. Run the same \
                 command again"
            );
        }
        for finding in &plan.found {
            if is_outdated || !cured || interrupts.is_set() {
                break;
            }
            // Nothing counts as begun before its turn.
            if let Some(mut record) = self.begin(finding)? {
                cured = self.cure(&mut record, true, &interrupts, &mut turn).await;
                plan.begun.push(record);
            }
        }
        turn.end().await;
        if !cured || interrupts.is_set() {
            return Ok(Exit::Failed);
        }
        plan.begun.append(&mut plan.giving_back);
        Ok(match self.verify(code, part, &plan.begun).await? {
            Exit::Ok => tried,
            not_over => not_over,
        })
    }

    /// Looks once more, now that no other repair runs: the shown state may be old. Closes finished repairs. `None` if another
    /// repair ran meanwhile.
    async fn look_again(
        &self,
        code: Code,
        part: &str,
        unfinished: &[Record],
        turn: &mut Turn<'_>,
    ) -> anyhow::Result<Option<RepairPlan>> {
        let now_unfinished = self.records.unfinished(code)?;
        if now_unfinished != unfinished {
            eprintln!(
                "windrow: nothing was changed: another repair ran meanwhile; run the command again"
            );
            return Ok(None);
        }
        let recognised = turn.during(self.recognised(code, part)).await;
        if let Err(why) = &recognised {
            eprintln!("windrow: cannot tell whether the problem still exists: {why}");
        }
        let begun = about(unfinished, part);
        let plan = RepairPlan::new(&begun, recognised.as_deref().ok());
        let plan = self.tell_what_is_over(plan).await;
        for (record, judged) in &plan.closed {
            let mut record = record.clone();
            let context = turn.repair_context(&self.records);
            context.close(&mut record, judged.outcome(), now()).await?;
            match judged {
                BegunCure::Over => self.note(&record, RequestAction::RepairDone, ""),
                _ => self.note(&record, RequestAction::RepairFailed, judged.why_it_ends()),
            }
        }
        Ok(Some(plan))
    }

    /// Moves cures that still have to wait before they restore to those that continue.
    async fn tell_what_is_over(&self, mut plan: RepairPlan) -> RepairPlan {
        for record in mem::take(&mut plan.giving_back) {
            if has_come(&self.client, &record).await {
                plan.giving_back.push(record);
            } else {
                plan.begun.push(record);
            }
        }
        plan
    }

    /// The reason why nothing of the shown repair is left: the problem is gone, or different.
    fn say_nothing_left(&self, code: Code, again: &RepairPlan) -> anyhow::Result<Exit> {
        if !again.is_known {
            return Ok(Exit::Unknown);
        }
        if !again.is_empty() {
            eprintln!(
                "windrow: nothing was changed: the problem has changed; run the command again"
            );
            return Ok(Exit::Failed);
        }
        print_whole(&format!("Nothing to repair: {code} is gone.\n"))?;
        Ok(Exit::Ok)
    }

    async fn recognised(&self, code: Code, part: &str) -> Result<Vec<IncidentFinding>, String> {
        let at = now();
        let objects = ask_for_a_person(&self.client, |objects| look(objects, at)).await;
        let looked = look(&objects, at);
        let found = found_of(&looked, code)?.into_iter();
        Ok(found
            .filter(|one| one.subject.contains(part))
            .cloned()
            .collect())
    }

    /// Asks kube-apiserver whether it would accept the requests of each repair that can be dry-run, and prints the answer. Refused
    /// repairs are removed.
    async fn try_out(
        &self,
        begun: &mut Vec<Record>,
        found: &mut Vec<IncidentFinding>,
    ) -> anyhow::Result<Exit> {
        let mut exit = Exit::Ok;
        for record in std::mem::take(begun) {
            let (subject, cure) = (&record.subject, &record.cure);
            if self.try_cure(subject, cure, record.done).await? == Exit::Refused {
                eprintln!("The repair is not continued; `windrow repair --undo` undoes its steps.");
                exit = Exit::Refused;
                continue;
            }
            // A cure whose object was changed by another client is closed when it goes on.
            begun.push(record);
        }
        for finding in std::mem::take(found) {
            let tried = match &finding.cure {
                Some(cure) => self.try_cure(&finding.subject, cure, 0).await?,
                None => Exit::Ok,
            };
            match tried {
                Exit::Ok => found.push(finding),
                Exit::Refused => exit = Exit::Refused,
                other => exit = if exit == Exit::Ok { other } else { exit },
            }
        }
        Ok(exit)
    }

    async fn try_cure(&self, subject: &str, cure: &Cure, done: usize) -> anyhow::Result<Exit> {
        let (mut exit, mut taken) = (Exit::Ok, 0);
        if !has_room_for(cure) {
            eprintln!(
                "windrow: {subject}: the repair changes too many objects temporarily; change some of them yourself first"
            );
            return Ok(Exit::Failed);
        }
        for request in cure.requests_to_try(done) {
            let what = format!("{subject}: {}", request.say());
            match try_out(&self.client, request).await {
                RequestOutcome::Refused(why) => {
                    eprintln!("windrow: {what} would be refused: {why}");
                    exit = Exit::Refused;
                }
                RequestOutcome::Outdated(why) => {
                    eprintln!("windrow: {what}: {why}: run `windrow diagnose` again");
                    exit = if exit == Exit::Ok { Exit::Failed } else { exit };
                }
                RequestOutcome::Unanswered(why) => {
                    eprintln!("windrow: {what} could not be dry-run: {why}");
                }
                RequestOutcome::Taken(_) => taken += 1,
                RequestOutcome::Applied => {}
            }
        }
        if taken > 0 {
            let requests = if taken == 1 { "request" } else { "requests" };
            print_whole(&format!(
                "\n{subject}: with dryRun=All, {taken} {requests} would be accepted.\n"
            ))?;
        }
        Ok(exit)
    }

    /// Waits until no other repair is running. None when it waited too long, or was interrupted. A signal while the lease is taken
    /// must not leave it behind.
    async fn turn(&self) -> anyhow::Result<Option<(Turn<'_>, Interrupts)>> {
        let interrupts = Interrupts::listen()?;
        let until = Instant::now() + WAIT;
        let state_dir = self.context.layout.state_dir();
        let mut lease = lease_on_repairs(lease_holder(&self.context.layout));
        loop {
            match Turn::take(lease, &state_dir, &self.client, now).await {
                Ok(turn) if interrupts.is_set() => {
                    turn.end().await;
                    eprintln!("windrow: nothing was changed: it was interrupted");
                    return Ok(None);
                }
                Ok(turn) => return Ok(Some((turn, interrupts))),
                Err(no) if interrupts.is_set() || !no.may_come || Instant::now() > until => {
                    eprintln!("windrow: nothing was changed: {}", no.why);
                    return Ok(None);
                }
                Err(no) => {
                    eprintln!("windrow: waiting: {}", no.why);
                    tokio::select! {
                        () = sleep(AGAIN) => {}
                        () = interrupts.set() => {}
                    }
                    lease = no.lease;
                }
            }
        }
    }

    /// The changes that repairs of this code on other servers have left, and whether Windrow could read them.
    async fn left_by_others(&self, code: Code, part: &str) -> (Vec<RestoreEntry>, bool) {
        let entries = self.entries().await;
        let is_known = entries.is_some();
        let mut left = entries.unwrap_or_default();
        left.retain(|entry| entry.code == code && entry.subject.contains(part));
        (left, is_known)
    }

    /// The changes that other servers have left; `None`, after printing the reason, if they are unknown.
    pub(super) async fn entries(&self) -> Option<Vec<RestoreEntry>> {
        match RestoreNote::entries(&self.client).await {
            Ok(mut entries) => {
                entries.retain(|entry| self.records.may_adopt(entry));
                Some(entries)
            }
            Err(why) => {
                eprintln!("windrow: cannot tell which changes other servers left: {why}");
                None
            }
        }
    }

    /// Takes over the shown changes that other servers have left, if they are still the same.
    pub(super) async fn adopt(&self, shown: &[RestoreEntry]) -> anyhow::Result<Vec<Record>> {
        let mut adopted = Vec::new();
        if shown.is_empty() {
            return Ok(adopted);
        }
        for entry in self.entries().await.unwrap_or_default() {
            if shown.contains(&entry) {
                adopted.push(self.records.adopt(&entry)?);
            }
        }
        Ok(adopted)
    }

    fn begin(&self, finding: &IncidentFinding) -> anyhow::Result<Option<Record>> {
        let Some(cure) = &finding.cure else {
            return Ok(None);
        };
        let record = self.records.begin(finding, cure, Worker::Person, now())?;
        self.note(&record, RequestAction::RepairBegun, &cure.summary);
        Ok(Some(record))
    }

    /// Runs a repair, or only restores its temporary changes if it is not `wanted`. False if it did not finish.
    async fn cure(
        &self,
        record: &mut Record,
        wanted: bool,
        interrupts: &Interrupts,
        turn: &mut Turn<'_>,
    ) -> bool {
        let subject = record.subject.clone();
        // A closed output does not stop the repair.
        let summary = if wanted {
            record.cure.summary.as_str()
        } else {
            "restore the temporary changes"
        };
        let _ = print_whole(&format!("\n{subject}: {summary}\n"));
        let _ = print_whole(&format!(
            "saved in {}\n",
            self.records.path(record).display()
        ));
        let context = turn.repair_context(&self.records);
        let work = async {
            let tell = |number, step: &CureStep| {
                let _ = print_whole(&format!("{}. {}\n", number + 1, step.say));
            };
            let is_wanted = || !interrupts.is_set();
            let done = if wanted {
                carry_out(&context, record, now, is_wanted, tell).await
            } else if record.undoing.is_some() {
                match undo(&context, record, now, print_undone).await {
                    Ok(true) => Ok(()),
                    Ok(false) => return Err("some steps could not be undone".to_owned()),
                    Err(error) => Err(error),
                }
            } else {
                give_back(&context, record, "it is not recognised any more", now, tell).await
            };
            done.map_err(|error| error.to_string())
        };
        let Err(why) = turn.during(work).await else {
            return true;
        };
        eprintln!("windrow: {subject}: {why}");
        if record.is_open() {
            eprintln!(
                "Run the same command to continue; `windrow repair --undo` undoes the repair."
            );
        }
        self.note(record, RequestAction::RepairFailed, &why);
        false
    }

    async fn verify(&self, code: Code, part: &str, cured: &[Record]) -> anyhow::Result<Exit> {
        let left = match self.recognised(code, part).await {
            Ok(left) => left,
            Err(why) => {
                let why = format!("it cannot be checked again: {why}");
                eprintln!(
                    "windrow: all steps are done, but Windrow cannot tell whether the problem is gone: {why}"
                );
                for record in cured {
                    self.note(record, RequestAction::RepairFailed, &why);
                }
                return Ok(Exit::Unknown);
            }
        };
        for finding in &left {
            eprintln!("windrow: the problem still exists: {}", finding.message);
        }
        for record in cured {
            match left.iter().find(|one| one.subject == record.subject) {
                Some(finding) => self.note(record, RequestAction::RepairFailed, &finding.message),
                None => self.note(record, RequestAction::RepairDone, ""),
            }
        }
        if !left.is_empty() {
            return Ok(Exit::Failed);
        }
        print_whole("Done, and verified: the problem is gone.\n")?;
        Ok(Exit::Ok)
    }

    fn note(&self, record: &Record, what: RequestAction, why: &str) {
        report_to_daemon(
            &self.context.layout,
            what,
            &self.records.name(record),
            (&who(), why),
            now(),
        );
    }
}

fn about(records: &[Record], part: &str) -> Vec<Record> {
    let records = records.iter();
    let about = records.filter(|record| record.subject.contains(part));
    about.cloned().collect()
}

fn show_closed(closed: &[(Record, BegunCure)]) -> anyhow::Result<()> {
    for (record, judged) in closed {
        let (subject, begun) = (&record.subject, record.started);
        let why = judged.why_it_ends();
        print_whole(&format!(
            "{subject}: the repair of {begun} does not continue: {why}.\n"
        ))?;
    }
    Ok(())
}

fn show_begun(begun: &[Record]) -> anyhow::Result<()> {
    for record in begun {
        print_whole(&format!(
            "{}: started at {}, {} of {} steps are done; the repair continues from there.\n",
            record.subject,
            record.started,
            record.done,
            record.cure.steps.len()
        ))?;
        print_whole(&cure_text(&record.cure, style()))?;
    }
    Ok(())
}

fn show_giving_back(records: &[Record]) -> anyhow::Result<()> {
    for record in records {
        let left: Vec<&str> = record
            .steps_to_restore()
            .map(|(_, step)| step.say.as_str())
            .collect();
        let why = record.given_up.as_deref().unwrap_or("it is over");
        print_whole(&format!(
            "{} (started at {}) does not continue, because {why}. It restores its temporary changes ({}).\n",
            record.subject,
            record.started,
            left.join("; ")
        ))?;
    }
    Ok(())
}

fn show_left(left: &[RestoreEntry]) -> anyhow::Result<()> {
    for entry in left {
        print_whole(&format!(
            "{}: started at {} on {}, but not finished there. Its temporary changes are restored:\n",
            entry.subject, entry.since, entry.server,
        ))?;
        for step in entry.restoring_steps() {
            print_whole(&format!("  {}\n", step.say))?;
            if let Some(request) = &step.request {
                print_whole(&request_text(request))?;
            }
        }
    }
    Ok(())
}

fn show_found(found: &[IncidentFinding]) -> anyhow::Result<()> {
    for finding in found {
        print_whole(&format!("{}\n", finding.message))?;
        match &finding.cure {
            Some(cure) => print_whole(&cure_text(cure, style()))?,
            None => print_whole(&format!("Windrow has no fix for it: {}\n", finding.advice))?,
        }
    }
    Ok(())
}

/// Asks on the terminal. Without a terminal, it returns false.
fn agreed(question: &str) -> anyhow::Result<bool> {
    let mut answer = String::new();
    if std::io::stdin().is_terminal() {
        print_whole(&format!("\n{question} Type yes: "))?;
        std::io::stdin().lock().read_line(&mut answer)?;
    } else {
        eprintln!(
            "windrow: there is no terminal for the confirmation: use --yes to do it, or --dry-run to show it"
        );
    }
    let is_agreed = answer.trim() == "yes";
    if !is_agreed {
        eprintln!("windrow: nothing was changed");
    }
    Ok(is_agreed)
}
