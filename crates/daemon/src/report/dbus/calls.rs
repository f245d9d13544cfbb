//! The calls on the bus, answered one after the other.
//!
//! ```text
//!   call ──> which user? ──> allowed now? ──> Status, Why, properties ──> reply, and then the next call
//!                │                │     └────> Hold, Release ──> a separate task, a few at once
//!                │                └── no: LimitsExceeded
//!                └── asked of the bus, once
//! ```
//!
//! The library's own dispatcher starts a task for each call, and each task keeps its reply until the bus has taken it.
//! A caller that asks faster than the bus takes replies would fill the memory. So the next call is read when the last
//! reply is gone. If the bus takes no reply for a while, the connection is closed: the bus keeps the replies of callers
//! that do not read them, up to its own limit, and then takes no more from us.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::task::JoinSet;
use tokio::time::Instant;
use zbus::message::{Header, Message, Type};
use zbus::{Connection, MatchRule, MessageStream, fdo};

use super::agent::{Agent, AgentCall};
use super::authority::uid_of;
use super::bounded::{LONGEST, is_cut};
use super::limits::{CallCost, CallLimits};
use super::reply::reply_error;

/// How many calls are read from the bus before they are handled.
const QUEUED: NonZeroUsize = NonZeroUsize::MIN;
/// How many callers may wait at once for the bus to return their user. A user may have 256 connections.
const STRANGERS: usize = 512;
/// How many calls of each caller wait for that.
const CALLS: usize = 4;
/// How many callers' users are remembered.
const KNOWN: usize = 1024;
/// How many orders (Hold, Release) run at once: of one user, and of all.
const ORDERS: (usize, usize) = (4, 16);
pub(super) const GONE: &str = "the bus has gone away";
const PATIENCE: Duration = Duration::from_secs(10);

type IdentifiedCaller = (String, Option<u32>);

pub(super) struct Calls {
    connection: Connection,
    incoming: MessageStream,
    agent: Arc<Agent>,
    limits: CallLimits,
    start: Instant,
    known: HashMap<String, u32>,
    strangers: JoinSet<IdentifiedCaller>,
    waiting: HashMap<String, Vec<Message>>,
    orders: JoinSet<(u32, zbus::Result<()>)>,
    ordering: HashMap<u32, usize>,
}

impl Calls {
    /// From here on no call is lost. Call it before the name is taken.
    pub(super) async fn open(connection: &Connection, agent: Agent) -> zbus::Result<Self> {
        let rule = MatchRule::builder().msg_type(Type::MethodCall).build()?;
        let rule = zbus::OwnedMatchRule::from(rule);
        Ok(Self {
            connection: connection.clone(),
            incoming: MessageStream::for_match_rule(rule, connection, Some(QUEUED)).await?,
            agent: Arc::new(agent),
            limits: CallLimits::default(),
            start: Instant::now(),
            known: HashMap::new(),
            strangers: JoinSet::new(),
            waiting: HashMap::new(),
            orders: JoinSet::new(),
            ordering: HashMap::new(),
        })
    }

    /// Answers until the bus takes no more replies; returns why.
    pub(super) async fn answer(&mut self) -> String {
        loop {
            let answered = tokio::select! {
                call = self.incoming.next() => match call {
                    Some(Ok(call)) => self.call(call).await,
                    Some(Err(_)) | None => return GONE.to_owned(),
                },
                Some(Ok((name, uid))) = self.strangers.join_next() => self.presented(name, uid).await,
                Some(done) = self.orders.join_next() => self.carried_out(done),
            };
            match answered {
                Ok(()) => {}
                Err(zbus::Error::Failure(why)) => return why,
                Err(zbus::Error::InputOutput(_)) => return GONE.to_owned(),
                // The failure concerns only this call.
                Err(error) => tracing::debug!("a call over D-Bus is not answered: {error}"),
            }
            // A caller that asks all the time must not keep the other tasks of this thread waiting.
            tokio::task::yield_now().await;
        }
    }

    async fn call(&mut self, call: Message) -> zbus::Result<()> {
        let header = call.header();
        let Some(sender) = header.sender() else {
            return Ok(());
        };
        if is_cut(&call) {
            let why = format!("the call is longer than {LONGEST} bytes: write a shorter reason");
            return self.refuse(&call, why).await;
        }
        if let Some(uid) = self.known.get(sender.as_str()) {
            let uid = *uid;
            return self.admitted(call, uid).await;
        }
        let strangers = self.waiting.len();
        match self.waiting.get_mut(sender.as_str()) {
            Some(calls) if calls.len() < CALLS => {
                calls.push(call.clone());
                return Ok(());
            }
            None if strangers < STRANGERS => {}
            Some(_) | None => return self.refuse(&call, CallCost::Little.refusal()).await,
        }
        let (connection, name) = (self.connection.clone(), sender.to_string());
        self.waiting.insert(name.clone(), vec![call.clone()]);
        self.strangers.spawn(async move {
            let uid = tokio::time::timeout(PATIENCE, uid_of(&connection, &name)).await;
            (name, uid.ok().and_then(Result::ok))
        });
        Ok(())
    }

    /// The bus has named a caller's user; `None` for a caller that has gone.
    async fn presented(&mut self, name: String, uid: Option<u32>) -> zbus::Result<()> {
        let calls = self.waiting.remove(&name).unwrap_or_default();
        let Some(uid) = uid else { return Ok(()) };
        if self.known.len() >= KNOWN {
            self.known.clear();
        }
        self.known.insert(name, uid);
        for call in calls {
            self.admitted(call, uid).await?;
        }
        Ok(())
    }

    async fn admitted(&mut self, call: Message, uid: u32) -> zbus::Result<()> {
        let header = call.header();
        let asked = AgentCall::read(&call);
        let cost = asked.as_ref().map_or(CallCost::Little, AgentCall::cost);
        if !self.limits.admit(uid, cost, self.start.elapsed()) {
            return self.refuse(&call, cost.refusal()).await;
        }
        let asked = match asked {
            Ok(asked) => asked,
            Err(error) => return self.reply_error(&header, error).await,
        };
        if cost == CallCost::Order {
            return self.order(call.clone(), asked, uid).await;
        }
        let (connection, agent) = (&self.connection, &self.agent);
        in_time(agent.answer(connection, &header, asked)).await
    }

    /// An order may wait for the user's password.
    async fn order(&mut self, call: Message, asked: AgentCall, uid: u32) -> zbus::Result<()> {
        let under_way = self.ordering.get(&uid).copied().unwrap_or(0);
        if uid != 0 && (under_way >= ORDERS.0 || self.orders.len() >= ORDERS.1) {
            let why = "too many orders wait for PolicyKit already: answer those first".to_owned();
            return self.refuse(&call, why).await;
        }
        self.ordering.insert(uid, under_way + 1);
        let (connection, agent) = (self.connection.clone(), self.agent.clone());
        self.orders.spawn(async move {
            let header = call.header();
            (uid, agent.answer(&connection, &header, asked).await)
        });
        Ok(())
    }

    fn carried_out(
        &mut self,
        done: Result<(u32, zbus::Result<()>), tokio::task::JoinError>,
    ) -> zbus::Result<()> {
        match done {
            Ok((uid, answered)) => {
                if let Some(under_way) = self.ordering.get_mut(&uid) {
                    *under_way = under_way.saturating_sub(1);
                }
                self.ordering.retain(|_, under_way| *under_way > 0);
                answered
            }
            // It panicked, and its user is lost with it.
            Err(error) => Err(zbus::Error::Failure(error.to_string())),
        }
    }

    async fn refuse(&self, call: &Message, why: String) -> zbus::Result<()> {
        let header = call.header();
        self.reply_error(&header, fdo::Error::LimitsExceeded(why))
            .await
    }

    async fn reply_error(&self, header: &Header<'_>, error: fdo::Error) -> zbus::Result<()> {
        in_time(reply_error(&self.connection, header, error)).await
    }
}

async fn in_time(reply: impl Future<Output = zbus::Result<()>>) -> zbus::Result<()> {
    match tokio::time::timeout(PATIENCE, reply).await {
        Ok(answered) => answered,
        Err(_) => Err(zbus::Error::Failure(
            "the bus takes no replies: callers leave theirs unread".to_owned(),
        )),
    }
}
