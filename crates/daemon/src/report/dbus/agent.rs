//! The interface `dev.windrow.Agent1`, as `config/dbus/dev.windrow.Agent1.xml` describes it: its calls and their
//! answers.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use windrow_decide::why::unknown_name;
use windrow_decide::{Pace, Status};
use zbus::message::{Flags, Header, Message};
use zbus::{Connection, DynamicType, Variant, fdo};

use super::authority::Caller;
use super::limits::CallCost;
use super::reply::reply_error;
use super::{AgentHandler, ManualVerb, NAME, PATH};
use crate::fs;
use crate::printable::{is_hidden, printable};
use crate::report::publish::{PublishedStatus, StatusWatch};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AgentProperties {
    readiness: String,
    phase: String,
    reason_code: String,
    reason_message: String,
    summary: String,
    host: String,
    pace: String,
    since: u64,
    phase_since: u64,
    generation: u64,
    total: u32,
    held: u32,
    applied: u32,
    failed: u32,
    findings: u32,
}

impl AgentProperties {
    /// Before the first status, everything is unknown.
    pub(super) fn from_status(status: Option<&Status>) -> Self {
        let Some(status) = status else {
            return Self {
                readiness: "Unknown".to_owned(),
                ..Self::default()
            };
        };
        let staging = &status.staging;
        Self {
            readiness: word(&status.readiness),
            phase: word(&status.phase),
            reason_code: status.reason.code.as_str().to_owned(),
            reason_message: printable(&status.reason.message),
            summary: printable(&status.summary),
            host: printable(&status.host),
            pace: status.pace.map_or("", Pace::as_str).to_owned(),
            since: microseconds(status.since),
            phase_since: microseconds(status.phase_since.unwrap_or(status.since)),
            generation: status.generation,
            total: count(staging.total),
            held: count(staging.held.len()),
            applied: count(staging.applied.len()),
            failed: count(staging.failed.len()),
            findings: count(status.findings.len()),
        }
    }

    pub(super) fn properties(&self) -> [(&'static str, Variant<'_>); 15] {
        [
            ("Readiness", self.readiness.as_str().into()),
            ("Phase", self.phase.as_str().into()),
            ("ReasonCode", self.reason_code.as_str().into()),
            ("ReasonMessage", self.reason_message.as_str().into()),
            ("Summary", self.summary.as_str().into()),
            ("Host", self.host.as_str().into()),
            ("Pace", self.pace.as_str().into()),
            ("Since", self.since.into()),
            ("PhaseSince", self.phase_since.into()),
            ("Generation", self.generation.into()),
            ("Total", self.total.into()),
            ("Held", self.held.into()),
            ("Applied", self.applied.into()),
            ("Failed", self.failed.into()),
            ("Findings", self.findings.into()),
        ]
    }

    pub(super) fn differs_from(&self, before: &Self) -> HashMap<&'static str, Variant<'_>> {
        let pairs = self.properties().into_iter().zip(before.properties());
        pairs
            .filter(|(now, before)| now.1 != before.1)
            .map(|(now, _)| now)
            .collect()
    }
}

/// The word that the status document uses for it.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn microseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_microsecond()).unwrap_or_default()
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(super) const VERSION: (&str, &str) = ("Version", env!("CARGO_PKG_VERSION"));

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AgentCall {
    Ping,
    MachineId,
    Introspect(String),
    Get(String),
    GetAll,
    Status,
    Why(String),
    Order(ManualVerb, Vec<String>, String),
}

impl AgentCall {
    pub(super) fn read(call: &Message) -> fdo::Result<Self> {
        let header = call.header();
        let path = header.path().map(ToString::to_string).unwrap_or_default();
        let interface = header.interface().map(ToString::to_string);
        let interface = interface.unwrap_or_default();
        let member = header.member().map(ToString::to_string).unwrap_or_default();
        let unknown =
            || fdo::Error::UnknownMethod(format!("there is no method {interface}.{member}"));
        match (interface.as_str(), member.as_str()) {
            // At any path, according to the specification.
            ("org.freedesktop.DBus.Peer", "Ping") => return Ok(Self::Ping),
            ("org.freedesktop.DBus.Peer", "GetMachineId") => return Ok(Self::MachineId),
            ("org.freedesktop.DBus.Introspectable", "Introspect") if leads_here(&path) => {
                return Ok(Self::Introspect(path));
            }
            _ if path != PATH => {
                let why = format!("there is nothing at {path}: the object is {PATH}");
                return Err(fdo::Error::UnknownObject(why));
            }
            _ => {}
        }
        match (interface.as_str(), member.as_str()) {
            ("org.freedesktop.DBus.Properties", "Get") => {
                let (interface, property): (String, String) = arguments(call)?;
                ours(&interface).map(|()| Self::Get(property))
            }
            ("org.freedesktop.DBus.Properties", "GetAll") => {
                let interface: String = arguments(call)?;
                ours(&interface).map(|()| Self::GetAll)
            }
            ("org.freedesktop.DBus.Properties", "Set") => Err(fdo::Error::PropertyReadOnly(
                "no property can be set".to_owned(),
            )),
            (NAME, "Status") => Ok(Self::Status),
            (NAME, "Why") => Ok(Self::Why(arguments(call)?)),
            (NAME, "Hold") => {
                let (files, reason) = arguments(call)?;
                Ok(Self::Order(ManualVerb::Hold, files, reason))
            }
            (NAME, "Release") => {
                let (files, reason) = arguments(call)?;
                Ok(Self::Order(ManualVerb::Release, files, reason))
            }
            (NAME | "org.freedesktop.DBus.Properties" | "org.freedesktop.DBus.Peer", _) => {
                Err(unknown())
            }
            _ => ours(&interface).and(Err(unknown())),
        }
    }

    pub(super) fn cost(&self) -> CallCost {
        match self {
            Self::Ping | Self::MachineId | Self::Introspect(_) | Self::Get(_) | Self::GetAll => {
                CallCost::Little
            }
            Self::Status | Self::Why(_) => CallCost::Document,
            Self::Order(..) => CallCost::Order,
        }
    }
}

fn arguments<T>(call: &Message) -> fdo::Result<T>
where
    T: serde::de::DeserializeOwned + zbus::Type,
{
    let body = call.body();
    body.deserialize()
        .map_err(|error| fdo::Error::InvalidArgs(error.to_string()))
}

fn ours(interface: &str) -> fdo::Result<()> {
    match interface {
        NAME => Ok(()),
        other => Err(fdo::Error::UnknownInterface(format!(
            "there is no interface {other} here: it is {NAME}"
        ))),
    }
}

/// Whether it is the object's path, or one above it.
fn leads_here(path: &str) -> bool {
    below(path).is_some() || path == PATH
}

fn below(path: &str) -> Option<&'static str> {
    let rest = PATH.strip_prefix(path.trim_end_matches('/'))?;
    rest.strip_prefix('/')?.split('/').next()
}

/// The description in the installed file.
const INTERFACE: &str = include_str!("../../../data/dev.windrow.Agent1.xml");
const DOCTYPE: &str = "<!DOCTYPE node PUBLIC \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\"\n \
                       \"http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">\n";
/// The interfaces of every object.
const EVERY_OBJECT: &str = r#"  <interface name="org.freedesktop.DBus.Peer">
    <method name="Ping"/>
    <method name="GetMachineId">
      <arg name="machine_uuid" type="s" direction="out"/>
    </method>
  </interface>
  <interface name="org.freedesktop.DBus.Introspectable">
    <method name="Introspect">
      <arg name="xml_data" type="s" direction="out"/>
    </method>
  </interface>
"#;
const PROPERTIES: &str = r#"  <interface name="org.freedesktop.DBus.Properties">
    <method name="Get">
      <arg name="interface_name" type="s" direction="in"/>
      <arg name="property_name" type="s" direction="in"/>
      <arg name="value" type="v" direction="out"/>
    </method>
    <method name="GetAll">
      <arg name="interface_name" type="s" direction="in"/>
      <arg name="properties" type="a{sv}" direction="out"/>
    </method>
    <signal name="PropertiesChanged">
      <arg name="interface_name" type="s"/>
      <arg name="changed_properties" type="a{sv}"/>
      <arg name="invalidated_properties" type="as"/>
    </signal>
  </interface>
"#;

pub(super) fn introspection(path: &str) -> String {
    let within = match below(path) {
        Some(child) => format!("  <node name=\"{child}\"/>\n"),
        None => {
            let begin = INTERFACE.find("  <interface").unwrap_or_default();
            let end = INTERFACE.rfind("</node>").unwrap_or(INTERFACE.len());
            format!("{PROPERTIES}{}", &INTERFACE[begin..end])
        }
    };
    format!("{DOCTYPE}<node>\n{EVERY_OBJECT}{within}</node>\n")
}

pub(super) struct Agent {
    status: StatusWatch,
    handler: Arc<dyn AgentHandler>,
}

impl Agent {
    pub(super) fn new(status: StatusWatch, handler: Arc<dyn AgentHandler>) -> Self {
        Self { status, handler }
    }

    pub(super) async fn answer(
        &self,
        connection: &Connection,
        header: &Header<'_>,
        asked: AgentCall,
    ) -> zbus::Result<()> {
        let reply = CallReply { connection, header };
        match asked {
            AgentCall::Ping => reply.with(Ok(())).await,
            AgentCall::MachineId => reply.with(machine_id()).await,
            AgentCall::Introspect(path) => reply.with(Ok(introspection(&path))).await,
            AgentCall::Get(property) => {
                let properties = self.properties();
                reply.with(get(&properties, &property)).await
            }
            AgentCall::GetAll => {
                let properties = self.properties();
                reply.with(Ok(all(&properties))).await
            }
            AgentCall::Status => {
                let document = self.document();
                reply.with(document.as_deref().map_err(Clone::clone)).await
            }
            AgentCall::Why(what) => reply.with(self.why(&what)).await,
            AgentCall::Order(verb, files, reason) => {
                let done = self.order(verb, files, &reason, connection, header);
                reply.with(done.await).await
            }
        }
    }

    fn current(&self) -> fdo::Result<PublishedStatus> {
        let status = self.status.borrow().clone();
        status.ok_or_else(|| fdo::Error::Failed("there is no status yet".to_owned()))
    }

    fn properties(&self) -> AgentProperties {
        AgentProperties::from_status(self.status.borrow().as_deref())
    }

    fn document(&self) -> fdo::Result<Arc<str>> {
        self.current()?.text().map_err(fdo::Error::Failed)
    }

    fn why(&self, what: &str) -> fdo::Result<String> {
        let status = self.current()?;
        let answer = self
            .handler
            .why(&status, what)
            .ok_or_else(|| fdo::Error::InvalidArgs(unknown_name(&status, what)))?;
        bounded_answer(answer)
    }

    async fn order(
        &self,
        verb: ManualVerb,
        files: Vec<String>,
        reason: &str,
        connection: &Connection,
        header: &Header<'_>,
    ) -> fdo::Result<Vec<String>> {
        let by = Caller::identify(connection, header)
            .await?
            .may(verb)
            .await?;
        if files.is_empty() {
            return Err(fdo::Error::InvalidArgs("no file is named".to_owned()));
        }
        let reason = one_line(reason);
        let handler = self.handler.clone();
        on_a_thread(move || handler.order(verb, &files, &by, &reason))
            .await?
            .map_err(fdo::Error::Failed)
    }
}

/// An answer of `Why`, unless it is too long: every user may call it, and the bus keeps replies that their reader does
/// not take.
pub(super) fn bounded_answer(answer: String) -> fdo::Result<String> {
    /// Longest answer, in bytes.
    const LONGEST: usize = 1 << 20;
    match answer.len() <= LONGEST {
        true => Ok(answer),
        false => Err(fdo::Error::LimitsExceeded(
            "the answer is longer than 1 MiB: read /run/windrow/status.json".to_owned(),
        )),
    }
}

struct CallReply<'a> {
    connection: &'a Connection,
    header: &'a Header<'a>,
}

impl CallReply<'_> {
    async fn with<B: Serialize + DynamicType>(self, answer: fdo::Result<B>) -> zbus::Result<()> {
        let flags = self.header.primary().flags();
        match answer {
            Ok(_) if flags.contains(Flags::NO_REPLY_EXPECTED) => Ok(()),
            Ok(body) => self.connection.reply(self.header, &body).await,
            Err(error) => reply_error(self.connection, self.header, error).await,
        }
    }
}

fn get<'f>(properties: &'f AgentProperties, name: &str) -> fdo::Result<Variant<'f>> {
    let mut properties = all(properties);
    properties
        .remove(name)
        .ok_or_else(|| fdo::Error::UnknownProperty(format!("there is no property {name}")))
}

fn all(properties: &AgentProperties) -> HashMap<&'static str, Variant<'_>> {
    let version = (VERSION.0, Variant::from(VERSION.1));
    properties
        .properties()
        .into_iter()
        .chain([version])
        .collect()
}

fn machine_id() -> fdo::Result<String> {
    match fs::read_to_string("/etc/machine-id") {
        Ok(id) => Ok(id.trim().to_owned()),
        Err(error) => Err(fdo::Error::Failed(format!("/etc/machine-id: {error}"))),
    }
}

/// The caller's text in one line: it goes into the journal and into markers.
fn one_line(reason: &str) -> String {
    const LONGEST: usize = 200;
    let line: String = reason
        .chars()
        .map(
            |character| {
                if is_hidden(character) { ' ' } else { character }
            },
        )
        .take(LONGEST)
        .collect();
    match line.trim() {
        "" => "no reason given".to_owned(),
        line => line.to_owned(),
    }
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> fdo::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| fdo::Error::Failed(error.to_string()))
}
