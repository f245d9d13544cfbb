//! Replies of the agent's interface.

use zbus::message::{Flags, Header};
use zbus::{Connection, fdo};

/// Replies with an error, if a reply is wanted.
pub(super) async fn reply_error(
    connection: &Connection,
    header: &Header<'_>,
    error: fdo::Error,
) -> zbus::Result<()> {
    let flags = header.primary().flags();
    match flags.contains(Flags::NO_REPLY_EXPECTED) {
        true => Ok(()),
        false => connection.reply_dbus_error(header, error).await,
    }
}
