//! Who gives Services of type LoadBalancer their addresses.

/// Is this the name of something that gives Services of type LoadBalancer their addresses?
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
