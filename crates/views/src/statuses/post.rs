//! The body of a request that lists its jobs.
//!
//! `{"Jobs":[{"ID":"f2abc","Namespace"?:"default"}…], "IncludeChildren"?:true}`; keys in any case, others are passed over, and so is what
//! follows the first JSON value.

use job::JobId;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::{answer::HttpError, names};

/// Most jobs one body may list.
pub const POST_JOBS_MAX: usize = 10_000;

/// What a body says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PostBody {
    /// The jobs of our namespace, ascending, each once. Names that are no id are left out: there is no such job.
    pub(crate) ids: Vec<JobId>,
    /// Whether all entries name one namespace, which then counts instead of the parameter.
    pub(crate) one_namespace: bool,
    /// Children are listed, too.
    pub(crate) include_children: bool,
}

impl PostBody {
    /// Reads a body; a body of no bytes is none.
    ///
    /// # Errors
    /// [`HttpError`] 400 with the texts clients know.
    pub fn parse(body: &[u8]) -> Result<Option<Self>, HttpError> {
        if body.is_empty() {
            return Ok(None);
        }
        let malformed =
            |why: &dyn std::fmt::Display| HttpError::bad(format!("error decoding request: {why}"));
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(malformed(&"EOF"));
        }
        let mut values = serde_json::Deserializer::from_slice(body);
        let value = Value::deserialize(&mut values).map_err(|error| malformed(&error))?;
        let object = match value {
            Value::Object(object) => object,
            Value::Null => Map::new(),
            Value::Array(_) => return Err(malformed(&"expected an object, got an array")),
            _ => return Err(malformed(&"expected an object")),
        };
        let entries = match get(&object, "jobs") {
            None | Some(Value::Null) => &[],
            Some(Value::Array(entries)) => entries.as_slice(),
            Some(_) => return Err(malformed(&"Jobs: expected an array of objects")),
        };
        if entries.is_empty() {
            return Err(HttpError::bad("no jobs in request"));
        }
        if entries.len() > POST_JOBS_MAX {
            return Err(HttpError::bad(format!(
                "too many jobs in request: expected at most {POST_JOBS_MAX}, got {}",
                entries.len()
            )));
        }
        let include_children = match get(&object, "includechildren") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(include)) => *include,
            Some(_) => return Err(malformed(&"IncludeChildren: expected a boolean")),
        };
        let mut ids = Vec::with_capacity(entries.len());
        let mut first: Option<&str> = None;
        let mut one_namespace = true;
        let empty = Map::new();
        for entry in entries {
            let entry = match entry {
                Value::Object(entry) => entry,
                Value::Null => &empty,
                _ => return Err(malformed(&"Jobs: expected an array of objects")),
            };
            let text = |key: &'static str| match get(entry, key) {
                None | Some(Value::Null) => Ok(""),
                Some(Value::String(text)) => Ok(text.as_str()),
                Some(_) => Err(malformed(&format_args!("Jobs: {key}: expected a string"))),
            };
            let (name, namespace) = (text("id")?, text("namespace")?);
            let namespace = if namespace.is_empty() {
                names::NAMESPACE
            } else {
                namespace
            };
            one_namespace &= *first.get_or_insert(namespace) == namespace;
            if namespace == names::NAMESPACE {
                ids.extend(names::parse_job(name));
            }
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(Some(Self {
            ids,
            one_namespace,
            include_children,
        }))
    }
}

/// A key in any case.
fn get<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    object
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(key))
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> String {
        let error = PostBody::parse(body.as_bytes()).expect_err(body);
        assert_eq!(error.status, 400);
        error.text.to_string()
    }

    #[test]
    fn a_body_names_jobs_in_any_case_and_order() {
        let read = |body: &str| PostBody::parse(body.as_bytes()).expect(body).expect(body);
        let one = read(
            r#"{"jobs":[{"id":"7"},{"ID":"5","Namespace":"default"},{"Id":"7"},{"id":"shop"}],"index":4,"namespace":"*"} trailing"#,
        );
        assert_eq!(
            one,
            PostBody {
                ids: vec![JobId(5), JobId(7)],
                one_namespace: true,
                include_children: false
            }
        );
        let two =
            read(r#"{"Jobs":[{"ID":"7"},{"ID":"8","Namespace":"x"}],"includeChildren":true}"#);
        assert_eq!(
            (two.ids, two.one_namespace, two.include_children),
            (vec![JobId(7)], false, true)
        );
        assert_eq!(PostBody::parse(b""), Ok(None));
    }

    #[test]
    fn bodies_that_are_none_are_refused_with_known_texts() {
        for body in ["{}", "null", r#"{"jobs":[]}"#, r#"{"jobs":null}"#] {
            assert_eq!(refused(body), "no jobs in request", "{body}");
        }
        assert_eq!(refused(" \n"), "error decoding request: EOF");
        for body in [
            "{",
            "[]",
            "7",
            r#"{"jobs":7}"#,
            r#"{"jobs":[7]}"#,
            r#"{"jobs":[{"id":7}]}"#,
        ] {
            assert!(
                refused(body).starts_with("error decoding request: "),
                "{body}"
            );
        }
    }
}
