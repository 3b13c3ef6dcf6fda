//! What a row says.

use serde_json::{Value, json};

use super::world::{Page, World, ids, json, spec};

fn row(world: &mut World, id: u64) -> Value {
    let page = Page {
        children: true,
        ..Page::list(&[id])
    };
    let answer = world.get(&page);
    json(&answer)[0].clone()
}

#[test]
fn a_row_has_every_field_of_nomads_and_the_null_rules() {
    let mut world = World::new();
    let entries = world.submit(0x0102_0304_0506);
    world.play(&entries);
    let id = job::JobId(0x0102_0304_0506).f58(true);
    let pending = row(&mut world, 0x0102_0304_0506);
    assert_eq!(
        pending,
        json!({
            "ID": id, "Namespace": "default", "Name": format!("job{}", 0x0102_0304_0506_u64 % 3), "Type": "batch",
            "NodePool": "default", "Status": "pending", "ParentID": "", "Datacenters": ["*"], "Priority": 16, "Version": 0,
            "SubmitTime": 1_790_000_000_500_000_000_i64, "ModifyIndex": 2, "GroupCountSum": 1, "Stop": false,
            "IsPack": false, "LatestDeployment": null, "ChildStatuses": null, "Allocs": null,
            "Weir": {"ID": id, "State": "SCHED", "Result": null, "Urgency": 16, "Priority": 16, "UserID": 1000}
        }),
        "{pending}"
    );
    let entries = world.run(0x0102_0304_0506, "7");
    world.play(&entries);
    let running = row(&mut world, 0x0102_0304_0506);
    assert_eq!(
        running["Allocs"],
        json!([{
            "ID": "00000102-0304-0506-0000-000000000007", "Group": "task", "NodeID": crate::names::text(&crate::names::node("n7")),
            "ClientStatus": "running", "JobVersion": 0, "FollowupEvalID": "", "HasPausedTask": false,
            "DeploymentStatus": {"Canary": false, "Healthy": null}
        }])
    );
    assert_eq!(
        (&running["Status"], &running["ModifyIndex"]),
        (&json!("running"), &json!(5))
    );
    let entries = world.end(0x0102_0304_0506, 256);
    world.play(&entries);
    let dead = row(&mut world, 0x0102_0304_0506);
    assert_eq!(dead["Allocs"][0]["ClientStatus"], json!("failed"));
    assert_eq!(
        (&dead["Status"], &dead["Stop"]),
        (&json!("dead"), &json!(false))
    );
    assert_eq!(dead["Weir"]["Result"], json!("FAILED"));
}

#[test]
fn a_stopped_job_says_so() {
    let mut world = World::new();
    let entries = [world.submit(5), world.run(5, "0"), world.cancel(5)].concat();
    world.play(&entries);
    let row = row(&mut world, 5);
    assert_eq!(
        (&row["Status"], &row["Stop"]),
        (&json!("running"), &json!(true))
    );
}

#[test]
fn parents_have_child_statuses_and_children_a_parent_id() {
    let mut world = World::new();
    let entries = world.parent(10);
    world.play(&entries);
    let alone = row(&mut world, 10);
    assert_eq!(
        (
            &alone["ChildStatuses"],
            &alone["Allocs"],
            &alone["LatestDeployment"]
        ),
        (&json!([]), &Value::Null, &Value::Null)
    );
    assert_eq!(alone["Status"], json!("running"));
    let entries = [
        world.child(11, 10),
        world.child(12, 10),
        world.run(12, "1"),
        world.child(13, 10),
        world.cancel(13),
    ]
    .concat();
    world.play(&entries);
    assert_eq!(
        row(&mut world, 10)["ChildStatuses"],
        json!(["pending", "running", "pending"])
    );
    let child = row(&mut world, 12);
    let own = job::JobId(12).f58(true);
    let parent = job::JobId(10).f58(true);
    assert_eq!(child["ParentID"], json!(parent));
    let id = child["ID"].as_str().expect("an ID");
    assert!(
        id.starts_with(&format!("{parent}/dispatch-17900000")) && id.ends_with(&own),
        "{id}"
    );
    assert_eq!(
        (&child["ChildStatuses"], &child["Weir"]["ID"]),
        (&Value::Null, &json!(own))
    );
    assert_eq!(child["Allocs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn all_allocations_are_listed_by_id_however_many() {
    let mut world = World::new();
    let entries = [
        world.define("0-2999"),
        world.submit_as(5, 1000, &spec("wide", 3000, "")),
        world.run(5, "0-2999"),
        world.alloc_status(5, "17,300-310,2999", "failed"),
    ]
    .concat();
    world.play(&entries);
    let before = row(&mut world, 5);
    let allocs = before["Allocs"].as_array().expect("an array");
    assert_eq!(
        (allocs.len(), &before["GroupCountSum"]),
        (3000, &json!(3000))
    );
    for (rank, alloc) in (0u32..).zip(allocs) {
        let failed = rank == 17 || (300..=310).contains(&rank) || rank == 2999;
        assert_eq!(
            alloc["ClientStatus"],
            json!(if failed { "failed" } else { "running" })
        );
        let id = crate::names::allocation(job::JobId(5), 0, rank);
        assert_eq!(alloc["ID"], json!(crate::names::text(&id)));
        let node = crate::names::node(&format!("n{rank}"));
        assert_eq!(alloc["NodeID"], json!(crate::names::text(&node)));
    }
    let counts = Page {
        counts: true,
        ..Page::default()
    };
    let answer = world.get(&counts);
    let counted = json(&answer)[0].clone();
    assert_eq!(
        counted["AllocCounts"],
        json!({"pending": 0, "running": 2987, "complete": 0, "failed": 13, "lost": 0, "unknown": 0})
    );
    assert_eq!(
        (counted.get("Allocs"), &counted["ChildCounts"]),
        (None, &Value::Null)
    );

    // One of them changes: one chunk is written, the others are the same bytes as before.
    let page = Page::default();
    let old = world.get(&page);
    let entries = world.alloc_status(5, "1000", "failed");
    world.play(&entries);
    let new = world.get(&page);
    let shared = |of: &crate::Answer| -> Vec<*const u8> {
        let large = of
            .body
            .pieces()
            .iter()
            .filter(|piece| piece.len() > 16 << 10);
        large.map(|piece| piece.as_ptr()).collect()
    };
    let (old, new) = (shared(&old), shared(&new));
    let differ = old.iter().zip(&new).filter(|(old, new)| old != new).count();
    assert_eq!(
        (old.len(), new.len(), differ),
        (3000_usize.div_ceil(256), 3000_usize.div_ceil(256), 1)
    );
}

#[test]
fn jobs_that_are_not_accepted_yet_are_not_listed() {
    let mut world = World::new();
    let context = r#"{"userid":1000,"urgency":16,"flags":0,"version":1}"#;
    let jobspec = format!("\"jobspec\":{}", spec("x", 1, ""));
    let entries = [world.entry(5, "submit", context, &jobspec)];
    world.play(&entries);
    assert_eq!(ids(&world.get(&Page::default())), [0u64; 0]);
}

#[test]
fn what_is_wide_is_written_before_it_is_asked_for() {
    let mut world = World::new();
    let wide = |world: &mut World, id| {
        let entries = [
            world.submit_as(id, 1000, &spec("wide", 3000, "")),
            world.run(id, "0-2999"),
        ]
        .concat();
        world.play(&entries);
        assert_eq!(world.woken(), [0u64; 0]);
        world.views.stats()
    };
    let stats = wide(&mut world, 6);
    assert!(
        stats.rows_made == 1 && stats.cache_bytes > 3000 * 200,
        "{stats:?}"
    );
    let entries = world.alloc_status(6, "1000", "failed");
    world.play(&entries);
    assert!(world.views.has_ready());
    let ahead = row(&mut world, 6);
    world.views = crate::Views::new(crate::Limits::default());
    assert_eq!(ahead, row(&mut world, 6));
    // A daemon that begins with it.
    world.views = crate::Views::new(crate::Limits::default());
    world.rebuild(super::world::EPOCH);
    assert_eq!(world.woken(), [0u64; 0]);
    assert_eq!(world.views.stats().rows_made, 1);
    assert_eq!(ahead, row(&mut world, 6));
}
