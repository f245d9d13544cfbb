//! The other hosts that claim an address, for programs.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::who_has::Claim;

/// Another host's claim to an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddressClaim {
    /// Its hardware address.
    pub mac: String,
    /// Does it only probe for the address, and is about to take it?
    pub probes: bool,
}

/// The claims on a link.
pub fn address_claims(claims: &BTreeSet<Claim>) -> Vec<AddressClaim> {
    let of_host = |claim: &Claim| match claim {
        Claim::Has(mac) => AddressClaim {
            mac: mac.to_string(),
            probes: false,
        },
        Claim::Probes(mac) => AddressClaim {
            mac: mac.to_string(),
            probes: true,
        },
    };
    claims.iter().map(of_host).collect()
}
