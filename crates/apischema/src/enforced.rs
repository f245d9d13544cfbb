//! The required fields and enums of the published specification that kube-apiserver really enforces: the specification and the
//! validation differ. `data/enforced.txt` lists the rejections of kube-apiserver for the oldest and the newest tested minor.
//! `tests/kubernetes/api_schema.rs` writes it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

static ENFORCED: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    include_str!("../data/enforced.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect()
});

/// Whether kube-apiserver enforces this claim: `required DEFINITION FIELD` or `enum DEFINITION FIELD`.
pub(crate) fn is_enforced(claim: &str) -> bool {
    ENFORCED.contains(claim)
}
