//! Kubernetes objects, as manifests declare them (nodes with lines) and as kube-apiserver returns them (JSON): each
//! part of an object that several crates read is described once, here. Knows no kind of Harvester and no cluster.

mod condition;
mod path;
pub mod pods;
mod selector;
mod view;

pub use self::condition::Condition;
pub use self::path::{api_root, api_version, plural_of};
pub use self::selector::{LabelRequirement, LabelSelector, Labels};
pub use self::view::ObjectView;
