//! The fields a format may name: a table of name, heading, attributes needed and how to get the value; one for each kind of thing that
//! is listed.

use super::spec::Value;
use crate::row::Row;
use crate::{ids, users};
use std::borrow::Cow;

/// What a value may depend on besides the job.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// Seconds since 1970.
    pub now: f64,
}

/// A kind of thing that is listed in a format.
pub trait Subject: Sized + 'static {
    /// Its fields, in the order the help lists them.
    const FIELDS: &'static [Field<Self>];
    /// Formats that have a name, with a line about each.
    const NAMED: &'static [(&'static str, &'static str, &'static str)];
    /// What lists them.
    const HELP: &'static str;

    /// The value of a path inside its annotations; `None` for what has no annotations at all.
    const ANNOTATION: Option<fn(&Self, &str) -> Option<serde_json::Value>>;

    /// What a field is sorted by, if that is not its value.
    fn key(&self, field: &str) -> Option<Value<'static>>;
}

/// A field that has a name of its own.
pub struct Field<T: 'static> {
    /// As it stands in a format.
    pub name: &'static str,
    /// Above its column.
    pub heading: &'static str,
    /// Attributes of job-list it is made from.
    pub attributes: &'static [&'static str],
    /// Its value.
    pub get: for<'a> fn(&'a T, &Context) -> Value<'a>,
}

impl<T> std::fmt::Debug for Field<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Field({})", self.name)
    }
}

/// Where a column's values come from.
#[derive(Debug)]
pub enum Source<T: 'static> {
    /// A field of the table.
    Field(&'static Field<T>),
    /// A value inside the annotations: its path, and the heading.
    Annotation(String, String),
}

impl<T: Subject> Source<T> {
    /// The source of that name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        if let Some(field) = T::FIELDS.iter().find(|field| field.name == name) {
            return Some(Self::Field(field));
        }
        T::ANNOTATION?;
        let path = match name.split_once('.') {
            Some(("annotations", path)) => path,
            Some(("user" | "sched", _)) => name,
            _ => return None,
        };
        (!path.is_empty() && path.split('.').all(|part| !part.is_empty()))
            .then(|| Self::Annotation(path.to_owned(), name.to_uppercase()))
    }

    /// Attributes needed.
    #[must_use]
    pub fn attributes(&self) -> &'static [&'static str] {
        match self {
            Self::Field(field) => field.attributes,
            Self::Annotation(..) => &["annotations"],
        }
    }

    /// The heading.
    #[must_use]
    pub fn heading(&self) -> &str {
        match self {
            Self::Field(field) => field.heading,
            Self::Annotation(_, heading) => heading,
        }
    }

    /// True for the column that is coloured by state.
    #[must_use]
    pub fn is_status(&self) -> bool {
        matches!(self, Self::Field(field) if matches!(field.name, "status" | "status_abbrev" | "state" | "state_single" | "result" | "result_abbrev"))
    }

    /// True for the column that is cut when a line is too long.
    #[must_use]
    pub fn is_name(&self) -> bool {
        matches!(self, Self::Field(field) if field.name == "name")
    }

    /// What one of them is sorted by: its value, ids as the numbers they are.
    #[must_use]
    pub fn key<'a>(&self, row: &'a T, context: &Context) -> Value<'a> {
        match self {
            Self::Field(field) => row
                .key(field.name)
                .unwrap_or_else(|| (field.get)(row, context)),
            Self::Annotation(..) => self.value(row, context),
        }
    }

    /// The value for one of them.
    #[must_use]
    pub fn value<'a>(&self, row: &'a T, context: &Context) -> Value<'a> {
        match self {
            Self::Field(field) => (field.get)(row, context),
            Self::Annotation(path, _) => match T::ANNOTATION.and_then(|get| get(row, path)) {
                None | Some(serde_json::Value::Null) => Value::None,
                Some(serde_json::Value::String(text)) => Value::Text(Cow::Owned(text)),
                Some(other) => Value::Text(Cow::Owned(other.to_string())),
            },
        }
    }
}

impl Subject for Row {
    const FIELDS: &'static [Field<Self>] = FIELDS;
    const NAMED: &'static [(&'static str, &'static str, &'static str)] = &super::NAMED;
    const HELP: &'static str = "weir jobs --format=help";
    const ANNOTATION: Option<fn(&Self, &str) -> Option<serde_json::Value>> =
        Some(|row, path| row.annotation(path).cloned());

    fn key(&self, field: &str) -> Option<Value<'static>> {
        (field == "id" || field.starts_with("id.")).then(|| Value::Int(self.id.into()))
    }
}

fn text(value: Option<&str>) -> Value<'_> {
    value.map_or(Value::None, |value| Value::Text(Cow::Borrowed(value)))
}

fn int<N: Into<i128>>(value: Option<N>) -> Value<'static> {
    value.map_or(Value::None, |value| Value::Int(value.into()))
}

fn real(value: Option<f64>) -> Value<'static> {
    value.map_or(Value::None, Value::Real)
}

fn boolean(value: Option<bool>) -> Value<'static> {
    value.map_or(Value::None, Value::Bool)
}

fn owned(value: String) -> Value<'static> {
    Value::Text(Cow::Owned(value))
}

macro_rules! fields {
    ($($name:literal $heading:literal [$($attribute:literal),*] $get:expr;)*) => {
        /// Every field, in the order the help lists them.
        pub static FIELDS: &[Field<Row>] = &[$(Field { name: $name, heading: $heading, attributes: &[$($attribute),*], get: $get }),*];
    };
}

fields! {
    "id" "JOBID" [] |row, _| owned(ids::show(row.job_id()));
    "id.f58" "JOBID" [] |row, _| owned(ids::show(row.job_id()));
    "id.f58plain" "JOBID" [] |row, _| owned(row.job_id().f58(true));
    "id.dec" "JOBID" [] |row, _| Value::Int(row.id.into());
    "id.hex" "JOBID" [] |row, _| owned(format!("{:#018x}", row.id));
    "id.dothex" "JOBID" [] |row, _| owned(row.job_id().dothex());
    "id.kvs" "JOBID" [] |row, _| owned(format!("job.{}", row.job_id().dothex()));
    "userid" "UID" ["userid"] |row, _| int(row.userid);
    "username" "USER" ["userid"] |row, _| row.userid.map_or(Value::None, |uid| owned(users::name(uid).to_string()));
    "name" "NAME" ["name"] |row, _| text(row.name.as_deref());
    "queue" "QUEUE" ["queue"] |row, _| text(row.queue.as_deref());
    "project" "PROJECT" ["project"] |row, _| text(row.project.as_deref());
    "bank" "BANK" ["bank"] |row, _| text(row.bank.as_deref());
    "cwd" "CWD" ["cwd"] |row, _| text(row.cwd.as_deref());
    "urgency" "URG" ["urgency"] |row, _| int(row.urgency);
    "priority" "PRI" ["priority"] |row, _| int(row.priority);
    "state" "STATE" ["state"] |row, _| text(row.state().map(job::State::long));
    "state_single" "S" ["state"] |row, _| text(row.state().map(job::State::short));
    "status" "STATUS" ["state", "result"] |row, _| text(Some(row.status()));
    "status_abbrev" "ST" ["state", "result"] |row, _| text(Some(row.status_abbrev()));
    "result" "RESULT" ["result"] |row, _| text(row.result().map(job::JobResult::long));
    "result_abbrev" "RS" ["result"] |row, _| text(row.result().map(job::JobResult::short));
    "success" "SUCCESS" ["success"] |row, _| boolean(row.success);
    "ntasks" "NTASKS" ["ntasks"] |row, _| int(row.ntasks);
    "ncores" "NCORES" ["ncores"] |row, _| int(row.ncores);
    "nnodes" "NNODES" ["nnodes"] |row, _| int(row.nnodes);
    "duration" "DURATION" ["duration"] |row, _| real(row.duration);
    "expiration" "EXPIRATION" ["expiration"] |row, _| real(row.expiration);
    "ranks" "RANKS" ["ranks"] |row, _| text(row.ranks.as_deref());
    "nodelist" "NODELIST" ["nodelist"] |row, _| text(row.nodelist.as_deref());
    "t_submit" "T_SUBMIT" ["t_submit"] |row, _| real(row.t_submit);
    "t_depend" "T_DEPEND" ["t_depend"] |row, _| real(row.t_depend);
    "t_priority" "T_PRIORITY" ["t_priority"] |row, _| real(row.t_priority);
    "t_sched" "T_SCHED" ["t_sched"] |row, _| real(row.t_sched);
    "t_run" "T_RUN" ["t_run"] |row, _| real(row.t_run);
    "t_cleanup" "T_CLEANUP" ["t_cleanup"] |row, _| real(row.t_cleanup);
    "t_inactive" "T_INACTIVE" ["t_inactive"] |row, _| real(row.t_inactive);
    "t_remaining" "T_REMAINING" ["expiration", "state"] |row, context| real(remaining(row, context));
    "runtime" "RUNTIME" ["t_run", "t_cleanup", "t_inactive"] |row, context| real(row.runtime(context.now));
    "contextual_time" "TIME" ["state", "t_run", "t_cleanup", "t_inactive", "duration"]
        |row, context| real(row.runtime(context.now).or_else(|| row.duration.filter(|_| row.state().is_none_or(|state| state < job::State::Run))));
    "contextual_info" "INFO" ["state", "urgency", "priority", "result", "dependencies", "annotations", "nodelist", "waitstatus",
        "exception_type", "exception_severity", "exception_note"] |row, _| Value::Text(row.info());
    "inactive_reason" "REASON" ["state", "result", "waitstatus", "exception_type", "exception_severity", "exception_note"]
        |row, _| owned(row.reason());
    "returncode" "RC" ["waitstatus", "result"] |row, _| int(row.returncode());
    "waitstatus" "WSTATUS" ["waitstatus"] |row, _| int(row.waitstatus);
    "exception.occurred" "EXCEPTION" ["exception_occurred"] |row, _| boolean(row.exception_occurred);
    "exception.severity" "SEVERITY" ["exception_severity"] |row, _| int(row.exception_severity);
    "exception.type" "TYPE" ["exception_type"] |row, _| text(row.exception_type.as_deref());
    "exception.note" "NOTE" ["exception_note"] |row, _| text(row.exception_note.as_deref());
    "dependencies" "DEPENDENCIES" ["dependencies"] |row, _| row.dependencies.as_ref().map_or(Value::None, |list| owned(list.join(",")));
    "parent" "PARENT" ["parent"] |row, _| row.parent.map_or(Value::None, |id| owned(ids::show(job::JobId(id))));
    "annotations" "ANNOTATIONS" ["annotations"]
        |row, _| row.annotations.as_ref().map_or(Value::None, |map| owned(serde_json::to_string(map).unwrap_or_default()));
}

fn remaining(row: &Row, context: &Context) -> Option<f64> {
    let expiration = row.expiration.filter(|expiration| *expiration > 0.0)?;
    (row.state() == Some(job::State::Run)).then(|| (expiration - context.now).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_found_by_its_name_and_asks_only_for_known_attributes() {
        let known = [
            "userid",
            "urgency",
            "priority",
            "state",
            "result",
            "t_submit",
            "t_depend",
            "t_priority",
            "t_sched",
            "t_run",
            "t_cleanup",
            "t_inactive",
            "name",
            "cwd",
            "queue",
            "project",
            "bank",
            "ntasks",
            "ncores",
            "nnodes",
            "duration",
            "expiration",
            "ranks",
            "nodelist",
            "waitstatus",
            "success",
            "exception_occurred",
            "exception_severity",
            "exception_type",
            "exception_note",
            "annotations",
            "dependencies",
            "parent",
        ];
        for field in FIELDS {
            assert!(
                matches!(Source::<Row>::find(field.name), Some(Source::Field(found)) if found.name == field.name),
                "{}",
                field.name
            );
            assert!(
                field
                    .attributes
                    .iter()
                    .all(|attribute| known.contains(attribute)),
                "{}",
                field.name
            );
        }
    }

    #[test]
    fn annotations_are_fields_by_path() {
        let row: Row = serde_json::from_str(
            r#"{"id":1,"annotations":{"user":{"a":{"b":"x"}},"sched":{"n":3}}}"#,
        )
        .unwrap();
        let value = |name: &str| {
            Source::<Row>::find(name)
                .unwrap()
                .value(&row, &Context { now: 0.0 })
        };
        assert_eq!(value("user.a.b"), Value::Text("x".into()));
        assert_eq!(value("annotations.user.a.b"), Value::Text("x".into()));
        assert_eq!(value("sched.n"), Value::Text("3".into()));
        assert_eq!(value("user.nosuch"), Value::None);
        assert!(Source::<Row>::find("user.").is_none());
        assert!(Source::<Row>::find("nosuch.x").is_none());
    }
}
