//! D-Bus: the status as properties of `dev.windrow.Agent1` on the system bus, and hold and release as its methods.
//!
//! ```text
//!   no bus ── connect, take the name ──> served ── the bus goes away ──┐
//!     ^                                                                │
//!     └──────────────────────── pause, up to 30 s ─────────────────────┘
//! ```
//!
//! The bus may come up after Windrow and may go away: nothing waits for it, and nothing fails without it. `authority`
//! decides who may hold and release, `limits` how often each user may call, and `calls` enforces both.

mod agent;
mod authority;
pub mod bounded;
mod calls;
mod limits;
mod reply;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use windrow_decide::{Event, Status};
use windrow_model::reasons::Code;
use zbus::fdo::Properties;
use zbus::names::InterfaceName;
use zbus::object_server::SignalEmitter;
use zbus::{Address, Connection};

use self::agent::{Agent, AgentProperties};
use self::authority::take_name;
use self::calls::Calls;
use super::journal;
use crate::backoff::Backoff;
use crate::causes::of_bus;
use crate::report::publish::StatusWatch;

/// The name on the bus, and of the interface.
pub const NAME: &str = "dev.windrow.Agent1";
pub const PATH: &str = "/dev/windrow/Agent1";

/// How long to wait for a silent bus after the connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// First and longest pause between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManualVerb {
    Hold,
    Release,
}

pub trait AgentHandler: Send + Sync + 'static {
    /// The explanation of a file's or an object's state, as JSON; `None` when it is unknown. It must not block: every
    /// user may call it, many times a second.
    fn why(&self, status: &Status, what: &str) -> Option<String>;

    /// Carries an order out for `by`. Returns the files that it changed. It may block: it is called on a separate
    /// thread.
    ///
    /// # Errors
    ///
    /// In a line, which part failed and why.
    fn order(
        &self,
        verb: ManualVerb,
        files: &[String],
        by: &str,
        reason: &str,
    ) -> Result<Vec<String>, String>;
}

/// Serves the status until its publisher is gone. `address` replaces the system's bus.
pub async fn serve(
    address: Option<String>,
    handler: Arc<dyn AgentHandler>,
    mut status: StatusWatch,
) {
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
    let mut reported = None;
    loop {
        let agent = Agent::new(status.clone(), handler.clone());
        let why = match connect(address.as_deref(), agent).await {
            Ok((connection, mut calls)) => {
                backoff.reset();
                reported = None;
                report(Code::OutletServed, "what", NAME);
                let why = tokio::select! {
                    followed = follow(&connection, &mut status) => match followed {
                        Some(why) => why,
                        None => return,
                    },
                    why = calls.answer() => why,
                };
                drop(calls);
                // A half-written description is useless on the bus.
                let _ = tokio::time::timeout(PATIENCE, connection.close()).await;
                why
            }
            Err(why) => why,
        };
        // A missing bus is reported once, no matter how often it is tried.
        if reported.as_ref() != Some(&why) {
            report(Code::OutletDown, "why", &why);
            reported = Some(why);
        }
        tokio::select! {
            () = backoff.wait() => {}
            () = gone(&mut status) => return,
        }
    }
}

async fn connect(address: Option<&str>, agent: Agent) -> Result<(Connection, Calls), String> {
    let served = async {
        let address = match address {
            Some(address) => Address::try_from(address)?,
            None => Address::system()?,
        };
        let connection = bounded::connect(address).await?;
        let calls = Calls::open(&connection, agent).await?;
        let is_ours = take_name(&connection, NAME).await?;
        zbus::Result::Ok(is_ours.then_some((connection, calls)))
    };
    match tokio::time::timeout(PATIENCE, served).await {
        Ok(Ok(Some(served))) => Ok(served),
        Ok(Ok(None)) => Err(format!("another process has the bus name {NAME}")),
        Ok(Err(error)) => Err(of_bus(&error)),
        Err(_) => Err("the bus does not answer".to_owned()),
    }
}

/// Announces every change until the bus is gone, and returns why. `None` when no further change can come.
async fn follow(connection: &Connection, status: &mut StatusWatch) -> Option<String> {
    let mut shown = AgentProperties::from_status(status.borrow_and_update().as_deref());
    loop {
        tokio::select! {
            changed = status.changed() => changed.ok()?,
            () = connection.closed() => return Some(calls::GONE.to_owned()),
        }
        let properties = AgentProperties::from_status(status.borrow_and_update().as_deref());
        let announced =
            tokio::time::timeout(PATIENCE, announce(connection, &shown, &properties)).await;
        match announced {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Some(error.to_string()),
            Err(_) => return Some("the bus takes no signals".to_owned()),
        }
        shown = properties;
    }
}

async fn announce(
    connection: &Connection,
    before: &AgentProperties,
    now: &AgentProperties,
) -> zbus::Result<()> {
    let changed = now.differs_from(before);
    if changed.is_empty() {
        return Ok(());
    }
    let emitter = SignalEmitter::new(connection, PATH)?;
    let interface = InterfaceName::try_from(NAME)?;
    Properties::properties_changed(&emitter, interface, changed, Cow::Borrowed(&[])).await
}

async fn gone(status: &mut StatusWatch) {
    while status.changed().await.is_ok() {}
}

fn report(code: Code, field: &str, value: &str) {
    journal::write_event(&Event {
        code,
        file: None,
        message: code.say(&[("outlet", "D-Bus"), (field, value)]),
    });
}
