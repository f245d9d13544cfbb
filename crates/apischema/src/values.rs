//! Rules about single fields. `data/values.txt` assigns them to the fields.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use windrow_model::manifest::{Node, NodeValue};

use crate::formats;
use crate::path::Path;
use crate::problem::{Problem, Reason};

/// The rules of each field, by definition and field.
static VALUES: LazyLock<BTreeMap<(&'static str, &'static str), Vec<&'static str>>> =
    LazyLock::new(|| {
        let lines = include_str!("../data/values.txt").lines();
        let mut rules: BTreeMap<_, Vec<&str>> = BTreeMap::new();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            if let (Some(definition), Some(field)) = (words.next(), words.next()) {
                rules.entry((definition, field)).or_default().extend(words);
            }
        }
        rules
    });

/// The rules about several fields of a definition: the field (`.` for the definition itself) and the rule.
static WHOLE: LazyLock<BTreeMap<&'static str, Vec<(&'static str, &'static str)>>> =
    LazyLock::new(|| {
        let mut whole: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for ((definition, field), rules) in VALUES.iter() {
            let of_all = |rule: &&&str| **rule == "required" || *field == ".";
            let rules = rules.iter().filter(of_all).map(|rule| (*field, *rule));
            whole.entry(*definition).or_default().extend(rules);
        }
        whole
    });

/// Adds the errors that concern several fields of a definition.
pub(crate) fn check_whole(
    definition: &str,
    node: &Node,
    path: &Path<'_>,
    problems: &mut Vec<Problem>,
) {
    let set = |field: &str| node.get(field).filter(|value| !value.is_null());
    for (field, rule) in WHOLE.get(definition).map_or(&[][..], Vec::as_slice) {
        if let Some(names) = rule.strip_prefix("one-of:") {
            let names: Vec<&str> = names.split(',').collect();
            let there: Vec<&Node> = names.iter().filter_map(|name| set(name)).collect();
            match &there[..] {
                [] => {
                    let why = format!("must specify one of: {}", names.join(", "));
                    problems.push(Problem::invalid(node.line, path, Reason::Required, &why));
                }
                [_] => {}
                [_, second, ..] => {
                    let why = format!("may not specify more than 1 of: {}", names.join(", "));
                    problems.push(Problem::invalid(second.line, path, Reason::Forbidden, &why));
                }
            }
        } else if set(field).is_none_or(is_empty) {
            let line = node.entry(field).map_or(node.line, |entry| entry.line);
            problems.push(Problem::invalid(
                line,
                &path.field(field),
                Reason::Required,
                "",
            ));
        }
    }
}

fn is_empty(node: &Node) -> bool {
    match &node.value {
        NodeValue::String(text) => text.is_empty(),
        NodeValue::Sequence(items) => items.is_empty(),
        _ => false,
    }
}

/// Adds the errors in the value of a field, or in an item of it.
pub(crate) fn check(
    definition: &'static str,
    field: &'static str,
    node: &Node,
    path: &Path<'_>,
    problems: &mut Vec<Problem>,
) {
    let Some(rules) = VALUES.get(&(definition, field)) else {
        return;
    };
    for rule in rules {
        match &node.value {
            NodeValue::String(text) => {
                if let Some((reason, why)) = text_error(rule, text) {
                    problems.push(Problem::invalid(node.line, path, reason, why));
                }
            }
            NodeValue::Number(number) => {
                if let Some(why) = number
                    .as_i64()
                    .and_then(|number| number_error(rule, number))
                {
                    problems.push(Problem::invalid(node.line, path, Reason::Invalid, why));
                }
            }
            NodeValue::Sequence(items) => list_errors(rule, items, path, problems, node.line),
            NodeValue::Mapping(_) => map_errors(rule, node, path, problems),
            NodeValue::Bool(_) | NodeValue::Null => {}
        }
    }
}

fn text_error(rule: &str, text: &str) -> Option<(Reason, &'static str)> {
    let invalid = |bad: bool, why| bad.then_some((Reason::Invalid, why));
    match rule {
        "not-empty" => text.is_empty().then_some((Reason::Required, "it is empty")),
        // An empty text is the same as an absent one.
        _ if text.is_empty() => None,
        "dns-label" => invalid(
            !formats::is_dns_label(text),
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
        ),
        "dns-name" => invalid(
            !formats::is_subdomain(text),
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        ),
        "port" | "port-or-zero" | "port-name" => invalid(
            !formats::is_port_name(text),
            "must be an IANA service name: at most 15 lower case letters, digits and '-', with a letter among them",
        ),
        "variable-name" => invalid(
            !formats::is_variable_name(text),
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
        ),
        "config-key" => invalid(
            !formats::is_config_key(text),
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
        ),
        "label-key" => formats::label_key_error(text).map(|why| (Reason::Invalid, why)),
        "address" => invalid(
            !formats::is_address(text),
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
        "network" => invalid(
            !formats::is_network(text.trim()),
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ),
        "percent" => invalid(
            !formats::is_percent(text),
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%', or '93%')",
        ),
        "absolute" => invalid(!text.starts_with('/'), "must be an absolute path"),
        "wildcard-name" => invalid(
            !formats::is_subdomain(text.strip_prefix("*.").unwrap_or(text)),
            "must be a DNS name in lower case without a port; it may begin with `*.`",
        ),
        "host-name" => invalid(
            formats::is_address(text)
                || !formats::is_subdomain(text.strip_prefix("*.").unwrap_or(text)),
            "must be a DNS name in lower case without a port, not an IP address; it may begin with `*.`",
        ),
        "inside" => invalid(
            text.starts_with('/') || text.split('/').any(|part| part == ".."),
            "must be a relative path without '..'",
        ),
        _ => None,
    }
}

fn number_error(rule: &str, number: i64) -> Option<&'static str> {
    match rule {
        "port" => {
            (!(1..=65535).contains(&number)).then_some("must be between 1 and 65535, inclusive")
        }
        // Zero is the same as an absent value.
        "port-or-zero" => {
            (!(0..=65535).contains(&number)).then_some("must be between 1 and 65535, inclusive")
        }
        "not-negative" => (number < 0).then_some("must be greater than or equal to 0"),
        "positive" => (number <= 0).then_some("must be greater than 0"),
        "seconds-to-30" => (!(1..=30).contains(&number))
            .then_some("the timeout value must be between 1 and 30 seconds"),
        "percentage" => (!(1..=100).contains(&number)).then_some("must be in the range 1-100"),
        "file-mode" => (!(0..=0o777).contains(&number))
            .then_some("must be a number between 0 and 0777 (octal), both inclusive"),
        _ => None,
    }
}

fn list_errors(
    rule: &str,
    items: &[Node],
    path: &Path<'_>,
    problems: &mut Vec<Problem>,
    line: u32,
) {
    if rule == "not-empty" && items.is_empty() {
        problems.push(Problem::invalid(
            line,
            path,
            Reason::Required,
            "the list is empty",
        ));
    }
    let Some(key) = rule.strip_prefix("unique:") else {
        return;
    };
    let mut seen: Vec<String> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let value = if key == "." {
            Some(item)
        } else {
            item.get(key)
        };
        let Some(value) = value.filter(|value| !value.is_null()) else {
            continue;
        };
        let text = match value.as_str() {
            Some(text) => text.to_owned(),
            None => value.to_json().to_string(),
        };
        if text.is_empty() {
            continue;
        }
        if seen.contains(&text) {
            let at = path.index(index);
            let at = if key == "." { at } else { at.field(key) };
            problems.push(Problem::invalid(value.line, &at, Reason::Duplicate, ""));
        }
        seen.push(text);
    }
}

fn map_errors(rule: &str, node: &Node, path: &Path<'_>, problems: &mut Vec<Problem>) {
    if !matches!(rule, "labels" | "label-keys") {
        return;
    }
    for entry in node.entries() {
        if let Some(why) = formats::label_key_error(&entry.key) {
            problems.push(Problem::invalid(entry.line, path, Reason::Invalid, why));
        }
        let value = entry.value.as_str().filter(|_| rule == "labels");
        if let Some(why) = value.and_then(formats::label_value_error) {
            problems.push(Problem::invalid(entry.line, path, Reason::Invalid, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::CATALOGUE;

    #[test]
    fn every_rule_is_of_a_field_that_is_known() {
        const KNOWN: [&str; 23] = [
            "wildcard-name",
            "required",
            "address",
            "network",
            "percent",
            "absolute",
            "host-name",
            "seconds-to-30",
            "not-empty",
            "dns-label",
            "dns-name",
            "port",
            "port-name",
            "port-or-zero",
            "variable-name",
            "config-key",
            "label-key",
            "label-keys",
            "labels",
            "not-negative",
            "positive",
            "percentage",
            "file-mode",
        ];
        assert!(VALUES.len() > 30);
        for ((definition, field), rules) in VALUES.iter() {
            let mut fields = CATALOGUE.fields(definition).iter();
            assert!(
                *field == "." || fields.any(|known| known.name == *field),
                "{definition} {field}"
            );
            for rule in rules {
                let known = KNOWN.contains(rule)
                    || rule.starts_with("unique:")
                    || rule.starts_with("one-of:")
                    || *rule == "inside";
                assert!(known, "{definition} {field}: {rule}");
            }
        }
    }
}
