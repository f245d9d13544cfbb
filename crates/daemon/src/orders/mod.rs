//! What a person orders: files held and released by hand, and the spool in which requests wait for the daemon. The verbs and the bus use it,
//! with a daemon running or without.

pub mod holds;
pub mod spool;
