//! What the tests against real parts share: a real Kubernetes on loopback, and a machine with systemd as PID 1.

pub(crate) mod cluster;
pub(crate) mod objects;
