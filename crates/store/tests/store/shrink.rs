//! A purge gives the space back to the file system, and nobody waits long for it.

use job::{JobId, Source};
use store::{Batch, FILE_NAME, JobWrite};

use crate::world::{World, plain};

#[test]
fn a_trim_forgets_what_happened_to_nodes_and_keeps_what_happened_to_the_instance() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    for at in 1..=20u32 {
        let offline = world.entry(Source::Resource, at, &plain("offline", 1.5));
        let json = r#"{"timestamp":1.5,"name":"queue-stop","context":{"reason":"1 resource 1"}}"#;
        let stop = world.entry(Source::System, at, json);
        world.store(Batch {
            trim: (at == 20).then_some(job::Seq(10)),
            entries: vec![offline, stop],
            ..Batch::default()
        });
    }
    let reader = world.reader();
    let page = reader
        .instance_entries(job::Seq(0), job::Seq(40), 100)
        .unwrap();
    let below = |source| {
        let of_source = page.entries.iter().filter(|entry| entry.source == source);
        of_source.filter(|entry| entry.seq.0 <= 10).count()
    };
    assert_eq!((below(Source::Resource), below(Source::System)), (0, 5));
    assert_eq!(page.entries.len(), 35);
    world.writer.close().unwrap();
    let problems = store::check(&dir.path().join(FILE_NAME), &mut |_, _, _| {}).unwrap();
    assert!(problems.problems.is_empty(), "{problems:?}");
}

#[test]
fn a_purge_and_a_trim_make_the_file_shorter() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let count = 3000;
    for from in (0..count).step_by(500) {
        let mut batch = Batch::default();
        for id in from + 1..=from + 500 {
            world.submit(id, 1000, 0, &mut batch);
            let long = format!(
                r#"{{"timestamp":1.5,"name":"memo","context":{{"x":"{}"}}}}"#,
                "y".repeat(2000)
            );
            batch
                .entries
                .push(world.entry(Source::Job(JobId(id)), 3, &long));
            world.clean(id, 4, &mut batch);
        }
        world.store(batch);
    }
    let size = || std::fs::metadata(dir.path().join(FILE_NAME)).unwrap().len();
    let wal = || {
        std::fs::metadata(dir.path().join("store.sqlite-wal"))
            .unwrap()
            .len()
    };
    let total = size() + wal();
    assert!(total > 12 << 20, "{total}");
    let purge = world.entry(Source::System, 1, &plain("purge", 2.5));
    world.store(Batch {
        trim: Some(purge.seq),
        entries: vec![purge],
        jobs: (1..=count)
            .map(|id| JobWrite::Delete { id: JobId(id) })
            .collect(),
        ..Batch::default()
    });
    // Commits go on meanwhile, each in its own time.
    let mut slowest = std::time::Duration::ZERO;
    for id in count + 1..=count + 200 {
        let mut batch = Batch::default();
        world.submit(id, 1000, 0, &mut batch);
        let begun = std::time::Instant::now();
        world.store(batch);
        slowest = slowest.max(begun.elapsed());
    }
    println!("the slowest commit took {slowest:?}");
    let begun = std::time::Instant::now();
    while size() > total / 4 {
        assert!(begun.elapsed().as_secs() < 60, "{} of {total}", size());
        std::thread::yield_now();
    }
    world.writer.close().unwrap();
    let world = World::open(dir.path());
    assert_eq!(world.log().len(), 401);
    assert_eq!(world.recovered.max_jobid, JobId(count + 200));
}
