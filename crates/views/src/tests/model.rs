//! Random histories and random queries against a computation from scratch: no wake is missed, none is for nothing.
//!
//! After each step every query is computed anew by another `Views` that has seen nothing, and its jobs by a plain walk over all records.
//! Who waits must be answered at the first step at which that is another than what it has, and not before.

use std::collections::BTreeMap;

use job::JobId;

use super::world::{EPOCH, Page, World, ids, spec};
use crate::{Limits, Views};

/// A small generator of numbers, so that a seed is a history.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    pub(super) fn of<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        let at = self.roll(list.len().max(1) as u64) as usize;
        list.get(at).cloned()
    }
}

const FILTERS: [&str; 7] = [
    "Status == running",
    "Status == pending or Status == dead",
    "Priority == 20",
    "Name == job1",
    "Name matches \"(?i)JOB[02]\"",
    "Stop == true",
    "ParentID != \"\"",
];

pub(super) fn page(dice: &mut Dice, seq: u64) -> Page {
    let mut page = Page {
        per_page: i32::try_from(dice.roll(6)).expect("small"),
        reverse: dice.roll(3) == 0,
        children: dice.roll(3) == 0,
        counts: dice.roll(4) == 0,
        ..Page::default()
    };
    if dice.roll(2) == 0 {
        page.filter = dice.of(&FILTERS).map(Into::into);
    }
    if dice.roll(3) == 0 {
        page.token = Some(dice.roll(seq + 10).to_string());
    }
    if dice.roll(5) == 0 {
        let ids: Vec<u64> = (0..=dice.roll(6)).map(|_| 1 + dice.roll(30)).collect();
        page.body = Page::list(&ids).body;
    }
    if dice.roll(6) == 0 {
        page.guest = Some(7);
    }
    page
}

/// The page's jobs by a plain walk, and the next token.
fn naive(world: &World, page: &Page) -> (Vec<u64>, Option<String>) {
    let query = page.query().expect("a query");
    let jobs = world.projection.jobs();
    let mut all: Vec<_> = (1..=60).filter_map(|id| jobs.get(JobId(id))).collect();
    all.retain(|record| {
        let seq = record.modify_seq();
        let sought = match (query.next_token, page.reverse) {
            (None, _) => true,
            (Some(token), false) => seq <= token,
            (Some(token), true) => seq >= token,
        };
        let passes = page.filter.as_deref().is_none_or(|text| {
            let filter = crate::filter::Compiled::new(text)
                .expect("a filter")
                .expect("one");
            crate::statuses::filter::passes(&filter, &world.projection, record, &mut 0)
                .expect("a field")
        });
        record.status().is_some()
            && sought
            && passes
            && (page.children || record.parent().is_none())
            && page.guest.is_none_or(|user| record.job().userid == user)
            && query
                .ids
                .as_ref()
                .is_none_or(|ids| ids.contains(&record.id()))
    });
    all.sort_by_key(|record| record.modify_seq());
    if !page.reverse {
        all.reverse();
    }
    let next = all
        .get(query.per_page as usize)
        .map(|record| record.modify_seq().to_string());
    all.truncate(query.per_page as usize);
    (all.iter().map(|record| record.id().0).collect(), next)
}

/// The body from scratch.
pub(super) fn fresh(world: &World, page: &Page) -> Vec<u8> {
    let mut views = Views::new(Limits::default());
    let reply = views
        .ask(&world.projection, &page.ask(0), 1)
        .expect("at once");
    reply.expect("an answer").body.to_vec()
}

#[derive(Default)]
struct Model {
    /// By token: which query, and the body it has.
    waiting: BTreeMap<u64, (usize, Vec<u8>)>,
    woken: u64,
    cold: u64,
    cold_at_once: u64,
}

/// One random thing that happens to some job.
pub(super) fn happen(world: &mut World, dice: &mut Dice, next_id: &mut u64) -> Vec<String> {
    let jobs = world.projection.jobs();
    let of = |wanted: &dyn Fn(&info::Record) -> bool| -> Vec<u64> {
        let all = (1..=60).filter_map(|id| jobs.get(JobId(id)));
        all.filter(|record| wanted(record))
            .map(|record| record.id().0)
            .collect()
    };
    use job::State;
    let pending = of(&|record| record.job().state == State::Sched);
    let running = of(&|record| record.job().state == State::Run && record.job().started);
    let over = of(&|record| record.job().state == State::Inactive);
    let parents =
        of(&|record| crate::facts::is_parent(record) && record.job().state == State::Depend);
    let alive = of(&|record| record.job().state != State::Inactive);
    match dice.roll(16) {
        0..=2 if *next_id < 60 => {
            *next_id += 1;
            let user = if dice.roll(3) == 0 { 7 } else { 1000 };
            let name = format!("job{}", *next_id % 3);
            world.submit_as(*next_id, user, &spec(&name, 1, ""))
        }
        3 if *next_id < 60 => {
            *next_id += 1;
            match dice.of(&parents) {
                Some(parent) if dice.roll(3) > 0 => world.child(*next_id, parent),
                _ => world.parent(*next_id),
            }
        }
        4..=6 => dice
            .of(&pending)
            .map(|id| world.run(id, "0-2"))
            .unwrap_or_default(),
        7 | 8 => dice
            .of(&running)
            .map(|id| world.end(id, 0))
            .unwrap_or_default(),
        9 => dice
            .of(&running)
            .map(|id| world.alloc_status(id, "1", "failed"))
            .unwrap_or_default(),
        10 => dice
            .of(&alive)
            .map(|id| world.cancel(id))
            .unwrap_or_default(),
        11 | 12 => {
            let urgency = if dice.roll(2) == 0 { 20 } else { 16 };
            dice.of(&pending)
                .map(|id| world.urgency(id, urgency))
                .unwrap_or_default()
        }
        13 => dice
            .of(&alive)
            .map(|id| world.annotate(id))
            .unwrap_or_default(),
        14 => dice
            .of(&over)
            .map(|id| world.purge(&[id]))
            .unwrap_or_default(),
        _ => {
            let ranks = 3 + dice.roll(5);
            world.define(&format!("0-{ranks}"))
        }
    }
}

fn run(seed: u64, steps: usize, limits: Limits) -> Model {
    let mut world = World::with(limits);
    let mut dice = Dice::new(seed);
    let mut model = Model::default();
    let mut pages: Vec<Page> = Vec::new();
    let mut next_id = 0;
    // Where the steps ended: what lies between belongs to a fold that nobody saw in part.
    let mut ends = Vec::new();
    // By query: every body it had, with the index from which on.
    let mut history: Vec<Vec<(u64, Vec<u8>)>> = Vec::new();
    for step in 0..steps {
        if pages.len() < 12 || dice.roll(10) == 0 {
            if pages.len() == 12 {
                let at = dice.roll(12) as usize;
                pages.remove(at);
                history.remove(at);
                let gone: Vec<u64> = model
                    .waiting
                    .iter()
                    .filter(|(_, (page, _))| *page == at)
                    .map(|(token, _)| *token)
                    .collect();
                for token in gone {
                    world.views.cancel(token);
                    model.waiting.remove(&token);
                }
                for (page, _) in model.waiting.values_mut() {
                    *page -= usize::from(*page > at);
                }
            }
            pages.push(page(&mut dice, world.seq));
            history.push(Vec::new());
        }
        let mut last = Vec::new();
        // Something happens, in one fold or in several, told at once or together.
        match dice.roll(12) {
            0 => world.rebuild(EPOCH),
            1 => {
                for _ in 0..3 {
                    let entries = happen(&mut world, &mut dice, &mut next_id);
                    world.fold(&entries);
                    last.extend(entries);
                }
                world.tell();
            }
            2 => {
                let mut entries = Vec::new();
                // Of different jobs: what happens is chosen by what was before.
                for _ in 0..2 {
                    if entries.is_empty() {
                        entries = happen(&mut world, &mut dice, &mut next_id);
                    }
                }
                next_id += 1;
                if next_id < 60 {
                    entries.extend(world.submit(next_id));
                }
                world.play(&entries);
                last = entries;
            }
            _ => {
                let entries = happen(&mut world, &mut dice, &mut next_id);
                world.play(&entries);
                last = entries;
            }
        }
        ends.push(world.seq.max(1));
        let replies: BTreeMap<u64, _> = world.ready().into_iter().collect();
        let bodies: Vec<Vec<u8>> = pages.iter().map(|page| fresh(&world, page)).collect();
        for (at, body) in bodies.iter().enumerate() {
            if history[at].last().is_none_or(|(_, last)| last != body) {
                history[at].push((world.seq.max(1), body.clone()));
            }
        }
        for (token, (at, has)) in std::mem::take(&mut model.waiting) {
            let name = format!("seed {seed} step {step}: {:?}", pages[at]);
            match replies.get(&token) {
                Some(reply) => {
                    let answer = reply.as_ref().expect("an answer");
                    assert!(bodies[at] != has, "woken for nothing by {last:?}: {name}");
                    assert!(answer.body.to_vec() == bodies[at], "{name}");
                    assert_eq!(answer.index, world.seq.max(1), "{name}");
                    model.woken += 1;
                }
                None => {
                    assert!(bodies[at] == has, "a wake was missed at {last:?}: {name}");
                    model.waiting.insert(token, (at, has));
                }
            }
        }
        // Someone leaves, or has waited long enough.
        if let Some(token) = dice.of(&model.waiting.keys().copied().collect::<Vec<_>>())
            && dice.roll(4) == 0
        {
            let (at, _) = model.waiting.remove(&token).expect("it waits");
            if dice.roll(2) == 0 {
                world.views.cancel(token);
            } else {
                let reply = world
                    .views
                    .expire(&world.projection, token)
                    .expect("it waits");
                let answer = reply.expect("an answer");
                assert!(
                    answer.body.to_vec() == bodies[at],
                    "seed {seed} step {step}"
                );
            }
        }
        assert_eq!(world.views.stats().waiters, model.waiting.len());
        // Each page now and then: asked for, checked against the walk, waited for with an index new or old.
        for (at, page) in pages.iter().enumerate() {
            if dice.roll(3) == 0 {
                let answer = world.get(page);
                let (expected, next) = naive(&world, page);
                assert_eq!(ids(&answer), expected, "seed {seed} step {step}: {page:?}");
                assert_eq!(
                    answer.next_token.as_deref(),
                    next.as_deref(),
                    "seed {seed} step {step}: {page:?}"
                );
                assert_eq!(
                    answer.body.to_vec(),
                    bodies[at],
                    "seed {seed} step {step}: {page:?}"
                );
            }
            if dice.roll(3) > 0 {
                continue;
            }
            let old = dice.roll(3) == 0;
            let index = if old {
                dice.of(&ends).unwrap_or(1)
            } else {
                world.seq.max(1)
            };
            let had = history[at].iter().rev().find(|(from, _)| *from <= index);
            let had = had.map(|(_, body)| body.clone());
            model.cold += u64::from(old);
            match world.ask(&page.ask(index)) {
                Ok(reply) => {
                    assert!(
                        old,
                        "seed {seed} step {step}: {page:?} has the newest and is answered at once"
                    );
                    assert!(reply.expect("an answer").body.to_vec() == bodies[at]);
                    model.cold_at_once += 1;
                }
                Err(token) => {
                    if let Some(had) = had {
                        assert!(
                            had == bodies[at],
                            "a wake between two polls was missed: seed {seed} step {step}: {page:?} at {index} of {}: {}\nhad {}\nnow {}",
                            world.seq,
                            world.since(index),
                            String::from_utf8_lossy(&had),
                            String::from_utf8_lossy(&bodies[at])
                        );
                    }
                    model.waiting.insert(token, (at, bodies[at].clone()));
                }
            }
        }
    }
    model
}

/// How many times as many seeds: `VIEWS_MODEL_TIMES`.
pub(super) fn more() -> u64 {
    let times = std::env::var("VIEWS_MODEL_TIMES").ok();
    times.and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn no_wake_is_missed_and_none_is_for_nothing() {
    let (mut woken, mut cold, mut at_once) = (0, 0, 0);
    for seed in 1..=8 * more() {
        let model = run(seed, 120, Limits::default());
        woken += model.woken;
        cold += model.cold;
        at_once += model.cold_at_once;
    }
    assert!(woken > 300 && cold > 150, "{woken} {cold}");
    assert!(
        at_once < cold,
        "{at_once} of {cold} old indexes were answered at once"
    );
}

#[test]
fn no_wake_is_missed_when_nothing_is_kept() {
    for seed in 100..100 + 4 * more() {
        let limits = Limits {
            idle_views: 1,
            log: 12,
            cache_bytes: 4000,
            ..Limits::default()
        };
        let model = run(seed, 120, limits);
        assert!(model.woken > 0);
    }
}
