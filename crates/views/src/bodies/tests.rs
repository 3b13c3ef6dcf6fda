//! What the bodies hold, in which order and on which page, and who sees what.

use std::sync::Arc;

use job::JobId;
use serde_json::{Value, json};

use super::{Agent, List, ListParams, Query};
use crate::{
    answer::HttpError,
    ask::Viewer,
    names,
    testing::{Feed, f58, guest},
};

fn made_for(
    feed: &Feed,
    query: &Query,
    viewer: Viewer,
) -> Result<(Value, Option<String>), HttpError> {
    let made = query.make(&feed.projection, viewer)?;
    let text = made.body.to_vec();
    let value = serde_json::from_slice(&text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&text)));
    Ok((value, made.next_token.map(|token| token.to_string())))
}

fn made(feed: &Feed, query: &Query) -> Value {
    made_for(feed, query, Viewer::OWNER).expect("a body").0
}

fn list(params: ListParams<'_>) -> List {
    List::new(&params).expect("a list")
}

fn jobs(params: ListParams<'_>) -> Query {
    Query::Jobs {
        list: list(params),
        meta: false,
    }
}

fn ids(list: &Value) -> Vec<&str> {
    let all = list.as_array().expect("a list").iter();
    all.map(|row| row["ID"].as_str().expect("an id")).collect()
}

/// Two nodes; a job that runs on both, one that waits, one that is over, a parent with a child, all of user 1000 but the waiting one.
fn example() -> Feed {
    let mut feed = Feed::new();
    feed.nodes("0-1", r#"{"big":"1"}"#);
    feed.submit(100, 1000, "shop", "");
    feed.run(100, "0-1");
    feed.submit(101, 1001, "wait", r#""queue":"night","#);
    feed.submit(102, 1000, "over", "");
    feed.run(102, "1");
    feed.end(102, 256);
    feed.submit(
        103,
        1000,
        "parent",
        r#""weir":{"parameterized":{"payload":"optional"}},"#,
    );
    feed.submit(
        104,
        1000,
        "parent",
        r#""weir":{"parent":103,"dispatch":{}},"#,
    );
    let _changes = feed.fold();
    feed
}

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
fn a_list_is_paged_and_every_row_comes_once() {
    let mut feed = Feed::new();
    feed.nodes("0-3", "{}");
    for id in 1..=30 {
        feed.submit(id * 1000, 1000, "a", "");
    }
    for id in [7, 3, 20] {
        feed.run(id * 1000, "0-3");
    }
    let _changes = feed.fold();
    for reverse in [false, true] {
        for per_page in [1, 2, 7, 29, 30, 31] {
            let kinds: [fn(List) -> Query; 4] = [
                |list| Query::Jobs { list, meta: false },
                |list| Query::Allocations {
                    list,
                    resources: false,
                },
                |list| Query::JobAllocations(Some(JobId(3000)), list),
                |list| Query::Nodes {
                    list,
                    resources: false,
                    os: false,
                },
            ];
            for (kind, total) in kinds.iter().zip([30, 12, 4, 4]) {
                let mut met: Vec<String> = Vec::new();
                let mut token = String::new();
                loop {
                    let params = ListParams {
                        per_page,
                        reverse,
                        next_token: &token,
                        ..ListParams::default()
                    };
                    let (page, next) =
                        made_for(&feed, &kind(list(params)), Viewer::OWNER).expect("a page");
                    let page = ids(&page);
                    assert!(page.len() <= usize::try_from(per_page).expect("small"));
                    met.extend(page.into_iter().map(str::to_owned));
                    match next {
                        Some(next) => token = next,
                        None => break,
                    }
                }
                let params = ListParams {
                    reverse,
                    ..ListParams::default()
                };
                let (whole, next) =
                    made_for(&feed, &kind(list(params)), Viewer::OWNER).expect("all");
                assert_eq!((met.len(), next), (total, None));
                assert_eq!(met, ids(&whole));
            }
        }
    }
    let by_id = made(
        &feed,
        &jobs(ListParams {
            per_page: 2,
            ..ListParams::default()
        }),
    );
    assert_eq!(ids(&by_id), [f58(1000), f58(2000)]);
    let allocs = made(
        &feed,
        &Query::Allocations {
            list: list(ListParams::default()),
            resources: false,
        },
    );
    let of_jobs: Vec<_> = allocs
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["JobID"].clone())
        .collect();
    // By the entry that made them.
    assert_eq!(
        (&of_jobs[0], &of_jobs[4], &of_jobs[8]),
        (&json!(f58(7000)), &json!(f58(3000)), &json!(f58(20000)))
    );
    for token in ["x", "default.", "5.x", "zz-1"] {
        let params = ListParams {
            next_token: token,
            ..ListParams::default()
        };
        for query in [
            Query::Allocations {
                list: list(params),
                resources: false,
            },
            Query::JobAllocations(Some(JobId(3000)), list(params)),
            Query::Nodes {
                list: list(params),
                resources: false,
                os: false,
            },
        ] {
            let error = made_for(&feed, &query, Viewer::OWNER).expect_err("no token");
            assert!(
                error.status == 400 && error.text.contains("none of this list"),
                "{error}"
            );
        }
    }
    let negative = List::new(&ListParams {
        per_page: -1,
        ..ListParams::default()
    });
    assert_eq!(negative.expect_err("negative").status, 400);
}

#[test]
fn a_prefix_is_of_the_id() {
    let feed = example();
    let prefix = |prefix| ListParams {
        prefix,
        ..ListParams::default()
    };
    let parent = f58(103);
    let met = made(&feed, &jobs(prefix(&parent)));
    assert_eq!(ids(&met).len(), 2, "the parent and its child: {met}");
    assert_eq!(ids(&made(&feed, &jobs(prefix("zzz")))), [""; 0]);
    let id = names::allocation(JobId(100), 0, 1);
    let id = names::text(&id);
    let allocs = |prefix_text| {
        made(
            &feed,
            &Query::Allocations {
                list: list(prefix(prefix_text)),
                resources: false,
            },
        )
    };
    assert_eq!(ids(&allocs(id)), [id]);
    assert_eq!(ids(&allocs(&id[..20])).len(), 2);
    assert_eq!(ids(&allocs("x")).len(), 0);
    let node = names::node("n0");
    let node = &names::text(&node)[..8];
    let met = made(
        &feed,
        &Query::Nodes {
            list: list(prefix(node)),
            resources: false,
            os: false,
        },
    );
    assert_eq!(met[0]["Name"], "n0");
    let pools = made(&feed, &Query::NodePools(list(prefix("b"))));
    assert_eq!(pools.as_array().map(|pools| pools.len()), Some(1));
}

#[test]
fn a_filter_sees_the_fields_of_nomads_objects() {
    let feed = example();
    let count = |filter: &str| {
        let list = list(ListParams {
            filter,
            ..ListParams::default()
        });
        made_for(&feed, &Query::Jobs { list, meta: false }, Viewer::OWNER)
            .map(|(page, _)| ids(&page).len())
            .map_err(|error| (error.status, error.text.to_string()))
    };
    for (filter, expected) in [
        ("Status == running", 2),
        ("(Status == pending or Status == dead)", 3),
        ("(Type == batch or Type == sysbatch)", 5),
        ("NodePool == night", 1),
        ("Namespace == default", 5),
        ("Name matches \"(?i)SHOP\"", 1),
        ("ParentID == \"\"", 4),
        ("ParentID is not empty", 1),
        ("Stop == false", 5),
        ("Version != 0", 0),
        ("Priority == 16", 5),
        ("Meta.owner is empty", 5),
        ("\"*\" in Datacenters", 5),
        ("ParameterizedJob is not nil", 1),
        (
            "any TaskGroups as group { group.Name == task and group.Count == 2 }",
            1,
        ),
        ("Weir.State == SCHED", 2),
        ("Weir.Result == FAILED", 1),
        ("Weir.UserID == 1001", 1),
    ] {
        assert_eq!(count(filter), Ok(expected), "{filter}");
    }
    let (shop, parent) = (f58(100), f58(103));
    assert_eq!(count(&format!("ID == \"{shop}\"")), Ok(1));
    assert_eq!(count(&format!("ParentID == \"{parent}\"")), Ok(1));
    assert_eq!(
        count(&format!(
            "ParentID == \"{parent}\" or ParentID == \"{shop}\" or ParentID == \"nightly\""
        )),
        Ok(1)
    );
    assert_eq!(count("ParentID == \"nightly\""), Ok(0));
    let fields = "ID Name Namespace ParentID Region Type NodePool Status StatusDescription ConsulNamespace VaultNamespace NomadTokenID \
        DispatchIdempotencyToken Stop AllAtOnce Dispatched Stable Priority SubmitTime Version CreateIndex ModifyIndex JobModifyIndex Datacenters \
        TaskGroups Constraints Affinities Spreads Meta Update Periodic ParameterizedJob Multiregion UI VersionTag Payload";
    for field in fields.split_whitespace() {
        // Every field can be asked for something.
        let asked = ["is empty", "is nil", "== 1"]
            .iter()
            .any(|test| count(&format!("{field} {test}")).is_ok());
        assert!(asked, "{field}");
    }
    for field in [
        "GroupCountSum",
        "Allocs",
        "ChildStatuses",
        "LatestDeployment",
        "IsPack",
        "Foo",
    ] {
        let (status, text) = count(&format!("{field} == 1")).expect_err(field);
        let expected = format!("couldn't find key: struct field with name \"{field}\"");
        assert!(
            status == 400
                && text.starts_with("failed to read result page: ")
                && text.contains(&expected),
            "{text}"
        );
    }
    let bad = List::new(&ListParams {
        filter: "ID == my-job",
        ..ListParams::default()
    })
    .expect_err("a hyphen");
    assert!(
        bad.status == 400 && bad.text.contains("failed to read filter expression"),
        "{bad}"
    );
    let of = |query: fn(List) -> Query, filter: &str| {
        let list = list(ListParams {
            filter,
            ..ListParams::default()
        });
        ids(&made(&feed, &query(list))).len()
    };
    let allocs = |list| Query::Allocations {
        list,
        resources: false,
    };
    assert_eq!(
        of(allocs, "ClientStatus == running and TaskGroup == task"),
        2
    );
    assert_eq!(
        of(
            allocs,
            "NodeName == n1 and Job.Status == dead and DesiredStatus == run"
        ),
        1
    );
    let nodes = |list| Query::Nodes {
        list,
        resources: false,
        os: false,
    };
    assert_eq!(
        of(
            nodes,
            "Status == ready and Drain == false and Attributes[\"cpu.numcores\"] == 4"
        ),
        2
    );
    assert_eq!(of(nodes, "NodePool == big"), 1);
}

#[test]
fn a_guest_of_a_private_instance_sees_own_jobs_only() {
    let feed = example();
    let seen = |query: &Query| made_for(&feed, query, guest(1001));
    let all = jobs(ListParams::default());
    assert_eq!(ids(&seen(&all).expect("jobs").0), [f58(101)]);
    assert_eq!(
        seen(&Query::Job(Some(JobId(100))))
            .expect_err("hidden")
            .text
            .as_ref(),
        "job not found"
    );
    assert!(seen(&Query::Job(Some(JobId(101)))).is_ok());
    let allocs = Query::Allocations {
        list: list(ListParams::default()),
        resources: false,
    };
    assert_eq!(seen(&allocs).expect("allocations").0, json!([]));
    assert_eq!(
        seen(&Query::NodeAllocations("n1".into()))
            .expect("allocations")
            .0,
        json!([])
    );
    assert_eq!(
        ids(&made(&feed, &Query::NodeAllocations("n1".into()))).len(),
        2
    );
    let shop = Query::JobAllocations(Some(JobId(100)), list(ListParams::default()));
    assert_eq!(seen(&shop).expect("none").0, json!([]));
    let id = names::allocation(JobId(100), 0, 1);
    assert_eq!(
        seen(&Query::Allocation(names::text(&id).into()))
            .expect_err("hidden")
            .status,
        404
    );
    // The command of a job is shown to nobody: it is not in the list.
    let text = String::from_utf8(
        Query::Job(Some(JobId(100)))
            .make(&feed.projection, Viewer::OWNER)
            .expect("job")
            .body
            .to_vec(),
    );
    assert!(!text.expect("UTF-8").contains("command"));
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
