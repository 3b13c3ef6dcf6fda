//! Texts and what they mean, and texts that mean nothing and where.

use crate::{EvalError, Kind, Subject, Value, parse};

/// Something with a field of every kind.
pub(super) struct Thing;

impl Subject for Thing {
    fn field(&self, name: &str) -> Option<Value<'_>> {
        Some(match name {
            "ID" => Value::text("my-job"),
            "Name" => Value::text("Shop front"),
            "Status" => Value::text("running"),
            "ParentID" => Value::text(""),
            "Path" => Value::text("a/b"),
            "Stop" => Value::Bool(false),
            "Priority" => Value::Int(-50),
            "Version" => Value::Uint(16),
            "Share" => Value::Float(0.5),
            "Datacenters" => Value::texts(["dc1", "dc2"]),
            "Numbers" => Value::List(vec![Value::Uint(1), Value::Uint(2)]),
            "Spreads" => Value::Nil(Kind::List),
            "Meta" => Value::Map(vec![
                ("owner".into(), Value::text("ann")),
                ("owner-team".into(), Value::text("web")),
                ("empty".into(), Value::text("")),
            ]),
            "Labels" => Value::Nil(Kind::Map),
            "TaskGroups" => Value::List(vec![
                Value::Struct(Box::new(Group("web", 2))),
                Value::Struct(Box::new(Group("db", 1))),
            ]),
            "Periodic" => Value::Nil(Kind::Object),
            "Update" => Value::Struct(Box::new(Group("u", 0))),
            "Payload" => Value::Bytes(b"ab\xff"[..].into()),
            _ => return None,
        })
    }
}

struct Group(&'static str, u64);

impl Subject for Group {
    fn field(&self, name: &str) -> Option<Value<'_>> {
        match name {
            "Name" => Some(Value::text(self.0)),
            "Count" => Some(Value::Uint(self.1)),
            _ => None,
        }
    }
}

fn eval(text: &str) -> Result<bool, String> {
    let filter = parse(text).map_err(|error| error.to_string())?;
    filter.eval(&Thing).map_err(|error| error.to_string())
}

fn all(expected: bool, texts: &[&str]) {
    for text in texts {
        assert_eq!(eval(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_clients_send_is_understood() {
    all(
        true,
        &[
            "Status == running",
            r#"(Status == "pending" or Status == "running")"#,
            r#"Name matches "(?i)shop""#,
            r#"ParentID == """#,
            "dc1 in Datacenters",
            "Stop == false",
            "Name is not empty",
            r#"Name not contains "progress deadline""#,
            "Version != 0",
            "Name contains Shop",
            r#"Status == running and (Stop == False) and Name matches `^S.*t$`"#,
            "Datacenters contains dc2",
            r#""dc1" in Datacenters"#,
            "dc9 not in Datacenters",
            "Datacenters not contains dc9",
        ],
    );
}

#[test]
fn selectors_go_down_by_name_key_index_and_pointer() {
    all(
        true,
        &[
            "Meta.owner == ann",
            r#"Meta["owner-team"] == web"#,
            "Meta[ `owner-team` ] == web",
            r#""/Meta/owner-team" == web"#,
            "TaskGroups.0.Name == web",
            r#""/TaskGroups/1/Count" == 1"#,
            "Update.Name == u",
            "any TaskGroups as tg { tg.Name == db }",
            "all TaskGroups as tg { tg.Count != 0 }",
            "any TaskGroups as i, tg { i == 1 and tg.Name == db }",
            "any TaskGroups as _, tg { tg.Name == db }",
            "any Meta as k { k == owner }",
            "any Meta as k, v { k == owner and v == ann }",
            "all Meta as k, _ { k matches `o|e` }",
            "Stop == true or any Datacenters as d { d == dc2 }",
            "(any Datacenters as d { d == dc2 })",
            "(any Datacenters as d { d == dc2 }) and Stop == false",
            "not (any Datacenters as d { d == dc3 })",
            "any Datacenters as d { any TaskGroups as g { g.Name == web and d == dc1 } }",
        ],
    );
}

#[test]
fn white_space_and_words_are_taken_as_they_stand() {
    all(
        true,
        &[
            "  Status==running\t",
            "Status\n==\r\nrunning",
            "( Status == running )",
            "not Stop == true",
            "not not Status == running",
            "not (Stop == true)",
            "not Status == dead and Stop == false",
            "Stop == false or Stop == true and Stop == true",
        ],
    );
    all(
        false,
        &["not not Stop == true", "not (Stop == false or Foo == 1)"],
    );
}

#[test]
fn values_are_read_as_the_type_they_are_compared_with() {
    all(
        true,
        &[
            "Priority == -50",
            r#"Version == "0x10""#,
            r#"Version == "0o20""#,
            r#"Version == "0b10000""#,
            "Stop == 0",
            "Stop == F",
            "Share == 0.5",
            "2 in Numbers",
            "Numbers contains 1",
            // A pointer counts without its first slash, a raw string does not.
            r#"Path == "/a/b""#,
            "Path != `/a/b`",
            "Name == \"\\u0053hop\\x20front\"",
        ],
    );
    for (text, expected) in [
        ("Stop == yes", r#"/Stop: expected true or false, got "yes""#),
        (
            "Version == -1",
            r#"/Version: expected a number from 0, got "-1""#,
        ),
        (
            "Priority == 1.5",
            r#"/Priority: expected a number, got "1.5""#,
        ),
        (
            r#"Priority == "99999999999999999999""#,
            r#"/Priority: expected a number, got "99999999999999999999""#,
        ),
        (
            "x in Numbers",
            r#"/Numbers: expected a number from 0, got "x""#,
        ),
    ] {
        assert_eq!(eval(text), Err(expected.into()), "{text}");
    }
}

#[test]
fn a_map_key_that_is_not_there_is_no_error() {
    all(
        true,
        &[
            "Meta.x != 1",
            "1 not in Meta.x",
            "Meta.x is empty",
            "Meta.x not matches `a`",
            "Meta.x is nil",
            "all Meta.x as k { k == 1 }",
            "Labels.x != 1",
            "Meta.x.y is empty",
            "owner in Meta",
            "Meta contains owner",
            "none not in Meta",
        ],
    );
    all(
        false,
        &[
            "Meta.x == 1",
            "1 in Meta.x",
            "Meta.x is not empty",
            "Meta.x matches `a`",
            "Meta.x is not nil",
            "any Meta.x as k { k == 1 }",
            "Labels.x == 1",
        ],
    );
}

#[test]
fn a_field_that_is_not_there_is_an_error_if_it_is_looked_at() {
    assert_eq!(
        eval("Foo == 1"),
        Err(r#"error finding value in datum: /Foo at part 0: couldn't find key: struct field with name "Foo""#.into())
    );
    assert_eq!(
        eval("TaskGroups.1.Foo == 1"),
        Err(r#"error finding value in datum: /TaskGroups/1/Foo at part 2: couldn't find key: struct field with name "Foo""#.into())
    );
    all(true, &["Stop == false or Foo == 1"]);
    all(false, &["Stop == true and Foo == 1"]);
    for (text, expected) in [
        (
            "TaskGroups.2.Name == a",
            r#"error finding value in datum: /TaskGroups/2/Name at part 1: index "2" is out of range (length = 2)"#,
        ),
        (
            "Periodic.Enabled == true",
            "error finding value in datum: /Periodic/Enabled at part 1: an object has no parts",
        ),
        (
            "Name.x == a",
            "error finding value in datum: /Name/x at part 1: a text has no parts",
        ),
        (
            "Meta.owner.x == a",
            "error finding value in datum: /Meta/owner/x at part 2: a text has no parts",
        ),
    ] {
        assert_eq!(eval(text), Err(expected.into()), "{text}");
    }
}

#[test]
fn each_operator_by_kind_of_field() {
    const OPS: [&str; 5] = [
        "F == 1",
        "1 in F",
        "F matches `1`",
        "F is empty",
        "F is nil",
    ];
    // t, f, or e for an error
    for (field, expected) in [
        ("Name", "fffFe"),
        ("Datacenters", "efeff"),
        ("Spreads", "efett"),
        ("Meta", "efeff"),
        ("Labels", "efett"),
        ("Stop", "feeee"),
        ("Priority", "feeee"),
        ("Version", "feeee"),
        ("Share", "feeee"),
        ("Payload", "eefff"),
        ("Update", "eeeef"),
        ("Periodic", "eeeet"),
        ("TaskGroups", "eeeff"),
    ] {
        for (op, expected) in OPS.iter().zip(expected.to_lowercase().chars()) {
            let text = op.replace('F', field);
            let met = match eval(&text) {
                Ok(true) => 't',
                Ok(false) => 'f',
                Err(_) => 'e',
            };
            assert_eq!(met, expected, "{text}");
            let negated = parse(&text).map(|filter| {
                let negated = crate::Filter {
                    expr: filter.expr.negated(),
                };
                negated.eval(&Thing)
            });
            match (negated, expected) {
                (Ok(Ok(holds)), _) => assert_eq!(holds, expected == 'f', "not {text}"),
                (Ok(Err(_)), 'e') => {}
                (met, _) => panic!("not {text}: {met:?}"),
            }
        }
    }
}

#[test]
fn a_bad_regex_is_an_error_when_it_is_needed() {
    assert_eq!(
        eval("Name matches `(`"),
        Err(r#"/Name: "(" is no regular expression: unclosed group"#.into())
    );
    all(true, &["Stop == false or Name matches `(`"]);
}

#[test]
fn what_is_no_filter_says_where() {
    for (text, expected) in [
        (
            "",
            "1:1 (0): no match found, expected: \"not\", \"(\", a name, a number, a string, \"any\" or \"all\", met the end",
        ),
        (
            "ID == my-job",
            "1:9 (8): no match found, expected: \"[\", \".\", white space or the end, met '-': a value with a hyphen needs quotes",
        ),
        (
            "Status == 'a'",
            "1:11 (10): no match found, expected: a name, a number or a string, met '\\'': strings are written in \" \" or ` `",
        ),
        ("Status == \"a", "1:11 (10): a string has no closing \""),
        (
            "Name matches \"\\d\"",
            "1:14 (13): a double-quoted string has an invalid escape: write a regex in ` ` instead",
        ),
        (
            "Näme == 1",
            "1:2 (1): no match found, expected: \"[\", \".\", \"==\", \"!=\" or white space, met 'ä'",
        ),
        (
            "Name == \"ä\" &&",
            "1:13 (13): no match found, expected: \"and\", \"or\" or the end, met '&'",
        ),
        (
            "a == b\n  or c",
            "2:7 (13): no match found, expected: \"[\", \".\", \"==\", \"!=\" or white space, met the end",
        ),
        (
            "any X as a, a { a == 1 }",
            "1:10 (9): \"a\" cannot be the name of both",
        ),
    ] {
        let expected = format!("failed to read filter expression: {expected}");
        let met = parse(text).err().map(|error| error.to_string());
        assert_eq!(met, Some(expected), "{text}");
    }
}

#[test]
fn what_only_looks_like_a_filter_is_none() {
    for text in [
        "   ",
        "Status",
        "Status ==",
        "Status = running",
        "Status == running or",
        "or Status == running",
        "(a == 1)and(b == 2)",
        "(a == 1) and(b == 2)",
        "not(a == 1)",
        "a == 1 AND b == 2",
        "a == 1 && b == 2",
        "(a == 1",
        "a == 1)",
        "a is",
        "a is not",
        "a is full",
        "a contains",
        "a == 01",
        "a == 1x",
        "a == 1.",
        "a. == 1",
        "a[1] == 1",
        "_a == 1",
        "any X as x {a == 1} or b == 1",
        "a == 1 and any X as x {a == 1}",
        "not any X as x {a == 1}",
        "any X as _ {a == 1}",
        "any X as _, _ {a == 1}",
        "any X {a == 1}",
        "any X as x a == 1",
        "any X as x {}",
        "a in \"b c\"",
        "\"/a//b\" == 1",
    ] {
        assert!(parse(text).is_err(), "{text} → {:?}", parse(text));
    }
}

#[test]
fn what_a_filter_may_cost_is_bounded() {
    let long = format!("a == `{}`", "x".repeat(crate::FILTER_BYTES_MAX));
    let deep = format!("{}a == 1{}", "(".repeat(1000), ")".repeat(1000));
    let nots = format!("{}a == 1", "not ".repeat(1000));
    let regexes = vec!["a matches b"; crate::REGEXES_MAX + 1].join(" or ");
    for (text, expected) in [
        (&long, "bytes, at most 65536 are read"),
        (&deep, "nested more than 128 levels deep"),
        (&nots, "nested more than 128 levels deep"),
        (&regexes, "more than 32 regexes"),
    ] {
        let met = parse(text).err().map(|error| error.to_string());
        assert!(
            met.as_ref().is_some_and(|met| met.ends_with(expected)),
            "{met:?}"
        );
    }
    // 2 to the 30 elements of elements.
    let nested = (0..30).fold("Foo == 1 or Stop == true".to_owned(), |body, n| {
        format!(
            "any Datacenters as d{n} {{ {} }}",
            if n == 0 {
                "Stop == true".to_owned()
            } else {
                body
            }
        )
    });
    let filter = parse(&nested).unwrap();
    assert!(matches!(filter.eval(&Thing), Err(EvalError::Steps { .. })));
    // A page of thousands of names is fine.
    let many = vec!["Name == x"; 5000].join(" or ");
    assert_eq!(eval(&many), Ok(false));
}

#[test]
fn what_a_match_must_have_is_known() {
    let required = |text: &str, field: &str| {
        parse(text)
            .unwrap()
            .required(field)
            .map(|values| values.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let list = |values: &[&str]| {
        Some(
            values
                .iter()
                .map(|&value| value.to_owned())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(
        required("ParentID == \"nightly\"", "ParentID"),
        list(&["nightly"])
    );
    assert_eq!(
        required("(Status == a or Status == b) and Name matches x", "Status"),
        list(&["a", "b"])
    );
    assert_eq!(
        required("(Status == a or Status == b) and Status == b", "Status"),
        list(&["b"])
    );
    assert_eq!(required("Status == a and Status == b", "Status"), list(&[]));
    assert_eq!(required("Status == a or Name == b", "Status"), None);
    assert_eq!(required("not Status == a", "Status"), None);
    assert_eq!(required("Status != a", "Status"), None);
    assert_eq!(required("Meta.Status == a", "Status"), None);
    assert_eq!(required("any X as Status { Status == a }", "Status"), None);
    assert_eq!(
        parse("Status == a and (Meta.x == 1 or Status == b) and any_ in Name")
            .unwrap()
            .fields(),
        ["Status", "Meta", "Name"]
    );
}
