//! What a query selects: an RFC 31 constraint, from JSON to a checked tree.
//!
//! ```text
//!  {"and":[{"userid":[1000]},{"states":["pending",16]},{"not":[{"name":["a"]}]},{"t_submit":[">=1.5e9"]}]}
//! ```
//! One key per object; `{}` matches every job. Depth, number of values and number of hosts or ranks are bounded while
//! reading. What a tree matches, and at what cost, is the planner's matter (`plan.rs`).

use job::{JobId, JobResult, ResultSet, StateSet, hostlist::Hostlist, idset::Idset};
use serde_json::Value;
use thiserror::Error;

use crate::place::user_tag;

/// Deepest nesting of `and`, `or`, `not`.
pub const DEPTH_MAX: usize = 32;
/// Most operators and values in one constraint.
pub const VALUES_MAX: usize = 16_384;
/// Most hosts or ranks one operator may name, unless the instance has more nodes than that.
pub const HOSTS_MAX: usize = 1024;
/// The userid that stands for every user.
pub const ANY_USER: u32 = u32::MAX;

/// A checked constraint.
#[derive(Debug, Clone, PartialEq)]
pub enum Constraint {
    /// All of them; of none, true.
    And(Vec<Constraint>),
    /// At least one of them; of none, true.
    Or(Vec<Constraint>),
    /// Not all of them.
    Not(Vec<Constraint>),
    /// The job's user is one of these; [`ANY_USER`] is everyone.
    User(Vec<u32>),
    /// The job's name is one of these.
    Name(Vec<Box<str>>),
    /// The job's queue is one of these.
    Queue(Vec<Box<str>>),
    /// The job's state is one of these.
    States(StateSet),
    /// The job is over and its result is one of these.
    Results(ResultSet),
    /// The job's node list has one of these hosts.
    Hosts(Vec<Box<str>>),
    /// The job's ranks have one of these.
    Ranks(Vec<u32>),
    /// The job was dispatched from one of these.
    Parent(Vec<JobId>),
    /// The job has this time, and it compares so.
    Time(TimeField, Compare, f64),
}

/// Which time of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the attributes'")]
pub enum TimeField {
    Submit,
    Depend,
    Priority,
    Sched,
    Run,
    Cleanup,
    Inactive,
}

impl TimeField {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "t_submit" => Self::Submit,
            "t_depend" => Self::Depend,
            "t_priority" => Self::Priority,
            "t_sched" => Self::Sched,
            "t_run" => Self::Run,
            "t_cleanup" => Self::Cleanup,
            "t_inactive" => Self::Inactive,
            _ => return None,
        })
    }
}

/// How a time is compared with the constraint's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// `>=T`
    AtLeast,
    /// `<=T`
    AtMost,
    /// `>T`
    After,
    /// `<T`
    Before,
}

impl Compare {
    /// Whether `time` stands in this relation to `limit`.
    #[must_use]
    pub fn holds(self, time: f64, limit: f64) -> bool {
        match self {
            Self::AtLeast => time >= limit,
            Self::AtMost => time <= limit,
            Self::After => time > limit,
            Self::Before => time < limit,
        }
    }
}

/// Why a constraint was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each text says it")]
pub enum ConstraintError {
    #[error("constraint must be a JSON object, got {0}")]
    NotAnObject(&'static str),
    #[error("constraint object must have one key, got {0}")]
    Keys(usize),
    #[error("unknown constraint operator: {0}")]
    UnknownOperator(Box<str>),
    #[error("operator {operator}: values must be an array, got {met}")]
    NotAnArray {
        operator: Box<str>,
        met: &'static str,
    },
    #[error("operator {operator}: expected {expected}, got {met}")]
    Value {
        operator: Box<str>,
        expected: &'static str,
        met: Box<str>,
    },
    #[error("nested deeper than {DEPTH_MAX} levels")]
    Depth,
    #[error("more than {VALUES_MAX} operators and values")]
    Values,
    #[error("operator {operator}: more than {limit} hosts or ranks")]
    Hosts { operator: Box<str>, limit: usize },
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The value as an error text shows it: short, whatever was sent.
fn shown(value: &Value) -> Box<str> {
    let mut text = value.to_string();
    if let Some((end, _)) = text.char_indices().nth(60) {
        text.truncate(end);
        text.push('…');
    }
    text.into()
}

impl Constraint {
    /// The constraint that every job meets.
    #[must_use]
    pub fn everything() -> Self {
        Self::And(Vec::new())
    }

    /// Tags of the users whose jobs can match, see [`crate::place::user_tag`]; all bits when anybody's can.
    #[must_use]
    pub fn user_tags(&self) -> u64 {
        match self {
            Self::User(users) if !users.contains(&ANY_USER) => {
                users.iter().fold(0, |tags, &user| tags | user_tag(user))
            }
            Self::And(parts) => parts
                .iter()
                .fold(u64::MAX, |tags, part| tags & part.user_tags()),
            Self::Or(parts) if !parts.is_empty() => {
                parts.iter().fold(0, |tags, part| tags | part.user_tags())
            }
            _ => u64::MAX,
        }
    }

    /// Reads a constraint. `nodes` is how many nodes the instance has: hosts and ranks are bounded by it, or by
    /// [`HOSTS_MAX`] if that is more.
    ///
    /// # Errors
    /// The first thing that is wrong, with the operator it belongs to.
    pub fn parse(value: &Value, nodes: usize) -> Result<Self, ConstraintError> {
        Reader {
            left: VALUES_MAX,
            hosts_max: nodes.max(HOSTS_MAX),
        }
        .constraint(value, 0)
    }
}

struct Reader {
    left: usize,
    hosts_max: usize,
}

impl Reader {
    fn take(&mut self, values: usize) -> Result<(), ConstraintError> {
        self.left = self
            .left
            .checked_sub(values)
            .ok_or(ConstraintError::Values)?;
        Ok(())
    }

    fn constraint(&mut self, value: &Value, depth: usize) -> Result<Constraint, ConstraintError> {
        if depth >= DEPTH_MAX {
            return Err(ConstraintError::Depth);
        }
        let Value::Object(object) = value else {
            return Err(ConstraintError::NotAnObject(kind(value)));
        };
        let mut entries = object.iter();
        let (operator, values) = match (entries.next(), entries.next()) {
            (None, _) => return Ok(Constraint::everything()),
            (Some(one), None) => one,
            (Some(_), Some(_)) => return Err(ConstraintError::Keys(object.len())),
        };
        let known = matches!(
            operator.as_str(),
            "and"
                | "or"
                | "not"
                | "userid"
                | "name"
                | "queue"
                | "states"
                | "results"
                | "hostlist"
                | "ranks"
                | "parent"
        ) || TimeField::named(operator).is_some();
        if !known {
            return Err(ConstraintError::UnknownOperator(shown_name(operator)));
        }
        let Value::Array(values) = values else {
            return Err(ConstraintError::NotAnArray {
                operator: operator.as_str().into(),
                met: kind(values),
            });
        };
        self.take(1 + values.len())?;
        Ok(match operator.as_str() {
            "and" => Constraint::And(self.nested(values, depth)?),
            "or" => Constraint::Or(self.nested(values, depth)?),
            "not" => Constraint::Not(self.nested(values, depth)?),
            "userid" => Constraint::User(each(operator, values, "an integer", user)?),
            "name" => Constraint::Name(each(operator, values, "a string", text)?),
            "queue" => Constraint::Queue(each(operator, values, "a string", text)?),
            "states" => {
                let sets = each(operator, values, "a job state or a mask of them", states)?;
                Constraint::States(StateSet(sets.iter().fold(0, |sum, set| sum | set.0)))
            }
            "results" => {
                let sets = each(operator, values, "a job result or a mask of them", results)?;
                Constraint::Results(ResultSet(sets.iter().fold(0, |sum, set| sum | set.0)))
            }
            "hostlist" => self.hosts(operator, values)?,
            "ranks" => self.ranks(operator, values)?,
            "parent" => Constraint::Parent(each(operator, values, "a job id", |value| {
                value.as_u64().map(JobId)
            })?),
            time => {
                let Some(field) = TimeField::named(time) else {
                    return Err(ConstraintError::UnknownOperator(shown_name(time)));
                };
                let wrong = |met: Box<str>| ConstraintError::Value {
                    operator: operator.as_str().into(),
                    expected: "one string of >=, <=, > or < and a time",
                    met,
                };
                let [value] = values.as_slice() else {
                    return Err(wrong(format!("{} values", values.len()).into()));
                };
                let (compare, limit) = value
                    .as_str()
                    .and_then(comparison)
                    .ok_or_else(|| wrong(shown(value)))?;
                Constraint::Time(field, compare, limit)
            }
        })
    }

    fn nested(
        &mut self,
        values: &[Value],
        depth: usize,
    ) -> Result<Vec<Constraint>, ConstraintError> {
        values
            .iter()
            .map(|value| self.constraint(value, depth + 1))
            .collect()
    }

    fn hosts(&mut self, operator: &str, values: &[Value]) -> Result<Constraint, ConstraintError> {
        let mut hosts: Vec<Box<str>> = Vec::new();
        for value in values {
            let wrong = || ConstraintError::Value {
                operator: operator.into(),
                expected: "a hostlist string",
                met: shown(value),
            };
            let list = value
                .as_str()
                .ok_or_else(wrong)?
                .parse::<Hostlist>()
                .map_err(|_| wrong())?;
            if hosts.len() as u64 + list.count() > self.hosts_max as u64 {
                return Err(ConstraintError::Hosts {
                    operator: operator.into(),
                    limit: self.hosts_max,
                });
            }
            hosts.extend(list.iter().map(String::into_boxed_str));
        }
        Ok(Constraint::Hosts(hosts))
    }

    fn ranks(&mut self, operator: &str, values: &[Value]) -> Result<Constraint, ConstraintError> {
        let mut ranks = Vec::new();
        for value in values {
            let wrong = || ConstraintError::Value {
                operator: operator.into(),
                expected: "an idset string",
                met: shown(value),
            };
            let set = value
                .as_str()
                .ok_or_else(wrong)?
                .parse::<Idset>()
                .map_err(|_| wrong())?;
            if ranks.len() as u64 + set.count() > self.hosts_max as u64 {
                return Err(ConstraintError::Hosts {
                    operator: operator.into(),
                    limit: self.hosts_max,
                });
            }
            ranks.extend(set.iter());
        }
        Ok(Constraint::Ranks(ranks))
    }
}

/// An operator's name as an error shows it; a client may send megabytes.
fn shown_name(name: &str) -> Box<str> {
    name.chars().take(60).collect::<String>().into()
}

fn each<T>(
    operator: &str,
    values: &[Value],
    expected: &'static str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<T>, ConstraintError> {
    values
        .iter()
        .map(|value| {
            read(value).ok_or_else(|| ConstraintError::Value {
                operator: operator.into(),
                expected,
                met: shown(value),
            })
        })
        .collect()
}

/// A userid; -1 is written for 4294967295 by clients that hold it in a signed integer.
pub(crate) fn user(value: &Value) -> Option<u32> {
    match value.as_i64()? {
        -1 => Some(ANY_USER),
        id => u32::try_from(id).ok(),
    }
}

fn text(value: &Value) -> Option<Box<str>> {
    value.as_str().map(Into::into)
}

fn states(value: &Value) -> Option<StateSet> {
    match value {
        Value::String(name) => name.parse().ok(),
        number => StateSet::from_mask(number.as_i64()?).ok(),
    }
}

fn results(value: &Value) -> Option<ResultSet> {
    match value {
        Value::String(name) => name.parse::<JobResult>().map(ResultSet::from).ok(),
        number => ResultSet::from_mask(number.as_i64()?).ok(),
    }
}

fn comparison(text: &str) -> Option<(Compare, f64)> {
    let (compare, rest) = if let Some(rest) = text.strip_prefix(">=") {
        (Compare::AtLeast, rest)
    } else if let Some(rest) = text.strip_prefix("<=") {
        (Compare::AtMost, rest)
    } else if let Some(rest) = text.strip_prefix('>') {
        (Compare::After, rest)
    } else {
        (Compare::Before, text.strip_prefix('<')?)
    };
    let limit: f64 = rest.trim().parse().ok()?;
    (limit.is_finite() && limit >= 0.0).then_some((compare, limit))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(value: &Value) -> String {
        Constraint::parse(value, 1)
            .expect_err("must be refused")
            .to_string()
    }

    #[test]
    fn every_operator_reads() {
        let value = json!({"and":[
            {"or":[{"userid":[1000, -1]}, {"not":[{"name":["a"]}]}, {"queue":["q"]}]},
            {"states":["PENDING", "r", 64]}, {"results":["failed", "TO", 1]},
            {"hostlist":["n[0-2]"]}, {"ranks":["1-2", "[5]"]}, {"t_run":[">=1.5"]}, {}]});
        let parsed = Constraint::parse(&value, 1).expect("valid");
        let expected = Constraint::And(vec![
            Constraint::Or(vec![
                Constraint::User(vec![1000, ANY_USER]),
                Constraint::Not(vec![Constraint::Name(vec!["a".into()])]),
                Constraint::Queue(vec!["q".into()]),
            ]),
            Constraint::States(StateSet(14 | 16 | 64)),
            Constraint::Results(ResultSet(2 | 8 | 1)),
            Constraint::Hosts(vec!["n0".into(), "n1".into(), "n2".into()]),
            Constraint::Ranks(vec![1, 2, 5]),
            Constraint::Time(TimeField::Run, Compare::AtLeast, 1.5),
            Constraint::everything(),
        ]);
        assert_eq!(parsed, expected);
    }

    #[test]
    fn refusals_name_the_operator_and_what_was_met() {
        assert_eq!(
            refused(&json!({"foo":[1]})),
            "unknown constraint operator: foo"
        );
        assert_eq!(
            refused(&json!([1])),
            "constraint must be a JSON object, got an array"
        );
        assert_eq!(
            refused(&json!({"and":[], "or":[]})),
            "constraint object must have one key, got 2"
        );
        assert_eq!(
            refused(&json!({"name":"x"})),
            "operator name: values must be an array, got a string"
        );
        assert_eq!(
            refused(&json!({"userid":["x"]})),
            "operator userid: expected an integer, got \"x\""
        );
        assert_eq!(
            refused(&json!({"userid":[1.5]})),
            "operator userid: expected an integer, got 1.5"
        );
        assert!(
            refused(&json!({"states":["foo"]}))
                .starts_with("operator states: expected a job state")
        );
        assert!(
            refused(&json!({"states":[256]})).starts_with("operator states: expected a job state")
        );
        assert!(refused(&json!({"t_run":[">=1", "<2"]})).contains("got 2 values"));
        assert!(refused(&json!({"t_run":["~1"]})).contains("t_run"));
        assert!(refused(&json!({"t_run":[">=nan"]})).contains("t_run"));
        assert!(refused(&json!({"t_run":[">=-1"]})).contains("t_run"));
        assert!(refused(&json!({"ranks":["3,1"]})).contains("idset"));
    }

    #[test]
    fn depth_values_and_hosts_are_bounded() {
        let mut deep = json!({"userid":[1]});
        for _ in 0..DEPTH_MAX {
            deep = json!({"not":[deep]});
        }
        assert_eq!(refused(&deep), "nested deeper than 32 levels");
        assert_eq!(
            refused(&json!({"userid": vec![1; VALUES_MAX + 1]})),
            "more than 16384 operators and values"
        );
        assert_eq!(
            refused(&json!({"ranks":["0-1024"]})),
            "operator ranks: more than 1024 hosts or ranks"
        );
        assert!(Constraint::parse(&json!({"ranks":["0-1024"]}), 2000).is_ok());
        assert!(refused(&json!({"hostlist":["n[0-4000000000]"]})).contains("hostlist"));
        assert!(refused(&json!({"ranks":["0-4000000000"]})).contains("ranks"));
    }
}
