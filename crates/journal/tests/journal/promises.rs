//! The named promises of `rfc/8_promises.md`, as far as they are the journal's: resumable, honest, complete but for what was purged. (Ordered, unique,
//! complete: `model.rs`.)

use job::{JobId, Seq, Source};
use journal::{Fanout, Filter, Format, Limits, ListenerId, Rights, Start};

use crate::world::{EPOCH, World, after, small, userid};

/// Numbers that look random, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// The daemon starts again: the ring is empty, the log is as it was.
fn restart(world: &mut World, limits: &Limits) {
    world.push();
    let newest = Seq(world.log.len() as u64);
    world.fan = Fanout::new(limits.clone(), EPOCH, newest, world.floor);
    world.needs.clear();
}

/// What the reader wants, said as plainly as can be.
fn wanted(world: &World, kind: u64, after: u64) -> Vec<u64> {
    let log = world.log.iter().filter(|entry| entry.seq.0 > after);
    log.filter(|entry| match (kind, entry.source) {
        (0, _) => true,
        (1, _) => entry.name.as_str() != "memo",
        (2, Source::Job(id)) => userid(id.0) == 2,
        (3, Source::Job(id)) => id.0 % 3 == 0,
        _ => false,
    })
    .map(|entry| entry.seq.0)
    .collect()
}

fn filter(kind: u64) -> Filter {
    let all = Filter::all(Rights::Owner);
    match kind {
        0 => all,
        1 => all.deny(["memo"]),
        2 => Filter::all(Rights::User(2)),
        _ => all.of_jobs((0..9).map(|id| JobId(3 * id))),
    }
}

/// A reader that is cut off 50 times, wherever it is, and goes on with the last `seq` it was told; meanwhile entries are made, the ring goes by,
/// and every few times the daemon starts again.
#[test]
fn promise_resumable_a_reader_that_resumes_50_times_has_every_entry_once_and_in_order() {
    const NAMES: [&str; 4] = ["memo", "submit", "urgency", "annotations"];
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let limits = Limits {
            batch_entries: 1 + dice.below(9) as usize,
            ..small(1 + dice.below(60) as usize)
        };
        let mut world = World::new(limits.clone());
        let kind = seed % 4;
        let (mut cursor, mut have): (u64, Vec<u64>) = (0, Vec::new());
        for round in 1..=50 {
            for _ in 0..dice.below(6) {
                let commit: Vec<(u64, &str)> = (0..=dice.below(8))
                    .map(|_| (dice.below(12), NAMES[dice.below(4) as usize]))
                    .collect();
                world.commit(&commit);
            }
            if dice.below(5) == 0 {
                restart(&mut world, &limits);
            }
            world
                .add(round, after(cursor), filter(kind), Format::Native)
                .unwrap();
            for _ in 0..dice.below(12) {
                match dice.below(4) {
                    0 => world.commit(&[(dice.below(12), "memo")]),
                    1 => world.read(),
                    2 => world.fan.set_writable(ListenerId(round), dice.below(3) > 0),
                    _ => {
                        world.now += 0.02;
                        let _ = world.poll();
                    }
                }
            }
            let got = &world.got[&round];
            assert!(got.ended.is_none() && got.backlog.is_empty());
            // Whatever came before the cut counts; what is told has come.
            have.extend(&got.live);
            cursor = cursor.max(got.told);
            assert!(have.last().is_none_or(|last| *last <= cursor));
            world.fan.remove(ListenerId(round));
        }
        world.push();
        world
            .add(99, after(cursor), filter(kind), Format::Native)
            .unwrap();
        world.wait(6.0);
        have.extend(&world.got[&99].live);
        assert_eq!(have, wanted(&world, kind, 0), "seed {seed}");
        assert_eq!(world.got[&99].told, world.log.len() as u64);
    }
}

/// No wrong cursor is an empty success: it is refused by `add`, before anything is sent, and the text names both ends.
#[test]
fn promise_honest_a_cursor_that_cannot_be_continued_is_refused_at_once_naming_both_ends() {
    let mut world = World::new(small(10));
    world.commits(100);
    world.floor = Seq(40);
    let limits = small(10);
    restart(&mut world, &limits);
    world.commits(20);
    let other = |seq, epoch: &str| Start::After {
        seq: Seq(seq),
        epoch: Some(epoch.into()),
    };
    let unnamed = |seq| Start::After {
        seq: Seq(seq),
        epoch: None,
    };
    let wrong = [
        after(121),
        after(u64::MAX),
        unnamed(121),
        unnamed(39),
        after(0),
        after(39),
        other(100, "ffffffffffffffff"),
        other(120, ""),
        other(120, "no epoch at all"),
        other(120, &EPOCH.to_uppercase()),
    ];
    for start in wrong {
        let refused = world
            .add(1, start.clone(), Filter::all(Rights::Owner), Format::Native)
            .unwrap_err();
        assert_eq!(refused.errnum(), 116, "{start:?}");
        let text = refused.to_string();
        assert!(
            text.contains("cannot be continued") && text.contains("holds 41 to 120"),
            "{start:?}: {text}"
        );
    }
    assert!(!world.poll() && world.got.is_empty(), "nothing was begun");
    // The edges that are right are continued.
    for (id, start) in [
        (1, after(40)),
        (2, unnamed(40)),
        (3, after(120)),
        (4, after(119)),
    ] {
        world
            .add(id, start, Filter::all(Rights::Owner), Format::Native)
            .unwrap();
    }
    world.settle();
    assert_eq!(world.got[&1].live, (41..=120).collect::<Vec<_>>());
    assert_eq!(world.got[&2].live, (41..=120).collect::<Vec<_>>());
    assert!(world.got[&3].live.is_empty());
    assert_eq!(world.got[&4].live, [120]);
}

/// A cursor that was right and falls below the floor while its stream waits for the store ends the stream with the same words.
#[test]
fn promise_honest_a_stream_whose_cursor_falls_below_the_floor_is_ended_naming_both_ends() {
    let mut world = World::new(small(5));
    world.commits(100);
    world.tap(1, after(10));
    let _ = world.poll();
    world.floor = Seq(60);
    world.settle();
    let why = world.got[&1].ended.clone().unwrap();
    assert_eq!(why.errnum(), 116);
    assert!(why.to_string().contains("holds 61 to 100"), "{why}");
}

/// Of purged jobs nothing comes from the store; everything else does, and the stream is told to be complete all the same.
#[test]
fn promise_complete_but_for_jobs_named_in_a_purge_at_or_before_the_streams_seq() {
    let mut world = World::new(small(3));
    for round in 0..30 {
        world.commit(&[(1, "memo"), (2, "memo"), (3 + round % 4, "memo")]);
    }
    // A run that is one purged job's alone, longer than a page.
    for _ in 0..20 {
        world.commit(&[(2, "memo")]);
    }
    world.commit(&[(0, "purge")]);
    world.purged = vec![2, 4];
    world.commit(&[(1, "memo")]);
    let left: Vec<u64> = world
        .log
        .iter()
        .filter(|entry| !matches!(entry.source, Source::Job(JobId(2 | 4))))
        .map(|entry| entry.seq.0)
        .collect();
    world.tap(1, Start::All);
    world.tap(2, after(0));
    world.tap(3, after(95));
    world
        .add(
            4,
            after(0),
            Filter::all(Rights::Owner).of_jobs([JobId(2)]),
            Format::Native,
        )
        .unwrap();
    world.wait(6.0);
    let newest = world.log.len() as u64;
    assert_eq!(world.got[&1].backlog, left);
    assert_eq!(world.got[&2].live, left);
    // What is still in memory (110 is job 2's) may come, before the purge that names it.
    assert_eq!(world.got[&3].live, [110, 111, 112]);
    assert!(world.got[&4].live.is_empty(), "a purged job alone: nothing");
    for id in 1..=4 {
        assert!(world.got[&id].ended.is_none());
        assert_eq!(world.got[&id].told, newest, "and told to be complete");
    }
}
