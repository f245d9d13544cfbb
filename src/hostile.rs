//! The readers of the program, for arbitrary bytes: only the crate `fuzz` uses this. Those of the crates it has itself.

use std::path::Path;
use std::time::Instant;

use crate::kubeconfig::{Kubeconfig, ReadFor, node_name};
use crate::observe::appearances::requests::read_lines;
use crate::report::dbus::bounded::passed_on;
use crate::report::server::request::refusal;
use crate::{apiserver, console, observe};

/// A kubeconfig in this file, read as the daemon and as a person reads it: what is wrong with it.
pub fn kubeconfig(path: &Path) -> Vec<String> {
    node_name(path);
    let provider = rustls::crypto::ring::default_provider();
    let read = |reads_for| Kubeconfig::read(&path.into(), reads_for, &provider).err();
    let read = [ReadFor::Daemon, ReadFor::Person].map(read);
    read.into_iter().flatten().collect()
}

/// What a terminal sent, at once and byte by byte: how many keys are in it.
pub fn keys(bytes: &[u8]) -> usize {
    let now = Instant::now();
    let read = |piece: usize| {
        let mut reader = console::KeyReader::default();
        let mut keys = Vec::new();
        for piece in bytes.chunks(piece.max(1)) {
            keys.extend(reader.read(piece, now));
        }
        keys.extend(reader.give_up());
        keys
    };
    let whole = read(bytes.len());
    assert_eq!(whole, read(1), "in pieces it is read otherwise");
    whole.len()
}

/// The query of a request to the status server: what is wrong with it.
pub fn query(query: &str) -> Option<&'static str> {
    refusal(query)
}

/// A request in the spool: why it is none.
pub fn spooled_request(bytes: &[u8]) -> Option<String> {
    observe::requests::parse(bytes).err()
}

/// Lines of a watch. Both readers of it are asked; one of them is given pieces of several sizes.
pub fn watch(bytes: &[u8]) {
    let whole = read_lines(bytes, bytes.len());
    assert_eq!(
        whole,
        read_lines(bytes, 7),
        "in pieces it is read otherwise"
    );
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Some(object) = apiserver::read_line(line) {
            apiserver::name_of(&object);
        }
    }
}

/// What comes from the bus: how many bytes of it get through, or none.
pub fn bus(bytes: &[u8]) -> Option<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().ok()?;
    let read = |piece| runtime.block_on(passed_on(bytes, piece)).ok();
    let passed = read(4096)?;
    assert_eq!(
        Some(&passed),
        read(7).as_ref(),
        "in pieces it is read otherwise"
    );
    Some(passed.len())
}
