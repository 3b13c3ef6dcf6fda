//! JSON as a tree that borrows its texts from the input, and typed access that knows the path.
//!
//! A jobspec is mostly short texts; not copying them makes reading one several times cheaper than a
//! `serde_json::Value`. When a key comes twice, the last one counts, as everywhere else.

use super::error::{Found, JobspecError, Path};
use crate::Map;
use crate::json::{push_str, push_value};
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};
use std::borrow::Cow;
use std::fmt;

/// A JSON value.
pub(super) enum Tree<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    Array(Vec<Tree<'a>>),
    Object(Vec<(Cow<'a, str>, Tree<'a>)>),
}

/// Reads one JSON value, at most `depth_max` objects and arrays deep.
pub(super) fn parse(json: &[u8], depth_max: usize) -> Result<Tree<'_>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let tree = Seed {
        depth_left: depth_max,
    }
    .deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(tree)
}

struct Seed {
    depth_left: usize,
}

impl Seed {
    fn inner<E: serde::de::Error>(&self) -> Result<Seed, E> {
        match self.depth_left.checked_sub(1) {
            Some(depth_left) => Ok(Seed { depth_left }),
            None => Err(E::custom("nested too deep")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Tree<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Tree<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree<'de>, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree<'de>, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree<'de>, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree<'de>, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Tree<'de>, E> {
        Number::from_f64(value)
            .map(Tree::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree<'de>, A::Error> {
        let mut all = Vec::new();
        while let Some(value) = seq.next_element_seed(self.inner::<A::Error>()?)? {
            all.push(value);
        }
        Ok(Tree::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree<'de>, A::Error> {
        let mut all = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            all.push((key, map.next_value_seed(self.inner::<A::Error>()?)?));
        }
        Ok(Tree::Object(all))
    }
}

/// A key, borrowed when it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Tree<'a> {
    pub(super) fn entries(&self) -> Option<&[(Cow<'a, str>, Tree<'a>)]> {
        match self {
            Tree::Object(all) => Some(all),
            _ => None,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Tree<'a>> {
        self.entries()?
            .iter()
            .rfind(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A text without NUL: it may end up as an argument, a path or a variable.
    pub(super) fn plain_text(&self) -> Option<&str> {
        self.as_str().filter(|text| !text.as_bytes().contains(&0))
    }

    fn found(&self) -> Found<'_> {
        match self {
            Tree::Null => Found::Plain("null".to_owned()),
            Tree::Bool(value) => Found::Plain(value.to_string()),
            Tree::Number(value) => Found::Plain(value.to_string()),
            Tree::Text(text) => Found::Text(text),
            Tree::Array(all) => Found::Array(all.len()),
            Tree::Object(_) => Found::Object,
        }
    }

    pub(super) fn to_value(&self) -> Value {
        match self {
            Tree::Null => Value::Null,
            Tree::Bool(value) => Value::Bool(*value),
            Tree::Number(value) => Value::Number(value.clone()),
            Tree::Text(text) => Value::String(text.clone().into_owned()),
            Tree::Array(all) => Value::Array(all.iter().map(Tree::to_value).collect()),
            Tree::Object(_) => Value::Object(self.to_map()),
        }
    }

    /// An object as a map; anything else as an empty one.
    pub(super) fn to_map(&self) -> Map {
        let entries = self.entries().unwrap_or_default().iter();
        entries
            .map(|(key, value)| (key.clone().into_owned(), value.to_value()))
            .collect()
    }

    /// Appends the JSON, compact, leaving out what is at `path` below this object.
    pub(super) fn write_without(&self, path: &[&str], buf: &mut Vec<u8>) {
        match self {
            Tree::Null => buf.extend_from_slice(b"null"),
            Tree::Bool(value) => push_value(buf, value),
            Tree::Number(value) => push_value(buf, value),
            Tree::Text(text) => push_str(buf, text),
            Tree::Array(all) => {
                buf.push(b'[');
                for (at, value) in all.iter().enumerate() {
                    if at > 0 {
                        buf.push(b',');
                    }
                    value.write_without(&[], buf);
                }
                buf.push(b']');
            }
            Tree::Object(all) => {
                buf.push(b'{');
                let mut first = true;
                for (key, value) in all {
                    let below = match path {
                        [only] if only == key => continue,
                        [head, rest @ ..] if head == key => rest,
                        _ => &[],
                    };
                    if !first {
                        buf.push(b',');
                    }
                    first = false;
                    push_str(buf, key);
                    buf.push(b':');
                    value.write_without(below, buf);
                }
                buf.push(b'}');
            }
        }
    }
}

/// An object of the tree and the path to it.
pub(super) struct Object<'t, 'p> {
    tree: &'t Tree<'t>,
    path: Path<'p>,
}

impl<'t, 'p> Object<'t, 'p> {
    pub(super) fn new(tree: &'t Tree<'t>, path: Path<'p>) -> Result<Object<'t, 'p>, JobspecError> {
        match tree {
            Tree::Object(_) => Ok(Object { tree, path }),
            other => Err(JobspecError::Field {
                path: path.text(),
                expected: "an object",
                met: other.found().to_string(),
            }),
        }
    }

    pub(super) fn tree(&self) -> &'t Tree<'t> {
        self.tree
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&'t str, &'t Tree<'t>)> {
        self.tree
            .entries()
            .unwrap_or_default()
            .iter()
            .map(|(key, value)| (key.as_ref(), value))
    }

    /// The error that the field is not what it should be, or missing.
    pub(super) fn field(&self, key: &str, expected: &'static str) -> JobspecError {
        let path = Path::Key(&self.path, key).text();
        match self.tree.get(key) {
            None => JobspecError::Missing { path, expected },
            Some(value) => JobspecError::Field {
                path,
                expected,
                met: value.found().to_string(),
            },
        }
    }

    /// The error that one entry of this object is not what it should be.
    pub(super) fn entry(
        &self,
        key: &str,
        value: &Tree<'_>,
        expected: &'static str,
    ) -> JobspecError {
        let path = Path::Key(&self.path, key).text();
        JobspecError::Field {
            path,
            expected,
            met: value.found().to_string(),
        }
    }

    pub(super) fn object<'s>(
        &'s self,
        key: &'s str,
    ) -> Result<Option<Object<'t, 's>>, JobspecError> {
        match self.tree.get(key) {
            None => Ok(None),
            Some(value) => Object::new(value, Path::Key(&self.path, key)).map(Some),
        }
    }

    pub(super) fn object_required<'s>(
        &'s self,
        key: &'s str,
    ) -> Result<Object<'t, 's>, JobspecError> {
        self.object(key)?
            .ok_or_else(|| self.field(key, "an object"))
    }

    /// A text without NUL.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'t str>, JobspecError> {
        match self.tree.get(key) {
            None => Ok(None),
            Some(value) => match value.plain_text() {
                Some(text) => Ok(Some(text)),
                None => Err(self.field(key, "a string without NUL")),
            },
        }
    }

    pub(super) fn text_required(&self, key: &str) -> Result<&'t str, JobspecError> {
        self.text(key)?.ok_or_else(|| self.field(key, "a string"))
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, JobspecError> {
        match self.tree.get(key) {
            None => Ok(None),
            Some(Tree::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(self.field(key, "true or false")),
        }
    }

    pub(super) fn integer(&self, key: &str) -> Result<Option<i64>, JobspecError> {
        match self.tree.get(key) {
            None => Ok(None),
            Some(Tree::Number(number)) if number.is_i64() => Ok(number.as_i64()),
            Some(_) => Err(self.field(key, "an integer")),
        }
    }

    /// An integer from 1 to `max`.
    pub(super) fn count(
        &self,
        key: &str,
        max: u64,
        expected: &'static str,
    ) -> Result<Option<u64>, JobspecError> {
        match self.tree.get(key) {
            None => Ok(None),
            Some(Tree::Number(number)) => match number.as_u64() {
                Some(count) if (1..=max).contains(&count) => Ok(Some(count)),
                _ => Err(self.field(key, expected)),
            },
            Some(_) => Err(self.field(key, expected)),
        }
    }

    pub(super) fn number_not_negative(&self, key: &str) -> Result<Option<f64>, JobspecError> {
        match self.tree.get(key) {
            None => Ok(None),
            Some(Tree::Number(number)) => match number.as_f64() {
                Some(value) if value >= 0.0 && value.is_finite() => Ok(Some(value)),
                _ => Err(self.field(key, "a number ≥ 0")),
            },
            Some(_) => Err(self.field(key, "a number ≥ 0")),
        }
    }

    pub(super) fn array(&self, key: &str) -> Result<Option<&'t [Tree<'t>]>, JobspecError> {
        match self.tree.get(key) {
            None => Ok(None),
            Some(Tree::Array(all)) => Ok(Some(all)),
            Some(_) => Err(self.field(key, "an array")),
        }
    }

    /// Each element of an array of objects, if the array is there.
    pub(super) fn each_object(
        &self,
        key: &str,
        mut each: impl FnMut(&Object<'t, '_>) -> Result<(), JobspecError>,
    ) -> Result<(), JobspecError> {
        let array = Path::Key(&self.path, key);
        for (at, value) in self.array(key)?.unwrap_or_default().iter().enumerate() {
            each(&Object::new(value, Path::Index(&array, at))?)?;
        }
        Ok(())
    }

    /// The path to an element of an array of this object, for an error about the element itself.
    pub(super) fn element(
        &self,
        key: &str,
        at: usize,
        value: &Tree<'_>,
        expected: &'static str,
    ) -> JobspecError {
        let array = Path::Key(&self.path, key);
        let path = Path::Index(&array, at).text();
        JobspecError::Field {
            path,
            expected,
            met: value.found().to_string(),
        }
    }
}
