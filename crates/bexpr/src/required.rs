//! What a match must have, for a caller that can find objects by a field instead of looking at all of them.

use crate::{
    Filter,
    ast::{Expr, Op},
};

impl Filter {
    /// The texts of which a top-level field must have one for the filter to hold: `(Status == pending or Status == dead) and …` gives the
    /// two. `None`: the filter does not say. An empty list: nothing can match.
    ///
    /// An object that has another value may still lead to an error if it is evaluated; that is then not found out.
    #[must_use]
    pub fn required(&self, field: &str) -> Option<Vec<&str>> {
        required(&self.expr, field)
    }

    /// The top-level fields that it names, each once, in the order they come up. Names that a collection binds may be among them.
    #[must_use]
    pub fn fields(&self) -> Vec<&str> {
        let mut fields = Vec::new();
        names(&self.expr, &mut fields);
        fields
    }
}

fn required<'a>(expr: &'a Expr, field: &str) -> Option<Vec<&'a str>> {
    match expr {
        Expr::Match(test) if test.op == Op::Equal => match &*test.selector.parts {
            [name] if &**name == field => Some(vec![&test.value.text]),
            _ => None,
        },
        Expr::And(terms) => {
            let mut met: Option<Vec<&str>> = None;
            for values in terms.iter().filter_map(|term| required(term, field)) {
                met = Some(match met {
                    None => values,
                    Some(mut both) => {
                        both.retain(|value| values.contains(value));
                        both
                    }
                });
            }
            met
        }
        Expr::Or(terms) => {
            let mut met = Vec::new();
            for term in terms {
                for value in required(term, field)? {
                    if !met.contains(&value) {
                        met.push(value);
                    }
                }
            }
            Some(met)
        }
        Expr::Match(_) | Expr::Not(_) | Expr::Each(_) => None,
    }
}

fn names<'a>(expr: &'a Expr, fields: &mut Vec<&'a str>) {
    let mut add = |selector: &'a crate::Selector| {
        if let Some(first) = selector.parts.first()
            && !fields.contains(&&**first)
        {
            fields.push(first);
        }
    };
    match expr {
        Expr::Match(test) => add(&test.selector),
        Expr::Each(each) => {
            add(&each.selector);
            names(&each.body, fields);
        }
        Expr::Not(inner) => names(inner, fields),
        Expr::And(terms) | Expr::Or(terms) => {
            for term in terms {
                names(term, fields);
            }
        }
    }
}
