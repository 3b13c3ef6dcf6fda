//! The examples of `rfc/3_journal.md` are what the journal sends.

use job::Timestamp;
use journal::{Filter, Format, ListenerId, Rights, Start};
use serde_json::Value;

use crate::world::{World, small};

fn examples(after: &str) -> Vec<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rfc/3_journal.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rest = text
        .split(&format!("<!-- {after} -->"))
        .nth(1)
        .unwrap_or_else(|| panic!("no example {after}"));
    let block = rest
        .split("```json\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    block
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn the_streams_of_the_spec_are_the_streams_of_the_code() {
    let mut world = World::new(small(100));
    world.commit(&[(0, "online"), (7, "submit"), (7, "validate")]);
    world
        .add(1, Start::All, Filter::all(Rights::Owner), Format::Native)
        .unwrap();
    world
        .add(2, Start::All, Filter::all(Rights::Owner), Format::Flux)
        .unwrap();
    world.settle();
    world.commit(&[(7, "annotations"), (7, "alloc")]);
    world.wait(5.0);
    assert_eq!(world.got[&1].responses, examples("native stream"));
    assert_eq!(world.got[&2].responses, examples("flux stream"));
    world.tap(3, crate::world::after(5));
    world.wait(0.1);
    assert_eq!(world.got[&3].responses, examples("resumed"));
    world.commit(&[(7, "memo")]);
    world.fan.set_writable(ListenerId(3), false);
    let mut out = Vec::new();
    assert!(
        !world
            .fan
            .flush(ListenerId(3), Timestamp(world.now), &mut out)
    );
    let mark = world.fan.mark_payload(ListenerId(3)).unwrap();
    assert_eq!(
        [serde_json::from_slice::<Value>(&mark[..mark.len() - 1]).unwrap()],
        examples("mark")[..]
    );
    let aside = [7, 9].map(|id| journal::Aside {
        id: job::JobId(id),
        userid: None,
    });
    world.fan.set_aside(aside.into());
    world.tap(5, Start::Now);
    world.poll();
    assert_eq!(world.got[&5].responses, examples("set aside"));
    let refused = world
        .add(
            4,
            crate::world::after(400),
            Filter::all(Rights::Owner),
            Format::Native,
        )
        .unwrap_err();
    let expected = &examples("refused")[0];
    assert_eq!(expected["errnum"], refused.errnum());
    assert_eq!(expected["errstr"], refused.to_string());
}

#[test]
fn who_begins_is_told_the_state_of_the_nodes_and_who_may_not_see_them_is_not() {
    let mut world = World::new(small(100));
    world.commits(5);
    let r = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0-3"}}],"nodelist":["n[0-1]"],"starttime":0.0,"expiration":0.0}}"#;
    let define = format!(r#"{{"method":"announced","R":{r},"pools":{{"default":"0-1"}}}}"#);
    world.log_nodes("resource-define", &define);
    world.log_nodes("online", r#"{"idset":"0-1","nodelist":"n[0-1]"}"#);
    // As after a restart: what was kept, then what comes.
    let kept = format!(r#"{{"seq":7,"eventlog_seq":2,"define":{define},"up":"0-1","drained":[]}}"#);
    let kept = job::Resources::from_json(kept.as_bytes()).unwrap();
    world.fan.set_resources(kept);
    world.log_nodes("offline", r#"{"idset":"1","nodelist":"n1"}"#);
    let drain = r#"{"idset":"1","nodelist":"n1","reason":"disk","overwrite":0,"userid":1000}"#;
    world.log_nodes("drain", drain);
    let all = || Filter::all(Rights::Owner);
    let told = examples("nodes");
    for (at, (start, filter, told)) in [
        (Start::Now, all(), true),
        (crate::world::after(2), all(), true),
        (Start::All, all(), true),
        (Start::Now, all().allow(["resource-define"]), true),
        (Start::Now, all().allow(["submit"]), false),
        (Start::Now, all().deny(["resource-define"]), false),
        (Start::Now, all().of_jobs([job::JobId(1)]), false),
        (Start::Now, Filter::all(Rights::User(1)), false),
    ]
    .into_iter()
    .map(|(start, filter, hears)| (start, filter, hears.then(|| told[0]["resources"].clone())))
    .enumerate()
    {
        let id = at as u64 + 1;
        world.add(id, start, filter, Format::Native).unwrap();
        world.settle();
        let greeting = world.got[&id]
            .responses
            .iter()
            .find(|response| response["caught_up"] == true)
            .unwrap();
        assert_eq!(greeting.get("resources"), told.as_ref(), "listener {id}");
    }
    assert_eq!(world.got[&1].responses, told);
    // Only what is durable is told.
    world.store(&[(0, "offline")]);
    world.tap(9, Start::Now);
    world.poll();
    assert_eq!(world.got[&9].responses, told);
}
