//! What the unit tests of several modules stand on: a bus of their own, and servers on loopback.

pub(crate) mod bus;
pub(crate) mod replies;
pub(crate) mod server;
