//! Programs that assign addresses to Services of type LoadBalancer.

/// Is this the name of a program that assigns addresses to Services of type LoadBalancer?
pub(crate) fn gives_addresses(name: &str) -> bool {
    const GIVERS: [&str; 5] = [
        "metallb",
        "kube-vip",
        "cloud-provider",
        "purelb",
        "servicelb",
    ];
    GIVERS.iter().any(|part| name.contains(part))
}
