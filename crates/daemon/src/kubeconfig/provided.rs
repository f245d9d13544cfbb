//! `auth-provider`: of kubectl's former providers, it still knows `oidc`, whose token is in the kubeconfig.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use windrow_model::manifest::Node;

use super::authorization::{Authorization, bearer};
use super::reader::{KubeconfigReader, may_be_shown};
use crate::printable::shell_word;

/// A token that ends this soon is not used, as kubectl does not.
const SOON: SignedDuration = SignedDuration::from_secs(10);

impl KubeconfigReader {
    /// The token of a user's `auth-provider`, as long as it counts.
    pub(super) fn provided_token(&mut self, user: &Node, name: &str) -> Option<Authorization> {
        let entry = user
            .entry("auth-provider")
            .filter(|entry| !entry.value.is_null())?;
        let (line, provider) = (entry.line, &entry.value);
        if user.get("exec").is_some_and(|exec| !exec.is_null()) {
            self.say(
                line,
                "`auth-provider` and `exec` exclude each other, for kubectl too: remove one",
            );
            return None;
        }
        let (line, called) = self
            .needed(provider, "name", "write oidc")
            .map(|(_, called)| (line, called))?;
        if called != "oidc" {
            self.say(
                line,
                "`auth-provider` is none that kubectl still knows, but for oidc: use `exec` with the provider's \
                 program (gke-gcloud-auth-plugin, kubelogin)",
            );
            return None;
        }
        let name = match may_be_shown(name) {
            true => shell_word(name),
            false => "NAME".into(),
        };
        let again = format!(
            "let kubectl fetch another one and write it here (`kubectl --user={name} version`), or use `exec` with a \
             program that does"
        );
        let Some(token) = provider
            .str_at(&["config", "id-token"])
            .filter(|token| !token.is_empty())
        else {
            self.say(line, format!("`auth-provider` has no `id-token`: {again}"));
            return None;
        };
        if let Some(ended) = end(token).filter(|end| Timestamp::now() + SOON >= *end) {
            self.say(
                line,
                format!("the `id-token` of `auth-provider` ends or ended at {ended}: {again}"),
            );
            return None;
        }
        let value = bearer(token);
        if value.is_none() {
            self.say(line, "the `id-token` of `auth-provider` has a line break or another character that no request can carry");
        }
        value.map(Authorization::Always)
    }
}

/// When a JSON Web Token ends; `None` if unknown: then kube-apiserver decides.
fn end(token: &str) -> Option<Timestamp> {
    let claims = token.split('.').nth(1)?;
    let claims = BASE64_URL_SAFE_NO_PAD
        .decode(claims.trim_end_matches('='))
        .ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    let seconds = claims.get("exp")?.as_f64()?;
    // A second that no calendar has is not valid.
    Timestamp::from_second(seconds as i64).ok()
}
