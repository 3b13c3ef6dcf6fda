//! RFC 31 constraints on nodes: which hosts or ranks a job may use.
//!
//! `{"hostlist":["a","b"]}`, `{"ranks":["0-1"]}`, `{"properties":["x","^y"]}`, and `and`, `or`, `not` over them. A value
//! list means "any of" for hosts and ranks and "all of" for properties. Our nodes have no properties, so only a negated
//! one (`^x`) holds.

use serde_json::Value;

use crate::set::Set;

/// Operators within operators, at most.
pub const CONSTRAINT_DEPTH_MAX: u32 = 16;

/// Which nodes may be used.
#[derive(Debug, Clone, PartialEq)]
pub enum Constraint {
    /// One of these hosts.
    Hosts(Vec<String>),
    /// One of these ranks.
    Ranks(Set),
    /// Whether all the properties asked for are ones a node without properties has.
    Properties(bool),
    /// All of these.
    All(Vec<Constraint>),
    /// At least one of these.
    Any(Vec<Constraint>),
    /// None of these.
    None(Vec<Constraint>),
}

/// Why a constraint cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConstraintError {
    /// Not an object with operators, or its value not a list.
    #[error("expected an object of operators with arrays, got {met}")]
    Shape {
        /// The JSON text met, shortened.
        met: String,
    },
    /// An operator nobody here knows.
    #[error("unknown operator '{0}': hostlist, ranks, properties, and, or, not are known")]
    Operator(String),
    /// A value that is not an idset or a hostlist.
    #[error("'{met}' is not {expected}")]
    Value {
        /// What stood there.
        met: String,
        /// What should have.
        expected: &'static str,
    },
    /// More than [`CONSTRAINT_DEPTH_MAX`] levels.
    #[error("nested deeper than {CONSTRAINT_DEPTH_MAX} levels")]
    Depth,
}

fn shape(value: &Value) -> ConstraintError {
    ConstraintError::Shape {
        met: value.to_string().chars().take(60).collect(),
    }
}

impl Constraint {
    /// Reads a constraint object. An empty one is satisfied by every node.
    /// # Errors
    /// [`ConstraintError`], case by case.
    pub fn parse(value: &Value) -> Result<Constraint, ConstraintError> {
        Constraint::parse_at(value, 0)
    }

    fn parse_at(value: &Value, depth: u32) -> Result<Constraint, ConstraintError> {
        if depth > CONSTRAINT_DEPTH_MAX {
            return Err(ConstraintError::Depth);
        }
        let object = value.as_object().ok_or_else(|| shape(value))?;
        let mut all = Vec::with_capacity(object.len());
        for (operator, values) in object {
            let list = values.as_array().ok_or_else(|| shape(values))?;
            let texts = || {
                list.iter()
                    .map(|text| text.as_str().ok_or_else(|| shape(text)))
            };
            let nested = || {
                list.iter()
                    .map(|inner| Constraint::parse_at(inner, depth + 1))
                    .collect::<Result<Vec<_>, _>>()
            };
            all.push(match operator.as_str() {
                "hostlist" => {
                    let mut hosts = Vec::new();
                    for text in texts() {
                        let text = text?;
                        let list: job::Hostlist =
                            text.parse().map_err(|_| ConstraintError::Value {
                                met: text.to_owned(),
                                expected: "a hostlist",
                            })?;
                        hosts.extend(list.iter());
                    }
                    Constraint::Hosts(hosts)
                }
                "ranks" => {
                    let mut ranks = Set::new();
                    for text in texts() {
                        let text = text?;
                        ranks.add(&Set::parse(text).ok_or_else(|| ConstraintError::Value {
                            met: text.to_owned(),
                            expected: "an idset",
                        })?);
                    }
                    Constraint::Ranks(ranks)
                }
                "properties" => {
                    let mut holds = true;
                    for text in texts() {
                        holds &= text?.starts_with('^');
                    }
                    Constraint::Properties(holds)
                }
                "and" => Constraint::All(nested()?),
                "or" => Constraint::Any(nested()?),
                "not" => Constraint::None(nested()?),
                other => return Err(ConstraintError::Operator(other.to_owned())),
            });
        }
        Ok(if all.len() == 1 {
            all.remove(0)
        } else {
            Constraint::All(all)
        })
    }

    /// Whether a node may be used.
    #[must_use]
    pub fn allows(&self, rank: u32, host: &str) -> bool {
        match self {
            Constraint::Hosts(hosts) => hosts.iter().any(|name| name == host),
            Constraint::Ranks(ranks) => ranks.contains(rank),
            Constraint::Properties(holds) => *holds,
            Constraint::All(inner) => inner.iter().all(|one| one.allows(rank, host)),
            Constraint::Any(inner) => inner.iter().any(|one| one.allows(rank, host)),
            Constraint::None(inner) => !inner.iter().any(|one| one.allows(rank, host)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operators_select_nodes() {
        let nodes = |value: Value| -> Vec<u32> {
            let constraint = Constraint::parse(&value).unwrap();
            (0..4)
                .filter(|rank| constraint.allows(*rank, &format!("n{rank}")))
                .collect()
        };
        assert_eq!(nodes(json!({"hostlist": ["n[1-2]"]})), [1, 2]);
        assert_eq!(nodes(json!({"ranks": ["0,3"]})), [0, 3]);
        assert_eq!(nodes(json!({"not": [{"ranks": ["0-1"]}]})), [2, 3]);
        assert_eq!(
            nodes(json!({"or": [{"ranks": ["0"]}, {"hostlist": ["n3"]}]})),
            [0, 3]
        );
        assert_eq!(
            nodes(json!({"and": [{"ranks": ["0-1"]}, {"hostlist": ["n1"]}]})),
            [1]
        );
        assert_eq!(nodes(json!({"properties": ["^gone"]})), [0, 1, 2, 3]);
        assert!(nodes(json!({"properties": ["fast"]})).is_empty());
        assert_eq!(nodes(json!({})), [0, 1, 2, 3]);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert_eq!(
            Constraint::parse(&json!({"colour": ["red"]}))
                .unwrap_err()
                .to_string(),
            "unknown operator 'colour': hostlist, ranks, properties, and, or, not are known"
        );
        let mut deep = json!({});
        for _ in 0..20 {
            deep = json!({"not": [deep]});
        }
        assert_eq!(Constraint::parse(&deep), Err(ConstraintError::Depth));
        assert!(Constraint::parse(&json!({"ranks": "0"})).is_err());
        assert!(Constraint::parse(&json!({"ranks": ["x"]})).is_err());
    }
}
