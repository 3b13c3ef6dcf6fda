//! Which rows a list shows, in which order and on which page, and to whom.

use job::JobId;
use serde_json::json;

use super::{example, ids, jobs, list, made, made_for};
use crate::{
    ask::Viewer,
    bodies::{List, ListParams, Query},
    names,
    testing::{Feed, f58, guest},
};

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
fn what_an_index_finds_is_what_looking_at_all_finds() {
    let mut feed = Feed::new();
    for id in 1..=60 {
        let queue = if id % 3 == 0 {
            r#""queue":"night","#
        } else {
            ""
        };
        feed.submit(
            id * 100,
            1000 + u32::try_from(id % 4).expect("small"),
            if id % 2 == 0 { "a" } else { "b" },
            queue,
        );
    }
    for id in [200, 300, 400, 500] {
        feed.run(id, "0");
    }
    feed.end(300, 0);
    feed.end(400, 0);
    feed.submit(6100, 1001, "p", r#""weir":{"parameterized":{}},"#);
    feed.cancel(1000);
    let _changes = feed.fold();
    for (by_index, by_looking) in [
        ("Name == a", "Name matches `^a$`"),
        (
            "Name == a and NodePool == night",
            "not (Name != a or NodePool != night)",
        ),
        ("NodePool == night", "NodePool matches `^night$`"),
        ("NodePool == default", "not NodePool == night"),
        ("Name == a or Name == b", "Name != p"),
        ("Name == c", "Name == a and Name == b"),
        ("Status == running", "Status matches `^running$`"),
        ("Status == dead", "Status matches `^dead$`"),
        ("Status == pending or Status == dead", "Status != running"),
        ("Status == none", "Name == a and Name == b"),
        (
            "Name == \"\" or NodePool == night",
            "NodePool matches `^night$`",
        ),
    ] {
        for viewer in [Viewer::OWNER, guest(1001)] {
            for (reverse, per_page) in [(false, 0), (true, 0), (false, 3), (true, 3)] {
                let all = |filter: &str| {
                    let (mut met, mut token) = (Vec::new(), String::new());
                    loop {
                        let params = ListParams {
                            filter,
                            reverse,
                            per_page,
                            next_token: &token,
                            ..ListParams::default()
                        };
                        let (page, next) = made_for(&feed, &jobs(params), viewer).expect("a page");
                        met.extend(ids(&page).into_iter().map(str::to_owned));
                        match next {
                            Some(next) => token = next,
                            None => return met,
                        }
                    }
                };
                assert_eq!(all(by_index), all(by_looking), "{by_index}");
            }
        }
    }
}
