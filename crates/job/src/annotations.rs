//! Merging of annotations and memos: recursive, null deletes.
//!
//! ```text
//! {"a":{"x":1,"y":2},"b":3}  +  {"a":{"y":null,"z":4},"b":{"c":5}}  =  {"a":{"x":1,"z":4},"b":{"c":5}}
//! ```
//!
//! Objects are merged key by key, anything else replaces what is there. An object that becomes empty
//! disappears with its key, so that deleting is the exact opposite of adding.

use crate::Map;
use serde_json::Value;
use serde_json::map::Entry;

/// Merges `changes` into `target`. Depth is bounded by what the JSON parser lets through.
pub fn merge(target: &mut Map, changes: &Map) {
    for (key, change) in changes {
        match change {
            Value::Null => {
                target.shift_remove(key);
            }
            Value::Object(changes) => merge_object(target, key, changes),
            other => {
                target.insert(key.clone(), other.clone());
            }
        }
    }
}

fn merge_object(target: &mut Map, key: &str, changes: &Map) {
    let empty = match target.entry(key) {
        Entry::Occupied(mut entry) => {
            if !entry.get().is_object() {
                entry.insert(Value::Object(Map::new()));
            }
            entry.get_mut().as_object_mut().is_none_or(|inner| {
                merge(inner, changes);
                inner.is_empty()
            })
        }
        Entry::Vacant(entry) => {
            let mut inner = Map::new();
            merge(&mut inner, changes);
            let empty = inner.is_empty();
            if !empty {
                entry.insert(Value::Object(inner));
            }
            return;
        }
    };
    if empty {
        target.shift_remove(key);
    }
}

/// Merges a memo: the same, under the key `user`.
pub fn merge_memo(target: &mut Map, memo: &Map) {
    merge_object(target, "user", memo);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(target: Value, changes: Value) -> Value {
        let (Value::Object(mut target), Value::Object(changes)) = (target, changes) else {
            panic!("objects");
        };
        merge(&mut target, &changes);
        Value::Object(target)
    }

    #[test]
    fn objects_merge_others_replace_null_deletes() {
        assert_eq!(
            merged(
                json!({"a":{"x":1,"y":2},"b":3}),
                json!({"a":{"y":null,"z":4},"b":{"c":5},"d":null})
            ),
            json!({"a":{"x":1,"z":4},"b":{"c":5}})
        );
        assert_eq!(merged(json!({"a":{"x":1}}), json!({"a":2})), json!({"a":2}));
        assert_eq!(
            merged(json!({"a":[1,2]}), json!({"a":[3]})),
            json!({"a":[3]})
        );
    }

    #[test]
    fn what_becomes_empty_disappears() {
        assert_eq!(
            merged(
                json!({"a":{"b":{"c":1}},"d":1}),
                json!({"a":{"b":{"c":null}}})
            ),
            json!({"d":1})
        );
        assert_eq!(merged(json!({}), json!({"a":{"b":null}})), json!({}));
    }

    #[test]
    fn a_memo_lives_under_user() {
        let mut all = Map::new();
        let Value::Object(memo) = json!({"note":"x"}) else {
            panic!("object")
        };
        merge_memo(&mut all, &memo);
        assert_eq!(Value::Object(all.clone()), json!({"user":{"note":"x"}}));
        let Value::Object(memo) = json!({"note":null}) else {
            panic!("object")
        };
        merge_memo(&mut all, &memo);
        assert!(all.is_empty());
    }
}
