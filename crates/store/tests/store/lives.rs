//! Jobs with whole lives, for tests that apply what is stored.

use bytes::Bytes;
use job::{JobId, Source, Timestamp};
use store::{Batch, JobWrite};

use crate::world::{World, time};

pub(crate) const R: &str = r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],"nodelist":["node0"],"starttime":1.0,"expiration":0.0}}"#;

/// A jobspec; those of the same number are the same.
pub(crate) fn jobspec(number: u64) -> String {
    format!(
        r#"{{"resources":[{{"type":"slot","count":1,"with":[{{"type":"core","count":1}}],"label":"task"}}],"tasks":[{{"command":["true","{number}"],"slot":"task","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":0}}}},"version":1}}"#
    )
}

fn event(
    world: &mut World,
    id: u64,
    number: &mut u32,
    name: &str,
    context: &str,
    batch: &mut Batch,
) {
    let t = time(world.seq.0 + 1);
    let context = if context.is_empty() {
        String::new()
    } else {
        format!(r#","context":{context}"#)
    };
    let json = format!(r#"{{"timestamp":{t},"name":"{name}"{context}}}"#);
    *number += 1;
    batch
        .entries
        .push(world.entry(Source::Job(JobId(id)), *number, &json));
}

/// Submits a job, as one batch.
pub(crate) fn begin(world: &mut World, id: u64, flags: u32) {
    let mut batch = Batch::default();
    let t = time(world.seq.0 + 1);
    let number = &mut 0;
    let submit = format!(r#"{{"userid":1000,"urgency":16,"flags":{flags},"version":1}}"#);
    for (name, context) in [
        ("submit", submit.as_str()),
        ("validate", ""),
        ("depend", ""),
        ("priority", r#"{"priority":16}"#),
    ] {
        event(world, id, number, name, context, &mut batch);
    }
    batch.jobs.push(JobWrite::Insert {
        id: JobId(id),
        userid: 1000,
        t_submit: Timestamp(t),
        flags,
        jobspec: Bytes::from(jobspec(id % 5)),
        j: Bytes::from(format!("J of {id}")),
        key: None,
    });
    world.store(batch);
}

/// Gives it resources and starts it, two batches.
pub(crate) fn run(world: &mut World, id: u64) {
    let mut batch = Batch::default();
    let number = &mut 4;
    event(world, id, number, "alloc", "", &mut batch);
    batch.jobs.push(JobWrite::SetR {
        id: JobId(id),
        r: Bytes::from_static(R.as_bytes()),
    });
    world.store(batch);
    let mut batch = Batch::default();
    event(world, id, number, "start", "", &mut batch);
    world.store(batch);
}

/// Ends it, as one batch.
pub(crate) fn end(world: &mut World, id: u64) {
    end_after(world, id, 6);
}

/// The same, of a job that has so many entries.
pub(crate) fn end_after(world: &mut World, id: u64, entries: u32) {
    let mut batch = Batch::default();
    let mut number = entries;
    let number = &mut number;
    for (name, context) in [
        ("finish", r#"{"status":0}"#),
        ("release", r#"{"ranks":"all","final":true}"#),
        ("free", ""),
        ("clean", ""),
    ] {
        event(world, id, number, name, context, &mut batch);
    }
    let t = time(world.seq.0);
    batch.jobs.push(JobWrite::Inactive {
        id: JobId(id),
        t_inactive: Timestamp(t),
        result: 1,
    });
    world.store(batch);
}

/// So many jobs: the first half has ended, one in four waits, the rest runs. And some entries of the instance.
pub(crate) fn many(world: &mut World, jobs: u64) {
    for id in 1..=jobs {
        begin(world, id, if id % 3 == 0 { 4 } else { 0 });
        if id % 4 != 0 {
            run(world, id);
        }
        if id <= jobs / 2 && id % 4 != 0 {
            end(world, id);
        }
        if id % 10 == 0 {
            let number = u32::try_from(id / 10).unwrap();
            let note = world.entry(
                Source::System,
                number,
                &crate::world::plain("note", time(1)),
            );
            world.store(Batch {
                entries: vec![note],
                ..Batch::default()
            });
        }
    }
    let mut batch = Batch::default();
    let note = world.entry(Source::Resource, 1, &crate::world::plain("online", time(1)));
    batch.entries.push(note);
    batch
        .meta
        .push(("queues".into(), r#"{"default":{}}"#.into()));
    world.store(batch);
}
