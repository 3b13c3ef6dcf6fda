//! The body of `/v1/jobs/statuses` for one job of very many allocations: a made-up journal, folded by job-info's real core, asked in this
//! process. What HTTP adds is in `watchers`.
//!
//! ```text
//!  resource-define of N nodes, one job with an R of N ranks, start   ──► Projection ──► Views::ask
//!  unwritten   asked for in the moment in which the daemon begins: nothing of it is encoded yet
//!  first       nobody asked for it before: what is wide is encoded ahead, a millisecond at a time
//!  writing     one allocation of it changed: fold, and write the piece it is in
//!  changed     … and then it is asked for
//!  unchanged   nothing did
//! ```

use crate::sample::{Samples, ms};
use crate::table::{Row, Table, Target};
use anyhow::ensure;
use info::{Form, Projection};
use std::time::{Duration, Instant};
use views::statuses::StatusesParams;
use views::{Ask, Limits, StatusesAsk, Viewer, Views, What};

/// A journal of which only what is needed is there.
struct World {
    projection: Projection,
    views: Views,
    seq: u64,
    eventlog_seq: u64,
    ask: Ask,
}

/// The job.
const JOB: u64 = 1 << 30;

impl World {
    fn new(allocations: usize) -> anyhow::Result<World> {
        let ask = Ask {
            viewer: Viewer::OWNER,
            index: 0,
            epoch: None,
            what: What::Statuses(StatusesAsk::new(&StatusesParams::default(), None)?),
        };
        let mut world = World {
            projection: Projection::new(),
            views: Views::new(Limits::default()),
            seq: 0,
            eventlog_seq: 0,
            ask,
        };
        world.projection.watch_changes(true);
        world.projection.begin_fresh(Form::Native);
        world.fold(&[], r#","caught_up":true"#)?;
        let last = allocations - 1;
        let execution = format!(
            r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"0-{last}","children":{{"core":"0-3"}}}}],"nodelist":["node[0-{last}]"],"starttime":0.0,"expiration":0.0}}}}"#
        );
        let define = format!(r#"{{"method":"announced","R":{execution},"pools":{{}}}}"#);
        world.seq += 1;
        let define = format!(
            r#"{{"seq":{},"log":"resource","eventlog_seq":1,"entry":{{"timestamp":1.0,"name":"resource-define","context":{define}}}}}"#,
            world.seq
        );
        let jobspec = format!(
            r#""jobspec":{{"resources":[{{"type":"node","count":{allocations},"with":[{{"type":"slot","count":1,"label":"task","with":[{{"type":"core","count":1}}]}}]}}],"tasks":[{{"command":["wide"],"slot":"task","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":0}}}},"version":1}}"#
        );
        let submit = r#"{"userid":1000,"urgency":16,"flags":0,"version":1}"#;
        let entries = [
            define,
            world.entry("submit", submit, &jobspec),
            world.entry("validate", "{}", ""),
            world.entry("depend", "{}", ""),
            world.entry("priority", r#"{"priority":16}"#, ""),
            world.entry("alloc", "{}", &format!(r#""R":{execution}"#)),
            world.entry("start", "{}", ""),
        ];
        world.fold(&entries, "")?;
        world.settle();
        Ok(world)
    }

    fn entry(&mut self, name: &str, context: &str, attach: &str) -> String {
        self.seq += 1;
        self.eventlog_seq += 1;
        let comma = if attach.is_empty() { "" } else { "," };
        format!(
            r#"{{"seq":{},"id":{JOB},"eventlog_seq":{},"entry":{{"timestamp":1.0,"name":"{name}","context":{context}}}{comma}{attach}}}"#,
            self.seq, self.eventlog_seq
        )
    }

    fn fold(&mut self, entries: &[String], more: &str) -> anyhow::Result<()> {
        let batch = format!(
            r#"{{"epoch":"00000000000000e1","seq":{}{more},"events":[{}]}}"#,
            self.seq,
            entries.join(",")
        );
        let _folded = self.projection.fold_native(batch.as_bytes(), &mut |_| {})?;
        let changes = self.projection.take_changes();
        self.views.changed(&self.projection, &changes);
        Ok(())
    }

    /// A daemon that just began: it knows the ids of the nodes, which it computes once beside its work, and nothing else.
    fn begin_anew(&mut self) {
        self.views = Views::new(Limits::default());
        let mut reset = self.projection.take_changes();
        reset.reset = true;
        self.views.changed(&self.projection, &reset);
        self.views.know_nodes(&self.projection);
    }

    fn settle(&mut self) {
        while self.views.has_ready() {
            let _none_wait = self.views.take_ready(&self.projection, 100);
        }
    }

    /// One allocation fails; how long it took until that was folded and written.
    fn change(&mut self, rank: usize) -> anyhow::Result<Duration> {
        let context = format!(r#"{{"allocs":[{{"ranks":"{rank}","status":"failed"}}]}}"#);
        let entry = self.entry("alloc-status", &context, "");
        let start = Instant::now();
        self.fold(&[entry], "")?;
        self.settle();
        Ok(start.elapsed())
    }

    /// Asks; how long it took and how many bytes the body has.
    fn get(&mut self) -> anyhow::Result<(Duration, usize)> {
        let start = Instant::now();
        let reply = self.views.ask(&self.projection, &self.ask, 1);
        let took = start.elapsed();
        match reply {
            Some(reply) => Ok((took, reply?.body.len())),
            None => anyhow::bail!("the query was not answered at once"),
        }
    }
}

/// A filter that no job matches, over very many: how long each turn takes, and all of them.
fn filter(table: &mut Table) -> anyhow::Result<()> {
    const JOBS: u64 = 200_000;
    let mut world = World::new(1)?;
    let mut entries = Vec::new();
    for job in 0..JOBS {
        let id = (2 << 30) + job;
        let jobspec = format!(
            r#","jobspec":{{"resources":[{{"type":"slot","count":1,"label":"task","with":[{{"type":"core","count":1}}]}}],"tasks":[{{"command":["name{}"],"slot":"task","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":0}}}},"version":1}}"#,
            job % 1000
        );
        let submit = r#"{"userid":1000,"urgency":16,"flags":0,"version":1}"#;
        for (number, name, context, attach) in [
            (1, "submit", submit, jobspec.as_str()),
            (2, "validate", "{}", ""),
            (3, "depend", "{}", ""),
            (4, "priority", r#"{"priority":16}"#, ""),
        ] {
            world.seq += 1;
            entries.push(format!(
                r#"{{"seq":{},"id":{id},"eventlog_seq":{number},"entry":{{"timestamp":1.0,"name":"{name}","context":{context}}}{attach}}}"#,
                world.seq
            ));
        }
        if entries.len() >= 4000 {
            world.fold(&entries, "")?;
            world.settle();
            entries.clear();
        }
    }
    world.fold(&entries, "")?;
    world.settle();
    let (mut turns, mut all) = (Samples::default(), Samples::default());
    for round in 0..10 {
        let params = StatusesParams {
            filter: Some(format!("Name matches `nothing{round}` or Priority == 31")),
            ..StatusesParams::default()
        };
        let ask = Ask {
            what: What::Statuses(StatusesAsk::new(&params, None)?),
            ..world.ask.clone()
        };
        let begun = Instant::now();
        let mut reply = world.views.ask(&world.projection, &ask, 7);
        turns.push(begun.elapsed());
        while reply.is_none() {
            let start = Instant::now();
            let mut replies = world.views.take_ready(&world.projection, 100);
            turns.push(start.elapsed());
            reply = replies.pop().map(|(_, reply)| reply);
        }
        all.push(begun.elapsed());
    }
    for (name, samples, target, note) in [
        (
            "statuses, a filter over 200,000 jobs, a turn",
            &turns,
            Target::Below(5.0),
            "nobody else waits longer than that; a regex or a number, no match",
        ),
        (
            "statuses, a filter over 200,000 jobs",
            &all,
            Target::None,
            "the first time; a page that is held is kept true change by change",
        ),
    ] {
        table.add(Row {
            name,
            value: ms(samples.median()),
            unit: "ms",
            p99: Some(ms(samples.quantile(0.99))),
            target,
            stage: Target::None,
            note: note.into(),
        });
    }
    Ok(())
}

/// Resident memory of this process; bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0u64) * 4096
}

/// The rows.
pub(crate) fn all(table: &mut Table) -> anyhow::Result<()> {
    const ROUNDS: usize = 30;
    for (allocations, target, names) in [
        (
            10_000,
            1.0,
            [
                "statuses, 10,000 allocations, unwritten",
                "statuses, 10,000 allocations, first",
                "statuses, 10,000 allocations, writing a change",
                "statuses, 10,000 allocations, one changed",
                "statuses, 10,000 allocations, unchanged",
            ],
        ),
        (
            100_000,
            8.0,
            [
                "statuses, 100,000 allocations, unwritten",
                "statuses, 100,000 allocations, first",
                "statuses, 100,000 allocations, writing a change",
                "statuses, 100,000 allocations, one changed",
                "statuses, 100,000 allocations, unchanged",
            ],
        ),
    ] {
        let before = resident();
        let mut world = World::new(allocations)?;
        let folded = resident();
        let mut samples = [(); 5].map(|()| Samples::default());
        let [ever, first, written, changed, unchanged] = &mut samples;
        let mut bytes = 0;
        let mut encoded = 0usize;
        for round in 0..ROUNDS {
            world.begin_anew();
            let (took, len) = world.get()?;
            ever.push(took);
            bytes = len;
            encoded = encoded.max(world.views.stats().cache_bytes.saturating_sub(len));
            world.begin_anew();
            world.settle();
            first.push(world.get()?.0);
            written.push(world.change((round * 3 + 1) * (allocations / ROUNDS / 4))?);
            changed.push(world.get()?.0);
            unchanged.push(world.get()?.0);
        }
        ensure!(
            bytes > allocations * 200,
            "the body has {bytes} bytes, which is too little"
        );
        for (name, samples) in names.into_iter().zip(&samples) {
            table.add(Row {
                name,
                value: ms(samples.median()),
                unit: "ms",
                p99: Some(ms(samples.quantile(0.99))),
                target: Target::Below(target),
                stage: Target::None,
                note: format!(
                    "one job on {allocations} nodes of a made-up journal, {:.1} MB; the core in this process, without HTTP",
                    bytes as f64 / 1e6
                ),
            });
        }
        if allocations == 100_000 {
            for (name, bytes, note) in [
                (
                    "statuses, memory per allocation, folded",
                    folded.saturating_sub(before),
                    "resident growth: job-info's list of that job and its nodes",
                ),
                (
                    "statuses, memory per allocation, encoded",
                    encoded as u64,
                    "what is kept after the first body, ids of nodes included; at most 128 MiB of such text in all",
                ),
            ] {
                table.add(Row {
                    name,
                    value: bytes as f64 / allocations as f64,
                    unit: "B",
                    p99: None,
                    target: Target::None,
                    stage: Target::None,
                    note: note.into(),
                });
            }
        }
    }
    filter(table)
}
