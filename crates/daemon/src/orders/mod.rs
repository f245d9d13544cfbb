//! Manual orders: files held and released by an operator, and the spool in which requests wait for the daemon. The
//! verbs and the bus use it, whether or not a daemon runs.

pub mod holds;
pub mod spool;
