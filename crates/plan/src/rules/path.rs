//! Paths to fields of a manifest, as rules write them.
//!
//! ```text
//! spec.template.spec.volumes[].configMap.name      map keys, `[]` for every item of a list
//! metadata.annotations["harvesterhci.io/imageId"]  a key with dots or slashes is quoted
//! metadata.annotations["x/y"](json)[].name         the text is JSON: the path goes on inside
//! ```

use std::borrow::Cow;
use std::fmt;

use windrow_model::manifest::Node;

/// A compiled path. Two are equal when their written forms are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    source: String,
    steps: Vec<PathStep>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PathStep {
    Key(String),
    Each,
    Json,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FieldMatch<'n> {
    pub text: Cow<'n, str>,
    /// Its line in the manifest.
    pub line: u32,
    /// The map that contains it, if there is one.
    pub beside: Option<Cow<'n, Node>>,
}

impl FieldPath {
    pub fn parse(source: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut rest = source;
        let mut separated = true;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("[]") {
                steps.push(PathStep::Each);
                rest = after;
                separated = false;
            } else if let Some(after) = rest.strip_prefix("(json)") {
                steps.push(PathStep::Json);
                rest = after;
                separated = false;
            } else if let Some(after) = rest.strip_prefix("[\"") {
                let (key, after) = after
                    .split_once("\"]")
                    .ok_or_else(|| format!("`{source}`: `[\"` without `\"]`"))?;
                steps.push(PathStep::Key(key.to_owned()));
                rest = after;
                separated = false;
            } else if let (Some(after), false) = (rest.strip_prefix('.'), separated) {
                rest = after;
                separated = true;
                if rest.is_empty() {
                    return Err(format!("`{source}` ends with a dot"));
                }
            } else {
                let end = rest.find(['.', '[', '(']).unwrap_or(rest.len());
                let key = &rest[..end];
                if key.is_empty() || !separated {
                    return Err(format!(
                        "`{source}`: expected a key at `{rest}`; a path is written like `spec.volumes[].name`, \
                         a key with dots or slashes like `annotations[\"a.b/c\"]`"
                    ));
                }
                steps.push(PathStep::Key(key.to_owned()));
                rest = &rest[end..];
                separated = false;
            }
        }
        if !matches!(steps.first(), Some(PathStep::Key(_))) {
            return Err(format!("`{source}` does not begin with a key"));
        }
        if matches!(steps.last(), Some(PathStep::Json)) {
            return Err(format!("`{source}` ends with (json): name a field inside"));
        }
        Ok(Self {
            source: source.to_owned(),
            steps,
        })
    }

    /// The same path below `prefix`.
    pub fn below(&self, prefix: &Self) -> Self {
        Self {
            source: format!("{}.{}", prefix.source, self.source),
            steps: prefix.steps.iter().chain(&self.steps).cloned().collect(),
        }
    }

    /// Every text at this path that is not empty. Absent fields and values of other types are ignored: the API decides
    /// whether they are allowed.
    pub fn texts<'n>(&self, root: &'n Node) -> Vec<FieldMatch<'n>> {
        let mut found = Vec::new();
        walk(root, None, &self.steps, &mut found);
        found
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

fn walk<'n>(
    node: &'n Node,
    beside: Option<&'n Node>,
    steps: &[PathStep],
    found: &mut Vec<FieldMatch<'n>>,
) {
    match steps.split_first() {
        None => {
            if let Some(text) = node.as_str().filter(|text| !text.is_empty()) {
                found.push(FieldMatch {
                    text: Cow::Borrowed(text),
                    line: node.line,
                    beside: beside.map(Cow::Borrowed),
                });
            }
        }
        Some((PathStep::Key(key), rest)) => {
            if let Some(value) = node.get(key) {
                walk(value, Some(node), rest, found);
            }
        }
        Some((PathStep::Each, rest)) => {
            for item in node.items() {
                walk(item, None, rest, found);
            }
        }
        Some((PathStep::Json, rest)) => {
            let parsed = node
                .as_str()
                .and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
            if let Some(value) = parsed {
                let inside = Node::from_json(value, node.line);
                let mut texts = Vec::new();
                walk(&inside, None, rest, &mut texts);
                found.extend(
                    texts
                        .into_iter()
                        .map(|text| -> FieldMatch<'n> { into_owned(text) }),
                );
            }
        }
    }
}

fn into_owned(found: FieldMatch<'_>) -> FieldMatch<'static> {
    FieldMatch {
        text: Cow::Owned(found.text.into_owned()),
        line: found.line,
        beside: found.beside.map(|node| Cow::Owned(node.into_owned())),
    }
}

/// A JSON value as a node, for tests that do not read YAML.
#[cfg(test)]
pub(super) fn node(value: serde_json::Value) -> Node {
    Node::from_json(value, 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(path: &str, object: serde_json::Value) -> Vec<String> {
        FieldPath::parse(path)
            .unwrap()
            .texts(&node(object))
            .into_iter()
            .map(|found| found.text.into_owned())
            .collect()
    }

    #[test]
    fn a_path_follows_keys_lists_quoted_keys_and_json() {
        let object = json!({
            "metadata": {"annotations": {
                "a.b/c": "x",
                "a/json": "[{\"n\": {\"m\": \"in\"}}, {\"n\": 3}]",
            }},
            "spec": {"list": [{"name": "one"}, {"name": ""}, {"other": 1}, {"name": "two"}, {"name": 3}],
                     "flat": ["p", "q"]},
        });
        assert_eq!(texts("spec.list[].name", object.clone()), ["one", "two"]);
        assert_eq!(texts("spec.flat[]", object.clone()), ["p", "q"]);
        assert_eq!(
            texts("metadata.annotations[\"a.b/c\"]", object.clone()),
            ["x"]
        );
        assert_eq!(
            texts(
                "metadata.annotations[\"a/json\"](json)[].n.m",
                object.clone()
            ),
            ["in"]
        );
        assert!(texts("spec.flat.name", object.clone()).is_empty());
        assert!(texts("metadata.annotations[\"a.b/c\"](json).n", object).is_empty());
    }

    #[test]
    fn the_map_around_a_text_is_found_with_it() {
        let object = node(json!({"roleRef": {"kind": "Role", "name": "r"}}));
        let path = FieldPath::parse("roleRef.name").unwrap();
        let found = path.texts(&object);
        let beside = found[0].beside.as_ref().unwrap();
        assert_eq!(beside.str_at(&["kind"]), Some("Role"));
    }

    #[test]
    fn a_path_below_another_reads_as_one() {
        let prefix = FieldPath::parse("spec.template").unwrap();
        let path = FieldPath::parse("volumes[].name").unwrap().below(&prefix);
        assert_eq!(
            path,
            FieldPath::parse("spec.template.volumes[].name").unwrap()
        );
    }

    #[test]
    fn a_path_that_cannot_be_read_is_refused() {
        for (path, expected) in [
            ("", "begin with a key"),
            ("[].a", "begin with a key"),
            ("a.", "ends with a dot"),
            ("a..b", "expected a key"),
            (".a", "expected a key"),
            ("a[0]", "expected a key"),
            ("a[]b", "expected a key"),
            ("a[\"b", "without"),
            ("a(json)", "ends with (json)"),
            ("a(yaml).b", "expected a key"),
        ] {
            let error = FieldPath::parse(path).expect_err(path);
            assert!(error.contains(expected), "{path}: {error}");
        }
    }
}
