//! What the bodies hold.

use std::sync::Arc;

use job::JobId;
use serde_json::{Value, json};

use super::{example, ids, jobs, list, made, made_for};
use crate::{
    ask::Viewer,
    bodies::{Agent, ListParams, Query, with_command},
    names,
    testing::{Feed, f58},
};

/// Whether a value is of a type: `s`tring, `i`nteger, `b`ool, `l`ist, `o`bject, `n`ull, or one of several.
fn is_of(value: &Value, types: &str) -> bool {
    types.chars().any(|kind| match kind {
        's' => value.is_string(),
        'i' => value.is_i64() || value.is_u64(),
        'b' => value.is_boolean(),
        'l' => value.is_array(),
        'o' => value.is_object(),
        'n' => value.is_null(),
        other => panic!("{other}"),
    })
}

/// `NAME:TYPES` for each field that must be there.
fn check(value: &Value, fields: &str) {
    for field in fields.split_whitespace() {
        let (name, types) = field.split_once(':').expect("a field");
        let met = value
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {value}"));
        assert!(is_of(met, types), "{name} is {met}, expected {types}");
    }
}

const JOB_STUB: &str = "ID:s ParentID:s Name:s Namespace:s Datacenters:l NodePool:s Multiregion:n Type:s Priority:i Periodic:b ParameterizedJob:b \
    Stop:b Status:s StatusDescription:s JobSummary:o CreateIndex:i ModifyIndex:i JobModifyIndex:i SubmitTime:i Weir:o";
const JOB: &str = "Region:s Namespace:s ID:s ParentID:s Name:s Type:s Priority:i AllAtOnce:b Datacenters:l NodePool:s Constraints:ln Affinities:ln \
    Spreads:ln TaskGroups:l Update:on Multiregion:on Periodic:on ParameterizedJob:on Dispatched:b Payload:sn Meta:on Status:s StatusDescription:s Stable:b \
    Stop:b Version:i SubmitTime:i CreateIndex:i ModifyIndex:i JobModifyIndex:i ConsulNamespace:s VaultNamespace:s NomadTokenID:s Weir:o";
const ALLOC: &str = "ID:s EvalID:s Name:s Namespace:s NodeID:s NodeName:s JobID:s TaskGroup:s DesiredStatus:s DesiredDescription:s ClientStatus:s \
    ClientDescription:s DesiredTransition:o TaskStates:o DeploymentStatus:n FollowupEvalID:s NextAllocation:s RescheduleTracker:n PreemptedAllocations:ln \
    PreemptedByAllocation:s CreateIndex:i ModifyIndex:i CreateTime:i ModifyTime:i";
const NODE_STUB: &str = "Address:s ID:s Datacenter:s Name:s NodePool:s NodeClass:s Version:s Drain:b SchedulingEligibility:s Status:s StatusDescription:s \
    Drivers:o HostVolumes:on LastDrain:on CreateIndex:i ModifyIndex:i";

#[test]
fn every_field_of_the_sets_is_there_with_its_type() {
    let feed = example();
    let all = made(&feed, &jobs(ListParams::default()));
    assert_eq!(all.as_array().map(Vec::len), Some(5));
    for row in all.as_array().expect("rows") {
        check(row, JOB_STUB);
        assert!(row.get("Meta").is_none());
        check(
            &row["JobSummary"],
            "JobID:s Namespace:s Summary:o Children:o CreateIndex:i ModifyIndex:i",
        );
        assert!(row["JobSummary"].get("ClientStatus").is_none());
    }
    let with_meta = made(
        &feed,
        &Query::Jobs {
            list: list(ListParams::default()),
            meta: true,
        },
    );
    assert!(with_meta[0].get("Meta").is_some());
    for id in 100..=104 {
        let job = made(&feed, &Query::Job(Some(JobId(id))));
        check(&job, JOB);
        check(
            &job["TaskGroups"][0],
            "Name:s Count:i Tasks:l Constraints:ln Meta:on",
        );
        check(
            &job["TaskGroups"][0]["Tasks"][0],
            "Name:s Driver:s Resources:o Config:on Env:on",
        );
        assert_eq!(job["ParameterizedJob"].is_object(), id == 103);
        assert_eq!(job["Dispatched"], id == 104);
        let versions = made(&feed, &Query::JobVersions(Some(JobId(id))));
        assert_eq!(versions, json!({"Versions": [job], "Diffs": null}));
    }
    let allocs = made(
        &feed,
        &Query::Allocations {
            list: list(ListParams::default()),
            resources: false,
        },
    );
    assert_eq!(allocs.as_array().map(Vec::len), Some(3));
    for alloc in allocs.as_array().expect("rows") {
        check(alloc, ALLOC);
        check(alloc, "JobType:s JobVersion:i");
        let state = &alloc["TaskStates"]["task"];
        check(
            state,
            "State:s Failed:b Restarts:i LastRestart:s StartedAt:s FinishedAt:s Events:l",
        );
        let whole = made(
            &feed,
            &Query::Allocation(alloc["ID"].as_str().expect("id").into()),
        );
        check(&whole, ALLOC);
        check(
            &whole,
            "Job:n DeploymentID:s PreviousAllocation:s AllocModifyIndex:i",
        );
    }
    let nodes = |resources, os| {
        made(
            &feed,
            &Query::Nodes {
                list: list(ListParams::default()),
                resources,
                os,
            },
        )
    };
    for node in nodes(false, false).as_array().expect("rows") {
        check(node, NODE_STUB);
        assert!(node.get("NodeResources").is_none() && node.get("Attributes").is_none());
        let whole = made(&feed, &Query::Node(node["ID"].as_str().expect("id").into()));
        check(
            &whole,
            "ID:s Attributes:o Meta:on Links:on Events:ln NodeResources:o ReservedResources:o StatusUpdatedAt:i",
        );
        assert_eq!(
            whole,
            made(
                &feed,
                &Query::Node(node["Name"].as_str().expect("name").into())
            )
        );
    }
    check(
        &nodes(true, true)[0],
        "NodeResources:o ReservedResources:o Attributes:o",
    );
    for pool in made(&feed, &Query::NodePools(list(ListParams::default())))
        .as_array()
        .expect("pools")
    {
        check(
            pool,
            "Name:s Description:s Meta:on SchedulerConfiguration:on CreateIndex:i ModifyIndex:i",
        );
    }
    let namespaces = made(&feed, &Query::Namespaces(list(ListParams::default())));
    check(
        &namespaces[0],
        "Name:s Description:s Quota:s Capabilities:on Meta:on Hash:s CreateIndex:i ModifyIndex:i",
    );
}

#[test]
fn what_stands_beside_says_who_answers() {
    let feed = Feed::new();
    let agent = Arc::new(Agent {
        address: "127.0.0.1".into(),
        port: 4646,
        host: "box".into(),
        tokens: true,
    });
    assert_eq!(
        made(&feed, &Query::Leader(agent.clone())),
        json!("127.0.0.1:4646")
    );
    assert_eq!(
        made(&feed, &Query::Peers(agent.clone())),
        json!(["127.0.0.1:4646"])
    );
    assert_eq!(made(&feed, &Query::Regions), json!(["global"]));
    let own = made(&feed, &Query::AgentSelf(agent.clone()));
    assert!(own["config"]["Version"]["Version"].is_string() && own["stats"].is_object());
    assert_eq!(
        (&own["member"]["Name"], &own["config"]["ACL"]["Enabled"]),
        (&json!("box.global"), &json!(true))
    );
    let members = made(&feed, &Query::Members(agent));
    check(&members, "ServerName:s ServerRegion:s ServerDC:s Members:l");
    check(
        &members["Members"][0],
        "Name:s Addr:s Port:i Status:s Tags:o",
    );
    let other = Agent {
        address: "::1".into(),
        port: 1,
        host: "x".into(),
        tokens: false,
    };
    assert_eq!(
        made(&feed, &Query::Leader(Arc::new(other))),
        json!("[::1]:1")
    );
}

#[test]
fn statuses_and_words_are_those_of_the_job() {
    let feed = example();
    let of = |id, key: &str| made(&feed, &Query::Job(Some(JobId(id))))[key].clone();
    for (id, status, kind, stop) in [
        (100, "running", "batch", false),
        (101, "pending", "batch", false),
        (102, "dead", "batch", false),
        (103, "running", "batch", false),
        (104, "pending", "batch", false),
    ] {
        assert_eq!(
            (of(id, "Status"), of(id, "Type"), of(id, "Stop")),
            (status.into(), kind.into(), stop.into()),
            "{id}"
        );
    }
    assert_eq!(
        (of(101, "NodePool"), of(100, "NodePool")),
        ("night".into(), "default".into())
    );
    assert_eq!(of(100, "TaskGroups")[0]["Count"], 2);
    let child = of(104, "ID");
    let child = child.as_str().expect("id");
    assert!(
        child.starts_with(&format!("{}/dispatch-17", f58(103))) && child.ends_with(&f58(104)),
        "{child}"
    );
    assert_eq!(names::parse_job(child), Some(JobId(104)));
    assert_eq!(of(104, "ParentID"), f58(103));
    assert_eq!(
        of(102, "Weir"),
        json!({"State": "INACTIVE", "Result": "FAILED", "Urgency": 16, "Priority": 16, "UserID": 1000})
    );
    let allocs = made(
        &feed,
        &Query::JobAllocations(Some(JobId(102)), list(ListParams::default())),
    );
    assert_eq!(
        (&allocs[0]["ClientStatus"], &allocs[0]["ClientDescription"]),
        (&json!("failed"), &json!("exit code 1"))
    );
    assert_eq!(
        (
            &allocs[0]["TaskStates"]["task"]["State"],
            &allocs[0]["TaskStates"]["task"]["Failed"]
        ),
        (&json!("dead"), &json!(true))
    );
    let happened = &allocs[0]["TaskStates"]["task"]["Events"];
    let words: Vec<_> = happened
        .as_array()
        .expect("events")
        .iter()
        .map(|event| (&event["Type"], &event["ExitCode"], &event["DisplayMessage"]))
        .collect();
    assert_eq!(
        words,
        [
            (
                &json!("Started"),
                &json!(0),
                &json!("its processes were started")
            ),
            (&json!("Terminated"), &json!(1), &json!("exit code 1")),
        ]
    );
    assert_eq!(allocs[0]["Weir"], json!({"Rank": 1, "WaitStatus": 256}));
    assert_eq!(
        (&allocs[0]["NodeName"], &allocs[0]["Name"]),
        (&json!("n1"), &json!(format!("{}.task[0]", f58(102))))
    );
}

#[test]
fn a_summary_counts_what_is_true_now_and_has_a_status_for_every_node() {
    let mut feed = example();
    let (n0, n1) = (names::node("n0"), names::node("n1"));
    let (n0, n1) = (names::text(&n0), names::text(&n1));
    let shop = made(&feed, &Query::Summary(Some(JobId(100))));
    assert_eq!(
        shop["Summary"],
        json!({"task": {"Queued": 0, "Complete": 0, "Failed": 0, "Running": 2, "Starting": 0, "Lost": 0, "Unknown": 0}})
    );
    assert_eq!(
        shop["Children"],
        json!({"Pending": 0, "Running": 0, "Dead": 0})
    );
    let status = &shop["ClientStatus"];
    assert_eq!(status["byNode"], json!({n0: "running", n1: "running"}));
    assert_eq!(status["totalNodes"], 2);
    let nine = [
        "queued",
        "notScheduled",
        "starting",
        "running",
        "complete",
        "degraded",
        "failed",
        "lost",
        "unknown",
    ];
    let by_status = status["byStatus"].as_object().expect("object");
    assert_eq!(by_status.keys().collect::<Vec<_>>(), nine);
    assert!(by_status.values().all(Value::is_array));
    let waits = made(&feed, &Query::Summary(Some(JobId(101))));
    assert_eq!(waits["Summary"]["task"]["Queued"], 1);
    assert!(
        waits["ClientStatus"]["byNode"]
            .as_object()
            .expect("object")
            .values()
            .all(|one| one == "queued")
    );
    let over = made(&feed, &Query::Summary(Some(JobId(102))));
    assert_eq!(
        over["ClientStatus"]["byNode"],
        json!({n0: "notScheduled", n1: "failed"})
    );
    assert_eq!(over["ClientStatus"]["reasons"][n1], "exit code 1");
    let parent = made(&feed, &Query::Summary(Some(JobId(103))));
    assert_eq!(
        parent["Children"],
        json!({"Pending": 1, "Running": 0, "Dead": 0})
    );
    let before = parent["ModifyIndex"].as_u64().expect("index");
    feed.run(104, "0");
    let _changes = feed.fold();
    let parent = made(&feed, &Query::Summary(Some(JobId(103))));
    assert_eq!(
        parent["Children"],
        json!({"Pending": 0, "Running": 1, "Dead": 0})
    );
    assert!(parent["ModifyIndex"].as_u64() > Some(before));
}

#[test]
fn what_is_not_there_is_said_as_clients_expect_it() {
    let feed = example();
    let refused = |query: &Query| {
        let error = made_for(&feed, query, Viewer::OWNER).expect_err("not there");
        (error.status, error.text.to_string())
    };
    for none in [None, Some(JobId(7))] {
        assert_eq!(refused(&Query::Job(none)), (404, "job not found".into()));
        assert_eq!(
            refused(&Query::Summary(none)),
            (404, "job not found".into())
        );
        assert_eq!(
            refused(&Query::JobVersions(none)),
            (404, "job versions not found".into())
        );
        assert_eq!(
            made(
                &feed,
                &Query::JobAllocations(none, list(ListParams::default()))
            ),
            json!([])
        );
    }
    assert_eq!(
        refused(&Query::Deployment),
        (404, "deployment not found".into())
    );
    assert_eq!(
        refused(&Query::Node("n9".into())),
        (404, "node not found".into())
    );
    assert_eq!(
        refused(&Query::Allocation("x".into())),
        (404, "alloc not found".into())
    );
    assert_eq!(made(&feed, &Query::Empty), json!([]));
    assert_eq!(made(&feed, &Query::JobDeployment), Value::Null);
    let elsewhere = ListParams {
        namespace: Some("nope"),
        ..ListParams::default()
    };
    assert_eq!(made(&feed, &jobs(elsewhere)), json!([]));
    assert_eq!(
        made(
            &feed,
            &Query::Allocations {
                list: list(elsewhere),
                resources: false
            }
        ),
        json!([])
    );
    let everywhere = ListParams {
        namespace: Some("*"),
        ..ListParams::default()
    };
    assert_eq!(ids(&made(&feed, &jobs(everywhere))).len(), 5);
}

#[test]
fn nodes_are_up_down_or_drained() {
    let mut feed = example();
    feed.resource(
        "drain",
        r#"{"idset":"0","nodelist":"n0","reason":"disk","overwrite":0,"userid":1000}"#,
    );
    feed.resource(
        "offline",
        r#"{"idset":"1","nodelist":"n1","reason":"no answer"}"#,
    );
    let _changes = feed.fold();
    let n0 = made(&feed, &Query::Node("n0".into()));
    assert_eq!(
        (&n0["Status"], &n0["SchedulingEligibility"], &n0["Drain"]),
        (&json!("ready"), &json!("ineligible"), &json!(true))
    );
    assert_eq!(
        (
            &n0["LastDrain"]["Meta"]["message"],
            &n0["Weir"]["DrainReason"]
        ),
        (&json!("disk"), &json!("disk"))
    );
    let n1 = made(&feed, &Query::Node("n1".into()));
    assert_eq!(
        (&n1["Status"], &n1["StatusDescription"]),
        (&json!("down"), &json!("no answer"))
    );
    let pools = made(&feed, &Query::NodePools(list(ListParams::default())));
    let pools: Vec<_> = pools
        .as_array()
        .expect("pools")
        .iter()
        .map(|pool| pool["Name"].clone())
        .collect();
    assert_eq!(pools, ["all", "big", "default"]);
}

#[test]
fn a_parent_says_what_it_asks_and_a_child_what_it_got() {
    let mut feed = Feed::new();
    let asks = r#""weir":{"parameterized":{"payload":"forbidden","meta_required":["owner"]}},"#;
    feed.submit(103, 1000, "parent", asks);
    for (id, owner) in [(104, "ann"), (105, "bob")] {
        let got = format!(
            r#""weir":{{"parent":103,"dispatch":{{"meta":{{"owner":"{owner}","owner-team":"x\"y"}}}}}},"#
        );
        feed.submit(id, 1000, "parent", &got);
    }
    let _changes = feed.fold();
    let parent = made(&feed, &Query::Job(Some(JobId(103))));
    assert_eq!(
        parent["ParameterizedJob"],
        json!({"Payload": "forbidden", "MetaRequired": ["owner"], "MetaOptional": null})
    );
    assert_eq!(parent["Meta"], Value::Null);
    let child = made(&feed, &Query::Job(Some(JobId(104))));
    assert_eq!(
        (&child["ParameterizedJob"], &child["Meta"]),
        (&Value::Null, &json!({"owner": "ann", "owner-team": "x\"y"}))
    );
    for (filter, expected) in [
        ("Meta.owner == bob", vec![105]),
        ("Meta.owner != bob", vec![103, 104]),
        ("owner in Meta", vec![104, 105]),
        ("any Meta as k, v { k == owner and v == ann }", vec![104]),
        ("ParameterizedJob.Payload == forbidden", vec![]),
        (
            "ParameterizedJob is not nil and owner in ParameterizedJob.MetaRequired",
            vec![103],
        ),
    ] {
        let list = list(ListParams {
            filter,
            ..ListParams::default()
        });
        let met = made_for(&feed, &Query::Jobs { list, meta: true }, Viewer::OWNER);
        match met {
            Ok((page, _)) => {
                let met: Vec<_> = ids(&page)
                    .into_iter()
                    .map(|id| names::parse_job(id).expect("id").0)
                    .collect();
                assert_eq!(met, expected, "{filter}");
            }
            // Walking through the null of a child is an error, as there.
            Err(error) => assert!(
                expected.is_empty() && error.text.contains("/ParameterizedJob/Payload at part 1"),
                "{error}"
            ),
        }
    }
}

#[test]
fn a_command_is_put_into_a_body_by_who_has_it() {
    let mut feed = Feed::new();
    // A name that looks like the place.
    feed.submit(100, 1000, "x", r#""job":{"name":"\"Config\":null"},"#);
    let _changes = feed.fold();
    let jobspec = r#"{"tasks":[{"command":["/bin/sh","-c","echo \"hi\""],"slot":"task"}]}"#;
    for query in [
        Query::Job(Some(JobId(100))),
        Query::JobVersions(Some(JobId(100))),
    ] {
        let body = query
            .make(&feed.projection, Viewer::OWNER)
            .expect("a body")
            .body
            .to_vec();
        let without: Value = serde_json::from_slice(&body).expect("JSON");
        let with = with_command(&body, jobspec).expect("a command");
        let mut with: Value = serde_json::from_slice(&with).expect("JSON");
        let place = match &query {
            Query::Job(_) => "/TaskGroups/0/Tasks/0/Config",
            _ => "/Versions/0/TaskGroups/0/Tasks/0/Config",
        };
        let config = with.pointer_mut(place).expect("the place").take();
        assert_eq!(
            config,
            json!({"command": "/bin/sh", "args": ["-c", "echo \"hi\""]})
        );
        assert_eq!(with, without);
        for none in ["", "{}", r#"{"tasks":[{"command":[]}]}"#] {
            assert_eq!(with_command(&body, none), None, "{none}");
        }
    }
}
