//! Publishes the status: one file per integration, all fed from one [`windrow_decide::Status`].

pub mod cluster;
pub mod dbus;
pub mod flight;
pub mod journal;
pub mod login;
pub mod metrics;
pub mod notify;
pub mod publish;
pub mod server;
pub mod target;
pub mod webhooks;
