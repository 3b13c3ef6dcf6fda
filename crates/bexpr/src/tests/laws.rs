//! What holds of all filters.

use super::cases::Thing;
use crate::{Bindings, Each, Expr, Filter, Literal, Match, Op, Quantifier, Selector, parse};
use proptest::prelude::*;

fn part() -> impl Strategy<Value = Box<str>> {
    prop_oneof![
        4 => prop::sample::select(vec!["Name", "Status", "Meta", "Datacenters", "TaskGroups", "Stop", "Foo", "owner", "x"]),
        1 => prop::sample::select(vec!["not", "in", "is", "any", "all", "as", "contains", "matches", "empty", "nil", "and", "or"]),
        1 => prop::sample::select(vec!["0", "17", "a/b", "x_1"]),
    ]
    .prop_map(Into::into)
}

fn selector() -> impl Strategy<Value = Selector> {
    let name = part().prop_filter("starts a selector", |part| crate::print::is_name(part));
    let rest = prop_oneof![3 => part(), 1 => "\\PC{0,4}".prop_map(Into::into)];
    (name, prop::collection::vec(rest, 0..3)).prop_map(|(first, rest)| Selector {
        parts: std::iter::once(first).chain(rest).collect(),
    })
}

fn test() -> impl Strategy<Value = Expr> {
    let ops = [
        Op::Equal,
        Op::NotEqual,
        Op::In,
        Op::NotIn,
        Op::Matches,
        Op::NotMatches,
        Op::Empty,
        Op::NotEmpty,
        Op::Nil,
        Op::NotNil,
    ];
    let value = prop_oneof![
        "[a-z]{0,3}",
        "\\PC{0,6}",
        "[/\"\\\\`\n~ -]{0,4}",
        "-?[0-9]{1,3}"
    ];
    (selector(), prop::sample::select(ops.to_vec()), value).prop_map(|(selector, op, value)| {
        let takes_value = !matches!(op, Op::Empty | Op::NotEmpty | Op::Nil | Op::NotNil);
        Expr::Match(Match {
            selector,
            op,
            value: if takes_value {
                Literal::from(&*value)
            } else {
                Literal::default()
            },
        })
    })
}

fn bindings() -> impl Strategy<Value = Bindings> {
    let name = || prop::sample::select(vec!["k", "x", "in", "Name"]).prop_map(Box::<str>::from);
    prop_oneof![
        name().prop_map(Bindings::One),
        (prop::option::of(name()), prop::option::of(Just("v".into())))
            .prop_filter("one is named", |(a, b)| a.is_some() || b.is_some())
            .prop_map(|(a, b)| Bindings::Two(a, b)),
    ]
}

fn expr() -> impl Strategy<Value = Expr> {
    test().prop_recursive(4, 24, 4, |inner| {
        let terms = || prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            terms().prop_map(Expr::all_of),
            terms().prop_map(Expr::one_of),
            inner.clone().prop_map(Expr::negated),
            (any::<bool>(), selector(), bindings(), inner.clone()).prop_map(
                |(any, selector, bindings, body)| {
                    Expr::Each(Box::new(Each {
                        quantifier: if any {
                            Quantifier::Any
                        } else {
                            Quantifier::All
                        },
                        selector,
                        bindings,
                        body,
                    }))
                }
            ),
        ]
    })
}

fn outcome(expr: &Expr) -> Option<bool> {
    let filter = Filter { expr: expr.clone() };
    filter.eval(&Thing).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_filter_reads_as_it_was_printed(expr in expr()) {
        let filter = Filter { expr };
        let text = filter.to_string();
        let read = parse(&text);
        prop_assert_eq!(read.as_ref(), Ok(&filter), "{}", text);
    }

    #[test]
    fn not_is_its_own_inverse_and_the_opposite(expr in expr()) {
        prop_assert_eq!(expr.clone().negated().negated(), expr.clone());
        prop_assert_eq!(outcome(&expr.clone().negated()), outcome(&expr).map(|holds| !holds));
    }

    #[test]
    fn and_and_or_are_what_they_are_of_each_other_by_not(a in expr(), b in expr()) {
        let both = Expr::all_of(vec![a.clone(), b.clone()]);
        let either = Expr::one_of(vec![a.clone(), b.clone()]);
        let (x, y) = (outcome(&a), outcome(&b));
        prop_assert_eq!(outcome(&both), match x { Some(true) => y, other => other });
        prop_assert_eq!(outcome(&either), match x { Some(false) => y, other => other });
        let by_not = Expr::one_of(vec![a.negated(), b.negated()]).negated();
        prop_assert_eq!(outcome(&both), outcome(&by_not));
    }

    #[test]
    fn any_text_is_a_filter_or_an_error_within_it(text in "[ a-zA-Z\"`(){}\\[\\]=!.,/~|_0-9\\\\é\n-]{0,40}") {
        match parse(&text) {
            Ok(filter) => {
                let printed = filter.to_string();
                prop_assert_eq!(parse(&printed), Ok(filter), "{}", printed);
            }
            Err(error) => {
                prop_assert!(error.offset <= text.len() && text.is_char_boundary(error.offset));
                prop_assert!(error.line >= 1 && error.column >= 1);
            }
        }
    }

    #[test]
    fn words_in_any_order_are_a_filter_or_an_error(words in prop::collection::vec(prop::sample::select(vec![
        "a", "Name", "not", "and", "or", "in", "is", "empty", "nil", "contains", "matches", "any", "all", "as", "x", "(", ")", "{", "}",
        "==", "!=", "\"v\"", "`r`", "\"/Meta/x\"", "\"\"", "1", "-2", "_", ",", "Meta.x",
    ]), 0..14)) {
        let text = words.join(" ");
        if let Ok(filter) = parse(&text) {
            let printed = filter.to_string();
            prop_assert_eq!(parse(&printed), Ok(filter.clone()), "{} → {}", text, printed);
            let _ = filter.eval(&Thing);
        }
    }

    #[test]
    fn what_is_required_is_had_by_all_that_match(expr in expr()) {
        let filter = Filter { expr };
        if let (Some(values), Ok(true)) = (filter.required("Status"), filter.eval(&Thing)) {
            prop_assert!(values.contains(&"running"), "{}", filter);
        }
    }
}
