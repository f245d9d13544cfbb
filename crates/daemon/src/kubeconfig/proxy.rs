//! The proxy for a user's requests: the kubeconfig's `proxy-url`, or the environment's.

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use windrow_model::manifest::Node;

use super::file::ReadFor;
use super::reader::KubeconfigReader;

pub(crate) type Proxy = Intercept;

impl KubeconfigReader {
    /// `None` for the daemon.
    pub(super) fn proxy(&mut self, cluster: &Node, server: Option<&Uri>) -> Option<Proxy> {
        if self.reads_for == ReadFor::Daemon {
            let instead = "no proxy is used; name a `server` that can be reached without one";
            self.refuse(cluster, "proxy-url", instead);
            return None;
        }
        let named = self.text(cluster, "proxy-url");
        let server = server?;
        let Some((line, url)) = named else {
            return by_environment(server);
        };
        let proxy = Matcher::builder().all(url).build().intercept(server);
        let proxy = proxy.filter(|proxy| url.contains("://") && is_supported(proxy));
        if proxy.is_none() {
            self.say(
                line,
                "`proxy-url` is not a valid proxy: write http://HOST:PORT or socks5://HOST:PORT",
            );
        }
        proxy
    }
}

pub(super) fn is_supported(proxy: &Proxy) -> bool {
    matches!(
        proxy.uri().scheme_str(),
        Some("http" | "socks5" | "socks5h")
    )
}

/// The proxy in `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`. As for kubectl, requests to this machine itself never use a
/// proxy.
fn by_environment(server: &Uri) -> Option<Proxy> {
    let host = server.host()?.trim_matches(['[', ']']);
    let address: Option<std::net::IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return None;
    }
    Matcher::from_env().intercept(server)
}
