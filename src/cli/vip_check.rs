//! `windrow vip-check`: does another machine on the network use the address of the future VIP?

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use windrow_harvester::vip_address;
use windrow_model::manifest::yaml;
use windrow_preflight::vip_check::{AddressClaim, AddressState, VipCheck};
use windrow_preflight::who_has::{PROBES, waits};

use super::inputs::text_of;
use super::out::print_whole;
use super::output::Output;
use super::{Context, Exit};
use crate::backoff::random;
use crate::inspect::who_has::{Claims, ask_who_has};
use crate::observe::network::has_our_links;

const ELSEWHERE: &str =
    "the node below --root is not this host; pass the address to check it from here";
const LEADER: &str = "If the cluster runs, its leader has the VIP: `windrow diagnose` on a server tells the leader from \
                      other hosts.";

/// Check whether another host uses the VIP
///
/// Uses ARP, or neighbour discovery for IPv6. Requires CAP_NET_RAW.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The address [default: `install.vip` of the configuration]
    #[arg(value_name = "ADDRESS", conflicts_with = "config")]
    address: Option<IpAddr>,
    /// The network interface to use [default: the interface in the address's network]
    #[arg(short, long, value_name = "LINK")]
    interface: Option<String>,
    /// The Harvester configuration [default: this node's own]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
    output: Output,
}

pub(super) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let wanted = match args.address {
        Some(address) => Ok(address),
        None => match &args.config {
            Some(path) => configured(path),
            None => configured(&context.layout.harvester_config()),
        },
    };
    let address = match wanted {
        Ok(address) => address,
        Err(why) => {
            eprintln!("windrow: which address? {why}");
            return Ok(Exit::Usage);
        }
    };
    // The address of a sandbox or of another machine's disk is not one of these links.
    let is_elsewhere = args.address.is_none() && args.config.is_none();
    let checked = match is_elsewhere && !has_our_links(&context.layout) {
        true => VipCheck::unknown(address, format!("was not checked: {ELSEWHERE}")),
        false => look_for(address, args.interface.as_deref()),
    };
    if let (Output::Table, Some(why)) = (args.output, &checked.unknown) {
        eprintln!("windrow: {address} {why}");
    }
    print_whole(&args.output.render(&checked, || in_words(&checked))?)?;
    Ok(match checked.state {
        AddressState::Free | AddressState::Own => Exit::Ok,
        AddressState::Used | AddressState::Shared => Exit::Failed,
        AddressState::Unknown => Exit::Unknown,
    })
}

fn look_for(address: IpAddr, link: Option<&str>) -> VipCheck {
    match ask_who_has(address, link, waits([random(), random(), random()])) {
        Ok(Claims { link, others }) => {
            VipCheck::heard(address, &link.name, link.has(address), &others)
        }
        Err(why) => VipCheck::unknown(address, format!("could not be checked: {why}")),
    }
}

fn configured(path: &Path) -> Result<IpAddr, String> {
    let text = text_of(path)?;
    let name = path.display();
    let root = yaml::parse_configuration(&text)
        .map_err(|_| format!("{name} cannot be read: `windrow check` shows the reason"))?;
    let address = root.as_ref().and_then(vip_address).unwrap_or_default();
    address
        .parse()
        .map_err(|_| format!("{name} has no address in install.vip"))
}

fn in_words(checked: &VipCheck) -> String {
    let address = checked.address;
    let link = checked.link.as_deref().unwrap_or_default();
    let asked = match address {
        IpAddr::V4(_) => "ARP probes",
        IpAddr::V6(_) => "neighbour solicitations",
    };
    let mut lines = vec![match checked.state {
        AddressState::Free => {
            format!("{address} is free: no answer to {PROBES} {asked} on {link}")
        }
        AddressState::Own => {
            format!("{address} is this node's own ({link}): no other host uses it")
        }
        AddressState::Shared => {
            format!("{address} is this node's own ({link}), but another host uses it too:")
        }
        AddressState::Used => format!("{address} is used by another host on {link}:"),
        AddressState::Unknown => return String::new(),
    }];
    lines.extend(
        checked
            .claims
            .iter()
            .map(|AddressClaim { mac, probes }| match probes {
                false => format!("  {mac} uses it"),
                true => format!("  {mac} also probes for it, and is about to use it"),
            }),
    );
    if !checked.claims.is_empty() {
        lines.push(LEADER.to_owned());
    }
    lines.join("\n") + "\n"
}
