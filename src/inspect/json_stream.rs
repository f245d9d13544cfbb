//! JSON documents one after the other in one file, as `kubectl get KIND -o json >>FILE` writes them, and `kubectl cluster-info dump` on its
//! standard output, with the logs of pods between them.

use serde::de::IgnoredAny;

/// The lines around a log (kubectl v1.36 `pkg/cmd/clusterinfo/clusterinfo_dump.go`).
const LOG_BEGINS: &[u8] = b"==== START logs for container ";
const LOG_ENDS: &[u8] = b"==== END logs for container ";

/// The documents of a file; `None` if it is not a sequence of them.
pub(super) fn documents(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut documents = Vec::new();
    for part in outside_of_logs(bytes) {
        let mut stream = serde_json::Deserializer::from_slice(part).into_iter::<IgnoredAny>();
        let mut begin = 0;
        while let Some(document) = stream.next() {
            document.ok()?;
            let end = stream.byte_offset();
            documents.push(part.get(begin..end)?);
            begin = end;
        }
    }
    Some(documents)
}

/// The parts of a file between its logs.
fn outside_of_logs(bytes: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let (mut at, mut begin, mut is_in_log) = (0, 0, false);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = at + line.len();
        if !is_in_log && line.starts_with(LOG_BEGINS) {
            parts.push(&bytes[begin..at]);
            is_in_log = true;
        } else if is_in_log && line.starts_with(LOG_ENDS) {
            (begin, is_in_log) = (end, false);
        }
        at = end;
    }
    if !is_in_log {
        parts.push(&bytes[begin..]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_one_after_the_other_are_read_and_the_logs_between_them_left_out() {
        let dump = b"{\"a\": 1}\n==== START logs for container a of pod b/c ====\n{\"not\": read}\n==== END logs for container a of pod b/c ====\n{\"b\": 2}{\"c\": 3}\n";
        let found = documents(dump).unwrap();
        let found: Vec<&str> = found
            .iter()
            .map(|document| std::str::from_utf8(document).unwrap().trim())
            .collect();
        assert_eq!(found, ["{\"a\": 1}", "{\"b\": 2}", "{\"c\": 3}"]);
        assert!(documents(b"{\"a\": 1}\nsome words\n").is_none());
        assert!(documents(b"{\"a\": 1}{\"b\":").is_none());
    }
}
