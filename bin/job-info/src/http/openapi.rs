//! `/openapi.json`: OpenAPI 3.1, made from the table of routes and the schemas beside this file, once.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::routes::{Content, Id, Methods, ROUTES, Route};

/// `components`: schemas, parameters, security, written by hand.
const COMPONENTS: &str = include_str!("openapi/components.json");

/// The parameters of every read.
const READ: [&str; 13] = [
    "region",
    "stale",
    "prefix",
    "namespace",
    "per_page",
    "next_token",
    "filter",
    "reverse",
    "wait",
    "index",
    "after",
    "epoch",
    "pretty",
];

/// The headers of every read.
const HEADERS: [&str; 6] = [
    "X-Nomad-Index",
    "X-Nomad-LastContact",
    "X-Nomad-KnownLeader",
    "X-Nomad-NextToken",
    "X-Weir-Epoch",
    "X-Weir-Stale",
];

/// The text.
pub(crate) fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| document().to_string())
}

fn document() -> Value {
    // That the file is JSON is tested.
    let components: Value = serde_json::from_str(COMPONENTS).unwrap_or_default();
    let mut paths = Map::new();
    for route in &ROUTES {
        paths.insert(route.path.to_owned(), path(route, &components));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "weir",
            "summary": "Jobs, their allocations and nodes, as they are now",
            "description": "Compatible with Nomad's clients where the paths are Nomad's. Only reads. Specified in rfc/9_http.md.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"nomadToken": []}, {"bearer": []}, {"session": []}],
        "paths": paths,
        "components": components,
    })
}

fn path(route: &Route, components: &Value) -> Value {
    let methods: &[&str] = match route.methods {
        Methods::Get => &["get"],
        Methods::GetPost => &["get", "post"],
        Methods::Post => &["post"],
        Methods::PostDelete => &["post", "delete"],
        // The others mean the same.
        Methods::Any => &["get", "put", "post", "delete"],
    };
    let mut item = Map::new();
    for method in methods {
        item.insert((*method).to_owned(), operation(route, method, components));
    }
    Value::Object(item)
}

fn operation(route: &Route, method: &str, components: &Value) -> Value {
    let mut parameters: Vec<Value> = Vec::new();
    for name in ["id", "rest"] {
        if route.path.contains(&format!("{{{name}}}")) {
            parameters.push(json!({
                "name": name, "in": "path", "required": true, "schema": {"type": "string"},
            }));
        }
    }
    let common = if route.read { &READ[..] } else { &[] };
    for name in common {
        parameters.push(json!({ "$ref": format!("#/components/parameters/{name}") }));
    }
    for name in route.params.iter().filter(|name| !common.contains(name)) {
        parameters.push(
            json!({ "$ref": format!("#/components/parameters/{}", own(route, name, components)) }),
        );
    }
    let mut operation = json!({
        "operationId": format!("{method}{}", words(route.path)),
        "summary": route.about,
        "parameters": parameters,
        "responses": responses(route),
    });
    if let Some(map) = operation.as_object_mut() {
        if route.free {
            map.insert("security".into(), json!([]));
        }
        if method == "post" && route.methods == Methods::GetPost {
            map.insert(
                "requestBody".into(),
                json!({"required": false, "content": {"application/json": {
                    "schema": {"$ref": "#/components/schemas/StatusesRequest"}}}}),
            );
        }
    }
    operation
}

/// A parameter that means something else on this path has the path's last word before its name.
fn own(route: &Route, name: &str, components: &Value) -> String {
    let last = route.path.rsplit('/').next().unwrap_or_default();
    let special = format!("{last}_{name}");
    if components["parameters"].get(&special).is_some() {
        special
    } else {
        name.to_owned()
    }
}

fn responses(route: &Route) -> Value {
    let mut all = Map::new();
    let mut add = |status: &str, about: &str, content: Option<(&str, Value)>| {
        let mut response = json!({ "description": about });
        if let (Some((kind, schema)), Some(map)) = (content, response.as_object_mut()) {
            map.insert("content".into(), json!({ kind: {"schema": schema} }));
            if route.read && status == "200" {
                let named = HEADERS.map(|name| {
                    let to = format!("#/components/headers/{name}");
                    (name.to_owned(), json!({ "$ref": to }))
                });
                map.insert("headers".into(), Value::Object(named.into_iter().collect()));
            }
        }
        all.insert(status.to_owned(), response);
    };
    let text = || Some(("text/plain", json!({"type": "string"})));
    match route.content {
        Content::Json => {
            let schema = match schema(route.path) {
                Some(name) => json!({ "$ref": format!("#/components/schemas/{name}") }),
                None => json!(true),
            };
            add("200", "The answer", Some(("application/json", schema)));
        }
        Content::JsonLines => add(
            "200",
            "A line of JSON each",
            Some(("application/json", json!({"type": "string"}))),
        ),
        Content::EventStream => add(
            "200",
            "Events",
            Some(("text/event-stream", json!({"type": "string"}))),
        ),
        Content::Text if route.id == Id::SearchFuzzy => add("501", "Not built", text()),
        Content::Text => add("200", "Text", text()),
        Content::Html => add(
            "200",
            "The page",
            Some(("text/html", json!({"type": "string"}))),
        ),
        Content::Script => add(
            "200",
            "The script",
            Some(("text/javascript", json!({"type": "string"}))),
        ),
        Content::Style => add(
            "200",
            "The style",
            Some(("text/css", json!({"type": "string"}))),
        ),
        Content::None if route.path.starts_with("/ui") => add("307", "The page is at /", None),
        Content::None => add("204", "Done", None),
    }
    if route.read {
        add(
            "400",
            "A parameter, a filter or the body makes no sense",
            text(),
        );
        add("404", "There is no such thing", text());
        add("500", "A region that is not there, or no list yet", text());
        add(
            "503",
            "Too busy, or the list did not come so far in time; try again",
            text(),
        );
    }
    if !route.free {
        add(
            "403",
            "Permission denied: no token, or none that is good; to a browser that would show it a page that lets it in",
            text(),
        );
    }
    add("405", "Invalid method", text());
    Value::Object(all)
}

/// The schema of a path's answer, where one is written down.
fn schema(path: &str) -> Option<&'static str> {
    Some(match path {
        "/v1/jobs/statuses" => "Statuses",
        "/v1/jobs" => "JobStubs",
        "/v1/job/{id}" => "Job",
        "/v1/job/{id}/summary" => "Summary",
        "/v1/job/{id}/versions" => "JobVersions",
        "/v1/job/{id}/deployment" => "ObjectOrNull",
        "/v1/job/{id}/allocations" | "/v1/allocations" => "AllocationStubs",
        "/v1/allocation/{id}" => "Allocation",
        "/v1/node/{id}/allocations" => "Allocations",
        "/v1/nodes" => "NodeStubs",
        "/v1/node/{id}" => "Node",
        "/v1/node/pools" => "NodePools",
        "/v1/namespaces" => "Namespaces",
        "/v1/agent/self" => "AgentSelf",
        "/v1/agent/members" => "AgentMembers",
        "/v1/status/leader" => "Text",
        "/v1/status/peers" | "/v1/regions" => "Texts",
        "/healthz" => "Health",
        path if path.ends_with("evaluations") || path.ends_with("deployments") => "Objects",
        _ => return None,
    })
}

/// A path as one word: `/v1/job/{id}/summary` is `V1JobIdSummary`.
fn words(path: &str) -> String {
    let parts = path
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty());
    let mut word = String::new();
    for part in parts {
        let (first, rest) = part.split_at(1);
        word.push_str(&first.to_ascii_uppercase());
        word.push_str(rest);
    }
    if word.is_empty() { "Page".into() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `see` with every object in a value.
    fn walk(value: &Value, see: &mut impl FnMut(&Map<String, Value>)) {
        match value {
            Value::Object(map) => {
                see(map);
                map.values().for_each(|value| walk(value, see));
            }
            Value::Array(values) => values.iter().for_each(|value| walk(value, see)),
            _ => {}
        }
    }

    #[test]
    fn the_description_covers_every_route_and_refers_to_nothing_that_is_not_there() {
        let document: Value = serde_json::from_str(text()).expect("JSON");
        serde_json::from_str::<Value>(COMPONENTS).expect("the components are JSON");
        assert_eq!(document["openapi"], "3.1.0");
        let paths = document["paths"].as_object().expect("paths");
        for route in &ROUTES {
            let item = paths[route.path].as_object().expect(route.path);
            let methods: Vec<_> = ["get", "post", "put", "delete"]
                .into_iter()
                .filter(|method| {
                    let method = method.to_ascii_uppercase();
                    route.takes(&method.parse().expect("a method"))
                })
                .collect();
            assert_eq!(item.len(), methods.len(), "{}", route.path);
            for method in methods {
                let operation = &item[method];
                assert!(
                    operation["responses"]
                        .as_object()
                        .is_some_and(|all| all.len() > 1)
                );
                // Every {name} of the path is a parameter of it.
                for name in route
                    .path
                    .split('{')
                    .skip(1)
                    .filter_map(|part| part.split('}').next())
                {
                    let all = operation["parameters"].as_array().expect("parameters");
                    let there = all
                        .iter()
                        .any(|one| one["in"] == "path" && one["name"] == name);
                    assert!(there, "{} {name}", route.path);
                }
            }
        }
        let mut ids = Vec::new();
        let mut refs = Vec::new();
        walk(&document, &mut |map| {
            if let Some(Value::String(to)) = map.get("$ref") {
                refs.push(to.clone());
            }
            if let Some(Value::String(id)) = map.get("operationId") {
                ids.push(id.clone());
            }
        });
        assert!(refs.len() > 100);
        for to in refs {
            let pointer = to.strip_prefix('#').expect("a place in this document");
            assert!(document.pointer(pointer).is_some(), "{to} is not there");
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "operation ids are unique");
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_the_clients_error() {
        let document = document();
        let responses = &document["paths"]["/v1/jobs/statuses"]["get"]["responses"];
        let about = |status: &str| responses[status]["description"].as_str().expect("text");
        assert!(about("400").contains("filter"));
        assert!(!about("500").contains("filter"));
    }

    #[test]
    fn every_parameter_is_one_of_a_query_with_a_schema() {
        let document = document();
        for (name, one) in document["components"]["parameters"]
            .as_object()
            .expect("parameters")
        {
            assert_eq!(one["in"], "query", "{name}");
            assert!(
                one["schema"].is_object() && one["description"].is_string(),
                "{name}"
            );
        }
    }
}
