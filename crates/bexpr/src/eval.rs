//! A filter and a subject to true or false.
//!
//! | asked of | text | list | map | true/false, number | bytes | object | null |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | `==` | the same | error | error | the same, read as its type | error | error | error |
//! | `in`, `contains` | a part of it | an element of it | a key of it | error | error | error | no, of a list or map |
//! | `matches` | somewhere in it | error | error | error | as UTF-8 | error | no, of bytes |
//! | `is empty` | no length | no length | no length | error | no length | error | yes, but of an object |
//! | `is nil` | error | no | no | error | no | no | yes |
//!
//! A map key that is not there is no error: every operator answers as for nothing, `is empty` and `is nil` with yes.

use crate::{
    Filter,
    ast::{Bindings, Each, Expr, Match, Op, Quantifier, Selector},
    error::EvalError,
    text,
    value::{Kind, Subject, Value},
};

/// Steps one evaluation may take: terms looked at, once for each element of a collection they stand in.
pub const EVAL_STEPS_MAX: usize = 100_000;

impl Filter {
    /// Whether it holds for this subject.
    ///
    /// # Errors
    /// [`EvalError`]: a question that cannot be answered about it. Terms that the others make needless are not looked at.
    pub fn eval(&self, subject: &dyn Subject) -> Result<bool, EvalError> {
        self.eval_counting(subject, &mut 0)
    }

    /// The same; the steps it took, which are a measure of its time, are added to `steps`.
    ///
    /// # Errors
    /// As [`Filter::eval`].
    pub fn eval_counting(
        &self,
        subject: &dyn Subject,
        steps: &mut usize,
    ) -> Result<bool, EvalError> {
        let mut eval = Eval {
            steps: 0,
            of_patterns: 0,
        };
        let holds = eval.expr(&self.expr, &Scope::Subject(subject));
        *steps += eval.steps + eval.of_patterns;
        holds
    }
}

/// What a selector's first part may name.
enum Scope<'s> {
    Subject(&'s dyn Subject),
    Element {
        name: &'s str,
        value: &'s Value<'s>,
        outer: &'s Scope<'s>,
    },
}

type Found<'f> = &'f mut dyn FnMut(&mut Eval, Option<&Value<'_>>) -> Result<bool, EvalError>;

struct Eval {
    steps: usize,
    /// Those that regexes took: they are linear in what they look at, so nothing is refused for them.
    of_patterns: usize,
}

impl Eval {
    fn step(&mut self) -> Result<(), EvalError> {
        self.steps += 1;
        if self.steps > EVAL_STEPS_MAX {
            return Err(EvalError::Steps {
                max: EVAL_STEPS_MAX,
            });
        }
        Ok(())
    }

    fn expr(&mut self, expr: &Expr, scope: &Scope<'_>) -> Result<bool, EvalError> {
        match expr {
            Expr::And(terms) => {
                for term in terms {
                    if !self.expr(term, scope)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Expr::Or(terms) => {
                for term in terms {
                    if self.expr(term, scope)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expr::Not(inner) => Ok(!self.expr(inner, scope)?),
            Expr::Match(test) => {
                self.step()?;
                self.find(scope, &test.selector, &mut |eval, met| match met {
                    Some(value) => holds(test, value, &mut eval.of_patterns),
                    None => Ok(of_nothing(test.op)),
                })
            }
            Expr::Each(each) => {
                self.step()?;
                self.find(scope, &each.selector, &mut |eval, met| match met {
                    Some(value) => eval.each(each, value, scope),
                    None => Ok(each.quantifier == Quantifier::All),
                })
            }
        }
    }

    /// Hands on what the selector leads to; nothing, when it is a map's key that is not there.
    fn find(
        &mut self,
        scope: &Scope<'_>,
        selector: &Selector,
        found: Found<'_>,
    ) -> Result<bool, EvalError> {
        match scope {
            Scope::Element { name, value, outer } => {
                if selector.parts.first().is_some_and(|part| **part == **name) {
                    self.walk(value, selector, 1, found)
                } else {
                    self.find(outer, selector, found)
                }
            }
            Scope::Subject(subject) => match selector.parts.first() {
                Some(first) => {
                    let value = subject.field(first).ok_or_else(|| no_field(selector, 0))?;
                    self.walk(&value, selector, 1, found)
                }
                // The subject itself.
                None => Err(EvalError::NoParts {
                    pointer: String::from("/"),
                    part: 0,
                    kind: Kind::Object,
                }),
            },
        }
    }

    fn walk(
        &mut self,
        value: &Value<'_>,
        selector: &Selector,
        at: usize,
        found: Found<'_>,
    ) -> Result<bool, EvalError> {
        let Some(part) = selector.parts.get(at) else {
            return found(self, Some(value));
        };
        match value {
            Value::Struct(subject) => {
                let value = subject.field(part).ok_or_else(|| no_field(selector, at))?;
                self.walk(&value, selector, at + 1, found)
            }
            Value::Map(map) => match map.iter().find(|(key, _)| **key == **part) {
                Some((_, value)) => self.walk(value, selector, at + 1, found),
                None => found(self, None),
            },
            Value::Nil(Kind::Map) => found(self, None),
            Value::List(list) => {
                let index = part.parse().ok().filter(|_| !part.starts_with('+'));
                match index.and_then(|index: usize| list.get(index)) {
                    Some(value) => self.walk(value, selector, at + 1, found),
                    None => Err(EvalError::NoElement {
                        pointer: selector.pointer(),
                        part: at,
                        index: part.clone(),
                        length: list.len(),
                    }),
                }
            }
            other => Err(EvalError::NoParts {
                pointer: selector.pointer(),
                part: at,
                kind: other.kind(),
            }),
        }
    }

    fn each(
        &mut self,
        each: &Each,
        value: &Value<'_>,
        scope: &Scope<'_>,
    ) -> Result<bool, EvalError> {
        let wanted = each.quantifier == Quantifier::Any;
        match value {
            Value::List(list) => {
                for (index, element) in list.iter().enumerate() {
                    self.step()?;
                    let holds = match &each.bindings {
                        Bindings::One(name) => self.with(name, element, &each.body, scope)?,
                        Bindings::Two(key, value) => {
                            let index = Value::Uint(index as u64);
                            self.with_two((key, &index), (value, element), &each.body, scope)?
                        }
                    };
                    if holds == wanted {
                        return Ok(wanted);
                    }
                }
                Ok(!wanted)
            }
            Value::Map(map) => {
                for (key, element) in map {
                    self.step()?;
                    let key = Value::text(key);
                    let holds = match &each.bindings {
                        Bindings::One(name) => self.with(name, &key, &each.body, scope)?,
                        Bindings::Two(name, value) => {
                            self.with_two((name, &key), (value, element), &each.body, scope)?
                        }
                    };
                    if holds == wanted {
                        return Ok(wanted);
                    }
                }
                Ok(!wanted)
            }
            Value::Nil(Kind::List | Kind::Map) => Ok(!wanted),
            other => Err(EvalError::Operator {
                pointer: each.selector.pointer(),
                operator: if wanted { "any" } else { "all" },
                kind: other.kind(),
            }),
        }
    }

    fn with(
        &mut self,
        name: &str,
        value: &Value<'_>,
        body: &Expr,
        outer: &Scope<'_>,
    ) -> Result<bool, EvalError> {
        self.expr(body, &Scope::Element { name, value, outer })
    }

    fn with_two(
        &mut self,
        (first, key): (&Option<Box<str>>, &Value<'_>),
        (second, element): (&Option<Box<str>>, &Value<'_>),
        body: &Expr,
        outer: &Scope<'_>,
    ) -> Result<bool, EvalError> {
        match (first, second) {
            (Some(first), Some(second)) => {
                let outer = Scope::Element {
                    name: first,
                    value: key,
                    outer,
                };
                self.with(second, element, body, &outer)
            }
            (Some(first), None) => self.with(first, key, body, outer),
            (None, Some(second)) => self.with(second, element, body, outer),
            (None, None) => self.expr(body, outer),
        }
    }
}

fn no_field(selector: &Selector, part: usize) -> EvalError {
    EvalError::NoField {
        pointer: selector.pointer(),
        part,
        name: selector.parts[part].clone(),
    }
}

/// What an operator answers of a map's key that is not there.
fn of_nothing(op: Op) -> bool {
    match op {
        Op::Equal | Op::In | Op::Matches | Op::NotEmpty | Op::NotNil => false,
        Op::NotEqual | Op::NotIn | Op::NotMatches | Op::Empty | Op::Nil => true,
    }
}

fn holds(test: &Match, value: &Value<'_>, steps: &mut usize) -> Result<bool, EvalError> {
    let positive = match test.op {
        Op::Equal | Op::NotEqual => equal(test, value)?,
        Op::In | Op::NotIn => contains(test, value)?,
        Op::Matches | Op::NotMatches => matches(test, value, steps)?,
        Op::Empty | Op::NotEmpty => is_empty(test, value)?,
        Op::Nil | Op::NotNil => is_nil(test, value)?,
    };
    Ok(positive != test.op.is_negated())
}

fn refused(test: &Match, value: &Value<'_>) -> EvalError {
    EvalError::Operator {
        pointer: test.selector.pointer(),
        operator: test.op.name(),
        kind: value.kind(),
    }
}

fn equal(test: &Match, value: &Value<'_>) -> Result<bool, EvalError> {
    let wanted = &*test.value.text;
    let equal = match value {
        Value::Str(text) => Some(**text == *wanted),
        Value::Bool(value) => text::boolean(wanted).map(|wanted| wanted == *value),
        Value::Int(value) => text::int(wanted)
            .filter(|wanted| i64::try_from(*wanted).is_ok())
            .map(|wanted| wanted == i128::from(*value)),
        Value::Uint(value) => text::int(wanted)
            .filter(|wanted| u64::try_from(*wanted).is_ok())
            .map(|wanted| wanted == i128::from(*value)),
        #[allow(clippy::float_cmp)]
        Value::Float(value) => wanted.parse().ok().map(|wanted: f64| wanted == *value),
        _ => return Err(refused(test, value)),
    };
    equal.ok_or_else(|| EvalError::Value {
        pointer: test.selector.pointer(),
        kind: value.kind(),
        text: wanted.into(),
    })
}

fn contains(test: &Match, value: &Value<'_>) -> Result<bool, EvalError> {
    let wanted = &*test.value.text;
    match value {
        Value::Str(text) => Ok(text.contains(wanted)),
        Value::List(list) => {
            for element in list {
                if equal(test, element)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => Ok(map.iter().any(|(key, _)| **key == *wanted)),
        Value::Nil(Kind::List | Kind::Map) => Ok(false),
        _ => Err(refused(test, value)),
    }
}

fn matches(test: &Match, value: &Value<'_>, steps: &mut usize) -> Result<bool, EvalError> {
    let text = match value {
        Value::Str(text) => text.as_ref().into(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes),
        Value::Nil(Kind::Bytes) => "".into(),
        _ => return Err(refused(test, value)),
    };
    match test.value.pattern() {
        Ok(pattern) => {
            let (is_met, took) = pattern.is_met_in(&text);
            *steps += took;
            Ok(is_met)
        }
        Err(why) => Err(EvalError::Regex {
            pointer: test.selector.pointer(),
            pattern: test.value.text.clone(),
            why: why.clone(),
        }),
    }
}

fn is_empty(test: &Match, value: &Value<'_>) -> Result<bool, EvalError> {
    match value {
        Value::Str(text) => Ok(text.is_empty()),
        Value::List(list) => Ok(list.is_empty()),
        Value::Map(map) => Ok(map.is_empty()),
        Value::Bytes(bytes) => Ok(bytes.is_empty()),
        Value::Nil(Kind::List | Kind::Map | Kind::Bytes) => Ok(true),
        _ => Err(refused(test, value)),
    }
}

fn is_nil(test: &Match, value: &Value<'_>) -> Result<bool, EvalError> {
    match value {
        Value::Nil(_) => Ok(true),
        Value::List(_) | Value::Map(_) | Value::Bytes(_) | Value::Struct(_) => Ok(false),
        _ => Err(refused(test, value)),
    }
}
