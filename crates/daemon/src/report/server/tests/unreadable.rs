//! Files of the server that cannot be read, or have errors, and a disk that does not answer.

use std::os::unix::fs::symlink;
use std::sync::mpsc;

use super::*;

type Names = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

fn without_names() -> Names {
    Arc::new(Vec::new)
}

#[test]
fn while_a_token_cannot_be_read_the_next_file_does_not_take_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    write(&file("credential"), TOKEN, 0o600);
    let token = Token::new(vec![file("token"), file("credential")]);
    assert_eq!(*token.get().unwrap(), TOKEN);
    // A link to itself: not even root can read it.
    symlink("token", file("token")).unwrap();
    let why = token.get().unwrap_err();
    assert!(why.contains("symbolic link"), "{why}");
}

#[test]
fn the_own_certificate_is_not_replaced_when_it_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("own.pem");
    symlink("own.pem", &own).unwrap();
    let files = CertificateFiles {
        source: CertificateSource::Rke2,
        pairs: Vec::new(),
        own: Some(own.clone()),
    };
    let served = Certificate::new(files, without_names()).current().unwrap();
    assert!(
        served.note.contains("only kept in memory"),
        "{}",
        served.note
    );
    assert!(own.is_symlink());
}

#[test]
fn while_a_new_certificate_is_wrong_the_one_before_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let authority = Authority::new();
    authority.issue(directory.path());
    let files = CertificateFiles {
        source: CertificateSource::Configured,
        pairs: vec![(file("serving.crt"), file("serving.key"))],
        own: None,
    };
    let certificate = Certificate::new(files, without_names());
    let first = certificate.current().unwrap();
    assert_eq!(first.note, "");
    write(&file("serving.crt"), "half", 0o644);
    let still = certificate.current().unwrap();
    assert_eq!(still.fingerprint, first.fingerprint);
    assert!(still.note.contains("serving.crt"), "{}", still.note);
    authority.issue(directory.path());
    assert_eq!(certificate.current().unwrap().note, "");
}

#[tokio::test]
async fn a_connection_that_is_closed_leaves_no_second_reader_on_a_disk_that_hangs() {
    let mut served = Served::start().await;
    served.served_with(CertificateSource::Rke2).await;
    let (begins, begun) = mpsc::channel();
    let (answers, answer) = mpsc::channel::<()>();
    let answer = Mutex::new(answer);
    let names: Names = Arc::new(move || {
        begins.send(()).unwrap();
        let _ = lock(&answer).recv();
        Vec::new()
    });
    let context = ServerContext {
        metrics: metrics_of(served.service.status.clone()),
        status: served.service.status.clone(),
        names,
        state: served.service.state.clone(),
    };
    let mut settings = served.service.settings.clone();
    settings.certificates.pairs.clear();
    let service = StatusService::new(settings, context);
    let connection = tokio::spawn({
        let service = service.clone();
        async move { service.check_files().await.is_some() }
    });
    let begun = tokio::task::spawn_blocking(move || begun.recv_timeout(DEADLINE));
    begun.await.unwrap().unwrap();
    connection.abort();
    assert!(connection.await.unwrap_err().is_cancelled());
    assert!(service.checking.try_lock().is_err());
    drop(answers);
    let turn = tokio::time::timeout(DEADLINE, service.checking.lock()).await;
    assert!(turn.is_ok());
}
