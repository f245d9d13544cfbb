//! Which of the fields that the published specification calls required, and which of its enums, kube-apiserver really enforces: the
//! specification knows more, and validation other things. `data/enforced.txt` is what kube-apiserver of the oldest and the newest minor
//! of the tests refused, written by `tests/kubernetes/api_schema.rs`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

static ENFORCED: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    include_str!("../data/enforced.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect()
});

/// Does kube-apiserver enforce this claim: `required DEFINITION FIELD` or `enum DEFINITION FIELD`?
pub(crate) fn is_enforced(claim: &str) -> bool {
    ENFORCED.contains(claim)
}
