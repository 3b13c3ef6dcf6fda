//! A filter of the HTTP interface: it reads as it was printed, its error lies within it, and what it asks of an object takes a bounded
//! time.

use bexpr::{Expr, Kind, Op, Subject, Value, parse};

/// The longest text a refusal may have beside the filter itself.
const ERROR_BYTES_MAX: usize = 2048;

struct Thing;

impl Subject for Thing {
    fn field(&self, name: &str) -> Option<Value<'_>> {
        Some(match name {
            "ID" | "Name" => Value::text("shop-1"),
            "Status" => Value::text("running"),
            "Stop" => Value::Bool(false),
            "Priority" => Value::Int(-50),
            "Version" => Value::Uint(16),
            "Datacenters" => Value::texts(["dc1", "dc2"]),
            "Meta" => Value::Map(vec![("owner-team".into(), Value::text("web"))]),
            "TaskGroups" => Value::List(vec![Value::Struct(Box::new(Thing))]),
            "Periodic" => Value::Nil(Kind::Object),
            "Payload" => Value::Bytes(b"ab\xff"[..].into()),
            _ => return None,
        })
    }
}

/// Reads a filter and has it evaluated.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let filter = match parse(text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(text.is_char_boundary(error.offset), "{error}");
            let said = error.to_string().len();
            assert!(said <= ERROR_BYTES_MAX + text.len(), "{error}");
            return;
        }
    };
    let printed = filter.to_string();
    assert_eq!(parse(&printed).as_ref(), Ok(&filter), "{printed}");
    let met = filter.eval(&Thing);
    if let (Some(values), Ok(true)) = (filter.required("Status"), &met) {
        assert!(values.contains(&"running"), "{printed}");
    }
    if let Expr::Match(test) = filter.expr()
        && test.op == Op::Equal
        && let Ok(opposite) = parse(&format!("not {printed}"))
    {
        assert_eq!(opposite.eval(&Thing), met.map(|holds| !holds), "{printed}");
    }
}
