//! The readers of the program, for arbitrary bytes: only the crate `fuzz` uses this. It calls the readers of the crates
//! directly.

use std::path::Path;
use std::time::Instant;

use crate::inspect::saved::saved_in;
use crate::kubeconfig::{Kubeconfig, ReadFor, node_name};
use crate::observe::appearances::requests::read_lines;
use crate::report::dbus::bounded::passed_on;
use crate::report::server::request::refusal;
use crate::{apiserver, console, observe};

/// Reads a kubeconfig in this file as the daemon and as a user; returns the errors.
pub fn kubeconfig(path: &Path) -> Vec<String> {
    node_name(path);
    let provider = rustls::crypto::ring::default_provider();
    let read = |reads_for| Kubeconfig::read(&path.into(), reads_for, &provider).err();
    let read = [ReadFor::Daemon, ReadFor::Person].map(read);
    read.into_iter().flatten().collect()
}

/// Reads bytes of a terminal, at once and byte by byte; returns the number of keys.
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

/// Reads the query of a request to the status server; returns the error.
pub fn query(query: &str) -> Option<&'static str> {
    refusal(query)
}

/// Reads saved objects, as from standard input; returns the error.
pub fn saved_objects(bytes: &[u8]) -> Option<String> {
    saved_in("-", bytes).err()
}

pub fn spooled_request(bytes: &[u8]) -> Option<String> {
    observe::requests::parse(bytes).err()
}

/// Reads lines of a watch with both readers; one of them gets pieces of several sizes.
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

/// Reads bytes from the bus; returns how many of them pass, or `None`.
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
