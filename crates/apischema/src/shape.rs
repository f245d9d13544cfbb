//! The types of fields.

/// The type of a field, as written in the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    /// Text that must be one of these.
    Enum(Vec<&'static str>),
    /// Text in base64.
    Bytes,
    Bool,
    Int32,
    Int64,
    Number,
    Time,
    Quantity,
    IntOrString,
    Any,
    /// An object with the fields of this definition.
    Fields(&'static str),
    List(Box<Shape>),
    Map(Box<Shape>),
}

impl Shape {
    /// Parses the notation of the data.
    pub(crate) fn parse(text: &'static str) -> Option<Self> {
        let inside = |open, close| text.strip_prefix(open)?.strip_suffix(close);
        if let Some(name) = text.strip_prefix('@') {
            return Some(Self::Fields(name));
        }
        if let Some(item) = inside('[', ']') {
            return Some(Self::List(Box::new(Self::parse(item)?)));
        }
        if let Some(value) = inside('{', '}') {
            return Some(Self::Map(Box::new(Self::parse(value)?)));
        }
        if let Some(values) = inside('<', '>') {
            return Some(Self::Enum(values.split('|').collect()));
        }
        Some(match text {
            "string" => Self::Text,
            "bytes" => Self::Bytes,
            "bool" => Self::Bool,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "number" => Self::Number,
            "time" => Self::Time,
            "quantity" => Self::Quantity,
            "int-or-string" => Self::IntOrString,
            "any" => Self::Any,
            _ => return None,
        })
    }

    /// The expected value, in words.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::Text | Self::Enum(_) => "text",
            Self::Bytes => "text in base64",
            Self::Bool => "true or false",
            Self::Int32 | Self::Int64 => "a whole number",
            Self::Number => "a number",
            Self::Time => "a time",
            Self::Quantity => "a quantity",
            Self::IntOrString => "a whole number or text",
            Self::Any => "anything",
            Self::Fields(_) | Self::Map(_) => "a map",
            Self::List(_) => "a list",
        }
    }

    /// The name of the type in messages of kube-apiserver.
    pub(crate) fn go_type(&self) -> String {
        match self {
            Self::Text | Self::Enum(_) | Self::Time | Self::Quantity | Self::IntOrString => {
                "string".to_owned()
            }
            Self::Bytes => "[]uint8".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int32 => "int32".to_owned(),
            Self::Int64 => "int64".to_owned(),
            Self::Number => "float64".to_owned(),
            Self::Any => "interface {}".to_owned(),
            Self::Fields(name) => {
                let mut parts = name.rsplit('.');
                let kind = parts.next().unwrap_or(name);
                let version = parts.next().filter(|part| part.starts_with('v'));
                format!("{}.{kind}", version.unwrap_or("v1"))
            }
            Self::List(item) => format!("[]{}", item.go_type()),
            Self::Map(value) => format!("map[string]{}", value.go_type()),
        }
    }
}
