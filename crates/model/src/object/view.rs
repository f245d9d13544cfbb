//! One view of both trees of an object: the nodes of a manifest, with lines ([`Node`]), and the JSON of kube-apiserver ([`Value`]).

use serde_json::Value;

use crate::manifest::Node;

pub trait ObjectView: Sized {
    /// The value of a key of a map.
    fn get(&self, key: &str) -> Option<&Self>;
    /// The items of a list; none for anything else.
    fn items(&self) -> &[Self];
    /// The entries of a map; none for anything else.
    fn entries(&self) -> impl Iterator<Item = (&str, &Self)>;
    fn as_str(&self) -> Option<&str>;
    fn is_null(&self) -> bool;

    /// The items of the list with this key.
    fn list(&self, key: &str) -> &[Self] {
        self.get(key).map_or(&[], Self::items)
    }

    /// The string with this key, or an empty one.
    fn text(&self, key: &str) -> &str {
        self.get(key).and_then(Self::as_str).unwrap_or_default()
    }
}

impl ObjectView for Node {
    fn get(&self, key: &str) -> Option<&Self> {
        Node::get(self, key)
    }

    fn items(&self) -> &[Self] {
        Node::items(self)
    }

    fn entries(&self) -> impl Iterator<Item = (&str, &Self)> {
        let entries = Node::entries(self).iter();
        entries.map(|entry| (entry.key.as_str(), &entry.value))
    }

    fn as_str(&self) -> Option<&str> {
        Node::as_str(self)
    }

    fn is_null(&self) -> bool {
        Node::is_null(self)
    }
}

impl ObjectView for Value {
    fn get(&self, key: &str) -> Option<&Self> {
        Value::get(self, key)
    }

    fn items(&self) -> &[Self] {
        self.as_array().map_or(&[], Vec::as_slice)
    }

    fn entries(&self) -> impl Iterator<Item = (&str, &Self)> {
        let entries = self.as_object().into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), value))
    }

    fn as_str(&self) -> Option<&str> {
        Value::as_str(self)
    }

    fn is_null(&self) -> bool {
        Value::is_null(self)
    }
}
