//! The flags of Kubernetes' components by minor, their types and the forms of their texts: `data/arguments.txt` (`derive-arguments`) and
//! `data/argument-texts.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use windrow_model::suggest::nearest;
use windrow_plan::rke2::value_form::{ValueForm, is_duration};
use windrow_plan::version::Minor;

use super::syntax;

pub(super) static KNOWN: LazyLock<Arguments> =
    LazyLock::new(|| Arguments::read(include_str!("../data/arguments.txt")));

/// The forms of texts, by component and flag. `*` stands for all components.
pub(super) static TEXTS: LazyLock<BTreeMap<(&'static str, &'static str), ValueForm>> =
    LazyLock::new(|| {
        let lines = include_str!("../data/argument-texts.txt").lines();
        let rows = lines.filter_map(|line| {
            let mut words = line.split(' ').filter(|_| !line.starts_with('#'));
            let (component, flag, form) = (words.next()?, words.next()?, words.next()?);
            Some(((component, flag), ValueForm::read(form, words.next())?))
        });
        rows.collect()
    });

pub(super) struct Arguments {
    pub(super) flags: BTreeMap<(&'static str, &'static str), Flag>,
    pub(super) plugins: BTreeMap<&'static str, Vec<Span>>,
    /// The fields of a KubeletConfiguration, with the flag that sets the same value.
    pub(super) fields: BTreeMap<&'static str, (FieldKind, Option<&'static str>)>,
}

/// The type of a field of a KubeletConfiguration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    Bool,
    Int,
    Int32,
    Number,
    Duration,
    Text,
    List,
    /// Texts by name.
    Map,
    Object,
}

pub(super) struct Flag {
    pub(super) kind: ValueKind,
    pub(super) spans: Vec<Span>,
}

/// The minors from the first to the last.
pub(super) type Span = (u16, u16);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Bool,
    Int,
    Int32,
    Number,
    Duration,
    Text,
    // The kinds of etcd's settings, in which RKE2 writes numbers, switches and lists as such and all else as text.
    Uint,
    Switch,
    List,
    Nanoseconds,
    /// A map, which no argument can set.
    Nested,
}

pub(super) fn is_in(spans: &[Span], minor: Minor) -> bool {
    let minor = minor.minor;
    spans
        .iter()
        .any(|(from, to)| (*from..=*to).contains(&minor))
}

impl Arguments {
    fn read(text: &'static str) -> Self {
        let mut known = Self {
            flags: BTreeMap::new(),
            plugins: BTreeMap::new(),
            fields: BTreeMap::new(),
        };
        for line in text.lines() {
            let words: Vec<&'static str> = line.split(' ').collect();
            match words[..] {
                ["flag", component, name, kind, span] => {
                    let flag = known.flags.entry((component, name)).or_insert(Flag {
                        kind: ValueKind::read(kind),
                        spans: Vec::new(),
                    });
                    flag.spans.extend(read_span(span));
                }
                ["plugin", name, span] => {
                    known
                        .plugins
                        .entry(name)
                        .or_default()
                        .extend(read_span(span));
                }
                ["field", name, kind, ref flag @ ..] => {
                    let row = (FieldKind::read(kind), flag.first().copied());
                    known.fields.insert(name, row);
                }
                _ => {}
            }
        }
        known
    }

    pub(super) fn covers(&self, minor: Minor) -> bool {
        self.plugins
            .get("NamespaceLifecycle")
            .is_some_and(|spans| minor.major == 1 && is_in(spans, minor))
    }

    /// What to do in place of a flag that the component does not have.
    pub(super) fn instead(&self, component: &str, name: &str, minor: Minor) -> String {
        if let Some(flag) = self.flags.get(&(component, name)) {
            let last = flag
                .spans
                .iter()
                .map(|(_, to)| *to)
                .filter(|to| *to < minor.minor)
                .max();
            return match last {
                Some(last) => format!(": Kubernetes 1.{last} was the last that had it. Remove it"),
                None => {
                    let first = flag
                        .spans
                        .iter()
                        .map(|(from, _)| *from)
                        .min()
                        .unwrap_or_default();
                    format!(": it comes with Kubernetes 1.{first}. Remove it")
                }
            };
        }
        let own = self
            .flags
            .iter()
            .filter(|((owner, _), flag)| *owner == component && is_in(&flag.spans, minor));
        if let Some(near) = nearest(name, own.map(|((_, name), _)| *name)) {
            return format!("; did you mean `{near}`?");
        }
        let others = self
            .flags
            .iter()
            .filter(|((_, flag), known)| *flag == name && is_in(&known.spans, minor));
        let others: Vec<&str> = others.map(|((owner, _), _)| *owner).collect();
        match others[..] {
            [] => ": remove it".to_owned(),
            _ => format!(": it is an argument of {}", others.join(" and ")),
        }
    }
}

fn read_span(text: &str) -> Option<Span> {
    let (from, to) = text.split_once('-')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

impl FieldKind {
    fn read(word: &str) -> Self {
        match word {
            "bool" => Self::Bool,
            "int" => Self::Int,
            "int32" => Self::Int32,
            "number" => Self::Number,
            "duration" => Self::Duration,
            "text" => Self::Text,
            "list" => Self::List,
            "map" => Self::Map,
            _ => Self::Object,
        }
    }
}

impl ValueKind {
    fn read(word: &str) -> Self {
        match word {
            "bool" => Self::Bool,
            "int" => Self::Int,
            "int32" => Self::Int32,
            "number" => Self::Number,
            "duration" => Self::Duration,
            "uint" => Self::Uint,
            "switch" => Self::Switch,
            "list" => Self::List,
            "nanoseconds" => Self::Nanoseconds,
            "nested" => Self::Nested,
            _ => Self::Text,
        }
    }

    /// Why a component cannot read a value (pflag, with Go's strconv and time).
    pub(super) fn refusal(self, value: &str) -> Option<&'static str> {
        match self {
            Self::Bool => syntax::boolean(value)
                .is_none()
                .then_some("write true or false"),
            Self::Int => whole(value).is_none().then_some("write a whole number"),
            Self::Int32 => {
                let fits = whole(value).is_some_and(|number| i32::try_from(number).is_ok());
                (!fits).then_some("write a whole number up to 2147483647")
            }
            Self::Number => value.parse::<f64>().is_err().then_some("write a number"),
            Self::Duration => (!is_duration(value)).then_some("write a duration such as 30s or 5m"),
            Self::Uint => value
                .parse::<u64>()
                .is_err()
                .then_some("write a whole number from 0 on"),
            Self::Switch => {
                let is_switch = ["true", "false"].contains(&&*value.to_ascii_lowercase());
                (!is_switch).then_some("write true or false")
            }
            Self::List => {
                let is_list = value.starts_with('[') && value.ends_with(']');
                (!is_list).then_some("write a list such as [a, b]")
            }
            Self::Nanoseconds => value.parse::<i64>().is_err().then_some(
                "write nanoseconds as a whole number, such as 100000000: RKE2 passes on 100ms as a text",
            ),
            Self::Nested => Some("RKE2 can pass on no map: remove it"),
            Self::Text => None,
        }
    }
}

/// A whole number in the notations of Go: 10, -10, 0x1f, 0b11, 0o17, 017, 1_000.
pub(super) fn whole(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = digits.to_ascii_lowercase().replace('_', "");
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let number = i64::from_str_radix(digits, radix).ok()?;
    Some(if text.starts_with('-') {
        -number
    } else {
        number
    })
}
