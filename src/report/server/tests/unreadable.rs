//! Files of the server that cannot be read, or are wrong, and a disk that does not answer.

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
    assert!(served.note.contains("in memory alone"), "{}", served.note);
    assert!(own.is_symlink());
}
