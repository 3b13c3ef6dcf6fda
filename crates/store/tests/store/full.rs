//! No space: nothing half-done shows, nothing is lost, the order is kept, all goes on when there is space again.

use job::Seq;
use store::{Batch, Event, StoreOptions};

use crate::world::{World, lines};

#[test]
fn no_space_is_waited_out_with_nothing_lost_or_reordered() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::with(dir.path(), StoreOptions { pages_max: 40 });
    let (mut expected, mut id) = (String::new(), 0);
    let mut durable = Seq(0);
    // Fill it up.
    loop {
        id += 1;
        let mut batch = Batch::default();
        world.submit(id, 1000, 0, &mut batch);
        expected.extend(
            batch
                .entries
                .iter()
                .map(|entry| String::from_utf8_lossy(entry.line()).into_owned()),
        );
        world.give(batch);
        match world.next() {
            Event::Durable { seq, .. } => durable = seq,
            Event::NoSpace(true) => break,
            other => panic!("met {other:?}"),
        }
        assert!(id < 10_000, "the limit does not hold");
    }
    // What waits is not visible; reads go on.
    assert_eq!(world.log().last().unwrap().seq, durable);
    for _ in 0..20 {
        id += 1;
        let mut batch = Batch::default();
        world.submit(id, 1000, 0, &mut batch);
        expected.extend(
            batch
                .entries
                .iter()
                .map(|entry| String::from_utf8_lossy(entry.line()).into_owned()),
        );
        world.give(batch);
    }
    assert!(
        world.events.try_recv().is_err(),
        "nothing may be told while it is full"
    );
    world.writer.set_pages_max(0);
    assert_eq!(world.next(), Event::NoSpace(false));
    world.durable();
    assert_eq!(lines(&world.log()), expected);
    for n in 1..=id {
        let job = world
            .reader()
            .job(job::JobId(n), true)
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!(
            job.jobspec,
            crate::world::jobspec(n).as_bytes(),
            "job {n}: the blob it names was rolled back"
        );
        assert_eq!(job.j.unwrap(), format!("J of {n}").as_bytes());
    }
}

#[test]
fn closing_while_full_says_what_was_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::with(dir.path(), StoreOptions { pages_max: 1 });
    let mut batch = Batch::default();
    world.submit(1, 1000, 0, &mut batch);
    // One page is what the file has already more than, so nothing fits.
    for id in 2..2000 {
        world.submit(id, 1000, 0, &mut batch);
    }
    world.give(batch);
    assert_eq!(world.next(), Event::NoSpace(true));
    let unwritten = world.writer.close().unwrap_err();
    assert_eq!(unwritten.batches, 1);
    let world = World::open(dir.path());
    assert_eq!(world.recovered.newest_seq, Seq(0));
    assert!(world.log().is_empty());
}
