//! The grammars of Kubernetes' names and labels (apimachinery pkg/util/validation).

const NAME: &str = "only letters, digits, `-`, `_` and `.` are allowed there, it must begin and end with a letter or digit, and 63 characters are the most";

/// Why kube-apiserver rejects this as the value of a label.
pub fn label_value_error(value: &str) -> Option<&'static str> {
    (!value.is_empty() && !is_qualified(value)).then_some(NAME)
}

/// Why kube-apiserver rejects this as the key of a label or annotation.
pub fn label_key_error(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
        return Some("the part before the `/` must be a DNS name in lower case");
    }
    (!is_qualified(name)).then_some(NAME)
}

fn is_qualified(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    text.len() <= 63
        && edge(text.as_bytes().first())
        && edge(text.as_bytes().last())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_label_of_any_length(text)
}

/// A DNS name in lower case, a subdomain of RFC 1123. Only the whole name has a maximum length, not its labels.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label_of_any_length)
}

/// A label of RFC 1123, but of any length.
pub fn is_label_of_any_length(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_apimachinery_s_grammars() {
        for value in ["", "a", "A_b.c-1", &"a".repeat(63)] {
            assert_eq!(label_value_error(value), None, "{value}");
        }
        for value in ["hello world", "-a", "a/b", "ä", &"a".repeat(64)] {
            assert!(label_value_error(value).is_some(), "{value}");
        }
        for key in ["app", "app.kubernetes.io/name", "A_b"] {
            assert_eq!(label_key_error(key), None, "{key}");
        }
        for key in ["", "a/b/c", "Example.com/a", "/a", "a/", "a b"] {
            assert!(label_key_error(key).is_some(), "{key}");
        }
        assert!(is_dns_label("a-1") && !is_dns_label("a.b") && is_subdomain("a.b"));
        assert!(!is_dns_label(&"a".repeat(64)) && is_subdomain(&"a".repeat(64)));
    }
}
