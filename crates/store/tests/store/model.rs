//! Random actions against a model: after any run of batches and reopens, log, archive, scans and meta are what the model says.

use std::collections::BTreeMap;

use bytes::Bytes;
use job::{JobId, Seq, Source};
use proptest::prelude::*;
use store::{Batch, CURSOR_START, JobWrite, Scope};

use crate::world::{World, plain, time};

#[derive(Debug, Clone)]
enum Step {
    Submit,
    Event(usize),
    Alloc(usize),
    Clean(usize),
    Delete(usize),
    Log,
    Meta(u8),
    /// The batch so far is handed over.
    Give,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Submit),
        6 => any::<usize>().prop_map(Step::Event),
        3 => any::<usize>().prop_map(Step::Alloc),
        3 => any::<usize>().prop_map(Step::Clean),
        1 => any::<usize>().prop_map(Step::Delete),
        1 => Just(Step::Log),
        1 => any::<u8>().prop_map(Step::Meta),
        6 => Just(Step::Give),
        1 => Just(Step::Reopen),
    ]
}

#[derive(Default)]
struct Model {
    lines: BTreeMap<u64, Vec<String>>,
    r: BTreeMap<u64, String>,
    done: BTreeMap<u64, Seq>,
    log: Vec<(u64, String)>,
    meta: BTreeMap<String, String>,
    max: u64,
}

impl Model {
    fn pick(&self, at: usize, done: bool) -> Option<u64> {
        let ids: Vec<u64> = self
            .lines
            .keys()
            .copied()
            .filter(|id| self.done.contains_key(id) == done)
            .collect();
        (!ids.is_empty()).then(|| ids[at % ids.len()])
    }

    fn add(&mut self, id: u64, batch: &Batch, count: usize) {
        for entry in &batch.entries[batch.entries.len() - count..] {
            let line = String::from_utf8_lossy(entry.line()).into_owned();
            if id != 0 {
                self.lines.entry(id).or_default().push(line.clone());
            }
            self.log.push((id, line));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn the_store_is_what_the_model_says(steps in prop::collection::vec(step(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let mut world = World::open(dir.path());
        let (mut model, mut batch) = (Model::default(), Batch::default());
        for step in steps {
            match step {
                Step::Submit => {
                    model.max += 1;
                    world.submit(model.max, 1000, 0, &mut batch);
                    model.add(model.max, &batch, 2);
                }
                Step::Event(at) => if let Some(id) = model.pick(at, false) {
                    let n = model.lines[&id].len() as u32 + 1;
                    batch.entries.push(world.entry(Source::Job(JobId(id)), n, &plain("memo", time(n.into()))));
                    model.add(id, &batch, 1);
                },
                Step::Alloc(at) => if let Some(id) = model.pick(at, false) {
                    let n = model.lines[&id].len() as u32 + 1;
                    batch.entries.push(world.entry(Source::Job(JobId(id)), n, &plain("alloc", time(n.into()))));
                    let r = format!("{{\"r\":{at}}}");
                    batch.jobs.push(JobWrite::SetR { id: JobId(id), r: Bytes::from(r.clone()) });
                    model.add(id, &batch, 1);
                    model.r.insert(id, r);
                },
                Step::Clean(at) => if let Some(id) = model.pick(at, false) {
                    world.clean(id, model.lines[&id].len() as u32 + 1, &mut batch);
                    model.add(id, &batch, 1);
                    model.done.insert(id, world.seq);
                },
                Step::Delete(at) => if let Some(id) = model.pick(at, true) {
                    batch.jobs.push(JobWrite::Delete { id: JobId(id) });
                    model.lines.remove(&id);
                    model.r.remove(&id);
                    model.done.remove(&id);
                    model.log.retain(|(of, _)| *of != id);
                },
                Step::Log => {
                    batch.entries.push(world.entry(Source::System, 1, &plain("note", 1_700_000_000.5)));
                    model.add(0, &batch, 1);
                }
                Step::Meta(value) => {
                    let (key, value) = (format!("k{}", value % 3), value.to_string());
                    batch.meta.push((key.clone(), value.clone()));
                    model.meta.insert(key, value);
                }
                Step::Give => world.give(std::mem::take(&mut batch)),
                Step::Reopen => {
                    world.give(std::mem::take(&mut batch));
                    let seq = world.seq;
                    world.writer.close().unwrap();
                    world = World::open(dir.path());
                    prop_assert_eq!(world.recovered.newest_seq, seq);
                    prop_assert_eq!(world.recovered.max_jobid, JobId(model.max));
                    prop_assert_eq!(&world.recovered.meta, &model.meta);
                }
            }
        }
        world.give(batch);
        world.writer.close().unwrap();
        let world = World::open(dir.path());
        let log: Vec<String> = world.log().iter().map(|e| String::from_utf8_lossy(e.line()).into_owned()).collect();
        prop_assert_eq!(log, model.log.iter().map(|(_, line)| line.clone()).collect::<Vec<_>>());
        let (mut cursor, mut jobs) = (Some(CURSOR_START), Vec::new());
        while let Some(at) = cursor {
            let page = world.reader().jobs_page(Scope::All, at, 3, 1 << 20).unwrap();
            prop_assert!(page.damaged.is_empty());
            jobs.extend(page.jobs);
            cursor = page.next;
        }
        prop_assert_eq!(jobs.len(), model.lines.len());
        for job in jobs {
            let id = job.id.0;
            let lines: Vec<String> = job.eventlog.iter().map(|e| String::from_utf8_lossy(e.line()).into_owned()).collect();
            prop_assert_eq!(&lines, &model.lines[&id]);
            prop_assert_eq!(job.r.as_deref(), model.r.get(&id).map(|r| r.as_bytes()));
            prop_assert_eq!(job.done_seq, model.done.get(&id).copied());
            prop_assert_eq!(job.active, !model.done.contains_key(&id));
            let spec = crate::world::jobspec(id);
            prop_assert_eq!(&job.jobspec[..], spec.as_bytes());
        }
    }
}
