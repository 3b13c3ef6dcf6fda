//! Jobspecs: derived counts case by case, and input that means harm. Refusals field by field are in `rfc/2_job.md`.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn spec(resources: Value, count: Value, system: Value) -> String {
    json!({
        "resources": [resources],
        "tasks": [{"command": ["app"], "slot": "task", "count": count}],
        "attributes": {"system": system},
        "version": 1,
    })
    .to_string()
}

fn slot(count: u64, cores: u64) -> Value {
    json!({"type":"slot","count":count,"label":"task","with":[{"type":"core","count":cores}]})
}

fn per_slot(count: u64) -> Value {
    json!({"per_slot":count})
}

fn parsed(json: &str) -> Jobspec {
    Jobspec::parse(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}"))
}

#[test]
fn counts_are_derived_as_the_command_line_means_them() {
    let n4_c2 = parsed(&spec(slot(4, 2), per_slot(1), json!({"duration":0})));
    assert_eq!(
        (n4_c2.nslots, n4_c2.ntasks, n4_c2.ncores(), n4_c2.nnodes()),
        (4, 4, Some(8), None)
    );

    let whole_nodes = json!({"type":"node","count":2,"exclusive":true,"with":[slot(1, 1)]});
    let n2 = parsed(&spec(whole_nodes, per_slot(1), json!({})));
    assert_eq!(
        (n2.nslots, n2.ntasks, n2.ncores(), n2.nnodes()),
        (2, 2, None, Some(2))
    );
    assert!(n2.exclusive);

    let nodes = json!({"type":"node","count":2,"with":[slot(2, 1)]});
    let n2_n4 = parsed(&spec(nodes.clone(), per_slot(1), json!({})));
    assert_eq!(
        (n2_n4.nslots, n2_n4.ntasks, n2_n4.ncores()),
        (4, 4, Some(4))
    );
    assert!(!n2_n4.exclusive);

    let options =
        |kind: &str| json!({"shell":{"options":{"per-resource":{"type":kind,"count":3}}}});
    assert_eq!(
        parsed(&spec(nodes.clone(), per_slot(1), options("node"))).ntasks,
        6
    );
    assert_eq!(
        parsed(&spec(slot(4, 2), per_slot(1), options("core"))).ntasks,
        24
    );
    assert_eq!(
        parsed(&spec(nodes, json!({"total":7}), json!({}))).ntasks,
        7
    );
}

#[test]
fn the_name_is_given_or_the_program() {
    let name = |command: &str, system: Value| {
        let mut jobspec: Value =
            serde_json::from_str(&spec(slot(1, 1), per_slot(1), system)).unwrap();
        jobspec["tasks"][0]["command"][0] = json!(command);
        parsed(&jobspec.to_string()).name
    };
    assert_eq!(name("/usr/bin/sleep", json!({})), "sleep");
    assert_eq!(name("sleep", json!({})), "sleep");
    assert_eq!(name("./a/b/", json!({})), "b");
    assert_eq!(name("/", json!({})), "");
    assert_eq!(name("sleep", json!({"job":{"name":"nap"}})), "nap");
    assert_eq!(name("sleep", json!({"job":{}})), "sleep");
}

#[test]
fn streams_that_are_no_files_stay_with_the_log() {
    let options =
        json!({"output":{"stdout":{"type":"kvs"}},"input":{"stdin":{"type":"file","path":"in"}}});
    let json = spec(
        slot(1, 1),
        per_slot(1),
        json!({"shell":{"options":options}}),
    );
    let shell = Jobspec::parse_for_launch(json.as_bytes()).unwrap().1.shell;
    assert_eq!(shell.stdout, None);
    assert_eq!(
        shell.stdin,
        Some(FileSpec {
            path: "in".to_owned(),
            label: false
        })
    );
    assert_eq!(Value::Object(shell.options), options);
}

#[test]
fn hostile_input_is_refused_with_a_clear_error() {
    let deep = format!("{{\"resources\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let very_deep = "[".repeat(1_000_000);
    let good = spec(slot(1, 1), per_slot(1), json!({"duration":5}));
    for (json, error) in [
        (String::new(), "invalid JSON: "),
        (
            "[]".to_owned(),
            "jobspec: expected an object, got an empty array",
        ),
        ("{}".to_owned(), "version: expected 1, but it is missing"),
        (deep, "invalid JSON: nested too deep"),
        (very_deep, "invalid JSON: "),
        (
            good.replace("\"duration\":5", "\"duration\":NaN"),
            "invalid JSON: ",
        ),
        (
            good.replace("\"duration\":5", "\"duration\":1e999"),
            "invalid JSON: number out of range",
        ),
        (
            good.replace("\"duration\":5", "\"environment\":{\"A\":\"x\\u0000y\"}"),
            "attributes.system.environment.A: ",
        ),
        (
            good.replace("\"duration\":5", "\"environment\":{\"A=\":\"x\"}"),
            "attributes.system.environment.A=: ",
        ),
        (
            good.replace("\"duration\":5", "\"environment\":{\"\":\"x\"}"),
            "attributes.system.environment.: ",
        ),
        (good.clone() + "x", "invalid JSON: trailing characters"),
        (good.replace("\"app\"", "\"a\\ud800\""), "invalid JSON: "),
    ] {
        let met = Jobspec::parse(json.as_bytes()).unwrap_err().to_string();
        assert!(met.starts_with(error), "{met}");
        assert!(met.len() < 300, "{met}");
    }
    let large = vec![b' '; JOBSPEC_BYTES_MAX + 1];
    assert_eq!(
        Jobspec::parse(&large).unwrap_err().to_string(),
        "jobspec is too large: 16777217 bytes, expected at most 16777216"
    );
    let long = good.replace(
        "\"duration\":5",
        &format!("\"duration\":{:?}", "x".repeat(100_000)),
    );
    assert!(
        Jobspec::parse(long.as_bytes())
            .unwrap_err()
            .to_string()
            .len()
            < 300
    );
}

#[test]
fn the_environment_is_taken_out_wherever_it_comes_twice() {
    let twice = r#"{"attributes":{"system":{"environment":{"A":"1"},"a":1,"environment":{"B":"2"}}},"environment":{"kept":1}}"#;
    let stripped = strip_environment(twice.as_bytes()).unwrap();
    assert_eq!(
        stripped,
        r#"{"attributes":{"system":{"a":1}},"environment":{"kept":1}}"#
    );
    let value: Value = serde_json::from_str(twice).unwrap();
    assert_eq!(
        without_environment(&value),
        serde_json::from_slice::<Value>(&stripped).unwrap()
    );
    assert_eq!(without_environment(&json!([1])), json!([1]));
}

#[test]
fn a_huge_environment_takes_no_more_than_linear_time() {
    // 400,000 variables: with a look-up for each this test would run for minutes.
    let variables: Vec<String> = (0..400_000).map(|n| format!("\"V{n}\":\"\"")).collect();
    let system = format!("\"system\":{{\"environment\":{{{}}}", variables.join(","));
    let json = spec(slot(1, 1), per_slot(1), json!({})).replace("\"system\":{", &system);
    let (_, launch) = Jobspec::parse_for_launch(json.as_bytes()).unwrap();
    assert_eq!(launch.environment.len(), 400_000);
}

#[test]
fn updates_reach_their_path_or_change_nothing() {
    let mut jobspec = json!({"attributes":{"system":{"duration":1,"x":5}}});
    let updates = |value: Value| value.as_object().unwrap().clone();
    let good = updates(json!({"attributes.system.duration":60.0,"attributes.user.a.b":"c"}));
    apply_updates(&mut jobspec, &good).unwrap();
    let after = json!({"attributes":{"system":{"duration":60.0,"x":5},"user":{"a":{"b":"c"}}}});
    assert_eq!(jobspec, after);
    let bad = updates(json!({"attributes.system.duration":1,"attributes.system.x.y":1}));
    assert_eq!(
        apply_updates(&mut jobspec, &bad).unwrap_err().to_string(),
        "attributes.system.x.y: expected a path through objects, got 5"
    );
    assert_eq!(jobspec, after);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9f64..1e9).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("(attributes|system|environment|.{0,3})", inner), 0..4)
                .prop_map(|all| Value::Object(all.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn stripping_is_that_of_the_value_byte_for_byte(value in any_json()) {
        let stripped = strip_environment(value.to_string().as_bytes()).unwrap();
        prop_assert_eq!(String::from_utf8_lossy(&stripped), without_environment(&value).to_string());
    }

    #[test]
    fn a_field_of_any_content_is_read_or_refused(pointer in "(/version|/resources(/0(/count|/with(/0)?|/type)?)?|/tasks(/0(/command(/0)?|/count|/slot)?)?|/attributes(/system(/duration|/shell)?)?)", value in any_json()) {
        let base = spec(slot(1, 1), per_slot(1), json!({"duration":0,"shell":{}}));
        let mut jobspec: Value = serde_json::from_str(&base).unwrap();
        *jobspec.pointer_mut(&pointer).unwrap() = value;
        let _ = Jobspec::parse(jobspec.to_string().as_bytes());
    }
}
