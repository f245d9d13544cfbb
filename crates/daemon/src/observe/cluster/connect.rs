//! A session with kube-apiserver under one credential: it begins when kube-apiserver answers, and ends when the
//! credential is refused or changes on disk.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use windrow_decide::{ClusterEvent, Interests};

use super::interests::watch_interests;
use super::session::{ApiSession, Events};
use crate::apiserver::Connection;
use crate::backoff::{Backoff, spread};

/// How often the credential is compared with its files: RKE2 renews its certificates when it starts.
const COMPARE: Duration = Duration::from_secs(30);

pub(super) enum SessionEnd {
    Closed,
    CredentialChanged,
    Refused,
    /// Everything has to be asked again.
    Renewed,
    Panicked,
}

pub(super) struct SessionResult {
    pub(super) answered: bool,
    pub(super) end: SessionEnd,
}

pub(super) async fn run_session(
    connection: Connection,
    interests: &watch::Receiver<Interests>,
    events: &Events,
) -> SessionResult {
    let mut renewals = interests.clone();
    let renewed = renewals.borrow_and_update().renewed;
    let session = Arc::new(ApiSession::new(connection, events.clone()));
    let begins = ClusterEvent::SessionBegins { renewed };
    if session.events.send(begins).await.is_err() {
        return SessionResult {
            answered: false,
            end: SessionEnd::Closed,
        };
    }
    tokio::select! {
        ended = ask(&session, interests) => ended,
        renewal = renewals.wait_for(|interests| interests.renewed != renewed) => SessionResult {
            answered: true,
            end: match renewal {
                Ok(_) => SessionEnd::Renewed,
                Err(_) => SessionEnd::Closed,
            },
        },
    }
}

async fn ask(session: &Arc<ApiSession>, interests: &watch::Receiver<Interests>) -> SessionResult {
    // No watch starts before kube-apiserver answers at all.
    if let Some(end) = until_answered(session).await {
        return SessionResult {
            answered: false,
            end,
        };
    }
    let watches = watch_interests(session, interests.clone());
    let health = watch_health(session);
    let end = tokio::select! {
        end = health => end,
        () = watches => SessionEnd::Closed,
        () = session.panicked.notified() => SessionEnd::Panicked,
        () = session.events.closed() => SessionEnd::Closed,
    };
    SessionResult {
        answered: true,
        end,
    }
}

/// Compares the credential with its files, and checks whether kube-apiserver answers whenever that is in doubt.
async fn watch_health(session: &ApiSession) -> SessionEnd {
    loop {
        let doubted = timeout(spread(COMPARE), session.doubt.notified())
            .await
            .is_ok();
        if !session.connection.is_current() {
            return SessionEnd::CredentialChanged;
        }
        if doubted && let Some(end) = until_answered(session).await {
            return end;
        }
    }
}

/// Asks until kube-apiserver answers. Sends an event when it falls silent, and when it answers.
async fn until_answered(session: &ApiSession) -> Option<SessionEnd> {
    let mut pauses = Backoff::new(Duration::from_millis(500), Duration::from_secs(5));
    let mut last = None;
    loop {
        // Every identity may ask for the version.
        let event = match session.answer(session.client().apiserver_version()).await {
            Ok(_) => ClusterEvent::ApiReachable,
            // Each request shows the permissions of the credential; here any answer is enough.
            Err(failure) if failure.is_forbidden() => ClusterEvent::ApiReachable,
            Err(failure) if failure.is_unauthorized() => return Some(SessionEnd::Refused),
            Err(failure) => ClusterEvent::ApiUnreachable {
                why: failure.to_string(),
            },
        };
        let answered = event == ClusterEvent::ApiReachable;
        if last.as_ref() != Some(&event) {
            last = Some(event.clone());
            if session.events.send(event).await.is_err() {
                return Some(SessionEnd::Closed);
            }
        }
        if answered {
            return None;
        }
        pauses.wait().await;
        if !session.connection.is_current() {
            return Some(SessionEnd::CredentialChanged);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;

    use super::*;
    use crate::apiserver::ApiServer;

    /// Refuses everything, which counts as an answer, and closes the connection on a request for RKE2's Addons.
    async fn breaks(request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path();
        assert!(!path.ends_with("/addons"), "as a bug would");
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}"#;
        let mut response = Response::new(Body::from(status.as_bytes().to_vec()));
        *response.status_mut() = http::StatusCode::FORBIDDEN;
        Ok(response)
    }

    async fn refuses(_: Request<Body>) -> Result<Response<Body>, Infallible> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = http::StatusCode::UNAUTHORIZED;
        Ok(response)
    }

    /// How a session on this connection ends, once an answer is in doubt.
    async fn ends(connection: Connection) -> SessionEnd {
        let (events, _seen) = tokio::sync::mpsc::channel(16);
        let session = ApiSession::new(connection, events);
        session.doubt.notify_one();
        watch_health(&session).await
    }

    #[tokio::test]
    async fn a_credential_is_asked_with_again_unless_its_files_have_changed() {
        let client = Client::new(tower::service_fn(refuses), "default");
        let refused = ends(Connection::with_client(client)).await;
        assert!(matches!(refused, SessionEnd::Refused));
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("rke2.yaml");
        let kubeconfig = "{current-context: c, clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], \
            users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}";
        std::fs::write(&path, kubeconfig).unwrap();
        let connection = ApiServer::new().connection(&path).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        let changed = ends(connection).await;
        assert!(matches!(changed, SessionEnd::CredentialChanged));
    }

    #[tokio::test]
    async fn a_session_ends_when_everything_has_to_be_asked_again_and_says_for_what_it_began() {
        let (renew, interests) = watch::channel(Interests::default());
        let (events, mut seen) = tokio::sync::mpsc::channel(16);
        for expected in [0, 1] {
            // Nothing answers there.
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join("rke2.yaml");
            let kubeconfig = "{current-context: c, clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], \
                users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}";
            std::fs::write(&path, kubeconfig).unwrap();
            let connection = ApiServer::new().connection(&path).await.unwrap();
            let session = run_session(connection, &interests, &events);
            let renewal = async {
                let begins = seen.recv().await;
                renew.send_modify(|interests| interests.renewed += 1);
                begins
            };
            let (ended, begins) = tokio::join!(session, renewal);
            assert_eq!(
                begins,
                Some(ClusterEvent::SessionBegins { renewed: expected })
            );
            assert!(matches!(ended.end, SessionEnd::Renewed));
            while seen.try_recv().is_ok() {}
        }
    }

    #[tokio::test]
    async fn a_watch_that_panics_ends_the_session() {
        let connection = Connection::with_client(Client::new(tower::service_fn(breaks), "default"));
        let (_interests, interests) = watch::channel(Interests::default());
        let (events, mut seen) = tokio::sync::mpsc::channel(16);
        tokio::spawn(async move { while seen.recv().await.is_some() {} });
        let session = run_session(connection, &interests, &events);
        let ended = timeout(Duration::from_secs(300), session).await;
        let ended = ended.expect("the session goes on");
        assert!(ended.answered && matches!(ended.end, SessionEnd::Panicked));
    }
}
