//! What a filter looks at.

use std::borrow::Cow;
use std::fmt;

/// An object with a closed set of fields, handed out when asked for.
pub trait Subject {
    /// The field of this name; `None` if objects of this type have none.
    fn field(&self, name: &str) -> Option<Value<'_>>;
}

/// A value of a field.
pub enum Value<'a> {
    /// Text.
    Str(Cow<'a, str>),
    /// True or false.
    Bool(bool),
    /// A signed number.
    Int(i64),
    /// A number that is never negative.
    Uint(u64),
    /// A number with a fraction.
    Float(f64),
    /// Bytes, base64 in JSON.
    Bytes(Cow<'a, [u8]>),
    /// A list.
    List(Vec<Value<'a>>),
    /// A map with text keys, an open set.
    Map(Vec<(Cow<'a, str>, Value<'a>)>),
    /// An object with a closed set of fields.
    Struct(Box<dyn Subject + 'a>),
    /// A null where an object may be, a list, a map, or bytes.
    Nil(Kind),
}

impl<'a> Value<'a> {
    /// Text that is borrowed.
    #[must_use]
    pub fn text(text: &'a str) -> Self {
        Self::Str(Cow::Borrowed(text))
    }

    /// Text that was made to be looked at.
    #[must_use]
    pub fn owned(text: String) -> Self {
        Self::Str(Cow::Owned(text))
    }

    /// Texts in a list.
    #[must_use]
    pub fn texts<T: Into<Cow<'a, str>>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::List(
            texts
                .into_iter()
                .map(|text| Self::Str(text.into()))
                .collect(),
        )
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Str(_) => Kind::Str,
            Self::Bool(_) => Kind::Bool,
            Self::Int(_) => Kind::Int,
            Self::Uint(_) => Kind::Uint,
            Self::Float(_) => Kind::Float,
            Self::Bytes(_) => Kind::Bytes,
            Self::List(_) => Kind::List,
            Self::Map(_) => Kind::Map,
            Self::Struct(_) => Kind::Object,
            Self::Nil(kind) => *kind,
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Str(text) => write!(f, "{text:?}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Bytes(bytes) => write!(f, "{bytes:?}"),
            Self::List(list) => f.debug_list().entries(list).finish(),
            Self::Map(map) => f
                .debug_map()
                .entries(map.iter().map(|(k, v)| (k, v)))
                .finish(),
            Self::Struct(_) => f.write_str("{…}"),
            Self::Nil(_) => f.write_str("null"),
        }
    }
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Text.
    Str,
    /// True or false.
    Bool,
    /// A signed number.
    Int,
    /// A number that is never negative.
    Uint,
    /// A number with a fraction.
    Float,
    /// Bytes.
    Bytes,
    /// A list.
    List,
    /// A map.
    Map,
    /// An object.
    Object,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Str => "a text",
            Self::Bool => "true or false",
            Self::Int => "a number",
            Self::Uint => "a number from 0",
            Self::Float => "a number with a fraction",
            Self::Bytes => "bytes",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Object => "an object",
        })
    }
}
