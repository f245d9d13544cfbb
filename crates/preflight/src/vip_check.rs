//! The result of `windrow vip-check`, for programs.

use std::collections::BTreeSet;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::who_has::Claim;

/// Whose an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AddressState {
    /// No machine answered.
    Free,
    /// This node has it, and no other machine.
    Own,
    /// Another machine has it, or is about to take it.
    Used,
    /// This node has it, and another machine too.
    Shared,
    /// It could not be looked for.
    Unknown,
}

/// What `windrow vip-check -o json` prints. The names of its fields are a promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipCheck {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `VipCheck`
    pub kind: String,
    /// The address that was looked for.
    pub address: IpAddr,
    /// The link that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Whose it is.
    pub state: AddressState,
    /// What other machines said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<AddressClaim>,
    /// Why it could not be looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// What another machine said of the address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddressClaim {
    /// Its hardware address.
    pub mac: String,
    /// Does it only probe for the address, and is about to take it?
    pub probes: bool,
}

impl VipCheck {
    /// From the answers on a link.
    pub fn heard(address: IpAddr, link: &str, is_ours: bool, claims: &BTreeSet<Claim>) -> Self {
        let state = match (is_ours, claims.is_empty()) {
            (false, true) => AddressState::Free,
            (true, true) => AddressState::Own,
            (false, false) => AddressState::Used,
            (true, false) => AddressState::Shared,
        };
        let of_machine = |claim: &Claim| match claim {
            Claim::Has(mac) => (mac.to_string(), false),
            Claim::Probes(mac) => (mac.to_string(), true),
        };
        Self {
            link: Some(link.to_owned()),
            claims: claims
                .iter()
                .map(of_machine)
                .map(|(mac, probes)| AddressClaim { mac, probes })
                .collect(),
            ..Self::new(address, state)
        }
    }

    /// For an address that could not be checked.
    pub fn unknown(address: IpAddr, why: impl Into<String>) -> Self {
        Self {
            unknown: Some(why.into()),
            ..Self::new(address, AddressState::Unknown)
        }
    }

    fn new(address: IpAddr, state: AddressState) -> Self {
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "VipCheck".to_owned(),
            address,
            link: None,
            state,
            claims: Vec::new(),
            unknown: None,
        }
    }
}
