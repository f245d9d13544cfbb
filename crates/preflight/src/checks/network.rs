//! Checks links, addresses and ports.

use windrow_host::{HostLink, LinkState};
use windrow_model::checks::NoFacts::NotChecked;
use windrow_model::checks::{CheckFacts, CheckResult};

use super::Judged;
use super::place::on_vlan;
use crate::WantedLink;
use crate::installer::MTU;
use crate::minimums::Figure;

/// The links of the management network with their descriptions. Without a configuration these are the links with a carrier, or
/// those that may have one.
fn management<'a>(judged: &'a Judged<'_>) -> Vec<(String, Option<&'a HostLink>)> {
    let wanted = &judged.wanted.management.links;
    if wanted.is_empty() {
        let with = |is: fn(Option<&LinkState>) -> bool| -> Vec<_> {
            let nics = judged.host.nics().filter(|nic| is(nic.state.known()));
            nics.map(|nic| (nic.name.clone(), Some(nic))).collect()
        };
        let up = with(|state| state == Some(&LinkState::Up));
        return match up.is_empty() {
            true => with(|state| state != Some(&LinkState::NoCarrier)),
            false => up,
        };
    }
    let found = |link: &WantedLink| {
        let mut all = judged.host.links.known().into_iter().flatten();
        let found = all.find(|it| match (&link.mac, &link.name) {
            // The installer finds the name from the hardware address.
            (Some(Ok(mac)), _) => it.mac == *mac && it.physical,
            (_, Some(name)) => it.name == *name,
            _ => false,
        });
        (called(link), found)
    };
    wanted.iter().map(found).collect()
}

fn called(link: &WantedLink) -> String {
    let name = match (&link.name, &link.mac) {
        (_, Some(Ok(mac))) => mac.to_string(),
        (Some(name), _) => name.clone(),
        (None, _) => "a link".to_owned(),
    };
    format!("{name} ({})", link.at)
}

pub(super) fn links(judged: &Judged<'_>) -> CheckResult {
    if let Err(why) = judged.host.links.get() {
        return Ok(CheckFacts::unknown(why));
    }
    let mut facts = CheckFacts::default();
    for link in &judged.wanted.management.links {
        if let Some(Err(why)) = &link.mac {
            facts.problems.push(format!("{}: {why}", link.at));
        }
    }
    let nics = || {
        let nics = judged.host.nics();
        let nics: Vec<String> = nics
            .map(|nic| format!("{} {}", nic.name, nic.mac))
            .collect();
        match nics.as_slice() {
            [] => "there is no physical link".to_owned(),
            nics => format!("there are {}", nics.join(", ")),
        }
    };
    let management = management(judged);
    if management.is_empty() {
        match judged.host.nics().next() {
            None => facts
                .unknown
                .push("no physical link can be seen".to_owned()),
            Some(_) => facts
                .problems
                .push(format!("no link has a carrier; {}", nics())),
        }
    }
    for (name, link) in management {
        let Some(link) = link else {
            facts
                .problems
                .push(format!("{name}: there is no such link; {}", nics()));
            continue;
        };
        match link.state.get() {
            Ok(LinkState::Up) => facts.found.push(format!("{name} is up")),
            Ok(LinkState::NoCarrier) => facts.problems.push(format!("{name} has no carrier")),
            Ok(LinkState::Down) => facts.unknown.push(format!(
                "{name} is switched off, and the kernel cannot tell whether a cable is connected: `ip link set {} up`",
                link.name
            )),
            Err(why) => facts.unknown.push(format!("{name}: {why}")),
        }
    }
    Ok(facts)
}

pub(super) fn speed(judged: &Judged<'_>) -> CheckResult {
    let Some(minimum) = judged.minimum(Figure::LinkMbps) else {
        return Err(NotChecked("RKE2 publishes no speed"));
    };
    if let Err(why) = judged.host.links.get() {
        return Ok(CheckFacts::unknown(why));
    }
    let mut facts = CheckFacts::default();
    for (name, link) in management(judged) {
        let Some(link) = link else { continue };
        match link.speed.get() {
            Ok(speed) => {
                facts.found.push(format!("{name}: {speed} Mb/s"));
                let unit = format!(" Mb/s on {}", link.name);
                let has = u64::from(*speed);
                judged.against(&mut facts, minimum, &unit, |asked| has >= asked);
            }
            Err(why) => facts.unknown.push(format!("{name}: {why}")),
        }
    }
    if facts.found.is_empty() && facts.unknown.is_empty() {
        facts
            .unknown
            .push("no link of the management network can be seen".to_owned());
    }
    Ok(facts)
}

pub(super) fn mtu(judged: &Judged<'_>) -> CheckResult {
    let Some(mtu) = &judged.wanted.management.mtu else {
        return Err(NotChecked("the configuration sets none"));
    };
    // With DHCP the installer returns before it checks the MTU (harvester-installer v1.4.0 to v1.8.1, `checkNetworks` in
    // `pkg/console/validator.go`).
    let is_checked = !judged.wanted.management.dhcp;
    let wanted = mtu.text.parse().ok();
    let Some(wanted) = wanted.filter(|mtu| !is_checked || MTU.contains(mtu)) else {
        return Ok(CheckFacts {
            problems: vec![format!(
                "{} ({}): the installer accepts 576 to 9000",
                mtu.text, mtu.at
            )],
            ..CheckFacts::default()
        });
    };
    let mut facts = CheckFacts::found(format!("{wanted} ({})", mtu.at));
    if !MTU.contains(&wanted) {
        facts.warnings.push(format!(
            "{wanted} is not from 576 to 9000; with DHCP the installer sets it without a check"
        ));
    }
    for (name, link) in management(judged) {
        let Some(link) = link.filter(|link| link.mtu < wanted) else {
            continue;
        };
        facts.warnings.push(format!(
            "{name} has {} now; the installer sets {wanted}, and Windrow did not test whether the switch carries it",
            link.mtu
        ));
    }
    Ok(facts)
}

pub(super) fn default_route(judged: &Judged<'_>) -> CheckResult {
    Ok(match judged.surroundings.default_route.get() {
        Ok(true) => CheckFacts::found("there is one"),
        Ok(false) if !judged.is_harvester() || judged.wanted.management.dhcp => judged
            .of_its_network(CheckFacts::problem(
                "no default route, neither for IPv4 nor IPv6",
            )),
        Ok(false) if judged.is_unconfigured() => CheckFacts {
            warnings: vec!["no default route yet: the installer creates the network".to_owned()],
            ..CheckFacts::default()
        },
        Ok(false) => CheckFacts {
            warnings: vec![
                "no default route yet: the configuration has a static address".to_owned(),
            ],
            ..CheckFacts::default()
        },
        Err(why) => CheckFacts::unknown(why),
    })
}

pub(super) fn addresses(judged: &Judged<'_>) -> CheckResult {
    if judged.surroundings.addresses.is_empty() {
        let named = judged.wanted.addresses().next();
        return judged.not_asked(named, "no static address is given");
    }
    let mut facts = CheckFacts::default();
    let off_vlan = judged.missing_vlan().map(on_vlan);
    for one in &judged.surroundings.addresses {
        let address = &one.address;
        let claims = match &off_vlan {
            // A host that answers without the tag is on another network.
            Some(why) => Err(why.as_str()),
            None => one.claims.get(),
        };
        match claims {
            Ok(claims) if claims.is_empty() && one.own => facts
                .found
                .push(format!("{address} is this machine's own already")),
            Ok(claims) if claims.is_empty() => facts.found.push(format!("{address} is free")),
            Ok(claims) => {
                for claim in claims {
                    let does = if !claim.probes {
                        "has it"
                    } else {
                        "is about to take it"
                    };
                    facts
                        .problems
                        .push(format!("{address}: {} {does}", claim.mac));
                }
            }
            Err(why) => facts.unknown.push(format!("{address}: {why}")),
        }
    }
    Ok(facts)
}

pub(super) fn ports(judged: &Judged<'_>) -> CheckResult {
    let taken = match judged.surroundings.ports.get() {
        Ok(taken) => taken,
        Err(why) => return Ok(CheckFacts::unknown(why)),
    };
    let wanted = judged.wanted;
    let mut facts = CheckFacts::default();
    let mut free = 0_usize;
    for needed in judged.published.ports(wanted.platform, wanted.role) {
        let mut holders = taken
            .iter()
            .filter(|it| it.port == needed.port && it.protocol == needed.protocol);
        match holders.next() {
            None => free += 1,
            Some(holder) => {
                let by = match &holder.process {
                    Some(process) => format!("taken by {process}"),
                    None => "taken".to_owned(),
                };
                let why = format!(
                    "{} {} ({}) is {by} on {}",
                    needed.protocol, needed.port, needed.listener, holder.address
                );
                match needed.packaged {
                    true => facts.warnings.push(format!("{why}; RKE2 works without it")),
                    false => facts.problems.push(why),
                }
            }
        }
    }
    facts.found.push(format!("{free} ports are free"));
    Ok(facts)
}
