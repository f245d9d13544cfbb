//! Several files in `$KUBECONFIG`.

use std::ffi::OsStr;
use std::path::PathBuf;

use rustls::crypto::ring;

use super::authorization::Authorization;
use super::file::{Kubeconfig, ReadFor};
use super::file_tests::{KubeconfigDir, SERVER, config, known};
use super::files::KubeconfigFiles;

fn list(dir: &KubeconfigDir, names: &[&str]) -> KubeconfigFiles {
    let paths: Vec<PathBuf> = names
        .iter()
        .map(|name| dir.directory.path().join(name))
        .collect();
    KubeconfigFiles::from_list(&std::env::join_paths(paths).unwrap()).unwrap()
}

fn read(dir: &KubeconfigDir, names: &[&str]) -> Result<Kubeconfig, String> {
    let files = list(dir, names);
    let read = Kubeconfig::read(&files, ReadFor::Daemon, &ring::default_provider());
    let read = read.map(|(read, _)| read);
    read.map_err(|why| why.replace(&format!("{}/", dir.directory.path().display()), ""))
}

fn token(kubeconfig: &Kubeconfig) -> Option<String> {
    let header = match &known(kubeconfig).authorization {
        Authorization::None => return None,
        authorization => authorization.header()?,
    };
    Some(header.to_str().unwrap().to_owned())
}

#[test]
fn the_first_file_that_has_a_name_counts_and_names_may_be_used_across_files() {
    let dir = KubeconfigDir::new();
    dir.write("first", "users: [{name: u, user: {tokenFile: token}}]\n");
    dir.write("token", "of-the-first\n");
    dir.write(
        "second",
        config(
            "server: 'https://second:6443'",
            "token: of-the-second, as: x",
        ),
    );
    dir.write("third", config("server: 'https://third:6443'", "exec: {}"));
    let found = read(&dir, &["first", "second", "third"]).unwrap();
    assert_eq!(found.endpoint.server.host(), Some("second"));
    // Nothing of the second file's user is mixed in.
    assert_eq!(token(&found).as_deref(), Some("Bearer of-the-first"));
}

#[test]
fn the_first_file_that_names_a_current_context_counts() {
    let dir = KubeconfigDir::new();
    dir.write(
        "first",
        "current-context: ''\nclusters: [{name: far, cluster: {server: 'https://far:6443'}}]\n",
    );
    dir.write(
        "second",
        "current-context: there\ncontexts: [{name: there, context: {cluster: far}}]\n",
    );
    dir.write("third", config(SERVER, ""));
    let found = read(&dir, &["first", "second", "third"]).unwrap();
    assert_eq!(found.endpoint.server.host(), Some("far"));
}

#[test]
fn an_error_names_the_file_in_which_the_field_stands() {
    let dir = KubeconfigDir::new();
    dir.write(
        "first",
        "\nusers: [{name: u, user: {exec: {command: x}}}]\n",
    );
    dir.write("second", config("server: nowhere", ""));
    let why = read(&dir, &["first", "second"]).err().unwrap();
    assert!(why.contains("second:9: `server`"), "{why}");
    assert!(
        why.contains("first:2: `exec` is not supported here"),
        "{why}"
    );
    dir.write("first", "kind: Config\ncontexts: 7: 8\n");
    let why = read(&dir, &["first", "second"]).err().unwrap();
    assert!(why.starts_with("first:2: "), "{why}");
}

#[test]
fn files_that_are_not_there_or_empty_say_nothing_but_one_has_to_say_something() {
    let dir = KubeconfigDir::new();
    dir.write("empty", "# later\n");
    dir.write("config", config(SERVER, ""));
    assert!(read(&dir, &["gone", "empty", "config"]).is_ok());
    assert_eq!(
        read(&dir, &["gone", "empty"]).err().unwrap(),
        "gone:empty: none of these files says anything"
    );
    let one = read(&dir, &["gone"]).err().unwrap();
    assert_eq!(one, "gone: it is not there yet");
}

#[test]
fn a_list_without_paths_names_nothing() {
    assert_eq!(KubeconfigFiles::from_list(OsStr::new("")), None);
    assert_eq!(KubeconfigFiles::from_list(OsStr::new("::")), None);
    let files = KubeconfigFiles::from_list(OsStr::new(":/a::/b")).unwrap();
    assert_eq!(files.to_string(), "/a:/b");
}
