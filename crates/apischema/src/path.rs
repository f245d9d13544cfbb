//! The path of a value in an object, as Kubernetes writes it: `spec.containers[0].ports[1].name`.

use std::fmt;

/// A path as a chain of steps, from the innermost to the outermost.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    before: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    /// A key of a map with arbitrary keys.
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(crate) const ROOT: Path<'static> = Path {
        before: None,
        step: Step::Root,
    };

    pub(crate) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path {
            before: Some(self),
            step: Step::Field(name),
        }
    }

    pub(crate) fn key(&'a self, key: &'a str) -> Path<'a> {
        Path {
            before: Some(self),
            step: Step::Key(key),
        }
    }

    pub(crate) fn index(&'a self, index: usize) -> Path<'a> {
        Path {
            before: Some(self),
            step: Step::Index(index),
        }
    }
}

impl Path<'_> {
    /// Whether this path is the field `inner` of the field `outer` of the object.
    pub(crate) fn is(&self, outer: &str, inner: &str) -> bool {
        let named =
            |path: &Path<'_>, name: &str| matches!(path.step, Step::Field(step) if step == name);
        let owner = self.before.filter(|owner| named(owner, outer));
        named(self, inner)
            && owner.is_some_and(|owner| owner.before.is_some_and(|root| root.before.is_none()))
    }

    /// Only the fields, joined with dots, as in the messages of Go's decoder.
    pub(crate) fn fields(&self) -> String {
        let mut text = self.before.map_or(String::new(), Path::fields);
        if let Step::Field(name) = self.step {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(name);
        }
        text
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(before) = self.before else {
            return Ok(());
        };
        before.fmt(f)?;
        let dot = if before.before.is_none() { "" } else { "." };
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) => write!(f, "{dot}{name}"),
            Step::Key(key) => write!(f, "[{key}]"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_kubernetes_writes_it() {
        let spec = Path::ROOT.field("spec");
        let items = spec.field("containers");
        let item = items.index(2);
        assert_eq!(item.field("name").to_string(), "spec.containers[2].name");
        let limits = item.field("limits");
        assert_eq!(
            limits.key("cpu").to_string(),
            "spec.containers[2].limits[cpu]"
        );
        assert_eq!(limits.key("cpu").fields(), "spec.containers.limits");
    }
}
