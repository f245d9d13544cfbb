//! `windrow vip-check`: does another machine on the network use the address that is to be the VIP?

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use windrow_harvester::arp::{Claim, PROBES, waits};
use windrow_harvester::vip_address;
use windrow_model::manifest::yaml;

use super::inputs::text_of;
use super::{Context, Exit};
use crate::backoff::random;
use crate::observe::arp::{Claims, ask_who_has};

/// Harvester's configuration, as the installer leaves it.
const CONFIGURATION: &str = "/oem/harvester.config";

/// Does another machine use the VIP's address? Asked with ARP probes, which take the right CAP_NET_RAW
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The address; when not given, `install.vip` of the configuration
    #[arg(value_name = "ADDRESS", conflicts_with = "config")]
    address: Option<IpAddr>,
    /// The link to ask on; when not given, the one whose network the address is in
    #[arg(short, long, value_name = "LINK")]
    interface: Option<String>,
    /// The Harvester configuration; when not given, this node's own
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let wanted = match args.address {
        Some(address) => Ok(address),
        None => match &args.config {
            Some(path) => configured(path),
            None => configured(&context.layout.path(CONFIGURATION)),
        },
    };
    let address = match wanted {
        Ok(IpAddr::V4(address)) => address,
        Ok(IpAddr::V6(address)) => {
            eprintln!("windrow: {address} cannot be looked for: IPv6 has no ARP");
            return Ok(Exit::Unknown);
        }
        Err(why) => {
            eprintln!("windrow: which address? {why}");
            return Ok(Exit::Usage);
        }
    };
    let waits = waits([random(), random(), random()]);
    match ask_who_has(address, args.interface.as_deref(), waits) {
        Ok(claims) => Ok(tell(address, &claims)),
        Err(why) => {
            eprintln!("windrow: {address} could not be looked for: {why}");
            Ok(Exit::Unknown)
        }
    }
}

/// The VIP's address in a configuration.
fn configured(path: &Path) -> Result<IpAddr, String> {
    let text = text_of(path)?;
    let name = path.display();
    let root = yaml::parse_configuration(&text)
        .map_err(|_| format!("{name} cannot be read: `windrow check` says why"))?;
    let address = root.as_ref().and_then(vip_address).unwrap_or_default();
    address
        .parse()
        .map_err(|_| format!("{name} has no address in install.vip"))
}

fn tell(address: Ipv4Addr, Claims { link, others }: &Claims) -> Exit {
    let link_name = &link.name;
    let ours = link.has(address);
    match (ours, others.is_empty()) {
        (false, true) => {
            println!("{address} is free: no answer to {PROBES} ARP probes on {link_name}")
        }
        (true, true) => println!("{address} is this node's own ({link_name}): nobody else has it"),
        (true, false) => {
            println!("{address} is this node's own ({link_name}), and another has it too:")
        }
        (false, false) => println!("{address} is used by another on {link_name}:"),
    }
    for claim in others {
        match claim {
            Claim::Has(mac) => println!("  {mac} has it"),
            Claim::Probes(mac) => println!("  {mac} probes for it too, and is about to take it"),
        }
    }
    if others.is_empty() {
        return Exit::Ok;
    }
    println!(
        "Where the cluster runs, its leader has the VIP: `windrow diagnose` on a server tells it from others."
    );
    Exit::Failed
}
