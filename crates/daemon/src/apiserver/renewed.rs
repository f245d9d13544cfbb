//! HTTP whose credential a command prints. The command is run before the first request, and again before the next one
//! when the credential has ended or the server has refused it; then the connections are other ones too, for a client
//! certificate belongs to its connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, StatusCode};
use jiff::Timestamp;
use kube::client::Body;
use rustls::crypto::CryptoProvider;
use tokio::sync::Mutex;
use tower::{BoxError, ServiceExt as _};

use super::Shared;
use super::connection::{self, Http};
use super::plugin::{self, Terminal};
use crate::kubeconfig::{Endpoint, ExecPlugin};

pub(super) struct RenewedHttp {
    plugin: ExecPlugin,
    endpoint: Endpoint,
    provider: Arc<CryptoProvider>,
    connect: Duration,
    patience: Duration,
    terminal: Arc<AtomicBool>,
    /// A request that needs another credential waits for the command that is already running.
    held: Mutex<Option<Held>>,
}

#[derive(Clone)]
struct Held {
    http: Http,
    ends: Option<Timestamp>,
    refused: Arc<AtomicBool>,
}

impl Held {
    fn counts(&self) -> bool {
        let ended = self.ends.is_some_and(|end| Timestamp::now() >= end);
        !ended && !self.refused.load(Ordering::Relaxed)
    }
}

impl RenewedHttp {
    pub(super) fn new(
        plugin: ExecPlugin,
        endpoint: Endpoint,
        provider: Arc<CryptoProvider>,
        shared: &Shared,
    ) -> Self {
        Self {
            plugin,
            endpoint,
            provider,
            connect: shared.connect,
            patience: shared.plugin,
            terminal: shared.terminal.clone(),
            held: Mutex::default(),
        }
    }

    /// Runs the command, unless there is a valid credential.
    ///
    /// # Errors
    ///
    /// In a line, why it cannot be had, with the file and the line of the command.
    pub(super) async fn prepare(&self) -> Result<(), String> {
        self.held().await.map(drop)
    }

    pub(super) fn http(self: Arc<Self>) -> Http {
        Http::new(tower::service_fn(move |request: Request<Body>| {
            let this = self.clone();
            async move {
                let held = this.held().await?;
                let answer = held.http.oneshot(request).await?;
                if answer.status() == StatusCode::UNAUTHORIZED {
                    held.refused.store(true, Ordering::Relaxed);
                }
                Ok::<_, BoxError>(answer)
            }
        }))
    }

    async fn held(&self) -> Result<Held, String> {
        let mut held = self.held.lock().await;
        if let Some(held) = held.as_ref().filter(|held| held.counts()) {
            return Ok(held.clone());
        }
        let terminal = match self.terminal.load(Ordering::Relaxed) {
            true => Terminal::OfPerson,
            false => Terminal::Taken,
        };
        let printed =
            plugin::credential(&self.plugin, terminal, &self.provider, self.patience).await?;
        let http = connection::http(
            &self.endpoint,
            printed.credential,
            self.provider.clone(),
            self.connect,
        );
        let now = Held {
            http: http.map_err(|why| format!("{}: {why}", self.plugin.at))?,
            ends: printed.ends,
            refused: Arc::default(),
        };
        *held = Some(now.clone());
        Ok(now)
    }
}
