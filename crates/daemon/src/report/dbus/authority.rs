//! Who is calling, and whether that user is allowed to. root is, and others are if PolicyKit allows it. Without
//! PolicyKit, only root is.

use std::collections::HashMap;

use nix::unistd::{Uid, User};
use zbus::message::{Flags, Header};
use zbus::{Connection, Variant, fdo};

use super::ManualVerb;

const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";
const POLICY_KIT: &str = "org.freedesktop.PolicyKit1";
const AUTHORITY_PATH: &str = "/org/freedesktop/PolicyKit1/Authority";
const AUTHORITY: &str = "org.freedesktop.PolicyKit1.Authority";
/// `AllowUserInteraction` of CheckAuthorization: the user may be asked for a password.
const ASK_THE_USER: u32 = 1;

pub(super) struct Caller<'c> {
    connection: &'c Connection,
    name: String,
    uid: Uid,
    /// Whether the user can be asked for a password.
    interactive: bool,
}

impl<'c> Caller<'c> {
    pub(super) async fn identify(
        connection: &'c Connection,
        header: &Header<'_>,
    ) -> fdo::Result<Self> {
        let name = header
            .sender()
            .ok_or_else(|| fdo::Error::AccessDenied("the caller has no name".to_owned()))?
            .to_string();
        let uid = uid_of(connection, &name).await.map_err(|error| {
            fdo::Error::AccessDenied(format!("the bus does not say who calls: {error}"))
        })?;
        let flags = header.primary().flags();
        Ok(Self {
            connection,
            name,
            uid: Uid::from_raw(uid),
            interactive: flags.contains(Flags::ALLOW_INTERACTIVE_AUTH),
        })
    }

    pub(super) async fn may(self, verb: ManualVerb) -> fdo::Result<String> {
        let action = action(verb);
        if !self.uid.is_root() {
            self.ask_policy_kit(action).await?;
        }
        Ok(self.who())
    }

    async fn ask_policy_kit(&self, action: &str) -> fdo::Result<()> {
        let details = HashMap::from([("name", Variant::from(self.name.as_str()))]);
        let subject = ("system-bus-name", details);
        let flags = if self.interactive { ASK_THE_USER } else { 0 };
        let nothing = HashMap::<&str, &str>::new();
        let answer = self
            .connection
            .call_method(
                Some(POLICY_KIT),
                AUTHORITY_PATH,
                Some(AUTHORITY),
                "CheckAuthorization",
                &(subject, action, nothing, flags, ""),
            )
            .await;
        let answer: Result<(bool, bool, HashMap<String, String>), _> =
            answer.and_then(|answer| answer.body().deserialize());
        match answer {
            Ok((true, ..)) => Ok(()),
            Ok((false, challenge, _)) => Err(fdo::Error::AccessDenied(match challenge {
                true => format!("{action} needs an administrator's password: call interactively"),
                false => format!("{action} is not allowed to {}", self.who()),
            })),
            Err(error) => Err(fdo::Error::AccessDenied(format!(
                "{action} is allowed to root alone: PolicyKit cannot be asked: {error}"
            ))),
        }
    }

    fn who(&self) -> String {
        let user = User::from_uid(self.uid).ok().flatten();
        let name = user.map_or_else(|| format!("uid {}", self.uid), |user| user.name);
        format!("{name} over D-Bus")
    }
}

pub(super) async fn uid_of(connection: &Connection, name: &str) -> zbus::Result<u32> {
    let answer = connection
        .call_method(
            Some(BUS),
            BUS_PATH,
            Some(BUS),
            "GetConnectionUnixUser",
            &name,
        )
        .await?;
    answer.body().deserialize()
}

/// Takes a name on the bus; false when another process has it.
pub(super) async fn take_name(connection: &Connection, name: &str) -> zbus::Result<bool> {
    const DO_NOT_QUEUE: u32 = 4;
    const PRIMARY_OWNER: u32 = 1;
    let answer = connection
        .call_method(
            Some(BUS),
            BUS_PATH,
            Some(BUS),
            "RequestName",
            &(name, DO_NOT_QUEUE),
        )
        .await?;
    let answer: u32 = answer.body().deserialize()?;
    Ok(answer == PRIMARY_OWNER)
}

fn action(verb: ManualVerb) -> &'static str {
    match verb {
        ManualVerb::Hold => "dev.windrow.hold",
        ManualVerb::Release => "dev.windrow.release",
    }
}
