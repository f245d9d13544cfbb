//! The forms of values, and whether a value has one. Go reads an absent field and `null` as its type's zero.

use serde_json::Value;
use windrow_model::quantity::billionths;

use super::{MinorRelease, field};

/// The form of a JSON value.
pub(super) enum Form {
    Whole(Range),
    Boolean,
    Text(TextForm),
    /// Any value but an empty text.
    NotBlank,
    Quantity,
    List(&'static Form),
    /// A list that must be there.
    NeededList(&'static Form),
    Map(&'static Form),
    Object(&'static [Field]),
    /// A pointer of Go: it may be absent.
    Optional(&'static Form),
    /// It must be absent or empty, for this reason.
    Forbidden(&'static str),
}

pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) form: Form,
    /// The first minor release that reads it.
    pub(super) since: Option<MinorRelease>,
}

pub(super) const fn needs(name: &'static str, form: Form) -> Field {
    Field {
        name,
        form,
        since: None,
    }
}

pub(super) const fn since(release: MinorRelease, name: &'static str, form: Form) -> Field {
    let since = Some(release);
    Field { name, form, since }
}

/// The form of a text, in JSON or as the whole value of a setting.
pub(super) enum TextForm {
    Any,
    NotEmpty,
    OneOf(&'static [&'static str]),
    /// Words of this list, separated by spaces.
    WordsOf(&'static [&'static str]),
    /// The digits of a whole number.
    Digits(Range),
    /// What `check` accepts, in words.
    Grammar(&'static str, fn(&str) -> bool),
}

#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) least: i64,
    pub(super) most: i64,
}

pub(super) const fn from(least: i64) -> Range {
    between(least, i64::MAX)
}

pub(super) const fn between(least: i64, most: i64) -> Range {
    Range { least, most }
}

/// Judges values for a release.
#[derive(Clone, Copy)]
pub(super) struct Judge {
    pub(super) release: Option<MinorRelease>,
}

impl Judge {
    fn has(self, since: MinorRelease) -> bool {
        self.release.is_none_or(|release| release >= since)
    }

    /// What to write in place of a value that does not have the form. The path is empty for the whole value.
    pub(super) fn value(self, path: &str, form: &Form, value: Option<&Value>) -> Option<String> {
        let value = value.filter(|value| !value.is_null());
        let is_right = match (form, value) {
            (Form::Whole(range), None) => range.has(0),
            (Form::Whole(range), Some(value)) => {
                value.as_i64().is_some_and(|number| range.has(number))
            }
            (Form::Boolean, Some(value)) => value.is_boolean(),
            (Form::Text(form), None) => return self.text(path, form, ""),
            (Form::Text(form), Some(Value::String(text))) => return self.text(path, form, text),
            (Form::NotBlank, Some(value)) => value.as_str() != Some(""),
            (Form::Quantity, Some(Value::String(text))) => billionths(text).is_some(),
            (Form::Quantity, Some(Value::Number(number))) => {
                billionths(&number.to_string()).is_some()
            }
            (Form::List(form) | Form::NeededList(form), Some(Value::Array(items))) => {
                let path = format!("{path}[]");
                let mut items = items.iter();
                return items.find_map(|item| self.value(&path, form, Some(item)));
            }
            (Form::Map(form), Some(Value::Object(entries))) => {
                let path = below(path, "*");
                let mut values = entries.values();
                return values.find_map(|value| self.value(&path, form, Some(value)));
            }
            (Form::Object(known), None) => {
                return self.object(path, known, |_| None);
            }
            (Form::Object(known), Some(Value::Object(fields))) => {
                return self.object(path, known, |name| field(fields, name));
            }
            (Form::Optional(form), Some(_)) => return self.value(path, form, value),
            (Form::Forbidden(_), Some(value)) => value.as_str() == Some(""),
            (Form::NeededList(_), None) => false,
            (_, None) => true,
            (
                Form::Text(_)
                | Form::Quantity
                | Form::List(_)
                | Form::NeededList(_)
                | Form::Map(_)
                | Form::Object(_),
                Some(_),
            ) => false,
        };
        (!is_right).then(|| match form {
            Form::Forbidden(why) => format!("remove `{path}`; {why}"),
            _ => instruction(path, &form.described()),
        })
    }

    fn object<'v>(
        self,
        path: &str,
        known: &[Field],
        value_of: impl Fn(&str) -> Option<&'v Value>,
    ) -> Option<String> {
        let mut read = known
            .iter()
            .filter(|field| field.since.is_none_or(|since| self.has(since)));
        read.find_map(|field| {
            self.value(&below(path, field.name), &field.form, value_of(field.name))
        })
    }

    /// The same for a text.
    pub(super) fn text(self, path: &str, form: &TextForm, text: &str) -> Option<String> {
        let is_right = match form {
            TextForm::Any => true,
            TextForm::NotEmpty => !text.is_empty(),
            TextForm::OneOf(words) => words.contains(&text),
            TextForm::WordsOf(words) => text
                .split(' ')
                .all(|word| word.is_empty() || words.contains(&word)),
            TextForm::Digits(range) => self.number(text).is_some_and(|number| range.has(number)),
            TextForm::Grammar(_, check) => check(text),
        };
        (!is_right).then(|| instruction(path, &form.described()))
    }

    /// Go's Atoi; from v1.6 on without leading zeros and `+` (pkg/webhook/util StrictAtoi).
    fn number(self, text: &str) -> Option<i64> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_loose = text.starts_with('+') || (text.len() > 1 && digits.starts_with('0'));
        if is_loose && self.has((1, 6)) {
            return None;
        }
        text.parse().ok()
    }
}

impl Range {
    fn has(self, number: i64) -> bool {
        (self.least..=self.most).contains(&number)
    }

    fn described(self) -> String {
        let Self { least, most } = self;
        if most == i64::MAX {
            return format!("a whole number of at least {least}");
        }
        format!("a whole number from {least} to {most}")
    }
}

impl Form {
    fn described(&self) -> String {
        match self {
            Self::Whole(range) => range.described(),
            Self::Boolean => "true or false, without quotes".to_owned(),
            Self::Text(form) => form.described(),
            Self::NotBlank => TextForm::NotEmpty.described(),
            Self::Quantity => "a quantity, for example 64Mi".to_owned(),
            Self::List(_) | Self::NeededList(_) => "a list".to_owned(),
            Self::Map(_) | Self::Object(_) => "a JSON object".to_owned(),
            Self::Optional(form) => form.described(),
            Self::Forbidden(why) => (*why).to_owned(),
        }
    }
}

impl TextForm {
    fn described(&self) -> String {
        match self {
            Self::Any => "a text in quotes".to_owned(),
            Self::NotEmpty => "a text that is not empty".to_owned(),
            Self::OneOf(words) => {
                let words = words.join(", ");
                format!("one of {words}")
            }
            Self::WordsOf(words) => {
                let words = words.join(", ");
                format!("words of {words}, with spaces between them")
            }
            Self::Digits(range) => {
                let number = range.described();
                format!("{number}, only its digits")
            }
            Self::Grammar(what, _) => (*what).to_owned(),
        }
    }
}

fn instruction(path: &str, form: &str) -> String {
    if path.is_empty() {
        return format!("write {form}");
    }
    format!("write `{path}` as {form}")
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() {
        return name.to_owned();
    }
    format!("{path}.{name}")
}
