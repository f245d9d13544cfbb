//! The only code that changes anything on the node: markers, the ledger, the gates' drop-in, the cluster's leases, jobs
//! of units.
//!
//! Each action is idempotent and atomic, and undoes only changes of Windrow. Nothing here decides. A failure is
//! returned to the caller, reported once and tried again.

mod arrivals;
mod directory;
mod executor;
mod gates;
mod inventory;
mod lease;
mod ledger;
mod marker_files;
mod markers;
pub mod repair;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "a test ends where it panics")]
pub mod testing;
mod turn;
pub mod units;

pub use arrivals::Arrivals;
pub use executor::{Carried, Executor};
pub use gates::{
    GatesLock, GatesStamp, StateFile, TakenOut, WrittenAt, drop_in_written_at, forget_gates,
    put_drop_in, read_drop_in, remember_failed, remember_refused, take_out_of_drop_in,
};
pub use inventory::save_inventory;
pub(crate) use lease::since_boot;
pub use lease::{ClusterLease, LeaseHolder};
pub use ledger::{LedgerRead, give_up_ledger, read_ledger, save_ledger};
pub use markers::{MarkerError, MarkerGuard, MarkerOutcome, Markers};
pub use turn::{Turn, lease_on_repairs};
