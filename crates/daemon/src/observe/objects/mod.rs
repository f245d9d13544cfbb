//! Lists of objects for a diagnosis: live from the API, or from saved files.
//!
//! Lists, never watches; only what [`ObjectKind::ALL`](windrow_harvester::objects::ObjectKind::ALL) names, in pages, and of
//! each object only what something reads, up to a bound of memory ([`Room`]). A kind that is refused, late or too large is
//! Unknown with the reason, and one that is not served has no objects.

mod item;
mod live;
mod rounds;

pub use item::{complete, leave_out_secrets};
pub use live::{Room, ask, ask_by_name, get_object, list, reach};
pub use rounds::{ask_for_a_person, diagnosed, look_in_rounds, on_this_thread};
